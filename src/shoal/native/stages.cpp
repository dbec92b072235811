// The stages, compiled once per instruction set: each is the run of operators that its torch twin in `ops` composes.
//
// No std templates here: the linker may keep one copy of a shared inline function, built for the wrong processor.
#include "kernels.h"
#include "lanes.h"
#include "parallel.inl"

namespace {

constexpr size_t kGroupQ8 = 32;

struct Q8 {
    uint8_t *codes, *scales;
};

Q8 take_q8(Scratch& room, size_t rows, size_t columns) {
    return {room.take<uint8_t>(rows * columns), room.take<uint8_t>(rows * (columns / kGroupQ8))};
}

void return_to_streams(const ShoalReturn& back, size_t rows, size_t dim, ShoalPool* pool) {
    const ShoalExpand expand = {back.x,          back.streams, back.post, back.comb, back.streams_out, rows,
                                back.num_streams, dim};
    SHOAL_NAME(expand)(&expand, pool);
}

void run_router(const ShoalRouter& router, const uint16_t* x, size_t rows, size_t dim, ShoalPool* pool) {
    Scratch room(pool);
    float* logits = room.take<float>(rows * router.experts);
    const ShoalBf16Linear linear = {x, router.gate, rows, router.experts, dim, logits, nullptr};
    SHOAL_NAME(bf16_linear)(&linear, pool);
    const ShoalRoute route = {logits,         router.bias,   router.bias_vl, router.image_mask, router.expert_ids,
                              router.weights, router.margin, rows,           router.experts,    router.active,
                              router.scale};
    SHOAL_NAME(route)(&route, pool);
}

}  // namespace

void SHOAL_NAME(enter_sublayer)(const ShoalEnterSublayer* p, ShoalPool* pool) {
    Scratch room(pool);
    const size_t n = p->num_streams, coefficients = n * (n + 2);
    float *u = room.take<float>(p->rows * coefficients), *mean_square = room.take<float>(p->rows);
    const ShoalFloat32Linear linear = {p->streams, p->fn, p->rows, coefficients, n * p->dim, u, mean_square};
    SHOAL_NAME(float32_linear)(&linear, pool);
    const ShoalSplitMix mix = {u,       mean_square, p->scale, p->base,       p->next_pre, p->post,
                               p->comb, p->rows,     n,        p->iterations, p->hc_eps,   p->norm_eps};
    SHOAL_NAME(split_mix)(&mix, pool);
    const ShoalCollapseNorm collapse = {p->streams, p->pre, p->norm, p->x,        p->x_codes,
                                        p->x_scales, p->rows, n,      p->dim,      p->norm_eps};
    SHOAL_NAME(collapse_norm)(&collapse, pool);
    if (p->router.gate) run_router(p->router, p->x, p->rows, p->dim, pool);
}

void SHOAL_NAME(project_in)(const ShoalProjectIn* p, ShoalPool* pool) {
    Scratch room(pool);
    uint16_t *low = room.take<uint16_t>(p->rows * p->q_rank), *kv = room.take<uint16_t>(p->rows * p->head_dim);
    const ShoalFloat8Output both[] = {{p->wq_a, p->q_rank, low, p->q_rank}, {p->wkv, p->head_dim, kv, p->head_dim}};
    const ShoalFloat8Linears first = {p->x_codes, p->x_scales, both, 2, p->rows, p->dim};
    SHOAL_NAME(float8_linears)(&first, pool);
    const ShoalRmsNormQ8 q_norm = {low,     p->q_norm, nullptr, p->qr_codes, p->qr_scales,
                                   p->rows, p->q_rank, p->eps};
    SHOAL_NAME(rms_norm_q8)(&q_norm, pool);
    const size_t width = p->heads * p->head_dim;
    const ShoalFloat8Linear up = {p->qr_codes, p->qr_scales, p->wq_b, p->rows, width, p->q_rank, p->q, width};
    SHOAL_NAME(float8_linear)(&up, pool);
    const ShoalRotateRows turn_q = {p->q, p->cos, p->sin, p->rows, p->heads, p->head_dim, p->pairs, 0, p->q};
    SHOAL_NAME(rotate_rows)(&turn_q, pool);
    const ShoalRmsNorm kv_norm = {kv, p->kv_norm, kv, p->rows, p->head_dim, p->eps};
    SHOAL_NAME(rms_norm)(&kv_norm, pool);
    const ShoalRotateRows turn_kv = {kv, p->cos, p->sin, p->rows, 1, p->head_dim, p->pairs, 0, kv};
    SHOAL_NAME(rotate_rows)(&turn_kv, pool);
    const ShoalQuantize quantize = {kv, p->kv_codes, p->kv_scales, p->rows, p->head_dim};
    SHOAL_NAME(quantize_q8)(&quantize, pool);
}

void SHOAL_NAME(project_out)(const ShoalProjectOut* p, ShoalPool* pool) {
    Scratch room(pool);
    const size_t width = p->groups * p->outputs;
    uint16_t* t = room.take<uint16_t>(p->rows * width);
    const Q8 t_q8 = take_q8(room, p->rows, width);
    const ShoalGroupedLinear grouped = {p->o, p->wo_a, p->rows, p->groups, p->outputs, p->inputs, t};
    SHOAL_NAME(grouped_linear)(&grouped, pool);
    const ShoalQuantize quantize = {t, t_q8.codes, t_q8.scales, p->rows, width};
    SHOAL_NAME(quantize_q8)(&quantize, pool);
    const ShoalFloat8Linear out = {t_q8.codes, t_q8.scales, p->wo_b, p->rows, p->dim, width, p->back.x, p->dim};
    SHOAL_NAME(float8_linear)(&out, pool);
    return_to_streams(p->back, p->rows, p->dim, pool);
}

void SHOAL_NAME(begin_layer)(const ShoalBeginLayer* p, ShoalPool* pool) {
    SHOAL_NAME(enter_sublayer)(&p->enter, pool);
    SHOAL_NAME(project_in)(&p->project, pool);
}

void SHOAL_NAME(attend_layer)(const ShoalAttendLayer* p, ShoalPool* pool) {
    SHOAL_NAME(attend_step)(&p->attend, pool);
    SHOAL_NAME(project_out)(&p->out, pool);
    SHOAL_NAME(enter_sublayer)(&p->mixture, pool);
}

void SHOAL_NAME(combine)(const ShoalCombine* p, ShoalPool* pool) {
    if (p->last.count) SHOAL_NAME(routed_experts)(&p->last, pool);
    Scratch room(pool);
    uint16_t *gate = room.take<uint16_t>(p->rows * p->inter), *up = room.take<uint16_t>(p->rows * p->inter);
    uint16_t* shared = room.take<uint16_t>(p->rows * p->dim);
    const Q8 inner = take_q8(room, p->rows, p->inter);
    const ShoalFloat8Output both[] = {{p->w1, p->inter, gate, p->inter}, {p->w3, p->inter, up, p->inter}};
    const ShoalFloat8Linears first = {p->x_codes, p->x_scales, both, 2, p->rows, p->dim};
    SHOAL_NAME(float8_linears)(&first, pool);
    const ShoalSwiglu swiglu = {gate, up, p->rows, p->inter, nullptr, p->limit, inner.codes, inner.scales};
    SHOAL_NAME(swiglu_q8)(&swiglu, pool);
    const ShoalFloat8Linear down = {inner.codes, inner.scales, p->w2, p->rows, p->dim, p->inter, shared, p->dim};
    SHOAL_NAME(float8_linear)(&down, pool);
    const ShoalExpertSum sum = {p->outputs, p->slots, shared, p->rows, p->active, p->dim, p->back.x};
    SHOAL_NAME(sum_experts)(&sum, pool);
    return_to_streams(p->back, p->rows, p->dim, pool);
}

void SHOAL_NAME(finish_latents)(const ShoalFinishLatents* p, ShoalPool* pool) {
    Scratch room(pool);
    uint16_t *latents = room.take<uint16_t>(p->groups * p->dim), *keys = room.take<uint16_t>(p->groups * p->index_dim);
    const ShoalRmsNorm norm = {p->pooled, p->norm, latents, p->groups, p->dim, p->eps};
    SHOAL_NAME(rms_norm)(&norm, pool);
    // An index key is the latent before rope and before quantisation.
    const ShoalBf16Linear project = {latents, p->index_wk, p->groups, p->index_dim, p->dim, nullptr, keys};
    SHOAL_NAME(bf16_linear)(&project, pool);
    const ShoalRmsNorm key_norm = {keys, p->k_norm, keys, p->groups, p->index_dim, p->eps};
    SHOAL_NAME(rms_norm)(&key_norm, pool);
    const ShoalRotateRows turn_keys = {keys, p->cos, p->sin, p->groups, 1, p->index_dim, p->pairs, 0, keys};
    SHOAL_NAME(rotate_rows)(&turn_keys, pool);
    const ShoalQuantize store_keys = {keys, p->key_codes, p->key_scales, p->groups, p->index_dim};
    SHOAL_NAME(quantize_q4i)(&store_keys, pool);
    const ShoalRotateRows turn = {latents, p->cos, p->sin, p->groups, 1, p->dim, p->pairs, 0, latents};
    SHOAL_NAME(rotate_rows)(&turn, pool);
    const ShoalQuantize store = {latents, p->entry_codes, p->entry_scales, p->groups, p->dim};
    SHOAL_NAME(quantize_q4c)(&store, pool);
}

void SHOAL_NAME(index_queries)(const ShoalIndexQueries* p, ShoalPool* pool) {
    Scratch room(pool);
    const size_t width = p->heads * p->index_dim;
    uint16_t* q = room.take<uint16_t>(p->rows * width);
    const ShoalFloat8Linear up = {p->qr_codes, p->qr_scales, p->wq_b, p->rows, width, p->q_rank, q, width};
    SHOAL_NAME(float8_linear)(&up, pool);
    const ShoalRotateRows turn = {q, p->cos, p->sin, p->rows, p->heads, p->index_dim, p->pairs, 0, q};
    SHOAL_NAME(rotate_rows)(&turn, pool);
    const ShoalQuantize quantize = {q, p->codes, p->scales, p->rows * p->heads, p->index_dim};
    SHOAL_NAME(quantize_q4i)(&quantize, pool);
    const ShoalBf16Linear weigh = {p->x, p->weights_proj, p->rows, p->heads, p->dim, nullptr, p->weights};
    SHOAL_NAME(bf16_linear)(&weigh, pool);
    for (size_t i = 0; i < p->rows * p->heads; ++i) p->weights[i] = bf16_of(bf16_value(p->weights[i]) * p->scale);
}

void SHOAL_NAME(engram_memory)(const ShoalEngramMemory* p, ShoalPool* pool) {
    Scratch room(pool);
    const size_t inputs = p->columns * p->width, outputs = (p->num_streams + 1) * p->dim;
    const Q8 memory = take_q8(room, p->rows, inputs);
    uint16_t* projected = room.take<uint16_t>(p->rows * outputs);
    const ShoalGatherRows gather = {p->row_codes, p->row_scales, nullptr, memory.codes, memory.scales,
                                    p->rows * p->columns, p->width};
    SHOAL_NAME(gather_rows)(&gather, pool);
    const ShoalFloat8Linear linear = {memory.codes, memory.scales, p->wkv,    p->rows,
                                      outputs,      inputs,        projected, outputs};
    SHOAL_NAME(float8_linear)(&linear, pool);
    const ShoalEngramGate gate = {p->streams,     projected, p->q_weight,    p->k_weight, p->image_mask,
                                  p->streams_out, p->rows,   p->num_streams, p->dim,      p->eps};
    SHOAL_NAME(engram_gate)(&gate, pool);
}

void SHOAL_NAME(logits)(const ShoalLogits* p, ShoalPool* pool) {
    const ShoalCollapseNorm collapse = {p->streams, p->pre,  p->norm,        p->x,   nullptr,
                                        nullptr,    p->rows, p->num_streams, p->dim, p->eps};
    SHOAL_NAME(collapse_norm)(&collapse, pool);
    const ShoalBf16Linear head = {p->x, p->head, p->rows, p->vocabulary, p->dim, p->logits, nullptr};
    SHOAL_NAME(bf16_linear)(&head, pool);
}
