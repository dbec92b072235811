// One table of operators, compiled once per instruction set with SHOAL_ISA set to its name.
//
// No std templates here: the linker may keep one copy of a shared inline function, built for the wrong processor.
#include "kernels.h"

#include "quantize_q8.inl"
// Each builds on those above it.
#include "elementary.inl"
#include "halving.inl"
#include "block_linear.inl"
#include "split_mix.inl"

#define SHOAL_JOIN2(a, b) a##b
#define SHOAL_JOIN(a, b) SHOAL_JOIN2(a, b)
#define SHOAL_TEXT2(a) #a
#define SHOAL_TEXT(a) SHOAL_TEXT2(a)

extern "C" const ShoalKernels SHOAL_JOIN(shoal_kernels_, SHOAL_ISA);
extern "C" const ShoalKernels SHOAL_JOIN(shoal_kernels_, SHOAL_ISA) = {
    SHOAL_TEXT(SHOAL_ISA), quantize_q8, block_linear, halving_dots, elementary, split_mix};
