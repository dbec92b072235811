// Sixteen keys in one AVX-512 register: digit products with dpbusd.

namespace {

constexpr size_t kBundle = 4;  // heads at once: enough sums in flight to hide the latency of dpbusd

struct Ints {
    __m512i v;
};

inline Ints zero_ints() { return {_mm512_setzero_si512()}; }

// E2M1 times 2, plus `offset`.
inline __m128i digit_table(char offset) {
    return _mm_add_epi8(_mm_set1_epi8(offset),
                        _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12));
}

// 16 bytes of codes of one query -> 8 quads of 4 digits.
inline void decode_query(const uint8_t* codes, int8_t* digits) {
    const __m128i packed = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes)), nibble = _mm_set1_epi8(15);
    const __m128i even = _mm_shuffle_epi8(digit_table(0), _mm_and_si128(packed, nibble));
    const __m128i odd = _mm_shuffle_epi8(digit_table(0), _mm_and_si128(_mm_srli_epi16(packed, 4), nibble));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(digits), _mm_unpacklo_epi32(even, odd));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(digits + 16), _mm_unpackhi_epi32(even, odd));
}

inline __m512i with_row(__m512i rows, const uint8_t* row, int place) {
    const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(row));
    return place == 1   ? _mm512_inserti32x4(rows, codes, 1)
           : place == 2 ? _mm512_inserti32x4(rows, codes, 2)
                        : _mm512_inserti32x4(rows, codes, 3);
}

inline __m512i rows_beside(const uint8_t* const* rows, size_t offset) {
    const __m128i first = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[0] + offset));
    __m512i all = _mm512_inserti32x4(_mm512_setzero_si512(), first, 0);
    for (int place = 1; place < 4; ++place) all = with_row(all, rows[4 * place] + offset, place);
    return all;
}

inline void store_quads(__m512i packed, uint8_t* digits) {
    const __m512i table = _mm512_broadcast_i32x4(digit_table(kDigitOffset)), nibble = _mm512_set1_epi8(15);
    const __m512i even = _mm512_shuffle_epi8(table, _mm512_and_si512(packed, nibble));
    const __m512i odd = _mm512_shuffle_epi8(table, _mm512_and_si512(_mm512_srli_epi16(packed, 4), nibble));
    _mm512_storeu_si512(digits, even);
    _mm512_storeu_si512(digits + kQuadBytes, odd);
}

// 16 bytes of codes of each of 16 keys -> 8 quads of all keys.
inline void decode_keys(const uint8_t* const* rows, size_t offset, uint8_t* digits) {
    __m512i v[4];
    for (size_t i = 0; i < 4; ++i) v[i] = rows_beside(rows + i, offset);
    const __m512i a = _mm512_unpacklo_epi32(v[0], v[1]), b = _mm512_unpacklo_epi32(v[2], v[3]);
    const __m512i c = _mm512_unpackhi_epi32(v[0], v[1]), d = _mm512_unpackhi_epi32(v[2], v[3]);
    store_quads(_mm512_unpacklo_epi64(a, b), digits);
    store_quads(_mm512_unpackhi_epi64(a, b), digits + 2 * kQuadBytes);
    store_quads(_mm512_unpacklo_epi64(c, d), digits + 4 * kQuadBytes);
    store_quads(_mm512_unpackhi_epi64(c, d), digits + 6 * kQuadBytes);
}

// What a block's sum starts from, given the corrections of its even and its odd halves of quads.
inline int32_t start_of(int32_t even, int32_t odd) { return even + odd; }
inline int32_t step_of(int32_t exponent) { return exponent; }

// total[h] += (sum over a block of digit products) << (the keys' steps + the head's shift), for kBundle heads.
inline void add_block(const uint8_t* digits, const int32_t* steps, const Query& query, size_t head, size_t block,
                      Ints* total) {
    const int8_t* q = query.digits + head * query.dim + block * kScaleBlock;
    const int32_t *start = query.start + head * query.blocks + block, *shift = query.shift + head * query.blocks + block;
    __m512i sum[kBundle];
    for (size_t h = 0; h < kBundle; ++h) sum[h] = _mm512_set1_epi32(start[h * query.blocks]);
#pragma GCC unroll 8
    for (size_t quad = 0; quad < kQuads; ++quad) {
        const __m512i keys = _mm512_loadu_si512(digits + quad * kQuadBytes);
#pragma GCC unroll 4
        for (size_t h = 0; h < kBundle; ++h)
            sum[h] = _mm512_dpbusd_epi32(sum[h], keys, _mm512_set1_epi32(quad_at(q + h * query.dim + 4 * quad)));
    }
    const __m512i step = _mm512_loadu_si512(steps);
#pragma GCC unroll 4
    for (size_t h = 0; h < kBundle; ++h) {
        const __m512i count = _mm512_add_epi32(step, _mm512_set1_epi32(shift[h * query.blocks]));
        total[h].v = _mm512_add_epi32(total[h].v, _mm512_sllv_epi32(sum[h], count));
    }
}

inline Floats float_of(Ints a) { return {_mm512_cvtepi32_ps(a.v)}; }

// 2^e for a magnitude in [2^e, 2^(e+1)), 0 for zero.
inline Floats leading_power(Floats a) {
    return {_mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(a.v), _mm512_set1_epi32(0x7f800000)))};
}

}  // namespace
