// The native operators, one table of them per instruction set. C ABI: no Python, no torch, no C++ types.
//
// Every table holds the same operators and every operator gives the same bits in every table: sums have one written
// order, products are never fused unless written so, and the objects are built with -ffp-contract=off.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "attention.h"
#include "elementwise.h"
#include "experts.h"
#include "indexer.h"
#include "linear.h"
#include "names.h"
#include "pool.h"
#include "stages.h"

#ifdef __cplusplus
extern "C" {
#endif

// `batch` products of [rows, inner] by [columns, inner] transposed.
typedef struct ShoalDots {
    size_t batch, rows, columns, inner;
} ShoalDots;

// y bf16 [rows, outputs] of Q8 x [rows, inputs] and a weight [outputs, inputs], E4M3 with a scale per 32x32 tile or
// packed E2M1 with a scale per row and 32 inputs; inputs % 32 == 0.
typedef struct ShoalBlockLinear {
    const uint8_t *x_codes, *x_scales, *weight_codes, *weight_scales;
    int weight_is_e2m1;
    size_t rows, outputs, inputs;
    uint16_t* y;
} ShoalBlockLinear;

// Every operator of every family. Compiled per instruction set as SHOAL_NAME(operator).
#define SHOAL_OPERATORS(X)       \
    SHOAL_LINEAR_OPERATORS(X)    \
    SHOAL_EXPERTS_OPERATORS(X)   \
    SHOAL_ATTENTION_OPERATORS(X) \
    SHOAL_INDEXER_OPERATORS(X)   \
    SHOAL_ELEMENTWISE_OPERATORS(X) \
    SHOAL_STAGES_OPERATORS(X)

#if defined(SHOAL_ISA)
#define SHOAL_DECLARE_OPERATOR(name, Parameters) void SHOAL_NAME(name)(const Parameters* p, ShoalPool* pool);
SHOAL_OPERATORS(SHOAL_DECLARE_OPERATOR)
#undef SHOAL_DECLARE_OPERATOR
#endif

typedef struct ShoalKernels {
    const char* isa;
    // Room: x_values [rows * inputs], w_values [inputs], terms [inputs / 32].
    void (*block_linear)(const ShoalBlockLinear* p, int32_t* x_values, int32_t* w_values, double* terms);
    // y double [batch, rows, columns]; room: terms [inner].
    void (*halving_dots)(const float* a, const float* b, double* y, const ShoalDots* shape, double* terms);
#define SHOAL_MEMBER(name, Parameters) void (*name)(const Parameters* p, ShoalPool* pool);
    SHOAL_OPERATORS(SHOAL_MEMBER)
#undef SHOAL_MEMBER
} ShoalKernels;

// Tables that were built, best first; the last one is portable. `supported` asks the processor.
size_t shoal_kernel_tables(const ShoalKernels*** tables);
int shoal_kernel_supported(const ShoalKernels* table);

#ifdef __cplusplus
}
#endif
