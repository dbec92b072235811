// C ABI of the elementwise operators. See kernels.h.
#pragma once

#include <stddef.h>
#include <stdint.h>

// y = bf16(weight * (x / sqrt(mean x^2 + eps))), rows of `columns` bf16.
typedef struct ShoalRmsNorm {
    const uint16_t *x, *weight;
    uint16_t* y;
    size_t rows, columns;
    float eps;
} ShoalRmsNorm;

// One line an operator: its name and the struct it takes.
#define SHOAL_ELEMENTWISE_OPERATORS(X) X(rms_norm, ShoalRmsNorm)
