// One group of blocks of an FP4 row against activation digits: kGroupBlocks exact block sums, scaled into float64 lanes.
//
// Reduction: block b of a row goes to lane b mod 16 (kSumLanes), blocks ascending, each scaled block exact in float64;
// at the end lane i and i + 8 are added, then 4, 2, 1. The same for every instruction set.
//
//   Sums                                16 float64 lanes
//   Codes decode(codes)                 a group's weights as u = 2w + 12, transposed (see float4_digits.inl)
//   Scales widen(scales)                its scale bytes at bit 52
//   add_group<Part>(sums, w, s, x)      Part: which of the kSumLanes / kGroupBlocks parts of the lanes
//   total(sums)
#pragma once

#include "float4_digits.inl"

namespace {

constexpr size_t kGroupBytes = kGroupBlocks * kFloat4Block / 2, kSumParts = kSumLanes / kGroupBlocks;

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
