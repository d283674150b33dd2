/* plan.c - proves that any program may run after any other, on one session. When a run ends, all its sums
 * have ended (L1); its gathers may be in flight, for any number of runs. The stream is first in, first out,
 * so a later collective cannot overtake them. Anything else may touch what they bring only after the session
 * has waited, which it does for the buckets that hold a node's operands. Rules:
 *   L8   a gather in flight works on its whole bucket, in the store and without scratch: never in the arena,
 *        which the next program may overwrite
 *   L9   a node that touches a bucket which any program of the plan may have left in flight has it as an
 *        operand or assigns to it, for which sessions wait, or is on the communication stream itself; derived
 *        values have memory of their own
 *   L11  the programs of a step fill the same buckets: the first assigns the bucket's gradients in the store,
 *        the others add to all levels of these; an update alone adds up these levels
 *   L20  a subgraph has the options that weft_ddp gave it, and the ranks of its process group
 */
#include "runtime/verify/verify.h"
#include "runtime/plan/value.h"

#include "ops/optimizer/update.h"
#include "ops/kit/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- L8, L9 ---- */

static weft_status check_in_flight(const program *p, weft_error *error, const weft_node *gather) {
    verify_range r;
    const weft_variable *s = gather->variable;
    bool is_there = verify_locate(&gather->out[0], &r) && r.space == s && s->kind == VARIABLE_BUCKET;
    if (is_there && r.begin == 0 && r.end == (int64_t)type_bytes(&s->type) && gather->n_out == 1 &&
        !gather->workspace_bytes)
        return WEFT_OK;
    return verify_broken(p, error, "L8", gather, "outlasts its run, but its memory does not");
}

/* The sharded bucket whose memory holds a value; NULL: none. */
static const weft_variable *bucket_at(const weft_value *v) {
    verify_range r;
    if (!v || !verify_locate(v, &r) || !r.space) return NULL;
    const weft_variable *s = r.space;
    return s->kind == VARIABLE_BUCKET && s->shards ? s : NULL;
}

/* Whether a session waits for bucket s before n (see the head of this file). */
static bool is_waited_for(const weft_node *n, const weft_variable *s) {
    for (int i = 0; i < n->n_in; i++)
        if (bucket_at(n->in[i]) == s) return true;
    if (n->op == &weft_op_assign && bucket_at(&n->out[0]) == s) return true;
    return node_starts_collective(n);
}

/* L9. Sessions wait for operands, so only results are left. */
static weft_status check_touch(const program *p, weft_error *error, const weft_node *n,
                               const bool *in_flight) {
    for (int k = 0; k < n->n_out && !node_is_silent(n); k++) {
        const weft_variable *s = bucket_at(&n->out[k]);
        if (s && in_flight[s->index] && !is_waited_for(n, s))
            return verify_broken(p, error, "L9", n, "touches a bucket that no session waits for first");
        const weft_variable *v = n->out[k].variable;
        if (v && v->kind == VARIABLE_DERIVED && (v->bucket || !value_root(n->in[0])->variable))
            return verify_broken(p, error, "L9", n, "makes a derived value of a value without a version");
    }
    return WEFT_OK;
}

/* in_flight[s]: whether any program of the plan may leave a gather of bucket s in flight. */
static weft_status check_program(verify_index *x, weft_error *error, const bool *in_flight) {
    weft_status status = WEFT_OK;
    for (const weft_node *n = x->p->graph->first; n && !status; n = n->next) {
        if (verify_outlasts_run(x, n)) status = check_in_flight(x->p, error, n);
        if (!status) status = check_touch(x->p, error, n, in_flight);
    }
    return status;
}

static void find_in_flight(const verify_index *x, bool *in_flight) {
    for (const weft_node *n = x->p->graph->first; n; n = n->next)
        if (n->variable && verify_outlasts_run(x, n)) in_flight[n->variable->index] = true;
}

/* Two rounds over the programs: the first finds which gathers may be in flight, the second checks every
 * program against these. */
static weft_status check_programs(const weft_plan *plan, weft_error *error) {
    size_t variables = (size_t)plan->model->n_variables + 1;
    bool *in_flight = mem_new_array(&plan->env, variables, sizeof *in_flight);
    weft_status status = in_flight ? WEFT_OK : error_memory(error, "verify");
    for (int i = 0; i < 2 * plan->n_programs && !status; i++) {
        const program *p = &plan->programs[i % plan->n_programs];
        verify_index x;
        if (!verify_index_open(&x, p))
            status = error_memory(error, "verify");
        else if (i < plan->n_programs)
            find_in_flight(&x, in_flight);
        else if (!(status = check_program(&x, error, in_flight)))
            status = verify_deferred(p, error);
        verify_index_close(&x);
    }
    mem_free(&plan->env, in_flight, variables * sizeof *in_flight);
    return status;
}

/* ---- L20 ---- */

/* The bucket size in MiB where none is set: a sixteenth of the subgraph, from 1/16 to 25; 25 for one rank. */
static double usual_cap(const weft_plan *plan, double bytes) {
    double part = bytes / (16 << 20);
    return plan->options.world == 1 || part > 25 ? 25 : part < 0.0625 ? 0.0625 : part;
}

/* Whether g has the options that weft_ddp set, with the compile options where it set none. */
static bool has_own_options(const weft_plan *plan, const subgraph *g, double bytes) {
    const weft_compile_options *o = &plan->options;
    ddp_attrs want = {0};
    for (const ddp_entry *e = plan->model->ddps; e; e = e->next)
        if (strcmp(e->path, g->path) == 0) want = e->attrs;
    if (!want.zero && !want.shard) want.shard = (int64_t)o->shard;
    if (!want.zero) want.zero = o->zero;
    if (want.zero < 0 || o->world == 1) want.zero = 0;
    if (want.bucket_cap_mb == 0) want.bucket_cap_mb = o->bucket_cap_mb;
    if (want.bucket_cap_mb == 0) want.bucket_cap_mb = usual_cap(plan, bytes);
    return attrs_equal(&ddp_fields, &g->ddp, &want);
}

static bool has_own_ranks(const weft_plan *plan, const subgraph *g, int *ranks) {
    const char *why = NULL, *text = plan->options.world > 1 ? g->ddp.process_group : NULL;
    int n = process_group_of(text, plan->options.world, plan->options.rank, ranks, &why);
    bool same = n == g->n_ranks && g->rank < n && g->ranks[g->rank] == plan->options.rank;
    for (int i = 0; same && i < n; i++) same = ranks[i] == g->ranks[i];
    return same;
}

static void find_bytes(const weft_plan *plan, double *bytes) {
    for (const weft_variable *v = plan->model->variables; v; v = v->next)
        if (v->kind == VARIABLE_PARAMETER) bytes[v->subgraph] += (double)type_bytes(&v->type);
}

/* L20. Bytes of subgraphs are counted again for the usual bucket size. */
static weft_status check_subgraphs(const weft_plan *plan, weft_error *error) {
    size_t world = (size_t)plan->options.world, count = (size_t)plan->n_subgraphs + 1;
    int *ranks = mem_new_array(&plan->env, world, sizeof *ranks);
    double *bytes = mem_new_array(&plan->env, count, sizeof *bytes);
    weft_status status = ranks && bytes ? WEFT_OK : error_memory(error, "verify");
    if (!status) find_bytes(plan, bytes);
    for (int i = 0; i < plan->n_subgraphs && !status; i++) {
        const subgraph *g = &plan->subgraphs[i];
        if (!has_own_options(plan, g, bytes[i]) || !has_own_ranks(plan, g, ranks))
            status = error_set(error, WEFT_INTERNAL, "L20: subgraph %s: options or ranks are not its own",
                               g->name);
    }
    mem_free(&plan->env, ranks, world * sizeof *ranks);
    mem_free(&plan->env, bytes, count * sizeof *bytes);
    return status;
}

/* ---- L11 ---- */

/* Whether v is level `level` of the gradients of bucket s, by its path. */
static bool is_level(const weft_variable *v, const weft_variable *s, int level) {
    char path[1500];
    snprintf(path, sizeof path, "gradient.%s/%d", s->path, level);
    return v && v->kind == VARIABLE_GRADIENT && strcmp(v->path, path) == 0 && type_equal(&v->type, &s->type);
}

/* Whether `add` has all levels of bucket s, the highest first, then `more` operands. */
static bool has_levels(const program *p, const weft_node *add, const weft_variable *s, int more) {
    int levels = accumulate_levels(p->accumulate);
    if (add->n_in != levels + more || ((accumulate_attrs *)add->attrs)->last != program_ends_step(p))
        return false;
    for (int i = 0; i < levels; i++)
        if (!is_level(add->in[i]->variable, s, levels - 1 - i)) return false;
    return true;
}

/* Whether bucket b is assigned or added up as the program's phase requires; `add` is the node that adds it,
 * or NULL. */
static bool adds_up(const program *p, const weft_node *b, const weft_node *add) {
    if (p->phase == PHASE_WHOLE) return !b->out[0].variable;
    if (p->phase == PHASE_FIRST) return is_level(b->out[0].variable, b->variable, 0);
    if (p->phase == PHASE_UPDATE)
        return b->op == &weft_op_accumulate && has_levels(p, b, verify_filled_by(b), 0);
    return add && b->op == &weft_op_bucket && has_levels(p, add, b->variable, 1);
}

static const weft_value *added_by(const weft_node *n) {
    return n->op == &weft_op_accumulate ? n->in[n->n_in - 1] : NULL;
}

/* L11 within one program: what is done with each bucket. */
static weft_status check_sums(const program *p, weft_error *error) {
    size_t ids = (size_t)p->graph->next_id + 1;
    const weft_node **adds = mem_new_array(&p->plan->env, ids, sizeof *adds);
    weft_status status = adds ? WEFT_OK : error_memory(error, "verify");
    /* from the end, so that the node that adds b comes before b */
    for (const weft_node *n = p->graph->last; n && !status; n = n->prev) {
        const weft_value *v = added_by(n);
        if (v && !adds[v->id]) adds[v->id] = n;
        if (verify_filled_by(n) && !adds_up(p, n, adds[n->id]))
            status = verify_broken(p, error, "L11", n, "is not added to its own gradients");
    }
    mem_free(&p->plan->env, adds, ids * sizeof *adds);
    return status;
}

static int by_name(const void *pa, const void *pb) {
    const program *const *a = pa, *const *b = pb;
    int order = strcmp((*a)->name, (*b)->name);
    return order ? order : (*a > *b) - (*a < *b);
}

/* list[0 .. n) are the programs of one graph that have gradients. filled[s] counts those that fill bucket s;
 * it is 0 again afterwards. */
static weft_status check_step(const program *const *list, int n, int *filled, weft_error *error) {
    const weft_node *wrong = NULL;
    const program *of = NULL;
    for (int i = 0; i < n; i++)
        for (const weft_node *b = list[i]->graph->first; b; b = b->next) {
            const weft_variable *s = verify_filled_by(b);
            if (s) filled[s->index] += filled[s->index] == i;
        }
    for (int i = 0; i < n && !wrong; i++)
        for (const weft_node *b = list[i]->graph->first; b && !wrong; b = b->next) {
            const weft_variable *s = verify_filled_by(b);
            if (s && filled[s->index] != n) wrong = b, of = list[i];
        }
    if (wrong)
        return verify_broken(of, error, "L11", wrong, "has no counterpart in another program of its step");
    for (int i = 0; i < n; i++)
        for (const weft_node *b = list[i]->graph->first; b; b = b->next) {
            const weft_variable *s = verify_filled_by(b);
            if (s) filled[s->index] = 0;
        }
    return WEFT_OK;
}

/* L11 across the programs of a graph, which are sorted by name to find them together. */
static weft_status check_steps(const weft_plan *plan, weft_error *error) {
    size_t count = (size_t)plan->n_programs, variables = (size_t)plan->model->n_variables + 1;
    const program **list = mem_new_array(&plan->env, count, sizeof *list);
    int *filled = mem_new_array(&plan->env, variables, sizeof *filled);
    weft_status status = list && filled ? WEFT_OK : error_memory(error, "verify");
    for (size_t i = 0; list && i < count; i++) list[i] = &plan->programs[i];
    if (list && count) qsort(list, count, sizeof *list, by_name);
    for (size_t i = 0, end; i < count && !status; i = end) {
        for (end = i; end < count && strcmp(list[end]->name, list[i]->name) == 0;) end++;
        bool has_loss = list[end - 1]->phase == PHASE_LOSS; /* the last one in the plan */
        status = check_step(list + i, (int)(end - i) - has_loss, filled, error);
    }
    mem_free(&plan->env, list, count * sizeof *list);
    mem_free(&plan->env, filled, variables * sizeof *filled);
    return status;
}

weft_status verify_plan(const weft_plan *plan, weft_error *error) {
    weft_status status = check_subgraphs(plan, error);
    if (!status) status = verify_derived(plan, error);
    if (!status) status = check_programs(plan, error);
    for (int i = 0; i < plan->n_programs && !status; i++) status = check_sums(&plan->programs[i], error);
    return status ? status : check_steps(plan, error);
}
