// C ABI of the bandwidth probe. See kernels.h.
#pragma once

#include <stddef.h>
#include <stdint.h>

// *sum = the 64-bit little-endian words of `count` stretches of `nbytes` bytes, added modulo 2^64: stretch i starts at
// base + starts[i], and its last word is filled up with zeros.
typedef struct ShoalStreamRead {
    const uint8_t* base;
    const uint64_t* starts;
    size_t count, nbytes;
    uint64_t* sum;
} ShoalStreamRead;

// One line an operator: its name and the struct it takes.
#define SHOAL_PROBE_OPERATORS(X) X(stream_read, ShoalStreamRead)
