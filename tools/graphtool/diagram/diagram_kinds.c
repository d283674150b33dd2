/* diagram_kinds.c - what a drawn node is, and to which part of a step it belongs. */
#include "tools/graphtool/diagram/diagram.h"

#include "ops/kit/ops.h"

diagram_phase diagram_phase_of(const weft_node *n) {
    if (!n) return DIAGRAM_FORWARD;
    return n->is_update ? DIAGRAM_UPDATE : n->is_backward ? DIAGRAM_BACKWARD : DIAGRAM_FORWARD;
}

diagram_phase diagram_unit_phase(const diagram_unit *u) {
    return u->box ? u->box->phase : diagram_phase_of(u->item->node);
}

static bool reads_parameter(const weft_node *n) {
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && n->in[i]->node->op == &weft_op_parameter) return true;
    return false;
}

static bool is_pointwise(const weft_node *n) {
    return n->op->flags & OP_POINTWISE || n->op == &weft_op_fused;
}

/* The first rule that fits decides. */
diagram_kind diagram_kind_of(const weft_node *n) {
    if (!n) return KIND_OUTPUT;
    if (n->op == &weft_op_input) return KIND_INPUT;
    if (n->op->flags & OP_VARIABLE) return KIND_STATE;
    if (n->op == &weft_op_minimize || n->op == &weft_op_gradients || n->is_update) return KIND_TRAINING;
    if (n->is_backward) return KIND_BACKWARD;
    if (n->op->flags & OP_RANDOM) return KIND_RANDOM;
    if (reads_parameter(n)) return KIND_LAYER;
    if (n->n_out && type_elements(&n->out[0].type) == 1) return KIND_SCALAR;
    if (n->op->flags & OP_VIEW) return KIND_SHAPE;
    return is_pointwise(n) ? KIND_POINTWISE : KIND_COMPUTE;
}

diagram_kind diagram_unit_kind(const diagram_unit *u) {
    return u->box ? KIND_CLOSED : diagram_kind_of(u->item->node);
}
