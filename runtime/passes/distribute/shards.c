/* shards.c - ZeRO (Rajbhandari et al., arXiv:1910.02054): each rank of a process group updates one range of every
 * bucket, and holds the optimizer's state of that range alone.
 *
 *   greedy  whole parameters, the largest first, to the rank with the least so far, as torch's
 *           ZeroRedundancyOptimizer deals them; each subgraph for itself. Inside a bucket parameters lie by owner, so
 *           that an owner's are one range. They are dealt in the largest process group; in a smaller one neighbours
 *           fall together. So parameters lie alike on all ranks of the world, as their first exchange needs.
 *   flat    ranges as equal as the chunks allow over which norms are summed (NORM_CHUNK from each parameter's start), so
 *           that a chunk is never cut and norms have the same bits
 * A range may be empty: of a small bucket, many are.
 */
#include "runtime/plan/program.h"
#include "runtime/passes/distribute/buckets.h"

#include "ops/optimizer/update.h"

#include <stdio.h>
#include <stdlib.h>

static const subgraph *bucket_subgraph(const weft_plan *plan, const weft_variable *s) {
    return &plan->subgraphs[s->subgraph];
}

/* ---- greedy ---- */

static int by_size(const void *pa, const void *pb) {
    const trained *a = pa, *b = pb;
    if (a->subgraph != b->subgraph) return a->subgraph - b->subgraph;
    int64_t x = type_elements(&a->parameter->type), y = type_elements(&b->parameter->type);
    if (x != y) return x > y ? -1 : 1;
    return a->parameter->index - b->parameter->index;
}

/* Ranks in a heap: the one with the least, of equals the lowest, at its top. */
typedef struct dealt {
    int64_t load;
    int rank;
} dealt;

static bool has_less(const dealt *a, const dealt *b) {
    return a->load != b->load ? a->load < b->load : a->rank < b->rank;
}

/* The top has got more. */
static void sink(dealt *heap, int count) {
    for (int at = 0, below; (below = 2 * at + 1) < count; at = below) {
        if (below + 1 < count && has_less(&heap[below + 1], &heap[below])) below++;
        if (!has_less(&heap[below], &heap[at])) return;
        dealt top = heap[at];
        heap[at] = heap[below];
        heap[below] = top;
    }
}

bool shards_deal(weft_plan *plan, trained *list, int count) {
    size_t most = (size_t)plan->options.world;
    dealt *heap = mem_new_array(&plan->env, most, sizeof *heap);
    if (!heap) return model_fail(plan->model, NULL, WEFT_MEMORY, "shards: memory could not be had");
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
    mem_free(&plan->env, heap, most * sizeof *heap);
    return true;
}

/* An owner's range begins with its first parameter; the next owner's ends it. */
static void cut_greedy(const weft_variable *s, const trained *members, const subgraph *g, size_t *shards) {
    for (int i = 0; i < s->n_members; i++) {
        int64_t end = i + 1 < s->n_members ? s->members[i + 1]->offset : s->type.shape[0];
        int64_t owner = (int64_t)members[i].owner * g->n_ranks / g->largest;
        shards[owner] += (size_t)(end - s->members[i]->offset);
    }
}

/* ---- flat ---- */

/* The place next to `wanted` where no chunk is cut. *member goes up to the one that it is in. */
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

static void cut_flat(const weft_variable *s, int n_ranks, size_t *shards) {
    int64_t begin = 0, total = s->type.shape[0];
    int member = 0;
    for (int r = 0; r < n_ranks; r++) {
        int64_t share = total / n_ranks * (r + 1) + total % n_ranks * (r + 1) / n_ranks;
        int64_t end = r == n_ranks - 1 ? total : chunk_border(s, share, &member);
        shards[r] = (size_t)(end - begin);
        begin = end;
    }
}

/* ---- ranges ---- */

bool shards_cut(weft_plan *plan, weft_variable *s, const trained *members) {
    const subgraph *g = bucket_subgraph(plan, s);
    int64_t begin, end;
    if (!g->ddp.zero) return true;
    size_t *shards = arena_new_array(&plan->model->arena, (size_t)g->n_ranks, sizeof *shards);
    if (!shards) return model_fail(plan->model, NULL, WEFT_MEMORY, "shards: memory could not be had");
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
