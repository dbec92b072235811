// Many Q8 rows times an E2M1 weight, correctly rounded: the large tiles of a routed expert (9 rows and more).
//
// The idea: E4M3 * 512 = 8 * high + low; the high digits are int16, E2M1 * 2 is, so one instruction multiplies pairs
// and adds them in int32. A tile of outputs is decoded once into the second-level cache, inputs pair by pair with the
// outputs side by side, and every tile of rows passes over it; a block's dot, |high * w| * 32 <= 28672 * 12 * 32 <
// 2^24, goes exactly into float64 accumulators in the first-level cache, scaled by two powers of two. The low digits,
// |low * w| * 2 <= 168 a pair, are few: they are added from a list, pair by pair, afterwards. One rounding, float64 to
// bfloat16.
//
// The order: blocks ascending, then low pairs ascending; every sum is exact (float4_many_exact.inl says when, and what
// is done otherwise), so the bits are those of few rows (float4_few.inl) and of ops/wide.py for any rows, tiles and
// threads.
//
// Measured 2026-11-29 on 2 cores of a Zen 3 EPYC with AVX2, both threads, weights and activations prepared in the call:
// 5120 -> 2304 at 12, 32, 128, 300 and 2,048 rows 168, 172, 173, 172 and 153 GOP/s; 2304 -> 5120 with a low digit in
// 1.6 % of the inputs 127, 138 and 126 at 32, 128 and 300 rows. vpmaddwd with an addition runs at 2 * 157 GOP/s
// there, and the tile without its float64 half at all of that. All 2,048 rows for every tile of outputs gave 81 GOP/s.
#pragma once

#include "float4_many_digits.inl"

namespace {
namespace many {

#if defined(__AVX2__)
using TileScale = int32_t;  // the upper half of 2^52 times the scale, in the order of lanes
#else
using TileScale = double;
#endif

// What one pass over a tile of rows and a tile of outputs reads and adds to.
struct Tile {
    const int32_t *x_pairs, *w_pairs;  // [blocks][kPairs][rows], [blocks][kPairs][kTileOutputs]
    const double* x_scales;            // [blocks][rows]
    const TileScale* w_scales;         // [blocks][kTileOutputs]
    size_t blocks;
    double* acc;                     // [rows][kTileOutputs]
    const uint8_t* next_codes;       // of the next tile of outputs, to prefetch; or null
    size_t next_stride, next_count;  // bytes from output to output; how many outputs
};

constexpr size_t kCacheLine = 64, kBlocksPerLine = kCacheLine / (kBlock / 2);

// A quarter of the next tile's outputs each time, a line of each once in four blocks.
inline void prefetch_codes(const Tile& t, size_t block) {
    if (!t.next_codes) return;
    const uint8_t* codes = t.next_codes + block / kBlocksPerLine * kCacheLine;
    for (size_t i = block % kBlocksPerLine; i < t.next_count; i += kBlocksPerLine)
        __builtin_prefetch(codes + i * t.next_stride, 0, 2);
}

}  // namespace many
}  // namespace

#if defined(__AVX512VNNI__)
#include "float4_many_avx512.inl"
#elif defined(__AVX2__)
#include "float4_many_avx2.inl"
#else
#include "float4_many_portable.inl"
#endif

namespace {
namespace many {

constexpr double kLowUnit = 0x1p-3;  // of a low digit, in units of a high one

// A decoded tile of outputs and its accumulators; one for every worker.
struct Work {
    int32_t* w_pairs;
    TileScale* w_scales;
    double* acc;
    const uint8_t *codes[kTileOutputs], *scales[kTileOutputs];
    uint8_t least[kTileOutputs], greatest[kTileOutputs];
};

inline Work lay_out_work(Memory* memory, size_t inputs) {
    const size_t blocks = inputs / kBlock;
    Work work;
    work.w_pairs = memory->take<int32_t>(blocks * kPairs * kTileOutputs);
    work.w_scales = memory->take<TileScale>(blocks * kTileOutputs);
    work.acc = memory->take<double>(kTileRows * kTileOutputs);
    return work;
}

inline void multiply_rows(const Tile& tile, size_t rows) {
    using Multiply = void (*)(const Tile&);
    constexpr Multiply of_rows[] = {
        multiply_tile<1>, multiply_tile<2>, multiply_tile<3>, multiply_tile<4>,
#if defined(__AVX2__)
        multiply_tile<5>, multiply_tile<6>,
#endif
#if defined(__AVX512VNNI__)
        multiply_tile<7>, multiply_tile<8>, multiply_tile<9>, multiply_tile<10>, multiply_tile<11>, multiply_tile<12>,
#endif
    };
    static_assert(sizeof of_rows / sizeof *of_rows == kTileRows);
    of_rows[rows - 1](tile);
}

// x_scales[block * stride]: of the row's high digits.
inline void add_low_digits(const Rows& x, size_t row, const double* x_scales, size_t stride, const Work& work,
                           double* acc) {
    const uint32_t* list = x.low_pairs + row * (x.inputs / 2);
    for (size_t i = 0; i < x.row[row].low_pairs; ++i) {
        const uint32_t entry = list[i], first = entry & kLowMask, second = entry >> kLowBits & kLowMask;
        const size_t pair = entry >> 2 * kLowBits, block = pair / kPairs;
        add_low_pair(acc, work.w_pairs + pair * kTileOutputs, work.w_scales + block * kTileOutputs,
                     static_cast<int32_t>(second << 16 | first), x_scales[block * stride] * kLowUnit);
    }
}

// bf16 of a row's accumulators: bf16_of_double without branches, and once more with them where it is not normal.
inline void round_row(const double* acc, uint16_t* rounded) {
    constexpr double smallest_normal = 0x1p-126;
    int subnormals = 0;
    for (size_t i = 0; i < kTileOutputs; ++i) {
        uint64_t bits;
        __builtin_memcpy(&bits, acc + i, sizeof bits);
        bits += ((uint64_t{1} << (kBf16Dropped - 1)) - 1) + ((bits >> kBf16Dropped) & 1);
        bits = bits >> kBf16Dropped << kBf16Dropped;
        double value;
        __builtin_memcpy(&value, &bits, sizeof value);
        rounded[i] = static_cast<uint16_t>(bits_of(static_cast<float>(value)) >> 16);
        subnormals |= __builtin_fabs(acc[i]) < smallest_normal;
    }
    if (subnormals)
        for (size_t i = 0; i < kTileOutputs; ++i) rounded[i] = bf16_of_double(acc[i]);
}

// What the sum of exact blocks does not give: NaN rows, and pairs of rows whose scales spread too far.
inline void mend_row(const Rows& x, size_t row, Work* work, size_t count, uint16_t* rounded) {
    const Row& known = x.row[row];
    const int spare = spare_bits(known.range, x.blocks);
    for (size_t i = 0; i < count; ++i) {
        if (known.is_nan)
            rounded[i] = kBf16Nan;
        else if (work->greatest[i] - work->least[i] > spare &&
                 !is_exact(x.ranges + row * x.blocks, work->scales[i], x.blocks))
            rounded[i] = output_of_lanes(known.codes, known.scales, work->codes[i], work->scales[i], x.blocks);
    }
}

// Memory for the rows of one input, prepared by prepare_row, and for one worker.
inline size_t rows_bytes(size_t rows, size_t inputs) {
    Memory memory = {0, 0};
    lay_out_rows(&memory, rows, inputs);
    return memory.used;
}
inline Rows rows_at(void* memory, size_t rows, size_t inputs) {
    Memory pieces = {reinterpret_cast<uintptr_t>(memory), 0};
    return lay_out_rows(&pieces, rows, inputs);
}
inline size_t work_bytes(size_t inputs) {
    Memory memory = {0, 0};
    lay_out_work(&memory, inputs);
    return memory.used;
}

inline void prepare_row(const Rows& x, size_t row, const uint8_t* codes, const uint8_t* scales) {
    prepare_row_of(x, row_tiles(x.rows, kTileRows), row, codes, scales);
}

// Where the outputs go: row r's to y + (slots ? slots[r] : r) * stride.
struct Outputs {
    uint16_t* y;
    size_t stride;
    const uint32_t* slots;
};

// Rows that pass over one decoded tile: few enough that all outputs find them in the third-level cache.
constexpr size_t kGroupRows = 252;

// Tiles of rows [begin, end).
struct TileRange {
    size_t begin, end;
};

// A group of rows times outputs [first, first + count), count <= kTileOutputs; prefetches the codes of `next` more.
inline void multiply_outputs(const Rows& x, const RowTiles& tiles, TileRange group, const ShoalFloat4& w, size_t first,
                             size_t count, size_t next, Work* work, const Outputs& to) {
    const size_t code_bytes = x.inputs / 2;
    for (size_t i = 0; i < kTileOutputs; ++i) {  // a partial tile repeats its last output
        const size_t output = first + (i < count ? i : count - 1);
        work->codes[i] = w.codes + output * code_bytes;
        work->scales[i] = w.scales + output * x.blocks;
    }
    decode_tile(work->codes, work->scales, x.blocks, work->w_pairs, work->w_scales, work->least, work->greatest);
    int spread = 0;
    for (size_t i = 0; i < count; ++i) {
        const int found = work->greatest[i] - work->least[i];
        spread = found > spread ? found : spread;
    }
    for (size_t t = group.begin; t < group.end; ++t) {
        const size_t begin = tiles.first(t), rows = tiles.size(t);
        const double* x_scales = x.scales + begin * x.blocks;
        __builtin_memset(work->acc, 0, rows * kTileOutputs * sizeof(double));
        multiply_rows({x.pairs + begin * code_bytes, work->w_pairs, x_scales, work->w_scales, x.blocks, work->acc,
                       t == group.begin && next ? w.codes + (first + count) * code_bytes : nullptr, code_bytes, next},
                      rows);
        for (size_t r = 0; r < rows; ++r) {
            const size_t row = begin + r;
            double* acc = work->acc + r * kTileOutputs;
            add_low_digits(x, row, x_scales + r, rows, *work, acc);
            uint16_t rounded[kTileOutputs];
            round_row(acc, rounded);
            if (x.row[row].is_nan || spread > spare_bits(x.row[row].range, x.blocks))
                mend_row(x, row, work, count, rounded);
            uint16_t* y = to.y + (to.slots ? to.slots[row] : row) * to.stride + first;
            __builtin_memcpy(y, rounded, count * sizeof *y);
        }
    }
}

// All rows times outputs [begin, end). `memory` is the worker's own, of work_bytes. A weight with a scale byte of 255
// is refused where it is loaded.
void multiply(const Rows& x, const ShoalFloat4& w, size_t begin, size_t end, const Outputs& to, void* memory) {
    Memory pieces = {reinterpret_cast<uintptr_t>(memory), 0};
    Work work = lay_out_work(&pieces, x.inputs);
    const RowTiles tiles = row_tiles(x.rows, kTileRows);
    constexpr size_t group_tiles = kGroupRows / kTileRows;
    for (size_t t = 0; t < tiles.count; t += group_tiles) {
        const TileRange group = {t, t + group_tiles < tiles.count ? t + group_tiles : tiles.count};
        for (size_t first = begin; first < end; first += kTileOutputs) {
            const size_t left = end - first, count = left < kTileOutputs ? left : kTileOutputs;
            const size_t next = left - count < kTileOutputs ? left - count : kTileOutputs;
            multiply_outputs(x, tiles, group, w, first, count, next, &work, to);
        }
    }
}

}  // namespace many
}  // namespace
