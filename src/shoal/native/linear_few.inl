// One row of inputs on many rows of weights: four outputs at once, their weights streamed past the lanes.
#pragma once

#include "linear_input.inl"

namespace {

constexpr size_t kOutputsAtOnce = 4, kLine = 64, kTile = 32;
// How far ahead of the loads memory is asked for, in bytes of a row of weights.
constexpr size_t kNear = 1024, kFar = 8192;

// One weight on inputs that were arranged. `origin` outputs come before its first one in the grid of scale tiles.
struct Linear {
    const uint8_t *weight, *scales;
    size_t outputs, origin;
    const float* x;
    float* y_float;
    uint16_t* y_bf16;
    size_t y_stride;
};

// A NaN is always the same one: which operand's payload survives differs between processors.
inline void put(const Linear* linear, size_t row, size_t output, float value) {
    if (value != value) value = value_of(0x7fc00000u);
    if (linear->y_float)
        linear->y_float[row * linear->y_stride + output] = value;
    else
        linear->y_bf16[row * linear->y_stride + output] = bf16_of(value);
}

template <typename Kind, size_t kOutputs>
inline __attribute__((always_inline)) void add_products(const Part (*w)[Kind::kStepParts], const float* x,
                                                        Part (*acc)[kParts]) {
    for (size_t part = 0; part < Kind::kStepParts; ++part) {
        const Part value = load_part_of(x + part * kPartLanes);
        for (size_t i = 0; i < kOutputs; ++i)
            acc[i][part % kParts] = fma(value, w[i][part], acc[i][part % kParts]);
    }
}

// kOutputs rows of weights, `row_bytes` apart, on arranged x. `next` bytes after them come those that are read then.
template <typename Kind, size_t kOutputs>
inline void dots(const uint8_t* weight, size_t inputs, const float* x, size_t next, float* y) {
    constexpr size_t kSteps = kLine / (Kind::kStep * Kind::kBytes);
    const size_t row_bytes = inputs * Kind::kBytes, far = row_bytes < kFar ? row_bytes : kFar;
    Part acc[kOutputs][kParts], w[kOutputs][Kind::kStepParts];
    for (size_t i = 0; i < kOutputs; ++i)
        for (size_t part = 0; part < kParts; ++part) acc[i][part] = zero_part();
    size_t k = 0;
    for (; k + kSteps * Kind::kStep <= inputs; k += kSteps * Kind::kStep) {
        const uint8_t* line = weight + k * Kind::kBytes;
        const size_t ahead = k * Kind::kBytes + far < row_bytes ? far : far - row_bytes + next;
        for (size_t i = 0; i < kOutputs; ++i) {
            __builtin_prefetch(line + i * row_bytes + kNear, 0, 3);
            __builtin_prefetch(line + i * row_bytes + ahead, 0, 2);
        }
#pragma GCC unroll 4
        for (size_t step = 0; step < kSteps; ++step) {
            for (size_t i = 0; i < kOutputs; ++i)
                Kind::decode(line + i * row_bytes + step * Kind::kStep * Kind::kBytes, w[i]);
            add_products<Kind, kOutputs>(w, x + k + step * Kind::kStep, acc);
        }
    }
    for (; k < inputs; k += Kind::kStep) {
        for (size_t i = 0; i < kOutputs; ++i) {
            const uint8_t* rest = weight + i * row_bytes + k * Kind::kBytes;
            if (k + Kind::kStep <= inputs)
                Kind::decode(rest, w[i]);
            else
                decode_tail<Kind>(rest, inputs - k, w[i]);
        }
        add_products<Kind, kOutputs>(w, x + k, acc);
    }
    for (size_t i = 0; i < kOutputs; ++i) y[i] = sum_parts(acc[i]);
}

// x' = (x * 2^(scale - 127)) * 256 for every 32 inputs: what a tile of weights, read times 2^-8, is multiplied by.
inline void scale_inputs(const float* x, const uint8_t* scales, size_t inputs, float* scaled) {
    for (size_t tile = 0; tile < inputs / kTile; ++tile) {
        const float scale = e8m0_value(scales[tile]);
        for (size_t k = tile * kTile; k < (tile + 1) * kTile; k += kPartLanes)
            store_part(scaled + k, multiply(multiply(load_part_of(x + k), scale), kE4m3Unit));
    }
}

// Where the tile of scales ends that `output` is in.
inline size_t tile_end(const Linear* linear, size_t output, size_t end) {
    const size_t next = ((linear->origin + output) / kTile + 1) * kTile - linear->origin;
    return next < end ? next : end;
}

template <typename Kind>
void outputs_of_row(const Linear* linear, size_t inputs, const float* x, size_t row, size_t begin, size_t end,
                    size_t piece_end) {
    float y[kOutputsAtOnce];
    const size_t row_bytes = inputs * Kind::kBytes;
    for (size_t output = begin; output < end;) {
        const uint8_t* weight = linear->weight + output * row_bytes;
        const size_t count = output + kOutputsAtOnce <= end ? kOutputsAtOnce : 1;
        const size_t next = output + 2 * kOutputsAtOnce <= piece_end ? kOutputsAtOnce * row_bytes : row_bytes;
        if (count == kOutputsAtOnce)
            dots<Kind, kOutputsAtOnce>(weight, inputs, x, next, y);
        else
            dots<Kind, 1>(weight, inputs, x, row_bytes, y);
        for (size_t i = 0; i < count; ++i) put(linear, row, output + i, y[i]);
        output += count;
    }
}

// Outputs begin..end of one row; room: `scaled` [inputs].
template <typename Kind>
void few_rows(const Linear* linear, const Inputs* inputs, size_t row, size_t begin, size_t end, float* scaled) {
    const float* x = linear->x + row * inputs->stride;
    if (!linear->scales) return outputs_of_row<Kind>(linear, inputs->inputs, x, row, begin, end, end);
    for (size_t output = begin; output < end;) {
        const size_t stop = tile_end(linear, output, end), tile = (linear->origin + output) / kTile;
        scale_inputs(x, linear->scales + tile * (inputs->inputs / kTile), inputs->inputs, scaled);
        outputs_of_row<Kind>(linear, inputs->inputs, scaled, row, output, stop, end);
        output = stop;
    }
}

}  // namespace
