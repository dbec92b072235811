// Rows sixteen columns at a time, whatever their number: each_lanes(columns, [&](size_t k, size_t count) { ... }) with
// count 16 but for the last columns, and loads and stores of `count` lanes.
#pragma once

#include "lanes.h"

namespace {

#define SHOAL_INLINE __attribute__((always_inline))

template <typename Body>
SHOAL_INLINE inline void each_lanes(size_t first, size_t end, const Body& body) {
    size_t k = first;
    for (; k + kLanes <= end; k += kLanes) body(k, kLanes);
    if (k < end) body(k, end - k);
}

SHOAL_INLINE inline Floats load(const float* p, size_t count) {
    return count == kLanes ? load(p) : load_part(p, count);
}
SHOAL_INLINE inline Floats load_bf16(const uint16_t* p, size_t count) {
    return count == kLanes ? load_bf16(p) : load_bf16_part(p, count);
}
SHOAL_INLINE inline void store(float* p, Floats a, size_t count) {
    if (count == kLanes) return store(p, a);
    float values[kLanes];
    store(values, a);
    __builtin_memcpy(p, values, count * sizeof(float));
}
SHOAL_INLINE inline void store_bf16(uint16_t* p, Floats a, size_t count) {
    if (count == kLanes) return store_bf16(p, a);
    uint16_t values[kLanes];
    store_bf16(values, a);
    __builtin_memcpy(p, values, count * sizeof(uint16_t));
}

}  // namespace
