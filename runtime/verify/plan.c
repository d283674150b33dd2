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
 *   L20  a subgraph has the options that weft_model_set_ddp gave it, and the ranks of its process group
 */
#include "runtime/verify/verify.h"
#include "runtime/plan/value.h"

#include "ops/optimizer/update.h"
#include "ops/kit/ops.h"

#include <stdio.h>
#include <string.h>

/* ---- L8, L9 ---- */

static bool check_in_flight(verify_index *x, const weft_node *gather) {
    verify_range r;
    const weft_variable *s = gather->variable;
    bool is_there = verify_locate(&gather->out[0], &r) && r.space == s && s->kind == VARIABLE_BUCKET;
    if (is_there && r.begin == 0 && r.end == (int64_t)type_bytes(&s->type) && gather->n_out == 1 &&
        !gather->workspace_bytes)
        return true;
    return verify_broken(x, "L8", gather, "outlasts its run, but its memory does not");
}

/* Whether a session waits for bucket s before n (see the head of this file). */
static bool is_waited_for(const weft_node *n, const weft_variable *s) {
    for (int i = 0; i < n->n_in; i++)
        if (verify_sharded(n->in[i]) == s) return true;
    if (n->op == &weft_op_assign && verify_sharded(&n->out[0]) == s) return true;
    return node_starts_collective(n);
}

/* L9. Sessions wait for operands, so only results are left. */
static bool check_touch(verify_index *x, const weft_node *n, const bool *in_flight) {
    for (int k = 0; k < n->n_out && !node_is_silent(n); k++) {
        const weft_variable *s = verify_sharded(&n->out[k]);
        if (s && in_flight[s->index] && !is_waited_for(n, s))
            return verify_broken(x, "L9", n, "touches a bucket that no session waits for first");
        const weft_variable *v = n->out[k].variable;
        if (v && v->kind == VARIABLE_DERIVED && (v->bucket || !value_root(n->in[0])->variable))
            return verify_broken(x, "L9", n, "makes a derived value of a value without a version");
    }
    return true;
}

/* in_flight[s]: whether any program of the plan may leave a gather of bucket s in flight. */
static bool check_program(verify_index *x, const bool *in_flight) {
    for (const weft_node *n = x->p->graph->first; n; n = n->next) {
        if (verify_outlasts_run(x, n) && !check_in_flight(x, n)) return false;
        if (!check_touch(x, n, in_flight)) return false;
    }
    return verify_deferred(x);
}

static void find_in_flight(const verify_index *x, bool *in_flight) {
    for (const weft_node *n = x->p->graph->first; n; n = n->next)
        if (n->variable && verify_outlasts_run(x, n)) in_flight[n->variable->index] = true;
}

/* Two rounds over the programs: the first finds which gathers may be in flight, the second checks every
 * program against these. */
static bool check_programs(verify_index *all) {
    const weft_plan *plan = all->plan;
    bool *in_flight = verify_array(all, all->n_variables, sizeof *in_flight), good = in_flight;
    for (int i = 0; i < 2 * plan->n_programs && good; i++) {
        verify_index x;
        good = verify_index_open(&x, plan, &plan->programs[i % plan->n_programs]);
        if (good && i < plan->n_programs)
            find_in_flight(&x, in_flight);
        else
            good = good && check_program(&x, in_flight);
        verify_index_close(&x, good, &all->error);
    }
    return good;
}

/* ---- L20 ---- */

/* The bucket size in MiB where none is set: a sixteenth of the subgraph, from 1/16 to 25; 25 for one rank. */
static double usual_cap(const weft_plan *plan, double bytes) {
    double part = bytes / (16 << 20);
    return plan->options.world == 1 || part > 25 ? 25 : part < 0.0625 ? 0.0625 : part;
}

/* Whether g has the options that weft_model_set_ddp set, with the compile options where it set none. */
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

/* L20. Bytes of subgraphs are counted again for the usual bucket size. */
static bool check_subgraphs(verify_index *x) {
    const weft_plan *plan = x->plan;
    int *ranks = verify_array(x, plan->options.world, sizeof *ranks);
    double *bytes = verify_array(x, plan->n_subgraphs + 1, sizeof *bytes);
    if (!ranks || !bytes) return false;
    for (const weft_variable *v = plan->model->variables; v; v = v->next)
        if (v->kind == VARIABLE_PARAMETER) bytes[v->subgraph] += (double)type_bytes(&v->type);
    for (int i = 0; i < plan->n_groups; i++) {
        const subgraph *g = &plan->subgraphs[i];
        bool is_group = i >= plan->n_subgraphs; /* it has no options */
        if ((!is_group && !has_own_options(plan, g, bytes[i])) || !has_own_ranks(plan, g, ranks))
            return !error_set(&x->error, WEFT_INTERNAL, "L20: subgraph %s: options or ranks are not its own",
                              g->name);
    }
    return true;
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

/* L11 within one program: what is done with each bucket. */
static bool check_sums(verify_index *x, const program *p) {
    const weft_node **adds = verify_array(x, p->graph->next_id + 1, sizeof *adds);
    /* from the end, so that the node that adds b comes before b */
    for (const weft_node *n = p->graph->last; n && adds; n = n->prev) {
        const weft_value *v = n->op == &weft_op_accumulate ? n->in[n->n_in - 1] : NULL;
        if (v && !adds[v->id]) adds[v->id] = n;
        if (verify_filled_by(n) && !adds_up(p, n, adds[n->id]))
            return verify_broken(x, "L11", n, "is not added to its own gradients");
    }
    return adds;
}

/* Counts in filled[s], by index of a bucket, the programs that fill it: graph's, but of a loss alone. Returns
 * how many programs there are. */
static int count_filled(const weft_plan *plan, const char *graph, int *filled) {
    int count = 0;
    for (int i = 0; i < plan->n_programs; i++) {
        const program *p = &plan->programs[i];
        if (strcmp(p->name, graph) || p->phase == PHASE_LOSS) continue;
        for (const weft_node *b = p->graph->first; b; b = b->next) {
            const weft_variable *s = verify_filled_by(b);
            if (s) filled[s->index] += filled[s->index] == count;
        }
        count++;
    }
    return count;
}

/* L11 across the programs of a graph, which follow one another in the plan. */
static bool check_steps(verify_index *x) {
    const weft_plan *plan = x->plan;
    int *filled = verify_array(x, x->n_variables, sizeof *filled), count = 0;
    for (int i = 0; filled && i < plan->n_programs; i++) {
        const program *p = &plan->programs[i];
        bool is_first = !i || strcmp(p[-1].name, p->name);
        if (is_first) memset(filled, 0, (size_t)x->n_variables * sizeof *filled);
        if (is_first) count = count_filled(plan, p->name, filled);
        for (const weft_node *b = p->graph->first; b && p->phase != PHASE_LOSS; b = b->next) {
            const weft_variable *s = verify_filled_by(b);
            if (s && filled[s->index] != count)
                return verify_broken(x, "L11", b, "has no counterpart in another program of its step");
        }
    }
    return filled;
}

static bool check_plan(verify_index *x) {
    if (!check_subgraphs(x) || !verify_derived(x) || !check_programs(x)) return false;
    for (int i = 0; i < x->plan->n_programs; i++)
        if (!check_sums(x, &x->plan->programs[i])) return false;
    return check_steps(x);
}

weft_status verify_plan(const weft_plan *plan, weft_error *error) {
    verify_index x;
    bool good = verify_index_open(&x, plan, NULL) && check_plan(&x);
    return verify_index_close(&x, good, error);
}
