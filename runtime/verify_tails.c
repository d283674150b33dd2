/* verify_tails.c - proves that the tail of a program can run as late as a session likes, beside any other programs that
 * do not meet it (verify_session.c: that they do not). Rules:
 *   L16  a tail begins with a wait, in a plan of several ranks that overlap; no node in it is of the forward or the
 *        backward, draws numbers or counts micro-batches, reads the caller's memory, makes an output, or reads a number
 *        that the caller may set between runs
 *   L17  what it touches in the arena lies in the carried region, which is within the arena
 */
#include "runtime/verify.h"

#include "ops/collective.h"
#include "ops/update.h"

#include <string.h>

/* ---- L16 ---- */

/* Learning rates, and counters: but for one that the program has set before. */
static bool may_change(const program *p, const weft_value *v) {
    const weft_variable *number = v->variable;
    if (!number || number->kind != VARIABLE_OPTIMIZER || number->segment) return false;
    for (const weft_node *n = p->graph->first; n && n->order < p->tail; n = n->next)
        if (n->op->flags & OP_WRITES && n->variable == number) return false;
    return true;
}

static bool is_output(const weft_node *n) {
    for (const graph_output *o = n->graph->outputs; o; o = o->next)
        for (const weft_value *v = o->value; v; v = v->base)
            if (v->node == n) return true;
    return false;
}

static const char *why_not(const program *p, const weft_node *n) {
    verify_range r;
    if (!n->is_update || n->is_backward) return "is no part of the update";
    if (n->op->flags & OP_RANDOM || n->op == &weft_op_accumulate) return "depends on which run is the last";
    if (is_output(n)) return "makes an output when its run is over";
    for (int i = 0; i < n->n_in; i++) {
        if (n->in[i] && !verify_locate(n->in[i], &r)) return "reads the caller's memory when its run is over";
        if (n->in[i] && may_change(p, n->in[i])) return "reads a number that may have changed since its run";
    }
    return NULL;
}

/* ---- L17 ---- */

static bool is_carried(const program *p, const weft_value *v) {
    verify_range r;
    if (!v || !verify_locate(v, &r) || r.space) return true;
    return r.begin >= 0 && (uint64_t)r.end <= p->plan->carried_bytes;
}

static bool lies_in_region(const program *p, const weft_node *n) {
    bool good =
        !n->workspace_bytes || (uint64_t)n->workspace_offset + n->workspace_bytes <= p->plan->carried_bytes;
    for (int i = 0; i < n->n_in; i++) good &= is_carried(p, n->in[i]);
    for (int k = 0; k < n->n_out; k++) good &= is_carried(p, &n->out[k]);
    return good;
}

weft_status verify_tail(const program *p, weft_error *error) {
    const weft_compile_options *o = &p->plan->options;
    const weft_node *first = NULL;
    for (const weft_node *n = p->graph->first; n; n = n->next) {
        if (n->order < p->tail || node_is_silent(n)) continue;
        const char *why = why_not(p, n);
        if (!first) first = n;
        if (why) return verify_broken(p, error, "L16", n, why);
        if (!lies_in_region(p, n))
            return verify_broken(p, error, "L17", n, "outlasts its run on memory that does not");
    }
    if (first && (first->op != &weft_op_wait || o->world == 1 || o->serial))
        return verify_broken(p, error, "L16", first, "outlasts its run for no sum");
    if (first && p->plan->carried_bytes > p->plan->memory.activations && p->plan->memory.activations)
        return verify_broken(p, error, "L17", first, "the carried region leaves the arena");
    return WEFT_OK;
}
