// The bandwidth probe, compiled once per instruction set: what no kernel that reads the same bytes can beat.
//
// Every thread takes pieces of kPiece bytes and adds their words. A piece asks for the lines that come kFar bytes later
// (second-level hint) and kNear bytes later (first level), across the ends of pieces and never past its stretch. Words are
// integers, so the order of the sum changes nothing.
// Two cores of an AMD EPYC, AVX2, 12 of 384 experts at random, 2 threads: see docs/performance.md.
//
// No std templates here: the linker may keep one copy of a shared inline function, built for the wrong processor.
#include "kernels.h"
#include "parallel.inl"

namespace {

constexpr size_t kPiece = size_t{1} << 18, kLine = 64, kGroup = 4 * kLine;
constexpr size_t kFar = size_t{16} << 10, kNear = size_t{1} << 10;

// A line of words, anywhere in memory.
typedef uint64_t Words __attribute__((vector_size(kLine), aligned(1), may_alias));
typedef uint64_t Sums __attribute__((vector_size(kLine)));

inline void prefetch_group(const uint8_t* p, const uint8_t* end) {
    if (p + kGroup > end) return;
    for (size_t i = 0; i < kGroup; i += kLine) __builtin_prefetch(p + i, 0, 3);
}

inline void prefetch_group_far(const uint8_t* p, const uint8_t* end) {
    if (p + kGroup > end) return;
    for (size_t i = 0; i < kGroup; i += kLine) __builtin_prefetch(p + i, 0, 2);
}

// The words of p .. end, where `stretch_end` is as far as prefetching may look.
uint64_t sum_words(const uint8_t* p, const uint8_t* end, const uint8_t* stretch_end) {
    Sums sums[4] = {};
    for (; p + kGroup <= end; p += kGroup) {
        prefetch_group_far(p + kFar, stretch_end);
        prefetch_group(p + kNear, stretch_end);
        for (size_t i = 0; i < 4; ++i) sums[i] += *reinterpret_cast<const Words*>(p + i * kLine);
    }
    sums[0] += sums[1] + sums[2] + sums[3];
    uint64_t total = 0;
    for (size_t i = 0; i < kLine / sizeof(uint64_t); ++i) total += sums[0][i];
    while (p < end) {
        const size_t count = end - p < 8 ? static_cast<size_t>(end - p) : 8;
        uint64_t word = 0;
        __builtin_memcpy(&word, p, count);
        total += word;
        p += count;
    }
    return total;
}

}  // namespace

void SHOAL_NAME(stream_read)(const ShoalStreamRead* p, ShoalPool* pool) {
    const size_t pieces = (p->nbytes + kPiece - 1) / kPiece;
    *p->sum = 0;
    parallel(pool, p->count * pieces, [&](size_t index, size_t) {
        const uint8_t* stretch = p->base + p->starts[index / pieces];
        const size_t start = index % pieces * kPiece;
        const size_t end = start + kPiece < p->nbytes ? start + kPiece : p->nbytes;
        __atomic_fetch_add(p->sum, sum_words(stretch + start, stretch + end, stretch + p->nbytes), __ATOMIC_RELAXED);
    });
}
