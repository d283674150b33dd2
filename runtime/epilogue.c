/* epilogue.c - the pass that lets a matrix product do what follows it before its elements are stored (ops/epilogue.h):
 *     relu(linear(x, w, b)), gelu_tanh(linear(x, w, b))           -> linear_act
 *     relu_backward(matmul(a, b), y), gelu_tanh_backward(..., z)  -> matmul_act_backward
 *     matmul(dy^T, x) and the sum over rows of dy                 -> linear_weight
 * In bf16 that sum is of the rounded dy, if it was of an f32 one: as exact as the weight's gradient beside it.
 *
 * A form is taken only where the backend has a kernel of its own that does not decline the new node, so a backend
 * without such rows keeps its plans as they are. A product that somebody else reads stays, but for gelu_tanh's operand:
 * linear_act gives it as a second result. relu gives its mask only where a backward was found that reads it.
 *
 * It stands behind `clean`, so that what is between two nodes is there for a reason; nodes that lose their readers are
 * left to simplify.
 */
#include "runtime/program.h"

#include "ops/basic_attrs.h"
#include "ops/epilogue.h"

extern const weft_op weft_op_relu, weft_op_relu_backward, weft_op_gelu_tanh, weft_op_gelu_tanh_backward,
    weft_op_sum, weft_op_reshape;

/* ---- making nodes ---- */

/* Whether the backend has a kernel of its own for the node, or for some node of the op; the reference is nobody's. */
static bool is_taken(const program *p, const weft_node *n) {
    const weft_kernel *k = kernel_choose(n, &p->plan->kernels, &p->graph->model->arena, NULL);
    return k && k->op == n->op;
}

static bool is_offered(const program *p, const weft_op *op) {
    const weft_kernel *list[16];
    return kernels_of(op, &p->plan->kernels, list, 16) > 0 && list[0]->op == op;
}

/* New nodes go behind `place`, with the stamps of `like`. */
static void begin(weft_node *place, const weft_node *like, scope_entry *scope) {
    weft_graph *g = place->graph;
    *scope = (scope_entry){.parent = g->scope, .path = like->scope};
    g->cursor = place;
    g->scope = scope;
    g->building_backward = like->is_backward;
}

static void end(weft_graph *g) {
    g->scope = g->scope->parent;
    g->cursor = NULL;
    g->building_backward = false;
}

/* NULL where no kernel takes it, or after an error. */
static weft_node *make(const program *p, const weft_node *like, const weft_op *op, int n_in,
                       weft_value *const *in, const void *attrs) {
    weft_node *n = node_new(p->graph, op, n_in, in, attrs);
    if (!n) return NULL;
    n->file = like->file;
    n->line = like->line;
    if (is_taken(p, n)) return n;
    node_remove(n);
    return NULL;
}

static void replace(weft_value *from, weft_value *to) {
    graph_replace(from->node->graph, from, to);
    graph_count_uses(from->node->graph);
}

/* ---- products below reshapes ---- */

static weft_value *below_reshapes(weft_value *v) {
    while (v->node->op == &weft_op_reshape) v = v->node->in[0];
    return v;
}

static bool is_matmul(const weft_node *n) {
    return n->op == &weft_op_matmul && n->in[0]->type.ndim == 2 && n->in[1]->type.ndim == 2;
}

/* The matmul whose result `v` is, read by nobody else and not rounded on its way; or NULL. */
static weft_node *product_of_value(weft_value *v) {
    while (v->uses == 1 && v->node->op == &weft_op_reshape) v = v->node->in[0];
    bool fits = v->uses == 1 && is_matmul(v->node) && v->type.dtype == v->node->in[0]->type.dtype;
    return fits ? v->node : NULL;
}

static int64_t last_axis(const weft_value *v) {
    return v->type.shape[v->type.ndim - 1];
}

static weft_value *as_rows(weft_value *v) {
    if (v->type.ndim == 2) return v;
    return weft_reshape(v, 2, (int64_t[]){type_elements(&v->type) / last_axis(v), last_axis(v)});
}

/* ---- activations ---- */

static epilogue_act act_of(const weft_node *n) {
    return n->op == &weft_op_relu ? ACT_RELU : n->op == &weft_op_gelu_tanh ? ACT_GELU_TANH : ACT_NONE;
}

/* Node b: the activation's derivative, times a product. */
static bool backward(const program *p, weft_node *b, epilogue_act act, weft_value *kept) {
    weft_node *m = product_of_value(b->in[0]);
    weft_value *out = &b->out[0];
    if (!m || !type_equal(&b->in[0]->type, &b->in[1]->type) || last_axis(out) != last_axis(&m->out[0]))
        return false;
    scope_entry scope;
    const matmul_attrs *t = m->attrs;
    matmul_act_attrs a = {.product = {t->transpose_a, t->transpose_b}, .act = act};
    begin(b, m, &scope);
    kept = as_rows(kept);
    weft_node *n =
        kept ? make(p, m, &weft_op_matmul_act_backward, 3, (weft_value *[]){m->in[0], m->in[1], kept}, &a)
             : NULL;
    weft_value *to = n ? &n->out[0] : NULL;
    if (to && out->type.ndim != 2) to = weft_reshape(to, out->type.ndim, out->type.shape);
    end(p->graph);
    if (to) replace(out, to);
    return to != NULL;
}

static weft_node *forward_node(const program *p, const weft_node *n, epilogue_act act, bool keep) {
    weft_node *linear = n->in[0]->node;
    scope_entry scope;
    begin(linear, linear, &scope);
    weft_node *made = make(p, linear, &weft_op_linear_act, linear->n_in, linear->in,
                           &(linear_act_attrs){.act = act, .keep = keep});
    end(p->graph);
    return made;
}

/* Whether any backward of y, relu's result, goes by what `made` keeps from now on. */
static bool relu_backwards(const program *p, const weft_value *y, weft_node *made) {
    bool is_any = false;
    for (weft_node *b = made ? made->next : NULL; b; b = b->next)
        if (b->op == &weft_op_relu_backward && b->in[1] == y && b->out[0].uses)
            is_any |= backward(p, b, ACT_RELU, &made->out[1]);
    return is_any;
}

static void forward(const program *p, weft_node *n) {
    epilogue_act act = act_of(n);
    if (!act) return;
    weft_value *z = n->in[0], *y = &n->out[0];
    if (z->node->op != &weft_op_linear || z->type.dtype != z->node->in[0]->type.dtype) return;
    if (act == ACT_RELU && z->uses > 1) return;
    weft_node *made = forward_node(p, n, act, act == ACT_RELU || z->uses > 1);
    if (act == ACT_RELU && !relu_backwards(p, y, made)) made = forward_node(p, n, act, false);
    if (!made) return;
    replace(y, &made->out[0]);
    if (act == ACT_GELU_TANH && made->n_out > 1) replace(z, &made->out[1]);
}

/* gelu_tanh's goes by its operand, whoever made it; in memory of its own it is aligned as the library wants it. */
static void gelu_backward(const program *p, weft_node *b) {
    if (b->op != &weft_op_gelu_tanh_backward || !b->out[0].uses) return;
    const weft_op *maker = below_reshapes(b->in[1])->node->op;
    if (maker == &weft_op_linear || maker == &weft_op_linear_act) backward(p, b, ACT_GELU_TANH, b->in[1]);
}

/* ---- gradients of parameters ---- */

static bool sums_rows(const weft_node *n) {
    const sum_attrs *a = n->attrs;
    if (n->op != &weft_op_sum || n->in[0]->type.ndim < 2 || a->mean || a->keep) return false;
    int ndim = n->in[0]->type.ndim;
    return sum_axes(a, ndim) == (1u << (ndim - 1)) - 1 && n->out[0].uses;
}

/* What an operand of a product is made of: seen through its cast to a low type too. */
static const weft_value *operand_root(weft_value *v) {
    v = below_reshapes(v);
    bool is_cast = v->node->op == &weft_op_cast && dtype_is_low(v->type.dtype);
    return is_cast && v->node->in[0]->type.dtype == WEFT_F32 ? below_reshapes(v->node->in[0]) : v;
}

/* The gradient of the weight whose bias has the gradient that `sum` makes. */
static weft_node *weight_gradient(const weft_node *sum) {
    const weft_value *dy = below_reshapes(sum->in[0]);
    for (weft_node *n = sum->graph->first; n; n = n->next) {
        const matmul_attrs *a = n->attrs;
        if (!is_matmul(n) || !a->transpose_a || a->transpose_b || !n->out[0].uses) continue;
        bool is_same = below_reshapes(n->in[0]) == dy || operand_root(n->in[0]) == dy;
        if (is_same && last_axis(n->in[0]) == last_axis(sum->in[0]) &&
            n->out[0].type.dtype == sum->out[0].type.dtype)
            return n;
    }
    return NULL;
}

static bool reads(const weft_node *n, const weft_value *v) {
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] == v) return true;
    return false;
}

/* The later of two nodes, where both may stand: no reader of the earlier stands before it. Else NULL. */
static weft_node *common_place(weft_node *a, weft_node *b) {
    weft_node *late = a->next;
    while (late && late != b) late = late->next;
    weft_node *early = late ? a : b;
    late = late ? b : a;
    for (const weft_node *n = early; n != late; n = n->next)
        if (reads(n->next, &early->out[0])) return NULL;
    return late;
}

static void sum_with_weight(const program *p, weft_node *sum) {
    weft_node *m = sums_rows(sum) ? weight_gradient(sum) : NULL, *place = m ? common_place(sum, m) : NULL;
    if (!place) return;
    scope_entry scope;
    begin(place, m, &scope);
    weft_node *n = make(p, m, &weft_op_linear_weight, 2, m->in,
                        &(linear_attrs){.wide = m->out[0].type.dtype != m->in[0]->type.dtype});
    end(p->graph);
    if (!n) return;
    replace(&m->out[0], &n->out[0]);
    replace(&sum->out[0], &n->out[1]);
}

/* ---- the pass ---- */

bool pass_epilogue(program *p) {
    weft_graph *g = p->graph;
    if (!is_offered(p, &weft_op_linear_act) && !is_offered(p, &weft_op_matmul_act_backward) &&
        !is_offered(p, &weft_op_linear_weight))
        return true;
    graph_count_uses(g);
    for (weft_node *n = g->first; n; n = n->next) forward(p, n);
    for (weft_node *n = g->first; n; n = n->next) gelu_backward(p, n);
    for (weft_node *n = g->first; n; n = n->next) sum_with_weight(p, n);
    return model_ok(g->model) && pass_simplify(g) && graph_order_edges(g);
}
