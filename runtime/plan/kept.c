/* kept.c - what a session with a guard keeps of each graph's step, so that a bad one can be run again. */
#include "runtime/plan/kept.h"
#include "runtime/plan/value.h"

#include "ops/kit/ops.h"


/* The first program of a graph that trains has its inputs, and its count of micro-batches. */
static bool is_head(const program *p) {
    return p->plan->options.guard && p->trains && (p->phase == PHASE_WHOLE || p->phase == PHASE_FIRST);
}

/* What n writes before the gate: the state of the model, or a parameter that the model itself assigns. */
static const weft_variable *changed_by(const weft_node *n) {
    const weft_variable *v = n->is_update ? NULL : node_written(n);
    return v && (v->kind == VARIABLE_STATE || v->kind == VARIABLE_PARAMETER) ? v : NULL;
}

const weft_variable *kept_next(const program *head, const weft_node **at) {
    for (const weft_node *n = *at ? (*at)->next : head->graph->first; n; n = n->next) {
        const weft_variable *v = changed_by(n);
        const weft_node *earlier = head->graph->first;
        while (v && earlier != n && changed_by(earlier) != v) earlier = earlier->next;
        if (!v || earlier != n) continue;
        *at = n;
        return v;
    }
    return NULL;
}

uint64_t kept_input_bytes(const program *p) {
    uint64_t bytes = 0;
    for (const weft_node *n = p->graph->first; n; n = n->next)
        if (n->op == &weft_op_input) bytes += type_room(&n->out[0].type);
    return bytes;
}

uint64_t kept_flag_bytes(const program *head) {
    for (const weft_node *n = head->graph->first; n; n = n->next)
        if (n->op == &weft_op_guard) return type_room(&n->out[0].type);
    return 0;
}

uint64_t kept_bytes(const program *p) {
    if (!is_head(p)) return 0;
    uint64_t bytes = (uint64_t)p->accumulate * kept_input_bytes(p) + kept_flag_bytes(p);
    const weft_node *at = NULL;
    for (const weft_variable *v; (v = kept_next(p, &at));) bytes += type_room(&v->type);
    return bytes;
}
