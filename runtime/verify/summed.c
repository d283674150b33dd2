/* summed.c - proves that the sum over ranks which a strategy built for a bucket is one of that bucket.
 * Rules:
 *   L23  what `summed` names is computed from its own bucket's gradients, the strategy's state for this
 *        bucket and constants alone, and the gradients are among them; every collective on the way is of
 *        this bucket, so over its process group; such a bucket is not sharded, and its strategy's state is
 *        assigned by what is computed from the same alone
 */
#include "runtime/verify/verify.h"

#include "ops/structure/collective.h"
#include "ops/kit/ops.h"

#include <stdio.h>
#include <string.h>

/* Paths walked back from one node: seen[] holds, by id of a node, the number of the last walk that met it. */
typedef struct walk {
    const weft_variable *bucket;
    int *seen, number;
    const weft_node **stack;
    int depth;
    bool has_gradient;
} walk;

/* Whether v is state that the strategy keeps for bucket s, by its path. */
static bool is_state(const weft_variable *v, const weft_variable *s) {
    static const char head[] = "strategy/";
    size_t n = strlen(s->path);
    return v->kind == VARIABLE_OPTIMIZER && strncmp(v->path, head, sizeof head - 1) == 0 &&
           strncmp(v->path + sizeof head - 1, s->path, n) == 0 && v->path[sizeof head - 1 + n] == '/';
}

/* Why a sum of the bucket cannot read n's result; NULL: it can. *goes_on: n's own operands are to be
 * asked. */
static const char *why_foreign(walk *w, const weft_node *n, bool *goes_on) {
    *goes_on = false;
    if (verify_gradients_in(n) == w->bucket) return w->has_gradient = true, NULL;
    if (n->op == &weft_op_bucket || n->op == &weft_op_accumulate || n->op == &weft_op_summed)
        return "is made of another bucket's gradients";
    if (n->op == &weft_op_constant || n->op == &weft_op_constant_tensor) return NULL;
    if (n->op == &weft_op_state) return is_state(n->variable, w->bucket) ? NULL : "reads what is not its own";
    if (n->op->flags & OP_COMMUNICATES && n->op != &weft_op_wait &&
        (n->op != &weft_op_all_reduce || n->variable != w->bucket))
        return "waits for a collective of something else";
    if (!n->n_in || n->op->flags & OP_RANDOM) return "reads what is no gradient of its bucket";
    *goes_on = true;
    return NULL;
}

static const char *visit(walk *w, const weft_node *n) {
    bool goes_on;
    if (w->seen[n->id] == w->number) return NULL;
    w->seen[n->id] = w->number;
    const char *why = why_foreign(w, n, &goes_on);
    if (!why && goes_on) w->stack[w->depth++] = n;
    return why;
}

/* All that v is computed from. */
static const char *walk_back(walk *w, const weft_variable *bucket, const weft_value *v) {
    w->bucket = bucket;
    w->number++;
    w->depth = 0;
    w->has_gradient = false;
    const char *why = visit(w, v->node);
    while (!why && w->depth) {
        const weft_node *n = w->stack[--w->depth];
        for (int i = 0; i < n->n_in && !why; i++)
            if (n->in[i]) why = visit(w, n->in[i]->node);
    }
    return why;
}

static const char *check_sum(walk *w, const weft_node *n) {
    const weft_variable *s = n->variable;
    if (!s || s->kind != VARIABLE_BUCKET || !s->sum || s->shards)
        return "sums a bucket that no strategy sums";
    if (!type_equal(&n->in[0]->type, &s->type)) return "is not of its bucket's shape";
    const char *why = walk_back(w, s, n->in[0]);
    return why || w->has_gradient ? why : "is made without the gradients of its bucket";
}

/* An assignment to a strategy's state; NULL as well for any other node. */
static const char *check_state(walk *w, const program *p, const weft_node *n) {
    if (n->op != &weft_op_assign || n->variable->kind != VARIABLE_OPTIMIZER) return NULL;
    for (const weft_variable *s = p->plan->model->variables; s; s = s->next)
        if (s->kind == VARIABLE_BUCKET && s->sum && is_state(n->variable, s))
            return walk_back(w, s, n->in[0]);
    return NULL;
}

weft_status verify_summed(verify_index *x, weft_error *error) {
    const program *p = x->p;
    const weft_env *env = &p->plan->env;
    size_t ids = (size_t)x->n_ids + 1;
    weft_status status = WEFT_OK;
    if (!p->plan->strategy.is_compressed) return WEFT_OK;
    walk w = {.seen = mem_new_array(env, ids, sizeof *w.seen),
              .stack = mem_new_array(env, ids, sizeof *w.stack)};
    if (!w.seen || !w.stack) status = error_memory(error, "verify");
    for (const weft_node *n = p->graph->first; n && !status; n = n->next) {
        const char *why = n->op == &weft_op_summed ? check_sum(&w, n) : check_state(&w, p, n);
        if (why) status = verify_broken(p, error, "L23", n, why);
    }
    mem_free(env, w.seen, ids * sizeof *w.seen);
    mem_free(env, w.stack, ids * sizeof *w.stack);
    return status;
}
