// Tiles of float4_many.inl in AVX-512 registers: 12 rows by 32 outputs, one int32 accumulator a row and 16 outputs.
//
// vpdpwssd with the activation as a broadcast memory operand, written in assembly: the intrinsic makes GCC copy and
// spill its accumulators. An accumulator starts at 2^30, so that interleaved with the upper half of 2^52 * scale it is
// the double (2^52 + 2^30 + dot) * scale; a subtraction takes the offset off. Both are exact.
#include "float4_many_decode_x86.inl"

namespace {
namespace many {

constexpr size_t kTileOutputs = 32, kTileRows = 12, kVectorOutputs = 16;
constexpr size_t kOutputOfLane[kVectorOutputs] = {0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15};
constexpr int32_t kOffset = 1 << 30;

// Lanes with the upper halves of doubles put over them, eight outputs each.
struct Halves {
    Halves(__m512i low, __m512i high)
        : part{_mm512_castsi512_pd(_mm512_unpacklo_epi32(low, high)),
               _mm512_castsi512_pd(_mm512_unpackhi_epi32(low, high))} {}
    __m512d part[2];
};

struct Scales {
    explicit Scales(const TileScale* scales)
        : high(_mm512_loadu_si512(scales)), offset(_mm512_set1_epi32(kOffset), high) {}
    __m512i high;
    Halves offset;
};

// acc[0..15] += (sums - offset) * scale * x_scale.
inline void add_scaled(double* acc, __m512i sums, const Scales& s, __m512d x_scale) {
    const Halves raised(sums, s.high);
    for (int i = 0; i < 2; ++i) {
        const __m512d scaled = _mm512_sub_pd(raised.part[i], s.offset.part[i]);
        _mm512_storeu_pd(acc + 8 * i, _mm512_fmadd_pd(scaled, x_scale, _mm512_loadu_pd(acc + 8 * i)));
    }
}

// sum + the products of 16 int16 pairs with one pair in memory.
inline void add_products(__m512i* sum, __m512i w, const int32_t* pair) {
#if defined(SHOAL_EMULATED_AVX512)
    *sum = emulated::dpwssd_epi32(*sum, w, _mm512_set1_epi32(*pair));
#else
    asm("vpdpwssd %2%{1to16%}, %1, %0" : "+v"(*sum) : "v"(w), "m"(*pair));
#endif
}

// acc [Rows][kTileOutputs] += all blocks of the high digits.
template <size_t Rows>
void multiply_tile(const Tile& t) {
    const int32_t *x = t.x_pairs, *w = t.w_pairs;
    for (size_t b = 0; b < t.blocks; ++b) {
        prefetch_codes(t, b);
        __m512i sums[Rows][2];
#pragma GCC unroll 16
        for (size_t r = 0; r < Rows; ++r) sums[r][0] = sums[r][1] = _mm512_set1_epi32(kOffset);
#pragma GCC unroll 4
        for (size_t p = 0; p < kPairs; ++p) {
            const __m512i w0 = _mm512_loadu_si512(w + p * kTileOutputs);
            const __m512i w1 = _mm512_loadu_si512(w + p * kTileOutputs + kVectorOutputs);
#pragma GCC unroll 16
            for (size_t r = 0; r < Rows; ++r) {
                add_products(&sums[r][0], w0, x + p * Rows + r);
                add_products(&sums[r][1], w1, x + p * Rows + r);
            }
        }
        x += kPairs * Rows;
        w += kPairs * kTileOutputs;
#pragma GCC unroll 2
        for (size_t half = 0; half < 2; ++half) {
            const Scales s(t.w_scales + b * kTileOutputs + half * kVectorOutputs);
#pragma GCC unroll 16
            for (size_t r = 0; r < Rows; ++r)
                add_scaled(t.acc + r * kTileOutputs + half * kVectorOutputs, sums[r][half], s,
                           _mm512_set1_pd(t.x_scales[b * Rows + r]));
        }
    }
}

// acc [kTileOutputs] += one pair of low digits.
inline void add_low_pair(double* acc, const int32_t* w, const TileScale* w_scales, int32_t pair, double x_scale) {
    for (size_t i = 0; i < kTileOutputs; i += kVectorOutputs) {
        __m512i sums = _mm512_set1_epi32(kOffset);
        add_products(&sums, _mm512_loadu_si512(w + i), &pair);
        add_scaled(acc + i, sums, Scales(w_scales + i), _mm512_set1_pd(x_scale));
    }
}

void decode_tile(const uint8_t* const* codes, const uint8_t* const* scales, size_t blocks, int32_t* w_pairs,
                 TileScale* w_scales, uint8_t* least, uint8_t* greatest) {
    for (size_t first = 0; first < kTileOutputs; first += kVectorOutputs)
        decode_16_outputs(codes + first, scales + first, kOutputOfLane, blocks, w_pairs + first, w_scales + first,
                          kTileOutputs, least + first, greatest + first);
}

}  // namespace many
}  // namespace
