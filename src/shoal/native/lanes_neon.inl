// Lanes in four NEON registers: lanes 0..3, 4..7, 8..11, 12..15, or four pairs. For AArch64.
#include <arm_neon.h>

namespace {

struct Floats {
    float32x4_t a, b, c, d;
};
struct Doubles {
    float64x2_t a, b, c, d;
};

inline float32x4_t from_bf16_bits(uint16x4_t bits) { return vreinterpretq_f32_u32(vshll_n_u16(bits, 16)); }

inline Floats broadcast(float x) {
    const float32x4_t v = vdupq_n_f32(x);
    return {v, v, v, v};
}
inline Floats load(const float* p) { return {vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)}; }
inline Floats load_part(const float* p, size_t count) {
    float values[kLanes] = {};
    __builtin_memcpy(values, p, count * sizeof(float));
    return load(values);
}
inline Floats load_bf16(const uint16_t* p) {
    return {from_bf16_bits(vld1_u16(p)), from_bf16_bits(vld1_u16(p + 4)), from_bf16_bits(vld1_u16(p + 8)),
            from_bf16_bits(vld1_u16(p + 12))};
}
inline Floats load_bf16_part(const uint16_t* p, size_t count) {
    uint16_t values[kLanes] = {};
    __builtin_memcpy(values, p, count * sizeof(uint16_t));
    return load_bf16(values);
}
inline float32x4_t from_half_bits(uint16x4_t bits) { return vcvt_f32_f16(vreinterpret_f16_u16(bits)); }
// E4M3 codes (no NaN) times 2^-8: what the bits are as half precision. Multiply the other factor by 256.
inline Floats load_e4m3_over_256(const uint8_t* p) {
    const int8x16_t codes = vreinterpretq_s8_u8(vld1q_u8(p));
    const uint16x8_t kept = vdupq_n_u16(0xbf80);
    const uint16x8_t low = vandq_u16(vreinterpretq_u16_s16(vshll_n_s8(vget_low_s8(codes), 7)), kept);
    const uint16x8_t high = vandq_u16(vreinterpretq_u16_s16(vshll_n_s8(vget_high_s8(codes), 7)), kept);
    return {from_half_bits(vget_low_u16(low)), from_half_bits(vget_high_u16(low)), from_half_bits(vget_low_u16(high)),
            from_half_bits(vget_high_u16(high))};
}

#define SHOAL_ONE(f) {f(x.a), f(x.b), f(x.c), f(x.d)}
#define SHOAL_TWO(f) {f(x.a, y.a), f(x.b, y.b), f(x.c, y.c), f(x.d, y.d)}

inline Floats add(Floats x, Floats y) { return SHOAL_TWO(vaddq_f32); }
inline Floats subtract(Floats x, Floats y) { return SHOAL_TWO(vsubq_f32); }
inline Floats multiply(Floats x, Floats y) { return SHOAL_TWO(vmulq_f32); }
inline Floats divide(Floats x, Floats y) { return SHOAL_TWO(vdivq_f32); }
inline Floats square_root(Floats x) { return SHOAL_ONE(vsqrtq_f32); }
// NEON's own minimum and maximum return the NaN.
inline float32x4_t lesser(float32x4_t x, float32x4_t y) { return vbslq_f32(vcltq_f32(x, y), x, y); }
inline float32x4_t greater(float32x4_t x, float32x4_t y) { return vbslq_f32(vcgtq_f32(x, y), x, y); }
inline Floats minimum(Floats x, Floats y) { return SHOAL_TWO(lesser); }
inline Floats maximum(Floats x, Floats y) { return SHOAL_TWO(greater); }
// x * y + z, rounded once.
inline Floats fma(Floats x, Floats y, Floats z) {
    return {vfmaq_f32(z.a, x.a, y.a), vfmaq_f32(z.b, x.b, y.b), vfmaq_f32(z.c, x.c, y.c), vfmaq_f32(z.d, x.d, y.d)};
}
inline Floats absolute(Floats x) { return SHOAL_ONE(vabsq_f32); }
inline void store(float* p, Floats x) {
    vst1q_f32(p, x.a);
    vst1q_f32(p + 4, x.b);
    vst1q_f32(p + 8, x.c);
    vst1q_f32(p + 12, x.d);
}
inline uint16x4_t bf16_bits(float32x4_t x) {
    const uint32x4_t bits = vreinterpretq_u32_f32(x);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t rounded = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd);
    const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
    return vshrn_n_u32(vbslq_u32(vceqq_f32(x, x), rounded, quiet), 16);
}
inline void store_bf16(uint16_t* p, Floats x) {
    vst1_u16(p, bf16_bits(x.a));
    vst1_u16(p + 4, bf16_bits(x.b));
    vst1_u16(p + 8, bf16_bits(x.c));
    vst1_u16(p + 12, bf16_bits(x.d));
}
inline float sum(Floats x) {
    const float32x4_t four = vaddq_f32(vaddq_f32(x.a, x.c), vaddq_f32(x.b, x.d));
    const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}
inline float largest(Floats x) {
    const float32x4_t four = greater(greater(x.a, x.c), greater(x.b, x.d));
    const float32x2_t low = vget_low_f32(four), high = vget_high_f32(four);
    const float32x2_t two = vbsl_f32(vcgt_f32(low, high), low, high);
    const float first = vget_lane_f32(two, 0), second = vget_lane_f32(two, 1);
    return first > second ? first : second;
}

inline Doubles broadcast_double(double x) {
    const float64x2_t v = vdupq_n_f64(x);
    return {v, v, v, v};
}
inline Doubles widen(float32x4_t low, float32x4_t high) {
    return {vcvt_f64_f32(vget_low_f32(low)), vcvt_high_f64_f32(low), vcvt_f64_f32(vget_low_f32(high)),
            vcvt_high_f64_f32(high)};
}
inline Doubles low_half(Floats x) { return widen(x.a, x.b); }
inline Doubles high_half(Floats x) { return widen(x.c, x.d); }
inline float32x4_t narrow_pairs(float64x2_t low, float64x2_t high) {
    return vcvt_high_f32_f64(vcvt_f32_f64(low), high);
}
inline Floats narrow(Doubles low, Doubles high) {
    return {narrow_pairs(low.a, low.b), narrow_pairs(low.c, low.d), narrow_pairs(high.a, high.b),
            narrow_pairs(high.c, high.d)};
}
inline Doubles add(Doubles x, Doubles y) { return SHOAL_TWO(vaddq_f64); }
inline Doubles subtract(Doubles x, Doubles y) { return SHOAL_TWO(vsubq_f64); }
inline Doubles multiply(Doubles x, Doubles y) { return SHOAL_TWO(vmulq_f64); }
inline float64x2_t lesser(float64x2_t x, float64x2_t y) { return vbslq_f64(vcltq_f64(x, y), x, y); }
inline float64x2_t greater(float64x2_t x, float64x2_t y) { return vbslq_f64(vcgtq_f64(x, y), x, y); }
inline Doubles minimum(Doubles x, Doubles y) { return SHOAL_TWO(lesser); }
inline Doubles maximum(Doubles x, Doubles y) { return SHOAL_TWO(greater); }
inline Doubles nearest_integer(Doubles x) { return SHOAL_ONE(vrndnq_f64); }
inline float64x2_t power_of_two(float64x2_t n) {
    return vreinterpretq_f64_s64(vshlq_n_s64(vaddq_s64(vcvtq_s64_f64(n), vdupq_n_s64(1023)), 52));
}
// 2^n for whole n from -1022 to 1023.
inline Doubles power_of_two(Doubles x) { return SHOAL_ONE(power_of_two); }
inline float64x2_t where_less(float64x2_t x, float64x2_t y, float64x2_t less, float64x2_t other) {
    return vbslq_f64(vcltq_f64(x, y), less, other);
}
// `less` where x < y, else `other`.
inline Doubles where_less(Doubles x, Doubles y, Doubles less, Doubles other) {
    return {where_less(x.a, y.a, less.a, other.a), where_less(x.b, y.b, less.b, other.b),
            where_less(x.c, y.c, less.c, other.c), where_less(x.d, y.d, less.d, other.d)};
}

#undef SHOAL_ONE
#undef SHOAL_TWO

}  // namespace
