// The best of a row of scores: the smallest score that belongs to the best `count` is found by halving the range of scores,
// counting how many lie above; then one pass takes them in ascending order, and the first of those equal to it.
// Of a long row only those are counted that reach the count-th best of the maxima of its runs.
//
// Scores are bf16 as whole numbers of 16 bits in the same order.

namespace {

constexpr int16_t kUnreachable = static_cast<int16_t>(0xff80 ^ 0x7fff);  // -infinity
constexpr int16_t kNotANumber = static_cast<int16_t>(0xffc0 ^ 0x7fff);
constexpr int16_t kForced = 0x7fff;  // above +infinity
constexpr size_t kCounted = 1 << 15, kSkipped = 16;
constexpr size_t kRun = 32;

// -0 counts as +0. Every NaN is the same one, below -infinity: its sign differs between processors.
inline int16_t ordered(uint16_t bits) {
    const int16_t score = static_cast<int16_t>(bits == 0x8000 ? 0 : bits ^ (bits & 0x8000 ? 0x7fff : 0));
    return (bits & 0x7fff) > 0x7f80 ? kNotANumber : score;
}
inline uint16_t bits_of_ordered(int16_t score) { return static_cast<uint16_t>(score ^ (score < 0 ? 0x7fff : 0)); }

inline size_t count_above(const int16_t* scores, size_t n, int16_t bound) {
    size_t total = 0;
    for (size_t first = 0; first < n; first += kCounted) {
        const size_t end = n - first < kCounted ? n : first + kCounted;
        uint16_t some = 0;
        for (size_t i = first; i < end; ++i) some = static_cast<uint16_t>(some + (scores[i] > bound));
        total += some;
    }
    return total;
}

// The best are those above `bound` and the first `equal` of those equal to it.
struct Threshold {
    int16_t bound;
    size_t equal;
};

inline Threshold halve(const int16_t* scores, size_t n, size_t count) {
    if (n <= count || count_above(scores, n, kUnreachable) <= count) return {kUnreachable, 0};
    int above = kUnreachable, bound = kForced;  // more than `count` lie above the one, at most `count` above the other
    while (bound - above > 1) {
        const int middle = (above + bound) >> 1;
        const size_t found = count_above(scores, n, static_cast<int16_t>(middle));
        if (found == count) return {static_cast<int16_t>(middle), 0};
        (found > count ? above : bound) = middle;
    }
    return {static_cast<int16_t>(bound), count - count_above(scores, n, static_cast<int16_t>(bound))};
}

inline int16_t highest_of(const int16_t* scores, size_t n) {
    int16_t highest = kUnreachable;
    for (size_t i = 0; i < n; ++i) highest = scores[i] > highest ? scores[i] : highest;
    return highest;
}

constexpr size_t room_to_choose(size_t n) { return n + n / kRun + 1; }

// Room: room_to_choose(n) scores.
inline Threshold threshold_of_best(const int16_t* scores, size_t n, size_t count, int16_t* room) {
    if (count == 0) return {kForced, 0};
    const size_t runs = n / kRun;
    if (runs <= count) return halve(scores, n, count);
    int16_t *maxima = room, *kept = room + runs;
    for (size_t run = 0; run < runs; ++run) maxima[run] = highest_of(scores + run * kRun, kRun);
    // At least `count` runs reach this, so the best do.
    const Threshold runs_kept = halve(maxima, runs, count);
    const int bound = runs_kept.bound + (runs_kept.equal == 0);
    size_t num_kept = 0;
    for (size_t run = 0; run <= runs; ++run) {
        if (run < runs && maxima[run] < bound) continue;
        const size_t end = run < runs ? (run + 1) * kRun : n;
        for (size_t i = run * kRun; i < end; ++i) {
            kept[num_kept] = scores[i];
            num_kept += scores[i] >= bound;
        }
    }
    if (num_kept <= count) return {static_cast<int16_t>(bound - 1), 0};
    return halve(kept, num_kept, count);
}

// Whether any of kSkipped scores reaches the bound.
inline bool any_from(const int16_t* scores, int16_t bound) {
    int16_t any = 0;
    for (size_t i = 0; i < kSkipped; ++i) any = static_cast<int16_t>(any | (scores[i] >= bound));
    return any != 0;
}

// Calls take(i) for the best, ascending.
template <typename Take>
inline void each_best(const int16_t* scores, size_t n, Threshold best, const Take& take) {
    for (size_t first = 0; first < n; first += kSkipped) {
        const size_t end = n - first < kSkipped ? n : first + kSkipped;
        if (end - first == kSkipped && !any_from(scores + first, best.bound)) continue;
        for (size_t i = first; i < end; ++i) {
            const bool equal = scores[i] == best.bound && best.equal > 0;
            best.equal -= equal;
            if (equal || scores[i] > best.bound) take(i);
        }
    }
}

inline void select_best(const int16_t* scores, size_t n, size_t count, int16_t* room, int64_t* selected) {
    size_t taken = 0;
    each_best(scores, n, threshold_of_best(scores, n, count, room),
              [&](size_t i) { selected[taken++] = static_cast<int64_t>(i); });
    while (taken < count) selected[taken++] = -1;
}

// Marks the members of the best blocks among `keys` positions, of which the first n are visible. Room: room_to_choose(blocks) + blocks
// scores.
inline void mark_candidates(const int16_t* scores, size_t n, const ShoalIndexSelect* p, int16_t* room, uint8_t* marks) {
    __builtin_memset(marks, 0, p->keys);
    const size_t blocks = (n + p->block - 1) / p->block;
    int16_t* best = room + room_to_choose(blocks);
    for (size_t b = 0; b < blocks; ++b) {
        best[b] = kUnreachable;
        const size_t end = n - b * p->block < p->block ? n : (b + 1) * p->block;
        for (size_t i = b * p->block; i < end; ++i) best[b] = scores[i] > best[b] ? scores[i] : best[b];
    }
    // The block of the newest visible position is kept whatever it scores.
    if (blocks) best[blocks - 1] = kForced;
    each_best(best, blocks, threshold_of_best(best, blocks, p->block_count, room), [&](size_t b) {
        const size_t first = b * p->block, members = p->keys - first < p->block ? p->keys - first : p->block;
        __builtin_memset(marks + first, 1, members);
    });
}

}  // namespace
