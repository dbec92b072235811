// E2M1 codes of weight rows to int16 pairs side by side: element p * stride + i is inputs (2p, 2p + 1) of row i.
//
// A byte of the file is a pair. Eight rows of a block are four registers, rows i and i + 4 its halves: two rounds of
// interleaving registers i and i + 2 put each byte's four rows together, and nothing ever crosses a half.

namespace {
namespace many {

inline __m256i load_bytes(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
inline void store_bytes(void* p, __m256i v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }

// Rotates the index (register, byte of a half) by one bit: `count` times 16 bytes.
template <int Count>
inline void interleave(__m256i* v) {
    __m256i u[Count];
    for (int i = 0; i < Count / 2; ++i) {
        u[2 * i] = _mm256_unpacklo_epi8(v[i], v[i + Count / 2]);
        u[2 * i + 1] = _mm256_unpackhi_epi8(v[i], v[i + Count / 2]);
    }
    for (int i = 0; i < Count; ++i) v[i] = u[i];
}

inline __m128i load_half(const uint8_t* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }

// One block of 8 rows: 16 bytes of each at `offset`.
inline void decode_8_rows(const uint8_t* const* rows, size_t offset, int32_t* pairs, size_t stride) {
    const __m256i values = _mm256_broadcastsi128_si256(_mm_setr_epi8(SHOAL_E2M1_VALUES));
    const __m256i nibble = _mm256_set1_epi8(15), zero = _mm256_setzero_si256();
    __m256i v[4];
    for (int i = 0; i < 4; ++i)
        v[i] = _mm256_set_m128i(load_half(rows[i + 4] + offset), load_half(rows[i] + offset));
    interleave<4>(v);
    interleave<4>(v);
    for (size_t i = 0; i < 4; ++i) {  // bytes 4i .. 4i + 3
        const __m256i even = _mm256_shuffle_epi8(values, _mm256_and_si256(v[i], nibble));
        const __m256i odd = _mm256_shuffle_epi8(values, _mm256_and_si256(_mm256_srli_epi16(v[i], 4), nibble));
        const __m256i two[2] = {_mm256_unpacklo_epi8(even, odd), _mm256_unpackhi_epi8(even, odd)};
        for (size_t j = 0; j < 2; ++j) {
            const __m256i sign = _mm256_cmpgt_epi8(zero, two[j]);
            int32_t* to = pairs + (4 * i + 2 * j) * stride;
            store_bytes(to, _mm256_unpacklo_epi8(two[j], sign));
            store_bytes(to + stride, _mm256_unpackhi_epi8(two[j], sign));
        }
    }
}

// `count` <= 32 bytes, the rest of the register repeating the first of them.
inline __m256i load_some_bytes(const uint8_t* p, size_t count) {
    if (count == 32) return load_bytes(p);
    uint8_t bytes[32];
    __builtin_memset(bytes, p[0], sizeof bytes);
    __builtin_memcpy(bytes, p, count);
    return load_bytes(bytes);
}

// Upper halves of 2^52 * scale of 16 rows: element b * stride + i is block b of row i; least and greatest byte a row.
void decode_16_scales(const uint8_t* const* rows, size_t blocks, int32_t* scales, size_t stride, uint8_t* least,
                      uint8_t* greatest) {
    __m128i low = _mm_set1_epi8(-1), high = _mm_setzero_si128();
    const __m256i unit = _mm256_set1_epi32((1023 + 52 - kScaleBias) << 20);
    for (size_t b = 0; b < blocks; b += 32) {
        const size_t count = blocks - b < 32 ? blocks - b : 32;
        __m256i v[16];
        for (int i = 0; i < 16; ++i) v[i] = load_some_bytes(rows[i] + b, count);
        for (int round = 0; round < 4; ++round) interleave<16>(v);
        for (size_t i = 0; i < 32; ++i) {
            const __m128i bytes = i < 16 ? _mm256_castsi256_si128(v[i]) : _mm256_extracti128_si256(v[i - 16], 1);
            low = _mm_min_epu8(low, bytes);
            high = _mm_max_epu8(high, bytes);
            if (i >= count) continue;
            const __m256i halves[2] = {_mm256_cvtepu8_epi32(bytes), _mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8))};
            for (int half = 0; half < 2; ++half)
                store_bytes(scales + (b + i) * stride + 8 * half,
                            _mm256_add_epi32(_mm256_slli_epi32(halves[half], 20), unit));
        }
    }
    _mm_storeu_si128(reinterpret_cast<__m128i*>(least), low);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(greatest), high);
}

// Codes and scales of 16 outputs; lane i is output_of[i].
void decode_16_outputs(const uint8_t* const* codes, const uint8_t* const* scales, const size_t* output_of,
                       size_t blocks, int32_t* w_pairs, int32_t* w_scales, size_t stride, uint8_t* least,
                       uint8_t* greatest) {
    const uint8_t* rows[16];
    uint8_t low[16], high[16];
    for (int i = 0; i < 16; ++i) rows[i] = codes[output_of[i]];
    for (size_t b = 0; b < blocks; ++b)
        for (size_t half = 0; half < 16; half += 8)
            decode_8_rows(rows + half, b * kPairs, w_pairs + b * kPairs * stride + half, stride);
    for (int i = 0; i < 16; ++i) rows[i] = scales[output_of[i]];
    decode_16_scales(rows, blocks, w_scales, stride, low, high);
    for (int i = 0; i < 16; ++i) least[output_of[i]] = low[i], greatest[output_of[i]] = high[i];
}

}  // namespace many
}  // namespace
