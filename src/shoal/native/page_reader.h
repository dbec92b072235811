// Large reads of whole pages into the caller's memory, most urgent first, while the caller computes.
//
// A job is what brings one thing: an expert. It goes to its disk in pieces, several at once and one job after another,
// so that the first job has all of the disk's speed. One thread a disk keeps an io_uring full; where that is refused,
// threads call pread. None of them needs Python.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <memory>
#include <string>
#include <vector>

#include "read_progress.h"

// Why a job is read. A read ahead begins while nothing else is under way, one to warm a store while no demand is.
enum class Urgency : uint32_t { demand, ahead, warm };
constexpr size_t kUrgencies = 3;

// An open file, and what must still be true of `path` after a read for its bytes to be that file's. `fd` stays the
// caller's.
struct PageFile {
    int fd;
    bool direct;
    std::string path;
    uint64_t device, inode, nbytes;
    int64_t mtime_ns;

    // Whether the path names another file by now, or this one was written to.
    bool has_changed() const;
};

// `nbytes` from byte `start` of a file go to `into`, of which the first `wanted` must be in it. All of whole pages but
// `wanted`. The memory is the caller's and stays until the job is answered.
struct PageRead {
    const PageFile* file;
    uint64_t start;
    size_t nbytes, wanted;
    uint8_t* into;
};

// Bytes that have been read and may not be 255: scales, for which that is no number.
struct PageScales {
    const uint8_t* bytes;
    size_t nbytes;
};

// A job that is over: all is there, or what the system said (0: the file ended; ESTALE: it has changed) of read `read`,
// of which `filled` bytes came. `has_nan`: a scale is no number.
struct PageAnswer {
    uint64_t job;
    bool has_failed, has_nan;
    size_t read;
    int error;
    uint64_t filled;
};

struct PageReaderOptions {
    size_t disks = 1;
    // Pieces under way at once on a disk: entries of its ring, or threads.
    size_t depth = 8, threads = 2, piece = 4 << 20;
    bool uring = true;
    // Not 0: of the jobs that may begin, one is drawn.
    uint64_t shuffle = 0;
};

class PageReader {
   public:
    explicit PageReader(const PageReaderOptions& options);
    // Waits for what is under way. In a child of a fork nothing of the parent's is touched.
    ~PageReader();
    PageReader(const PageReader&) = delete;
    PageReader& operator=(const PageReader&) = delete;

    // `io_uring` or `threads`.
    const char* kind() const;
    // Files stay known until the end.
    const PageFile* add_file(PageFile file);
    // The number of a job, from 1 on. Returns at once; after `stop` the job is answered with ECANCELED.
    uint64_t submit(size_t disk, Urgency urgency, std::vector<PageRead> reads, std::vector<PageScales> scales);
    // The job is a demand from now on, unless it is over.
    void hurry(uint64_t job);
    // Takes a job back, which is then never answered; not one that has begun.
    bool withdraw(uint64_t job);
    // Takes back the last job that is no demand and has not begun; 0 where there is none.
    uint64_t withdraw_last();
    // Nothing waits and nothing is under way.
    bool is_idle() const;
    // What is over since the last call; waits at most `seconds` for the first.
    std::vector<PageAnswer> take(double seconds);
    // Nothing begins while it is held.
    void hold(bool held);
    // Nothing begins any more: what is not under way is answered with ECANCELED.
    void stop();
    bool is_parents() const;

   private:
    struct State;
    State* state_;
};
