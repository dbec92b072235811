// AVX-VNNI's dot products as plain loops, for machines without it: included before a kernel's source, which then takes
// its AVX-VNNI side. Its assembly alone is left to AVX2: the same integers by two instructions instead of one.
#pragma once

#include <immintrin.h>
#include <stdint.h>

#if defined(__AVXVNNI__)
#error "compiled for AVX-VNNI: there is nothing to emulate"
#endif
#define __AVXVNNI__ 1
#define SHOAL_EMULATED_AVXVNNI 1

// Four products of an unsigned and a signed byte a lane, added without saturation.
inline __m256i emulated_dpbusd(__m256i sum, __m256i a, __m256i b) {
    int32_t total[8];
    uint8_t x[32];
    int8_t y[32];
    __builtin_memcpy(total, &sum, sizeof total);
    __builtin_memcpy(x, &a, sizeof x);
    __builtin_memcpy(y, &b, sizeof y);
    for (int k = 0; k < 32; ++k) total[k / 4] += x[k] * y[k];
    __builtin_memcpy(&sum, total, sizeof total);
    return sum;
}
#define _mm256_dpbusd_avx_epi32 emulated_dpbusd
