// Who does the reads of a queue: a thread that keeps a ring full, or threads that call pread.
//
// A `Source` stands between a queue and a worker. It has
//   Task                      what is taken from the queue
//   take(task, wait)          false when there is nothing, or for ever at the end; `wait` until there is
//   read(task, slot)          the read to be done for it, in the worker's place `slot`
//   finish(task, slot, filled, error)   what came of it; the task is empty after that
//   is_empty(task)
//   leak()                    the system may still write to the source's own memory: it is kept for good
#pragma once

#include <errno.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "read_progress.h"
#include "ring.h"
#include "short_slices.h"

// `nbytes` from byte `start` of a file to `memory`, of which the first `needed` must come.
struct DiskRead {
    int fd;
    bool direct;
    uint64_t start;
    size_t nbytes, needed;
    uint8_t* memory;
};

// One read after another, until the source has no more.
template <typename Source>
void serve_with_pread(Source source) {
    ask_for_short_slices();
    for (typename Source::Task task; source.take(task, true);) {
        const DiskRead read = source.read(task, 0);
        ReadProgress progress;
        int error = 0;
        int64_t result;
        do {
            const size_t filled = progress.filled, left = read.nbytes - filled;
            result = pread(read.fd, read.memory + filled, left, static_cast<off_t>(read.start + filled));
            if (result < 0) result = -errno;
        } while (advance(read.needed, read.direct, result, progress, error) == Step::again);
        source.finish(task, 0, progress.filled, error);
    }
}

// `depth` reads at once in a ring.
template <typename Source>
class RingWorker {
   public:
    RingWorker(Source source, Ring& ring, size_t depth) : source_(std::move(source)), ring_(ring), slots_(depth) {
        for (size_t i = depth; i-- > 0;) free_.push_back(static_cast<uint32_t>(i));
    }

    // Until the source has no more.
    void serve() {
        ask_for_short_slices();
        for (;;) {
            begin();
            if (free_.size() == slots_.size()) return;
            if (const int error = ring_.enter(1)) return give_up(error);
            uint64_t tag;
            int32_t result;
            while (ring_.next_answer(tag, result)) answer(static_cast<uint32_t>(tag), result);
        }
    }

   private:
    // A place in the ring, with the read that is under way in it.
    struct Slot {
        typename Source::Task task;
        ReadProgress progress;
    };

    void begin() {
        while (!free_.empty()) {
            const uint32_t slot = free_.back();
            if (!source_.take(slots_[slot].task, free_.size() == slots_.size())) return;
            free_.pop_back();
            slots_[slot].progress = {};
            read_on(slot);
        }
    }

    void read_on(uint32_t slot) {
        const DiskRead read = source_.read(slots_[slot].task, slot);
        const size_t filled = slots_[slot].progress.filled;
        const auto left = static_cast<uint32_t>(read.nbytes - filled);
        ring_.push_read(read.fd, read.memory + filled, left, read.start + filled, slot);
    }

    void answer(uint32_t slot, int32_t result) {
        Slot& s = slots_[slot];
        const DiskRead read = source_.read(s.task, slot);
        int error = 0;
        if (advance(read.needed, read.direct, result, s.progress, error) == Step::again) return read_on(slot);
        source_.finish(s.task, slot, s.progress.filled, error);
        free_.push_back(slot);
    }

    // The ring itself failed: what it began is never touched again, and whatever comes after meets the same end.
    void give_up(int error) {
        source_.leak();
        ring_.abandon();
        for (uint32_t slot = 0; slot < slots_.size(); ++slot)
            if (!source_.is_empty(slots_[slot].task)) source_.finish(slots_[slot].task, slot, 0, error);
        for (typename Source::Task task; source_.take(task, true);) source_.finish(task, 0, 0, error);
    }

    Source source_;
    Ring& ring_;
    std::vector<Slot> slots_;
    std::vector<uint32_t> free_;
};
