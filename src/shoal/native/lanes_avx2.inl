// Lanes in two AVX2 registers: lanes 0..7 and 8..15, or 0..3 and 4..7.
#include <immintrin.h>

namespace {

struct Floats {
    __m256 low, high;
};
struct Doubles {
    __m256d low, high;
};

inline __m256 from_bf16_bits(__m128i bits) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
inline const __m128i* at16(const void* p) { return static_cast<const __m128i*>(p); }

inline Floats broadcast(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline Floats load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline Floats load_part(const float* p, size_t count) {
    float values[kLanes] = {};
    __builtin_memcpy(values, p, count * sizeof(float));
    return load(values);
}
inline Floats load_bf16(const uint16_t* p) {
    return {from_bf16_bits(_mm_loadu_si128(at16(p))), from_bf16_bits(_mm_loadu_si128(at16(p + 8)))};
}
inline Floats load_bf16_part(const uint16_t* p, size_t count) {
    uint16_t values[kLanes] = {};
    __builtin_memcpy(values, p, count * sizeof(uint16_t));
    return load_bf16(values);
}
// E4M3 codes (no NaN) times 2^-8: what the bits are as half precision. Multiply the other factor by 256.
inline Floats load_e4m3_over_256(const uint8_t* p) {
    const __m256i codes = _mm256_cvtepi8_epi16(_mm_loadu_si128(at16(p)));
    const __m256i halves = _mm256_and_si256(_mm256_slli_epi16(codes, 7), _mm256_set1_epi16(static_cast<short>(0xbf80)));
    return {_mm256_cvtph_ps(_mm256_castsi256_si128(halves)), _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1))};
}
// Eight bytes of two E2M1 codes each, the low nibble first: the high byte of every code as half precision.
inline __m128i e2m1_halves(const uint8_t* p) {
    const __m128i table = _mm_setr_epi8(0, 0x38, 0x3c, 0x3e, 0x40, 0x42, 0x44, 0x46, -0x80, -0x48, -0x44, -0x42, -0x40,
                                        -0x3e, -0x3c, -0x3a);
    const __m128i bytes = _mm_loadl_epi64(at16(p)), nibble = _mm_set1_epi8(15);
    const __m128i low = _mm_and_si128(bytes, nibble), high = _mm_and_si128(_mm_srli_epi16(bytes, 4), nibble);
    return _mm_shuffle_epi8(table, _mm_unpacklo_epi8(low, high));
}
inline Floats load_e2m1(const uint8_t* p) {
    const __m128i tops = e2m1_halves(p), zero = _mm_setzero_si128();
    const __m128i first = _mm_unpacklo_epi8(zero, tops), second = _mm_unpackhi_epi8(zero, tops);
    return {_mm256_cvtph_ps(first), _mm256_cvtph_ps(second)};
}
inline Floats add(Floats a, Floats b) { return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)}; }
inline Floats subtract(Floats a, Floats b) { return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)}; }
inline Floats multiply(Floats a, Floats b) { return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)}; }
inline Floats divide(Floats a, Floats b) { return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)}; }
inline Floats square_root(Floats a) { return {_mm256_sqrt_ps(a.low), _mm256_sqrt_ps(a.high)}; }
inline Floats minimum(Floats a, Floats b) { return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)}; }
inline Floats maximum(Floats a, Floats b) { return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)}; }
// a * b + c, rounded once.
inline Floats fma(Floats a, Floats b, Floats c) {
    return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
inline Floats absolute(Floats a) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_andnot_ps(sign, a.low), _mm256_andnot_ps(sign, a.high)};
}
inline void store(float* p, Floats a) {
    _mm256_storeu_ps(p, a.low);
    _mm256_storeu_ps(p + 8, a.high);
}
inline __m256i bf16_bits(__m256 a) {
    const __m256i bits = _mm256_castps_si256(a);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
    return _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, nan), 16);
}
inline void store_bf16(uint16_t* p, Floats a) {
    // packus works within 128-bit halves; the permutation puts the quarters in order.
    const __m256i packed = _mm256_packus_epi32(bf16_bits(a.low), bf16_bits(a.high));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xd8));
}
inline float sum(Floats a) {
    const __m256 eight = _mm256_add_ps(a.low, a.high);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
inline float largest(Floats a) {
    const __m256 eight = _mm256_max_ps(a.low, a.high);
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

inline Doubles broadcast_double(double x) { return {_mm256_set1_pd(x), _mm256_set1_pd(x)}; }
inline Doubles widen(__m256 a) {
    return {_mm256_cvtps_pd(_mm256_castps256_ps128(a)), _mm256_cvtps_pd(_mm256_extractf128_ps(a, 1))};
}
inline Doubles low_half(Floats a) { return widen(a.low); }
inline Doubles high_half(Floats a) { return widen(a.high); }
inline __m256 narrow_half(Doubles a) { return _mm256_set_m128(_mm256_cvtpd_ps(a.high), _mm256_cvtpd_ps(a.low)); }
inline Floats narrow(Doubles low, Doubles high) { return {narrow_half(low), narrow_half(high)}; }
inline Doubles add(Doubles a, Doubles b) { return {_mm256_add_pd(a.low, b.low), _mm256_add_pd(a.high, b.high)}; }
inline Doubles subtract(Doubles a, Doubles b) { return {_mm256_sub_pd(a.low, b.low), _mm256_sub_pd(a.high, b.high)}; }
inline Doubles multiply(Doubles a, Doubles b) { return {_mm256_mul_pd(a.low, b.low), _mm256_mul_pd(a.high, b.high)}; }
inline Doubles minimum(Doubles a, Doubles b) { return {_mm256_min_pd(a.low, b.low), _mm256_min_pd(a.high, b.high)}; }
inline Doubles maximum(Doubles a, Doubles b) { return {_mm256_max_pd(a.low, b.low), _mm256_max_pd(a.high, b.high)}; }
inline Doubles nearest_integer(Doubles a) {
    constexpr int nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return {_mm256_round_pd(a.low, nearest), _mm256_round_pd(a.high, nearest)};
}
// Adding 1.5 * 2^52 leaves a whole number in the low bits of a double.
inline __m256d power_of_two_half(__m256d n) {
    const __m256i whole = _mm256_castpd_si256(_mm256_add_pd(n, _mm256_set1_pd(0x1.8p52 + 1023.0)));
    return _mm256_castsi256_pd(_mm256_slli_epi64(whole, 52));
}
// 2^n for whole n from -1022 to 1023.
inline Doubles power_of_two(Doubles n) { return {power_of_two_half(n.low), power_of_two_half(n.high)}; }
inline __m256d where_less_half(__m256d x, __m256d y, __m256d a, __m256d b) {
    return _mm256_blendv_pd(b, a, _mm256_cmp_pd(x, y, _CMP_LT_OQ));
}
// a where x < y, else b.
inline Doubles where_less(Doubles x, Doubles y, Doubles a, Doubles b) {
    return {where_less_half(x.low, y.low, a.low, b.low), where_less_half(x.high, y.high, a.high, b.high)};
}

}  // namespace
