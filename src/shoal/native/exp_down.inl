// e^x of 16 lanes that are not positive: the bits of exp.inl in two thirds of its time.
//
// The same chain. float32 is zero below e^-104, so that one power of two is enough and nothing overflows.
#pragma once

#include "exp.inl"

namespace {

inline Doubles exp_down(Doubles x) {
    const Doubles n = nearest_integer(multiply(x, broadcast_double(1.4426950408889634)));
    const Doubles r = subtract(subtract(x, multiply(n, broadcast_double(0.6931471803691238))),
                               multiply(n, broadcast_double(1.9082149292705877e-10)));
    Doubles total = broadcast_double(kExpCoefficients[0]);
#pragma GCC unroll 16
    for (size_t k = 1; k < sizeof kExpCoefficients / sizeof kExpCoefficients[0]; ++k)
        total = add(multiply(total, r), broadcast_double(kExpCoefficients[k]));
    return multiply(total, power_of_two(n));
}

// NaN gives 0.
inline Floats exp_down(Floats x) {
    const Floats clamped = maximum(x, broadcast(-200.0f));
    return narrow(exp_down(low_half(clamped)), exp_down(high_half(clamped)));
}

}  // namespace
