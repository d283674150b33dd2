/* world.c - proves that the ranks of a world fit together: their plans, each compiled by itself, do the same
 * collectives in the same order in every program. So whatever the order of programs, as long as it is the
 * same on all ranks, no rank waits for something that another never starts. Rules:
 *   L12  all ranks have the same programs, and these the same collectives: op, path, type, number, group,
 *        root, wire
 *   L13  parameters have the same offsets on all ranks; the members of a process group agree on its ranks and
 *        their order, and on the range of a bucket that each rank owns
 */
#include "runtime/verify/verify.h"
#include "runtime/plan/value.h"

#include "graph/text/text.h"
#include "ops/structure/collective.h"

#include <stdlib.h>
#include <string.h>

static weft_status differ(weft_error *error, const char *rule, int rank, const char *where,
                          const char *what) {
    return error_set(error, WEFT_INTERNAL, "%s: rank %d, %s: %s", rule, rank, where, what);
}

/* ---- L12 ---- */

static const weft_node *next_start(const weft_node *n) {
    while (n && !node_starts_collective(n)) n = n->next;
    return n;
}

static bool is_same_collective(const weft_node *m, const weft_node *n) {
    const collective_attrs *a = m->attrs, *b = n->attrs;
    return m->op == n->op && strcmp(a->path, b->path) == 0 && type_equal(&m->out[0].type, &n->out[0].type) &&
           a->order == b->order && a->group == b->group && a->root == b->root && a->bf16 == b->bf16 &&
           a->unordered == b->unordered && !strcmp(a->over ? a->over : "", b->over ? b->over : "");
}

/* Compares the collectives of two ranks' programs pairwise, in order. */
static weft_status check_sequence(const program *first, const program *p, int rank, weft_error *error) {
    if (strcmp(first->name, p->name) || first->phase != p->phase)
        return differ(error, "L12", rank, p->graph->name, "rank 0 has another program in its place");
    const weft_node *m = next_start(first->graph->first), *n = next_start(p->graph->first);
    while (m && n && is_same_collective(m, n)) {
        m = next_start(m->next);
        n = next_start(n->next);
    }
    return m || n ? differ(error, "L12", rank, p->graph->name, "its collectives are not those of rank 0")
                  : WEFT_OK;
}

/* ---- L13 ---- */

/* Same path, type, members and offsets. */
static bool lies_alike(const weft_variable *v, const weft_variable *w) {
    bool same =
        strcmp(v->path, w->path) == 0 && v->n_members == w->n_members && type_equal(&v->type, &w->type);
    for (int i = 0; same && i < v->n_members; i++)
        same = strcmp(v->members[i]->path, w->members[i]->path) == 0 &&
               v->members[i]->offset == w->members[i]->offset;
    return same;
}

static const weft_variable *next_bucket(const weft_variable *v) {
    while (v && v->kind != VARIABLE_BUCKET) v = v->next;
    return v;
}

/* Same ranges for all ranks of the group. */
static bool shares_alike(const subgraph *g, const weft_variable *s, const weft_variable *other) {
    bool same = (s->shards != NULL) == (other->shards != NULL);
    for (int i = 0; same && s->shards && i < g->n_ranks; i++) same = s->shards[i] == other->shards[i];
    return same;
}

/* Offsets are compared with rank 0, shares with the first rank of the bucket's process group. */
static weft_status check_buckets(const weft_plan *const *plans, int rank, weft_error *error) {
    const weft_variable *first = next_bucket(plans[0]->model->variables);
    for (const weft_variable *s = next_bucket(plans[rank]->model->variables); s || first;
         s = next_bucket(s->next), first = next_bucket(first->next)) {
        if (!s || !first || !lies_alike(s, first))
            return differ(error, "L13", rank, s ? s->path : first->path,
                          "parameters are not laid out as on rank 0");
        const subgraph *g = &plans[rank]->subgraphs[s->subgraph];
        const weft_variable *head = variable_find(plans[g->ranks[0]]->model, s->path);
        if (!head || !shares_alike(g, s, head))
            return differ(error, "L13", rank, s->path, "ranges are not those of its process group");
    }
    return WEFT_OK;
}

/* Each subgraph's ranks, as its first rank lists them. */
static weft_status check_groups(const weft_plan *const *plans, int rank, weft_error *error) {
    const weft_plan *plan = plans[rank];
    for (int i = 0; i < plan->n_groups; i++) {
        const subgraph *g = &plan->subgraphs[i], *head;
        bool same = i < plans[g->ranks[0]]->n_groups && g->ranks[g->rank] == rank;
        head = same ? &plans[g->ranks[0]]->subgraphs[i] : g;
        same = same && strcmp(g->path, head->path) == 0 && g->n_ranks == head->n_ranks;
        for (int k = 0; same && k < g->n_ranks; k++) same = g->ranks[k] == head->ranks[k];
        if (!same)
            return differ(error, "L13", rank, g->name,
                          "its process group is another seen from its first rank");
    }
    return WEFT_OK;
}

static weft_status check_place(const weft_plan *first, const weft_plan *plan, int rank, int world,
                               weft_error *error) {
    if (plan->options.rank == rank && plan->options.world == world &&
        plan->n_subgraphs == first->n_subgraphs && plan->n_groups == first->n_groups)
        return WEFT_OK;
    return differ(error, "L12", rank, plan->model->name, "its plan is not of this world");
}

/* ---- a rank, and all ranks ---- */

weft_status verify_rank_order(const weft_plan *first, const weft_plan *plan, weft_error *error) {
    int rank = plan->options.rank;
    weft_status status = check_place(first, plan, rank, first->options.world, error);
    if (!status && plan->n_programs != first->n_programs)
        status = differ(error, "L12", rank, plan->model->name, "it has more or fewer programs than rank 0");
    for (int i = 0; i < plan->n_programs && !status; i++)
        status = check_sequence(&first->programs[i], &plan->programs[i], rank, error);
    return status;
}

weft_status verify_rank_ranges(const weft_plan *const *plans, int rank, weft_error *error) {
    weft_status status = check_place(plans[0], plans[rank], rank, plans[0]->options.world, error);
    if (!status) status = check_groups(plans, rank, error);
    return status ? status : check_buckets(plans, rank, error);
}

/* plans[r] is rank r's plan; n is the size of the world. */
weft_status verify_world(const weft_plan *const *plans, int n, weft_error *error) {
    weft_status status = check_place(plans[0], plans[0], 0, n, error);
    for (int r = 0; r < n && !status; r++) {
        status = verify_rank_order(plans[0], plans[r], error);
        if (!status) status = verify_rank_ranges(plans, r, error);
    }
    return status;
}

/* Whether norms of all gradients are computed: each rank adds up its own ranges' part. */
static bool takes_norms(const weft_plan *plan) {
    bool is = plan->options.guard == WEFT_GUARD_GRAD;
    for (int i = 0; i < plan->n_trainings; i++) is |= plan->trainings[i].clips;
    for (int i = 0; i < plan->n_optimizers; i++) is |= plan->optimizers[i].loss_scale != NULL;
    return is;
}

/* Variables, own ranges among them, how each bucket is summed, and the sizes of process groups: passes after
 * the one that ends `states` see a rank in nothing else, unless graphs have ops over ranks. Empty ranges
 * have no variable, but norms have a place for each. */
char *verify_rank_text(const weft_plan *plan) {
    bool has_places = takes_norms(plan);
    char *variables = weft_plan_text(plan);
    text t = {0};
    text_add(&t, "%s", variables ? variables : "");
    for (int i = 0; i < plan->n_groups; i++) text_add(&t, "%d ", plan->subgraphs[i].n_ranks);
    if (plan->has_values) text_add(&t, "rank %d ", plan->options.rank);
    for (const weft_variable *s = next_bucket(plan->model->variables); s; s = next_bucket(s->next)) {
        int64_t begin = 0, end = 0;
        if (s->sum) graph_write(&t, s->sum);
        if (s->shards) shard_range(plan, s, &begin, &end);
        if (begin < end || has_places) text_add(&t, "%d: %jd %jd\n", s->index, begin, end);
    }
    bool good = variables != NULL;
    weft_text_free(variables);
    char *all = text_detach(&t);
    if (good) return all;
    free(all);
    return NULL;
}
