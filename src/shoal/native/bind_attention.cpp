// Python names of the attention operators. Sizes and addresses are those of tensors that `ops` checked and keeps alive.
#include "sequence_tuples.h"

namespace {

void attention(Kernels& kernels, uintptr_t q, uintptr_t own_codes, uintptr_t own_scales, uintptr_t ring_codes,
               uintptr_t ring_scales, uintptr_t entry_pages, size_t entry_codes, size_t entry_scales, size_t page_shift,
               uintptr_t selected, uintptr_t sink, uintptr_t cos, uintptr_t sin, size_t tokens, size_t heads, size_t dim,
               size_t window, size_t topk, size_t pairs, int64_t position, float scale, uintptr_t y) {
    kernels.run(kernels.table->attention,
                ShoalAttention{at<const uint16_t>(q), at<const uint8_t>(own_codes), at<const uint8_t>(own_scales),
                               at<const uint8_t>(ring_codes), at<const uint8_t>(ring_scales),
                               {at<const uint64_t>(entry_pages), entry_codes, entry_scales, page_shift},
                               at<const int64_t>(selected), at<const float>(sink), at<const float>(cos),
                               at<const float>(sin), tokens, heads, dim, window, topk, pairs, position, scale,
                               at<uint16_t>(y)});
}

void attend_step(Kernels& kernels, const std::vector<SequenceTuple>& sequences, uintptr_t q, uintptr_t own_codes,
                 uintptr_t own_scales, uintptr_t sink, uintptr_t cos, uintptr_t sin, size_t heads, size_t dim,
                 size_t window, size_t topk, size_t pairs, float scale, uintptr_t y, uintptr_t replaced_codes,
                 uintptr_t replaced_scales, uintptr_t is_full) {
    ShoalAttention first{};
    first.q = at<const uint16_t>(q);
    first.own_codes = at<const uint8_t>(own_codes);
    first.own_scales = at<const uint8_t>(own_scales);
    first.sink = at<const float>(sink);
    first.cos = at<const float>(cos);
    first.sin = at<const float>(sin);
    first.heads = heads;
    first.dim = dim;
    first.window = window;
    first.topk = topk;
    first.pairs = pairs;
    first.scale = scale;
    first.y = at<uint16_t>(y);
    const Sequences all(sequences, first);
    kernels.run(kernels.table->attend_step,
                all.step({at<uint8_t>(replaced_codes), at<uint8_t>(replaced_scales)}, at<uint8_t>(is_full)));
}

void rotate_rows(Kernels& kernels, uintptr_t x, uintptr_t cos, uintptr_t sin, size_t rows, size_t heads, size_t dim,
                 size_t pairs, bool inverse, uintptr_t y) {
    kernels.run(kernels.table->rotate_rows,
                ShoalRotateRows{at<const uint16_t>(x), at<const float>(cos), at<const float>(sin), rows, heads, dim,
                                pairs, inverse, at<uint16_t>(y)});
}

void rope_table(Kernels& kernels, uintptr_t positions, uintptr_t frequencies, size_t rows, size_t pairs, uintptr_t cos,
                uintptr_t sin) {
    kernels.run(kernels.table->rope_table,
                ShoalRopeTable{at<const int64_t>(positions), at<const float>(frequencies), rows, pairs, at<float>(cos),
                               at<float>(sin)});
}

}  // namespace

void bind_attention(nb::class_<Kernels>& kernels) {
    kernels.def("attention", &attention, nb::arg("q"), nb::arg("own_codes"), nb::arg("own_scales"),
                nb::arg("ring_codes"), nb::arg("ring_scales"), nb::arg("entry_pages"), nb::arg("entry_codes"),
                nb::arg("entry_scales"), nb::arg("page_shift"), nb::arg("selected"), nb::arg("sink"), nb::arg("cos"),
                nb::arg("sin"), nb::arg("tokens"), nb::arg("heads"), nb::arg("dim"), nb::arg("window"), nb::arg("topk"),
                nb::arg("pairs"), nb::arg("position"), nb::arg("scale"), nb::arg("y"));
    kernels.def("attend_step", &attend_step);
    kernels.def("rotate_rows", &rotate_rows, nb::arg("x"), nb::arg("cos"), nb::arg("sin"), nb::arg("rows"),
                nb::arg("heads"), nb::arg("dim"), nb::arg("pairs"), nb::arg("inverse"), nb::arg("y"));
    kernels.def("rope_table", &rope_table, nb::arg("positions"), nb::arg("frequencies"), nb::arg("rows"),
                nb::arg("pairs"), nb::arg("cos"), nb::arg("sin"));
}
