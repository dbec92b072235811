// Sixteen keys made ready: digits of all side by side, and their block scales over the key's lowest.

namespace {

struct Keys {
    uint8_t* digits;  // [blocks, 8 quads, 16 keys, 4]: value * 2 + 12
    int32_t* steps;   // [blocks, 16]: 2^(scale exponent above the key's lowest), as add_block takes it
    float *scale, *inverse;  // [16]: 2^(the key's lowest scale exponent), and its inverse
    size_t first, count, blocks;
    int span, lowest, highest;  // largest step; of the keys' lowest scale bytes the least and the largest
};

constexpr int kUsualSpan = 3;
constexpr int kUsualScale = 64;
constexpr uint8_t kNoScale = 255;

inline Keys take_keys(const ShoalIndexSelect* p, Scratch& scratch) {
    const size_t blocks = p->dim / kScaleBlock;
    return {scratch.take<uint8_t>(blocks * kQuads * kQuadBytes),
            scratch.take<int32_t>(blocks * kGroup),
            scratch.take<float>(kGroup),
            scratch.take<float>(kGroup),
            0,
            0,
            blocks,
            0,
            0,
            0};
}

// The keys' scale bytes side by side, those of empty blocks kNoScale if they are to be skipped.
inline void gather_scales(const uint8_t* const* rows, const uint8_t* const* scales, size_t blocks, bool skip_empty,
                          uint8_t* bytes) {
    for (size_t key = 0; key < kGroup; ++key)
        for (size_t block = 0; block < blocks; ++block) {
            const bool skip = skip_empty && is_empty(rows[key] + block * kScaleBlock / 2);
            bytes[block * kGroup + key] = skip ? kNoScale : scales[key][block];
        }
}

// The keys' lowest scales; turns bytes into steps above them.
inline void subtract_lowest(Keys& keys, uint8_t* bytes, uint8_t* lowest) {
    for (size_t key = 0; key < kGroup; ++key) lowest[key] = kNoScale;
    for (size_t block = 0; block < keys.blocks; ++block)
        for (size_t key = 0; key < kGroup; ++key) {
            const uint8_t scale = bytes[block * kGroup + key];
            lowest[key] = scale < lowest[key] ? scale : lowest[key];
        }
    uint8_t least_of_all = kNoScale, most_of_all = 0, span = 0;
    for (size_t key = 0; key < kGroup; ++key) {
        lowest[key] = lowest[key] == kNoScale ? kBias : lowest[key];
        least_of_all = lowest[key] < least_of_all ? lowest[key] : least_of_all;
        most_of_all = lowest[key] > most_of_all ? lowest[key] : most_of_all;
    }
    for (size_t block = 0; block < keys.blocks; ++block)
        for (size_t key = 0; key < kGroup; ++key) {
            uint8_t& step = bytes[block * kGroup + key];
            step = static_cast<uint8_t>(step == kNoScale ? 0 : step - lowest[key]);
            span = step > span ? step : span;
        }
    keys.lowest = least_of_all, keys.highest = most_of_all, keys.span = span;
}

// Keys from `first` on; the last one stands in for those beyond the end.
inline void fill_keys(const ShoalIndexSelect* p, size_t first, size_t limit, int most_span, Keys& keys) {
    const uint8_t *rows[kGroup], *scales[kGroup];
    uint8_t bytes[kMostDim / kScaleBlock * kGroup], lowest[kGroup];
    keys.first = first, keys.count = limit - first < kGroup ? limit - first : kGroup;
    for (size_t key = 0; key < kGroup; ++key) {
        const size_t row = first + (key < keys.count ? key : keys.count - 1);
        const PagedRow key_row = paged_row(p->key_pages, row, p->dim / 2, keys.blocks);
        rows[key] = key_row.codes, scales[key] = key_row.scales;
    }
    for (size_t block = 0; block < keys.blocks; ++block)
        decode_keys(rows, block * kScaleBlock / 2, keys.digits + block * kQuads * kQuadBytes);
    gather_scales(rows, scales, keys.blocks, false, bytes);
    subtract_lowest(keys, bytes, lowest);
    if (keys.span > kUsualSpan || keys.lowest < kUsualScale) {
        gather_scales(rows, scales, keys.blocks, true, bytes);
        subtract_lowest(keys, bytes, lowest);
    }
    for (size_t i = 0; i < keys.blocks * kGroup; ++i) keys.steps[i] = step_of(least(bytes[i], most_span));
    for (size_t key = 0; key < kGroup; ++key) {
        keys.scale[key] = value_of(static_cast<uint32_t>(lowest[key]) << 23);
        keys.inverse[key] = value_of(static_cast<uint32_t>(2 * kBias - lowest[key]) << 23);
    }
}

}  // namespace
