// Which tables were built and which of them this processor runs. Built for the baseline instruction set.
#include <string.h>

#include "kernels.h"
#include "tables.h"

#if defined(__x86_64__)
#include <cpuid.h>

namespace {

bool has_avx2() {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}

// CPUID leaf 7, subleaf 1, EAX bit 4: the 256-bit form, which AVX-512 VNNI does not imply.
bool has_avxvnni() {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) && (eax & (1u << 4));
}

}  // namespace
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

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
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vnni");
    if (!strcmp(table->isa, "avxvnni")) return has_avx2() && has_avxvnni();
    if (!strcmp(table->isa, "avx2")) return has_avx2();
#elif defined(__aarch64__) && defined(__linux__)
    constexpr unsigned long dot_products = 1ul << 20;  // HWCAP_ASIMDDP
    if (!strcmp(table->isa, "neon")) return (getauxval(AT_HWCAP) & dot_products) != 0;
#endif
    return 1;
}
}
