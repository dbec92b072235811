// A Q8 input times a block-scaled weight, correctly rounded up to the order of its blocks (spec 3.2).
//
// Codes are integers (E4M3 * 512, E2M1 * 2), so a block of 32 products is summed exactly in any order; the blocks,
// scaled exactly in double, are added by halving as in ops/wide.py; the sum is rounded once, straight to bf16.

namespace {

constexpr size_t kBlock = 32;
constexpr int kE4M3Fraction = 9, kE2M1Fraction = 1;
constexpr uint8_t kE4M3Nan = 0x7f, kE8M0Nan = 0xff;
constexpr uint16_t kBf16Nan = 0x7fc0;

// E4M3 * 2^9: an integer of at most 18 bits.
inline int32_t e4m3_integer(uint8_t code) {
    const int32_t exponent = (code >> 3) & 15, mantissa = code & 7;
    const int32_t magnitude = exponent ? (8 + mantissa) << (exponent - 1) : mantissa;
    return code & 0x80 ? -magnitude : magnitude;
}

// E2M1 * 2: 0, 1, 2, 3, 4, 6, 8, 12 and their negatives.
inline int32_t e2m1_integer(uint8_t code) {
    constexpr int8_t magnitudes[8] = {0, 1, 2, 3, 4, 6, 8, 12};
    const int32_t magnitude = magnitudes[code & 7];
    return code & 8 ? -magnitude : magnitude;
}

// bf16 of a double, ties to even; below the normal range on the subnormals' grid.
inline uint16_t round_to_bf16(double value) {
    uint64_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    const double magnitude = value < 0 ? -value : value;
    if (magnitude < 0x1p-126) {
        constexpr double shift = 0x1.8p-81;  // 1.5 * 2^(52 - 133)
        value = __builtin_copysign((magnitude + shift) - shift, value);
    } else if (magnitude < __builtin_inf()) {
        constexpr int dropped = 52 - 7;
        bits = bits + ((uint64_t{1} << (dropped - 1)) - 1) + ((bits >> dropped) & 1);
        bits = bits >> dropped << dropped;
        __builtin_memcpy(&value, &bits, sizeof value);
    }
    return static_cast<uint16_t>(bits_of(static_cast<float>(value)) >> 16);
}

inline double e8m0_value(uint8_t code) { return power_of_two(static_cast<int64_t>(code) - 127); }

inline void decode_weight_row(const ShoalBlockLinear* p, size_t output, int32_t* values) {
    if (p->weight_is_e2m1) {
        const uint8_t* codes = p->weight_codes + output * (p->inputs / 2);
        for (size_t k = 0; k < p->inputs / 2; ++k) {
            values[2 * k] = e2m1_integer(codes[k] & 15);
            values[2 * k + 1] = e2m1_integer(codes[k] >> 4);
        }
    } else {
        const uint8_t* codes = p->weight_codes + output * p->inputs;
        for (size_t k = 0; k < p->inputs; ++k) values[k] = e4m3_integer(codes[k]);
    }
}

// Whether a row holds a NaN: then all its outputs are NaN, as they are in floating point.
inline bool has_nan(const uint8_t* codes, const uint8_t* scales, size_t inputs) {
    bool nan = false;
    for (size_t k = 0; k < inputs; ++k) nan |= (codes[k] & kE4M3Nan) == kE4M3Nan;
    for (size_t b = 0; b < inputs / kBlock; ++b) nan |= scales[b] == kE8M0Nan;
    return nan;
}

// `Sum` holds a block exactly: 27 bits with E2M1 weights, 41 with E4M3.
template <typename Sum>
inline uint16_t one_output(const int32_t* x, const uint8_t* x_scales, const int32_t* w, const uint8_t* w_scales,
                           size_t blocks, double unit, double* terms) {
    for (size_t b = 0; b < blocks; ++b) {
        Sum dot = 0;
        for (size_t k = 0; k < kBlock; ++k) dot += static_cast<Sum>(x[b * kBlock + k]) * w[b * kBlock + k];
        terms[b] = static_cast<double>(dot) * unit * e8m0_value(x_scales[b]) * e8m0_value(w_scales[b]);
    }
    return round_to_bf16(halving_sum(terms, blocks));
}

void block_linear(const ShoalBlockLinear* p, int32_t* x_values, int32_t* w_values, double* terms) {
    const size_t blocks = p->inputs / kBlock;
    const double unit = power_of_two(-kE4M3Fraction - (p->weight_is_e2m1 ? kE2M1Fraction : kE4M3Fraction));
    for (size_t i = 0; i < p->rows * p->inputs; ++i) x_values[i] = e4m3_integer(p->x_codes[i]);
    for (size_t output = 0; output < p->outputs; ++output) {
        decode_weight_row(p, output, w_values);
        // An FP8 tile spans 32 outputs, an FP4 scale one.
        const uint8_t* w_scales = p->weight_scales + (p->weight_is_e2m1 ? output : output / kBlock) * blocks;
        for (size_t row = 0; row < p->rows; ++row)
            p->y[row * p->outputs + output] = (p->weight_is_e2m1 ? one_output<int32_t> : one_output<int64_t>)(
                x_values + row * p->inputs, p->x_scales + row * blocks, w_values, w_scales, blocks, unit, terms);
    }
    for (size_t row = 0; row < p->rows; ++row)
        if (has_nan(p->x_codes + row * p->inputs, p->x_scales + row * blocks, p->inputs))
            for (size_t output = 0; output < p->outputs; ++output) p->y[row * p->outputs + output] = kBf16Nan;
}

}  // namespace
