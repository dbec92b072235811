// Which tables were built and which of them this processor runs. Built for the baseline instruction set.
#include <string.h>

#include "kernels.h"
#include "tables.h"

extern "C" {
#define SHOAL_DECLARE(isa) extern const ShoalKernels shoal_kernels_##isa;
SHOAL_TABLES(SHOAL_DECLARE)

size_t shoal_kernel_tables(const ShoalKernels*** tables) {
#define SHOAL_LIST(isa) &shoal_kernels_##isa,
    static const ShoalKernels* all[] = {SHOAL_TABLES(SHOAL_LIST)};
    *tables = all;
    return sizeof all / sizeof all[0];
}

int shoal_kernel_supported(const ShoalKernels* table) {
#if defined(__x86_64__)
    if (!strcmp(table->isa, "avx512"))
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    if (!strcmp(table->isa, "avx2")) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
    return 1;
}
}
