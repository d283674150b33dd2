/* buckets.c - parameters that are trained alike become contiguous, in the order in which a backward pass
 * finishes their gradients: the reverse of their first readers in the first graph that trains them.
 *
 * Two parameters share a bucket when they belong to one subgraph and the same minimize calls train both
 * in the same parameter group. So every update, of any graph, covers whole buckets. A bucket holds up to
 * bucket_cap_mb, as PyTorch's do. The one of a subgraph that is complete first holds at most 1 MiB, so
 * that its sum over ranks begins early; the last of those that are trained alike too, where possible.
 * Buckets are numbered in the order in which they are complete, whatever the parameter groups. In a
 * sharded bucket parameters are sorted by owner (shards.c). In a subgraph that a strategy cuts
 * (weft_distribution.cuts) buckets begin at the cuts instead, of whatever size. */
#include "graph/core/compare.h"
#include "runtime/plan/program.h"
#include "runtime/passes/distribute/buckets.h"
#include "runtime/passes/passes.h"

#include "graph/settings/minimize.h"

#include <stdio.h>
#include <stdlib.h>

enum { SMALL = 1 << 20 /* bytes */ };

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
        if (!t->trains[v->index]) continue;
        if (!list[i].signature) list[i].first_use = first[v->index];
        int group = param_groups_find(&groups, v);
        char text[40];
        snprintf(text, sizeof text, "%d.%d", call, group);
        list[i].signature = hash_text(text, list[i].signature) | 1; /* never 0 */
    }
    param_groups_close(&groups);
    return true;
}

/* The last first use comes first; one node makes the gradients of its operands in their order. */
static int by_first_use(const trained *a, const trained *b) {
    return by_numbers(b->first_use, a->first_use, a->parameter->index, b->parameter->index);
}

/* By subgraph, then signature. */
static int compare(const void *pa, const void *pb) {
    const trained *a = pa, *b = pb;
    if (a->subgraph != b->subgraph) return a->subgraph - b->subgraph;
    if (a->signature != b->signature) return a->signature < b->signature ? -1 : 1;
    return by_first_use(a, b);
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
    weft_variable **members = model_array(m, count, sizeof *members);
    if (!members) return false;
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

/* A bucket to be: a part of the list. */
typedef struct cut {
    trained *list;
    int count;
} cut;

/* A bucket is complete with the gradient that the backward finishes last, that of its earliest first use. */
static int by_completion(const void *pa, const void *pb) {
    const cut *x = pa, *y = pb;
    return by_first_use(&x->list[x->count - 1], &y->list[y->count - 1]);
}

/* Where the run of parameters that are trained alike ends which begins at list[0]. */
static int run_end(const trained *list, int count) {
    int end = 1;
    while (end < count && list[end].subgraph == list[0].subgraph && list[end].signature == list[0].signature)
        end++;
    return end;
}

static int64_t cap_of(const weft_plan *plan, const trained *list) {
    return (int64_t)(plan->subgraphs[list[0].subgraph].ddp.bucket_cap_mb * (1 << 20));
}

/* The bucket of at most 1 MiB that a run would begin with. */
static cut small_begin(const weft_plan *plan, trained *list, int count) {
    int64_t cap = cap_of(plan, list);
    return (cut){list, bucket_size(list, run_end(list, count), cap > SMALL ? SMALL : cap, 0)};
}

/* Cuts `count` parameters that are trained alike; returns the number of cuts. */
static int cut_run(const weft_plan *plan, trained *list, int count, bool is_first, cut *into) {
    int64_t cap = cap_of(plan, list);
    int cuts = 0;
    while (count) {
        int n = is_first ? small_begin(plan, list, count).count : bucket_size(list, count, cap, cap / 8);
        if (n == count && small_end(list, count)) n -= small_end(list, count);
        into[cuts++] = (cut){list, n};
        list += n;
        count -= n;
        is_first = false;
    }
    return cuts;
}

/* The same where the strategy cuts the subgraph. */
static int cut_by_name(trained *list, int count, cut *into) {
    int cuts = 0;
    for (int begin = 0, end; begin < count; begin = end) {
        for (end = begin + 1; end < count && !list[end].parameter->is_cut;) end++;
        into[cuts++] = (cut){list + begin, end - begin};
    }
    return cuts;
}

/* The buckets of one subgraph, in the order in which they are complete. */
static bool cut_subgraph(weft_plan *plan, trained *list, int count, cut *cuts) {
    cut first = small_begin(plan, list, count);
    bool has_cuts = false;
    int n = 0;
    for (int i = 0; i < count; i++) has_cuts |= list[i].parameter->is_cut;
    for (int i = 0; i < count; i += run_end(list + i, count - i)) {
        cut begin = small_begin(plan, list + i, count - i);
        if (by_completion(&begin, &first) < 0) first = begin;
    }
    for (int i = 0, end; i < count; i = end) {
        end = i + run_end(list + i, count - i);
        n += has_cuts ? cut_by_name(list + i, end - i, cuts + n)
                      : cut_run(plan, list + i, end - i, list + i == first.list, cuts + n);
    }
    qsort(cuts, (size_t)n, sizeof *cuts, by_completion);
    for (int i = 0; i < n; i++)
        if (!make_bucket(plan, cuts[i].list, cuts[i].count, i)) return false;
    return true;
}

/* The list is sorted by subgraph; numbers restart in each. */
static bool cut_all(weft_plan *plan, trained *list, int count) {
    cut *cuts = scratch_array(plan->model, count, sizeof *cuts);
    if (!cuts) return false;
    for (int i = 0, end; i < count; i = end) {
        for (end = i; end < count && list[end].subgraph == list[i].subgraph;) end++;
        if (!cut_subgraph(plan, list + i, end - i, cuts)) return false;
    }
    return true;
}

/* The pass. Parameters that no minimize trains (signature 0) stay outside of buckets. */
bool buckets_cut(weft_plan *plan) {
    weft_model *m = plan->model;
    trained *list = scratch_array(m, m->n_variables, sizeof *list);
    int64_t *first = scratch_array(m, m->n_variables, sizeof *first);
    if (!list || !first) return false;
    int count = 0, kept = 0;
    for (weft_variable *v = m->variables; v; v = v->next)
        if (v->kind == VARIABLE_PARAMETER) list[count++] = (trained){.parameter = v, .subgraph = v->subgraph};
    for (int i = 0; i < plan->n_trainings; i++) {
        const training *t = &plan->trainings[i];
        if (!i || t->graph != t[-1].graph) find_first_uses(t->graph, first, m->n_variables);
        if (!sign(list, count, t, i, first)) return false;
    }
    for (int i = 0; i < count; i++)
        if (list[i].signature) list[kept++] = list[i];
    if (!shards_deal(plan, list, kept)) return false;
    qsort(list, (size_t)kept, sizeof *list, compare);
    return cut_all(plan, list, kept);
}
