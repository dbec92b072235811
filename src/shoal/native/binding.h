// What every file of bindings needs: the table of one instruction set with a pool, and addresses of tensors.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "kernels.h"

namespace nb = nanobind;

template <typename T>
T* at(uintptr_t address) {
    return reinterpret_cast<T*>(address);
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
        nb::gil_scoped_release unlocked;
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
void bind_attention(nb::class_<Kernels>& kernels);
void bind_indexer(nb::class_<Kernels>& kernels);
void bind_elementwise(nb::class_<Kernels>& kernels);
void bind_probe(nb::class_<Kernels>& kernels);
