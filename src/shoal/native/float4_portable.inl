// Groups of 8 blocks in plain C++, in the order of the lanes of float4_avx2.inl. See float4_group.inl.

namespace {

struct Sums {
    double lane[kSumLanes];
};
struct Codes {
    uint8_t step[kSteps][2][kGroupBlocks][4];
};
struct Scales {
    uint64_t block[kGroupBlocks];
};

inline Sums no_sums() { return {}; }

inline Codes decode(const uint8_t* codes) {
    constexpr uint8_t values[16] = {SHOAL_E2M1_OFFSET_VALUES};
    Codes decoded;
    for (size_t k = 0; k < kSteps; ++k)
        for (size_t lane = 0; lane < kGroupBlocks; ++lane)
            for (size_t byte = 0; byte < 4; ++byte) {
                const uint8_t code = codes[block_of(lane) * kFloat4Block / 2 + 4 * k + byte];
                decoded.step[k][0][lane][byte] = values[code & 15];
                decoded.step[k][1][lane][byte] = values[code >> 4];
            }
    return decoded;
}

inline Scales widen(const uint8_t* scales) {
    Scales widened;
    for (size_t lane = 0; lane < kGroupBlocks; ++lane)
        widened.block[lane] = static_cast<uint64_t>(scales[block_of(lane)]) << kDoubleFraction;
    return widened;
}

inline int32_t digit_sum(const Codes& w, const int8_t (&digits)[kSteps][2][kGroupBlocks][4], size_t lane) {
    int32_t sum = 0;
    for (size_t k = 0; k < kSteps; ++k)
        for (size_t odd = 0; odd < 2; ++odd)
            for (size_t byte = 0; byte < 4; ++byte)
                sum += static_cast<int32_t>(w.step[k][odd][lane][byte]) * digits[k][odd][lane][byte];
    return sum;
}

template <size_t Part>
inline void add_group(Sums& sums, const Codes& w, const Scales& s, const DigitGroup& x) {
    for (size_t lane = 0; lane < kGroupBlocks; ++lane) {
        int32_t sum = digit_sum(w, x.high, lane) * (1 << kDigitBits) + digit_sum(w, x.low, lane);
        if (x.has_rest) sum = sum * (1 << kRestBits) + digit_sum(w, x.rest, lane);
        const uint64_t exponent = s.block[lane] + x.exponent[lane];
        double scale;
        __builtin_memcpy(&scale, &exponent, sizeof scale);
        // The product is exact: a fused multiply-add would give the same.
        sums.lane[Part * kGroupBlocks + block_of(lane)] += static_cast<double>(sum - x.correction[lane]) * scale;
    }
}

inline double total(Sums sums) {
    for (size_t half = kSumLanes / 2; half > 0; half /= 2)
        for (size_t lane = 0; lane < half; ++lane) sums.lane[lane] += sums.lane[lane + half];
    return sums.lane[0];
}

}  // namespace
