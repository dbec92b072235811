// Whoever takes the pieces of a disk: a thread with a ring, or threads that call pread. See page_reader.h.
#include "page_reader.h"

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
#include "read_workers.h"
#include "ring.h"
#include "signals_held.h"

using namespace page_queue;

namespace {

// The pieces of a disk, which go to the callers' memory.
class Pieces {
   public:
    using Task = Piece;
    explicit Pieces(Queue& queue) : queue_(queue) {}

    bool take(Piece& piece, bool wait) { return queue_.take(piece, wait); }
    DiskRead read(const Piece& piece, uint32_t) const {
        const PageRead& whole = piece.of();
        const PageFile& file = *whole.file;
        return {file.fd, file.direct, whole.start + piece.place, piece.nbytes, piece.needed, whole.into + piece.place};
    }
    void finish(Piece& piece, uint32_t, size_t filled, int error) {
        queue_.finish(piece, filled, error);
        piece.job.reset();
    }
    bool is_empty(const Piece& piece) const { return !piece.job; }
    void leak() {}

   private:
    Queue& queue_;
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
            Ring& own = *rings.back();
            workers.emplace_back([&queue, &own, depth] { RingWorker(Pieces(queue), own, depth).serve(); });
            return;
        }
        for (size_t i = 0; i < options.threads; ++i) try {
                workers.emplace_back([&queue] { serve_with_pread(Pieces(queue)); });
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
