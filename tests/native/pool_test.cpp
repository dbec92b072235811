// Drives the thread pool: `pool_test stress | fork | scratch | starved | region | latency`.
//
// What does not hold is a line on stderr and exit code 1.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "parallel.inl"

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

void check(bool holds, const char* fact) {
    if (holds) return;
    fprintf(stderr, "not so: %s\n", fact);
    _exit(1);
}

void sleep_microseconds(long microseconds) {
    const timespec time = {0, microseconds * 1000};
    nanosleep(&time, nullptr);
}

// Every piece is done once, and no two at once by the same worker. `marks` is plain memory: a race on it is a race.
void run_region(ShoalPool* pool, size_t count) {
    std::vector<int> marks(count, 0);
    std::vector<std::atomic<int>> inside(shoal_pool_threads(pool));
    parallel(pool, count, [&](size_t index, size_t worker) {
        check(worker < inside.size(), "a worker is below the number of threads");
        check(inside[worker].fetch_add(1) == 0, "a worker does one piece at a time");
        ++marks[index];
        inside[worker].fetch_sub(1);
    });
    for (const int mark : marks) check(mark == 1, "every piece is done once before the region ends");
}

void call(ShoalPool* pool, size_t count) {
    shoal_pool_lock(pool);
    run_region(pool, count);
    shoal_pool_unlock(pool);
}

// Callers from several threads, regions back to back and with pauses that let the workers fall asleep.
void stress(size_t threads, double seconds) {
    ShoalPool* pool = shoal_pool_create(threads);
    std::vector<std::thread> callers;
    for (unsigned caller = 0; caller < 3; ++caller)
        callers.emplace_back([=] {
            unsigned seed = caller;
            for (const Clock::time_point start = Clock::now(); seconds_since(start) < seconds;) {
                call(pool, static_cast<size_t>(rand_r(&seed)) % 40);
                if (rand_r(&seed) % 8 == 0) sleep_microseconds(rand_r(&seed) % 300);
            }
        });
    for (std::thread& caller : callers) caller.join();
    shoal_pool_destroy(pool);
}

void short_lives(size_t lives) {
    for (size_t life = 0; life < lives; ++life) {
        ShoalPool* pool = shoal_pool_create(1 + life % 4);
        for (size_t region = 0; region < life % 3; ++region) call(pool, 8);
        shoal_pool_destroy(pool);
    }
}

// A child of a fork uses the pool, and so does its own child; both destroy it.
void fork_and_use(ShoalPool* pool, int generations) {
    const pid_t child = fork();
    check(child >= 0, "a fork succeeds");
    if (child == 0) {
        alarm(20);
        std::thread other([=] { call(pool, 20); });
        call(pool, 20);
        other.join();
        if (generations > 1) fork_and_use(pool, generations - 1);
        shoal_pool_destroy(pool);
        _exit(0);
    }
    call(pool, 20);
    int status = 0;
    waitpid(child, &status, 0);
    check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child of a fork works and ends");
}

// Forks before the first work, while workers spin, while they sleep, and while another thread's work is under way.
void forks(size_t threads, int rounds) {
    ShoalPool* pool = shoal_pool_create(threads);
    fork_and_use(pool, 1);
    std::atomic<bool> done{false};
    std::thread caller([&] {
        while (!done) call(pool, 30);
    });
    for (int round = 0; round < rounds; ++round) fork_and_use(pool, 2);
    done = true;
    caller.join();
    for (int round = 0; round < rounds; ++round) {
        call(pool, 20);
        if (round % 2) sleep_microseconds(2000);
        fork_and_use(pool, 2);
    }
    shoal_pool_destroy(pool);
}

std::atomic<int> allocations{0};

// What an operator made of others does: a piece of its own, and inside it scopes that take more than is left.
void take_and_release(ShoalPool* pool) {
    Scratch outer(pool);
    check(reinterpret_cast<uintptr_t>(outer.take<char>(100)) % 64 == 0, "pieces are aligned");
    for (int inner = 0; inner < 3; ++inner) {
        Scratch scope(pool);
        char* first = scope.take<char>(3 << 20);
        double* second = scope.take<double>(1 << 18);
        memset(first, 1, 3 << 20);
        memset(second, 2, sizeof(double) << 18);
        check(first[(3 << 20) - 1] == 1, "pieces do not overlap");
    }
    outer.take<char>(5 << 20)[0] = 3;
}

void scratch() {
    ShoalPool* pool = shoal_pool_create(1);
    take_and_release(pool);
    take_and_release(pool);
    const int before = allocations;
    for (int round = 0; round < 100; ++round) take_and_release(pool);
    check(allocations == before, "calls that are alike allocate nothing");
    check(shoal_scratch_mark(pool) == 0, "everything was given back");
    shoal_pool_destroy(pool);
}

// No address space for stacks of threads: the work is done all the same.
void starved() {
    const rlimit limit = {1 << 20, 1 << 20};
    setrlimit(RLIMIT_AS, &limit);
    ShoalPool* pool = shoal_pool_create(4);
    shoal_pool_lock(pool);
    std::atomic<size_t> done{0};
    parallel(pool, 100, [&](size_t, size_t worker) {
        check(worker == 0, "no thread could be started");
        ++done;
    });
    check(done == 100, "one thread does all the work");
    shoal_pool_unlock(pool);
    shoal_pool_destroy(pool);
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

volatile uint64_t sink;

void spend(size_t rounds) {
    uint64_t x = 1;
    for (size_t i = 0; i < rounds; ++i) x = x * 6364136223846793005u + 1442695040888963407u;
    sink = x;
}

// Seconds of a region of 100 pieces that take about 5 ms on two free cores, in ms: median, then the ninth decile.
void region(size_t threads) {
    ShoalPool* pool = shoal_pool_create(threads);
    shoal_pool_lock(pool);
    std::vector<double> seconds;
    for (int round = 0; round < 50; ++round) {
        const Clock::time_point start = Clock::now();
        parallel(pool, 100, [](size_t, size_t) { spend(60000); });
        seconds.push_back(seconds_since(start));
    }
    std::sort(seconds.begin(), seconds.end());
    printf("%.3f %.3f\n", seconds[25] * 1e3, seconds[45] * 1e3);
    shoal_pool_unlock(pool);
    shoal_pool_destroy(pool);
}

// Microseconds of two pieces of 10 us: back to back, 30 us apart, and after the workers fell asleep.
void latency() {
    ShoalPool* pool = shoal_pool_create(2);
    shoal_pool_lock(pool);
    for (const long pause : {0L, 30L, 2000L}) {
        std::vector<double> seconds;
        for (int round = 0; round < 400; ++round) {
            const Clock::time_point idle = Clock::now();
            if (pause > 1000) sleep_microseconds(pause);
            while (seconds_since(idle) * 1e6 < static_cast<double>(pause)) {
            }
            const Clock::time_point start = Clock::now();
            parallel(pool, 2, [](size_t, size_t) { spend(11500); });
            seconds.push_back(seconds_since(start));
        }
        printf("after %ld us: %.1f us\n", pause, median(seconds) * 1e6);
    }
    std::vector<double> alone;
    for (int round = 0; round < 400; ++round) {
        const Clock::time_point start = Clock::now();
        spend(11500);
        alone.push_back(seconds_since(start));
    }
    printf("one piece alone: %.1f us\n", median(alone) * 1e6);
    shoal_pool_unlock(pool);
    shoal_pool_destroy(pool);
}

}  // namespace

// The linker sends the pool's allocations here.
extern "C" int __real_posix_memalign(void** memory, size_t alignment, size_t size);
extern "C" int __wrap_posix_memalign(void** memory, size_t alignment, size_t size);
extern "C" int __wrap_posix_memalign(void** memory, size_t alignment, size_t size) {
    ++allocations;
    return __real_posix_memalign(memory, alignment, size);
}

int main(int, char** arguments) {
    const char* what = arguments[1] ? arguments[1] : "";
    const auto is = [&](const char* name) { return strcmp(what, name) == 0; };
    if (is("stress")) {
        for (const size_t threads : {1, 2, 5}) stress(threads, 0.4);
        short_lives(200);
    } else if (is("fork")) {
        for (const size_t threads : {1, 2, 4}) forks(threads, 10);
    } else if (is("scratch")) {
        scratch();
    } else if (is("starved")) {
        starved();
    } else if (is("region")) {
        region(2);
    } else if (is("latency")) {
        latency();
    } else {
        fprintf(stderr, "pool_test stress | fork | scratch | starved | region | latency\n");
        return 2;
    }
    return 0;
}
