// The coefficients of one hyper-connection: two sigmoids and a Sinkhorn iteration (spec 4.1). Sums ascend from the left.

namespace {


// Divides every row of the square by its sum, or every column.
inline void normalize(float* square, size_t streams, size_t along, size_t across, float eps) {
    for (size_t i = 0; i < streams; ++i) {
        float* line = square + i * across;
        float total = line[0];
        for (size_t j = 1; j < streams; ++j) total = total + line[j * along];
        total = total + eps;
        for (size_t j = 0; j < streams; ++j) line[j * along] = line[j * along] / total;
    }
}

inline void sinkhorn(float* comb, const ShoalMix* p) {
    const size_t n = p->streams;
    for (size_t j = 0; j < n; ++j) {
        float* row = comb + j * n;
        float highest = row[0];
        for (size_t k = 1; k < n; ++k) highest = row[k] > highest ? row[k] : highest;
        for (size_t k = 0; k < n; ++k) row[k] = exp_float(row[k] - highest);
    }
    normalize(comb, n, 1, n, 0.0f);
    for (size_t i = 0; i < n * n; ++i) comb[i] = comb[i] + p->eps;
    normalize(comb, n, n, 1, p->eps);
    for (size_t round = 1; round < p->iterations; ++round) {
        normalize(comb, n, 1, n, p->eps);
        normalize(comb, n, n, 1, p->eps);
    }
}

void split_mix(const ShoalMix* p, const float* u, float* pre, float* post, float* comb) {
    const size_t n = p->streams, coefficients = n * (n + 2);
    for (size_t row = 0; row < p->rows; ++row, u += coefficients, pre += n, post += n, comb += n * n) {
        for (size_t c = 0; c < n; ++c) {
            pre[c] = sigmoid_float(u[c] * p->scale[0] + p->base[c]) + p->eps;
            post[c] = 2.0f * sigmoid_float(u[n + c] * p->scale[1] + p->base[n + c]);
        }
        for (size_t i = 0; i < n * n; ++i) comb[i] = u[2 * n + i] * p->scale[2] + p->base[2 * n + i];
        sinkhorn(comb, p);
    }
}

}  // namespace
