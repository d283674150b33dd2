/* test_batch_axes.c - builders that reshape, with the batch on each axis in turn: what is built at one batch
 * and bound to another is what is built at that one, to the bit, or it is refused: no shape is another.
 * Builders of shapes are in pytorch/test_shapes.c. Also lengths that ranks make longer. */
#include "support/test.h"
#include "weft/weft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define S(...)                                                                                               \
    sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (int64_t[]) {                                        \
        __VA_ARGS__                                                                                          \
    }

static weft_value *weight(weft_value *x, int ndim, const int64_t *shape) {
    return weft_constant(weft_value_graph(x), WEFT_F32, ndim, shape, 0.5);
}

/* 0, 1, 0, 1, ... in the shape of x without axis 1. */
static weft_value *classes(weft_value *x) {
    weft_value *ids = weft_argmax(x, 1, false),
               *one = weft_constant(weft_value_graph(x), WEFT_I64, 0, NULL, 1);
    return weft_minimum(weft_cast(ids, WEFT_I64), one);
}

static weft_value *soft(weft_value *x) {
    return weft_cross_entropy(x, weft_softmax(x, 1), NULL);
}

static weft_value *indexed(weft_value *x) {
    return weft_cross_entropy(x, classes(x), &(weft_loss){.reduction = WEFT_LOSS_NONE});
}

/* All pairs: two axes follow the batch. */
static weft_value *pairs(weft_value *x) {
    weft_value *rows = weft_flatten(x, 1);
    return weft_unsqueeze(weft_matmul(rows, rows, false, true), 1);
}

/* Pairs of one sample and all axes: [n a, b, n]. */
static weft_value *more_pairs(weft_value *x) {
    weft_value *rows = weft_sum(x, 1, (int64_t[]){2}, false);
    rows = weft_sum(rows, 1, (int64_t[]){1}, false);
    weft_value *both = weft_mul(weft_unsqueeze(x, 3), rows);
    return weft_flatten(weft_permute(both, (int64_t[]){1, 2, 3, 0}), 2);
}

static weft_value *lstm(weft_value *x) {
    weft_value *h = NULL, *c = NULL;
    weft_recurrent o = {.hidden = 3, .layers = 2, .bidirectional = true};
    weft_value *y = weft_lstm(x, &o, "lstm", &h, &c);
    return y ? weft_concat(2, (weft_value *[]){weft_flatten(y, 1), weft_flatten(weft_transpose(h, 0, 1), 1)},
                           1)
             : y;
}

/* The axes of x, and the calls. */
#define ROWS(X)                                                                                              \
    X(3, weft_flatten(x, 0))                                                                                 \
    X(3, weft_flatten(x, 1))                                                                                 \
    X(4, weft_flatten(x, 2))                                                                                 \
    X(4, weft_flatten(x, -1))                                                                                \
    X(4, weft_squeeze(weft_unsqueeze(x, 2), 2))                                                              \
    X(3, pairs(x))                                                                                           \
    X(3, more_pairs(x))                                                                                      \
    X(4, weft_pixel_shuffle(x, 2))                                                                           \
    X(5, weft_pixel_shuffle(x, 2))                                                                           \
    X(3, weft_pixel_unshuffle(x, 2))                                                                         \
    X(4, weft_pixel_unshuffle(x, 2))                                                                         \
    X(3, weft_max_pool1d(x, &(weft_pool){.kernel = {2}}))                                                    \
    X(3, weft_adaptive_avg_pool1d(x, 3))                                                                     \
    X(3, weft_interpolate(x, &(weft_interpolation){.scale = {2}}))                                           \
    X(5,                                                                                                     \
      weft_interpolate(x, &(weft_interpolation){.scale = {2, 1.5, 0.5}, .mode = WEFT_INTERPOLATE_BILINEAR})) \
    X(4, weft_interpolate(x, &(weft_interpolation){.scale = {2, 0.5}, .mode = WEFT_INTERPOLATE_BICUBIC}))    \
    X(4, weft_unfold(x, (int64_t[]){2, 1}, &(weft_window){.stride = {2, 1}}))                                \
    X(3, weft_fold(x, (int64_t[]){3, 3}, (int64_t[]){2, 2}, NULL))                                           \
    X(4, weft_grid_sample(weft_slice(x, 1, 0, 1), weft_slice(x, 3, 0, 2), NULL))                             \
    X(3, weft_conv1d_op(x, weight(x, S(3, 4, 2)), NULL, NULL))                                               \
    X(5, weft_max_pool3d(x, &(weft_pool){.kernel = {2, 2, 1}}))                                              \
    X(5, weft_avg_pool3d(x, &(weft_pool){.kernel = {2, 1, 2}, .stride = {1, 1, 1}}))                         \
    X(5, weft_avg_pool3d(x, &(weft_pool){.kernel = {1, 2, 2}}))                                              \
    X(5, weft_adaptive_max_pool3d(x, 2, 1, 3))                                                               \
    X(4, weft_group_norm_op(x, 2, NULL, NULL, 1e-5))                                                         \
    X(5, weft_instance_norm_op(x, NULL, NULL, 1e-5))                                                         \
    X(4, weft_layer_norm_op(x, weight(x, S(4, 4)), NULL, 1e-5))                                              \
    X(3, weft_layer_norm_op(x, weight(x, S(4)), NULL, 1e-5))                                                 \
    X(3, weft_batch_norm_op(x, weight(x, S(4)), weight(x, S(4)), 1e-5, NULL, NULL))                          \
    X(5, weft_batch_norm_op(x, weight(x, S(4)), weight(x, S(4)), 1e-5, NULL, NULL))                          \
    X(2, indexed(x))                                                                                         \
    X(4, indexed(x))                                                                                         \
    X(3, soft(x))                                                                                            \
    X(4, weft_einsum("abcd,ceb->ade", 2, (weft_value *[]){x, weight(x, S(4, 2, 4))}))                        \
    X(4, weft_einsum("abcd,de->abce", 2, (weft_value *[]){x, weight(x, S(4, 2))}))                           \
    X(4, weft_einsum("abcd,abed->ce", 2, (weft_value *[]){x, x}))                                            \
    X(3, lstm(x))                                                                                            \
    X(4, weft_flatten(weft_all_gather(x, 1, NULL), 2))

static weft_value *build(int row, weft_value *x) {
    int i = 0;
#define X(ndim, call)                                                                                        \
    if (row == i++) return call;
    ROWS(X)
#undef X
    return NULL;
}

static const struct {
    int ndim;
    const char *call;
} rows[] = {
#define X(ndim, call) {ndim, #call},
    ROWS(X)
#undef X
};
enum { N_ROWS = sizeof rows / sizeof *rows, LENGTH = 4 };

/* x has axes of LENGTH, and the batch as `axis`. */
static weft_model *model_on(int row, int axis, int64_t batch) {
    int64_t shape[5] = {LENGTH, LENGTH, LENGTH, LENGTH, LENGTH};
    weft_model *m = weft_model_new("axes");
    shape[axis] = WEFT_BATCH;
    weft_model_set_batch(m, batch);
    weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
    weft_output(build(row, weft_input(g, "x", WEFT_F32, rows[row].ndim, shape)), "y");
    return m;
}

typedef struct answer {
    weft_port port;
    float *y;
} answer;

static answer run(weft_model *m, int64_t batch, weft_error *e) {
    answer a = {.y = NULL};
    weft_port in;
    weft_plan *plan =
        weft_compile(m, &(weft_compile_options){.batch = batch, .threads = 1, .verify = true}, e);
    weft_store *store = plan ? weft_store_new(plan, 1, e) : NULL;
    weft_session *session = store ? weft_session_open(plan, store, e) : NULL;
    if (session && weft_plan_input(plan, "g", 0, &in) && weft_plan_output(plan, "g", 0, &a.port)) {
        float *x = test_memory(in.bytes);
        for (size_t i = 0; i < in.bytes / sizeof *x; i++) x[i] = (float)(i * 37 % 163) / 16 - 4.5f;
        a.y = test_memory(a.port.bytes);
        weft_fetch fetch = {"y", a.y, a.port.bytes};
        weft_run(session, "g", &(weft_feed){"x", x, in.bytes}, 1, &fetch, 1, e);
        free(x);
    }
    weft_session_close(session);
    weft_store_free(store);
    weft_plan_free(plan);
    return a;
}

static bool is_same(const answer *a, const answer *b) {
    return a->port.ndim == b->port.ndim && a->port.bytes == b->port.bytes &&
           memcmp(a->port.shape, b->port.shape, (size_t)a->port.ndim * sizeof *a->port.shape) == 0 &&
           memcmp(a->y, b->y, a->port.bytes) == 0;
}

/* done[0] counts what is right, done[1] what is refused: a weight of one length, of operands and of layers,
 * and two merged axes of which one follows the batch and one the ranks. */
static void bind_on(int row, int axis, int64_t built, int64_t bound, int done[2]) {
    weft_model *m = model_on(row, axis, built), *other = model_on(row, axis, bound);
    weft_error e = {0}, why = {0};
    if (!weft_model_error(m)->status && !weft_model_error(other)->status) {
        answer direct = run(other, 0, &why), bound_to = run(m, bound, &e);
        CHECK_SAYS(why.status == WEFT_OK, "%s, axis %d: %s", rows[row].call, axis, why.text);
        CHECK_SAYS(e.status == WEFT_SHAPE || (e.status == WEFT_OK && is_same(&bound_to, &direct)),
                   "%s, axis %d, built at %d for %d: another result %s", rows[row].call, axis, (int)built,
                   (int)bound, e.text);
        done[e.status != WEFT_OK]++;
        free(direct.y);
        free(bound_to.y);
    }
    weft_model_free(m);
    weft_model_free(other);
}

TEST(the_batch_may_be_any_axis_of_an_operand) {
    int done[2] = {0};
    for (int row = 0; row < N_ROWS; row++)
        for (int axis = 0; axis < rows[row].ndim; axis++) {
            bind_on(row, axis, LENGTH, 2 * LENGTH, done);
            bind_on(row, axis, 2 * LENGTH, LENGTH, done);
            bind_on(row, axis, 1, LENGTH, done);
            bind_on(row, axis, 2, LENGTH, done);
        }
    CHECK_SAYS(done[0] >= 423 && done[1] <= 15, "%d are right, %d refused", done[0], done[1]);
}

/* What another rank makes longer stays apart from the batch beside it. */
TEST(lengths_that_ranks_make_longer_are_followed_on_any_axis) {
    for (int axis = 0; axis < 3; axis++) {
        weft_model *m = weft_model_new("ranks");
        weft_error e = {0};
        weft_port y;
        weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
        weft_value *x = weft_all_gather(weft_input(g, "x", WEFT_F32, S(WEFT_BATCH, 3, 5)), axis, NULL);
        weft_output(weft_unsqueeze(weft_flatten(x, 1), 0), "y");
        weft_plan *plan = weft_compile(m, &(weft_compile_options){.batch = 4, .world = 2}, &e);
        if (CHECK_SAYS(plan && weft_plan_output(plan, "g", 0, &y), "axis %d: %s", axis, e.text)) {
            CHECK(y.ndim == 3 && y.shape[0] == 1);
            CHECK(y.shape[1] == (axis == 0 ? 8 : 4));
            CHECK(y.shape[2] == (axis == 0 ? 15 : 30));
        }
        weft_plan_free(plan);
        weft_model_free(m);
    }
}

SUITE("batch_axes", {T(the_batch_may_be_any_axis_of_an_operand),
                     T(lengths_that_ranks_make_longer_are_followed_on_any_axis)})
