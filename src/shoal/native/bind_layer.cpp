// A layer of a step in three native calls: its weights are handed over once, the memory they work in once a step.
// Addresses are those of tensors that `ops` checked; who calls keeps both alive.
#include <algorithm>

#include "expert_tuples.h"
#include "sequence_tuples.h"

namespace {

using Address = uintptr_t;
using Pair = std::tuple<Address, Address>;
using Entry = std::tuple<Address, Address, Address, Address>;  // fn, scale, base, norm
using Arrived = std::tuple<int64_t, std::tuple<Address, Address, Address, Address, Address, Address>>;

const uint16_t* bf16(Address address) { return at<const uint16_t>(address); }
const float* floats(Address address) { return at<const float>(address); }
ShoalFloat8 float8(const Pair& weight) { return ::float8(std::get<0>(weight), std::get<1>(weight)); }

// What all layers of a step work in, one after another; arrays hold all its tokens. And which experts they go to.
struct Workspace {
    size_t tokens;
    uint16_t *streams, *returned;  // before a sublayer, and what attention makes of them
    float *pre, *next_pre;         // of the sublayer before, and of this layer's attention
    uint16_t* x;
    uint8_t *x_codes, *x_scales;
    float *post, *comb;
    uint16_t* q;
    uint8_t *qr_codes, *qr_scales, *kv_codes, *kv_scales;
    uint16_t *o, *y, *outputs;
    int64_t* expert_ids;
    float *weights, *margin;

    // The pairs of token and expert, expert after expert: `experts` ascend, expert i has [bounds[i], bounds[i + 1]).
    std::vector<int64_t> experts;
    std::vector<size_t> bounds;
    std::vector<uint32_t> pair_tokens, pair_slots, token_slots;
    std::vector<float> pair_weights;

    void dispatch(size_t active);
    ShoalExpert pairs_of(const Arrived& arrived) const;
};

void Workspace::dispatch(size_t active) {
    const size_t pairs = tokens * active;
    pair_slots.resize(pairs);
    for (size_t pair = 0; pair < pairs; ++pair) pair_slots[pair] = static_cast<uint32_t>(pair);
    std::vector<uint32_t> order = pair_slots;
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return expert_ids[a] < expert_ids[b]; });
    experts.clear();
    bounds.clear();
    pair_tokens.resize(pairs);
    pair_weights.resize(pairs);
    token_slots.resize(pairs);
    std::vector<size_t> seen(tokens);
    for (size_t place = 0; place < pairs; ++place) {
        const uint32_t pair = order[place];
        if (experts.empty() || experts.back() != expert_ids[pair]) {
            experts.push_back(expert_ids[pair]);
            bounds.push_back(place);
        }
        const size_t token = pair / active;
        pair_tokens[place] = static_cast<uint32_t>(token);
        pair_weights[place] = weights[pair];
        // Places ascend by expert id, and so do a token's slots.
        token_slots[token * active + seen[token]++] = static_cast<uint32_t>(place);
    }
    bounds.push_back(pairs);
}

ShoalExpert Workspace::pairs_of(const Arrived& arrived) const {
    const auto& [id, addresses] = arrived;
    const auto found = std::lower_bound(experts.begin(), experts.end(), id);
    if (found == experts.end() || *found != id) throw nb::value_error("an expert that no token goes to");
    const size_t place = static_cast<size_t>(found - experts.begin()), start = bounds[place];
    const auto& [w1, s1, w2, s2, w3, s3] = addresses;
    return {float4(w1, s1),           float4(w2, s2),           float4(w3, s3),
            bounds[place + 1] - start, pair_tokens.data() + start, pair_weights.data() + start,
            pair_slots.data() + start};
}

// Sizes and weights of a layer.
struct LayerStages {
    size_t num_streams, dim, iterations;
    float hc_eps, norm_eps;
    size_t q_rank, heads, head_dim, pairs, window, groups, group_inputs, group_outputs;
    float score_scale;
    size_t num_experts, active, inter;
    float route_scale, limit;
    Entry attn, ffn;
    ShoalFloat8 wq_a, wq_b, wkv, wo_a, wo_b, w1, w2, w3;
    const uint16_t *q_norm, *kv_norm, *gate;
    const float *sink, *bias, *bias_vl;

    ShoalEnterSublayer enter(const Workspace& work, const Entry& entry, const uint16_t* streams, const float* pre,
                             float* next_pre) const {
        const auto& [fn, scale, base, norm] = entry;
        return {streams,   floats(pre), floats(fn), floats(scale), floats(base), bf16(norm),   work.tokens,
                num_streams, dim,        iterations, hc_eps,        norm_eps,     work.x,       work.x_codes,
                work.x_scales, next_pre,  work.post,  work.comb,     ShoalRouter{}};
    }
    ShoalReturn back(const Workspace& work, const uint16_t* streams, uint16_t* streams_out) const {
        return {streams, work.post, work.comb, num_streams, work.y, streams_out};
    }
    ShoalExperts routed(const Workspace& work, const std::vector<ShoalExpert>& list) const {
        return {work.x_codes, work.x_scales, work.tokens, dim, inter, limit, list.size(), list.data(), work.outputs};
    }
    static const float* floats(const float* pointer) { return pointer; }
    static const float* floats(Address address) { return at<const float>(address); }
};

std::vector<ShoalExpert> experts_of(const Workspace& work, const std::vector<Arrived>& arrived) {
    std::vector<ShoalExpert> list;
    list.reserve(arrived.size());
    for (const Arrived& one : arrived) list.push_back(work.pairs_of(one));
    return list;
}

void begin(const LayerStages& layer, Kernels& kernels, const Workspace& work, Address cos, Address sin) {
    kernels.run(kernels.table->begin_layer,
                ShoalBeginLayer{layer.enter(work, layer.attn, work.streams, work.pre, work.next_pre),
                                {work.x_codes, work.x_scales, layer.wq_a, layer.wq_b, layer.wkv, layer.q_norm,
                                 layer.kv_norm, floats(cos), floats(sin), work.tokens, layer.dim, layer.q_rank,
                                 layer.heads, layer.head_dim, layer.pairs, layer.norm_eps, work.q, work.qr_codes,
                                 work.qr_scales, work.kv_codes, work.kv_scales}});
}

std::vector<int64_t> attend(const LayerStages& layer, Kernels& kernels, Workspace& work,
                            const std::vector<SequenceTuple>& sequences, size_t topk, Address cos, Address sin,
                            Address replaced_codes, Address replaced_scales, Address is_full, Address image_mask) {
    ShoalAttention first{};
    first.q = work.q;
    first.own_codes = work.kv_codes;
    first.own_scales = work.kv_scales;
    first.sink = layer.sink;
    first.cos = floats(cos);
    first.sin = floats(sin);
    first.heads = layer.heads;
    first.dim = layer.head_dim;
    first.window = layer.window;
    first.topk = topk;
    first.pairs = layer.pairs;
    first.scale = layer.score_scale;
    first.y = work.o;
    const Sequences all(sequences, first);
    const ShoalProjectOut out = {work.o,
                                 layer.wo_a,
                                 layer.wo_b,
                                 work.tokens,
                                 layer.groups,
                                 layer.group_inputs,
                                 layer.group_outputs,
                                 layer.dim,
                                 layer.back(work, work.streams, work.returned)};
    ShoalEnterSublayer mixture = layer.enter(work, layer.ffn, work.returned, work.next_pre, work.pre);
    mixture.router = {layer.gate,   layer.bias,        layer.bias_vl, at<const uint8_t>(image_mask), layer.num_experts,
                      layer.active, layer.route_scale, work.expert_ids, work.weights,                  work.margin};
    const ShoalRing replaced = {at<uint8_t>(replaced_codes), at<uint8_t>(replaced_scales)};
    kernels.run(kernels.table->attend_layer,
                ShoalAttendLayer{all.step(replaced, at<uint8_t>(is_full)), out, mixture});
    work.dispatch(layer.active);
    return work.experts;
}

void apply(const LayerStages& layer, Kernels& kernels, const Workspace& work, const std::vector<Arrived>& arrived) {
    const std::vector<ShoalExpert> list = experts_of(work, arrived);
    kernels.run(kernels.table->routed_experts, layer.routed(work, list));
}

void finish(const LayerStages& layer, Kernels& kernels, const Workspace& work, const std::vector<Arrived>& last) {
    const std::vector<ShoalExpert> list = experts_of(work, last);
    kernels.run(kernels.table->combine,
                ShoalCombine{layer.routed(work, list), work.x_codes, work.x_scales, layer.w1, layer.w2, layer.w3,
                             work.outputs, work.token_slots.data(), work.tokens, layer.active, layer.dim, layer.inter,
                             layer.limit, layer.back(work, work.returned, work.streams)});
}

}  // namespace

void bind_layer(nb::module_& module) {
    nb::class_<Workspace>(module, "Workspace", "The memory that a step's layers work in.")
        .def(
            "__init__",
            [](Workspace* self, size_t tokens, Address streams, Address returned, Address pre, Address next_pre,
               Address x, const Pair& x_q8, Address post, Address comb, Address q, const Pair& qr, const Pair& kv,
               Address o, Address y, Address outputs, Address expert_ids, Address weights, Address margin) {
                const auto q8 = [](const Pair& rows) {
                    return std::pair{at<uint8_t>(std::get<0>(rows)), at<uint8_t>(std::get<1>(rows))};
                };
                const auto [x_codes, x_scales] = q8(x_q8);
                const auto [qr_codes, qr_scales] = q8(qr);
                const auto [kv_codes, kv_scales] = q8(kv);
                new (self) Workspace{tokens,
                                    at<uint16_t>(streams),
                                    at<uint16_t>(returned),
                                    at<float>(pre),
                                    at<float>(next_pre),
                                    at<uint16_t>(x),
                                    x_codes,
                                    x_scales,
                                    at<float>(post),
                                    at<float>(comb),
                                    at<uint16_t>(q),
                                    qr_codes,
                                    qr_scales,
                                    kv_codes,
                                    kv_scales,
                                    at<uint16_t>(o),
                                    at<uint16_t>(y),
                                    at<uint16_t>(outputs),
                                    at<int64_t>(expert_ids),
                                    at<float>(weights),
                                    at<float>(margin),
                                    {},
                                    {},
                                    {},
                                    {},
                                    {},
                                    {}};
            },
            nb::kw_only(), nb::arg("tokens"), nb::arg("streams"), nb::arg("returned"), nb::arg("pre"),
            nb::arg("next_pre"), nb::arg("x"), nb::arg("x_q8"), nb::arg("post"), nb::arg("comb"), nb::arg("q"),
            nb::arg("qr"), nb::arg("kv"), nb::arg("o"), nb::arg("y"), nb::arg("outputs"), nb::arg("expert_ids"),
            nb::arg("weights"), nb::arg("margin"));
    nb::class_<LayerStages>(module, "LayerStages", "Sizes and weights of a layer.")
        .def(
            "__init__",
            [](LayerStages* self, size_t num_streams, size_t dim, size_t iterations, float hc_eps, float norm_eps,
               size_t q_rank, size_t heads, size_t head_dim, size_t pairs, size_t window, size_t groups,
               size_t group_inputs, size_t group_outputs, float score_scale, size_t experts, size_t active,
               size_t inter,
               float route_scale, float limit, const Entry& attn, const Entry& ffn, const Pair& wq_a, const Pair& wq_b,
               const Pair& wkv, const Pair& wo_a, const Pair& wo_b, const Pair& w1, const Pair& w2, const Pair& w3,
               Address q_norm, Address kv_norm, Address gate, Address sink, Address bias, Address bias_vl) {
                new (self) LayerStages{num_streams,   dim,           iterations,  hc_eps,       norm_eps,
                                       q_rank,        heads,         head_dim,    pairs,        window,
                                       groups,        group_inputs,  group_outputs, score_scale, experts,
                                       active,        inter,         route_scale, limit,        attn,
                                       ffn,           float8(wq_a),  float8(wq_b), float8(wkv), float8(wo_a),
                                       float8(wo_b),  float8(w1),    float8(w2),  float8(w3),   bf16(q_norm),
                                       bf16(kv_norm), bf16(gate),    floats(sink), floats(bias), floats(bias_vl)};
            },
            nb::kw_only(), nb::arg("num_streams"), nb::arg("dim"), nb::arg("iterations"), nb::arg("hc_eps"),
            nb::arg("norm_eps"), nb::arg("q_rank"), nb::arg("heads"), nb::arg("head_dim"), nb::arg("pairs"),
            nb::arg("window"), nb::arg("groups"), nb::arg("group_inputs"), nb::arg("group_outputs"),
            nb::arg("score_scale"), nb::arg("experts"), nb::arg("active"), nb::arg("inter"), nb::arg("route_scale"),
            nb::arg("limit"), nb::arg("attn"), nb::arg("ffn"), nb::arg("wq_a"), nb::arg("wq_b"), nb::arg("wkv"),
            nb::arg("wo_a"), nb::arg("wo_b"), nb::arg("w1"), nb::arg("w2"), nb::arg("w3"), nb::arg("q_norm"),
            nb::arg("kv_norm"), nb::arg("gate"), nb::arg("sink"), nb::arg("bias"), nb::arg("bias_vl"))
        .def("begin", &begin, nb::arg("kernels"), nb::arg("workspace"), nb::arg("cos"), nb::arg("sin"))
        .def("attend", &attend, nb::arg("kernels"), nb::arg("workspace"), nb::arg("sequences"), nb::arg("topk"),
             nb::arg("cos"), nb::arg("sin"), nb::arg("replaced_codes"), nb::arg("replaced_scales"), nb::arg("is_full"),
             nb::arg("image_mask"))
        .def("apply", &apply, nb::arg("kernels"), nb::arg("workspace"), nb::arg("arrived"))
        .def("finish", &finish, nb::arg("kernels"), nb::arg("workspace"), nb::arg("last"));
}
