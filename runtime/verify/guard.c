/* guard.c - proves that a bad step changes nothing (weft_compile_options.guard). Rules:
 *   L22  a program that ends a step of a plan with a guard has one gate, which reads the flags of all losses
 *        that the graph minimizes, summed over the world, and comes before every update; each earlier program
 *        of the step makes flags; no other program has a guard or a gate; a spike of a loss is judged by the
 *        mean of this loss
 */
#include "runtime/verify/verify.h"
#include "runtime/plan/value.h"

#include "ops/kit/ops.h"
#include "ops/optimizer/update.h"
#include "ops/structure/collective.h"

#include <string.h>

static int losses_of(const program *p) {
    int count = 0;
    for (int i = 0; i < p->plan->n_trainings; i++) count += strcmp(p->plan->trainings[i].name, p->name) == 0;
    return p->plan->options.guard && p->phase != PHASE_LOSS ? count : 0;
}

/* Whether n changes what outlasts the step: parameters, the optimizer's state, its numbers, averages. */
static bool is_update(const weft_node *n) {
    const weft_variable *v = node_written(n);
    bool writes = n->is_update && v && v->kind != VARIABLE_GRADIENT;
    for (int k = 0; n->is_update && !node_is_silent(n) && k < n->n_out; k++) {
        v = value_root(&n->out[k])->variable;
        writes |= v && v->kind != VARIABLE_GRADIENT && !variable_is_sessions(v);
    }
    return writes;
}

/* The node whose flags the gate reads; NULL: not by a sum over the world. */
static const weft_node *source_of(const program *p, const weft_node *gate) {
    const weft_node *n = gate->in[0]->node;
    if (p->plan->options.world == 1) return n;
    const weft_node *sum = n->op == &weft_op_wait ? n->in[0]->node : n;
    bool is_whole = sum->op == &weft_op_all_reduce &&
                    ((const collective_attrs *)sum->attrs)->group == p->plan->n_subgraphs;
    return is_whole && n != sum ? sum->in[0]->node : NULL;
}

/* Does the guard read, after the losses, the means of the same calls? */
static bool reads_means(const program *p, const weft_node *guard, int losses) {
    const guard_attrs *a = guard->attrs;
    int k = losses;
    if (!(a->factor > 0) || !a->losses) return true;
    if (guard->n_in != 2 * losses) return false;
    for (int i = 0; i < p->plan->n_trainings; i++) {
        const training *t = &p->plan->trainings[i];
        if (strcmp(t->name, p->name) == 0 && value_root(guard->in[k++])->variable != t->loss_mean)
            return false;
    }
    return true;
}

static const char *why_wrong(const program *p, const weft_node *guard, const weft_node *gate) {
    int losses = losses_of(p);
    bool ends = program_ends_step(p);
    if (!losses) return guard || gate ? "guards what needs no guard" : NULL;
    if (!guard || !gate != !ends) return ends ? "there is no gate" : "there are no flags";
    const guard_attrs *a = guard->attrs;
    if (a->count != losses || a->losses != (p->phase == PHASE_UPDATE ? 0 : losses))
        return "leaves out a loss";
    if (!reads_means(p, guard, losses)) return "judges a loss by another one's mean";
    return gate && source_of(p, gate) != guard ? "does not read the flags of all ranks" : NULL;
}

bool verify_guard(verify_index *x) {
    const program *p = x->p;
    const weft_node *guard = NULL, *gate = NULL, *early = NULL;
    int guards = 0, gates = 0;
    for (const weft_node *n = p->graph->first; n; n = n->next) {
        guards += n->op == &weft_op_guard;
        gates += n->op == &weft_op_gate;
        if (n->op == &weft_op_guard) guard = n;
        if (n->op == &weft_op_gate) gate = n;
        if (!gate && !early && is_update(n)) early = n;
    }
    const char *why = guards > 1 || gates > 1 ? "there is more than one gate" : why_wrong(p, guard, gate);
    if (!why && gate && early) return verify_broken(x, "L22", early, "updates before the gate");
    const weft_node *at = gate ? gate : guard ? guard : p->graph->last;
    return !why || !at || verify_broken(x, "L22", at, why);
}
