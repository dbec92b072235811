// The sixteen lanes of a dot product as the linear operators hold them: kParts registers of kPartLanes lanes.
//
// On AVX2 one register holds the even lanes and one the odd ones: 8- and 16-bit weights come out of words with shifts and
// masks, without a shuffle. Inputs are stored in that order too ("arranged"). Elsewhere a part is all of `Floats`.
#pragma once

#include "lanes.h"

namespace {

#if defined(__AVX2__) && !defined(__AVX512F__)
typedef __m256 Part;
constexpr size_t kParts = 2, kPartLanes = 8;

inline Part zero_part() { return _mm256_setzero_ps(); }
inline Part load_part_of(const float* p) { return _mm256_loadu_ps(p); }
inline void store_part(float* p, Part a) { _mm256_storeu_ps(p, a); }
inline Part multiply(Part a, float b) { return _mm256_mul_ps(a, _mm256_set1_ps(b)); }
inline Part fma(Part a, Part b, Part c) { return _mm256_fmadd_ps(a, b, c); }

// 32 E4M3 codes times 2^-8, as half precision reads them: two times sixteen lanes.
inline void decode_e4m3(const uint8_t* p, Part* out) {
    const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    const __m256i kept = _mm256_set1_epi16(static_cast<short>(0xbf80));
    const __m256i even = _mm256_and_si256(_mm256_srai_epi16(_mm256_slli_epi16(words, 8), 1), kept);
    const __m256i odd = _mm256_and_si256(_mm256_srai_epi16(words, 1), kept);
    out[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(even));
    out[1] = _mm256_cvtph_ps(_mm256_castsi256_si128(odd));
    out[2] = _mm256_cvtph_ps(_mm256_extracti128_si256(even, 1));
    out[3] = _mm256_cvtph_ps(_mm256_extracti128_si256(odd, 1));
}
inline void decode_bf16(const uint8_t* p, Part* out) {
    const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    out[0] = _mm256_castsi256_ps(_mm256_slli_epi32(words, 16));
    out[1] = _mm256_castsi256_ps(_mm256_and_si256(words, _mm256_set1_epi32(static_cast<int>(0xffff0000))));
}
inline __m256 in_order(__m256 quarters) {
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(quarters), 0xd8));
}
inline void decode_float32(const uint8_t* p, Part* out) {
    const __m256 low = _mm256_loadu_ps(reinterpret_cast<const float*>(p));
    const __m256 high = _mm256_loadu_ps(reinterpret_cast<const float*>(p) + 8);
    out[0] = in_order(_mm256_shuffle_ps(low, high, 0x88));
    out[1] = in_order(_mm256_shuffle_ps(low, high, 0xdd));
}
inline float sum_eight(__m256 a) {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
// Lane i and lane i + 8, then 4, 2, 1: even and odd lanes meet in the last step.
inline float sum_parts(const Part* a) { return sum_eight(a[0]) + sum_eight(a[1]); }
#else
typedef Floats Part;
constexpr size_t kParts = 1, kPartLanes = kLanes;

inline Part zero_part() { return broadcast(0.0f); }
inline Part load_part_of(const float* p) { return load(p); }
inline void store_part(float* p, Part a) { store(p, a); }
inline Part multiply(Part a, float b) { return multiply(a, broadcast(b)); }

// 32 E4M3 codes times 2^-8: two times sixteen lanes.
inline void decode_e4m3(const uint8_t* p, Part* out) {
    out[0] = load_e4m3_over_256(p);
    out[1] = load_e4m3_over_256(p + kLanes);
}
inline void decode_bf16(const uint8_t* p, Part* out) { out[0] = load_bf16(reinterpret_cast<const uint16_t*>(p)); }
inline void decode_float32(const uint8_t* p, Part* out) { out[0] = load(reinterpret_cast<const float*>(p)); }
inline float sum_parts(const Part* a) { return sum(a[0]); }
#endif

// How weights are stored. A step of kStep elements decodes into kStepParts parts, sixteen lanes after sixteen.
struct E4m3 {
    static constexpr size_t kStep = 32, kStepParts = 2 * kParts, kBytes = 1;
    static void decode(const uint8_t* p, Part* out) { decode_e4m3(p, out); }
};
struct Bf16 {
    static constexpr size_t kStep = kLanes, kStepParts = kParts, kBytes = 2;
    static void decode(const uint8_t* p, Part* out) { decode_bf16(p, out); }
};
struct Float32 {
    static constexpr size_t kStep = kLanes, kStepParts = kParts, kBytes = 4;
    static void decode(const uint8_t* p, Part* out) { decode_float32(p, out); }
};

// The last `count` < kStep elements of a row, zeros after them.
template <typename Kind>
inline void decode_tail(const uint8_t* p, size_t count, Part* out) {
    uint8_t padded[Kind::kStep * Kind::kBytes] = {};
    __builtin_memcpy(padded, p, count * Kind::kBytes);
    Kind::decode(padded, out);
}

// 2^(code - 127); 2^-127 is below float32's normal range, 255 is NaN.
inline float e8m0_value(uint8_t code) {
    if (code == 255) return __builtin_nanf("");
    return value_of(code ? static_cast<uint32_t>(code) << 23 : 1u << 22);
}

}  // namespace
