// Two to eight rows of inputs: weights are decoded in registers, once for all rows, and never stored.
//
// A tile of outputs takes a block of columns after the other. The rows' inputs of a block, multiplied by the tile's
// scales beforehand, lie side by side in first-level cache, and every step of a row of weights passes over them. Where
// sixteen lanes are two parts, a block is passed over once for each: eight rows have as many sums as there are
// registers. Sums keep their lanes between blocks, so a row has the bits it has alone.
//
// Measured 2026-11-30 in single runs, two vCPUs of an EPYC (Zen 3), AVX2, from memory, eight rows over one: FP8
// 1280x5120 2.8 times as long (by linear_many.inl 4.7), 32768x1280 2.4 (4.8), 5120x8192 3.0 (4.9), bf16 head 2.0 (2.9).
#pragma once

#include "linear_few.inl"

namespace {

constexpr size_t kSeveralRows = 8;
// Sums that registers hold beside weights: outputs by rows.
#if defined(__AVX512F__)
constexpr size_t kSumsAtOnce = 24, kRowsOfPass = kSeveralRows;
#elif defined(__AVX2__)
constexpr size_t kSumsAtOnce = 12, kRowsOfPass = kSeveralRows;
#else
constexpr size_t kSumsAtOnce = 4, kRowsOfPass = 4;
#endif
// Inputs of a block, 16 KiB; a row's are whole lines of weights.
constexpr size_t kBlockInputs = 4096;
// How far ahead the first-level cache is asked for weights, in bytes of a block.
constexpr size_t kSoonBytes = 4096;

constexpr size_t outputs_of_pass(size_t rows) {
    return rows * 4 <= kSumsAtOnce ? 4 : rows * 2 <= kSumsAtOnce ? 2 : 1;
}
constexpr size_t block_columns(size_t rows) { return kBlockInputs / rows / kLine * kLine; }

// What the inputs of 32 columns are multiplied by, one after the other.
struct Factor {
    float first, second;
};

// Outputs begin..end of a linear, which share a row of scales, and memory to work in.
struct Tile {
    const Linear* linear;
    size_t inputs, stride, begin, end;
    float *block, *sums;    // [part][step][row][lane] of inputs; [output][part][row][lane]
    const Factor* factors;  // NULL: inputs as they are
    bool is_twice;          // whether the second factor is not 1
    bool is_last;           // of the thread's piece: what follows is another's
};

// Bytes from a weight to those that are asked for: into first-level cache, and into the second.
struct Ahead {
    size_t near, far;
};

// One factor does where the first product is exact and the product of both is a number.
inline void set_factors(Tile* tile, const Inputs* inputs, Factor* factors) {
    const size_t count = tile->inputs / kTile;
    const uint8_t* scales = tile->linear->scales + (tile->linear->origin + tile->begin) / kTile * count;
    int least = 255, most = 0;
    for (size_t i = 0; i < count; ++i) {
        least = scales[i] < least ? scales[i] : least;
        most = scales[i] > most ? scales[i] : most;
    }
    tile->is_twice = inputs->lowest + least - 127 < -149 || most > 246;
    for (size_t i = 0; i < count; ++i)
        factors[i] = tile->is_twice ? Factor{e8m0_value(scales[i]), kE4m3Unit}
                                    : Factor{value_of(static_cast<uint32_t>(scales[i] + 8) << 23), 1.0f};
    tile->factors = factors;
}

// Inputs of kRows rows from `row` on, columns k..k + columns - 1.
template <size_t kRows>
inline void fill_block(const Tile& tile, size_t row, size_t k, size_t columns) {
    const size_t steps = padded(columns) / kLanes;
    const float* x = tile.linear->x + row * tile.stride + k;
    for (size_t step = 0; step < steps; ++step, x += kLanes) {
        const Factor factor = tile.factors ? tile.factors[(k + step * kLanes) / kTile] : Factor{1.0f, 1.0f};
        for (size_t r = 0; r < kRows; ++r)
            for (size_t part = 0; part < kParts; ++part) {
                Part value = load_part_of(x + r * tile.stride + part * kPartLanes);
                if (tile.factors) value = multiply(value, factor.first);
                if (tile.is_twice) value = multiply(value, factor.second);
                store_part(tile.block + ((part * steps + step) * kRows + r) * kPartLanes, value);
            }
    }
}

// Adds one part's products of a step of kOutputs rows of weights, `count` columns of it, with the rows' inputs at x.
template <typename Kind, size_t kPart, size_t kOutputs, size_t kRows>
inline __attribute__((always_inline)) void add_step(const uint8_t* const* weights, size_t at, size_t count,
                                                    const float* x, Part (*total)[kRows]) {
#pragma GCC unroll 4
    for (size_t i = 0; i < kOutputs; ++i) {
        Part w[Kind::kStepParts];
        if (count == Kind::kStep)
            Kind::decode(weights[i] + at, w);
        else
            decode_tail<Kind>(weights[i] + at, count, w);
#pragma GCC unroll 4
        for (size_t part = kPart; part < Kind::kStepParts; part += kParts)
#pragma GCC unroll 8
            for (size_t r = 0; r < kRows; ++r)
                total[i][r] = fma(load_part_of(x + (part / kParts * kRows + r) * kPartLanes), w[part], total[i][r]);
    }
}

// One part of the block for kOutputs rows of weights.
template <typename Kind, size_t kPart, size_t kOutputs, size_t kRows>
__attribute__((noinline)) void add_pass(const uint8_t* const* weights, const Ahead& ahead, size_t columns,
                                        const float* x, bool first, float* sums) {
    constexpr size_t kSteps = kLine / (Kind::kStep * Kind::kBytes), kSumStride = kParts * kRows * kPartLanes;
    constexpr size_t kStepInputs = Kind::kStepParts / kParts * kRows * kPartLanes;
    Part total[kOutputs][kRows];
#pragma GCC unroll 4
    for (size_t i = 0; i < kOutputs; ++i)
#pragma GCC unroll 8
        for (size_t r = 0; r < kRows; ++r)
            total[i][r] = first ? zero_part() : load_part_of(sums + i * kSumStride + r * kPartLanes);
    size_t k = 0;
    for (; k + kSteps * Kind::kStep <= columns; k += kSteps * Kind::kStep) {
        // The first part's pass asks for both.
#pragma GCC unroll 4
        for (size_t i = 0; i < kOutputs && kPart == 0; ++i) {
            __builtin_prefetch(weights[i] + ahead.near + k * Kind::kBytes, 0, 3);
            __builtin_prefetch(weights[i] + ahead.far + k * Kind::kBytes, 0, 2);
        }
#pragma GCC unroll 4
        for (size_t step = 0; step < kSteps; ++step, x += kStepInputs)
            add_step<Kind, kPart, kOutputs, kRows>(weights, (k + step * Kind::kStep) * Kind::kBytes, Kind::kStep, x,
                                                   total);
    }
    for (; k < columns; k += Kind::kStep, x += kStepInputs)
        add_step<Kind, kPart, kOutputs, kRows>(weights, k * Kind::kBytes,
                                               k + Kind::kStep <= columns ? Kind::kStep : columns - k, x, total);
#pragma GCC unroll 4
    for (size_t i = 0; i < kOutputs; ++i)
#pragma GCC unroll 8
        for (size_t r = 0; r < kRows; ++r) store_part(sums + i * kSumStride + r * kPartLanes, total[i][r]);
}

// Columns k..k + columns - 1, which are in `block`, for all outputs of the tile.
template <typename Kind, size_t kRows>
void add_block(const Tile& tile, size_t k, size_t columns) {
    constexpr size_t kOutputs = outputs_of_pass(kRows);
    const size_t row_bytes = tile.inputs * Kind::kBytes, block_bytes = columns * Kind::kBytes;
    const size_t count = tile.end - tile.begin, part_inputs = padded(columns) / kParts * kRows;
    const size_t soon = (kSoonBytes / block_bytes + kOutputs - 1) / kOutputs * kOutputs;
    const uint8_t* weight = tile.linear->weight + tile.begin * row_bytes + k * Kind::kBytes;
    // The next block of the same outputs; behind the last one the first of the next tile.
    const size_t next_tile = tile.is_last ? 0 : kTile * row_bytes - k * Kind::kBytes;
    const size_t far = k + columns < tile.inputs ? block_bytes : next_tile;
    for (size_t output = 0; output < count; output += kOutputs) {
        const uint8_t* weights[kOutputs];
        // Beyond the last output its weights again, for sums that nobody reads.
        for (size_t i = 0; i < kOutputs; ++i)
            weights[i] = weight + (output + i < count ? output + i : count - 1) * row_bytes;
        const Ahead ahead = {output + soon + kOutputs <= count ? soon * row_bytes : 0, far};
        float* sums = tile.sums + output * kParts * kRows * kPartLanes;
        add_pass<Kind, 0, kOutputs, kRows>(weights, ahead, columns, tile.block, k == 0, sums);
        if constexpr (kParts == 2)
            add_pass<Kind, 1, kOutputs, kRows>(weights, ahead, columns, tile.block + part_inputs, k == 0,
                                               sums + kRows * kPartLanes);
    }
}

// Rows row..row + kRows - 1.
template <typename Kind, size_t kRows>
void rows_of_tile(const Tile& tile, size_t row) {
    constexpr size_t kColumns = block_columns(kRows);
    for (size_t k = 0; k < tile.inputs; k += kColumns) {
        const size_t columns = k + kColumns < tile.inputs ? kColumns : tile.inputs - k;
        fill_block<kRows>(tile, row, k, columns);
        add_block<Kind, kRows>(tile, k, columns);
    }
    for (size_t output = 0; output < tile.end - tile.begin; ++output)
        for (size_t r = 0; r < kRows; ++r) {
            Part parts[kParts];
            for (size_t part = 0; part < kParts; ++part)
                parts[part] = load_part_of(tile.sums + ((output * kParts + part) * kRows + r) * kPartLanes);
            put(tile.linear, row + r, tile.begin + output, sum_parts(parts));
        }
}

template <typename Kind>
void several_rows(const Tile& tile, size_t rows) {
    for (size_t row = 0; row < rows; row += kRowsOfPass) switch (rows - row < kRowsOfPass ? rows - row : kRowsOfPass) {
            case 1: rows_of_tile<Kind, 1>(tile, row); break;
            case 2: rows_of_tile<Kind, 2>(tile, row); break;
            case 3: rows_of_tile<Kind, 3>(tile, row); break;
            case 4: rows_of_tile<Kind, 4>(tile, row); break;
#if defined(__AVX2__)
            case 5: rows_of_tile<Kind, 5>(tile, row); break;
            case 6: rows_of_tile<Kind, 6>(tile, row); break;
            case 7: rows_of_tile<Kind, 7>(tile, row); break;
            case 8: rows_of_tile<Kind, 8>(tile, row); break;
#endif
        }
}

}  // namespace
