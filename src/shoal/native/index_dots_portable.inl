// Sixteen keys in plain C++.

namespace {

constexpr size_t kBundle = 2;  // heads at once

struct Ints {
    int32_t v[kGroup];
};

inline Ints zero_ints() { return {}; }

// 16 bytes of codes of one query -> 8 quads of 4 digits.
inline void decode_query(const uint8_t* codes, int8_t* digits) {
    for (size_t i = 0; i < 16; ++i) {
        int8_t* quad = digits + 8 * (i / 4) + i % 4;
        quad[0] = kDigits[codes[i] & 15];
        quad[4] = kDigits[codes[i] >> 4];
    }
}

// 16 bytes of codes of each of 16 keys -> 8 quads of all keys.
inline void decode_keys(const uint8_t* const* rows, size_t offset, uint8_t* digits) {
    for (size_t key = 0; key < kGroup; ++key)
        for (size_t i = 0; i < 16; ++i) {
            const uint8_t pair = rows[key][offset + i];
            uint8_t* quad = digits + 2 * (i / 4) * kQuadBytes + 4 * key + i % 4;
            quad[0] = static_cast<uint8_t>(kDigits[pair & 15] + kDigitOffset);
            quad[kQuadBytes] = static_cast<uint8_t>(kDigits[pair >> 4] + kDigitOffset);
        }
}

// What a block's sum starts from, given the corrections of its even and its odd halves of quads.
inline int32_t start_of(int32_t even, int32_t odd) { return even + odd; }
inline int32_t step_of(int32_t exponent) { return 1 << exponent; }

// total[h] += (sum over a block of digit products, times the keys' steps) << the head's shift, for kBundle heads.
inline void add_block(const uint8_t* digits, const int32_t* steps, const Query& query, size_t head, size_t block,
                      Ints* total) {
    for (size_t h = 0; h < kBundle; ++h) {
        const size_t place = (head + h) * query.blocks + block;
        const int8_t* q = query.digits + place * kScaleBlock;
        int32_t sum[kGroup];
        for (size_t key = 0; key < kGroup; ++key) sum[key] = query.start[place];
        for (size_t quad = 0; quad < kQuads; ++quad)
            for (size_t key = 0; key < kGroup; ++key)
                for (size_t i = 0; i < 4; ++i) sum[key] += digits[quad * kQuadBytes + 4 * key + i] * q[4 * quad + i];
        for (size_t key = 0; key < kGroup; ++key) total[h].v[key] += sum[key] * (steps[key] << query.shift[place]);
    }
}

inline Floats float_of(Ints a) {
    float values[kLanes];
    for (size_t i = 0; i < kGroup; ++i) values[i] = static_cast<float>(a.v[i]);
    return load(values);
}

// 2^e for a magnitude in [2^e, 2^(e+1)), 0 for zero.
inline Floats leading_power(Floats a) {
    float values[kLanes];
    store(values, a);
    for (size_t i = 0; i < kLanes; ++i) values[i] = value_of(bits_of(values[i]) & 0x7f800000u);
    return load(values);
}

}  // namespace
