// An FP4 linear for any number of rows, by the tiles that routed experts take from 9 rows on.
//
// No std templates here: the linker may keep one copy of a shared inline function, built for the wrong processor.
#include "kernels.h"
#include "lanes.h"
#include "parallel.inl"

#include "float4_many.inl"

namespace {

constexpr size_t kRowsAPiece = 8, kOutputsAPiece = 128;

inline size_t pieces_of(size_t count, size_t piece) { return (count + piece - 1) / piece; }
inline size_t least(size_t a, size_t b) { return a < b ? a : b; }

}  // namespace

void SHOAL_NAME(float4_linear)(const ShoalFloat4Linear* p, ShoalPool* pool) {
    Scratch scratch(pool);
    const size_t work_bytes = many::work_bytes(p->inputs);
    const many::Rows x =
        many::rows_at(scratch.take<uint8_t>(many::rows_bytes(p->rows, p->inputs)), p->rows, p->inputs);
    uint8_t* work = scratch.take<uint8_t>(work_bytes * shoal_pool_threads(pool));
    parallel(pool, pieces_of(p->rows, kRowsAPiece), [&](size_t piece, size_t) {
        for (size_t row = piece * kRowsAPiece; row < least((piece + 1) * kRowsAPiece, p->rows); ++row)
            many::prepare_row(x, row, p->x_codes + row * p->inputs, p->x_scales + row * x.blocks);
    });
    parallel(pool, pieces_of(p->outputs, kOutputsAPiece), [&](size_t piece, size_t worker) {
        const size_t begin = piece * kOutputsAPiece, end = least(begin + kOutputsAPiece, p->outputs);
        many::multiply(x, p->weight, begin, end, {p->y, p->outputs, nullptr}, work + worker * work_bytes);
    });
}
