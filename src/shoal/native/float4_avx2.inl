// Groups of 8 blocks in AVX2, products by vpmaddubsw, or by vpdpbusd with AVX-VNNI. See float4_group.inl.

namespace {

// Lanes 0, 2, 4, 6; 1, 3, 5, 7; 8, 10, 12, 14; 9, 11, 13, 15.
struct Sums {
    __m256d part[4];
};
using Bytes = __m256i;
using Integers = __m256i;

struct Scales {
    __m256i half[2];
};

inline Sums no_sums() {
    const __m256d zero = _mm256_setzero_pd();
    return {{zero, zero, zero, zero}};
}

inline __m256i load_bytes(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }

inline __m256i offset_values(__m256i nibbles) {
    const __m256i table = _mm256_broadcastsi128_si256(_mm_setr_epi8(SHOAL_E2M1_OFFSET_VALUES));
    return _mm256_shuffle_epi8(table, _mm256_and_si256(nibbles, _mm256_set1_epi8(15)));
}

struct Codes {
    __m256i even(size_t k) const { return offset_values(step[k]); }
    __m256i odd(size_t k) const { return offset_values(_mm256_srli_epi16(step[k], 4)); }
    __m256i step[kSteps];
};

inline Codes decode(const uint8_t* codes) {
    const __m256i a = load_bytes(codes), b = load_bytes(codes + 32);
    const __m256i c = load_bytes(codes + 64), d = load_bytes(codes + 96);
    const __m256i ab_low = _mm256_unpacklo_epi32(a, b), ab_high = _mm256_unpackhi_epi32(a, b);
    const __m256i cd_low = _mm256_unpacklo_epi32(c, d), cd_high = _mm256_unpackhi_epi32(c, d);
    return {{_mm256_unpacklo_epi64(ab_low, cd_low), _mm256_unpackhi_epi64(ab_low, cd_low),
             _mm256_unpacklo_epi64(ab_high, cd_high), _mm256_unpackhi_epi64(ab_high, cd_high)}};
}

inline Scales widen(const uint8_t* scales) {
    int64_t word;
    __builtin_memcpy(&word, scales, sizeof word);
    const __m256i bytes = _mm256_set1_epi64x(word);
    // Lane p of the first half holds block 2p, of the second 2p + 1. A byte at bit 48 is shifted on to bit 52.
    const __m256i even = _mm256_setr_epi8(-1, -1, -1, -1, -1, -1, 0, -1, -1, -1, -1, -1, -1, -1, 2, -1,  //
                                          -1, -1, -1, -1, -1, -1, 4, -1, -1, -1, -1, -1, -1, -1, 6, -1);
    const __m256i odd = _mm256_setr_epi8(-1, -1, -1, -1, -1, -1, 1, -1, -1, -1, -1, -1, -1, -1, 3, -1,  //
                                         -1, -1, -1, -1, -1, -1, 5, -1, -1, -1, -1, -1, -1, -1, 7, -1);
    return {{_mm256_slli_epi64(_mm256_shuffle_epi8(bytes, even), 4), _mm256_slli_epi64(_mm256_shuffle_epi8(bytes, odd), 4)}};
}

#if defined(__AVXVNNI__)

// Products of one digit of a row, summed per block as they come.
struct DigitSum {
    __m256i sum = _mm256_setzero_si256();

    void add_step(size_t k, __m256i even, __m256i odd, const Digits& digits) {
        sum = _mm256_dpbusd_avx_epi32(sum, even, load_bytes(digits[k][0]));
        sum = _mm256_dpbusd_avx_epi32(sum, odd, load_bytes(digits[k][1]));
    }
    template <int Bits>
    __m256i total() const {
        return _mm256_slli_epi32(sum, Bits);
    }
};

#else

// Products of one digit of a row, summed per block as they come: two steps in 16 bits, since 4 pairs of products of at
// most 24 * 128 are 24,576; then widened, times 2^Bits.
struct DigitSum {
    __m256i pairs[2];

    void add_step(size_t k, __m256i even, __m256i odd, const Digits& digits) {
        const __m256i step = _mm256_add_epi16(_mm256_maddubs_epi16(even, load_bytes(digits[k][0])),
                                              _mm256_maddubs_epi16(odd, load_bytes(digits[k][1])));
        pairs[k / 2] = k % 2 ? _mm256_add_epi16(pairs[k / 2], step) : step;
    }
    template <int Bits>
    __m256i total() const {
        const __m256i unit = _mm256_set1_epi16(1 << Bits);
        return _mm256_add_epi32(_mm256_madd_epi16(pairs[0], unit), _mm256_madd_epi16(pairs[1], unit));
    }
};

#endif

inline __m256i plus(__m256i a, __m256i b) { return _mm256_add_epi32(a, b); }

inline __m256d scaled(__m256d sum, __m128i blocks, __m256i scales, const uint64_t* exponents) {
    const __m256i exponent = _mm256_add_epi64(scales, load_bytes(exponents));
    return _mm256_fmadd_pd(_mm256_cvtepi32_pd(blocks), _mm256_castsi256_pd(exponent), sum);
}

template <size_t Part>
inline void add_blocks(Sums& sums, __m256i blocks, const Scales& s, const DigitGroup& x) {
    __m256d* part = sums.part + 2 * Part;
    blocks = _mm256_sub_epi32(blocks, load_bytes(x.correction));
    part[0] = scaled(part[0], _mm256_castsi256_si128(blocks), s.half[0], x.exponent);
    part[1] = scaled(part[1], _mm256_extracti128_si256(blocks, 1), s.half[1], x.exponent + 4);
}

inline double total(const Sums& sums) {
    const __m256d even = _mm256_add_pd(sums.part[0], sums.part[2]), odd = _mm256_add_pd(sums.part[1], sums.part[3]);
    const __m128d even_two = _mm_add_pd(_mm256_castpd256_pd128(even), _mm256_extractf128_pd(even, 1));
    const __m128d odd_two = _mm_add_pd(_mm256_castpd256_pd128(odd), _mm256_extractf128_pd(odd, 1));
    const __m128d one = _mm_hadd_pd(even_two, odd_two);
    return _mm_cvtsd_f64(_mm_add_sd(one, _mm_unpackhi_pd(one, one)));
}

}  // namespace
