// Filling a Query, head by head.

namespace {

inline double power_of_two_double(int exponent) {
    const uint64_t bits = static_cast<uint64_t>(exponent + 1023) << 52;
    double value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

// The head's lowest scale byte of those blocks that are not empty, and -1 in `shift` for those that are.
inline int lowest_scale(const uint8_t* codes, const uint8_t* scales, size_t blocks, int32_t* shift) {
    int lowest = kNever;
    for (size_t block = 0; block < blocks; ++block) {
        shift[block] = is_empty(codes + block * kScaleBlock / 2) ? -1 : scales[block];
        if (shift[block] >= 0) lowest = least(lowest, scales[block]);
    }
    return lowest == kNever ? kBias : lowest;
}

inline void fill_blocks(const uint8_t* codes, const Query& query, size_t head) {
    for (size_t block = 0; block < query.blocks; ++block) {
        const size_t place = head * query.blocks + block;
        int8_t* digits = query.digits + place * kScaleBlock;
        decode_query(codes + block * kScaleBlock / 2, digits);
        int32_t even = 0, odd = 0;
        for (size_t i = 0; i < kScaleBlock; i += 4) {
            even += digits[i] + digits[i + 1];
            odd += digits[i + 2] + digits[i + 3];
        }
        query.start[place] = start_of(-kDigitOffset * even, -kDigitOffset * odd);
    }
}

// Keys whose scale exponents keep every product of this head in the normal range.
inline void narrow_range(Query& query, uint16_t weight, int lowest) {
    // Digits are twice the values, of the query and of the key.
    const int base = lowest - kBias - 2;
    query.lowest = most(query.lowest, kLeastExponent + kBias - base);
    query.highest = least(query.highest, kMostExponent - kSumBits + kBias - base);
    if ((weight & 0x7fff) == 0) return;
    const int low = weight_exponent(weight, -133) + base, high = weight_exponent(weight, kLeastExponent) + base;
    if (low < kLeastExponent || high + kSumBits > kMostExponent) query.lowest = kNever;
    query.lowest = most(query.lowest, kLeastExponent + kBias - low);
    query.highest = least(query.highest, kMostExponent - kSumBits + kBias - high);
}

inline void fill_head(const ShoalIndexSelect* p, size_t token, size_t head, Query& query) {
    const size_t row = token * p->heads + head;
    const uint8_t *codes = p->q_codes + row * p->dim / 2, *scales = p->q_scales + row * query.blocks;
    int32_t* shift = query.shift + head * query.blocks;
    const int lowest = lowest_scale(codes, scales, query.blocks, shift);
    int span = 0;
    for (size_t block = 0; block < query.blocks; ++block) {
        shift[block] = most(shift[block] - lowest, 0);
        span = most(span, shift[block]);
    }
    query.span[head] = span;
    fill_blocks(codes, query, head);
    narrow_range(query, p->weights[row], lowest);
    query.weight[head] =
        static_cast<float>(static_cast<double>(bf16_value(p->weights[row])) * power_of_two_double(lowest - kBias - 2));
}

inline void fill_query(const ShoalIndexSelect* p, size_t token, Query& query) {
    query.lowest = 1, query.highest = 2 * kBias - 1;
    for (size_t head = 0; head < p->heads; ++head) fill_head(p, token, head, query);
    for (size_t head = p->heads; head < query.heads; ++head) {
        query.weight[head] = 0.0f, query.span[head] = 0;
        __builtin_memset(query.digits + head * query.dim, 0, query.dim);
        __builtin_memset(query.start + head * query.blocks, 0, query.blocks * sizeof(int32_t));
        __builtin_memset(query.shift + head * query.blocks, 0, query.blocks * sizeof(int32_t));
    }
}

// Room for the queries of `count` tokens.
inline Query* take_queries(const ShoalIndexSelect* p, size_t count, Scratch& scratch) {
    Query* queries = scratch.take<Query>(count);
    const size_t heads = padded_heads(p), blocks = p->dim / kScaleBlock;
    for (size_t i = 0; i < count; ++i)
        queries[i] = {scratch.take<int8_t>(heads * p->dim),
                      scratch.take<int32_t>(heads * blocks),
                      scratch.take<int32_t>(heads * blocks),
                      scratch.take<float>(heads),
                      scratch.take<int>(heads),
                      p->dim,
                      blocks,
                      heads,
                      0,
                      0};
    return queries;
}

}  // namespace
