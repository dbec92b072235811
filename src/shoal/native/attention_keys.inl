// A token's keys, in blocks of 64 columns, and their decoding to float32.
//
// Q8 and Q4c codes times their scale are exact in bf16, and so in float32: nothing is rounded here.

namespace {

constexpr size_t kColumns = 64;           // columns of one running maximum (the released kernel's)
constexpr size_t kQ8Group = 32, kQ4cGroup = 16;
constexpr size_t kRowPadding = 16;        // floats between decoded rows: rows 2 KiB apart would share two cache sets
constexpr size_t kCacheLine = 64;
constexpr size_t kEntriesAhead = 8;       // entries lie anywhere in memory: asked for this many rows before their use

inline size_t key_stride(const ShoalAttention* p) { return p->dim + kRowPadding; }
inline size_t block_count(const ShoalAttention* p) { return (p->window + p->topk + kColumns - 1) / kColumns; }

// Window keys are positions first .. first + window - 1; `entries` are the first of the token's selected ones.
struct KeyList {
    int64_t first;
    size_t window, entries;
    const int64_t* selected;
};

inline KeyList key_list(const ShoalAttention* p, size_t token) {
    const int64_t position = p->position + static_cast<int64_t>(token), window = static_cast<int64_t>(p->window);
    const int64_t first = position - window + 1 > 0 ? position - window + 1 : 0;
    const int64_t* selected = p->selected ? p->selected + token * p->topk : nullptr;
    KeyList list = {first, static_cast<size_t>(position + 1 - first), 0, selected};
    if (!list.selected) return list;
    // Present entries come before absent ones.
    size_t absent = p->topk;
    while (list.entries < absent) {
        const size_t middle = (list.entries + absent) / 2;
        if (list.selected[middle] < 0)
            absent = middle;
        else
            list.entries = middle + 1;
    }
    return list;
}

inline size_t least(size_t a, size_t b) { return a < b ? a : b; }
inline size_t overlap(size_t start, size_t end, size_t count) { return least(end, count) - least(start, count); }

// Keys of block `block`: its window columns, then its selected ones.
struct BlockKeys {
    size_t window_start, window, entry_start, entries;
    size_t count() const { return window + entries; }
};

inline BlockKeys block_keys(const ShoalAttention* p, const KeyList& list, size_t block) {
    const size_t start = block * kColumns, end = start + kColumns, columns = p->window;
    const size_t entry_start = start > columns ? start - columns : 0, entry_end = end > columns ? end - columns : 0;
    return {start, overlap(start, end, list.window), entry_start, overlap(entry_start, entry_end, list.entries)};
}

void decode_q8(const uint8_t* codes, const uint8_t* scales, size_t dim, float* key) {
    for (size_t group = 0; group < dim / kQ8Group; ++group) {
        const uint32_t code = scales[group];
        const Floats scale = broadcast(value_of(code ? code << 23 : 0x400000));
        for (size_t k = group * kQ8Group; k < (group + 1) * kQ8Group; k += kLanes)
            store(key + k, multiply(multiply(load_e4m3_over_256(codes + k), broadcast(256.0f)), scale));
    }
}

inline void load_scales(const uint8_t* scales, size_t count, float* values) {
    uint8_t part[kLanes] = {};
    if (count < kLanes) __builtin_memcpy(part, scales, count);
    store(values, multiply(load_e4m3_over_256(count < kLanes ? part : scales), broadcast(256.0f)));
}

void decode_q4c(const uint8_t* codes, const uint8_t* scales, size_t dim, float* key) {
    const size_t groups = dim / kQ4cGroup;
    float values[kLanes];
    for (size_t start = 0; start < groups; start += kLanes) {
        const size_t count = least(kLanes, groups - start);
        load_scales(scales + start, count, values);
        for (size_t i = 0; i < count; ++i) {
            const size_t group = start + i;
            store(key + group * kQ4cGroup, multiply(load_e2m1(codes + group * kQ4cGroup / 2), broadcast(values[i])));
        }
    }
}

inline void decode_window_key(const ShoalAttention* p, int64_t position, float* key) {
    const bool own = position >= p->position;
    const size_t row = static_cast<size_t>(own ? position - p->position : position % static_cast<int64_t>(p->window));
    decode_q8((own ? p->own_codes : p->ring_codes) + row * p->dim,
              (own ? p->own_scales : p->ring_scales) + row * (p->dim / kQ8Group), p->dim, key);
}

inline void fetch(const uint8_t* start, size_t nbytes) {
    for (size_t k = 0; k < nbytes; k += kCacheLine) __builtin_prefetch(start + k);
    __builtin_prefetch(start + nbytes - 1);
}

inline PagedRow entry_row(const ShoalAttention* p, int64_t entry) {
    return paged_row(p->entries, static_cast<size_t>(entry), p->dim / 2, p->dim / kQ4cGroup);
}

inline void fetch_entry(const ShoalAttention* p, int64_t entry) {
    const PagedRow row = entry_row(p, entry);
    fetch(row.codes, p->dim / 2);
    fetch(row.scales, p->dim / kQ4cGroup);
}

// The keys of one block, `key_stride` floats apart.
void decode_block(const ShoalAttention* p, const KeyList& list, const BlockKeys& block, float* keys) {
    const size_t stride = key_stride(p), ahead = least(block.entries, kEntriesAhead);
    const int64_t* entries = block.entries ? list.selected + block.entry_start : nullptr;
    for (size_t i = 0; i < ahead; ++i) fetch_entry(p, entries[i]);
    for (size_t i = 0; i < block.window; ++i, keys += stride)
        decode_window_key(p, list.first + static_cast<int64_t>(block.window_start + i), keys);
    for (size_t i = 0; i < block.entries; ++i, keys += stride) {
        if (i + ahead < block.entries) fetch_entry(p, entries[i + ahead]);
        const PagedRow row = entry_row(p, entries[i]);
        decode_q4c(row.codes, row.scales, p->dim, keys);
    }
}

}  // namespace
