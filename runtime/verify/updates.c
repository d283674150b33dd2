/* updates.c - proves that an update which is built from ops is one of its own range. Rules:
 *   L21  what renews parameters or state of a range is computed from parameters, state and gradients of that
 *        range, numbers of the step and constants alone, where shards cut parameters by pointwise ops alone;
 *        each is renewed once, with its bucket's gradients, in the program that updates the bucket
 */
#include "runtime/verify/verify.h"

#include "ops/kit/ops.h"

/* One renewal. */
typedef struct renewal {
    verify_index *x;
    verify_walk walk;
    const weft_variable *bucket;
    const weft_node *gradient; /* where the renewal's gradient comes from */
    int64_t begin;
    bool is_cut; /* shards cut parameters: only pointwise ops keep elements apart */
} renewal;

/* The bucket that a variable is, is a part of or is the state of. */
static const weft_variable *bucket_of(const weft_variable *v) {
    return v->kind == VARIABLE_BUCKET ? v : v->bucket;
}

/* A number of the step that nothing else needs to be asked of: a variable of the optimizer that is not a
 * bucket's state, or a factor that is made of the norm of all gradients. What is computed from numbers is
 * one, too. */
static bool is_number(const weft_value *v) {
    const weft_variable *of = v->variable;
    if (of) return of->kind == VARIABLE_OPTIMIZER && !of->bucket;
    return v->node->op == &weft_op_clip_scale || v->node->op == &weft_op_loss_scale;
}

/* A view, or a change of layout, moves no element to another; numbers have none. */
static bool keeps_apart(const weft_node *n) {
    bool are_numbers = true;
    for (int i = 0; i < n->n_in; i++) are_numbers &= !n->in[i] || n->in[i]->type.ndim == 0;
    return n->op->flags & (OP_POINTWISE | OP_VIEW) || n->op == &weft_op_fused || n->op == &weft_op_reorder ||
           are_numbers;
}

static const char *why_not(void *of, const weft_value *v, bool *goes_on) {
    const renewal *w = of;
    const weft_node *from = v->node;
    if (is_number(v)) return NULL;
    if (v->variable) {
        bool is_own = bucket_of(v->variable) == w->bucket && v->variable->kind != VARIABLE_GRADIENT;
        if (v->variable->kind == VARIABLE_OPTIMIZER) is_own &= v->variable->offset == w->begin;
        if (is_own) return NULL;
        if (v->variable->kind != VARIABLE_GRADIENT)
            return "is renewed from another range's parameters or state";
    }
    if (from == w->gradient) return NULL;
    if (from->op == &weft_op_wait || from->op == &weft_op_bucket || from->op == &weft_op_summed ||
        from->op == &weft_op_accumulate)
        return "is renewed by another gradient";
    if (from->op == &weft_op_constant || from->op == &weft_op_constant_tensor) return NULL;
    if (!from->n_in || from->op->flags & OP_RANDOM) return "is renewed by what is not a part of an update";
    if (w->is_cut && !keeps_apart(from)) return "is renewed by an op that mixes elements of a cut parameter";
    *goes_on = true;
    return NULL;
}

/* The elements of a parameter's state, rounded up to a cache line; 0: it has none. */
static int64_t member_elements(slot_shape shape, const tensor_type *t) {
    enum { LINE = 16 };
    bool is_matrix = t->ndim >= 2;
    int64_t n = type_elements(t);
    if (is_matrix == (shape == SLOT_NO_MATRIX)) return 0;
    if (shape == SLOT_ROWS) n /= t->shape[t->ndim - 1];
    if (shape == SLOT_COLUMNS) n /= t->shape[t->ndim - 2];
    return (n + LINE - 1) / LINE * LINE;
}

/* What the state over the range that ends at `end` must have. */
static int64_t state_elements(const renewal *w, const weft_variable *over, int64_t end) {
    const weft_plan *plan = w->x->plan;
    slot_shape shape = SLOT_LIKE_PARAMETER;
    int64_t sum = 0;
    for (int i = 0; i < plan->n_states; i++)
        if (plan->states[i].variable == over) shape = plan->states[i].shape;
    if (shape == SLOT_LIKE_PARAMETER) return end - w->begin;
    for (int i = 0; i < w->bucket->n_members; i++) {
        const weft_variable *v = w->bucket->members[i];
        if (v->offset >= w->begin && v->offset < end) sum += member_elements(shape, &v->type);
    }
    return sum;
}

/* times[v]: how often variable v was renewed before. */
static const char *check_renew(renewal *w, const weft_node *n, int *times) {
    const weft_variable *over = n->in[0]->variable;
    int64_t end, first;
    w->bucket = over ? bucket_of(over) : NULL;
    if (!w->bucket || n->n_in != 3) return "renews what is not a part of a bucket";
    const subgraph *g = verify_subgraph_of(w->x, w->bucket->members[0]);
    verify_own(w->x, w->bucket, &w->begin, &end);
    w->is_cut = w->bucket->shards && g && g->ddp.shard == WEFT_SHARD_FLAT;
    w->gradient = verify_source_of(n->in[1], &first);
    if (times[over->index]++) return "renews for the second time";
    if (over->kind == VARIABLE_OPTIMIZER &&
        (over->offset != w->begin || type_elements(&over->type) != state_elements(w, over, end)))
        return "renews the state of another range";
    if (w->x->counts[w->bucket->index].updates != 1) return "renews state without the bucket's update";
    const weft_node *start = w->gradient->op == &weft_op_wait ? w->gradient->in[0]->node : w->gradient;
    const weft_variable *of = verify_gradients_in(start);
    if ((of ? of : start->variable) != w->bucket) return "has the gradients of another bucket";
    return verify_walk_back(&w->walk, n->in[2], why_not, w);
}

/* O(nodes) a renewal, and of those there are a few for each bucket. */
bool verify_updates(verify_index *x) {
    renewal w = {.x = x};
    int *times = verify_array(x, x->n_variables, sizeof *times);
    if (!times || !verify_walk_open(&w.walk, x)) return false;
    for (const weft_node *n = x->p->graph->first; n; n = n->next) {
        const char *why = n->op == &weft_op_renew ? check_renew(&w, n, times) : NULL;
        if (why) return verify_broken(x, "L21", n, why);
    }
    return true;
}
