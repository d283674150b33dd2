/* summed.c - proves that the sum over ranks which a strategy built for a bucket is one of that bucket.
 * Rules:
 *   L23  what `summed` names is computed from its own bucket's gradients, the strategy's state for this
 *        bucket and constants alone, and the gradients are among them; every collective on the way is of
 *        this bucket, so over its process group; such a bucket is not sharded, and its strategy's state is
 *        assigned by what is computed from the same alone
 */
#include "runtime/verify/verify.h"

#include "ops/kit/ops.h"

#include <string.h>

/* The walk back from one node. */
typedef struct sum_walk {
    verify_walk walk;
    const weft_variable *bucket;
    bool has_gradient;
} sum_walk;

/* Whether v is state that the strategy keeps for bucket s, by its path. */
static bool is_state(const weft_variable *v, const weft_variable *s) {
    static const char head[] = "strategy/";
    size_t n = strlen(s->path);
    return v->kind == VARIABLE_OPTIMIZER && strncmp(v->path, head, sizeof head - 1) == 0 &&
           strncmp(v->path + sizeof head - 1, s->path, n) == 0 && v->path[sizeof head - 1 + n] == '/';
}

/* Why a sum of the bucket cannot read v. */
static const char *why_foreign(void *of, const weft_value *v, bool *goes_on) {
    sum_walk *w = of;
    const weft_node *n = v->node;
    if (verify_gradients_in(n) == w->bucket) return w->has_gradient = true, NULL;
    if (n->op == &weft_op_bucket || n->op == &weft_op_accumulate || n->op == &weft_op_summed)
        return "is made of another bucket's gradients";
    if (n->op == &weft_op_constant || n->op == &weft_op_constant_tensor) return NULL;
    if (n->op == &weft_op_state) return is_state(n->variable, w->bucket) ? NULL : "reads what is not its own";
    if (n->op->flags & OP_COMMUNICATES && n->op != &weft_op_wait &&
        (n->op != &weft_op_all_reduce || n->variable != w->bucket))
        return "waits for a collective of something else";
    if (!n->n_in || n->op->flags & OP_RANDOM) return "reads what is not a gradient of its bucket";
    *goes_on = true;
    return NULL;
}

/* All that v is computed from. */
static const char *walk_back(sum_walk *w, const weft_variable *bucket, const weft_value *v) {
    w->bucket = bucket;
    w->has_gradient = false;
    return verify_walk_back(&w->walk, v, why_foreign, w);
}

static const char *check_sum(sum_walk *w, const weft_node *n) {
    const weft_variable *s = n->variable;
    if (!s || s->kind != VARIABLE_BUCKET || !s->sum || s->shards)
        return "sums a bucket that no strategy sums";
    if (!type_equal(&n->in[0]->type, &s->type)) return "is not of its bucket's shape";
    const char *why = walk_back(w, s, n->in[0]);
    return why || w->has_gradient ? why : "is made without the gradients of its bucket";
}

/* An assignment to a strategy's state; NULL as well for any other node. */
static const char *check_state(sum_walk *w, const weft_plan *plan, const weft_node *n) {
    if (n->op != &weft_op_assign || n->variable->kind != VARIABLE_OPTIMIZER) return NULL;
    for (const weft_variable *s = plan->model->variables; s; s = s->next)
        if (s->kind == VARIABLE_BUCKET && s->sum && is_state(n->variable, s))
            return walk_back(w, s, n->in[0]);
    return NULL;
}

bool verify_summed(verify_index *x) {
    sum_walk w;
    if (!x->plan->strategy.is_compressed) return true;
    if (!verify_walk_open(&w.walk, x)) return false;
    for (const weft_node *n = x->p->graph->first; n; n = n->next) {
        const char *why = n->op == &weft_op_summed ? check_sum(&w, n) : check_state(&w, x->plan, n);
        if (why) return verify_broken(x, "L23", n, why);
    }
    return true;
}
