/* warp.h - what a kernel calls: indices, barriers, warp operations, atomics. */
#ifndef CUDA_HOST_WARP_H
#define CUDA_HOST_WARP_H

#include "cuda_host/prelude.h"
#include "cuda_host/vector_types.h"

#include <cstdint>
#include <cstring>

extern uint3 threadIdx, blockIdx; /* of the fiber that runs */
extern dim3 blockDim, gridDim;
static const int warpSize = 32;

namespace cuda_host {

enum barrier_kind { BARRIER, BARRIER_COUNT, BARRIER_AND, BARRIER_OR };
/* All threads of the block wait here. Returns how many had a predicate, or whether all or any had. */
int barrier(barrier_kind kind, int predicate);

/* What the lanes of a warp do together: called once, when all lanes of the mask have arrived. in[lane] and
 * out[lane] are NULL for the others. */
typedef void together(unsigned lanes, const void *const in[32], void *const out[32]);
void warp_meet(const char *what, unsigned mask, const void *in, void *out, together *all);

struct shuffle_in {
    uint64_t value;
    int from; /* lane whose value this one gets */
};
void shuffle(const char *what, unsigned mask, const shuffle_in *in, uint64_t *out);

struct vote_in {
    int predicate;
};
unsigned ballot(const char *what, unsigned mask, int predicate);

int lane(); /* of this thread in its warp */

template <class T> T shuffle_value(const char *what, unsigned mask, T value, int from) {
    static_assert(sizeof(T) <= 8, "shuffles move up to 8 bytes");
    shuffle_in in = {0, from};
    uint64_t out = 0;
    memcpy(&in.value, &value, sizeof value);
    shuffle(what, mask, &in, &out);
    memcpy(&value, &out, sizeof value);
    return value;
}

/* The copies of cp.async, which happen only when they are waited for. */
void copy_later(void *to, const void *from, int bytes, int valid);
void copy_commit();
void copy_wait(int groups_left);

} // namespace cuda_host

/* ---- barriers ---- */

static inline void __syncthreads() {
    cuda_host::barrier(cuda_host::BARRIER, 0);
}
static inline int __syncthreads_count(int predicate) {
    return cuda_host::barrier(cuda_host::BARRIER_COUNT, predicate);
}
static inline int __syncthreads_and(int predicate) {
    return cuda_host::barrier(cuda_host::BARRIER_AND, predicate);
}
static inline int __syncthreads_or(int predicate) {
    return cuda_host::barrier(cuda_host::BARRIER_OR, predicate);
}
static inline void __syncwarp(unsigned mask = 0xffffffffu) {
    cuda_host::ballot("__syncwarp", mask, 0);
}
/* Memory is shared by fibers of one thread, so fences have nothing to do. */
static inline void __threadfence() {
}
static inline void __threadfence_block() {
}

/* ---- warps; `width` divides the warp into parts as in CUDA ---- */

template <class T> static inline T __shfl_sync(unsigned mask, T value, int from, int width = 32) {
    int first = cuda_host::lane() / width * width;
    return cuda_host::shuffle_value("__shfl_sync", mask, value, first + (from & (width - 1)));
}
template <class T> static inline T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32) {
    int lane = cuda_host::lane(), from = lane ^ bits;
    return cuda_host::shuffle_value("__shfl_xor_sync", mask, value,
                                    from / width > lane / width ? lane : from);
}
template <class T> static inline T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32) {
    int lane = cuda_host::lane(), from = lane - (int)by;
    return cuda_host::shuffle_value("__shfl_up_sync", mask, value, from < lane / width * width ? lane : from);
}
template <class T> static inline T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32) {
    int lane = cuda_host::lane(), from = lane + (int)by;
    return cuda_host::shuffle_value("__shfl_down_sync", mask, value,
                                    from / width > lane / width ? lane : from);
}
static inline unsigned __ballot_sync(unsigned mask, int predicate) {
    return cuda_host::ballot("__ballot_sync", mask, predicate);
}
static inline int __any_sync(unsigned mask, int predicate) {
    return cuda_host::ballot("__any_sync", mask, predicate) != 0;
}
static inline int __all_sync(unsigned mask, int predicate) {
    return cuda_host::ballot("__all_sync", mask, !predicate) == 0;
}

/* ---- atomics: fibers switch only at barriers and warp operations, so plain code is atomic ---- */

template <class T, class U> static inline T atomicAdd(T *at, U value) {
    T old = *at;
    *at = static_cast<T>(old + static_cast<T>(value));
    return old;
}
template <class T, class U> static inline T atomicMax(T *at, U value) {
    T old = *at;
    if (static_cast<T>(value) > old) *at = static_cast<T>(value);
    return old;
}
template <class T, class U> static inline T atomicMin(T *at, U value) {
    T old = *at;
    if (static_cast<T>(value) < old) *at = static_cast<T>(value);
    return old;
}
template <class T, class U> static inline T atomicExch(T *at, U value) {
    T old = *at;
    *at = static_cast<T>(value);
    return old;
}
template <class T, class U> static inline T atomicOr(T *at, U value) {
    T old = *at;
    *at = old | static_cast<T>(value);
    return old;
}
template <class T, class U, class V> static inline T atomicCAS(T *at, U expected, V value) {
    T old = *at;
    if (old == static_cast<T>(expected)) *at = static_cast<T>(value);
    return old;
}

/* Caches are not emulated: these are plain loads and stores. */
template <class T> static inline T __ldg(const T *at) {
    return *at;
}
template <class T> static inline T __ldcs(const T *at) {
    return *at;
}
template <class T> static inline T __ldcg(const T *at) {
    return *at;
}
template <class T> static inline void __stcs(T *at, T value) {
    *at = value;
}
template <class T> static inline void __stcg(T *at, T value) {
    *at = value;
}

#endif
