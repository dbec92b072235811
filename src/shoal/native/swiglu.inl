// SwiGLU with clamps, then Q8 (spec 4.6, 3.1): elementwise float32 as written, so every instruction set gives its bytes.
#pragma once

#include "exp.inl"
#include "quantize.inl"

namespace {

struct SwigluRow {
    const uint16_t *gate, *up;
    const float* weight;
    float limit;
};

inline Floats swiglu_lanes(const SwigluRow& row, size_t k) {
    Floats gate = load_bf16(row.gate + k), up = load_bf16(row.up + k);
    if (row.limit > 0) {
        // The second operand is returned when one is NaN.
        gate = minimum(broadcast(row.limit), gate);
        up = minimum(broadcast(row.limit), maximum(broadcast(-row.limit), up));
    }
    const Floats silu = divide(gate, add(broadcast(1.0f), exp_lanes(subtract(broadcast(0.0f), gate))));
    const Floats product = multiply(silu, up);
    return row.weight ? multiply(broadcast(*row.weight), product) : product;
}

// One block of 32 columns from column k.
inline void swiglu_block(const SwigluRow& row, size_t k, uint8_t* codes, uint8_t* scale) {
    uint16_t hidden[kGroup];
    for (size_t part = 0; part < kGroup; part += kLanes) store_bf16(hidden + part, swiglu_lanes(row, k + part));
    q8_group(hidden, codes, scale);
    // The quantiser takes finite values; anything else is a NaN scale.
    uint16_t largest = 0;
    for (size_t i = 0; i < kGroup; ++i) largest = (hidden[i] & 0x7fff) > largest ? hidden[i] & 0x7fff : largest;
    if (largest >= 0x7f80) *scale = 0xff;
}

}  // namespace
