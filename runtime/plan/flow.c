/* flow.c - what a plan says of its flow. */
#include "graph/settings/flow.h"

#include "runtime/plan/program.h"

bool weft_plan_flow(const weft_plan *plan, int index, weft_flow_step *step) {
    if (!plan || index < 0 || index >= plan->n_flow) return false;
    *step = plan->flow[index];
    return true;
}

int weft_plan_iteration(const weft_plan *plan, int64_t iteration, weft_flow_step *steps) {
    int n = 0;
    bool is_first = true;
    for (int i = 0; plan && i < plan->n_flow; i++) {
        if (!flow_runs_in(&plan->flow[i], iteration)) continue;
        weft_flow_step *s = &steps[n++];
        *s = plan->flow[i];
        if (!s->batch) s->batch = is_first ? WEFT_FLOW_NEXT : WEFT_FLOW_SAME;
        is_first &= plan->flow[i].batch == WEFT_FLOW_SAME;
    }
    return n;
}
