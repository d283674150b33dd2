/* embedding.cu - forward: copies rows, one warp for each id. Backward: sorts the numbers of the ids by row of
 * the table (sort.cuh); then each row adds the gradients of its ids in their order. No float is added
 * atomically, so the bits repeat, and each row is written exactly once, also when no id points to it. */
#include "ops/cuda/kit/sort.cuh"
#include "ops/cuda/kit/vectors.cuh"

extern "C" {
#include "ops/attention/embedding.h"
}

enum { THREADS = 256, WARPS = THREADS / 32 };

/* The ids of a run, and where a bad one is recorded. */
struct id_list {
    integers ids;
    int64_t rows;
    cuda_failure *failure;
    int order;
    /* The row of id number i; -1 for an id outside the table, which is recorded. */
    __device__ int64_t at(int64_t i) const {
        int64_t id = ids.at(i);
        if (id >= 0 && id < rows) return id;
        note_failure(failure, order, id, i);
        return -1;
    }
};

static id_list ids_of(const kernel_call *c, int64_t rows) {
    return id_list{integers_of(&c->in[1]), rows, c->cuda->failure, c->node->order};
}

/* y [n, d] = rows of w; a bad id copies row 0, and the run fails at its end. */
template <class T, int VEC>
__global__ void __launch_bounds__(THREADS, 4)
    embedding_copy(const T *w, id_list ids, T *y, int64_t n, int64_t d) {
    int lane = (int)threadIdx.x % 32;
    for (int64_t i = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32; i < n; i += (int64_t)gridDim.x * WARPS) {
        int64_t row = ids.at(i);
        if (row < 0) row = 0;
        for (int64_t k = lane * VEC; k < d; k += 32 * VEC)
            store(y + i * d + k, load<VEC>(w + row * d + k));
    }
}

/* w [rows, d], ids -> y [ids, d]. */
weft_status cuda_embedding_run(void *, const kernel_call *c) {
    const tensor_type *t = &c->in[0].type;
    int64_t n = type_elements(&c->in[1].type), d = t->shape[1];
    return with_float(c, t->dtype, [&](auto zero) {
        using T = decltype(zero);
        constexpr int V = vector_width<T>;
        const T *w = static_cast<const T *>(c->in[0].data);
        T *y = static_cast<T *>(c->out[0].data);
        auto kernel =
            is_vectored<T>(w, d) && is_vectored<T>(y, d) ? embedding_copy<T, V> : embedding_copy<T, 1>;
        return launch(c, kernel, dim3(blocks_for(c, n, WARPS)), dim3(THREADS), 0, w, ids_of(c, t->shape[0]),
                      y, n, d);
    });
}

/* ---- backward: the ids of each row ---- */

#define EACH_THREAD(i, count)                                                                                \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (count);                            \
         i += (int64_t)gridDim.x * blockDim.x)

/* The ids of row r are numbers sorted[first[r]] .. sorted[past[r] - 1], increasing. */
struct buckets {
    int *first, *past; /* [rows] */
    const int *sorted;
};

/* Keys for the sort: the row of each id; bad ids get key `rows`, which sorts after all rows. Rows start
 * empty. */
__global__ void bucket_keys(sort_list list, id_list ids, int64_t n, buckets b) {
    EACH_THREAD(i, n) {
        int64_t row = ids.at(i);
        list.key[i] = (int)(row < 0 ? ids.rows : row);
        list.number[i] = (int)i;
    }
    EACH_THREAD(row, ids.rows) b.first[row] = b.past[row] = 0;
}

/* Each id whose neighbour has another key starts or ends a row's range: no two threads write one place. */
__global__ void bucket_ends(sort_list list, int64_t n, buckets b, int64_t rows) {
    EACH_THREAD(i, n) {
        int key = list.key[i];
        if (key >= rows) continue;
        if (i == 0 || list.key[i - 1] != key) b.first[key] = (int)i;
        if (i == n - 1 || list.key[i + 1] != key) b.past[key] = (int)i + 1;
    }
}

/* ---- backward: sums ---- */

/* Columns [k, k + VEC) of the sum of the rows of dy in slots first, first + step, ... before `past`, in
 * f32. */
template <int VEC, class T>
__device__ static inline void bucket_sum(const T *dy, const int *sorted, int first, int past, int step,
                                         int64_t d, int64_t k, float (&sum)[VEC]) {
    UNROLLED(j, VEC) sum[j] = 0;
#pragma unroll 4
    for (int slot = first; slot < past; slot += step) {
        float v[VEC];
        load_floats<VEC>(dy + sorted[slot] * d + k, v);
        UNROLLED(j, VEC) sum[j] += v[j];
    }
}

/* Slots that are added in f32; the sums of such blocks are added in f64, so that a row with many ids keeps
 * its precision. */
enum { BLOCK_SLOTS = 512 };

template <int VEC, class T>
__device__ static inline void long_bucket_sum(const T *dy, const int *sorted, int first, int past, int step,
                                              int64_t d, int64_t k, float (&sum)[VEC]) {
    double total[VEC] = {};
    for (; first < past; first += BLOCK_SLOTS * step) {
        int end = past - first < BLOCK_SLOTS * step ? past : first + BLOCK_SLOTS * step;
        bucket_sum<VEC>(dy, sorted, first, end, step, d, k, sum);
        UNROLLED(j, VEC) total[j] += sum[j];
    }
    UNROLLED(j, VEC) sum[j] = (float)total[j];
}

/* Rows with more ids than this are divided among the warps of a block. */
enum { FEW = 2 * WARPS };

/* A block takes one row of the table at a time: few ids, each thread its columns; many, each warp every
 * WARPS-th id, and warp 0 adds the warps' sums in order. */
template <class T, int VEC>
__global__ void __launch_bounds__(THREADS, 4)
    embedding_sums(const T *dy, buckets b, T *dw, int64_t rows, int64_t d) {
    SHARED_ARRAY(float, shared, [WARPS][32 * VEC]);
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        int first = b.first[row], past = b.past[row];
        float sum[VEC];
        if (past - first <= FEW) {
            for (int64_t k = (int64_t)threadIdx.x * VEC; k < d; k += THREADS * VEC) {
                bucket_sum<VEC>(dy, b.sorted, first, past, 1, d, k, sum);
                store_floats<VEC>(dw + row * d + k, sum);
            }
            continue;
        }
        for (int64_t from = 0; from < d; from += 32 * VEC) {
            int64_t k = from + lane * VEC;
            if (k < d) long_bucket_sum<VEC>(dy, b.sorted, first + warp, past, WARPS, d, k, sum);
            /* transposed by element, so that lanes write to different banks */
            UNROLLED(j, VEC) shared[warp][j * 32 + lane] = k < d ? sum[j] : 0.0f;
            __syncthreads();
            if (warp == 0 && k < d) {
                for (int w = 1; w < WARPS; w++)
                    UNROLLED(j, VEC) sum[j] += shared[w][j * 32 + lane];
                store_floats<VEC>(dw + row * d + k, sum);
            }
            __syncthreads();
        }
    }
}

/* Workspace: first and past of each row, then the sort's buffers. */
weft_status cuda_embedding_backward_run(void *, const kernel_call *c) {
    int64_t rows = c->out[0].type.shape[0], d = c->out[0].type.shape[1], n = type_elements(&c->in[1].type);
    /* bits: enough for keys 0 .. rows, where `rows` stands for a bad id */
    int *room = static_cast<int *>(c->workspace), bits = 1;
    buckets b = {room, room + rows, nullptr};
    sort_space sort = sort_space_at(room + 2 * rows, n);
    id_list ids = ids_of(c, rows);
    dim3 block(THREADS), by_all(blocks_for(c, rows > n ? rows : n, THREADS)),
        by_ids(blocks_for(c, n, THREADS));
    while (rows >> bits) bits++;
    weft_status status = launch(c, bucket_keys, by_all, block, 0, sort.from, ids, n, b);
    if (!status) status = sort_keys(c, sort, bits);
    if (!status) status = launch(c, bucket_ends, by_ids, block, 0, sort.from, n, b, rows);
    if (status) return status;
    b.sorted = sort.from.number;
    return with_float(c, c->in[0].type.dtype, [&](auto zero) {
        using T = decltype(zero);
        constexpr int V = vector_width<T>;
        const T *dy = static_cast<const T *>(c->in[0].data);
        T *dw = static_cast<T *>(c->out[0].data);
        auto kernel =
            is_vectored<T>(dy, d) && is_vectored<T>(dw, d) ? embedding_sums<T, V> : embedding_sums<T, 1>;
        return launch(c, kernel, dim3(blocks_for(c, rows, 1, 64)), block, 0, dy, b, dw, rows, d);
    });
}
