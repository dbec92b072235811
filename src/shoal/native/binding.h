// What every file of bindings needs: the table of one instruction set with a pool, and addresses of tensors.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "kernels.h"

namespace nb = nanobind;

template <typename T>
T* at(uintptr_t address) {
    return reinterpret_cast<T*>(address);
}

// Without the GIL until the end of the scope. Where the interpreter is shutting down, Python ends a thread that comes
// back for the GIL by unwinding it, which destructors do not survive: such a thread sleeps until the process is gone.
struct Unlocked {
    Unlocked() : state(PyEval_SaveThread()) {}
    ~Unlocked() {
        try {
            PyEval_RestoreThread(state);
        } catch (...) {
            for (;;) pause();
        }
    }
    Unlocked(const Unlocked&) = delete;
    Unlocked& operator=(const Unlocked&) = delete;
    PyThreadState* state;
};

inline ShoalFloat8 float8(uintptr_t codes, uintptr_t scales) {
    return {at<const uint8_t>(codes), at<const uint8_t>(scales)};
}

// The operators of one instruction set on a pool of threads. `calls` counts operators run.
struct Kernels {
    Kernels(const ShoalKernels* table, size_t threads) : table(table), pool(shoal_pool_create(threads)) {}
    ~Kernels() { shoal_pool_destroy(pool); }
    Kernels(const Kernels&) = delete;
    Kernels& operator=(const Kernels&) = delete;

    template <typename Parameters>
    void run(void (*function)(const Parameters*, ShoalPool*), const Parameters& parameters) {
        ++calls;
        const Unlocked unlocked;
        shoal_pool_lock(pool);
        function(&parameters, pool);
        shoal_pool_unlock(pool);
    }

    const ShoalKernels* table;
    ShoalPool* pool;
    size_t calls = 0;
};

void bind_linear(nb::class_<Kernels>& kernels);
void bind_experts(nb::class_<Kernels>& kernels);
void bind_float4_linear(nb::class_<Kernels>& kernels);
void bind_attention(nb::class_<Kernels>& kernels);
void bind_indexer(nb::class_<Kernels>& kernels);
void bind_elementwise(nb::class_<Kernels>& kernels);
void bind_stages(nb::class_<Kernels>& kernels);
void bind_probe(nb::class_<Kernels>& kernels);
void bind_layer(nb::module_& module);
void bind_row_reader(nb::module_& module);
void bind_page_reader(nb::module_& module);
