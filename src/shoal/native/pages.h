// C ABI of rows that lie in pages. See attention.h and indexer.h.
#pragma once

#include <stddef.h>
#include <stdint.h>

// Rows of codes and scales in pages of 2^shift rows, which may lie anywhere. Rows end to end are a single page.
typedef struct ShoalPages {
    const uint64_t* addresses;  // [pages]
    size_t codes, scales;       // bytes from a page's address to the codes and the scales of its first row, mod 2^64
    size_t shift;               // up to 63
} ShoalPages;
