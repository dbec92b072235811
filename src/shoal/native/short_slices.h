// A thread that works a moment after each sleep asks not to wait for those that compute.
#pragma once

#if defined(__linux__)
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

// From now on the calling thread asks for slices of a tenth of a millisecond: woken, it goes before threads that take
// longer ones, as those of the pool, which hold every processor while they compute (sched(7); Linux 6.12). It costs
// nothing and needs no privilege; where a system knows no such wish, it is not heard.
inline void ask_for_short_slices() {
#if defined(__linux__) && defined(SYS_sched_setattr)
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    } wish{};
    wish.size = sizeof wish;
    wish.nice = getpriority(PRIO_PROCESS, 0);
    wish.runtime = 100000;
    syscall(SYS_sched_setattr, 0, &wish, 0);
#endif
}
