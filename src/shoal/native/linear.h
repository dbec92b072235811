// C ABI of the linear operators. See kernels.h.
#pragma once

#include <stddef.h>
#include <stdint.h>

// One line an operator: its name and the struct it takes.
#define SHOAL_LINEAR_OPERATORS(X)
