// C ABI of the stages: a run of operators in one call, so that a layer costs three calls. See kernels.h.
//
// A stage has the bits of the operators it is made of; only the calls are fewer. bf16 is its bits, rows are contiguous.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "attention.h"
#include "experts.h"
#include "linear.h"

// The router of a mixture: gate bf16 [experts, dim], biases [experts], image_mask [rows] or NULL. Best experts first.
typedef struct ShoalRouter {
    const uint16_t* gate;  // NULL: no router
    const float *bias, *bias_vl;
    const uint8_t* image_mask;
    size_t experts, active;
    float scale;
    int64_t* expert_ids;     // [rows, active]
    float *weights, *margin;  // [rows, active], [rows]
} ShoalRouter;

// A sublayer's input: the mix of the streams, the streams collapsed with the `pre` before it, normed, and Q8 of that.
typedef struct ShoalEnterSublayer {
    const uint16_t* streams;  // [rows, num_streams, dim]
    const float* pre;         // [rows, num_streams]
    const float *fn, *scale, *base;  // [n * (n + 2), n * dim], [3], [n * (n + 2)] for n streams
    const uint16_t* norm;     // [dim]
    size_t rows, num_streams, dim, iterations;
    float hc_eps, norm_eps;
    uint16_t* x;              // [rows, dim]
    uint8_t *x_codes, *x_scales;
    float *next_pre, *post, *comb;
    ShoalRouter router;
} ShoalEnterSublayer;

// q, its low-rank form and the latent of attention: wq_a and wkv on x, norms, wq_b, rope.
typedef struct ShoalProjectIn {
    const uint8_t *x_codes, *x_scales;  // Q8 [rows, dim]
    ShoalFloat8 wq_a, wq_b, wkv;
    const uint16_t *q_norm, *kv_norm;
    const float *cos, *sin;             // [rows, pairs]
    size_t rows, dim, q_rank, heads, head_dim, pairs;
    float eps;
    uint16_t* q;                        // [rows, heads, head_dim]
    uint8_t *qr_codes, *qr_scales;      // Q8 [rows, q_rank]
    uint8_t *kv_codes, *kv_scales;      // Q8 [rows, head_dim]
} ShoalProjectIn;

// The streams a sublayer's output x returns to: streams_out[c] = post[c] * x + sum of comb[j, c] * stream j.
typedef struct ShoalReturn {
    const uint16_t* streams;  // [rows, num_streams, dim]
    const float *post, *comb;
    size_t num_streams;
    uint16_t *x, *streams_out;
} ShoalReturn;

// wo_b on Q8 of the grouped wo_a on attention's result o, and the return to the streams.
typedef struct ShoalProjectOut {
    const uint16_t* o;  // [rows, groups, inputs]
    ShoalFloat8 wo_a, wo_b;
    size_t rows, groups, inputs, outputs, dim;  // wo_a [groups * outputs, inputs], wo_b [dim, groups * outputs]
    ShoalReturn back;
} ShoalProjectOut;

// The last routed experts (count 0: none are left), the shared expert, the sum over a token's routed outputs (slots in
// ascending expert id) and it, the return to the streams.
typedef struct ShoalCombine {
    ShoalExperts last;                  // into `outputs`
    const uint8_t *x_codes, *x_scales;  // Q8 [rows, dim]
    ShoalFloat8 w1, w2, w3;
    const uint16_t* outputs;            // [., dim]
    const uint32_t* slots;              // [rows, active]
    size_t rows, active, dim, inter;
    float limit;
    ShoalReturn back;
} ShoalCombine;

// What a layer does until keys are needed, and from there until its experts are.
typedef struct ShoalBeginLayer {
    ShoalEnterSublayer enter;
    ShoalProjectIn project;
} ShoalBeginLayer;

typedef struct ShoalAttendLayer {
    ShoalAttendStep attend;
    ShoalProjectOut out;
    ShoalEnterSublayer mixture;
} ShoalAttendLayer;

// Pooled groups to what is stored: entries in Q4c after norm and rope, index keys in Q4i from the normed latents.
typedef struct ShoalFinishLatents {
    const uint16_t *pooled, *norm;         // [groups, dim], [dim]
    const uint16_t *index_wk, *k_norm;     // [index_dim, dim], [index_dim]
    const float *cos, *sin;                // [groups, pairs]
    size_t groups, dim, index_dim, pairs;
    float eps;
    uint8_t *entry_codes, *entry_scales, *key_codes, *key_scales;
} ShoalFinishLatents;

// The indexer's queries in Q4i, [rows, heads, index_dim], and the weights of its heads times `scale`.
typedef struct ShoalIndexQueries {
    const uint8_t *qr_codes, *qr_scales;   // Q8 [rows, q_rank]
    const uint16_t *x, *weights_proj;      // [rows, dim], [heads, dim]
    ShoalFloat8 wq_b;                      // [heads * index_dim, q_rank]
    const float *cos, *sin;
    size_t rows, q_rank, dim, heads, index_dim, pairs;
    float scale;
    uint8_t *codes, *scales;
    uint16_t* weights;                     // [rows, heads]
} ShoalIndexQueries;

// Gathered table rows through Engram's projection and gate into the streams.
typedef struct ShoalEngramMemory {
    const uint8_t *row_codes, *row_scales;  // Q8 [rows * columns, width]
    ShoalFloat8 wkv;                        // [(num_streams + 1) * dim, columns * width]
    const uint16_t *streams, *q_weight, *k_weight;
    const uint8_t* image_mask;
    size_t rows, columns, width, num_streams, dim;
    float eps;
    uint16_t* streams_out;
} ShoalEngramMemory;

// The last norm and the head.
typedef struct ShoalLogits {
    const uint16_t* streams;
    const float* pre;
    const uint16_t *norm, *head;  // [dim], [vocabulary, dim]
    size_t rows, num_streams, dim, vocabulary;
    float eps;
    uint16_t* x;
    float* logits;
} ShoalLogits;

// One line an operator: its name and the struct it takes.
#define SHOAL_STAGES_OPERATORS(X)            \
    X(enter_sublayer, ShoalEnterSublayer)    \
    X(project_in, ShoalProjectIn)            \
    X(project_out, ShoalProjectOut)          \
    X(begin_layer, ShoalBeginLayer)          \
    X(attend_layer, ShoalAttendLayer)        \
    X(combine, ShoalCombine)                 \
    X(finish_latents, ShoalFinishLatents)    \
    X(index_queries, ShoalIndexQueries)      \
    X(engram_memory, ShoalEngramMemory)      \
    X(logits, ShoalLogits)
