// C ABI of the attention operators. See kernels.h.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "pages.h"

// Sparse attention of the next `tokens` tokens of one sequence, with a sink, and the inverse rope of its result.
//
// Token t stands at `position` + t. Its keys, which are its values too: the last `window` positions up to its own, from
// the ring (slot = position % window, the last min(position, window) of them are there) and from the chunk's own rows;
// then the entries that `selected` names, up to the first -1. Columns are counted as `window` + `topk`, absent ones
// included, and a running maximum is taken every 64 of them. The last 2 * `pairs` dims of the result, in bf16, are
// rotated back. Scales of Q8 are 1 .. 254; no code is NaN.
typedef struct ShoalAttention {
    const uint16_t* q;                            // bf16 [tokens, heads, dim]
    const uint8_t *own_codes, *own_scales;        // Q8 [tokens, dim]; dim % 32 == 0
    const uint8_t *ring_codes, *ring_scales;      // Q8 [window, dim]
    ShoalPages entries;                           // Q4c rows of `dim`
    const int64_t* selected;                      // [tokens, topk], -1 behind the last; NULL where topk == 0
    const float *sink, *cos, *sin;                // [heads], [tokens, pairs], [tokens, pairs]
    size_t tokens, heads, dim, window, topk, pairs;
    int64_t position;
    float scale;
    uint16_t* y;                                  // bf16 [tokens, heads, dim]
} ShoalAttention;

typedef struct ShoalRing {
    uint8_t *codes, *scales;                      // Q8 [window, dim]
} ShoalRing;

// Attention of a step's sequences, which agree in all sizes but `tokens`, `position` and where their memory lies. Then
// each takes the last `window` of its own rows into its ring, position p into slot p % window. What they replace comes to
// `replaced`, a sequence's min(tokens, window) rows after another's, and `is_full` is set once it is there.
typedef struct ShoalAttendStep {
    const ShoalAttention* sequences;
    const ShoalRing* rings;                       // [count], what `sequences` read
    size_t count;
    ShoalRing replaced;
    uint8_t* is_full;
} ShoalAttendStep;

// y = x with the last 2 * `pairs` dims of every head turned by its row's angles, or turned back where `inverse`.
typedef struct ShoalRotateRows {
    const uint16_t* x;                            // bf16 [rows, heads, dim]; y may be x
    const float *cos, *sin;                       // [rows, pairs]
    size_t rows, heads, dim, pairs;
    int inverse;
    uint16_t* y;
} ShoalRotateRows;

// cos and sin [rows, pairs] of the float32 product of position and frequency.
typedef struct ShoalRopeTable {
    const int64_t* positions;                     // [rows], up to 2^21 times a frequency of 1
    const float* frequencies;                     // [pairs]
    size_t rows, pairs;
    float *cos, *sin;
} ShoalRopeTable;

// One line an operator: its name and the struct it takes.
#define SHOAL_ATTENTION_OPERATORS(X) \
    X(attention, ShoalAttention)     \
    X(attend_step, ShoalAttendStep)  \
    X(rotate_rows, ShoalRotateRows)  \
    X(rope_table, ShoalRopeTable)
