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

// All sizes are those of tensors that `ops.kernels` checked and keeps alive.
void block_linear(const std::string& isa, uintptr_t x_codes, uintptr_t x_scales, uintptr_t weight_codes,
                  uintptr_t weight_scales, bool weight_is_e2m1, size_t rows, size_t outputs, size_t inputs,
                  uintptr_t y) {
    if (inputs % 32 != 0) throw nb::value_error("`inputs` must be a multiple of 32");
    const ShoalKernels* table = table_named(isa);
    const ShoalBlockLinear p = {at<const uint8_t>(x_codes),      at<const uint8_t>(x_scales),
                                at<const uint8_t>(weight_codes), at<const uint8_t>(weight_scales),
                                weight_is_e2m1,                  rows,
                                outputs,                         inputs,
                                at<uint16_t>(y)};
    const Unlocked unlocked;
    std::vector<int32_t> x_values(rows * inputs), w_values(inputs);
    std::vector<double> terms(inputs / 32);
    table->block_linear(&p, x_values.data(), w_values.data(), terms.data());
}

void halving_dots(const std::string& isa, uintptr_t a, uintptr_t b, uintptr_t y, size_t batch, size_t rows,
                  size_t columns, size_t inner) {
    const ShoalKernels* table = table_named(isa);
    const ShoalDots shape = {batch, rows, columns, inner};
    const Unlocked unlocked;
    std::vector<double> terms(inner);
    table->halving_dots(at<const float>(a), at<const float>(b), at<double>(y), &shape, terms.data());
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
    module.def("block_linear", &block_linear, nb::arg("isa"), nb::arg("x_codes"), nb::arg("x_scales"),
               nb::arg("weight_codes"), nb::arg("weight_scales"), nb::arg("weight_is_e2m1"), nb::arg("rows"),
               nb::arg("outputs"), nb::arg("inputs"), nb::arg("y"));
    module.def("halving_dots", &halving_dots, nb::arg("isa"), nb::arg("a"), nb::arg("b"), nb::arg("y"),
               nb::arg("batch"), nb::arg("rows"), nb::arg("columns"), nb::arg("inner"));
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
}
