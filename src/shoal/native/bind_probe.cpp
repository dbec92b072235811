// Python names of the bandwidth probe. Sizes and addresses are those of tensors that `ops` checked and keeps alive.
#include "binding.h"

namespace {

uint64_t stream_read(Kernels& kernels, uintptr_t base, uintptr_t starts, size_t count, size_t nbytes) {
    uint64_t sum = 0;
    kernels.run(kernels.table->stream_read,
                ShoalStreamRead{at<const uint8_t>(base), at<const uint64_t>(starts), count, nbytes, &sum});
    return sum;
}

}  // namespace

void bind_probe(nb::class_<Kernels>& kernels) {
    kernels.def("stream_read", &stream_read, nb::arg("base"), nb::arg("starts"), nb::arg("count"), nb::arg("nbytes"));
}
