// One table of operators, compiled once per instruction set with SHOAL_ISA set to its name.
//
// No std templates here: the linker may keep one copy of a shared inline function, built for the wrong processor.
#include "kernels.h"
#include "lanes.h"

#include "quantize_q8.inl"
// Each builds on those above it.
#include "elementary.inl"
#include "halving.inl"
#include "block_linear.inl"
#include "split_mix.inl"

extern "C" const ShoalKernels SHOAL_NAME(kernels);
extern "C" const ShoalKernels SHOAL_NAME(kernels) = {
    SHOAL_TEXT(SHOAL_ISA), quantize_q8, block_linear, halving_dots, elementary, split_mix,
#define SHOAL_ENTRY(name, Parameters) SHOAL_NAME(name),
    SHOAL_OPERATORS(SHOAL_ENTRY)
#undef SHOAL_ENTRY
};
