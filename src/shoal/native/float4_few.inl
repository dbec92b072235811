// Up to eight Q8 rows times an FP4 matrix: every weight is read and decoded once for all of them.
//
// One or two rows keep their sums in registers and walk along each output's codes. More would push their digits out of the
// first-level cache: a tile of outputs takes a group of blocks before the next group, its sums in memory. The order of the
// sums is float4_group.inl's in both.
//
// Measured 2026-11-29, six experts of 5120 x 2304 at random, one Zen 3 core with two threads, AVX2: 0.65 to 0.72 of a
// streaming read of the same bytes (8.6 ms against 6.2) for one row an expert, 0.51 for 2, 0.25 to 0.28 for 4.
#pragma once

#include "float4_group.inl"
#include "round_bf16.inl"

namespace {

constexpr size_t kFewRows = 8, kTileOutputs = 8;
// The second-level cache is asked for what is this far ahead, the first for the next lines.
constexpr size_t kFarBytes = 20480, kNearBytes = 1024, kLine = 64;

// Outputs [begin, end) of a matrix for `rows` rows: y[row][output].
struct FewTask {
    const uint8_t *codes, *scales;
    size_t inputs, begin, end, rows;
    const DigitGroup* x[kFewRows];
    uint16_t* y[kFewRows];
};

// The last blocks of an output, fewer than a group, with zeros after them: they add +0.
struct Tail {
    Tail(const uint8_t* row_codes, const uint8_t* row_scales, size_t group, size_t blocks) {
        const size_t kept = blocks - group * kGroupBlocks;
        __builtin_memcpy(codes, row_codes + group * kGroupBytes, kept * kFloat4Block / 2);
        __builtin_memcpy(scales, row_scales + group * kGroupBlocks, kept);
    }
    uint8_t codes[kGroupBytes] = {};
    uint8_t scales[kGroupBlocks] = {};
};

inline void prefetch_group(const uint8_t* codes, size_t near, size_t far) {
    for (size_t line = 0; line < kGroupBytes; line += kLine) {
        __builtin_prefetch(codes + near + line, 0, 3);
        __builtin_prefetch(codes + far + line, 0, 2);
    }
}

// Where an output's codes and scales are, and how far ahead to ask for more.
struct Output {
    const uint8_t *codes, *scales;
    size_t near, far;
};

template <size_t Part, size_t Rows>
inline void add_whole(Sums (&sums)[Rows], const Output& at, const FewTask& task, size_t group) {
    const DigitGroup* x[Rows];
    for (size_t row = 0; row < Rows; ++row) x[row] = task.x[row] + group;
    prefetch_group(at.codes + group * kGroupBytes, at.near, at.far);
    const Codes w = decode(at.codes + group * kGroupBytes);
    const Scales s = widen(at.scales + group * kGroupBlocks);
    if constexpr (Rows == 1)
        add_group<Part>(sums, w, s, x);
    else
        add_group<Part>(sums, Values(w), s, x);
}

template <size_t Part, size_t Rows>
inline void add_tail(Sums (&sums)[Rows], const Output& at, const FewTask& task, size_t group) {
    const Tail tail(at.codes, at.scales, group, task.inputs / kFloat4Block);
    const DigitGroup* x[Rows];
    for (size_t row = 0; row < Rows; ++row) x[row] = task.x[row] + group;
    add_group<Part>(sums, decode(tail.codes), widen(tail.scales), x);
}

template <size_t Rows>
void few_in_registers(const FewTask& task) {
    const size_t blocks = task.inputs / kFloat4Block, row_bytes = task.inputs / 2, whole = blocks / kGroupBlocks;
    const size_t far_rows = (kFarBytes + row_bytes - 1) / row_bytes, near_rows = (kNearBytes + row_bytes - 1) / row_bytes;
    for (size_t output = task.begin; output < task.end; ++output) {
        // Never past the task: what follows is another thread's.
        const Output at = {task.codes + output * row_bytes, task.scales + output * blocks,
                           output + near_rows < task.end ? kNearBytes : 0, output + far_rows < task.end ? kFarBytes : 0};
        for (size_t line = 0; line < blocks && at.far; line += kLine)
            __builtin_prefetch(at.scales + far_rows * blocks + line, 0, 3);
        Sums sums[Rows];
        for (size_t row = 0; row < Rows; ++row) sums[row] = no_sums();
        size_t g = 0;
        for (; g + kSumParts <= whole; g += kSumParts) {
            add_whole<0>(sums, at, task, g);
            if constexpr (kSumParts == 2) add_whole<1>(sums, at, task, g + 1);
        }
        if (g < whole) add_whole<0>(sums, at, task, g++);
        if (g * kGroupBlocks < blocks) {
            if (g % kSumParts)
                add_tail<kSumParts - 1>(sums, at, task, g);
            else
                add_tail<0>(sums, at, task, g);
        }
        for (size_t row = 0; row < Rows; ++row) task.y[row][output] = bf16_of_double(total(sums[row]));
    }
}

using RowSums = Sums[kFewRows][1];

template <size_t Part>
inline void add_rows(RowSums& sums, const uint8_t* codes, const uint8_t* scales, const FewTask& task, size_t group) {
    const Values w(decode(codes));
    const Scales s = widen(scales);
    for (size_t row = 0; row < task.rows; ++row) {
        const DigitGroup* const x[1] = {task.x[row] + group};
        add_group<Part>(sums[row], w, s, x);
    }
}

// Group g of the outputs from `output` on.
template <size_t Part>
inline void add_tile_group(RowSums* sums, const FewTask& task, size_t output, size_t outputs, size_t g, size_t far) {
    const size_t blocks = task.inputs / kFloat4Block, row_bytes = task.inputs / 2;
    const uint8_t *codes = task.codes + output * row_bytes, *scales = task.scales + output * blocks;
    if ((g + 1) * kGroupBlocks > blocks) {
        for (size_t i = 0; i < outputs; ++i) {
            const Tail tail(codes + i * row_bytes, scales + i * blocks, g, blocks);
            add_rows<Part>(sums[i], tail.codes, tail.scales, task, g);
        }
        return;
    }
    for (size_t i = 0; i < outputs; ++i) {
        const uint8_t* group = codes + i * row_bytes + g * kGroupBytes;
        prefetch_group(group, kNearBytes, far);
        add_rows<Part>(sums[i], group, scales + i * blocks + g * kGroupBlocks, task, g);
    }
}

void few_in_tiles(const FewTask& task) {
    const size_t blocks = task.inputs / kFloat4Block, row_bytes = task.inputs / 2;
    const size_t far_rows = (kFarBytes + row_bytes - 1) / row_bytes;
    RowSums sums[kTileOutputs];
    for (size_t output = task.begin; output < task.end; output += kTileOutputs) {
        const size_t outputs = task.end - output < kTileOutputs ? task.end - output : kTileOutputs;
        // Never past the task: what follows is another thread's.
        const size_t far = output + outputs + far_rows <= task.end ? kFarBytes : 0;
        for (size_t line = 0; line < blocks * outputs && far; line += kLine)
            __builtin_prefetch(task.scales + (output + far_rows) * blocks + line, 0, 2);
        for (size_t i = 0; i < outputs; ++i)
            for (size_t row = 0; row < task.rows; ++row) sums[i][row][0] = no_sums();
        for (size_t g = 0; g * kGroupBlocks < blocks; ++g) {
            if (g % kSumParts)
                add_tile_group<kSumParts - 1>(sums, task, output, outputs, g, far);
            else
                add_tile_group<0>(sums, task, output, outputs, g, far);
        }
        for (size_t i = 0; i < outputs; ++i)
            for (size_t row = 0; row < task.rows; ++row) task.y[row][output + i] = bf16_of_double(total(sums[i][row][0]));
    }
}

inline void few_outputs(const FewTask& task) {
    if (task.rows == 1)
        few_in_registers<1>(task);
    else if (task.rows == 2)
        few_in_registers<2>(task);
    else
        few_in_tiles(task);
}

}  // namespace
