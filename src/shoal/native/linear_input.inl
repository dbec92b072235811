// Inputs as the linear operators read them: float32, arranged (linear_lanes.inl), rows filled with zeros to sixteen.
#pragma once

#include "linear_lanes.inl"
#include "parallel.inl"

namespace {

constexpr float kE4m3Unit = 256.0f;
constexpr size_t kGroup = 32;

// `groups` pieces of `inputs` a row, each arranged on its own. Every value is a multiple of 2^lowest below 2^highest in magnitude.
struct Inputs {
    float* values;
    size_t rows, inputs, stride;
    int lowest, highest;
};

inline size_t padded(size_t inputs) { return (inputs + kLanes - 1) / kLanes * kLanes; }

// What the exponents of a row span.
struct Span {
    int lowest, highest;
};

// Any 0x7f or 0xff among 32 codes?
inline bool any_nan(const uint8_t* codes) {
    uint64_t found = 0;
    for (size_t i = 0; i < kGroup; i += sizeof found) {
        uint64_t eight;
        __builtin_memcpy(&eight, codes + i, sizeof eight);
        found |= (eight & 0x7f7f7f7f7f7f7f7fu) + 0x0101010101010101u;
    }
    return found & 0x8080808080808080u;
}

// The place of element i of sixteen.
inline size_t arranged(size_t i) { return kParts == 1 ? i : i % kParts * kPartLanes + i / kParts; }

inline void put_nans(const uint8_t* codes, float* values) {
    for (size_t i = 0; i < kGroup; ++i)
        if ((codes[i] & 0x7f) == 0x7f) values[i / kLanes * kLanes + arranged(i % kLanes)] = __builtin_nanf("");
}

// code * 2^(scale - 127); beyond float32 an infinity.
inline Span arrange_q8(const uint8_t* codes, const uint8_t* scales, size_t inputs, float* values) {
    uint8_t least = 255, most = 0;
    for (size_t group = 0; group < inputs / kGroup; ++group, codes += kGroup, values += kGroup) {
        Part parts[E4m3::kStepParts];
        decode_e4m3(codes, parts);
        const float scale = e8m0_value(scales[group]);
        for (size_t i = 0; i < E4m3::kStepParts; ++i)
            store_part(values + i * kPartLanes, multiply(multiply(parts[i], kE4m3Unit), scale));
        if (any_nan(codes)) put_nans(codes, values);
        least = scales[group] < least ? scales[group] : least;
        most = scales[group] > most ? scales[group] : most;
    }
    // E4M3 codes are multiples of 2^-9 below 2^9.
    return {least - 127 - 9, most - 127 + 9};
}

// The exponents of bf16 values that are not zero: multiples of 2^(exponent - 134) below 2^(exponent - 126).
inline Span span_of(const uint16_t* x, size_t inputs) {
    uint16_t least = 0x7fff, most = 0;
    for (size_t k = 0; k < inputs; ++k) {
        const uint16_t magnitude = x[k] & 0x7fff, counted = magnitude ? magnitude : 0x7fff;
        least = counted < least ? counted : least;
        most = magnitude > most ? magnitude : most;
    }
    const int low = least >> 7, high = most >> 7;
    return {(low ? low : 1) - 134, (high ? high : 1) - 126};
}

// Also adds the squares, if asked for.
template <bool kSquares>
inline float arrange_bf16(const uint16_t* x, size_t inputs, float* values) {
    Part squares[kParts], parts[kParts];
    for (size_t i = 0; i < kParts; ++i) squares[i] = zero_part();
    for (size_t k = 0; k < inputs; k += kLanes) {
        const uint8_t* p = reinterpret_cast<const uint8_t*>(x + k);
        if (k + kLanes <= inputs)
            decode_bf16(p, parts);
        else
            decode_tail<Bf16>(p, inputs - k, parts);
        for (size_t i = 0; i < kParts; ++i) {
            store_part(values + k + i * kPartLanes, parts[i]);
            if (kSquares) squares[i] = fma(parts[i], parts[i], squares[i]);
        }
    }
    return sum_parts(squares);
}

}  // namespace
