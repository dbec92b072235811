// C ABI of the experts operators. See kernels.h.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "linear.h"

// E2M1 [outputs, inputs / 2], the low nibble first, and E8M0 [outputs, inputs / 32]. No scale is 255.
typedef struct ShoalFloat4 {
    const uint8_t *codes, *scales;
} ShoalFloat4;

// An expert with the rows routed to it: token numbers, router weights, and the row of `outputs` each result goes to.
typedef struct ShoalExpert {
    ShoalFloat4 w1, w2, w3;
    size_t rows;
    const uint32_t* row_ids;
    const float* weights;
    const uint32_t* slots;
} ShoalExpert;

// outputs[slot] = w2 . Q8(weight * silu(min(w1 x, limit)) * clamp(w3 x)) of every row of every expert (spec 4.6).
// x is Q8 [tokens, dim]; outputs bf16 [slots, dim]; dim and inter are multiples of 32.
typedef struct ShoalExperts {
    const uint8_t *x_codes, *x_scales;
    size_t tokens, dim, inter;
    float limit;
    size_t count;
    const ShoalExpert* experts;
    uint16_t* outputs;
} ShoalExperts;

// y[t] = bf16(0 + outputs[slots[t, 0]] + ... + outputs[slots[t, active - 1]] + shared[t]) in float32, in that order.
typedef struct ShoalExpertSum {
    const uint16_t* outputs;
    const uint32_t* slots;
    const uint16_t* shared;
    size_t tokens, active, dim;
    uint16_t* y;
} ShoalExpertSum;

// Q8 of bf16(weight * (silu(min(gate, limit)) * clamp(up, -limit, limit))), rows of `inter` bf16, a multiple of 32; limit
// 0 clamps nothing, weights may be NULL.
typedef struct ShoalSwiglu {
    const uint16_t *gate, *up;
    size_t rows, inter;
    const float* weights;
    float limit;
    uint8_t *codes, *scales;
} ShoalSwiglu;

// One line an operator: its name and the struct it takes.
#define SHOAL_EXPERTS_OPERATORS(X)  \
    X(routed_experts, ShoalExperts) \
    X(sum_experts, ShoalExpertSum)  \
    X(swiglu_q8, ShoalSwiglu)
