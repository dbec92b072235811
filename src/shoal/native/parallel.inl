// Loops on a pool: parallel(pool, count, [&](size_t index, size_t worker) { ... }).
#pragma once

#include "pool.h"

namespace {

template <typename Body>
inline void parallel(ShoalPool* pool, size_t count, const Body& body) {
    shoal_pool_run(
        pool, count,
        [](void* context, size_t index, size_t worker) { (*static_cast<const Body*>(context))(index, worker); },
        const_cast<Body*>(&body));
}

// Memory of the pool until the end of the scope.
struct Scratch {
    explicit Scratch(ShoalPool* pool) : pool(pool), mark(shoal_scratch_mark(pool)) {}
    ~Scratch() { shoal_scratch_release(pool, mark); }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    template <typename T>
    T* take(size_t count) {
        return static_cast<T*>(shoal_scratch(pool, count * sizeof(T)));
    }
    ShoalPool* pool;
    size_t mark;
};

}  // namespace
