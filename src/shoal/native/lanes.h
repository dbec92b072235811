// Sixteen float32 and eight float64 lanes with the same bits on every instruction set.
//
// Floats holds 16 float32, Doubles 8 float64. Every operation is IEEE and rounds once, fma included; `sum` adds lane i
// to lane i + 8, then 4, 2, 1. minimum and maximum return their second operand when one is NaN or both are zero. Which
// NaN arithmetic makes is the processor's choice.
// A file of this kind per instruction set; which one is chosen by the flags it is compiled with.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace {
constexpr size_t kLanes = 16, kDoubleLanes = 8;

inline uint32_t bits_of(float value) {
    uint32_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
}

inline float value_of(uint32_t bits) {
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

inline float bf16_value(uint16_t bits) { return value_of(static_cast<uint32_t>(bits) << 16); }

// Round to nearest even; a NaN stays one.
inline uint16_t bf16_of(float value) {
    const uint32_t bits = bits_of(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40);
    return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
}  // namespace

#if defined(__AVX512F__)
#include "lanes_avx512.inl"
#elif defined(__AVX2__)
#include "lanes_avx2.inl"
#elif defined(__ARM_FEATURE_DOTPROD)
#include "lanes_neon.inl"
#else
#include "lanes_portable.inl"
#endif
