// The routed experts of one layer in ggml: mul_mat_id of w1 and w3, SwiGLU, mul_mat_id of w2, as llama.cpp builds it.
//
// Weights are random MXFP4. With `repack` they lie in the layout that ggml's CPU backend prefers, where it has one for this
// processor; that is what llama.cpp runs. C ABI, for ctypes.
#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml.h>

#include <cstring>
#include <memory>
#include <random>
#include <vector>

namespace {

constexpr size_t kBlock = 32, kBlockBytes = 17;  // a scale byte and 32 codes
constexpr uint8_t kFirstScale = 118, kScales = 4;
constexpr uint32_t kPoll = 50;  // ggml's default

struct Layer {
    size_t experts, dim, inter;
    ggml_backend_t backend = nullptr;
    ggml_threadpool_t threadpool = nullptr;
    ggml_context* weights = nullptr;
    ggml_backend_buffer_t weight_memory = nullptr;
    ggml_tensor *w1 = nullptr, *w2 = nullptr, *w3 = nullptr;
};

struct Run {
    Layer* layer;
    size_t tokens, active;
    ggml_context* context = nullptr;
    ggml_gallocr_t memory = nullptr;
    ggml_cgraph* graph = nullptr;
    ggml_tensor *x = nullptr, *ids = nullptr, *y = nullptr;
};

ggml_context* new_context(size_t tensors) {
    return ggml_init({tensors * ggml_tensor_overhead() + ggml_graph_overhead(), nullptr, true});
}

// The buffer type whose weights are repacked for this processor; NULL where the build has none.
ggml_backend_buffer_type_t repacking_type(ggml_backend_t backend) {
    ggml_backend_dev_t device = ggml_backend_get_device(backend);
    const auto extra = reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(
        ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(device), "ggml_backend_dev_get_extra_bufts"));
    for (ggml_backend_buffer_type_t* type = extra ? extra(device) : nullptr; type && *type; ++type)
        if (!std::strcmp(ggml_backend_buft_name(*type), "CPU_REPACK")) return *type;
    return nullptr;
}

void fill(ggml_tensor* weight, uint32_t seed) {
    std::vector<uint8_t> bytes(ggml_nbytes(weight));
    std::mt19937 random(seed);
    for (size_t i = 0; i + 4 <= bytes.size(); i += 4) {
        const uint32_t word = random();
        std::memcpy(&bytes[i], &word, 4);
    }
    for (size_t i = 0; i < bytes.size(); i += kBlockBytes) bytes[i] = kFirstScale + bytes[i] % kScales;
    ggml_backend_tensor_set(weight, bytes.data(), 0, bytes.size());
}

}  // namespace

extern "C" {

// NULL when there is no memory, or with `repack` no such layout for this processor.
Layer* peer_layer_create(size_t experts, size_t dim, size_t inter, int threads, int repack) {
    ggml_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
    std::unique_ptr<Layer> layer(new Layer{experts, dim, inter});
    layer->backend = ggml_backend_cpu_init();
    ggml_threadpool_params params = ggml_threadpool_params_default(threads);
    params.poll = kPoll;
    layer->threadpool = ggml_threadpool_new(&params);
    ggml_backend_cpu_set_n_threads(layer->backend, threads);
    ggml_backend_cpu_set_threadpool(layer->backend, layer->threadpool);
    layer->weights = new_context(3);
    layer->w1 = ggml_new_tensor_3d(layer->weights, GGML_TYPE_MXFP4, dim, inter, experts);
    layer->w3 = ggml_new_tensor_3d(layer->weights, GGML_TYPE_MXFP4, dim, inter, experts);
    layer->w2 = ggml_new_tensor_3d(layer->weights, GGML_TYPE_MXFP4, inter, dim, experts);
    ggml_backend_buffer_type_t type = ggml_backend_cpu_buffer_type();
    if (repack) type = repacking_type(layer->backend);
    if (type) layer->weight_memory = ggml_backend_alloc_ctx_tensors_from_buft(layer->weights, type);
    // The repacking buffer leaves `extra` empty for a tensor it has no layout for.
    if (!layer->weight_memory || (repack && !layer->w1->extra)) return nullptr;
    ggml_backend_buffer_set_usage(layer->weight_memory, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    fill(layer->w1, 1);
    fill(layer->w3, 3);
    fill(layer->w2, 2);
    return layer.release();
}

// Its threads spin for a while after a step; this sends them to sleep until the next one.
void peer_layer_pause(Layer* layer) { ggml_threadpool_pause(layer->threadpool); }

void peer_layer_free(Layer* layer) {
    ggml_backend_buffer_free(layer->weight_memory);
    ggml_free(layer->weights);
    ggml_backend_free(layer->backend);
    ggml_threadpool_free(layer->threadpool);
    delete layer;
}

Run* peer_run_create(Layer* layer, size_t tokens, size_t active) {
    Run* run = new Run{layer, tokens, active};
    run->context = new_context(16);
    run->x = ggml_new_tensor_3d(run->context, GGML_TYPE_F32, layer->dim, 1, tokens);
    run->ids = ggml_new_tensor_2d(run->context, GGML_TYPE_I32, active, tokens);
    ggml_set_input(run->x);
    ggml_set_input(run->ids);
    ggml_tensor* gate = ggml_mul_mat_id(run->context, layer->w1, run->x, run->ids);
    ggml_tensor* up = ggml_mul_mat_id(run->context, layer->w3, run->x, run->ids);
    ggml_tensor* hidden = ggml_swiglu_split(run->context, gate, up);
    run->y = ggml_mul_mat_id(run->context, layer->w2, hidden, run->ids);
    ggml_set_output(run->y);
    run->graph = ggml_new_graph(run->context);
    ggml_build_forward_expand(run->graph, run->y);
    run->memory = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    ggml_gallocr_alloc_graph(run->memory, run->graph);
    return run;
}

// x [tokens, dim], ids [tokens, active]. 0 when it worked.
int peer_run(Run* run, const float* x, const int32_t* ids) {
    ggml_backend_tensor_set(run->x, x, 0, ggml_nbytes(run->x));
    ggml_backend_tensor_set(run->ids, ids, 0, ggml_nbytes(run->ids));
    return ggml_backend_graph_compute(run->layer->backend, run->graph) == GGML_STATUS_SUCCESS ? 0 : 1;
}

// The first `count` results, [tokens, active, dim].
void peer_run_read(Run* run, float* y, size_t count) {
    ggml_backend_tensor_get(run->y, y, 0, count * sizeof(float));
}

void peer_run_free(Run* run) {
    ggml_gallocr_free(run->memory);
    ggml_free(run->context);
    delete run;
}
}
