/* loss.c - cross_entropy and its backward op in f32. Rows run in parallel; their losses are added in order,
 * in f64, so the sum does not depend on threads. */
#include "ops/cpu/simd/simd.h"
#include "ops/cpu/simd/vecmath.h"
#include "ops/norm.h"

static const char *forward_declines(const weft_node *n, const kernel_env *env) {
    (void)env;
    return n->in[0]->type.dtype == WEFT_F32 ? NULL : "not f32";
}

static const char *backward_declines(const weft_node *n, const kernel_env *env) {
    (void)env;
    return n->in[1]->type.dtype == WEFT_F32 ? NULL : "not f32";
}

/* A double a row. */
static size_t forward_workspace(const weft_node *n, const kernel_env *env) {
    (void)env;
    return (size_t)n->in[0]->type.shape[0] * sizeof(double);
}

static float row_max(const float *x, int64_t n) {
    float most = x[0];
#pragma omp simd reduction(max : most)
    for (int64_t i = 0; i < n; i++) most = x[i] > most ? x[i] : most;
    return most;
}

/* Log of the sum of e^x, and the loss of target t: (most - x[t]) and the log are added in f64, apart. */
static float row_lse(const float *x, int64_t n, int64_t t, double *loss) {
    float most = row_max(x, n), sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += vm_exp(x[i] - most);
    double rest = __builtin_log((double)sum);
    *loss = t < 0 ? 0 : (double)most - (double)x[t] + rest;
    return (float)((double)most + rest);
}

static weft_status forward_run(void *state, const kernel_call *c) {
    (void)state;
    const float *x = c->in[0].data;
    float *lse = c->out[1].data;
    double *losses = c->workspace, loss = 0;
    int64_t n = c->in[0].type.shape[0], classes = c->in[0].type.shape[1], rows;
    int64_t ignored = ((const cross_entropy_attrs *)c->attrs)->ignore_index;
    weft_status status = cross_entropy_targets(c, &c->in[1], classes, &rows);
    if (status) return status;
#pragma omp parallel for num_threads(c->threads) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        int64_t t = element_int(&c->in[1], &i);
        lse[i] = row_lse(x + i * classes, classes, t == ignored ? -1 : t, &losses[i]);
    }
    for (int64_t i = 0; i < n; i++) loss += losses[i];
    *(float *)c->out[0].data = (float)(loss / (double)rows);
    return WEFT_OK;
}

const weft_kernel SIMD(cross_entropy) = {.name = SIMD_NAME,
                                         .op = &weft_op_cross_entropy,
                                         .min_isa = SIMD_LEVEL,
                                         .declines = forward_declines,
                                         .workspace = forward_workspace,
                                         .run = forward_run};

static void row_backward(const float *restrict x, float *restrict dx, int64_t n, float lse, float factor) {
    for (int64_t i = 0; i < n; i++) dx[i] = factor * vm_exp(x[i] - lse);
}

static weft_status backward_run(void *state, const kernel_call *c) {
    (void)state;
    const float *x = c->in[1].data, *lse = c->in[3].data;
    float *dx = c->out[0].data;
    int64_t n = c->in[1].type.shape[0], classes = c->in[1].type.shape[1], rows;
    int64_t ignored = ((const cross_entropy_attrs *)c->attrs)->ignore_index;
    weft_status status = cross_entropy_targets(c, &c->in[2], classes, &rows);
    if (status) return status;
    float factor = (float)((double)*(const float *)c->in[0].data / (double)rows);
#pragma omp parallel for num_threads(c->threads) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        int64_t t = element_int(&c->in[2], &i);
        if (t == ignored) {
            memset(dx + i * classes, 0, (size_t)classes * sizeof *dx);
            continue;
        }
        row_backward(x + i * classes, dx + i * classes, classes, lse[i], factor);
        dx[i * classes + t] -= factor;
    }
    return WEFT_OK;
}

const weft_kernel SIMD(cross_entropy_backward) = {.name = SIMD_NAME,
                                                  .op = &weft_op_cross_entropy_backward,
                                                  .min_isa = SIMD_LEVEL,
                                                  .declines = backward_declines,
                                                  .run = backward_run};
