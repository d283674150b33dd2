/* signals.h - signals wait while a product of oneDNN runs whose stack pointer is not a stack pointer.
 *
 * The f32 product "gemm:jit" (jit_avx_gemm_f32 below AVX-512, jit_avx512_common_gemm_f32 above; oneDNN 2.6 to
 * 3.7) packs a block of an operand into a buffer of the heap when its sums are longer than 252 (84) terms,
 * and points the stack pointer at the start of that buffer. A signal that arrives then writes its frame, some
 * kilobytes, below the buffer: over other blocks of the heap. So no signal may arrive in a thread that
 * computes such a product: not the program's own, and not those of the timers, profilers or interpreters
 * around it. They stay pending, and arrive when the product is complete. Convolutions and inner products that
 * call it have "gemm" in their names, too; the batch-reduced products ("brgemm") keep the stack.
 *
 * What faults raise (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS) cannot wait. glibc's own two signals,
 * by which setuid and pthread_cancel reach other threads, wait as well: glibc's functions leave those out, so
 * Linux is called directly. Two calls and two empty parallel regions cost 1 to 3 us a product. */
#ifndef WEFT_OPS_CPU_ONEDNN_SIGNALS_H
#define WEFT_OPS_CPU_ONEDNN_SIGNALS_H

#include <stdbool.h>
#include <stdint.h>

/* What a thread of the team had blocked before. */
typedef struct signal_mask {
    uint64_t blocked; /* bit s - 1: signal s */
    bool is_held;     /* its signals wait now */
} signal_mask;

/* The signals of the calling thread and of its OpenMP team of `threads` wait until signals_release. The team
 * is the one that the next parallel region of that size gets. masks: [threads], zero at first. */
void signals_hold(signal_mask *masks, int threads);
void signals_release(signal_mask *masks, int threads);

#endif
