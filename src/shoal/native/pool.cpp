// The thread pool. Workers spin a little, then sleep on a futex; work is handed out piece by piece.
//
// A region of work is open while the caller works on it. A worker enters only an open region and the caller waits only for
// those that entered: one that sleeps on a busy core is not waited for.
#include "pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

namespace {

constexpr std::chrono::microseconds kSpin{60};
constexpr uint32_t kOpen = 1u << 16, kInside = kOpen - 1;
constexpr size_t kAlignment = 64, kHugePage = size_t{1} << 21;

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

}  // namespace

struct ShoalPool {
    explicit ShoalPool(size_t threads) : threads(threads) {}

    const size_t threads;
    std::mutex callers;
    pid_t owner = 0;
    bool stopping = false;
    // What the open region does.
    ShoalTask task = nullptr;
    void* context = nullptr;
    size_t count = 0;
    alignas(64) std::atomic<size_t> next{0};
    alignas(64) std::atomic<uint32_t> state{0};
    alignas(64) std::atomic<int> generation{0};
    std::vector<std::thread> workers;
    std::vector<Block> blocks;

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
            state.fetch_sub(1, std::memory_order_release);
            state.notify_one();
            if (last) return;
        }
    }

    void start() {
        const pid_t here = getpid();
        if (owner == here) return;
        // After a fork none of the parent's threads is here; their handles mean nothing and must not be joined.
        if (owner != 0) new (&workers) std::vector<std::thread>();
        owner = here;
        generation.store(0);
        state.store(0);
        for (size_t worker = 1; worker < threads; ++worker) workers.emplace_back([this, worker] { serve(worker); });
    }

    void open() {
        next.store(0, std::memory_order_relaxed);
        state.store(kOpen, std::memory_order_release);
        generation.fetch_add(1, std::memory_order_release);
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

extern "C" {

ShoalPool* shoal_pool_create(size_t threads) { return new ShoalPool(threads ? threads : 1); }

void shoal_pool_destroy(ShoalPool* pool) {
    if (pool->owner == getpid() && !pool->workers.empty()) {
        pool->stopping = true;
        pool->open();
        for (std::thread& worker : pool->workers) worker.join();
    } else {
        new (&pool->workers) std::vector<std::thread>();
    }
    for (const Block& block : pool->blocks) free(block.memory);
    delete pool;
}

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

void shoal_pool_lock(ShoalPool* pool) {
    if (pool->owner != 0 && pool->owner != getpid()) {
        // Another thread of the parent may have held it, and its working room, when the process forked.
        new (&pool->callers) std::mutex();
        for (Block& block : pool->blocks) block.used = 0;
    }
    pool->callers.lock();
}

void shoal_pool_unlock(ShoalPool* pool) { pool->callers.unlock(); }

size_t shoal_scratch_mark(const ShoalPool* pool) {
    size_t used = 0;
    for (const Block& block : pool->blocks) used += block.used;
    return used;
}

void* shoal_scratch(ShoalPool* pool, size_t nbytes) {
    const size_t size = (nbytes + kAlignment - 1) / kAlignment * kAlignment;
    if (pool->blocks.empty() || pool->blocks.back().size - pool->blocks.back().used < size)
        pool->blocks.push_back(new_block(size));
    Block& block = pool->blocks.back();
    char* piece = block.memory + block.used;
    block.used += size;
    return piece;
}

void shoal_scratch_release(ShoalPool* pool, size_t mark) {
    size_t used = shoal_scratch_mark(pool), total = 0;
    while (!pool->blocks.empty() && used - pool->blocks.back().used >= mark && pool->blocks.size() > 1) {
        used -= pool->blocks.back().used;
        total += pool->blocks.back().size;
        free(pool->blocks.back().memory);
        pool->blocks.pop_back();
    }
    if (pool->blocks.empty()) return;
    pool->blocks.back().used -= used - mark;
    // What needed several blocks gets one that is large enough next time.
    if (total && mark == 0) {
        total += pool->blocks.back().size;
        free(pool->blocks.back().memory);
        pool->blocks.back() = new_block(total);
    }
}
}
