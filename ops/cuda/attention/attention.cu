/* attention.cu - FlashAttention-2 (Dao, arXiv 2307.08691, algorithm 1) on tensor cores: a block has a tile of
 * queries in shared memory and walks over the keys in tiles of 64; the scores are in registers only. Keys and
 * values are double-buffered: the next tile is copied while this one is computed.
 *
 * Each warp has 16 MT rows of queries. q, k, v may be views of one packed tensor: tiles are loaded by
 * strides. Every row has one order of sums, so the bits repeat. MASKED kernels take a mask, dropout or
 * softcap: their scores are scaled before these are applied, the others scale within the power of two. */
#include "ops/cuda/attention/attention.cuh"

/* Heads padded to DP = 64: 4 warps with 32 rows each; DP = 128: 8 warps with 16, since the results of a row
 * take twice the registers. Both have tiles of 128 queries. */
template <int DP_> struct forward_shape {
    static constexpr int DP = DP_, WARPS = DP == 64 ? 4 : 8, MT = DP == 64 ? 2 : 1, THREADS = WARPS * 32;
    static constexpr int QUERIES = WARPS * 16 * MT, KEYS = 64;
    /* of shared memory: queries, two buffers of keys and of values */
    static constexpr size_t ELEMENTS = (size_t)(QUERIES + 4 * KEYS) * DP;
};

/* The running softmax of 16 rows of a warp. A lane has two of the rows (g and g + 8, g = lane / 4): the
 * largest score so far, and the sum of powers over the lane's own columns. */
struct running_softmax {
    float most[2], sum[2];

    /* Scores become powers 2^(scale_log2 (x - most)). `factor` is what the results so far must be multiplied
     * by, because the maximum grew. As long as a row has seen no key, all powers are 0. A mask may move a
     * row by -3e38: then `most` is subtracted first, without overflow or rounding. */
    template <bool MASKED, int N>
    __device__ void step(float (&score)[N][4], float scale_log2, float (&factor)[2]) {
        UNROLLED(half, 2) {
            float now = most[half];
            UNROLLED(n, N) now = fmaxf(now, fmaxf(score[n][2 * half], score[n][2 * half + 1]));
            /* the four lanes of a row agree on its maximum */
            now = fmaxf(now, __shfl_xor_sync(0xffffffffu, now, 1));
            now = fmaxf(now, __shfl_xor_sync(0xffffffffu, now, 2));
            float base = now == -INFINITY ? 0.0f : now;
            factor[half] = fast_exp2((most[half] - base) * scale_log2);
            most[half] = now;
            sum[half] *= factor[half];
            UNROLLED(n, N)
                UNROLLED(k, 2) {
                    float &x = score[n][2 * half + k];
                    x = fast_exp2(MASKED ? (x - base) * scale_log2 : fmaf(x, scale_log2, -base * scale_log2));
                    sum[half] += x;
                }
        }
    }
    /* The sum over all columns of the row, on all four lanes. */
    __device__ float total(int half) {
        float all = sum[half] + __shfl_xor_sync(0xffffffffu, sum[half], 1);
        return all + __shfl_xor_sync(0xffffffffu, all, 2);
    }
};

/* Sets scores to -inf where the key does not exist or its query does not see it. Element (n, i) is query row
 * + 8 (i / 2), key + 8 n + i % 2. */
template <int N>
__device__ static inline void hide_scores(float (&score)[N][4], const attention_shape &z, int row, int key) {
    UNROLLED(n, N)
        UNROLLED(i, 4) {
            int j = key + 8 * n + i % 2;
            if (j >= z.s || !z.sees(row + i / 2 * 8, j)) score[n][i] = -INFINITY;
        }
}

/* The same after scaling and masking them. */
template <class T, int N>
__device__ static inline void mask_scores(float (&score)[N][4], const forward_operands<T> &s,
                                          const attention_work &work, int row, int key) {
    UNROLLED(n, N)
        UNROLLED(i, 4) {
            int q = row + i / 2 * 8, j = key + 8 * n + i % 2;
            bool is_seen = q < s.z.t && j < s.z.s && s.z.sees(q, j);
            float slope, x = s.z.capped(score[n][i] * s.z.scale, &slope);
            score[n][i] = is_seen ? s.mask.apply(x, work.batch, work.head, q, j) : -INFINITY;
        }
}

/* One block: a tile of queries of one (batch, head) pair. y = softmax(scale q k^T + mask) v and lse = log of
 * the row sums. */
template <class T, class SHAPE, bool MASKED>
__global__ void __launch_bounds__(SHAPE::THREADS) attention_forward(forward_operands<T> s) {
    constexpr int DP = SHAPE::DP, MT = SHAPE::MT, QUERIES = SHAPE::QUERIES, KEYS = SHAPE::KEYS, N = KEYS / 8;
    SHARED_MEMORY(T, shared);
    T *tile_q = shared, *tile_k = tile_q + QUERIES * DP, *tile_v = tile_k + 2 * KEYS * DP;
    const attention_shape &z = s.z;
    attention_work work(z.batches, z.heads, s.tiles, z.up);
    int first = work.tile * QUERIES, past = first + QUERIES < z.t ? first + QUERIES : z.t;
    int begin = z.keys_begin(first, past, KEYS), blocks = z.keys_end(past, KEYS);
    /* the warp's first row of the tile */
    int lane = (int)threadIdx.x % 32, own = (int)threadIdx.x / 32 * 16 * MT;
    const T *head_k = s.k.at(work.batch, work.head / z.group);
    const T *head_v = s.v.at(work.batch, work.head / z.group);
    const philox_stream stream = MASKED ? s.dropout.stream() : philox_stream{};
    const int64_t rows_before = (work.batch * z.heads + work.head) * z.t;
    const float scale_log2 = MASKED ? 1.4426950408889634f : z.scale_log2;
    auto fetch = [&](int block) {
        int half = block % 2 * KEYS * DP;
        tile_load<DP, KEYS, SHAPE::THREADS>(tile_k + half, s.k, head_k, block * KEYS, z.s, z.d);
        tile_load<DP, KEYS, SHAPE::THREADS>(tile_v + half, s.v, head_v, block * KEYS, z.s, z.e);
        copy_async_commit();
    };
    tile_load<DP, QUERIES, SHAPE::THREADS>(tile_q, s.q, s.q.at(work.batch, work.head), first, z.t, z.d);
    fetch(begin);
    float out[MT][DP / 8][4] = {};
    running_softmax soft[MT];
    UNROLLED(m, MT) soft[m] = running_softmax{{-INFINITY, -INFINITY}, {0, 0}};
    for (int block = begin; block < blocks; block++) {
        copy_async_wait<0>();
        /* this block of keys has arrived, and no warp reads the one before it any more */
        __syncthreads();
        if (block + 1 < blocks) fetch(block + 1);
        int key = block * KEYS, row = first + own;
        if (z.sees_none(row, row + 16 * MT, key, key + KEYS)) continue;
        const T *keys = tile_k + block % 2 * KEYS * DP, *values = tile_v + block % 2 * KEYS * DP;
        float p[MT][N][4];
        tile_product_rows<DP, KEYS, MT>(p, tile_q, own, keys);
        /* whole: no score of this warp is hidden */
        bool is_whole = key + KEYS <= z.s && z.sees_all(row, row + 16 * MT, key, key + KEYS);
        UNROLLED(m, MT) {
            float factor[2];
            if (MASKED)
                mask_scores(p[m], s, work, row + 16 * m + lane / 4, key + lane % 4 * 2);
            else if (!is_whole)
                hide_scores(p[m], z, row + 16 * m + lane / 4, key + lane % 4 * 2);
            soft[m].template step<MASKED>(p[m], scale_log2, factor);
            /* after they were summed */
            if (MASKED && s.dropout.run)
                s.dropout.drop(p[m], stream, rows_before + row + 16 * m + lane / 4, key + lane % 4 * 2);
            UNROLLED(n, DP / 8)
                UNROLLED(i, 4) out[m][n][i] *= factor[i / 2];
        }
        tile_product_add<DP, MT>(out, p, values);
    }
    UNROLLED(m, MT) {
        float factor[2];
        UNROLLED(half, 2) {
            float total = soft[m].total(half), most = total == 0 ? 0.0f : soft[m].most[half];
            int row = first + own + 16 * m + 8 * half + lane / 4;
            int64_t at = rows_before + row;
            factor[half] = total == 0 ? 0.0f : 1.0f / total;
            if (lane % 4 || row >= z.t) continue;
            most *= MASKED ? 1.0f : z.scale;
            s.lse[at] = (MASKED && s.shift ? 0.0f : most) + (total == 0 ? 0.0f : logf(total));
            if (MASKED && s.shift) s.shift[at] = most;
        }
        tile_store<DP>(tile_q, own + 16 * m, out[m], factor, s.y, s.y.at(work.batch, work.head),
                       first + own + 16 * m, z.t, z.e);
    }
}

/* One block for each tile of queries of each head. */
template <class T, int DP> static weft_status forward_launch(const kernel_call *c) {
    using S = forward_shape<DP>;
    forward_operands<T> s = forward_operands_of<T>(c);
    s.tiles = (s.z.t + S::QUERIES - 1) / S::QUERIES;
    bool is_masked = s.mask.data || s.dropout.run || s.z.cap > 0;
    return launch(
        c, is_masked ? attention_forward<T, S, true> : attention_forward<T, S, false>,
        attention_blocks(s.z.batches, s.z.heads, s.tiles), dim3(S::THREADS), S::ELEMENTS * sizeof(T), s);
}

weft_status cuda_attention_run(void *, const kernel_call *c) {
    bool is_small = c->in[ATTENTION_Q].type.shape[3] <= 64 && c->in[ATTENTION_V].type.shape[3] <= 64;
    if (c->in[0].type.dtype == WEFT_BF16)
        return is_small ? forward_launch<__nv_bfloat16, 64>(c) : forward_launch<__nv_bfloat16, 128>(c);
    return is_small ? forward_launch<__half, 64>(c) : forward_launch<__half, 128>(c);
}

weft_status cuda_attention_dropout_run(void *state, const kernel_call *c) {
    return cuda_attention_run(state, c);
}
