/* cuda_host.h - the emulator without CUDA's names: what its parts share, and what tests and the fakes of
 * CUDA's libraries (cuBLASLt, cuDNN, NVRTC, NCCL) ask of it. It is C++; the switches for tests are C. */
#ifndef CUDA_HOST_H
#define CUDA_HOST_H

#include "cuda_host/cuda_runtime_api.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- for tests ---- */

/* The orders of threads, blocks and streams come from this seed (default: WEFT_CUDA_HOST_SEED, else 1). */
void cuda_host_seed(uint64_t seed);
/* Every launch runs twice in different orders, and must leave the same bits in all of the GPU's memory. Also
 * set by WEFT_CUDA_HOST_TWICE=1. */
void cuda_host_run_twice(int on);
/* The number of GPUs (1 at first), and the bytes of memory of each (8 GiB at first). */
void cuda_host_devices(int count);
void cuda_host_memory(size_t bytes);
/* The driver's version, 0: none is installed. With one that is older than CUDA no call finds a device or
 * memory; CUDART_VERSION at first. */
void cuda_host_driver(int version);
/* The n-th allocation from now on fails (1: the next); 0: none. */
void cuda_host_fail_allocation(int n);
/* What a wrong program did to the GPU; "" if nothing. As on a real GPU, every later call then returns
 * cudaErrorLaunchFailure, until cuda_host_forget_trouble. */
const char *cuda_host_trouble(void);
void cuda_host_forget_trouble(void);
/* Breaks the GPU as a wrong program does. */
void cuda_host_break(void);
/* Seconds after which a wait for which nothing can run is an error (20 at first). */
void cuda_host_patience(double seconds);

/* NCCL's network fails on this rank of every world; negative: repairs all. */
void cuda_host_nccl_break(int rank);
/* Ranks that make different NCCL calls wait for each other for ever, as on a real GPU, instead of breaking
 * it. */
void cuda_host_nccl_lenient(int on);
/* The version that ncclGetVersion returns from now on. */
void cuda_host_nccl_version(int version);

typedef struct cuda_host_counts {
    int allocations, pinned, streams, events, graphs; /* that exist now */
    size_t bytes;                                     /* of the GPUs' memory in use */
    size_t most_bytes;                                /* the most since the last cuda_host_count */
    int64_t launches, copies, calls; /* kernels, copies, calls of libraries: since the program began */
} cuda_host_counts;
cuda_host_counts cuda_host_count(void);

#ifdef __cplusplus
}

#include <functional>
#include <string>
#include <tuple>
#include <utility>

/* ---- for fakes of libraries ---- */
namespace cuda_host {

/* A kernel for cudaLaunchKernel and modules: how to call it, and the sizes of its arguments in bytes. */
struct kernel {
    void (*call)(void **args);
    int n_args;
    const size_t *bytes;
};

template <auto K> struct kernel_of;
template <class... P, void (*K)(P...)> struct kernel_of<K> {
    template <size_t... I> static void spread(void **args, std::index_sequence<I...>) {
        K(*static_cast<P *>(args[I])...);
    }
    static void call(void **args) {
        spread(args, std::index_sequence_for<P...>());
    }
    static constexpr size_t sizes[sizeof...(P) + 1] = {sizeof(P)..., 0};
    static constexpr kernel value = {call, (int)sizeof...(P), sizes};
};

/* Enqueues work on a stream (and into a graph, while the stream is captured), to be run on the GPU's side.
 * With `ready`, it waits until that returns true: for collectives, which need all ranks. `what` names it in
 * messages. */
cudaError_t enqueue(cudaStream_t stream, const char *what, std::function<void()> work,
                    std::function<bool()> ready = nullptr);
/* For calls that make a library's handle, which allocate memory, and for calls that free one, which also wait
 * for the device (their documentation says so): CUDA's error where a capture forbids that. */
cudaError_t library_opens();
cudaError_t library_closes();
/* Whether all of [memory, memory + bytes) is the GPU's. Fakes of libraries check their operands with it. */
bool is_device_memory(const void *memory, size_t bytes);
/* The work that runs takes so long, by the clock of events. Called on the GPU's side. */
void spend(double seconds);
/* Records what is wrong with the program and breaks the GPU. Called on the GPU's side. */
void trouble(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The next number of the seeded sequence. */
uint64_t random();

} // namespace cuda_host
#endif
#endif
