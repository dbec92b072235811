// Drivers of the elementwise operators.

void drive_elementary(Run run) {
    for (int function = 0; function < SHOAL_FUNCTIONS; ++function)
        each_case({1, 16, 4001, 9000}, {7, 60}, [&](size_t number, size_t count, size_t spread) {
            Inputs inputs(number);
            const Buffer<float> x = inputs.floats(count, static_cast<int>(spread));
            Buffer<float> y(count);
            const ShoalElementary p = {function, x, y, count};
            run.kernels->elementary(&p, run.pool);
            report("elementary", "y", 100 * static_cast<size_t>(function) + number, y);
        });
}

// Row 1 is small, row 2 zero.
void shrink_rows(Buffer<uint16_t>& x, size_t rows, size_t columns) {
    for (size_t i = columns; rows > 2 && i < 2 * columns; ++i)
        x[i] = static_cast<uint16_t>((x[i] & 0x807f) | (108 + x[i] / 128 % 16) << 7);
    for (size_t i = 2 * columns; rows > 2 && i < 3 * columns; ++i) x[i] &= 0x8000;
}

template <typename Operator>
void drive_quantizer(Run run, const char* name, Operator quantize, size_t codes_a_byte, size_t group) {
    each_case(kRows, {32, 96, 544}, [&](size_t number, size_t rows, size_t columns) {
        Inputs inputs(number);
        Buffer<uint16_t> x = inputs.bf16(rows * columns, number % 2 ? 20 : 120);
        shrink_rows(x, rows, columns);
        Buffer<uint8_t> codes(rows * columns / codes_a_byte), scales(rows * columns / group);
        const ShoalQuantize p = {x, codes, scales, rows, columns};
        quantize(&p, run.pool);
        report(name, "codes", number, codes);
        report(name, "scales", number, scales);
    });
}

void drive_quantize_q8(Run run) { drive_quantizer(run, "quantize_q8", run.kernels->quantize_q8, 1, 32); }
void drive_quantize_q4i(Run run) { drive_quantizer(run, "quantize_q4i", run.kernels->quantize_q4i, 2, 32); }
void drive_quantize_q4c(Run run) { drive_quantizer(run, "quantize_q4c", run.kernels->quantize_q4c, 2, 16); }

void drive_rms_norm(Run run) {
    each_case(kRows, {1, 7, 16, 33, 512, 1000, 5120}, [&](size_t number, size_t rows, size_t columns) {
        Inputs inputs(number);
        const Buffer<uint16_t> x = inputs.bf16(rows * columns), weight = inputs.bf16(columns, 1);
        Buffer<uint16_t> y(rows * columns);
        const ShoalRmsNorm p = {x, weight, y, rows, columns, 1e-6f};
        run.kernels->rms_norm(&p, run.pool);
        report("rms_norm", "y", number, y);
    });
}

void drive_rms_norm_q8(Run run) {
    each_case(kRows, {32, 544}, [&](size_t number, size_t rows, size_t columns) {
        Inputs inputs(number);
        const Buffer<uint16_t> x = inputs.bf16(rows * columns), weight = inputs.bf16(columns, 1);
        Buffer<uint16_t> y(rows * columns);
        Buffer<uint8_t> codes(rows * columns), scales(rows * columns / 32);
        const ShoalRmsNormQ8 p = {x, weight, y, codes, scales, rows, columns, 1e-6f};
        run.kernels->rms_norm_q8(&p, run.pool);
        report("rms_norm_q8", "y", number, y);
        report("rms_norm_q8", "codes", number, codes);
        report("rms_norm_q8", "scales", number, scales);
    });
}

void drive_mean_square(Run run) {
    each_case(kRows, {1, 33, 512}, [&](size_t number, size_t rows, size_t columns) {
        Inputs inputs(number);
        const Buffer<uint16_t> x = inputs.bf16(rows * columns);
        Buffer<float> y(rows);
        const ShoalMeanSquare p = {x, y, rows, columns};
        run.kernels->mean_square(&p, run.pool);
        report("mean_square", "y", number, y);
    });
}

// Any number of streams; four have code of their own.
size_t streams_of(size_t number) { return number % 5 ? 4 : 3; }

void drive_collapse_norm(Run run) {
    each_case(kRows, {32, 160}, [&](size_t number, size_t rows, size_t columns) {
        Inputs inputs(number);
        const size_t count = streams_of(number);
        const Buffer<uint16_t> streams = inputs.bf16(rows * count * columns), weight = inputs.bf16(columns, 1);
        const Buffer<float> pre = inputs.floats(rows * count, 1);
        Buffer<uint16_t> y(rows * columns);
        Buffer<uint8_t> codes(rows * columns), scales(rows * columns / 32);
        const ShoalCollapseNorm p = {streams, pre, weight, y, codes, scales, rows, count, columns, 1e-6f};
        run.kernels->collapse_norm(&p, run.pool);
        report("collapse_norm", "y", number, y);
        report("collapse_norm", "codes", number, codes);
        report("collapse_norm", "scales", number, scales);
    });
}

void drive_expand(Run run) {
    each_case(kRows, {1, 33, 160}, [&](size_t number, size_t rows, size_t columns) {
        Inputs inputs(number);
        const size_t count = streams_of(number);
        const Buffer<uint16_t> x = inputs.bf16(rows * columns), streams = inputs.bf16(rows * count * columns);
        const Buffer<float> post = inputs.floats(rows * count, 1), comb = inputs.floats(rows * count * count, 1);
        Buffer<uint16_t> y(rows * count * columns);
        const ShoalExpand p = {x, streams, post, comb, y, rows, count, columns};
        run.kernels->expand(&p, run.pool);
        report("expand", "y", number, y);
    });
}

void drive_split_mix(Run run) {
    each_case(kRows, {1, 20}, [&](size_t number, size_t rows, size_t iterations) {
        Inputs inputs(number);
        const size_t count = streams_of(number);
        const size_t mixes = count * (count + 2);
        const Buffer<float> u = inputs.floats(rows * mixes, 2), scale = inputs.floats(3, 1);
        const Buffer<float> base = inputs.floats(mixes, 1);
        Buffer<float> mean_square = inputs.floats(rows, 1);
        Buffer<float> pre(rows * count), post(rows * count), comb(rows * count * count);
        for (size_t row = 0; row < rows; ++row) mean_square[row] = mean_square[row] * mean_square[row];
        const ShoalSplitMix p = {u, mean_square, scale, base, pre, post, comb, rows, count, iterations, 1e-6f, 1e-6f};
        run.kernels->split_mix(&p, run.pool);
        report("split_mix", "pre", number, pre);
        report("split_mix", "post", number, post);
        report("split_mix", "comb", number, comb);
    });
}

void drive_pool_groups(Run run) {
    each_case(kRows, {1, 33, 64}, [&](size_t number, size_t groups, size_t columns) {
        Inputs inputs(number);
        const size_t ratio = 4;
        const Buffer<float> values = inputs.floats(groups * ratio * columns);
        const Buffer<float> gates = inputs.floats(groups * ratio * columns);
        Buffer<uint16_t> y(groups * columns);
        const ShoalPoolGroups p = {values, gates, y, groups, ratio, columns};
        run.kernels->pool_groups(&p, run.pool);
        report("pool_groups", "y", number, y);
    });
}

void drive_gather_rows(Run run) {
    each_case(kRows, {32, 160}, [&](size_t number, size_t rows, size_t columns) {
        Inputs inputs(number);
        const size_t table_rows = 50;
        const Rows8 table(inputs, table_rows, columns);
        Buffer<int64_t> row_ids(rows);
        for (size_t row = 0; row < rows; ++row) row_ids[row] = inputs.below(table_rows);
        Buffer<uint8_t> codes(rows * columns), scales(rows * columns / 32);
        const ShoalGatherRows p = {table.codes, table.scales, row_ids, codes, scales, rows, columns};
        run.kernels->gather_rows(&p, run.pool);
        report("gather_rows", "codes", number, codes);
        report("gather_rows", "scales", number, scales);
    });
}

void drive_engram_gate(Run run) {
    each_case(kRows, {1, 33, 160}, [&](size_t number, size_t rows, size_t columns) {
        Inputs inputs(number);
        const Buffer<uint16_t> streams = inputs.bf16(rows * 4 * columns), projected = inputs.bf16(rows * 5 * columns);
        const Buffer<uint16_t> q_weight = inputs.bf16(4 * columns, 1), k_weight = inputs.bf16(4 * columns, 1);
        Buffer<uint8_t> image_mask(rows);
        for (size_t row = 0; row < rows; ++row) image_mask[row] = row % 3 == 2;
        Buffer<uint16_t> y(rows * 4 * columns);
        const ShoalEngramGate p = {streams, projected, q_weight, k_weight, image_mask, y, rows, 4, columns, 1e-6f};
        run.kernels->engram_gate(&p, run.pool);
        report("engram_gate", "y", number, y);
    });
}

void drive_route(Run run) {
    each_case(kRows, {6, 40, 384}, [&](size_t number, size_t rows, size_t experts) {
        Inputs inputs(number);
        const size_t active = 6;
        const Buffer<float> logits = inputs.floats(rows * experts), bias = inputs.floats(experts, 1);
        const Buffer<float> bias_vl = inputs.floats(experts, 1);
        Buffer<uint8_t> image_mask(rows);
        for (size_t row = 0; row < rows; ++row) image_mask[row] = row % 2;
        Buffer<int64_t> expert_ids(rows * active);
        Buffer<float> weights(rows * active), margin(rows);
        const ShoalRoute p = {logits, bias, bias_vl, image_mask, expert_ids, weights, margin, rows,
                              experts, active, 2.5f};
        run.kernels->route(&p, run.pool);
        report("route", "expert_ids", number, expert_ids);
        report("route", "weights", number, weights);
        report("route", "margin", number, margin);
    });
}
