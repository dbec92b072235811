// Many small reads from many places of files at once: submitted in a moment, waited for later.
//
// Whole blocks of 4 KiB are read, so that files opened with O_DIRECT serve; spans that share or touch blocks share a read
// of up to 16 KiB. One thread keeps an io_uring full, driven by raw system calls; where that is refused, threads call pread.
// A batch owns its bytes: whoever forgets one while it is read harms nobody.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "read_progress.h"

// `nbytes` from byte `start` of a file that the reader knows by number.
struct RowSpan {
    uint32_t file, nbytes;
    uint64_t start;
};

// Why a batch has no bytes: what the system said of the read that span `span` is in, or that the file ended before the
// span did.
struct RowFailure {
    static constexpr int kEnded = 0;
    size_t span;
    int error;
};

class RowBatch {
   public:
    // All spans' bytes are there, or one has failed; false when `seconds` passed before.
    bool wait(double seconds) const;
    // After `wait`; nullptr where every span was read. Of several failures the one with the lowest span.
    const RowFailure* failure() const;
    // After `wait`, without a failure: the bytes of the spans, end to end in their order.
    const uint8_t* bytes() const;
    // What it took: reads and their bytes, whole blocks.
    size_t reads() const;
    size_t nbytes_read() const;

    struct State;
    explicit RowBatch(std::unique_ptr<State> state);
    ~RowBatch();
    RowBatch(const RowBatch&) = delete;
    RowBatch& operator=(const RowBatch&) = delete;
    State* state() { return state_.get(); }

   private:
    std::unique_ptr<State> state_;
};

struct RowReaderOptions {
    // Reads under way at once: entries of the ring, or threads.
    size_t depth = 128, threads = 16;
    bool uring = true;
    // Not 0: a batch's reads are started in an order drawn from it.
    uint64_t shuffle = 0;
};

class RowReader {
   public:
    static constexpr size_t kMostNbytes = 16384;
    // A span may start anywhere in its first block.
    static constexpr size_t kMostSpanNbytes = kMostNbytes - kReadBlock;

    explicit RowReader(const RowReaderOptions& options);
    // Waits for the reads that the system has begun; batches that are not through then fail with ECANCELED.
    ~RowReader();
    RowReader(const RowReader&) = delete;
    RowReader& operator=(const RowReader&) = delete;

    // `io_uring` or `threads`, and the system's answer where io_uring was wanted and refused (else 0).
    const char* kind() const;
    int refusal() const;
    // The number of a file; the reader closes `fd` when it goes.
    uint32_t add_file(int fd, bool direct);
    // Spans of at most kMostSpanNbytes, of known files. Returns at once.
    std::shared_ptr<RowBatch> submit(const std::vector<RowSpan>& spans);
    // A child of a fork has none of its parent's threads: nothing of the reader may be used there but its end.
    bool is_parents() const;

   private:
    struct State;
    State* state_;
};
