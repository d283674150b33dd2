/* test_opinfo.c - the samples with which PyTorch tests its own functions (OpInfo): values, gradients and
 * second gradients, also by the results themselves, against PyTorch's in f64, by the reference kernels in f64
 * and by the best ones in f32. golden/make_opinfo.py says each sample in C (golden/opinfo.h) and asks PyTorch
 * (golden/opinfo.txt.gz). Every op with a PyTorch name, and every builder of ops.h, is in a sample or has a
 * reason not to be. */
#include "graph/core/graph.h"
#include "ops/catalog/catalog.h"
#include "ops/norm_loss/norm.h"
#include "support/test.h"
#include "weft/weft.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* ---- what rows call besides builders ---- */

#define AXES(...)                                                                                            \
    (int64_t[]) {                                                                                            \
        __VA_ARGS__                                                                                          \
    }

/* A number among operands; `real` is the type of the row's floating-point operands. */
#define number(g, v) weft_constant(g, real, 0, NULL, v)

/* A recurrent module of PyTorch: in[0] is x [T, features] or [features] (a cell), then `states` first states,
 * then its parameters in their order. */
typedef struct net {
    char kind; /* lstm, gru or rnn */
    int layers, states;
    bool bias, both, relu;
} net;

/* One direction of a layer with w: weight_ih, weight_hh, bias_ih, bias_hh. */
static weft_value *direction(const net *n, weft_value *x, weft_value **w, weft_value **state, bool reverse) {
    weft_value *sum = n->bias ? weft_add(w[2], w[3]) : NULL;
    if (n->kind == 'g')
        return weft_gru_op(weft_linear_op(x, w[0], n->bias ? w[2] : NULL), w[1], state[0],
                           n->bias ? w[3] : NULL, reverse);
    weft_value *gates = weft_linear_op(x, w[0], sum);
    if (n->kind == 'l') return weft_lstm_op(gates, w[1], state[0], state[1], reverse, NULL);
    return weft_rnn_op(gates, w[1], state[0], reverse, n->relu);
}

static weft_value *recurrent(weft_value **in, const net *n) {
    int directions = 1 + n->both, ndim = in[0]->type.ndim, per = n->bias ? 4 : 2;
    weft_value *x = weft_unsqueeze(ndim == 1 ? weft_unsqueeze(in[0], 0) : in[0], 1), **w = in + 1 + n->states;
    for (int layer = 0; layer < n->layers; layer++) {
        weft_value *both[2] = {0};
        for (int d = 0; d < directions; d++, w += per) {
            weft_value *state[2] = {0};
            int64_t at = layer * directions + d;
            for (int k = 0; k < n->states; k++)
                state[k] = ndim == 1 ? weft_unsqueeze(in[1 + k], 0) : weft_slice(in[1 + k], 0, at, at + 1);
            both[d] = direction(n, x, w, state, d == 1);
        }
        x = directions == 2 ? weft_concat(2, both, 2) : both[0];
    }
    return ndim == 1 ? weft_reshape(x, 1, AXES(-1)) : weft_squeeze(x, 1);
}

/* ---- the rows ---- */

enum {
    MOST_IN = 24,
    MOST_OUT = 16,
    MOST_BY = MOST_IN + 2 * MOST_OUT,
    MOST_VALUES = MOST_IN + MOST_OUT + MOST_BY,
    MOST = 800,
    LINE_ROOM = 1 << 16
};

#define REFUSED(samples, reason)
#define ROW(id, torch, n_out, orders, ...)                                                                   \
    static void row_##id(weft_graph *g, weft_dtype real, weft_value **in, weft_value **out) {                \
        (void)g, (void)real, (void)in;                                                                       \
        __VA_ARGS__;                                                                                         \
    }
#include "golden/opinfo.h"
#undef ROW

typedef struct row {
    const char *torch; /* the OpInfo */
    int n_out, orders; /* results; of how many orders there are gradients */
    const char *code;
    void (*build)(weft_graph *g, weft_dtype real, weft_value **in, weft_value **out);
} row;

static const row rows[] = {
#define ROW(id, torch, n_out, orders, ...) {torch, n_out, orders, #__VA_ARGS__, row_##id},
#include "golden/opinfo.h"
#undef ROW
};
enum { N_ROWS = sizeof rows / sizeof *rows };

/* ---- PyTorch's numbers ---- */

/* A line of opinfo.txt.gz: "y0 f64[2,3] 3e-08 1 2 ...". */
typedef struct answer {
    char name[8], type[64];
    weft_dtype dtype;
    int ndim, n;
    int64_t shape[WEFT_MAX_NDIM];
    bool is_by;    /* of an operand: gradients are by it */
    double narrow; /* of a result: how far PyTorch's f32 is off, as a part of the largest element */
    double v[MOST];
} answer;

typedef struct answers {
    int n;
    answer of[MOST_VALUES];
} answers;

static weft_dtype dtype_named(const char *text) {
    static const char *const names[] = {[WEFT_F32] = "f32", [WEFT_F64] = "f64", [WEFT_I32] = "i32",
                                        [WEFT_I64] = "i64", [WEFT_U8] = "u8",   [WEFT_BOOL] = "bool"};
    size_t length = strcspn(text, "[");
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
        if (names[i] && strlen(names[i]) == length && strncmp(names[i], text, length) == 0)
            return (weft_dtype)i;
    return WEFT_F32;
}

static bool answer_read(answer *a, const char *line) {
    char note[16];
    int used = 0;
    if (sscanf(line, "%7s %63s %15s%n", a->name, a->type, note, &used) != 3) return false;
    a->dtype = dtype_named(a->type);
    a->ndim = a->n = 0;
    for (const char *at = strchr(a->type, '[') + 1; *at != ']'; at += *at == ',')
        a->shape[a->ndim++] = strtoll(at, (char **)&at, 10);
    a->is_by = strcmp(note, "d") == 0;
    a->narrow = strtod(note, NULL);
    line += used;
    char *end;
    for (double v = strtod(line, &end); end != line && a->n < MOST; v = strtod(line, &end)) {
        a->v[a->n++] = v;
        line = end;
    }
    return true;
}

/* The lines up to the next row's; `line` holds the last that was read. */
static void answers_read(answers *all, gzFile file, char *line) {
    all->n = 0;
    while (gzgets(file, line, LINE_ROOM) && strncmp(line, "row ", 4) != 0)
        if (all->n < (int)(sizeof all->of / sizeof *all->of)) all->n += answer_read(&all->of[all->n], line);
}

static const answer *answer_find(const answers *all, const char *name) {
    for (int i = 0; i < all->n; i++)
        if (strcmp(all->of[i].name, name) == 0) return &all->of[i];
    return NULL;
}

/* ---- building a row ---- */

/* Element i of what results are multiplied with, as fixed() of make_opinfo.py. */
static double fixed(int salt, int i) {
    return ((i * 37 + salt * 29 + 11) % 129 - 64) / 64.0;
}

/* Values of one order: results, or gradients. */
typedef struct layer {
    int n;
    weft_value *v[MOST_BY];
} layer;

static weft_dtype type_in(const answer *a, weft_dtype real) {
    return a->dtype == WEFT_F64 ? real : a->dtype;
}

/* Whether a loss can be made of it. */
static bool is_float(const weft_value *v) {
    return v && !type_is_empty(&v->type) && (v->type.dtype == WEFT_F64 || v->type.dtype == WEFT_F32);
}

/* The sum of the values times inputs f<salt>; the inputs are added to `factors`. */
static weft_value *dotted(weft_graph *g, const layer *of, int salt, layer *factors) {
    weft_value *sum = NULL;
    for (int i = 0; i < of->n; i++) {
        weft_value *v = of->v[i];
        char name[16];
        if (!is_float(v)) continue;
        snprintf(name, sizeof name, "f%d", salt + i);
        weft_value *f = weft_input(g, name, v->type.dtype, v->type.ndim, v->type.shape);
        weft_value *part = weft_sum(weft_mul(v, f), WEFT_ALL, false);
        if (part && part->type.dtype != WEFT_F64) part = weft_cast(part, WEFT_F64);
        sum = sum ? weft_add(sum, part) : part;
        factors->v[factors->n++] = f;
    }
    return sum;
}

static void outputs(const layer *of, int from, int end, char letter) {
    char name[16];
    for (int i = from; i < end; i++) {
        snprintf(name, sizeof name, "%c%d", letter, i - from);
        if (of->v[i] && !type_is_empty(&of->v[i]->type)) weft_output(of->v[i], name);
    }
}

static layer join(layer a, const layer *b) {
    for (int i = 0; i < b->n; i++)
        if (is_float(b->v[i])) a.v[a.n++] = b->v[i];
    return a;
}

/* A result without elements is not fetched: it has a type alone. */
static void check_empty(const row *r, const answers *all, const layer *results, weft_dtype real) {
    char name[16];
    for (int i = 0; i < results->n; i++) {
        const weft_value *v = results->v[i];
        snprintf(name, sizeof name, "y%d", i);
        const answer *a = answer_find(all, name);
        if (!v || !a || (a->n && !type_is_empty(&v->type))) continue;
        tensor_type want = type_of(type_in(a, real), a->ndim, a->shape);
        CHECK_SAYS(a->n == 0 && type_equal(&v->type, &want), "%s: %s: %s is %s, not %s", r->torch, r->code,
                   name, TYPE(&v->type), a->type);
    }
}

/* Gradients of `last` times numbers, of the second order also by the results. */
static void add_gradients(const row *r, weft_graph *g, layer by, const layer *results) {
    layer last = *results;
    for (int order = 0; order < r->orders && weft_model_error(g->model)->status == WEFT_OK; order++) {
        layer factors = {0}, all = by;
        weft_value *loss = dotted(g, &last, 50 * order, &factors);
        if (order) all = join(all, results);
        last.n = all.n;
        weft_gradients(loss, all.n, all.v, last.v);
        outputs(&last, 0, by.n, order ? 'h' : 'g');
        outputs(&last, by.n, all.n, 'z');
        by = join(by, &factors);
    }
}

static weft_model *model_of(const row *r, const answers *all, weft_dtype real, bool *met) {
    weft_model *m = weft_model_new(r->torch);
    weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
    weft_value *in[MOST_IN] = {0};
    layer by = {0}, results = {.n = r->n_out};
    for (int i = 0; i < all->n && all->of[i].name[0] == 'i'; i++) {
        const answer *a = &all->of[i];
        in[i] = a->n ? weft_input(g, a->name, type_in(a, real), a->ndim, a->shape)
                     : weft_constant(g, type_in(a, real), a->ndim, a->shape, 0);
        if (a->is_by && a->n) by.v[by.n++] = in[i];
    }
    r->build(g, real, in, results.v);
    check_empty(r, all, &results, real);
    outputs(&results, 0, results.n, 'y');
    for (weft_node *n = g->first; n; n = n->next)
        for (int i = 0; i < op_count(); i++) met[i] |= op_at(i) == n->op;
    add_gradients(r, g, by, &results);
    return m;
}

/* ---- running and comparing ---- */

static void number_put(weft_dtype dtype, void *data, int i, double v) {
    if (dtype == WEFT_F64) ((double *)data)[i] = v;
    if (dtype == WEFT_F32) ((float *)data)[i] = (float)v;
    if (dtype == WEFT_I64) ((int64_t *)data)[i] = (int64_t)v;
    if (dtype == WEFT_I32) ((int32_t *)data)[i] = (int32_t)v;
    if (dtype == WEFT_U8 || dtype == WEFT_BOOL) ((uint8_t *)data)[i] = (uint8_t)v;
}

static double number_get(weft_dtype dtype, const void *data, int i) {
    return dtype == WEFT_F64   ? ((const double *)data)[i]
           : dtype == WEFT_F32 ? ((const float *)data)[i]
           : dtype == WEFT_I64 ? (double)((const int64_t *)data)[i]
           : dtype == WEFT_I32 ? ((const int32_t *)data)[i]
                               : ((const uint8_t *)data)[i];
}

static size_t elements(const weft_port *port) {
    size_t n = 1;
    for (int i = 0; i < port->ndim; i++) n *= (size_t)port->shape[i];
    return n;
}

static void *port_data(const weft_port *port, const answers *all) {
    void *data = test_memory(port->bytes);
    const answer *a = answer_find(all, port->name);
    for (int i = 0; i < (int)elements(port); i++)
        number_put(port->dtype, data, i, a ? a->v[i] : fixed(atoi(port->name + 1), i));
    return data;
}

/* Rows with bounds of their own, and why. 0: the usual one. */
static const struct {
    const char *torch;
    double wide, narrow; /* of the largest element or of 1, in f64 and in f32 */
    const char *reason;
} bounds[] = {
    {"nn.functional.hardsigmoid", 1e-7, 0, "PyTorch's gradient multiplies by 1/6 as an f32"},
    {"nn.functional.scaled_dot_product_attention", 0, 4e-5,
     "scores of 200 are rounded before the exponential"},
    {"nn.functional.logsigmoid", 0, 1e-5, "second gradients are y (1 - y), where y is near 1"},
};

/* f64: 1e-9 of the element, and what is left of numbers that cancel. f32: of the largest element, as near as
 * some times PyTorch's f32. */
static bool is_near(const row *r, const answer *a, bool is_wide, double got, double want, double most) {
    if (isnan(want) || isinf(want)) return isnan(want) ? isnan(got) : got == want;
    if (a->dtype != WEFT_F64 && a->dtype != WEFT_F32) return got == want;
    double off = fabs(got - want), scale = most > 0 ? most : 1;
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
        if (strcmp(bounds[i].torch, r->torch) == 0 &&
            off <= (is_wide ? bounds[i].wide : bounds[i].narrow) * fmax(most, 1))
            return true;
    return is_wide ? off <= 1e-9 * fabs(want) + 1e-12 * fmax(most, 1) : off <= (8 * a->narrow + 2e-6) * scale;
}

/* PyTorch computes their gradients from the result where no number is 0, and from the operand elsewhere. A
 * graph has one way for all numbers: from the operand. */
static bool is_of_operand(const row *r, const answer *a) {
    return a->name[0] == 'z' && (strcmp(r->torch, "prod") == 0 || strcmp(r->torch, "cumprod") == 0);
}

/* What was compared. */
typedef struct tally {
    int samples, values, gradients, seconds, by_results, coarse;
} tally;

static void compare(const row *r, const answer *a, const weft_port *port, const void *data, bool is_wide) {
    double most = 0;
    bool is_same = port->ndim == a->ndim && elements(port) == (size_t)a->n &&
                   (port->dtype == type_in(a, is_wide ? WEFT_F64 : WEFT_F32) || port->dtype == a->dtype);
    for (int i = 0; i < a->ndim && is_same; i++) is_same = port->shape[i] == a->shape[i];
    if (!CHECK_SAYS(is_same, "%s: %s: %s is not %s", r->torch, r->code, a->name, a->type)) return;
    for (int i = 0; i < a->n; i++)
        if (isfinite(a->v[i])) most = fmax(most, fabs(a->v[i]));
    for (int i = 0; i < a->n; i++) {
        double got = number_get(port->dtype, data, i), want = is_of_operand(r, a) ? 0 : a->v[i];
        if (!CHECK_SAYS(is_near(r, a, is_wide, got, want, most),
                        "%s: %s: %s %s in %s: [%d] is %.12g, not %.12g (most %g, f32 %g)", r->torch, r->code,
                        a->name, a->type, is_wide ? "f64" : "f32", i, got, want, most, a->narrow))
            return;
    }
}

/* Of numbers that PyTorch's own f32 has not to three digits, only f64 is compared. */
static bool is_coarse(const answer *a) {
    return !(a->narrow < 1e-3);
}

static void count(tally *t, const answer *a, bool is_wide) {
    t->coarse += !is_wide && is_coarse(a);
    if (!is_wide) return;
    t->values += a->name[0] == 'y';
    t->gradients += a->name[0] == 'g';
    t->seconds += a->name[0] == 'h';
    t->by_results += a->name[0] == 'z';
}

static void run(const row *r, const answers *all, weft_model *m, bool is_wide, tally *t) {
    weft_error e = {0};
    weft_port port;
    weft_feed feeds[MOST_VALUES];
    weft_fetch fetches[MOST_VALUES];
    int n_in = 0, n = 0, wanted = 0;
    weft_compile_options o = {
        .isa = is_wide ? WEFT_ISA_REFERENCE : WEFT_ISA_AUTO, .threads = 2, .verify = true};
    weft_plan *plan = weft_compile(m, &o, &e);
    weft_store *store = plan ? weft_store_new(plan, 1, &e) : NULL;
    weft_session *session = store ? weft_session_open(plan, store, &e) : NULL;
    for (; session && weft_plan_input(plan, "g", n_in, &port); n_in++)
        feeds[n_in] = (weft_feed){port.name, port_data(&port, all), port.bytes};
    for (; session && weft_plan_output(plan, "g", n, &port); n++)
        fetches[n] = (weft_fetch){port.name, test_memory(port.bytes), port.bytes};
    for (int i = 0; i < all->n; i++) wanted += all->of[i].name[0] != 'i' && all->of[i].n;
    CHECK_SAYS(n == wanted, "%s: %s: %d results and gradients, not %d", r->torch, r->code, n, wanted);
    if (CHECK_SAYS(session && weft_run(session, "g", feeds, n_in, fetches, n, &e) == WEFT_OK, "%s: %s: %s",
                   r->torch, r->code, e.text))
        for (int i = 0; i < n; i++) {
            const answer *a = answer_find(all, fetches[i].name);
            weft_plan_output(plan, "g", i, &port);
            if (!CHECK_SAYS(a, "%s: %s: PyTorch has no %s", r->torch, r->code, fetches[i].name)) continue;
            if (is_wide || !is_coarse(a)) compare(r, a, &port, fetches[i].data, is_wide);
            count(t, a, is_wide);
        }
    for (int i = 0; i < n; i++) free(fetches[i].data);
    for (int i = 0; i < n_in; i++) free((void *)feeds[i].data);
    weft_session_close(session);
    weft_store_free(store);
    weft_plan_free(plan);
}

static void check_row(const row *r, const answers *all, bool *met, tally *t) {
    for (int k = 0; k < 2; k++) {
        weft_model *m = model_of(r, all, k ? WEFT_F32 : WEFT_F64, met);
        if (CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s: %s: %s", r->torch, r->code,
                       weft_model_error(m)->text) &&
            m->graphs->outputs) /* else no result has elements */
            run(r, all, m, k == 0, t);
        weft_model_free(m);
    }
    t->samples++;
}

/* Which ops the rows' graphs have. */
static bool met[1000];

/* Samples of the mapped OpInfos that are not rows. */
static const struct {
    int samples;
    const char *reason;
} refused[] = {
#undef REFUSED
#define ROW(...)
#define REFUSED(samples, reason) {samples, reason},
#include "golden/opinfo.h"
};

static void tally_print(const tally *t) {
    int infos = 0, ops = 0;
    for (int i = 0; i < N_ROWS; i++) infos += i == 0 || strcmp(rows[i].torch, rows[i - 1].torch) != 0;
    for (int i = 0; i < op_count(); i++) ops += met[i] && op_at(i)->torch;
    printf(
        "\n%d ops with a PyTorch name in %d samples of %d OpInfos and modules; compared in f64: %d values, "
        "%d gradients, %d second gradients, %d by results; in f32 all but %d, which PyTorch's f32 has not to "
        "three digits\n",
        ops, t->samples, infos, t->values, t->gradients, t->seconds, t->by_results, t->coarse);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        printf("left out: %4d, %s\n", refused[i].samples, refused[i].reason);
}

TEST(samples_of_pytorch_agree_with_pytorch) {
    gzFile file = gzopen(TEST_DATA "/golden/opinfo.txt.gz", "rb");
    char *line = test_memory(LINE_ROOM);
    answers *all = test_memory(sizeof *all);
    tally t = {0};
    NEED(op_count() <= (int)sizeof met && file != NULL && gzgets(file, line, LINE_ROOM));
    for (int i = 0; i < N_ROWS; i++) {
        CHECK(atoi(line + 4) == i); /* else opinfo.h is of another run than opinfo.txt.gz */
        answers_read(all, file, line);
        check_row(&rows[i], all, met, &t);
    }
    gzclose(file);
    free(line);
    free(all);
    tally_print(&t);
}

/* ---- nothing is left out ---- */

static const struct {
    const char *name, *reason; /* an op, or a builder */
} elsewhere[] = {
    {"parameter", "a variable, no function: test_assign"},
    {"state", "the same"},
    {"assign", "the same"},
    {"gradients", "makes the gradients of all rows"},
    {"random_uniform", "its numbers are not PyTorch's: test_random"},
    {"random_normal", "the same"},
    {"dropout", "the same; with p = 0 it leaves no node"},
    {"attention_dropout", "the same"},
    {"weft_random_uniform", "the same"},
    {"weft_random_normal", "the same"},
    {"weft_clamp", "PyTorch's samples have tensors as bounds; weft_hardtanh and weft_relu6 are it"},
    {"weft_offset", "PyTorch's samples add tensors; weft_hardsigmoid has it"},
    {"weft_stop_gradient", "no OpInfo: test_gradients_by"},
    {"weft_rotary", "no OpInfo: test_golden_ops"},
    {"sum_ranks", "of several ranks: test_collectives, and random models"},
    {"gather_ranks", "the same"},
    {"scatter_ranks", "the same"},
    {"broadcast_ranks", "the same"},
    {"rank", "the same"},
    {"world", "the same"},
    {"weft_bincount", "no OpInfo: test_integers"},
    {"weft_strided_slice", "PyTorch's samples are too long: random models, test_from_pytorch"},
    {"weft_affine_grid", "no OpInfo: test_images"},
    {"fold", "the same"},
    {"weft_fold", "the same"},
    {"weft_lstm_op", "recurrent() calls it"},
    {"weft_gru_op", "the same"},
    {"weft_rnn_op", "the same"},
};

static bool is_elsewhere(const char *name) {
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        if (strcmp(elsewhere[i].name, name) == 0) return true;
    return false;
}

TEST(ops_with_a_pytorch_name_are_in_a_sample_or_have_a_reason) {
    for (int i = 0; i < op_count(); i++) {
        const weft_op *op = op_at(i);
        if (!op->torch) continue;
        CHECK_SAYS(met[i] != is_elsewhere(op->name), "%s (%s) is %s", op->name, op->torch,
                   met[i] ? "in a sample, and has a reason not to be"
                          : "in no sample: map its OpInfo in make_opinfo.py");
    }
}

static bool is_called(const char *builder) {
    char call[80];
    snprintf(call, sizeof call, "%s(", builder);
    for (int i = 0; i < N_ROWS; i++)
        if (strstr(rows[i].code, call)) return true;
    return false;
}

/* Layers are these with parameters, which are f32: test_goldens, test_from_pytorch.py. */
TEST(builders_are_in_a_sample_or_have_a_reason) {
    char line[1000], name[60];
    FILE *file = fopen(TEST_DATA "/../include/weft/ops.h", "r");
    NEED(file != NULL);
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "WEFT_API weft_value *%59[a-z0-9_](", name) == 1 ||
            sscanf(line, "WEFT_API int %59[a-z0-9_](", name) == 1)
            CHECK_SAYS(is_called(name) != is_elsewhere(name), "%s is %s", name,
                       is_called(name) ? "in a sample, and has a reason not to be"
                                       : "in no sample: map its OpInfo in make_opinfo.py");
    fclose(file);
}

SUITE("opinfo",
      {T(samples_of_pytorch_agree_with_pytorch), T(ops_with_a_pytorch_name_are_in_a_sample_or_have_a_reason),
       T(builders_are_in_a_sample_or_have_a_reason)})
