/* matmul.cu - runs of `matmul`, `linear` and the ops of ops/linalg/epilogue.h: copies operands that cuBLASLt
 * does not take, converts a bias to the result's type, runs the products, then an epilogue that is apart. */
#include "ops/cuda/linalg/blas_call.cuh"
#include "ops/cuda/kit/kernel.cuh"

/* ---- kernels ---- */

/* to [batch ..., rows, columns], dense, from any strides; one element to a thread. */
template <class T>
__global__ static void make_dense(const T *from, T *to, matrices m, int n_batch, int64_t count) {
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        int64_t rest = i / m.columns, at = i % m.columns * m.column_stride + rest % m.rows * m.row_stride;
        rest /= m.rows;
        for (int k = n_batch - 1; k >= 0; k--) {
            at += rest % m.batch[k] * m.batch_stride[k];
            rest /= m.batch[k];
        }
        to[i] = from[at];
    }
}

template <class T, class U> __global__ static void convert(const T *from, U *to, int64_t count) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) to[i] = from_float<U>(to_float(from[i]));
}

enum { THREADS = 256 };

/* Operand i, with the node's strides, as a dense matrix at `to`. */
static weft_status copy_operand(const kernel_call *c, const blas_plan *plan, int i, void *to) {
    const matrices *m = &plan->from[i];
    int64_t count = m->rows * m->columns * matrices_count(m, plan->p.n_batch);
    dim3 grid(blocks_for(c, count, THREADS));
    /* a copy does not look at the type, only at its width */
    if (dtype_bytes(c->in[i].type.dtype) == 2)
        return launch(c, make_dense<uint16_t>, grid, dim3(THREADS), 0, (const uint16_t *)c->in[i].data,
                      (uint16_t *)to, *m, plan->p.n_batch, count);
    return launch(c, make_dense<uint32_t>, grid, dim3(THREADS), 0, (const uint32_t *)c->in[i].data,
                  (uint32_t *)to, *m, plan->p.n_batch, count);
}

/* The library takes a bias only in the type of the result. */
static weft_status convert_bias(const kernel_call *c, void *to) {
    int64_t count = c->in[2].type.shape[0];
    dim3 grid((unsigned)((count + THREADS - 1) / THREADS));
    return with_float(c, c->in[2].type.dtype, [&](auto from) {
        return with_float(c, c->out[0].type.dtype, [&](auto as) {
            return launch(c, convert<decltype(from), decltype(as)>, grid, dim3(THREADS), 0,
                          (const decltype(from) *)c->in[2].data, (decltype(as) *)to, count);
        });
    });
}

/* ---- state ---- */

/* What a session keeps for each node. */
typedef struct blas_state {
    const weft_env *env;
    blas_plan plan;
    blas_call call;
} blas_state;

static void close_products(void *state) {
    blas_state *s = (blas_state *)state;
    if (!s) return;
    blas_call_free(&s->call);
    mem_free(s->env, s, sizeof *s);
}

static weft_status open_products(const weft_node *n, const kernel_env *env, void **state, weft_error *error) {
    blas_state *s = (blas_state *)mem_new(env->env, sizeof *s);
    if (!s) return error_memory(error, "a matrix product");
    s->env = env->env;
    s->plan = blas_plan_of(n);
    weft_status status = blas_open(n, env, &s->plan, &s->call, error);
    if (status == WEFT_OK)
        *state = s;
    else
        close_products(s);
    return status;
}

/* ---- runs ---- */

/* in[] = the operands as the library takes them, in place or copied; converts the bias. */
static weft_status prepare_pointers(const kernel_call *c, const blas_plan *plan, const void *in[2]) {
    char *workspace = (char *)c->workspace;
    weft_status status = WEFT_OK;
    for (int i = 0; i < 2 && status == WEFT_OK; i++) {
        in[i] = c->in[i].data;
        if (!plan->copies[i]) continue;
        in[i] = workspace + plan->copy_at[i];
        status = copy_operand(c, plan, i, workspace + plan->copy_at[i]);
    }
    return status == WEFT_OK && plan->converts_bias ? convert_bias(c, workspace + plan->bias_at) : status;
}

/* The pointers of this run, which the descriptors hold. */
static cublasStatus_t set_places(const kernel_call *c, const blas_state *s) {
    const blas_plan *plan = &s->plan;
    const void *bias = plan->epilogue.sums ? c->out[1].data : nullptr, *kept = nullptr;
    if (plan->p.bias) bias = plan->converts_bias ? (char *)c->workspace + plan->bias_at : c->in[2].data;
    if (blas_reads_kept(plan)) kept = plan->epilogue.is_backward ? c->in[2].data : c->out[1].data;
    return blas_call_places(plan, &s->call, bias, kept);
}

/* Nothing here waits or allocates, so the run can be captured. */
static weft_status run_products(void *state, const kernel_call *c) {
    blas_state *s = (blas_state *)state;
    const void *in[2];
    char node[200];
    weft_status status = prepare_pointers(c, &s->plan, in);
    if (status != WEFT_OK) return status;
    /* the descriptors are this session's, so the run may change their pointers */
    cublasStatus_t done = set_places(c, s);
    if (done == CUBLAS_STATUS_SUCCESS)
        done = blas_run(&s->plan, &s->call, c->cuda, in[0], in[1], c->out[0].data,
                        dtype_bytes(c->in[0].type.dtype), dtype_bytes(c->out[0].type.dtype), c->workspace);
    if (done == CUBLAS_STATUS_SUCCESS && s->plan.epilogue.is_apart) return blas_epilogue_apart(c, &s->plan);
    return blas_status(done, done == CUBLAS_STATUS_SUCCESS ? "" : node_show(c->node, node), c->error);
}

/* Every op of this file has the same three functions. */
#define PRODUCT(name)                                                                                        \
    weft_status cuda_##name##_open(const weft_node *n, const kernel_env *env, void **state,                  \
                                   weft_error *error) {                                                      \
        return open_products(n, env, state, error);                                                          \
    }                                                                                                        \
    weft_status cuda_##name##_run(void *state, const kernel_call *c) {                                       \
        return run_products(state, c);                                                                       \
    }                                                                                                        \
    void cuda_##name##_close(void *state) {                                                                  \
        close_products(state);                                                                               \
    }
extern "C" {
PRODUCT(matmul)
PRODUCT(linear)
PRODUCT(linear_act)
PRODUCT(linear_weight)
PRODUCT(matmul_act_backward)
}
