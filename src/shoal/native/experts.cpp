// The experts operators, compiled once per instruction set.
//
// Routed experts of a step in one call: digits of the tokens once, then pieces of w1 and w3 of all experts, a barrier,
// SwiGLU and Q8 row by row, a barrier, pieces of w2. A piece is a range of outputs of one matrix for all rows of its
// expert, so every byte of an expert is read once. Up to kMostFew rows go by float4_few.inl, more by float4_many.inl;
// orders of sums: float4_group.inl.
//
// No std templates here: the linker may keep one copy of a shared inline function, built for the wrong processor.
#include "experts.h"

#include "float4_few.inl"
#include "float4_many.inl"
#include "kernels.h"
#include "parallel.inl"
#include "swiglu.inl"

namespace {

// Codes of a piece: long enough to stream, short enough to share.
constexpr size_t kPieceBytes = 196608, kPieceUnit = 32;
// Rows of the experts that are worked on between two barriers; an expert is never divided.
constexpr size_t kWaveRows = 2048;
constexpr size_t kColumns = 512;
// Experts of up to so many rows go by float4_few.inl: as many as it takes, but that tiles are faster from four rows on
// where a product and its sum are three instructions (4 rows: 2.21 and 2.36 times one row, 2.39 and 2.47 without).
#if defined(__AVX2__) && !defined(__AVX512F__) && !defined(__AVXVNNI__)
constexpr size_t kMostFew = 3;
#else
constexpr size_t kMostFew = kFewRows;
#endif

inline size_t divide_up(size_t a, size_t b) { return (a + b - 1) / b; }

inline size_t piece_outputs(size_t inputs) {
    const size_t outputs = kPieceBytes / (inputs / 2) / kPieceUnit * kPieceUnit;
    return outputs ? outputs : kPieceUnit;
}

// Where the rows of experts [begin, end) are, one after another in the buffers of a wave.
struct Wave {
    const ShoalExpert* experts;
    size_t count, rows;
    const size_t* first_row;
    const uint32_t* expert_of;
};

// Q8 codes and scales are kept: sums that are not exact in tiles read them again.
struct Hidden {
    uint16_t *gate, *up;
    uint8_t *codes, *scales;
    DigitGroup* digits;
    uint8_t* nan;
};

inline bool is_few(const ShoalExpert& expert) { return expert.rows <= kMostFew; }

// Of the experts of a wave that have many rows: their inputs and hidden rows, and memory for each worker.
struct ManyRows {
    many::Rows *inputs, *hidden;
    uint8_t* work;
    size_t work_bytes;
};

// Digits and NaN of the tokens that some expert of few rows takes.
struct Tokens {
    const uint32_t* place;
    DigitGroup* digits;
    const uint8_t* nan;
    size_t groups;
};

// Outputs [begin, end) of a matrix.
struct Piece {
    size_t begin, end;
};

inline Piece piece_of(size_t inputs, size_t outputs, size_t index) {
    const size_t length = piece_outputs(inputs), begin = index * length;
    return {begin, begin + length < outputs ? begin + length : outputs};
}

// row_of(row, &x, &y) tells where the digits of a row are and where its outputs go.
template <typename RowOf>
void few_rows(ShoalFloat4 weight, size_t inputs, Piece piece, size_t rows, const RowOf& row_of) {
    FewTask task = {weight.codes, weight.scales, inputs, piece.begin, piece.end, rows, {}, {}};
    for (size_t row = 0; row < rows; ++row) row_of(row, &task.x[row], &task.y[row]);
    if (rows) few_outputs(task);
}

void gate_and_up(const ShoalExperts* p, const Tokens& tokens, const Wave& wave, const Hidden& hidden,
                 const ManyRows& many_rows, ShoalPool* pool) {
    const size_t pieces = divide_up(p->inter, piece_outputs(p->dim));
    parallel(pool, wave.count * 2 * pieces, [&](size_t index, size_t worker) {
        const size_t e = index / (2 * pieces);
        const bool is_up = index / pieces % 2;
        const ShoalExpert& expert = wave.experts[e];
        const ShoalFloat4 weight = is_up ? expert.w3 : expert.w1;
        const Piece piece = piece_of(p->dim, p->inter, index % pieces);
        uint16_t* y = (is_up ? hidden.up : hidden.gate) + wave.first_row[e] * p->inter;
        if (!is_few(expert))
            return many::multiply(many_rows.inputs[e], weight, piece.begin, piece.end, {y, p->inter, nullptr},
                                  many_rows.work + worker * many_rows.work_bytes);
        few_rows(weight, p->dim, piece, expert.rows, [&](size_t row, const DigitGroup** x, uint16_t** out) {
            *x = tokens.digits + tokens.place[expert.row_ids[row]] * tokens.groups;
            *out = y + row * p->inter;
        });
    });
}

void activate(const ShoalExperts* p, const Tokens& tokens, const Wave& wave, const Hidden& hidden,
              const ManyRows& many_rows, ShoalPool* pool) {
    const size_t groups = digit_groups(p->inter), blocks = p->inter / kFloat4Block;
    parallel(pool, wave.rows, [&](size_t row, size_t) {
        const size_t e = wave.expert_of[row], own = row - wave.first_row[e];
        const ShoalExpert& expert = wave.experts[e];
        const SwigluRow in = {hidden.gate + row * p->inter, hidden.up + row * p->inter, expert.weights + own, p->limit};
        uint8_t *codes = hidden.codes + row * p->inter, *scales = hidden.scales + row * blocks;
        for (size_t b = 0; b < blocks; ++b) swiglu_block(in, b * kFloat4Block, codes + b * kFloat4Block, scales + b);
        if (!is_few(expert)) return many::prepare_row(many_rows.hidden[e], own, codes, scales);
        hidden.nan[row] = tokens.nan[expert.row_ids[own]] || holds_nan(codes, scales, p->inter);
        prepare_digits(codes, scales, p->inter, hidden.digits + row * groups);
    });
}

inline void fill_nan(uint16_t* y, size_t count) {
    for (size_t i = 0; i < count; ++i) y[i] = kBf16Nan;
}

void down(const ShoalExperts* p, const Wave& wave, const Hidden& hidden, const ManyRows& many_rows, ShoalPool* pool) {
    const size_t groups = digit_groups(p->inter), pieces = divide_up(p->dim, piece_outputs(p->inter));
    parallel(pool, wave.count * pieces, [&](size_t index, size_t worker) {
        const size_t e = index / pieces, first = wave.first_row[e];
        const ShoalExpert& expert = wave.experts[e];
        const Piece piece = piece_of(p->inter, p->dim, index % pieces);
        if (!is_few(expert))
            return many::multiply(many_rows.hidden[e], expert.w2, piece.begin, piece.end,
                                  {p->outputs, p->dim, expert.slots}, many_rows.work + worker * many_rows.work_bytes);
        few_rows(expert.w2, p->inter, piece, expert.rows, [&](size_t row, const DigitGroup** x, uint16_t** out) {
            *x = hidden.digits + (first + row) * groups;
            *out = p->outputs + expert.slots[row] * p->dim;
        });
        for (size_t row = 0; row < expert.rows; ++row)
            if (hidden.nan[first + row])
                fill_nan(p->outputs + expert.slots[row] * p->dim + piece.begin, piece.end - piece.begin);
    });
}

// Lays out what the experts of many rows need and prepares their inputs.
ManyRows prepare_many(const ShoalExperts* p, const Wave& wave, Scratch* scratch, ShoalPool* pool) {
    const size_t widest = p->dim > p->inter ? p->dim : p->inter, blocks = p->dim / kFloat4Block;
    ManyRows rows = {scratch->take<many::Rows>(wave.count), scratch->take<many::Rows>(wave.count), nullptr, 0};
    bool any = false;
    for (size_t e = 0; e < wave.count; ++e) {
        const size_t count = wave.experts[e].rows;
        if (is_few(wave.experts[e])) continue;
        any = true;
        rows.inputs[e] = many::rows_at(scratch->take<uint8_t>(many::rows_bytes(count, p->dim)), count, p->dim);
        rows.hidden[e] = many::rows_at(scratch->take<uint8_t>(many::rows_bytes(count, p->inter)), count, p->inter);
    }
    if (!any) return rows;
    rows.work_bytes = many::work_bytes(widest);
    rows.work = scratch->take<uint8_t>(rows.work_bytes * shoal_pool_threads(pool));
    parallel(pool, wave.rows, [&](size_t row, size_t) {
        const size_t e = wave.expert_of[row], own = row - wave.first_row[e];
        if (is_few(wave.experts[e])) return;
        const size_t token = wave.experts[e].row_ids[own];
        many::prepare_row(rows.inputs[e], own, p->x_codes + token * p->dim, p->x_scales + token * blocks);
    });
    return rows;
}

void run_wave(const ShoalExperts* p, const Tokens& tokens, const ShoalExpert* experts, size_t count, size_t rows,
              ShoalPool* pool) {
    Scratch scratch(pool);
    size_t* first_row = scratch.take<size_t>(count);
    uint32_t* expert_of = scratch.take<uint32_t>(rows);
    size_t row = 0;
    for (size_t e = 0; e < count; ++e) {
        first_row[e] = row;
        for (size_t i = 0; i < experts[e].rows; ++i) expert_of[row++] = static_cast<uint32_t>(e);
    }
    const Wave wave = {experts, count, rows, first_row, expert_of};
    const Hidden hidden = {scratch.take<uint16_t>(rows * p->inter), scratch.take<uint16_t>(rows * p->inter),
                           scratch.take<uint8_t>(rows * p->inter), scratch.take<uint8_t>(rows * (p->inter / kFloat4Block)),
                           scratch.take<DigitGroup>(rows * digit_groups(p->inter)), scratch.take<uint8_t>(rows)};
    const ManyRows many_rows = prepare_many(p, wave, &scratch, pool);
    gate_and_up(p, tokens, wave, hidden, many_rows, pool);
    activate(p, tokens, wave, hidden, many_rows, pool);
    down(p, wave, hidden, many_rows, pool);
}

}  // namespace

void SHOAL_NAME(routed_experts)(const ShoalExperts* p, ShoalPool* pool) {
    Scratch scratch(pool);
    constexpr uint32_t absent = ~uint32_t{0};
    uint32_t *place = scratch.take<uint32_t>(p->tokens), *present = scratch.take<uint32_t>(p->tokens);
    uint8_t* nan = scratch.take<uint8_t>(p->tokens);
    for (size_t t = 0; t < p->tokens; ++t) place[t] = absent;
    uint32_t found = 0;
    for (size_t e = 0; e < p->count; ++e)
        for (size_t i = 0; i < p->experts[e].rows && is_few(p->experts[e]); ++i) {
            const uint32_t token = p->experts[e].row_ids[i];
            if (place[token] != absent) continue;
            place[token] = found;
            present[found++] = token;
        }
    const size_t groups = digit_groups(p->dim);
    DigitGroup* digits = scratch.take<DigitGroup>(found * groups);
    parallel(pool, found, [&](size_t i, size_t) {
        const size_t token = present[i];
        const uint8_t *codes = p->x_codes + token * p->dim, *scales = p->x_scales + token * (p->dim / kFloat4Block);
        nan[token] = holds_nan(codes, scales, p->dim);
        prepare_digits(codes, scales, p->dim, digits + i * groups);
    });
    const Tokens tokens = {place, digits, nan, groups};
    for (size_t begin = 0, end = 0; begin < p->count; begin = end) {
        size_t rows = 0;
        for (end = begin; end < p->count && (end == begin || rows + p->experts[end].rows <= kWaveRows); ++end)
            rows += p->experts[end].rows;
        run_wave(p, tokens, p->experts + begin, end - begin, rows, pool);
    }
}

void SHOAL_NAME(sum_experts)(const ShoalExpertSum* p, ShoalPool* pool) {
    const size_t pieces = divide_up(p->dim, kColumns);
    parallel(pool, p->tokens * pieces, [&](size_t index, size_t) {
        const size_t token = index / pieces, begin = index % pieces * kColumns;
        const size_t end = begin + kColumns < p->dim ? begin + kColumns : p->dim;
        const uint32_t* slots = p->slots + token * p->active;
        const uint16_t* shared = p->shared ? p->shared + token * p->dim : nullptr;
        uint16_t* y = p->y + token * p->dim;
        size_t k = begin;
        for (; k + kLanes <= end; k += kLanes) {
            Floats sum = broadcast(0.0f);
            for (size_t i = 0; i < p->active; ++i) sum = add(sum, load_bf16(p->outputs + slots[i] * p->dim + k));
            if (shared) sum = add(sum, load_bf16(shared + k));
            store_bf16(y + k, sum);
        }
        for (; k < end; ++k) {
            float sum = 0.0f;
            for (size_t i = 0; i < p->active; ++i) sum += bf16_value(p->outputs[slots[i] * p->dim + k]);
            y[k] = bf16_of(shared ? sum + bf16_value(shared[k]) : sum);
        }
    });
}

void SHOAL_NAME(swiglu_q8)(const ShoalSwiglu* p, ShoalPool* pool) {
    const size_t pieces = divide_up(p->inter, kColumns), blocks = p->inter / kFloat4Block;
    parallel(pool, p->rows * pieces, [&](size_t index, size_t) {
        const size_t row = index / pieces, begin = index % pieces * kColumns;
        const size_t end = begin + kColumns < p->inter ? begin + kColumns : p->inter;
        const SwigluRow in = {p->gate + row * p->inter, p->up + row * p->inter, p->weights ? p->weights + row : nullptr,
                              p->limit};
        for (size_t k = begin; k < end; k += kGroup)
            swiglu_block(in, k, p->codes + row * p->inter + k, p->scales + row * blocks + k / kGroup);
    });
}
