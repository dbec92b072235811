// Python names of the indexer operators. Sizes and addresses are those of tensors that `ops` checked and keeps alive.
#include <nanobind/stl/tuple.h>

#include <tuple>

#include "binding.h"

namespace {

constexpr size_t kScaleBlock = 32;

// A sequence of a step: tokens; keys, their pages, where codes and scales begin in them and the shift; candidates; and
// where its candidate positions and scores go.
using SequenceTuple =
    std::tuple<size_t, size_t, uintptr_t, size_t, size_t, size_t, uintptr_t, uintptr_t, uintptr_t>;

// An address of 0 is an input that is not there or an output that is not wanted.
void index_select(Kernels& kernels, uintptr_t q_codes, uintptr_t q_scales, uintptr_t weights, uintptr_t key_pages,
                  size_t key_codes, size_t key_scales, size_t page_shift, uintptr_t visible, uintptr_t candidates,
                  size_t tokens, size_t heads, size_t dim, size_t keys, size_t count, uintptr_t selected, size_t block,
                  size_t block_count, uintptr_t candidate_positions, uintptr_t scores) {
    kernels.run(kernels.table->index_select,
                ShoalIndexSelect{at<const uint8_t>(q_codes), at<const uint8_t>(q_scales), at<const uint16_t>(weights),
                                 {at<const uint64_t>(key_pages), key_codes, key_scales, page_shift},
                                 at<const int64_t>(visible), at<const uint8_t>(candidates), tokens, heads, dim, keys,
                                 count, at<int64_t>(selected), block, block_count, at<uint8_t>(candidate_positions),
                                 at<uint16_t>(scores)});
}

// Arrays of rows hold one sequence's after another's.
void index_select_step(Kernels& kernels, const std::vector<SequenceTuple>& sequences, uintptr_t q_codes,
                       uintptr_t q_scales, uintptr_t weights, uintptr_t visible, size_t heads, size_t dim, size_t count,
                       size_t block, size_t block_count, uintptr_t selected) {
    std::vector<ShoalIndexSelect> list;
    list.reserve(sequences.size());
    size_t row = 0;
    for (const auto& [tokens, keys, pages, codes, scales, shift, candidates, positions, scores] : sequences) {
        const size_t head = row * heads;
        list.push_back({at<const uint8_t>(q_codes) + head * (dim / 2), at<const uint8_t>(q_scales) + head * (dim / kScaleBlock),
                        at<const uint16_t>(weights) + head, {at<const uint64_t>(pages), codes, scales, shift},
                        at<const int64_t>(visible) + row, at<const uint8_t>(candidates), tokens, heads, dim, keys, count,
                        at<int64_t>(selected) + row * count, block, block_count, at<uint8_t>(positions),
                        at<uint16_t>(scores)});
        row += tokens;
    }
    kernels.run(kernels.table->index_select_step, ShoalIndexSelectStep{list.data(), list.size()});
}

}  // namespace

void bind_indexer(nb::class_<Kernels>& kernels) {
    kernels.def("index_select", &index_select, nb::arg("q_codes"), nb::arg("q_scales"), nb::arg("weights"),
                nb::arg("key_pages"), nb::arg("key_codes"), nb::arg("key_scales"), nb::arg("page_shift"),
                nb::arg("visible"), nb::arg("candidates"), nb::arg("tokens"), nb::arg("heads"), nb::arg("dim"),
                nb::arg("keys"), nb::arg("count"), nb::arg("selected"), nb::arg("block"), nb::arg("block_count"),
                nb::arg("candidate_positions"), nb::arg("scores"));
    kernels.def("index_select_step", &index_select_step);
}
