// The window rings that attention reads, and what a chunk's rows replace in them.

namespace {

// Rows that come into the ring: the last `count` of a chunk, from position `first` on.
struct Written {
    explicit Written(const ShoalAttention* p)
        : count(least(p->tokens, p->window)), skipped(p->tokens - count), first(static_cast<size_t>(p->position) + skipped) {}
    size_t count, skipped, first;
};

inline void copy_row(const ShoalRing& to, size_t to_row, const uint8_t* codes, const uint8_t* scales, size_t row,
                     size_t dim) {
    const size_t groups = dim / kQ8Group;
    __builtin_memcpy(to.codes + to_row * dim, codes + row * dim, dim);
    __builtin_memcpy(to.scales + to_row * groups, scales + row * groups, groups);
}

void save_replaced(const ShoalAttendStep* p) {
    size_t saved = 0;
    for (size_t i = 0; i < p->count; ++i) {
        const ShoalAttention* one = p->sequences + i;
        const Written rows(one);
        for (size_t row = 0; row < rows.count; ++row)
            copy_row(p->replaced, saved++, p->rings[i].codes, p->rings[i].scales, (rows.first + row) % one->window,
                     one->dim);
    }
}

void write_ring(const ShoalAttention* p, const ShoalRing& ring) {
    const Written rows(p);
    for (size_t row = 0; row < rows.count; ++row)
        copy_row(ring, (rows.first + row) % p->window, p->own_codes, p->own_scales, rows.skipped + row, p->dim);
}

}  // namespace
