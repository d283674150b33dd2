/* sort.cuh - a stable radix sort of keys with numbers, 8 bits at a time from the lowest: count the digits of
 * each tile, sum the counts by digit and then by tile, and move each key to the place after all smaller
 * digits and all earlier keys with its digit. Equal keys keep their order, and every kernel writes the same
 * bits however its threads ran: only integers are added atomically. */
#ifndef WEFT_OPS_CUDA_KIT_SORT_CUH
#define WEFT_OPS_CUDA_KIT_SORT_CUH

#include "ops/cuda/kit/kernel.cuh"

extern "C" {
#include "ops/cuda/kit/sort.h"
}

/* Keys, and the numbers that move with them. */
struct sort_list {
    int *key, *number;
};

/* The buffers of a sort. The caller puts keys into from.key and their numbers into from.number first. */
struct sort_space {
    sort_list from, to;
    int *counts; /* [digits, tiles] */
    int n, tiles;
};

/* Places the buffers in `room`: sort_room(n) ints. */
static inline sort_space sort_space_at(int *room, int64_t n) {
    sort_list from = {room, room + n}, to = {room + 2 * n, room + 3 * n};
    return sort_space{from, to, room + 4 * n, (int)n, (int)sort_tiles(n)};
}

__device__ static inline int sort_digit(int key, int shift) {
    return key >> shift & (SORT_DIGITS - 1);
}

/* One block for each tile: a histogram in shared memory, then counts [digit, tile]. Thread i owns digit i. */
static __global__ void __launch_bounds__(SORT_THREADS) sort_count(sort_space s, int shift) {
    SHARED_ARRAY(int, count, [SORT_DIGITS]);
    count[threadIdx.x] = 0;
    __syncthreads();
    int first = (int)blockIdx.x * SORT_TILE, past = first + SORT_TILE < s.n ? first + SORT_TILE : s.n;
    for (int i = first + (int)threadIdx.x; i < past; i += SORT_THREADS)
        atomicAdd(&count[sort_digit(s.from.key[i], shift)], 1);
    __syncthreads();
    s.counts[(int)threadIdx.x * s.tiles + (int)blockIdx.x] = count[threadIdx.x];
}

enum { SCAN_THREADS = 1024 };

/* An exclusive prefix sum over counts, in place, by one block: a scan in each warp, the warps' totals, the
 * chunk of SCAN_THREADS before it. */
static __global__ void __launch_bounds__(SCAN_THREADS) sort_scan(sort_space s) {
    SHARED_ARRAY(int, warp_sum, [32]);
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, before = 0;
    for (int first = 0; first < SORT_DIGITS * s.tiles; first += SCAN_THREADS) {
        int i = first + (int)threadIdx.x, own = i < SORT_DIGITS * s.tiles ? s.counts[i] : 0, sum = own;
        for (int step = 1; step < 32; step *= 2) {
            int other = __shfl_up_sync(0xffffffffu, sum, step);
            if (lane >= step) sum += other;
        }
        if (lane == 31) warp_sum[warp] = sum;
        __syncthreads();
        int all = 0;
        for (int w = 0; w < 32; w++) {
            if (w == warp) sum += all;
            all += warp_sum[w];
        }
        if (i < SORT_DIGITS * s.tiles) s.counts[i] = before + sum - own;
        before += all;
        __syncthreads();
    }
}

/* The lanes of the warp whose key has this digit too, as a mask: one ballot for each bit. */
__device__ static inline unsigned sort_peers(int digit, bool is_there) {
    unsigned peers = __ballot_sync(0xffffffffu, is_there);
    for (int bit = 1; bit < SORT_DIGITS; bit *= 2) {
        unsigned set = __ballot_sync(0xffffffffu, digit & bit);
        peers &= digit & bit ? set : ~set;
    }
    return peers;
}

/* One block for each tile, SORT_THREADS keys at a time. The place of a key is next[digit] + those of lower
 * warps + those of lower lanes, which keeps the sort stable. */
static __global__ void __launch_bounds__(SORT_THREADS) sort_move(sort_space s, int shift) {
    constexpr int WARPS = SORT_THREADS / 32;
    SHARED_ARRAY(int, next, [SORT_DIGITS]);              /* where the tile's next key of a digit goes */
    SHARED_ARRAY(int, warp_count, [WARPS][SORT_DIGITS]); /* keys of a digit in each warp, in this turn */
    int tid = (int)threadIdx.x, lane = tid % 32, warp = tid / 32, first = (int)blockIdx.x * SORT_TILE;
    next[tid] = s.counts[tid * s.tiles + (int)blockIdx.x];
    for (int turn = first; turn < first + SORT_TILE && turn < s.n; turn += SORT_THREADS) {
        for (int w = 0; w < WARPS; w++) warp_count[w][tid] = 0;
        __syncthreads();
        int i = turn + tid;
        bool is_there = i < s.n;
        int key = is_there ? s.from.key[i] : 0, digit = sort_digit(key, shift);
        unsigned peers = sort_peers(digit, is_there), lower = peers & ((1u << lane) - 1);
        if (is_there && lower == 0) warp_count[warp][digit] = __popc(peers);
        __syncthreads();
        if (is_there) {
            int place = next[digit] + __popc(lower);
            for (int w = 0; w < warp; w++) place += warp_count[w][digit];
            s.to.key[place] = key;
            s.to.number[place] = s.from.number[i];
        }
        __syncthreads();
        for (int w = 0; w < WARPS; w++) next[tid] += warp_count[w][tid];
    }
}

/* Sorts keys below 2^bits; the result is in s.from, whose buffers may have changed places with s.to. */
static inline weft_status sort_keys(const kernel_call *c, sort_space &s, int bits) {
    for (int shift = 0; shift < bits; shift += 8) {
        dim3 tiles((unsigned)s.tiles);
        weft_status status = launch(c, sort_count, tiles, dim3(SORT_THREADS), 0, s, shift);
        if (!status) status = launch(c, sort_scan, dim3(1), dim3(SCAN_THREADS), 0, s);
        if (!status) status = launch(c, sort_move, tiles, dim3(SORT_THREADS), 0, s, shift);
        if (status) return status;
        sort_list moved = s.to;
        s.to = s.from;
        s.from = moved;
    }
    return WEFT_OK;
}

#endif
