// `kernels_test ISA THREADS` runs every operator of a table on seeded inputs and prints a line a result; two tables
// print the same lines. `kernels_test --isas` prints the tables this machine runs, `--operators` the names in a table.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <initializer_list>

#include "inputs.h"
#include "kernels.h"

namespace {

struct Run {
    const ShoalKernels* kernels;
    ShoalPool* pool;
};

const size_t kRows[] = {0, 1, 2, 3, 17};

// Calls visit(number, rows, size) for every pair.
template <typename Rows, typename Visit>
void each_case(const Rows& all_rows, std::initializer_list<size_t> sizes, const Visit& visit) {
    size_t number = 0;
    for (const size_t rows : all_rows)
        for (const size_t size : sizes) visit(++number, rows, size);
}
template <typename Visit>
void each_case(std::initializer_list<size_t> all_rows, std::initializer_list<size_t> sizes, const Visit& visit) {
    each_case<std::initializer_list<size_t>, Visit>(all_rows, sizes, visit);
}

// One function an operator, `drive_<name>`.
#include "drive_linear.inl"
// Each may use what is above it.
#include "drive_attention.inl"
#include "drive_elementwise.inl"
#include "drive_experts.inl"
#include "drive_stages.inl"

// Operators without a pool.

void drive_block_linear(Run run) {
    size_t number = 0;
    for (const size_t rows : kRows)
        for (const size_t inputs_count : {32, 160, 544})
            for (const int is_e2m1 : {0, 1}) {
                Inputs inputs(++number);
                const size_t outputs = 35, blocks = inputs_count / 32;
                const Buffer<uint8_t> x = inputs.e4m3(rows * inputs_count), x_scales = inputs.e8m0(rows * blocks);
                const Buffer<uint8_t> weight =
                    is_e2m1 ? inputs.bytes(outputs * inputs_count / 2) : inputs.e4m3(outputs * inputs_count);
                const Buffer<uint8_t> scales = inputs.e8m0((is_e2m1 ? outputs : (outputs + 31) / 32) * blocks);
                Buffer<uint16_t> y(rows * outputs);
                Buffer<int32_t> x_values(rows * inputs_count), w_values(inputs_count);
                Buffer<double> terms(blocks);
                const ShoalBlockLinear p = {x,    x_scales, weight,       scales, is_e2m1,
                                            rows, outputs,  inputs_count, y};
                run.kernels->block_linear(&p, x_values, w_values, terms);
                report("block_linear", is_e2m1 ? "e2m1" : "e4m3", number, y);
            }
}

void drive_halving_dots(Run run) {
    size_t number = 0;
    for (const size_t inner : {0, 1, 3, 64, 641}) {
        Inputs inputs(++number);
        const ShoalDots shape = {2, 3, 5, inner};
        const Buffer<float> a = inputs.floats(2 * 3 * inner, 30), b = inputs.floats(2 * 5 * inner, 30);
        Buffer<double> y(2 * 3 * 5), terms(inner);
        run.kernels->halving_dots(a, b, y, &shape, terms);
        report("halving_dots", "y", number, y);
    }
}

void drive_all(Run run) {
    drive_block_linear(run);
    drive_halving_dots(run);
#define SHOAL_DRIVE(name, Parameters) drive_##name(run);
    SHOAL_OPERATORS(SHOAL_DRIVE)
#undef SHOAL_DRIVE
}

template <typename Visit>
void each_table(const Visit& visit) {
    const ShoalKernels** tables = nullptr;
    const size_t count = shoal_kernel_tables(&tables);
    for (size_t i = 0; i < count; ++i) visit(tables[i]);
}

void print_operators() {
    puts("block_linear");
    puts("halving_dots");
#define SHOAL_PRINT(name, Parameters) puts(#name);
    SHOAL_OPERATORS(SHOAL_PRINT)
#undef SHOAL_PRINT
}

void drive(const ShoalKernels* kernels, size_t threads) {
    const Run run = {kernels, shoal_pool_create(threads)};
    shoal_pool_lock(run.pool);
    drive_all(run);
    shoal_pool_unlock(run.pool);
    shoal_pool_destroy(run.pool);
}

}  // namespace

int main(int count, char** arguments) {
    const char* what = count > 1 ? arguments[1] : "";
    if (!strcmp(what, "--operators")) {
        print_operators();
        return 0;
    }
    if (!strcmp(what, "--isas")) {
        each_table([](const ShoalKernels* table) {
            if (shoal_kernel_supported(table)) puts(table->isa);
        });
        return 0;
    }
    const ShoalKernels* found = nullptr;
    each_table([&](const ShoalKernels* table) {
        if (!strcmp(table->isa, what)) found = table;
    });
    if (!found || count != 3) {
        fprintf(stderr, "kernels_test ISA THREADS | --isas | --operators\n");
        return 2;
    }
    drive(found, strtoul(arguments[2], nullptr, 10));
    return 0;
}
