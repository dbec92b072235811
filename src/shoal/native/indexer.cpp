// Indexer scores and their selection, compiled once per instruction set.
//
// A score is sum_h bf16(w_h * bf16(relu(q_h . k))), heads ascending in float32 from +0, rounded to bf16. The dot product
// is exact: E2M1 digits (values * 2, in -12..12) multiply as int8, a block of 32 sums to a whole number, the four blocks
// are shifted by what their power-of-two scales exceed the lowest and add up to a whole number below 2^24. That is a
// float32, rounded to bf16 once. The lowest scales wait: the head's in its weight, the key's until the heads are summed.
// Heads and keys whose scales do not fit go the long way (index_careful.inl), with the same result.
//
// Threads split keys, then tokens.
//
// Measured 2026-11-29, two threads of an EPYC (Zen 3) that shares its cores, AVX2, 32 heads of 128: one token 49 ns a key
// at 64k keys, 128 tokens 38 ns a key at 16k; choosing 512 takes 15 us of 4k, 75 us of 64k, 0.6 ms of 1M scores. The AVX2
// path is bound by instructions: 344 vector operations a key, of which that machine does about 5.5 G/s a thread.
#include "kernels.h"
#include "lanes.h"
#include "pages.inl"
#include "parallel.inl"

#include "index_query.inl"
#if defined(__AVX512F__)
#include "index_dots_avx512.inl"
#elif defined(__AVX2__)
#include "index_dots_avx2.inl"
#else
#include "index_dots_portable.inl"
#endif
// Each builds on those above it.
#include "index_head.inl"
#include "index_keys.inl"
#include "index_careful.inl"
#include "index_choose.inl"

namespace {

constexpr size_t kMostTokens = 64, kLeastTokens = 8;  // scored together
constexpr size_t kScoresAtOnce = size_t{1} << 21;     // 4 MiB of scores
constexpr size_t kTile = 4 * kGroup;                  // keys decoded together: half of first-level cache
constexpr size_t kMostPiece = 16 * kTile, kPiecesPerThread = 8;
constexpr int kTotalBits = 24, kBlockBits = 13;  // 32 products of up to 144 are below 2^13

// What one call works on: `tokens` tokens from `first` on, their queries, and a row of scores for each.
struct Slab {
    const ShoalIndexSelect* p;
    size_t first, tokens, stride;
    Query* queries;
    int16_t* scores;
    int most_span;  // of a head's and a key's scales together, so that a total has 24 bits
};

inline size_t visible_keys(const ShoalIndexSelect* p, size_t token) {
    const int64_t visible = p->visible[token];
    return visible <= 0 ? 0 : static_cast<size_t>(visible) < p->keys ? static_cast<size_t>(visible) : p->keys;
}

// Nearest even bf16 of lanes whose magnitude m in [2^e, 2^(e+1)) is normal: 1.5 * 2^(e+16) + m has the spacing of bf16.
inline Floats rounded(Floats x) {
    const Floats power = leading_power(x);
    return fma(power, broadcast(-0x1.8p16f), fma(power, broadcast(0x1.8p16f), x));
}

// Adds the heads' products with 16 keys, over the keys' scales.
inline Floats add_bundle(const Keys& keys, const Query& query, size_t head, Floats score) {
    Ints total[kBundle];
    for (size_t h = 0; h < kBundle; ++h) total[h] = zero_ints();
    for (size_t block = 0; block < query.blocks; ++block)
        add_block(keys.digits + block * kQuads * kQuadBytes, keys.steps + block * kGroup, query, head, block, total);
    for (size_t h = 0; h < kBundle; ++h) {
        const Floats dot = rounded(maximum(float_of(total[h]), broadcast(0.0f)));
        score = add(score, rounded(multiply(dot, broadcast(query.weight[head + h]))));
    }
    return score;
}

inline Floats add_careful(const Slab& slab, size_t token, size_t head, const Keys& keys, Floats unit, Floats score) {
    const Query& query = slab.queries[token];
    for (size_t h = head; h < head + kBundle && h < slab.p->heads; ++h) {
        float products[kLanes];
        careful_products(slab.p, slab.first + token, h, query, keys, products);
        score = add(score, multiply(load(products), unit));
    }
    return score;
}

inline Floats group_scores(const Slab& slab, size_t token, const Keys& keys) {
    const Query& query = slab.queries[token];
    const bool in_range = keys.lowest >= query.lowest && keys.highest <= query.highest;
    const Floats unit = in_range ? load(keys.inverse) : broadcast(1.0f);
    Floats score = broadcast(0.0f);
    for (size_t head = 0; head < query.heads; head += kBundle) {
        int span = keys.span;
        for (size_t h = 0; h < kBundle; ++h) span = most(span, keys.span + query.span[head + h]);
        if (in_range && span <= slab.most_span)
            score = add_bundle(keys, query, head, score);
        else
            score = add_careful(slab, token, head, keys, unit, score);
    }
    return in_range ? multiply(score, load(keys.scale)) : score;
}

inline void score_group(const Slab& slab, size_t token, const Keys& keys, const uint8_t* candidates, int16_t* scores) {
    uint16_t bits[kLanes];
    store_bf16(bits, group_scores(slab, token, keys));
    for (size_t i = 0; i < kGroup; ++i) scores[i] = ordered(bits[i]);
    if (candidates)
        for (size_t i = 0; i < keys.count; ++i) scores[i] = candidates[i] ? scores[i] : kUnreachable;
}

inline bool is_wanted(const uint8_t* candidates, size_t count) {
    uint8_t any = 0;
    for (size_t i = 0; i < count; ++i) any |= candidates[i];
    return any != 0;
}

// Whether a token reads any of 16 keys; if not, they are unreachable.
inline bool reads_group(const Slab& slab, size_t token, size_t key) {
    const size_t visible = visible_keys(slab.p, slab.first + token);
    if (key >= visible) return false;
    const size_t count = visible - key < kGroup ? visible - key : kGroup;
    if (!slab.p->candidates || is_wanted(slab.p->candidates + (slab.first + token) * slab.p->keys + key, count))
        return true;
    for (size_t i = 0; i < count; ++i) slab.scores[token * slab.stride + key + i] = kUnreachable;
    return false;
}

// Scores keys from `first` to `end` for every token; `keys` is room for a tile.
inline void score_tile(const Slab& slab, size_t first, size_t end, Keys* keys) {
    bool filled[kTile / kGroup] = {};
    for (size_t token = 0; token < slab.tokens; ++token)
        for (size_t key = first, group = 0; key < end; key += kGroup, ++group) {
            if (!reads_group(slab, token, key)) continue;
            if (!filled[group]) fill_keys(slab.p, key, slab.p->keys, slab.most_span, keys[group]);
            filled[group] = true;
            const size_t row = (slab.first + token) * slab.p->keys + key;
            score_group(slab, token, keys[group], slab.p->candidates ? slab.p->candidates + row : nullptr,
                        slab.scores + token * slab.stride + key);
        }
}

inline void choose(const Slab& slab, size_t token, int16_t* room) {
    const ShoalIndexSelect* p = slab.p;
    const size_t row = slab.first + token, visible = visible_keys(p, row);
    const int16_t* scores = slab.scores + token * slab.stride;
    if (p->candidate_positions)
        mark_candidates(scores, visible, p, room, p->candidate_positions + row * p->keys);
    if (p->scores)
        for (size_t i = 0; i < p->keys; ++i)
            p->scores[row * p->keys + i] = bits_of_ordered(i < visible ? scores[i] : kUnreachable);
    select_best(scores, visible, p->count, room, p->selected + row * p->count);
}

inline void score_and_choose(const Slab& slab, Keys* keys, int16_t* rooms, size_t room, ShoalPool* pool) {
    const ShoalIndexSelect* p = slab.p;
    size_t end = 0;
    for (size_t token = 0; token < slab.tokens; ++token) {
        const size_t visible = visible_keys(p, slab.first + token);
        end = visible > end ? visible : end;
    }
    parallel(pool, slab.tokens, [&](size_t token, size_t) { fill_query(p, slab.first + token, slab.queries[token]); });
    const size_t share = end / (kPiecesPerThread * shoal_pool_threads(pool)) / kTile * kTile;
    const size_t piece = share < kTile ? kTile : share > kMostPiece ? kMostPiece : share;
    parallel(pool, (end + piece - 1) / piece, [&](size_t index, size_t worker) {
        const size_t last = (index + 1) * piece < end ? (index + 1) * piece : end;
        for (size_t key = index * piece; key < last; key += kTile)
            score_tile(slab, key, key + kTile < last ? key + kTile : last, keys + worker * (kTile / kGroup));
    });
    parallel(pool, slab.tokens, [&](size_t token, size_t worker) { choose(slab, token, rooms + worker * room); });
}

// Bits that scales may add before a total of all blocks passes 24.
inline int most_span(size_t dim) {
    int bits = kTotalBits - kBlockBits;
    for (size_t blocks = dim / kScaleBlock; blocks > 1; blocks = (blocks + 1) / 2) --bits;
    return most(bits, -1);
}

}  // namespace

void SHOAL_NAME(index_select)(const ShoalIndexSelect* p, ShoalPool* pool) {
    Scratch scratch(pool);
    const size_t fitting = kScoresAtOnce / (p->keys ? p->keys : 1), threads = shoal_pool_threads(pool);
    size_t tokens = fitting < kLeastTokens ? kLeastTokens : fitting > kMostTokens ? kMostTokens : fitting;
    tokens = p->tokens < tokens ? p->tokens : tokens;
    const size_t stride = (p->keys + kGroup - 1) / kGroup * kGroup;
    const size_t blocks = p->candidate_positions ? (p->keys + p->block - 1) / p->block : 0;
    Slab slab = {p, 0, 0, stride, take_queries(p, tokens, scratch), scratch.take<int16_t>(tokens * stride),
                 most_span(p->dim)};
    Keys* keys = scratch.take<Keys>(threads * (kTile / kGroup));
    for (size_t i = 0; i < threads * (kTile / kGroup); ++i) keys[i] = take_keys(p, scratch);
    // Either for a row of keys, or for blocks and what they score.
    const size_t room = room_to_choose(p->keys > blocks ? p->keys : blocks) + blocks;
    int16_t* rooms = scratch.take<int16_t>(threads * room);
    for (slab.first = 0; slab.first < p->tokens; slab.first += tokens) {
        slab.tokens = p->tokens - slab.first < tokens ? p->tokens - slab.first : tokens;
        score_and_choose(slab, keys, rooms, room, pool);
    }
}

void SHOAL_NAME(index_select_step)(const ShoalIndexSelectStep* p, ShoalPool* pool) {
    for (size_t i = 0; i < p->count; ++i) SHOAL_NAME(index_select)(p->sequences + i, pool);
}
