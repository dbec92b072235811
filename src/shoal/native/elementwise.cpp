// The elementwise operators, compiled once per instruction set.
//
// No std templates here: the linker may keep one copy of a shared inline function, built for the wrong processor.
#include "kernels.h"
#include "lanes.h"
#include "parallel.inl"

namespace {

inline float reciprocal_root(float x) { return 1.0f / __builtin_sqrtf(x); }

void rms_norm_row(const ShoalRmsNorm* p, size_t row) {
    const uint16_t* x = p->x + row * p->columns;
    uint16_t* y = p->y + row * p->columns;
    Floats squares = broadcast(0.0f);
    size_t k = 0;
    for (; k + kLanes <= p->columns; k += kLanes) {
        const Floats value = load_bf16(x + k);
        squares = fma(value, value, squares);
    }
    if (k < p->columns) {
        const Floats value = load_bf16_part(x + k, p->columns - k);
        squares = fma(value, value, squares);
    }
    const float scale = reciprocal_root(sum(squares) / static_cast<float>(p->columns) + p->eps);
    for (k = 0; k + kLanes <= p->columns; k += kLanes)
        store_bf16(y + k, multiply(load_bf16(p->weight + k), multiply(load_bf16(x + k), broadcast(scale))));
    for (; k < p->columns; ++k) y[k] = bf16_of(bf16_value(p->weight[k]) * (bf16_value(x[k]) * scale));
}

}  // namespace

void SHOAL_NAME(rms_norm)(const ShoalRmsNorm* p, ShoalPool* pool) {
    parallel(pool, p->rows, [&](size_t row, size_t) { rms_norm_row(p, row); });
}
