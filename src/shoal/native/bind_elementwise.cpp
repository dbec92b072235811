// Python names of the elementwise operators. Sizes and addresses are those of tensors that `ops` checked and keeps
// alive; an address of 0 stands for what is left out.
#include "binding.h"

namespace {

constexpr size_t kGroup = 32, kFineGroup = 16;

void require(bool holds, const char* message) {
    if (!holds) throw nb::value_error(message);
}

void elementary(Kernels& kernels, int function, uintptr_t x, uintptr_t y, size_t count) {
    require(function >= 0 && function < SHOAL_FUNCTIONS, "`function` is not one of ShoalFunction");
    kernels.run(kernels.table->elementary, ShoalElementary{function, at<const float>(x), at<float>(y), count});
}

ShoalQuantize quantize(uintptr_t x, uintptr_t codes, uintptr_t scales, size_t rows, size_t columns) {
    return {at<const uint16_t>(x), at<uint8_t>(codes), at<uint8_t>(scales), rows, columns};
}

void quantize_q8(Kernels& kernels, uintptr_t x, uintptr_t codes, uintptr_t scales, size_t rows, size_t columns) {
    require(columns % kGroup == 0, "`columns` must be a multiple of 32");
    kernels.run(kernels.table->quantize_q8, quantize(x, codes, scales, rows, columns));
}

void quantize_q4i(Kernels& kernels, uintptr_t x, uintptr_t codes, uintptr_t scales, size_t rows, size_t columns) {
    require(columns % kGroup == 0, "`columns` must be a multiple of 32");
    kernels.run(kernels.table->quantize_q4i, quantize(x, codes, scales, rows, columns));
}

void quantize_q4c(Kernels& kernels, uintptr_t x, uintptr_t codes, uintptr_t scales, size_t rows, size_t columns) {
    require(columns % kFineGroup == 0, "`columns` must be a multiple of 16");
    kernels.run(kernels.table->quantize_q4c, quantize(x, codes, scales, rows, columns));
}

void rms_norm(Kernels& kernels, uintptr_t x, uintptr_t weight, uintptr_t y, size_t rows, size_t columns, float eps) {
    kernels.run(kernels.table->rms_norm, ShoalRmsNorm{at<const uint16_t>(x), at<const uint16_t>(weight),
                                                      at<uint16_t>(y), rows, columns, eps});
}

void rms_norm_q8(Kernels& kernels, uintptr_t x, uintptr_t weight, uintptr_t y, uintptr_t codes, uintptr_t scales,
                 size_t rows, size_t columns, float eps) {
    require(columns % kGroup == 0, "`columns` must be a multiple of 32");
    kernels.run(kernels.table->rms_norm_q8,
                ShoalRmsNormQ8{at<const uint16_t>(x), at<const uint16_t>(weight), at<uint16_t>(y), at<uint8_t>(codes),
                               at<uint8_t>(scales), rows, columns, eps});
}

void mean_square(Kernels& kernels, uintptr_t x, uintptr_t y, size_t rows, size_t columns) {
    kernels.run(kernels.table->mean_square, ShoalMeanSquare{at<const uint16_t>(x), at<float>(y), rows, columns});
}

void collapse_norm(Kernels& kernels, uintptr_t streams, uintptr_t pre, uintptr_t weight, uintptr_t y, uintptr_t codes,
                   uintptr_t scales, size_t rows, size_t num_streams, size_t columns, float eps) {
    require(!codes || columns % kGroup == 0, "`columns` must be a multiple of 32");
    kernels.run(kernels.table->collapse_norm,
                ShoalCollapseNorm{at<const uint16_t>(streams), at<const float>(pre), at<const uint16_t>(weight),
                                  at<uint16_t>(y), at<uint8_t>(codes), at<uint8_t>(scales), rows, num_streams, columns,
                                  eps});
}

void expand(Kernels& kernels, uintptr_t x, uintptr_t streams, uintptr_t post, uintptr_t comb, uintptr_t y, size_t rows,
            size_t num_streams, size_t columns) {
    kernels.run(kernels.table->expand,
                ShoalExpand{at<const uint16_t>(x), at<const uint16_t>(streams), at<const float>(post),
                            at<const float>(comb), at<uint16_t>(y), rows, num_streams, columns});
}

void split_mix(Kernels& kernels, uintptr_t u, uintptr_t mean_square, uintptr_t scale, uintptr_t base, uintptr_t pre,
               uintptr_t post, uintptr_t comb, size_t rows, size_t num_streams, size_t iterations, float eps,
               float norm_eps) {
    kernels.run(kernels.table->split_mix,
                ShoalSplitMix{at<const float>(u), at<const float>(mean_square), at<const float>(scale),
                              at<const float>(base), at<float>(pre), at<float>(post), at<float>(comb), rows,
                              num_streams, iterations, eps, norm_eps});
}

void pool_groups(Kernels& kernels, uintptr_t values, uintptr_t gates, uintptr_t y, size_t groups, size_t ratio,
                 size_t columns) {
    kernels.run(kernels.table->pool_groups, ShoalPoolGroups{at<const float>(values), at<const float>(gates),
                                                            at<uint16_t>(y), groups, ratio, columns});
}

void gather_rows(Kernels& kernels, uintptr_t codes, uintptr_t scales, uintptr_t row_ids, uintptr_t y_codes,
                 uintptr_t y_scales, size_t rows, size_t columns) {
    require(columns % kGroup == 0, "`columns` must be a multiple of 32");
    kernels.run(kernels.table->gather_rows,
                ShoalGatherRows{at<const uint8_t>(codes), at<const uint8_t>(scales), at<const int64_t>(row_ids),
                                at<uint8_t>(y_codes), at<uint8_t>(y_scales), rows, columns});
}

void engram_gate(Kernels& kernels, uintptr_t streams, uintptr_t projected, uintptr_t q_weight, uintptr_t k_weight,
                 uintptr_t image_mask, uintptr_t y, size_t rows, size_t num_streams, size_t columns, float eps) {
    kernels.run(kernels.table->engram_gate,
                ShoalEngramGate{at<const uint16_t>(streams), at<const uint16_t>(projected),
                                at<const uint16_t>(q_weight), at<const uint16_t>(k_weight),
                                at<const uint8_t>(image_mask), at<uint16_t>(y), rows, num_streams, columns, eps});
}

void route(Kernels& kernels, uintptr_t logits, uintptr_t bias, uintptr_t bias_vl, uintptr_t image_mask,
           uintptr_t expert_ids, uintptr_t weights, uintptr_t margin, size_t rows, size_t experts, size_t active,
           float route_scale) {
    require(active > 0 && active <= experts, "`active` must be from 1 to `experts`");
    kernels.run(kernels.table->route,
                ShoalRoute{at<const float>(logits), at<const float>(bias), at<const float>(bias_vl),
                           at<const uint8_t>(image_mask), at<int64_t>(expert_ids), at<float>(weights),
                           at<float>(margin), rows, experts, active, route_scale});
}

}  // namespace

void bind_elementwise(nb::class_<Kernels>& kernels) {
    using nb::arg;
    kernels.def("elementary", &elementary, arg("function"), arg("x"), arg("y"), arg("count"));
    kernels.def("quantize_q8", &quantize_q8, arg("x"), arg("codes"), arg("scales"), arg("rows"), arg("columns"));
    kernels.def("quantize_q4i", &quantize_q4i, arg("x"), arg("codes"), arg("scales"), arg("rows"), arg("columns"));
    kernels.def("quantize_q4c", &quantize_q4c, arg("x"), arg("codes"), arg("scales"), arg("rows"), arg("columns"));
    kernels.def("rms_norm", &rms_norm, arg("x"), arg("weight"), arg("y"), arg("rows"), arg("columns"), arg("eps"));
    kernels.def("rms_norm_q8", &rms_norm_q8, arg("x"), arg("weight"), arg("y"), arg("codes"), arg("scales"),
                arg("rows"), arg("columns"), arg("eps"));
    kernels.def("mean_square", &mean_square, arg("x"), arg("y"), arg("rows"), arg("columns"));
    kernels.def("collapse_norm", &collapse_norm, arg("streams"), arg("pre"), arg("weight"), arg("y"), arg("codes"),
                arg("scales"), arg("rows"), arg("num_streams"), arg("columns"), arg("eps"));
    kernels.def("expand", &expand, arg("x"), arg("streams"), arg("post"), arg("comb"), arg("y"), arg("rows"),
                arg("num_streams"), arg("columns"));
    kernels.def("split_mix", &split_mix, arg("u"), arg("mean_square"), arg("scale"), arg("base"), arg("pre"),
                arg("post"), arg("comb"), arg("rows"), arg("num_streams"), arg("iterations"), arg("eps"),
                arg("norm_eps"));
    kernels.def("pool_groups", &pool_groups, arg("values"), arg("gates"), arg("y"), arg("groups"), arg("ratio"),
                arg("columns"));
    kernels.def("gather_rows", &gather_rows, arg("codes"), arg("scales"), arg("row_ids"), arg("y_codes"),
                arg("y_scales"), arg("rows"), arg("columns"));
    kernels.def("engram_gate", &engram_gate, arg("streams"), arg("projected"), arg("q_weight"), arg("k_weight"),
                arg("image_mask"), arg("y"), arg("rows"), arg("num_streams"), arg("columns"), arg("eps"));
    kernels.def("route", &route, arg("logits"), arg("bias"), arg("bias_vl"), arg("image_mask"), arg("expert_ids"),
                arg("weights"), arg("margin"), arg("rows"), arg("experts"), arg("active"), arg("route_scale"));
}
