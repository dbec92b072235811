// C ABI of the linear operators: y = x W^T, weights [outputs, inputs] as the file holds them. See kernels.h.
#pragma once

#include <stddef.h>
#include <stdint.h>

// E4M3 [outputs, inputs] without NaN and E8M0 [ceil(outputs / 32), inputs / 32]; inputs % 32 == 0.
typedef struct ShoalFloat8 {
    const uint8_t *codes, *scales;
} ShoalFloat8;

// y bf16 [rows, outputs], rows `y_stride` apart, of Q8 x: E4M3 [rows, inputs], E8M0 [rows, inputs / 32].
typedef struct ShoalFloat8Linear {
    const uint8_t *x_codes, *x_scales;
    ShoalFloat8 weight;
    size_t rows, outputs, inputs;
    uint16_t* y;
    size_t y_stride;
} ShoalFloat8Linear;

typedef struct ShoalFloat8Output {
    ShoalFloat8 weight;
    size_t outputs;
    uint16_t* y;
    size_t y_stride;
} ShoalFloat8Output;

// `count` weights on one x: the bits of as many float8_linear.
typedef struct ShoalFloat8Linears {
    const uint8_t *x_codes, *x_scales;
    const ShoalFloat8Output* linears;
    size_t count, rows, inputs;
} ShoalFloat8Linears;

// y bf16 [rows, groups, outputs] of bf16 x [rows, groups, inputs] and a weight [groups * outputs, inputs].
typedef struct ShoalGroupedLinear {
    const uint16_t* x;
    ShoalFloat8 weight;
    size_t rows, groups, outputs, inputs;
    uint16_t* y;
} ShoalGroupedLinear;

// x and weight bf16; one of y_float and y_bf16 is given. Any number of inputs.
typedef struct ShoalBf16Linear {
    const uint16_t *x, *weight;
    size_t rows, outputs, inputs;
    float* y_float;
    uint16_t* y_bf16;
} ShoalBf16Linear;

// x bf16, weight float32; mean_square [rows], of x, may be null. Any number of inputs.
typedef struct ShoalFloat32Linear {
    const uint16_t* x;
    const float* weight;
    size_t rows, outputs, inputs;
    float *y, *mean_square;
} ShoalFloat32Linear;

// One line an operator: its name and the struct it takes.
#define SHOAL_LINEAR_OPERATORS(X)           \
    X(float8_linear, ShoalFloat8Linear)     \
    X(float8_linears, ShoalFloat8Linears)   \
    X(grouped_linear, ShoalGroupedLinear)   \
    X(bf16_linear, ShoalBf16Linear)         \
    X(float32_linear, ShoalFloat32Linear)
