// e^x of 16 lanes: the chain of double multiplications and additions of ops/elementary.py, rounded once to float32.
#pragma once

#include "lanes.h"

namespace {

// 1 / k! for k = 13 .. 0, each quotient rounded once.
constexpr double kExpCoefficients[] = {1.0 / 6227020800.0, 1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0, 1.0 / 362880.0,
                                       1.0 / 40320.0,      1.0 / 5040.0,      1.0 / 720.0,      1.0 / 120.0,     1.0 / 24.0,
                                       1.0 / 6.0,          1.0 / 2.0,         1.0,              1.0};

// A NaN passes: minimum and maximum hand on their second operand.
inline Doubles exp_lanes(Doubles x) {
    const Doubles smallest = broadcast_double(-745.0), largest = broadcast_double(709.0);
    const Doubles clamped = minimum(largest, maximum(smallest, x));
    const Doubles n = nearest_integer(multiply(clamped, broadcast_double(1.4426950408889634)));
    const Doubles r = subtract(subtract(clamped, multiply(n, broadcast_double(0.6931471803691238))),
                               multiply(n, broadcast_double(1.9082149292705877e-10)));
    Doubles total = broadcast_double(kExpCoefficients[0]);
    for (size_t k = 1; k < sizeof kExpCoefficients / sizeof kExpCoefficients[0]; ++k)
        total = add(multiply(total, r), broadcast_double(kExpCoefficients[k]));
    // Below 2^-1022 the exponent is applied in two steps.
    const Doubles first = minimum(maximum(n, broadcast_double(-512.0)), broadcast_double(512.0));
    total = multiply(multiply(total, power_of_two(first)), power_of_two(subtract(n, first)));
    total = where_less(x, smallest, broadcast_double(0.0), total);
    return where_less(largest, x, broadcast_double(__builtin_inf()), total);
}

inline Floats exp_lanes(Floats x) { return narrow(exp_lanes(low_half(x)), exp_lanes(high_half(x))); }

}  // namespace
