// float64 to bf16 in one rounding, to nearest, ties to even. A cast through float32 would round twice.
#pragma once

#include "lanes.h"

namespace {

constexpr uint16_t kBf16Nan = 0x7fc0;
constexpr int kBf16Dropped = 52 - 7;
constexpr uint64_t kDoubleMagnitude = ~uint64_t{0} >> 1;

inline uint16_t bf16_of_double(double value) {
    uint64_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    const uint16_t sign = static_cast<uint16_t>(bits >> 63 << 15);
    const uint64_t magnitude = bits & kDoubleMagnitude;
    // bf16 has 8 exponent bits: from 2^-126 the pattern only loses a bias. Infinities and NaN are above.
    constexpr uint64_t smallest = uint64_t{1023 - 126} << 52, past = uint64_t{1023 + 128} << 52;
    if (magnitude - smallest < past - smallest) {
        const uint64_t rounded = magnitude + ((uint64_t{1} << (kBf16Dropped - 1)) - 1) + ((magnitude >> kBf16Dropped) & 1);
        return static_cast<uint16_t>(sign | ((rounded >> kBf16Dropped) - (uint64_t{1023 - 127} << 7)));
    }
    if (magnitude > uint64_t{0x7ff} << 52) return kBf16Nan;
    if (magnitude >= past) return static_cast<uint16_t>(sign | 0x7f80);
    // Subnormals are whole multiples of 2^-133; adding 1.5 * 2^(52 - 133) rounds to one and leaves it in the low bits.
    const double whole = (value < 0 ? -value : value) + 0x1.8p-81;
    __builtin_memcpy(&bits, &whole, sizeof bits);
    return static_cast<uint16_t>(sign | (bits & 0xffff));
}

}  // namespace
