// Python names of the elementwise operators. Sizes and addresses are those of tensors that `ops` checked and keeps alive.
#include "binding.h"

namespace {

void rms_norm(Kernels& kernels, uintptr_t x, uintptr_t weight, uintptr_t y, size_t rows, size_t columns, float eps) {
    kernels.run(kernels.table->rms_norm, ShoalRmsNorm{at<const uint16_t>(x), at<const uint16_t>(weight), at<uint16_t>(y),
                                                      rows, columns, eps});
}

}  // namespace

void bind_elementwise(nb::class_<Kernels>& kernels) {
    kernels.def("rms_norm", &rms_norm, nb::arg("x"), nb::arg("weight"), nb::arg("y"), nb::arg("rows"), nb::arg("columns"),
                nb::arg("eps"));
}
