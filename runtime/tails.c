/* tails.c - what need not be over when a run is: the tail of a program. It is the end of the schedule from its last waits
 * on: waits for sums, the norm, updates, the way back of what ZeRO shares out. A session leaves it pending, and runs it as
 * far as a later run's next step needs: a sum that the backward ended with hides behind what does not read its parameters.
 *
 *   - A tail reads nothing of the caller's nor of its run (random draws, the micro-batch's number) and makes no output; so
 *     later is as good as now.
 *   - One tail is pending at a time: another program's first collective, or its first write into the carried region of
 *     the arena (memory_plan.c), runs it to its end. So collectives keep one order on all ranks, whatever is fetched.
 *   - Only where something is gained: some program reads parameters before it needs what the tail updates. Two graphs
 *     that train parts of a model, a graph behind a frozen part of it, or one whose sums were put off for this (lane_order.c).
 *     The region costs memory, which the plan states.
 */
#include "runtime/program.h"

#include "ops/collective.h"
#include "ops/update.h"

#include <string.h>

static int steps_of(const program *p) {
    return p->graph->last ? p->graph->last->order + 1 : 0;
}

static bool makes_output(const weft_node *n) {
    for (const graph_output *o = n->graph->outputs; o; o = o->next)
        for (const weft_value *v = o->value; v; v = v->base)
            if (v->node == n) return true;
    return false;
}

static bool may_outlast(const weft_node *n) {
    if (!n->is_update || n->op->flags & OP_RANDOM || n->op == &weft_op_accumulate || makes_output(n))
        return false;
    if (n->op == &weft_op_loss_scale) return false; /* the next backward begins with its result */
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && value_root(n->in[i])->node->op == &weft_op_input) return false;
    return true;
}

static int find_tail(const program *p) {
    int first = steps_of(p);
    bool is_cpu =
        p->plan->options.device == WEFT_DEVICE_CPU; /* on a GPU the host does not wait at the end of a run */
    if (!is_cpu || p->plan->options.world == 1 || p->plan->options.serial) return first;
    for (const weft_node *n = p->graph->last; n; n = n->prev) {
        if (node_is_silent(n)) continue;
        if (!may_outlast(n)) break;
        if (n->op == &weft_op_wait) first = n->order;
    }
    return first;
}

/* The next wait for a whole sum, behind which a shorter tail would begin. (What ZeRO sends back should go out in the run.) */
static int next_wait(const program *p) {
    for (const weft_node *n = p->graph->first; n; n = n->next)
        if (n->order > p->tail && n->op == &weft_op_wait && n->in[0]->node->op == &weft_op_all_reduce)
            return n->order;
    return steps_of(p);
}

/* ---- what it is good for ---- */

/* Sets, or looks for, the store's variables that a node touches; by index. */
static bool touches(const weft_node *n, bool *touched, bool sets) {
    bool any = false;
    for (int i = 0; i < n->n_in + n->n_out; i++) {
        const weft_value *v = i < n->n_in ? n->in[i] : &n->out[i - n->n_in];
        const weft_variable *home = v ? value_home(v) : NULL;
        if (!home) continue;
        any |= touched[home->index];
        touched[home->index] |= sets;
    }
    return any;
}

static bool reads_parameters(const weft_node *n) {
    for (int i = 0; i < n->n_in; i++) {
        const weft_variable *home = n->in[i] ? value_home(n->in[i]) : NULL;
        if (home && (home->kind == VARIABLE_PARAMETER || home->kind == VARIABLE_SEGMENT)) return true;
    }
    return false;
}

/* Whether `next` reads parameters before it must wait for what is touched. */
static bool goes_on(const program *next, bool *touched) {
    for (const weft_node *n = next->graph->first; n; n = n->next) {
        if (node_is_silent(n)) continue;
        if (node_starts_collective(n) || touches(n, touched, false)) return false;
        if (reads_parameters(n)) return true;
    }
    return false;
}

static bool pays(const weft_plan *plan, const program *p, bool *touched) {
    for (const weft_node *n = p->graph->last; n && n->order >= p->tail; n = n->prev)
        if (!node_is_silent(n)) touches(n, touched, true);
    for (int i = 0; i < plan->n_programs; i++)
        if (goes_on(&plan->programs[i], touched)) return true;
    return false;
}

/* The longest tail that pays: sums that were put off (lane_order.c) outlast a run whose others must be over. */
static bool choose_tail(const weft_plan *plan, program *p) {
    weft_model *m = plan->model;
    size_t variables = (size_t)m->n_variables + 1;
    bool *touched = arena_new_array(&m->arena, variables, sizeof *touched);
    if (!touched) return model_fail(m, NULL, WEFT_MEMORY, "tails: memory could not be had");
    p->tail = find_tail(p);
    while (p->tail < steps_of(p) && !pays(plan, p, touched)) {
        memset(touched, 0, variables * sizeof *touched);
        p->tail = next_wait(p);
    }
    return true;
}

bool tails_find(weft_plan *plan) {
    for (int i = 0; i < plan->n_programs; i++)
        if (!choose_tail(plan, &plan->programs[i])) return false;
    for (int i = 0; i < plan->n_programs; i++) {
        program *p = &plan->programs[i];
        if (!memory_carry(p)) return false;
        if (p->carried_bytes > plan->carried_bytes) plan->carried_bytes = p->carried_bytes;
    }
    return true;
}
