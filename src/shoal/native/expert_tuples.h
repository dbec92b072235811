// Experts as Python hands them over.
#pragma once

#include <nanobind/stl/tuple.h>

#include <tuple>

#include "binding.h"

// Codes and scales of w1, w2 and w3; rows; addresses of row ids, weights and slots.
using ExpertTuple = std::tuple<uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, size_t, uintptr_t,
                               uintptr_t, uintptr_t>;

inline ShoalFloat4 float4(uintptr_t codes, uintptr_t scales) { return {at<const uint8_t>(codes), at<const uint8_t>(scales)}; }

inline ShoalExpert expert_of(const ExpertTuple& t) {
    return {float4(std::get<0>(t), std::get<1>(t)),
            float4(std::get<2>(t), std::get<3>(t)),
            float4(std::get<4>(t), std::get<5>(t)),
            std::get<6>(t),
            at<const uint32_t>(std::get<7>(t)),
            at<const float>(std::get<8>(t)),
            at<const uint32_t>(std::get<9>(t))};
}

inline std::vector<ShoalExpert> experts_of(const std::vector<ExpertTuple>& tuples) {
    std::vector<ShoalExpert> experts;
    experts.reserve(tuples.size());
    for (const ExpertTuple& tuple : tuples) experts.push_back(expert_of(tuple));
    return experts;
}
