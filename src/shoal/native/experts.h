// C ABI of the experts operators. See kernels.h.
#pragma once

#include <stddef.h>
#include <stdint.h>

// E2M1 [outputs, inputs / 2], the low nibble first, and E8M0 [outputs, inputs / 32]. No scale is 255.
typedef struct ShoalFloat4 {
    const uint8_t *codes, *scales;
} ShoalFloat4;

// One line an operator: its name and the struct it takes.
#define SHOAL_EXPERTS_OPERATORS(X)
