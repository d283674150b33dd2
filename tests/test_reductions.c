/* test_reductions.c - reductions against PyTorch: each row is a call of Weft and the same in PyTorch, whose
 * numbers, gradients and second gradients stand in golden/reductions.h (golden/make_reductions.py writes it
 * from the rows). Operands have ties, zeros, infinities and NaN. The model is built at another batch than
 * the one it runs at, since a divisor or a shape that keeps the first batch is a defect. */
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

/* The operand x by name (golden/make_reductions.py has its numbers), Weft's call, and PyTorch's. */
/* clang-format off */
#define ROWS(X)                                                                                              \
    X(plain,   weft_amax(x, 1, AXES(1), false),                     "x.amax(1)")                             \
    X(plain,   weft_amax(x, 0, NULL, false),                        "x.amax()")                              \
    X(plain,   weft_amin(x, 2, AXES(-1, 0), true),                  "x.amin((-1, 0), keepdim=True)")         \
    X(ties,    weft_amax(x, 1, AXES(2), false),                     "x.amax(2)")                             \
    X(ties,    weft_amin(x, 2, AXES(0, 2), false),                  "x.amin((0, 2))")                        \
    X(special, weft_amax(x, 1, AXES(2), true),                      "x.amax(2, keepdim=True)")               \
    X(special, weft_amin(x, 1, AXES(2), false),                     "x.amin(2)")
/* clang-format on */

static weft_value *build(int row, weft_graph *g, weft_value *x) {
    int i = 0;
    (void)g;
#define X(operand, call, torch)                                                                              \
    if (row == i++) return call;
    ROWS(X)
#undef X
    return NULL;
}

static const struct {
    const char *operand, *torch;
} rows[] = {
#define X(operand, call, torch) {#operand, torch},
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
    weft_model_batch(m, batch);
    weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
    weft_value *x = weft_input(g, "x", WEFT_F32, 3, AXES(WEFT_BATCH, 3, 4)), *value = build(row, g, x);
    weft_output(value, "0");
    for (int i = 1; i < outputs; i++) {
        weft_value *before = value;
        weft_gradients(weft_sum(weft_square(before), 0, NULL, false), 1, &x, &value);
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
        CHECK_SAYS(end != want && is_near(got, v, most), "%s of %s, output %s (isa %d): [%d] is %.9g, not %.9g",
                   rows[row].torch, rows[row].operand, port->name, isa, (int)i, got, v);
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

SUITE("reductions", {T(results_and_their_gradients_are_pytorchs_at_any_batch)})
