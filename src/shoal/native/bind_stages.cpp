// Python names of the stages. Sizes and addresses are those of tensors that `ops` checked and keeps alive.
#include "expert_tuples.h"

namespace {

using Address = uintptr_t;

const uint16_t* bf16(Address address) { return at<const uint16_t>(address); }
const float* floats(Address address) { return at<const float>(address); }

void enter_sublayer(Kernels& kernels, Address streams, Address pre, Address fn, Address scale, Address base,
                    Address norm, size_t rows, size_t num_streams, size_t dim, size_t iterations, float hc_eps,
                    float norm_eps, Address x, Address x_codes, Address x_scales, Address next_pre, Address post,
                    Address comb, Address gate, Address bias, Address bias_vl, Address image_mask, size_t experts,
                    size_t active, float route_scale, Address expert_ids, Address weights, Address margin) {
    const ShoalRouter router = {bf16(gate),     floats(bias),      floats(bias_vl),         at<const uint8_t>(image_mask),
                                experts,        active,            route_scale,             at<int64_t>(expert_ids),
                                at<float>(weights), at<float>(margin)};
    kernels.run(kernels.table->enter_sublayer,
                ShoalEnterSublayer{bf16(streams), floats(pre), floats(fn), floats(scale), floats(base), bf16(norm), rows,
                                   num_streams, dim, iterations, hc_eps, norm_eps, at<uint16_t>(x), at<uint8_t>(x_codes),
                                   at<uint8_t>(x_scales), at<float>(next_pre), at<float>(post), at<float>(comb), router});
}

void project_in(Kernels& kernels, Address x_codes, Address x_scales, Address wq_a, Address wq_a_scales, Address wq_b,
                Address wq_b_scales, Address wkv, Address wkv_scales, Address q_norm, Address kv_norm, Address cos,
                Address sin, size_t rows, size_t dim, size_t q_rank, size_t heads, size_t head_dim, size_t pairs,
                float eps, Address q, Address qr_codes, Address qr_scales, Address kv_codes, Address kv_scales) {
    kernels.run(kernels.table->project_in,
                ShoalProjectIn{at<const uint8_t>(x_codes), at<const uint8_t>(x_scales), float8(wq_a, wq_a_scales),
                               float8(wq_b, wq_b_scales), float8(wkv, wkv_scales), bf16(q_norm), bf16(kv_norm),
                               floats(cos), floats(sin), rows, dim, q_rank, heads, head_dim, pairs, eps, at<uint16_t>(q),
                               at<uint8_t>(qr_codes), at<uint8_t>(qr_scales), at<uint8_t>(kv_codes),
                               at<uint8_t>(kv_scales)});
}

ShoalReturn back(Address streams, Address post, Address comb, size_t num_streams, Address x, Address streams_out) {
    return {bf16(streams), floats(post), floats(comb), num_streams, at<uint16_t>(x), at<uint16_t>(streams_out)};
}

void project_out(Kernels& kernels, Address o, Address wo_a, Address wo_a_scales, Address wo_b, Address wo_b_scales,
                 size_t rows, size_t groups, size_t inputs, size_t outputs, size_t dim, Address streams, Address post,
                 Address comb, size_t num_streams, Address x, Address streams_out) {
    kernels.run(kernels.table->project_out,
                ShoalProjectOut{bf16(o), float8(wo_a, wo_a_scales), float8(wo_b, wo_b_scales), rows, groups, inputs,
                                outputs, dim, back(streams, post, comb, num_streams, x, streams_out)});
}

void combine(Kernels& kernels, const std::vector<ExpertTuple>& last, Address x_codes, Address x_scales, Address w1, Address w1_scales, Address w2,
             Address w2_scales, Address w3, Address w3_scales, Address outputs, Address slots, size_t rows,
             size_t active, size_t dim, size_t inter, float limit, Address streams, Address post, Address comb,
             size_t num_streams, Address y, Address streams_out) {
    const std::vector<ShoalExpert> list = experts_of(last);
    const ShoalExperts routed = {at<const uint8_t>(x_codes), at<const uint8_t>(x_scales), rows, dim, inter, limit,
                                 list.size(), list.data(), at<uint16_t>(outputs)};
    kernels.run(kernels.table->combine,
                ShoalCombine{routed, at<const uint8_t>(x_codes), at<const uint8_t>(x_scales), float8(w1, w1_scales),
                             float8(w2, w2_scales), float8(w3, w3_scales), bf16(outputs), at<const uint32_t>(slots), rows,
                             active, dim, inter, limit, back(streams, post, comb, num_streams, y, streams_out)});
}

void finish_latents(Kernels& kernels, Address pooled, Address norm, Address index_wk, Address k_norm, Address cos,
                    Address sin, size_t groups, size_t dim, size_t index_dim, size_t pairs, float eps,
                    Address entry_codes, Address entry_scales, Address key_codes, Address key_scales) {
    kernels.run(kernels.table->finish_latents,
                ShoalFinishLatents{bf16(pooled), bf16(norm), bf16(index_wk), bf16(k_norm), floats(cos), floats(sin),
                                   groups, dim, index_dim, pairs, eps, at<uint8_t>(entry_codes),
                                   at<uint8_t>(entry_scales), at<uint8_t>(key_codes), at<uint8_t>(key_scales)});
}

void index_queries(Kernels& kernels, Address qr_codes, Address qr_scales, Address x, Address weights_proj, Address wq_b,
                   Address wq_b_scales, Address cos, Address sin, size_t rows, size_t q_rank, size_t dim, size_t heads,
                   size_t index_dim, size_t pairs, float scale, Address codes, Address scales, Address weights) {
    kernels.run(kernels.table->index_queries,
                ShoalIndexQueries{at<const uint8_t>(qr_codes), at<const uint8_t>(qr_scales), bf16(x), bf16(weights_proj),
                                  float8(wq_b, wq_b_scales), floats(cos), floats(sin), rows, q_rank, dim, heads,
                                  index_dim, pairs, scale, at<uint8_t>(codes), at<uint8_t>(scales),
                                  at<uint16_t>(weights)});
}

void engram_memory(Kernels& kernels, Address row_codes, Address row_scales, Address wkv, Address wkv_scales,
                   Address streams, Address q_weight, Address k_weight, Address image_mask, size_t rows, size_t columns,
                   size_t width, size_t num_streams, size_t dim, float eps, Address streams_out) {
    kernels.run(kernels.table->engram_memory,
                ShoalEngramMemory{at<const uint8_t>(row_codes), at<const uint8_t>(row_scales), float8(wkv, wkv_scales),
                                  bf16(streams), bf16(q_weight), bf16(k_weight), at<const uint8_t>(image_mask), rows,
                                  columns, width, num_streams, dim, eps, at<uint16_t>(streams_out)});
}

void logits(Kernels& kernels, Address streams, Address pre, Address norm, Address head, size_t rows, size_t num_streams,
            size_t dim, size_t vocabulary, float eps, Address x, Address y) {
    kernels.run(kernels.table->logits, ShoalLogits{bf16(streams), floats(pre), bf16(norm), bf16(head), rows, num_streams,
                                                   dim, vocabulary, eps, at<uint16_t>(x), at<float>(y)});
}

}  // namespace

void bind_stages(nb::class_<Kernels>& kernels) {
    kernels.def("enter_sublayer", &enter_sublayer);
    kernels.def("project_in", &project_in);
    kernels.def("project_out", &project_out);
    kernels.def("combine", &combine);
    kernels.def("finish_latents", &finish_latents);
    kernels.def("index_queries", &index_queries);
    kernels.def("engram_memory", &engram_memory);
    kernels.def("logits", &logits);
}
