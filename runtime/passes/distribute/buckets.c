/* buckets.c - parameters that are trained alike become contiguous, in the order in which a backward pass
 * finishes their gradients: the reverse of their first readers in the first graph that trains them.
 *
 * Two parameters share a bucket when they belong to one subgraph and the same minimize calls train both in
 * the same parameter group. So every update, of any graph, covers whole buckets. A bucket holds up to
 * bucket_cap_mb, as PyTorch's do. The first of a subgraph holds at most 1 MiB, so that its sum over ranks
 * begins early; the last too, where possible. In a sharded bucket parameters are sorted by owner (shards.c).
 */
#include "runtime/plan/program.h"
#include "runtime/passes/distribute/buckets.h"
#include "runtime/passes/passes.h"

#include "graph/core/minimize.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SMALL = 1 << 20 /* bytes */, BUCKET_ALIGN = 16 /* elements: 64 bytes of f32 */ };

/* first[v] becomes the place of the first node that reads parameter v, or the number of nodes if none does:
 * that node's backward finishes the gradient. Indexed like the source model's variables, whose indices the
 * plan's copy shares. */
static void find_first_uses(const weft_graph *g, int64_t *first, int count) {
    int64_t at = 0, nodes = graph_node_count(g);
    for (int i = 0; i < count; i++) first[i] = nodes;
    for (const weft_node *n = g->first; n; n = n->next, at++)
        for (int i = 0; i < n->n_in; i++) {
            bool is_parameter = n->in[i] && n->in[i]->node->op == &weft_op_parameter;
            int64_t *of = is_parameter ? &first[n->in[i]->variable->index] : NULL;
            if (of && at < *of) *of = at;
        }
}

/* Mixes training number `call` and the parameter group into the signature of every parameter that it trains.
 */
static bool sign(trained *list, int count, const training *t, int call, const int64_t *first) {
    const minimize_attrs *a = t->minimize->attrs;
    param_groups groups;
    if (!param_groups_open(&groups, &t->minimize->graph->model->env, a->groups)) return false;
    for (int i = 0; i < count; i++) {
        const weft_variable *v = list[i].parameter;
        double lr, decay;
        if (!t->trains[v->index]) continue;
        if (!list[i].signature) list[i].first_use = first[v->index];
        int group = param_groups_find(&groups, v->path, &lr, &decay);
        char text[40];
        snprintf(text, sizeof text, "%d.%d", call, group);
        list[i].signature = hash_text(text, list[i].signature) | 1; /* never 0 */
    }
    param_groups_close(&groups);
    return true;
}

/* By subgraph, then signature; within these the last first use comes first. */
static int compare(const void *pa, const void *pb) {
    const trained *a = pa, *b = pb;
    if (a->subgraph != b->subgraph) return a->subgraph - b->subgraph;
    if (a->signature != b->signature) return a->signature < b->signature ? -1 : 1;
    if (a->first_use != b->first_use) return a->first_use > b->first_use ? -1 : 1;
    /* one node makes the gradients of its operands in their order */
    return a->parameter->index - b->parameter->index;
}

static int by_owner(const void *pa, const void *pb) {
    const trained *a = pa, *b = pb;
    return a->owner != b->owner ? a->owner - b->owner : compare(pa, pb);
}

/* Elements of a member in the bucket: each starts at a cache line. */
static int64_t padded(const weft_variable *v) {
    return (int64_t)size_align((size_t)type_elements(&v->type), BUCKET_ALIGN);
}

/* Makes bucket NAME.number of list[0 .. count), whose members get their offsets. Sorts list by owner. */
static bool make_bucket(weft_plan *plan, trained *list, int count, int number) {
    weft_model *m = plan->model;
    char path[1400];
    int64_t total = 0;
    snprintf(path, sizeof path, "%s.%d", plan->subgraphs[list[0].subgraph].name, number);
    weft_variable **members = arena_new_array(&m->arena, (size_t)count, sizeof *members);
    if (!members) return model_fail(m, NULL, WEFT_MEMORY, "buckets: out of memory");
    qsort(list, (size_t)count, sizeof *list, by_owner);
    for (int i = 0; i < count; i++) {
        members[i] = list[i].parameter;
        members[i]->offset = total;
        total += padded(members[i]);
    }
    tensor_type type = type_of(WEFT_F32, 1, &total);
    weft_variable *s = variable_made(m, path, VARIABLE_BUCKET, &type, (weft_init){0});
    if (!s) return false;
    s->members = members;
    s->n_members = count;
    s->subgraph = list[0].subgraph;
    for (int i = 0; i < count; i++) members[i]->bucket = s;
    return shards_cut(plan, s, list);
}

static int64_t bytes_of(const trained *t) {
    return padded(t->parameter) * (int64_t)sizeof(float);
}

/* How many of the first `count` parameters, all alike, go into the next bucket: at least one, then as many as
 * `cap` bytes allow. While the bucket holds less than `least` bytes it takes the next, however large: a few
 * numbers are not worth a message. */
static int bucket_size(const trained *list, int count, int64_t cap, int64_t least) {
    int64_t bytes = bytes_of(&list[0]);
    int n = 1;
    for (; n < count && (bytes < least || bytes + bytes_of(&list[n]) <= cap); n++)
        bytes += bytes_of(&list[n]);
    return n;
}

/* How many parameters at the end of the last bucket form a small bucket of their own, up to 1 MiB. The sum of
 * the last bucket is the one that no backward overlaps, so it should be short. 0: they would be the whole
 * bucket. */
static int small_end(const trained *list, int count) {
    int64_t bytes = 0;
    int n = 0;
    for (; n < count && bytes + bytes_of(&list[count - 1 - n]) <= SMALL; n++)
        bytes += bytes_of(&list[count - 1 - n]);
    return n < count ? n : 0;
}

/* Cuts `count` parameters that are trained alike into buckets, numbered from *number on. */
static bool cut_run(weft_plan *plan, trained *list, int count, int *number) {
    int64_t cap = (int64_t)(plan->subgraphs[list[0].subgraph].ddp.bucket_cap_mb * (1 << 20));
    while (count) {
        bool first = *number == 0;
        int n = first ? bucket_size(list, count, cap > SMALL ? SMALL : cap, 0)
                      : bucket_size(list, count, cap, cap / 8);
        if (n == count && small_end(list, count)) n -= small_end(list, count);
        if (!make_bucket(plan, list, n, (*number)++)) return false;
        list += n;
        count -= n;
    }
    return true;
}

/* The list is sorted; each run of equal (subgraph, signature) is cut by itself. Numbers restart in each
 * subgraph. */
static bool cut_runs(weft_plan *plan, trained *list, int count) {
    int number = 0;
    for (int i = 0, end; i < count; i = end) {
        if (i && list[i].subgraph != list[i - 1].subgraph) number = 0;
        for (end = i; end < count; end++)
            if (list[end].subgraph != list[i].subgraph || list[end].signature != list[i].signature) break;
        if (!cut_run(plan, list + i, end - i, &number)) return false;
    }
    return true;
}

/* The pass. Parameters that no minimize trains (signature 0) stay outside of buckets. */
bool buckets_cut(weft_plan *plan) {
    weft_model *m = plan->model;
    trained *list = arena_new_array(&m->arena, (size_t)m->n_variables + 1, sizeof *list);
    if (!list) return model_fail(m, NULL, WEFT_MEMORY, "buckets: out of memory");
    int count = 0, kept = 0;
    for (weft_variable *v = m->variables; v; v = v->next)
        if (v->kind == VARIABLE_PARAMETER) list[count++] = (trained){.parameter = v, .subgraph = v->subgraph};
    int64_t *first = arena_new_array(&m->arena, (size_t)m->n_variables + 1, sizeof *first);
    if (!first) return model_fail(m, NULL, WEFT_MEMORY, "buckets: out of memory");
    for (int i = 0; i < plan->n_trainings; i++) {
        const training *t = &plan->trainings[i];
        if (!i || t->graph != t[-1].graph) find_first_uses(t->graph, first, m->n_variables);
        if (!sign(list, count, t, i, first))
            return model_fail(m, NULL, WEFT_MEMORY, "buckets: out of memory");
    }
    for (int i = 0; i < count; i++)
        if (list[i].signature) list[kept++] = list[i];
    if (!shards_deal(plan, list, kept)) return false;
    qsort(list, (size_t)kept, sizeof *list, compare);
    return cut_runs(plan, list, kept);
}
