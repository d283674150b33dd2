/* over_ranks.c - see over_ranks.h. */
#include "support/models/over_ranks.h"

#include "graph/core/graph.h"

#include <math.h>
#include <string.h>

enum { ROWS = 2, COLUMNS = 3, MOST = 64 };

/* ---- values ---- */

/* Element i of rank r's operand: whole numbers, so that sums are exact in any type and order. */
static double operand(int r, int i) {
    return (double)((r * 7 + i * 5 + (i % 3) * r) % 11 - 5);
}

/* One op of a graph, of x[ROWS, COLUMNS], and what rank r of n gets as element i of its result. */
typedef struct row {
    const char *name;
    weft_value *(*build)(weft_value *x, const over_ranks *v);
    double (*want)(int n, int r, int i);
    bool only_floats;
} row;

static weft_value *sum(weft_value *x, const over_ranks *v) {
    return weft_all_reduce(x, WEFT_RANKS_SUM, v->group);
}
static double want_sum(int n, int r, int i) {
    double all = 0;
    for (int k = 0; k < n; k++) all += operand(k, i);
    return all;
}
static weft_value *mean(weft_value *x, const over_ranks *v) {
    return weft_all_reduce(x, WEFT_RANKS_MEAN, v->group);
}
static double want_mean(int n, int r, int i) {
    return want_sum(n, r, i) / n;
}
static weft_value *largest(weft_value *x, const over_ranks *v) {
    return weft_all_reduce(x, WEFT_RANKS_MAX, v->group);
}
static double want_largest(int n, int r, int i) {
    double most = operand(0, i);
    for (int k = 1; k < n; k++) most = fmax(most, operand(k, i));
    return most;
}
static weft_value *smallest(weft_value *x, const over_ranks *v) {
    return weft_all_reduce(x, WEFT_RANKS_MIN, v->group);
}
static double want_smallest(int n, int r, int i) {
    double least = operand(0, i);
    for (int k = 1; k < n; k++) least = fmin(least, operand(k, i));
    return least;
}
static weft_value *rows(weft_value *x, const over_ranks *v) {
    return weft_all_gather(x, 0, v->group);
}
static double want_rows(int n, int r, int i) {
    return operand(i / (ROWS * COLUMNS), i % (ROWS * COLUMNS));
}
static weft_value *columns(weft_value *x, const over_ranks *v) {
    return weft_all_gather(x, -1, v->group);
}
static double want_columns(int n, int r, int i) {
    int at = i / (n * COLUMNS), column = i % (n * COLUMNS);
    return operand(column / COLUMNS, at * COLUMNS + column % COLUMNS);
}
static weft_value *last(weft_value *x, const over_ranks *v) { /* a value without axes */
    return weft_all_gather(weft_reshape(weft_slice(weft_slice(x, 0, 0, 1), 1, 0, 1), 0, NULL), 0, v->group);
}
static double want_last(int n, int r, int i) {
    return operand(i, 0);
}
/* [ROWS, n COLUMNS], of which element (a, b) is this rank's (a, b % COLUMNS) */
static weft_value *scattered(weft_value *x, const over_ranks *v) {
    weft_value *own = weft_scale(weft_all_gather(weft_scale(x, 0), 1, v->group), 0);
    weft_value *many = weft_add(weft_reshape(own, 3, (int64_t[]){ROWS, -1, COLUMNS}), weft_unsqueeze(x, 1));
    return weft_reduce_scatter(weft_reshape(many, 2, (int64_t[]){ROWS, -1}), 1, WEFT_RANKS_SUM, v->group);
}
static weft_value *scattered_mean(weft_value *x, const over_ranks *v) {
    weft_value *own = weft_scale(weft_all_gather(x, 0, v->group), 0);
    weft_value *many = weft_add(weft_reshape(own, 3, (int64_t[]){-1, ROWS, COLUMNS}), x);
    return weft_reduce_scatter(weft_reshape(many, 2, (int64_t[]){-1, COLUMNS}), 0, WEFT_RANKS_MEAN, v->group);
}
static weft_value *from_last(weft_value *x, const over_ranks *v) {
    return weft_broadcast(x, v->n - 1, v->group);
}
static double want_from_last(int n, int r, int i) {
    return operand(n - 1, i);
}
static weft_value *place(weft_value *x, const over_ranks *v) {
    return weft_cast(weft_rank(weft_value_graph(x), v->group), weft_value_dtype(x));
}
static double want_place(int n, int r, int i) {
    return r;
}
static weft_value *count(weft_value *x, const over_ranks *v) {
    return weft_cast(weft_world(weft_value_graph(x), v->group), weft_value_dtype(x));
}
static double want_count(int n, int r, int i) {
    return n;
}

static weft_value *places(weft_value *x, const over_ranks *v) {
    return weft_cast(weft_rank_rows(x, v->group), weft_value_dtype(x));
}
static double want_places(int n, int r, int i) {
    return r * ROWS + i;
}

static const row all[] = {
    {"sum", sum, want_sum, true},
    {"mean", mean, want_mean, true},
    {"max", largest, want_largest, false},
    {"min", smallest, want_smallest, false},
    {"gather_rows", rows, want_rows, false},
    {"gather_columns", columns, want_columns, false},
    {"gather_numbers", last, want_last, false},
    {"scatter_columns", scattered, want_sum, true},
    {"scatter_rows", scattered_mean, want_mean, true},
    {"broadcast", from_last, want_from_last, false},
    {"rank", place, want_place, false},
    {"world", count, want_count, false},
    {"rows", places, want_places, false},
};
enum { N_ROWS = sizeof all / sizeof *all };

weft_model *over_ranks_values(const over_ranks *v) {
    weft_model *m = weft_model_new("values");
    weft_graph *g = weft_graph_new(m, "eval", WEFT_EVAL);
    weft_value *x = weft_input(g, "x", WEFT_F64, 2, (int64_t[]){ROWS, COLUMNS});
    x = weft_cast(x, v->dtype);
    for (int i = 0; i < N_ROWS; i++) {
        if (all[i].only_floats && !dtype_is_float(v->dtype)) continue;
        weft_output(weft_cast(all[i].build(x, v), WEFT_F64), all[i].name);
    }
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return m;
}

/* Means are rounded, and no others. */
static double rounding_of(weft_dtype dtype) {
    bool is_reduced = dtype == WEFT_BF16 || dtype == WEFT_F16;
    return is_reduced ? 0.01 : dtype == WEFT_F32 ? 1e-6 : dtype == WEFT_F64 ? 1e-15 : 0;
}

void over_ranks_check(world_rank *r) {
    const over_ranks *v = r->job->context;
    double x[ROWS * COLUMNS], y[MOST];
    int own = r->rank % v->n;
    for (int i = 0; i < ROWS * COLUMNS; i++) x[i] = operand(own, i);
    weft_feed feed = {"x", x, sizeof x};
    for (int k = 0; k < N_ROWS; k++) {
        weft_port port;
        if (all[k].only_floats && !dtype_is_float(v->dtype)) continue;
        for (int i = 0; weft_plan_output(r->plan, "eval", i, &port) && strcmp(port.name, all[k].name);) i++;
        weft_fetch fetch = {all[k].name, y, port.bytes};
        if (!CHECK(port.bytes <= sizeof y)) return;
        if (weft_run(r->session, "eval", &feed, 1, &fetch, 1, &r->error)) return;
        for (int i = 0; i < (int)(port.bytes / sizeof *y); i++) {
            double want = all[k].want(v->n, own, i);
            CHECK_SAYS(fabs(y[i] - want) <= rounding_of(v->dtype) * fabs(want),
                       "%s of %s, rank %d of %d: element %d is %.17g, not %.17g", all[k].name,
                       weft_dtype_name(v->dtype), own, v->n, i, y[i], want);
        }
    }
}

/* ---- gradients: ranks that share a batch train as one rank with the whole ---- */

enum { WHOLE = OVER_RANKS_BATCH, IN = 6, OUT = 5, STEPS = 5 };

static weft_value *mean_of(weft_value *x) {
    return weft_mean(x, WEFT_ALL, false);
}

/* Rows contrast with those of all ranks. */
static weft_value *contrast(weft_value *f, weft_value *h) {
    weft_value *logits = weft_scale(weft_matmul(f, weft_all_gather(h, 0, NULL), false, true), 5);
    return weft_cross_entropy(logits, weft_rank_rows(f, NULL), NULL);
}

/* Each term is of the whole batch: a wrong gradient of an op changes it. */
static weft_value *terms(weft_value *x) {
    weft_graph *g = weft_value_graph(x);
    weft_value *f = weft_normalize(weft_linear(x, OUT, "f", NULL), -1, 0),
               *h = weft_linear(x, OUT, "h", NULL);
    weft_value *centre = weft_all_reduce(weft_mean(f, WEFT_AXES(0), false), WEFT_RANKS_MEAN, NULL);
    weft_value *high = weft_all_reduce(weft_amax(h, WEFT_AXES(0), false), WEFT_RANKS_MAX, NULL);
    weft_value *same = weft_reduce_scatter(weft_all_gather(h, 0, NULL), 0, WEFT_RANKS_MEAN, NULL);
    weft_value *sent = weft_broadcast(centre, 0, NULL);
    weft_value *loss = contrast(f, h), *by_h;
    weft_value *ranks = weft_cast(weft_world(g, NULL), WEFT_F32);
    weft_gradients(loss, 1, &h, &by_h); /* of the sum of all ranks' losses, each a mean over its own rows */
    loss = weft_add(loss, weft_scale(mean_of(weft_square(weft_div(by_h, ranks))), 300));
    loss = weft_add(loss, mean_of(weft_square(weft_sub(f, centre))));
    loss = weft_add(loss, weft_scale(mean_of(weft_square(high)), 0.2));
    loss = weft_add(loss, weft_scale(mean_of(weft_square(same)), 0.1));
    return weft_add(loss, mean_of(weft_mul(weft_square(f), sent)));
}

weft_model *over_ranks_model(void) {
    weft_model *m = weft_model_new("contrast");
    weft_model_set_batch(m, WHOLE);
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *loss = terms(weft_input(g, "x", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, IN)));
    weft_minimize(loss, "", &(weft_optimizer){.type = "sgd", .lr = 0.1, .momentum = 0.9});
    weft_output(loss, "loss");
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return m;
}

/* This rank's rows of each whole micro-batch. */
void over_ranks_train(world_rank *r) {
    float x[WHOLE * IN], loss;
    int n = WHOLE / r->world, first = r->rank * n;
    int micros = STEPS * (r->job->options.accumulate > 1 ? r->job->options.accumulate : 1);
    for (int i = 0; i < micros && !r->error.status; i++) {
        test_random random = {(uint64_t)i + 1};
        for (int k = 0; k < WHOLE * IN; k++) x[k] = (float)random_in(&random, -1, 1);
        weft_feed feed = {"x", x + first * IN, (size_t)(n * IN) * sizeof *x};
        weft_run(r->session, "step", &feed, 1, &(weft_fetch){"loss", &loss, sizeof loss}, 1, &r->error);
    }
}
