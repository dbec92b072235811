// Python name of the FP4 linear. Sizes and addresses are those of tensors that `ops` checked and keeps alive.
#include "binding.h"

namespace {

void float4_linear(Kernels& kernels, uintptr_t x_codes, uintptr_t x_scales, uintptr_t weight_codes,
                   uintptr_t weight_scales, size_t rows, size_t outputs, size_t inputs, uintptr_t y) {
    const ShoalFloat4 weight = {at<const uint8_t>(weight_codes), at<const uint8_t>(weight_scales)};
    kernels.run(kernels.table->float4_linear, ShoalFloat4Linear{at<const uint8_t>(x_codes), at<const uint8_t>(x_scales),
                                                                weight, rows, outputs, inputs, at<uint16_t>(y)});
}

}  // namespace

void bind_float4_linear(nb::class_<Kernels>& kernels) {
    kernels.def("float4_linear", &float4_linear, nb::arg("x_codes"), nb::arg("x_scales"), nb::arg("weight_codes"),
                nb::arg("weight_scales"), nb::arg("rows"), nb::arg("outputs"), nb::arg("inputs"), nb::arg("y"));
}
