// exp and log1p in double multiplications and additions, in the order of ops/elementary.py: the same bits as there.

namespace {

constexpr double kLog2E = 1.4426950408889634;
constexpr double kLn2High = 0.6931471803691238, kLn2Low = 1.9082149292705877e-10;
constexpr double kExpLargest = 709.0, kExpSmallest = -745.0;
constexpr int64_t kExpSplit = 512;
constexpr int64_t kDoubleBias = 1023, kDoubleMantissaBits = 52;
constexpr double kSqrtTwo = 1.4142135623730951;
constexpr float kSoftplusIdentity = 20.0f;
constexpr int kExpDegree = 13, kLogTerms = 12;

inline double power_of_two(int64_t exponent) {
    const int64_t bits = (exponent + kDoubleBias) << kDoubleMantissaBits;
    double value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

inline double exp_double(double x) {
    // 1 / k! for k = 13 .. 0, each quotient rounded once.
    constexpr double coefficients[kExpDegree + 1] = {1.0 / 6227020800.0, 1.0 / 479001600.0, 1.0 / 39916800.0,
                                                     1.0 / 3628800.0,    1.0 / 362880.0,    1.0 / 40320.0,
                                                     1.0 / 5040.0,       1.0 / 720.0,       1.0 / 120.0,
                                                     1.0 / 24.0,         1.0 / 6.0,         1.0 / 2.0,
                                                     1.0,                1.0};
    if (x != x) return x;
    if (x < kExpSmallest) return 0.0;
    if (x > kExpLargest) return __builtin_inf();
    const double n = __builtin_rint(x * kLog2E);
    const double r = (x - n * kLn2High) - n * kLn2Low;
    double total = coefficients[0];
    for (int k = 1; k <= kExpDegree; ++k) total = total * r + coefficients[k];
    const int64_t exponent = static_cast<int64_t>(n);
    const int64_t first = exponent < -kExpSplit ? -kExpSplit : exponent > kExpSplit ? kExpSplit : exponent;
    return total * power_of_two(first) * power_of_two(exponent - first);
}

inline double log_double(double x) {
    int64_t bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    const int64_t fraction = bits & ((int64_t{1} << kDoubleMantissaBits) - 1);
    int64_t n = (bits >> kDoubleMantissaBits) - kDoubleBias;
    const int64_t unit = fraction | (kDoubleBias << kDoubleMantissaBits);
    double m;
    __builtin_memcpy(&m, &unit, sizeof m);
    if (m >= kSqrtTwo) {
        m = m * 0.5;
        ++n;
    }
    const double s = (m - 1.0) / (m + 1.0), square = s * s;
    // 1 / k for k = 23, 21 .. 1.
    double total = 1.0 / 23.0;
    for (int k = 21; k >= 1; k -= 2) total = total * square + 1.0 / k;
    const double scale = static_cast<double>(n);
    return scale * kLn2High + (2.0 * s * total + scale * kLn2Low);
}

inline float exp_float(float x) { return static_cast<float>(exp_double(static_cast<double>(x))); }

inline float sigmoid_float(float x) { return 1.0f / (1.0f + exp_float(-x)); }

inline float softplus_float(float x) {
    if (x > kSoftplusIdentity) return x;
    const double e = static_cast<double>(exp_float(x)), u = 1.0 + e;
    return static_cast<float>(log_double(u) + (e - (u - 1.0)) / u);
}

void elementary(int function, const float* x, float* y, size_t count) {
    switch (function) {
        case SHOAL_EXP:
            for (size_t i = 0; i < count; ++i) y[i] = exp_float(x[i]);
            break;
        case SHOAL_SIGMOID:
            for (size_t i = 0; i < count; ++i) y[i] = sigmoid_float(x[i]);
            break;
        case SHOAL_SILU:
            for (size_t i = 0; i < count; ++i) y[i] = x[i] / (1.0f + exp_float(-x[i]));
            break;
        case SHOAL_SOFTPLUS:
            for (size_t i = 0; i < count; ++i) y[i] = softplus_float(x[i]);
            break;
    }
}

}  // namespace
