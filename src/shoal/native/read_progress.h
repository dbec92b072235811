// What becomes of a read that the system may answer in parts.
#pragma once

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

// What every disk takes as a unit, of offsets, lengths and memory.
constexpr size_t kReadBlock = 4096;
// How often the system may say "try again" to one read before that is an error.
constexpr int kMostReadRetries = 1000;

// A read that is under way.
struct ReadProgress {
    size_t filled = 0;
    int retries = 0;
};

enum class Step { finished, again };

// What is to be done after the system answered `result` (bytes, or a negative error number, which goes to `error`).
//
// A short read is continued where it ended; only a read of nothing (or, under O_DIRECT, one that ends inside a block) is
// the file's end.
inline Step advance(size_t needed, bool direct, int64_t result, ReadProgress& progress, int& error) {
    error = 0;
    if (result < 0) {
        error = static_cast<int>(-result);
        if (error != EINTR && error != EAGAIN) return Step::finished;
        return ++progress.retries > kMostReadRetries ? Step::finished : Step::again;
    }
    progress.filled += static_cast<size_t>(result);
    const bool ended = result == 0 || (direct && progress.filled % kReadBlock != 0);
    return ended || progress.filled >= needed ? Step::finished : Step::again;
}
