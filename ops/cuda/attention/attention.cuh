/* attention.cuh - what the attention kernels share: heads of tensors with any strides, their rows as tiles in
 * shared memory, products of tiles on tensor cores, and the order in which blocks take their work.
 *
 * A tile has rows of DP elements (the head size D padded with zeros to 64 or 128). The 16-byte pieces of a
 * row are permuted by the row's number (a swizzle), so that the eight rows that ldmatrix reads together are
 * in different banks of shared memory. */
#ifndef WEFT_OPS_CUDA_ATTENTION_ATTENTION_CUH
#define WEFT_OPS_CUDA_ATTENTION_ATTENTION_CUH

#include "ops/cuda/kit/mma.cuh"
#include "ops/cuda/kit/vectors.cuh"

extern "C" {
#include "ops/attention/attention.h"
#include "ops/kit/dropout.h"
}

struct attention_shape {
    int64_t batches;
    int heads, group;        /* of q; and how many of them share one of k and v */
    int t, s, d, e;          /* queries t, keys s, head size d, that of values e */
    bool up, low, all;       /* all: every tile is walked over, whether a query sees its keys or not */
    int upper, lower;        /* up: query i sees keys j < i + upper; low: keys j > i + lower */
    float scale, scale_log2; /* of the scores; and times log2 e, so that 2^x serves for e^x */
    float cap;               /* softcap; 0: none */

    /* The tiles of `step` keys [begin, end) which queries from `first` to before `past` see: at least one. */
    __device__ int keys_end(int past, int step) const {
        int end = up && past - 1 + upper < s && !all ? past - 1 + upper : s;
        return end < 1 ? 1 : (end + step - 1) / step;
    }
    __device__ int keys_begin(int first, int past, int step) const {
        int begin = low && first + lower >= 0 && !all ? (first + 1 + lower) / step : 0;
        int last = keys_end(past, step) - 1;
        return begin < last ? begin : last;
    }
    /* The tiles of `step` queries which see keys from `first` to before `past`; there may be none. */
    __device__ int queries_begin(int first, int step) const {
        return up && first + 1 > upper ? (first + 1 - upper) / step : 0;
    }
    __device__ int queries_end(int past, int step) const {
        int end = low && past - 1 - lower < t ? past - 1 - lower : t;
        return end < 1 ? 0 : (end + step - 1) / step;
    }
    /* Whether query i sees key j, both of which exist, whatever the mask. */
    __device__ bool sees(int i, int j) const {
        return !(up && j >= i + upper) && !(low && j <= i + lower);
    }
    /* Whether queries [i, i_past) see all keys [j, j_past), or none. */
    __device__ bool sees_all(int i, int i_past, int j, int j_past) const {
        return !(up && j_past - 1 >= i + upper) && !(low && j <= i_past - 1 + lower);
    }
    __device__ bool sees_none(int i, int i_past, int j, int j_past) const {
        return !all && ((up && j >= i_past - 1 + upper) || (low && j_past - 1 <= i + lower));
    }
    /* A score that was scaled, after softcap; its derivative goes to *slope. */
    __device__ float capped(float x, float *slope) const {
        *slope = 1;
        if (cap == 0) return x;
        float y = tanhf(x / cap);
        *slope = 1 - y * y;
        return cap * y;
    }
};

/* A limit beyond all queries and keys, of which there are at most 2^30, does what one at their end does; i +
 * limit and i - limit are ints. */
static inline int attention_limit(int64_t i, int64_t least) {
    const int64_t most = 1 << 30;
    return (int)(i > most ? most : i < least ? least : i);
}

/* q: the operand that holds the queries; keys and values follow it. A limit that hides nothing has no
 * effect. */
static inline attention_shape attention_shape_of(const kernel_call *c, int q) {
    const int64_t *qs = c->in[q].type.shape, *ks = c->in[q + 1].type.shape;
    const attention_attrs *a = static_cast<const attention_attrs *>(c->attrs);
    double scale = attention_scale(a, &c->in[q].type);
    int64_t ahead = a->causal ? 1 : a->ahead < ATTENTION_MOST ? a->ahead : ATTENTION_MOST;
    int64_t window = a->window < ATTENTION_MOST ? a->window : ATTENTION_MOST;
    attention_shape z = {};
    z.batches = qs[0];
    z.heads = (int)qs[1];
    z.group = (int)(qs[1] / ks[1]);
    z.t = (int)qs[2];
    z.s = (int)ks[2];
    z.d = (int)qs[3];
    z.e = (int)c->in[q + 2].type.shape[3];
    z.upper = attention_limit(a->offset + ahead, 1 - (1 << 30));
    z.lower = attention_limit(a->offset - window, -(1 << 30));
    z.up = ahead && z.upper < z.s;
    z.low = window && z.lower + z.t - 1 >= 0;
    z.all = a->mask_gradient;
    z.scale = (float)scale;
    z.scale_log2 = (float)(scale * M_LOG2E);
    z.cap = (float)a->softcap;
    return z;
}

/* ---- heads ---- */

/* All heads of a tensor; strides in elements. */
template <class T> struct heads_of {
    T *data;
    int64_t batch, head, row, column;
    bool is_fast; /* columns contiguous, rows and base aligned to 16 bytes: copied 16 bytes at a time */

    /* The first element of head h of batch b. */
    __device__ T *at(int64_t b, int h) const {
        return data + b * batch + h * head;
    }
};

/* `heads` and `rows` are the axes of the tensor that count heads and rows. */
template <class T> static heads_of<T> heads_from(const tensor *t, int heads, int rows) {
    const int64_t *stride = t->stride, *shape = t->type.shape;
    bool is_fast = reinterpret_cast<uintptr_t>(t->data) % 16 == 0 && shape[3] % 8 == 0 && stride[3] == 1;
    for (int i = 0; i < 3; i++) is_fast &= shape[i] == 1 || stride[i] % 8 == 0;
    return heads_of<T>{static_cast<T *>(t->data), stride[0], stride[heads], stride[rows], stride[3], is_fast};
}

/* ---- masks ---- */

/* The mask of all heads; its element type is a branch, the same in all threads. */
struct attention_mask {
    const void *data; /* NULL: none */
    weft_dtype dtype;
    int64_t batch, head, row, column; /* strides in elements, 0 where it broadcasts */

    /* A score, already scaled, that the mask is applied to; query i and key j exist. */
    __device__ float apply(float score, int64_t b, int h, int i, int j) const {
        int64_t at = b * batch + h * head + i * row + j * column;
        if (!data) return score;
        if (dtype == WEFT_BOOL) return static_cast<const bool *>(data)[at] ? score : -INFINITY;
        return score + floats{data, dtype}.at(at);
    }
};

/* Operand i of a call, which may be missing. */
static inline attention_mask attention_mask_of(const kernel_call *c, int i) {
    int64_t stride[4];
    if (i >= c->n_in) return attention_mask{};
    attention_mask_strides(&c->in[i], stride);
    return attention_mask{c->in[i].data, c->in[i].type.dtype, stride[0], stride[1], stride[2], stride[3]};
}

/* ---- dropout ---- */

/* Which weights are kept. The key and the numbers of a run are in the GPU's memory. */
struct attention_dropout {
    const run_state *run; /* NULL: no dropout */
    uint64_t key, below;
    float factor;
    int64_t words; /* of a row: attention_word */

    __device__ philox_stream stream() const {
        return run ? philox_stream_of(run, key) : philox_stream{};
    }
    __device__ float kept(uint32_t word) const {
        return word < below ? 0.0f : factor;
    }
    /* What weight j of row number `row` is multiplied by. */
    __device__ float at(const philox_stream &s, int64_t row, int j) const {
        return kept(philox_word(&s, (uint64_t)(row * words + j)));
    }
    /* The same for j, which is even, and j + 1: words of one counter. */
    __device__ void pair(const philox_stream &s, int64_t row, int j, float (&k)[2]) const {
        uint32_t word[4];
        philox_block(&s, (uint64_t)(row * words + j) / 4, word);
        k[0] = kept(j & 2 ? word[2] : word[0]);
        k[1] = kept(j & 2 ? word[3] : word[1]);
    }
    /* Multiplies a fragment of queries by keys; element (n, i) is row + 8 (i / 2), key + 8 n + i % 2. */
    template <int N>
    __device__ void drop(float (&x)[N][4], const philox_stream &s, int64_t row, int key) const {
        UNROLLED(n, N)
            UNROLLED(half, 2) {
                float k[2];
                pair(s, row + 8 * half, key + 8 * n, k);
                x[n][2 * half] *= k[0];
                x[n][2 * half + 1] *= k[1];
            }
    }
};

static inline attention_dropout attention_dropout_of(const kernel_call *c, int64_t keys) {
    const attention_attrs *a = static_cast<const attention_attrs *>(c->attrs);
    if (!(a->p > 0)) return attention_dropout{};
    return attention_dropout{c->run, a->key, dropout_threshold(a->p), (float)dropout_factor(a->p),
                             attention_word(1, 0, keys)};
}

/* ---- operands of the kernels ---- */

template <class T> struct forward_operands {
    attention_shape z;
    heads_of<const T> q, k, v;
    heads_of<T> y;
    attention_mask mask;
    attention_dropout dropout;
    float *lse, *shift; /* [B, H, T]; shift NULL: without a mask of numbers */
    int tiles;          /* of queries */
};

/* q, k and v are [B, H, T, D or E], y is [B, T, H, E]; any strides. */
template <class T> static forward_operands<T> forward_operands_of(const kernel_call *c) {
    forward_operands<T> s = {};
    s.z = attention_shape_of(c, ATTENTION_Q);
    s.q = heads_from<const T>(&c->in[ATTENTION_Q], 1, 2);
    s.k = heads_from<const T>(&c->in[ATTENTION_K], 1, 2);
    s.v = heads_from<const T>(&c->in[ATTENTION_V], 1, 2);
    s.y = heads_from<T>(&c->out[0], 2, 1);
    s.mask = attention_mask_of(c, ATTENTION_MASK);
    s.dropout = attention_dropout_of(c, c->in[ATTENTION_K].type.shape[2]);
    s.lse = static_cast<float *>(c->out[1].data);
    s.shift = c->n_out == 3 ? static_cast<float *>(c->out[2].data) : NULL;
    return s;
}

template <class T> struct backward_operands {
    attention_shape z;
    heads_of<const T> dy, q, k, v, y;
    heads_of<T> dq, dk, dv;
    attention_mask mask;
    attention_dropout dropout;
    const float *lse, *shift; /* [B, H, T]; shift NULL: without a mask of numbers */
    float *delta;             /* [B, H, T], in the workspace */
    float *scores;            /* [B, H, T, S]: their gradients; NULL: not wanted */
    int tiles;                /* of the kernel that is launched */
};

/* dy, y and the results are [B, T, H, D or E]; q, k and v are [B, H, T, D or E]; any strides. */
template <class T> static backward_operands<T> backward_operands_of(const kernel_call *c) {
    backward_operands<T> s = {};
    s.z = attention_shape_of(c, BACKWARD_Q);
    s.dy = heads_from<const T>(&c->in[BACKWARD_DY], 2, 1);
    s.q = heads_from<const T>(&c->in[BACKWARD_Q], 1, 2);
    s.k = heads_from<const T>(&c->in[BACKWARD_K], 1, 2);
    s.v = heads_from<const T>(&c->in[BACKWARD_V], 1, 2);
    s.y = heads_from<const T>(&c->in[BACKWARD_Y], 2, 1);
    s.dq = heads_from<T>(&c->out[0], 2, 1);
    s.dk = heads_from<T>(&c->out[1], 2, 1);
    s.dv = heads_from<T>(&c->out[2], 2, 1);
    s.mask = attention_mask_of(c, BACKWARD_MASK);
    s.dropout = attention_dropout_of(c, c->in[BACKWARD_K].type.shape[2]);
    s.lse = static_cast<const float *>(c->in[BACKWARD_LSE].data);
    s.shift = c->n_in > BACKWARD_SHIFT ? static_cast<const float *>(c->in[BACKWARD_SHIFT].data) : NULL;
    s.scores = c->n_out == 4 ? static_cast<float *>(c->out[3].data) : NULL;
    s.delta = static_cast<float *>(c->workspace);
    return s;
}

/* ---- tiles ---- */

/* Offset of piece `chunk` (8 elements) of a row of a tile, in elements: piece and row number are xored. */
template <int DP> __device__ static inline int tile_place(int row, int chunk) {
    return row * DP + (chunk ^ (row & 7)) * 8;
}

/* Loads rows [first, first + ROWS) of one head into a tile, with all threads; rows and columns that do not
 * exist become zeros. The fast way is asynchronous and is complete when its group of copies is; the other is
 * complete at the next barrier. A thread copies one piece of rows that are a multiple of 8 apart, so that the
 * swizzle is the same for all of them. */
template <int DP, int ROWS, int THREADS, class T>
__device__ static inline void tile_load(T *tile, const heads_of<const T> &from, const T *head, int first,
                                        int rows, int d) {
    constexpr int CHUNKS = DP / 8, STEP = THREADS / CHUNKS;
    static_assert(STEP % 8 == 0 && ROWS % STEP == 0, "");
    int chunk = (int)threadIdx.x % CHUNKS, row = (int)threadIdx.x / CHUNKS;
    T *to = tile + tile_place<DP>(row, chunk);
    if (from.is_fast) {
        const T *at = head + (first + row) * from.row + chunk * 8;
        int there = chunk * 8 < d ? rows - first - row : 0; /* rows k * STEP below this number exist */
        UNROLLED(k, ROWS / STEP)
            copy_async_16(to + k * STEP * DP, k * STEP < there ? at + k * STEP * from.row : head,
                          k * STEP < there);
        return;
    }
#pragma unroll 1
    for (int k = 0; k < ROWS / STEP * 8; k++) {
        int column = chunk * 8 + k % 8, r = row + k / 8 * STEP;
        bool is_there = first + r < rows && column < d;
        to[k / 8 * STEP * DP + k % 8] =
            is_there ? head[(first + r) * from.row + column * from.column] : from_float<T>(0.0f);
    }
}

/* ---- fragments (mma.cuh has the map of lanes) ---- */

/* Two numbers of 16 bits as one register, x in the low half. */
template <class PAIR> __device__ static inline uint32_t pair_bits(PAIR pair) {
    uint32_t bits;
    static_assert(sizeof pair == sizeof bits, "");
    memcpy(&bits, &pair, sizeof bits);
    return bits;
}

__device__ static inline uint32_t pack_pair(__nv_bfloat16, float x, float y) {
    return pair_bits(__floats2bfloat162_rn(x, y));
}

__device__ static inline uint32_t pack_pair(__half, float x, float y) {
    return pair_bits(__floats2half2_rn(x, y));
}

/* d += a times columns [8 half, 8 half + 8) of a B of 16 columns. */
__device__ static inline void mma_half(__nv_bfloat16, float (&d)[4], const uint32_t (&a)[4],
                                       const uint32_t (&b)[4], int half) {
    const uint32_t one[2] = {b[2 * half], b[2 * half + 1]};
    mma_16816_bf16(d, a, one);
}

__device__ static inline void mma_half(__half, float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[4],
                                       int half) {
    const uint32_t one[2] = {b[2 * half], b[2 * half + 1]};
    mma_16816_f16(d, a, one);
}

/* The A fragment of rows [row, row + 16), columns [16 k, 16 k + 16) of a tile. */
template <int DP, class T>
__device__ static inline void tile_a(uint32_t (&a)[4], const T *tile, int row, int k) {
    int lane = (int)threadIdx.x % 32;
    ldmatrix_x4(a, tile + tile_place<DP>(row + lane % 16, 2 * k + lane / 16));
}

/* The B fragment for a product with the tile's transpose: its columns [n, n + 16) are rows of the tile; b[0],
 * b[1] are the first 8. */
template <int DP, class T>
__device__ static inline void tile_b_rows(uint32_t (&b)[4], const T *tile, int n, int k) {
    int lane = (int)threadIdx.x % 32;
    ldmatrix_x4(b, tile + tile_place<DP>(n + lane / 16 * 8 + lane % 8, 2 * k + lane / 8 % 2));
}

/* The B fragment for a product with the tile itself: rows [16 k, 16 k + 16), columns [16 n, 16 n + 16). */
template <int DP, class T>
__device__ static inline void tile_b(uint32_t (&b)[4], const T *tile, int k, int n) {
    int lane = (int)threadIdx.x % 32;
    ldmatrix_x4_trans(b, tile + tile_place<DP>(16 * k + lane % 16, 2 * n + lane / 16));
}

/* sum [16 MT, N] = rows [row, row + 16 MT) of `a` times the transpose of the N rows of `b`. A warp with MT =
 * 2 reads `b` once for 32 rows: with 16 rows, shared memory would be the limit and not the tensor cores. */
template <int DP, int N, int MT, class T>
__device__ static inline void tile_product_rows(float (&sum)[MT][N / 8][4], const T *a, int row, const T *b) {
    UNROLLED(m, MT)
        UNROLLED(n, N / 8)
            UNROLLED(i, 4) sum[m][n][i] = 0;
    UNROLLED(k, DP / 16) {
        uint32_t fa[MT][4], fb[4];
        UNROLLED(m, MT) tile_a<DP>(fa[m], a, row + 16 * m, k);
        UNROLLED(n, N / 16) {
            tile_b_rows<DP>(fb, b, 16 * n, k);
            UNROLLED(m, MT) {
                mma_half(T(), sum[m][2 * n], fa[m], fb, 0);
                mma_half(T(), sum[m][2 * n + 1], fa[m], fb, 1);
            }
        }
    }
}

/* The result of a product, 8 columns and the next 8, as the A of the next product: the layouts of D and A
 * match, so no data moves between lanes. */
template <class T>
__device__ static inline void fragment_a(uint32_t (&a)[4], const float (&left)[4], const float (&right)[4]) {
    UNROLLED(i, 2) {
        a[i] = pack_pair(T(), left[2 * i], left[2 * i + 1]);
        a[2 + i] = pack_pair(T(), right[2 * i], right[2 * i + 1]);
    }
}

/* sum [16 MT, DP] += p [16 MT, 8 N] times the 8 N rows of `b`, with p rounded to T. */
template <int DP, int MT, int N, class T>
__device__ static inline void tile_product_add(float (&sum)[MT][DP / 8][4], const float (&p)[MT][N][4],
                                               const T *b) {
    UNROLLED(k, N / 2) {
        uint32_t fa[MT][4], fb[4];
        UNROLLED(m, MT) fragment_a<T>(fa[m], p[m][2 * k], p[m][2 * k + 1]);
        UNROLLED(n, DP / 16) {
            tile_b<DP>(fb, b, k, n);
            UNROLLED(m, MT) {
                mma_half(T(), sum[m][2 * n], fa[m], fb, 0);
                mma_half(T(), sum[m][2 * n + 1], fa[m], fb, 1);
            }
        }
    }
}

/* Stores 16 rows of results of a warp, times `factor`. They pass through the warp's own rows of a tile (which
 * no other warp reads any more), so that global memory is written 16 bytes at a time. `head` is the head of
 * the result; the rows are [first, first + 16), of which those below `rows` exist. */
template <int DP, class T>
__device__ static inline void tile_store(T *tile, int row, const float (&x)[DP / 8][4],
                                         const float (&factor)[2], const heads_of<T> &to, T *head, int first,
                                         int rows, int d) {
    int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
    __syncwarp();
    UNROLLED(n, DP / 8)
        UNROLLED(half, 2) {
            uint32_t pair = pack_pair(T(), x[n][2 * half] * factor[half], x[n][2 * half + 1] * factor[half]);
            *reinterpret_cast<uint32_t *>(tile + tile_place<DP>(row + g + 8 * half, n) + 2 * t) = pair;
        }
    __syncwarp();
    UNROLLED(k, DP / 16) {
        int i = k * 32 + lane, r = i / (DP / 8), chunk = i % (DP / 8);
        if (first + r >= rows || chunk * 8 >= d) continue;
        const T *from = tile + tile_place<DP>(row + r, chunk);
        T *at = head + (first + r) * to.row + chunk * 8;
        if (to.is_fast)
            store(at, load<8>(from));
        else
            for (int j = 0; j < 8 && chunk * 8 + j < d; j++) at[j] = from[j];
    }
}

/* ---- work ---- */

/* The tile, batch and head of a block. The tiles of GROUP heads follow one another, so that their keys and
 * values stay in the L2 cache; within a group the longest ones come first, which shortens the tail of the
 * launch. */
struct attention_work {
    int tile, head;
    int64_t batch;

    __device__ attention_work(int64_t batches, int heads, int tiles, bool last_is_longest) {
        constexpr int GROUP = 64;
        int64_t id = blockIdx.x, first = id / ((int64_t)tiles * GROUP) * GROUP, in = id - first * tiles;
        int64_t left = batches * heads - first, pairs = left < GROUP ? left : GROUP,
                pair = first + in % pairs;
        tile = (int)(in / pairs);
        if (last_is_longest) tile = tiles - 1 - tile;
        batch = pair / heads;
        head = (int)(pair % heads);
    }
};

/* Blocks of a launch over all tiles of all heads. */
static inline dim3 attention_blocks(int64_t batches, int heads, int tiles) {
    return dim3((unsigned)(batches * heads * tiles));
}

#endif
