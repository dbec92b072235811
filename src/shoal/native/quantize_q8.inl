// Q8, the activation quantiser: groups of 32 bf16 values to E4M3 codes and a power-of-two scale.
//
// All of it is integer arithmetic on the bits of exact float32 values, so one source gives the same bytes whatever the
// compiler makes of it for an instruction set; there is no sum. Inputs are finite. Measured by `make bench`.

namespace {

constexpr size_t kGroup = 32;
constexpr float kFloor = 1e-4f;
constexpr float kInverseMaximum = 1.0f / 448.0f;
constexpr uint32_t kMantissaBits = 23, kMantissaMask = (1u << kMantissaBits) - 1, kBias = 127;
constexpr uint32_t kAbsolute = 0x7fffffffu;
// E4M3 keeps 3 of 23 mantissa bits; its exponent bias is 7.
constexpr uint32_t kDropped = kMantissaBits - 3, kRebias = (kBias - 7) << 3;
constexpr float kSmallestNormal = 0x1p-6f;
// Adding 1.5 * 2^23 to |v| * 2^9 leaves the subnormal code, rounded to even, in the low bits.
constexpr float kSubnormalScale = 512.0f, kSubnormalShift = 12582912.0f;

// The E4M3 code of |v| <= 448, ties to even.
inline uint8_t encode_e4m3(float v) {
    const uint32_t bits = bits_of(v), magnitude = bits & kAbsolute;
    const uint32_t odd = (magnitude >> kDropped) & 1;
    const uint32_t normal = ((magnitude + ((1u << (kDropped - 1)) - 1) + odd) >> kDropped) - kRebias;
    const uint32_t subnormal = bits_of(value_of(magnitude) * kSubnormalScale + kSubnormalShift) & 0xff;
    const uint32_t code = value_of(magnitude) < kSmallestNormal ? subnormal : normal;
    return static_cast<uint8_t>(code | (bits >> 31) << 7);
}

inline void quantize_group(const uint16_t* __restrict x, uint8_t* __restrict codes, uint8_t* __restrict scale) {
    uint32_t largest = 0;
    for (size_t i = 0; i < kGroup; ++i) {
        const uint32_t magnitude = x[i] & 0x7fffu;
        largest = magnitude > largest ? magnitude : largest;
    }
    float amax = value_of(largest << 16);
    amax = amax < kFloor ? kFloor : amax;
    const uint32_t ratio = bits_of(amax * kInverseMaximum);
    // Rounded up to a power of two: E8M0's bias is float32's.
    const uint32_t exponent = (ratio >> kMantissaBits) + ((ratio & kMantissaMask) != 0);
    const float inverse = value_of((2 * kBias - exponent) << kMantissaBits);
    for (size_t i = 0; i < kGroup; ++i) codes[i] = encode_e4m3(value_of(static_cast<uint32_t>(x[i]) << 16) * inverse);
    *scale = static_cast<uint8_t>(exponent);
}

void quantize_q8(const uint16_t* x, uint8_t* codes, uint8_t* scales, size_t rows, size_t columns) {
    const size_t groups = rows * (columns / kGroup);
    for (size_t g = 0; g < groups; ++g) quantize_group(x + g * kGroup, codes + g * kGroup, scales + g);
}

}  // namespace
