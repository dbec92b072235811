// Reads of rows: batches are cut into extents of whole blocks, which one thread with a ring, or several, take in turn.
//
// See row_reader.h. Measured figures: docs/performance.md.
#include "row_reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <new>
#include <random>
#include <system_error>
#include <thread>

#include "read_workers.h"
#include "ring.h"
#include "signals_held.h"

namespace {

constexpr size_t kBlock = kReadBlock, kMostNbytes = RowReader::kMostNbytes;

struct File {
    int fd;
    bool direct;
};

// A span on its way: where its bytes go in the batch.
struct Piece {
    RowSpan span;
    size_t place, index;
    uint64_t end() const { return span.start + span.nbytes; }
};

// One read: whole blocks, of which the first `needed` bytes must arrive, and the pieces that lie in them.
struct Extent {
    File file;
    uint64_t start;
    size_t nbytes, needed, first_piece, num_pieces;
};

uint64_t block_floor(uint64_t offset) { return offset / kBlock * kBlock; }
uint64_t block_ceil(uint64_t offset) { return block_floor(offset + kBlock - 1); }

struct FreeMemory {
    bool is_kept = false;
    void operator()(uint8_t* memory) const {
        if (!is_kept) free(memory);
    }
};
using Buffer = std::unique_ptr<uint8_t, FreeMemory>;

Buffer aligned_buffer(size_t nbytes) {
    void* memory = nullptr;
    if (posix_memalign(&memory, kBlock, nbytes) != 0) throw std::bad_alloc();
    return Buffer(static_cast<uint8_t*>(memory));
}

}  // namespace

struct RowBatch::State {
    std::vector<Piece> pieces;  // by file and place in it
    std::vector<Extent> extents;
    std::vector<uint8_t> bytes;
    mutable std::mutex lock;
    mutable std::condition_variable changed;
    size_t remaining = 0, nbytes_read = 0;
    bool has_failed = false;
    RowFailure failed{};

    void plan(const std::vector<RowSpan>& spans, const std::vector<File>& files);
    void finish(const Extent& extent, const uint8_t* buffer, size_t filled, int error);
};

void RowBatch::State::plan(const std::vector<RowSpan>& spans, const std::vector<File>& files) {
    size_t place = 0;
    pieces.reserve(spans.size());
    for (const RowSpan& span : spans) {
        pieces.push_back({span, place, pieces.size()});
        place += span.nbytes;
    }
    bytes.resize(place);
    const auto before = [](const Piece& a, const Piece& b) {
        if (a.span.file != b.span.file) return a.span.file < b.span.file;
        return a.span.start < b.span.start;
    };
    if (!std::is_sorted(pieces.begin(), pieces.end(), before)) std::sort(pieces.begin(), pieces.end(), before);
    uint32_t file = 0;
    for (size_t i = 0; i < pieces.size(); ++i) {
        const Piece& piece = pieces[i];
        Extent* last = extents.empty() || file != piece.span.file ? nullptr : &extents.back();
        if (!last || block_floor(piece.span.start) > last->start + last->nbytes ||
            block_ceil(piece.end()) - last->start > kMostNbytes) {
            extents.push_back({files[piece.span.file], block_floor(piece.span.start), 0, 0, i, 0});
            last = &extents.back();
            file = piece.span.file;
        }
        last->needed = std::max<size_t>(last->needed, piece.end() - last->start);
        last->nbytes = block_ceil(last->needed);
        ++last->num_pieces;
    }
    remaining = extents.size();
}

void RowBatch::State::finish(const Extent& extent, const uint8_t* buffer, size_t filled, int error) {
    const Piece* missing = nullptr;
    for (size_t i = extent.first_piece; i < extent.first_piece + extent.num_pieces; ++i) {
        const Piece& piece = pieces[i];
        const size_t offset = piece.span.start - extent.start;
        if (offset + piece.span.nbytes <= filled)
            // Places are disjoint: no lock for the bytes.
            memcpy(bytes.data() + piece.place, buffer + offset, piece.span.nbytes);
        else if (!missing || piece.index < missing->index)
            missing = &piece;
    }
    const std::lock_guard<std::mutex> guard(lock);
    nbytes_read += filled;
    if (missing && (!has_failed || missing->index < failed.span)) {
        has_failed = true;
        failed = {missing->index, error};
    }
    if (--remaining == 0) changed.notify_all();
}

RowBatch::RowBatch(std::unique_ptr<State> state) : state_(std::move(state)) {}
RowBatch::~RowBatch() = default;

bool RowBatch::wait(double seconds) const {
    std::unique_lock<std::mutex> guard(state_->lock);
    return state_->changed.wait_for(guard, std::chrono::duration<double>(seconds), [&] { return state_->remaining == 0; });
}

const RowFailure* RowBatch::failure() const { return state_->has_failed ? &state_->failed : nullptr; }

const uint8_t* RowBatch::bytes() const { return state_->bytes.data(); }

size_t RowBatch::reads() const { return state_->extents.size(); }

size_t RowBatch::nbytes_read() const {
    const std::lock_guard<std::mutex> guard(state_->lock);
    return state_->nbytes_read;
}

namespace {

// A read that somebody has taken on.
struct Job {
    std::shared_ptr<RowBatch> batch;
    const Extent* extent = nullptr;

    void finish(const uint8_t* buffer, size_t filled, int error) {
        batch->state()->finish(*extent, buffer, filled, error);
        batch.reset();
    }
};

// Batches in the order they were submitted; workers take their extents one by one.
struct Queue {
    std::mutex lock;
    std::condition_variable filled;
    std::deque<std::shared_ptr<RowBatch>> batches;
    size_t next = 0;  // extent of the first batch
    bool stopping = false;

    void push(const std::shared_ptr<RowBatch>& batch) {
        {
            const std::lock_guard<std::mutex> guard(lock);
            batches.push_back(batch);
        }
        filled.notify_all();
    }

    // The next read; false when there is none, or when the reader ends and `wait` would be for ever.
    bool take(Job& job, bool wait) {
        std::unique_lock<std::mutex> guard(lock);
        if (wait) filled.wait(guard, [&] { return stopping || !batches.empty(); });
        if (batches.empty() || stopping) return false;
        const std::vector<Extent>& extents = batches.front()->state()->extents;
        job = {batches.front(), &extents[next++]};
        if (next == extents.size()) {
            batches.pop_front();
            next = 0;
        }
        return true;
    }

    // Nobody takes anything any more.
    void stop() {
        {
            const std::lock_guard<std::mutex> guard(lock);
            stopping = true;
        }
        filled.notify_all();
    }

    // What nobody took fails with `error`.
    void fail_rest(int error) {
        const std::lock_guard<std::mutex> guard(lock);
        for (; !batches.empty(); batches.pop_front(), next = 0) {
            const std::vector<Extent>& extents = batches.front()->state()->extents;
            for (; next < extents.size(); ++next) batches.front()->state()->finish(extents[next], nullptr, 0, error);
        }
    }
};

// The extents of a queue, read into `depth` buffers of a worker's own, out of which batches take their rows.
class Extents {
   public:
    using Task = Job;
    Extents(Queue& queue, size_t depth) : queue_(queue), memory_(aligned_buffer(depth * kMostNbytes)) {}

    bool take(Job& job, bool wait) { return queue_.take(job, wait); }
    DiskRead read(const Job& job, uint32_t slot) const {
        const Extent& extent = *job.extent;
        return {extent.file.fd, extent.file.direct, extent.start, extent.nbytes, extent.needed, memory_of(slot)};
    }
    void finish(Job& job, uint32_t slot, size_t filled, int error) { job.finish(memory_of(slot), filled, error); }
    bool is_empty(const Job& job) const { return !job.batch; }
    void leak() { memory_.get_deleter().is_kept = true; }

   private:
    uint8_t* memory_of(uint32_t slot) const { return memory_.get() + slot * kMostNbytes; }

    Queue& queue_;
    Buffer memory_;
};

}  // namespace

struct RowReader::State {
    const pid_t process = getpid();
    uint64_t shuffle = 0;
    std::mutex lock;
    std::vector<File> files;
    Queue queue;
    std::unique_ptr<Ring> ring;
    int refusal = 0;
    std::vector<std::thread> workers;
};

RowReader::RowReader(const RowReaderOptions& options) : state_(new State) {
    state_->shuffle = options.shuffle;
    if (options.uring) state_->ring = Ring::create(static_cast<uint32_t>(options.depth), state_->refusal);
    const SignalsHeld held;
    Queue& queue = state_->queue;
    if (Ring* ring = state_->ring.get()) {
        const size_t depth = options.depth;
        state_->workers.emplace_back([&queue, ring, depth] { RingWorker(Extents(queue, depth), *ring, depth).serve(); });
        return;
    }
    for (size_t i = 0; i < options.threads; ++i) try {
            state_->workers.emplace_back([&queue] { serve_with_pread(Extents(queue, 1)); });
        } catch (const std::system_error&) {
            // A machine that has no more threads to give gets the same reads done by fewer.
            if (i == 0) throw;
            break;
        }
}

RowReader::~RowReader() {
    if (is_parents()) return;  // threads, locks and files are the parent's
    state_->queue.stop();
    for (std::thread& worker : state_->workers) worker.join();
    state_->queue.fail_rest(ECANCELED);
    for (const File& file : state_->files) close(file.fd);
    delete state_;
}

const char* RowReader::kind() const { return state_->ring ? "io_uring" : "threads"; }

int RowReader::refusal() const { return state_->refusal; }

bool RowReader::is_parents() const { return getpid() != state_->process; }

uint32_t RowReader::add_file(int fd, bool direct) {
    const std::lock_guard<std::mutex> guard(state_->lock);
    state_->files.push_back({fd, direct});
    return static_cast<uint32_t>(state_->files.size() - 1);
}

std::shared_ptr<RowBatch> RowReader::submit(const std::vector<RowSpan>& spans) {
    auto made = std::make_unique<RowBatch::State>();
    {
        const std::lock_guard<std::mutex> guard(state_->lock);
        made->plan(spans, state_->files);
        if (state_->shuffle)
            std::shuffle(made->extents.begin(), made->extents.end(), std::mt19937_64(state_->shuffle++));
    }
    auto batch = std::make_shared<RowBatch>(std::move(made));
    if (!batch->state()->extents.empty()) state_->queue.push(batch);
    return batch;
}
