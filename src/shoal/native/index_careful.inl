// Products of one head whose scales the quick path cannot hold, as ops/wide.py writes them.
//
// Block sums are whole numbers. Times their scales they add up exactly in double unless the scales span more than 38 bits;
// then the 128 products are halved: the upper half is added to the lower until one is left.

namespace {

// Nearest even bf16 of a double, in one rounding.
inline uint16_t bf16_of_double(double value) {
    const double magnitude = __builtin_fabs(value);
    if (magnitude < 0x1p-126) {
        // Adding this rounds to a multiple of 2^-133, the spacing of subnormals.
        const double shift = 0x1.8p-81;
        value = __builtin_copysign((magnitude + shift) - shift, value);
    } else if (magnitude < __builtin_inf()) {
        uint64_t bits;
        __builtin_memcpy(&bits, &value, sizeof bits);
        bits = (bits + ((bits >> 45) & 1) + ((uint64_t{1} << 44) - 1)) & ~((uint64_t{1} << 45) - 1);
        __builtin_memcpy(&value, &bits, sizeof value);
    }
    return static_cast<uint16_t>(bits_of(static_cast<float>(value)) >> 16);
}

struct Pair {
    const uint8_t *q_codes, *q_scales, *key_codes, *key_scales;
};

inline double halved_dot(const Pair& pair, size_t dim) {
    double terms[kMostDim];
    for (size_t i = 0; i < dim; ++i) {
        const size_t block = i / kScaleBlock, byte = i / 2, shift = i % 2 * 4;
        const int product = kDigits[pair.q_codes[byte] >> shift & 15] * kDigits[pair.key_codes[byte] >> shift & 15];
        terms[i] = product * power_of_two_double(pair.q_scales[block] + pair.key_scales[block] - 2 * kBias - 2);
    }
    for (size_t count = dim; count > 1;) {
        const size_t kept = (count + 1) / 2;
        for (size_t i = 0; i < count - kept; ++i) terms[i] += terms[kept + i];
        count = kept;
    }
    return terms[0];
}

// Block sums of one head with 16 keys: sums [blocks, 16].
inline void block_sums(const Query& query, const Keys& keys, size_t head, int32_t* sums) {
    for (size_t block = 0; block < query.blocks; ++block, sums += kGroup) {
        const uint8_t* k = keys.digits + block * kQuads * kQuadBytes;
        const int8_t* q = query.digits + head * query.dim + block * kScaleBlock;
        for (size_t key = 0; key < kGroup; ++key) sums[key] = 0;
        for (size_t quad = 0; quad < kQuads; ++quad)
            for (size_t key = 0; key < kGroup; ++key)
                for (size_t i = 0; i < 4; ++i)
                    sums[key] += (k[quad * kQuadBytes + 4 * key + i] - kDigitOffset) * q[4 * quad + i];
    }
}

inline double summed_dot(const Pair& pair, const int32_t* sums, size_t blocks) {
    // A product holds 8 bits and there are up to 2^10 of them; the rest of a double is for the scales.
    constexpr int kMostSpan = 53 - 8 - 10;
    int lowest = kNever, highest = 0;
    double total = 0.0;
    for (size_t block = 0; block < blocks; ++block) {
        const int exponent = pair.q_scales[block] + pair.key_scales[block];
        lowest = least(lowest, exponent), highest = most(highest, exponent);
        total += sums[block * kGroup] * power_of_two_double(exponent - 2 * kBias - 2);
    }
    return highest - lowest <= kMostSpan ? total : halved_dot(pair, blocks * kScaleBlock);
}

// bf16(weight * bf16(relu(q . k))) of every key of a group.
inline void careful_products(const ShoalIndexSelect* p, size_t token, size_t head, const Query& query, const Keys& keys,
                             float* products) {
    int32_t sums[kMostDim / kScaleBlock * kGroup];
    block_sums(query, keys, head, sums);
    const size_t row = token * p->heads + head;
    const float weight = bf16_value(p->weights[row]);
    for (size_t key = 0; key < kGroup; ++key) {
        const size_t position = keys.first + (key < keys.count ? key : keys.count - 1);
        const PagedRow key_row = paged_row(p->key_pages, position, p->dim / 2, query.blocks);
        const Pair pair = {p->q_codes + row * p->dim / 2, p->q_scales + row * query.blocks, key_row.codes,
                           key_row.scales};
        const float product = bf16_value(bf16_of_double(summed_dot(pair, sums + key, query.blocks)));
        products[key] = bf16_value(bf16_of((product > 0.0f ? product : 0.0f) * weight));
    }
}

}  // namespace
