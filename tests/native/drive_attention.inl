// Drivers of the attention and the indexer operators.

void drive_attention(Run run) {
    each_case(kRows, {0, 3, 200}, [&](size_t number, size_t tokens, size_t position) {
        Inputs inputs(number);
        const size_t heads = 5, dim = 64, window = 16, topk = 70, pairs = 8, entries = 90;
        const Buffer<uint16_t> q = inputs.bf16(tokens * heads * dim, 1);
        const Rows8 own(inputs, tokens, dim), ring(inputs, window, dim);
        const Buffer<uint8_t> entry_codes = inputs.bytes(entries * dim / 2);
        // Positive E4M3 numbers near one.
        Buffer<uint8_t> entry_scales = inputs.bytes(entries * dim / 16);
        for (size_t i = 0; i < entries * dim / 16; ++i)
            entry_scales[i] = static_cast<uint8_t>(0x30 + entry_scales[i] % 16);
        Buffer<int64_t> selected(tokens * topk);
        for (size_t token = 0; token < tokens; ++token)
            for (size_t k = 0; k < topk; ++k)
                selected[token * topk + k] = k < token * 9 + 1 ? static_cast<int64_t>(inputs.below(entries)) : -1;
        const Buffer<float> sink = inputs.floats(heads, 1), angles = inputs.floats(tokens * pairs, 0);
        Buffer<uint16_t> y(tokens * heads * dim);
        const ShoalAttention p = {q,
                                  own.codes,
                                  own.scales,
                                  ring.codes,
                                  ring.scales,
                                  entry_codes,
                                  entry_scales,
                                  selected,
                                  sink,
                                  angles,
                                  angles,
                                  tokens,
                                  heads,
                                  dim,
                                  window,
                                  topk,
                                  pairs,
                                  static_cast<int64_t>(position),
                                  0.0625f,
                                  y};
        run.kernels->attention(&p, run.pool);
        report("attention", "y", number, y);
    });
}

void drive_rotate_rows(Run run) {
    each_case(kRows, {4, 32}, [&](size_t number, size_t rows, size_t pairs) {
        Inputs inputs(number);
        const size_t heads = 3, dim = 70;
        const Buffer<uint16_t> x = inputs.bf16(rows * heads * dim);
        const Buffer<float> cos = inputs.floats(rows * pairs, 0), sin = inputs.floats(rows * pairs, 0);
        Buffer<uint16_t> y(rows * heads * dim);
        const ShoalRotateRows p = {x, cos, sin, rows, heads, dim, pairs, static_cast<int>(number % 2), y};
        run.kernels->rotate_rows(&p, run.pool);
        report("rotate_rows", "y", number, y);
    });
}

void drive_rope_table(Run run) {
    each_case(kRows, {1, 32}, [&](size_t number, size_t rows, size_t pairs) {
        Inputs inputs(number);
        Buffer<int64_t> positions(rows);
        for (size_t row = 0; row < rows; ++row) positions[row] = inputs.below(1u << 20);
        Buffer<float> frequencies = inputs.floats(pairs, 0), cos(rows * pairs), sin(rows * pairs);
        for (size_t pair = 0; pair < pairs; ++pair) frequencies[pair] = __builtin_fabsf(frequencies[pair]);
        const ShoalRopeTable p = {positions, frequencies, rows, pairs, cos, sin};
        run.kernels->rope_table(&p, run.pool);
        report("rope_table", "cos", number, cos);
        report("rope_table", "sin", number, sin);
    });
}

void drive_index_select(Run run) {
    each_case(kRows, {0, 1, 77, 300}, [&](size_t number, size_t tokens, size_t keys) {
        Inputs inputs(number);
        const size_t heads = 6, dim = 64, count = 20, block = 16, block_count = 3;
        const Buffer<uint8_t> q_codes = inputs.bytes(tokens * heads * dim / 2);
        const Buffer<uint8_t> key_codes = inputs.bytes(keys * dim / 2);
        const Buffer<uint8_t> q_scales = inputs.e8m0(tokens * heads * dim / 32, 124, 130);
        const Buffer<uint8_t> key_scales = inputs.e8m0(keys * dim / 32, 124, 130);
        const Buffer<uint16_t> weights = inputs.bf16(tokens * heads, 1);
        Buffer<int64_t> visible(tokens), selected(tokens * count);
        for (size_t token = 0; token < tokens; ++token)
            visible[token] = static_cast<int64_t>(inputs.below(static_cast<uint32_t>(keys + 1)));
        Buffer<uint8_t> candidates = inputs.bytes(tokens * keys), members(tokens * keys);
        for (size_t i = 0; i < tokens * keys; ++i) candidates[i] = candidates[i] > 40;
        Buffer<uint16_t> scores(tokens * keys);
        ShoalIndexSelect p = {};
        p.q_codes = q_codes, p.q_scales = q_scales, p.weights = weights, p.key_codes = key_codes;
        p.key_scales = key_scales, p.visible = visible, p.candidates = candidates;
        p.tokens = tokens, p.heads = heads, p.dim = dim, p.keys = keys, p.count = count, p.selected = selected;
        p.block = block, p.block_count = block_count, p.candidate_positions = members, p.scores = scores;
        run.kernels->index_select(&p, run.pool);
        report("index_select", "selected", number, selected);
        report("index_select", "candidate_positions", number, members);
        report("index_select", "scores", number, scores);
    });
}
