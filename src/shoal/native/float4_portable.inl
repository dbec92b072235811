// Groups of 8 blocks in plain C++, in the order of the lanes of float4_avx2.inl. See float4_group.inl.

namespace {

struct Sums {
    double lane[kSumLanes];
};
struct Bytes {
    uint8_t block[kGroupBlocks][4];
};
struct Integers {
    int32_t block[kGroupBlocks];
};
struct Scales {
    uint64_t block[kGroupBlocks];
};

inline Sums no_sums() { return {}; }

struct Codes {
    Bytes even(size_t k) const { return values(k, 0); }
    Bytes odd(size_t k) const { return values(k, 4); }
    Bytes values(size_t k, int shift) const {
        constexpr uint8_t table[16] = {SHOAL_E2M1_OFFSET_VALUES};
        Bytes result;
        for (size_t lane = 0; lane < kGroupBlocks; ++lane)
            for (size_t byte = 0; byte < 4; ++byte)
                result.block[lane][byte] = table[(codes[block_of(lane) * kFloat4Block / 2 + 4 * k + byte] >> shift) & 15];
        return result;
    }
    const uint8_t* codes;
};

inline Codes decode(const uint8_t* codes) { return {codes}; }

inline Scales widen(const uint8_t* scales) {
    Scales widened;
    for (size_t lane = 0; lane < kGroupBlocks; ++lane)
        widened.block[lane] = static_cast<uint64_t>(scales[block_of(lane)]) << kDoubleFraction;
    return widened;
}

struct DigitSum {
    int32_t sum[kGroupBlocks] = {};

    void add_step(size_t k, const Bytes& even, const Bytes& odd, const Digits& digits) {
        for (size_t lane = 0; lane < kGroupBlocks; ++lane)
            for (size_t byte = 0; byte < 4; ++byte)
                sum[lane] += even.block[lane][byte] * digits[k][0][lane][byte] + odd.block[lane][byte] * digits[k][1][lane][byte];
    }
    template <int Bits>
    Integers total() const {
        Integers result;
        for (size_t lane = 0; lane < kGroupBlocks; ++lane) result.block[lane] = sum[lane] * (1 << Bits);
        return result;
    }
};

inline Integers plus(Integers a, const Integers& b) {
    for (size_t lane = 0; lane < kGroupBlocks; ++lane) a.block[lane] += b.block[lane];
    return a;
}

template <size_t Part>
inline void add_blocks(Sums& sums, const Integers& blocks, const Scales& s, const DigitGroup& x) {
    for (size_t lane = 0; lane < kGroupBlocks; ++lane) {
        const uint64_t exponent = s.block[lane] + x.exponent[lane];
        double scale;
        __builtin_memcpy(&scale, &exponent, sizeof scale);
        // The product is exact: a fused multiply-add would give the same.
        sums.lane[Part * kGroupBlocks + block_of(lane)] += static_cast<double>(blocks.block[lane] - x.correction[lane]) * scale;
    }
}

inline double total(Sums sums) {
    for (size_t half = kSumLanes / 2; half > 0; half /= 2)
        for (size_t lane = 0; lane < half; ++lane) sums.lane[lane] += sums.lane[lane + half];
    return sums.lane[0];
}

}  // namespace
