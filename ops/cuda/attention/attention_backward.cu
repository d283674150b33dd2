/* attention_backward.cu - gradients of attention on tensor cores, after FlashAttention-2 (Dao, arXiv
 * 2307.08691, algorithm 2), in two passes so that every sum has one owner and one order: blocks of queries
 * walk over the keys for dq (and store delta = dy . y for the other pass), then blocks of keys walk over the
 * queries for dk and dv. Both compute the scores again: 7 products instead of 5, but neither atomics nor a
 * copy of dq for each block of keys. MASKED kernels, for a mask, dropout or softcap, scale scores
 * before they are applied. */
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
__device__ static inline void row_deltas(const backward_operands<T> &s, const attention_work &work,
                                         const T *tile_dy, int row, int first, float (&delta)[2]) {
    int lane = (int)threadIdx.x % 32, r = lane / 2;
    const T *y = s.y.at(work.batch, work.head) + (first + r) * s.y.row;
    float sum = 0;
    for (int chunk = lane % 2; chunk * 8 < s.z.e && first + r < s.z.t; chunk += 2) {
        float a[8], b[8] = {};
        load_floats<8>(tile_dy + tile_place<DP>(row + r, chunk), a);
        if (s.y.is_fast)
            load_floats<8>(y + chunk * 8, b);
        else
            for (int j = 0; j < 8 && chunk * 8 + j < s.z.e; j++) b[j] = to_float(y[chunk * 8 + j]);
        UNROLLED(j, 8) sum += a[j] * b[j];
    }
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    if (lane % 2 == 0 && first + r < s.z.t)
        s.delta[(work.batch * s.z.heads + work.head) * s.z.t + first + r] = sum;
    delta[0] = __shfl_sync(0xffffffffu, sum, lane / 4 * 2);
    delta[1] = __shfl_sync(0xffffffffu, sum, lane / 4 * 2 + 16);
}

/* The probability of a score q . k that is seen, and the derivative of its softcap. `lse` is in powers of
 * two. */
template <bool MASKED, class T>
__device__ static inline float probability(float score, const backward_operands<T> &s,
                                           const attention_work &work, int h, int i, int j, float shift,
                                           float lse, float *slope) {
    *slope = 1;
    if (!MASKED) return fast_exp2(fmaf(score, s.z.scale_log2, -lse));
    float x = s.mask.apply(s.z.capped(score * s.z.scale, slope), work.batch, h, i, j);
    return fast_exp2(fmaf(x - shift, 1.4426950408889634f, -lse));
}

/* p holds scores and becomes ds = p (dp - delta), times the slope of softcap, 0 where hidden. lse is in
 * powers of two. Element (n, i) is query row + 8 (i / 2), key + 8 n + i % 2. */
template <bool MASKED, class T, int N>
__device__ static inline void query_ds(float (&p)[N][4], const float (&dp)[N][4],
                                       const backward_operands<T> &s, const attention_work &work,
                                       const float (&lse)[2], const float (&shift)[2],
                                       const float (&delta)[2], bool is_whole, int row, int key) {
    UNROLLED(n, N)
        UNROLLED(i, 4) {
            int q = row + i / 2 * 8, j = key + 8 * n + i % 2;
            bool is_there = j < s.z.s && (!MASKED || q < s.z.t);
            bool is_seen = is_whole || (is_there && s.z.sees(q, j));
            float slope = 1, power = 0;
            if (is_seen)
                power = probability<MASKED>(p[n][i], s, work, work.head, q, j, shift[i / 2], lse[i / 2],
                                            &slope);
            p[n][i] = is_seen ? power * (dp[n][i] - delta[i / 2]) : 0.0f;
            if (MASKED && s.scores && is_there)
                s.scores[((work.batch * s.z.heads + work.head) * s.z.t + q) * s.z.s + j] = p[n][i];
            p[n][i] *= slope;
        }
}

/* dq = scale ds k for one tile of queries. Two blocks fit a multiprocessor. */
template <class T, class SHAPE, bool MASKED>
__global__ void __launch_bounds__(SHAPE::THREADS, 2) attention_dq(backward_operands<T> s) {
    constexpr int DP = SHAPE::DP, MT = SHAPE::MT, KEYS = SHAPE::KEYS, QUERIES = SHAPE::QUERIES,
                  THREADS = SHAPE::THREADS;
    SHARED_MEMORY(T, shared);
    T *tile_q = shared, *tile_dy = tile_q + QUERIES * DP, *tile_k = tile_dy + QUERIES * DP,
      *tile_v = tile_k + 2 * KEYS * DP;
    const attention_shape &z = s.z;
    attention_work work(z.batches, z.heads, s.tiles, z.up);
    int first = work.tile * QUERIES, past = first + QUERIES < z.t ? first + QUERIES : z.t;
    int begin = z.keys_begin(first, past, KEYS), blocks = z.keys_end(past, KEYS);
    int lane = (int)threadIdx.x % 32, own = (int)threadIdx.x / 32 * 16 * MT, row = first + own + lane / 4;
    const T *head_k = s.k.at(work.batch, work.head / z.group);
    const T *head_v = s.v.at(work.batch, work.head / z.group);
    int64_t row_place = (work.batch * z.heads + work.head) * z.t + row;
    const philox_stream stream = MASKED ? s.dropout.stream() : philox_stream{};
    auto fetch = [&](int block) {
        int half = block % 2 * KEYS * DP;
        tile_load<DP, KEYS, THREADS>(tile_k + half, s.k, head_k, block * KEYS, z.s, z.d);
        tile_load<DP, KEYS, THREADS>(tile_v + half, s.v, head_v, block * KEYS, z.s, z.e);
        copy_async_commit();
    };
    tile_load<DP, QUERIES, THREADS>(tile_q, s.q, s.q.at(work.batch, work.head), first, z.t, z.d);
    tile_load<DP, QUERIES, THREADS>(tile_dy, s.dy, s.dy.at(work.batch, work.head), first, z.t, z.e);
    fetch(begin);
    float dq[MT][DP / 8][4] = {}, lse[MT][2], shift[MT][2] = {}, delta[MT][2];
    UNROLLED(m, 2 * MT) {
        bool is_there = row + 8 * m < z.t;
        lse[m / 2][m % 2] = is_there ? s.lse[row_place + 8 * m] * 1.4426950408889634f : 0.0f;
        if (MASKED && s.shift && is_there) shift[m / 2][m % 2] = s.shift[row_place + 8 * m];
    }
    for (int block = begin; block < blocks; block++) {
        copy_async_wait<0>();
        /* this block of keys has arrived, and no warp reads the one before it any more */
        __syncthreads();
        if (block + 1 < blocks) fetch(block + 1);
        for (int m = 0; m < MT && block == begin; m++)
            row_deltas<DP>(s, work, tile_dy, own + 16 * m, first + own + 16 * m, delta[m]);
        int key = block * KEYS, top = first + own;
        if (z.sees_none(top, top + 16 * MT, key, key + KEYS)) continue;
        const T *keys = tile_k + block % 2 * KEYS * DP, *values = tile_v + block % 2 * KEYS * DP;
        float p[MT][KEYS / 8][4], dp[MT][KEYS / 8][4];
        tile_product_rows<DP, KEYS, MT>(p, tile_q, own, keys);
        tile_product_rows<DP, KEYS, MT>(dp, tile_dy, own, values);
        bool is_whole = !MASKED && key + KEYS <= z.s && z.sees_all(top, top + 16 * MT, key, key + KEYS);
        if (MASKED && s.dropout.run)
            UNROLLED(m, MT) s.dropout.drop(dp[m], stream, row_place + 16 * m, key + lane % 4 * 2);
        UNROLLED(m, MT)
            query_ds<MASKED>(p[m], dp[m], s, work, lse[m], shift[m], delta[m], is_whole, row + 16 * m,
                             key + lane % 4 * 2);
        tile_product_add<DP, MT>(dq, p, keys);
    }
    float factor[2] = {z.scale, z.scale};
    UNROLLED(m, MT)
        tile_store<DP>(tile_q, own + 16 * m, dq[m], factor, s.dq, s.dq.at(work.batch, work.head),
                       first + own + 16 * m, z.t, z.d);
}

/* ---- dk, dv ---- */

/* Tiles of WARPS * 16 MT keys; queries and dy are double-buffered with their lse, delta and shift. */
template <int DP_> struct key_shape {
    static constexpr int DP = DP_, WARPS = 4, MT = DP == 64 ? 2 : 1, THREADS = WARPS * 32;
    static constexpr int KEYS = WARPS * 16 * MT, QUERIES = DP == 64 ? 32 : 16;
    /* Shared memory: elements (k and v, two buffers of q and of dy), then floats (lse, delta, shift). */
    static constexpr size_t ELEMENTS = (size_t)(2 * KEYS + 4 * QUERIES) * DP;
    static constexpr size_t FLOATS = 6 * QUERIES;
};

/* What is known of the queries of a tile: in shared memory, 0 for those past the end. */
struct query_tile {
    const float *lse, *delta, *shift; /* shift is read only where there is one */
    int head, first;
    philox_stream stream; /* with dropout */
};

/* p holds scores and becomes the probabilities; dp becomes p (dp - delta). Element (n, i) is key row + 8 (i /
 * 2), and of the tile query number 8 n + column + i % 2. Queries past the end are rows of zeros in q and dy
 * with 0 for lse and delta, so they add nothing. */
template <bool MASKED, class T, int N>
__device__ static inline void key_ds(float (&p)[N][4], float (&dp)[N][4], const backward_operands<T> &s,
                                     const attention_work &work, const query_tile &tile, bool is_whole,
                                     int row, int column) {
    UNROLLED(n, N)
        UNROLLED(i, 4) {
            int at = 8 * n + column + i % 2, q = tile.first + at, j = row + i / 2 * 8;
            bool is_there = !MASKED || (q < s.z.t && j < s.z.s);
            bool is_seen = is_whole || (is_there && s.z.sees(q, j));
            float shift = MASKED && s.shift ? tile.shift[at] : 0.0f;
            float slope = 1, power = 0;
            if (is_seen)
                power = probability<MASKED>(p[n][i], s, work, tile.head, q, j, shift,
                                            tile.lse[at] * 1.4426950408889634f, &slope);
            float kept = 1;
            if (MASKED && s.dropout.run && is_seen)
                kept = s.dropout.at(tile.stream, (work.batch * s.z.heads + tile.head) * s.z.t + q, j);
            p[n][i] = power * kept;
            dp[n][i] = power * (dp[n][i] * kept - tile.delta[at]) * slope;
        }
}

/* dv = p^T dy and dk = scale ds^T q for one tile of keys, which walks over the queries that see it, of one
 * head that shares it after the other. */
template <class T, class SHAPE, bool MASKED>
__global__ void __launch_bounds__(SHAPE::THREADS, 2) attention_dk_dv(backward_operands<T> s) {
    constexpr int DP = SHAPE::DP, MT = SHAPE::MT, KEYS = SHAPE::KEYS, QUERIES = SHAPE::QUERIES,
                  THREADS = SHAPE::THREADS;
    SHARED_MEMORY(T, shared);
    T *tile_k = shared, *tile_v = tile_k + KEYS * DP, *tile_q = tile_v + KEYS * DP,
      *tile_dy = tile_q + 2 * QUERIES * DP;
    float *lse = reinterpret_cast<float *>(tile_dy + 2 * QUERIES * DP), *delta = lse + 2 * QUERIES,
          *shift = delta + 2 * QUERIES;
    const attention_shape &z = s.z;
    attention_work work(z.batches, z.heads / z.group, s.tiles, false);
    int first = work.tile * KEYS, lane = (int)threadIdx.x % 32, own = (int)threadIdx.x / 32 * 16 * MT;
    int begin = z.queries_begin(first, QUERIES), end = z.queries_end(first + KEYS, QUERIES);
    int head = work.head * z.group, past = begin < end ? head + z.group : head;
    const philox_stream stream = MASKED ? s.dropout.stream() : philox_stream{};
    auto fetch = [&](int half, int h, int block) {
        int query = block * QUERIES;
        const T *head_q = s.q.at(work.batch, h), *head_dy = s.dy.at(work.batch, h);
        tile_load<DP, QUERIES, THREADS>(tile_q + half * QUERIES * DP, s.q, head_q, query, z.t, z.d);
        tile_load<DP, QUERIES, THREADS>(tile_dy + half * QUERIES * DP, s.dy, head_dy, query, z.t, z.e);
        if (threadIdx.x < QUERIES) {
            int at = query + (int)threadIdx.x;
            int64_t place = (work.batch * z.heads + h) * z.t + (at < z.t ? at : 0);
            copy_async_4(&lse[half * QUERIES + threadIdx.x], s.lse + place, at < z.t);
            copy_async_4(&delta[half * QUERIES + threadIdx.x], s.delta + place, at < z.t);
            if (MASKED && s.shift)
                copy_async_4(&shift[half * QUERIES + threadIdx.x], s.shift + place, at < z.t);
        }
        copy_async_commit();
    };
    tile_load<DP, KEYS, THREADS>(tile_k, s.k, s.k.at(work.batch, work.head), first, z.s, z.d);
    tile_load<DP, KEYS, THREADS>(tile_v, s.v, s.v.at(work.batch, work.head), first, z.s, z.e);
    if (head < past)
        fetch(0, head, begin);
    else
        copy_async_commit();
    float dk[MT][DP / 8][4] = {}, dv[MT][DP / 8][4] = {};
    for (int block = begin, half = 0; head < past; half = 1 - half) {
        copy_async_wait<0>();
        /* this block of queries has arrived, and no warp reads the one before it any more */
        __syncthreads();
        int query = block * QUERIES, h = head, key = first + own;
        block = block + 1 < end ? block + 1 : begin;
        if (block == begin) head++;
        if (head < past) fetch(1 - half, head, block);
        if (z.sees_none(query, query + QUERIES, key, key + 16 * MT)) continue;
        const T *queries = tile_q + half * QUERIES * DP, *dys = tile_dy + half * QUERIES * DP;
        float p[MT][QUERIES / 8][4], dp[MT][QUERIES / 8][4];
        tile_product_rows<DP, QUERIES, MT>(p, tile_k, own, queries);
        tile_product_rows<DP, QUERIES, MT>(dp, tile_v, own, dys);
        bool is_whole = !MASKED && z.sees_all(query, query + QUERIES, key, key + 16 * MT);
        query_tile tile = {
            lse + half * QUERIES, delta + half * QUERIES, shift + half * QUERIES, h, query, stream};
        UNROLLED(m, MT)
            key_ds<MASKED>(p[m], dp[m], s, work, tile, is_whole, key + 16 * m + lane / 4, lane % 4 * 2);
        tile_product_add<DP, MT>(dv, p, dys);
        tile_product_add<DP, MT>(dk, dp, queries);
    }
    float one[2] = {1, 1}, factor[2] = {z.scale, z.scale};
    copy_async_wait<0>();
    /* keys that no query sees come here before their tiles have arrived */
    __syncthreads();
    UNROLLED(m, MT) {
        int row = own + 16 * m;
        tile_store<DP>(tile_k, row, dk[m], factor, s.dk, s.dk.at(work.batch, work.head), first + row, z.s,
                       z.d);
        tile_store<DP>(tile_v, row, dv[m], one, s.dv, s.dv.at(work.batch, work.head), first + row, z.s, z.e);
    }
}

/* ---- launches ---- */

/* dq comes first: it writes delta, which the other kernel reads. */
template <class T, int DP, bool MASKED>
static weft_status backward_launch(const kernel_call *c, backward_operands<T> s) {
    using QS = query_shape<DP>;
    using KS = key_shape<DP>;
    s.tiles = (s.z.t + QS::QUERIES - 1) / QS::QUERIES;
    weft_status status =
        launch(c, attention_dq<T, QS, MASKED>, attention_blocks(s.z.batches, s.z.heads, s.tiles),
               dim3(QS::THREADS), QS::ELEMENTS * sizeof(T), s);
    if (status) return status;
    s.tiles = (s.z.s + KS::KEYS - 1) / KS::KEYS;
    return launch(c, attention_dk_dv<T, KS, MASKED>,
                  attention_blocks(s.z.batches, s.z.heads / s.z.group, s.tiles), dim3(KS::THREADS),
                  KS::ELEMENTS * sizeof(T) + KS::FLOATS * sizeof(float), s);
}

template <class T> static weft_status backward_run(const kernel_call *c) {
    backward_operands<T> s = backward_operands_of<T>(c);
    bool is_small = s.z.d <= 64 && s.z.e <= 64;
    if (s.mask.data || s.dropout.run || s.z.cap > 0)
        return is_small ? backward_launch<T, 64, true>(c, s) : backward_launch<T, 128, true>(c, s);
    return is_small ? backward_launch<T, 64, false>(c, s) : backward_launch<T, 128, false>(c, s);
}

weft_status cuda_attention_backward_run(void *, const kernel_call *c) {
    return c->in[BACKWARD_Q].type.dtype == WEFT_BF16 ? backward_run<__nv_bfloat16>(c)
                                                     : backward_run<__half>(c);
}
