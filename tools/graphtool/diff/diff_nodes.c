/* diff_nodes.c - the changes within a graph of both: scopes, nodes, outputs. */
#include "tools/graphtool/diff/diff.h"

#include "tools/graphtool/options/options.h"
#include "tools/graphtool/output/end.h"

#include "ops/kit/basic_attrs.h"
#include "ops/kit/ops.h"

#include <stdlib.h>
#include <string.h>

/* Two nodes that are a pair, and what is found of them. */
typedef struct pairing {
    const diff_graph *g;
    const weft_node *n[2];
    text words;  /* "; stride 2,2 -> 1,1" */
    bool is_own; /* something does not follow from other changes */
} pairing;

static void differs(pairing *p, bool is_own, const char *what, const char *a, const char *b) {
    p->is_own |= is_own;
    text_add(&p->words, "; %s%s%s -> %s", what, *what ? " " : "", *a ? a : "default", *b ? b : "default");
}

/* ---- attributes ---- */

/* Without the name: "2,2" of " stride=2,2"; "" where it is not set. */
static const char *field_text(const op_attr *f, const void *attrs) {
    text t = {0};
    attr_write(&t, f, attrs);
    const char *all = tool_take(&t), *equals = strchr(all, '=');
    return equals ? equals + 1 : *all ? "true" : "";
}

/* Of the numbers that are attributes only lengths follow: shapes, and where a slice ends. Strides, kernels,
 * paddings and where a slice begins are set by hand, except where a part begins at the end of another. */
static bool is_length(const weft_node *n, const op_attr *f) {
    if (f->kind == ATTR_INT) return n->op->flags & OP_VIEW && strcmp(f->name, "end") == 0;
    return f->kind == ATTR_INTS && has_word("shape size", f->name);
}

static attr_ints lengths_of(const weft_node *n, const op_attr *f) {
    if (f->kind == ATTR_INTS) return ATTR_FIELD(const attr_ints, n->attrs, f);
    return (attr_ints){.n = 1, .v = {ATTR_FIELD(const int64_t, n->attrs, f)}};
}

/* Whether a slice begins where `before`, a slice of the same value, ends. */
static bool begins_at_end(const weft_node *n, const weft_node *before) {
    slice_attrs a, b;
    if (!before || n->op != &weft_op_slice || before->op != n->op || before->in[0] != n->in[0]) return false;
    const tensor_type *of = &n->in[0]->type;
    return slice_range(n->attrs, of, &a) && slice_range(before->attrs, of, &b) && a.axis == b.axis &&
           a.begin == b.end;
}

/* Whether it begins in both graphs at the end of the same other part: then its begin follows from that. */
static bool begin_follows(const pairing *p, const op_attr *f) {
    const match_side *s = &p->g->pair->side[0];
    if (p->n[0]->op != &weft_op_slice || strcmp(f->name, "begin")) return false;
    for (int i = match_place(s, p->n[0]->in[0]->node); i < s->n; i++)
        if (begins_at_end(p->n[0], s->nodes[i]) &&
            begins_at_end(p->n[1], match_other(p->g->pair, 0, s->nodes[i])))
            return true;
    return false;
}

/* Lengths follow from those of the operands. */
static bool field_follows(const pairing *p, const op_attr *f) {
    if (begin_follows(p, f)) return true;
    if (!is_length(p->n[0], f)) return false;
    diff_ratios r = diff_batches(p->g);
    for (int i = 0; i < p->n[0]->n_in && i < p->n[1]->n_in; i++)
        if (p->n[0]->in[i] && p->n[1]->in[i])
            diff_note_axes(&r, &p->n[0]->in[i]->type, &p->n[1]->in[i]->type);
    const attr_ints a = lengths_of(p->n[0], f), b = lengths_of(p->n[1], f);
    return diff_explains_numbers(&r, &a, &b);
}

static void compare_fields(pairing *p) {
    for (const op_attr *f = p->n[0]->op->attrs; f && f->name; f++) {
        if (!match_compares(p->n[0], f)) continue;
        const char *a = field_text(f, p->n[0]->attrs), *b = field_text(f, p->n[1]->attrs);
        if (strcmp(a, b)) differs(p, !field_follows(p, f), f->name, a, b);
    }
}

/* The ops in a `fused` node, the first of them. */
static const char *body_text(const weft_node *n) {
    enum { SHOWN = 5 };
    text t = {0};
    for (int i = 0; i < n->n_body && i < SHOWN; i++) text_add(&t, i ? ", %s" : "%s", n->body[i]->op->name);
    if (n->n_body > SHOWN) text_add(&t, " and %d more", n->n_body - SHOWN);
    return tool_take(&t);
}

static void compare_bodies(pairing *p) {
    const match_side *s = p->g->pair->side;
    int a = match_place(&s[0], p->n[0]), b = match_place(&s[1], p->n[1]);
    if (!p->n[0]->n_body && !p->n[1]->n_body) return;
    if (s[0].key[KEY_CALL][a] != s[1].key[KEY_CALL][b])
        differs(p, true, "of", body_text(p->n[0]), body_text(p->n[1]));
}

static void compare_calls(pairing *p) {
    const weft_node *a = p->n[0], *b = p->n[1];
    if (a->op != b->op && strcmp(a->op->name, b->op->name)) {
        differs(p, true, "op", a->op->name, b->op->name);
        return;
    }
    compare_fields(p);
    compare_bodies(p);
    if (a->variable && b->variable && !match_is_named(a)) {
        const char *path = match_path(p->g->pair, 0, a->variable->path);
        if (strcmp(path, b->variable->path)) differs(p, true, "of", a->variable->path, b->variable->path);
    }
}

/* ---- operands ---- */

/* "fc/weight", "input x", "conv2d of block/1" */
static const char *value_name(const weft_value *v) {
    if (!v) return "nothing";
    const weft_node *n = v->node;
    if (n->op == &weft_op_input) return tool_text("input %s", input_name(n));
    if (match_is_named(n)) return n->variable->path;
    return tool_text("%s%s%s", n->op->name, *n->scope ? " of " : "", n->scope);
}

/* What sets one value apart from another of the same name: "slice (begin 8, end 16) of block/1". Where the
 * calls are alike, its id says it: "relu (%12)". */
static const char *name_apart(const weft_value *v, const weft_value *from) {
    const weft_node *n = v->node, *other = from->node;
    text t = {0};
    for (const op_attr *f = n->op->attrs; f && f->name && n->op == other->op; f++) {
        const char *mine = field_text(f, n->attrs);
        if (match_compares(n, f) && strcmp(mine, field_text(f, other->attrs)))
            text_add(&t, "%s%s %s", t.length ? ", " : "", f->name, *mine ? mine : "default");
    }
    if (v->index != from->index) text_add(&t, "%sresult %d", t.length ? ", " : "", v->index);
    if (!t.length) text_add(&t, "%%%d", v->id);
    return tool_text("%s (%s)%s%s", n->op->name, tool_take(&t), *n->scope ? " of " : "", n->scope);
}

/* The names of a value of each graph, which differ. */
typedef struct two_names {
    const char *v[2];
} two_names;

static two_names names_apart(const weft_value *a, const weft_value *b) {
    const two_names t = {{value_name(a), value_name(b)}};
    if (!a || !b || strcmp(t.v[0], t.v[1])) return t;
    return (two_names){{name_apart(a, b), name_apart(b, a)}};
}

/* The node of the other graph that makes the operand; NULL: it is in one of the two alone. */
static const weft_node *counterpart(const pairing *p, int side, const weft_value *v) {
    return v ? match_other(p->g->pair, side, v->node) : NULL;
}

static bool reads_same(const pairing *p, const weft_value *a, const weft_value *b) {
    if (!a || !b) return a == b;
    return counterpart(p, 0, a) == b->node && a->index == b->index;
}

/* One operand that differs. Where a node of one graph alone makes it, it follows from that node. */
static bool operand_follows(const pairing *p, const weft_value *a, const weft_value *b) {
    return (a && !counterpart(p, 0, a)) || (b && !counterpart(p, 1, b));
}

/* Operand by operand; of many that differ only how many they are. */
static void compare_operands(pairing *p) {
    enum { SHOWN = 3 };
    const weft_node *a = p->n[0], *b = p->n[1];
    int most = a->n_in > b->n_in ? a->n_in : b->n_in, n = 0;
    for (int i = 0; i < most; i++) {
        const weft_value *from = i < a->n_in ? a->in[i] : NULL, *to = i < b->n_in ? b->in[i] : NULL;
        if (reads_same(p, from, to)) continue;
        p->is_own |= !operand_follows(p, from, to);
        const two_names read = names_apart(from, to);
        if (++n <= SHOWN) differs(p, false, "reads", read.v[0], read.v[1]);
    }
    if (n > SHOWN)
        text_add(&p->words, "; reads %d more operands that differ (%d -> %d in all)", n - SHOWN, a->n_in,
                 b->n_in);
}

/* ---- results ---- */

/* Whether any operand is of another type: then that of the result follows. */
static bool has_other_operands(const pairing *p) {
    const weft_node *a = p->n[0], *b = p->n[1];
    for (int i = 0; i < a->n_in && i < b->n_in; i++)
        if (a->in[i] && b->in[i] && !type_equal(&a->in[i]->type, &b->in[i]->type)) return true;
    return a->n_in != b->n_in;
}

static void compare_results(pairing *p) {
    const weft_node *a = p->n[0], *b = p->n[1];
    const diff_ratios batches = diff_batches(p->g);
    bool follows = p->words.length > 0 || has_other_operands(p);
    if (a->n_out != b->n_out)
        differs(p, !follows, "results", tool_text("%d", a->n_out), tool_text("%d", b->n_out));
    for (int k = 0; k < a->n_out && k < b->n_out; k++) {
        const tensor_type *from = &a->out[k].type, *to = &b->out[k].type;
        if (!type_equal(from, to))
            differs(p, !follows && !diff_explains(&batches, from, to),
                    k ? tool_text("result %d", k) : "result", TYPE(from), TYPE(to));
    }
}

/* ---- places ---- */

static void compare_places(pairing *p) {
    const match_side *s = p->g->pair->side;
    int from = s[0].scope[match_place(&s[0], p->n[0])], to = s[1].scope[match_place(&s[1], p->n[1])];
    if (s[0].scopes[from].other != to && !match_is_named(p->n[0]))
        differs(p, true, "scope", *p->n[0]->scope ? p->n[0]->scope : "(no scope)",
                *p->n[1]->scope ? p->n[1]->scope : "(no scope)");
    if (p->n[0]->kernel && p->n[1]->kernel && strcmp(p->n[0]->kernel->name, p->n[1]->kernel->name))
        differs(p, true, "kernel", p->n[0]->kernel->name, p->n[1]->kernel->name);
}

/* ---- nodes ---- */

/* Names of variables are in the list of those; their shapes, too. */
static bool is_variable(const weft_node *n) {
    return match_is_named(n) && n->op != &weft_op_input;
}

static const char *node_path(const weft_node *n) {
    return n->op == &weft_op_input ? input_name(n) : n->scope;
}

/* Whether a look at the keys and the operands shows that nothing differs. */
static bool looks_same(const pairing *p, int a, int b) {
    const match_side *s = p->g->pair->side;
    const weft_node *x = p->n[0], *y = p->n[1];
    if (s[0].key[KEY_EXACT][a] != s[1].key[KEY_EXACT][b] || x->n_in != y->n_in) return false;
    if (s[0].scopes[s[0].scope[a]].other != s[1].scope[b]) return false;
    if (x->kernel != y->kernel || !attrs_equal(x->op, x->attrs, y->attrs)) return false;
    for (int i = 0; i < x->n_in; i++)
        if (!reads_same(p, x->in[i], y->in[i])) return false;
    return true;
}

static void compare_pair(difference *d, int graph, int a, int b) {
    const diff_graph *g = &d->graphs[graph];
    pairing p = {.g = g, .n = {g->pair->side[0].nodes[a], g->pair->side[1].nodes[b]}};
    if (is_variable(p.n[0]) || looks_same(&p, a, b)) return;
    compare_calls(&p);
    compare_operands(&p);
    compare_results(&p);
    compare_places(&p);
    if (!p.words.length && !p.words.failed) return;
    diff_add(d, (diff_change){.kind = DIFF_CHANGED,
                              .what = DIFF_NODE,
                              .follows = !p.is_own,
                              .graph = graph,
                              .node = {p.n[0], p.n[1]},
                              .path = node_path(p.n[0]),
                              .op = p.n[0]->op->name,
                              .text = tool_take(&p.words) + 2});
}

/* "stride=2,2; f32[8,64,7,7]" */
static const char *call_text(const weft_node *n) {
    text t = {0};
    for (const op_attr *f = n->op->attrs; f && f->name; f++)
        if (match_compares(n, f)) attr_write(&t, f, n->attrs);
    for (int k = 0; k < n->n_out; k++)
        text_add(&t, "%s%s", k ? ", " : t.length ? "; " : "", TYPE(&n->out[k].type));
    const char *words = tool_take(&t);
    return words + (*words == ' ');
}

static void add_node(difference *d, int graph, int side, int place) {
    const weft_node *n = d->graphs[graph].pair->side[side].nodes[place];
    if (is_variable(n)) return;
    diff_change c = {.kind = side ? DIFF_ADDED : DIFF_REMOVED,
                     .what = DIFF_NODE,
                     .graph = graph,
                     .path = node_path(n),
                     .op = n->op->name,
                     .text = call_text(n)};
    c.node[side] = n;
    diff_add(d, c);
}

/* In the order of the first; the second's own come where they are in that. */
static void compare_nodes(difference *d, int graph) {
    const match_side *s = d->graphs[graph].pair->side;
    int next = 0;
    for (int i = 0; i < s[0].n; i++) {
        int other = s[0].other[i];
        for (; next <= other; next++)
            if (s[1].other[next] < 0) add_node(d, graph, 1, next);
        if (other < 0)
            add_node(d, graph, 0, i);
        else
            compare_pair(d, graph, i, other);
    }
    for (; next < s[1].n; next++)
        if (s[1].other[next] < 0) add_node(d, graph, 1, next);
}

/* ---- scopes and outputs ---- */

static int by_stem(const void *pa, const void *pb) {
    uint64_t a = *(const uint64_t *)pa, b = *(const uint64_t *)pb;
    return (a > b) - (a < b);
}

/* Scopes in one graph alone: keys of their names without numbers and the scope that they are in, sorted. */
typedef struct stems {
    int n;
    uint64_t *v;
} stems;

static stems stems_alone(const match_side s[2]) {
    stems all = {.v = tool_new((size_t)s[0].n_scopes + (size_t)s[1].n_scopes, sizeof *all.v)};
    for (int side = 0; side < 2; side++)
        for (int i = 1; i < s[side].n_scopes; i++) {
            const match_scope *it = &s[side].scopes[i];
            int in = side && it->other < 0 ? s[1].scopes[it->parent].other : it->parent;
            if (it->other < 0) all.v[all.n++] = match_stem(it->name, (uint64_t)in);
        }
    qsort(all.v, (size_t)all.n, sizeof *all.v, by_stem);
    return all;
}

/* Where layers are counted, and one of them is in one graph alone, the others' numbers follow. */
static bool is_counted_on(const stems *alone, const match_scope *a, const match_scope *b) {
    uint64_t stem = match_stem(a->name, (uint64_t)a->parent);
    return stem == match_stem(b->name, (uint64_t)a->parent) &&
           bsearch(&stem, alone->v, (size_t)alone->n, sizeof *alone->v, by_stem);
}

/* What is in a scope with another name has that name in its path: one change says it. */
static void compare_scopes(difference *d, int graph) {
    const match_side *s = d->graphs[graph].pair->side;
    const stems alone = stems_alone(s);
    for (int i = 1; i < s[0].n_scopes; i++) {
        const match_scope *a = &s[0].scopes[i], *b = a->other < 0 ? NULL : &s[1].scopes[a->other];
        bool is_in_same = b && s[0].scopes[a->parent].other == b->parent;
        if (!b || (is_in_same && strcmp(a->name, b->name) == 0)) continue;
        diff_add(d, (diff_change){.kind = DIFF_CHANGED,
                                  .what = DIFF_SCOPE,
                                  .follows = is_in_same && is_counted_on(&alone, a, b),
                                  .graph = graph,
                                  .path = a->path,
                                  .op = "",
                                  .text = tool_text("name %s -> %s", a->path, b->path)});
    }
}

static const graph_output *output_named(const weft_graph *g, const char *name) {
    return table_find(&g->by_name, name);
}

static void compare_outputs(difference *d, int graph) {
    const diff_graph *g = &d->graphs[graph];
    const pairing p = {.g = g};
    for (int side = 0; side < 2; side++)
        for (const graph_output *o = g->g[side]->outputs; o; o = o->next) {
            const graph_output *other = output_named(g->g[!side], o->name);
            diff_change c = {.kind = side ? DIFF_ADDED : DIFF_REMOVED,
                             .what = DIFF_OUTPUT,
                             .graph = graph,
                             .path = o->name,
                             .op = "",
                             .text = value_name(o->value)};
            if (other && (side || reads_same(&p, o->value, other->value))) continue;
            c.node[side] = o->value->node;
            if (other) {
                c.kind = DIFF_CHANGED;
                c.node[1] = other->value->node;
                c.follows = !counterpart(&p, 0, o->value) || !counterpart(&p, 1, other->value);
                const two_names made = names_apart(o->value, other->value);
                c.text = tool_text("%s -> %s", made.v[0], made.v[1]);
            }
            diff_add(d, c);
        }
}

void diff_graph_nodes(difference *d, int graph) {
    compare_scopes(d, graph);
    compare_nodes(d, graph);
    compare_outputs(d, graph);
}
