// The native operators, one table of them per instruction set. C ABI: no Python, no torch, no C++ types.
//
// Every table holds the same operators and every operator gives the same bits in every table: sums have one written
// order, products are never fused unless written so, and the objects are built with -ffp-contract=off.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ShoalKernels {
    const char* isa;
    // x bf16 [rows, columns] -> codes E4M3 [rows, columns], scales E8M0 [rows, columns / 32]; columns % 32 == 0.
    void (*quantize_q8)(const uint16_t* x, uint8_t* codes, uint8_t* scales, size_t rows, size_t columns);
} ShoalKernels;

// Tables that were built, best first; the last one is portable. `supported` asks the processor.
size_t shoal_kernel_tables(const ShoalKernels*** tables);
int shoal_kernel_supported(const ShoalKernels* table);

#ifdef __cplusplus
}
#endif
