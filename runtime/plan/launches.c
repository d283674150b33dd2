/* launches.c - the kinds of launches, and which nodes go into each. */
#include "runtime/plan/launches.h"

#include "ops/structure/collective.h"
#include "runtime/plan/value.h"

const char *launch_name(launch_kind kind) {
    static const char *const names[] = {"upload", "refresh", "compute", "collective"};
    return names[kind];
}

bool launch_is_captured(launch_kind kind) {
    return kind != LAUNCH_UPLOAD;
}

bool node_is_upload(const weft_node *n) {
    return n->op == &weft_op_reorder && n->in[0]->node->op == &weft_op_input;
}

bool launch_kind_of(const weft_node *n, launch_kind *kind) {
    if (node_is_silent(n) || n->op == &weft_op_wait) return false;
    bool is_derived = n->n_out && n->out[0].variable && n->out[0].variable->kind == VARIABLE_DERIVED;
    *kind = node_starts_collective(n) ? LAUNCH_COLLECTIVE
            : node_is_upload(n)       ? LAUNCH_UPLOAD
            : is_derived              ? LAUNCH_REFRESH
                                      : LAUNCH_COMPUTE;
    return true;
}
