/* attention_plain.cu - attention and its gradients in f32 arithmetic, for f32 operands and whatever the
 * tensor-core kernels decline. The algorithms are theirs (attention.cu, attention_backward.cu) without double
 * buffers; the products are by the threads: 16 x 16 threads share a tile of 16 R x 16 R scores, and each has
 * R rows and R columns of it, 16 apart. */
#include "ops/cuda/attention/attention.cuh"

enum { THREADS = 256 };

/* Tiles are f32 in shared memory. */
template <int DP_> struct plain_shape {
    /* LD: floats from row to row; pieces of 4 floats of 16 rows are in different banks. */
    static constexpr int DP = DP_, LD = DP + 4;
    static constexpr int OWN = DP / 16;
};

/* Position of a thread among 16 x 16. */
__device__ static inline int row_of_thread() {
    return (int)threadIdx.x / 16;
}
__device__ static inline int column_of_thread() {
    return (int)threadIdx.x % 16;
}

/* Rows [first, first + ROWS) of one head as f32; zeros where a row or column does not exist. */
template <class S, int ROWS, class T>
__device__ static inline void plain_load(float *tile, const heads_of<const T> &from, const T *head, int first,
                                         int rows, int d) {
    for (int i = (int)threadIdx.x; i < ROWS * S::DP; i += THREADS) {
        int r = i / S::DP, k = i % S::DP;
        bool is_there = first + r < rows && k < d;
        tile[r * S::LD + k] = is_there ? to_float(head[(first + r) * from.row + k * from.column]) : 0.0f;
    }
}

/* x[r][c] = row (own + 16 r) of a times row (own + 16 c) of b, where own is the thread's row for a and its
 * column for b. The sum over k has one order. */
template <class S, int R>
__device__ static inline void plain_scores(float (&x)[R][R], const float *a, const float *b) {
    UNROLLED(r, R)
        UNROLLED(c, R) x[r][c] = 0;
    for (int k = 0; k < S::DP; k += 4) {
        float va[R][4], vb[R][4];
        UNROLLED(r, R) load_floats<4>(a + (row_of_thread() + 16 * r) * S::LD + k, va[r]);
        UNROLLED(c, R) load_floats<4>(b + (column_of_thread() + 16 * c) * S::LD + k, vb[c]);
        UNROLLED(r, R)
            UNROLLED(c, R)
                UNROLLED(j, 4) x[r][c] += va[r][j] * vb[c][j];
    }
}

/* Writes the threads' scores to a tile [16 R, 16 R + 1] of shared memory, for plain_add; the extra column
 * avoids bank conflicts. */
template <int R> __device__ static inline void plain_put(float *tile, const float (&x)[R][R]) {
    UNROLLED(r, R)
        UNROLLED(c, R)
            tile[(row_of_thread() + 16 * r) * (16 * R + 1) + column_of_thread() + 16 * c] = x[r][c];
}

/* out += p [16 R, 16 R] times b [16 R, DP]. out[r][4 c + i] is column 64 c + 4 own + i, where own is the
 * thread's column. */
template <class S, int R>
__device__ static inline void plain_add(float (&out)[R][S::OWN], const float *p, const float *b) {
    for (int j = 0; j < 16 * R; j++) {
        float vp[R];
        UNROLLED(r, R) vp[r] = p[(row_of_thread() + 16 * r) * (16 * R + 1) + j];
        UNROLLED(c, S::OWN / 4) {
            float vb[4];
            load_floats<4>(b + j * S::LD + 64 * c + 4 * column_of_thread(), vb);
            UNROLLED(r, R)
                UNROLLED(i, 4) out[r][4 * c + i] += vp[r] * vb[i];
        }
    }
}

/* Stores the rows below `rows`, times their factor. */
template <class S, int R, class T>
__device__ static inline void plain_store(const float (&out)[R][S::OWN], const float (&factor)[R],
                                          const heads_of<T> &to, T *head, int first, int rows, int d) {
    UNROLLED(r, R) {
        int row = first + row_of_thread() + 16 * r;
        UNROLLED(i, S::OWN) {
            int column = i / 4 * 64 + 4 * column_of_thread() + i % 4;
            if (row < rows && column < d) head[row * to.row + column] = from_float<T>(out[r][i] * factor[r]);
        }
    }
}

/* Sum (row_most: maximum) over the 16 threads of a row, which are half a warp. */
__device__ static inline float row_total(float x) {
    for (int step = 8; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}

__device__ static inline float row_most(float x) {
    for (int step = 8; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
    return x;
}

/* ---- forward ---- */

/* The same steps as attention_forward; one buffer holds the keys, then the values. */
template <class T, class S, int R>
__global__ void __launch_bounds__(THREADS) plain_forward(forward_operands<T> s) {
    constexpr int BLOCK = 16 * R;
    SHARED_MEMORY(float, tile_q);
    float *tile_kv = tile_q + BLOCK * S::LD, *tile_p = tile_kv + BLOCK * S::LD;
    const attention_shape &z = s.z;
    attention_work work(z.batches, z.heads, s.tiles, z.up);
    int first = work.tile * BLOCK, past = first + BLOCK < z.t ? first + BLOCK : z.t;
    int kv = work.head / z.group;
    int64_t lse_place = (work.batch * z.heads + work.head) * z.t + first;
    plain_load<S, BLOCK>(tile_q, s.q, s.q.at(work.batch, work.head), first, z.t, z.d);
    /* the running softmax: sum[r] covers only the thread's own columns until the end */
    float out[R][S::OWN] = {}, most[R], sum[R] = {}, factor[R];
    const philox_stream stream = s.dropout.stream();
    UNROLLED(r, R) most[r] = -INFINITY;
    for (int block = z.keys_begin(first, past, BLOCK); block < z.keys_end(past, BLOCK); block++) {
        int key = block * BLOCK;
        float p[R][R];
        __syncthreads();
        plain_load<S, BLOCK>(tile_kv, s.k, s.k.at(work.batch, kv), key, z.s, z.d);
        __syncthreads();
        plain_scores<S, R>(p, tile_q, tile_kv);
        UNROLLED(r, R) {
            int row = first + row_of_thread() + 16 * r;
            float now = most[r];
            UNROLLED(c, R) {
                int j = key + column_of_thread() + 16 * c;
                /* hidden scores are -inf: their power is 0 */
                bool is_seen = row < z.t && j < z.s && z.sees(row, j);
                float slope, x = z.capped(p[r][c] * z.scale, &slope);
                p[r][c] = is_seen ? s.mask.apply(x, work.batch, work.head, row, j) : -INFINITY;
                now = fmaxf(now, p[r][c]);
            }
            now = row_most(now);
            /* as long as a row has seen no key, all powers are 0 */
            float base = now == -INFINITY ? 0.0f : now;
            factor[r] = expf(most[r] - base);
            most[r] = now;
            sum[r] *= factor[r];
            UNROLLED(c, R) {
                p[r][c] = expf(p[r][c] - base);
                sum[r] += p[r][c];
                if (s.dropout.run)
                    p[r][c] *=
                        s.dropout.at(stream, lse_place + row - first, key + column_of_thread() + 16 * c);
            }
            UNROLLED(i, S::OWN) out[r][i] *= factor[r];
        }
        /* all threads have read the keys */
        __syncthreads();
        plain_put<R>(tile_p, p);
        plain_load<S, BLOCK>(tile_kv, s.v, s.v.at(work.batch, kv), key, z.s, z.e);
        __syncthreads();
        plain_add<S, R>(out, tile_p, tile_kv);
    }
    UNROLLED(r, R) {
        float total = row_total(sum[r]);
        int row = first + row_of_thread() + 16 * r;
        factor[r] = total == 0 ? 0.0f : 1.0f / total;
        if (column_of_thread() != 0 || row >= z.t) continue;
        int64_t at = lse_place + row - first;
        float shift = total == 0 ? 0.0f : most[r];
        s.lse[at] = (s.shift ? 0.0f : shift) + (total == 0 ? 0.0f : logf(total));
        if (s.shift) s.shift[at] = shift;
    }
    plain_store<S, R>(out, factor, s.y, s.y.at(work.batch, work.head), first, z.t, z.e);
}

/* ---- backward ---- */

/* Shared memory of a backward kernel: two tiles that stay, two that change with each step, two of scores. */
template <class S, int R> struct plain_tiles {
    float *own_a, *own_b, *other_a, *other_b, *p, *ds;
    static constexpr int TILE = 16 * R * S::LD, SCORES = 16 * R * (16 * R + 1);
    static constexpr size_t BYTES = (size_t)(4 * TILE + 2 * SCORES) * sizeof(float);
    __device__ plain_tiles(float *shared)
        : own_a(shared), own_b(own_a + TILE), other_a(own_b + TILE), other_b(other_a + TILE),
          p(other_b + TILE), ds(p + SCORES) {
    }
};

/* The probability of a score q . k of head h that query i sees, and the derivative of its softcap. */
template <class T>
__device__ static inline float plain_probability(float score, const backward_operands<T> &s, int64_t b, int h,
                                                 int i, int j, float lse, float *slope) {
    float shift = s.shift ? s.shift[(b * s.z.heads + h) * s.z.t + i] : 0.0f;
    return expf(s.mask.apply(s.z.capped(score * s.z.scale, slope), b, h, i, j) - shift - lse);
}

/* q and dy stay; k and v change. */
template <class T, class S, int R>
__global__ void __launch_bounds__(THREADS) plain_dq(backward_operands<T> s) {
    constexpr int BLOCK = 16 * R;
    SHARED_MEMORY(float, shared);
    plain_tiles<S, R> tile(shared);
    const attention_shape &z = s.z;
    attention_work work(z.batches, z.heads, s.tiles, z.up);
    int first = work.tile * BLOCK, past = first + BLOCK < z.t ? first + BLOCK : z.t;
    int kv = work.head / z.group;
    int64_t lse_place = (work.batch * z.heads + work.head) * z.t + first;
    const T *y = s.y.at(work.batch, work.head);
    plain_load<S, BLOCK>(tile.own_a, s.q, s.q.at(work.batch, work.head), first, z.t, z.d);
    plain_load<S, BLOCK>(tile.own_b, s.dy, s.dy.at(work.batch, work.head), first, z.t, z.e);
    __syncthreads();
    /* delta = dy . y of the thread's rows, also stored for the second kernel */
    float dq[R][S::OWN] = {}, lse[R], delta[R], factor[R];
    const philox_stream stream = s.dropout.stream();
    UNROLLED(r, R) {
        int row = row_of_thread() + 16 * r;
        bool is_there = first + row < z.t;
        float sum = 0;
        for (int k = column_of_thread(); k < z.e && is_there; k += 16)
            sum += tile.own_b[row * S::LD + k] * to_float(y[(first + row) * s.y.row + k]);
        delta[r] = row_total(sum);
        lse[r] = is_there ? s.lse[lse_place + row] : 0.0f;
        factor[r] = z.scale;
        if (column_of_thread() == 0 && is_there) s.delta[lse_place + row] = delta[r];
    }
    for (int block = z.keys_begin(first, past, BLOCK); block < z.keys_end(past, BLOCK); block++) {
        int key = block * BLOCK;
        float p[R][R], dp[R][R];
        __syncthreads();
        plain_load<S, BLOCK>(tile.other_a, s.k, s.k.at(work.batch, kv), key, z.s, z.d);
        plain_load<S, BLOCK>(tile.other_b, s.v, s.v.at(work.batch, kv), key, z.s, z.e);
        __syncthreads();
        plain_scores<S, R>(p, tile.own_a, tile.other_a);
        plain_scores<S, R>(dp, tile.own_b, tile.other_b);
        UNROLLED(r, R)
            UNROLLED(c, R) {
                int row = first + row_of_thread() + 16 * r, j = key + column_of_thread() + 16 * c;
                bool is_there = row < z.t && j < z.s;
                float slope = 1;
                if (s.dropout.run) dp[r][c] *= s.dropout.at(stream, lse_place + row - first, j);
                p[r][c] = is_there && z.sees(row, j)
                              ? plain_probability(p[r][c], s, work.batch, work.head, row, j, lse[r],
                                                &slope) *
                                    (dp[r][c] - delta[r])
                              : 0.0f;
                if (s.scores && is_there) s.scores[(lse_place + row - first) * z.s + j] = p[r][c];
                p[r][c] *= slope;
            }
        plain_put<R>(tile.ds, p);
        __syncthreads();
        plain_add<S, R>(dq, tile.ds, tile.other_a);
    }
    plain_store<S, R>(dq, factor, s.dq, s.dq.at(work.batch, work.head), first, z.t, z.d);
}

/* k and v stay; q and dy change, of one head that shares k and v after the other. Scores are transposed: rows
 * are keys, columns are queries. */
template <class T, class S, int R>
__global__ void __launch_bounds__(THREADS) plain_dk_dv(backward_operands<T> s) {
    constexpr int BLOCK = 16 * R;
    SHARED_MEMORY(float, shared);
    plain_tiles<S, R> tile(shared);
    const attention_shape &z = s.z;
    attention_work work(z.batches, z.heads / z.group, s.tiles, false);
    int first = work.tile * BLOCK;
    int begin = z.queries_begin(first, BLOCK), blocks = z.queries_end(first + BLOCK, BLOCK) - begin;
    plain_load<S, BLOCK>(tile.own_a, s.k, s.k.at(work.batch, work.head), first, z.s, z.d);
    plain_load<S, BLOCK>(tile.own_b, s.v, s.v.at(work.batch, work.head), first, z.s, z.e);
    float dk[R][S::OWN] = {}, dv[R][S::OWN] = {}, one[R], factor[R];
    const philox_stream stream = s.dropout.stream();
    for (int step = 0; blocks > 0 && step < blocks * z.group; step++) {
        int query = (begin + step % blocks) * BLOCK, h = work.head * z.group + step / blocks;
        int64_t lse_place = (work.batch * z.heads + h) * z.t;
        float p[R][R], dp[R][R];
        __syncthreads();
        plain_load<S, BLOCK>(tile.other_a, s.q, s.q.at(work.batch, h), query, z.t, z.d);
        plain_load<S, BLOCK>(tile.other_b, s.dy, s.dy.at(work.batch, h), query, z.t, z.e);
        __syncthreads();
        plain_scores<S, R>(p, tile.own_a, tile.other_a);
        plain_scores<S, R>(dp, tile.own_b, tile.other_b);
        UNROLLED(c, R) {
            int i = query + column_of_thread() + 16 * c;
            bool is_there = i < z.t;
            float lse = is_there ? s.lse[lse_place + i] : 0.0f;
            float delta = is_there ? s.delta[lse_place + i] : 0.0f;
            UNROLLED(r, R) {
                int j = first + row_of_thread() + 16 * r;
                float slope = 1;
                p[r][c] = is_there && j < z.s && z.sees(i, j)
                              ? plain_probability(p[r][c], s, work.batch, h, i, j, lse, &slope)
                              : 0.0f;
                float kept = s.dropout.run ? s.dropout.at(stream, lse_place + i, j) : 1.0f;
                dp[r][c] = p[r][c] * (dp[r][c] * kept - delta) * slope;
                p[r][c] *= kept;
            }
        }
        plain_put<R>(tile.p, p);
        plain_put<R>(tile.ds, dp);
        __syncthreads();
        plain_add<S, R>(dv, tile.p, tile.other_b);
        plain_add<S, R>(dk, tile.ds, tile.other_a);
    }
    UNROLLED(r, R) {
        one[r] = 1.0f;
        factor[r] = z.scale;
    }
    plain_store<S, R>(dk, factor, s.dk, s.dk.at(work.batch, work.head), first, z.s, z.d);
    plain_store<S, R>(dv, one, s.dv, s.dv.at(work.batch, work.head), first, z.s, z.e);
}

/* ---- launches ---- */

/* Shared memory: queries, keys or values, and scores. */
template <class T, class S, int R> static weft_status plain_launch(const kernel_call *c) {
    constexpr size_t bytes = (size_t)(2 * 16 * R * S::LD + 16 * R * (16 * R + 1)) * sizeof(float);
    forward_operands<T> s = forward_operands_of<T>(c);
    s.tiles = (s.z.t + 16 * R - 1) / (16 * R);
    return launch(c, plain_forward<T, S, R>, attention_blocks(s.z.batches, s.z.heads, s.tiles), dim3(THREADS),
                  bytes, s);
}

/* dq comes first: it writes delta, which the other kernel reads. */
template <class T, class S, int R> static weft_status plain_backward_launch(const kernel_call *c) {
    backward_operands<T> s = backward_operands_of<T>(c);
    s.tiles = (s.z.t + 16 * R - 1) / (16 * R);
    size_t bytes = plain_tiles<S, R>::BYTES;
    weft_status status = launch(c, plain_dq<T, S, R>, attention_blocks(s.z.batches, s.z.heads, s.tiles),
                                dim3(THREADS), bytes, s);
    if (status) return status;
    s.tiles = (s.z.s + 16 * R - 1) / (16 * R);
    return launch(c, plain_dk_dv<T, S, R>, attention_blocks(s.z.batches, s.z.heads / s.z.group, s.tiles),
                  dim3(THREADS), bytes, s);
}

/* Of q and k, or of v. */
static int64_t widest_head(const kernel_call *c, int q) {
    int64_t d = c->in[q].type.shape[3], e = c->in[q + 2].type.shape[3];
    return d > e ? d : e;
}

/* R is the largest for which the tiles fit shared memory. */
weft_status cuda_attention_plain_run(void *, const kernel_call *c) {
    int64_t d = widest_head(c, ATTENTION_Q);
    return with_float(c, c->in[0].type.dtype, [&](auto zero) {
        using T = decltype(zero);
        /* R rows and columns for each thread: 4 where the tiles fit shared memory, else 2 */
        if (d <= 64) return plain_launch<T, plain_shape<64>, 4>(c);
        return d <= 128 ? plain_launch<T, plain_shape<128>, 4>(c) : plain_launch<T, plain_shape<256>, 2>(c);
    });
}

weft_status cuda_attention_plain_backward_run(void *, const kernel_call *c) {
    int64_t d = widest_head(c, BACKWARD_Q);
    return with_float(c, c->in[BACKWARD_Q].type.dtype, [&](auto zero) {
        using T = decltype(zero);
        if (d <= 64) return plain_backward_launch<T, plain_shape<64>, 4>(c);
        return d <= 128 ? plain_backward_launch<T, plain_shape<128>, 2>(c)
                        : plain_backward_launch<T, plain_shape<256>, 2>(c);
    });
}

weft_status cuda_attention_dropout_plain_run(void *state, const kernel_call *c) {
    return cuda_attention_plain_run(state, c);
}
