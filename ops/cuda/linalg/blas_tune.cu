/* blas_tune.cu - times cuBLASLt's algorithms for a product, on memory of its own, for `graphtool
 * calibrate`. */
#include "ops/cuda/linalg/blas_call.cuh"
#include "ops/cuda/kit/timing.cuh"

extern "C" {
#include "ops/calibration.h"
}

/* Algorithms to try; alignment of the buffers in bytes. */
enum { ALGORITHMS = 32, PLACE = 256 };

/* Bytes from the first element of the matrices to the end of the last. */
static size_t span(const matrices *m, int n_batch, size_t width) {
    int64_t last = (m->rows - 1) * m->row_stride + (m->columns - 1) * m->column_stride;
    for (int i = 0; i < n_batch; i++) last += (m->batch[i] - 1) * m->batch_stride[i];
    return size_align((size_t)(last + 1) * width, PLACE);
}

/* One product with its buffers, all within `memory` on the GPU. */
typedef struct trial {
    const weft_node *node;
    blas_plan plan;
    blas_call call;
    /* bytes: of one element of the operands, of the result, and of `memory` */
    size_t in_width, out_width, bytes;
    char *memory, *a, *b, *out, *bias, *kept, *workspace;
    timing clock;
} trial;

/* Fills the buffers with numbers near 0.01 in bf16 and f32, near 1 in f16: zeros draw less power, so the GPU
 * clocks higher and would be faster than with real data. */
static cudaError_t memory_alloc(trial *t, cudaStream_t stream) {
    const product *p = &t->plan.p;
    size_t a = span(&p->a, p->n_batch, t->in_width), b = span(&p->b, p->n_batch, t->in_width),
           out = span(&p->out, p->n_batch, t->out_width);
    size_t sums = t->plan.epilogue.sums ? (size_t)p->a.rows : (size_t)p->bias,
           kept = blas_reads_kept(&t->plan) ? (size_t)(p->out.rows * t->plan.epilogue.kept_columns) : 0,
           bias_bytes = size_align(sums * t->out_width, PLACE),
           kept_bytes = size_align(kept * t->out_width, PLACE);
    t->bytes = a + b + out + bias_bytes + kept_bytes + t->plan.bytes;
    cudaError_t result = cudaMalloc((void **)&t->memory, t->bytes);
    if (result != cudaSuccess) return result;
    t->a = t->memory;
    t->b = t->a + a;
    t->out = t->b + b;
    t->bias = t->out + out;
    t->kept = t->bias + bias_bytes;
    t->workspace = t->kept + kept_bytes;
    result = cudaMemsetAsync(t->memory, 0x3c, t->bytes, stream);
    return result == cudaSuccess ? timing_open(&t->clock, stream) : result;
}

static void trial_close(trial *t) {
    timing_close(&t->clock);
    if (t->memory) cudaFree(t->memory);
    blas_call_free(&t->call);
}

/* The epilogue that is apart, after the products, as a run of the node would do it. */
static bool run_epilogue(const trial *t, const kernel_env *env) {
    const weft_node *n = t->node;
    void *third = t->plan.epilogue.is_backward ? t->kept : t->bias,
         *second = t->plan.epilogue.sums ? t->bias : t->kept;
    tensor in[3] = {{t->a, n->in[0]->type}, {t->b, n->in[1]->type}, {third}},
           out[2] = {{t->out, n->out[0].type}, {second}};
    if (n->n_out > 1) out[1].type = n->out[1].type;
    weft_error error = {};
    kernel_call c = {};
    c.node = n;
    c.in = in;
    c.out = out;
    c.error = &error;
    c.cuda = env->cuda;
    c.workspace = t->workspace;
    return blas_epilogue_apart(&c, &t->plan) == WEFT_OK;
}

static bool run_trial(const trial *t, const kernel_env *env) {
    bool good = blas_run(&t->plan, &t->call, env->cuda, t->a, t->b, t->out, t->in_width, t->out_width,
                         t->workspace) == CUBLAS_STATUS_SUCCESS;
    return good && t->plan.epilogue.is_apart ? run_epilogue(t, env) : good;
}

typedef struct winner {
    cublasLtMatmulAlgo_t algorithm;
    bool is_apart;
} winner;

/* Keeps the best of all algorithms in *best. */
static weft_status time_all(trial *t, const kernel_env *env, winner *best, weft_error *error) {
    cublasLtMatmulAlgo_t algorithms[ALGORITHMS];
    int count = 0;
    weft_status status =
        blas_status(blas_call_places(&t->plan, &t->call, t->bias, t->kept), "describing a product", error);
    if (status == WEFT_OK) status = blas_algorithms(&t->call, env, algorithms, ALGORITHMS, &count, error);
    for (int i = 0; i < count && status == WEFT_OK; i++) {
        t->call.algorithm = algorithms[i];
        if (timing_way(&t->clock, [&] { return run_trial(t, env); }))
            *best = {algorithms[i], t->plan.epilogue.is_apart};
    }
    return status;
}

/* Times the product with the epilogue fused and with it apart: not every fused epilogue is faster than the
 * kernel it saves. */
static weft_status choose_fastest(trial *t, const kernel_env *env, tuned *found, weft_error *error) {
    winner best = {};
    bool has_epilogue = blas_has_epilogue(&t->plan);
    for (int apart = 0; apart <= has_epilogue; apart++) {
        weft_error why = {};
        blas_call_free(&t->call);
        t->plan.epilogue.is_apart = apart != 0;
        weft_status status = blas_call_new(t->node, env, &t->plan, &t->call, &why);
        if (status == WEFT_OK) status = time_all(t, env, &best, &why);
        /* a library without the epilogue still has the product */
        bool may_go_on = has_epilogue && !apart && status != WEFT_MEMORY;
        if (status != WEFT_OK && !may_go_on) return error_set(error, status, "%s", why.text);
    }
    found->ms = t->clock.best;
    found->ways = t->clock.ways;
    found->dropped = t->clock.dropped;
    if (best.is_apart) text_add(&found->choice, BLAS_APART);
    if (t->clock.best < 0 || !blas_algorithm_write(&found->choice, &best.algorithm))
        return error_set(error, WEFT_UNSUPPORTED, "cuBLASLt: none of its algorithms runs");
    return WEFT_OK;
}

/* On buffers of the trial's own. */
extern "C" weft_status blas_tune(const weft_node *n, const kernel_env *env, struct tuned *found,
                                 weft_error *error) {
    trial t = {};
    t.node = n;
    t.plan = blas_plan_of(n);
    t.in_width = dtype_bytes(n->in[0]->type.dtype);
    t.out_width = dtype_bytes(n->out[0].type.dtype);
    weft_status status = WEFT_OK;
    cudaError_t result = memory_alloc(&t, (cudaStream_t)env->cuda->stream);
    if (result != cudaSuccess)
        status =
            error_set(error, result == cudaErrorMemoryAllocation ? WEFT_MEMORY : WEFT_DEVICE,
                      "calibrate: %zu bytes for %s: %s", t.bytes, n->op->name, cudaGetErrorString(result));
    if (status == WEFT_OK) status = choose_fastest(&t, env, found, error);
    trial_close(&t);
    return timing_status(status, (cudaStream_t)env->cuda->stream, error);
}
