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

// Scale bytes of 16 keys and the keys' lowest, from all blocks or only from those that are not empty.
inline void fill_scales(const uint8_t* const* rows, const uint8_t* const* scales, Keys& keys, bool skip_empty,
                        int32_t* lowest) {
    for (size_t key = 0; key < kGroup; ++key) lowest[key] = kNever;
    for (size_t block = 0; block < keys.blocks; ++block)
        for (size_t key = 0; key < kGroup; ++key) {
            const bool skip = skip_empty && is_empty(rows[key] + block * kScaleBlock / 2);
            const int32_t scale = scales[key][block];
            keys.steps[block * kGroup + key] = skip ? -1 : scale;
            lowest[key] = least(lowest[key], skip ? kNever : scale);
        }
    keys.lowest = kNever, keys.highest = 0, keys.span = 0;
    for (size_t key = 0; key < kGroup; ++key) {
        lowest[key] = lowest[key] == kNever ? kBias : lowest[key];
        keys.lowest = least(keys.lowest, lowest[key]);
        keys.highest = most(keys.highest, lowest[key]);
    }
    for (size_t i = 0; i < keys.blocks * kGroup; ++i) {
        keys.steps[i] = most(keys.steps[i] - lowest[i % kGroup], 0);
        keys.span = most(keys.span, keys.steps[i]);
    }
}

// Keys from `first` on; the last one stands in for those beyond the end.
inline void fill_keys(const ShoalIndexSelect* p, size_t first, size_t limit, int most_span, Keys& keys) {
    const uint8_t *rows[kGroup], *scales[kGroup];
    int32_t lowest[kGroup];
    keys.first = first, keys.count = limit - first < kGroup ? limit - first : kGroup;
    for (size_t key = 0; key < kGroup; ++key) {
        const size_t row = first + (key < keys.count ? key : keys.count - 1);
        rows[key] = p->key_codes + row * p->dim / 2;
        scales[key] = p->key_scales + row * keys.blocks;
    }
    for (size_t block = 0; block < keys.blocks; ++block)
        decode_keys(rows, block * kScaleBlock / 2, keys.digits + block * kQuads * kQuadBytes);
    fill_scales(rows, scales, keys, false, lowest);
    if (keys.span > kUsualSpan || keys.lowest < kUsualScale) fill_scales(rows, scales, keys, true, lowest);
    for (size_t i = 0; i < keys.blocks * kGroup; ++i) keys.steps[i] = step_of(least(keys.steps[i], most_span));
    for (size_t key = 0; key < kGroup; ++key) {
        keys.scale[key] = value_of(static_cast<uint32_t>(lowest[key]) << 23);
        keys.inverse[key] = value_of(static_cast<uint32_t>(2 * kBias - lowest[key]) << 23);
    }
}

}  // namespace
