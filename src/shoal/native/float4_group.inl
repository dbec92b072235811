// One group of blocks of an FP4 row against activation digits: kGroupBlocks exact block sums, scaled into float64 lanes.
//
// Reduction: block b of a row goes to lane b mod 16 (kSumLanes), blocks ascending, each scaled block exact in float64;
// at the end lane i and i + 8 are added, then 4, 2, 1. The same for every instruction set.
//
//   Sums                    16 float64 lanes; add_blocks<Part> adds to one of its kSumLanes / kGroupBlocks parts
//   Codes = decode(codes)   a group's weights, transposed (see float4_digits.inl); even(k), odd(k) give u = 2w + 12
//   Scales = widen(scales)  its scale bytes at bit 52
//   DigitSum                a digit's products, block by block; total<Bits>() is 2^Bits times their sum
#pragma once

#include "float4_digits.inl"

namespace {

constexpr size_t kGroupBytes = kGroupBlocks * kFloat4Block / 2, kSumParts = kSumLanes / kGroupBlocks;

using Digits = int8_t[kSteps][2][kGroupBlocks][4];

// 2w + 12 of the codes 0..15.
#define SHOAL_E2M1_OFFSET_VALUES 12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0

}  // namespace

#if defined(__AVX512F__)
#include "float4_avx512.inl"
#elif defined(__AVX2__)
#include "float4_avx2.inl"
#else
#include "float4_portable.inl"
#endif

namespace {

// A group's weights looked up beforehand, for more rows than registers hold sums of.
struct Values {
    explicit Values(const Codes& codes) {
        for (size_t k = 0; k < kSteps; ++k) evens[k] = codes.even(k), odds[k] = codes.odd(k);
    }
    Bytes even(size_t k) const { return evens[k]; }
    Bytes odd(size_t k) const { return odds[k]; }
    Bytes evens[kSteps], odds[kSteps];
};

// Rest: whether some row has one. sums[row]: of u * v.
template <size_t Rows, bool Rest, typename Weights>
inline void block_sums(const Weights& w, const DigitGroup* const (&x)[Rows], Integers (&sums)[Rows]) {
    DigitSum high[Rows], low[Rows], rest[Rows];
    for (size_t k = 0; k < kSteps; ++k) {
        const Bytes even = w.even(k), odd = w.odd(k);
        for (size_t row = 0; row < Rows; ++row) {
            high[row].add_step(k, even, odd, x[row]->high);
            low[row].add_step(k, even, odd, x[row]->low);
            if constexpr (Rest) rest[row].add_step(k, even, odd, x[row]->rest);
        }
    }
    for (size_t row = 0; row < Rows; ++row) {
        sums[row] = plus(high[row].template total<kDigitBits + kRestBits>(), low[row].template total<kRestBits>());
        if constexpr (Rest) sums[row] = plus(sums[row], rest[row].template total<0>());
    }
}

template <size_t Part, size_t Rows, typename Weights>
inline void add_group(Sums (&sums)[Rows], const Weights& w, const Scales& s, const DigitGroup* const (&x)[Rows]) {
    Integers blocks[Rows];
    uint64_t has_rest = 0;
    for (size_t row = 0; row < Rows; ++row) has_rest |= x[row]->has_rest;
    if (has_rest)
        block_sums<Rows, true>(w, x, blocks);
    else
        block_sums<Rows, false>(w, x, blocks);
    for (size_t row = 0; row < Rows; ++row) add_blocks<Part>(sums[row], blocks[row], s, *x[row]);
}

}  // namespace
