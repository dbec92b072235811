// Up to eight Q8 rows times an FP4 matrix: every weight is read and decoded once for all of them.
//
// One or two rows keep their sums in registers and walk along each output's codes. More would push their digits out of the
// first-level cache: they take a group of blocks of kTileOutputs outputs before the next group, their sums in memory.
// The order of the sums is float4_group.inl's in both.
#pragma once

#include "float4_group.inl"
#include "round_bf16.inl"

namespace {

constexpr size_t kFewRows = 8, kRegisterRows = 2, kTileOutputs = 16;
// The second-level cache is asked for what is this far ahead, the first for the next lines.
constexpr size_t kFarBytes = 16384, kNearBytes = 1024, kLine = 64;

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

template <size_t Rows, size_t Part>
inline void add_rows(Sums (&sums)[Rows], const uint8_t* codes, const uint8_t* scales, const FewTask& task, size_t group) {
    const Codes w = decode(codes);
    const Scales s = widen(scales);
    for (size_t row = 0; row < Rows; ++row) add_group<Part>(sums[row], w, s, task.x[row][group]);
}

inline void prefetch_group(const uint8_t* codes, size_t near, size_t far) {
    for (size_t line = 0; line < kGroupBytes; line += kLine) {
        __builtin_prefetch(codes + near + line, 0, 3);
        __builtin_prefetch(codes + far + line, 0, 2);
    }
}

template <size_t Rows>
void few_in_registers(const FewTask& task) {
    const size_t blocks = task.inputs / kFloat4Block, row_bytes = task.inputs / 2, whole = blocks / kGroupBlocks;
    const size_t far_rows = (kFarBytes + row_bytes - 1) / row_bytes, near_rows = (kNearBytes + row_bytes - 1) / row_bytes;
    for (size_t output = task.begin; output < task.end; ++output) {
        const uint8_t *codes = task.codes + output * row_bytes, *scales = task.scales + output * blocks;
        // Never past the task: what follows is another thread's.
        const size_t far = output + far_rows < task.end ? kFarBytes : 0;
        const size_t near = output + near_rows < task.end ? kNearBytes : 0;
        for (size_t line = 0; line < blocks && far; line += kLine)
            __builtin_prefetch(scales + far_rows * blocks + line, 0, 3);
        Sums sums[Rows];
        for (size_t row = 0; row < Rows; ++row) sums[row] = no_sums();
        size_t g = 0;
        for (; g + kSumParts <= whole; g += kSumParts) {
            prefetch_group(codes + g * kGroupBytes, near, far);
            add_rows<Rows, 0>(sums, codes + g * kGroupBytes, scales + g * kGroupBlocks, task, g);
            if constexpr (kSumParts == 2) {
                prefetch_group(codes + (g + 1) * kGroupBytes, near, far);
                add_rows<Rows, 1>(sums, codes + (g + 1) * kGroupBytes, scales + (g + 1) * kGroupBlocks, task, g + 1);
            }
        }
        if (g < whole) {
            add_rows<Rows, 0>(sums, codes + g * kGroupBytes, scales + g * kGroupBlocks, task, g);
            ++g;
        }
        if (g * kGroupBlocks < blocks) {
            const Tail tail(codes, scales, g, blocks);
            if (g % kSumParts)
                add_rows<Rows, kSumParts - 1>(sums, tail.codes, tail.scales, task, g);
            else
                add_rows<Rows, 0>(sums, tail.codes, tail.scales, task, g);
        }
        for (size_t row = 0; row < Rows; ++row) task.y[row][output] = bf16_of_double(total(sums[row]));
    }
}

template <size_t Part>
inline void add_tile_group(Sums (*sums)[kFewRows], const FewTask& task, size_t output, size_t outputs, size_t g,
                           size_t ahead) {
    const size_t blocks = task.inputs / kFloat4Block, row_bytes = task.inputs / 2;
    for (size_t i = 0; i < outputs; ++i) {
        const uint8_t *codes = task.codes + (output + i) * row_bytes, *scales = task.scales + (output + i) * blocks;
        if ((g + 1) * kGroupBlocks > blocks) {
            const Tail tail(codes, scales, g, blocks);
            const Codes w = decode(tail.codes);
            const Scales s = widen(tail.scales);
            for (size_t row = 0; row < task.rows; ++row) add_group<Part>(sums[i][row], w, s, task.x[row][g]);
            continue;
        }
        prefetch_group(codes + g * kGroupBytes, 0, ahead * row_bytes);
        const Codes w = decode(codes + g * kGroupBytes);
        const Scales s = widen(scales + g * kGroupBlocks);
        for (size_t row = 0; row < task.rows; ++row) add_group<Part>(sums[i][row], w, s, task.x[row][g]);
    }
}

void few_in_tiles(const FewTask& task) {
    const size_t blocks = task.inputs / kFloat4Block;
    Sums sums[kTileOutputs][kFewRows];
    for (size_t output = task.begin; output < task.end; output += kTileOutputs) {
        const size_t outputs = task.end - output < kTileOutputs ? task.end - output : kTileOutputs;
        const size_t ahead = output + 2 * kTileOutputs <= task.end ? kTileOutputs : 0;
        for (size_t line = 0; line < blocks * outputs && ahead; line += kLine)
            __builtin_prefetch(task.scales + (output + ahead) * blocks + line, 0, 2);
        for (size_t i = 0; i < outputs; ++i)
            for (size_t row = 0; row < task.rows; ++row) sums[i][row] = no_sums();
        for (size_t g = 0; g * kGroupBlocks < blocks; ++g) {
            if (g % kSumParts)
                add_tile_group<kSumParts - 1>(sums, task, output, outputs, g, ahead);
            else
                add_tile_group<0>(sums, task, output, outputs, g, ahead);
        }
        for (size_t i = 0; i < outputs; ++i)
            for (size_t row = 0; row < task.rows; ++row) task.y[row][output + i] = bf16_of_double(total(sums[i][row]));
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
