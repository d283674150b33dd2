/* op_case.c - see op_case.h. */
#include "tools/graphtool/bench/op_case.h"

#include "graph/core/element.h"
#include "graph/core/graph.h"
#include "graph/core/nearest.h"
#include "ops/catalog/catalog.h"

#include <math.h>
#include <string.h>

#define MOST_BYTES (16.0 * (1 << 20))

/* "f32[2,3], -, i64[2]", up to `end`; false: that is wrong. */
static bool read_types(const char *at, const char *end, op_case *c) {
    while (at < end) {
        if (c->n_in == OP_CASE_IN) return false;
        if (*at == '-')
            c->in[c->n_in].ndim = -1, at++;
        else if (!type_parse(&at, &c->in[c->n_in]))
            return false;
        c->n_in++;
        if (at < end && *at++ != ',') return false;
        at += strspn(at, " ");
    }
    return at == end;
}

static _Noreturn void refuse_op(const char *name) {
    nearest near = nearest_to(name, strlen(name));
    for (int i = 0; i < op_count(); i++) nearest_try(&near, op_at(i)->name);
    tool_fail("bench: --op: there is no op '%.60s'%s", name,
              near.name ? tool_text(": did you mean %s?", near.name) : "");
}

op_case op_case_read(const char *text) {
    op_case c = {0};
    const char *open = strchr(text, '('), *close = open ? strchr(open, ')') : NULL;
    if (!close)
        tool_fail("bench: --op=%s: a call such as \"matmul(f32[64,64], f32[64,64])\" is needed, or all",
                  text);
    const char *name = tool_cut(text, open);
    c.op = op_find(&weft_catalog, name, strlen(name));
    if (!c.op) refuse_op(name);
    if (!read_types(open + 1, close, &c))
        tool_fail("bench: --op=%s: types of operands such as f32[2,3] are needed, with ',' between them",
                  text);
    const char *attrs = close + 1 + strspn(close + 1, " "), *scope = strstr(close, " in ");
    c.attrs = scope && scope >= attrs ? tool_cut(attrs, scope) : scope ? "" : attrs;
    return c;
}

const char *op_case_text(const op_case *c) {
    text t = {0};
    text_add(&t, "%s(", c->op->name);
    for (int i = 0; i < c->n_in; i++)
        text_add(&t, "%s%s", i ? ", " : "", c->in[i].ndim < 0 ? "-" : type_show(&c->in[i]).text);
    text_add(&t, ")%s%s", *c->attrs ? " " : "", c->attrs);
    return tool_take(&t);
}

/* ---- graphs ---- */

static const op_sample *sample_of(const weft_op *op);

/* Is this name, n bytes, that of an attribute given? */
static bool has_attr(const char *attrs, const char *name, size_t n) {
    for (const char *at = attrs; *at; at += strcspn(at, " "), at += strspn(at, " "))
        if (strncmp(at, name, n) == 0 && at[n] == '=') return true;
    return false;
}

/* Adds to tool_why which attributes of the sample the call leaves out, and the sample. */
static void add_missing(const op_case *c) {
    const op_sample *s = sample_of(c->op);
    text missing = {0};
    for (const char *at = s && s->attrs ? s->attrs : ""; *at; at += strcspn(at, " "), at += strspn(at, " ")) {
        size_t n = strcspn(at, "= ");
        if (at[n] == '=' && !has_attr(c->attrs, at, n))
            text_add(&missing, "%s%.*s", missing.length ? ", " : "", (int)n, at);
    }
    if (!missing.length) return;
    error_set(&tool_why, tool_why.status, "%s",
              tool_text("%s; not given: %s, as in %s(%s) %s", tool_why.text, tool_take(&missing), c->op->name,
                        s->in, s->attrs));
}

static weft_status say_why(weft_status status, const char *why) {
    return error_set(&tool_why, status, "%s", why);
}

/* Adds the node to the graph; WEFT_OK, or tool_why says why not. By functions, not macros, as errors must not
 * name a line here. */
static weft_status add_node(const op_case *c, weft_graph *g) {
    weft_value *in[OP_CASE_IN] = {NULL};
    char why[200];
    const char *at = c->attrs;
    void *attrs = arena_new(&g->model->arena, c->op->attrs_bytes + 1);
    if (!attrs) return say_why(WEFT_MEMORY, "out of memory");
    if (!attrs_parse(&at, c->op, attrs, &g->model->arena, why)) return say_why(WEFT_SHAPE, why);
    for (int i = 0; i < c->n_in; i++)
        if (c->in[i].ndim >= 0)
            in[i] = (weft_input)(g, tool_text("in%d", i), c->in[i].dtype, c->in[i].ndim, c->in[i].shape);
    weft_node *n = weft_model_error(g->model)->status ? NULL : node_new(g, c->op, c->n_in, in, attrs);
    for (int i = 0; n && i < n->n_out; i++) (weft_output)(&n->out[i], tool_text("out%d", i));
    if (!weft_model_error(g->model)->status) return WEFT_OK;
    tool_why = *weft_model_error(g->model);
    return tool_why.status;
}

weft_model *op_case_model(const op_case *c) {
    weft_model *m = (weft_model_new)("op");
    weft_graph *g = (weft_graph_new)(m, "op", WEFT_EVAL);
    if (g && add_node(c, g) == WEFT_OK) return m;
    add_missing(c);
    weft_model_free(m);
    return NULL;
}

/* ---- samples, enlarged ---- */

static bool is_good(const op_case *c) {
    weft_model *m = op_case_model(c);
    weft_model_free(m);
    return m != NULL;
}

static double bytes_of(const op_case *c) {
    double bytes = 0;
    for (int i = 0; i < c->n_in; i++) {
        double elements = c->in[i].ndim < 0 ? 0 : 1;
        for (int d = 0; d < c->in[i].ndim; d++) elements *= (double)c->in[i].shape[d];
        bytes += elements * (double)dtype_bytes(c->in[i].dtype);
    }
    return bytes;
}

/* All axes longer than 1 times k, or only the first axes that are as long as that of operand 0. */
static op_case scaled(const op_case *c, int64_t k, bool is_first_alone) {
    op_case big = *c;
    for (int i = 0; i < c->n_in; i++)
        for (int d = 0; d < c->in[i].ndim; d++) {
            bool is_batch = d == 0 && c->in[i].shape[0] == c->in[0].shape[0];
            if (c->in[i].shape[d] > 1 && (is_batch || !is_first_alone)) big.in[i].shape[d] *= k;
        }
    return big;
}

/* The largest good one that is at most so large; false: none is larger than the sample. */
static bool enlarge(op_case *c, bool is_first_alone) {
    op_case best = *c;
    for (int64_t k = 2; k <= 1 << 20; k *= 2) {
        op_case big = scaled(c, k, is_first_alone);
        if (bytes_of(&big) > MOST_BYTES || bytes_of(&big) <= bytes_of(&best) || !is_good(&big)) break;
        best = big;
    }
    bool is_larger = bytes_of(&best) > bytes_of(c);
    *c = best;
    return is_larger;
}

/* Of the first sample that is right. */
static const op_sample *sample_of(const weft_op *op) {
    const op_sample *s = op->samples;
    while (s && s->in && s->error) s++;
    return s && s->in ? s : NULL;
}

bool op_case_of(const weft_op *op, op_case *c) {
    const unsigned alone =
        OP_VARIABLE | OP_IS_VARIABLE | OP_COMMUNICATES | OP_EFFECT | OP_WRITES | OP_COMPILER;
    const op_sample *s = sample_of(op);
    *c = (op_case){.op = op, .attrs = s && s->attrs ? s->attrs : ""};
    if (!s || !*s->in || op->flags & alone || !read_types(s->in, s->in + strlen(s->in), c) || !is_good(c))
        return false;
    if (!enlarge(c, false)) enlarge(c, true);
    return true;
}

/* ---- operands ---- */

/* SplitMix64 (Steele, Lea, Flood 2014), as a number in [0, 1). */
static double next_number(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

void op_case_fill(const op_case *c, int operand, void *data) {
    const tensor_type *type = &c->in[operand];
    const op_sample *s = sample_of(c->op);
    bool has_range = s && (s->low != 0 || s->high != 0), has_integers = s && (s->least || s->below);
    double low = has_range ? s->low : -2, high = has_range ? s->high : 2;
    double least = has_integers ? (double)s->least : 0, below = has_integers ? (double)s->below : 4;
    int64_t count = (int64_t)(type_bytes(type) / dtype_bytes(type->dtype));
    tensor values = {.data = data, .type = {type->dtype, 1}, .stride = {1}};
    uint64_t state = (uint64_t)operand + 1;
    if (type->dtype == WEFT_BOOL) least = 0, below = 2;
    for (int64_t i = 0; i < count; i++) {
        double number = next_number(&state);
        bool is_real = dtype_is_float(type->dtype);
        element_set(&values, &i,
                    is_real ? low + number * (high - low) : floor(least + number * (below - least)));
    }
}
