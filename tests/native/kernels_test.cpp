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

// The second fills tiles of up to 12 rows in every way.
const size_t kRows[] = {0, 1, 2, 3, 17}, kManyRows[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 17, 300};
// Scales of quantised inputs: as they are, and all there are.
const Range kUsual = {115, 130}, kAnyScale = {0, 254};
constexpr size_t kAnyBase = 100;  // number of the first case that has any scale

// Of the cases of an operator one in so many is run: an emulated processor takes its time.
size_t every = 1;

// Calls visit(number, rows, size) for every pair.
template <typename Rows, typename Visit>
void each_case(const Rows& all_rows, std::initializer_list<size_t> sizes, const Visit& visit) {
    size_t number = 0;
    for (const size_t rows : all_rows)
        for (const size_t size : sizes)
            if (number++ % every == 0) visit(number, rows, size);
}
template <typename Visit>
void each_case(std::initializer_list<size_t> all_rows, std::initializer_list<size_t> sizes, const Visit& visit) {
    each_case<std::initializer_list<size_t>, Visit>(all_rows, sizes, visit);
}

// Calls visit(number to add, range) for both ranges of scales.
template <typename Visit>
void each_range(const Visit& visit) {
    visit(0, kUsual);
    visit(kAnyBase, kAnyScale);
}

// One function an operator, `drive_<name>`.
#include "drive_linear.inl"
// Each may use what is above it.
#include "drive_attention.inl"
#include "drive_elementwise.inl"
#include "drive_experts.inl"
#include "drive_probe.inl"
#include "drive_stages.inl"

void drive_all(Run run) {
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
    if (!found || count < 3) {
        fprintf(stderr, "kernels_test ISA THREADS [EVERY] | --isas | --operators\n");
        return 2;
    }
    if (count > 3) every = strtoul(arguments[3], nullptr, 10);
    drive(found, strtoul(arguments[2], nullptr, 10));
    return 0;
}
