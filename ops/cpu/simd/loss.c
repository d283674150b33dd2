/* loss.c - cross_entropy and its backward op in f32; logits [n, classes] and their gradient may be bf16 or
 * f16. Rows run in parallel; their losses are added in order, in f64, so the sum does not depend on the
 * number of threads. */
#include "ops/cpu/simd/exp_sum.h"
#include "ops/cpu/reduced.h"
#include "ops/cpu/simd/simd.h"
#include "ops/norm_loss/norm.h"

#include <omp.h>

static const char *forward_declines(const weft_node *n, const kernel_env *env) {
    return dtype_is_row(n->in[0]->type.dtype) ? NULL : "not f32, bf16 or f16";
}

static const char *backward_declines(const weft_node *n, const kernel_env *env) {
    return dtype_is_row(n->in[1]->type.dtype) ? NULL : "not f32, bf16 or f16";
}

/* Workspace of the losses: one double for each row, in whole cache lines. */
static int64_t losses_bytes(const tensor_type *logits) {
    return (logits->shape[0] + 7) / 8 * 8 * (int64_t)sizeof(double);
}

static size_t forward_workspace(const weft_node *n, const kernel_env *env) {
    const tensor_type *x = &n->in[0]->type;
    int64_t room = env->threads * row_room(x->dtype, x->shape[1]);
    return (size_t)losses_bytes(x) + (size_t)room * sizeof(float);
}

/* Returns the log of the sum of e^x, and the loss of target t (< 0: the row does not count). (most - x[t])
 * and the log are added in f64, since their sum in f32 would round away the smaller. */
static float row_lse(const float *x, int64_t n, int64_t t, double *loss) {
    float most = row_max(x, n);
    double rest = __builtin_log(exp_sum(x, NULL, n, most));
    *loss = t < 0 ? 0 : (double)most - (double)x[t] + rest;
    return (float)((double)most + rest);
}

/* Loss = sum of the rows' losses / rows that count, their sum, or each. lse [n] is kept for the backward
 * op. */
static weft_status forward_run(void *state, const kernel_call *c) {
    const tensor *x = &c->in[0];
    float *lse = c->out[1].data, *rooms = (float *)((char *)c->workspace + losses_bytes(&x->type));
    double *losses = c->workspace, loss = 0;
    int64_t n = c->in[0].type.shape[0], classes = c->in[0].type.shape[1], rows;
    const cross_entropy_attrs *a = c->attrs;
    weft_status status = cross_entropy_targets(c, &c->in[1], classes, &rows);
    if (status) return status;
#pragma omp parallel for num_threads(c->threads) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        /* targets were checked: t is a class or ignore_index */
        int64_t t = element_int(&c->in[1], &i);
        float *own = rooms + omp_get_thread_num() * row_room(x->type.dtype, classes);
        const float *xi = row_read(x, i * classes, classes, own);
        lse[i] = row_lse(xi, classes, t == a->ignore_index ? -1 : t, &losses[i]);
        if (a->reduction == LOSS_NONE) ((float *)c->out[0].data)[i] = (float)losses[i];
    }
    if (a->reduction == LOSS_NONE) return WEFT_OK;
    /* one thread, in order: the same bits for any number of threads */
    for (int64_t i = 0; i < n; i++) loss += losses[i];
    *(float *)c->out[0].data = (float)(a->reduction == LOSS_MEAN ? loss / (double)rows : loss);
    return WEFT_OK;
}

SIMD_KERNEL(cross_entropy, .declines = forward_declines, .workspace = forward_workspace, .run = forward_run);

/* dx = factor (softmax(x) - onehot(t)), with factor = dy / rows that count, or dy. */
static void loss_row_backward(const float *restrict x, float *restrict dx, int64_t n, int64_t t, float lse,
                              float factor) {
    for (int64_t i = 0; i < n; i++) dx[i] = factor * vm_exp(x[i] - lse);
    dx[t] -= factor;
}

static size_t backward_workspace(const weft_node *n, const kernel_env *env) {
    const tensor_type *x = &n->in[1]->type;
    int64_t room = row_room(x->dtype, x->shape[1]) + row_room(n->out[0].type.dtype, x->shape[1]);
    return (size_t)(env->threads * room) * sizeof(float);
}

/* dloss [] (reduction none: [n]), x [n, classes], targets [n], lse [n] -> dx [n, classes]; each row is
 * computed from the stored lse. */
static weft_status backward_run(void *state, const kernel_call *c) {
    const tensor *x = &c->in[1], *dx = &c->out[0];
    const float *lse = c->in[3].data;
    int64_t n = x->type.shape[0], classes = x->type.shape[1], rows, room_x = row_room(x->type.dtype, classes);
    const cross_entropy_attrs *a = c->attrs;
    int64_t room = room_x + row_room(dx->type.dtype, classes);
    weft_status status = cross_entropy_targets(c, &c->in[2], classes, &rows);
    if (status) return status;
    const float *dloss = c->in[0].data;
    float factor = (float)(a->reduction == LOSS_MEAN ? (double)*dloss / (double)rows : (double)*dloss);
#pragma omp parallel for num_threads(c->threads) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        int64_t t = element_int(&c->in[2], &i);
        float *own = (float *)c->workspace + omp_get_thread_num() * room;
        float *dxi = row_place(dx, i * classes, own + room_x);
        /* an ignored row has no gradient */
        if (t == a->ignore_index)
            memset(dxi, 0, (size_t)classes * sizeof *dxi);
        else
            loss_row_backward(row_read(x, i * classes, classes, own), dxi, classes, t, lse[i],
                              a->reduction == LOSS_NONE ? dloss[i] : factor);
        row_write(dx, i * classes, classes, dxi);
    }
    return WEFT_OK;
}

SIMD_KERNEL(cross_entropy_backward, .declines = backward_declines, .workspace = backward_workspace,
            .run = backward_run);
