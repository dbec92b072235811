// Drivers of the attention and the indexer operators.

// Rows in pages, each a piece of heap of its own. Every third case has one page, end to end.
class PagedRows {
   public:
    PagedRows(const Buffer<uint8_t>& codes, const Buffer<uint8_t>& scales, size_t rows, size_t number)
        : shift(kShifts[number % 3]) {
        const size_t code_bytes = rows ? codes.nbytes() / rows : 0, scale_bytes = rows ? scales.nbytes() / rows : 0;
        const size_t each = shift < 63 ? size_t{1} << shift : rows;
        all_codes = each * code_bytes;
        for (size_t first = 0; first < rows; first += each) {
            const size_t held = rows - first < each ? rows - first : each;
            pages.emplace_back(each * (code_bytes + scale_bytes));
            uint8_t* page = pages.back().data();
            memcpy(page, codes + first * code_bytes, held * code_bytes);
            memcpy(page + all_codes, scales + first * scale_bytes, held * scale_bytes);
            addresses.push_back(reinterpret_cast<uintptr_t>(page));
        }
    }
    operator ShoalPages() const { return {addresses.data(), 0, all_codes, shift}; }

   private:
    static constexpr size_t kShifts[3] = {63, 0, 3};
    size_t shift, all_codes;
    std::vector<Buffer<uint8_t>> pages;
    std::vector<uint64_t> addresses;
};

struct AttentionSize {
    size_t heads, dim, window, topk;
};

void drive_attention(Run run, size_t number, size_t tokens, size_t position, const AttentionSize& size) {
    Inputs inputs(number);
    const size_t heads = size.heads, dim = size.dim, window = size.window, topk = size.topk, pairs = 8, entries = 90;
    const Range scales = number % 2 ? kUsual : Range{100, 135};
    const Buffer<uint16_t> q = inputs.bf16(tokens * heads * dim, 1);
    const Rows8 own(inputs, tokens, dim, scales), ring(inputs, window, dim, scales);
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
    const PagedRows entry_pages(entry_codes, entry_scales, entries, number);
    const ShoalAttention p = {q,
                              own.codes,
                              own.scales,
                              ring.codes,
                              ring.scales,
                              entry_pages,
                              topk ? selected.data() : nullptr,
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
}

void drive_attention(Run run) {
    each_case(kRows, {0, 3, 200}, [&](size_t number, size_t tokens, size_t position) {
        drive_attention(run, number, tokens, position, {5, 64, 16, 70});
    });
    // One to three vectors of heads, dims above what queries are held of at once; whole and partial tiles of keys.
    size_t number = 100;
    for (const AttentionSize& size : {AttentionSize{16, 32, 130, 0}, {20, 288, 16, 70}, {40, 160, 70, 40}})
        for (const size_t tokens : {size_t{2}, size_t{17}})
            for (const size_t position : {size_t{0}, size_t{500}})
                drive_attention(run, number++, tokens, position, size);
}

// Sequences of 0, 1, .. tokens at other positions, some longer than the window; every other step has no entries.
void drive_attend_step(Run run) {
    each_case({1, 2, 4, 8}, {0, 9}, [&](size_t number, size_t count, size_t longest) {
        Inputs inputs(number);
        const size_t heads = 5, dim = 64, window = 8, topk = number % 2 ? 20 : 0, pairs = 8, entries = 90;
        std::vector<size_t> tokens(count);
        size_t all = 0, kept = 0;
        for (size_t i = 0; i < count; ++i) {
            tokens[i] = longest ? inputs.below(static_cast<uint32_t>(longest + 4)) : 1;
            all += tokens[i];
            kept += tokens[i] < window ? tokens[i] : window;
        }
        const Buffer<uint16_t> q = inputs.bf16(all * heads * dim, 1);
        const Rows8 own(inputs, all, dim, kUsual);
        const Buffer<uint8_t> entry_codes = inputs.bytes(entries * dim / 2);
        Buffer<uint8_t> entry_scales = inputs.bytes(entries * dim / 16);
        for (size_t i = 0; i < entries * dim / 16; ++i)
            entry_scales[i] = static_cast<uint8_t>(0x30 + entry_scales[i] % 16);
        const PagedRows entry_pages(entry_codes, entry_scales, entries, number);
        Buffer<int64_t> selected(all * topk);
        for (size_t i = 0; i < all * topk; ++i) selected[i] = i % topk < 11 ? static_cast<int64_t>(inputs.below(entries)) : -1;
        const Buffer<float> sink = inputs.floats(heads, 1), angles = inputs.floats(all * pairs, 0);
        Buffer<uint16_t> y(all * heads * dim);
        Buffer<uint8_t> replaced_codes(kept * dim), replaced_scales(kept * dim / 32), is_full(1);
        std::vector<Rows8> held;
        for (size_t i = 0; i < count; ++i) held.emplace_back(inputs, window, dim, kUsual);
        std::vector<ShoalAttention> sequences;
        std::vector<ShoalRing> rings;
        size_t row = 0;
        for (size_t i = 0; i < count; row += tokens[i++]) {
            rings.push_back({held[i].codes.data(), held[i].scales.data()});
            sequences.push_back({q + row * heads * dim, own.codes + row * dim,
                                 own.scales + row * dim / 32, held[i].codes, held[i].scales, entry_pages,
                                 topk ? selected.data() + row * topk : nullptr, sink, angles + row * pairs,
                                 angles + row * pairs, tokens[i], heads, dim, window, topk, pairs,
                                 static_cast<int64_t>(inputs.below(40)), 0.125f, y.data() + row * heads * dim});
        }
        const ShoalAttendStep p = {sequences.data(), rings.data(), count, {replaced_codes, replaced_scales}, is_full};
        run.kernels->attend_step(&p, run.pool);
        report("attend_step", "y", number, y);
        report("attend_step", "replaced", number, replaced_codes);
        report("attend_step", "replaced scales", number, replaced_scales);
        report("attend_step", "is_full", number, is_full);
        for (size_t i = 0; i < count; ++i) report("attend_step", "ring", number, held[i].codes);
        for (size_t i = 0; i < count; ++i) report("attend_step", "ring scales", number, held[i].scales);
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

struct IndexSize {
    size_t heads, dim, count, block, block_count;
};

// Candidates, members of blocks and scores are given or not.
void drive_index(Run run, size_t number, size_t tokens, size_t keys, const IndexSize& size, Range range, bool all) {
    Inputs inputs(number);
    const size_t heads = size.heads, dim = size.dim;
    const Buffer<uint8_t> q_codes = inputs.bytes(tokens * heads * dim / 2);
    const Buffer<uint8_t> key_codes = inputs.bytes(keys * dim / 2);
    const Buffer<uint8_t> q_scales = inputs.e8m0(tokens * heads * dim / 32, range);
    const Buffer<uint8_t> key_scales = inputs.e8m0(keys * dim / 32, range);
    const Buffer<uint16_t> weights = inputs.bf16(tokens * heads, range.low ? 1 : 100);
    Buffer<int64_t> visible(tokens), selected(tokens * size.count);
    for (size_t token = 0; token < tokens; ++token)
        visible[token] = static_cast<int64_t>(token % 2 ? keys : inputs.below(static_cast<uint32_t>(keys + 1)));
    Buffer<uint8_t> candidates = inputs.bytes(tokens * keys), members(tokens * keys);
    for (size_t i = 0; i < tokens * keys; ++i) candidates[i] = candidates[i] > 40;
    Buffer<uint16_t> scores(tokens * keys);
    ShoalIndexSelect p = {};
    const PagedRows key_pages(key_codes, key_scales, keys, number);
    p.q_codes = q_codes, p.q_scales = q_scales, p.weights = weights, p.key_pages = key_pages, p.visible = visible;
    p.tokens = tokens, p.heads = heads, p.dim = dim, p.keys = keys, p.count = size.count, p.selected = selected;
    p.block = size.block, p.block_count = size.block_count;
    if (all) p.candidates = candidates, p.candidate_positions = members, p.scores = scores;
    run.kernels->index_select(&p, run.pool);
    report("index_select", "selected", number, selected);
    report("index_select", "candidate_positions", number, members);
    report("index_select", "scores", number, scores);
}

// Sequences with other keys each, and one without tokens.
void drive_index_select_step(Run run) {
    each_case({1, 2, 5}, {1, 40, 300}, [&](size_t number, size_t count, size_t keys) {
        Inputs inputs(number);
        const size_t heads = 5, dim = 64, best = 20;
        std::vector<ShoalIndexSelect> sequences(count);
        std::vector<Buffer<uint8_t>> codes;
        std::vector<Buffer<uint16_t>> weights;
        std::vector<PagedRows> pages;
        std::vector<Buffer<int64_t>> whole;
        for (size_t i = 0; i < count; ++i) {
            const size_t tokens = i == 1 ? 0 : 1 + 2 * i, own = keys + 7 * i;
            codes.push_back(inputs.bytes(tokens * heads * dim / 2));
            codes.push_back(inputs.e8m0(tokens * heads * dim / 32, {124, 130}));
            weights.push_back(inputs.bf16(tokens * heads, 1));
            // One after the other: a compiler may draw arguments in any order.
            auto key_codes = inputs.bytes(own * dim / 2);
            auto key_scales = inputs.e8m0(own * dim / 32, {124, 130});
            pages.emplace_back(std::move(key_codes), std::move(key_scales), own, number);
            whole.emplace_back(tokens);
            for (size_t token = 0; token < tokens; ++token) whole.back()[token] = static_cast<int64_t>(own);
            whole.emplace_back(tokens * best);
        }
        for (size_t i = 0; i < count; ++i) {
            ShoalIndexSelect& p = sequences[i];
            p.q_codes = codes[2 * i].data(), p.q_scales = codes[2 * i + 1].data(), p.weights = weights[i].data();
            p.key_pages = pages[i], p.visible = whole[2 * i].data(), p.selected = whole[2 * i + 1].data();
            p.tokens = i == 1 ? 0 : 1 + 2 * i, p.heads = heads, p.dim = dim, p.keys = keys + 7 * i, p.count = best;
            p.block = 1;
        }
        const ShoalIndexSelectStep p = {sequences.data(), count};
        run.kernels->index_select_step(&p, run.pool);
        for (size_t i = 0; i < count; ++i) report("index_select_step", "selected", number, whole[2 * i + 1]);
    });
}

void drive_index_select(Run run) {
    const IndexSize small = {6, 64, 20, 16, 3}, wide = {3, 256, 20, 16, 3}, narrow = {4, 32, 512, 64, 40};
    const Range usual = {124, 130}, spread = {118, 136}, any = {0, 254};
    each_case(kRows, {0, 1, 77, 300}, [&](size_t number, size_t tokens, size_t keys) {
        const bool given = number % 3 != 0;
        drive_index(run, number, tokens, keys, small, usual, given);
        drive_index(run, 100 + number, tokens, keys, small, spread, given);
        drive_index(run, 200 + number, tokens, keys, small, any, given);
        drive_index(run, 300 + number, tokens, keys, wide, usual, given);
        drive_index(run, 400 + number, tokens, keys, wide, any, given);
    });
    drive_index(run, 500, 70, 77, narrow, usual, true);
    drive_index(run, 501, 3, 5000, small, usual, true);
    drive_index(run, 502, 2, 5000, narrow, usual, false);
    drive_index(run, 503, 2, 33001, narrow, usual, true);
    drive_index(run, 504, 2, 33001, {4, 32, 20, 16, 3}, usual, false);
}
