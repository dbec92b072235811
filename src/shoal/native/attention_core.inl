// One block of keys for 16 heads, or several times 16: scores, softmax against the running maximum, values.
//
// Lanes are heads: `tile` adds products of broadcast key values with 16 heads, one chain of fma an output. A tile's
// shape is chosen for the registers there are and is no part of the order.

namespace {

#if defined(__AVX512F__)
constexpr size_t kTileRows = 12, kTilePanels = 2;
#else
constexpr size_t kTileRows = 6, kTilePanels = 1;
#endif
constexpr size_t kSmallTileRows = 4;
constexpr size_t kDimsAtOnce = 256 / kTilePanels;   // of queries, so that they stay in the first-level cache: 16 KiB
constexpr float kLowestMaximum = -1e30f;

// `panel` = 16 heads. All arrays are [panels][..][16].
struct Heads {
    float *queries, *sums;              // [dim][16]: q, and the accumulated values
    float* probabilities;               // [64][16]
    float *maximum, *denominator;       // [16]
    float* kept;                        // [16]: e^(old - new maximum)
};

enum Start { kZero, kSum, kKept };

// c[r][16] of every panel = start + sum over k < depth of a[r * row_step + k * step] * b[k][16], k ascending.
// It starts at 0, c, or c * kept.
template <Start kStart, size_t kRows, size_t kPanels>
__attribute__((noinline)) void tile(const float* a, size_t row_step, size_t step, const float* b, size_t b_panel,
                                    size_t depth, float* c, size_t c_panel, const float* kept) {
    Floats total[kRows][kPanels];
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r)
#pragma GCC unroll 2
        for (size_t n = 0; n < kPanels; ++n)
            total[r][n] = kStart == kZero ? broadcast(0.0f) : load(c + n * c_panel + r * kLanes);
    if (kStart == kKept)
#pragma GCC unroll 16
        for (size_t r = 0; r < kRows; ++r)
#pragma GCC unroll 2
            for (size_t n = 0; n < kPanels; ++n) total[r][n] = multiply(total[r][n], load(kept + n * kLanes));
    for (size_t k = 0; k < depth; ++k) {
        Floats heads[kPanels];
#pragma GCC unroll 2
        for (size_t n = 0; n < kPanels; ++n) heads[n] = load(b + n * b_panel + k * kLanes);
#pragma GCC unroll 16
        for (size_t r = 0; r < kRows; ++r) {
            const Floats value = broadcast(a[r * row_step + k * step]);
#pragma GCC unroll 2
            for (size_t n = 0; n < kPanels; ++n) total[r][n] = fma(value, heads[n], total[r][n]);
        }
    }
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r)
#pragma GCC unroll 2
        for (size_t n = 0; n < kPanels; ++n) store(c + n * c_panel + r * kLanes, total[r][n]);
}

template <Start kStart, size_t kPanels>
inline void tiles(const float* a, size_t rows, size_t row_step, size_t step, const float* b, size_t b_panel,
                  size_t depth, float* c, size_t c_panel, const float* kept) {
    size_t r = 0;
    for (; r + kTileRows <= rows; r += kTileRows)
        tile<kStart, kTileRows, kPanels>(a + r * row_step, row_step, step, b, b_panel, depth, c + r * kLanes, c_panel,
                                         kept);
    for (; r + kSmallTileRows <= rows; r += kSmallTileRows)
        tile<kStart, kSmallTileRows, kPanels>(a + r * row_step, row_step, step, b, b_panel, depth, c + r * kLanes,
                                              c_panel, kept);
    for (; r < rows; ++r)
        tile<kStart, 1, kPanels>(a + r * row_step, row_step, step, b, b_panel, depth, c + r * kLanes, c_panel, kept);
}

// Products become probabilities, rounded to bf16; the denominator is of unrounded ones, added in order.
void softmax_panel(float* scores, size_t count, float scale, float* maximum_at, float* denominator_at, float* kept_at) {
    const Floats old = load(maximum_at);
    Floats highest = old;
    for (size_t j = 0; j < count; ++j) {
        const Floats score = multiply(load(scores + j * kLanes), broadcast(scale));
        store(scores + j * kLanes, score);
        highest = maximum(score, highest);
    }
    const Floats kept = exp_down(subtract(old, highest));
    Floats total = broadcast(0.0f);
    for (size_t j = 0; j < count; ++j) {
        const Floats p = exp_down(subtract(load(scores + j * kLanes), highest));
        total = add(total, p);
        uint16_t rounded[kLanes];
        store_bf16(rounded, p);
        store(scores + j * kLanes, load_bf16(rounded));
    }
    store(maximum_at, highest);
    store(kept_at, kept);
    store(denominator_at, fma(load(denominator_at), kept, total));
}

template <size_t kPanels>
void attend_panels(const ShoalAttention* p, const Heads& heads, const float* keys, size_t count, bool is_first) {
    const size_t stride = key_stride(p), values = p->dim * kLanes, scores = kColumns * kLanes;
    for (size_t k = 0; k < p->dim; k += kDimsAtOnce) {
        const float* queries = heads.queries + k * kLanes;
        const size_t depth = least(kDimsAtOnce, p->dim - k);
        if (k == 0)
            tiles<kZero, kPanels>(keys, count, stride, 1, queries, values, depth, heads.probabilities, scores, nullptr);
        else
            tiles<kSum, kPanels>(keys + k, count, stride, 1, queries, values, depth, heads.probabilities, scores,
                                 nullptr);
    }
    for (size_t n = 0; n < kPanels; ++n)
        softmax_panel(heads.probabilities + n * scores, count, p->scale, heads.maximum + n * kLanes,
                      heads.denominator + n * kLanes, heads.kept + n * kLanes);
    // The first block's accumulator is zero whatever it is multiplied by.
    if (is_first)
        tiles<kZero, kPanels>(keys, p->dim, 1, stride, heads.probabilities, scores, count, heads.sums, values, nullptr);
    else
        tiles<kKept, kPanels>(keys, p->dim, 1, stride, heads.probabilities, scores, count, heads.sums, values,
                              heads.kept);
}

inline Heads from_panel(const ShoalAttention* p, const Heads& heads, size_t panel) {
    const size_t values = panel * p->dim * kLanes, rows = panel * kLanes;
    return {heads.queries + values,
            heads.sums + values,
            heads.probabilities + panel * kColumns * kLanes,
            heads.maximum + rows,
            heads.denominator + rows,
            heads.kept + rows};
}

inline size_t panel_heads(const ShoalAttention* p, size_t panel) { return least(kLanes, p->heads - panel * kLanes); }

// Queries of one panel to lanes, missing heads being zero.
void start_panel(const ShoalAttention* p, size_t token, size_t panel, const Heads& heads) {
    const uint16_t* q = p->q + (token * p->heads + panel * kLanes) * p->dim;
    const size_t count = panel_heads(p, panel);
    for (size_t k = 0; k < p->dim; ++k)
        for (size_t head = 0; head < kLanes; ++head)
            heads.queries[k * kLanes + head] = head < count ? bf16_value(q[head * p->dim + k]) : 0.0f;
    store(heads.maximum, broadcast(kLowestMaximum));
    store(heads.denominator, broadcast(0.0f));
}

// Results of one panel: bf16, rotated back, bf16.
void finish_panel(const ShoalAttention* p, size_t token, size_t panel, const Heads& heads, bool has_keys) {
    uint16_t* y = p->y + (token * p->heads + panel * kLanes) * p->dim;
    const size_t count = panel_heads(p, panel), kept = p->dim - 2 * p->pairs;
    float sinks[kLanes] = {};
    __builtin_memcpy(sinks, p->sink + panel * kLanes, count * sizeof(float));
    const Floats sink = exp_lanes(subtract(load(sinks), load(heads.maximum)));
    const Floats denominator = add(load(heads.denominator), sink);
    const float *cos = p->cos + token * p->pairs, *sin = p->sin + token * p->pairs;
    uint16_t values[2][kLanes];
    for (size_t k = 0; k < p->dim; k += 2) {
        for (size_t i = 0; i < 2; ++i) {
            const Floats sum = has_keys ? load(heads.sums + (k + i) * kLanes) : broadcast(0.0f);
            store_bf16(values[i], divide(sum, denominator));
        }
        if (k >= kept) {
            const Floats a = load_bf16(values[0]), b = load_bf16(values[1]);
            const Floats c = broadcast(cos[(k - kept) / 2]), s = broadcast(-sin[(k - kept) / 2]);
            store_bf16(values[0], subtract(multiply(a, c), multiply(b, s)));
            store_bf16(values[1], add(multiply(a, s), multiply(b, c)));
        }
        for (size_t head = 0; head < count; ++head) {
            y[head * p->dim + k] = values[0][head];
            y[head * p->dim + k + 1] = values[1][head];
        }
    }
}

}  // namespace
