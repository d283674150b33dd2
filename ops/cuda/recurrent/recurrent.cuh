/* recurrent.cuh - what the runs of recurrent ops share: the product of a step by cuBLASLt, rows of states. */
#ifndef WEFT_OPS_CUDA_RECURRENT_RECURRENT_CUH
#define WEFT_OPS_CUDA_RECURRENT_RECURRENT_CUH

#include "ops/cuda/kit/kernel.cuh"
#include "ops/cuda/linalg/blas_call.cuh"

extern "C" {
#include "ops/cuda/recurrent/recurrent.h"
}

/* What a session keeps for each node. */
typedef struct recurrent_state {
    const weft_env *env;
    blas_plan plan;
    blas_call call;
    size_t library_at; /* offset of cuBLASLt's part of the workspace, after the product */
} recurrent_state;

static inline void recurrent_close(void *state) {
    recurrent_state *s = (recurrent_state *)state;
    if (!s) return;
    blas_call_free(&s->call);
    mem_free(s->env, s, sizeof *s);
}

static inline weft_status recurrent_open(const weft_node *n, const kernel_env *env, void **state,
                                         weft_error *error) {
    step_product product;
    recurrent_state *s = (recurrent_state *)mem_new(env->env, sizeof *s);
    if (!s) return error_memory(error, "the steps of a recurrent op");
    step_product_of(n, &product);
    s->env = env->env;
    s->plan = blas_plan_of(&product.node);
    s->library_at = step_product_bytes(&product);
    weft_status status = blas_open(&product.node, env, &s->plan, &s->call, error);
    if (status == WEFT_OK)
        *state = s;
    else
        recurrent_close(s);
    return status;
}

/* The product of `rows` (the state of a step) and w, to the beginning of the workspace. */
static inline weft_status recurrent_multiply(const recurrent_state *s, const kernel_call *c, const void *rows,
                                             const tensor *w) {
    char node[200];
    size_t width = dtype_bytes(w->type.dtype);
    cublasStatus_t done = blas_run(&s->plan, &s->call, c->cuda, rows, w->data, c->workspace, width,
                                   sizeof(float), (char *)c->workspace + s->library_at);
    return blas_status(done, done == CUBLAS_STATUS_SUCCESS ? "" : node_show(c->node, node), c->error);
}

/* Time t of v [T, B, features]. */
template <class T> static inline T *time_of(const tensor *v, int64_t t) {
    return static_cast<T *>(v->data) + t * v->type.shape[1] * v->type.shape[2];
}

/* The times of step s and of the steps beside it. */
typedef struct step_times {
    int64_t now, before, after;
    bool is_first, is_last;
} step_times;

static inline step_times times_of_step(const kernel_call *c, int64_t steps, int64_t s) {
    const recurrent_attrs *a = static_cast<const recurrent_attrs *>(c->attrs);
    return step_times{recurrent_time(a, steps, s), recurrent_time(a, steps, s - 1),
                      recurrent_time(a, steps, s + 1), s == 0, s + 1 == steps};
}

__device__ static inline float sigmoid_of(float x) {
    return 1.0f / (1.0f + expf(-x));
}

/* Element i of `p`, 0 where there is none. */
template <class T> __device__ static inline float or_zero(const T *p, int64_t i) {
    return p ? to_float(p[i]) : 0.0f;
}

#define RECURRENT(name, steps_of)                                                                            \
    extern "C" weft_status cuda_##name##_open(const weft_node *n, const kernel_env *env, void **state,       \
                                              weft_error *error) {                                           \
        return recurrent_open(n, env, state, error);                                                         \
    }                                                                                                        \
    extern "C" weft_status cuda_##name##_run(void *state, const kernel_call *c) {                            \
        const recurrent_state *s = (const recurrent_state *)state;                                           \
        return with_float(c, c->in[0].type.dtype, [&](auto x) { return steps_of<decltype(x)>(s, c); });      \
    }                                                                                                        \
    extern "C" void cuda_##name##_close(void *state) {                                                       \
        recurrent_close(state);                                                                              \
    }

#endif
