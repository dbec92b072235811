// Python names of the experts operators. Sizes and addresses are those of tensors that `ops` checked and keeps alive.
#include "expert_tuples.h"

namespace {

void routed_experts(Kernels& kernels, uintptr_t x_codes, uintptr_t x_scales, size_t tokens, size_t dim, size_t inter,
                    float limit, const std::vector<ExpertTuple>& experts, uintptr_t outputs) {
    const std::vector<ShoalExpert> list = experts_of(experts);
    kernels.run(kernels.table->routed_experts,
                ShoalExperts{at<const uint8_t>(x_codes), at<const uint8_t>(x_scales), tokens, dim, inter, limit,
                             list.size(), list.data(), at<uint16_t>(outputs)});
}

void sum_experts(Kernels& kernels, uintptr_t outputs, uintptr_t slots, uintptr_t shared, size_t tokens, size_t active,
                 size_t dim, uintptr_t y) {
    kernels.run(kernels.table->sum_experts,
                ShoalExpertSum{at<const uint16_t>(outputs), at<const uint32_t>(slots), at<const uint16_t>(shared), tokens,
                               active, dim, at<uint16_t>(y)});
}

void swiglu_q8(Kernels& kernels, uintptr_t gate, uintptr_t up, size_t rows, size_t inter, uintptr_t weights, float limit,
               uintptr_t codes, uintptr_t scales) {
    kernels.run(kernels.table->swiglu_q8,
                ShoalSwiglu{at<const uint16_t>(gate), at<const uint16_t>(up), rows, inter, at<const float>(weights), limit,
                            at<uint8_t>(codes), at<uint8_t>(scales)});
}

}  // namespace

void bind_experts(nb::class_<Kernels>& kernels) {
    kernels.def("routed_experts", &routed_experts, nb::arg("x_codes"), nb::arg("x_scales"), nb::arg("tokens"),
                nb::arg("dim"), nb::arg("inter"), nb::arg("limit"), nb::arg("experts"), nb::arg("outputs"));
    kernels.def("sum_experts", &sum_experts, nb::arg("outputs"), nb::arg("slots"), nb::arg("shared"), nb::arg("tokens"),
                nb::arg("active"), nb::arg("dim"), nb::arg("y"));
    kernels.def("swiglu_q8", &swiglu_q8, nb::arg("gate"), nb::arg("up"), nb::arg("rows"), nb::arg("inter"),
                nb::arg("weights"), nb::arg("limit"), nb::arg("codes"), nb::arg("scales"));
}
