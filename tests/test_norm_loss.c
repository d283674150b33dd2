/* test_norm_loss.c - norms and losses against PyTorch: each row is a call of Weft and the same in PyTorch,
 * whose numbers, gradients and gradients of gradients in f64 stand in golden/norm_loss.h
 * (golden/make_norm_loss.py writes it from the rows). Each runs in f64 by the reference kernels and in f32 by
 * the best ones, and replays at another batch. */
#include "ops/norm_loss/norm.h"
#include "support/test.h"
#include "weft/weft.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the rows: operands x, t [2,4,3], w, b [4], integer ids [2,3]; g is their graph ---- */

#define AXES(...)                                                                                            \
    (int64_t[]) {                                                                                            \
        __VA_ARGS__                                                                                          \
    }

/* A norm as the critics below take it. */
typedef weft_value *norm(weft_value *x, weft_value *w, weft_value *b);

static weft_value *layer_norm(weft_value *x, weft_value *w, weft_value *b) {
    return weft_layer_norm_op(x, w, b, 0);
}

/* The op of the layer, of an x [..., C]. */
static weft_value *batch_norm(weft_value *x, weft_value *w, weft_value *b) {
    int64_t shape[] = {-1, weft_dim(x, 1), 4}, flat[] = {-1, 4};
    weft_value *in[] = {weft_reshape(x, 2, flat), w, b};
    return weft_reshape(op_value(&weft_op_batch_norm, 3, in, &(norm_attrs){1e-5}), 3, shape);
}

static weft_value *rms_norm(weft_value *x, weft_value *w, weft_value *b) {
    return weft_add(weft_rms_norm_op(x, w, 0), b);
}

static weft_value *group_norm(weft_value *x, weft_value *w, weft_value *b) {
    return weft_group_norm_op(x, 2, w, b, 0);
}

/* Image i of t, without the batch: [4,3]. */
static weft_value *of_image(weft_value *t, int i) {
    return weft_reshape(weft_slice(t, 0, i, i + 1), 2, AXES(4, 3));
}

static weft_value *over_image(weft_value *x, weft_value *t) {
    weft_value *w = of_image(t, 0), *b = of_image(t, 1);
    return weft_layer_norm_op(x, w, b, 0);
}

/* A critic of x [N,4,3]: a layer (of t, for want of a weight), a norm, tanh. */
static weft_value *through(norm *of, weft_value *x, weft_value *t, weft_value *w, weft_value *b) {
    return weft_tanh(of(weft_matmul(x, t, false, true), w, b));
}

/* The gradient penalty of WGAN-GP: (|d critic / dx| - 1)^2 for each image. */
static weft_value *penalty(norm *of, weft_value *x, weft_value *t, weft_value *w, weft_value *b) {
    weft_value *y = weft_sum(through(of, x, t, w, b), 0, NULL, false), *dx = NULL;
    weft_gradients(y, 1, &x, &dx);
    weft_value *norms = weft_sqrt(weft_sum(weft_square(dx), 2, AXES(1, 2), false));
    return weft_square(weft_offset(norms, -1));
}

/* 1: right at any batch (axis 0); 0: at the one that it was built for. Then Weft's call, and PyTorch's. */
/* clang-format off */
#define ROWS(X)                                                                                              \
    X(1, through(layer_norm, x, t, w, b), "through(lambda x, w, b: F.layer_norm(x, (4,), w, b), x, t, w, b)") \
    X(1, weft_layer_norm_op(x, NULL, NULL, 0.1), "F.layer_norm(x, (3,), eps=0.1)") \
    X(1, penalty(layer_norm, x, t, w, b), "penalty(lambda x: through(lambda x, w, b: composed(x, w, b, -1), x, t, w, b), x)") \
    X(1, through(batch_norm, x, t, w, b), "through(lambda x, w, b: batch_norm(x.flatten(0, 1), w, b).view(2, 4, 4), x, t, w, b)") \
    X(1, weft_layer_norm_op(weft_transpose(x, 1, 2), w, NULL, 0), "F.layer_norm(x.mT, (4,), w)") \
    X(1, over_image(x, t), "F.layer_norm(x, (4, 3), t[0], t[1])") \
    X(1, weft_rms_norm_op(x, NULL, 0), "F.rms_norm(x, (3,))") \
    X(1, through(rms_norm, x, t, w, b), "through(lambda x, w, b: F.rms_norm(x, (4,), w) + b, x, t, w, b)") \
    X(1, penalty(rms_norm, x, t, w, b), "penalty(lambda x: through(lambda x, w, b: F.rms_norm(x, (4,), w) + b, x, t, w, b), x)") \
    X(1, weft_rms_norm_op(x, of_image(t, 0), 0.1), "F.rms_norm(x, (4, 3), t[0], 0.1)") \
    X(1, through(group_norm, x, t, w, b), "through(lambda x, w, b: F.group_norm(x, 2, w, b), x, t, w, b)") \
    X(1, weft_group_norm_op(x, 1, w, NULL, 0.1), "F.group_norm(x, 1, w, eps=0.1)") \
    X(1, weft_group_norm_op(weft_reshape(x, 2, AXES(-1, 4)), 2, w, b, 0), "F.group_norm(x.reshape(-1, 4), 2, w, b)") \
    X(1, weft_instance_norm_op(x, w, b, 0), "F.instance_norm(x, weight=w, bias=b)") \
    X(1, weft_instance_norm_op(x, NULL, NULL, 0.5), "F.instance_norm(x, eps=0.5)") \
    X(1, penalty(batch_norm, x, t, w, b), "penalty(lambda x: through(lambda x, w, b: composed(x.flatten(0, 1), w, b, 0).view(2, 4, 4), x, t, w, b), x)") \
    X(1, weft_cross_entropy(weft_reshape(weft_matmul(x, t, false, true), 2, AXES(-1, 4)), weft_reshape(weft_concat(2, (weft_value *[]){ids, weft_slice(ids, 1, 1, 2)}, 1), 1, AXES(-1))), "F.cross_entropy((x @ t.transpose(1, 2)).flatten(0, 1), torch.cat([ids, ids[:, 1:2]], 1).flatten())")
/* clang-format on */

static weft_value *build(int row, weft_value *x, weft_value *t, weft_value *w, weft_value *b,
                         weft_value *ids) {
    int i = 0;
    weft_graph *g = weft_value_graph(x);
    (void)g, (void)t, (void)w, (void)b, (void)ids;
#define X(any_batch, call, torch)                                                                            \
    if (row == i++) return call;
    ROWS(X)
#undef X
    return NULL;
}

static const struct {
    bool any_batch;
    const char *torch;
} rows[] = {
#define X(any_batch, call, torch) {any_batch, torch},
    ROWS(X)
#undef X
};
enum { N_ROWS = sizeof rows / sizeof *rows };

static const struct {
    const char *torch, *numbers;
} golden[] = {
#include "golden/norm_loss.h"
};

/* ---- running a row ---- */

enum { OPERANDS = 4, MOST = 256, BATCH = 4 };
static const char operands[OPERANDS][2] = {"x", "t", "w", "b"};

/* The sum of the squares of all values. */
static weft_value *squares(int n, weft_value *const *values) {
    weft_value *sum = NULL;
    for (int i = 0; i < n; i++) {
        weft_value *part = weft_sum(weft_square(values[i]), 0, NULL, false);
        sum = sum ? weft_add(sum, part) : part;
    }
    return sum;
}

/* Outputs y, its gradients x, t, w, b, and those of their squares, x2, t2, w2, b2. */
static weft_model *model_of(int row, weft_dtype dtype, int64_t default_batch) {
    weft_model *m = weft_model_new("norm_loss");
    weft_model_batch(m, default_batch);
    weft_graph *g = weft_graph_new(m, "g", WEFT_TRAIN);
    weft_value *by[OPERANDS], *first[OPERANDS] = {0}, *second[OPERANDS] = {0};
    for (int i = 0; i < OPERANDS; i++)
        by[i] = i < 2 ? weft_input(g, operands[i], dtype, 3, AXES(WEFT_BATCH, 4, 3))
                      : weft_input(g, operands[i], dtype, 1, AXES(4));
    weft_value *ids = weft_input(g, "ids", WEFT_I64, 2, AXES(WEFT_BATCH, 3));
    weft_value *y = build(row, by[0], by[1], by[2], by[3], ids);
    weft_output(y, "y");
    if (!y) return m;
    weft_gradients(squares(1, &y), OPERANDS, by, first);
    if (!first[0]) return m;
    weft_gradients(squares(OPERANDS, first), OPERANDS, by, second);
    for (int i = 0; i < OPERANDS; i++) {
        char name[] = {operands[i][0], '2', 0};
        weft_output(first[i], operands[i]);
        weft_output(second[i], name);
    }
    return m;
}

/* Number i of operand `salt`, as in make_norm_loss.py. */
static double operand(int salt, int i) {
    return (i * 37 + salt * 29 + 11) % 101 / 50.0 - 1;
}

/* Operands in room for MOST elements each. */
typedef struct feed_room {
    double wide[OPERANDS][MOST];
    float narrow[OPERANDS][MOST];
    int64_t ids[MOST];
} feed_room;

static int feeds_fill(const weft_plan *plan, weft_dtype dtype, feed_room *room, weft_feed *feeds) {
    weft_port port;
    int n = 0;
    for (int k = 0; k < OPERANDS; k++)
        for (int i = 0; i < MOST; i++) {
            room->wide[k][i] = operand(k + 1, i);
            room->narrow[k][i] = (float)room->wide[k][i];
        }
    for (int i = 0; i < MOST; i++) room->ids[i] = (5 * i + i / 4) % 4;
    for (; weft_plan_input(plan, "g", n, &port); n++) {
        int k = 0;
        while (k < OPERANDS && strcmp(port.name, operands[k])) k++;
        const void *data = k == OPERANDS       ? (const void *)room->ids
                           : dtype == WEFT_F64 ? (const void *)room->wide[k]
                                               : (const void *)room->narrow[k];
        feeds[n] = (weft_feed){port.name, data, port.bytes};
    }
    return n;
}

/* One fetched output, as doubles. */
typedef struct result {
    char name[4];
    int n;
    double v[MOST];
} result;

typedef struct results {
    int n;
    result of[2 * OPERANDS + 1];
} results;

static void results_read(results *r, weft_dtype dtype, const weft_fetch *fetches) {
    for (int i = 0; i < r->n; i++)
        for (int k = 0; k < r->of[i].n; k++)
            r->of[i].v[k] =
                dtype == WEFT_F64 ? ((double *)fetches[i].data)[k] : ((float *)fetches[i].data)[k];
}

/* Runs the model at this batch (0: its default). */
static results *run_model(weft_model *m, weft_dtype dtype, int64_t batch, weft_isa isa, const char *what) {
    weft_error e = {0};
    weft_port port;
    weft_feed feeds[OPERANDS + 1];
    weft_fetch fetches[2 * OPERANDS + 1];
    feed_room *room = test_memory(sizeof *room);
    results *r = test_memory(sizeof *r);
    r->n = 0;
    weft_plan *plan = weft_compile(
        m, &(weft_compile_options){.isa = isa, .batch = batch, .threads = 2, .verify = true}, &e);
    weft_store *store = plan ? weft_store_new(plan, 1, &e) : NULL;
    weft_session *session = store ? weft_session_open(plan, store, &e) : NULL;
    for (; session && weft_plan_output(plan, "g", r->n, &port); r->n++) {
        fetches[r->n] = (weft_fetch){port.name, test_memory(port.bytes), port.bytes};
        snprintf(r->of[r->n].name, sizeof r->of[0].name, "%s", port.name);
        r->of[r->n].n = (int)(port.bytes / (dtype == WEFT_F64 ? sizeof(double) : sizeof(float)));
    }
    int n = session ? feeds_fill(plan, dtype, room, feeds) : 0;
    if (CHECK_SAYS(session && weft_run(session, "g", feeds, n, fetches, r->n, &e) == WEFT_OK, "%s: %s", what,
                   e.text))
        results_read(r, dtype, fetches);
    for (int i = 0; i < r->n; i++) free(fetches[i].data);
    weft_session_close(session);
    weft_store_free(store);
    weft_plan_free(plan);
    free(room);
    return r;
}

/* ---- comparing ---- */

static const result *result_named(const results *r, const char *name) {
    for (int i = 0; i < r->n; i++)
        if (strcmp(r->of[i].name, name) == 0) return &r->of[i];
    return NULL;
}

/* Reads one section, "NAME numbers", up to | or the end. */
static const char *section_read(const char *at, result *into) {
    size_t length = strcspn(at, " ");
    snprintf(into->name, sizeof into->name, "%.*s", (int)length, at);
    at += length;
    for (into->n = 0; *at == ' ' && into->n < MOST; into->n++) {
        char *end;
        into->v[into->n] = strtod(at, &end);
        at = end;
    }
    return *at == '|' ? at + 1 : at;
}

/* The largest difference, as a part of the largest number, or of 1: what cancels is known to so much. */
static double apart(const result *a, const result *b) {
    double most = 1, off = 0;
    if (!a || a->n != b->n) return INFINITY;
    for (int i = 0; i < b->n; i++) {
        most = fmax(most, fabs(b->v[i]));
        off = fmax(off, isfinite(a->v[i]) ? fabs(a->v[i] - b->v[i]) : INFINITY);
    }
    return off / most;
}

static void check_row(const char *torch, const char *numbers, const results *got, double within,
                      const char *how) {
    while (*numbers) {
        result want;
        numbers = section_read(numbers, &want);
        double off = apart(result_named(got, want.name), &want);
        CHECK_SAYS(off <= within, "%s: %s in %s is off by %g", torch, want.name, how, off);
    }
}

TEST(values_gradients_and_second_gradients_are_those_of_pytorch) {
    NEED(sizeof golden / sizeof *golden == N_ROWS);
    for (int i = 0; i < N_ROWS; i++) {
        CHECK_TEXT(golden[i].torch, rows[i].torch); /* else: make_norm_loss.py was not run */
        for (int k = 0; k < 2; k++) {
            weft_dtype dtype = k ? WEFT_F32 : WEFT_F64;
            weft_model *m = model_of(i, dtype, 2);
            CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s: %s", rows[i].torch,
                       weft_model_error(m)->text);
            results *got = run_model(m, dtype, 0, k ? WEFT_ISA_AUTO : WEFT_ISA_REFERENCE, rows[i].torch);
            check_row(rows[i].torch, golden[i].numbers, got, k ? 2e-4 : 1e-9, k ? "f32" : "f64");
            weft_model_free(m);
            free(got);
        }
    }
}

/* What was built at batch 2 and compiled for BATCH is what was built at BATCH. */
TEST(they_replay_at_another_batch) {
    for (int i = 0; i < N_ROWS; i++) {
        if (!rows[i].any_batch) continue;
        weft_model *two = model_of(i, WEFT_F64, 2), *four = model_of(i, WEFT_F64, BATCH);
        results *replayed = run_model(two, WEFT_F64, BATCH, WEFT_ISA_REFERENCE, rows[i].torch);
        results *direct = run_model(four, WEFT_F64, 0, WEFT_ISA_REFERENCE, rows[i].torch);
        CHECK(replayed->n == direct->n);
        for (int k = 0; k < direct->n; k++) {
            double off = apart(result_named(replayed, direct->of[k].name), &direct->of[k]);
            CHECK_SAYS(off <= 1e-12, "%s: %s is off by %g", rows[i].torch, direct->of[k].name, off);
        }
        weft_model_free(two);
        weft_model_free(four);
        free(replayed);
        free(direct);
    }
}

SUITE("norm loss",
      {T(values_gradients_and_second_gradients_are_those_of_pytorch), T(they_replay_at_another_batch)})
