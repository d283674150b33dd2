/* attention.cuh - what the tensor-core kernels of attention share: heads of tensors with any strides, their rows as tiles
 * in shared memory, products of tiles, the order in which blocks take their work.
 *
 * A tile has rows of DP elements (D padded with zeros to 64 or 128). Its 16-byte pieces are permuted within a row by the
 * row's number, so that the eight rows which ldmatrix reads together lie in different banks.
 */
#ifndef WEFT_OPS_CUDA_ATTENTION_ATTENTION_CUH
#define WEFT_OPS_CUDA_ATTENTION_ATTENTION_CUH

#include "ops/cuda/kit/mma.cuh"
#include "ops/cuda/kit/vectors.cuh"

extern "C" {
#include "ops/attention/attention.h"
}

struct attention_shape {
    int64_t pairs; /* batches times heads */
    int heads, t, s, d;
    bool causal;
    float scale, scale_log2; /* of the scores; times log2 e, for powers of two */

    /* Keys that queries before `past` see. */
    __device__ int keys_before(int past) const {
        return causal && past < s ? past : s;
    }
};

static inline attention_shape attention_shape_of(const kernel_call *c, int q) {
    const tensor_type *qt = &c->in[q].type, *kt = &c->in[q + 1].type;
    const attention_attrs *a = static_cast<const attention_attrs *>(c->attrs);
    double scale = attention_scale(a, qt);
    return attention_shape{
        qt->shape[0] * qt->shape[1], (int)qt->shape[1], (int)qt->shape[2], (int)kt->shape[2],
        (int)qt->shape[3],           a->causal,         (float)scale,      (float)(scale * M_LOG2E)};
}

/* ---- heads ---- */

/* All heads of a tensor; strides in elements. */
template <class T> struct heads_of {
    T *data;
    int64_t batch, head, row, column;
    bool is_fast; /* rows lie dense and 16 bytes apart: copied in pieces of 16 */

    __device__ T *at(const attention_shape &z, int64_t pair) const {
        return data + pair / z.heads * batch + pair % z.heads * head;
    }
};

/* `heads` and `rows`: which axes of the tensor those are. */
template <class T> static heads_of<T> heads_from(const tensor *t, int heads, int rows) {
    const int64_t *stride = t->stride, *shape = t->type.shape;
    bool is_fast = reinterpret_cast<uintptr_t>(t->data) % 16 == 0 && shape[3] % 8 == 0 && stride[3] == 1;
    for (int i = 0; i < 3; i++) is_fast &= shape[i] == 1 || stride[i] % 8 == 0;
    return heads_of<T>{static_cast<T *>(t->data), stride[0], stride[heads], stride[rows], stride[3], is_fast};
}

/* ---- what both ways of the gradients take ---- */

enum { BACKWARD_DY, BACKWARD_Q, BACKWARD_K, BACKWARD_V, BACKWARD_Y, BACKWARD_LSE }; /* operands of attention_backward */

template <class T> struct backward_operands {
    attention_shape z;
    heads_of<const T> dy, q, k, v, y;
    heads_of<T> dq, dk, dv;
    const float *lse; /* [pairs, t] */
    float *delta;     /* likewise, in the workspace */
    int tiles;        /* of the kernel that is launched */
};

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
    s.lse = static_cast<const float *>(c->in[BACKWARD_LSE].data);
    s.delta = static_cast<float *>(c->workspace);
    return s;
}

/* ---- tiles ---- */

/* Where piece `chunk` (8 elements) of a row begins. */
template <int DP> __device__ static inline int tile_place(int row, int chunk) {
    return row * DP + (chunk ^ (row & 7)) * 8;
}

/* Rows first .. first + ROWS of one head into a tile, by all threads; zeros where there are none. The fast way ends with
 * the group of copies, the other at the next barrier. A thread has the same piece of rows 8 k apart (so that its place is
 * permuted alike in all). */
template <int DP, int ROWS, int THREADS, class T>
__device__ static inline void tile_load(T *tile, const heads_of<const T> &from, const T *head, int first,
                                        int rows, int d) {
    constexpr int CHUNKS = DP / 8, STEP = THREADS / CHUNKS;
    static_assert(STEP % 8 == 0 && ROWS % STEP == 0, "");
    int chunk = (int)threadIdx.x % CHUNKS, row = (int)threadIdx.x / CHUNKS;
    T *to = tile + tile_place<DP>(row, chunk);
    if (from.is_fast) {
        const T *at = head + (first + row) * from.row + chunk * 8;
        int there = chunk * 8 < d ? rows - first - row : 0; /* rows k * STEP below it exist */
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

/* ---- fragments (mma.cuh says which lane has what) ---- */

/* Two numbers as one register, x in the lower half. */
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

/* d += a times columns 8 half .. 8 half + 7 of two B fragments side by side. */
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

/* A: rows row .. row + 15, columns 16 k .. 16 k + 15 of a tile. */
template <int DP, class T>
__device__ static inline void tile_a(uint32_t (&a)[4], const T *tile, int row, int k) {
    int lane = (int)threadIdx.x % 32;
    ldmatrix_x4(a, tile + tile_place<DP>(row + lane % 16, 2 * k + lane / 16));
}

/* B of a product with a tile's transpose: columns n .. n + 15 of it are rows of the tile; b[0], b[1] are of the first 8. */
template <int DP, class T>
__device__ static inline void tile_b_rows(uint32_t (&b)[4], const T *tile, int n, int k) {
    int lane = (int)threadIdx.x % 32;
    ldmatrix_x4(b, tile + tile_place<DP>(n + lane / 16 * 8 + lane % 8, 2 * k + lane / 8 % 2));
}

/* B of a product with a tile: rows 16 k .. 16 k + 15, columns 16 n .. 16 n + 15. */
template <int DP, class T>
__device__ static inline void tile_b(uint32_t (&b)[4], const T *tile, int k, int n) {
    int lane = (int)threadIdx.x % 32;
    ldmatrix_x4_trans(b, tile + tile_place<DP>(16 * k + lane % 16, 2 * n + lane / 16));
}

/* sum [16 MT, N] = rows row .. of `a` times the transpose of the N rows of `b`. A warp with two times 16 rows reads `b`
 * once for both: with one, shared memory would be the limit, not the tensor cores. */
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

/* What a product gave, 8 columns and the next 8, as the A of the next. */
template <class T>
__device__ static inline void fragment_a(uint32_t (&a)[4], const float (&left)[4], const float (&right)[4]) {
    UNROLLED(i, 2) {
        a[i] = pack_pair(T(), left[2 * i], left[2 * i + 1]);
        a[2 + i] = pack_pair(T(), right[2 * i], right[2 * i + 1]);
    }
}

/* sum [16 MT, DP] += p [16 MT, 8 N] times the 8 N rows of `b`. */
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

/* A warp's 16 rows of results, `factor` times, by way of its own rows of a tile (in which no one else looks any more), so
 * that memory is written 16 bytes at a time. `head`: the results' head, rows first .. first + 15 of which `rows` exist. */
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
            *reinterpret_cast<vector_of<T, 8> *>(at) = load<8>(from);
        else
            for (int j = 0; j < 8 && chunk * 8 + j < d; j++) at[j] = from[j];
    }
}

/* ---- work ---- */

/* A block's tile and its pair of batch and head. Tiles of GROUP pairs come together, so that their keys and values stay
 * in the L2 cache; within a group those that take longest come first. */
struct attention_work {
    int tile;
    int64_t pair;

    __device__ attention_work(const attention_shape &z, int tiles, bool last_is_longest) {
        constexpr int GROUP = 64;
        int64_t id = blockIdx.x, first = id / ((int64_t)tiles * GROUP) * GROUP, in = id - first * tiles;
        int64_t pairs = z.pairs - first < GROUP ? z.pairs - first : GROUP;
        tile = (int)(in / pairs);
        if (last_is_longest) tile = tiles - 1 - tile;
        pair = first + in % pairs;
    }
};

#endif
