// Python names of the linear operators. Sizes and addresses are those of tensors that `ops` checked and keeps alive.
#include <nanobind/stl/tuple.h>

#include <tuple>

#include "binding.h"

namespace {

void require_groups(size_t inputs) {
    if (inputs % 32 != 0) throw nb::value_error("`inputs` must be a multiple of 32");
}

void float8_linear(Kernels& kernels, uintptr_t x_codes, uintptr_t x_scales, uintptr_t codes, uintptr_t scales,
                   uintptr_t y, size_t rows, size_t outputs, size_t inputs, size_t y_stride) {
    require_groups(inputs);
    kernels.run(kernels.table->float8_linear,
                ShoalFloat8Linear{at<const uint8_t>(x_codes), at<const uint8_t>(x_scales), float8(codes, scales),
                                  rows, outputs, inputs, at<uint16_t>(y), y_stride});
}

// (codes, scales, y, outputs) of every weight.
using Float8Output = std::tuple<uintptr_t, uintptr_t, uintptr_t, size_t>;

void float8_linears(Kernels& kernels, uintptr_t x_codes, uintptr_t x_scales, const std::vector<Float8Output>& weights,
                    size_t rows, size_t inputs) {
    require_groups(inputs);
    std::vector<ShoalFloat8Output> linears;
    for (const auto& [codes, scales, y, outputs] : weights)
        linears.push_back({float8(codes, scales), outputs, at<uint16_t>(y), outputs});
    kernels.run(kernels.table->float8_linears,
                ShoalFloat8Linears{at<const uint8_t>(x_codes), at<const uint8_t>(x_scales), linears.data(),
                                   linears.size(), rows, inputs});
}

void grouped_linear(Kernels& kernels, uintptr_t x, uintptr_t codes, uintptr_t scales, uintptr_t y, size_t rows,
                    size_t groups, size_t outputs, size_t inputs) {
    require_groups(inputs);
    kernels.run(kernels.table->grouped_linear, ShoalGroupedLinear{at<const uint16_t>(x), float8(codes, scales), rows,
                                                                  groups, outputs, inputs, at<uint16_t>(y)});
}

void bf16_linear(Kernels& kernels, uintptr_t x, uintptr_t weight, uintptr_t y_float, uintptr_t y_bf16, size_t rows,
                 size_t outputs, size_t inputs) {
    kernels.run(kernels.table->bf16_linear,
                ShoalBf16Linear{at<const uint16_t>(x), at<const uint16_t>(weight), rows, outputs, inputs,
                                at<float>(y_float), at<uint16_t>(y_bf16)});
}

void float32_linear(Kernels& kernels, uintptr_t x, uintptr_t weight, uintptr_t y, uintptr_t mean_square, size_t rows,
                    size_t outputs, size_t inputs) {
    kernels.run(kernels.table->float32_linear,
                ShoalFloat32Linear{at<const uint16_t>(x), at<const float>(weight), rows, outputs, inputs, at<float>(y),
                                   at<float>(mean_square)});
}

}  // namespace

void bind_linear(nb::class_<Kernels>& kernels) {
    kernels.def("float8_linear", &float8_linear, nb::arg("x_codes"), nb::arg("x_scales"), nb::arg("codes"),
                nb::arg("scales"), nb::arg("y"), nb::arg("rows"), nb::arg("outputs"), nb::arg("inputs"),
                nb::arg("y_stride"));
    kernels.def("float8_linears", &float8_linears, nb::arg("x_codes"), nb::arg("x_scales"), nb::arg("weights"),
                nb::arg("rows"), nb::arg("inputs"));
    kernels.def("grouped_linear", &grouped_linear, nb::arg("x"), nb::arg("codes"), nb::arg("scales"), nb::arg("y"),
                nb::arg("rows"), nb::arg("groups"), nb::arg("outputs"), nb::arg("inputs"));
    kernels.def("bf16_linear", &bf16_linear, nb::arg("x"), nb::arg("weight"), nb::arg("y_float"), nb::arg("y_bf16"),
                nb::arg("rows"), nb::arg("outputs"), nb::arg("inputs"));
    kernels.def("float32_linear", &float32_linear, nb::arg("x"), nb::arg("weight"), nb::arg("y"),
                nb::arg("mean_square"), nb::arg("rows"), nb::arg("outputs"), nb::arg("inputs"));
}
