// `kernels_test ISA THREADS` runs every operator of a table on seeded inputs and prints a line a result; two tables
// print the same lines. `kernels_test --isas` prints the tables this machine runs, `--operators` the names in a table.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inputs.h"
#include "kernels.h"

namespace {

struct Run {
    const ShoalKernels* kernels;
    ShoalPool* pool;
};

const size_t kRows[] = {0, 1, 2, 3, 17};

// Operators on a pool: one function each, `drive_<name>`, listed in kDrivers below.

void drive_rms_norm(Run run) {
    size_t number = 0;
    for (const size_t rows : kRows)
        for (const size_t columns : {1, 7, 16, 33, 512, 1000}) {
            Inputs inputs(++number);
            const Buffer<uint16_t> x = inputs.bf16(rows * columns), weight = inputs.bf16(columns, 1);
            Buffer<uint16_t> y(rows * columns);
            const ShoalRmsNorm p = {x, weight, y, rows, columns, 1e-6f};
            run.kernels->rms_norm(&p, run.pool);
            report("rms_norm", "y", number, y);
        }
}

// Operators without a pool.

void drive_quantize_q8(Run run) {
    size_t number = 0;
    for (const size_t rows : kRows) {
        Inputs inputs(++number);
        const size_t columns = 96;
        const Buffer<uint16_t> x = inputs.bf16(rows * columns, 20);
        Buffer<uint8_t> codes(rows * columns), scales(rows * columns / 32);
        run.kernels->quantize_q8(x, codes, scales, rows, columns);
        report("quantize_q8", "codes", number, codes);
        report("quantize_q8", "scales", number, scales);
    }
}

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

void drive_elementary(Run run) {
    for (int function = 0; function < SHOAL_FUNCTIONS; ++function) {
        Inputs inputs(static_cast<uint64_t>(function));
        const size_t count = 4001;
        const Buffer<float> x = inputs.floats(count, 7);
        Buffer<float> y(count);
        run.kernels->elementary(function, x, y, count);
        report("elementary", "y", static_cast<size_t>(function), y);
    }
}

void drive_split_mix(Run run) {
    Inputs inputs(1);
    const size_t rows = 33, streams = 4;
    const Buffer<float> u = inputs.floats(rows * 24, 2), scale = inputs.floats(3, 1), base = inputs.floats(24, 1);
    Buffer<float> pre(rows * streams), post(rows * streams), comb(rows * streams * streams);
    const ShoalMix p = {rows, streams, 20, scale, base, 1e-6f};
    run.kernels->split_mix(&p, u, pre, post, comb);
    report("split_mix", "pre", 1, pre);
    report("split_mix", "post", 1, post);
    report("split_mix", "comb", 1, comb);
}

void (*const kDrivers[])(Run) = {
    drive_rms_norm,     drive_quantize_q8, drive_block_linear,
    drive_halving_dots, drive_elementary,  drive_split_mix,
};

template <typename Visit>
void each_table(const Visit& visit) {
    const ShoalKernels** tables = nullptr;
    const size_t count = shoal_kernel_tables(&tables);
    for (size_t i = 0; i < count; ++i) visit(tables[i]);
}

void print_operators() {
    for (const char* name : {"quantize_q8", "block_linear", "halving_dots", "elementary", "split_mix"}) puts(name);
#define SHOAL_PRINT(name, Parameters) puts(#name);
    SHOAL_OPERATORS(SHOAL_PRINT)
#undef SHOAL_PRINT
}

void drive(const ShoalKernels* kernels, size_t threads) {
    const Run run = {kernels, shoal_pool_create(threads)};
    shoal_pool_lock(run.pool);
    for (const auto& driver : kDrivers) driver(run);
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
