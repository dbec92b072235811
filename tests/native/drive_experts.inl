// Drivers of the experts' operators.

struct Float4 {
    Float4(Inputs& inputs, size_t outputs, size_t width)
        : codes(inputs.bytes(outputs * width / 2)), scales(inputs.e8m0(outputs * (width / 32), 115, 130)) {}
    operator ShoalFloat4() const { return {codes, scales}; }
    Buffer<uint8_t> codes, scales;
};

// Experts of 0, 1, 2 ... rows; every result has a row of its own.
void drive_routed_experts(Run run) {
    each_case({1, 5, 17, 40}, {32, 160}, [&](size_t number, size_t tokens, size_t dim) {
        Inputs inputs(number);
        const size_t inter = 96, count = 5;
        const Rows8 x(inputs, tokens, dim);
        const Float4 w1(inputs, inter, dim), w3(inputs, inter, dim), w2(inputs, dim, inter);
        const Buffer<float> weights = inputs.floats(tokens, 0);
        Buffer<uint32_t> row_ids(tokens), slots(tokens * count);
        for (size_t row = 0; row < tokens; ++row) row_ids[row] = static_cast<uint32_t>(tokens - 1 - row);
        for (size_t slot = 0; slot < tokens * count; ++slot) slots[slot] = static_cast<uint32_t>(slot);
        ShoalExpert experts[count];
        for (size_t expert = 0; expert < count; ++expert) {
            const size_t rows = expert * expert < tokens ? expert * expert : tokens;
            experts[expert] = {w1, w2, w3, rows, row_ids, weights, slots + expert * tokens};
        }
        Buffer<uint16_t> outputs(tokens * count * dim);
        const ShoalExperts p = {x.codes, x.scales, tokens, dim, inter, 7.0f, count, experts, outputs};
        run.kernels->routed_experts(&p, run.pool);
        report("routed_experts", "outputs", number, outputs);
    });
}

void drive_sum_experts(Run run) {
    each_case(kRows, {1, 33, 160}, [&](size_t number, size_t tokens, size_t dim) {
        Inputs inputs(number);
        const size_t active = 6;
        const Buffer<uint16_t> outputs = inputs.bf16(tokens * active * dim), shared = inputs.bf16(tokens * dim);
        Buffer<uint32_t> slots(tokens * active);
        for (size_t i = 0; i < tokens * active; ++i) slots[i] = static_cast<uint32_t>(tokens * active - 1 - i);
        Buffer<uint16_t> y(tokens * dim);
        const ShoalExpertSum p = {outputs, slots, shared, tokens, active, dim, y};
        run.kernels->sum_experts(&p, run.pool);
        report("sum_experts", "y", number, y);
    });
}

void drive_swiglu_q8(Run run) {
    each_case(kRows, {32, 160}, [&](size_t number, size_t rows, size_t inter) {
        Inputs inputs(number);
        const Buffer<uint16_t> gate = inputs.bf16(rows * inter), up = inputs.bf16(rows * inter);
        const Buffer<float> weights = inputs.floats(rows, 0);
        Buffer<uint8_t> codes(rows * inter), scales(rows * inter / 32);
        const ShoalSwiglu p = {gate, up, rows, inter, weights, number % 2 ? 7.0f : 0.0f, codes, scales};
        run.kernels->swiglu_q8(&p, run.pool);
        report("swiglu_q8", "codes", number, codes);
        report("swiglu_q8", "scales", number, scales);
    });
}
