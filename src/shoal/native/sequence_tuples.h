// A step's sequences as Python hands them over to attention.
#pragma once

#include <nanobind/stl/tuple.h>

#include <tuple>

#include "binding.h"

// Tokens, position, codes and scales of its ring, pages of its entries, where codes and scales begin in them and the
// shift, what it selected.
using SequenceTuple = std::tuple<size_t, int64_t, uintptr_t, uintptr_t, uintptr_t, size_t, size_t, size_t, uintptr_t>;

// `first` says what all share, and where rows begin; of every sequence its own: one's rows lie after another's.
struct Sequences {
    Sequences(const std::vector<SequenceTuple>& tuples, const ShoalAttention& first) {
        constexpr size_t kQ8Group = 32;
        list.reserve(tuples.size());
        rings.reserve(tuples.size());
        size_t row = 0;
        for (const auto& [tokens, position, ring_codes, ring_scales, pages, codes, scales, shift, selected] : tuples) {
            const size_t values = row * first.heads * first.dim, angles = row * first.pairs;
            rings.push_back({at<uint8_t>(ring_codes), at<uint8_t>(ring_scales)});
            ShoalAttention one = first;
            one.q += values;
            one.own_codes += row * first.dim;
            one.own_scales += row * (first.dim / kQ8Group);
            one.ring_codes = rings.back().codes;
            one.ring_scales = rings.back().scales;
            one.entries = {at<const uint64_t>(pages), codes, scales, shift};
            one.selected = at<const int64_t>(selected);
            one.cos += angles;
            one.sin += angles;
            one.tokens = tokens;
            one.position = position;
            one.y += values;
            list.push_back(one);
            row += tokens;
        }
    }
    ShoalAttendStep step(const ShoalRing& replaced, uint8_t* is_full) const {
        return {list.data(), rings.data(), list.size(), replaced, is_full};
    }
    std::vector<ShoalAttention> list;
    std::vector<ShoalRing> rings;
};
