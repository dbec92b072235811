// Tiles of float4_many.inl in AVX2 registers: 6 rows by 16 outputs, one int32 accumulator a row and 8 outputs.
//
// vpmaddwd and an addition, or vpdpwssd where the processor has AVX-VNNI: the same integers. An accumulator starts at
// 2^30, so that interleaved with the upper half of 2^52 * scale it is the double (2^52 + 2^30 + dot) * scale; a
// subtraction takes the offset off. Both are exact. Interleaving needs the lanes in the order of `kOutputOfLane`.
#include "float4_many_decode_x86.inl"

namespace {
namespace many {

constexpr size_t kTileOutputs = 16, kTileRows = 6, kVectorOutputs = 8;
constexpr size_t kOutputOfLane[kTileOutputs] = {0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15};
constexpr int32_t kOffset = 1 << 30;

// sums[0] += w0 * pair, sums[1] += w1 * pair, products of int16 added in twos. In assembly: with 12 accumulators every
// register is taken, and GCC would spill.
inline void add_products(__m256i* sums, __m256i w0, __m256i w1, const int32_t* pair) {
    __m256i x;
#if defined(__AVXVNNI__) && !defined(SHOAL_EMULATED_AVXVNNI)
    asm("vpbroadcastd %5, %2\n\t"
        "%{vex%} vpdpwssd %3, %2, %0\n\t"
        "%{vex%} vpdpwssd %4, %2, %1"
        : "+x"(sums[0]), "+x"(sums[1]), "=&x"(x)
        : "x"(w0), "x"(w1), "m"(*pair));
#else
    __m256i product;
    asm("vpbroadcastd %6, %2\n\t"
        "vpmaddwd %4, %2, %3\n\t"
        "vpmaddwd %5, %2, %2\n\t"
        "vpaddd %3, %0, %0\n\t"
        "vpaddd %2, %1, %1"
        : "+x"(sums[0]), "+x"(sums[1]), "=&x"(x), "=&x"(product)
        : "x"(w0), "x"(w1), "m"(*pair));
#endif
}

inline __m256i load_lanes(const int32_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }

// Lanes with the upper halves of doubles put over them, four outputs each.
struct Halves {
    Halves(__m256i low, __m256i high)
        : part{_mm256_castsi256_pd(_mm256_unpacklo_epi32(low, high)),
               _mm256_castsi256_pd(_mm256_unpackhi_epi32(low, high))} {}
    __m256d part[2];
};

struct Scales {
    explicit Scales(const TileScale* scales) : high(load_lanes(scales)), offset(_mm256_set1_epi32(kOffset), high) {}
    __m256i high;
    Halves offset;
};

// acc[0..7] += (sums - offset) * scale * x_scale.
inline void add_scaled(double* acc, __m256i sums, const Scales& s, __m256d x_scale) {
    const Halves raised(sums, s.high);
    for (int i = 0; i < 2; ++i) {
        const __m256d scaled = _mm256_sub_pd(raised.part[i], s.offset.part[i]);
        _mm256_storeu_pd(acc + 4 * i, _mm256_fmadd_pd(scaled, x_scale, _mm256_loadu_pd(acc + 4 * i)));
    }
}

// acc [Rows][kTileOutputs] += all blocks of the high digits.
template <size_t Rows>
void multiply_tile(const Tile& t) {
    const int32_t *x = t.x_pairs, *w = t.w_pairs;
    for (size_t b = 0; b < t.blocks; ++b) {
        prefetch_codes(t, b);
        __m256i sums[Rows][2];
        for (size_t r = 0; r < Rows; ++r) sums[r][0] = sums[r][1] = _mm256_set1_epi32(kOffset);
#pragma GCC unroll 16
        for (size_t p = 0; p < kPairs; ++p) {
            const __m256i w0 = load_lanes(w + p * kTileOutputs);
            const __m256i w1 = load_lanes(w + p * kTileOutputs + kVectorOutputs);
#pragma GCC unroll 8
            for (size_t r = 0; r < Rows; ++r) add_products(sums[r], w0, w1, x + p * Rows + r);
        }
        x += kPairs * Rows;
        w += kPairs * kTileOutputs;
#pragma GCC unroll 2
        for (size_t half = 0; half < 2; ++half) {
            const Scales s(t.w_scales + b * kTileOutputs + half * kVectorOutputs);
#pragma GCC unroll 8
            for (size_t r = 0; r < Rows; ++r)
                add_scaled(t.acc + r * kTileOutputs + half * kVectorOutputs, sums[r][half], s,
                           _mm256_set1_pd(t.x_scales[b * Rows + r]));
        }
    }
}

// acc [kTileOutputs] += one pair of low digits.
inline void add_low_pair(double* acc, const int32_t* w, const TileScale* w_scales, int32_t pair, double x_scale) {
    __m256i sums[2] = {_mm256_set1_epi32(kOffset), _mm256_set1_epi32(kOffset)};
    add_products(sums, load_lanes(w), load_lanes(w + kVectorOutputs), &pair);
    for (size_t half = 0; half < 2; ++half)
        add_scaled(acc + half * kVectorOutputs, sums[half], Scales(w_scales + half * kVectorOutputs),
                   _mm256_set1_pd(x_scale));
}

void decode_tile(const uint8_t* const* codes, const uint8_t* const* scales, size_t blocks, int32_t* w_pairs,
                 TileScale* w_scales, uint8_t* least, uint8_t* greatest) {
    decode_16_outputs(codes, scales, kOutputOfLane, blocks, w_pairs, w_scales, kTileOutputs, least, greatest);
}

}  // namespace many
}  // namespace
