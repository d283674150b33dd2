/* attention_backward.cu - gradients of attention on tensor cores, after FlashAttention-2 (Dao, arXiv
 * 2307.08691, algorithm 2), in two passes so that every sum has one owner and one order: blocks of queries
 * walk over the keys for dq (and store delta = dy . y for the other pass), then blocks of keys walk over the
 * queries for dk and dv. Both compute the scores again: 7 products instead of 5, but neither atomics nor a
 * copy of dq for each block of keys. */
#include "ops/cuda/attention/attention.cuh"

/* ---- dq ---- */

/* Tiles of WARPS * 16 MT queries and 32 keys; keys and values are double-buffered. */
template <int DP_> struct query_shape {
    static constexpr int DP = DP_, WARPS = 4, MT = DP == 64 ? 2 : 1, THREADS = WARPS * 32;
    static constexpr int QUERIES = WARPS * 16 * MT, KEYS = 32;
    /* of shared memory: q and dy, two buffers of k and of v */
    static constexpr size_t ELEMENTS = (size_t)(2 * QUERIES + 4 * KEYS) * DP;
};

/* delta = dy . y of a warp's rows [first, first + 16), two lanes to a row. Stores them for the second pass
 * and returns rows g and g + 8 of the lane in delta[0] and [1]. */
template <int DP, class T>
__device__ static inline void row_deltas(const backward_operands<T> &s, int64_t pair, const T *tile_dy,
                                         int row, int first, float (&delta)[2]) {
    int lane = (int)threadIdx.x % 32, r = lane / 2;
    const T *y = s.y.at(s.z, pair) + (first + r) * s.y.row;
    float sum = 0;
    for (int chunk = lane % 2; chunk * 8 < s.z.d && first + r < s.z.t; chunk += 2) {
        float a[8], b[8] = {};
        load_floats<8>(tile_dy + tile_place<DP>(row + r, chunk), a);
        if (s.y.is_fast)
            load_floats<8>(y + chunk * 8, b);
        else
            for (int j = 0; j < 8 && chunk * 8 + j < s.z.d; j++) b[j] = to_float(y[chunk * 8 + j]);
        UNROLLED(j, 8) sum += a[j] * b[j];
    }
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    if (lane % 2 == 0 && first + r < s.z.t) s.delta[pair * s.z.t + first + r] = sum;
    delta[0] = __shfl_sync(0xffffffffu, sum, lane / 4 * 2);
    delta[1] = __shfl_sync(0xffffffffu, sum, lane / 4 * 2 + 16);
}

/* p holds scores and becomes ds = p (dp - delta), 0 where masked. lse is times log2 e. Element (n, i) is
 * query row + 8 (i / 2), key + 8 n + i % 2. */
template <int N>
__device__ static inline void query_ds(float (&p)[N][4], const float (&dp)[N][4], const attention_shape &z,
                                       const float (&lse)[2], const float (&delta)[2], bool is_whole, int row,
                                       int key) {
    UNROLLED(n, N)
        UNROLLED(i, 4) {
            int j = key + 8 * n + i % 2;
            bool is_seen = is_whole || (j < z.s && !(z.causal && j > row + i / 2 * 8));
            float power = fast_exp2(fmaf(p[n][i], z.scale_log2, -lse[i / 2]));
            p[n][i] = is_seen ? power * (dp[n][i] - delta[i / 2]) : 0.0f;
        }
}

/* dq = scale ds k for one tile of queries. Two blocks fit a multiprocessor. */
template <class T, class SHAPE>
__global__ void __launch_bounds__(SHAPE::THREADS, 2) attention_dq(backward_operands<T> s) {
    constexpr int DP = SHAPE::DP, MT = SHAPE::MT, KEYS = SHAPE::KEYS, QUERIES = SHAPE::QUERIES,
                  THREADS = SHAPE::THREADS;
    SHARED_MEMORY(T, shared);
    T *tile_q = shared, *tile_dy = tile_q + QUERIES * DP, *tile_k = tile_dy + QUERIES * DP,
      *tile_v = tile_k + 2 * KEYS * DP;
    const attention_shape &z = s.z;
    attention_work work(z, s.tiles, z.causal);
    int first = work.tile * QUERIES, past = first + QUERIES < z.t ? first + QUERIES : z.t;
    int blocks = (z.keys_before(past) + KEYS - 1) / KEYS;
    int lane = (int)threadIdx.x % 32, own = (int)threadIdx.x / 32 * 16 * MT, row = first + own + lane / 4;
    const T *head_k = s.k.at(z, work.pair), *head_v = s.v.at(z, work.pair);
    auto fetch = [&](int block) {
        int half = block % 2 * KEYS * DP;
        tile_load<DP, KEYS, THREADS>(tile_k + half, s.k, head_k, block * KEYS, z.s, z.d);
        tile_load<DP, KEYS, THREADS>(tile_v + half, s.v, head_v, block * KEYS, z.s, z.d);
        copy_async_commit();
    };
    tile_load<DP, QUERIES, THREADS>(tile_q, s.q, s.q.at(z, work.pair), first, z.t, z.d);
    tile_load<DP, QUERIES, THREADS>(tile_dy, s.dy, s.dy.at(z, work.pair), first, z.t, z.d);
    fetch(0);
    float dq[MT][DP / 8][4] = {}, lse[MT][2], delta[MT][2];
    UNROLLED(m, 2 * MT) {
        bool is_there = row + 8 * m < z.t;
        lse[m / 2][m % 2] = is_there ? s.lse[work.pair * z.t + row + 8 * m] * 1.4426950408889634f : 0.0f;
    }
    for (int block = 0; block < blocks; block++) {
        copy_async_wait<0>();
        /* this block of keys has arrived, and no warp reads the one before it any more */
        __syncthreads();
        if (block + 1 < blocks) fetch(block + 1);
        for (int m = 0; m < MT && block == 0; m++)
            row_deltas<DP>(s, work.pair, tile_dy, own + 16 * m, first + own + 16 * m, delta[m]);
        int key = block * KEYS;
        /* all its keys are after all rows of this warp */
        if (z.causal && key > first + own + 16 * MT - 1) continue;
        const T *keys = tile_k + block % 2 * KEYS * DP, *values = tile_v + block % 2 * KEYS * DP;
        float p[MT][KEYS / 8][4], dp[MT][KEYS / 8][4];
        tile_product_rows<DP, KEYS, MT>(p, tile_q, own, keys);
        tile_product_rows<DP, KEYS, MT>(dp, tile_dy, own, values);
        bool is_whole = key + KEYS <= z.s && !(z.causal && key + KEYS - 1 > first + own);
        UNROLLED(m, MT)
            query_ds(p[m], dp[m], z, lse[m], delta[m], is_whole, row + 16 * m, key + lane % 4 * 2);
        tile_product_add<DP, MT>(dq, p, keys);
    }
    float factor[2] = {z.scale, z.scale};
    UNROLLED(m, MT)
        tile_store<DP>(tile_q, own + 16 * m, dq[m], factor, s.dq, s.dq.at(z, work.pair), first + own + 16 * m,
                       z.t, z.d);
}

/* ---- dk, dv ---- */

/* Tiles of WARPS * 16 MT keys; queries and dy are double-buffered with their lse and delta. */
template <int DP_> struct key_shape {
    static constexpr int DP = DP_, WARPS = 4, MT = DP == 64 ? 2 : 1, THREADS = WARPS * 32;
    static constexpr int KEYS = WARPS * 16 * MT, QUERIES = DP == 64 ? 32 : 16;
    /* Shared memory: elements (k and v, two buffers of q and of dy), then floats (lse and delta). */
    static constexpr size_t ELEMENTS = (size_t)(2 * KEYS + 4 * QUERIES) * DP;
    static constexpr size_t FLOATS = 4 * QUERIES;
};

/* p holds scores and becomes the probabilities; dp becomes p (dp - delta). Element (n, i) is key row + 8 (i /
 * 2), query + 8 n + i % 2 of the sequence, which is number 8 n + column + i % 2 of the tile's lse and delta.
 * Queries past the end are rows of zeros in q and dy with 0 for both, so they add nothing. */
template <int N>
__device__ static inline void key_ds(float (&p)[N][4], float (&dp)[N][4], const attention_shape &z,
                                     const float *lse, const float *delta, bool is_whole, int row, int query,
                                     int column) {
    UNROLLED(n, N)
        UNROLLED(i, 4) {
            int at = 8 * n + column + i % 2;
            bool is_seen = is_whole || query + at >= row + i / 2 * 8;
            float power = fast_exp2(fmaf(p[n][i], z.scale_log2, lse[at] * -1.4426950408889634f));
            p[n][i] = is_seen ? power : 0.0f;
            dp[n][i] = p[n][i] * (dp[n][i] - delta[at]);
        }
}

/* dv = p^T dy and dk = scale ds^T q for one tile of keys; causal tiles start at the first query that sees
 * them. */
template <class T, class SHAPE>
__global__ void __launch_bounds__(SHAPE::THREADS, 2) attention_dk_dv(backward_operands<T> s) {
    constexpr int DP = SHAPE::DP, MT = SHAPE::MT, KEYS = SHAPE::KEYS, QUERIES = SHAPE::QUERIES,
                  THREADS = SHAPE::THREADS;
    SHARED_MEMORY(T, shared);
    T *tile_k = shared, *tile_v = tile_k + KEYS * DP, *tile_q = tile_v + KEYS * DP,
      *tile_dy = tile_q + 2 * QUERIES * DP;
    float *lse = reinterpret_cast<float *>(tile_dy + 2 * QUERIES * DP), *delta = lse + 2 * QUERIES;
    const attention_shape &z = s.z;
    attention_work work(z, s.tiles, false);
    int first = work.tile * KEYS, lane = (int)threadIdx.x % 32, own = (int)threadIdx.x / 32 * 16 * MT;
    int block = z.causal ? first / QUERIES : 0, blocks = (z.t + QUERIES - 1) / QUERIES;
    const T *head_q = s.q.at(z, work.pair), *head_dy = s.dy.at(z, work.pair);
    auto fetch = [&](int from) {
        int half = from % 2, query = from * QUERIES;
        tile_load<DP, QUERIES, THREADS>(tile_q + half * QUERIES * DP, s.q, head_q, query, z.t, z.d);
        tile_load<DP, QUERIES, THREADS>(tile_dy + half * QUERIES * DP, s.dy, head_dy, query, z.t, z.d);
        if (threadIdx.x < QUERIES) {
            int at = query + (int)threadIdx.x;
            int64_t place = work.pair * z.t + (at < z.t ? at : 0);
            copy_async_4(&lse[half * QUERIES + threadIdx.x], s.lse + place, at < z.t);
            copy_async_4(&delta[half * QUERIES + threadIdx.x], s.delta + place, at < z.t);
        }
        copy_async_commit();
    };
    tile_load<DP, KEYS, THREADS>(tile_k, s.k, s.k.at(z, work.pair), first, z.s, z.d);
    tile_load<DP, KEYS, THREADS>(tile_v, s.v, s.v.at(z, work.pair), first, z.s, z.d);
    if (block < blocks)
        fetch(block);
    else
        copy_async_commit();
    float dk[MT][DP / 8][4] = {}, dv[MT][DP / 8][4] = {};
    for (; block < blocks; block++) {
        copy_async_wait<0>();
        /* this block of queries has arrived, and no warp reads the one before it any more */
        __syncthreads();
        if (block + 1 < blocks) fetch(block + 1);
        int half = block % 2, query = block * QUERIES;
        /* all its queries are before all keys of this warp */
        if (z.causal && query + QUERIES - 1 < first + own) continue;
        const T *queries = tile_q + half * QUERIES * DP, *dys = tile_dy + half * QUERIES * DP;
        float p[MT][QUERIES / 8][4], dp[MT][QUERIES / 8][4];
        tile_product_rows<DP, QUERIES, MT>(p, tile_k, own, queries);
        tile_product_rows<DP, QUERIES, MT>(dp, tile_v, own, dys);
        bool is_whole = !z.causal || query >= first + own + 16 * MT - 1;
        UNROLLED(m, MT)
            key_ds(p[m], dp[m], z, lse + half * QUERIES, delta + half * QUERIES, is_whole,
                   first + own + 16 * m + lane / 4, query, lane % 4 * 2);
        tile_product_add<DP, MT>(dv, p, dys);
        tile_product_add<DP, MT>(dk, dp, queries);
    }
    float one[2] = {1, 1}, factor[2] = {z.scale, z.scale};
    copy_async_wait<0>();
    /* keys that no query sees come here before their tiles have arrived */
    __syncthreads();
    UNROLLED(m, MT) {
        int row = own + 16 * m;
        tile_store<DP>(tile_k, row, dk[m], factor, s.dk, s.dk.at(z, work.pair), first + row, z.s, z.d);
        tile_store<DP>(tile_v, row, dv[m], one, s.dv, s.dv.at(z, work.pair), first + row, z.s, z.d);
    }
}

/* ---- launches ---- */

/* dq comes first: it writes delta, which the other kernel reads. */
template <class T, int DP> static weft_status backward_launch(const kernel_call *c) {
    using QS = query_shape<DP>;
    using KS = key_shape<DP>;
    backward_operands<T> s = backward_operands_of<T>(c);
    s.tiles = (s.z.t + QS::QUERIES - 1) / QS::QUERIES;
    weft_status status = launch(c, attention_dq<T, QS>, dim3((unsigned)(s.z.pairs * s.tiles)),
                                dim3(QS::THREADS), QS::ELEMENTS * sizeof(T), s);
    if (status) return status;
    s.tiles = (s.z.s + KS::KEYS - 1) / KS::KEYS;
    return launch(c, attention_dk_dv<T, KS>, dim3((unsigned)(s.z.pairs * s.tiles)), dim3(KS::THREADS),
                  KS::ELEMENTS * sizeof(T) + KS::FLOATS * sizeof(float), s);
}

weft_status cuda_attention_backward_run(void *, const kernel_call *c) {
    bool is_small = c->in[BACKWARD_Q].type.shape[3] <= 64;
    if (c->in[BACKWARD_Q].type.dtype == WEFT_BF16)
        return is_small ? backward_launch<__nv_bfloat16, 64>(c) : backward_launch<__nv_bfloat16, 128>(c);
    return is_small ? backward_launch<__half, 64>(c) : backward_launch<__half, 128>(c);
}
