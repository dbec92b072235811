// Activations of the FP4 experts as integer digits, laid out as the kernel of few rows reads them.
//
// E4M3 * 512 is an integer of 18 bits: v = high * 2^11 + low * 2^3 + rest, high and low signed bytes, rest 0..7. E2M1 * 2
// is one of 0, 1, 2, 3, 4, 6, 8, 12 and their negatives; as an unsigned byte it is u = 2w + 12, so a block of 32 has
// sum(2w * v) = sum(u * v) - 12 * sum(v). All of it fits 32 bits: |sum(u * v)| <= 24 * 32 * 448 * 512 < 2^28.
//
// A group is as many blocks as a vector has 32-bit lanes. Its codes, four vectors of whole 16-byte blocks, are transposed
// in registers, so that step k holds bytes 4k..4k + 3 of every block, one block a lane: products and sums of all steps
// then stay in the block's own lane, for every row, and nothing is left to reduce. Lane p holds block `block_of(p)`.
//
// `rest` is zero in most groups of a layer's input, whose products are then skipped.
#pragma once

#include "lanes.h"

namespace {

constexpr size_t kFloat4Block = 32, kSumLanes = 16, kSteps = 4;
constexpr int kDigitBits = 8, kRestBits = 3;
// An E4M3 code is 2^-9 times its integer, an E2M1 code 2^-1 times its.
constexpr int kUnitExponent = -10, kE8m0Bias = 127, kDoubleBias = 1023, kDoubleFraction = 52;
constexpr int32_t kWeightOffset = 12;

#if defined(__AVX512F__)
constexpr size_t kGroupBlocks = 16;
#else
constexpr size_t kGroupBlocks = 8;
#endif

// Lanes of 128 bits hold 4 of a group's blocks: every second or fourth one.
inline size_t block_of(size_t lane) {
    constexpr size_t quarters = kGroupBlocks / 4;
    return lane % 4 * quarters + lane / 4;
}

struct DigitGroup {
    // [step][0: even inputs, 1: odd inputs][lane][byte]
    alignas(64) int8_t high[kSteps][2][kGroupBlocks][4];
    int8_t low[kSteps][2][kGroupBlocks][4];
    int8_t rest[kSteps][2][kGroupBlocks][4];
    int32_t correction[kGroupBlocks];
    // The bits of 2^(x's exponent + the unit's), less the bias of the weight's scale, whose byte is added at bit 52.
    uint64_t exponent[kGroupBlocks];
    uint64_t has_rest;
};

// Filled when first needed would race between threads: a constant of the object file instead.
struct DigitTable {
    int8_t high[256], low[256], rest[256];
};

constexpr int32_t e4m3_times_512(int code) {
    const int exponent = (code >> 3) & 15, mantissa = code & 7;
    const int32_t magnitude = exponent ? (8 + mantissa) << (exponent - 1) : mantissa;
    return code & 0x80 ? -magnitude : magnitude;
}

constexpr DigitTable make_digit_table() {
    DigitTable table = {};
    for (int code = 0; code < 256; ++code) {
        // A NaN counts as zero here; its row is set to NaN at the end.
        const int32_t value = (code & 0x7f) == 0x7f ? 0 : e4m3_times_512(code);
        const int32_t upper = value >> kRestBits;
        table.rest[code] = static_cast<int8_t>(value & ((1 << kRestBits) - 1));
        table.low[code] = static_cast<int8_t>(static_cast<uint8_t>(upper & 0xff));
        table.high[code] = static_cast<int8_t>((upper - table.low[code]) >> kDigitBits);
    }
    return table;
}

constexpr DigitTable kDigits = make_digit_table();

inline size_t digit_groups(size_t inputs) {
    const size_t blocks = inputs / kFloat4Block;
    return (blocks + kGroupBlocks - 1) / kGroupBlocks;
}

// One block of a row: 32 codes to the lane `lane` of a group. Returns its sum; whether any value has a rest is added.
inline int32_t store_digits(const uint8_t* codes, DigitGroup* group, size_t lane, bool* has_rest) {
    int32_t upper = 0, rest = 0;
    for (size_t step = 0; step < kSteps; ++step)
        for (size_t odd = 0; odd < 2; ++odd)
            for (size_t byte = 0; byte < 4; ++byte) {
                const uint8_t code = codes[8 * step + 2 * byte + odd];
                group->high[step][odd][lane][byte] = kDigits.high[code];
                group->low[step][odd][lane][byte] = kDigits.low[code];
                group->rest[step][odd][lane][byte] = kDigits.rest[code];
                upper += kDigits.high[code] * (1 << kDigitBits) + kDigits.low[code];
                rest += kDigits.rest[code];
            }
    *has_rest |= rest != 0;
    return upper * (1 << kRestBits) + rest;
}

inline bool holds_nan(const uint8_t* codes, const uint8_t* scales, size_t inputs) {
    uint8_t nan = 0;
    for (size_t k = 0; k < inputs; ++k) nan |= static_cast<uint8_t>((codes[k] & 0x7f) == 0x7f);
    for (size_t b = 0; b < inputs / kFloat4Block; ++b) nan |= static_cast<uint8_t>(scales[b] == 0xff);
    return nan;
}

// A Q8 row of `inputs` to digit_groups(inputs) groups.
void prepare_digits(const uint8_t* codes, const uint8_t* scales, size_t inputs, DigitGroup* groups) {
    const size_t blocks = inputs / kFloat4Block;
    constexpr uint8_t zeros[kFloat4Block] = {};
    for (size_t g = 0; g < digit_groups(inputs); ++g) {
        DigitGroup* group = groups + g;
        int32_t sum[kGroupBlocks];
        bool has_rest = false;
        for (size_t lane = 0; lane < kGroupBlocks; ++lane) {
            const size_t b = g * kGroupBlocks + block_of(lane);
            sum[lane] = store_digits(b < blocks ? codes + b * kFloat4Block : zeros, group, lane, &has_rest);
        }
        group->has_rest = has_rest;
        constexpr int unit = kUnitExponent - 2 * kE8m0Bias + kDoubleBias;
        for (size_t lane = 0; lane < kGroupBlocks; ++lane) {
            const size_t b = g * kGroupBlocks + block_of(lane);
            group->correction[lane] = kWeightOffset * sum[lane];
            group->exponent[lane] = static_cast<uint64_t>(unit + (b < blocks ? scales[b] : 0)) << kDoubleFraction;
        }
    }
}

}  // namespace
