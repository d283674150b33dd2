/* test_sums.c - the error of long sums: every kernel of the CPU that adds many floats, on 40,000 to 1,000,000
 * of them in each layout, against f64.
 *
 * The bound is that of theory (ops/cpu/simd/sums.h): STEPS 2^-24 of the sum of absolute values, where STEPS
 * is the greatest number of additions in sequence in any of the kernels. Operands have a bias: adding 0.1 to
 * a large sum rounds the same way for a long time. The measured errors are printed. The bits must not depend
 * on threads. */
#include "ops/catalog/catalog.h"
#include "ops/cpu/isa.h"
#include "ops/kit/op_kit.h"
#include "support/kernels/kernel_check.h"
#include "support/kernels/sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 512 rows in blocks of sums.h, 64 lanes added up or 64 rows side by side, 18 for the parts, some for the
 * operations after them. */
enum { STEPS = 600, MOST_OUT = 4, MOST_IN = 6 };

typedef struct node_case {
    const char *op, *in, *attrs;
    const int64_t *stride; /* of operand 0, NULL: as the op wants it */
} node_case;

/* A node with operands; `out`: what the kernel at hand gave. */
typedef struct trial {
    node_case as;
    sample s;
    block in[MOST_IN], out[MOST_OUT];
} trial;

static void note(weft_value *v, const tensor *t) {
    v->has_layout = true;
    memcpy(v->stride, t->stride, sizeof v->stride);
}

/* Memory at strides of the case's. */
static block operand_new(const tensor_type *type, const int64_t *stride) {
    block b = {.t = {.type = *type}};
    int64_t last = 0;
    memcpy(b.t.stride, stride, (size_t)type->ndim * sizeof *stride);
    for (int i = 0; i < type->ndim; i++) last += (type->shape[i] - 1) * stride[i];
    b.bytes = (size_t)(last + 1) * dtype_bytes(type->dtype);
    b.t.data = b.room = test_memory(b.bytes);
    return b;
}

static bool trial_new(trial *t, const node_case *as) {
    op_sample spec = {.in = as->in, .attrs = as->attrs};
    *t = (trial){.as = *as};
    sample_build(&t->s, op_find(&weft_catalog, as->op, strlen(as->op)), &spec, false);
    if (!CHECK_SAYS(t->s.n, "%s(%s): %s", as->op, as->in, t->s.error_text)) return false;
    weft_node *n = t->s.n;
    for (int i = 0; i < n->n_in; i++) {
        bool is_image = type_is_image(&n->in[i]->type) && n->op->image_in >> i & 1;
        t->in[i] = i == 0 && as->stride
                       ? operand_new(&n->in[i]->type, as->stride)
                       : block_new(&n->in[i]->type, is_image ? LAYOUT_CHANNELS_LAST : LAYOUT_ROWS);
        note(n->in[i], &t->in[i].t);
    }
    for (int k = 0; k < n->n_out; k++) {
        bool is_image = type_is_image(&n->out[k].type) && n->op->image_out >> k & 1;
        t->out[k] = block_new(&n->out[k].type, is_image ? LAYOUT_CHANNELS_LAST : LAYOUT_ROWS);
        note(&n->out[k], &t->out[k].t);
    }
    return true;
}

static void trial_free(trial *t) {
    for (int i = 0; i < MOST_IN; i++) block_free(&t->in[i]);
    for (int k = 0; k < MOST_OUT; k++) block_free(&t->out[k]);
    sample_free(&t->s);
}

/* Every 16th element another number, so that signs and sizes are not all one. */
static void fill(trial *t, int i, double most, double rare) {
    const tensor *x = &t->in[i].t;
    int64_t at[WEFT_MAX_NDIM] = {0}, k = 0;
    do element_set(x, at, k++ % 16 == 5 ? rare : most);
    while (index_next(&x->type, at));
}

static double element(const tensor *t, int64_t i) {
    return ((const float *)t->data)[i];
}

/* ---- every kernel ---- */

/* The largest error of the results in units of what one rounding may cost. */
typedef double judge(const trial *t);

static void threads_agree(trial *t, const weft_kernel *kernel, const kernel_env *env, const tensor *in,
                          const tensor *out) {
    weft_error error = {0};
    kernel_env more = *env;
    void *before[MOST_OUT];
    more.threads = 3;
    for (int k = 0; k < t->s.n->n_out; k++) {
        before[k] = test_memory(t->out[k].bytes);
        memcpy(before[k], t->out[k].room, t->out[k].bytes);
    }
    weft_status status = kernel_run(t->s.n, kernel, &more, in, out, &error);
    for (int k = 0; k < t->s.n->n_out; k++) {
        CHECK_SAYS(status == WEFT_OK && memcmp(before[k], t->out[k].room, t->out[k].bytes) == 0,
                   "%s(%s) by %s: result %d has other bits with 3 threads %s", t->as.op, t->as.in,
                   kernel->name, k, error.text);
        free(before[k]);
    }
}

static void kernels_judge(trial *t, judge *errors) {
    weft_node *n = t->s.n;
    tensor in[MOST_IN], out[MOST_OUT];
    for (int i = 0; i < n->n_in; i++) in[i] = t->in[i].t;
    for (int k = 0; k < n->n_out; k++) out[k] = t->out[k].t;
    for (weft_isa isa = WEFT_ISA_SSE2; isa <= isa_best(); isa++) {
        kernel_env env = {.isa = isa, .threads = 1};
        const weft_kernel *list[16];
        int count = kernels_of(&weft_catalog, n->op, &env, list, 16);
        for (int j = 0; j < count; j++) {
            weft_error error = {0};
            if (list[j]->min_isa != isa || (list[j]->declines && list[j]->declines(n, &env))) continue;
            weft_status status = kernel_run(n, list[j], &env, in, out, &error);
            if (!CHECK_SAYS(status == WEFT_OK, "%s by %s: %s", t->as.in, list[j]->name, error.text)) return;
            double worst = errors(t);
            printf("\n      %s(%s)%s%s by %s: %.1f of %d", t->as.op, t->as.in, t->as.attrs[0] ? " " : "",
                   t->as.attrs, list[j]->name, worst, STEPS);
            CHECK_SAYS(worst <= STEPS, "%s(%s) %s by %s: off by %g 2^-24 of what was added", t->as.op,
                       t->as.in, t->as.attrs, list[j]->name, worst);
            threads_agree(t, list[j], &env, in, out);
        }
    }
}

static void judge_all(const node_case *list, int n, double most, double rare, judge *errors) {
    for (int i = 0; i < n; i++) {
        trial t;
        if (trial_new(&t, &list[i])) {
            fill(&t, 0, most, rare);
            for (int k = 1; k < t.s.n->n_in; k++) fill(&t, k, 0.5, 0.25);
            kernels_judge(&t, errors);
        }
        trial_free(&t);
    }
}

/* Against `want`; `added` is what was summed without signs. */
static double units(double got, double want, double added) {
    double off = fabs(got - want) / (added * 0x1p-24);
    return off >= 0 ? off : INFINITY; /* NaN */
}

/* ---- sum ---- */

/* Axes that a sum keeps, from the shape of a result with keep=1. */
static double sum_errors(const trial *t) {
    const tensor *x = &t->in[0].t, *y = &t->out[0].t;
    int64_t n = type_elements(&y->type), at[WEFT_MAX_NDIM] = {0};
    double *sum = test_memory((size_t)n * sizeof *sum), *added = test_memory((size_t)n * sizeof *added),
           worst = 0;
    do {
        int64_t to = 0;
        for (int i = 0; i < x->type.ndim; i++) to += y->type.shape[i] > 1 ? at[i] * y->stride[i] : 0;
        double v = element_get(x, at);
        sum[to] += v;
        added[to] += fabs(v);
    } while (index_next(&x->type, at));
    for (int64_t i = 0; i < n; i++) worst = fmax(worst, units(element(y, i), sum[i], added[i]));
    free(sum);
    free(added);
    return worst;
}

TEST(sums_of_any_length_and_stride) {
    const node_case list[] = {
        {"sum", "f32[40000]", "axes=0 keep=1", NULL},
        {"sum", "f32[1000000]", "axes=0 keep=1", NULL},
        {"sum", "f32[40000]", "axes=0 keep=1", (int64_t[]){3}},
        {"sum", "f32[1000000]", "axes=0 keep=1", (int64_t[]){2}},
        {"sum", "f32[1000000]", "axes=0 keep=1", (int64_t[]){0}}, /* a view that repeats one element */
        {"sum", "f32[100,4,100]", "axes=0,1,2 keep=1", (int64_t[]){0, 1, 0}},
        {"sum", "f32[1000000,3]", "axes=0 keep=1", NULL},              /* narrow rows */
        {"sum", "f32[100000,65]", "axes=0 keep=1", NULL},              /* a bias' gradient */
        {"sum", "f32[100000,5]", "axes=0 keep=1", (int64_t[]){12, 2}}, /* columns with gaps */
        {"sum", "f32[5,200000]", "axes=1 keep=1", (int64_t[]){1, 5}},
        {"sum", "f32[5,200000]", "axes=1 keep=1", (int64_t[]){400000, 2}},
        {"sum", "f32[4,3,300,300]", "axes=0,2,3 keep=1", (int64_t[]){270000, 1, 900, 3}}, /* channels-last */
        {"sum", "f32[50000,2,3,7]", "axes=0,2 keep=1", NULL},                             /* short runs */
    };
    judge_all(list, sizeof list / sizeof *list, 0.1, -0.003, sum_errors);
}

/* ---- scans ---- */

/* Every element of every line, in the order of the scan: of b added, or of a state that is halved and added
 * to. The f64 result is rounded once. */
static double scan_errors(const trial *t) {
    const tensor *a = &t->in[0].t, *b = &t->in[t->s.n->n_in - 1].t, *y = &t->out[0].t;
    bool is_rows = strstr(t->as.attrs, "axis=1") != NULL, is_sum = t->s.n->n_in == 1;
    int64_t n = a->type.shape[is_rows], lines = a->type.shape[!is_rows], step = is_rows ? 1 : lines;
    double worst = 0;
    for (int64_t line = 0; line < lines; line++) {
        int64_t first = is_rows ? line * n : line;
        double h = 0, added = 0;
        for (int64_t i = n - 1; i >= 0; i--) {
            int64_t at = first + i * step;
            double before = h;
            h = (is_sum ? 1 : element(a, at)) * h + element(b, at);
            added += fabs(element(b, at));
            worst = fmax(worst, units(element(y, at), is_sum ? h : before, added));
        }
    }
    return worst;
}

TEST(scans_of_long_lines) {
    const node_case list[] = {{"cumsum", "f32[2,400000]", "axis=1 reverse=1", NULL},
                              {"cumsum", "f32[40000,7]", "axis=0 reverse=1", NULL},
                              {"cumsum", "f32[3000,300]", "axis=0 reverse=1", NULL},
                              {"recurrence", "f32[3,40000], f32[3,40000]", "axis=1 reverse=1", NULL},
                              {"recurrence", "f32[3000,300], f32[3000,300]", "axis=0 reverse=1", NULL}};
    judge_all(list, sizeof list / sizeof *list, 0.1, -0.003, scan_errors);
}

/* ---- lines of softmax and losses ---- */

/* The log of the sum of e^x over line `line` of `n`, whose places lie `step` apart. */
static double log_sum(const tensor *x, int64_t line, int64_t n, int64_t step) {
    double sum = 0, most = -INFINITY;
    for (int64_t i = 0; i < n; i++) most = fmax(most, element(x, line + i * step));
    for (int64_t i = 0; i < n; i++) sum += exp(element(x, line + i * step) - most);
    return most + log(sum);
}

/* One rounding of the sum is one of every result; the exponential and the product add some. */
static double softmax_errors(const trial *t) {
    const tensor *x = &t->in[0].t, *y = &t->out[0].t;
    bool is_rows = x->type.shape[0] == 1;
    int64_t n = x->type.shape[is_rows], step = is_rows ? 1 : x->type.shape[1];
    bool is_log = strcmp(t->as.op, "log_softmax") == 0;
    double worst = 0, lse = log_sum(x, 0, n, step);
    for (int64_t i = 0; i < n; i += 997) {
        double want = element(x, i * step) - lse, got = element(y, i * step);
        worst =
            fmax(worst, is_log ? units(got, want, fmax(1, fabs(want))) : units(got, exp(want), exp(want)));
    }
    return worst;
}

TEST(softmax_of_long_lines) {
    const node_case rows[] = {{"softmax", "f32[1,40000]", "axis=1", NULL},
                              {"softmax", "f32[1,1000000]", "axis=1", NULL},
                              {"log_softmax", "f32[1,1000000]", "axis=1", NULL},
                              {"softmax", "f32[200000,3]", "axis=0", NULL},
                              {"log_softmax", "f32[1000000,3]", "axis=0", NULL}};
    judge_all(rows, sizeof rows / sizeof *rows, -2.3, 0.1, softmax_errors);
}

static double entropy_errors(const trial *t) {
    double lse = log_sum(&t->in[0].t, 0, t->in[0].t.type.shape[1], 1);
    return units(element(&t->out[1].t, 0), lse, fmax(1, fabs(lse)));
}

TEST(cross_entropy_of_many_classes) {
    const node_case as = {"cross_entropy", "f32[1,1000000], i64[1]", "ignore_index=-1", NULL};
    trial t;
    if (trial_new(&t, &as)) {
        fill(&t, 0, -2.3, 0.1);
        element_set_int(&t.in[1].t, (int64_t[]){0}, 7);
        kernels_judge(&t, entropy_errors);
    }
    trial_free(&t);
}

static double attention_errors(const trial *t) {
    int64_t keys = t->in[1].t.type.shape[2];
    double sum = 0, x = element(&t->in[0].t, 0);
    for (int64_t j = 0; j < keys; j++) sum += exp(x * element(&t->in[1].t, j));
    return units(element(&t->out[1].t, 0), log(sum), log(sum));
}

TEST(attention_to_many_keys) {
    const node_case as = {"attention", "f32[1,1,1,1], f32[1,1,200000,1], f32[1,1,200000,1]", "", NULL};
    trial t;
    if (trial_new(&t, &as)) {
        fill(&t, 0, 1, 1);
        fill(&t, 1, -2.3, 0.1);
        fill(&t, 2, 1, 1);
        kernels_judge(&t, attention_errors);
    }
    trial_free(&t);
}

/* ---- statistics ---- */

/* Of `n` elements `step` apart: their mean, and the mean of squared distances. */
static void statistics(const tensor *x, int64_t first, int64_t n, int64_t step, double *mean,
                       double *spread) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) sum += element(x, first + i * step);
    for (int64_t i = 0; i < n; i++) squares += pow(element(x, first + i * step) - sum / (double)n, 2);
    *mean = sum / (double)n;
    *spread = squares / (double)n;
}

/* Results 1 and 2 are the mean and 1 / sqrt(variance + eps) of a row, or of a channel. */
static double norm_errors(const trial *t) {
    const tensor *x = &t->in[0].t;
    bool is_rows = strcmp(t->as.op, "layer_norm") == 0;
    int64_t n = x->type.shape[is_rows], step = is_rows ? 1 : x->type.shape[1];
    double mean, spread, worst = 0;
    statistics(x, 0, n, step, &mean, &spread);
    worst = units(element(&t->out[1].t, 0), mean, fabs(mean));
    /* a distance from a mean that is off by e is off by e: squares by 2 e of what is summed, the root by half
     * of that */
    return fmax(worst, units(element(&t->out[2].t, 0), 1 / sqrt(spread + 1e-5), 1 / sqrt(spread)));
}

TEST(statistics_of_long_rows_and_channels) {
    const node_case rows[] = {{"layer_norm", "f32[1,40000]", "eps=1e-05", NULL},
                              {"layer_norm", "f32[1,1000000]", "eps=1e-05", NULL}};
    const node_case channels[] = {{"batch_norm", "f32[40000,3], f32[3], f32[3]", "eps=1e-05", NULL},
                                  {"batch_norm", "f32[1000000,1], f32[1], f32[1]", "eps=1e-05", NULL},
                                  {"batch_norm", "f32[100000,64], f32[64], f32[64]", "eps=1e-05", NULL}};
    judge_all(rows, 2, 0.1, 3, norm_errors);
    judge_all(channels, 3, 0.1, 3, norm_errors);
}

/* Distances of a constant row from its mean are 0 to the bit. They are multiplied by rstd, 300 here, and once
 * more in each further gradient. */
static double constant_errors(const trial *t) {
    const tensor *x = &t->in[0].t, *y = &t->out[0].t;
    for (int64_t i = 0; i < type_elements(&y->type); i++)
        if (element(y, i) != 0) return INFINITY;
    return element(&t->out[1].t, 0) == element(x, 0) ? 0 : INFINITY;
}

/* Weights are 1 and biases 0. */
static void check_constant(const char *op, const char *in) {
    const float values[] = {-0.492F, 0.1F, 1e6F / 3};
    for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
        const node_case as = {op, in, "eps=1e-05", NULL};
        trial t;
        if (trial_new(&t, &as)) {
            fill(&t, 0, values[k], values[k]);
            for (int i = 1; i < t.s.n->n_in; i++) fill(&t, i, i == 1, i == 1);
            kernels_judge(&t, constant_errors);
        }
        trial_free(&t);
    }
}

TEST(distances_of_constant_rows_and_channels) {
    char in[64];
    for (int64_t d = 1; d < 3000; d += d < 40 ? 1 : d / 7) {
        snprintf(in, sizeof in, "f32[2,%d]", (int)d);
        check_constant("layer_norm", in);
        snprintf(in, sizeof in, "f32[%d,3], f32[3], f32[3]", (int)d + 1);
        check_constant("batch_norm", in);
        snprintf(in, sizeof in, "f32[3,2,%d,5], f32[2], f32[2]", (int)d);
        check_constant("batch_norm", in);
    }
}

/* Results 1 and 2 are the weight's and the bias' gradients. */
static double norm_backward_errors(const trial *t) {
    const tensor *dy = &t->in[0].t, *x = &t->in[1].t;
    bool is_rows = strcmp(t->as.op, "layer_norm_backward") == 0;
    const tensor *mean = &t->in[is_rows ? 2 : 3].t, *rstd = &t->in[is_rows ? 3 : 4].t;
    int64_t n = x->type.shape[0], step = x->type.shape[1];
    double dw = 0, db = 0, w = 0, b = 0;
    for (int64_t i = 0; i < n; i++) {
        double g = element(dy, i * step), at = is_rows ? (double)i : 0;
        double xhat = (element(x, i * step) - element(mean, (int64_t)at)) * element(rstd, (int64_t)at);
        dw += g * xhat;
        w += fabs(g * xhat);
        db += g;
        b += fabs(g);
    }
    return fmax(units(element(&t->out[1].t, 0), dw, w), units(element(&t->out[2].t, 0), db, b));
}

TEST(gradients_of_weights_of_norms_over_many_rows) {
    const node_case list[] = {
        {"layer_norm_backward", "f32[500000,3], f32[500000,3], f32[500000], f32[500000], f32[3]", "", NULL},
        {"batch_norm_backward", "f32[500000,1], f32[500000,1], f32[1], f32[1], f32[1]", "", NULL},
        {"batch_norm_backward", "f32[40000,3], f32[40000,3], f32[3], f32[3], f32[3]", "", NULL},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        trial t;
        if (trial_new(&t, &list[i])) {
            fill(&t, 0, 0.1, -0.003);
            for (int k = 1; k < t.s.n->n_in; k++) fill(&t, k, k == 1 ? 0.7 : 0.5, 0.2);
            kernels_judge(&t, norm_backward_errors);
        }
        trial_free(&t);
    }
}

/* ---- rows of an embedding, pixels of a window ---- */

static double embedding_errors(const trial *t) {
    const tensor *dy = &t->in[0].t;
    int64_t n = dy->type.shape[0], d = dy->type.shape[1];
    double sum[2] = {0}, added[2] = {0};
    for (int64_t i = 0; i < n; i++) {
        int which = element_int(&t->in[1].t, &i) != 0;
        sum[which] += element(dy, i * d);
        added[which] += fabs(element(dy, i * d));
    }
    return fmax(units(element(&t->out[0].t, 0), sum[0], added[0]),
                units(element(&t->out[0].t, d), sum[1], added[1]));
}

TEST(gradients_of_rows_that_many_ids_share) {
    const node_case as = {"embedding_backward", "f32[300000,5], i64[300000]", "rows=3", NULL};
    trial t;
    if (trial_new(&t, &as)) {
        fill(&t, 0, 0.1, -0.003);
        for (int64_t i = 0; i < 300000; i++) element_set_int(&t.in[1].t, &i, i % 7 == 0);
        kernels_judge(&t, embedding_errors);
    }
    trial_free(&t);
}

static double average_errors(const trial *t) {
    const tensor *x = &t->in[0].t;
    int64_t channels = x->type.shape[1], n = x->type.shape[2] * x->type.shape[3];
    double worst = 0;
    for (int64_t c = 0; c < channels; c++) {
        double mean, spread;
        statistics(x, c, n, channels, &mean, &spread);
        worst = fmax(worst, units(element(&t->out[0].t, c), mean, fabs(mean)));
    }
    return worst;
}

TEST(averages_of_large_images) {
    const node_case list[] = {{"adaptive_avg_pool2d", "f32[1,3,600,600]", "size=1,1", NULL},
                              {"adaptive_avg_pool2d", "f32[1,70,200,200]", "size=1,1", NULL},
                              {"adaptive_avg_pool2d", "f32[1,2,2,100000]", "size=1,1", NULL}};
    judge_all(list, 3, 0.1, 0.3, average_errors);
}

SUITE("sums",
      {T(sums_of_any_length_and_stride), T(scans_of_long_lines), T(softmax_of_long_lines),
       T(cross_entropy_of_many_classes), T(attention_to_many_keys), T(statistics_of_long_rows_and_channels),
       T(distances_of_constant_rows_and_channels), T(gradients_of_weights_of_norms_over_many_rows),
       T(gradients_of_rows_that_many_ids_share), T(averages_of_large_images)})
