// E2M1 codes of 16 weight rows to int16 pairs side by side: element p * stride + i is inputs (2p, 2p + 1) of row i.
//
// A byte of the file is a pair, so 16 rows of 16 bytes are transposed as bytes: four rounds of interleaving rows i and
// i + 8 rotate the index (row, byte) by four bits. Two blocks go at once, one in each half of a register.

namespace {
namespace many {

inline __m256i load_bytes(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
inline void store_bytes(void* p, __m256i v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }

// Register i, byte j of a half becomes register j, byte i of that half.
inline void transpose_bytes(__m256i* v) {
    for (int round = 0; round < 4; ++round) {
        __m256i u[16];
        for (int i = 0; i < 8; ++i) {
            u[2 * i] = _mm256_unpacklo_epi8(v[i], v[i + 8]);
            u[2 * i + 1] = _mm256_unpackhi_epi8(v[i], v[i + 8]);
        }
        for (int i = 0; i < 16; ++i) v[i] = u[i];
    }
}

inline __m256i widened(__m128i bytes) { return _mm256_cvtepi8_epi16(bytes); }

// Two blocks, 32 bytes of each of `rows` in `v`, to `first` and `second`.
inline void decode_two_blocks(__m256i* v, int32_t* first, int32_t* second, size_t stride) {
    const __m256i values = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(SHOAL_E2M1_VALUES));
    const __m256i nibble = _mm256_set1_epi8(15);
    transpose_bytes(v);
    for (size_t p = 0; p < kPairs; ++p) {
        const __m256i even = _mm256_shuffle_epi8(values, _mm256_and_si256(v[p], nibble));
        const __m256i odd = _mm256_shuffle_epi8(values, _mm256_and_si256(_mm256_srli_epi16(v[p], 4), nibble));
        const __m256i low = _mm256_unpacklo_epi8(even, odd), high = _mm256_unpackhi_epi8(even, odd);
        store_bytes(first + p * stride, widened(_mm256_castsi256_si128(low)));
        store_bytes(first + p * stride + 8, widened(_mm256_castsi256_si128(high)));
        store_bytes(second + p * stride, widened(_mm256_extracti128_si256(low, 1)));
        store_bytes(second + p * stride + 8, widened(_mm256_extracti128_si256(high, 1)));
    }
}

// `pairs` has room for an even number of blocks.
void decode_16_rows(const uint8_t* const* rows, size_t blocks, int32_t* pairs, size_t stride) {
    constexpr size_t block_bytes = kBlock / 2;
    __m256i v[16];
    for (size_t b = 0; b < blocks; b += 2) {
        if (b + 1 < blocks)
            for (int i = 0; i < 16; ++i) v[i] = load_bytes(rows[i] + b * block_bytes);
        else
            for (int i = 0; i < 16; ++i)
                v[i] = _mm256_zextsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[i] + b * block_bytes)));
        decode_two_blocks(v, pairs + b * kPairs * stride, pairs + (b + 1) * kPairs * stride, stride);
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
        transpose_bytes(v);
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
void decode_16_outputs(const uint8_t* const* codes, const uint8_t* const* scales, const size_t* output_of, size_t blocks,
                       int32_t* w_pairs, int32_t* w_scales, size_t stride, uint8_t* least, uint8_t* greatest) {
    const uint8_t* rows[16];
    uint8_t low[16], high[16];
    for (int i = 0; i < 16; ++i) rows[i] = codes[output_of[i]];
    decode_16_rows(rows, blocks, w_pairs, stride);
    for (int i = 0; i < 16; ++i) rows[i] = scales[output_of[i]];
    decode_16_scales(rows, blocks, w_scales, stride, low, high);
    for (int i = 0; i < 16; ++i) least[output_of[i]] = low[i], greatest[output_of[i]] = high[i];
}

}  // namespace many
}  // namespace
