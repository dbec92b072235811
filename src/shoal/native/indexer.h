// C ABI of the indexer operators. See kernels.h.
#pragma once

#include <stddef.h>
#include <stdint.h>

// One line an operator: its name and the struct it takes.
#define SHOAL_INDEXER_OPERATORS(X)
