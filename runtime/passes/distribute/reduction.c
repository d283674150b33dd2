/* reduction.c - how gradients are summed over ranks and parameters are sent back, as nodes:
 *      without ZeRO    s = all_reduce(bucket)      w = wait(s)
 *      ZeRO            s = reduce_scatter(bucket)  w = wait(s)   own = w[this rank's range]   ...
 *                      all_gather(updated)
 *      by a strategy   w = summed(what its builder made of the bucket)      sums.c
 * A sum starts when its bucket is complete, and the update waits for it; what the schedule puts between
 * overlaps it. With ZeRO 2 a range is copied out as soon as it is summed, so that the next bucket can use the
 * memory (order.c places that wait early). No node of the program waits for an all_gather: it overlaps the
 * next forward. */
#include "graph/core/compare.h"
#include "runtime/passes/distribute/collectives.h"
#include "runtime/passes/distribute/reduction.h"

#include "ops/structure/collective.h"
#include "ops/optimizer/update.h"
#include "ops/kit/ops.h"
#include "weft/comm.h"
#include "weft/ops.h"

#include <stdlib.h>
#include <string.h>

static const subgraph *bucket_subgraph(const program *p, const weft_variable *s) {
    return &p->plan->subgraphs[s->subgraph];
}

bool reduction_is_needed(const program *p, const weft_variable *s) {
    /* A rank alone in its group takes part too: every rank has the same list of collectives. */
    return p->plan->options.world > 1;
}

weft_value *reduction_start(program *p, const weft_variable *s, weft_value *flat) {
    if (s->sum) return own_sum(p, s, flat);
    const weft_op *op = s->shards ? &weft_op_reduce_scatter : &weft_op_all_reduce;
    bool is_gradient = !s->members[0]->follows; /* what a moving mean follows stays exact */
    return collective_start(p, op, flat, bucket_subgraph(p, s), s->path, is_gradient);
}

weft_value *reduction_finish(program *p, const weft_variable *s, weft_value *flat) {
    return reduction_is_needed(p, s) && !s->sum ? collective_wait(flat) : flat;
}

/* *own is this rank's range of the finished sum: a view, or with ZeRO 2 a copy. NULL without an error: the
 * range is empty. */
bool reduction_own(program *p, const weft_variable *s, weft_value *finished, weft_value **own) {
    const subgraph *g = bucket_subgraph(p, s);
    int64_t begin = 0, end = s->type.shape[0];
    *own = NULL;
    if (s->shards) shard_range(p->plan, s, &begin, &end);
    if (begin == end) return true;
    bool is_part = end - begin < s->type.shape[0];
    weft_value *v = is_part ? weft_slice(finished, 0, begin, end) : finished;
    if (v && is_part && g->ddp.zero == 2 && p->phase == PHASE_WHOLE)
        v = node_value(p->graph, &weft_op_reorder, 1, &v, NULL);
    /* autodiff has divided by the world; the process group may be smaller */
    if (v && g->n_ranks != p->plan->options.world)
        v = weft_scale(v, (double)p->plan->options.world / g->n_ranks);
    return (*own = v) != NULL;
}

/* ---- the norm of all gradients ---- */

/* The squares of this rank's range of a bucket, summed over the chunks of its members, as f64[chunks]; zeros
 * elsewhere. */
static weft_value *squares(program *p, const weft_variable *s, weft_value *own) {
    int64_t begin = 0, end = 0;
    if (s->shards) shard_range(p->plan, s, &begin, &end);
    return node_value(p->graph, &weft_op_chunk_squares, own ? 1 : 0, &own,
                      &(chunk_squares_attrs){.path = s->path, .begin = begin});
}

weft_value *values_join(weft_value **parts, int n) {
    return n > 1 ? weft_concat(n, parts, 0) : n ? parts[0] : NULL;
}

/* The chunk sums of buckets list[0 .. n), all of one subgraph, joined in order. Where buckets are sharded,
 * each rank has only its own chunks, so they are summed over the group. */
static weft_value *subgraph_squares(program *p, weft_variable *const *list, int n, weft_value *const *own) {
    const subgraph *g = bucket_subgraph(p, list[0]);
    weft_value **parts = scratch_array(p->graph->model, n, sizeof *parts);
    bool is_sharded = false;
    if (!parts) return NULL;
    for (int i = 0; i < n; i++) {
        if (!(parts[i] = squares(p, list[i], own[list[i]->index]))) return NULL;
        is_sharded |= list[i]->shards != NULL;
    }
    weft_value *all = values_join(parts, n);
    if (!all || !is_sharded) return all;
    return collective_wait(
        collective_start(p, &weft_op_all_reduce, all, g, *g->path ? g->path : g->name, false));
}

/* A sum's chunks, or zeros where the parameter does not train in this update; trains NULL: it does. */
static weft_value *chunks_that_train(weft_value *chunks, weft_value *trains) {
    if (!chunks || !trains) return chunks;
    weft_value *zero = weft_constant(chunks->node->graph, chunks->type.dtype, 0, NULL, 0);
    return weft_where(trains, chunks, zero);
}

/* by_parameter[v] becomes parameter v's chunk sums, so that the norm does not depend on how buckets are cut.
 */
static bool spread_chunks(weft_variable *const *list, int n, weft_value *all, weft_value *const *trains,
                          weft_value **by_parameter) {
    int64_t at = 0;
    for (int s = 0; s < n; s++)
        for (int i = 0; i < list[s]->n_members; i++) {
            int64_t chunks = norm_chunks(type_elements(&list[s]->members[i]->type));
            weft_value *v = chunks_that_train(weft_slice(all, 0, at, at + chunks), trains[list[s]->index]);
            if (!v) return false;
            by_parameter[list[s]->members[i]->index] = v;
            at += chunks;
        }
    return true;
}

static int by_subgraph(const void *pa, const void *pb) {
    const weft_variable *const *a = pa, *const *b = pb;
    return by_numbers((*a)->subgraph, (*b)->subgraph, (*a)->index, (*b)->index);
}

/* Sums subgraph by subgraph, then adds all parameters' chunks in the order of their indices. f64[], or NULL
 * after an error. */
weft_value *reduction_norm(program *p, weft_variable *const *buckets, int count, weft_value *const *own,
                           weft_value *const *trains) {
    weft_model *m = p->graph->model;
    weft_value **parts = scratch_array(m, m->n_variables, sizeof *parts);
    weft_variable **list = scratch_array(m, count, sizeof *list);
    int n = 0, variables = m->n_variables;
    if (!parts || !list) return NULL;
    memcpy(list, buckets, (size_t)count * sizeof *list);
    qsort(list, (size_t)count, sizeof *list, by_subgraph);
    for (int i = 0, end; i < count; i = end) {
        for (end = i; end < count && list[end]->subgraph == list[i]->subgraph;) end++;
        weft_value *all = subgraph_squares(p, list + i, end - i, own);
        if (!all || !spread_chunks(list + i, end - i, all, trains, parts)) return NULL;
    }
    for (int i = 0; i < variables; i++)
        if (parts[i]) parts[n++] = parts[i];
    return node_value(p->graph, &weft_op_root_sum, n, parts, NULL);
}

/* ---- parameters go back ---- */

/* Sends this rank's range to all. `scale`, where there is one, is an operand only so that the gather starts
 * after it. */
bool reduction_return(program *p, const weft_variable *s, weft_value *after, weft_value *scale) {
    weft_value *in[] = {after, scale};
    collective_attrs a = {.path = s->path, .group = s->subgraph};
    p->n_collectives++;
    weft_node *n = node_new(p->graph, &weft_op_all_gather, scale ? 2 : 1, in, &a);
    if (!n || !p->plan->options.serial) return n != NULL;
    weft_value *sent = &n->out[0];
    return node_new(p->graph, &weft_op_wait, 1, &sent, NULL) != NULL;
}
