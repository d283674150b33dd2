/* test_cuda_sums.c - the error of long sums on a GPU: a frequent row of an embedding, averages of large
 * images, and sums down and along matrices, within the bound of tests/ops/test_sums.c (ops/cpu/simd/sums.h
 * has the theory); softmax and losses over many classes. In sums too large to run here, no thread adds more
 * numbers in sequence than in that one. Distances of constant rows and channels from their mean are 0.
 *
 * Operands have a bias: adding 0.1 to a large sum rounds the same way for a long time. */
#include "cuda/support/gpu.h"
#include "graph/text/text.h"
#include "ops/catalog/catalog.h"
#include "ops/cuda/kit/columns.h"
#include "ops/kit/op_kit.h"
#include "support/kernels/sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* STEPS: the bound, in units of 2^-24 of the sum of magnitudes. */
enum { STEPS = 600, MOST_IN = 2 };

static gpu *the_gpu;

/* One node with its operands and result. */
typedef struct trial {
    const char *in_text;
    sample s;
    block in[MOST_IN], out;
} trial;

/* The layout pass' notes: kernels read strides from the node. */
static void note(weft_value *v, const tensor *t) {
    v->has_layout = true;
    memcpy(v->stride, t->stride, sizeof v->stride);
}

static layout_kind layout_of(const weft_value *v, bool is_image) {
    return type_is_image(&v->type) && is_image ? LAYOUT_CHANNELS_LAST : LAYOUT_ROWS;
}

/* Returns false when the sample cannot be built; free with trial_free in either case. */
static bool trial_new(trial *t, const char *op, const char *in, const char *attrs) {
    op_sample spec = {.in = in, .attrs = attrs};
    memset(t, 0, sizeof *t);
    t->in_text = in;
    sample_build(&t->s, op_find(&weft_catalog, op, strlen(op)), &spec, false);
    if (!CHECK_SAYS(t->s.n, "%s(%s): %s", op, in, t->s.error_text)) return false;
    weft_node *n = t->s.n;
    for (int i = 0; i < n->n_in; i++) {
        t->in[i] = block_new(&n->in[i]->type, layout_of(n->in[i], n->op->image_in >> i & 1));
        note(n->in[i], &t->in[i].t);
    }
    t->out = block_new(&n->out[0].type, layout_of(&n->out[0], n->op->image_out & 1));
    note(&n->out[0], &t->out.t);
    return true;
}

static void trial_free(trial *t) {
    for (int i = 0; i < MOST_IN; i++) block_free(&t->in[i]);
    block_free(&t->out);
    sample_free(&t->s);
}

/* Mostly 0.1, so that the sum drifts; a small negative number here and there. */
static void fill(trial *t) {
    const tensor *x = &t->in[0].t;
    int64_t at[WEFT_MAX_NDIM] = {0}, k = 0;
    do element_set(x, at, k++ % 16 == 5 ? -0.003 : 0.1);
    while (index_next(&x->type, at));
}

/* Result element of(t, at) is the sum of all x with that place, over `divisor`. */
typedef int64_t place_of(const trial *t, const int64_t *at);

/* The largest error of a result, in units of 2^-24 of the sum of the magnitudes that were added. */
static double worst_error(const trial *t, place_of *of, double divisor) {
    const tensor *x = &t->in[0].t, *y = &t->out.t;
    int64_t n = type_elements(&y->type), at[WEFT_MAX_NDIM] = {0}, k = 0;
    double *sum = test_memory((size_t)n * sizeof *sum), *added = test_memory((size_t)n * sizeof *added),
           worst = 0;
    do {
        double v = element_get(x, at);
        sum[of(t, at)] += v;
        added[of(t, at)] += fabs(v);
    } while (index_next(&x->type, at));
    memset(at, 0, sizeof at);
    do {
        double off = fabs(element_get(y, at) - sum[k] / divisor) / (added[k] / divisor * 0x1p-24);
        /* NaN stays */
        if (added[k] > 0) worst = off <= worst ? worst : off;
        k++;
    } while (index_next(&y->type, at));
    free(sum);
    free(added);
    return worst;
}

/* Runs the GPU's kernel and compares with the exact sums. */
static void judge(trial *t, place_of *of, double divisor) {
    tensor in[MOST_IN] = {t->in[0].t, t->in[1].t};
    weft_error error = {0};
    const weft_kernel *kernel = kernel_select(t->s.n, &the_gpu->env, &t->s.m->arena, NULL);
    if (!CHECK_SAYS(kernel, "%s: no kernel", t->s.n->op->name)) return;
    weft_status status = gpu_run(t->s.n, kernel, &the_gpu->env, in, &t->out.t, &error);
    if (!CHECK_SAYS(status == WEFT_OK, "%s: %s", t->s.n->op->name, error.text)) return;
    double worst = worst_error(t, of, divisor);
    printf("\n      %s(%s): %.1f of %d", t->s.n->op->name, t->in_text, worst, STEPS);
    CHECK_SAYS(worst <= STEPS, "%s(%s): off by %g 2^-24 of what was added", t->s.n->op->name, t->in_text,
               worst);
}

static bool begin(void) {
    if (!the_gpu) the_gpu = gpu_open();
    return the_gpu != NULL;
}

static int64_t row_of_id(const trial *t, const int64_t *at) {
    int64_t id = element_int(&t->in[1].t, at);
    return id * t->out.t.type.shape[1] + at[1];
}

TEST(an_often_used_row_of_an_embedding_keeps_its_digits) {
    static const char *const in[] = {"f32[80000,3], i32[80000]", "f32[80000,4], u8[80000]"};
    trial t;
    NEED(begin());
    for (int k = 0; k < 2; k++) {
        if (trial_new(&t, "embedding_backward", in[k], "rows=3")) {
            fill(&t);
            for (int64_t i = 0; i < 80000; i++) element_set_int(&t.in[1].t, &i, i % 50 == 0);
            judge(&t, row_of_id, 1);
        }
        trial_free(&t);
    }
}

static int64_t channel_of(const trial *t, const int64_t *at) {
    (void)t;
    return at[1];
}

TEST(averages_of_large_images_keep_their_digits) {
    trial t;
    NEED(begin());
    if (trial_new(&t, "adaptive_avg_pool2d", "f32[1,3,400,500]", "size=1,1")) {
        fill(&t);
        judge(&t, channel_of, 400 * 500);
    }
    trial_free(&t);
}

static int64_t column_of(const trial *t, const int64_t *at) {
    (void)t;
    return at[1];
}

static int64_t row_of(const trial *t, const int64_t *at) {
    (void)t;
    return at[0];
}

TEST(sums_down_and_along_matrices_keep_their_digits) {
    static const struct {
        const char *in, *attrs;
        place_of *of;
    } list[] = {{"f32[200000,3]", "axes=0", column_of},
                {"f32[40000,33]", "axes=0", column_of},
                {"f32[3,400000]", "axes=1", row_of},
                {"f32[300,3001]", "axes=1", row_of}};
    trial t;
    NEED(begin());
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        if (trial_new(&t, "sum", list[i].in, list[i].attrs)) {
            fill(&t);
            judge(&t, list[i].of, 1);
        }
        trial_free(&t);
    }
}

/* ---- e^x summed over the classes of a large vocabulary ---- */

enum { CLASSES = 50304, ROWS = 3 };

/* Logits between -8 and 8, the second row's 300 higher and the third's 3,000: only differences count. */
static float logit(int row, int64_t i) {
    static const float base[ROWS] = {0, 300, 3000};
    test_random r = {(uint64_t)row * CLASSES + (uint64_t)i};
    return base[row] + (float)random_in(&r, -8, 8);
}

static int64_t label(int row) {
    return 17 + 1000 * row;
}

/* The exact log of the sum of e^x, without the largest logit, which is *most. */
static double log_sum(int row, double *most) {
    double sum = 0;
    *most = -INFINITY;
    for (int64_t i = 0; i < CLASSES; i++) *most = fmax(*most, (double)logit(row, i));
    for (int64_t i = 0; i < CLASSES; i++) sum += exp((double)logit(row, i) - *most);
    return log(sum);
}

/* Runs the node of this signature on the logits (operand `at`), labels after it, and `rest` as further
 * operand; outs[0] and outs[1] are its results. */
static bool run_soft(const char *signature, int at, const float *lse, block outs[2]) {
    weft_error error = {0};
    weft_node *n = node_from_signature(signature, NULL, &weft_catalog, &error);
    if (!CHECK_SAYS(n, "%s", error.text)) return false;
    block in[4];
    tensor ins[4], results[2];
    for (int i = 0; i < n->n_in; i++) {
        in[i] = block_new(&n->in[i]->type, LAYOUT_ROWS);
        ins[i] = in[i].t;
    }
    for (int i = 0; i < n->n_out; i++) {
        outs[i] = block_new(&n->out[i].type, LAYOUT_ROWS);
        results[i] = outs[i].t;
    }
    for (int row = 0; row < ROWS; row++)
        for (int64_t i = 0; i < CLASSES; i++)
            element_set(&ins[at], (int64_t[]){row, i}, (double)logit(row, i));
    for (int64_t row = 0; row < ROWS && n->n_in > 1; row++)
        element_set_int(&ins[at + 1], &row, label((int)row));
    for (int64_t row = 0; row < ROWS && lse; row++) element_set(&ins[at + 2], &row, (double)lse[row]);
    if (at) element_set(&ins[0], NULL, 1);
    const weft_kernel *kernel = kernel_select(n, &the_gpu->env, &n->graph->model->arena, NULL);
    weft_status status = kernel ? gpu_run(n, kernel, &the_gpu->env, ins, results, &error) : WEFT_UNSUPPORTED;
    for (int i = 0; i < n->n_in; i++) block_free(&in[i]);
    weft_model_free(n->graph->model);
    return CHECK_SAYS(status == WEFT_OK, "%s: %s", signature, error.text);
}

/* Tells and checks the worst of some errors, in units of 2^-24 of the exact value. */
static void check_worst(const char *what, double worst, double most) {
    printf("\n      %s: %.2f of %g", what, worst, most);
    CHECK_SAYS(worst <= most, "%s: off by %g 2^-24 of the exact value", what, worst);
}

static double off(double got, double want) {
    return fabs(got - want) / (fabs(want) * 0x1p-24);
}

TEST(losses_and_softmax_of_long_rows_keep_their_digits) {
    static const char *const shape = "(f32[3,50304]) axis=1";
    char signature[100];
    block outs[2];
    double most[ROWS], rest[ROWS], worst[2] = {0}, loss = 0;
    float lse[ROWS];
    NEED(begin());
    for (int row = 0; row < ROWS; row++) rest[row] = log_sum(row, &most[row]);
    for (int is_log = 0; is_log < 2; is_log++) {
        snprintf(signature, sizeof signature, "%s%s", is_log ? "log_softmax" : "softmax", shape);
        NEED(run_soft(signature, 0, NULL, outs));
        for (int row = 0; row < ROWS; row++)
            for (int64_t i = 0; i < CLASSES; i++) {
                double want = (double)logit(row, i) - most[row] - rest[row];
                double got = element_get(&outs[0].t, (int64_t[]){row, i});
                worst[is_log] = fmax(worst[is_log], off(got, is_log ? want : exp(want)));
            }
        block_free(&outs[0]);
    }
    check_worst("softmax", worst[0], 20); /* x - max, up to 16, is rounded before e^x */
    check_worst("log_softmax", worst[1], 6);
    NEED(run_soft("cross_entropy(f32[3,50304], i32[3]) ignore_index=-100", 0, NULL, outs));
    worst[0] = 0;
    for (int64_t row = 0; row < ROWS; row++) {
        lse[row] = (float)element_get(&outs[1].t, &row);
        worst[0] = fmax(worst[0], off((double)lse[row], most[row] + rest[row]));
        loss += (most[row] - (double)logit((int)row, label((int)row)) + rest[row]) / ROWS;
    }
    check_worst("cross_entropy's log of the sum", worst[0], 4);
    check_worst("cross_entropy", off(element_get(&outs[0].t, NULL), loss), 4);
    block_free(&outs[0]);
    block_free(&outs[1]);
}

/* ---- constant rows ---- */

/* Runs a norm of rows, or of channels, of equal numbers with weights of 1 and biases of 0: distances from the
 * mean must be 0 to the bit (tests/ops/test_sums.c). */
static void check_constant(const char *signature, double number) {
    enum { MOST = 4 };
    weft_error error = {0};
    weft_node *n = node_from_signature(signature, NULL, &weft_catalog, &error);
    if (!CHECK_SAYS(n, "%s", error.text)) return;
    block in[MOST], out[MOST];
    tensor ins[MOST], outs[MOST];
    for (int i = 0; i < n->n_in; i++) {
        int64_t at[WEFT_MAX_NDIM] = {0};
        in[i] = block_new(&n->in[i]->type, LAYOUT_ROWS);
        ins[i] = in[i].t;
        do element_set(&ins[i], at, i ? i == 1 : number);
        while (index_next(&n->in[i]->type, at));
    }
    for (int i = 0; i < n->n_out; i++) outs[i] = (out[i] = block_new(&n->out[i].type, LAYOUT_ROWS)).t;
    const weft_kernel *kernel = kernel_select(n, &the_gpu->env, &n->graph->model->arena, NULL);
    weft_status status = kernel ? gpu_run(n, kernel, &the_gpu->env, ins, outs, &error) : WEFT_UNSUPPORTED;
    if (CHECK_SAYS(status == WEFT_OK, "%s: %s", signature, error.text)) {
        int64_t at[WEFT_MAX_NDIM] = {0}, wrong = 0;
        do wrong += element_get(&outs[0], at) != 0;
        while (index_next(&outs[0].type, at));
        CHECK_SAYS(wrong == 0, "%s of %g: %d results are not 0", signature, number, (int)wrong);
    }
    for (int i = 0; i < n->n_in; i++) block_free(&in[i]);
    for (int i = 0; i < n->n_out; i++) block_free(&out[i]);
    weft_model_free(n->graph->model);
}

TEST(distances_of_constant_rows_and_channels_are_0) {
    static const double numbers[] = {-0.492, 0.1, 1e6 / 3};
    char text[100];
    NEED(begin());
    for (int64_t d = 2; d < 3000; d += d < 12 ? 1 : d / 2)
        for (int i = 0; i < 3; i++) {
            snprintf(text, sizeof text, "layer_norm(f32[2,%d]) eps=1e-05", (int)d);
            check_constant(text, (double)(float)numbers[i]);
            snprintf(text, sizeof text, "batch_norm(f32[%d,3], f32[3], f32[3]) eps=1e-05", (int)d);
            check_constant(text, (double)(float)numbers[i]);
        }
}

/* Column sums of gigabytes, by arithmetic only: rows of a piece, and pieces of a column, that one thread
 * adds. */
TEST(no_thread_adds_many_rows_one_after_the_other) {
    for (int64_t columns = 1; columns < INT64_C(1) << 22; columns += columns / 3 + 1)
        for (int64_t rows = 1; rows * columns < INT64_C(1) << 30; rows += rows / 2 + 1)
            for (size_t width = 2; width <= 4; width += 2) {
                int64_t chunks = columns_chunks(rows, columns, width), chunk = (rows + chunks - 1) / chunks;
                int turns = COLUMN_THREADS / columns_lanes(columns, columns_vector(columns, width));
                bool is_fine =
                    chunks <= 65535 && (chunk + turns - 1) / turns <= STEPS && chunks / 32 <= STEPS;
                if (!CHECK_SAYS(is_fine, "[%lld,%lld]: %lld pieces, %lld rows a thread", (long long)rows,
                                (long long)columns, (long long)chunks, (long long)(chunk / turns)))
                    return;
            }
}

GPU_SUITE("cuda_sums", {T(distances_of_constant_rows_and_channels_are_0),
                        T(an_often_used_row_of_an_embedding_keeps_its_digits),
                        T(averages_of_large_images_keep_their_digits),
                        T(losses_and_softmax_of_long_rows_keep_their_digits),
                        T(sums_down_and_along_matrices_keep_their_digits),
                        T(no_thread_adds_many_rows_one_after_the_other)})
