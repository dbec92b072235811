// AVX-512 as plain loops, for machines without it: included before a kernel's source, which takes its AVX-512 side.
//
// Each function does to its lanes what Intel's documentation says of the intrinsic it stands for; only those that the
// kernels use are here, with the comparisons and the rounding that they ask for. Compiled for AVX2.
#pragma once

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__AVX512F__)
#error "compiled for AVX-512: there is nothing to emulate"
#endif
#define __AVX512F__ 1
#define __AVX512VNNI__ 1
#define SHOAL_EMULATED_AVX512 1

namespace emulated {

template <typename Lane, typename Vector>
struct Lanes {
    static constexpr size_t kCount = sizeof(Vector) / sizeof(Lane);
    Lanes() = default;
    explicit Lanes(const Vector& v) { __builtin_memcpy(lane, &v, sizeof v); }
    operator Vector() const {
        Vector v;
        __builtin_memcpy(&v, lane, sizeof v);
        return v;
    }
    Lane lane[kCount];
};
template <typename Lane>
using Wide = Lanes<Lane, __m512i>;
using Floats = Lanes<float, __m512>;
using Doubles = Lanes<double, __m512d>;

template <typename L, typename Function>
L fill(const Function& of) {
    L result;
    for (size_t i = 0; i < L::kCount; ++i) result.lane[i] = of(i);
    return result;
}
template <typename L, typename Vector, typename Function>
L each(const Vector& a, const Function& of) {
    const L x(a);
    return fill<L>([&](size_t i) { return of(x.lane[i]); });
}
template <typename L, typename Vector, typename Function>
L both(const Vector& a, const Vector& b, const Function& of) {
    const L x(a), y(b);
    return fill<L>([&](size_t i) { return of(x.lane[i], y.lane[i]); });
}
// Of each 128 bits the low or the high half, interleaved.
template <typename Lane>
Wide<Lane> unpack(__m512i a, __m512i b, size_t half) {
    constexpr size_t count = 16 / sizeof(Lane);
    const Wide<Lane> x(a), y(b);
    return fill<Wide<Lane>>([&](size_t i) {
        const size_t from = i / count * count + half * (count / 2) + i % count / 2;
        return i % 2 ? y.lane[from] : x.lane[from];
    });
}
template <typename Part, typename Vector>
Part part(const Vector& whole, size_t index) {
    Part result;
    __builtin_memcpy(&result, reinterpret_cast<const uint8_t*>(&whole) + index * sizeof result, sizeof result);
    return result;
}
template <typename Vector, typename Part>
Vector with_part(Vector whole, const Part& given, size_t index) {
    __builtin_memcpy(reinterpret_cast<uint8_t*>(&whole) + index * sizeof given, &given, sizeof given);
    return whole;
}
template <typename To, typename From>
To same_bits(const From& from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    __builtin_memcpy(&to, &from, sizeof to);
    return to;
}
template <typename Vector>
Vector read(const void* p) {
    Vector v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}

inline __m512i set1_epi8(char x) { return fill<Wide<char>>([&](size_t) { return x; }); }
inline __m512i set1_epi32(int x) { return fill<Wide<int32_t>>([&](size_t) { return x; }); }
inline __m512i set1_epi64(long long x) { return fill<Wide<int64_t>>([&](size_t) { return x; }); }
inline __m512 set1_ps(float x) { return fill<Floats>([&](size_t) { return x; }); }
inline __m512d set1_pd(double x) { return fill<Doubles>([&](size_t) { return x; }); }
inline __m512i setzero_si512() { return set1_epi32(0); }
inline __m512d setzero_pd() { return set1_pd(0.0); }
inline __m512i set_epi64(int64_t h, int64_t g, int64_t f, int64_t e, int64_t d, int64_t c, int64_t b, int64_t a) {
    const int64_t lanes[] = {a, b, c, d, e, f, g, h};
    return read<__m512i>(lanes);
}

inline __m512i loadu_si512(const void* p) { return read<__m512i>(p); }
inline __m512i load_si512(const void* p) {
    if (reinterpret_cast<uintptr_t>(p) % 64) __builtin_trap();
    return read<__m512i>(p);
}
inline __m512 loadu_ps(const float* p) { return read<__m512>(p); }
inline __m512d loadu_pd(const double* p) { return read<__m512d>(p); }
inline __m512 maskz_loadu_ps(__mmask16 mask, const float* p) {
    return fill<Floats>([&](size_t i) { return mask >> i & 1 ? p[i] : 0.0f; });
}
inline __m256i maskz_loadu_epi16(__mmask16 mask, const void* p) {
    using Shorts = Lanes<uint16_t, __m256i>;
    return fill<Shorts>([&](size_t i) {
        uint16_t x = 0;
        if (mask >> i & 1) __builtin_memcpy(&x, static_cast<const uint8_t*>(p) + 2 * i, sizeof x);
        return x;
    });
}
inline void storeu_si512(void* p, __m512i v) { __builtin_memcpy(p, &v, sizeof v); }
inline void storeu_ps(float* p, __m512 v) { __builtin_memcpy(p, &v, sizeof v); }
inline void storeu_pd(double* p, __m512d v) { __builtin_memcpy(p, &v, sizeof v); }

inline __m512i add_epi32(__m512i a, __m512i b) {
    return both<Wide<uint32_t>>(a, b, [](uint32_t x, uint32_t y) { return x + y; });
}
inline __m512i add_epi64(__m512i a, __m512i b) {
    return both<Wide<uint64_t>>(a, b, [](uint64_t x, uint64_t y) { return x + y; });
}
inline __m512i sub_epi32(__m512i a, __m512i b) {
    return both<Wide<uint32_t>>(a, b, [](uint32_t x, uint32_t y) { return x - y; });
}
inline __m512i and_si512(__m512i a, __m512i b) {
    return both<Wide<uint64_t>>(a, b, [](uint64_t x, uint64_t y) { return x & y; });
}
inline __m512i mask_or_epi32(__m512i otherwise, __mmask16 mask, __m512i a, __m512i b) {
    const Wide<uint32_t> x(a), y(b), z(otherwise);
    return fill<Wide<uint32_t>>([&](size_t i) { return mask >> i & 1 ? x.lane[i] | y.lane[i] : z.lane[i]; });
}
inline __m512i slli_epi32(__m512i a, unsigned count) {
    return each<Wide<uint32_t>>(a, [&](uint32_t x) { return count < 32 ? x << count : 0; });
}
inline __m512i slli_epi64(__m512i a, unsigned count) {
    return each<Wide<uint64_t>>(a, [&](uint64_t x) { return count < 64 ? x << count : 0; });
}
inline __m512i srli_epi32(__m512i a, unsigned count) {
    return each<Wide<uint32_t>>(a, [&](uint32_t x) { return count < 32 ? x >> count : 0; });
}
inline __m512i srli_epi16(__m512i a, unsigned count) {
    return each<Wide<uint16_t>>(a, [&](uint16_t x) { return static_cast<uint16_t>(count < 16 ? x >> count : 0); });
}
inline __m512i sllv_epi32(__m512i a, __m512i counts) {
    return both<Wide<uint32_t>>(a, counts, [](uint32_t x, uint32_t count) { return count < 32 ? x << count : 0; });
}

inline __m512i unpacklo_epi32(__m512i a, __m512i b) { return unpack<uint32_t>(a, b, 0); }
inline __m512i unpackhi_epi32(__m512i a, __m512i b) { return unpack<uint32_t>(a, b, 1); }
inline __m512i unpacklo_epi64(__m512i a, __m512i b) { return unpack<uint64_t>(a, b, 0); }
inline __m512i unpackhi_epi64(__m512i a, __m512i b) { return unpack<uint64_t>(a, b, 1); }
inline __m512i shuffle_epi8(__m512i a, __m512i index) {
    const Wide<uint8_t> x(a), at(index);
    return fill<Wide<uint8_t>>([&](size_t i) {
        return static_cast<uint8_t>(at.lane[i] & 0x80 ? 0 : x.lane[i / 16 * 16 + at.lane[i] % 16]);
    });
}
inline __m512i permutexvar_epi8(__m512i index, __m512i a) {
    const Wide<uint8_t> x(a), at(index);
    return fill<Wide<uint8_t>>([&](size_t i) { return x.lane[at.lane[i] % 64]; });
}
inline __m512i maskz_permutexvar_epi8(__mmask64 mask, __m512i index, __m512i a) {
    const Wide<uint8_t> x(permutexvar_epi8(index, a));
    return fill<Wide<uint8_t>>([&](size_t i) { return static_cast<uint8_t>(mask >> i & 1 ? x.lane[i] : 0); });
}
inline __m512d permutex2var_pd(__m512d a, __m512i index, __m512d b) {
    const Doubles x(a), y(b);
    const Wide<uint64_t> at(index);
    return fill<Doubles>([&](size_t i) { return (at.lane[i] & 8 ? y : x).lane[at.lane[i] % 8]; });
}
inline __m512i broadcast_i32x4(__m128i a) {
    __m512i result = setzero_si512();
    for (size_t i = 0; i < 4; ++i) result = with_part(result, a, i);
    return result;
}

// Four products of an unsigned and a signed byte a lane, added without saturation.
inline __m512i dpbusd_epi32(__m512i sum, __m512i a, __m512i b) {
    const Wide<int32_t> start(sum);
    const Wide<uint8_t> x(a);
    const Wide<int8_t> y(b);
    return fill<Wide<int32_t>>([&](size_t i) {
        int32_t total = start.lane[i];
        for (size_t k = 4 * i; k < 4 * i + 4; ++k) total += x.lane[k] * y.lane[k];
        return total;
    });
}
// Two products of signed 16-bit numbers a lane.
inline __m512i dpwssd_epi32(__m512i sum, __m512i a, __m512i b) {
    const Wide<int32_t> start(sum);
    const Wide<int16_t> x(a), y(b);
    return fill<Wide<int32_t>>([&](size_t i) {
        return start.lane[i] + x.lane[2 * i] * y.lane[2 * i] + x.lane[2 * i + 1] * y.lane[2 * i + 1];
    });
}

// Of two vectors of float32, `name`_ps, and of float64, `name`_pd.
#define SHOAL_EMULATE(name, result)                                                                            \
    inline __m512 name##_ps(__m512 a, __m512 b) {                                                              \
        return both<Floats>(a, b, [](float x, float y) { return result; });                                    \
    }                                                                                                          \
    inline __m512d name##_pd(__m512d a, __m512d b) {                                                           \
        return both<Doubles>(a, b, [](double x, double y) { return result; });                                 \
    }
SHOAL_EMULATE(add, x + y)
SHOAL_EMULATE(sub, x - y)
SHOAL_EMULATE(mul, x * y)
SHOAL_EMULATE(div, x / y)
SHOAL_EMULATE(min, x < y ? x : y)
SHOAL_EMULATE(max, x > y ? x : y)
#undef SHOAL_EMULATE
inline __m512 sqrt_ps(__m512 a) {
    return each<Floats>(a, [](float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); });
}
inline __m512 abs_ps(__m512 a) {
    return each<Floats>(a, [](float x) { return __builtin_fabsf(x); });
}
inline __m512 fmadd_ps(__m512 a, __m512 b, __m512 c) {
    const Floats x(a), y(b), z(c);
    return fill<Floats>([&](size_t i) { return __builtin_fmaf(x.lane[i], y.lane[i], z.lane[i]); });
}
inline __m512d fmadd_pd(__m512d a, __m512d b, __m512d c) {
    const Doubles x(a), y(b), z(c);
    return fill<Doubles>([&](size_t i) { return __builtin_fma(x.lane[i], y.lane[i], z.lane[i]); });
}
inline __m512d roundscale_pd(__m512d a, int how) {
    if (how != (_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)) __builtin_trap();
    return each<Doubles>(a, [](double x) {
        return _mm_cvtsd_f64(_mm_round_pd(_mm_set_sd(x), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    });
}
inline __mmask16 cmp_ps_mask(__m512 a, __m512 b, int how) {
    if (how != _CMP_UNORD_Q) __builtin_trap();
    const Floats x(a), y(b);
    unsigned mask = 0;
    for (size_t i = 0; i < 16; ++i) mask |= unsigned{__builtin_isunordered(x.lane[i], y.lane[i]) != 0} << i;
    return static_cast<__mmask16>(mask);
}
inline __mmask8 cmp_pd_mask(__m512d a, __m512d b, int how) {
    if (how != _CMP_LT_OQ) __builtin_trap();
    const Doubles x(a), y(b);
    unsigned mask = 0;
    for (size_t i = 0; i < 8; ++i) mask |= unsigned{x.lane[i] < y.lane[i]} << i;
    return static_cast<__mmask8>(mask);
}
inline __m512d mask_blend_pd(__mmask8 mask, __m512d a, __m512d b) {
    const Doubles x(a), y(b);
    return fill<Doubles>([&](size_t i) { return (mask >> i & 1 ? y : x).lane[i]; });
}

inline __m512d cvtepi32_pd(__m256i a) {
    const Lanes<int32_t, __m256i> x(a);
    return fill<Doubles>([&](size_t i) { return static_cast<double>(x.lane[i]); });
}
inline __m512 cvtepi32_ps(__m512i a) {
    const Wide<int32_t> x(a);
    return fill<Floats>([&](size_t i) { return static_cast<float>(x.lane[i]); });
}
inline __m512i cvtpd_epi64(__m512d a) {
    const Doubles x(a);
    return fill<Wide<int64_t>>([&](size_t i) { return _mm_cvtsd_si64(_mm_set_sd(x.lane[i])); });
}
inline __m512d cvtps_pd(__m256 a) {
    const Lanes<float, __m256> x(a);
    return fill<Doubles>([&](size_t i) { return static_cast<double>(x.lane[i]); });
}
inline __m256 cvtpd_ps(__m512d a) {
    using Eight = Lanes<float, __m256>;
    const Doubles x(a);
    return fill<Eight>([&](size_t i) { return static_cast<float>(x.lane[i]); });
}
inline __m512 cvtph_ps(__m256i a) {
    __m512 result = set1_ps(0.0f);
    for (size_t i = 0; i < 2; ++i) result = with_part(result, _mm256_cvtph_ps(part<__m128i>(a, i)), i);
    return result;
}
inline __m512i cvtepu16_epi32(__m256i a) {
    const Lanes<uint16_t, __m256i> x(a);
    return fill<Wide<uint32_t>>([&](size_t i) { return uint32_t{x.lane[i]}; });
}
inline __m256i cvtepi32_epi16(__m512i a) {
    using Shorts = Lanes<uint16_t, __m256i>;
    const Wide<uint32_t> x(a);
    return fill<Shorts>([&](size_t i) { return static_cast<uint16_t>(x.lane[i]); });
}

}  // namespace emulated

#define _mm512_set1_epi8 emulated::set1_epi8
#define _mm512_set1_epi32 emulated::set1_epi32
#define _mm512_set1_epi64 emulated::set1_epi64
#define _mm512_set1_ps emulated::set1_ps
#define _mm512_set1_pd emulated::set1_pd
#define _mm512_setzero_si512 emulated::setzero_si512
#define _mm512_setzero_pd emulated::setzero_pd
#define _mm512_set_epi64 emulated::set_epi64
#define _mm512_loadu_si512 emulated::loadu_si512
#define _mm512_load_si512 emulated::load_si512
#define _mm512_loadu_ps emulated::loadu_ps
#define _mm512_loadu_pd emulated::loadu_pd
#define _mm512_maskz_loadu_ps emulated::maskz_loadu_ps
#define _mm256_maskz_loadu_epi16 emulated::maskz_loadu_epi16
#define _mm512_storeu_si512 emulated::storeu_si512
#define _mm512_storeu_ps emulated::storeu_ps
#define _mm512_storeu_pd emulated::storeu_pd
#define _mm512_add_epi32 emulated::add_epi32
#define _mm512_add_epi64 emulated::add_epi64
#define _mm512_sub_epi32 emulated::sub_epi32
#define _mm512_and_si512 emulated::and_si512
#define _mm512_mask_or_epi32 emulated::mask_or_epi32
#define _mm512_slli_epi32 emulated::slli_epi32
#define _mm512_slli_epi64 emulated::slli_epi64
#define _mm512_srli_epi32 emulated::srli_epi32
#define _mm512_srli_epi16 emulated::srli_epi16
#define _mm512_sllv_epi32 emulated::sllv_epi32
#define _mm512_unpacklo_epi32 emulated::unpacklo_epi32
#define _mm512_unpackhi_epi32 emulated::unpackhi_epi32
#define _mm512_unpacklo_epi64 emulated::unpacklo_epi64
#define _mm512_unpackhi_epi64 emulated::unpackhi_epi64
#define _mm512_shuffle_epi8 emulated::shuffle_epi8
#define _mm512_permutexvar_epi8 emulated::permutexvar_epi8
#define _mm512_maskz_permutexvar_epi8 emulated::maskz_permutexvar_epi8
#define _mm512_permutex2var_pd emulated::permutex2var_pd
#define _mm512_broadcast_i32x4 emulated::broadcast_i32x4
#define _mm512_dpbusd_epi32 emulated::dpbusd_epi32
#define _mm512_add_ps emulated::add_ps
#define _mm512_sub_ps emulated::sub_ps
#define _mm512_mul_ps emulated::mul_ps
#define _mm512_div_ps emulated::div_ps
#define _mm512_min_ps emulated::min_ps
#define _mm512_max_ps emulated::max_ps
#define _mm512_sqrt_ps emulated::sqrt_ps
#define _mm512_abs_ps emulated::abs_ps
#define _mm512_fmadd_ps emulated::fmadd_ps
#define _mm512_add_pd emulated::add_pd
#define _mm512_sub_pd emulated::sub_pd
#define _mm512_mul_pd emulated::mul_pd
#define _mm512_min_pd emulated::min_pd
#define _mm512_max_pd emulated::max_pd
#define _mm512_fmadd_pd emulated::fmadd_pd
#define _mm512_mask_blend_pd emulated::mask_blend_pd
#define _mm512_cvtepi32_pd emulated::cvtepi32_pd
#define _mm512_cvtepi32_ps emulated::cvtepi32_ps
#define _mm512_cvtpd_epi64 emulated::cvtpd_epi64
#define _mm512_cvtps_pd emulated::cvtps_pd
#define _mm512_cvtpd_ps emulated::cvtpd_ps
#define _mm512_cvtph_ps emulated::cvtph_ps
#define _mm512_cvtepu16_epi32 emulated::cvtepu16_epi32
#define _mm512_cvtepi32_epi16 emulated::cvtepi32_epi16
#define _mm512_castsi512_ps emulated::same_bits<__m512>
#define _mm512_castsi512_pd emulated::same_bits<__m512d>
#define _mm512_castps_si512 emulated::same_bits<__m512i>
#define _mm512_castps512_ps256(a) emulated::part<__m256>(a, 0)
#define _mm512_castpd512_pd256(a) emulated::part<__m256d>(a, 0)
#define _mm512_castsi512_si256(a) emulated::part<__m256i>(a, 0)
#define _mm512_castps256_ps512(a) emulated::with_part(emulated::set1_ps(0.0f), a, 0)
// Macros already where their number must be a constant.
#undef _mm512_extractf32x8_ps
#undef _mm512_extractf64x4_pd
#undef _mm512_extracti64x4_epi64
#undef _mm512_insertf32x8
#undef _mm512_inserti32x4
#undef _mm512_roundscale_pd
#undef _mm512_cmp_ps_mask
#undef _mm512_cmp_pd_mask
#define _mm512_extractf32x8_ps(a, index) emulated::part<__m256>(a, index)
#define _mm512_extractf64x4_pd(a, index) emulated::part<__m256d>(a, index)
#define _mm512_extracti64x4_epi64(a, index) emulated::part<__m256i>(a, index)
#define _mm512_insertf32x8(a, b, index) emulated::with_part(a, b, index)
#define _mm512_inserti32x4(a, b, index) emulated::with_part(a, b, index)
#define _mm512_roundscale_pd emulated::roundscale_pd
#define _mm512_cmp_ps_mask emulated::cmp_ps_mask
#define _mm512_cmp_pd_mask emulated::cmp_pd_mask
