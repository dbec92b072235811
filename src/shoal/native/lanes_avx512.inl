// Lanes in one AVX-512 register.
#include <immintrin.h>

namespace {

struct Floats {
    __m512 v;
};
struct Doubles {
    __m512d v;
};

inline __mmask16 first_lanes(size_t count) { return static_cast<__mmask16>((1u << count) - 1); }
inline Floats from_bf16_bits(__m256i bits) {
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))};
}

inline Floats broadcast(float x) { return {_mm512_set1_ps(x)}; }
inline Floats load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline Floats load_part(const float* p, size_t count) { return {_mm512_maskz_loadu_ps(first_lanes(count), p)}; }
inline Floats load_bf16(const uint16_t* p) {
    return from_bf16_bits(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline Floats load_bf16_part(const uint16_t* p, size_t count) {
    return from_bf16_bits(_mm256_maskz_loadu_epi16(first_lanes(count), p));
}
// E4M3 codes (no NaN) times 2^-8: what the bits are as half precision. Multiply the other factor by 256.
inline Floats load_e4m3_over_256(const uint8_t* p) {
    const __m256i codes = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    const __m256i halves = _mm256_and_si256(_mm256_slli_epi16(codes, 7), _mm256_set1_epi16(static_cast<short>(0xbf80)));
    return {_mm512_cvtph_ps(halves)};
}
// Eight bytes of two E2M1 codes each, the low nibble first: the high byte of every code as half precision.
inline __m128i e2m1_halves(const uint8_t* p) {
    const __m128i table = _mm_setr_epi8(0, 0x38, 0x3c, 0x3e, 0x40, 0x42, 0x44, 0x46, -0x80, -0x48, -0x44, -0x42, -0x40,
                                        -0x3e, -0x3c, -0x3a);
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)), nibble = _mm_set1_epi8(15);
    const __m128i low = _mm_and_si128(bytes, nibble), high = _mm_and_si128(_mm_srli_epi16(bytes, 4), nibble);
    return _mm_shuffle_epi8(table, _mm_unpacklo_epi8(low, high));
}
inline Floats load_e2m1(const uint8_t* p) {
    const __m128i tops = e2m1_halves(p), zero = _mm_setzero_si128();
    const __m128i first = _mm_unpacklo_epi8(zero, tops), second = _mm_unpackhi_epi8(zero, tops);
    return {_mm512_cvtph_ps(_mm256_set_m128i(second, first))};
}
inline Floats add(Floats a, Floats b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Floats subtract(Floats a, Floats b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Floats multiply(Floats a, Floats b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Floats divide(Floats a, Floats b) { return {_mm512_div_ps(a.v, b.v)}; }
inline Floats square_root(Floats a) { return {_mm512_sqrt_ps(a.v)}; }
inline Floats minimum(Floats a, Floats b) { return {_mm512_min_ps(a.v, b.v)}; }
inline Floats maximum(Floats a, Floats b) { return {_mm512_max_ps(a.v, b.v)}; }
// a * b + c, rounded once.
inline Floats fma(Floats a, Floats b, Floats c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline Floats absolute(Floats a) { return {_mm512_abs_ps(a.v)}; }
inline void store(float* p, Floats a) { _mm512_storeu_ps(p, a.v); }
inline void store_bf16(uint16_t* p, Floats a) {
    const __m512i bits = _mm512_castps_si512(a.v);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    const __mmask16 nan = _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q);
    rounded = _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x400000));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
}
inline float sum(Floats a) {
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
inline float largest(Floats a) {
    const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

inline Doubles broadcast_double(double x) { return {_mm512_set1_pd(x)}; }
inline Doubles low_half(Floats a) { return {_mm512_cvtps_pd(_mm512_castps512_ps256(a.v))}; }
inline Doubles high_half(Floats a) { return {_mm512_cvtps_pd(_mm512_extractf32x8_ps(a.v, 1))}; }
inline Floats narrow(Doubles low, Doubles high) {
    return {_mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(low.v)), _mm512_cvtpd_ps(high.v), 1)};
}
inline Doubles add(Doubles a, Doubles b) { return {_mm512_add_pd(a.v, b.v)}; }
inline Doubles subtract(Doubles a, Doubles b) { return {_mm512_sub_pd(a.v, b.v)}; }
inline Doubles multiply(Doubles a, Doubles b) { return {_mm512_mul_pd(a.v, b.v)}; }
inline Doubles minimum(Doubles a, Doubles b) { return {_mm512_min_pd(a.v, b.v)}; }
inline Doubles maximum(Doubles a, Doubles b) { return {_mm512_max_pd(a.v, b.v)}; }
inline Doubles nearest_integer(Doubles a) {
    return {_mm512_roundscale_pd(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
// 2^n for whole n from -1022 to 1023.
inline Doubles power_of_two(Doubles n) {
    const __m512i exponent = _mm512_add_epi64(_mm512_cvtpd_epi64(n.v), _mm512_set1_epi64(1023));
    return {_mm512_castsi512_pd(_mm512_slli_epi64(exponent, 52))};
}
// a where x < y, else b.
inline Doubles where_less(Doubles x, Doubles y, Doubles a, Doubles b) {
    return {_mm512_mask_blend_pd(_mm512_cmp_pd_mask(x.v, y.v, _CMP_LT_OQ), b.v, a.v)};
}

}  // namespace
