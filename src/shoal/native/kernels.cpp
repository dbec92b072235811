// One table of operators, compiled once per instruction set with SHOAL_ISA set to its name.
#include "kernels.h"

extern "C" const ShoalKernels SHOAL_NAME(kernels);
extern "C" const ShoalKernels SHOAL_NAME(kernels) = {
    SHOAL_TEXT(SHOAL_ISA),
#define SHOAL_ENTRY(name, Parameters) SHOAL_NAME(name),
    SHOAL_OPERATORS(SHOAL_ENTRY)
#undef SHOAL_ENTRY
};
