/* epilogue.c - the pass that lets a matrix product do what follows it, before its elements are stored
 * (ops/linalg/epilogue.h):
 *     relu(linear(x, w, b)), gelu_tanh(linear(x, w, b))           -> linear_act
 *     relu_backward(matmul(a, b), y), gelu_tanh_backward(..., z)  -> matmul_act_backward
 *     matmul(dy^T, x) and the sum over rows of dy                 -> linear_weight
 * In bf16 the sum is over the rounded dy, also where it was over an f32 one: as exact as the weight's
 * gradient beside it.
 *
 * A form is used only where the backend has a kernel of its own for it that does not decline the new node, so
 * the plans of a backend without such kernels do not change. A product with another reader stays, except for
 * gelu_tanh's operand, which linear_act returns as a second result. relu keeps its mask only where a backward
 * reads it.
 *
 * The pass runs after `clean`, so every node between two others is needed. Nodes that lose their readers are
 * left to simplify. */
#include "runtime/plan/program.h"
#include "runtime/passes/passes.h"

#include "ops/kit/basic_attrs.h"
#include "ops/linalg/epilogue.h"

#include <string.h>

/* ---- readers of values ---- Replacing a value costs as much as it has readers: they are listed once, and
 * new nodes are added as they are made. value->uses is always right. node->mark is the place in the list; new
 * nodes have that of the node before them. */

/* One element of a linked list of nodes. */
typedef struct reading {
    weft_node *node;
    struct reading *next;
} reading;

/* Heads of lists: the value's first and last reader, and the first product that may be the gradient of a
 * weight with it. */
typedef struct of_value {
    reading *first, *last, *product;
} of_value;

typedef struct epilogue {
    const program *p;
    of_value *of; /* by id of a value */
    size_t ids;
    weft_node *place; /* new nodes come after it */
} epilogue;

/* A new element for the node; NULL after an error. */
static reading *new_reading(const epilogue *e, weft_node *n) {
    weft_graph *g = e->p->graph;
    reading *r = scratch_array(g->model, 1, sizeof *r);
    if (!r) return graph_fail(g, WEFT_MEMORY, "epilogue: out of memory");
    *r = (reading){n, NULL};
    return r;
}

static of_value *of(epilogue *e, const weft_value *v) {
    return &e->of[v->id];
}

/* Adds n to the readers of each operand, once for every place where it reads it. */
static bool note_node(epilogue *e, weft_node *n) {
    weft_graph *g = e->p->graph;
    of_value *more = mem_grow(&g->model->env, e->of, &e->ids, (size_t)g->next_id, sizeof *more);
    if (!more) return graph_fail(g, WEFT_MEMORY, "epilogue: out of memory");
    e->of = more;
    for (int i = 0; i < n->n_in; i++) {
        if (!n->in[i]) continue;
        reading *r = new_reading(e, n);
        if (!r) return false;
        of_value *v = of(e, n->in[i]);
        *(v->last ? &v->last->next : &v->first) = r;
        v->last = r;
    }
    return true;
}

static bool note_all(epilogue *e) {
    graph_count_uses(e->p->graph);
    graph_number(e->p->graph);
    for (weft_node *n = e->p->graph->first; n; n = n->next)
        if (!note_node(e, n)) return false;
    return true;
}

/* Appends the readers of `from` to those of `to`. */
static void move_readers(epilogue *e, weft_value *from, weft_value *to) {
    of_value *a = of(e, from), *b = of(e, to);
    if (a->first) {
        *(b->last ? &b->last->next : &b->first) = a->first;
        b->last = a->last;
    }
    if (!b->product) b->product = a->product;
    *a = (of_value){0};
}

/* Makes every reader of `from`, nodes and outputs, read `to`. */
static void replace(epilogue *e, weft_value *from, weft_value *to) {
    for (const reading *r = of(e, from)->first; r; r = r->next) {
        weft_node *n = r->node;
        for (int i = 0; i < n->n_in; i++) {
            if (n->in[i] != from) continue;
            n->in[i] = to;
            from->uses--;
            to->uses++;
        }
    }
    /* the uses that are left are outputs */
    for (graph_output *o = e->p->graph->outputs; o && from->uses; o = o->next) {
        if (o->value != from) continue;
        o->value = to;
        from->uses--;
        to->uses++;
    }
    move_readers(e, from, to);
}

/* ---- making nodes ---- */

/* Whether the backend has a kernel of the op's own, for some node. The reference kernel belongs to no op. */
static bool is_offered(const program *p, const weft_op *op) {
    const weft_kernel *list[16];
    return kernels_of(p->plan->model->catalog, op, &p->plan->kernels, list, 16) > 0 && list[0]->op == op;
}

/* New nodes go after `place`, with the scope and the stamps of `like`, until end(). */
static void begin_building(epilogue *e, weft_node *place, const weft_node *like, build_place *at) {
    e->place = place;
    build_begin(at, place->graph, like->scope, place);
    place->graph->building_backward = like->is_backward;
}

/* Lists the new nodes and counts what they read. False after an error. */
static bool end(epilogue *e, build_place *at) {
    weft_graph *g = e->p->graph;
    bool good = model_ok(g->model);
    for (weft_node *n = e->place; good && n != g->cursor; n = n->next) {
        n->next->mark = e->place->mark;
        good = note_node(e, n->next);
        for (int i = 0; i < n->next->n_in; i++)
            if (n->next->in[i]) n->next->in[i]->uses++;
    }
    build_end(at);
    return good;
}

/* A node with the user's line of `like`; NULL where no kernel of its own runs it, or after an error. */
static weft_node *make(const epilogue *e, const weft_node *like, const weft_op *op, int n_in,
                       weft_value *const *in, const void *attrs) {
    weft_node *n = node_new(e->p->graph, op, n_in, in, attrs);
    if (!n) return NULL;
    n->file = like->file;
    n->line = like->line;
    const weft_kernel *k = kernel_select(n, &e->p->plan->kernels, &e->p->graph->model->arena, NULL);
    if (k && k->op == n->op) return n;
    node_remove(n);
    return NULL;
}

/* ---- products below reshapes ---- */

static weft_value *below_reshapes(weft_value *v) {
    while (v->node->op == &weft_op_reshape) v = v->node->in[0];
    return v;
}

static bool is_matmul(const weft_node *n) {
    return n->op == &weft_op_matmul && n->in[0]->type.ndim == 2 && n->in[1]->type.ndim == 2;
}

/* The 2-D matmul whose result `v` is, through reshapes, if it has no other reader and is not rounded on the
 * way; else NULL. */
static weft_node *product_of_value(weft_value *v) {
    while (v->uses == 1 && v->node->op == &weft_op_reshape) v = v->node->in[0];
    bool fits = v->uses == 1 && is_matmul(v->node) && v->type.dtype == v->node->in[0]->type.dtype;
    return fits ? v->node : NULL;
}

static int64_t last_axis(const weft_value *v) {
    return v->type.shape[v->type.ndim - 1];
}

/* v as [rows, last axis]. */
static weft_value *as_rows(weft_value *v) {
    if (v->type.ndim == 2) return v;
    return weft_reshape(v, 2, (int64_t[]){type_elements(&v->type) / last_axis(v), last_axis(v)});
}

/* ---- activations ---- */

/* b is an activation's derivative times a product: makes both one node, which reads `kept`, the activation's
 * result or operand. False: it does not fit, no kernel runs it, or an error. */
static bool backward(epilogue *e, weft_node *b, epilogue_act act, weft_value *kept) {
    weft_node *m = product_of_value(b->in[0]);
    weft_value *out = &b->out[0];
    if (!m || !type_equal(&b->in[0]->type, &b->in[1]->type) || last_axis(out) != last_axis(&m->out[0]))
        return false;
    build_place at;
    const matmul_attrs *t = m->attrs;
    matmul_act_attrs a = {.product = {t->transpose_a, t->transpose_b}, .act = act};
    begin_building(e, b, m, &at);
    kept = as_rows(kept);
    weft_node *n =
        kept ? make(e, m, &weft_op_matmul_act_backward, 3, (weft_value *[]){m->in[0], m->in[1], kept}, &a)
             : NULL;
    weft_value *to = n ? &n->out[0] : NULL;
    if (to && out->type.ndim != 2) to = weft_reshape(to, out->type.ndim, out->type.shape);
    if (!end(e, &at) || !to) return false;
    replace(e, out, to);
    return true;
}

/* linear_act for the linear below n; `keep` asks for the second result. */
static weft_node *forward_node(epilogue *e, const weft_node *n, epilogue_act act, bool keep) {
    weft_node *linear = n->in[0]->node;
    build_place at;
    begin_building(e, linear, linear, &at);
    weft_node *made = make(e, linear, &weft_op_linear_act, linear->n_in, linear->in,
                           &(linear_act_attrs){.act = act, .keep = keep});
    return end(e, &at) ? made : NULL;
}

/* Lets every backward of y, relu's result, read what `made` keeps. Returns whether there was one. */
static bool relu_backwards(epilogue *e, const weft_value *y, weft_node *made) {
    bool is_any = false;
    for (const reading *r = made ? of(e, y)->first : NULL; r; r = r->next) {
        weft_node *b = r->node;
        if (b->op == &weft_op_relu_backward && b->in[1] == y && b->out[0].uses)
            is_any |= backward(e, b, ACT_RELU, &made->out[1]);
    }
    return is_any;
}

/* Tries relu with the mask first; without a backward that uses it, again without the mask. */
static void forward(epilogue *e, weft_node *n) {
    epilogue_act act = n->op == &weft_op_relu        ? ACT_RELU
                       : n->op == &weft_op_gelu_tanh ? ACT_GELU_TANH
                                                     : ACT_NONE;
    if (!act) return;
    weft_value *z = n->in[0], *y = &n->out[0];
    if (z->node->op != &weft_op_linear || z->type.dtype != z->node->in[0]->type.dtype) return;
    if (act == ACT_RELU && z->uses > 1) return;
    weft_node *made = forward_node(e, n, act, act == ACT_RELU || z->uses > 1);
    if (act == ACT_RELU && !relu_backwards(e, y, made)) made = forward_node(e, n, act, false);
    if (!made) return;
    replace(e, y, &made->out[0]);
    if (act == ACT_GELU_TANH && made->n_out > 1) replace(e, z, &made->out[1]);
}

/* gelu_tanh's derivative reads the activation's operand. It must be a linear's result: in memory of its own,
 * it is aligned as the library requires. */
static void gelu_backward(epilogue *e, weft_node *b) {
    if (b->op != &weft_op_gelu_tanh_backward || !b->out[0].uses) return;
    const weft_op *maker = below_reshapes(b->in[1])->node->op;
    if (maker == &weft_op_linear || maker == &weft_op_linear_act) backward(e, b, ACT_GELU_TANH, b->in[1]);
}

/* ---- gradients of parameters ---- */

/* Whether n sums a matrix over its rows, as the gradient of a bias does. */
static bool sums_rows(const weft_node *n) {
    const sum_attrs *a = n->attrs;
    if (n->op != &weft_op_sum || n->in[0]->type.ndim < 2 || a->mean || a->keep) return false;
    int ndim = n->in[0]->type.ndim;
    return sum_axes(a, ndim) == (1u << (ndim - 1)) - 1 && n->out[0].uses;
}

/* What an operand of a product is made of, seen through reshapes and through its cast to a reduced type. */
static const weft_value *operand_root(weft_value *v) {
    v = below_reshapes(v);
    bool is_cast = v->node->op == &weft_op_cast && dtype_is_reduced(v->type.dtype);
    return is_cast && v->node->in[0]->type.dtype == WEFT_F32 ? below_reshapes(v->node->in[0]) : v;
}

/* Lists weight products by what their left operands are made of, in the order of the graph's list. */
static bool note_products(epilogue *e) {
    for (weft_node *n = e->p->graph->last; n; n = n->prev) {
        const matmul_attrs *a = n->attrs;
        if (!is_matmul(n) || !a->transpose_a || a->transpose_b) continue;
        const weft_value *roots[2] = {below_reshapes(n->in[0])};
        roots[1] = operand_root(n->in[0]);
        for (int i = 0; i < 2 && (!i || roots[1] != roots[0]); i++) {
            reading *r = new_reading(e, n);
            if (!r) return false;
            r->next = of(e, roots[i])->product;
            of(e, roots[i])->product = r;
        }
    }
    return true;
}

/* The gradient of the weight that belongs to the bias whose gradient `sum` makes; NULL: none. */
static weft_node *weight_gradient(epilogue *e, const weft_node *sum) {
    const weft_value *dy = below_reshapes(sum->in[0]);
    for (const reading *r = of(e, dy)->product; r; r = r->next) {
        weft_node *n = r->node;
        bool is_same = below_reshapes(n->in[0]) == dy || operand_root(n->in[0]) == dy;
        if (n->out[0].uses && is_same && last_axis(n->in[0]) == last_axis(sum->in[0]) &&
            n->out[0].type.dtype == sum->out[0].type.dtype)
            return n;
    }
    return NULL;
}

/* The later of two nodes, if no reader of the earlier comes before it, so that one node there can replace
 * both. Else NULL. */
static weft_node *common_place(epilogue *e, weft_node *a, weft_node *b) {
    weft_node *early = a->mark < b->mark ? a : b, *late = early == a ? b : a;
    for (const reading *r = of(e, &early->out[0])->first; r; r = r->next)
        if (r->node->mark <= late->mark) return NULL;
    return late;
}

/* Makes the gradients of a weight and its bias one node, if both can be made at one place of the list. */
static void sum_with_weight(epilogue *e, weft_node *sum) {
    weft_node *m = sums_rows(sum) ? weight_gradient(e, sum) : NULL,
              *place = m ? common_place(e, sum, m) : NULL;
    if (!place) return;
    build_place at;
    begin_building(e, place, m, &at);
    weft_node *n = make(e, m, &weft_op_linear_weight, 2, m->in,
                        &(linear_attrs){.f32_output = m->out[0].type.dtype != m->in[0]->type.dtype});
    if (!end(e, &at) || !n) return;
    replace(e, &m->out[0], &n->out[0]);
    replace(e, &sum->out[0], &n->out[1]);
}

/* ---- the pass ---- */

/* Where nodes were made, simplify removes those left without readers. */
bool pass_epilogue(program *p) {
    weft_graph *g = p->graph;
    if (!is_offered(p, &weft_op_linear_act) && !is_offered(p, &weft_op_matmul_act_backward) &&
        !is_offered(p, &weft_op_linear_weight))
        return true;
    epilogue e = {.p = p};
    int next_id = g->next_id;
    bool good = note_all(&e);
    for (weft_node *n = g->first; n && good; n = n->next) forward(&e, n);
    for (weft_node *n = g->first; n && good; n = n->next) gelu_backward(&e, n);
    good = good && note_products(&e);
    for (weft_node *n = g->first; n && good; n = n->next) sum_with_weight(&e, n);
    mem_free(&g->model->env, e.of, e.ids * sizeof *e.of);
    if (!model_ok(g->model)) return false;
    return g->next_id == next_id || (pass_simplify(g) && graph_order_edges(g));
}
