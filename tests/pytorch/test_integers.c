/* test_integers.c - arithmetic of i64 and i32 against PyTorch: each row is a call of Weft and the same in
 * PyTorch, whose numbers stand in golden/integers.h (golden/make_integers.py writes it from the rows).
 * Operands have what a double does not hold, and results that wrap around. Then what PyTorch has not: all
 * hard pairs beside 128 bits, a 0 that divides, numbers that are folded, and what is refused. */
#include "support/isa.h"
#include "support/kernels/integers.h"
#include "support/kernels/kernel_check.h"
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

/* ---- the rows: a and b are [3,6] of one type ---- */

/* Of i64 and of i32. make_integers.py reads them here. */
static const int64_t numbers_a[2][18] = {{-9223372036854775807, 9223372036854775807, 9007199254740993,
                                          -9007199254740993, 7, -7, 7, -7, 0, 1, -1, 6, 4611686018427387904,
                                          3037000500, -3037000500, 5, 100, 2},
                                         {-2147483647, 2147483647, 16777217, -16777217, 7, -7, 7, -7, 0, 1,
                                          -1, 6, 1073741824, 46341, -46341, 5, 100, 2}};
static const int64_t numbers_b[2][18] = {
    {-1, 2, 9007199254740992, 3, 2, 2, -2, -2, 5, -1, 1, 3, 2, 3037000500, 3037000500, -9223372036854775807,
     7, 2},
    {-1, 2, 16777216, 3, 2, 2, -2, -2, 5, -1, 1, 3, 2, 46341, 46341, -2147483647, 7, 2}};

static weft_value *number(weft_value *like, double value) {
    return weft_constant(weft_value_graph(like), weft_value_dtype(like), 0, NULL, value);
}

static weft_value *places(weft_value *x, int axis) {
    weft_value *at = NULL;
    weft_sort(x, axis, true, &at);
    return at;
}

/* clang-format off */
#define ROWS(X)                                                                                              \
    X(weft_add(a, b),                                   "a + b")                                             \
    X(weft_sub(a, b),                                   "a - b")                                             \
    X(weft_mul(a, b),                                   "a * b")                                             \
    X(weft_mul(a, weft_slice(b, 0, 0, 1)),              "a * b[:1]")                                         \
    X(weft_floor_divide(a, b),                          "torch.floor_divide(a, b)")                          \
    X(weft_trunc_divide(a, b),                          "torch.div(a, b, rounding_mode='trunc')")            \
    X(weft_remainder(a, b),                             "torch.remainder(a, b)")                             \
    X(weft_fmod(a, b),                                  "torch.fmod(a, b)")                                  \
    X(weft_remainder(a, number(a, -4)),                 "a % -4")                                            \
    X(weft_maximum(a, b),                               "torch.maximum(a, b)")                               \
    X(weft_minimum(a, b),                               "torch.minimum(a, b)")                               \
    X(weft_neg(a),                                      "-a")                                                \
    X(weft_abs(a),                                      "a.abs()")                                           \
    X(weft_square(a),                                   "a.square()")                                        \
    X(weft_sign(a),                                     "a.sign()")                                          \
    X(weft_clamp(a, -5, 6),                             "a.clamp(-5, 6)")                                    \
    X(weft_scale(a, -3),                                "a * -3")                                            \
    X(weft_offset(a, -5),                               "a - 5")                                             \
    X(weft_relu6(a),                                    "a.clamp(0, 6)")                                     \
    X(weft_equal(a, weft_offset(b, 1)),                 "a == b + 1")                                        \
    X(weft_not_equal(a, weft_offset(b, 1)),             "a != b + 1")                                        \
    X(weft_greater(a, b),                               "a > b")                                             \
    X(weft_greater_equal(a, b),                         "a >= b")                                            \
    X(weft_less(a, b),                                  "a < b")                                             \
    X(weft_less_equal(a, b),                            "a <= b")                                            \
    X(weft_where(weft_greater(a, b), a, b),             "torch.where(a > b, a, b)")                          \
    X(weft_cast(a, WEFT_I32),                           "a.int()")                                           \
    X(weft_cast(a, WEFT_I64),                           "a.long()")                                          \
    X(weft_cast(a, WEFT_U8),                            "a.byte()")                                          \
    X(weft_cast(a, WEFT_BOOL),                          "a.bool()")                                          \
    X(weft_stop_gradient(weft_sub(a, b)),               "(a - b).detach()")                                  \
    X(weft_sum(a, WEFT_ALL, false),                     "a.sum()")                                           \
    X(weft_sum(a, 1, AXES(0), true),                    "a.sum(0, keepdim=True)")                            \
    X(weft_sum(weft_greater(a, b), 1, AXES(1), false),  "(a > b).sum(1)")                                    \
    X(weft_sum(weft_cast(a, WEFT_U8), WEFT_ALL, false), "a.byte().sum()")                                    \
    X(weft_prod(b, 1, AXES(1), false),                  "b.prod(1)")                                         \
    X(weft_prod(b, WEFT_ALL, false),                    "b.prod()")                                          \
    X(weft_amax(a, 1, AXES(1), false),                  "a.amax(1)")                                         \
    X(weft_amin(a, WEFT_ALL, false),                    "a.amin()")                                          \
    X(weft_argmax(weft_minimum(a, b), 1, false),        "torch.minimum(a, b).argmax(1)")                     \
    X(weft_argmin(weft_maximum(a, b), 0, false),        "torch.maximum(a, b).argmin(0)")                     \
    X(weft_max(a, 0, false, NULL),                      "a.max(0).values")                                   \
    X(weft_cumsum(a, 1),                                "a.cumsum(1)")                                       \
    X(weft_cumprod(b, 0),                               "b.cumprod(0)")                                      \
    X(weft_sort(a, 1, false, NULL),                     "a.sort(1).values")                                  \
    X(places(a, 1),                                     "a.sort(dim=1, descending=True, stable=True).indices") \
    X(weft_topk(b, 2, 0, false, NULL),                  "b.topk(2, 0, largest=False).values")                \
    X(weft_bincount(weft_remainder(a, number(a, 7)), 9), "torch.bincount((a % 7).flatten(), minlength=9)")   \
    X(weft_bincount(weft_cast(weft_clamp(a, 0, 200), WEFT_U8), 201), "torch.bincount(a.clamp(0, 200).flatten(), minlength=201)") \
    X(weft_add(weft_mul(a, b), weft_where(weft_equal(a, b), weft_neg(a), weft_offset(b, 3))), "a * b + torch.where(a == b, -a, b + 3)")
/* clang-format on */

static weft_value *build(int row, weft_value *a, weft_value *b) {
    int i = 0;
#define X(call, torch)                                                                                       \
    if (row == i++) return call;
    ROWS(X)
#undef X
    return NULL;
}

static const struct {
    const char *torch, *numbers[2];
} golden[] = {
#include "golden/integers.h"
};

static const char *const rows[] = {
#define X(call, torch) torch,
    ROWS(X)
#undef X
};
enum { N_ROWS = sizeof rows / sizeof *rows };

/* ---- runs ---- */

static int64_t whole(const weft_port *port, const void *data, size_t i) {
    switch (port->dtype) {
    case WEFT_I64:
        return ((const int64_t *)data)[i];
    case WEFT_I32:
        return ((const int32_t *)data)[i];
    default:
        return ((const uint8_t *)data)[i];
    }
}

/* "i64[2,3]: 1 2 3 4 5 6" */
static void show(char text[4000], const weft_port *port, const void *data) {
    static const char *const names[] = {
        [WEFT_I64] = "i64", [WEFT_I32] = "i32", [WEFT_U8] = "u8", [WEFT_BOOL] = "bool"};
    size_t n = 1,
           used = (size_t)snprintf(text, 4000, "%s[", port->dtype >= WEFT_I64 ? names[port->dtype] : "?");
    for (int i = 0; i < port->ndim; i++) {
        used += (size_t)snprintf(text + used, 4000 - used, "%s%d", i ? "," : "", (int)port->shape[i]);
        n *= (size_t)port->shape[i];
    }
    used += (size_t)snprintf(text + used, 4000 - used, "]:");
    for (size_t i = 0; i < n; i++)
        used += (size_t)snprintf(text + used, 4000 - used, " %lld", (long long)whole(port, data, i));
}

/* Copies numbers as the elements of a type; the caller frees them. */
static void *elements(weft_dtype dtype, const int64_t *from, size_t n) {
    int64_t *wide = test_memory(n * sizeof *wide);
    for (size_t i = 0; i < n && dtype == WEFT_I64; i++) wide[i] = from[i];
    for (size_t i = 0; i < n && dtype == WEFT_I32; i++) ((int32_t *)(void *)wide)[i] = (int32_t)from[i];
    return wide;
}

typedef struct operands {
    weft_dtype dtype;
    size_t n;
    const int64_t *a, *b;
} operands;

/* Runs graph g, whose inputs a and b are of n numbers; its first output as text. */
static weft_status run(weft_model *m, operands in, weft_isa isa, char text[4000], weft_error *e) {
    weft_port port, input;
    *text = 0;
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.isa = isa, .threads = 2, .verify = true}, e);
    weft_store *store = plan ? weft_store_new(plan, 1, e) : NULL;
    weft_session *session = store ? weft_session_open(plan, store, e) : NULL;
    weft_status status = session ? WEFT_OK : e->status;
    if (session && CHECK(weft_plan_output(plan, "g", 0, &port))) {
        void *a = elements(in.dtype, in.a, in.n), *b = elements(in.dtype, in.b, in.n);
        size_t width = in.dtype == WEFT_I64 ? 8 : 4;
        weft_feed feeds[] = {{"a", a, in.n * width}, {"b", b, in.n * width}};
        weft_fetch fetch = {port.name, test_memory(port.bytes), port.bytes};
        int n = 0;
        while (weft_plan_input(plan, "g", n, &input)) n++;
        if (n == 1 && strcmp((weft_plan_input(plan, "g", 0, &input), input.name), "b") == 0)
            feeds[0] = feeds[1];
        status = weft_run(session, "g", feeds, n, &fetch, 1, e);
        if (!status) show(text, &port, fetch.data);
        free(a);
        free(b);
        free(fetch.data);
    }
    weft_session_close(session);
    weft_store_free(store);
    weft_plan_free(plan);
    return status;
}

static const weft_isa isas[] = {WEFT_ISA_REFERENCE, WEFT_ISA_AUTO};

TEST(integers_are_those_of_pytorch) {
    NEED(sizeof golden / sizeof *golden == N_ROWS);
    for (int i = 0; i < 2 * 2 * N_ROWS; i++) {
        int row = i / 4, k = i % 2;
        operands in = {k ? WEFT_I32 : WEFT_I64, 18, numbers_a[k], numbers_b[k]};
        weft_error e = {0};
        char got[4000];
        CHECK_TEXT(golden[row].torch, rows[row]); /* else: make_integers.py was not run */
        weft_model *m = weft_model_new("m");
        weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
        weft_value *a = weft_input(g, "a", in.dtype, 2, AXES(3, 6)),
                   *b = weft_input(g, "b", in.dtype, 2, AXES(3, 6));
        weft_output(build(row, a, b), "y");
        weft_status status = run(m, in, isas[i / 2 % 2], got, &e);
        CHECK_SAYS(!status && strcmp(got, golden[row].numbers[k]) == 0, "%s: %s%s, not %s", rows[row], e.text,
                   got, golden[row].numbers[k]);
        weft_model_free(m);
    }
}

/* ---- every pair of hard numbers, beside 128 bits ---- */

typedef __int128 wide;

static wide floor_quotient(wide a, wide b) {
    wide q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}

static const struct {
    const char *name;
    weft_value *(*build)(weft_value *, weft_value *);
} binary[] = {{"add", weft_add},
              {"sub", weft_sub},
              {"mul", weft_mul},
              {"floor_divide", weft_floor_divide},
              {"trunc_divide", weft_trunc_divide},
              {"remainder", weft_remainder},
              {"fmod", weft_fmod},
              {"maximum", weft_maximum},
              {"greater", weft_greater}};
enum { N_BINARY = sizeof binary / sizeof *binary };

static wide right(int which, wide a, wide b) {
    const wide results[N_BINARY] = {
        a + b, a - b,         a * b, floor_quotient(a, b), a / b, a - b * floor_quotient(a, b),
        a % b, a > b ? a : b, a > b};
    return results[which];
}

TEST(every_pair_of_hard_numbers_is_computed_modulo_the_type) {
    for (int i = 0; i < 2 * N_BINARY; i++) {
        weft_dtype dtype = i % 2 ? WEFT_I32 : WEFT_I64, result = i / 2 == N_BINARY - 1 ? WEFT_BOOL : dtype;
        int64_t a[HARD_PAIRS], b[HARD_PAIRS], want[HARD_PAIRS], n = HARD_PAIRS;
        weft_error e = {0};
        char got[4000], text[4000];
        for (int k = 0; k < HARD_PAIRS; k++) {
            int64_t pair[2];
            integers_pair(dtype, k, pair);
            a[k] = pair[0];
            b[k] = pair[1];
            want[k] = (int64_t)(uint64_t)right(i / 2, a[k], b[k]);
            if (result == WEFT_I32) want[k] = (int32_t)want[k];
            if (result == WEFT_BOOL) ((uint8_t *)want)[k] = (uint8_t)right(i / 2, a[k], b[k]);
        }
        weft_port port = {.dtype = result, .ndim = 1, .shape = {n}};
        void *data = result == WEFT_BOOL ? memcpy(test_memory(sizeof want), want, sizeof want)
                                         : elements(result, want, HARD_PAIRS);
        show(text, &port, data);
        weft_model *m = weft_model_new("m");
        weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
        weft_output(binary[i / 2].build(weft_input(g, "a", dtype, 1, &n), weft_input(g, "b", dtype, 1, &n)),
                    "y");
        weft_status status = run(m, (operands){dtype, HARD_PAIRS, a, b}, WEFT_ISA_AUTO, got, &e);
        CHECK_SAYS(!status && strcmp(got, text) == 0, "%s: %s%s, not %s", binary[i / 2].name, e.text, got,
                   text);
        free(data);
        weft_model_free(m);
    }
}

/* ---- a 0 that divides ---- */

/* b[6] is a row under a[3,6]: its number is that in b. A run after it is good again. */
TEST(an_integer_divided_by_0_fails_the_run) {
    for (int i = 3; i < 7; i++)
        for (int k = 0; k < 2; k++) {
            weft_dtype dtype = k ? WEFT_I32 : WEFT_I64;
            int64_t b[18] = {1, 2, 3, 4, 0, 5};
            weft_error e = {0};
            char got[4000];
            weft_model *m = weft_model_new("m");
            weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
            weft_value *a = weft_input(g, "a", dtype, 2, AXES(3, 6)),
                       *all = weft_input(g, "b", dtype, 2, AXES(3, 6));
            weft_value *row = weft_reshape(weft_slice(all, 0, 0, 1), 1, AXES(6));
            weft_output(weft_add(binary[i].build(weft_neg(a), row), a), "y");
            CHECK(run(m, (operands){dtype, 18, numbers_a[k], b}, isas[k], got, &e) == WEFT_DATA);
            CHECK_HOLDS(e.text, binary[i].name);
            CHECK_HOLDS(e.text, "operand 1 is 0 (number 4): an integer has no quotient by it");
            b[4] = 7;
            CHECK(run(m, (operands){dtype, 18, numbers_a[k], b}, isas[k], got, &e) == WEFT_OK);
            weft_model_free(m);
        }
}

TEST(a_number_outside_the_bins_fails_the_run) {
    int64_t a[18] = {0, 3, 4};
    weft_error e = {0};
    char got[4000];
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
    weft_output(weft_bincount(weft_input(g, "a", WEFT_I32, 2, AXES(3, 6)), 4), "y");
    CHECK(run(m, (operands){WEFT_I32, 18, a, a}, WEFT_ISA_AUTO, got, &e) == WEFT_DATA);
    CHECK_HOLDS(e.text, "id 4 (number 2) is outside the axis, 0 to 3");
    a[2] = 3;
    CHECK(run(m, (operands){WEFT_I32, 18, a, a}, WEFT_ISA_AUTO, got, &e) == WEFT_OK);
    CHECK_TEXT(got, "i64[4]: 16 0 0 2");
    weft_model_free(m);
}

/* ---- constants ---- */

/* What a double holds is folded, the rest and a quotient by 0 are left to the run. */
static const struct {
    int which;
    double a, b;
    const char *want; /* NULL: the run fails */
} folds[] = {{0, 3, 4, "i64[]: 7"},
             {2, 3037000500, 3037000500, "i64[]: -9223372036709301616"},
             {2, 4611686018427387904, 2, "i64[]: -9223372036854775808"},
             {0, 9007199254740992, 1, "i64[]: 9007199254740993"},
             {3, -7, 2, "i64[]: -4"},
             {4, -7, 2, "i64[]: -3"},
             {5, -7, 2, "i64[]: 1"},
             {6, -7, 2, "i64[]: -1"},
             {3, -9223372036854775808.0, -1, "i64[]: -9223372036854775808"},
             {8, 9007199254740994, 9007199254740992, "bool[]: 1"},
             {3, 5, 0, NULL},
             {6, 5, 0, NULL}};

TEST(constants_are_folded_exactly) {
    for (size_t i = 0; i < sizeof folds / sizeof *folds; i++)
        for (int k = 0; k < 2; k++) {
            weft_error e = {0};
            char got[4000];
            weft_model *m = weft_model_new("m");
            weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
            weft_value *a = weft_constant(g, WEFT_I64, 0, NULL, folds[i].a);
            weft_output(binary[folds[i].which].build(a, number(a, folds[i].b)), "y");
            weft_status status = run(m, (operands){WEFT_I64, 0, NULL, NULL}, isas[k], got, &e);
            if (folds[i].want)
                CHECK_SAYS(!status && strcmp(got, folds[i].want) == 0, "%d: %s%s, not %s", (int)i, e.text,
                           got, folds[i].want);
            else
                CHECK(status == WEFT_DATA);
            weft_model_free(m);
        }
}

/* The reference knows that the quotient of f32 is rounded before its fraction goes: 3 / 0.1f is 30. */
TEST(quotients_of_floats_are_those_of_pytorch) {
    for (int k = 0; k < 2; k++) {
        weft_error e = {0};
        float a[18] = {3, -3, 5, -5, 0, 7}, b[18] = {0.1f, 0.1f, 2, 2, 3, 0}, got[2][18];
        for (int i = 6; i < 18; i++) b[i] = 1;
        weft_model *m = weft_model_new("m");
        weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
        weft_value *x = weft_input(g, "a", WEFT_F32, 1, AXES(18)),
                   *y = weft_input(g, "b", WEFT_F32, 1, AXES(18));
        weft_output(weft_floor_divide(x, y), "floor");
        weft_output(weft_trunc_divide(x, y), "trunc");
        weft_plan *plan = weft_compile(m, &(weft_compile_options){.isa = isas[k]}, &e);
        weft_store *store = plan ? weft_store_new(plan, 1, &e) : NULL;
        weft_session *session = store ? weft_session_open(plan, store, &e) : NULL;
        weft_feed feeds[] = {{"a", a, sizeof a}, {"b", b, sizeof b}};
        weft_fetch fetches[] = {{"floor", got[0], sizeof got[0]}, {"trunc", got[1], sizeof got[1]}};
        if (CHECK_SAYS(session && weft_run(session, "g", feeds, 2, fetches, 2, &e) == WEFT_OK, "%s",
                       e.text)) {
            static const float want[2][6] = {{29, -30, 2, -3, 0, INFINITY}, {30, -30, 2, -2, 0, INFINITY}};
            for (int i = 0; i < 12; i++)
                CHECK_SAYS(got[i / 6][i % 6] == want[i / 6][i % 6], "%d: %g", i, got[i / 6][i % 6]);
        }
        weft_session_close(session);
        weft_store_free(store);
        weft_plan_free(plan);
        weft_model_free(m);
    }
}

/* ---- what is refused ---- */

static weft_value *gradient_by(weft_value *a) {
    weft_value *loss = weft_sum(weft_cast(weft_square(a), WEFT_F32), WEFT_ALL, false), *d = NULL;
    return weft_gradients(loss, 1, &a, &d) ? NULL : d;
}

/* clang-format off */
#define ERRORS(X)                                                                                            \
    X(weft_div(a, a),                        "div: operand 0 is i64[3]: a quotient of integers is floating point: cast them") \
    X(weft_add(a, weft_cast(a, WEFT_I32)),   "add: operands are i64[3] and i32[3]: cast one")                \
    X(weft_add(a, weft_cast(a, WEFT_F32)),   "add: operands are i64[3] and f32[3]: cast one")                \
    X(weft_neg(weft_cast(a, WEFT_U8)),       "neg: operand 0 is u8[3]: it must be floating point, i32 or i64 (cast it)") \
    X(weft_sum(weft_mean(a, WEFT_ALL, false), WEFT_ALL, false), "sum: operand 0 is i64[3]: of a mean it must be floating point") \
    X(weft_var(a, 1, WEFT_ALL, false),       "var: x is i64[3]: it must be floating point")                  \
    X(weft_vector_norm(a, 1, WEFT_ALL, false), "vector_norm: x is i64[3]: it must be floating point")        \
    X(weft_exp(a),                           "exp: operand 0 is i64[3]: it must be floating point (cast it)") \
    X(weft_pow(a, a),                        "pow: operand 0 is i64[3]: it must be floating point (cast it)") \
    X(weft_scale(a, 0.5),                    "scale: factor=0.5 with i64[3]: it must be a whole number that i64 can hold") \
    X(weft_offset(weft_cast(a, WEFT_I32), 4e9), "offset: amount=4e+09 with i32[3]: it must be a whole number that i32 can hold") \
    X(weft_clamp(a, -1, 0.5),                "clamp: max=0.5 with i64[3]")                                   \
    X(weft_constant(weft_value_graph(a), WEFT_I64, 0, NULL, 1e19), "constant: i64 cannot hold 1e+19")        \
    X(gradient_by(a),                        "gradients: operand 1 is i64[3]: it must be floating point")    \
    X(weft_bincount(weft_cast(a, WEFT_F32), 3), "bincount: x is f32[3]: it must be integer")                 \
    X(weft_bincount(a, 0),                   "bincount: 0 bins: there must be at least 1")
/* clang-format on */

static const char *const errors[] = {
#define X(call, text) text,
    ERRORS(X)
#undef X
};

static weft_value *build_wrong(int row, weft_value *a) {
    int i = 0;
#define X(call, text)                                                                                        \
    if (row == i++) return call;
    ERRORS(X)
#undef X
    return NULL;
}

TEST(what_integers_lack_is_refused_with_a_reason) {
    for (int i = 0; i < (int)(sizeof errors / sizeof *errors); i++) {
        weft_model *m = weft_model_new("m");
        weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
        CHECK(!build_wrong(i, weft_input(g, "a", WEFT_I64, 1, AXES(3))));
        CHECK_HOLDS(weft_model_error(m)->text, errors[i]);
        weft_model_free(m);
    }
}

/* A gradient that goes around integers: they have none, and the floats beside them have theirs. */
TEST(gradients_pass_beside_integers) {
    weft_error e = {0};
    float x[3] = {1, 2, 3}, dx[3];
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "g", WEFT_TRAIN);
    weft_value *in = weft_input(g, "x", WEFT_F32, 1, AXES(3)), *d;
    weft_value *places = weft_floor_divide(weft_cast(in, WEFT_I64), weft_constant(g, WEFT_I64, 0, NULL, 2));
    weft_value *gate = weft_cast(weft_mul(places, places), WEFT_F32);
    weft_gradients(weft_sum(weft_mul(weft_square(in), gate), WEFT_ALL, false), 1, &in, &d);
    weft_output(d, "dx");
    weft_plan *plan = weft_compile(m, NULL, &e);
    weft_store *store = plan ? weft_store_new(plan, 1, &e) : NULL;
    weft_session *session = store ? weft_session_open(plan, store, &e) : NULL;
    weft_feed feed = {"x", x, sizeof x};
    weft_fetch fetch = {"dx", dx, sizeof dx};
    if (CHECK_SAYS(session && weft_run(session, "g", &feed, 1, &fetch, 1, &e) == WEFT_OK, "%s", e.text))
        CHECK(dx[0] == 0 && dx[1] == 4 && dx[2] == 6);
    weft_session_close(session);
    weft_store_free(store);
    weft_plan_free(plan);
    weft_model_free(m);
}

TEST(every_kernel_is_exact_at_the_ends_of_the_types) {
    integers_check(kernels_check);
    integers_check_fused(kernels_check);
}

SUITE("integers",
      {T(integers_are_those_of_pytorch), T(every_pair_of_hard_numbers_is_computed_modulo_the_type),
       T(an_integer_divided_by_0_fails_the_run), T(a_number_outside_the_bins_fails_the_run),
       T(constants_are_folded_exactly), T(quotients_of_floats_are_those_of_pytorch),
       T(what_integers_lack_is_refused_with_a_reason), T(gradients_pass_beside_integers),
       T(every_kernel_is_exact_at_the_ends_of_the_types)})
