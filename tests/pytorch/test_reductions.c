/* test_reductions.c - reductions and scans against PyTorch: each row is a call of Weft and the same in
 * PyTorch, whose numbers, gradients and second gradients stand in golden/reductions.h
 * (golden/make_reductions.py writes it from the rows). Operands have ties, zeros, infinities and NaN. The
 * model is built at another batch than the one it runs at, since a divisor or a shape that keeps the first
 * batch is a defect. */
#include "support/isa.h"
#include "support/test.h"
#include "weft/weft.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AXES(...)                                                                                            \
    (int64_t[]) {                                                                                            \
        __VA_ARGS__                                                                                          \
    }

static weft_value *index_of(weft_value *extremum(weft_value *, int, bool, weft_value **), weft_value *x,
                            int axis, bool keep) {
    weft_value *index = NULL;
    extremum(x, axis, keep, &index);
    return index;
}

/* How many gradients are compared: where PyTorch's second gradient of a norm of zeros is NaN, ours is 0. The
 * operand x by name (golden/make_reductions.py has its numbers), Weft's call, and PyTorch's. */
/* clang-format off */
#define ROWS(X)                                                                                              \
    X(2, plain,    weft_amax(x, 1, AXES(1), false),                     "x.amax(1)")                         \
    X(2, plain,    weft_amax(x, WEFT_ALL, false),                        "x.amax()")                          \
    X(2, plain,    weft_amin(x, 2, AXES(-1, 0), true),                  "x.amin((-1, 0), keepdim=True)")     \
    X(2, ties,     weft_amax(x, 1, AXES(2), false),                     "x.amax(2)")                         \
    X(2, ties,     weft_amin(x, 2, AXES(0, 2), false),                  "x.amin((0, 2))")                    \
    X(2, special,  weft_amax(x, 1, AXES(2), true),                      "x.amax(2, keepdim=True)")           \
    X(2, special,  weft_amin(x, 1, AXES(2), false),                     "x.amin(2)")                         \
    X(2, ties,     weft_argmin(x, 2, false),                            "x.argmin(2)")                       \
    X(2, special,  weft_argmin(x, -1, true),                            "x.argmin(-1, keepdim=True)")        \
    X(2, special,  weft_argmax(x, 2, false),                            "x.argmax(2)")                       \
    X(2, ties,     weft_argmin(weft_cast(x, WEFT_I64), 1, false),       "x.long().argmin(1)")                \
    X(2, zeros,    weft_any(x, 1, AXES(2), false),                      "x.any(2)")                          \
    X(2, special,  weft_any(x, WEFT_ALL, false),                         "x.any()")                           \
    X(2, zeros,    weft_all(x, 1, AXES(0), true),                       "x.all(0, keepdim=True)")            \
    X(2, special,  weft_all(weft_cast(weft_clamp(x, -1, 5), WEFT_BOOL), 2, AXES(1, 2), false), "x.bool().all(2).all(1)") \
    X(2, plain,    weft_var(x, 1, 1, AXES(1), false),                   "x.var(1)")                          \
    X(2, plain,    weft_var(x, 0, 2, AXES(0, 2), true),                 "x.var((0, 2), correction=0, keepdim=True)") \
    X(2, plain,    weft_var(x, 1, WEFT_ALL, false),                      "x.var()")                           \
    X(2, ties,     weft_var(x, 1.5, 1, AXES(0), false),                 "x.var(0, correction=1.5)")          \
    X(0, ties,     weft_var(x, 5, 1, AXES(2), false),                   "x.var(2, correction=5)")            \
    X(2, special,  weft_var(x, 1, 1, AXES(2), false),                   "x.var(2)")                          \
    X(2, plain,    weft_std(x, 1, 1, AXES(-1), false),                  "x.std(-1)")                         \
    X(2, plain,    weft_std(x, 0, 1, AXES(0), true),                    "x.std(0, correction=0, keepdim=True)") \
    X(2, ties,     weft_std(x, 1, 1, AXES(2), false),                   "x.std(2)")                          \
    X(2, plain,    weft_logsumexp(x, 1, AXES(1), false),                "x.logsumexp(1)")                    \
    X(2, plain,    weft_logsumexp(x, 2, AXES(0, -1), true),             "x.logsumexp((0, -1), keepdim=True)") \
    X(1, plain,    weft_logsumexp(weft_scale(x, 300), 2, AXES(0, 1), false), "(300 * x).logsumexp((0, 1))")   \
    X(2, plain,    weft_logsumexp(x, WEFT_ALL, false),                   "x.logsumexp((0, 1, 2))")            \
    X(2, infinite, weft_logsumexp(x, 1, AXES(2), false),                "x.logsumexp(2)")                    \
    X(2, special,  weft_logsumexp(x, 1, AXES(2), false),                "x.logsumexp(2)")                    \
    X(2, plain,    weft_vector_norm(x, 2, 1, AXES(1), false),           "torch.linalg.vector_norm(x, 2, 1)") \
    X(1, zeros,    weft_vector_norm(x, 2, 1, AXES(2), true),            "torch.linalg.vector_norm(x, 2, 2, keepdim=True)") \
    X(2, plain,    weft_vector_norm(x, 1, 2, AXES(0, 1), false),        "torch.linalg.vector_norm(x, 1, (0, 1))") \
    X(2, zeros,    weft_vector_norm(x, 1, 1, AXES(2), false),           "torch.linalg.vector_norm(x, 1, 2)") \
    X(2, ties,     weft_vector_norm(x, INFINITY, 1, AXES(2), false),    "torch.linalg.vector_norm(x, inf, 2)") \
    X(2, ties,     weft_vector_norm(x, -INFINITY, 1, AXES(1), false),   "torch.linalg.vector_norm(x, -inf, 1)") \
    X(2, zeros,    weft_vector_norm(x, 0, 1, AXES(2), false),           "torch.linalg.vector_norm(x, 0, 2)") \
    X(2, plain,    weft_vector_norm(x, 3, WEFT_ALL, false),              "torch.linalg.vector_norm(x, 3)")    \
    X(2, zeros,    weft_vector_norm(x, 3, 1, AXES(2), false),           "torch.linalg.vector_norm(x, 3, 2)") \
    X(1, zeros,    weft_vector_norm(x, 1.5, 1, AXES(2), false),         "torch.linalg.vector_norm(x, 1.5, 2)") \
    X(1, zeros,    weft_vector_norm(x, 0.5, 1, AXES(2), false),         "torch.linalg.vector_norm(x, 0.5, 2)") \
    X(2, plain,    weft_vector_norm(x, -2, 1, AXES(2), false),          "torch.linalg.vector_norm(x, -2, 2)") \
    X(1, zeros,    weft_vector_norm(x, -1, 1, AXES(2), false),          "torch.linalg.vector_norm(x, -1, 2)") \
    X(2, plain,    weft_prod(x, 1, AXES(1), false),                     "x.prod(1)")                         \
    X(2, zeros,    weft_prod(x, 1, AXES(2), false),                     "x.prod(2)")                         \
    X(2, zeros,    weft_prod(x, 1, AXES(0), true),                      "x.prod(0, keepdim=True)")           \
    X(2, plain,    weft_prod(x, WEFT_ALL, false),                        "x.prod()")                          \
    X(2, zeros,    weft_prod(weft_slice(x, 2, 1, 4), 2, AXES(0, 2), false), "x[:, :, 1:].prod(2).prod(0)")   \
    X(0, special,  weft_prod(x, 1, AXES(2), false),                     "x.prod(2)")                         \
    X(1, steep,    weft_prod(x, 1, AXES(2), false),                     "x.prod(2)")                         \
    X(1, steep,    weft_prod(weft_slice(x, 1, 0, 1), 2, AXES(1, 2), false), "x[:, :1].prod(2).prod(1)")      \
    X(0, ties,     weft_prod(weft_cast(x, WEFT_I32), 1, AXES(0), true), "x.int().prod(0, keepdim=True)")     \
    X(0, special,  weft_prod(weft_cast(weft_isnan(x), WEFT_BOOL), 1, AXES(-1), false), "x.isnan().prod(-1)") \
    X(0, zeros,    weft_prod(weft_cast(weft_offset(x, 9), WEFT_U8), 2, AXES(1, -1), false), "(x + 9).byte().prod(1).prod(1)") \
    X(0, plain,    weft_prod(weft_cast(weft_offset(weft_scale(x, 9), 99), WEFT_I64), WEFT_ALL, false), "(x * 9 + 99).long().prod()") \
    X(2, plain,    weft_cumsum(x, 1),                                   "x.cumsum(1)")                       \
    X(2, plain,    weft_cumsum(x, -1),                                  "x.cumsum(-1)")                      \
    X(2, ties,     weft_cumsum(x, 0),                                   "x.cumsum(0)")                       \
    X(2, special,  weft_cumsum(x, 2),                                   "x.cumsum(2)")                       \
    X(0, ties,     weft_cumsum(weft_cast(x, WEFT_I32), 2),              "x.int().cumsum(2)")                 \
    X(0, zeros,    weft_cumsum(weft_cast(x, WEFT_BOOL), 1),             "x.bool().cumsum(1)")                \
    X(2, plain,    weft_cumprod(x, 1),                                  "x.cumprod(1)")                      \
    X(2, zeros,    weft_cumprod(x, 2),                                  "x.cumprod(2)")                      \
    X(2, zeros,    weft_cumprod(x, 0),                                  "x.cumprod(0)")                      \
    X(0, ties,     weft_cumprod(weft_cast(x, WEFT_I32), 1),             "x.int().cumprod(1)")                \
    X(0, zeros,    weft_cumprod(weft_cast(x, WEFT_BOOL), 2),            "x.bool().cumprod(2)")               \
    X(0, special,  weft_cumprod(x, 2),                                  "x.cumprod(2)")                      \
    X(2, plain,    weft_max(x, 1, false, NULL),                         "x.max(1).values")                   \
    X(2, ties,     weft_max(x, 2, true, NULL),                          "x.max(2, keepdim=True).values")     \
    X(2, ties,     weft_min(x, 0, false, NULL),                         "x.min(0).values")                   \
    X(2, special,  weft_max(x, -1, false, NULL),                        "x.max(-1).values")                  \
    X(2, special,  weft_min(x, 2, true, NULL),                          "x.min(2, keepdim=True).values")     \
    X(0, ties,     index_of(weft_max, x, 2, true),                      "x.max(2, keepdim=True).indices")    \
    X(0, special,  index_of(weft_min, x, 2, false),                     "x.min(2).indices")
/* clang-format on */

static weft_value *build(int row, weft_graph *g, weft_value *x) {
    int i = 0;
    (void)g;
#define X(order, operand, call, torch)                                                                       \
    if (row == i++) return call;
    ROWS(X)
#undef X
    return NULL;
}

static const struct {
    const char *operand, *torch;
} rows[] = {
#define X(order, operand, call, torch) {#operand, torch},
    ROWS(X)
#undef X
};
enum { N_ROWS = sizeof rows / sizeof *rows, MOST = 4 };

/* What PyTorch answers: the operand, f32[2,3,4], and "f32[2,3] 1 2 ...|...": the result y, and where it has
 * one, the gradient of the sum of y^2 by x, and that of the sum of the gradient's squares. */
static const struct {
    const char *torch, *x, *numbers;
} golden[] = {
#include "golden/reductions.h"
};

/* ---- running a row ---- */

/* Outputs the values that the golden line has: y, dx, ddx. */
static weft_model *model_of(int row, int64_t batch, int outputs) {
    weft_model *m = weft_model_new("reductions");
    weft_model_set_batch(m, batch);
    weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
    weft_value *x = weft_input(g, "x", WEFT_F32, 3, AXES(WEFT_BATCH, 3, 4)), *value = build(row, g, x);
    weft_output(value, "0");
    for (int i = 1; i < outputs; i++) {
        weft_value *before = value;
        weft_gradients(weft_sum(weft_square(before), WEFT_ALL, false), 1, &x, &value);
        weft_output(value, i == 1 ? "1" : "2");
    }
    return m;
}

static double number(const weft_port *port, const void *data, size_t i) {
    return port->dtype == WEFT_F32    ? ((const float *)data)[i]
           : port->dtype == WEFT_I64  ? (double)((const int64_t *)data)[i]
           : port->dtype == WEFT_BOOL ? ((const uint8_t *)data)[i]
                                      : NAN;
}

/* "f32[2,3]" */
static void type_text(const weft_port *port, char text[64]) {
    static const char *const names[] = {[WEFT_F32] = "f32", [WEFT_I64] = "i64", [WEFT_BOOL] = "bool"};
    int n = snprintf(text, 64, "%s[", names[port->dtype]);
    for (int i = 0; i < port->ndim; i++)
        n += snprintf(text + n, 64 - (size_t)n, "%s%d", i ? "," : "", (int)port->shape[i]);
    snprintf(text + n, 64 - (size_t)n, "]");
}

/* PyTorch's numbers are of f64; sums of f32 are good to some units of the last place of the largest. */
static bool is_near(double got, double want, double most) {
    if (isnan(want) || isinf(want)) return isnan(want) ? isnan(got) : got == want;
    return fabs(got - want) <= 1e-6 * fabs(want) + 1e-6 * most;
}

static double largest(const char *numbers) {
    double most = 0;
    char *end;
    for (double v = strtod(numbers, &end); end != numbers; numbers = end, v = strtod(numbers, &end))
        if (isfinite(v)) most = fmax(most, fabs(v));
    return most;
}

/* Holds one output against "f32[2,3] 1 2 ..."; returns the text after it. */
static const char *compare(int row, weft_isa isa, const weft_port *port, const void *data, const char *want) {
    char type[64];
    size_t width = strcspn(want, " ");
    type_text(port, type);
    CHECK_SAYS(strlen(type) == width && strncmp(type, want, width) == 0, "%s: output %s is %s, not %.*s",
               rows[row].torch, port->name, type, (int)width, want);
    want += width;
    double most = largest(want);
    size_t n = 1;
    for (int i = 0; i < port->ndim; i++) n *= (size_t)port->shape[i];
    for (size_t i = 0; i < n; i++) {
        char *end;
        double v = strtod(want, &end), got = number(port, data, i);
        CHECK_SAYS(end != want && is_near(got, v, most),
                   "%s of %s, output %s (isa %d): [%d] is %.9g, not %.9g", rows[row].torch, rows[row].operand,
                   port->name, isa, (int)i, got, v);
        want = end;
    }
    return want;
}

static void run(int row, int64_t built_at, weft_isa isa) {
    float x[24];
    weft_error e = {0};
    weft_port port;
    weft_fetch fetches[MOST];
    int n = 0, outputs = 1;
    char *at = (char *)golden[row].x;
    for (int i = 0; i < 24; i++) x[i] = strtof(at, &at);
    for (const char *c = golden[row].numbers; *c; c++) outputs += *c == '|';
    weft_model *m = model_of(row, built_at, outputs);
    weft_compile_options options = {.isa = isa, .batch = 2, .threads = 2, .verify = true};
    weft_plan *plan = weft_compile(m, &options, &e);
    weft_store *store = plan ? weft_store_new(plan, 1, &e) : NULL;
    weft_session *session = store ? weft_session_open(plan, store, &e) : NULL;
    for (; n < MOST && session && weft_plan_output(plan, "g", n, &port); n++)
        fetches[n] = (weft_fetch){port.name, test_memory(port.bytes), port.bytes};
    weft_feed feed = {"x", x, sizeof x};
    const char *want = golden[row].numbers;
    if (CHECK_SAYS(session && weft_run(session, "g", &feed, 1, fetches, n, &e) == WEFT_OK, "%s: %s",
                   rows[row].torch, e.text))
        for (int i = 0; i < n; i++) {
            weft_plan_output(plan, "g", i, &port);
            want = compare(row, isa, &port, fetches[i].data, want);
            want += *want == '|';
        }
    for (int i = 0; i < n; i++) free(fetches[i].data);
    weft_session_close(session);
    weft_store_free(store);
    weft_plan_free(plan);
    weft_model_free(m);
}

TEST(results_and_their_gradients_are_pytorchs_at_any_batch) {
    NEED(sizeof golden / sizeof *golden == N_ROWS);
    for (int i = 0; i < N_ROWS; i++) {
        CHECK_TEXT(golden[i].torch, rows[i].torch); /* else: make_reductions.py was not run */
        run(i, 2, WEFT_ISA_REFERENCE);
        run(i, 5, WEFT_ISA_AUTO);
    }
}

/* ---- constant rows ---- */

static weft_model *deviations(int64_t n) {
    weft_model *m = weft_model_new("deviations");
    weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
    weft_value *x = weft_input(g, "x", WEFT_F32, 3, AXES(n, 6, 5)), *std[3], *dx;
    weft_output(weft_var(x, 0, 1, AXES(0), false), "var");
    std[0] = weft_std(x, 0, 1, AXES(0), false);
    std[1] = weft_std(x, 1, 2, AXES(1, -1), true);
    std[2] = weft_std(x, 0, WEFT_ALL, false);
    for (int i = 0; i < 3; i++) {
        char name[2][24];
        snprintf(name[0], sizeof name[0], "std%d", i);
        snprintf(name[1], sizeof name[1], "dx%d", i);
        weft_gradients(weft_sum(std[i], WEFT_ALL, false), 1, &x, &dx);
        weft_output(std[i], name[0]);
        weft_output(dx, name[1]);
    }
    weft_output(weft_group_norm_op(x, 3, NULL, NULL, 1e-5), "group");
    weft_output(weft_instance_norm_op(x, NULL, NULL, 1e-5), "instance");
    return m;
}

/* Every output is 0 everywhere for an x of equal numbers. */
static void check_deviations(int64_t n, float number, weft_isa isa) {
    enum { OUTPUTS = 9 };
    weft_error e = {0};
    weft_model *m = deviations(n);
    weft_compile_options options = {.isa = isa, .threads = 2, .verify = true};
    weft_plan *plan = weft_compile(m, &options, &e);
    weft_store *store = plan ? weft_store_new(plan, 1, &e) : NULL;
    weft_session *session = store ? weft_session_open(plan, store, &e) : NULL;
    weft_fetch fetches[OUTPUTS];
    weft_port port;
    float *x = test_memory((size_t)n * 30 * sizeof *x);
    for (int64_t i = 0; i < n * 30; i++) x[i] = number;
    for (int i = 0; session && i < OUTPUTS && weft_plan_output(plan, "g", i, &port); i++)
        fetches[i] = (weft_fetch){port.name, test_memory(port.bytes), port.bytes};
    weft_feed feed = {"x", x, (size_t)n * 30 * sizeof *x};
    bool ran = CHECK_SAYS(session && weft_run(session, "g", &feed, 1, fetches, OUTPUTS, &e) == WEFT_OK, "%s",
                          e.text);
    for (int i = 0; session && i < OUTPUTS; i++) {
        const float *y = fetches[i].data;
        size_t k = 0, count = fetches[i].bytes / sizeof *y;
        while (ran && k < count && y[k] == 0) k++;
        CHECK_SAYS(!ran || k == count, "%s of %d rows of %g, isa %d: element %zu is %g", fetches[i].name,
                   (int)n, (double)number, (int)isa, k, k < count ? (double)y[k] : 0.0);
        free(fetches[i].data);
    }
    free(x);
    weft_session_close(session);
    weft_store_free(store);
    weft_plan_free(plan);
    weft_model_free(m);
}

/* To the bit: a gradient of std is (x - mean) / std, which would be of the order of 1 where both are
 * roundings. */
TEST(deviations_of_constant_rows_and_their_gradients_are_0) {
    static const float numbers[] = {-1.572F, 0.1F, 1e6F / 3};
    const weft_isa isas[] = {WEFT_ISA_REFERENCE, isa_within(WEFT_ISA_SSE2), WEFT_ISA_AUTO};
    for (int64_t n = 1; n < 3000; n += n < 12 ? 1 : n)
        for (int i = 0; i < 9; i++) check_deviations(n, numbers[i % 3], isas[i / 3]);
}

/* ---- errors: the sentence, with this file, a line and the scope ---- */

/* clang-format off */
#define ERRORS(X)                                                                                            \
    X(weft_amax(x, 1, AXES(3), false),                "amax: f32[2,3,4] has no axis 3")                      \
    X(weft_amin(x, 2, AXES(1, -2), false),            "amin: axis 1 is named twice")                         \
    X(weft_argmin(x, 3, false),                       "argmin: f32[2,3,4] has no axis 3")                    \
    X(weft_any(x, 1, AXES(-4), false),                "any: f32[2,3,4] has no axis -4")                      \
    X(weft_all(x, 0, AXES(0), false),                 "all: 0 axes of a list: for all axes pass NULL")       \
    X(weft_var(x, 1, 9, AXES(0), false),              "var: 9 axes, 0 to 8 are allowed")                     \
    X(weft_var(x, NAN, WEFT_ALL, false),               "var: correction=nan: it must be a finite number")     \
    X(weft_std(weft_cast(x, WEFT_I64), 1, WEFT_ALL, false), "std: x is i64[2,3,4]: it must be floating point") \
    X(weft_logsumexp(x, 2, AXES(0, 0), false),        "logsumexp: axis 0 is named twice")                    \
    X(weft_vector_norm(x, NAN, WEFT_ALL, false),       "vector_norm: p is NaN: it must be a number")          \
    X(weft_vector_norm(x, 2, 1, AXES(5), true),       "vector_norm: f32[2,3,4] has no axis 5")               \
    X(weft_max(x, 3, false, NULL),                    "max: f32[2,3,4] has no axis 3")                       \
    X(weft_min(x, -4, false, NULL),                   "min: f32[2,3,4] has no axis -4")                      \
    X(weft_prod(x, 1, AXES(3), false),                "prod: f32[2,3,4] has no axis 3")                      \
    X(weft_cumsum(x, 3),                              "cumsum: f32[2,3,4] has no axis 3")                    \
    X(weft_prod(weft_cast(x, WEFT_I64), 1, AXES(3), false), "prod: i64[2,3,4] has no axis 3")                \
    X(weft_cumprod(weft_cast(x, WEFT_I64), 3),        "cumprod: i64[2,3,4] has no axis 3")
/* clang-format on */

static weft_value *build_wrong(int row, weft_value *x) {
    int i = 0;
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
        weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
        weft_value *x = weft_input(g, "x", WEFT_F32, 3, AXES(2, 3, 4)), *y = x;
        WEFT_SCOPE(x, "net") y = build_wrong((int)i, x);
        CHECK_SAYS(y == NULL, "%s: there is a value", errors[i]);
        CHECK_HOLDS(weft_model_error(m)->text, errors[i]);
        CHECK_HOLDS(weft_model_error(m)->text, "test_reductions.c:");
        CHECK_HOLDS(weft_model_error(m)->text, "in net: ");
        weft_model_free(m);
    }
}

SUITE("reductions",
      {T(results_and_their_gradients_are_pytorchs_at_any_batch),
       T(deviations_of_constant_rows_and_their_gradients_are_0), T(errors_name_file_line_scope_and_rule)})
