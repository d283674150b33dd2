/* node.c - reads back the lines of a graph: "%7 f32[4] = relu(%3) in scope bwd by simd @5 +0x4000".
 *
 * node_new makes each node and infers its results again, and the types in the line must agree. Nodes that
 * infer rejects because only passes make them (`fused` nodes, operands in a kernel's packed form) take their
 * types from the line instead. */
#include "graph/core/kernel.h"
#include "graph/text/read.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* A parsed call "%7 f32[4], %8 f32[] = op(%1, -, path) name=value ...", of a node or of a body node. */
typedef struct call {
    int n_out;
    int id[OP_MAX_OUT];
    tensor_type type[OP_MAX_OUT];
    bool has_layout[OP_MAX_OUT];
    int64_t stride[OP_MAX_OUT][WEFT_MAX_NDIM];
    const weft_op *op;
    int n_in;
    weft_value **in;
    void *attrs;
} call;

/* A fused node's body while it is read. Its values take precedence over the graph's of the same number. */
typedef struct body {
    int n;
    weft_node *node[FUSED_MAX_BODY];
    const call *whole;
} body;

/* ---- values ---- */

/* Types come from untrusted text, so they pass type_check_or_empty before strides are computed. */
bool layout_read(reader *r, tensor_type *type, bool *has_layout, int64_t stride[WEFT_MAX_NDIM]) {
    if (!type_parse(&r->at, type) || !type_check_or_empty(type))
        return reader_fail(r, "a type like f32[2,3], no axis below 0, is expected at '%s'",
                           show_name(r->at, strcspn(r->at, " \n")).text);
    stride_row_major(type, stride);
    *has_layout = *r->at == ':';
    if (!*has_layout) return true;
    stride_channels_last(type, stride);
    if (reader_accept(r, ":nhwc")) return type->ndim == 4 || reader_fail(r, ":nhwc needs 4 axes");
    if (reader_accept(r, ":ndhwc")) return type->ndim == 5 || reader_fail(r, ":ndhwc needs 5 axes");
    if (!reader_want(r, ":s(")) return false;
    for (int i = 0; i < type->ndim; i++)
        if ((i && !reader_want(r, ",")) || !reader_int(r, 0, (int64_t)1 << 46, &stride[i])) return false;
    return reader_want(r, ")");
}

/* NULL: no parameter has the path of so many characters. */
static weft_variable *parameter_named(const reader *r, const char *at, size_t length) {
    char path[1001];
    if (length >= sizeof path) return NULL;
    snprintf(path, sizeof path, "%.*s", (int)length, at);
    weft_variable *v = variable_find(r->m, path);
    return v && v->kind == VARIABLE_PARAMETER ? v : NULL;
}

/* The graph's one `parameter` node of v (I4), made at its first use, with the first number that the text does
 * not use. */
static weft_value *parameter_value(reader *r, weft_variable *v) {
    weft_value **known = &r->parameter[v->index];
    if (*known && (*known)->node->graph == r->g) return *known;
    weft_graph *g = r->g;
    while (r->free_id < r->n_values && r->is_used[r->free_id]) r->free_id++;
    g->next_id = r->free_id++;
    *known = node_value(g, &weft_op_parameter, 0, NULL, &(variable_attrs){v->path});
    if (!*known) return NULL;
    const char *slash = strrchr(v->path, '/');
    char *scope = slash ? arena_printf(&g->model->arena, "%.*s", (int)(slash - v->path), v->path) : NULL;
    if (scope) (*known)->node->scope = scope_intern(g->model, scope);
    return (*known)->node->scope ? *known : NULL;
}

/* A name that is not "%", a parameter or "-" is an error. */
bool value_read(reader *r, const char *ends, weft_value **v) {
    int64_t id;
    *v = NULL;
    if (reader_accept(r, "%")) {
        if (!reader_int(r, 0, INT_MAX, &id)) return false;
        if (id < r->n_values) *v = r->values[id];
        return *v || reader_fail(r, "no earlier line defines %%%jd", id);
    }
    char stop[24] = "\n";
    size_t n = strcspn(r->at, strncat(stop, ends, sizeof stop - 2));
    weft_variable *p = parameter_named(r, r->at, n);
    if (p)
        *v = parameter_value(r, p);
    else if (n != 1 || *r->at != '-')
        return reader_fail(r, "there is no parameter '%s'", show_name(r->at, n).text);
    r->at += n;
    return *v || !p;
}

/* A body node reads earlier body nodes or operands of the whole node, nothing else. */
static bool operand_read(reader *r, const body *b, weft_value **v) {
    if (b && *r->at == '%') {
        const char *number = r->at++;
        int64_t id;
        if (!reader_int(r, 0, INT_MAX, &id)) return false;
        for (int i = 0; i < b->n; i++)
            if (b->node[i]->out[0].id == id) return (*v = &b->node[i]->out[0]) != NULL;
        /* Not a body node: read the number again as a value of the graph. */
        r->at = number;
    }
    if (!value_read(r, ",) ;}", v)) return false;
    for (int i = 0; b && i < b->whole->n_in; i++)
        if (b->whole->in[i] == *v) return true;
    return !b || reader_fail(r, "the body of a fused node reads a value that is not an operand of the node");
}

/* ---- calls ---- */

bool op_read(reader *r, const weft_op **op) {
    size_t n = strcspn(r->at, "(\n");
    *op = r->at[n] == '(' ? model_op(r->m, r->at, n) : NULL;
    if (!*op) return reader_fail(r, "%s", op_missing(r->m, r->at, n).text);
    r->at += n + 1;
    return true;
}

/* Bytes that the line only names are those of a `data` line before it. */
static bool bytes_find(reader *r, attr_bytes *v) {
    char name[20];
    if (v->n || !v->hash) return true;
    snprintf(name, sizeof name, "%016jx", v->hash);
    const attr_bytes *found = table_find(&r->bytes, name);
    if (found) *v = *found;
    return found || reader_fail(r, "no line before this one has the data @%s", name);
}

bool attrs_read(reader *r, const weft_op *op, void **attrs) {
    char why[200];
    *attrs = arena_new(&r->m->arena, op->attrs_bytes + 1);
    if (!*attrs) return reader_fail(r, "out of memory");
    if (!attrs_parse(&r->at, op, *attrs, &r->m->arena, why)) return reader_fail(r, "%s", why);
    for (const op_attr *f = op->attrs; f && f->name; f++)
        if (f->kind == ATTR_BYTES && !bytes_find(r, &ATTR_FIELD(attr_bytes, *attrs, f))) return false;
    return true;
}

/* "%7 f32[4], %8 f32[] = "; nothing for nodes without results. */
static bool results_read(reader *r, call *c) {
    if (*r->at != '%') return true;
    do {
        int64_t id;
        int k = c->n_out++;
        if (k == OP_MAX_OUT) return reader_fail(r, "more than %d results", OP_MAX_OUT);
        if (!reader_want(r, "%") || !reader_int(r, 0, INT_MAX - 1, &id) || !reader_want(r, " ") ||
            !layout_read(r, &c->type[k], &c->has_layout[k], c->stride[k]))
            return false;
        c->id[k] = (int)id;
    } while (reader_accept(r, ", "));
    return reader_want(r, " = ");
}

/* The number of commas bounds the number of operands. */
static bool operands_read(reader *r, call *c, const body *b) {
    c->in = arena_new_array(&r->m->arena, reader_items(r, "\n)"), sizeof *c->in);
    if (!c->in) return reader_fail(r, "out of memory");
    if (*r->at == ')') return reader_want(r, ")");
    do
        if (!operand_read(r, b, &c->in[c->n_in++])) return false;
    while (reader_accept(r, ", "));
    return reader_want(r, ")");
}

static bool call_read(reader *r, call *c, const body *b) {
    return results_read(r, c) && op_read(r, &c->op) && operands_read(r, c, b) &&
           attrs_read(r, c->op, &c->attrs);
}

/* Nodes of the compiler whose types infer cannot derive. */
static bool is_past_infer(const call *c) {
    if (c->op == &weft_op_fused) return true;
    for (int i = 0; i < c->n_in && !(c->op->flags & OP_VARIABLE); i++)
        if (c->in[i] && strcmp(c->in[i]->node->op->name, "pack") == 0) return true;
    return false;
}

/* Makes the node and compares its result types with the line's; the results get the line's numbers and
 * layouts. */
static weft_node *call_make(reader *r, const call *c) {
    weft_graph *g = r->g;
    reader_place(r);
    for (int i = 0; i < c->op->min_in && i < c->n_in; i++)
        if (!c->in[i]) return reader_fail(r, "%s: operand %d is missing", c->op->name, i), NULL;
    weft_node *n = is_past_infer(c) ? node_new_typed(g, c->op, c->n_in, c->in, c->attrs, c->n_out, c->type)
                                    : node_new(g, c->op, c->n_in, c->in, c->attrs);
    if (!n) return NULL;
    if (n->n_out != c->n_out)
        return reader_fail(r, "%s has %d results, but the line has %d", n->op->name, n->n_out, c->n_out),
               NULL;
    for (int k = 0; k < n->n_out; k++) {
        weft_value *v = &n->out[k];
        if (!type_equal(&v->type, &c->type[k]))
            return reader_fail(r, "%s returns %s, but the line has %s", n->op->name, TYPE(&v->type),
                               TYPE(&c->type[k])),
                   NULL;
        v->id = c->id[k];
        v->has_layout = c->has_layout[k];
        memcpy(v->stride, c->stride[k], sizeof v->stride);
    }
    if (n->n_out) n->id = n->out[0].id;
    if (op_draws_random(n->op)) g->next_random++;
    return n;
}

/* ---- fused nodes ---- */

/* Body nodes are made in the graph, for their checks, and then removed from its list. */
static bool body_node_read(reader *r, body *b) {
    call c = {0};
    if (b->n == FUSED_MAX_BODY) return reader_fail(r, "fused: more than %d nodes", FUSED_MAX_BODY);
    if (!call_read(r, &c, b)) return false;
    if (!(c.op->flags & OP_POINTWISE) || c.n_out != 1)
        return reader_fail(r, "fused: %s is not pointwise with one result", c.op->name);
    weft_node *n = call_make(r, &c);
    if (!n) return false;
    node_remove(n);
    b->node[b->n++] = n;
    return true;
}

/* Reads " {%8 f32[4] = add(%1, %2); %9 f32[4] = relu(%8)}". */
static bool body_read(reader *r, body *b) {
    if (b->whole->n_in > FUSED_MAX_IN) return reader_fail(r, "fused: more than %d operands", FUSED_MAX_IN);
    if (!reader_want(r, " {")) return false;
    do
        if (!body_node_read(r, b)) return false;
    while (reader_accept(r, "; "));
    return reader_want(r, "}");
}

/* Gives the node its body, and finds the body value with each result's number. */
static bool body_attach(reader *r, const body *b, weft_node *n) {
    arena *a = &r->m->arena;
    n->body = arena_new_array(a, b->n, sizeof *n->body);
    n->body_out = arena_new_array(a, n->n_out, sizeof *n->body_out);
    if (!n->body || !n->body_out) return reader_fail(r, "out of memory");
    n->n_body = b->n;
    memcpy(n->body, b->node, (size_t)b->n * sizeof *n->body);
    for (int k = 0; k < n->n_out; k++) {
        for (int i = 0; i < b->n; i++)
            if (b->node[i]->out[0].id == n->out[k].id) n->body_out[k] = &b->node[i]->out[0];
        if (!n->body_out[k]) return reader_fail(r, "fused: no node of the body defines %%%d", n->out[k].id);
        if (!type_equal(&n->body_out[k]->type, &n->out[k].type))
            return reader_fail(r, "fused: %%%d has two types", n->out[k].id);
    }
    return true;
}

/* ---- a line ---- */

/* Enters the results in the table of numbers; a number made twice is an error. */
static bool values_enter(reader *r, weft_node *n) {
    for (int k = 0; k < n->n_out; k++) {
        int id = n->out[k].id;
        if (id >= r->n_values || r->values[id]) return reader_fail(r, "%%%d is made twice", id);
        r->values[id] = &n->out[k];
    }
    return true;
}

/* The limits count over the whole text, inputs over one graph. */
bool node_read(reader *r) {
    call c = {0};
    body b = {.whole = &c};
    if (!r->g) return reader_fail(r, "'model', a kind of variable or 'graph' must begin the line");
    if (r->n_nodes++ == MODEL_MAX_NODES) return reader_fail(r, "more than %d nodes", MODEL_MAX_NODES);
    if (!call_read(r, &c, NULL)) return false;
    if (c.op == &weft_op_parameter) return reader_fail(r, "parameters are named by path where they are used");
    if (c.op == &weft_op_input && r->n_inputs++ == MODEL_MAX_INPUTS)
        return reader_fail(r, "more than %d inputs", MODEL_MAX_INPUTS);
    if (c.op == &weft_op_fused && !body_read(r, &b)) return false;
    weft_node *n = call_make(r, &c);
    if (!n) return false;
    if (c.op == &weft_op_fused && !body_attach(r, &b, n)) return false;
    return notes_read(r, n) && values_enter(r, n);
}
