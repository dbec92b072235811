// The Python module: names tables, checks sizes, releases the GIL. Pointers come from tensors checked in `ops`.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "kernels.h"

namespace nb = nanobind;

namespace {

std::vector<const ShoalKernels*> supported_tables() {
    const ShoalKernels** tables = nullptr;
    const size_t count = shoal_kernel_tables(&tables);
    std::vector<const ShoalKernels*> supported;
    for (size_t i = 0; i < count; ++i)
        if (shoal_kernel_supported(tables[i])) supported.push_back(tables[i]);
    return supported;
}

const ShoalKernels* table_named(const std::string& isa) {
    for (const ShoalKernels* table : supported_tables())
        if (table->isa == isa) return table;
    throw nb::value_error(("no kernels for `" + isa + "` on this machine").c_str());
}

void quantize_q8(const std::string& isa, uintptr_t x, uintptr_t codes, uintptr_t scales, size_t rows, size_t columns) {
    if (columns % 32 != 0) throw nb::value_error("`columns` must be a multiple of 32");
    const ShoalKernels* table = table_named(isa);
    nb::gil_scoped_release unlocked;
    table->quantize_q8(reinterpret_cast<const uint16_t*>(x), reinterpret_cast<uint8_t*>(codes),
                       reinterpret_cast<uint8_t*>(scales), rows, columns);
}

}  // namespace

NB_MODULE(_native, module) {
    module.doc() = "Shoal's native kernels; every instruction set gives the same bits.";
    module.def(
        "isas",
        [] {
            std::vector<std::string> names;
            for (const ShoalKernels* table : supported_tables()) names.emplace_back(table->isa);
            return names;
        },
        "Instruction sets this machine runs, best first; the last is portable.");
    module.def("quantize_q8", &quantize_q8, nb::arg("isa"), nb::arg("x"), nb::arg("codes"), nb::arg("scales"),
               nb::arg("rows"), nb::arg("columns"), "Q8 of bf16 rows at address `x` into `codes` and `scales`.");
}
