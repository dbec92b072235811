// Many rows of inputs on a tile of weights: the tile is decoded into first-level cache, block by block along K, and
// multiplied from there. Accumulators keep their sixteen lanes between blocks, so a row has the bits it has alone.
#pragma once

#include "linear_few.inl"

namespace {

// Accumulators of kRowsAtOnce x kOutputsAtOnce fill the registers.
#if defined(__AVX512F__)
constexpr size_t kRowsAtOnce = 6;
#elif defined(__AVX2__)
constexpr size_t kRowsAtOnce = 3;
#else
constexpr size_t kRowsAtOnce = 1;
#endif
// Elements of the decoded tile, 16 KiB of float32; its outputs by its columns.
constexpr size_t kPanelElements = 4096;
#ifndef PANEL
#define PANEL 16
#endif
constexpr size_t kPanelOutputs = PANEL, kPanelColumns = kPanelElements / kPanelOutputs;
// Rows whose accumulators, 2 KiB a row, stay in second-level cache beside a block of inputs.
#ifndef ROWBLOCK
#define ROWBLOCK 66
#endif
constexpr size_t kRowBlock = ROWBLOCK;

struct Room {
    float *scaled, *panel, *sums;
};

// Four outputs by `steps` times sixteen inputs: [part][step][output][lane].
template <typename Kind>
inline void decode_panel(const uint8_t* const* rows, const uint8_t* scales, size_t columns, size_t row_left,
                         float* panel) {
    constexpr size_t kStride = kOutputsAtOnce * kPartLanes;
    const size_t steps = padded(columns) / kLanes;
    for (size_t k = 0; k < columns; k += Kind::kStep) {
        const float scale = scales ? value_of(static_cast<uint32_t>(scales[k / kTile] + 8) << 23) : 1.0f;
        float* at_step = panel + k / kLanes * kStride;
        for (size_t i = 0; i < kOutputsAtOnce; ++i) {
            Part w[Kind::kStepParts];
            const uint8_t* p = rows[i] + k * Kind::kBytes;
            if (k + Kind::kStep <= columns)
                Kind::decode(p, w);
            else
                decode_tail<Kind>(p, columns - k, w);
            __builtin_prefetch(p + row_left, 0, 2);
            for (size_t part = 0; part < Kind::kStepParts; ++part) {
                float* place = at_step + part / kParts * kStride + part % kParts * steps * kStride + i * kPartLanes;
                store_part(place, scales ? multiply(w[part], scale) : w[part]);
            }
        }
    }
}

// kRows rows by four outputs, `steps` times sixteen inputs.
template <size_t kRows>
inline void multiply_panel(const float* x, size_t stride, const float* panel, size_t steps, bool first, float* sums) {
    for (size_t part = 0; part < kParts; ++part, sums += kRows * kOutputsAtOnce * kPartLanes) {
        Part acc[kRows][kOutputsAtOnce];
        for (size_t r = 0; r < kRows; ++r)
            for (size_t i = 0; i < kOutputsAtOnce; ++i)
                acc[r][i] = first ? zero_part() : load_part_of(sums + (r * kOutputsAtOnce + i) * kPartLanes);
        const float* at_step = x + part * kPartLanes;
        for (size_t step = 0; step < steps; ++step, at_step += kLanes, panel += kOutputsAtOnce * kPartLanes) {
            Part w[kOutputsAtOnce];
            for (size_t i = 0; i < kOutputsAtOnce; ++i) w[i] = load_part_of(panel + i * kPartLanes);
            for (size_t r = 0; r < kRows; ++r) {
                const Part value = load_part_of(at_step + r * stride);
                for (size_t i = 0; i < kOutputsAtOnce; ++i) acc[r][i] = fma(value, w[i], acc[r][i]);
            }
        }
        for (size_t r = 0; r < kRows; ++r)
            for (size_t i = 0; i < kOutputsAtOnce; ++i)
                store_part(sums + (r * kOutputsAtOnce + i) * kPartLanes, acc[r][i]);
    }
}

inline void multiply_rows(size_t rows, const float* x, size_t stride, const float* panel, size_t steps, bool first,
                          float* sums) {
    switch (rows) {
        case 1: return multiply_panel<1>(x, stride, panel, steps, first, sums);
#if defined(__AVX2__)
        case 2: return multiply_panel<2>(x, stride, panel, steps, first, sums);
        case 3: return multiply_panel<3>(x, stride, panel, steps, first, sums);
#endif
#if defined(__AVX512F__)
        case 4: return multiply_panel<4>(x, stride, panel, steps, first, sums);
        case 5: return multiply_panel<5>(x, stride, panel, steps, first, sums);
        case 6: return multiply_panel<6>(x, stride, panel, steps, first, sums);
#endif
    }
}

// Rows begin..end by outputs; at most kRowBlock by kTile.
struct Piece {
    size_t row_begin, row_end, begin, end;
};

inline size_t outputs_padded(const Piece* piece) {
    return (piece->end - piece->begin + kOutputsAtOnce - 1) / kOutputsAtOnce * kOutputsAtOnce;
}

inline size_t rows_of_group(const Piece* piece, size_t row) {
    return row + kRowsAtOnce <= piece->row_end ? kRowsAtOnce : piece->row_end - row;
}

// The place of the sums of a group of rows and four outputs: [part][row][output][lane].
inline float* sums_of(const Piece* piece, size_t row, size_t output, float* sums) {
    const size_t rows = rows_of_group(piece, row);
    return sums + ((row - piece->row_begin) * outputs_padded(piece) + rows * output) * kLanes;
}

template <typename Kind>
void multiply_block(const Linear* linear, const Inputs* inputs, const Piece* piece, const uint8_t* scales, size_t k,
                    size_t columns, const Room* room) {
    const size_t row_bytes = inputs->inputs * Kind::kBytes, steps = padded(columns) / kLanes;
    const size_t outputs = outputs_padded(piece);
    for (size_t panel = 0; panel < outputs; panel += kPanelOutputs) {
        const size_t panel_end = panel + kPanelOutputs < outputs ? panel + kPanelOutputs : outputs;
        for (size_t four = panel; four < panel_end; four += kOutputsAtOnce) {
            const uint8_t* rows[kOutputsAtOnce];
            for (size_t i = 0; i < kOutputsAtOnce; ++i) {
                // Beyond the last output its weights again, for sums that nobody reads.
                const size_t output = piece->begin + four + i;
                rows[i] = linear->weight + (output < piece->end ? output : piece->end - 1) * row_bytes + k * Kind::kBytes;
            }
            decode_panel<Kind>(rows, scales ? scales + k / kTile : nullptr, columns, columns * Kind::kBytes,
                               room->panel + (four - panel) * steps * kLanes);
        }
        for (size_t row = piece->row_begin; row < piece->row_end; row += kRowsAtOnce)
            for (size_t four = panel; four < panel_end; four += kOutputsAtOnce)
                multiply_rows(rows_of_group(piece, row), linear->x + row * inputs->stride + k, inputs->stride,
                              room->panel + (four - panel) * steps * kLanes, steps, k == 0,
                              sums_of(piece, row, four, room->sums));
    }
}

void put_sums(const Linear* linear, const Piece* piece, const Room* room) {
    for (size_t row = piece->row_begin; row < piece->row_end; ++row) {
        const size_t within = (row - piece->row_begin) % kRowsAtOnce, group = row - within;
        const size_t part_stride = rows_of_group(piece, group) * kOutputsAtOnce * kPartLanes;
        for (size_t output = 0; output < piece->end - piece->begin; ++output) {
            const size_t i = output % kOutputsAtOnce;
            const float* at = sums_of(piece, group, output - i, room->sums) + (within * kOutputsAtOnce + i) * kPartLanes;
            Part parts[kParts];
            for (size_t part = 0; part < kParts; ++part) parts[part] = load_part_of(at + part * part_stride);
            put(linear, row, piece->begin + output, sum_parts(parts));
        }
    }
}

// Whether scaling the weights gives the bits of scaling the inputs: neither product leaves float32's range.
inline bool scales_are_exact(const Inputs* inputs, const uint8_t* scales) {
    int least = 255, most = 0;
    for (size_t tile = 0; tile < inputs->inputs / kTile; ++tile) {
        least = scales[tile] < least ? scales[tile] : least;
        most = scales[tile] > most ? scales[tile] : most;
    }
    return inputs->lowest + least - 127 >= -149 && inputs->highest + most - 127 + 8 <= 128 && most <= 246;
}

template <typename Kind>
void many_rows(const Linear* linear, const Inputs* inputs, const Piece* piece, const Room* room) {
    const uint8_t* scales = nullptr;
    if (linear->scales) {
        scales = linear->scales + (linear->origin + piece->begin) / kTile * (inputs->inputs / kTile);
        if (!scales_are_exact(inputs, scales)) {
            for (size_t row = piece->row_begin; row < piece->row_end; ++row)
                few_rows<Kind>(linear, inputs, row, piece->begin, piece->end, room->scaled);
            return;
        }
    }
    for (size_t k = 0; k < inputs->inputs; k += kPanelColumns) {
        const size_t columns = k + kPanelColumns < inputs->inputs ? kPanelColumns : inputs->inputs - k;
        multiply_block<Kind>(linear, inputs, piece, scales, k, columns, room);
    }
    put_sums(linear, piece, room);
}

}  // namespace
