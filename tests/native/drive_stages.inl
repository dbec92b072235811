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

// A sublayer's entry, of a mixture where it has a router.
struct Entry {
    static constexpr size_t kMixes = kStreams * (kStreams + 2), kExperts = 20, kActive = 6;
    Entry(Inputs& inputs, size_t rows, bool has_router)
        : rows(rows),
          has_router(has_router),
          streams(inputs.bf16(rows * kStreams * kDim)),
          norm(inputs.bf16(kDim, 1)),
          pre(inputs.floats(rows * kStreams, 1)),
          fn(inputs.floats(kMixes * kStreams * kDim, 1)),
          scale(inputs.floats(3, 1)),
          base(inputs.floats(kMixes, 1)),
          gate(inputs.bf16(kExperts * kDim, 1)),
          bias(inputs.floats(kExperts, 1)),
          bias_vl(inputs.floats(kExperts, 1)),
          x(rows * kDim),
          codes(rows * kDim),
          scales(rows * kDim / 32),
          next_pre(rows * kStreams),
          post(rows * kStreams),
          comb(rows * kStreams * kStreams),
          expert_ids(rows * kActive),
          weights(rows * kActive),
          margin(rows) {}
    ShoalEnterSublayer parameters() {
        ShoalEnterSublayer p = {streams, pre,  fn,    scale,  base,     norm, rows, kStreams, kDim, 20, kEps,
                                kEps,    x,    codes, scales, next_pre, post, comb, {}};
        if (has_router)
            p.router = {gate, bias, bias_vl, nullptr, kExperts, kActive, 2.5f, expert_ids, weights, margin};
        return p;
    }
    void print(const char* name, size_t number) const {
        report(name, "x", number, x);
        report(name, "codes", number, codes);
        report(name, "scales", number, scales);
        report(name, "next_pre", number, next_pre);
        report(name, "post", number, post);
        report(name, "comb", number, comb);
        report(name, "expert_ids", number, expert_ids);
        report(name, "weights", number, weights);
        report(name, "margin", number, margin);
    }
    size_t rows;
    bool has_router;
    Buffer<uint16_t> streams, norm;
    Buffer<float> pre, fn, scale, base;
    Buffer<uint16_t> gate;
    Buffer<float> bias, bias_vl;
    Buffer<uint16_t> x;
    Buffer<uint8_t> codes, scales;
    Buffer<float> next_pre, post, comb;
    Buffer<int64_t> expert_ids;
    Buffer<float> weights, margin;
};

void drive_enter_sublayer(Run run) {
    each_case(kRows, {0, 1}, [&](size_t number, size_t rows, size_t has_router) {
        Inputs inputs(number);
        Entry entry(inputs, rows, has_router);
        const ShoalEnterSublayer p = entry.parameters();
        run.kernels->enter_sublayer(&p, run.pool);
        entry.print("enter_sublayer", number);
    });
}

struct Projections {
    static constexpr size_t kRank = 64, kHeads = 2, kHeadDim = 32;
    Projections(Inputs& inputs, size_t rows)
        : rows(rows),
          x(inputs, rows, kDim),
          wq_a(inputs, kRank, kDim),
          wq_b(inputs, kHeads * kHeadDim, kRank),
          wkv(inputs, kHeadDim, kDim),
          q_norm(inputs.bf16(kRank, 1)),
          kv_norm(inputs.bf16(kHeadDim, 1)),
          cos(inputs.floats(rows * kPairs, 0)),
          sin(inputs.floats(rows * kPairs, 0)),
          q(rows * kHeads * kHeadDim),
          qr_codes(rows * kRank),
          qr_scales(rows * kRank / 32),
          kv_codes(rows * kHeadDim),
          kv_scales(rows * kHeadDim / 32) {}
    ShoalProjectIn parameters() {
        return {x.codes, x.scales, wq_a, wq_b, wkv,    q_norm,   kv_norm,   cos,      sin,      rows, kDim,
                kRank,   kHeads,   kHeadDim,   kPairs, kEps,     q,         qr_codes, qr_scales, kv_codes, kv_scales};
    }
    void print(const char* name, size_t number) const {
        report(name, "q", number, q);
        report(name, "qr_codes", number, qr_codes);
        report(name, "qr_scales", number, qr_scales);
        report(name, "kv_codes", number, kv_codes);
        report(name, "kv_scales", number, kv_scales);
    }
    size_t rows;
    Rows8 x;
    Float8 wq_a, wq_b, wkv;
    Buffer<uint16_t> q_norm, kv_norm;
    Buffer<float> cos, sin;
    Buffer<uint16_t> q;
    Buffer<uint8_t> qr_codes, qr_scales, kv_codes, kv_scales;
};

void drive_project_in(Run run) {
    each_case(kRows, {0}, [&](size_t number, size_t rows, size_t) {
        Inputs inputs(number);
        Projections projections(inputs, rows);
        const ShoalProjectIn p = projections.parameters();
        run.kernels->project_in(&p, run.pool);
        projections.print("project_in", number);
    });
}

struct Output {
    static constexpr size_t kGroups = 2, kWidth = 64, kOutputs = 32;
    Output(Inputs& inputs, size_t rows)
        : rows(rows),
          o(inputs.bf16(rows * kGroups * kWidth)),
          wo_a(inputs, kGroups * kOutputs, kWidth),
          wo_b(inputs, kDim, kGroups * kOutputs),
          back(inputs, rows) {}
    ShoalProjectOut parameters() {
        return {o, wo_a, wo_b, rows, kGroups, kWidth, kOutputs, kDim, back.parameters()};
    }
    size_t rows;
    Buffer<uint16_t> o;
    Float8 wo_a, wo_b;
    Return back;
};

void drive_project_out(Run run) {
    each_case(kRows, {0}, [&](size_t number, size_t rows, size_t) {
        Inputs inputs(number);
        Output output(inputs, rows);
        const ShoalProjectOut p = output.parameters();
        run.kernels->project_out(&p, run.pool);
        output.back.print("project_out", number);
    });
}

void drive_begin_layer(Run run) {
    each_case(kRows, {0}, [&](size_t number, size_t rows, size_t) {
        Inputs inputs(number);
        Entry entry(inputs, rows, false);
        Projections projections(inputs, rows);
        ShoalBeginLayer p = {entry.parameters(), projections.parameters()};
        p.project.x_codes = entry.codes;
        p.project.x_scales = entry.scales;
        run.kernels->begin_layer(&p, run.pool);
        entry.print("begin_layer", number);
        projections.print("begin_layer", number);
    });
}

// One sequence, without entries.
void drive_attend_layer(Run run) {
    each_case(kRows, {0, 5}, [&](size_t number, size_t rows, size_t position) {
        Inputs inputs(number);
        const size_t heads = 2, dim = Output::kWidth, window = 8, kept = rows < window ? rows : window;
        const Buffer<uint16_t> q = inputs.bf16(rows * heads * dim, 1);
        const Rows8 own(inputs, rows, dim, kUsual);
        Rows8 held(inputs, window, dim, kUsual);
        const Buffer<float> sink = inputs.floats(heads, 1), angles = inputs.floats(rows * kPairs, 0);
        Buffer<uint8_t> replaced_codes(kept * dim), replaced_scales(kept * dim / 32), is_full(1);
        Output output(inputs, rows);
        Entry entry(inputs, rows, true);
        const ShoalRing ring = {held.codes, held.scales};
        const ShoalAttention sequence = {q,      own.codes, own.scales, held.codes, held.scales, {},
                                         nullptr, sink,     angles,     angles,     rows,        heads,
                                         dim,    window,    0,          kPairs,     static_cast<int64_t>(position),
                                         0.125f, output.o};
        ShoalAttendLayer p = {{&sequence, &ring, 1, {replaced_codes, replaced_scales}, is_full},
                              output.parameters(),
                              entry.parameters()};
        p.mixture.streams = output.back.streams_out;
        run.kernels->attend_layer(&p, run.pool);
        report("attend_layer", "o", number, output.o);
        report("attend_layer", "ring", number, held.codes);
        report("attend_layer", "replaced", number, replaced_codes);
        output.back.print("attend_layer", number);
        entry.print("attend_layer", number);
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
