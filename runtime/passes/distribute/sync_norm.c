/* sync_norm.c - the pass that makes batch_norm take its statistics over all ranks of a process group, in a
 * subgraph with sync_batch_norm (torch.nn.SyncBatchNorm). With G ranks, each with n values a channel:
 *      mean = sum_ranks(mean of x) / G        var = sum_ranks(mean of (x - mean)^2) / G        (biased)
 *      y    = (x - mean) rsqrt(var + eps) w + b           running variance from var nG / (nG - 1)
 * All ranks have one batch shape, so equal weights are right. The variance takes a second sum, from the mean
 * over all ranks: E[x^2] - mean^2 would cancel. Batch norm is composed of ops before autodiff runs, so its
 * gradient, with two more sums in the backward, needs no rule. As in batch_norm, the statistics that it
 * outputs are values apart from those that y is made of: a gradient flows from mean and rstd to x, but a
 * gradient with respect to them does not pass y. None flows through the unbiased variance. */
#include "runtime/passes/distribute/collectives.h"

#include "ops/norm_loss/norm.h"
#include "ops/structure/ranks.h"

/* v[C] reshaped so that it broadcasts along axis 1 of x. */
static weft_value *along(weft_value *v, const weft_value *x) {
    return x->type.ndim == 2 ? v : weft_reshape(v, 3, (int64_t[]){x->type.shape[1], 1, 1});
}

/* The mean of x over all axes but the channels and over all ranks: [C]. */
static weft_value *mean_of_all(weft_value *x, const ranks_attrs *a, int ranks) {
    weft_value *own = weft_mean(x, x->type.ndim - 1, (int64_t[]){0, 2, 3}, false);
    if (!own) return NULL;
    return weft_scale(node_value(own->node->graph, &weft_op_sum_ranks, 1, &own, a), 1.0 / ranks);
}

/* Builds the four results of batch_norm (y, mean, rstd, unbiased variance) in its place, and maps each to its
 * namesake. */
static bool compose(weft_node *n, const ranks_attrs *a, int ranks) {
    weft_value *x = n->in[0], *w = n->in[1], *b = n->in[2];
    double count = (double)(type_elements(&x->type) / x->type.shape[1]) * ranks;
    weft_value *mean = mean_of_all(x, a, ranks);
    weft_value *centered = mean ? weft_sub(x, along(mean, x)) : NULL;
    weft_value *var = centered ? mean_of_all(weft_square(centered), a, ranks) : NULL;
    weft_value *rstd = weft_rsqrt(weft_offset(var, ((const norm_attrs *)n->attrs)->eps));
    if (!rstd) return false;
    weft_value *added = along(b, x);
    weft_value *y = weft_add(weft_mul(centered, along(weft_mul(rstd, w), x)), added);
    weft_value *made[4] = {y};
    made[1] = value_again(mean);
    made[2] = value_again(rstd);
    made[3] = weft_scale(var, count / (count - 1));
    for (int k = 0; k < 4; k++) {
        if (!made[k]) return false;
        n->out[k].mapped = made[k];
    }
    return true;
}

/* Composes at the place of `n`, in its scope; the new nodes carry the user's line of `n`. */
static bool replace(const weft_plan *plan, weft_node *n, int ranks) {
    weft_graph *g = n->graph;
    const weft_node *end = n->next;
    build_place at;
    build_begin(&at, g, n->scope, n);
    bool good = compose(n, &(ranks_attrs){.path = *n->scope ? n->scope : plan->whole}, ranks);
    build_end(&at);
    for (weft_node *m = n->next; m != end; m = m->next) {
        m->file = n->file;
        m->line = n->line;
    }
    if (good) node_remove(n);
    return good;
}

/* The pass. A batch_norm belongs to the subgraph of its own scope, which contains its weight. */
bool pass_sync_norm(program *p) {
    if (p->plan->options.world == 1 || p->graph->mode != WEFT_TRAIN) return true;
    graph_clear_mapped(p->graph);
    for (weft_node *n = p->graph->first, *next; n; n = next) {
        next = n->next;
        node_replace_mapped(n);
        if (n->op != &weft_op_batch_norm) continue;
        const subgraph *group = subgraph_of(p->plan, n->scope);
        bool is_wanted = group && group->ddp.sync_batch_norm;
        if (is_wanted && !replace(p->plan, n, group->n_ranks)) return false;
    }
    graph_replace_mapped(p->graph);
    return true;
}
