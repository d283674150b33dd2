/* test_index.c - elements by index (ops/index): ids outside the axis fail the run, sums do not depend on the
 * number of threads, NaN and ties in sort. Numbers and gradients beside PyTorch's: test_shapes.c. */
#include "support/test.h"
#include "weft/weft.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SHAPE(...)                                                                                           \
    (int64_t[]) {                                                                                            \
        __VA_ARGS__                                                                                          \
    }

enum { ROWS = 2000, COLUMNS = 37, PLACES = 5 };

/* ---- runs ---- */

static int64_t the_batch; /* of the plan; 0: the model's */

/* Runs graph "g" of the model with ids fed; y, which the caller frees, is NULL after an error. */
static float *run_model(weft_model *m, const void *ids, size_t bytes, weft_isa isa, int threads,
                        weft_error *e) {
    weft_port port;
    float *y = NULL;
    weft_compile_options options = {.isa = isa, .threads = threads, .verify = true, .batch = the_batch};
    weft_plan *plan = weft_compile(m, &options, e);
    weft_store *store = plan ? weft_store_new(plan, 1, e) : NULL;
    weft_session *session = store ? weft_session_open(plan, store, e) : NULL;
    if (session && CHECK(weft_plan_output(plan, "g", 0, &port))) {
        weft_feed feed = {"ids", ids, bytes};
        y = test_memory(port.bytes);
        weft_fetch fetch = {port.name, y, port.bytes};
        if (weft_run(session, "g", &feed, 1, &fetch, 1, e) != WEFT_OK) {
            free(y);
            y = NULL;
        }
    }
    weft_session_close(session);
    weft_store_free(store);
    weft_plan_free(plan);
    return y;
}

/* ---- ids outside the axis ---- */

/* Each builder over x[4, 3] with ids[2, 3] along axis 0. */
static weft_value *build(int way, weft_value *x, weft_value *ids) {
    weft_value *one = weft_constant(weft_value_graph(x), WEFT_F32, 0, NULL, 1);
    switch (way) {
    case 0:
        return weft_gather(x, 0, ids);
    case 1:
        return weft_take_along_axis(x, ids, 0);
    case 2:
        return weft_scatter(x, 0, ids, one);
    case 3:
        return weft_scatter_add(x, 0, ids, one);
    default:
        return weft_index_select(x, 0, weft_reshape(ids, 1, SHAPE(-1)));
    }
}

TEST(an_id_outside_the_axis_fails_the_run) {
    static const weft_isa isas[] = {WEFT_ISA_REFERENCE, WEFT_ISA_AUTO};
    for (int k = 0; k < 2 * 5 * 3; k++) {
        static const int64_t wrong[] = {4, -1, INT64_MIN};
        int64_t bad = wrong[k / 10], ids[6] = {0, 3, 2, 1, bad, 0};
        weft_error e = {0};
        weft_model *m = weft_model_new("m");
        weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
        weft_value *x = weft_constant(g, WEFT_F32, 2, SHAPE(4, 3), 1.5);
        weft_value *in = weft_input(g, "ids", WEFT_I64, 2, SHAPE(2, 3));
        weft_output(build(k % 5, x, in), "y");
        float *y = run_model(m, ids, sizeof ids, isas[k / 5 % 2], 2, &e);
        CHECK(!y && e.status == WEFT_DATA);
        CHECK_HOLDS(e.text, "(number 4) is outside the axis, 0 to 3");
        free(y);
        ids[4] = 2;
        y = run_model(m, ids, sizeof ids, isas[k / 5 % 2], 2, &e);
        CHECK_SAYS(y != NULL, "%s", e.text);
        free(y);
        weft_model_free(m);
    }
}

/* Adds elements of x to x itself, or puts them there: the result must not be in the memory of x, which is
 * read on. Three ids, of which one is there twice. */
TEST(a_value_is_put_into_itself) {
    static const float want[3][4] = {{1, 4, 6, 9}, {1, 4, 6, 9}, {1, 2, 3, 4}};
    static const int64_t ids[4] = {3, 1, 2, 3}, straight[4] = {0, 1, 2, 3};
    for (int k = 0; k < 2 * 3; k++) {
        weft_error e = {0};
        int which = k / 2;
        weft_model *m = weft_model_new("m");
        weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
        weft_value *x = weft_arange(g, WEFT_F32, 1, 5, 1), *in = weft_input(g, "ids", WEFT_I64, 1, SHAPE(4));
        x = weft_exp(weft_log(x)); /* memory of its own */
        x = weft_round(x);
        weft_output(which == 0   ? weft_index_add(x, 0, in, x)
                    : which == 1 ? weft_scatter_add(x, 0, in, x)
                                 : weft_scatter(x, 0, in, x),
                    "y");
        float *y = run_model(m, which == 2 ? straight : ids, sizeof ids,
                             k % 2 ? WEFT_ISA_AUTO : WEFT_ISA_REFERENCE, 2, &e);
        CHECK_SAYS(y && memcmp(y, want[which], sizeof want[which]) == 0, "%d: %s", k, e.text);
        free(y);
        weft_model_free(m);
    }
}

/* ---- ids for several axes ---- */

/* y is what index_put, or index, makes of x[3, 4] = 0, 1, ... with ids[2, 3]: a row for each axis. */
static float *several(const int64_t *ids, bool puts, bool adds, weft_isa isa, int threads, weft_error *e) {
    weft_value *at[2];
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
    weft_value *x = weft_reshape(weft_arange(g, WEFT_F32, 0, 12, 1), 2, SHAPE(3, 4));
    weft_unbind(weft_input(g, "ids", WEFT_I64, 2, SHAPE(2, 3)), 2, 0, at);
    weft_value *values = weft_arange(g, WEFT_F32, 100, 103, 1);
    weft_output(puts ? weft_index_put(x, 2, at, values, adds) : weft_index(x, 2, at), "y");
    float *y = run_model(m, ids, 6 * sizeof *ids, isa, threads, e);
    weft_model_free(m);
    return y;
}

TEST(indices_count_from_the_end_and_the_last_is_kept) {
    static const int64_t ids[] = {2, -1, 0, -4, 0, 3};
    static const float taken[] = {8, 8, 3};
    for (int k = 0; k < 6; k++) {
        weft_error e = {0};
        weft_isa isa = k % 2 ? WEFT_ISA_AUTO : WEFT_ISA_REFERENCE;
        float *y = several(ids, k / 2, k / 2 == 2, isa, 2, &e);
        if (!CHECK_SAYS(y != NULL, "%s", e.text)) continue;
        for (int i = 0; i < 3 && k / 2 == 0; i++) CHECK(y[i] == taken[i]);
        for (int i = 0; i < 12 && k / 2 > 0; i++) {
            float want = i == 8 ? 101 : i == 3 ? 102 : (float)i;
            if (k / 2 == 2) want = i == 8 ? 8 + 100 + 101 : i == 3 ? 3 + 102 : (float)i;
            CHECK_SAYS(y[i] == want, "%d: element %d is %g, not %g", k, i, (double)y[i], (double)want);
        }
        free(y);
    }
}

TEST(an_index_outside_its_axis_fails_the_run) {
    static const int64_t bad[][2] = {{0, 3}, {0, -4}, {1, 4}, {1, -5}, {1, INT64_MIN}};
    for (int k = 0; k < 5 * 2 * 2; k++) {
        int64_t ids[] = {0, 1, 2, 0, 1, 2};
        weft_error e = {0};
        ids[bad[k / 4][0] * 3 + 1] = bad[k / 4][1];
        float *y = several(ids, k & 2, false, k & 1 ? WEFT_ISA_AUTO : WEFT_ISA_REFERENCE, 2, &e);
        CHECK(!y && e.status == WEFT_DATA);
        CHECK_HOLDS(e.text, bad[k / 4][0] ? "(number 1) is outside axis 1, -4 to 3"
                                          : "(number 1) is outside axis 0, -3 to 2");
        free(y);
    }
}

/* x[b, :, j] and the like, of a model that was built with a batch of 1, in a plan for 5. */
static weft_value *of_batch(int way, weft_graph *g, weft_value *ids) {
    weft_value *x = weft_arange(g, WEFT_F32, 0, WEFT_BATCH, 1), *one = weft_constant(g, WEFT_F32, 0, NULL, 1);
    weft_value *rows = weft_arange(g, WEFT_I64, 0, WEFT_BATCH, 1);
    /* x[b, i, j] = b + i / 4 */
    x = weft_broadcast_to(weft_reshape(x, 3, SHAPE(-1, 1, 1)), 3, SHAPE(-1, 3, 4));
    weft_value *i = weft_reshape(weft_arange(g, WEFT_F32, 0, 0.75, 0.25), 2, SHAPE(3, 1));
    x = weft_add(x, i);
    switch (way) {
    case 0: /* [B, 4]: b + id / 4 */
        return weft_index(x, 2, (weft_value *[]){rows, ids});
    case 1: /* the same from [3, B, 4] */
        return weft_index(weft_permute(x, SHAPE(1, 0, 2)), 2, (weft_value *[]){ids, rows});
    case 2: /* the batch is taken whole, then every element of it is the same: b + id / 4 */
        return weft_index(weft_index(x, 2, (weft_value *[]){NULL, ids}), 2, (weft_value *[]){rows, rows});
    case 3: /* 1 + b + id / 4 */
        x = weft_index_put(x, 2, (weft_value *[]){rows, ids}, one, true);
        return weft_index(x, 2, (weft_value *[]){rows, ids});
    case 4: /* the mean of itself and b + 1 */
        x = weft_scatter_reduce(x, 1,
                                weft_broadcast_to(weft_reshape(ids, 3, SHAPE(-1, 1, 1)), 3, SHAPE(-1, 1, 4)),
                                weft_offset(weft_slice(x, 1, 0, 1), 1), WEFT_SCATTER_MEAN, true);
        return weft_index(x, 2, (weft_value *[]){rows, ids});
    default: /* the largest of itself and -1 */
        x = weft_index_reduce(weft_permute(x, SHAPE(1, 0, 2)), 0, ids, weft_neg(one), WEFT_SCATTER_AMAX,
                              true);
        return weft_index(x, 2, (weft_value *[]){ids, rows});
    }
}

TEST(indices_keep_a_batch_a_batch) {
    static const int64_t ids[5] = {2, 0, 1, 1, 2};
    for (int k = 0; k < 2 * 6; k++) {
        weft_error e = {0};
        weft_model *m = weft_model_new("m");
        weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
        weft_output(of_batch(k / 2, g, weft_input(g, "ids", WEFT_I64, 1, SHAPE(WEFT_BATCH))), "y");
        the_batch = 5;
        float *y = run_model(m, ids, sizeof ids, k % 2 ? WEFT_ISA_AUTO : WEFT_ISA_REFERENCE, 2, &e);
        the_batch = 0;
        CHECK_SAYS(y != NULL, "%d: %s", k / 2, e.text);
        for (int i = 0; y && i < 5 * 4; i++) {
            double own = i / 4 + (double)ids[i / 4] / 4;
            double want = k / 2 == 3 ? own + 1 : k / 2 == 4 ? (own + i / 4 + 1) / 2 : own;
            CHECK_SAYS((double)y[i] == want, "%d: element %d is %g, not %g", k / 2, i, (double)y[i], want);
        }
        free(y);
        weft_model_free(m);
    }
}

/* A mask puts one number, or what lies along the axes after it; all else would need to know how many elements
 * are true. */
TEST(a_mask_is_an_index_only_where_no_shape_depends_on_it) {
    weft_error e = {0};
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
    weft_value *x = weft_arange(g, WEFT_F32, 0, 4, 1), *ids = weft_input(g, "ids", WEFT_I64, 1, SHAPE(4));
    weft_value *mask = weft_cast(ids, WEFT_BOOL);
    weft_output(weft_index_put(x, 1, &mask, weft_constant(g, WEFT_F32, 0, NULL, 9), false), "y");
    float *y = run_model(m, (int64_t[]){1, 0, 0, 1}, 4 * sizeof(int64_t), WEFT_ISA_AUTO, 1, &e);
    CHECK_SAYS(y && y[0] == 9 && y[1] == 1 && y[2] == 2 && y[3] == 9, "%s", e.text);
    free(y);
    CHECK(!weft_index(x, 1, &mask));
    CHECK_HOLDS(weft_model_error(m)->text, "index: the index of axis 0 is a mask, bool[4]");
    CHECK_HOLDS(weft_model_error(m)->text, "weft_where()");
    weft_model_free(m);
}

/* ---- the order of sort ---- */

/* Rows of 5 and of 3,000 (long ones are sorted in another way): NaN, infinities, both zeros, ties. */
TEST(nan_is_largest_and_ties_keep_their_order) {
    static const float x[5] = {0.0f, NAN, -0.0f, -INFINITY, INFINITY};
    static const int64_t rising[5] = {3, 0, 2, 4, 1}, falling[5] = {1, 4, 0, 2, 3};
    for (int k = 0; k < 2 * 2 * 2; k++) {
        int64_t n = k & 1 ? 3000 : 5, *data = test_memory((size_t)n * sizeof *data);
        weft_error e = {0};
        weft_model *m = weft_model_new("m");
        weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
        weft_value *v = weft_input(g, "ids", WEFT_F32, 1, &n);
        weft_output(weft_argsort(v, 0, k & 2), "y");
        float *values = (float *)data;
        for (int64_t i = 0; i < n; i++) values[i] = x[i * 5 / n];
        float *y =
            run_model(m, data, (size_t)n * sizeof *values, k & 4 ? WEFT_ISA_AUTO : WEFT_ISA_REFERENCE, 2, &e);
        const int64_t *places = (const int64_t *)(const void *)y, *want = k & 2 ? falling : rising;
        bool good = y != NULL;
        for (int64_t i = 0; good && i < n; i++) {
            /* the zeros are one group of ties, so their places follow each other */
            int64_t each = n / 5;
            good = places[i] == want[i / each] * each + i % each;
        }
        CHECK_SAYS(good, "%d: %s", k, e.text);
        free(y);
        free(data);
        weft_model_free(m);
    }
}

/* ---- bits ---- */

/* y[PLACES, COLUMNS]: ROWS rows of random numbers added up by id. */
static weft_model *sums(bool broadcast) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
    weft_value *x = weft_constant(g, WEFT_F32, 2, SHAPE(PLACES, COLUMNS), 0.1);
    weft_value *src = weft_random_normal(g, 2, SHAPE(ROWS, COLUMNS), 0, 1);
    weft_value *ids = weft_input(g, "ids", WEFT_I64, 1, SHAPE(ROWS));
    weft_value *all = weft_broadcast_to(weft_reshape(ids, 2, SHAPE(-1, 1)), 2, SHAPE(ROWS, COLUMNS));
    weft_output(broadcast ? weft_index_add(x, 0, ids, src) : weft_scatter_add(x, 0, all, src), "y");
    return m;
}

/* index_add is scatter_add with the ids of a row written out: the same sums in the same order. */
TEST(sums_have_the_same_bits_for_any_number_of_threads) {
    int64_t ids[ROWS];
    float *first = NULL;
    for (int i = 0; i < ROWS; i++) ids[i] = i * 7 % 23 % PLACES;
    for (int k = 0; k < 2 * 4; k++) {
        weft_error e = {0};
        weft_model *m = sums(k % 2);
        float *y = run_model(m, ids, sizeof ids, WEFT_ISA_AUTO, 1 + k / 2, &e);
        NEED(y);
        if (first) CHECK(memcmp(first, y, PLACES * COLUMNS * sizeof *y) == 0);
        if (first)
            free(y);
        else
            first = y;
        weft_model_free(m);
    }
    free(first);
}

SUITE("index",
      {T(an_id_outside_the_axis_fails_the_run), T(a_value_is_put_into_itself),
       T(nan_is_largest_and_ties_keep_their_order), T(sums_have_the_same_bits_for_any_number_of_threads),
       T(indices_count_from_the_end_and_the_last_is_kept), T(an_index_outside_its_axis_fails_the_run),
       T(indices_keep_a_batch_a_batch), T(a_mask_is_an_index_only_where_no_shape_depends_on_it)})
