// C ABI of the FP4 linear. See kernels.h.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "experts.h"

// y bf16 [rows, outputs] of Q8 x [rows, inputs] and an FP4 weight, correctly rounded; inputs % 32 == 0.
typedef struct ShoalFloat4Linear {
    const uint8_t *x_codes, *x_scales;
    ShoalFloat4 weight;
    size_t rows, outputs, inputs;
    uint16_t* y;
} ShoalFloat4Linear;

// One line an operator: its name and the struct it takes.
#define SHOAL_FLOAT4_LINEAR_OPERATORS(X) X(float4_linear, ShoalFloat4Linear)
