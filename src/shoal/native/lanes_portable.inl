// Lanes in plain C++, for processors without a file of their own.

namespace {

struct Floats {
    float v[kLanes];
};
struct Doubles {
    double v[kDoubleLanes];
};

#define SHOAL_EACH(result, count, expression)           \
    result r;                                           \
    for (size_t i = 0; i < count; ++i) r.v[i] = (expression); \
    return r

inline Floats broadcast(float x) { SHOAL_EACH(Floats, kLanes, x); }
inline Floats load(const float* p) { SHOAL_EACH(Floats, kLanes, p[i]); }
inline Floats load_part(const float* p, size_t count) { SHOAL_EACH(Floats, kLanes, i < count ? p[i] : 0.0f); }
inline Floats load_bf16(const uint16_t* p) { SHOAL_EACH(Floats, kLanes, bf16_value(p[i])); }
inline Floats load_bf16_part(const uint16_t* p, size_t count) {
    SHOAL_EACH(Floats, kLanes, i < count ? bf16_value(p[i]) : 0.0f);
}
// E4M3 codes (no NaN) times 2^-8: what the bits are as half precision. Multiply the other factor by 256.
inline float e4m3_over_256(uint8_t code) {
    const int32_t exponent = (code >> 3) & 15, mantissa = code & 7;
    const float magnitude = exponent ? value_of(static_cast<uint32_t>(exponent + 127 - 15) << 23 | static_cast<uint32_t>(mantissa) << 20)
                                     : static_cast<float>(mantissa) * 0x1p-17f;
    return code & 0x80 ? -magnitude : magnitude;
}
inline Floats load_e4m3_over_256(const uint8_t* p) { SHOAL_EACH(Floats, kLanes, e4m3_over_256(p[i])); }
// Eight bytes of two E2M1 codes each, the low nibble first.
inline float e2m1_value(uint32_t code) {
    constexpr float magnitudes[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
    return code & 8 ? -magnitudes[code & 7] : magnitudes[code & 7];
}
inline Floats load_e2m1(const uint8_t* p) {
    SHOAL_EACH(Floats, kLanes, e2m1_value(i % 2 ? p[i / 2] >> 4 : p[i / 2] & 15u));
}
inline Floats add(Floats a, Floats b) { SHOAL_EACH(Floats, kLanes, a.v[i] + b.v[i]); }
inline Floats subtract(Floats a, Floats b) { SHOAL_EACH(Floats, kLanes, a.v[i] - b.v[i]); }
inline Floats multiply(Floats a, Floats b) { SHOAL_EACH(Floats, kLanes, a.v[i] * b.v[i]); }
inline Floats divide(Floats a, Floats b) { SHOAL_EACH(Floats, kLanes, a.v[i] / b.v[i]); }
inline Floats square_root(Floats a) { SHOAL_EACH(Floats, kLanes, __builtin_sqrtf(a.v[i])); }
inline Floats minimum(Floats a, Floats b) { SHOAL_EACH(Floats, kLanes, a.v[i] < b.v[i] ? a.v[i] : b.v[i]); }
inline Floats maximum(Floats a, Floats b) { SHOAL_EACH(Floats, kLanes, a.v[i] > b.v[i] ? a.v[i] : b.v[i]); }
// a * b + c, rounded once.
inline Floats fma(Floats a, Floats b, Floats c) { SHOAL_EACH(Floats, kLanes, __builtin_fmaf(a.v[i], b.v[i], c.v[i])); }
inline Floats absolute(Floats a) { SHOAL_EACH(Floats, kLanes, __builtin_fabsf(a.v[i])); }
inline void store(float* p, Floats a) {
    for (size_t i = 0; i < kLanes; ++i) p[i] = a.v[i];
}
inline void store_bf16(uint16_t* p, Floats a) {
    for (size_t i = 0; i < kLanes; ++i) p[i] = bf16_of(a.v[i]);
}
inline float sum(Floats a) {
    for (size_t half = kLanes / 2; half > 0; half /= 2)
        for (size_t i = 0; i < half; ++i) a.v[i] = a.v[i] + a.v[i + half];
    return a.v[0];
}
inline float largest(Floats a) {
    for (size_t half = kLanes / 2; half > 0; half /= 2)
        for (size_t i = 0; i < half; ++i) a.v[i] = a.v[i] > a.v[i + half] ? a.v[i] : a.v[i + half];
    return a.v[0];
}

inline Doubles broadcast_double(double x) { SHOAL_EACH(Doubles, kDoubleLanes, x); }
inline Doubles low_half(Floats a) { SHOAL_EACH(Doubles, kDoubleLanes, static_cast<double>(a.v[i])); }
inline Doubles high_half(Floats a) { SHOAL_EACH(Doubles, kDoubleLanes, static_cast<double>(a.v[i + kDoubleLanes])); }
inline Floats narrow(Doubles low, Doubles high) {
    SHOAL_EACH(Floats, kLanes, static_cast<float>(i < kDoubleLanes ? low.v[i] : high.v[i - kDoubleLanes]));
}
inline Doubles add(Doubles a, Doubles b) { SHOAL_EACH(Doubles, kDoubleLanes, a.v[i] + b.v[i]); }
inline Doubles subtract(Doubles a, Doubles b) { SHOAL_EACH(Doubles, kDoubleLanes, a.v[i] - b.v[i]); }
inline Doubles multiply(Doubles a, Doubles b) { SHOAL_EACH(Doubles, kDoubleLanes, a.v[i] * b.v[i]); }
inline Doubles minimum(Doubles a, Doubles b) { SHOAL_EACH(Doubles, kDoubleLanes, a.v[i] < b.v[i] ? a.v[i] : b.v[i]); }
inline Doubles maximum(Doubles a, Doubles b) { SHOAL_EACH(Doubles, kDoubleLanes, a.v[i] > b.v[i] ? a.v[i] : b.v[i]); }
inline Doubles nearest_integer(Doubles a) { SHOAL_EACH(Doubles, kDoubleLanes, __builtin_rint(a.v[i])); }
// 2^n for whole n from -1022 to 1023.
inline double power_of_two_lane(double n) {
    const int64_t bits = (static_cast<int64_t>(n) + 1023) << 52;
    double value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}
inline Doubles power_of_two(Doubles n) { SHOAL_EACH(Doubles, kDoubleLanes, power_of_two_lane(n.v[i])); }
// a where x < y, else b.
inline Doubles where_less(Doubles x, Doubles y, Doubles a, Doubles b) {
    SHOAL_EACH(Doubles, kDoubleLanes, x.v[i] < y.v[i] ? a.v[i] : b.v[i]);
}
#undef SHOAL_EACH

}  // namespace
