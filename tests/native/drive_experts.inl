// Drivers of the experts' operators and of the FP4 linear.

struct Float4 {
    Float4(Inputs& inputs, size_t outputs, size_t width, Range range)
        : codes(inputs.bytes(outputs * width / 2)), scales(inputs.e8m0(outputs * (width / 32), range)) {}
    operator ShoalFloat4() const { return {codes, scales}; }
    Buffer<uint8_t> codes, scales;
};

// Zero in place of codes with a third digit, which activations seldom have.
void drop_rests(Rows8& x, size_t count) {
    for (size_t i = 0; i < count; ++i)
        if ((x.codes[i] & 0x7f) < 0x20) x.codes[i] = 0;
}

constexpr size_t kMostExperts = 14;

// Ascending.
struct ExpertRows {
    size_t count, rows[kMostExperts];
};

// Experts of so many rows, some of `tokens` each, and every result with a row of its own.
void drive_experts(Run run, size_t number, size_t tokens, size_t dim, size_t inter, const ExpertRows& some,
                   Range range) {
    Inputs inputs(number);
    Rows8 x(inputs, tokens, dim, range);
    if (number % 2) drop_rests(x, tokens * dim);
    x.put_nans(tokens, dim);
    const Float4 w1(inputs, inter, dim, range), w3(inputs, inter, dim, range), w2(inputs, dim, inter, range);
    const Buffer<float> weights = inputs.floats(tokens, 0);
    Buffer<uint32_t> row_ids(tokens), slots(tokens * some.count);
    for (size_t row = 0; row < tokens; ++row) row_ids[row] = static_cast<uint32_t>(tokens - 1 - row);
    for (size_t slot = 0; slot < tokens * some.count; ++slot) slots[slot] = static_cast<uint32_t>(slot);
    ShoalExpert experts[kMostExperts];
    for (size_t e = 0; e < some.count; ++e) {
        const size_t rows = some.rows[e] < tokens ? some.rows[e] : tokens;
        experts[e] = {w1, w2, w3, rows, row_ids, weights, slots + e * tokens};
    }
    Buffer<uint16_t> outputs(tokens * some.count * dim);
    const ShoalExperts p = {x.codes, x.scales, tokens, dim, inter, 7.0f, some.count, experts, outputs};
    run.kernels->routed_experts(&p, run.pool);
    report("routed_experts", "outputs", number, outputs);
    // A row has the bits of the same row of any other expert.
    for (size_t e = 0; e < some.count; ++e)
        if (memcmp(outputs + e * tokens * dim, outputs + (some.count - 1) * tokens * dim, experts[e].rows * dim * 2))
            fprintf(stderr, "routed_experts %zu: expert %zu of %zu rows differs\n", number, e, experts[e].rows);
}

void drive_routed_experts(Run run) {
    const ExpertRows all = {14, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 25, 40}}, two_pieces = {4, {1, 2, 5, 13}};
    each_range([&](size_t base, Range range) {
        each_case({1, 5, 17, 40}, {32, 160, 544}, [&](size_t number, size_t tokens, size_t dim) {
            drive_experts(run, base + number, tokens, dim, 96, all, range);
        });
        drive_experts(run, base + 90, 13, 1088, 416, two_pieces, range);
    });
}

void drive_float4_linear(Run run) {
    each_range([&](size_t base, Range range) {
        each_case(kManyRows, {32, 544}, [&](size_t number, size_t rows, size_t width) {
            Inputs inputs(base + number);
            const size_t outputs = rows == 17 ? 161 : 37;
            Rows8 x(inputs, rows, width, range);
            x.put_nans(rows, width);
            const Float4 weight(inputs, outputs, width, range);
            Buffer<uint16_t> y(rows * outputs);
            const ShoalFloat4Linear p = {x.codes, x.scales, weight, rows, outputs, width, y};
            run.kernels->float4_linear(&p, run.pool);
            report("float4_linear", "y", base + number, y);
        });
    });
}

void drive_sum_experts(Run run) {
    each_case(kRows, {1, 33, 160, 700}, [&](size_t number, size_t tokens, size_t dim) {
        Inputs inputs(number);
        const size_t active = 6;
        const Buffer<uint16_t> outputs = inputs.bf16(tokens * active * dim), shared = inputs.bf16(tokens * dim);
        const uint16_t* const some_shared = number % 3 ? static_cast<const uint16_t*>(shared) : nullptr;
        Buffer<uint32_t> slots(tokens * active);
        for (size_t i = 0; i < tokens * active; ++i) slots[i] = static_cast<uint32_t>(tokens * active - 1 - i);
        Buffer<uint16_t> y(tokens * dim);
        const ShoalExpertSum p = {outputs, slots, some_shared, tokens, active, dim, y};
        run.kernels->sum_experts(&p, run.pool);
        report("sum_experts", "y", number, y);
    });
}

void drive_swiglu_q8(Run run) {
    each_case(kRows, {32, 160, 544}, [&](size_t number, size_t rows, size_t inter) {
        Inputs inputs(number);
        const int spread = number % 5 ? 4 : 60;
        const Buffer<uint16_t> gate = inputs.bf16(rows * inter, spread), up = inputs.bf16(rows * inter, spread);
        const Buffer<float> weights = inputs.floats(rows, 0);
        Buffer<uint8_t> codes(rows * inter), scales(rows * inter / 32);
        const ShoalSwiglu p = {gate, up, rows, inter, weights, number % 2 ? 7.0f : 0.0f, codes, scales};
        run.kernels->swiglu_q8(&p, run.pool);
        report("swiglu_q8", "codes", number, codes);
        report("swiglu_q8", "scales", number, scales);
    });
}
