// Prints the results of every lane operation on fixed inputs, in hexadecimal: builds for two instruction sets print the
// same. Results that are NaN by arithmetic print as `nan`, for which NaN is the processor's choice.
#include <stdio.h>

#include <vector>

#include "exp.inl"

namespace {

// Zeros, subnormals, the ends of the range, halfway cases of bf16, integers, infinities, NaNs that are quiet or not.
const uint32_t kSpecial[] = {
    0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x807fffff, 0x00800000, 0x80800000,
    0x3f800000, 0xbf800000, 0x3f7fffff, 0x3f800001, 0x3f808000, 0x3f818000, 0x3f807fff, 0x3f808001,
    0x40490fdb, 0xc0490fdb, 0x4b7fffff, 0x4b800001, 0x3effffff, 0x3f000000, 0x3fc00000, 0xc0200000,
    0x7f7fffff, 0xff7fffff, 0x7f7f7fff, 0x7f7f8000, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc12345,
    0x7f800001, 0x00010000, 0x00008000, 0x00018000, 0x42b17218, 0xc2b17218, 0xc2cff1b5, 0x42d00000,
};
constexpr size_t kSpecials = sizeof kSpecial / sizeof kSpecial[0];

struct Random {
    uint64_t state = 20261129;
    uint32_t next() {
        state = state * 6364136223846793005u + 1442695040888963407u;
        return static_cast<uint32_t>(state >> 32);
    }
};

// Every pair of special values and many random ones, 16 lanes each.
std::vector<std::vector<float>> operands(size_t count) {
    Random random;
    std::vector<std::vector<float>> lists(count);
    for (size_t i = 0; i < kSpecials * kSpecials; ++i)
        for (size_t k = 0; k < count; ++k)
            lists[k].push_back(value_of(kSpecial[(k == 0 ? i : k == 1 ? i / kSpecials : i / 7) % kSpecials]));
    for (size_t i = 0; i < 256 * kLanes; ++i)
        for (std::vector<float>& list : lists)
            // Half of them near one, half anywhere.
            list.push_back(value_of(i % 2 ? random.next() : (random.next() & 0x807fffffu) | (125 + i % 4) << 23));
    return lists;
}

void print(float value, bool exact) {
    if (value != value && !exact)
        printf(" nan");
    else
        printf(" %x", bits_of(value));
}

void print(double value) {
    uint64_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    if (value != value)
        printf(" nan");
    else
        printf(" %llx", static_cast<unsigned long long>(bits));
}

void print(Floats value, bool exact) {
    float lanes[kLanes];
    store(lanes, value);
    for (const float lane : lanes) print(lane, exact);
}

// Lanes of doubles lie in order in every kind.
void print(Doubles value, bool) {
    double lanes[kDoubleLanes];
    __builtin_memcpy(lanes, &value, sizeof lanes);
    for (const double lane : lanes) print(lane);
}

template <typename Result>
void show(const char* name, size_t index, Result result, bool exact) {
    printf("%s %zu:", name, index);
    print(result, exact);
    printf("\n");
}

template <typename Function>
void each(const char* name, size_t count, bool exact, const Function& function) {
    const std::vector<std::vector<float>> lists = operands(count);
    for (size_t i = 0; i + kLanes <= lists[0].size(); i += kLanes) {
        Floats x[3];
        for (size_t k = 0; k < count; ++k) x[k] = load(lists[k].data() + i);
        show(name, i, function(x), exact);
    }
}

// Arithmetic: a NaN is any NaN.
#define SHOAL_ARITHMETIC(name, count, expression) each(name, count, false, [](const Floats* x) { return expression; })
// Selections and conversions: a NaN keeps its bits.
#define SHOAL_EXACT(name, count, expression) each(name, count, true, [](const Floats* x) { return expression; })

void floats() {
    SHOAL_ARITHMETIC("add", 2, add(x[0], x[1]));
    SHOAL_ARITHMETIC("subtract", 2, subtract(x[0], x[1]));
    SHOAL_ARITHMETIC("multiply", 2, multiply(x[0], x[1]));
    SHOAL_ARITHMETIC("divide", 2, divide(x[0], x[1]));
    SHOAL_ARITHMETIC("square_root", 1, square_root(x[0]));
    SHOAL_ARITHMETIC("fma", 3, fma(x[0], x[1], x[2]));
    SHOAL_ARITHMETIC("sum", 1, broadcast(sum(x[0])));
    SHOAL_EXACT("minimum", 2, minimum(x[0], x[1]));
    SHOAL_EXACT("maximum", 2, maximum(x[0], x[1]));
    SHOAL_EXACT("absolute", 1, absolute(x[0]));
    SHOAL_EXACT("largest", 1, broadcast(largest(x[0])));
}

// One special value among ordinary ones, and both zeros as the largest: which lanes meet first decides the result.
void reductions() {
    for (size_t lane = 0; lane < kLanes; ++lane)
        for (size_t other = 0; other < kLanes; ++other) {
            float values[kLanes];
            for (size_t i = 0; i < kLanes; ++i) values[i] = -1.0f - static_cast<float>(i);
            values[lane] = 0.0f;
            values[other] = -0.0f;
            show("largest of zeros", lane * kLanes + other, broadcast(largest(load(values))), true);
            values[lane] = value_of(kSpecial[30]);
            show("largest with a NaN", lane * kLanes + other, broadcast(largest(load(values))), true);
        }
}

void doubles() {
    SHOAL_ARITHMETIC("low_half", 1, low_half(x[0]));
    SHOAL_ARITHMETIC("high_half", 1, high_half(x[0]));
    SHOAL_ARITHMETIC("narrow", 2, narrow(multiply(low_half(x[0]), high_half(x[1])), low_half(x[1])));
    SHOAL_ARITHMETIC("double add", 2, add(low_half(x[0]), high_half(x[1])));
    SHOAL_ARITHMETIC("double subtract", 2, subtract(low_half(x[0]), high_half(x[1])));
    SHOAL_ARITHMETIC("double multiply", 2, multiply(low_half(x[0]), high_half(x[1])));
    SHOAL_ARITHMETIC("double minimum", 2, minimum(low_half(x[0]), high_half(x[1])));
    SHOAL_ARITHMETIC("double maximum", 2, maximum(low_half(x[0]), high_half(x[1])));
    SHOAL_ARITHMETIC("nearest_integer", 1, nearest_integer(low_half(x[0])));
    SHOAL_ARITHMETIC("where_less", 3, where_less(low_half(x[0]), low_half(x[1]), high_half(x[2]), low_half(x[2])));
    SHOAL_ARITHMETIC("exp_lanes", 1, exp_lanes(maximum(x[0], broadcast(-3e38f))));
    for (int n = -1022; n <= 1023; ++n) {
        const Doubles power = power_of_two(broadcast_double(n));
        show("power_of_two", static_cast<size_t>(n + 1022), power, false);
    }
}

// Loads of every bf16 and every E4M3 code, whole and in part, at every alignment of the element; stores of bf16.
void conversions() {
    std::vector<uint16_t> halves(0x10000 + kLanes);
    for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);
    for (size_t i = 0; i < 0x10000; i += kLanes - 1) {
        show("load_bf16", i, load_bf16(halves.data() + i), true);
        show("load_bf16_part", i, load_bf16_part(halves.data() + i, i % (kLanes + 1)), true);
    }
    std::vector<uint8_t> codes(256 + kLanes);
    for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i);
    for (size_t i = 0; i <= 256; ++i) show("load_e4m3_over_256", i, load_e4m3_over_256(codes.data() + i), true);
    const std::vector<float> values = operands(1)[0];
    for (size_t i = 0; i + kLanes <= values.size(); i += 7) {
        show("load_part", i, load_part(values.data() + i, i % (kLanes + 1)), true);
        uint16_t stored[kLanes + 1];
        store_bf16(stored + 1, load(values.data() + i));
        printf("store_bf16 %zu:", i);
        for (size_t lane = 1; lane <= kLanes; ++lane) printf(" %x", stored[lane]);
        printf("\n");
    }
}

}  // namespace

int main() {
    floats();
    reductions();
    doubles();
    conversions();
    return 0;
}
