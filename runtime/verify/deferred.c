/* deferred.c - proves that the deferred part of a program can run as late as a session likes, beside any
 * other program that does not touch what it touches (session/verify.c proves that none does). Rules:
 *   L16  a deferred part begins with a wait, in a plan of several ranks without `serial`; no node in it
 *        belongs to the forward or the backward, draws random numbers, counts micro-batches, reads the
 *        caller's memory, makes an output, or reads a number that the caller may set between runs
 *   L17  what a deferred part touches in the arena is in the in-flight region, and that region is in the
 *        arena
 */
#include "runtime/verify/verify.h"
#include "runtime/plan/value.h"

#include "ops/optimizer/update.h"

/* ---- L16 ---- */

/* Look-ups: by index of a variable, whether the program sets it before its deferred part; by id of a value,
 * whether it is an output, or an output is in its memory. */
typedef struct deferred_index {
    bool *is_set, *is_output;
} deferred_index;

static bool index_open(deferred_index *x, verify_index *of) {
    const program *p = of->p;
    x->is_set = verify_array(of, of->n_variables, sizeof *x->is_set);
    x->is_output = verify_array(of, of->n_ids, sizeof *x->is_output);
    if (!x->is_set || !x->is_output) return false;
    for (const weft_node *n = p->graph->first; n && n->order < p->deferred; n = n->next)
        if (n->op->flags & OP_WRITES && n->variable) x->is_set[n->variable->index] = true;
    for (const graph_output *o = p->graph->outputs; o; o = o->next)
        for (const weft_value *v = o->value; v; v = v->base) x->is_output[v->id] = true;
    return true;
}

/* Whether v is a number that the caller may set between runs (learning rate, counter), and the program has
 * not set it before. */
static bool may_change(const deferred_index *x, const weft_value *v) {
    const weft_variable *number = v->variable;
    if (!number || number->kind != VARIABLE_OPTIMIZER || number->bucket) return false;
    return !x->is_set[number->index];
}

static bool is_output(const deferred_index *x, const weft_node *n) {
    for (int k = 0; k < n->n_out; k++)
        if (x->is_output[n->out[k].id]) return true;
    return false;
}

/* Why n may not be in a deferred part (L16); NULL: it may. */
static const char *why_not(const deferred_index *x, const weft_node *n) {
    verify_range r;
    if (!n->is_update || n->is_backward) return "is not part of the update";
    if (n->op->flags & OP_RANDOM || n->op == &weft_op_accumulate) return "depends on which run is the last";
    if (is_output(x, n)) return "makes an output when its run is over";
    for (int i = 0; i < n->n_in; i++) {
        if (n->in[i] && !verify_locate(n->in[i], &r)) return "reads the caller's memory when its run is over";
        if (n->in[i] && may_change(x, n->in[i])) return "reads a number that may have changed since its run";
    }
    return NULL;
}

/* ---- L17 ---- */

/* Whether all that a node touches in the arena is in the in-flight region. */
static bool lies_in_region(const program *p, const weft_node *n) {
    verify_range r;
    for (int i = 0; i < verify_touches(n); i++)
        if (verify_touched(n, i, &r) && !r.space &&
            (r.begin < 0 || (uint64_t)r.end > p->plan->in_flight_bytes))
            return false;
    return true;
}

/* Silent nodes have nothing to run and may be anywhere. */
bool verify_deferred(verify_index *x) {
    const program *p = x->p;
    const weft_compile_options *o = &p->plan->options;
    const weft_node *first = NULL;
    deferred_index at;
    if (!index_open(&at, x)) return false;
    for (const weft_node *n = p->graph->first; n; n = n->next) {
        if (n->order < p->deferred || node_is_silent(n)) continue;
        const char *why = why_not(&at, n);
        if (!first) first = n;
        if (why) return verify_broken(x, "L16", n, why);
        if (!lies_in_region(p, n))
            return verify_broken(x, "L17", n, "outlasts its run, but its memory does not");
    }
    if (first && (first->op != &weft_op_wait || o->world == 1 || o->serial))
        return verify_broken(x, "L16", first, "outlasts its run without a sum");
    uint64_t arena_bytes = p->plan->memory.activations;
    return !first || !arena_bytes || p->plan->in_flight_bytes <= arena_bytes ||
           verify_broken(x, "L17", first, "the in-flight region leaves the arena");
}
