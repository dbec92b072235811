// Tiles of float4_many.inl in plain C++, shaped so that a compiler finds the vectors in the loops over outputs.

namespace {
namespace many {

constexpr size_t kTileOutputs = 16, kTileRows = 4;

inline int32_t pair_dot(int32_t a, int32_t b) {
    return static_cast<int16_t>(a) * static_cast<int16_t>(b) + (a >> 16) * (b >> 16);
}

// acc [Rows][kTileOutputs] += all blocks of the high digits.
template <size_t Rows>
void multiply_tile(const Tile& t) {
    const int32_t *x = t.x_pairs, *w = t.w_pairs;
    for (size_t b = 0; b < t.blocks; ++b) {
        prefetch_codes(t, b);
        int32_t sums[Rows][kTileOutputs] = {};
        for (size_t p = 0; p < kPairs; ++p, x += Rows, w += kTileOutputs)
            for (size_t r = 0; r < Rows; ++r)
                for (size_t i = 0; i < kTileOutputs; ++i) sums[r][i] += pair_dot(w[i], x[r]);
        const TileScale* w_scales = t.w_scales + b * kTileOutputs;
        for (size_t r = 0; r < Rows; ++r)
            for (size_t i = 0; i < kTileOutputs; ++i)
                t.acc[r * kTileOutputs + i] += sums[r][i] * w_scales[i] * t.x_scales[b * Rows + r];
    }
}

// acc [kTileOutputs] += one pair of low digits.
inline void add_low_pair(double* acc, const int32_t* w, const TileScale* w_scales, int32_t pair, double x_scale) {
    for (size_t i = 0; i < kTileOutputs; ++i) acc[i] += pair_dot(w[i], pair) * w_scales[i] * x_scale;
}

inline int32_t decoded_pair(uint8_t codes) {
    return static_cast<int32_t>((static_cast<uint32_t>(kE2M1Values[codes & 15]) & 0xffffu) |
                                static_cast<uint32_t>(kE2M1Values[codes >> 4]) << 16);
}

void decode_tile(const uint8_t* const* codes, const uint8_t* const* scales, size_t blocks, int32_t* w_pairs,
                 TileScale* w_scales, uint8_t* least, uint8_t* greatest) {
    for (size_t i = 0; i < kTileOutputs; ++i) {
        least[i] = 255, greatest[i] = 0;
        for (size_t p = 0; p < blocks * kPairs; ++p) w_pairs[p * kTileOutputs + i] = decoded_pair(codes[i][p]);
        for (size_t b = 0; b < blocks; ++b) {
            const uint8_t scale = scales[i][b];
            w_scales[b * kTileOutputs + i] = exponent_value(scale - kScaleBias);
            least[i] = scale < least[i] ? scale : least[i];
            greatest[i] = scale > greatest[i] ? scale : greatest[i];
        }
    }
}

}  // namespace many
}  // namespace
