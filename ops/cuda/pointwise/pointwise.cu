/* pointwise.cu - runs the kernels of fuse_source.c: threads stride over the result by vectors of 16 bytes, or
 * by elements where some memory is not aligned. */
#include "ops/cuda/dnn/program.cuh"

extern "C" {
#include "ops/cuda/pointwise/fuse.h"
}

#include <stdlib.h>

struct pointwise_state {
    const weft_env *env;
    cuda_program *program;
    fuse_plan plan;
    fuse_arguments arguments; /* without the pointers */
};

/* On failure the state is freed by close. */
extern "C" weft_status cuda_pointwise_open(const weft_node *n, const kernel_env *env, void **state,
                                           weft_error *error) {
    pointwise_state *s = static_cast<pointwise_state *>(mem_new(env->env, sizeof *s));
    if (!s) return error_memory(error, n->op->name);
    s->env = env->env;
    *state = s;
    const char *why = fuse_plan_of(n, &s->plan);
    if (why) return error_set(error, WEFT_INTERNAL, "%s: %s", n->op->name, why);
    fuse_arguments_of(&s->plan, &s->arguments);
    char *source = fuse_source(n, &s->plan);
    if (!source) return error_memory(error, n->op->name);
    weft_status status = cuda_program_open(env, source, &s->program, error);
    free(source);
    return status;
}

extern "C" void cuda_pointwise_close(void *state) {
    pointwise_state *s = static_cast<pointwise_state *>(state);
    if (!s) return;
    cuda_program_close(s->program);
    mem_free(s->env, s, sizeof *s);
}

/* Whether vectors of the tensor are aligned: to 16 bytes, or to their size where that is less. */
static bool is_aligned(const tensor *t, int vector) {
    size_t bytes = (size_t)vector * dtype_bytes(t->type.dtype);
    return reinterpret_cast<uintptr_t>(t->data) % (bytes < 16 ? bytes : 16) == 0;
}

/* Only operands that are read by vectors must be aligned. */
static bool takes_vectors(const fuse_plan *p, const kernel_call *c) {
    bool good = true;
    for (int k = 0; k < c->n_out; k++) good = good && is_aligned(&c->out[k], p->vector);
    for (int i = 0; i < c->n_in; i++)
        if (p->in[i].way == FUSE_FLAT || p->in[i].way == FUSE_ROW)
            good = good && is_aligned(&c->in[i], p->vector);
    return good;
}

/* Chooses between the two kernels by the addresses of this run. */
extern "C" weft_status cuda_pointwise_run(void *state, const kernel_call *c) {
    const pointwise_state *s = static_cast<const pointwise_state *>(state);
    fuse_arguments a = s->arguments;
    a.failure = c->cuda->failure;
    a.order = c->node->order;
    for (int i = 0; i < c->n_in; i++) a.in[i] = c->in[i].data;
    for (int k = 0; k < c->n_out; k++) a.out[k] = c->out[k].data;
    bool by_vectors = takes_vectors(&s->plan, c);
    /* one thread for each vector or element, up to the grid's limit */
    int64_t threads =
        by_vectors ? (s->plan.elements + s->plan.vector - 1) / s->plan.vector : s->plan.elements;
    void *arguments[] = {&a};
    cudaKernel_t kernel = by_vectors ? s->program->vectors : s->program->narrow;
    return cuda_check(c, cudaLaunchKernel((const void *)kernel, dim3(blocks_for(c, threads, FUSE_THREADS)),
                                          dim3(FUSE_THREADS), arguments, 0,
                                          static_cast<cudaStream_t>(c->cuda->stream)));
}
