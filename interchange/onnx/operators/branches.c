/* branches.c - If, whose condition must be known: one of its branches is built, and sees the names around
 * it. */
#include "interchange/onnx/operators/families.h"

/* The condition, where it is the same for every batch; false after an error. */
static bool condition_of(onnx_call *c, bool *is_true) {
    int n;
    for (c->side = 0; c->side < SIDES; c->side++) {
        const int64_t *number = onnx_integers(c, 0, &n);
        if (!number || n != 1) return onnx_refuse(c, "its condition must be one value that is known here");
        if (c->side && *is_true != (*number != 0))
            return onnx_refuse(c, "its condition depends on the batch");
        *is_true = *number != 0;
    }
    c->side = 0;
    return true;
}

bool onnx_if(onnx_call *c) {
    bool is_true = false;
    if (!condition_of(c, &is_true)) return false;
    const onnx_graph *branch = onnx_body_of(c, is_true ? "then_branch" : "else_branch");
    onnx_attribute_of(c, is_true ? "else_branch" : "then_branch");
    if (!branch) return false;
    onnx_value **made = kit_take(c->in->arena, (size_t)branch->n_outputs + 1, sizeof *made);
    if (!made) return kit_no_memory(c->in->error, "If"), false;
    if (branch->n_inputs) return onnx_refuse(c, "its branch has inputs");
    if (branch->n_outputs < c->node->n_out) return onnx_refuse(c, "its branch makes too few results");
    bool is_built = onnx_body(c, branch, NULL, made);
    for (int i = 0; is_built && i < c->node->n_out; i++) is_built = onnx_result_is(c, i, made[i]);
    return is_built;
}
