// When float64 adds the scaled blocks of a Q8 row and an E2M1 row without rounding, and what is done when it may not.
//
// A block of the activation is integers times 2^scale; their bits lie in [low, high) of an absolute scale. With |w| <
// 2^4 and 2^5 products a block, block b's dot is a multiple of 2^(low_b + w_scale_b) below 2^(high_b + w_scale_b + 9).
// Where the largest end minus the smallest start, plus ceil(log2 blocks), is at most 53, every order of the sum is
// exact: with all 18 bits of the activation in use, scales may spread over 18. A pair of rows that fails is summed
// again in the order that few rows always take (float4_group.inl): block b to lane b mod 16, blocks ascending; then
// lane i and i + 8 are added, then 4, 2, 1. So a row's bits do not depend on how many rows there are.
#pragma once

#include "experts.h"
#include "lanes.h"
#include "round_bf16.inl"

namespace {
namespace many {

constexpr size_t kBlock = 32;
constexpr int kE4M3Fraction = 9, kE2M1Fraction = 1, kUnitExponent = -kE4M3Fraction - kE2M1Fraction;
constexpr int kDoubleBits = 53, kWeightBits = 4, kBlockBits = 5, kScaleBias = 127;
constexpr uint8_t kE4M3Nan = 0x7f, kE8M0Nan = 0xff;
// E2M1 * 2 of the codes 0..15.
#define SHOAL_E2M1_VALUES 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12
constexpr int8_t kE2M1Values[16] = {SHOAL_E2M1_VALUES};

// 2^n for n from -1022 to 1023.
inline double exponent_value(int n) {
    const uint64_t bits = static_cast<uint64_t>(n + 1023) << 52;
    double value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

// 32 codes as integers, E4M3 * 2^9; the union of the magnitudes' bits, and whether a code is NaN.
struct Block {
    int32_t integers[kBlock];
    uint32_t bits, nan;
};

inline void read_block(const uint8_t* codes, Block* block) {
    uint32_t bits = 0, nan = 0;
    for (size_t k = 0; k < kBlock; ++k) {
        const uint32_t code = codes[k], exponent = (code >> 3) & 15, normal = exponent != 0;
        const uint32_t magnitude = (8 * normal + (code & 7)) << (exponent - normal);
        const uint32_t sign = 0 - (code >> 7);
        bits |= magnitude;
        nan |= (code & kE4M3Nan) == kE4M3Nan;
        block->integers[k] = static_cast<int32_t>((magnitude ^ sign) - sign);
    }
    block->bits = bits;
    block->nan = nan;
}

// [low, high); empty: adds nothing to a union.
struct BitRange {
    int16_t low, high;
};
constexpr BitRange kNoBits = {10000, -10000};

inline BitRange united(BitRange a, BitRange b) {
    return {a.low < b.low ? a.low : b.low, a.high > b.high ? a.high : b.high};
}

inline BitRange range_of_block(uint32_t bits, uint8_t scale) {
    if (bits == 0) return kNoBits;
    return {static_cast<int16_t>(scale + __builtin_ctz(bits)), static_cast<int16_t>(scale + 32 - __builtin_clz(bits))};
}

inline int ceil_log2(size_t n) { return n <= 1 ? 0 : 64 - __builtin_clzll(n - 1); }

// Bits that a weight row's scales may spread over, given the range of the activation.
inline int spare_bits(BitRange x, size_t blocks) {
    return kDoubleBits - kWeightBits - kBlockBits - ceil_log2(blocks) - (x.high - x.low);
}

// The same test, block by block, for one row of the activation and one of the weight.
inline bool is_exact(const BitRange* x, const uint8_t* w_scales, size_t blocks) {
    BitRange all = kNoBits;
    for (size_t b = 0; b < blocks; ++b) {
        const int16_t scale = w_scales[b];
        all = united(all, {static_cast<int16_t>(x[b].low + scale), static_cast<int16_t>(x[b].high + scale)});
    }
    return spare_bits(all, blocks) >= 0;
}

// One output in the order of few rows.
inline uint16_t output_of_lanes(const uint8_t* x, const uint8_t* x_scales, const uint8_t* w, const uint8_t* w_scales,
                                size_t blocks) {
    double lanes[kLanes] = {};
    for (size_t b = 0; b < blocks; ++b) {
        Block block;
        read_block(x + b * kBlock, &block);
        int32_t dot = 0;
        for (size_t k = 0; k < kBlock; k += 2) {
            const uint8_t codes = w[(b * kBlock + k) / 2];
            dot += block.integers[k] * kE2M1Values[codes & 15] + block.integers[k + 1] * kE2M1Values[codes >> 4];
        }
        lanes[b % kLanes] += dot * exponent_value(x_scales[b] + w_scales[b] - 2 * kScaleBias + kUnitExponent);
    }
    for (size_t half = kLanes / 2; half > 0; half /= 2)
        for (size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
    return bf16_of_double(lanes[0]);
}

}  // namespace many
}  // namespace
