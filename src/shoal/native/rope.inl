// Rope: tables of cos and sin, and rows of heads turned by them.
//
// A pair (a, b) becomes (a cos - b sin, b cos + a sin): float32 products and one sum each, no fma, one rounding.
// Lanes hold pairs side by side: x * (cos, cos) + swapped x * (-sin, sin), the same roundings.

namespace {

constexpr double kTwoOverPi = 0.6366197723675814;
// pi / 2 in parts whose leading ones have trailing zeros, so that n times them is exact.
constexpr double kHalfPi[] = {1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21};
constexpr int kSinCosTerms = 9;
// (-1)^k / (2k + 1)! and (-1)^k / (2k)! for k = 8 .. 0.
constexpr double kSinCoefficients[kSinCosTerms] = {
    1.0 / 355687428096000.0, -1.0 / 1307674368000.0, 1.0 / 6227020800.0, -1.0 / 39916800.0, 1.0 / 362880.0,
    -1.0 / 5040.0,           1.0 / 120.0,            -1.0 / 6.0,         1.0};
constexpr double kCosCoefficients[kSinCosTerms] = {
    1.0 / 20922789888000.0, -1.0 / 87178291200.0, 1.0 / 479001600.0, -1.0 / 3628800.0, 1.0 / 40320.0,
    -1.0 / 720.0,           1.0 / 24.0,           -1.0 / 2.0,        1.0};

inline double horner(const double* coefficients, double x) {
    double total = coefficients[0];
    for (int k = 1; k < kSinCosTerms; ++k) total = total * x + coefficients[k];
    return total;
}

// The chain of ops/elementary.py, rounded once to float32.
inline void sin_cos(float angle_float, float* sine, float* cosine) {
    const double angle = static_cast<double>(angle_float), n = __builtin_rint(angle * kTwoOverPi);
    const double r = ((angle - n * kHalfPi[0]) - n * kHalfPi[1]) - n * kHalfPi[2], square = r * r;
    const double s = r * horner(kSinCoefficients, square), c = horner(kCosCoefficients, square);
    const int64_t quadrant = static_cast<int64_t>(n) & 3;
    const double sin_value = quadrant & 1 ? c : s, cos_value = quadrant & 1 ? s : c;
    *sine = static_cast<float>(quadrant >= 2 ? -sin_value : sin_value);
    *cosine = static_cast<float>(quadrant == 1 || quadrant == 2 ? -cos_value : cos_value);
}

void rope_table_row(const ShoalRopeTable* p, size_t row) {
    const float position = static_cast<float>(p->positions[row]);
    for (size_t i = 0; i < p->pairs; ++i)
        sin_cos(position * p->frequencies[i], p->sin + row * p->pairs + i, p->cos + row * p->pairs + i);
}

// (cos, cos) and (-sin, sin) of every pair.
void spread_angles(const float* cos, const float* sin, size_t pairs, bool inverse, float* cosines, float* sines) {
    for (size_t i = 0; i < pairs; ++i) {
        cosines[2 * i] = cosines[2 * i + 1] = cos[i];
        sines[2 * i] = inverse ? sin[i] : -sin[i];
        sines[2 * i + 1] = inverse ? -sin[i] : sin[i];
    }
}

inline Floats rotated(Floats x, Floats swapped, Floats cosines, Floats sines) {
    return add(multiply(x, cosines), multiply(swapped, sines));
}

// `width` = 2 * pairs values; x may be y. Both sums are of the same two products, and addition commutes.
void rotate_head(const uint16_t* x, const float* cosines, const float* sines, size_t width, uint16_t* y) {
    uint16_t swapped[kLanes];
    size_t k = 0;
    for (; k + kLanes <= width; k += kLanes) {
        for (size_t i = 0; i < kLanes; i += 2) {
            swapped[i] = x[k + i + 1];
            swapped[i + 1] = x[k + i];
        }
        store_bf16(y + k, rotated(load_bf16(x + k), load_bf16(swapped), load(cosines + k), load(sines + k)));
    }
    for (; k < width; k += 2) {
        const float a = bf16_value(x[k]), b = bf16_value(x[k + 1]);
        y[k] = bf16_of(a * cosines[k] + b * sines[k]);
        y[k + 1] = bf16_of(b * cosines[k + 1] + a * sines[k + 1]);
    }
}

void rotate_row(const ShoalRotateRows* p, size_t row, float* angles) {
    const size_t width = 2 * p->pairs, kept = p->dim - width;
    spread_angles(p->cos + row * p->pairs, p->sin + row * p->pairs, p->pairs, p->inverse != 0, angles, angles + width);
    for (size_t head = 0; head < p->heads; ++head) {
        const size_t at = (row * p->heads + head) * p->dim;
        if (p->x != p->y) __builtin_memcpy(p->y + at, p->x + at, kept * sizeof(uint16_t));
        rotate_head(p->x + at + kept, angles, angles + width, width, p->y + at + kept);
    }
}

}  // namespace
