// A stack of memory that is kept from call to call. Calls that are alike allocate nothing from the second on.

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <vector>

namespace {

constexpr size_t kAlignment = 64, kHugePage = size_t{1} << 21;

struct Block {
    char* memory;
    size_t size, used;
};

[[noreturn]] void out_of_memory(size_t nbytes) {
    fprintf(stderr, "error: no memory for %zu bytes of working room\n", nbytes);
    abort();
}

Block new_block(size_t nbytes) {
    const size_t size = (nbytes + kHugePage - 1) / kHugePage * kHugePage;
    void* memory = nullptr;
    if (posix_memalign(&memory, kHugePage, size)) out_of_memory(size);
#if defined(MADV_HUGEPAGE)
    madvise(memory, size, MADV_HUGEPAGE);
#endif
    return {static_cast<char*>(memory), size, 0};
}

struct ScratchStack {
    std::vector<Block> blocks;
    size_t used = 0, most_used = 0;

    ScratchStack() = default;
    ScratchStack(const ScratchStack&) = delete;
    ScratchStack& operator=(const ScratchStack&) = delete;
    ~ScratchStack() {
        for (const Block& block : blocks) free(block.memory);
    }

    void* take(size_t nbytes) {
        const size_t size = (nbytes + kAlignment - 1) / kAlignment * kAlignment;
        if (blocks.empty())
            blocks.push_back(new_block(size > most_used ? size : most_used));
        else if (blocks.back().size - blocks.back().used < size)
            blocks.push_back(new_block(size));
        Block& block = blocks.back();
        char* piece = block.memory + block.used;
        block.used += size;
        used += size;
        most_used = used > most_used ? used : most_used;
        return piece;
    }

    void release(size_t mark) {
        size_t surplus = used - mark;
        used = mark;
        while (blocks.size() > 1 && surplus >= blocks.back().used) {
            surplus -= blocks.back().used;
            free(blocks.back().memory);
            blocks.pop_back();
        }
        if (blocks.empty()) return;
        blocks.back().used -= surplus;
        // What needed several blocks gets one that is large enough next time.
        if (mark == 0 && blocks.back().size < most_used) {
            free(blocks.back().memory);
            blocks.clear();
        }
    }
};

}  // namespace
