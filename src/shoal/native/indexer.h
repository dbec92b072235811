// C ABI of the indexer operators. See kernels.h.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "pages.h"

// The compressed positions that the tokens of one sequence read (spec 4.5). q and keys are Q4i: E2M1 codes two to a byte
// and an E8M0 scale per 32 of `dim`, which is a multiple of 32. Queries are dense. `weights` are finite, scales not 255.
typedef struct ShoalIndexSelect {
    const uint8_t *q_codes, *q_scales;      // [tokens, heads, dim / 2], [tokens, heads, dim / 32]
    const uint16_t* weights;                // bf16 [tokens, heads]
    ShoalPages key_pages;                   // rows of dim / 2 and dim / 32 bytes
    const int64_t* visible;                 // [tokens]: positions from here on are unreachable
    const uint8_t* candidates;              // 0 or 1 [tokens, keys]: 0 is unreachable; or NULL
    size_t tokens, heads, dim, keys;
    // Outputs. The `count` best positions ascending, -1 filling the end.
    size_t count;
    int64_t* selected;  // [tokens, count]
    // Members of the `block_count` best blocks of `block` positions; NULL unless wanted.
    size_t block, block_count;
    uint8_t* candidate_positions;  // [tokens, keys]
    uint16_t* scores;              // bf16 [tokens, keys], unreachable ones -inf; NULL unless wanted
} ShoalIndexSelect;

// The same of several sequences, one after another: threads share the keys of each.
typedef struct ShoalIndexSelectStep {
    const ShoalIndexSelect* sequences;
    size_t count;
} ShoalIndexSelectStep;

// One line an operator: its name and the struct it takes.
#define SHOAL_INDEXER_OPERATORS(X)    \
    X(index_select, ShoalIndexSelect) \
    X(index_select_step, ShoalIndexSelectStep)
