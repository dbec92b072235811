// The heads of one token, made ready: digits, corrections, and how far their scales let the quick path go.

namespace {

constexpr size_t kScaleBlock = 32, kQuads = kScaleBlock / 4;  // a block is 8 quads of 4 digits
constexpr size_t kGroup = kLanes;                             // keys scored side by side
constexpr size_t kQuadBytes = 4 * kGroup;
constexpr char kDigitOffset = 12;  // the digits of keys are stored unsigned
constexpr int8_t kDigits[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
constexpr size_t kHeadRounding = 4;  // heads are padded with empty ones to a multiple
constexpr int kBias = 127, kLeastExponent = -126, kMostExponent = 127;
constexpr int kSumBits = 40;  // room above a product for a total of 24 bits and a sum over heads
constexpr int kNever = 1 << 20;

struct Query {
    int8_t* digits;  // [heads, blocks, 8 quads, 4]: of each dword of codes the low nibbles, then the high ones
    int32_t *start, *shift;  // [heads, blocks]: -offset * sum of digits; scale exponent above the head's lowest
    float* weight;           // [heads]: times the power of two that the head's digits lack
    int* span;               // [heads]: largest shift
    size_t dim, blocks, heads;
    int lowest, highest;  // scale exponents of keys for which no product leaves the normal range
};

inline int32_t quad_at(const int8_t* digits) {
    int32_t quad;
    __builtin_memcpy(&quad, digits, sizeof quad);
    return quad;
}

// Whether 32 codes are all +0 or -0: their scale says nothing.
inline bool is_empty(const uint8_t* codes) {
    uint64_t halves[2];
    __builtin_memcpy(halves, codes, sizeof halves);
    return ((halves[0] | halves[1]) & 0x7777777777777777u) == 0;
}

inline int least(int a, int b) { return a < b ? a : b; }
inline int most(int a, int b) { return a > b ? a : b; }

inline size_t padded_heads(const ShoalIndexSelect* p) {
    return (p->heads + kHeadRounding - 1) / kHeadRounding * kHeadRounding;
}

// Exponents of the lowest and the highest bit that a bf16 weight other than zero may hold.
inline int weight_exponent(uint16_t weight, int of_subnormal) {
    const int exponent = weight >> 7 & 0xff;
    return exponent ? exponent - kBias : of_subnormal;
}

}  // namespace
