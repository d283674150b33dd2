/* norms.cu - the norm of all gradients, and the f64 scalars of a step. Sums are f64 in a fixed order: one
 * block for each chunk of NORM_CHUNK elements of a parameter, however the gradients are spread over ranks, so
 * the norm has the same bits for every number of ranks. */
#include "ops/cuda/kit/kernel.cuh"
#include "ops/cuda/kit/parts.h"

extern "C" {
#include "ops/optimizer/schedule.h"
}

#include <float.h>
#include <math.h>

enum { NORM_THREADS = 256 };

/* The sum over a block; every thread gets it. Once in each kernel, since `part` is not guarded for reuse. */
__device__ static inline double block_total(double x) {
    SHARED_ARRAY(double, part, [NORM_THREADS / 32]);
    for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
    __syncthreads();
    double sum = 0;
    for (int w = 0; w < NORM_THREADS / 32; w++) sum += part[w];
    return sum;
}

/* ---- chunk_squares ---- */

/* The parameters of a bucket, one after the other: which part of each this rank has, and where its chunks'
 * sums go. */
struct square_members {
    int n;
    int64_t chunks; /* of all members */
    struct {
        /* Of the parameter's element 0 from the first gradient that is here; may be below 0. */
        int64_t offset;
        int64_t first, last; /* elements that are here: [first, last) */
        int64_t chunk;       /* number of its first chunk among those of this launch */
    } at[NORM_PARTS];
};

/* A block sums the squares of one chunk, or of the part of it that is here. */
__global__ void __launch_bounds__(NORM_THREADS)
    squares_of_chunks(square_members s, const float *gradients, double *sums) {
    int low = 0, high = s.n - 1;
    /* binary search: the last member whose chunks begin at this block or before */
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (s.at[middle].chunk <= (int64_t)blockIdx.x)
            low = middle;
        else
            high = middle - 1;
    }
    int64_t begin = ((int64_t)blockIdx.x - s.at[low].chunk) * NORM_CHUNK, end = begin + NORM_CHUNK;
    double sum = 0;
    if (begin < s.at[low].first) begin = s.at[low].first;
    if (end > s.at[low].last) end = s.at[low].last;
    for (int64_t i = begin + threadIdx.x; i < end; i += NORM_THREADS) {
        double g = gradients[s.at[low].offset + i];
        sum += g * g;
    }
    sum = block_total(sum);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

/* Launches the members that are collected, and starts again after their sums. */
static weft_status squares_launch(const kernel_call *c, square_members *s, double **sums) {
    const float *g = c->n_in ? static_cast<const float *>(c->in[0].data) : NULL;
    weft_status status =
        launch(c, squares_of_chunks, dim3((unsigned)s->chunks), dim3(NORM_THREADS), 0, *s, g, *sums);
    *sums += s->chunks;
    s->n = 0;
    s->chunks = 0;
    return status;
}

/* gradients [a range of the bucket] -> sums [chunks of all members], f64. */
extern "C" weft_status cuda_chunk_squares_run(void *, const kernel_call *c) {
    const chunk_squares_attrs *a = static_cast<const chunk_squares_attrs *>(c->attrs);
    const weft_variable *bucket = c->node->variable;
    double *sums = static_cast<double *>(c->out[0].data);
    int64_t count = c->n_in ? c->in[0].type.shape[0] : 0, first, last;
    square_members s = {};
    weft_status status = WEFT_OK;
    for (int i = 0; i < bucket->n_members && status == WEFT_OK; i++) {
        const weft_variable *v = bucket->members[i];
        bool is_here = member_range(v, a->begin, count, &first, &last);
        s.at[s.n].offset = v->offset - a->begin;
        s.at[s.n].first = is_here ? first : 0;
        /* no element is here: its sums are 0 */
        s.at[s.n].last = is_here ? last : 0;
        s.at[s.n++].chunk = s.chunks;
        s.chunks += norm_chunks(type_elements(&v->type));
        if (s.n == NORM_PARTS) status = squares_launch(c, &s, &sums);
    }
    return status == WEFT_OK && s.n ? squares_launch(c, &s, &sums) : status;
}

/* ---- root_sum ---- */

struct sum_operands {
    int n;
    struct {
        const double *x;
        int64_t count;
    } at[NORM_PARTS];
};

/* One block adds all operands; `total` carries the sum from launch to launch, and the last one writes the
 * root. */
__global__ void __launch_bounds__(NORM_THREADS)
    sum_all(sum_operands s, double *total, bool is_first, bool is_last, double *root) {
    double sum = 0;
    for (int k = 0; k < s.n; k++)
        for (int64_t i = threadIdx.x; i < s.at[k].count; i += NORM_THREADS) sum += s.at[k].x[i];
    sum = block_total(sum);
    if (threadIdx.x) return;
    sum += is_first ? 0 : *total;
    *total = sum;
    if (is_last) *root = sqrt(sum);
}

/* Any number of f64 arrays -> the root of the sum of all their elements, f64[]. */
extern "C" weft_status cuda_root_sum_run(void *, const kernel_call *c) {
    double *total = static_cast<double *>(c->workspace), *root = static_cast<double *>(c->out[0].data);
    weft_status status = WEFT_OK;
    for (int begin = 0; begin < c->n_in && status == WEFT_OK; begin += NORM_PARTS) {
        sum_operands s = {};
        for (; s.n < NORM_PARTS && begin + s.n < c->n_in; s.n++) {
            s.at[s.n].x = static_cast<const double *>(c->in[begin + s.n].data);
            s.at[s.n].count = type_elements(&c->in[begin + s.n].type);
        }
        status = launch(c, sum_all, dim3(1), dim3(NORM_THREADS), 0, s, total, begin == 0,
                        begin + NORM_PARTS >= c->n_in, root);
    }
    return status;
}

/* ---- scalars ---- */

/* min(1, most / (norm + 1e-6)), as in PyTorch. */
__global__ void clip_scale(const double *norm, double most, double *scale) {
    double s = most / (*norm + 1e-6);
    *scale = s > 1 ? 1 : s;
}

extern "C" weft_status cuda_clip_scale_run(void *, const kernel_call *c) {
    return launch(c, clip_scale, dim3(1), dim3(1), 0, static_cast<const double *>(c->in[0].data),
                  static_cast<const clip_scale_attrs *>(c->attrs)->max_norm,
                  static_cast<double *>(c->out[0].data));
}

/* Formulas in ops/optimizer/loss_scale.c. A step with a norm that is not finite gets factor -1 (skipped) and
 * halves the scale. */
struct loss_scale_results {
    double *factor, *scale, *good, *done;
};

/* One thread: norm [], scale [], good [] -> factor, scale, good, done, all f64[]. */
__global__ void loss_scale(const double *norm, const double *scale, const double *good, loss_scale_attrs a,
                           loss_scale_results y) {
    double s = *scale, run = *good + 1;
    bool is_good = isfinite(*norm), grows = is_good && run >= (double)a.growth_interval;
    double clip = a.max_norm > 0 ? fmin(1.0, a.max_norm / (*norm / s + 1e-6)) : 1;
    double grown = 2 * s <= FLT_MAX ? 2 * s : s;
    *y.factor = is_good ? clip / s : -1;
    *y.scale = is_good ? (grows ? grown : s) : fmax(0.5 * s, (double)FLT_MIN);
    *y.good = is_good && !grows ? run : 0;
    *y.done = is_good ? 1 : 0;
}

extern "C" weft_status cuda_loss_scale_run(void *, const kernel_call *c) {
    const double *in[3];
    double *out[4];
    for (int i = 0; i < 3; i++) in[i] = static_cast<const double *>(c->in[i].data);
    for (int k = 0; k < 4; k++) out[k] = static_cast<double *>(c->out[k].data);
    return launch(c, loss_scale, dim3(1), dim3(1), 0, in[0], in[1], in[2],
                  *static_cast<const loss_scale_attrs *>(c->attrs),
                  loss_scale_results{out[0], out[1], out[2], out[3]});
}

__global__ void schedule(const double *t, const double *value, const double *base, schedule_attrs a,
                         double *result) {
    *result = schedule_apply(&a, value ? *value : 1, *t, base ? *base : 1);
}

extern "C" weft_status cuda_schedule_run(void *, const kernel_call *c) {
    const double *in[3] = {};
    for (int i = 0; i < c->n_in; i++) in[i] = static_cast<const double *>(c->in[i].data);
    return launch(c, schedule, dim3(1), dim3(1), 0, in[0], in[1], in[2],
                  *static_cast<const schedule_attrs *>(c->attrs), static_cast<double *>(c->out[0].data));
}
