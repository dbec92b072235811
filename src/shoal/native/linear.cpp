// The linear operators, compiled once per instruction set.
//
// A product is a sum of sixteen lanes: element k goes to lane k mod 16, k ascending, added by a fused multiply-add in
// float32; lane i then takes lane i + 8, i + 4, i + 2, i + 1. With an E4M3 weight w of scale s the factors are w / 256
// and x' = (x * 2^(s - 127)) * 256: x is multiplied once for 32 outputs, a weight never. One row streams the weights
// past its lanes (linear_few.inl), up to eight rows share weights decoded in registers (linear_several.inl), more a
// decoded tile (linear_many.inl); all give the same bits.
//
// Measured 2026-11-29, two threads, AVX2, against a probe of 18 GB/s: FP8 one row 0.87 of it at 1280x5120, 0.90 at
// 5120x8192, 0.68 at 32768x1280; bf16 head 0.95; float32 mixes 0.87; FP8 128 rows 106 GFLOP/s, 2,048 rows 100
// (torch's bf16 product of the same sizes 20 and 13).
//
// No std templates here: the linker may keep one copy of a shared inline function, built for the wrong processor.
#include "kernels.h"
#include "linear_many.inl"
#include "linear_several.inl"

namespace {

// Bytes of weights that a thread takes at a time, unless that leaves too few pieces to share.
constexpr size_t kPieceBytes = 1 << 19, kPiecesPerThread = 8;
// Inputs are held as float32 for so many rows at a time.
constexpr size_t kRowsTogether = 16 * kRowBlock;

struct Work {
    const Linear* linears;
    size_t count;
    const Inputs* inputs;
    size_t unit, units_a_piece;
};

inline size_t smaller(size_t a, size_t b) { return a < b ? a : b; }
inline size_t larger(size_t a, size_t b) { return a > b ? a : b; }
inline size_t quotient_up(size_t a, size_t b) { return (a + b - 1) / b; }

// Pieces start where the grid of scale tiles has a line.
inline size_t units_of(const Work* work, const Linear* linear) {
    if (!linear->outputs) return 0;
    return quotient_up(linear->origin % work->unit + linear->outputs, work->unit);
}

inline size_t pieces_of(const Work* work, const Linear* linear) {
    return quotient_up(units_of(work, linear), work->units_a_piece);
}

size_t pieces_of_all(const Work* work) {
    size_t pieces = 0;
    for (size_t i = 0; i < work->count; ++i) pieces += pieces_of(work, work->linears + i);
    return pieces;
}

const Linear* find_piece(const Work* work, size_t index, size_t* begin, size_t* end) {
    const Linear* linear = work->linears;
    for (; index >= pieces_of(work, linear); ++linear) index -= pieces_of(work, linear);
    const size_t before = linear->origin % work->unit, first = index * work->units_a_piece * work->unit;
    *begin = first > before ? first - before : 0;
    *end = smaller(first + work->units_a_piece * work->unit - before, linear->outputs);
    return linear;
}

template <typename Kind>
void run_few(Work* work, ShoalPool* pool) {
    const Inputs* inputs = work->inputs;
    const size_t threads = shoal_pool_threads(pool), room = padded(inputs->inputs);
    work->units_a_piece = 1;
    const size_t units = pieces_of_all(work), unit_bytes = work->unit * inputs->inputs * Kind::kBytes;
    work->units_a_piece = larger(1, smaller(kPieceBytes / larger(1, unit_bytes), units / (threads * kPiecesPerThread)));
    Scratch scratch(pool);
    float* scaled = scratch.take<float>(threads * room);
    parallel(pool, pieces_of_all(work), [&](size_t index, size_t worker) {
        size_t begin, end;
        const Linear* linear = find_piece(work, index, &begin, &end);
        for (size_t row = 0; row < inputs->rows; ++row)
            few_rows<Kind>(linear, inputs, row, begin, end, scaled + worker * room);
    });
}

template <typename Kind>
void run_several(Work* work, ShoalPool* pool) {
    const Inputs* inputs = work->inputs;
    const size_t threads = shoal_pool_threads(pool), scale_tiles = inputs->inputs / kTile;
    work->unit = kTile;
    work->units_a_piece = 1;
    const size_t units = pieces_of_all(work), unit_bytes = kTile * inputs->inputs * Kind::kBytes;
    work->units_a_piece = larger(1, smaller(kPieceBytes / unit_bytes, units / (threads * kPiecesPerThread)));
    const size_t room = kBlockInputs + kTile * kSeveralRows * kLanes;
    Scratch scratch(pool);
    float* memory = scratch.take<float>(threads * room);
    Factor* factors = scratch.take<Factor>(threads * scale_tiles);
    parallel(pool, pieces_of_all(work), [&](size_t index, size_t worker) {
        float *block = memory + worker * room, *sums = block + kBlockInputs;
        size_t begin, end;
        const Linear* linear = find_piece(work, index, &begin, &end);
        for (size_t stop; begin < end; begin = stop) {
            stop = tile_end(linear, begin, end);
            Tile tile = {linear, inputs->inputs, inputs->stride, begin,
                         stop,   block,          sums,           nullptr, false, stop + kTile > end};
            if (linear->scales) set_factors(&tile, inputs, factors + worker * scale_tiles);
            several_rows<Kind>(tile, inputs->rows);
        }
    });
}

template <typename Kind>
void run_many(Work* work, ShoalPool* pool) {
    const Inputs* inputs = work->inputs;
    const size_t threads = shoal_pool_threads(pool);
    work->unit = kTile;
    work->units_a_piece = 1;
    const size_t tiles = pieces_of_all(work);
    if (!tiles) return;
    const size_t wanted = quotient_up(threads * kPiecesPerThread / 2, tiles);
    const size_t even = quotient_up(quotient_up(inputs->rows, wanted), kRowsAtOnce) * kRowsAtOnce;
    const size_t block = smaller(kRowBlock, larger(even, 4 * kRowsAtOnce)), blocks = quotient_up(inputs->rows, block);
    const size_t x_room = padded(inputs->inputs), sums_room = (block + kRowsAtOnce) * kTile * kLanes;
    const size_t room = x_room + kPanelElements + sums_room;
    Scratch scratch(pool);
    float* memory = scratch.take<float>(threads * room);
    parallel(pool, tiles * blocks, [&](size_t index, size_t worker) {
        float* mine = memory + worker * room;
        const Room parts = {mine, mine + x_room, mine + x_room + kPanelElements};
        Piece piece;
        piece.row_begin = index / tiles * block;
        piece.row_end = smaller(piece.row_begin + block, inputs->rows);
        const Linear* linear = find_piece(work, index % tiles, &piece.begin, &piece.end);
        many_rows<Kind>(linear, inputs, &piece, &parts);
    });
}

template <typename Kind>
void run(const Linear* linears, size_t count, const Inputs* inputs, size_t unit, ShoalPool* pool) {
    Work work = {linears, count, inputs, unit, 1};
    if (inputs->rows <= 1 || !inputs->inputs)
        run_few<Kind>(&work, pool);
    else if (inputs->rows <= kSeveralRows)
        run_several<Kind>(&work, pool);
    else
        run_many<Kind>(&work, pool);
}

// Reads inputs row by row and keeps what their exponents span.
template <typename ReadRow>
Inputs arrange(size_t rows, size_t inputs, size_t stride, ShoalPool* pool, Scratch* scratch, const ReadRow& read) {
    Inputs all = {scratch->take<float>(rows * stride), rows, inputs, stride, 0, 0};
    Span* spans = scratch->take<Span>(rows);
    parallel(pool, rows, [&](size_t row, size_t) { spans[row] = read(row, all.values + row * stride); });
    for (size_t row = 0; row < rows; ++row) {
        if (row == 0 || spans[row].lowest < all.lowest) all.lowest = spans[row].lowest;
        if (row == 0 || spans[row].highest > all.highest) all.highest = spans[row].highest;
    }
    return all;
}

// body(first row, rows) for at most kRowsTogether rows at a time.
template <typename Body>
void by_rows(size_t rows, const Body& body) {
    for (size_t row = 0; row < rows; row += kRowsTogether) body(row, smaller(kRowsTogether, rows - row));
}

}  // namespace

void SHOAL_NAME(float8_linears)(const ShoalFloat8Linears* p, ShoalPool* pool) {
    by_rows(p->rows, [&](size_t first, size_t rows) {
        Scratch scratch(pool);
        const size_t groups = p->inputs / kGroup;
        const Inputs inputs = arrange(rows, p->inputs, p->inputs, pool, &scratch, [&](size_t row, float* values) {
            const size_t at = first + row;
            return arrange_q8(p->x_codes + at * p->inputs, p->x_scales + at * groups, p->inputs, values);
        });
        Linear* linears = scratch.take<Linear>(p->count);
        for (size_t i = 0; i < p->count; ++i) {
            const ShoalFloat8Output* one = p->linears + i;
            linears[i] = {one->weight.codes, one->weight.scales, one->outputs, 0, inputs.values, nullptr,
                          one->y + first * one->y_stride, one->y_stride};
        }
        run<E4m3>(linears, p->count, &inputs, kTile, pool);
    });
}

void SHOAL_NAME(float8_linear)(const ShoalFloat8Linear* p, ShoalPool* pool) {
    const ShoalFloat8Output output = {p->weight, p->outputs, p->y, p->y_stride};
    const ShoalFloat8Linears linears = {p->x_codes, p->x_scales, &output, 1, p->rows, p->inputs};
    SHOAL_NAME(float8_linears)(&linears, pool);
}

void SHOAL_NAME(grouped_linear)(const ShoalGroupedLinear* p, ShoalPool* pool) {
    const size_t width = p->groups * p->inputs, y_width = p->groups * p->outputs;
    by_rows(p->rows, [&](size_t first, size_t rows) {
        Scratch scratch(pool);
        const Inputs inputs = arrange(rows, p->inputs, width, pool, &scratch, [&](size_t row, float* values) {
            const uint16_t* x = p->x + (first + row) * width;
            arrange_bf16<false>(x, width, values);
            return span_of(x, width);
        });
        Linear* linears = scratch.take<Linear>(p->groups);
        for (size_t g = 0; g < p->groups; ++g)
            linears[g] = {p->weight.codes + g * p->outputs * p->inputs, p->weight.scales, p->outputs, g * p->outputs,
                          inputs.values + g * p->inputs, nullptr, p->y + first * y_width + g * p->outputs, y_width};
        run<E4m3>(linears, p->groups, &inputs, kTile, pool);
    });
}

namespace {

// Outputs a thread takes at a time at least, for a weight without tiles.
constexpr size_t kBf16Unit = 2 * kOutputsAtOnce, kFloat32Unit = kOutputsAtOnce;

}  // namespace

void SHOAL_NAME(bf16_linear)(const ShoalBf16Linear* p, ShoalPool* pool) {
    by_rows(p->rows, [&](size_t first, size_t rows) {
        Scratch scratch(pool);
        const size_t stride = padded(p->inputs);
        const Inputs inputs = arrange(rows, p->inputs, stride, pool, &scratch, [&](size_t row, float* values) {
            arrange_bf16<false>(p->x + (first + row) * p->inputs, p->inputs, values);
            return Span{0, 0};
        });
        const Linear linear = {reinterpret_cast<const uint8_t*>(p->weight), nullptr, p->outputs, 0, inputs.values,
                               p->y_float ? p->y_float + first * p->outputs : nullptr,
                               p->y_bf16 ? p->y_bf16 + first * p->outputs : nullptr, p->outputs};
        run<Bf16>(&linear, 1, &inputs, kBf16Unit, pool);
    });
}

void SHOAL_NAME(float32_linear)(const ShoalFloat32Linear* p, ShoalPool* pool) {
    by_rows(p->rows, [&](size_t first, size_t rows) {
        Scratch scratch(pool);
        const size_t stride = padded(p->inputs);
        const Inputs inputs = arrange(rows, p->inputs, stride, pool, &scratch, [&](size_t row, float* values) {
            const float squares = arrange_bf16<true>(p->x + (first + row) * p->inputs, p->inputs, values);
            if (p->mean_square) p->mean_square[first + row] = squares / static_cast<float>(p->inputs);
            return Span{0, 0};
        });
        const Linear linear = {reinterpret_cast<const uint8_t*>(p->weight), nullptr, p->outputs, 0, inputs.values,
                               p->y + first * p->outputs, nullptr, p->outputs};
        run<Float32>(&linear, 1, &inputs, kFloat32Unit, pool);
    });
}
