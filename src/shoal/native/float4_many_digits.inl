// Activations of many rows as the tiles of float4_many.inl take them: int16 digits, scales, and a list of the rest.
//
// E4M3 * 512 = 8 * high + low with high = floor(x / 8), |high| <= 28672, and low in 0..7. Two neighbouring high digits
// make a pair, one 32-bit element. A low digit differs from zero only below 1/8, a 3584th of a block's largest value:
// the few pairs that have one go to a list of their row. No sum is formed here.
#pragma once

#include "float4_many_exact.inl"

namespace {
namespace many {

constexpr size_t kPairs = kBlock / 2;  // of a block
constexpr int kLowBits = 3;
constexpr uint32_t kLowMask = (1u << kLowBits) - 1;

// What is known of a row: where its bits lie, whether it holds a NaN, how many pairs are in its list.
struct Row {
    const uint8_t *codes, *scales;
    BitRange range;
    uint32_t low_pairs;
    bool is_nan;
};

struct Rows {
    size_t rows, inputs, blocks;
    int32_t* pairs;       // [tiles][blocks][kPairs][rows of the tile]
    double* scales;       // [tiles][blocks][rows of the tile], of the high digits: 2^3 * unit * E8M0
    uint32_t* low_pairs;  // [rows][inputs / 2]: index of the pair * 64 + second low digit * 8 + first
    BitRange* ranges;     // [rows][blocks]
    Row* row;             // [rows]
};

// Rows are cut into as few tiles as there can be, of sizes that differ by one at most, the larger ones first.
struct RowTiles {
    size_t count, small, large;  // tiles; rows of a small tile; how many tiles have one more
    size_t first(size_t tile) const { return tile * small + (tile < large ? tile : large); }
    size_t size(size_t tile) const { return small + (tile < large); }
    size_t of(size_t row) const {
        const size_t in_large = large * (small + 1);
        return row < in_large ? row / (small + 1) : large + (row - in_large) / small;
    }
};

inline RowTiles row_tiles(size_t rows, size_t most) {
    const size_t count = (rows + most - 1) / most;
    return {count, count ? rows / count : 0, count ? rows % count : 0};
}

constexpr size_t kAlignment = 64;
inline size_t aligned_bytes(size_t nbytes) { return (nbytes + kAlignment - 1) / kAlignment * kAlignment; }

// Memory taken piece by piece; from a null base only the sum of the sizes is right.
struct Memory {
    uintptr_t base;
    size_t used;
    template <typename T>
    T* take(size_t count) {
        T* piece = reinterpret_cast<T*>(base + used);
        used += aligned_bytes(count * sizeof(T));
        return piece;
    }
};

inline Rows lay_out_rows(Memory* memory, size_t rows, size_t inputs) {
    const size_t blocks = inputs / kBlock;
    Rows x = {rows, inputs, blocks, nullptr, nullptr, nullptr, nullptr, nullptr};
    x.pairs = memory->take<int32_t>(rows * inputs / 2);
    x.scales = memory->take<double>(rows * blocks);
    x.low_pairs = memory->take<uint32_t>(rows * inputs / 2);
    x.ranges = memory->take<BitRange>(rows * blocks);
    x.row = memory->take<Row>(rows);
    return x;
}

// Appends the pairs of a block that have a low digit; returns the new length of the list.
inline uint32_t append_low_pairs(const int32_t* integers, size_t first, uint32_t* list, uint32_t length) {
    for (size_t p = 0; p < kPairs; ++p) {
        const uint32_t low = static_cast<uint32_t>(integers[2 * p]) & kLowMask;
        const uint32_t second = static_cast<uint32_t>(integers[2 * p + 1]) & kLowMask;
        list[length] = static_cast<uint32_t>(first + p) << 2 * kLowBits | second << kLowBits | low;
        length += (low | second) != 0;
    }
    return length;
}

// Rows may be prepared by several threads. `codes` and `scales` must last as long as `x`: mend_row reads them again.
inline void prepare_row_of(const Rows& x, const RowTiles& tiles, size_t index, const uint8_t* codes,
                           const uint8_t* scales) {
    const size_t tile = tiles.of(index), first = tiles.first(tile), size = tiles.size(tile);
    int32_t* pairs = x.pairs + first * (x.inputs / 2) + (index - first);
    double* row_scales = x.scales + first * x.blocks + (index - first);
    uint32_t* low_pairs = x.low_pairs + index * (x.inputs / 2);
    Row row = {codes, scales, kNoBits, 0, false};
    for (size_t b = 0; b < x.blocks; ++b) {
        Block block;
        int16_t high[kBlock];
        read_block(codes + b * kBlock, &block);
        row.is_nan |= block.nan || scales[b] == kE8M0Nan;
        const BitRange range = range_of_block(block.bits, scales[b]);
        x.ranges[index * x.blocks + b] = range;
        row.range = united(row.range, range);
        for (size_t k = 0; k < kBlock; ++k) high[k] = static_cast<int16_t>(block.integers[k] >> kLowBits);
        for (size_t p = 0; p < kPairs; ++p)
            __builtin_memcpy(pairs + (b * kPairs + p) * size, high + 2 * p, sizeof *pairs);
        row_scales[b * size] = exponent_value(scales[b] - kScaleBias + kUnitExponent + kLowBits);
        // The low digits of a two's complement number and of its magnitude are zero together.
        if (block.bits & kLowMask)
            row.low_pairs = append_low_pairs(block.integers, b * kPairs, low_pairs, row.low_pairs);
    }
    x.row[index] = row;
}

}  // namespace many
}  // namespace
