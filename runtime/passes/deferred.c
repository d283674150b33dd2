/* deferred.c - finds the deferred part of each program: the end of the schedule, from one of its last waits
 * on, which may run during the next run. It consists of waits for sums, the norm, updates, and ZeRO's
 * gathers. A session leaves it pending and runs it as far as a later run's next step needs. So the last sums
 * of a backward overlap the part of the next forward that does not read their parameters.
 *
 *   - A deferred part reads nothing of the caller's (learning rates and steps are read before it) and nothing
 *     of its run (random draws, the number of the micro-batch), and it makes no output. So running it later
 *     changes no result.
 *   - At most one deferred part is pending. Another program's first collective, or its first write into the
 *     in-flight region of the arena (memory.c), runs it to its end. So collectives have one order on all
 *     ranks, whatever is fetched.
 *   - A program has one only where it gains something: some program reads parameters before it needs what the
 *     deferred part updates. That holds for two graphs that train parts of a model, for a graph after a
 *     frozen part of it, and for one whose sums were put off for this (collective_order.c). The region costs
 *     memory, which the plan states.
 */
#include "runtime/plan/program.h"
#include "runtime/passes/passes.h"
#include "runtime/plan/value.h"

#include "ops/optimizer/update.h"

#include <string.h>

/* The order after the last node's: no deferred part. */
static int steps_of(const program *p) {
    return p->graph->last ? p->graph->last->order + 1 : 0;
}

/* Sets value->uses to whether the value is an output, or an output is in its memory. */
static void find_outputs(const weft_graph *g) {
    for (weft_node *n = g->first; n; n = n->next)
        for (int k = 0; k < n->n_out; k++) n->out[k].uses = false;
    for (const graph_output *o = g->outputs; o; o = o->next)
        for (weft_value *v = o->value; v; v = v->base) v->uses = true;
}

static bool makes_output(const weft_node *n) {
    for (int k = 0; k < n->n_out; k++)
        if (n->out[k].uses) return true;
    return false;
}

/* Learning rates and step counters, which a caller may set between runs. */
static bool is_number(const weft_variable *v) {
    return v && v->kind == VARIABLE_OPTIMIZER && !v->bucket;
}

/* Reads such a number from the store, rather than what the program itself has assigned to it before. */
static bool reads_number(const weft_value *v) {
    return is_number(v->variable) && !(v->node->op->flags & OP_WRITES);
}

/* Whether a node may run after its run has ended (the first rule above). */
static bool may_outlast(const weft_node *n) {
    if (!n->is_update || n->op->flags & OP_RANDOM || n->op == &weft_op_accumulate || makes_output(n))
        return false;
    if (n->op == &weft_op_gate) return false;       /* the run ends with an error, or not */
    if (n->op == &weft_op_loss_scale) return false; /* the next backward starts from its result */
    if (n->op->flags & OP_WRITES && is_number(n->variable)) return false;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && (value_root(n->in[i])->node->op == &weft_op_input || reads_number(n->in[i])))
            return false;
    return true;
}

/* The places where a deferred part may begin, the longest part first: the first wait after which all nodes
 * may outlast the run, then each later wait for an all_reduce (ZeRO's gathers should start within the run).
 * starts[] has room for every node; after the last start comes the end of the schedule. Returns how many
 * starts there are. */
static int find_starts(const program *p, int *starts) {
    int count = 0, first = steps_of(p);
    /* On a GPU the host does not wait at the end of a run, so nothing would be gained. */
    bool is_cpu = p->plan->options.device == WEFT_DEVICE_CPU;
    starts[0] = first;
    if (!is_cpu || p->plan->options.world == 1 || p->plan->options.serial) return 0;
    find_outputs(p->graph);
    for (const weft_node *n = p->graph->last; n; n = n->prev) {
        if (node_is_silent(n)) continue;
        if (!may_outlast(n)) break;
        if (n->op == &weft_op_wait) first = n->order;
    }
    for (const weft_node *n = p->graph->first; n; n = n->next) {
        bool is_sum = n->op == &weft_op_wait && n->in[0]->node->op == &weft_op_all_reduce;
        if (n->order == first || (n->order > first && is_sum)) starts[count++] = n->order;
    }
    starts[count] = steps_of(p);
    return count;
}

/* ---- whether it gains anything ---- */

/* Marks (sets), or looks for, the variables of the store that a node touches; by index. Returns whether one
 * was marked before. */
static bool touches(const weft_node *n, bool *touched, bool sets) {
    bool any = false;
    for (int i = 0; i < n->n_in + n->n_out; i++) {
        const weft_value *v = node_value_at(n, i);
        const weft_variable *owner = v ? value_owner(v) : NULL;
        if (!owner) continue;
        any |= touched[owner->index];
        touched[owner->index] |= sets;
    }
    return any;
}

static bool reads_parameters(const weft_node *n) {
    for (int i = 0; i < n->n_in; i++) {
        const weft_variable *owner = n->in[i] ? value_owner(n->in[i]) : NULL;
        if (owner && (owner->kind == VARIABLE_PARAMETER || owner->kind == VARIABLE_BUCKET)) return true;
    }
    return false;
}

/* Whether `next` reads parameters before its first collective and before it touches what the deferred part
 * touches. */
static bool goes_on(const program *next, bool *touched) {
    for (const weft_node *n = next->graph->first; n; n = n->next) {
        if (node_is_silent(n)) continue;
        if (node_starts_collective(n) || touches(n, touched, false)) return false;
        if (reads_parameters(n)) return true;
    }
    return false;
}

/* Whether the deferred part from p->deferred on lets any program of the plan continue. */
static bool pays(const weft_plan *plan, const program *p, bool *touched) {
    for (const weft_node *n = p->graph->last; n && n->order >= p->deferred; n = n->prev)
        if (!node_is_silent(n)) touches(n, touched, true);
    for (int i = 0; i < plan->n_programs; i++)
        if (goes_on(&plan->programs[i], touched)) return true;
    return false;
}

static bool pays_from(const weft_plan *plan, program *p, int start, bool *touched) {
    memset(touched, 0, ((size_t)plan->model->n_variables + 1) * sizeof *touched);
    p->deferred = start;
    return pays(plan, p, touched);
}

/* Chooses the longest deferred part that pays: put-off sums (collective_order.c) may outlast a run whose
 * other sums must be done. A shorter one touches less, so it pays too; the border is found by binary search,
 * in log n walks. */
static bool choose_deferred(const weft_plan *plan, program *p) {
    bool *touched = scratch_array(plan->model, plan->model->n_variables + 1, sizeof *touched);
    int *starts = scratch_array(plan->model, p->graph->n_nodes + 1, sizeof *starts);
    if (!touched || !starts) return false;
    int low = 0, high = find_starts(p, starts);
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (pays_from(plan, p, starts[middle], touched))
            high = middle;
        else
            low = middle + 1;
    }
    p->deferred = starts[low];
    return true;
}

/* Chooses for every program, then places what the deferred parts need, since all programs share that region.
 */
bool deferred_find(weft_plan *plan) {
    for (int i = 0; i < plan->n_programs; i++)
        if (!choose_deferred(plan, &plan->programs[i])) return false;
    for (int i = 0; i < plan->n_programs; i++) {
        program *p = &plan->programs[i];
        if (!memory_place_in_flight(p)) return false;
        if (p->in_flight_bytes > plan->in_flight_bytes) plan->in_flight_bytes = p->in_flight_bytes;
    }
    return true;
}
