/* signals.c - see signals.h. OpenMP gives the same threads to one region after the other where these have the
 * same size and the same calling thread; a thread that is new inherits what its maker blocks. */
#include "ops/cpu/onednn/signals.h"

#include <omp.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint64_t bit(int signal) {
    return (uint64_t)1 << (signal - 1);
}

/* A mask of the kernel has 64 bits; with these arguments the call cannot fail. */
static void hold(signal_mask *mask) {
    uint64_t faults = bit(SIGSEGV) | bit(SIGBUS) | bit(SIGFPE) | bit(SIGILL) | bit(SIGTRAP) | bit(SIGSYS);
    uint64_t waiting = ~faults;
    mask->is_held = syscall(SYS_rt_sigprocmask, SIG_BLOCK, &waiting, &mask->blocked, sizeof waiting) == 0;
}

static void release(signal_mask *mask) {
    if (mask->is_held) syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask->blocked, NULL, sizeof mask->blocked);
    mask->is_held = false;
}

/* The calling thread is last to hold, since threads that the region makes inherit its mask, and would have it
 * for good. */
void signals_hold(signal_mask *masks, int threads) {
#pragma omp parallel num_threads(threads)
    if (omp_get_thread_num()) hold(&masks[omp_get_thread_num()]);
    hold(&masks[0]);
}

void signals_release(signal_mask *masks, int threads) {
#pragma omp parallel num_threads(threads)
    if (omp_get_thread_num()) release(&masks[omp_get_thread_num()]);
    release(&masks[0]);
}
