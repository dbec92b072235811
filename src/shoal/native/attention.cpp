// The attention operators, compiled once per instruction set.
//
// Sparse attention, the idea: 16 heads are 16 lanes, so no sum crosses lanes. Keys are decoded to float32 once a token,
// in blocks of 64 columns; a score and a value are one chain of fma each, dims and keys ascending:
//   score = scale * (q[0] k[0] + q[1] k[1] + ..)      p = e^(score - running maximum), kept = e^(old - new maximum)
//   denominator = fma(denominator, kept, p[0] + p[1] + ..)      sum = sum * kept + bf16(p[0]) v[0] + bf16(p[1]) v[1] ..
// and the result is sum / (denominator + e^(sink - maximum)). Absent columns take no part. A row's bits depend on its
// own keys alone: where they lie, the other rows, the threads and the tiles change nothing.
// Few tokens: all threads decode the keys, then share out the heads. Many: a token a piece. Tokens of all sequences of a
// step are worked on together.
//
// 2026-11-29, 2 cores of an EPYC (Zen 3), AVX2, 64 heads of 512, 128 + 512 keys: a token 1.1 to 1.4 ms on one thread,
// 0.64 to 0.8 on two; 128 tokens 81 to 100 ms on two (110 to 130 GFLOP/s).
//
// No std templates here: the linker may keep one copy of a shared inline function, built for the wrong processor.
#include "exp_down.inl"
#include "kernels.h"
#include "lanes.h"
#include "pages.inl"
#include "parallel.inl"

#include "attention_keys.inl"

#include "attention_core.inl"

#include "attention_ring.inl"
#include "rope.inl"

namespace {

constexpr size_t kTokensPerThread = 8;                 // fewer than these: keys and heads are shared out
constexpr size_t kKeysBytes = size_t{32} << 20;        // of decoded keys at once

inline size_t panel_count(const ShoalAttention* p) { return (p->heads + kLanes - 1) / kLanes; }
inline size_t block_floats(const ShoalAttention* p) { return kColumns * key_stride(p); }
inline size_t token_floats(const ShoalAttention* p) { return block_count(p) * block_floats(p); }

// Room for kTilePanels panels of every worker.
struct Rooms {
    Rooms(const ShoalAttention* p, Scratch& scratch) : values(kTilePanels * p->dim * kLanes) {
        memory = scratch.take<float>(size() * shoal_pool_threads(scratch.pool));
    }
    size_t size() const { return 2 * values + kRows * (kColumns + 3); }
    Heads of(size_t worker) const {
        float* sums = memory + worker * size() + values;
        float* probabilities = sums + values;
        float* maximum = probabilities + kRows * kColumns;
        return {sums - values, sums, probabilities, maximum, maximum + kRows, maximum + 2 * kRows};
    }
    static constexpr size_t kRows = kTilePanels * kLanes;
    size_t values;
    float* memory;
};

void decode_token_block(const ShoalAttention* p, size_t token, size_t block, float* token_keys) {
    const KeyList list = key_list(p, token);
    decode_block(p, list, block_keys(p, list, block), token_keys + block * block_floats(p));
}

// Panels panel .. panel + kPanels - 1 of one token.
template <size_t kPanels>
void attend_heads(const ShoalAttention* p, size_t token, size_t panel, const float* keys, const Heads& heads) {
    const KeyList list = key_list(p, token);
    for (size_t n = 0; n < kPanels; ++n) start_panel(p, token, panel + n, from_panel(p, heads, n));
    bool has_keys = false;
    for (size_t block = 0; block < block_count(p); ++block, keys += block_floats(p)) {
        const size_t held = block_keys(p, list, block).count();
        if (!held) continue;
        attend_panels<kPanels>(p, heads, keys, held, !has_keys);
        has_keys = true;
    }
    for (size_t n = 0; n < kPanels; ++n) finish_panel(p, token, panel + n, from_panel(p, heads, n), has_keys);
}

// A token of one of the sequences.
struct Row {
    const ShoalAttention* p;
    size_t token;
};

// All tokens of a step's sequences, end to end.
struct Batch {
    Batch(const ShoalAttention* sequences, size_t count, Scratch& scratch) : shape(sequences) {
        for (size_t i = 0; i < count; ++i) tokens += sequences[i].tokens;
        Row* next = scratch.take<Row>(tokens);
        rows = next;
        for (size_t i = 0; i < count; ++i)
            for (size_t token = 0; token < sequences[i].tokens; ++token) *next++ = {sequences + i, token};
    }
    const ShoalAttention* shape;  // of any of them
    const Row* rows;
    size_t tokens = 0;
};

// A token a piece.
void attend_many(const Batch& batch, ShoalPool* pool) {
    Scratch scratch(pool);
    const Rooms rooms(batch.shape, scratch);
    float* room = scratch.take<float>(token_floats(batch.shape) * shoal_pool_threads(pool));
    parallel(pool, batch.tokens, [&](size_t index, size_t worker) {
        const auto [p, token] = batch.rows[index];
        float* keys = room + worker * token_floats(p);
        for (size_t block = 0; block < block_count(p); ++block) decode_token_block(p, token, block, keys);
        size_t panel = 0;
        for (; panel + kTilePanels <= panel_count(p); panel += kTilePanels)
            attend_heads<kTilePanels>(p, token, panel, keys, rooms.of(worker));
        for (; panel < panel_count(p); ++panel) attend_heads<1>(p, token, panel, keys, rooms.of(worker));
    });
}

// As many tokens as their keys allow at a time: first their keys, a block a piece, then their heads, a panel a piece.
void attend_few(const Batch& batch, ShoalPool* pool) {
    Scratch scratch(pool);
    const Rooms rooms(batch.shape, scratch);
    const size_t panels = panel_count(batch.shape), blocks = block_count(batch.shape);
    const size_t floats = token_floats(batch.shape), fitting = kKeysBytes / (floats * sizeof(float));
    const size_t at_once = least(batch.tokens, fitting ? fitting : 1);
    float* keys = scratch.take<float>(at_once * floats);
    for (size_t start = 0; start < batch.tokens; start += at_once) {
        const size_t count = least(at_once, batch.tokens - start);
        parallel(pool, count * blocks, [&](size_t piece, size_t) {
            const auto [p, token] = batch.rows[start + piece / blocks];
            decode_token_block(p, token, piece % blocks, keys + piece / blocks * floats);
        });
        parallel(pool, count * panels, [&](size_t piece, size_t worker) {
            const auto [p, token] = batch.rows[start + piece / panels];
            attend_heads<1>(p, token, piece % panels, keys + piece / panels * floats, rooms.of(worker));
        });
    }
}

void attend(const ShoalAttention* sequences, size_t count, ShoalPool* pool) {
    Scratch scratch(pool);
    const Batch batch(sequences, count, scratch);
    if (!batch.tokens) return;
    const size_t threads = shoal_pool_threads(pool);
    const bool fits = token_floats(batch.shape) * sizeof(float) * threads <= kKeysBytes;
    if (batch.tokens >= kTokensPerThread * threads && fits)
        attend_many(batch, pool);
    else
        attend_few(batch, pool);
}

}  // namespace

void SHOAL_NAME(attention)(const ShoalAttention* p, ShoalPool* pool) { attend(p, 1, pool); }

void SHOAL_NAME(attend_step)(const ShoalAttendStep* p, ShoalPool* pool) {
    attend(p->sequences, p->count, pool);
    save_replaced(p);
    *p->is_full = 1;
    for (size_t i = 0; i < p->count; ++i) write_ring(p->sequences + i, p->rings[i]);
}

void SHOAL_NAME(rotate_rows)(const ShoalRotateRows* p, ShoalPool* pool) {
    Scratch scratch(pool);
    float* angles = scratch.take<float>(4 * p->pairs * shoal_pool_threads(pool));
    parallel(pool, p->rows, [&](size_t row, size_t worker) { rotate_row(p, row, angles + worker * 4 * p->pairs); });
}

void SHOAL_NAME(rope_table)(const ShoalRopeTable* p, ShoalPool* pool) {
    parallel(pool, p->rows, [&](size_t row, size_t) { rope_table_row(p, row); });
}
