/* counters.c - a step counter in the store for each graph that draws random numbers. */
#include "runtime/passes/passes.h"

/* Any node that draws counts, also in an eval graph. */
static bool has_random(const weft_graph *g) {
    for (const weft_node *n = g->first; n; n = n->next)
        if (n->op->flags & OP_RANDOM) return true;
    return false;
}

/* Makes a counter of every graph that draws, whichever graph is compiled, so that stores of a model fit all
 * of its plans. */
bool counters_make(weft_plan *plan) {
    tensor_type type = type_scalar(WEFT_F64);
    for (const weft_graph *g = plan->source->graphs; g; g = g->next) {
        if (!has_random(g)) continue;
        if (!variable_made(plan->model, counter_path_of(g->name).text, VARIABLE_OPTIMIZER, &type,
                           (weft_init){0}))
            return false;
    }
    return true;
}
