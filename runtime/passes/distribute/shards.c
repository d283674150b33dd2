/* shards.c - ZeRO (Rajbhandari et al., arXiv:1910.02054): each rank of a process group updates one range of
 * every bucket, and holds only that range's optimizer state.
 *
 *    greedy  whole parameters, the largest first, each to the rank with the least so far, as torch's
 *            ZeroRedundancyOptimizer does; one subgraph at a time. A bucket sorts its parameters by owner, so
 *            that each owner has one range. Owners are dealt for the largest process group; in a smaller
 *            group, neighbouring owners become one rank. So parameters have the same offsets on all ranks of
 *            the world, which their first exchange requires.
 *    flat    ranges as equal as possible between chunks (NORM_CHUNK elements from each parameter's start),
 *            over which norms are summed. No range cuts a chunk, so norms have the same bits as without ZeRO
 * A range may be empty; in a small bucket many are. */
#include "runtime/plan/program.h"
#include "runtime/passes/distribute/buckets.h"

#include "ops/optimizer/update.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- greedy ---- */

/* By subgraph, then the largest first; equal sizes in the order of the variables. */
static int by_size(const void *pa, const void *pb) {
    const trained *a = pa, *b = pb;
    if (a->subgraph != b->subgraph) return a->subgraph - b->subgraph;
    int64_t x = type_elements(&a->parameter->type), y = type_elements(&b->parameter->type);
    if (x != y) return x > y ? -1 : 1;
    return a->parameter->index - b->parameter->index;
}

/* A heap of ranks: the one with the smallest load is at the top, of equals the lowest rank. */
/* load: elements dealt to this rank so far. */
typedef struct dealt {
    int64_t load;
    int rank;
} dealt;

static bool has_less(const dealt *a, const dealt *b) {
    return a->load != b->load ? a->load < b->load : a->rank < b->rank;
}

/* Restores the heap after the top's load has grown. */
static void sink(dealt *heap, int count) {
    for (int at = 0, below; (below = 2 * at + 1) < count; at = below) {
        if (below + 1 < count && has_less(&heap[below + 1], &heap[below])) below++;
        if (!has_less(&heap[below], &heap[at])) return;
        dealt top = heap[at];
        heap[at] = heap[below];
        heap[below] = top;
    }
}

/* O(n log n) for the sort, O(log ranks) a parameter. The heap starts empty for each subgraph. */
bool shards_deal(weft_plan *plan, trained *list, int count) {
    dealt *heap = scratch_array(plan->model, plan->options.world, sizeof *heap);
    if (!heap) return false;
    qsort(list, (size_t)count, sizeof *list, by_size);
    for (int i = 0; i < count; i++) {
        const subgraph *g = &plan->subgraphs[list[i].subgraph];
        if (!g->ddp.zero || g->ddp.shard != WEFT_SHARD_GREEDY) continue;
        bool is_first = !i || list[i].subgraph != list[i - 1].subgraph;
        for (int r = 0; is_first && r < g->largest; r++) heap[r] = (dealt){.rank = r};
        heap[0].load += type_elements(&list[i].parameter->type);
        list[i].owner = heap[0].rank;
        sink(heap, g->largest);
    }
    return true;
}

/* Each parameter's elements, with the padding after it, go to its owner's range. Owners are scaled down to
 * the group's size. */
static void cut_greedy(const weft_variable *s, const trained *members, const subgraph *g, size_t *shards) {
    for (int i = 0; i < s->n_members; i++) {
        int64_t end = i + 1 < s->n_members ? s->members[i + 1]->offset : s->type.shape[0];
        int64_t owner = (int64_t)members[i].owner * g->n_ranks / g->largest;
        shards[owner] += (size_t)(end - s->members[i]->offset);
    }
}

/* ---- flat ---- */

/* The chunk border nearest to element `wanted`. *member moves on to the parameter that contains it, since
 * calls go upward. */
static int64_t chunk_border(const weft_variable *s, int64_t wanted, int *member) {
    for (; *member < s->n_members; ++*member) {
        int i = *member;
        int64_t begin = s->members[i]->offset;
        int64_t end = i + 1 < s->n_members ? s->members[i + 1]->offset : s->type.shape[0];
        if (wanted > end) continue;
        int64_t below = begin + (wanted - begin) / NORM_CHUNK * NORM_CHUNK, above = below + NORM_CHUNK;
        if (above > end) above = end;
        return wanted - below <= above - wanted ? below : above;
    }
    return s->type.shape[0];
}

/* Rank r's range ends near total (r + 1) / n_ranks, rounded down; counted up, so that nothing overflows and
 * worlds of thousands need no division a rank. */
static void cut_flat(const weft_variable *s, int n_ranks, size_t *shards) {
    int64_t begin = 0, total = s->type.shape[0];
    int64_t share = 0, rest = 0; /* total (r + 1) = share n_ranks + rest */
    int member = 0;
    for (int r = 0; r < n_ranks; r++) {
        share += total / n_ranks;
        rest += total % n_ranks;
        if (rest >= n_ranks) rest -= n_ranks, share++;
        int64_t end = r == n_ranks - 1 ? total : chunk_border(s, share, &member);
        shards[r] = (size_t)(end - begin);
        begin = end;
    }
}

/* ---- ranges ---- */

bool shards_cut(weft_plan *plan, weft_variable *s, const trained *members) {
    const subgraph *g = &plan->subgraphs[s->subgraph];
    int64_t begin, end;
    if (!g->ddp.zero) return true;
    size_t *shards = model_array(plan->model, g->n_ranks, sizeof *shards);
    if (!shards) return false;
    if (g->ddp.shard == WEFT_SHARD_FLAT)
        cut_flat(s, g->n_ranks, shards);
    else
        cut_greedy(s, members, g, shards);
    s->shards = shards;
    shard_range(plan, s, &begin, &end);
    if (begin == end) return true;
    char path[1500];
    snprintf(path, sizeof path, "%s.own", s->path);
    tensor_type type = type_of(WEFT_F32, 1, (int64_t[]){end - begin});
    weft_variable *own = variable_made(plan->model, path, VARIABLE_SHARD, &type, (weft_init){0});
    if (!own) return false;
    s->own = own;
    own->bucket = s;
    own->offset = begin;
    own->subgraph = s->subgraph;
    return true;
}
