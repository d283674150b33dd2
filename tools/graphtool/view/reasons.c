/* reasons.c - why a collective is in a plan, as a sentence. */
#include "tools/graphtool/view/view.h"

#include "ops/structure/collective.h"
#include "runtime/plan/value.h"

/* What a collective of a bucket does. `what`: "the gradients of 7 parameters". */
static void bucket_text(text *t, const weft_node *n, const weft_variable *bucket, int ranks) {
    const char *many = bucket->n_members == 1 ? "" : "s";
    if (n->op == &weft_op_all_gather)
        text_add(t,
                 "ZeRO: each of the %d ranks has updated its range of the %d parameter%s of bucket %s; this "
                 "brings all ranges to every rank. Runs overlap it with what they do before they read them.",
                 ranks, bucket->n_members, many, bucket->path);
    else if (n->op == &weft_op_reduce_scatter)
        text_add(t,
                 "Each of the %d ranks has gradients of its own micro-batches: this adds those of the %d "
                 "parameter%s of bucket %s. ZeRO: a rank gets the range that it updates.",
                 ranks, bucket->n_members, many, bucket->path);
    else
        text_add(t,
                 "Each of the %d ranks has gradients of its own micro-batches: this adds those of the %d "
                 "parameter%s of bucket %s, so that every rank makes the same update.",
                 ranks, bucket->n_members, many, bucket->path);
}

/* What one does that belongs to a scope, or that an op of the model asks for. */
static void other_text(text *t, const weft_node *n, const collective_attrs *a, int ranks) {
    if (a->over)
        text_add(t, "The model asks for it: an op over the ranks of '%s' (%d).", a->over, ranks);
    else if (n->op == &weft_op_broadcast)
        text_add(t, "Gives the %d ranks of %s the state of one of them, so that all have the same.", ranks,
                 a->path);
    else if (n->is_update)
        text_add(t, "Adds over %d ranks what the updates of %s need of all gradients: their norm.", ranks,
                 a->path);
    else
        text_add(t, "Adds numbers of %s over %d ranks: its statistics are those of the whole batch.", a->path,
                 ranks);
}

int view_reason(view_texts *texts, const weft_plan *plan, const weft_node *n) {
    text t = {0};
    char ready[200];
    if (!node_starts_collective(n)) return 0;
    const collective_attrs *a = n->attrs;
    const weft_variable *v = variable_find(plan->model, a->path);
    int ranks = plan->subgraphs[a->group].n_ranks;
    if (v && v->kind == VARIABLE_BUCKET && !a->over)
        bucket_text(&t, n, v, ranks);
    else
        other_text(&t, n, a, ranks);
    if (n->op != &weft_op_all_gather)
        text_add(&t, " It is ready after %s.", node_show(plan_ready_after(n->in[0]->node), ready));
    return view_take(texts, &t);
}
