// The attention operators, compiled once per instruction set.
//
// Sparse attention, the idea: 16 heads are 16 lanes. Keys are decoded to float32 in blocks of 64 columns and every head of a
// token uses them from the cache; a score and a value are one chain of fma each, keys and dims ascending:
//   score = scale * (q[0] k[0] + q[1] k[1] + ..)          p = e^(score - running maximum), then in bf16
//   denominator = fma(denominator, kept, p[0] + p[1] + ..)   sum = sum * kept + p[0] v[0] + p[1] v[1] + .., kept = e^(old - new)
// and the result is sum / (denominator + e^(sink - maximum)). Absent columns take no part. A row's bits depend on its own keys
// alone: where they lie, the other rows, the threads and the tiles change nothing.
// Few tokens: keys of every block are decoded by all threads, then heads are shared out. Many: a token a piece.
//
// No std templates here: the linker may keep one copy of a shared inline function, built for the wrong processor.
#include "exp_down.inl"
#include "kernels.h"
#include "lanes.h"
#include "parallel.inl"

#include "attention_keys.inl"

#include "attention_core.inl"

#include "rope.inl"

namespace {

constexpr size_t kTokensPerThread = 8;                  // fewer than these: keys and heads are shared out
constexpr size_t kSharedKeysBytes = size_t{32} << 20;   // of decoded keys at once

inline size_t panel_count(const ShoalAttention* p) { return (p->heads + kLanes - 1) / kLanes; }

// Room for `panels` panels of every worker.
struct Rooms {
    Rooms(const ShoalAttention* p, ShoalPool* pool, size_t panels, Scratch& scratch)
        : values(panels * p->dim * kLanes), rows(panels * kLanes) {
        size = 2 * values + rows * (kColumns + 3);
        memory = scratch.take<float>(size * shoal_pool_threads(pool));
    }
    Heads of(size_t worker) const {
        float* sums = memory + worker * size + values;
        float* probabilities = sums + values;
        float* maximum = probabilities + rows * kColumns;
        return {sums - values, sums, probabilities, maximum, maximum + rows, maximum + 2 * rows};
    }
    size_t values, rows, size;
    float* memory;
};

// A token a piece; its keys are decoded block by block.
void attend_many(const ShoalAttention* p, ShoalPool* pool) {
    Scratch scratch(pool);
    const size_t panels = panel_count(p), keys_size = kColumns * key_stride(p);
    const Rooms rooms(p, pool, panels, scratch);
    float* room = scratch.take<float>(keys_size * shoal_pool_threads(pool));
    parallel(pool, p->tokens, [&](size_t token, size_t worker) {
        const Heads heads = rooms.of(worker);
        const KeyList list = key_list(p, token);
        float* keys = room + worker * keys_size;
        for (size_t panel = 0; panel < panels; ++panel) start_panel(p, token, panel, from_panel(p, heads, panel));
        bool has_keys = false;
        for (size_t block = 0; block < block_count(p); ++block) {
            const BlockKeys held = block_keys(p, list, block);
            if (!held.count()) continue;
            decode_block(p, list, held, keys);
            attend_block(p, heads, panels, keys, held.count(), !has_keys);
            has_keys = true;
        }
        for (size_t panel = 0; panel < panels; ++panel)
            finish_panel(p, token, panel, from_panel(p, heads, panel), has_keys);
    });
}

// Tokens start .. start + count - 1: first their keys, a block a piece, then their heads, a panel a piece.
void attend_few(const ShoalAttention* p, ShoalPool* pool, size_t start, size_t count, const Rooms& rooms, float* keys) {
    const size_t panels = panel_count(p), blocks = block_count(p), keys_size = kColumns * key_stride(p);
    parallel(pool, count * blocks, [&](size_t piece, size_t) {
        const KeyList list = key_list(p, start + piece / blocks);
        decode_block(p, list, block_keys(p, list, piece % blocks), keys + piece * keys_size);
    });
    parallel(pool, count * panels, [&](size_t piece, size_t worker) {
        const Heads heads = rooms.of(worker);
        const size_t token = start + piece / panels, panel = piece % panels;
        const KeyList list = key_list(p, token);
        const float* token_keys = keys + piece / panels * blocks * keys_size;
        start_panel(p, token, panel, heads);
        bool has_keys = false;
        for (size_t block = 0; block < blocks; ++block) {
            const size_t held = block_keys(p, list, block).count();
            if (!held) continue;
            attend_block(p, heads, 1, token_keys + block * keys_size, held, !has_keys);
            has_keys = true;
        }
        finish_panel(p, token, panel, heads, has_keys);
    });
}

}  // namespace

void SHOAL_NAME(attention)(const ShoalAttention* p, ShoalPool* pool) {
    if (p->tokens >= kTokensPerThread * shoal_pool_threads(pool)) return attend_many(p, pool);
    Scratch scratch(pool);
    const size_t token_keys = block_count(p) * kColumns * key_stride(p);
    const size_t fitting = kSharedKeysBytes / (token_keys * sizeof(float));
    const size_t at_once = least(p->tokens, fitting ? fitting : 1);
    const Rooms rooms(p, pool, 1, scratch);
    float* keys = scratch.take<float>(at_once * token_keys);
    for (size_t start = 0; start < p->tokens; start += at_once)
        attend_few(p, pool, start, least(at_once, p->tokens - start), rooms, keys);
}

void SHOAL_NAME(rotate_rows)(const ShoalRotateRows* p, ShoalPool* pool) {
    Scratch scratch(pool);
    float* angles = scratch.take<float>(4 * p->pairs * shoal_pool_threads(pool));
    parallel(pool, p->rows, [&](size_t row, size_t worker) { rotate_row(p, row, angles + worker * 4 * p->pairs); });
}

void SHOAL_NAME(rope_table)(const ShoalRopeTable* p, ShoalPool* pool) {
    parallel(pool, p->rows, [&](size_t row, size_t) { rope_table_row(p, row); });
}
