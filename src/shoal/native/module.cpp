// The Python module: names tables, checks sizes, releases the GIL. Pointers come from tensors checked in `ops`.
#include "binding.h"

namespace {

std::vector<const ShoalKernels*> find_supported_tables() {
    const ShoalKernels** tables = nullptr;
    const size_t count = shoal_kernel_tables(&tables);
    std::vector<const ShoalKernels*> supported;
    for (size_t i = 0; i < count; ++i)
        if (shoal_kernel_supported(tables[i])) supported.push_back(tables[i]);
    return supported;
}

// Asked of the processor once, not at every call of a kernel.
const std::vector<const ShoalKernels*>& supported_tables() {
    static const std::vector<const ShoalKernels*> supported = find_supported_tables();
    return supported;
}

const ShoalKernels* table_named(const std::string& isa) {
    for (const ShoalKernels* table : supported_tables())
        if (table->isa == isa) return table;
    throw nb::value_error(("no kernels for `" + isa + "` on this machine").c_str());
}

}  // namespace

NB_MODULE(_native, module) {
    module.doc() = "Shoal's native kernels; every instruction set gives the same bits.";
    // A thread that still runs when the process ends keeps its objects: no fault, and nothing a user could act on.
    nb::set_leak_warnings(false);
    module.def(
        "isas",
        [] {
            std::vector<std::string> names;
            for (const ShoalKernels* table : supported_tables()) names.emplace_back(table->isa);
            return names;
        },
        "Instruction sets this machine runs, best first; the last is portable.");
    module.attr("EXP") = static_cast<int>(SHOAL_EXP);
    module.attr("SIGMOID") = static_cast<int>(SHOAL_SIGMOID);
    module.attr("SILU") = static_cast<int>(SHOAL_SILU);
    module.attr("SOFTPLUS") = static_cast<int>(SHOAL_SOFTPLUS);

    nb::class_<Kernels> kernels(module, "Kernels", "The operators of one instruction set on a pool of threads.");
    kernels.def(
        "__init__",
        [](Kernels* self, const std::string& isa, size_t threads) { new (self) Kernels(table_named(isa), threads); },
        nb::arg("isa"), nb::arg("threads"));
    kernels.def_prop_ro("isa", [](const Kernels& self) { return std::string(self.table->isa); });
    kernels.def_prop_ro("threads", [](const Kernels& self) { return shoal_pool_threads(self.pool); });
    kernels.def_prop_ro("calls", [](const Kernels& self) { return self.calls; }, "Operators run so far.");
    bind_linear(kernels);
    bind_experts(kernels);
    bind_float4_linear(kernels);
    bind_attention(kernels);
    bind_indexer(kernels);
    bind_elementwise(kernels);
    bind_stages(kernels);
    bind_probe(kernels);
    bind_layer(module);
    bind_row_reader(module);
    bind_page_reader(module);
}
