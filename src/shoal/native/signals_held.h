// Threads of our own leave the process's signals to Python.
#pragma once

#include <pthread.h>
#include <signal.h>

// While it lives, signals of the process go to its other threads: those started meanwhile inherit the mask and leave
// Ctrl-C to Python. Faults of a thread's own stay its own.
struct SignalsHeld {
    SignalsHeld() {
        sigset_t held;
        sigfillset(&held);
        for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) sigdelset(&held, fault);
        pthread_sigmask(SIG_SETMASK, &held, &before);
    }
    ~SignalsHeld() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
    SignalsHeld(const SignalsHeld&) = delete;
    SignalsHeld& operator=(const SignalsHeld&) = delete;
    sigset_t before;
};
