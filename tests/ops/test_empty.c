/* test_empty.c - axes of length 0. What ops make of no elements, against PyTorch's definitions, at the batch
 * that the model is built with and at another; every sample of every op with axes of 0, which gives a value
 * or an error, and no node of a graph that is compiled; gradients; files and dumps; what is refused. */
#include "graph/core/empty.h"
#include "graph/settings/clone.h"
#include "support/kernels/samples.h"
#include "weft/weft.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In parentheses: names of here.h are macros. */
#define S(...)                                                                                               \
    sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (int64_t[]) {                                        \
        __VA_ARGS__                                                                                          \
    }
#define LIST(...)                                                                                            \
    (int64_t[]) {                                                                                            \
        __VA_ARGS__                                                                                          \
    }
#define VALUES(...)                                                                                          \
    sizeof((weft_value *[]){__VA_ARGS__}) / sizeof(weft_value *), (weft_value *[]) {                         \
        __VA_ARGS__                                                                                          \
    }

enum { BATCH = 2, MOST = 32 };

/* The operands of the rows below. */
typedef struct operands {
    weft_graph *g;
    weft_value *x;     /* f32[B,3]: 0, 1, 2, ... */
    weft_value *none;  /* f32[B,0]: a range of x */
    weft_value *rows;  /* f32[0,3] */
    weft_value *ids;   /* i64[0] */
    weft_value *spots; /* i64[B,0] */
    weft_value *bias;  /* f32[3]: 5 */
} operands;

static operands operands_of(weft_graph *g) {
    operands o = {g, .x = weft_input(g, "x", WEFT_F32, S(WEFT_BATCH, 3))};
    o.none = weft_slice(o.x, 1, 1, 1);
    o.rows = weft_slice(o.x, 0, INT64_MAX, INT64_MAX);
    o.ids = weft_arange(g, WEFT_I64, 4, 4, 1);
    o.spots = weft_cast(o.none, WEFT_I64);
    o.bias = weft_constant(g, WEFT_F32, S(3), 5);
    return o;
}

static weft_value *constant(const operands *o, int ndim, const int64_t *shape, double value) {
    return weft_constant(o->g, WEFT_F32, ndim, shape, value);
}

/* The parts of an axis that split gives, one after the other. */
static weft_value *split_and_join(weft_value *x, int64_t a, int64_t b, int64_t c) {
    weft_value *parts[3];
    int n = weft_split(x, 3, LIST(a, b, c), 1, parts);
    return n == 3 ? weft_concat(3, parts, 1) : NULL;
}

static weft_value *chunk_of(weft_value *x, int axis) {
    weft_value *parts[2];
    return weft_chunk(x, 2, axis, parts) == 2 ? weft_concat(2, parts, axis) : NULL;
}

/* The mean, or 0 where there is none: as programs write it. */
static weft_value *guarded_mean(const operands *o, weft_value *v) {
    weft_value *mean = weft_mean(v, 0, NULL, false), *zero = constant(o, 0, NULL, 0);
    return weft_where(weft_isnan(mean), zero, mean);
}

static weft_value *attention_of(const operands *o, int64_t rows, int64_t keys) {
    weft_value *q = constant(o, S(1, 1, rows, 3), 1);
    weft_value *k = constant(o, S(1, 1, keys, 3), 1), *v = constant(o, S(1, 1, keys, 2), 1);
    return weft_attention(q, k, v, NULL);
}

static weft_value *sorted_places(weft_value *x) {
    weft_value *places = NULL;
    weft_sort(x, 1, false, &places);
    return places;
}

#define ALL    0, NULL, false
#define AXIS_1 S(1), false
#define TEXT(m)                                                                                              \
    &(weft_loss) {                                                                                           \
        .reduction = WEFT_LOSS_##m                                                                           \
    }

/* A value of the operands `o`, and its elements at a batch of 2. */
#define ROWS(X)                                                                                              \
    X(weft_sum(o.none, ALL), 0)                                                                              \
    X(weft_sum(o.none, AXIS_1), 0, 0)                                                                        \
    X(weft_sum(o.none, S(1), true), 0, 0)                                                                    \
    X(weft_sum(o.rows, S(0), false), 0, 0, 0)                                                                \
    X(weft_sum(weft_cast(o.none, WEFT_BOOL), AXIS_1), 0, 0)                                                  \
    X(weft_mean(o.none, ALL), NAN)                                                                           \
    X(weft_mean(o.none, AXIS_1), NAN, NAN)                                                                   \
    X(guarded_mean(&o, o.none), 0)                                                                           \
    X(guarded_mean(&o, o.x), 2.5)                                                                            \
    X(weft_prod(o.none, AXIS_1), 1, 1)                                                                       \
    X(weft_prod(o.spots, ALL), 1)                                                                            \
    X(weft_any(o.none, AXIS_1), 0, 0)                                                                        \
    X(weft_all(o.none, AXIS_1), 1, 1)                                                                        \
    X(weft_all(o.spots, ALL), 1)                                                                             \
    X(weft_var(o.none, 1, AXIS_1), NAN, NAN)                                                                 \
    X(weft_std(o.none, 0, ALL), NAN)                                                                         \
    X(weft_logsumexp(o.none, AXIS_1), -INFINITY, -INFINITY)                                                  \
    X(weft_vector_norm(o.none, 2, AXIS_1), 0, 0)                                                             \
    X(weft_vector_norm(o.none, 1, ALL), 0)                                                                   \
    X(weft_matmul(o.none, o.none, false, true), 0, 0, 0, 0)                                                  \
    X(weft_matmul(o.rows, o.rows, true, false), 0, 0, 0, 0, 0, 0, 0, 0, 0)                                   \
    X(weft_einsum("bi,ji->bj", VALUES(o.none, constant(&o, S(1, 0), 0))), 0, 0)                              \
    X(weft_linear_op(o.none, constant(&o, S(3, 0), 0), NULL), 0, 0, 0, 0, 0, 0)                              \
    X(weft_linear_op(o.none, constant(&o, S(3, 0), 0), o.bias), 5, 5, 5, 5, 5, 5)                            \
    X(weft_mse(o.none, o.none, NULL), NAN)                                                                   \
    X(weft_mse(o.none, o.none, TEXT(SUM)), 0)                                                                \
    X(weft_l1(o.rows, o.rows, TEXT(SUM)), 0)                                                                 \
    X(weft_bce_with_logits(o.none, o.none, NULL), NAN)                                                       \
    X(weft_cross_entropy(o.rows, o.ids, NULL), NAN)                                                          \
    X(weft_cross_entropy(o.rows, o.ids, TEXT(SUM)), 0)                                                       \
    X(weft_cross_entropy(o.rows, o.ids, &(weft_loss){.weight = o.bias}), NAN)                                \
    X(weft_cross_entropy(o.rows, o.ids, &(weft_loss){.label_smoothing = 0.1}), NAN)                          \
    X(weft_cross_entropy(o.rows, o.rows, NULL), NAN)                                                         \
    X(weft_nll(o.rows, o.ids, TEXT(SUM)), 0)                                                                 \
    X(weft_sum(weft_cross_entropy(o.rows, o.ids, TEXT(NONE)), ALL), 0)                                       \
    X(weft_concat(VALUES(o.none, o.x), 1), 0, 1, 2, 3, 4, 5)                                                 \
    X(weft_concat(VALUES(o.none, weft_sum(o.none, S(1), true), o.x, o.none), 1), 0, 0, 1, 2, 0, 3, 4, 5)     \
    X(weft_concat(VALUES(o.x, o.rows), 0), 0, 1, 2, 3, 4, 5)                                                 \
    X(weft_concat(VALUES(o.none, o.none, weft_neg(o.none), o.x), 1), 0, 1, 2, 3, 4, 5)                       \
    X(split_and_join(o.x, 0, 3, 0), 0, 1, 2, 3, 4, 5)                                                        \
    X(split_and_join(o.x, 1, -1, 2), 0, 1, 2, 3, 4, 5)                                                       \
    X(split_and_join(o.x, -1, 3, 0), 0, 1, 2, 3, 4, 5)                                                       \
    X(split_and_join(o.x, -1, 0, 0), 0, 1, 2, 3, 4, 5)                                                       \
    X(weft_constant_pad(o.none, 1, LIST(1, 2), 7), 7, 7, 7, 7, 7, 7)                                         \
    X(weft_pad(weft_neg(o.rows), 0, 1, 0), 0, 0, 0)                                                          \
    X(weft_scatter_add(o.x, 1, o.spots, o.none), 0, 1, 2, 3, 4, 5)                                           \
    X(weft_scatter(o.x, 1, o.spots, constant(&o, 0, NULL, 9)), 0, 1, 2, 3, 4, 5)                             \
    X(weft_index_add(o.x, 1, o.ids, o.none), 0, 1, 2, 3, 4, 5)                                               \
    X(weft_index_put(o.x, 1, &o.ids, o.rows, false), 0, 1, 2, 3, 4, 5)                                       \
    X(weft_bincount(o.ids, 3), 0, 0, 0)                                                                      \
    X(attention_of(&o, 2, 0), 0, 0, 0, 0)                                                                    \
    X(weft_add(weft_sum(o.none, S(1), true), o.x), 0, 1, 2, 3, 4, 5)                                         \
    X(weft_scatter_add(weft_neg(weft_neg(o.x)), 1, o.spots, weft_relu(o.none)), 0, 1, 2, 3, 4, 5)

/* Values without elements, and their types at a batch of 2. */
#define NOTHINGS(X)                                                                                          \
    X(o.none, "f32[2,0]")                                                                                    \
    X(o.rows, "f32[0,3]")                                                                                    \
    X(o.spots, "i64[2,0]")                                                                                   \
    X(weft_slice(o.x, 1, 3, INT64_MAX), "f32[2,0]")                                                          \
    X(weft_slice(o.none, 1, 0, INT64_MAX), "f32[2,0]")                                                       \
    X(weft_strided_slice(o.x, 1, 2, 2, 5), "f32[2,0]")                                                       \
    X(weft_add(o.none, weft_slice(o.x, 1, 0, 1)), "f32[2,0]")                                                \
    X(weft_reshape(o.none, S(0, 7)), "f32[0,7]")                                                             \
    X(weft_reshape(o.rows, S(-1, 3)), "f32[0,3]")                                                            \
    X(weft_flatten(o.none, 0), "f32[0]")                                                                     \
    X(weft_flatten(weft_unsqueeze(o.none, 2), 1), "f32[2,0]")                                                \
    X(weft_squeeze(weft_unsqueeze(o.none, 0), 0), "f32[2,0]")                                                \
    X(weft_transpose(o.none, 0, 1), "f32[0,2]")                                                              \
    X(weft_broadcast_to(weft_slice(o.x, 1, 0, 1), S(-1, 0)), "f32[2,0]")                                     \
    X(weft_tile(o.x, S(1, 0)), "f32[2,0]")                                                                   \
    X(weft_tile(o.none, S(2, 2, 3)), "f32[2,4,0]")                                                           \
    X(weft_repeat_interleave(o.none, 3, 0), "f32[6,0]")                                                      \
    X(weft_roll(o.none, 1, 1), "f32[2,0]")                                                                   \
    X(weft_roll(o.rows, 2, 0), "f32[0,3]")                                                                   \
    X(chunk_of(o.none, 1), "f32[2,0]")                                                                       \
    X(chunk_of(o.rows, 0), "f32[0,3]")                                                                       \
    X(weft_flip(o.none, S(1)), "f32[2,0]")                                                                   \
    X(weft_stack(VALUES(o.none, o.none), 0), "f32[2,2,0]")                                                   \
    X(weft_softmax(o.none, 1), "f32[2,0]")                                                                   \
    X(weft_cumsum(o.none, 1), "f32[2,0]")                                                                    \
    X(weft_sort(o.none, 1, false, NULL), "f32[2,0]")                                                         \
    X(sorted_places(o.none), "i64[2,0]")                                                                     \
    X(weft_amax(o.rows, S(1), false), "f32[0]")                                                              \
    X(weft_argmax(o.rows, 1, false), "i64[0]")                                                               \
    X(weft_max(o.rows, 1, false, NULL), "f32[0]")                                                            \
    X(weft_index_select(o.x, 1, o.ids), "f32[2,0]")                                                          \
    X(weft_embedding_op(weft_constant(o.g, WEFT_F32, S(4, 2), 1), o.ids), "f32[0,2]")                        \
    X(weft_one_hot(o.ids, 4, WEFT_F32), "f32[0,4]")                                                          \
    X(weft_tril(weft_matmul(o.rows, weft_transpose(o.x, 0, 1), false, false), 0), "f32[0,2]")                \
    X(weft_linear_op(o.rows, constant(&o, S(4, 3), 1), NULL), "f32[0,4]")                                    \
    X(weft_eye(o.g, WEFT_F32, 0, 3), "f32[0,3]")                                                             \
    X(weft_linspace(o.g, WEFT_F32, 0, 1, 0), "f32[0]")                                                       \
    X(weft_arange(o.g, WEFT_U8, 0, 0, 1), "u8[0]")                                                           \
    X(weft_constant_tensor(o.g, WEFT_F32, S(0, 4), NULL), "f32[0,4]")                                        \
    X(weft_random_normal(o.g, S(WEFT_BATCH, 0), 0, 1), "f32[2,0]")                                           \
    X(weft_dropout(o.none, 0.5), "f32[2,0]")                                                                 \
    X(attention_of(&o, 0, 2), "f32[1,1,0,2]")                                                                \
    X(weft_conv2d_op(weft_reshape(o.rows, S(0, 3, 4, 4)), constant(&o, S(2, 3, 3, 3), 1), NULL, NULL),       \
      "f32[0,2,2,2]")                                                                                        \
    X(weft_max_pool2d(weft_reshape(o.rows, S(0, 3, 4, 4)), &(weft_pool){.kernel = {2, 2}}), "f32[0,3,2,2]")  \
    X(weft_layer_norm(o.rows, "ln", NULL), "f32[0,3]")

/* What has no value of nothing, and what must have elements. */
#define REFUSED(X)                                                                                           \
    X(weft_amax(o.none, AXIS_1), "amax: operand 0 has no elements: f32[2,0], and the op has no value")       \
    X(weft_amin(o.none, ALL), "amin: operand 0 has no elements")                                             \
    X(weft_argmax(o.none, 1, false), "argmax: operand 0 has no elements")                                    \
    X(weft_max(o.none, 1, false, NULL), "argmax: operand 0 has no elements")                                 \
    X(weft_vector_norm(o.none, INFINITY, ALL), "amax: operand 0 has no elements")                            \
    X(weft_input(o.g, "y", WEFT_F32, S(2, 0)), "shape[1]=0: it must be at least 1")                          \
    X(weft_parameter_in(o.g, "w", S(2, 0), (weft_init){0}), "every axis must be at least 1")                 \
    X(weft_state_in(o.g, "s", WEFT_F32, S(0), (weft_init){0}), "every axis must be at least 1")              \
    X(weft_slice(o.none, 1, 0, 1), "has no elements 0 to 1")                                                 \
    X(weft_slice(o.x, 1, 2, 1), "has no elements 2 to 1")                                                    \
    X(weft_reshape(o.none, S(0, -1)), "any number fits for -1")                                              \
    X(weft_reshape(o.none, S(2, 1)), "cannot become")                                                        \
    X(weft_add(o.none, weft_slice(o.x, 1, 0, 2)), "do not broadcast")                                        \
    X(weft_concat(VALUES(o.none, o.rows), 1), "differ outside axis 1")                                       \
    X(weft_embedding_op(o.rows, weft_cast(o.x, WEFT_I64)), "embedding: operand 0 has no elements")           \
    X(weft_index_select(o.none, 1, weft_arange(o.g, WEFT_I64, 0, 2, 1)), "operand 0 has no elements")        \
    X(weft_cross_entropy(o.none, weft_arange(o.g, WEFT_I64, 0, 2, 1), NULL), "no classes")                   \
    X(weft_lstm(weft_reshape(o.none, S(0, 2, 5)), &(weft_recurrent){.hidden = 2}, "l", NULL, NULL),          \
      "there must be a time step")                                                                           \
    X(weft_max_pool2d(weft_reshape(o.none, S(1, 1, 0, 4)), &(weft_pool){.kernel = {2, 2}}),                  \
      "is smaller than the kernel")                                                                          \
    X(weft_arange(o.g, WEFT_F32, 3, 2, 1), "the step must lead there")                                       \
    X(weft_constant(o.g, WEFT_F32, S(-1), 0), "at least 0")

enum {
#define ROW(CALL, ...) +1
    N_ROWS = 0 ROWS(ROW),
    N_NOTHINGS = 0 NOTHINGS(ROW),
    N_REFUSED = 0 REFUSED(ROW)
#undef ROW
};

static const struct {
    const char *call;
    int n;
    double wanted[MOST];
} rows[] = {
#define ROW(CALL, ...) {#CALL, sizeof((double[]){__VA_ARGS__}) / sizeof(double), {__VA_ARGS__}},
    ROWS(ROW)
#undef ROW
};

static const struct {
    const char *call, *text;
} nothings[] =
    {
#define ROW(CALL, TEXT) {#CALL, TEXT},
        NOTHINGS(ROW)
#undef ROW
},
  refusals[] = {
#define ROW(CALL, TEXT) {#CALL, TEXT},
      REFUSED(ROW)
#undef ROW
};

static weft_value *build(operands o, int wanted) {
    int row = 0;
#define ROW(CALL, ...)                                                                                       \
    if (row++ == wanted) return CALL;
    ROWS(ROW)
    NOTHINGS(ROW)
    REFUSED(ROW)
#undef ROW
    return NULL;
}

/* ---- values ---- */

/* One graph with all rows as outputs. */
static weft_model *model_of_rows(int64_t batch) {
    weft_model *m = weft_model_new("m");
    char name[16];
    weft_model_set_batch(m, batch);
    operands o = operands_of(weft_graph_new(m, "g", WEFT_TRAIN));
    for (int i = 0; i < N_ROWS; i++) {
        snprintf(name, sizeof name, "y%d", i);
        weft_output(weft_cast(build(o, i), WEFT_F32), name);
        CHECK_SAYS(!weft_model_error(m)->status, "%s: %s", rows[i].call, weft_model_error(m)->text);
    }
    return m;
}

static bool is_equal(double got, double wanted) {
    return isnan(wanted) ? isnan(got) : got == wanted;
}

static void check_rows(const weft_model *m, const char *what) {
    weft_error e = {0};
    weft_compile_options o = {.batch = BATCH, .threads = 1, .verify = true};
    weft_plan *plan = weft_compile(m, &o, &e);
    weft_store *store = plan ? weft_store_new(plan, 1, &e) : NULL;
    weft_session *s = store ? weft_session_open(plan, store, &e) : NULL;
    float x[BATCH * 3] = {0, 1, 2, 3, 4, 5};
    for (int i = 0; s && i < N_ROWS; i++) {
        char name[16];
        float y[MOST];
        snprintf(name, sizeof name, "y%d", i);
        weft_fetch fetch = {name, y, (size_t)rows[i].n * sizeof *y};
        weft_run(s, "g", &(weft_feed){"x", x, sizeof x}, 1, &fetch, 1, &e);
        if (!CHECK_SAYS(!e.status, "%s: %s: %s", what, rows[i].call, e.text)) break;
        for (int k = 0; k < rows[i].n; k++)
            CHECK_SAYS(is_equal(y[k], rows[i].wanted[k]), "%s: %s: element %d is %g, not %g", what,
                       rows[i].call, k, (double)y[k], rows[i].wanted[k]);
    }
    CHECK_SAYS(s != NULL, "%s: %s", what, e.text);
    weft_session_close(s);
    weft_store_free(store);
    weft_plan_free(plan);
}

TEST(ops_of_nothing_have_the_values_of_pytorch_at_every_batch) {
    for (int64_t batch = 1; batch <= 3; batch++) {
        char what[40];
        weft_model *m = model_of_rows(batch);
        snprintf(what, sizeof what, "built at %d", (int)batch);
        check_rows(m, what);
        weft_model_free(m);
    }
}

TEST(files_and_dumps_keep_values_without_elements) {
    weft_error e = {0};
    weft_model *m = model_of_rows(BATCH);
    char *text = weft_model_text(m);
    weft_model *parsed = weft_model_parse(text, "text", NULL, &e);
    CHECK_SAYS(parsed != NULL, "%s", e.text);
    CHECK_SAYS(weft_save(m, "empty.bin", &e) == WEFT_OK, "%s", e.text);
    weft_model *loaded = weft_load("empty.bin", NULL, &e);
    remove("empty.bin");
    CHECK_SAYS(loaded != NULL, "%s", e.text);
    const weft_model *copies[] = {parsed, loaded};
    for (int i = 0; i < 2 && copies[i]; i++) {
        char *again = weft_model_text(copies[i]);
        CHECK_TEXT(again, text);
        weft_text_free(again);
        check_rows(copies[i], i ? "loaded" : "parsed");
    }
    weft_text_free(text);
    weft_model_free(parsed);
    weft_model_free(loaded);
    weft_model_free(m);
}

TEST(values_without_elements_have_types) {
    for (int i = 0; i < N_NOTHINGS; i++) {
        weft_model *m = weft_model_new("m");
        weft_error e = {0};
        weft_model_set_batch(m, BATCH);
        operands o = operands_of(weft_graph_new(m, "g", WEFT_TRAIN));
        weft_value *v = build(o, N_ROWS + i);
        if (CHECK_SAYS(v, "%s: %s", nothings[i].call, weft_model_error(m)->text))
            CHECK_SAYS(strcmp(TYPE(&v->type), nothings[i].text) == 0, "%s is %s, not %s", nothings[i].call,
                       TYPE(&v->type), nothings[i].text);
        weft_output(weft_add(weft_sum(v, ALL), weft_sum(v, ALL)), "sum");
        weft_plan *plan = weft_compile(m, &(weft_compile_options){.batch = 6, .verify = true}, &e);
        CHECK_SAYS(plan || e.status == WEFT_SHAPE, "%s at another batch: %s", nothings[i].call, e.text);
        weft_plan_free(plan);
        weft_model_free(m);
    }
}

TEST(what_has_no_value_of_nothing_is_refused) {
    for (int i = 0; i < N_REFUSED; i++) {
        weft_model *m = weft_model_new("m");
        weft_model_set_batch(m, BATCH);
        operands o = operands_of(weft_graph_new(m, "g", WEFT_TRAIN));
        NEED(!weft_model_error(m)->status);
        CHECK_SAYS(!build(o, N_ROWS + N_NOTHINGS + i), "%s is taken", refusals[i].call);
        const weft_error *e = weft_model_error(m);
        CHECK_SAYS(e->status && strstr(e->text, refusals[i].text), "%s: %s", refusals[i].call, e->text);
        weft_model_free(m);
    }
    weft_model *m = weft_model_new("m");
    operands o = operands_of(weft_graph_new(m, "g", WEFT_TRAIN));
    weft_output(o.none, "y");
    CHECK_HOLDS(weft_model_error(m)->text, "output y: f32[1,0] has no elements");
    weft_model_free(m);
}

/* An axis that is 0 at the batch of building: at another it has elements. */
TEST(an_axis_may_be_0_at_one_batch_alone) {
    weft_model *m = weft_model_new("m");
    weft_error e = {0};
    weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
    weft_value *x = weft_input(g, "x", WEFT_F32, S(WEFT_BATCH, 2)), *later = weft_slice(x, 0, 1, INT64_MAX);
    weft_output(weft_sum(later, S(0), false), "sum");
    weft_output(weft_concat(VALUES(x, later), 0), "both");
    weft_output(weft_logsumexp(later, ALL), "lse");
    for (int64_t batch = 1; batch <= 2; batch++) {
        weft_plan *plan = weft_compile(m, &(weft_compile_options){.batch = batch, .verify = true}, &e);
        weft_store *store = plan ? weft_store_new(plan, 1, &e) : NULL;
        weft_session *s = store ? weft_session_open(plan, store, &e) : NULL;
        float data[4] = {1, 2, 30, 40}, sum[2], lse, both[6];
        weft_fetch fetches[] = {{"sum", sum, sizeof sum},
                                {"lse", &lse, sizeof lse},
                                {"both", both, (size_t)(2 * batch - 1) * 2 * sizeof *both}};
        weft_feed feed = {"x", data, (size_t)batch * 2 * sizeof *data};
        if (CHECK_SAYS(s != NULL, "%s", e.text)) {
            CHECK_SAYS(weft_run(s, "g", &feed, 1, fetches, 3, &e) == WEFT_OK, "%s", e.text);
            CHECK(sum[0] == (batch > 1 ? 30 : 0) && both[2 * (batch - 1)] == (batch > 1 ? 30 : 1));
            CHECK(batch > 1 ? fabsf(lse - 40.00005f) < 1e-4f : lse == -INFINITY);
        }
        weft_session_close(s);
        weft_store_free(store);
        weft_plan_free(plan);
    }
    weft_model_free(m);
}

/* ---- gradients ---- */

/* The gradient of a parameter [2,3] that is 1, 1, ... */
static void gradient_is(weft_value *(*loss_of)(weft_value *), double wanted, const char *what) {
    weft_model *m = weft_model_new("m");
    weft_error e = {0};
    weft_graph *g = weft_graph_new(m, "g", WEFT_TRAIN);
    weft_value *p = weft_parameter_in(g, "p", S(2, 3), (weft_init){.kind = WEFT_INIT_ONES}), *dp = NULL;
    weft_value *loss = loss_of(p);
    weft_gradients(loss, 1, &p, &dp);
    weft_output(dp, "dp");
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.verify = true}, &e);
    weft_store *store = plan ? weft_store_new(plan, 1, &e) : NULL;
    weft_session *s = store ? weft_session_open(plan, store, &e) : NULL;
    float got[6];
    weft_fetch fetch = {"dp", got, sizeof got};
    if (CHECK_SAYS(s && weft_run(s, "g", NULL, 0, &fetch, 1, &e) == WEFT_OK, "%s: %s %s", what, e.text,
                   weft_model_error(m)->text))
        for (int i = 0; i < 6; i++)
            CHECK_SAYS(is_equal(got[i], wanted), "%s: %g, not %g", what, (double)got[i], wanted);
    weft_session_close(s);
    weft_store_free(store);
    weft_plan_free(plan);
    weft_model_free(m);
}

static weft_value *joined_loss(weft_value *p) {
    weft_value *cache = weft_slice(p, 1, 0, 0), *all = weft_concat(VALUES(cache, p, cache), 1);
    return weft_sum(weft_square(all), ALL);
}

static weft_value *nothing_loss(weft_value *p) {
    return weft_sum(weft_slice(p, 1, 3, 3), ALL);
}

static weft_value *half_loss(weft_value *p) {
    return weft_add(nothing_loss(p), weft_sum(p, ALL));
}

static weft_value *mean_loss(weft_value *p) {
    return weft_mean(weft_slice(p, 0, 1, 1), ALL);
}

TEST(gradients_are_those_of_what_has_elements) {
    gradient_is(joined_loss, 2, "a sum of squares beside empty pieces");
    gradient_is(half_loss, 1, "a sum, and one of nothing");
    gradient_is(nothing_loss, 0, "a sum of nothing");
    gradient_is(mean_loss, 0, "a mean of nothing");
}

/* A parameter that only values without elements are made of does not move the loss. */
TEST(a_loss_of_nothing_depends_on_no_parameter) {
    weft_model *m = weft_model_new("m");
    weft_error e = {0};
    weft_graph *g = weft_graph_new(m, "g", WEFT_TRAIN);
    weft_value *p = weft_parameter_in(g, "p", S(2, 3), (weft_init){.kind = WEFT_INIT_ONES});
    weft_minimize(nothing_loss(p), NULL, &(weft_optimizer){.type = "sgd", .lr = 1});
    CHECK(!weft_compile(m, NULL, &e));
    CHECK_HOLDS(e.text, "its loss does not depend on parameter p");
    weft_model_free(m);
}

/* ---- every op ---- */

/* The value of a type, which may be empty. */
static weft_value *operand_new(weft_graph *g, int i, const tensor_type *t) {
    char name[16];
    snprintf(name, sizeof name, "in%d", i);
    return type_is_empty(t) ? weft_constant(g, t->dtype, t->ndim, t->shape, 0)
                            : weft_input(g, name, t->dtype, t->ndim, t->shape);
}

/* The copy that would be compiled has no empty value in its list. */
static void check_copy(const char *what, const weft_model *m, weft_node *n) {
    weft_model *copy = model_clone_variables(m, m->batch, 1, 0);
    for (int k = 0; k < n->n_out; k++) {
        char name[16];
        snprintf(name, sizeof name, "y%d", k);
        if (!type_is_empty(&n->out[k].type)) weft_output(&n->out[k], name);
    }
    weft_graph *g = graph_replay(m->graphs, copy, "g");
    CHECK_SAYS(g && graph_check(g, "replay") && graph_check_names(m->graphs, g, "replay"), "%s: %s", what,
               copy->error.text);
    weft_model_free(copy);
}

/* Counts what is made, [0], and what is refused, [1]. */
static void check_call(const weft_op *op, const op_sample *spec, int n, const tensor_type *types,
                       int done[2]) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "g", WEFT_TRAIN);
    weft_value *in[SAMPLE_MAX_IN] = {NULL};
    char what[900], why[200];
    size_t used = (size_t)snprintf(what, sizeof what, "%s(", op->name);
    for (int i = 0; i < n; i++) {
        if (types[i].ndim >= 0) in[i] = operand_new(g, i, &types[i]);
        if (used < sizeof what - 250)
            used += (size_t)snprintf(what + used, sizeof what - used, "%s%s", i ? ", " : "",
                                     types[i].ndim < 0 ? "-" : TYPE(&types[i]));
    }
    snprintf(what + used, sizeof what - used, ") %.200s", spec->attrs ? spec->attrs : "");
    void *attrs = arena_new(&m->arena, op->attrs_bytes + 1);
    const char *at = spec->attrs ? spec->attrs : "";
    if (attrs_parse(&at, op, attrs, &m->arena, why) && !weft_model_error(m)->status) {
        weft_node *made = node_new(g, op, n, in, attrs);
        const weft_error *e = weft_model_error(m);
        done[!made]++;
        CHECK_SAYS(made ? !e->status : e->status == WEFT_SHAPE || e->status == WEFT_ARGUMENT, "%s: %s", what,
                   e->text);
        if (made) check_copy(what, m, made);
    }
    weft_model_free(m);
}

/* All axes of one length become 0, then one axis alone. */
static void check_sample(const weft_op *op, const op_sample *spec, int done[2]) {
    tensor_type types[SAMPLE_MAX_IN], changed[SAMPLE_MAX_IN];
    int n = types_parse(spec->in, types, SAMPLE_MAX_IN);
    for (int i = 0; i < n; i++)
        for (int axis = 0; axis < types[i].ndim; axis++)
            for (int alone = 0; alone < 2; alone++) {
                memcpy(changed, types, sizeof types);
                for (int k = 0; k < n; k++)
                    for (int j = 0; j < types[k].ndim; j++)
                        if (alone ? k == i && j == axis : types[k].shape[j] == types[i].shape[axis])
                            changed[k].shape[j] = 0;
                check_call(op, spec, n, changed, done);
            }
}

TEST(every_op_takes_axes_of_0_or_refuses_them) {
    int done[2] = {0};
    EACH_SAMPLE(op, spec) {
        bool is_apart = op->flags & (OP_COMPILER | OP_VARIABLE | OP_COMMUNICATES) || op->writes;
        if (!spec->error && !is_apart) check_sample(op, spec, done);
    }
    CHECK_SAYS(!samples_are_all() || (done[0] >= 1000 && done[1] >= 500), "%d made, %d refused", done[0],
               done[1]);
}

/* ---- what only a broken file or pass has ---- */

TEST(dumps_whose_plan_computes_nothing_are_refused) {
    weft_error e = {0};
    weft_model *m = weft_model_parse("model m batch=1\ngraph g eval\n"
                                     "%0 f32[0] = constant() dtype=f32 shape=0 by reference @0 +0x0\n",
                                     "dump", NULL, &e);
    CHECK(!m);
    CHECK_HOLDS(e.text, "no kernel runs a node whose result has no elements");
    e = (weft_error){0};
    CHECK(!weft_model_parse("model m batch=1\ngraph g eval\n%0 f32[0,4611686018427387904] = constant() "
                            "dtype=f32 shape=0,4611686018427387904\n",
                            "dump", NULL, &e));
    CHECK_HOLDS(e.text, "no axis below 0");
}

SUITE("empty",
      {T(ops_of_nothing_have_the_values_of_pytorch_at_every_batch),
       T(files_and_dumps_keep_values_without_elements), T(values_without_elements_have_types),
       T(what_has_no_value_of_nothing_is_refused), T(an_axis_may_be_0_at_one_batch_alone),
       T(gradients_are_those_of_what_has_elements), T(a_loss_of_nothing_depends_on_no_parameter),
       T(every_op_takes_axes_of_0_or_refuses_them), T(dumps_whose_plan_computes_nothing_are_refused)})
