// Whoever takes the pieces of a disk: a thread with a ring, or threads that call pread. See page_reader.h.
#include "page_reader.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "page_queue.h"
#include "ring.h"
#include "short_slices.h"
#include "signals_held.h"

using namespace page_queue;

namespace {

void serve_with_pread(Queue& queue) {
    ask_for_short_slices();
    for (Piece piece; queue.take(piece, true); piece.job.reset()) {
        const PageRead& read = piece.of();
        ReadProgress progress;
        int error = 0;
        int64_t result;
        do {
            const size_t at = piece.place + progress.filled;
            const size_t left = piece.nbytes - progress.filled;
            result = pread(read.file->fd, read.into + at, left, static_cast<off_t>(read.start + at));
            if (result < 0) result = -errno;
        } while (advance(piece.needed, read.file->direct, result, progress, error) == Step::again);
        queue.finish(piece, progress.filled, error);
    }
}

// The pieces of one disk in a ring. Where the ring itself fails, what it began may still be written to by the system.
class RingWorker {
   public:
    RingWorker(Queue& queue, Ring& ring, size_t depth) : queue_(queue), ring_(ring), slots_(depth) {
        for (size_t i = depth; i-- > 0;) free_.push_back(static_cast<uint32_t>(i));
    }

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
    struct Slot {
        Piece piece;
        ReadProgress progress;
    };

    void begin() {
        while (!free_.empty()) {
            const uint32_t slot = free_.back();
            if (!queue_.take(slots_[slot].piece, free_.size() == slots_.size())) return;
            free_.pop_back();
            slots_[slot].progress = {};
            read_on(slot);
        }
    }

    void read_on(uint32_t slot) {
        const Piece& piece = slots_[slot].piece;
        const PageRead& read = piece.of();
        const size_t filled = slots_[slot].progress.filled, at = piece.place + filled;
        const auto left = static_cast<uint32_t>(piece.nbytes - filled);
        ring_.push_read(read.file->fd, read.into + at, left, read.start + at, slot);
    }

    void answer(uint32_t slot, int32_t result) {
        Slot& s = slots_[slot];
        const Piece& piece = s.piece;
        int error = 0;
        const bool direct = piece.of().file->direct;
        if (advance(piece.needed, direct, result, s.progress, error) == Step::again) return read_on(slot);
        finish(s, s.progress.filled, error);
        free_.push_back(slot);
    }

    void finish(Slot& slot, size_t filled, int error) {
        queue_.finish(slot.piece, filled, error);
        slot.piece.job.reset();
    }

    void give_up(int error) {
        ring_.abandon();
        for (Slot& slot : slots_)
            if (slot.piece.job) finish(slot, 0, error);
        for (Slot& slot = slots_[0]; queue_.take(slot.piece, true);) finish(slot, 0, error);
    }

    Queue& queue_;
    Ring& ring_;
    std::vector<Slot> slots_;
    std::vector<uint32_t> free_;
};

}  // namespace

struct PageReader::State {
    const pid_t process = getpid();
    Answers answers;
    std::deque<PageFile> files;  // whose addresses stay
    std::vector<std::unique_ptr<Queue>> queues;
    std::vector<std::unique_ptr<Ring>> rings;
    std::vector<std::thread> workers;
    uint64_t jobs = 0;
    int refusal = 0;

    void start(Queue& queue, const PageReaderOptions& options) {
        const size_t depth = options.depth;
        std::unique_ptr<Ring> ring;
        if (options.uring && !refusal) ring = Ring::create(static_cast<uint32_t>(depth), refusal);
        if (ring) {
            rings.push_back(std::move(ring));
            workers.emplace_back([&queue, at = rings.back().get(), depth] { RingWorker(queue, *at, depth).serve(); });
            return;
        }
        for (size_t i = 0; i < options.threads; ++i) try {
                workers.emplace_back([&queue] { serve_with_pread(queue); });
            } catch (const std::system_error&) {
                // A machine that has no more threads to give gets the same reads done by fewer.
                if (i == 0) throw;
                break;
            }
    }
};

bool PageFile::has_changed() const {
    struct stat found;
    if (stat(path.c_str(), &found) != 0) return true;
    return found.st_dev != device || found.st_ino != inode || static_cast<uint64_t>(found.st_size) != nbytes ||
           found.st_mtim.tv_sec * INT64_C(1000000000) + found.st_mtim.tv_nsec != mtime_ns;
}

PageReader::PageReader(const PageReaderOptions& options) : state_(new State) {
    const SignalsHeld held;
    for (size_t i = 0; i < options.disks; ++i) {
        const uint64_t shuffle = options.shuffle ? options.shuffle + i : 0;
        state_->queues.push_back(std::make_unique<Queue>(state_->answers, options.piece, shuffle));
        state_->start(*state_->queues.back(), options);
    }
}

PageReader::~PageReader() {
    if (is_parents()) return;  // threads and locks are the parent's
    stop();
    for (std::thread& worker : state_->workers) worker.join();
    delete state_;
}

const char* PageReader::kind() const { return state_->rings.empty() ? "threads" : "io_uring"; }

int PageReader::refusal() const { return state_->refusal; }

bool PageReader::is_parents() const { return getpid() != state_->process; }

const PageFile* PageReader::add_file(PageFile file) {
    state_->files.push_back(std::move(file));
    return &state_->files.back();
}

uint64_t PageReader::submit(size_t disk, Urgency urgency, std::vector<PageRead> reads, std::vector<PageScales> scales) {
    const std::lock_guard<std::mutex> guard(state_->answers.lock);
    auto job = std::make_shared<Job>();
    job->id = ++state_->jobs;
    job->urgency = urgency;
    job->reads = std::move(reads);
    job->scales = std::move(scales);
    const uint64_t id = job->id;
    state_->queues[disk]->put(std::move(job));
    if (state_->answers.stopped) state_->queues[disk]->cancel();
    return id;
}

void PageReader::hurry(uint64_t job) {
    const std::lock_guard<std::mutex> guard(state_->answers.lock);
    for (const auto& queue : state_->queues)
        if (queue->hurry(job)) return;
}

bool PageReader::withdraw(uint64_t job) {
    const std::lock_guard<std::mutex> guard(state_->answers.lock);
    for (const auto& queue : state_->queues)
        if (queue->remove(job)) return true;
    return false;
}

uint64_t PageReader::withdraw_last() {
    const std::lock_guard<std::mutex> guard(state_->answers.lock);
    for (const auto& queue : state_->queues)
        if (const JobPointer job = queue->remove_last()) return job->id;
    return 0;
}

bool PageReader::is_idle() const {
    const std::lock_guard<std::mutex> guard(state_->answers.lock);
    for (const auto& queue : state_->queues)
        if (!queue->is_idle()) return false;
    return true;
}

std::vector<PageAnswer> PageReader::take(double seconds) {
    Answers& answers = state_->answers;
    std::unique_lock<std::mutex> guard(answers.lock);
    const auto is_some = [&] { return !answers.over.empty(); };
    if (seconds > 0) answers.arrived.wait_for(guard, std::chrono::duration<double>(seconds), is_some);
    return std::exchange(answers.over, {});
}

void PageReader::hold(bool held) {
    const std::lock_guard<std::mutex> guard(state_->answers.lock);
    state_->answers.held = held;
    for (const auto& queue : state_->queues) queue->changed.notify_all();
}

void PageReader::stop() {
    const std::lock_guard<std::mutex> guard(state_->answers.lock);
    state_->answers.stopped = true;
    for (const auto& queue : state_->queues) queue->cancel();
}
