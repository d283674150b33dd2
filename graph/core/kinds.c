/* kinds.c - kinds of parameters, from what the calls of a model use them for: each node that a builder, a
 * file or a text makes notes the parameters that it reads. A parameter is found through the views of a
 * builder (reshape, cast), and through the sum of two biases. group_norm and instance_norm are a layer_norm
 * without weights, times a weight, plus a bias. */
#include "graph/core/graph.h"

enum { VIEWS = 4 /* views and casts in a row, at most, that builders put between an op and its operand */ };

/* The value before views and casts. */
static const weft_value *behind(const weft_value *v) {
    for (int i = 0; i < VIEWS && (v->node->op->flags & OP_VIEW || v->node->op->role == ROLE_CAST); i++)
        v = v->node->in[0];
    return v;
}

/* Whether v is a norm of rows that still lacks the weight or the bias of its channels. */
static bool is_bare_norm(const weft_value *v) {
    const weft_node *n = behind(v)->node;
    if (n->op->role == ROLE_PRODUCT) n = behind(n->in[0])->node;
    bool has_weight = n->n_in > 1 && n->in[1];
    return n->op->kinds[1] & WEFT_PARAMS_NORM && !has_weight;
}

static bool note(const weft_value *v, unsigned kinds) {
    const weft_node *n = behind(v)->node;
    if (n->op == &weft_op_parameter) n->variable->kinds |= kinds;
    return n->op == &weft_op_parameter;
}

/* A recurrent layer adds its two biases. */
static void note_operand(const weft_value *v, unsigned kinds) {
    const weft_node *n = behind(v)->node;
    if (note(v, kinds) || n->op->role != ROLE_SUM || !(kinds & WEFT_PARAMS_BIAS)) return;
    for (int i = 0; i < 2; i++) note(n->in[i], kinds);
}

/* A convolution is depthwise where each channel has filters of its own. */
static bool is_depthwise(const weft_node *n) {
    return n->in[0]->type.shape[1] > 1 && n->in[1]->type.shape[1] == 1;
}

void variable_note_kinds(const weft_node *n) {
    bool is_mul = n->op->role == ROLE_PRODUCT;
    if (n->graph->model->is_bound) return; /* variables of the compiler's copy have them */
    for (int i = 0; i < n->n_in && i < OP_KINDS; i++) {
        unsigned kinds = n->op->kinds[i];
        if (kinds & WEFT_PARAMS_DEPTHWISE && !is_depthwise(n)) kinds &= ~(unsigned)WEFT_PARAMS_DEPTHWISE;
        if (kinds && n->in[i]) note_operand(n->in[i], kinds);
    }
    if ((is_mul || n->op->role == ROLE_SUM) && is_bare_norm(n->in[0]))
        note(n->in[1], is_mul ? WEFT_PARAMS_NORM : WEFT_PARAMS_NORM | WEFT_PARAMS_BIAS);
}

unsigned variable_kinds(const weft_variable *v) {
    return v->kinds | (v->type.ndim == 1 ? WEFT_PARAMS_FLAT : 0);
}
