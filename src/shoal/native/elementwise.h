// C ABI of the elementwise operators. See kernels.h. Rows are contiguous; bf16 is its bits.
#pragma once

#include <stddef.h>
#include <stdint.h>

enum ShoalFunction { SHOAL_EXP, SHOAL_SIGMOID, SHOAL_SILU, SHOAL_SOFTPLUS, SHOAL_FUNCTIONS };

// A ShoalFunction of every element; y may be x.
typedef struct ShoalElementary {
    int function;
    const float* x;
    float* y;
    size_t count;
} ShoalElementary;

// x bf16 [rows, columns]. Q8: codes E4M3 [rows, columns], scales E8M0 [rows, columns / 32]. Q4i: codes E2M1 two to a
// byte [rows, columns / 2], scales as Q8. Q4c: codes as Q4i, scales E4M3 [rows, columns / 16].
typedef struct ShoalQuantize {
    const uint16_t* x;
    uint8_t *codes, *scales;
    size_t rows, columns;
} ShoalQuantize;

// y = bf16(weight * (x / sqrt(mean x^2 + eps))), rows of `columns` bf16. y may be x.
typedef struct ShoalRmsNorm {
    const uint16_t *x, *weight;
    uint16_t* y;
    size_t rows, columns;
    float eps;
} ShoalRmsNorm;

// rms_norm, and Q8 of its result; columns % 32 == 0. y may be NULL, or x.
typedef struct ShoalRmsNormQ8 {
    const uint16_t *x, *weight;
    uint16_t* y;
    uint8_t *codes, *scales;
    size_t rows, columns;
    float eps;
} ShoalRmsNormQ8;

// y float32 [rows]: mean x^2 of rows of `columns` bf16.
typedef struct ShoalMeanSquare {
    const uint16_t* x;
    float* y;
    size_t rows, columns;
} ShoalMeanSquare;

// streams bf16 [rows, num_streams, columns], pre [rows, num_streams]: rms_norm of bf16(sum of pre[c] * stream c), and
// Q8 of it unless `codes` is NULL (columns % 32 == 0 then). y [rows, columns] may be NULL.
typedef struct ShoalCollapseNorm {
    const uint16_t* streams;
    const float* pre;
    const uint16_t* weight;
    uint16_t* y;
    uint8_t *codes, *scales;
    size_t rows, num_streams, columns;
    float eps;
} ShoalCollapseNorm;

// y[c] = bf16(post[c] * x + sum over j of comb[j, c] * stream j). x [rows, columns], streams and y [rows, num_streams,
// columns], post [rows, num_streams], comb [rows, num_streams, num_streams]. y may be streams.
typedef struct ShoalExpand {
    const uint16_t *x, *streams;
    const float *post, *comb;
    uint16_t* y;
    size_t rows, num_streams, columns;
} ShoalExpand;

// u [rows, num_streams * (num_streams + 2)], times 1 / sqrt(mean_square + norm_eps) of its row unless mean_square is
// NULL; scale [3], base [num_streams * (num_streams + 2)] -> pre, post [rows, num_streams], comb [rows, num_streams,
// num_streams].
typedef struct ShoalSplitMix {
    const float *u, *mean_square, *scale, *base;
    float *pre, *post, *comb;
    size_t rows, num_streams, iterations;
    float eps, norm_eps;
} ShoalSplitMix;

// values, gates [groups, ratio, columns] -> y bf16 [groups, columns].
typedef struct ShoalPoolGroups {
    const float *values, *gates;
    uint16_t* y;
    size_t groups, ratio, columns;
} ShoalPoolGroups;

// Rows `row_ids` [rows] of a table (codes E4M3 [., columns], scales E8M0 [., columns / 32]; no NaN among them),
// dequantised to bf16 and given Q8 again. row_ids NULL: rows 0, 1 ...
typedef struct ShoalGatherRows {
    const uint8_t *codes, *scales;
    const int64_t* row_ids;
    uint8_t *y_codes, *y_scales;
    size_t rows, columns;
} ShoalGatherRows;

// streams and y bf16 [rows, num_streams, columns], projected [rows, num_streams + 1, columns]: a key for every stream,
// then the value; q_weight, k_weight [num_streams, columns]; image_mask [rows] or NULL. y may be streams.
typedef struct ShoalEngramGate {
    const uint16_t *streams, *projected, *q_weight, *k_weight;
    const uint8_t* image_mask;
    uint16_t* y;
    size_t rows, num_streams, columns;
    float eps;
} ShoalEngramGate;

// logits [rows, experts] -> expert_ids, weights [rows, active] best first, margin [rows]; 0 < active <= experts. Rows
// of the image_mask (or NULL) choose with bias_vl.
typedef struct ShoalRoute {
    const float *logits, *bias, *bias_vl;
    const uint8_t* image_mask;
    int64_t* expert_ids;
    float *weights, *margin;
    size_t rows, experts, active;
    float route_scale;
} ShoalRoute;

// One line an operator: its name and the struct it takes.
#define SHOAL_ELEMENTWISE_OPERATORS(X) \
    X(elementary, ShoalElementary)     \
    X(quantize_q8, ShoalQuantize)      \
    X(quantize_q4i, ShoalQuantize)     \
    X(quantize_q4c, ShoalQuantize)     \
    X(rms_norm, ShoalRmsNorm)          \
    X(rms_norm_q8, ShoalRmsNormQ8)     \
    X(mean_square, ShoalMeanSquare)    \
    X(collapse_norm, ShoalCollapseNorm) \
    X(expand, ShoalExpand)             \
    X(split_mix, ShoalSplitMix)        \
    X(pool_groups, ShoalPoolGroups)    \
    X(gather_rows, ShoalGatherRows)    \
    X(engram_gate, ShoalEngramGate)    \
    X(route, ShoalRoute)
