// The thread pool. Workers spin a little, then sleep on a futex; work is handed out piece by piece.
//
// A region of work is open while the caller works on it. A worker enters only an open region and the caller waits only
// for those that entered: one that sleeps on a busy core is not waited for.
#include "pool.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "scratch.inl"
#include "signals_held.h"

namespace {

constexpr std::chrono::microseconds kSpin{50};
constexpr uint32_t kOpen = 1u << 16, kInside = kOpen - 1;

inline void pause_briefly() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// Spins until `done`, at most kSpin; whether it came to pass.
template <typename Condition>
bool spin_until(const Condition& done) {
    const auto end = std::chrono::steady_clock::now() + kSpin;
    do {
        for (int i = 0; i < 64; ++i) {
            if (done()) return true;
            pause_briefly();
        }
    } while (std::chrono::steady_clock::now() < end);
    return done();
}

}  // namespace

struct ShoalPool {
    explicit ShoalPool(size_t threads);
    ~ShoalPool();

    const size_t threads;
    ShoalPool* following = nullptr;
    std::mutex callers;
    bool started = false, stopping = false;
    // What the open region does.
    ShoalTask task = nullptr;
    void* context = nullptr;
    size_t count = 0;
    alignas(64) std::atomic<size_t> next{0};
    alignas(64) std::atomic<uint32_t> state{0};
    alignas(64) std::atomic<int> generation{0};
    std::vector<std::thread> workers;
    ScratchStack scratch;

    void work(size_t worker) {
        for (size_t i = next.fetch_add(1, std::memory_order_relaxed); i < count;
             i = next.fetch_add(1, std::memory_order_relaxed))
            task(context, i, worker);
    }

    bool enter() {
        uint32_t seen = state.load(std::memory_order_relaxed);
        while (seen & kOpen)
            if (state.compare_exchange_weak(seen, seen + 1, std::memory_order_acquire)) return true;
        return false;
    }

    void serve(size_t worker) {
        int seen = 0;
        for (;;) {
            const auto changed = [&] { return generation.load(std::memory_order_acquire) != seen; };
            if (!spin_until(changed)) generation.wait(seen, std::memory_order_acquire);
            seen = generation.load(std::memory_order_acquire);
            if (!enter()) continue;
            const bool last = stopping;
            if (!last) work(worker);
            // Sequentially consistent like the one in `open`: notify_one then sees a caller that began to wait before.
            state.fetch_sub(1);
            state.notify_one();
            if (last) return;
        }
    }

    // A machine that has no more threads to give gets the same work done by fewer.
    void start() {
        if (started) return;
        started = true;
        const SignalsHeld held;
        workers.reserve(threads - 1);
        try {
            for (size_t worker = 1; worker < threads; ++worker) workers.emplace_back([this, worker] { serve(worker); });
        } catch (const std::system_error&) {
        }
    }

    // In a child process: none of the parent's threads is here and their handles must not be joined.
    void forget_workers() {
        for (std::thread& worker : workers) new (&worker) std::thread();
        workers.clear();
        started = false;
        generation.store(0);
        state.store(0);
    }

    void open() {
        next.store(0, std::memory_order_relaxed);
        state.store(kOpen, std::memory_order_release);
        generation.fetch_add(1);
        generation.notify_all();
    }

    void close() {
        state.fetch_and(~kOpen, std::memory_order_acquire);
        const auto empty = [&] { return (state.load(std::memory_order_acquire) & kInside) == 0; };
        while (!spin_until(empty)) {
            const uint32_t seen = state.load(std::memory_order_acquire);
            if (seen & kInside) state.wait(seen, std::memory_order_acquire);
        }
    }
};

namespace {

// Every pool of the process. A fork waits for the operators that run, so that the child finds all pools at rest.
std::mutex all_pools;
ShoalPool* first_pool = nullptr;

void before_fork() {
    all_pools.lock();
    for (ShoalPool* pool = first_pool; pool; pool = pool->following) pool->callers.lock();
}

void after_fork() {
    for (ShoalPool* pool = first_pool; pool; pool = pool->following) pool->callers.unlock();
    all_pools.unlock();
}

void after_fork_in_child() {
    for (ShoalPool* pool = first_pool; pool; pool = pool->following) pool->forget_workers();
    after_fork();
}

[[maybe_unused]] const int fork_is_watched = pthread_atfork(before_fork, after_fork, after_fork_in_child);

}  // namespace

ShoalPool::ShoalPool(size_t threads) : threads(threads) {
    const std::lock_guard<std::mutex> lock(all_pools);
    following = first_pool;
    first_pool = this;
}

ShoalPool::~ShoalPool() {
    {
        const std::lock_guard<std::mutex> lock(all_pools);
        ShoalPool** link = &first_pool;
        while (*link != this) link = &(*link)->following;
        *link = following;
    }
    stopping = true;
    open();
    for (std::thread& worker : workers) worker.join();
}

extern "C" {

ShoalPool* shoal_pool_create(size_t threads) { return new ShoalPool(threads ? threads : 1); }

void shoal_pool_destroy(ShoalPool* pool) { delete pool; }

size_t shoal_pool_threads(const ShoalPool* pool) { return pool->threads; }

void shoal_pool_run(ShoalPool* pool, size_t count, ShoalTask task, void* context) {
    if (count <= 1 || pool->threads == 1) {
        for (size_t i = 0; i < count; ++i) task(context, i, 0);
        return;
    }
    pool->start();
    pool->task = task;
    pool->context = context;
    pool->count = count;
    pool->open();
    pool->work(0);
    pool->close();
}

void shoal_pool_lock(ShoalPool* pool) { pool->callers.lock(); }

void shoal_pool_unlock(ShoalPool* pool) { pool->callers.unlock(); }

size_t shoal_scratch_mark(const ShoalPool* pool) { return pool->scratch.used; }

void* shoal_scratch(ShoalPool* pool, size_t nbytes) { return pool->scratch.take(nbytes); }

void shoal_scratch_release(ShoalPool* pool, size_t mark) { pool->scratch.release(mark); }
}
