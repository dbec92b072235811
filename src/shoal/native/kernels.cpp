// One table of operators, compiled once per instruction set with SHOAL_ISA set to its name.
//
// No std templates here: the linker may keep one copy of a shared inline function, built for the wrong processor.
#include "kernels.h"
#include "lanes.h"

namespace {

// 2^exponent for exponents from -1022 to 1023.
inline double power_of_two(int64_t exponent) {
    const int64_t bits = (exponent + 1023) << 52;
    double value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

}  // namespace

// Each builds on those above it.
#include "halving.inl"
#include "block_linear.inl"

extern "C" const ShoalKernels SHOAL_NAME(kernels);
extern "C" const ShoalKernels SHOAL_NAME(kernels) = {
    SHOAL_TEXT(SHOAL_ISA), block_linear, halving_dots,
#define SHOAL_ENTRY(name, Parameters) SHOAL_NAME(name),
    SHOAL_OPERATORS(SHOAL_ENTRY)
#undef SHOAL_ENTRY
};
