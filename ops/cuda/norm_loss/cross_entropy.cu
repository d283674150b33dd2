/* cross_entropy.cu - forward reads the logits once (maximum and sum together, rows.cuh); a second small
 * kernel takes the mean, or the sum, in a fixed order. Backward counts the rows for a mean, then reads the
 * logits and writes their gradients once. */
#include "ops/cuda/norm_loss/rows.cuh"

extern "C" {
#include "ops/norm_loss/norm.h"
}

/* The targets of a run, and where a bad one is recorded. */
struct labels {
    integers target;
    int64_t classes, ignored;
    cuda_failure *failure;
    int order;

    __device__ bool is_counted(int64_t row) const {
        return target.at(row) != ignored;
    }
    /* The class of a row that counts; 0 for a bad target, which is recorded. */
    __device__ int64_t of(int64_t row) const {
        int64_t t = target.at(row);
        if (t >= 0 && t < classes) return t;
        note_failure(failure, order, t, row);
        return 0;
    }
};

static labels labels_of(const kernel_call *c, const tensor *logits, const tensor *target) {
    return labels{integers_of(target), logits->type.shape[1],
                  static_cast<const cross_entropy_attrs *>(c->attrs)->ignore_index, c->cuda->failure,
                  c->node->order};
}

/* lse and loss [rows]; a row that is ignored has loss 0. */
template <class T, class SHAPE>
__global__ void __launch_bounds__(SHAPE::THREADS)
    cross_entropy_rows(const T *x, labels target, float *lse, float *loss, int64_t rows, int64_t n) {
    SHARED_ARRAY(float, scratch, [32]);
    EACH_ROW(SHAPE, at, rows) {
        row_of<T, SHAPE> row(x + at * n, n);
        soft_sum s = soft_sum::none();
        row.each([&](int64_t, float(&v)[SHAPE::VEC]) { s.add(v); });
        s.template merge<SHAPE>(scratch);
        if (row.lane != 0) continue;
        /* one thread of the row writes its results; both terms of the loss are positive, so that their sum
         * keeps their digits, which max + log sum may round away */
        float log_sum = logf(s.sum);
        lse[at] = s.max + log_sum;
        loss[at] = target.is_counted(at) ? (s.max - to_float(x[at * n + target.of(at)])) + log_sum : 0.0f;
    }
}

/* The number of rows that count, by one block: counted as integers by each thread, added in f32, which is
 * exact up to 2^24 rows. */
__device__ static float counted_rows(const labels &target, int64_t rows, float *scratch) {
    int count = 0;
    for (int64_t i = threadIdx.x; i < rows; i += blockDim.x) count += target.is_counted(i);
    return block_sum((float)count, scratch);
}

enum { MEAN_THREADS = 1024 };

/* One block: the sum of the losses, over the rows that count for a mean. */
__global__ void __launch_bounds__(MEAN_THREADS)
    cross_entropy_total(const float *loss, labels target, int64_t rows, bool is_mean, float *total) {
    SHARED_ARRAY(float, scratch, [32]);
    float sum = 0;
    for (int64_t i = threadIdx.x; i < rows; i += MEAN_THREADS) sum += loss[i];
    sum = block_sum(sum, scratch);
    float count = is_mean ? counted_rows(target, rows, scratch) : 1.0f;
    if (threadIdx.x == 0) *total = sum / count;
}

__global__ void __launch_bounds__(MEAN_THREADS)
    cross_entropy_count(labels target, int64_t rows, float *count) {
    SHARED_ARRAY(float, scratch, [32]);
    float all = counted_rows(target, rows, scratch);
    if (threadIdx.x == 0) *count = all;
}

/* dx = dloss / count (softmax - onehot), with softmax = e^(x - lse); 0 for rows that are ignored. count is
 * NULL for a sum, and for losses of rows (`each`), whose dloss is [rows]. */
template <class T, class SHAPE>
__global__ void __launch_bounds__(SHAPE::THREADS)
    cross_entropy_gradient(const float *dloss, const float *count, bool each, const T *x, labels target,
                           const float *lse, T *dx, int64_t rows, int64_t n) {
    float factor = count ? *dloss / *count : *dloss;
    EACH_ROW(SHAPE, at, rows) {
        row_of<T, SHAPE> row(x + at * n, n);
        bool is_counted = target.is_counted(at);
        int64_t label = is_counted ? target.of(at) : -1;
        /* p = e^(x - lse) needs neither maximum nor sum again */
        float shift = lse[at], scale = is_counted ? (each ? dloss[at] : factor) : 0.0f;
        auto put = [&](int64_t i, float(&v)[SHAPE::VEC]) {
            UNROLLED(k, SHAPE::VEC) {
                float p = soft_sum::exp_of(v[k] - shift);
                v[k] = is_counted ? scale * (i + k == label ? p - 1.0f : p) : 0.0f;
            }
        };
        row.each(put, dx + at * n);
    }
}

static int64_t reduction_of(const kernel_call *c) {
    return static_cast<const cross_entropy_attrs *>(c->attrs)->reduction;
}

/* x [rows, n], targets [rows] -> loss [] (reduction none: [rows]), lse [rows]. */
weft_status cuda_cross_entropy_run(void *, const kernel_call *c) {
    const tensor *x = &c->in[0];
    int64_t rows = x->type.shape[0], n = x->type.shape[1];
    labels target = labels_of(c, x, &c->in[1]);
    float *total = static_cast<float *>(c->out[0].data), *lse = static_cast<float *>(c->out[1].data);
    float *loss = reduction_of(c) == LOSS_NONE ? total : static_cast<float *>(c->workspace);
    weft_status status = with_float(c, x->type.dtype, [&](auto zero) {
        using T = decltype(zero);
        const T *logits = static_cast<const T *>(x->data);
        return with_row_shape<T>(n, is_vectored<T>(logits, n), [&](auto shape) {
            using S = decltype(shape);
            return launch(c, cross_entropy_rows<T, S>, row_grid<S>(c, rows), dim3(S::THREADS), 0, logits,
                          target, lse, loss, rows, n);
        });
    });
    if (status || reduction_of(c) == LOSS_NONE) return status;
    bool is_mean = reduction_of(c) == LOSS_MEAN;
    return launch(c, cross_entropy_total, dim3(1), dim3(MEAN_THREADS), 0, loss, target, rows, is_mean, total);
}

/* dloss [] (reduction none: [rows]), x [rows, n], targets [rows], lse [rows] -> dx [rows, n]. */
weft_status cuda_cross_entropy_backward_run(void *, const kernel_call *c) {
    const tensor *x = &c->in[1];
    int64_t rows = x->type.shape[0], n = x->type.shape[1];
    labels target = labels_of(c, x, &c->in[2]);
    const float *dloss = static_cast<const float *>(c->in[0].data),
                *lse = static_cast<const float *>(c->in[3].data);
    float *count = reduction_of(c) == LOSS_MEAN ? static_cast<float *>(c->workspace) : nullptr;
    bool each = reduction_of(c) == LOSS_NONE;
    weft_status status = WEFT_OK;
    if (count) status = launch(c, cross_entropy_count, dim3(1), dim3(MEAN_THREADS), 0, target, rows, count);
    if (status) return status;
    return with_float(c, x->type.dtype, [&](auto zero) {
        using T = decltype(zero);
        const T *logits = static_cast<const T *>(x->data);
        T *dx = static_cast<T *>(c->out[0].data);
        return with_row_shape<T>(n, is_vectored<T>(logits, n) && is_vectored<T>(dx, n), [&](auto shape) {
            using S = decltype(shape);
            return launch(c, cross_entropy_gradient<T, S>, row_grid<S>(c, rows), dim3(S::THREADS), 0, dloss,
                          count, each, logits, target, lse, dx, rows, n);
        });
    });
}
