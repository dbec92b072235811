// Sixteen keys in two AVX2 registers: digit products with maddubs, or with dpbusd where the processor has it.

namespace {

constexpr size_t kBundle = 2;  // heads at once: 4 sums of a block, 4 totals, 2 registers of digits

struct Ints {
    __m256i low, high;
};

inline Ints zero_ints() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
inline __m256i load_ints(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }

// E2M1 times 2, plus `offset`.
inline __m256i digit_table(char offset) {
    return _mm256_add_epi8(_mm256_set1_epi8(offset), _mm256_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12,
                                                                      0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12));
}

// 16 bytes of codes of one query -> 8 quads of 4 digits.
inline void decode_query(const uint8_t* codes, int8_t* digits) {
    const __m128i packed = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes)), nibble = _mm_set1_epi8(15);
    const __m128i table = _mm256_castsi256_si128(digit_table(0));
    const __m128i even = _mm_shuffle_epi8(table, _mm_and_si128(packed, nibble));
    const __m128i odd = _mm_shuffle_epi8(table, _mm_and_si128(_mm_srli_epi16(packed, 4), nibble));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(digits), _mm_unpacklo_epi32(even, odd));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(digits + 16), _mm_unpackhi_epi32(even, odd));
}

inline __m256i rows_beside(const uint8_t* low, const uint8_t* high) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(low))),
                                   _mm_loadu_si128(reinterpret_cast<const __m128i*>(high)), 1);
}

inline void store_quads(__m256i packed, uint8_t* digits) {
    const __m256i table = digit_table(kDigitOffset), nibble = _mm256_set1_epi8(15);
    const __m256i even = _mm256_shuffle_epi8(table, _mm256_and_si256(packed, nibble));
    const __m256i odd = _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(packed, 4), nibble));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(digits), even);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(digits + kQuadBytes), odd);
}

// 16 bytes of codes of each of 16 keys -> 8 quads of all keys.
inline void decode_keys(const uint8_t* const* rows, size_t offset, uint8_t* digits) {
    for (size_t half = 0; half < 2; ++half, rows += 8, digits += 32) {
        __m256i v[4];
        for (size_t i = 0; i < 4; ++i) v[i] = rows_beside(rows[i] + offset, rows[i + 4] + offset);
        const __m256i a = _mm256_unpacklo_epi32(v[0], v[1]), b = _mm256_unpacklo_epi32(v[2], v[3]);
        const __m256i c = _mm256_unpackhi_epi32(v[0], v[1]), d = _mm256_unpackhi_epi32(v[2], v[3]);
        store_quads(_mm256_unpacklo_epi64(a, b), digits);
        store_quads(_mm256_unpackhi_epi64(a, b), digits + 2 * kQuadBytes);
        store_quads(_mm256_unpacklo_epi64(c, d), digits + 4 * kQuadBytes);
        store_quads(_mm256_unpackhi_epi64(c, d), digits + 6 * kQuadBytes);
    }
}

#if defined(__AVXVNNI__)
// What a block's sum starts from, given the corrections of its even and its odd halves of quads.
inline int32_t start_of(int32_t even, int32_t odd) { return even + odd; }
inline int32_t step_of(int32_t exponent) { return exponent; }
inline __m256i add_products(__m256i sum, __m256i keys, __m256i query) {
    return _mm256_dpbusd_avx_epi32(sum, keys, query);
}
inline __m256i stepped(__m256i sum, __m256i step) { return _mm256_sllv_epi32(sum, step); }
#else
// Two sums of 16 bits a key; a step multiplies both and adds them up.
inline int32_t start_of(int32_t even, int32_t odd) {
    return static_cast<int32_t>((static_cast<uint32_t>(even) & 0xffff) | static_cast<uint32_t>(odd) << 16);
}
inline int32_t step_of(int32_t exponent) { return 0x10001 << exponent; }
inline __m256i add_products(__m256i sum, __m256i keys, __m256i query) {
    return _mm256_add_epi16(sum, _mm256_maddubs_epi16(keys, query));
}
inline __m256i stepped(__m256i sum, __m256i step) { return _mm256_madd_epi16(sum, step); }
#endif

// total[h] += (sum over a block of digit products, times the keys' steps) << the head's shift, for kBundle heads.
inline void add_block(const uint8_t* digits, const int32_t* steps, const Query& query, size_t head, size_t block,
                      Ints* total) {
    const int8_t* q = query.digits + head * query.dim + block * kScaleBlock;
    const int32_t *start = query.start + head * query.blocks + block, *shift = query.shift + head * query.blocks + block;
    Ints sum[kBundle];
    for (size_t h = 0; h < kBundle; ++h) sum[h].low = sum[h].high = _mm256_set1_epi32(start[h * query.blocks]);
#pragma GCC unroll 8
    for (size_t quad = 0; quad < kQuads; ++quad) {
        const __m256i low = load_ints(digits + quad * kQuadBytes), high = load_ints(digits + quad * kQuadBytes + 32);
#pragma GCC unroll 2
        for (size_t h = 0; h < kBundle; ++h) {
            const __m256i four = _mm256_set1_epi32(quad_at(q + h * query.dim + 4 * quad));
            sum[h].low = add_products(sum[h].low, low, four);
            sum[h].high = add_products(sum[h].high, high, four);
        }
    }
    const __m256i low_step = load_ints(steps), high_step = load_ints(steps + 8);
#pragma GCC unroll 2
    for (size_t h = 0; h < kBundle; ++h) {
        const __m256i count = _mm256_set1_epi32(shift[h * query.blocks]);
        total[h].low = _mm256_add_epi32(total[h].low, _mm256_sllv_epi32(stepped(sum[h].low, low_step), count));
        total[h].high = _mm256_add_epi32(total[h].high, _mm256_sllv_epi32(stepped(sum[h].high, high_step), count));
    }
}

inline Floats float_of(Ints a) { return {_mm256_cvtepi32_ps(a.low), _mm256_cvtepi32_ps(a.high)}; }

// 2^e for a magnitude in [2^e, 2^(e+1)), 0 for zero.
inline Floats leading_power(Floats a) {
    const __m256 exponent = _mm256_castsi256_ps(_mm256_set1_epi32(0x7f800000));
    return {_mm256_and_ps(a.low, exponent), _mm256_and_ps(a.high, exponent)};
}

}  // namespace
