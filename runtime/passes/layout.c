/* layout.c - the pass that gives every value its strides, decides which nodes are views, and selects kernels.
 *
 * Images and volumes (four and five axes) that image ops touch are channels-last throughout; pointwise
 * results follow their operands; all else is row-major. Where a kernel does not accept an operand's layout, a
 * `reorder` node comes before it; where it wants the operand in a form of its own (a convolution's weight), a
 * `pack` node. A cast of a parameter, like a packed parameter, is a derived value, made once per update;
 * where a kernel packs a weight that is cast, the pack reads the f32 parameter and does both. Views (permute,
 * slice, reshape, broadcast) have no memory: only strides and an offset in their operand's memory. */
#include "graph/text/text.h"
#include "ops/catalog/catalog.h"
#include "runtime/plan/program.h"
#include "runtime/passes/passes.h"
#include "runtime/plan/value.h"

#include "ops/image/pack.h"
#include "ops/kit/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void set_layout(weft_value *v, bool channels_last) {
    if (channels_last)
        stride_channels_last(&v->type, v->stride);
    else
        stride_row_major(&v->type, v->stride);
    v->has_layout = true;
}

/* The state of the pass on one program. */
typedef struct placer {
    program *p;
    name_table made; /* conversions made so far, by a text that says from what and how */
    /* Ops that no kernel of the backend can run, each once: "attention %12, softmax %15", and the reasons. */
    int n_lacking;
    const weft_op **lacking; /* in m->scratch */
    const char *names, *reasons;
} placer;

/* Enters v under `key`; returns v, or NULL after an error. */
static weft_value *note_made(placer *l, weft_value *v, const char *key) {
    arena *a = &l->p->graph->model->scratch;
    const char *copy = arena_copy(a, key);
    return copy && table_add(&l->made, a, copy, v) ? v : NULL;
}

typedef struct reorder_key {
    char text[32];
} reorder_key;

static reorder_key key_of(const weft_value *from, bool channels_last) {
    reorder_key key;
    snprintf(key.text, sizeof key.text, "%d %s", from->id, channels_last ? "nhwc" : "nchw");
    return key;
}

/* Enters a reorder that an earlier pass made, so that later readers use it too. */
static bool note_reorder(placer *l, const weft_node *n) {
    bool channels_last = lies_channels_last(&n->out[0]);
    if (n->op != &weft_op_reorder || channels_last == lies_row_major(&n->out[0])) return true;
    return note_made(l, &n->out[0], key_of(n->in[0], channels_last).text) != NULL;
}

/* A node of one operand before n, for n alone; NULL after an error. It belongs to n's part of the step: a
 * bucket that waited for a copy outside the update would not move up to the gradient, and its sum over ranks
 * would start late. */
static weft_node *made_before(weft_node *n, const weft_op *op, weft_value *from, const void *attrs,
                              bool channels_last) {
    build_place at;
    build_begin(&at, n->graph, n->scope, n->prev);
    weft_node *made = node_new(n->graph, op, 1, &from, attrs);
    build_end(&at);
    if (!made) return NULL;
    made->is_backward = n->is_backward;
    made->is_update = n->is_update;
    set_layout(&made->out[0], channels_last);
    return made;
}

/* `v` in the wanted layout: `v` itself, a conversion made before for any reader, or a new reorder node before
 * n. NULL after an error. */
static weft_value *converted(placer *l, weft_node *n, weft_value *v, bool channels_last) {
    if (channels_last ? lies_channels_last(v) : lies_row_major(v)) return v;
    reorder_key key = key_of(v, channels_last);
    weft_value *known = table_find(&l->made, key.text);
    if (known) return known;
    weft_node *r = made_before(n, &weft_op_reorder, v, NULL, channels_last);
    return r ? note_made(l, &r->out[0], key.text) : NULL;
}

/* ---- views ---- */

/* Whether v is a view of a view of ... : questions about its memory walk down all of them, so a deeper one
 * becomes a copy. */
static bool is_deep(const weft_value *v) {
    enum { MOST = 32 };
    int depth = 0;
    for (; v->base && depth < MOST; v = v->base) depth++;
    return depth == MOST;
}

/* Makes n a view where strides can express it, of a row-major copy of its operand if need be. Otherwise n
 * stays without a base, and its kernel makes a copy. */
static bool make_view(placer *l, weft_node *n) {
    weft_value *from = n->in[0], *to = &n->out[0];
    int64_t offset = 0;
    if (is_deep(from)) {
        set_layout(to, false); /* its kernel makes a copy */
        return true;
    }
    if (!n->op->view(n, from->stride, to->stride, &offset)) {
        from = converted(l, n, from, false);
        if (!from) return false;
        n->in[0] = from;
        if (!n->op->view(n, from->stride, to->stride, &offset)) {
            set_layout(to, false); /* strides cannot express it at all: its kernel makes a copy */
            return true;
        }
    }
    to->has_layout = true;
    to->base = from;
    to->base_offset = offset;
    return true;
}

/* ---- operands and results ---- */

/* Puts a reorder before each operand whose layout the kernel does not accept. NULL: without a kernel, all is
 * row-major. */
static bool place_operands(placer *l, weft_node *n, const weft_kernel *kernel) {
    for (int i = 0; i < n->n_in; i++) {
        layout_rule rule = kernel_input_layout(kernel, n, i);
        if (!n->in[i] || rule == LIES_ANYHOW) continue;
        n->in[i] = converted(l, n, n->in[i], rule == LIES_CHANNELS_LAST);
        if (!n->in[i]) return false;
    }
    return true;
}

/* Whether pointwise results are channels-last: they are when an operand that is an image or a volume is, and
 * is not row-major too. */
static bool pointwise_channels_last(const weft_node *n) {
    for (int i = 0; i < n->n_in; i++) {
        const weft_value *v = n->in[i];
        if (v && type_is_image(&v->type) && lies_channels_last(v) && !lies_row_major(v)) return true;
    }
    return false;
}

/* Pointwise results are channels-last where an operand is; other results as the op's best kernel writes them.
 */
static void place_results(weft_node *n) {
    bool pointwise = n->op->flags & OP_POINTWISE || n->op == &weft_op_fused;
    bool channels_last = pointwise && pointwise_channels_last(n);
    for (int k = 0; k < n->n_out; k++) {
        weft_value *v = &n->out[k];
        if (v->has_layout) continue;
        set_layout(v, pointwise ? channels_last : kernel_output_layout(NULL, n, k) == LIES_CHANNELS_LAST);
    }
}

/* ---- kernels ---- */

/* Notes that nothing can run the op. The pass continues, so that one error names all such ops. */
static bool note_lacking(placer *l, const weft_node *n, const char *why) {
    arena *a = &n->graph->model->scratch;
    const char *gap = l->n_lacking ? ", " : "", *semicolon = l->n_lacking ? "; " : "";
    for (int i = 0; i < l->n_lacking; i++)
        if (l->lacking[i] == n->op) return true;
    l->lacking = arena_grow(a, l->lacking, (size_t)l->n_lacking, sizeof *l->lacking);
    l->names = arena_printf(a, "%s%s%s %%%d", l->names ? l->names : "", gap, n->op->name, n->id);
    l->reasons = arena_printf(a, "%s%s%s: %s", l->reasons ? l->reasons : "", semicolon, n->op->name, why);
    if (!l->lacking || !l->names || !l->reasons) return false;
    l->lacking[l->n_lacking++] = n->op;
    return true;
}

static bool tell_lacking(const placer *l) {
    weft_graph *g = l->p->graph;
    return graph_fail(g, WEFT_UNSUPPORTED, "%s: no kernel of this backend can run %s (%s)", l->names,
                      l->n_lacking == 1 ? "it" : "them",
                      l->n_lacking == 1 ? l->reasons + strlen(l->lacking[0]->name) + 2 : l->reasons);
}

/* Selects a kernel for n. Where there is none n->kernel stays NULL, which the pass reports at its end. */
static bool choose(placer *l, weft_node *n) {
    weft_model *m = n->graph->model;
    const char *declined = NULL;
    n->kernel = kernel_select(n, &l->p->plan->kernels, &m->arena, &declined);
    n->declined = declined;
    if (n->kernel) return true;
    if (declined && strstr(declined, "out of memory"))
        return model_fail(m, n->graph, WEFT_MEMORY, "%s %%%d: %s", n->op->name, n->id, declined);
    const char *own = "its program defines a kernel for CPUs alone";
    return note_lacking(l, n, declined ? declined : n->op->own ? own : "there is none");
}

static bool takes_operands(const weft_node *n) {
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && !layout_fits(kernel_input_layout(n->kernel, n, i), &n->in[i]->type, n->in[i]->stride))
            return false;
    return true;
}

/* Operands are placed for the best kernel before kernels may decline the node. If a less general one is
 * selected, operands are placed as it wants and the selection is repeated; a better kernel may then win after
 * all, with more than it asks for. */
static bool place_and_select(placer *l, weft_node *n) {
    const weft_kernel *list[16];
    int count = kernels_of(l->p->plan->model->catalog, n->op, &l->p->plan->kernels, list, 16);
    if (!place_operands(l, n, count ? list[0] : NULL)) return false;
    place_results(n);
    while (choose(l, n)) {
        if (!n->kernel || takes_operands(n)) return true;
        if (!place_operands(l, n, n->kernel)) return false;
    }
    return false;
}

/* ---- constants ---- */

/* The bytes of a tensor are in memory of the session from its opening on: one variable for all nodes of equal
 * bytes, in all programs. Its path is their hash; where it is taken, another number follows. */
static bool keep_constant(weft_node *n) {
    weft_model *m = n->graph->model;
    const attr_bytes *bytes = constant_bytes(n);
    tensor_type type = type_of(WEFT_U8, 1, (int64_t[]){(int64_t)bytes->n});
    weft_variable *v = NULL;
    for (int k = 0; !v; k++) {
        char path[60];
        snprintf(path, sizeof path, "constant.%016jx.%d", bytes->hash, k);
        v = variable_find(m, path);
        if (v && (v->kind != VARIABLE_CONSTANT || !bytes_equal(v->bytes, bytes)))
            v = NULL;
        else if (!v && !(v = variable_new(m, path, VARIABLE_CONSTANT, &type, (weft_init){0})))
            return false;
    }
    v->bytes = bytes;
    n->out[0].variable = v;
    return true;
}

/* ---- packed operands ---- */

/* Whether v is a parameter, or a view of it, as of the start of the run: not what an assign has written. */
static bool is_of_parameter(const weft_value *v) {
    return value_root(v)->node->op == &weft_op_parameter;
}

/* What is made of a parameter, or of a view of it, is a derived value: it outlasts the run and is made again
 * when the parameter has changed. All programs that make the same (equal hash) share the variable. */
static bool derive(weft_node *n, uint64_t hash) {
    weft_model *m = n->graph->model;
    const weft_variable *from = value_root(n->in[0])->variable;
    char path[1400];
    if (!is_of_parameter(n->in[0])) return true;
    snprintf(path, sizeof path, "derived.%s/%016jx", from->path, hash);
    weft_variable *v = variable_shared(m, path, VARIABLE_DERIVED, &n->out[0].type, (weft_init){0});
    n->out[0].variable = v;
    return v != NULL;
}

/* A graph makes each derived value by one cast: of two that make the same (of a broadcast, and of a broadcast
 * of a reshape) all readers read the first, through value->mapped. */
static bool derive_cast(placer *l, weft_node *n) {
    const weft_variable *from = value_root(n->in[0])->variable;
    text t = {0};
    if (!is_of_parameter(n->in[0])) return true; /* its operand is a copy, not the parameter */
    text_add(&t, "cast of %s ", from->path);
    size_t prefix = t.length;
    node_signature(&t, n);
    text_add(&t, " from %jd", value_offset(n->in[0]));
    char *key = text_detach(&t);
    if (!key) return false;
    weft_value *first = table_find(&l->made, key);
    bool good = first || (derive(n, hash_text(key + prefix, 0)) && note_made(l, &n->out[0], key));
    n->out[0].mapped = first;
    free(key);
    return good;
}

static void remove_mapped(weft_graph *g) {
    graph_replace_mapped(g);
    for (weft_node *n = g->first, *next; n; n = next) {
        next = n->next;
        if (n->op == &weft_op_cast && n->out[0].mapped) node_remove(n);
    }
}

/* Handles casts of parameters at the end, when it is known which are still read: a cast whose readers all
 * read packs has no use left and is removed, so that updates wait for the packs instead. The others become
 * derived values. */
static bool derive_casts(placer *l) {
    weft_graph *g = l->p->graph;
    bool is_any = false;
    graph_count_uses(g);
    graph_clear_mapped(g);
    for (weft_node *n = g->first, *next; n; n = next) {
        next = n->next;
        if (!casts_parameter(n)) continue;
        is_any = true;
        if (!n->out[0].uses)
            node_remove(n);
        else if (!derive_cast(l, n))
            return false;
    }
    if (is_any) remove_mapped(g);
    return !is_any || graph_order_edges(g);
}

/* What a pack of `v` reads: the parameter where `v` is a cast of it, else `v`. */
static weft_value *pack_source(weft_value *v) {
    bool is_cast = v->node->op == &weft_op_cast && v->node->in[0]->variable && casts_parameter(v->node);
    return is_cast ? v->node->in[0] : v;
}

/* A new pack node before n for its operand i; NULL after an error. */
static weft_value *new_pack(placer *l, weft_node *n, weft_value *from, const pack_attrs *a) {
    weft_node *m = made_before(n, &weft_op_pack, from, a, false);
    bool good =
        m && choose(l, m) && derive(m, hash_text(a->of, (uint64_t)(a->operand + 16 * value_offset(from))));
    return good ? &m->out[0] : NULL;
}

/* Operand i of n in the form that its kernel prefers: u8[bytes]. Equal packs in a graph are made once; the
 * key is the source and the signature of n. */
static weft_value *packed(placer *l, weft_node *n, int i, size_t bytes) {
    weft_value *out = NULL, *from = pack_source(n->in[i]);
    text t = {0};
    text_add(&t, "%d %d %zu ", from->id, i, bytes);
    size_t prefix = t.length;
    node_signature(&t, n);
    char *key = text_detach(&t);
    if (!key) return NULL;
    for (char *q = key; *q; q++)
        if (*q == '"') *q = '\''; /* the text becomes a quoted attribute */
    pack_attrs a = {.of = key + prefix, .operand = i, .bytes = (int64_t)bytes};
    if (!(out = table_find(&l->made, key)) && (out = new_pack(l, n, from, &a))) out = note_made(l, out, key);
    free(key);
    return out;
}

/* Replaces operands by packs where the selected kernel asks for them. */
static bool pack_operands(placer *l, weft_node *n) {
    if (!n->kernel || !n->kernel->packed_bytes) return true;
    for (int i = 0; i < n->n_in; i++) {
        size_t bytes = n->in[i] ? n->kernel->packed_bytes(n, i, &l->p->plan->kernels) : 0;
        if (!bytes) continue;
        weft_value *v = packed(l, n, i, bytes);
        if (!v) return false;
        n->in[i] = v;
    }
    return true;
}

/* ---- the pass ---- */

/* Layout, views and kernel of one node; its operands are done. Variables and collectives have no kernel,
 * except assigns. */
static bool layout_node(placer *l, weft_node *n) {
    if (n->op == &weft_op_constant_tensor) {
        place_results(n);
        return keep_constant(n);
    }
    if (n->op == &weft_op_input || n->op->flags & (OP_IS_VARIABLE | OP_COMMUNICATES)) {
        if (!place_operands(l, n, NULL)) return false;
        place_results(n);
        return n->op->flags & OP_COMMUNICATES || !(n->op->flags & OP_WRITES) || choose(l, n);
    }
    if (n->op->flags & OP_VIEW) {
        if (!make_view(l, n)) return false;
        return n->out[0].base ? true : place_and_select(l, n);
    }
    if (n->kernel) return true; /* a pack node, placed when it was made */
    return place_and_select(l, n) && pack_operands(l, n);
}

/* Outputs are fetched as they are in memory, so they must be row-major. */
static bool place_outputs(placer *l) {
    weft_graph *g = l->p->graph;
    for (graph_output *o = g->outputs; o; o = o->next) {
        if (lies_row_major(o->value)) continue;
        weft_node *r = node_new(g, &weft_op_reorder, 1, &o->value, NULL);
        if (!r) return false;
        set_layout(&r->out[0], false);
        if (!choose(l, r)) return false;
        o->value = &r->out[0];
    }
    return true;
}

/* The pass: one walk, in which conversions are inserted before their readers. Missing kernels are reported
 * together at the end. */
bool pass_layout(program *p) {
    placer state = {.p = p}, *l = &state;
    for (weft_node *n = p->graph->first; n; n = n->next) {
        weft_node *before = n->prev;
        if (!layout_node(l, n) || !note_reorder(l, n)) return false;
        /* Conversions made before n need kernels too; their operands are placed already. */
        for (weft_node *m = before ? before->next : p->graph->first; m != n; m = m->next)
            if (!m->kernel && m->op == &weft_op_reorder && !choose(l, m)) return false;
    }
    if (!place_outputs(l)) return false;
    if (l->n_lacking) return tell_lacking(l);
    return derive_casts(l) && graph_sort(p->graph);
}
