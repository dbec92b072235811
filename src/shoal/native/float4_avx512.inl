// Groups of 16 blocks in AVX-512 with VNNI and VBMI. See float4_group.inl.

namespace {

struct Sums {
    __m512d part[2];
};
using Bytes = __m512i;
using Integers = __m512i;

struct Scales {
    __m512i half[2];
};

inline Sums no_sums() { return {{_mm512_setzero_pd(), _mm512_setzero_pd()}}; }

// The low six bits of a byte choose one of 64 entries; the table repeats, so only the low four matter.
inline __m512i offset_values(__m512i nibbles) {
    const __m512i table = _mm512_broadcast_i32x4(_mm_setr_epi8(SHOAL_E2M1_OFFSET_VALUES));
    return _mm512_permutexvar_epi8(nibbles, table);
}

struct Codes {
    __m512i even(size_t k) const { return offset_values(step[k]); }
    __m512i odd(size_t k) const { return offset_values(_mm512_srli_epi16(step[k], 4)); }
    __m512i step[kSteps];
};

inline Codes decode(const uint8_t* codes) {
    const __m512i a = _mm512_loadu_si512(codes), b = _mm512_loadu_si512(codes + 64);
    const __m512i c = _mm512_loadu_si512(codes + 128), d = _mm512_loadu_si512(codes + 192);
    const __m512i ab_low = _mm512_unpacklo_epi32(a, b), ab_high = _mm512_unpackhi_epi32(a, b);
    const __m512i cd_low = _mm512_unpacklo_epi32(c, d), cd_high = _mm512_unpackhi_epi32(c, d);
    return {{_mm512_unpacklo_epi64(ab_low, cd_low), _mm512_unpackhi_epi64(ab_low, cd_low),
             _mm512_unpacklo_epi64(ab_high, cd_high), _mm512_unpackhi_epi64(ab_high, cd_high)}};
}

inline Scales widen(const uint8_t* scales) {
    // Lane p holds block 4 * (p % 4) + p / 4. A byte at bit 48 of its lane is shifted on to bit 52.
    const __m512i bytes = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(scales)));
    constexpr uint64_t place = 0x4040404040404040u;
    const __m512i first = _mm512_slli_epi64(_mm512_set_epi64(13, 9, 5, 1, 12, 8, 4, 0), 48);
    const __m512i second = _mm512_slli_epi64(_mm512_set_epi64(15, 11, 7, 3, 14, 10, 6, 2), 48);
    return {{_mm512_slli_epi64(_mm512_maskz_permutexvar_epi8(place, first, bytes), 4),
             _mm512_slli_epi64(_mm512_maskz_permutexvar_epi8(place, second, bytes), 4)}};
}

// Products of one digit of a row, summed per block as they come.
struct DigitSum {
    __m512i sum = _mm512_setzero_si512();

    void add_step(size_t k, __m512i even, __m512i odd, const Digits& digits) {
        sum = _mm512_dpbusd_epi32(sum, even, _mm512_load_si512(digits[k][0]));
        sum = _mm512_dpbusd_epi32(sum, odd, _mm512_load_si512(digits[k][1]));
    }
    template <int Bits>
    __m512i total() const {
        return _mm512_slli_epi32(sum, Bits);
    }
};

inline __m512i plus(__m512i a, __m512i b) { return _mm512_add_epi32(a, b); }

inline __m512d scaled(__m512d sum, __m256i blocks, __m512i scales, const uint64_t* exponents) {
    const __m512i exponent = _mm512_add_epi64(scales, _mm512_load_si512(exponents));
    return _mm512_fmadd_pd(_mm512_cvtepi32_pd(blocks), _mm512_castsi512_pd(exponent), sum);
}

template <size_t Part>
inline void add_blocks(Sums& sums, __m512i blocks, const Scales& s, const DigitGroup& x) {
    static_assert(Part == 0);
    blocks = _mm512_sub_epi32(blocks, _mm512_load_si512(x.correction));
    sums.part[0] = scaled(sums.part[0], _mm512_castsi512_si256(blocks), s.half[0], x.exponent);
    sums.part[1] = scaled(sums.part[1], _mm512_extracti64x4_epi64(blocks, 1), s.half[1], x.exponent + 8);
}

inline double total(const Sums& sums) {
    // Where blocks 0..7 and 8..15 are.
    const __m512i first = _mm512_set_epi64(13, 9, 5, 1, 12, 8, 4, 0), second = _mm512_set_epi64(15, 11, 7, 3, 14, 10, 6, 2);
    const __m512d eight = _mm512_add_pd(_mm512_permutex2var_pd(sums.part[0], first, sums.part[1]),
                                        _mm512_permutex2var_pd(sums.part[0], second, sums.part[1]));
    const __m256d four = _mm256_add_pd(_mm512_castpd512_pd256(eight), _mm512_extractf64x4_pd(eight, 1));
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

}  // namespace
