// Dot products as ops/wide.py writes them: exact products in double, the upper half added to the lower until one is left.

namespace {

inline double halving_sum(double* terms, size_t count) {
    if (count == 0) return 0.0;
    while (count > 1) {
        const size_t kept = (count + 1) / 2;
        for (size_t i = 0; i < count - kept; ++i) terms[i] += terms[kept + i];
        count = kept;
    }
    return terms[0];
}

void halving_dots(const float* a, const float* b, double* y, const ShoalDots* shape, double* terms) {
    const size_t inner = shape->inner;
    for (size_t s = 0; s < shape->batch; ++s)
        for (size_t i = 0; i < shape->rows; ++i) {
            const float* row = a + (s * shape->rows + i) * inner;
            for (size_t j = 0; j < shape->columns; ++j) {
                const float* column = b + (s * shape->columns + j) * inner;
                for (size_t k = 0; k < inner; ++k) terms[k] = static_cast<double>(row[k]) * column[k];
                *y++ = halving_sum(terms, inner);
            }
        }
}

}  // namespace
