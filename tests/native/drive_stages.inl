// Drivers of the stages, at one width each. All are runs of operators that have drivers of their own.

constexpr size_t kStreams = 4, kDim = 96, kPairs = 8;
constexpr float kEps = 1e-6f;

// Streams a sublayer returns to, and the room for what comes back.
struct Return {
    Return(Inputs& inputs, size_t rows)
        : streams(inputs.bf16(rows * kStreams * kDim)),
          post(inputs.floats(rows * kStreams, 1)),
          comb(inputs.floats(rows * kStreams * kStreams, 1)),
          x(rows * kDim),
          streams_out(rows * kStreams * kDim) {}
    ShoalReturn parameters() { return {streams, post, comb, kStreams, x, streams_out}; }
    void print(const char* name, size_t number) const {
        report(name, "x", number, x);
        report(name, "streams_out", number, streams_out);
    }
    Buffer<uint16_t> streams;
    Buffer<float> post, comb;
    Buffer<uint16_t> x, streams_out;
};

void drive_enter_sublayer(Run run) {
    each_case(kRows, {0, 1}, [&](size_t number, size_t rows, size_t has_router) {
        Inputs inputs(number);
        const size_t mixes = kStreams * (kStreams + 2), experts = 20, active = 6;
        const Buffer<uint16_t> streams = inputs.bf16(rows * kStreams * kDim), norm = inputs.bf16(kDim, 1);
        const Buffer<float> pre = inputs.floats(rows * kStreams, 1), fn = inputs.floats(mixes * kStreams * kDim, 1);
        const Buffer<float> scale = inputs.floats(3, 1), base = inputs.floats(mixes, 1);
        const Buffer<uint16_t> gate = inputs.bf16(experts * kDim, 1);
        const Buffer<float> bias = inputs.floats(experts, 1), bias_vl = inputs.floats(experts, 1);
        Buffer<uint16_t> x(rows * kDim);
        Buffer<uint8_t> codes(rows * kDim), scales(rows * kDim / 32);
        Buffer<float> next_pre(rows * kStreams), post(rows * kStreams), comb(rows * kStreams * kStreams);
        Buffer<int64_t> expert_ids(rows * active);
        Buffer<float> weights(rows * active), margin(rows);
        ShoalEnterSublayer p = {streams, pre,  fn,    scale,  base,     norm, rows, kStreams, kDim, 20, kEps,
                                kEps,    x,    codes, scales, next_pre, post, comb, {}};
        if (has_router)
            p.router = {gate, bias, bias_vl, nullptr, experts, active, 2.5f, expert_ids, weights, margin};
        run.kernels->enter_sublayer(&p, run.pool);
        report("enter_sublayer", "x", number, x);
        report("enter_sublayer", "codes", number, codes);
        report("enter_sublayer", "scales", number, scales);
        report("enter_sublayer", "next_pre", number, next_pre);
        report("enter_sublayer", "post", number, post);
        report("enter_sublayer", "comb", number, comb);
        report("enter_sublayer", "expert_ids", number, expert_ids);
        report("enter_sublayer", "weights", number, weights);
        report("enter_sublayer", "margin", number, margin);
    });
}

void drive_project_in(Run run) {
    each_case(kRows, {2}, [&](size_t number, size_t rows, size_t heads) {
        Inputs inputs(number);
        const size_t q_rank = 64, head_dim = 32;
        const Rows8 x(inputs, rows, kDim);
        const Float8 wq_a(inputs, q_rank, kDim), wq_b(inputs, heads * head_dim, q_rank), wkv(inputs, head_dim, kDim);
        const Buffer<uint16_t> q_norm = inputs.bf16(q_rank, 1), kv_norm = inputs.bf16(head_dim, 1);
        const Buffer<float> cos = inputs.floats(rows * kPairs, 0), sin = inputs.floats(rows * kPairs, 0);
        Buffer<uint16_t> q(rows * heads * head_dim);
        Buffer<uint8_t> qr_codes(rows * q_rank), qr_scales(rows * q_rank / 32);
        Buffer<uint8_t> kv_codes(rows * head_dim), kv_scales(rows * head_dim / 32);
        const ShoalProjectIn p = {x.codes,  x.scales,  wq_a,     wq_b,     wkv,   q_norm, kv_norm,
                                  cos,      sin,       rows,     kDim,     q_rank, heads, head_dim,
                                  kPairs,   kEps,      q,        qr_codes, qr_scales, kv_codes, kv_scales};
        run.kernels->project_in(&p, run.pool);
        report("project_in", "q", number, q);
        report("project_in", "qr_codes", number, qr_codes);
        report("project_in", "qr_scales", number, qr_scales);
        report("project_in", "kv_codes", number, kv_codes);
        report("project_in", "kv_scales", number, kv_scales);
    });
}

void drive_project_out(Run run) {
    each_case(kRows, {2}, [&](size_t number, size_t rows, size_t groups) {
        Inputs inputs(number);
        const size_t width = 64, outputs = 32;
        const Buffer<uint16_t> o = inputs.bf16(rows * groups * width);
        const Float8 wo_a(inputs, groups * outputs, width), wo_b(inputs, kDim, groups * outputs);
        Return back(inputs, rows);
        const ShoalProjectOut p = {o, wo_a, wo_b, rows, groups, width, outputs, kDim, back.parameters()};
        run.kernels->project_out(&p, run.pool);
        back.print("project_out", number);
    });
}

void drive_combine(Run run) {
    each_case(kRows, {64}, [&](size_t number, size_t rows, size_t inter) {
        Inputs inputs(number);
        const size_t active = 6;
        const Rows8 x(inputs, rows, kDim);
        const Float8 w1(inputs, inter, kDim), w2(inputs, kDim, inter), w3(inputs, inter, kDim);
        const Buffer<uint16_t> outputs = inputs.bf16(rows * active * kDim);
        Buffer<uint32_t> slots(rows * active);
        for (size_t i = 0; i < rows * active; ++i) slots[i] = static_cast<uint32_t>(rows * active - 1 - i);
        Return back(inputs, rows);
        const ShoalCombine p = {ShoalExperts{}, x.codes, x.scales, w1,   w2,    w3,   outputs,          slots,
                                rows,    active,   kDim, inter, 7.0f, back.parameters()};
        run.kernels->combine(&p, run.pool);
        back.print("combine", number);
    });
}

void drive_finish_latents(Run run) {
    each_case(kRows, {64}, [&](size_t number, size_t groups, size_t index_dim) {
        Inputs inputs(number);
        const Buffer<uint16_t> pooled = inputs.bf16(groups * kDim), norm = inputs.bf16(kDim, 1);
        const Buffer<uint16_t> index_wk = inputs.bf16(index_dim * kDim, 1), k_norm = inputs.bf16(index_dim, 1);
        const Buffer<float> cos = inputs.floats(groups * kPairs, 0), sin = inputs.floats(groups * kPairs, 0);
        Buffer<uint8_t> entry_codes(groups * kDim / 2), entry_scales(groups * kDim / 16);
        Buffer<uint8_t> key_codes(groups * index_dim / 2), key_scales(groups * index_dim / 32);
        const ShoalFinishLatents p = {pooled, norm,      index_wk, k_norm, cos,         sin,          groups,
                                      kDim,   index_dim, kPairs,   kEps,   entry_codes, entry_scales, key_codes,
                                      key_scales};
        run.kernels->finish_latents(&p, run.pool);
        report("finish_latents", "entry_codes", number, entry_codes);
        report("finish_latents", "entry_scales", number, entry_scales);
        report("finish_latents", "key_codes", number, key_codes);
        report("finish_latents", "key_scales", number, key_scales);
    });
}

void drive_index_queries(Run run) {
    each_case(kRows, {3}, [&](size_t number, size_t rows, size_t heads) {
        Inputs inputs(number);
        const size_t q_rank = 64, index_dim = 32;
        const Rows8 qr(inputs, rows, q_rank);
        const Buffer<uint16_t> x = inputs.bf16(rows * kDim), weights_proj = inputs.bf16(heads * kDim, 1);
        const Float8 wq_b(inputs, heads * index_dim, q_rank);
        const Buffer<float> cos = inputs.floats(rows * kPairs, 0), sin = inputs.floats(rows * kPairs, 0);
        Buffer<uint8_t> codes(rows * heads * index_dim / 2), scales(rows * heads * index_dim / 32);
        Buffer<uint16_t> weights(rows * heads);
        const ShoalIndexQueries p = {qr.codes, qr.scales, x,     weights_proj, wq_b,   cos,   sin,   rows,   q_rank,
                                     kDim,     heads,     index_dim, kPairs,   0.125f, codes, scales, weights};
        run.kernels->index_queries(&p, run.pool);
        report("index_queries", "codes", number, codes);
        report("index_queries", "scales", number, scales);
        report("index_queries", "weights", number, weights);
    });
}

void drive_engram_memory(Run run) {
    each_case(kRows, {2}, [&](size_t number, size_t rows, size_t columns) {
        Inputs inputs(number);
        const size_t width = 32;
        const Rows8 table_rows(inputs, rows * columns, width);
        const Float8 wkv(inputs, (kStreams + 1) * kDim, columns * width);
        const Buffer<uint16_t> streams = inputs.bf16(rows * kStreams * kDim);
        const Buffer<uint16_t> q_weight = inputs.bf16(kStreams * kDim, 1), k_weight = inputs.bf16(kStreams * kDim, 1);
        Buffer<uint16_t> streams_out(rows * kStreams * kDim);
        const ShoalEngramMemory p = {table_rows.codes, table_rows.scales, wkv,     streams, q_weight, k_weight,
                                     nullptr,          rows,              columns, width,   kStreams, kDim,
                                     kEps,             streams_out};
        run.kernels->engram_memory(&p, run.pool);
        report("engram_memory", "streams_out", number, streams_out);
    });
}

void drive_logits(Run run) {
    each_case(kRows, {37}, [&](size_t number, size_t rows, size_t vocabulary) {
        Inputs inputs(number);
        const Buffer<uint16_t> streams = inputs.bf16(rows * kStreams * kDim), norm = inputs.bf16(kDim, 1);
        const Buffer<float> pre = inputs.floats(rows * kStreams, 1);
        const Buffer<uint16_t> head = inputs.bf16(vocabulary * kDim, 1);
        Buffer<uint16_t> x(rows * kDim);
        Buffer<float> logits(rows * vocabulary);
        const ShoalLogits p = {streams, pre, norm, head, rows, kStreams, kDim, vocabulary, kEps, x, logits};
        run.kernels->logits(&p, run.pool);
        report("logits", "x", number, x);
        report("logits", "logits", number, logits);
    });
}
