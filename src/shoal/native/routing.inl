// The router's tail: scores, the best experts, their weights (spec 4.6).
//
// One pass keeps the best `active` + 1 in order, an equal later score staying behind: ties to the lower expert, and the
// last one kept is the runner-up of the margin. The weights' total is the halving sum of ops/wide.py in float64,
// rounded once.
// Measured 2026-11-29, one Zen 3 thread, AVX2: 384 experts in 3.7 us.
#pragma once

#include "elementary.inl"

namespace {

// Room of one thread.
struct RouteRoom {
    float *scores, *best;
    double* terms;
    int64_t* ids;
};

// s = sqrt(softplus(z)), and s + bias in `biased`.
inline void score_experts(const float* logits, const float* bias, size_t experts, float* scores, float* biased) {
    each_lanes(0, experts, [&](size_t k, size_t count) {
        const Floats score = square_root(softplus_lanes(load(logits + k, count)));
        store(scores + k, score, count);
        store(biased + k, add(score, load(bias + k, count)), count);
    });
}

// The `kept` largest of `biased`, largest first.
inline void keep_best(const float* biased, size_t experts, size_t kept, float* best, int64_t* ids) {
    size_t filled = 0;
    for (size_t e = 0; e < experts; ++e) {
        const float value = biased[e];
        if (filled == kept && !(value > best[kept - 1])) continue;
        size_t place = filled < kept ? filled++ : kept - 1;
        for (; place > 0 && value > best[place - 1]; --place) {
            best[place] = best[place - 1];
            ids[place] = ids[place - 1];
        }
        best[place] = value;
        ids[place] = static_cast<int64_t>(e);
    }
}

inline double halving_total(double* terms, size_t count) {
    while (count > 1) {
        const size_t kept = (count + 1) / 2;
        for (size_t i = 0; i < count - kept; ++i) terms[i] += terms[kept + i];
        count = kept;
    }
    return terms[0];
}

inline void route_row(const ShoalRoute* p, size_t row, const RouteRoom& room) {
    constexpr float weight_floor = 1e-20f;
    const size_t experts = p->experts, active = p->active, kept = active < experts ? active + 1 : active;
    const float* bias = p->image_mask && p->image_mask[row] ? p->bias_vl : p->bias;
    float *scores = room.scores, *biased = room.scores + experts;
    score_experts(p->logits + row * experts, bias, experts, scores, biased);
    keep_best(biased, experts, kept, room.best, room.ids);
    for (size_t i = 0; i < active; ++i) room.terms[i] = static_cast<double>(scores[room.ids[i]]);
    const float total = static_cast<float>(halving_total(room.terms, active)) + weight_floor;
    for (size_t i = 0; i < active; ++i) {
        p->expert_ids[row * active + i] = room.ids[i];
        p->weights[row * active + i] = scores[room.ids[i]] / total * p->route_scale;
    }
    p->margin[row] = room.best[active - 1] - (kept > active ? room.best[active] : -__builtin_inff());
}

}  // namespace

void SHOAL_NAME(route)(const ShoalRoute* p, ShoalPool* pool) {
    Scratch scratch(pool);
    const size_t threads = shoal_pool_threads(pool), kept = p->active + 1;
    float* scores = scratch.take<float>(threads * 2 * p->experts);
    float* best = scratch.take<float>(threads * kept);
    double* terms = scratch.take<double>(threads * kept);
    int64_t* ids = scratch.take<int64_t>(threads * kept);
    parallel(pool, p->rows, [&](size_t row, size_t worker) {
        const size_t at = worker * kept;
        route_row(p, row, {scores + worker * 2 * p->experts, best + at, terms + at, ids + at});
    });
}
