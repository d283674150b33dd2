/* test_shapes.c - builders of shapes and indices against PyTorch: each row is a call of Weft and the same in
 * PyTorch, whose numbers and gradients stand in golden/shapes.h (golden/make_shapes.py writes it from the
 * rows). All numbers are small integers, so they are equal. Rows also replay at another batch. */
#include "support/test.h"
#include "weft/weft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the rows: x is f32[2,3,4] of 1, 2, 3, ...; g its graph ---- */

#define AXES(...)                                                                                            \
    (int64_t[]) {                                                                                            \
        __VA_ARGS__                                                                                          \
    }

static weft_value *part(int count, weft_value **parts, int i) {
    return i < count ? parts[i] : NULL;
}

static weft_value *split(weft_value *x, int n, const int64_t *sizes, int axis, int i) {
    weft_value *parts[8];
    return part(weft_split(x, n, sizes, axis, parts), parts, i);
}

static weft_value *chunk(weft_value *x, int n, int axis, int i) {
    weft_value *parts[8];
    return part(weft_chunk(x, n, axis, parts), parts, i);
}

static weft_value *unbind(weft_value *x, int n, int axis, int i) {
    weft_value *parts[8];
    return part(weft_unbind(x, n, axis, parts), parts, i);
}

static weft_value *stack(weft_value *x, int axis) {
    weft_value *twice = weft_scale(x, 2);
    return weft_stack(2, (weft_value *[]){x, twice}, axis);
}

/* 0, 7, 14, ... modulo m, i64 of this shape. */
static weft_value *ids(weft_graph *g, int ndim, const int64_t *shape, int64_t m) {
    int64_t n = 1;
    for (int i = 0; i < ndim; i++) n *= shape[i];
    weft_value *modulus = weft_constant(g, WEFT_F32, 0, NULL, (double)m);
    weft_value *all = weft_remainder(weft_arange(g, WEFT_F32, 0, (double)n * 7, 7), modulus);
    return weft_reshape(weft_cast(all, WEFT_I64), ndim, shape);
}

/* The numbers 0 to 24 in another order. */
static weft_value *mixed(weft_value *x) {
    weft_value *all = weft_scale(x, 7), *modulus = weft_constant(weft_value_graph(x), WEFT_F32, 0, NULL, 25);
    return weft_remainder(all, modulus);
}

static weft_value *one_number(weft_value *x, double value) {
    return weft_constant(weft_value_graph(x), WEFT_F32, 0, NULL, value);
}

/* Operands after the first are [:k] of its axes as [3,4] and [4,5], small integers. */
static weft_value *einsum(weft_value *x, const char *equation, int n) {
    weft_graph *g = weft_value_graph(x);
    weft_value *p = weft_arange(g, WEFT_F32, -5, 7, 1), *q = weft_arange(g, WEFT_F32, -9, 11, 1);
    weft_value *all[] = {x, weft_reshape(p, 2, AXES(3, 4)), weft_reshape(q, 2, AXES(4, 5))};
    return weft_einsum(equation, n, all);
}

/* 1: right at any batch (axis 0); 0: at the one that it was built for. Then Weft's call, and PyTorch's. */
/* clang-format off */
#define ROWS(X)                                                                                              \
    X(1, weft_unsqueeze(x, 0),                               "x.unsqueeze(0)")                               \
    X(1, weft_unsqueeze(x, 2),                               "x.unsqueeze(2)")                               \
    X(1, weft_unsqueeze(x, -1),                              "x.unsqueeze(-1)")                              \
    X(1, weft_squeeze(weft_slice(x, 1, 1, 2), 1),            "x[:, 1:2].squeeze(1)")                         \
    X(1, weft_squeeze(weft_slice(x, 2, 3, 4), -1),           "x[:, :, 3:4].squeeze(-1)")                     \
    X(0, weft_squeeze(weft_slice(x, 0, 1, 2), 0),            "x[1:2].squeeze(0)")                            \
    X(1, weft_broadcast_to(weft_slice(x, 1, 1, 2), 4, AXES(2, -1, 3, -1)), "x[:, 1:2].expand(2, -1, 3, -1)") \
    X(1, stack(x, 0),                                        "torch.stack([x, 2 * x])")                      \
    X(1, stack(x, 1),                                        "torch.stack([x, 2 * x], 1)")                   \
    X(1, stack(x, -1),                                       "torch.stack([x, 2 * x], -1)")                  \
    X(1, split(x, 2, AXES(1, 3), 2, 1),                      "x.split([1, 3], 2)[1]")                        \
    X(1, split(x, 3, AXES(1, -1, 1), -1, 1),                 "x.split([1, 2, 1], -1)[1]")                    \
    X(1, split(x, 3, AXES(1, -1, 2), -1, 2),                 "x.split([1, 1, 2], -1)[2]")                    \
    X(0, split(x, 2, AXES(1, 1), 0, 0),                      "x.split(1)[0]")                                \
    X(1, chunk(x, 2, 2, 1),                                  "x.chunk(2, 2)[1]")                             \
    X(1, chunk(x, 2, 1, 0),                                  "x.chunk(2, 1)[0]")                             \
    X(1, chunk(x, 2, 1, 1),                                  "x.chunk(2, 1)[1]")                             \
    X(1, chunk(x, 3, 2, 1),                                  "x.chunk(3, 2)[1]")                             \
    X(1, chunk(x, 2, 0, 1),                                  "x.chunk(2, 0)[1]")                             \
    X(1, unbind(x, 3, 1, 2),                                 "x.unbind(1)[2]")                               \
    X(0, unbind(x, 2, 0, 1),                                 "x.unbind()[1]")                                \
    X(1, weft_tile(x, 1, AXES(2)),                           "x.tile(2)")                                    \
    X(1, weft_tile(x, 3, AXES(3, 1, 2)),                     "x.tile(3, 1, 2)")                              \
    X(1, weft_tile(x, 4, AXES(2, 1, 2, 1)),                  "x.repeat(2, 1, 2, 1)")                         \
    X(1, weft_tile(weft_sum(x, WEFT_ALL, false), 2, AXES(2, 3)), "x.sum().tile(2, 3)")                        \
    X(1, weft_repeat_interleave(x, 2, 0),                    "x.repeat_interleave(2, 0)")                    \
    X(1, weft_repeat_interleave(x, 3, 1),                    "x.repeat_interleave(3, 1)")                    \
    X(1, weft_repeat_interleave(x, 2, -1),                   "x.repeat_interleave(2, -1)")                   \
    X(1, weft_roll(x, 1, 2),                                 "x.roll(1, 2)")                                 \
    X(1, weft_roll(x, -5, 2),                                "x.roll(-5, 2)")                                \
    X(1, weft_roll(x, 1, 0),                                 "x.roll(1, 0)")                                 \
    X(1, weft_roll(x, -3, -2),                               "x.roll(-3, -2)")                               \
    X(1, weft_tril(x, 0),                                    "x.tril()")                                     \
    X(1, weft_tril(x, -1),                                   "x.tril(-1)")                                   \
    X(1, weft_triu(x, 0),                                    "x.triu()")                                     \
    X(1, weft_triu(x, 2),                                    "x.triu(2)")                                    \
    X(1, weft_arange(g, WEFT_I64, 0, 5, 1),                  "torch.arange(5)")                              \
    X(1, weft_arange(g, WEFT_I64, 9, 0, -4),                 "torch.arange(9, 0, -4)")                       \
    X(1, weft_arange(g, WEFT_F32, -1, 1, 0.3),               "torch.arange(-1, 1, 0.3)")                     \
    X(1, weft_linspace(g, WEFT_F32, 0, 1, 7),                "torch.linspace(0, 1, 7)")                      \
    X(1, weft_linspace(g, WEFT_F32, 3, -2, 1),               "torch.linspace(3, -2, 1)")                     \
    X(1, weft_eye(g, WEFT_F32, 2, 3),                        "torch.eye(2, 3)")                              \
    X(1, weft_one_hot(weft_arange(g, WEFT_I64, 0, 3, 1), 4, WEFT_I64), "F.one_hot(torch.arange(3), 4)")      \
    X(1, weft_one_hot(weft_cast(weft_slice(x, 2, 0, 1), WEFT_I32), 50, WEFT_F32), "F.one_hot(x[:, :, :1].long(), 50).float()") \
    X(0, weft_gather(x, 1, ids(g, 3, AXES(2, 5, 4), 3)),     "x.gather(1, ids((2, 5, 4), 3))")               \
    X(1, weft_gather(x, -1, ids(g, 3, AXES(1, 2, 6), 4)),    "x[:1].gather(2, ids((1, 2, 6), 4))")           \
    X(0, weft_gather(x, 0, ids(g, 3, AXES(1, 3, 2), 2)),     "x.gather(0, ids((1, 3, 2), 2))")               \
    X(1, weft_take_along_axis(x, ids(g, 3, AXES(1, 5, 1), 3), 1), "torch.take_along_dim(x, ids((1, 5, 1), 3), 1)") \
    X(1, weft_take_along_axis(weft_slice(x, 2, 0, 1), ids(g, 3, AXES(1, 2, 5), 3), 1), "torch.take_along_dim(x[:, :, :1], ids((1, 2, 5), 3), 1)") \
    X(1, weft_index_select(x, 1, ids(g, 1, AXES(4), 3)),     "x.index_select(1, ids((4,), 3))")              \
    X(1, weft_index_select(x, -1, ids(g, 1, AXES(7), 4)),    "x.index_select(2, ids((7,), 4))")              \
    X(0, weft_index_select(x, 0, ids(g, 0, NULL, 2)),        "x.index_select(0, ids((), 2))")                \
    X(0, weft_scatter(x, 2, ids(g, 3, AXES(2, 3, 3), 4), weft_scale(x, 2)), "x.scatter(2, ids((2, 3, 3), 4), 2 * x[:, :, :3])") \
    X(0, weft_scatter(x, 1, ids(g, 3, AXES(2, 2, 1), 3), one_number(x, -5)), "x.scatter(1, ids((2, 2, 1), 3), -5)")     \
    X(0, weft_scatter_add(x, 2, ids(g, 3, AXES(2, 3, 3), 2), x), "x.scatter_add(2, ids((2, 3, 3), 2), x[:, :, :3])") \
    X(0, weft_scatter_add(x, 1, ids(g, 3, AXES(2, 7, 3), 3), one_number(x, 2)), "x.scatter_add(1, ids((2, 7, 3), 3), torch.full((2, 7, 3), 2.0))") \
    X(1, weft_index_add(x, 1, ids(g, 1, AXES(3), 2), weft_square(x)), "x.index_add(1, ids((3,), 2), x * x)")       \
    X(1, einsum(x, "abc->acb", 1),                           "torch.einsum('abc->acb', x)")                  \
    X(1, einsum(x, "abc->", 1),                              "torch.einsum('abc->', x)")                     \
    X(1, einsum(x, "cba", 1),                                "torch.einsum('cba', x)")                       \
    X(1, einsum(x, "aBc", 1),                                "torch.einsum('aBc', x)")                       \
    X(1, einsum(x, "...c->c...", 1),                         "torch.einsum('...c->c...', x)")                \
    X(1, einsum(x, "a...->a", 1),                            "torch.einsum('a...->a', x)")                   \
    X(1, einsum(x, "abc,bc->a", 2),                          "torch.einsum('abc,bc->a', x, P)")              \
    X(1, einsum(x, "abc, bc -> abc", 2),                     "torch.einsum('abc,bc->abc', x, P)")            \
    X(1, einsum(x, "abc,dc->abd", 2),                        "torch.einsum('abc,dc->abd', x, P)")            \
    X(1, einsum(x, "abc,dc", 2),                             "torch.einsum('abc,dc', x, P)")                 \
    X(1, einsum(x, "abc,bd->dca", 2),                        "torch.einsum('abc,bd->dca', x, P)")            \
    X(1, einsum(x, "abc,de->ad", 2),                         "torch.einsum('abc,de->ad', x, P)")             \
    X(1, einsum(x, "abc,de->eabdc", 2),                      "torch.einsum('abc,de->eabdc', x, P)")          \
    X(1, einsum(x, "...bc,bc->...b", 2),                     "torch.einsum('...bc,bc->...b', x, P)")         \
    X(1, einsum(x, "...,...->...", 2),                       "torch.einsum('...,...->...', x, P)")           \
    X(1, einsum(x, "a...,...->a", 2),                        "torch.einsum('a...,...->a', x, P)")            \
    X(1, einsum(x, "abc,dc,ce->ade", 3),                     "torch.einsum('abc,dc,ce->ade', x, P, Q)")      \
    X(1, einsum(x, "abc,bf,fe->ae", 3),                      "torch.einsum('abc,bf,fe->ae', x, P, Q)")       \
    X(1, einsum(x, "abc,bc,ce->abe", 3),                     "torch.einsum('abc,bc,ce->abe', x, P, Q)")      \
    X(1, weft_einsum("abc,abd->acd", 2, (weft_value *[]){x, x}), "torch.einsum('abc,abd->acd', x, x)")       \
    X(1, weft_einsum("abc,adc->bd", 2, (weft_value *[]){x, x}), "torch.einsum('abc,adc->bd', x, x)")         \
    X(1, weft_einsum("abc,abc->a", 2, (weft_value *[]){x, weft_slice(x, 1, 1, 2)}), "torch.einsum('abc,abc->a', x, x[:, 1:2])") \
    X(1, weft_einsum("aii->ai", 1, (weft_value *[]){weft_slice(x, 2, 0, 3)}), "torch.einsum('aii->ai', x[:, :, :3])") \
    X(1, weft_einsum("iai->a", 1, (weft_value *[]){weft_permute(weft_slice(x, 2, 0, 3), AXES(1, 0, 2))}), "torch.einsum('iai->a', x[:, :, :3].permute(1, 0, 2))") \
    X(0, weft_einsum("ii", 1, (weft_value *[]){weft_squeeze(weft_slice(weft_slice(x, 2, 0, 3), 0, 0, 1), 0)}), "torch.einsum('ii', x[0, :, :3])") \
    X(1, weft_flip(x, 1, AXES(-1)),                          "x.flip(-1)")                                   \
    X(1, weft_flip(x, 2, AXES(0, 2)),                        "x.flip((0, 2))")                               \
    X(1, weft_sort(mixed(x), 2, false, NULL),                "mixed(x).sort(2)[0]")                          \
    X(1, weft_sort(mixed(x), 1, true, NULL),                 "mixed(x).sort(1, True)[0]")                    \
    X(0, weft_argsort(mixed(x), 0, true),                    "mixed(x).argsort(0, True)")                    \
    X(1, weft_argsort(mixed(x), -1, false),                  "mixed(x).argsort(-1)")                         \
    X(1, weft_topk(mixed(x), 2, -1, true, NULL),             "mixed(x).topk(2)[0]")                          \
    X(1, weft_topk(mixed(x), 2, 1, false, NULL),             "mixed(x).topk(2, 1, False)[0]")                \
    X(1, weft_constant_pad(x, 1, AXES(1, 2), 0),             "F.pad(x, (1, 2))")                             \
    X(1, weft_constant_pad(x, 2, AXES(0, 1, 2, 0), 5),       "F.pad(x, (0, 1, 2, 0), value=5)")              \
    X(1, weft_constant_pad(x, 3, AXES(1, -1, -1, 0, 1, 1), -2), "F.pad(x, (1, -1, -1, 0, 1, 1), value=-2)")  \
    X(1, weft_constant_pad(x, 2, AXES(-1, -2, 0, -1), 3),    "F.pad(x, (-1, -2, 0, -1), value=3)")
/* clang-format on */

static weft_value *build(int row, weft_graph *g, weft_value *x) {
    int i = 0;
    (void)g;
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

/* What PyTorch answers: type, numbers, and after | the gradient of x, where there is one. */
static const struct {
    const char *torch, *numbers;
} golden[] = {
#include "golden/shapes.h"
};

/* ---- running a row ---- */

/* Outputs y and, for a float y, the gradient of the sum of y^2 by x, whose axis `axis` is the batch. NULL: a
 * chunk is not there. */
static weft_model *model_on(int row, int axis, int64_t default_batch) {
    int64_t shape[] = {2, 3, 4};
    weft_model *m = weft_model_new("shapes");
    shape[axis] = WEFT_BATCH;
    weft_model_set_batch(m, default_batch);
    weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
    weft_value *x = weft_input(g, "x", WEFT_F32, 3, shape), *dx = NULL;
    weft_value *y = build(row, g, x);
    weft_output(y, "y");
    if (y && weft_value_dtype(y) == WEFT_F32) {
        weft_gradients(weft_sum(weft_square(y), WEFT_ALL, false), 1, &x, &dx);
        weft_output(dx, "dx");
    }
    if (y || weft_model_error(m)->status) return m;
    weft_model_free(m);
    return NULL;
}

static weft_model *model_of(int row, int64_t default_batch) {
    return model_on(row, 0, default_batch);
}

typedef struct text {
    char at[8000];
    size_t length;
} text;

#define ADD(t, ...)                                                                                          \
    (t)->length += (size_t)snprintf((t)->at + (t)->length, sizeof(t)->at - (t)->length, __VA_ARGS__)

static double number(const weft_port *port, const void *data, size_t i) {
    switch (port->dtype) {
    case WEFT_F32:
        return ((const float *)data)[i];
    case WEFT_F64:
        return ((const double *)data)[i];
    case WEFT_I64:
        return (double)((const int64_t *)data)[i];
    case WEFT_I32:
        return ((const int32_t *)data)[i];
    default:
        return ((const uint8_t *)data)[i];
    }
}

/* "f32[2,3]: 1 2 3 4 5 6" */
static void add_tensor(text *t, const weft_port *port, const void *data) {
    static const char *const names[] = {
        [WEFT_F32] = "f32", [WEFT_F64] = "f64", [WEFT_I64] = "i64", [WEFT_I32] = "i32", [WEFT_BOOL] = "bool"};
    size_t n = 1;
    ADD(t, "%s[", names[port->dtype]);
    for (int i = 0; i < port->ndim; i++) {
        ADD(t, "%s%d", i ? "," : "", (int)port->shape[i]);
        n *= (size_t)port->shape[i];
    }
    ADD(t, "]:");
    for (size_t i = 0; i < n; i++) ADD(t, " %.6g", number(port, data, i));
}

/* The outputs of the model at this batch (0: its default), as text. */
static text run_at(weft_model *m, int64_t batch, weft_isa isa, weft_error *error) {
    enum { MOST = 2 * 2 * 3 * 4 };
    float x[MOST];
    weft_error e = {0};
    text t = {"", 0};
    weft_port port, in;
    weft_fetch fetches[2];
    int n = 0;
    for (int i = 0; i < MOST; i++) x[i] = (float)(i + 1);
    weft_plan *plan = weft_compile(
        m, &(weft_compile_options){.isa = isa, .batch = batch, .threads = 2, .verify = true}, &e);
    weft_store *store = plan ? weft_store_new(plan, 1, &e) : NULL;
    weft_session *session = store ? weft_session_open(plan, store, &e) : NULL;
    while (session && weft_plan_output(plan, "g", n, &port)) {
        fetches[n] = (weft_fetch){port.name, test_memory(port.bytes), port.bytes};
        n++;
    }
    bool has_x = session && weft_plan_input(plan, "g", 0, &in);
    weft_feed feed = {"x", x, has_x ? in.bytes : 0};
    if (session && weft_run(session, "g", &feed, has_x, fetches, n, &e) == WEFT_OK)
        for (int i = 0; i < n; i++) {
            weft_plan_output(plan, "g", i, &port);
            if (i) ADD(&t, " | ");
            add_tensor(&t, &port, fetches[i].data);
        }
    for (int i = 0; i < n; i++) free(fetches[i].data);
    weft_session_close(session);
    weft_store_free(store);
    weft_plan_free(plan);
    *error = e;
    return t;
}

static text run_model(weft_model *m, int64_t batch, weft_isa isa) {
    weft_error e;
    text t = run_at(m, batch, isa, &e);
    CHECK_SAYS(e.status == WEFT_OK, "%s", e.text);
    return t;
}

TEST(builders_give_the_numbers_and_gradients_of_pytorch) {
    static const weft_isa isas[] = {WEFT_ISA_REFERENCE, WEFT_ISA_AUTO};
    NEED(sizeof golden / sizeof *golden == N_ROWS);
    for (int i = 0; i < N_ROWS; i++) {
        CHECK_TEXT(golden[i].torch, rows[i].torch); /* else: make_shapes.py was not run */
        for (int k = 0; k < 2; k++) {
            weft_model *m = model_of(i, 2);
            CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s: %s", rows[i].torch,
                       weft_model_error(m)->text);
            text got = run_model(m, 0, isas[k]);
            CHECK_SAYS(strcmp(got.at, golden[i].numbers) == 0, "%s: got %s, wanted %s", rows[i].torch, got.at,
                       golden[i].numbers);
            weft_model_free(m);
        }
    }
}

/* What was built at batch 2 and compiled for 4 is what was built at 4. */
TEST(builders_replay_at_another_batch) {
    for (int i = 0; i < N_ROWS; i++) {
        if (!rows[i].any_batch) continue;
        weft_model *two = model_of(i, 2), *four = model_of(i, 4);
        text replayed = run_model(two, 4, WEFT_ISA_AUTO), direct = run_model(four, 0, WEFT_ISA_AUTO);
        CHECK_SAYS(strcmp(replayed.at, direct.at) == 0, "%s: replayed %s, directly %s", rows[i].torch,
                   replayed.at, direct.at);
        weft_model_free(two);
        weft_model_free(four);
    }
}

static bool is_built(const weft_model *m) {
    return m && weft_model_error(m)->status == WEFT_OK;
}

/* A row whose axis `axis` is the batch, built at `built` and bound to `bound`, is what is built at that, or
 * is refused: never another shape. Counts it in done[0], or in done[1] where it is refused. */
static void bind_on(int row, int axis, int64_t built, int64_t bound, int done[2]) {
    weft_model *m = model_on(row, axis, built), *other = model_on(row, axis, bound);
    weft_error e;
    if (is_built(m) && is_built(other)) {
        text direct = run_model(other, 0, WEFT_ISA_AUTO), replayed = run_at(m, bound, WEFT_ISA_AUTO, &e);
        done[e.status != WEFT_OK]++;
        CHECK_SAYS(e.status == WEFT_SHAPE || strcmp(replayed.at, direct.at) == 0,
                   "%s, axis %d, built at %d: replayed %s, directly %s %s", rows[row].torch, axis, (int)built,
                   replayed.at, direct.at, e.text);
    }
    weft_model_free(m);
    weft_model_free(other);
}

/* Refused are rows that name a length of the axis: equal parts that the other batch cannot be cut into, a
 * roll by more than the axis, an operand of a fixed length. */
TEST(the_batch_may_be_any_axis) {
    static const int64_t shape[] = {2, 3, 4};
    static const int most_refused[] = {2, 16, 14};
    for (int axis = 0; axis < 3; axis++) {
        int done[2] = {0};
        for (int i = 0; i < N_ROWS; i++) {
            bind_on(i, axis, shape[axis], 2 * shape[axis], done);
            bind_on(i, axis, 2 * shape[axis], shape[axis], done);
            bind_on(i, axis, 1, shape[axis], done);
            bind_on(i, axis, 1, 2 * shape[axis], done);
        }
        CHECK_SAYS(done[1] <= most_refused[axis] && done[0] > 280, "axis %d: %d right, %d refused", axis,
                   done[0], done[1]);
    }
}

/* ---- errors: the sentence, with this file, a line and the scope ---- */

/* clang-format off */
#define ERRORS(X)                                                                                            \
    X(weft_unsqueeze(x, 4),                        "unsqueeze: f32[2,3,4] with a new axis 4: -4 to 3 are")   \
    X(weft_squeeze(x, 1),                          "squeeze: f32[2,3,4] has no axis 1 of length 1")          \
    X(weft_squeeze(x, 3),                          "squeeze: f32[2,3,4] has no axis 3 of length 1")          \
    X(weft_broadcast_to(x, 4, AXES(-1, 2, 3, 4)),  "axis 0 is -1, but f32[2,3,4] has no such axis")          \
    X(split(x, 2, AXES(1, 2), 2, 0),               "split: 2 sizes along axis 2 of f32[2,3,4]: each must be at least 0, their sum 4") \
    X(split(x, 2, AXES(5, -1), 2, 0),              "split: 2 sizes along axis 2")                            \
    X(split(x, 2, AXES(-2, 4), 2, 0),              "split: 2 sizes along axis 2")                            \
    X(split(x, 2, AXES(-1, -1), 2, 0),             "split: 2 sizes along axis 2")                            \
    X(split(x, 2, AXES(1, 3), 3, 0),               "split: f32[2,3,4] has no axis 3")                        \
    X(chunk(x, 0, 1, 0),                           "chunk: 0 parts: there must be at least 1")               \
    X(weft_chunk(x, 2, 1, NULL) ? x : NULL,        "chunk: parts is NULL")                                   \
    X(unbind(x, 2, 1, 0),                          "unbind: axis 1 of f32[2,3,4] is 3 long, not 2")          \
    X(weft_tile(x, 2, AXES(2, -1)),                "tile: -1 repeats: they must be 0 to")                    \
    X(weft_tile(x, 9, AXES(1, 1, 1, 1, 1, 1, 1, 1, 1)), "tile: 9 repeats, 0 to 8 are allowed")               \
    X(weft_repeat_interleave(x, 2, 3),             "repeat_interleave: f32[2,3,4] has no axis 3")            \
    X(weft_repeat_interleave(x, -2, 0),            "repeat_interleave: -2 repeats")                          \
    X(einsum(x, "abc,dd->a", 2),                   "axis 1 of operand 1, f32[3,4], is 4 long, where an axis")  \
    X(weft_einsum("aab", 1, (weft_value *[]){weft_slice(x, 0, 0, 1)}), "two axes of one operand, which are not equally long") \
    X(einsum(x, "ab", 1),                          "einsum: 'ab': operand 0 is f32[2,3,4], but has 2 letters") \
    X(einsum(x, "abcd...", 1),                     "an operand has fewer axes than letters")                 \
    X(einsum(x, "abc,bc", 1),                      "einsum: 'abc,bc': 1 operands are given")                 \
    X(einsum(x, "abc", 2),                         "einsum: 'abc': 2 operands are given")                    \
    X(einsum(x, "abc,cd->a", 2),                   "axis 0 of operand 1, f32[3,4], is 3 long, where an axis of the same letter is 4") \
    X(einsum(x, "abc->ad", 1),                     "a letter of the result is in no operand")                \
    X(einsum(x, "abc->aa", 1),                     "a letter twice in the result")                           \
    X(einsum(x, "a1c->a", 1),                      "only letters, ',', '->' and one '...' an operand")       \
    X(einsum(x, "abc-a", 1),                       "'-' without '>'")                                        \
    X(einsum(x, "abc->a,b", 1),                    "more than one result")                                   \
    X(einsum(x, NULL, 1),                          "einsum: '': operand 0 is f32[2,3,4], but has 0 letters") \
    X(weft_einsum("abc,abc", 2, (weft_value *[]){x, NULL}), "einsum: operand 1 is NULL")                     \
    X(weft_einsum("abc", 1, (weft_value *[]){weft_cast(x, WEFT_I64)}), "einsum: operand 0 is i64[2,3,4]")    \
    X(einsum(weft_reshape(x, 8, AXES(2, 1, 1, 3, 1, 1, 2, 2)), "abcdefgh,ij->abcdefghij", 2), "more than 8 axes") \
    X(weft_arange(g, WEFT_I64, 3, 2, 1),           "arange: from 3 to 2 by steps of 1: the step must lead")  \
    X(weft_arange(g, WEFT_F32, 0, 3, 0),           "arange: from 0 to 3 by steps of 0")                      \
    X(weft_arange(g, WEFT_I64, 0, 3, 0.5),         "arange: i64 cannot hold the numbers 0 to 2.5")           \
    X(weft_linspace(g, WEFT_F32, 0, 3, -1),        "linspace: -1 numbers")                                   \
    X(weft_eye(g, WEFT_F32, -1, 3),                "eye: -1 rows and 3 columns")                             \
    X(weft_tril(weft_flatten(x, 0), 0),            "tril: f32[24] has no rows and columns")                  \
    X(weft_one_hot(x, 3, WEFT_F32),                "one_hot: ids are f32[2,3,4]: they must be integer")      \
    X(weft_one_hot(weft_cast(x, WEFT_U8), 300, WEFT_F32), "one_hot: 300 classes for ids of type u8")         \
    X(weft_roll(x, 1, -4),                         "roll: f32[2,3,4] has no axis -4")                        \
    X(weft_roll(x, 4, 0),                          "roll: a shift of 4 moves nothing along axis 0")          \
    X(weft_flip(x, 2, AXES(0, -3)),                "flip: axes must be those of f32[2,3,4], each at most")   \
    X(weft_sort(x, 3, false, NULL),                "sort: f32[2,3,4] has no axis 3")                         \
    X(weft_topk(x, 5, 2, true, NULL),              "topk: k=5: 1 to 4, the length of axis 2")        \
    X(weft_topk(x, 0, 2, true, NULL),              "topk: k=0: 1 to 4, the length of axis 2")                                  \
    X(weft_gather(x, 1, x),                        "gather: ids are f32[2,3,4]: they must be integer")       \
    X(weft_gather(x, 3, ids(g, 3, AXES(1, 1, 1), 1)), "gather: f32[2,3,4] has no axis 3")                    \
    X(weft_take_along_axis(x, ids(g, 1, AXES(3), 1), 0), "gather: f32[2,3,4] and ids i64[3]: they have as many axes") \
    X(weft_index_select(x, 5, ids(g, 1, AXES(3), 1)), "index_select: f32[2,3,4] has no axis 5")              \
    X(weft_index_select(x, 0, ids(g, 2, AXES(3, 1), 1)), "index_select: ids are i64[3,1]: they must have one axis") \
    X(weft_index_add(x, 0, ids(g, 2, AXES(3, 1), 1), x), "index_add: ids are i64[3,1]: they must have one axis") \
    X(weft_scatter(x, 1, ids(g, 3, AXES(2, 4, 4), 1), x), "scatter: src is f32[2,3,4]: it must be one number or") \
    X(weft_scatter_add(x, 1, ids(g, 3, AXES(2, 2, 5), 1), x), "scatter_add: f32[2,3,4] and ids i64[2,2,5]") \
    X(weft_constant_pad(x, 4, AXES(1, 1, 1, 1, 1, 1, 1, 1), 0), "constant_pad: 4 pairs for f32[2,3,4]")      \
    X(weft_constant_pad(x, 1, AXES(-5, 0), 0),     "has no elements 5 to")                                   \
    X(weft_constant_pad(x, 1, AXES(1, 0), 1e300),  "pad: f32[2,3,4] cannot hold the value 1e+300")
/* clang-format on */

static weft_value *build_wrong(int row, weft_graph *g, weft_value *x) {
    int i = 0;
    (void)g;
#define X(call, error)                                                                                       \
    if (row == i++) return call;
    ERRORS(X)
#undef X
    return NULL;
}

TEST(errors_name_file_line_scope_and_rule) {
    static const char *const errors[] = {
#define X(call, error) error,
        ERRORS(X)
#undef X
    };
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        weft_model *m = weft_model_new("m");
        weft_model_set_batch(m, 2);
        weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
        weft_value *x = weft_input(g, "x", WEFT_F32, 3, AXES(WEFT_BATCH, 3, 4)), *y = x;
        WEFT_SCOPE(x, "net") y = build_wrong((int)i, g, x);
        CHECK_SAYS(y == NULL, "%s: there is a value", errors[i]);
        CHECK_HOLDS(weft_model_error(m)->text, errors[i]);
        CHECK_HOLDS(weft_model_error(m)->text, "test_shapes.c:");
        CHECK_HOLDS(weft_model_error(m)->text, "in net: ");
        weft_model_free(m);
    }
}

TEST(values_that_do_not_stack_are_told) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
    weft_value *x = weft_input(g, "x", WEFT_F32, 1, AXES(3)), *y = weft_input(g, "y", WEFT_F32, 1, AXES(4));
    CHECK(weft_stack(2, (weft_value *[]){x, y}, 0) == NULL);
    CHECK_HOLDS(weft_model_error(m)->text, "stack: f32[3] and f32[4] differ");
    weft_model_free(m);
}

SUITE("shapes", {T(builders_give_the_numbers_and_gradients_of_pytorch), T(builders_replay_at_another_batch),
                 T(the_batch_may_be_any_axis), T(errors_name_file_line_scope_and_rule),
                 T(values_that_do_not_stack_are_told)})
