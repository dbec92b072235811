// The elementwise operators, compiled once per instruction set; one file a noun.
//
// No std templates here: the linker may keep one copy of a shared inline function, built for the wrong processor.
#include "kernels.h"
#include "lanes.h"
#include "parallel.inl"

// Each may build on those above it.
#include "elementary.inl"
#include "quantize.inl"
#include "norm.inl"
#include "hyper_connections.inl"
#include "pooling.inl"
#include "engram.inl"
#include "routing.inl"

void SHOAL_NAME(quantize_q8)(const ShoalQuantize* p, ShoalPool* pool) {
    each_group<kGroup>(p, pool,
                       [&](const uint16_t* x, size_t g) { q8_group(x, p->codes + g * kGroup, p->scales + g); });
}

void SHOAL_NAME(quantize_q4i)(const ShoalQuantize* p, ShoalPool* pool) {
    each_group<kGroup>(p, pool,
                       [&](const uint16_t* x, size_t g) { q4i_group(x, p->codes + g * kGroup / 2, p->scales + g); });
}

void SHOAL_NAME(quantize_q4c)(const ShoalQuantize* p, ShoalPool* pool) {
    each_group<kFineGroup>(
        p, pool, [&](const uint16_t* x, size_t g) { q4c_group(x, p->codes + g * kFineGroup / 2, p->scales + g); });
}
