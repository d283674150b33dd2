/* blas_tune.cu - times cuBLASLt's algorithms for a product on memory of its own: `graphtool calibrate`. */
#include "ops/cuda/blas_call.cuh"

enum { ALGORITHMS = 32, WARMUPS = 2, ROUNDS = 5, CALLS = 10, PLACE = 256 };

/* Bytes from the first element of the matrices to behind the last. */
static size_t span(const matrices *m, int n_batch, size_t width) {
    int64_t last = (m->rows - 1) * m->row_stride + (m->columns - 1) * m->column_stride;
    for (int i = 0; i < n_batch; i++) last += (m->batch[i] - 1) * m->batch_stride[i];
    return size_align((size_t)(last + 1) * width, PLACE);
}

typedef struct trial {
    blas_plan plan;
    blas_call call;
    size_t in_width, out_width, bytes;
    char *memory, *a, *b, *out, *bias, *workspace;
    cudaEvent_t begin, end;
} trial;

/* Numbers near 0.01 in bf16 and f32, near 1 in f16: zeros draw less power, and are done faster than what is real. */
static cudaError_t memory_take(trial *t) {
    const product *p = &t->plan.p;
    size_t a = span(&p->a, p->n_batch, t->in_width), b = span(&p->b, p->n_batch, t->in_width),
           out = span(&p->out, p->n_batch, t->out_width), bias = size_align((size_t)p->bias * t->out_width, PLACE);
    t->bytes = a + b + out + bias + t->plan.bytes;
    cudaError_t result = cudaMalloc((void **)&t->memory, t->bytes);
    if (result != cudaSuccess) return result;
    t->a = t->memory;
    t->b = t->a + a;
    t->out = t->b + b;
    t->bias = t->out + out;
    t->workspace = t->bias + bias;
    result = cudaMemset(t->memory, 0x3c, t->bytes);
    if (result == cudaSuccess) result = cudaDeviceSynchronize(); /* the stream does not wait for that */
    if (result == cudaSuccess) result = cudaEventCreateWithFlags(&t->begin, cudaEventDefault);
    if (result == cudaSuccess) result = cudaEventCreateWithFlags(&t->end, cudaEventDefault);
    return result;
}

static void trial_close(trial *t) {
    if (t->begin) cudaEventDestroy(t->begin);
    if (t->end) cudaEventDestroy(t->end);
    if (t->memory) cudaFree(t->memory);
    blas_call_free(&t->call);
}

static bool run(const trial *t, const kernel_env *env, int times) {
    cublasStatus_t s = CUBLAS_STATUS_SUCCESS;
    for (int i = 0; i < times && s == CUBLAS_STATUS_SUCCESS; i++)
        s = blas_run(&t->plan, &t->call, env->cuda, t->a, t->b, t->out, t->in_width, t->out_width, t->workspace);
    return s == CUBLAS_STATUS_SUCCESS;
}

/* The best of some rounds, in ms; negative: it does not run. */
static float time_algorithm(const trial *t, const kernel_env *env) {
    cudaStream_t stream = (cudaStream_t)env->cuda->stream;
    float best = -1;
    if (!run(t, env, WARMUPS)) return -1;
    for (int i = 0; i < ROUNDS; i++) {
        float ms;
        if (cudaEventRecord(t->begin, stream) != cudaSuccess || !run(t, env, CALLS) ||
            cudaEventRecord(t->end, stream) != cudaSuccess || cudaEventSynchronize(t->end) != cudaSuccess ||
            cudaEventElapsedTime(&ms, t->begin, t->end) != cudaSuccess)
            return -1;
        if (best < 0 || ms < best) best = ms;
    }
    return best;
}

static weft_status choose_fastest(trial *t, const kernel_env *env, text *found, weft_error *error) {
    cublasLtMatmulAlgo_t algorithms[ALGORITHMS];
    int count, best = -1;
    float best_ms = 0;
    weft_status status = blas_algorithms(&t->call, env, algorithms, ALGORITHMS, &count, error);
    if (status != WEFT_OK) return status;
    for (int i = 0; i < count; i++) {
        t->call.algorithm = algorithms[i];
        float ms = time_algorithm(t, env);
        if (ms < 0 || (best >= 0 && ms >= best_ms)) continue;
        best = i;
        best_ms = ms;
    }
    if (best < 0 || !blas_algorithm_write(found, &algorithms[best]))
        return error_set(error, WEFT_DEVICE, "cuBLASLt: none of %d algorithms runs", count);
    return WEFT_OK;
}

extern "C" weft_status blas_tune(const weft_node *n, const kernel_env *env, text *found, weft_error *error) {
    trial t = {};
    t.plan = blas_plan_of(n);
    t.in_width = dtype_bytes(n->in[0]->type.dtype);
    t.out_width = dtype_bytes(n->out[0].type.dtype);
    weft_status status = blas_call_new(n, env, &t.plan, &t.call, error);
    if (status == WEFT_OK) {
        cudaError_t result = memory_take(&t);
        if (result != cudaSuccess)
            status = error_set(error, result == cudaErrorMemoryAllocation ? WEFT_MEMORY : WEFT_DEVICE,
                               "calibrate: %zu bytes for %s: %s", t.bytes, n->op->name, cudaGetErrorString(result));
    }
    if (status == WEFT_OK && t.plan.p.bias)
        status = blas_status(blas_call_bias(&t.call, t.bias), "describing a product", error);
    if (status == WEFT_OK) status = choose_fastest(&t, env, found, error);
    trial_close(&t);
    return status;
}
