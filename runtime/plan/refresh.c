/* refresh.c - see refresh.h. The steps of a training are a ring of programs: a derived value is stale if,
 * going back along the ring, an update of its parameter comes before a program that makes the value. */
#include "runtime/plan/refresh.h"

#include "runtime/plan/value.h"

/* Whole if there is one micro-batch, else first, k - 2 times add, last; with options.manual first, k - 1
 * times add, update. */
int program_runs_in_step(const program *p) {
    if (p->phase == PHASE_LOSS) return 0;
    return p->phase == PHASE_ADD ? p->accumulate - (p->plan->options.manual ? 1 : 2) : 1;
}

/* The variable whose versions the store counts: the bucket of a parameter that is in one. */
static const weft_variable *counted(const weft_variable *v) {
    return v && v->bucket ? v->bucket : v;
}

static bool program_writes(const program *p, const weft_variable *v) {
    for (const weft_node *n = p->graph->first; n; n = n->next) {
        const weft_variable *written = node_written(n);
        if (written && counted(written) == v) return true;
    }
    return false;
}

static bool program_makes(const program *p, const weft_variable *derived) {
    for (const weft_node *n = p->graph->first; n; n = n->next)
        if (n->n_out && n->out[0].variable == derived) return true;
    return false;
}

bool program_runs_node(const program *p, const weft_node *n) {
    const weft_variable *made = n->n_out ? n->out[0].variable : NULL;
    if (!made || made->kind != VARIABLE_DERIVED) return true;
    const weft_plan *plan = p->plan;
    const weft_variable *from = counted(value_root(n->in[0])->variable);
    int own = (int)(p - plan->programs);
    for (int back = 1; back <= plan->n_programs; back++) {
        const program *before = &plan->programs[(own + plan->n_programs - back) % plan->n_programs];
        if (!program_runs_in_step(before) || (!before->trains && before != p)) continue;
        if (program_writes(before, from)) return true;
        if (program_makes(before, made)) return false;
    }
    return false;
}
