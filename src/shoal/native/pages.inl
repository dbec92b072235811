// Finding a row in pages: one look-up, whatever the length of the sequence.
#include "pages.h"

namespace {

struct PagedRow {
    const uint8_t *codes, *scales;
};

// Row `row` of rows of `codes` bytes of codes and `scales` of scales.
inline PagedRow paged_row(const ShoalPages& pages, size_t row, size_t codes, size_t scales) {
    const uint64_t page = pages.addresses[row >> pages.shift];
    const uint64_t within = row & ((uint64_t{1} << pages.shift) - 1);
    return {reinterpret_cast<const uint8_t*>(page + pages.codes + within * codes),
            reinterpret_cast<const uint8_t*>(page + pages.scales + within * scales)};
}

}  // namespace
