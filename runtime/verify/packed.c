/* packed.c - proves that a kernel which reads packed bytes reads those of its own operand, in its own form.
 * When an operand is packed, its reader no longer shows what it was. So before the layout pass the operands
 * of every node that may read packed ones are noted, and the plan keeps the note. Rules:
 *   K6  packed bytes are read unchanged, by a kernel that packs that operand: they are made for this node's
 *       signature, are as many as its kernel asks for, and come from the operand that it had before the
 *       layout pass, or from the parameter that this operand was a cast of
 *   K7  a derived value is made from one place in its parameter, as of the start of the run, in one way, by
 *       all programs of a plan; a tensor's constant holds its bytes, and nothing else is in it
 */
#include "graph/text/text.h"
#include "runtime/verify/verify.h"
#include "runtime/plan/value.h"

#include "ops/image/pack.h"
#include "ops/kit/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the note ---- */

/* Whether some kernel of the backend packs an operand of this op. */
static bool may_read_packed(const weft_node *n, const kernel_env *env) {
    const weft_kernel *list[16];
    int count = n->n_in ? kernels_of(n->graph->model->catalog, n->op, env, list, 16) : 0;
    for (int k = 0; k < count; k++)
        if (list[k]->packed_bytes) return true;
    return false;
}

/* Arrays are the plan's: the note must last as long as the plan can be verified. */
bool verify_note_operands(program *p) {
    weft_model *m = p->graph->model;
    int ids = p->graph->next_id + 1;
    for (const weft_node *n = p->graph->first; n; n = n->next) {
        if (!may_read_packed(n, &p->plan->kernels)) continue;
        if (!p->unpacked) p->unpacked = model_array(m, ids, sizeof *p->unpacked);
        weft_value **in = p->unpacked ? model_array(m, n->n_in, sizeof *in) : NULL;
        if (!in) return false;
        memcpy(in, n->in, (size_t)n->n_in * sizeof *in);
        p->unpacked[n->id] = in;
        p->n_unpacked = ids;
    }
    return true;
}

/* Operand i of n before the layout pass; NULL: not noted. */
static const weft_value *noted(const program *p, const weft_node *n, int i) {
    bool is_known = n->id >= 0 && n->id < p->n_unpacked && p->unpacked[n->id];
    return is_known ? p->unpacked[n->id][i] : NULL;
}

/* ---- K6 ---- */

static bool wrong(verify_index *x, const weft_node *n, const weft_value *v, const char *what) {
    char text[400];
    snprintf(text, sizeof text, "value %%%d %s %s", v->id, TYPE(&v->type), what);
    return verify_broken(x, "K6", n, text);
}

/* A copy of n with operand i plain and row-major; `plain` and `in` are the caller's memory. */
static weft_node with_plain(const weft_node *n, int i, const weft_value *was, weft_value *plain,
                            weft_value **in) {
    weft_node copy = *n;
    *plain = *was;
    plain->has_layout = true;
    stride_row_major(&plain->type, plain->stride);
    memcpy(in, n->in, (size_t)n->n_in * sizeof *in);
    in[i] = plain;
    copy.in = in;
    return copy;
}

/* A pack's attribute is quoted, so it has '...' where a signature has "...". */
static bool says_signature(const char *of, const char *signature) {
    size_t k = 0;
    while (signature[k] && of[k] == (signature[k] == '"' ? '\'' : signature[k])) k++;
    return !signature[k] && !of[k];
}

static bool check_signature(verify_index *x, const weft_node *n, const weft_node *asked, int i) {
    const pack_attrs *a = n->in[i]->node->attrs;
    text t = {0};
    node_signature(&t, asked);
    char *signature = text_detach(&t);
    bool is_right = signature && says_signature(a->of, signature);
    free(signature);
    return is_right || (signature && wrong(x, n, n->in[i], "was packed for another node"));
}

/* Whether packed bytes come from `was`: from the value itself, a copy in another layout, or the value that it
 * is a cast of. */
static bool comes_from(const weft_value *from, const weft_value *was) {
    while (from != was && from->node->op == &weft_op_reorder) from = from->node->in[0];
    return from == was || (was->node->op == &weft_op_cast && was->node->in[0] == from);
}

/* K6. The kernel is asked again about a copy of n whose operand is plain, as it was before the layout pass.
 */
bool verify_packed_operand(verify_index *x, const weft_node *n, int i) {
    enum { ROOM = 16 };
    const weft_value *v = n->in[i], *was = noted(x->p, n, i);
    const weft_node *pack = v->node;
    const pack_attrs *a = pack->attrs;
    weft_value plain, *in[ROOM];
    if (!n->kernel || !n->kernel->packed_bytes || !was || n->n_in > ROOM || a->operand != i ||
        v->type.dtype != WEFT_U8 || type_elements(&v->type) != a->bytes)
        return wrong(x, n, v, "was packed for another kernel");
    weft_node asked = with_plain(n, i, was, &plain, in);
    if (!comes_from(pack->in[0], was))
        return wrong(x, n, v, "was packed from another value than its reader's operand");
    if ((int64_t)n->kernel->packed_bytes(&asked, i, &x->plan->kernels) != a->bytes || !pack->kernel ||
        pack->kernel->op != &weft_op_pack)
        return wrong(x, n, v, "was packed into another form than its reader's kernel takes");
    return check_signature(x, n, &asked, i);
}

bool verify_not_packed(verify_index *x, const weft_node *n, const weft_value *v) {
    return v->node->op != &weft_op_pack ||
           wrong(x, n, v, "is packed, and is not read by the kernel that it was packed for");
}

/* ---- K7 ---- */

static const weft_variable *derived_by(const weft_node *n) {
    const weft_variable *v = n->n_out ? n->out[0].variable : NULL;
    return v && v->kind == VARIABLE_DERIVED ? v : NULL;
}

/* Same op, attributes, types, strides, and place in the same parameter. */
static bool derive_alike(const weft_node *a, const weft_node *b) {
    const weft_value *x = a->in[0], *y = b->in[0];
    return a->op == b->op && attrs_equal(a->op, a->attrs, b->attrs) && type_equal(&x->type, &y->type) &&
           type_equal(&a->out[0].type, &b->out[0].type) && stride_same(&x->type, x->stride, y->stride) &&
           value_root(x)->variable == value_root(y)->variable && value_offset(x) == value_offset(y);
}

/* The bytes of a tensor are in memory that holds them from a session's opening on, and that nothing else is
 * in. */
static bool is_kept(const weft_node *n) {
    const weft_variable *v = n->n_out ? n->out[0].variable : NULL;
    bool is_constant = v && v->kind == VARIABLE_CONSTANT;
    if (n->op != &weft_op_constant_tensor) return !is_constant;
    const attr_bytes *b = constant_bytes(n);
    return is_constant && v->bytes && v->bytes->n == b->n && type_bytes(&v->type) == b->n &&
           memcmp(v->bytes->data, b->data, b->n) == 0;
}

static bool check_derived(verify_index *x, const program *p, const weft_node **first) {
    for (const weft_node *n = p->graph->first; n; n = n->next) {
        const weft_variable *v = derived_by(n);
        if (!is_kept(n)) return verify_broken(x, "K7", n, "is in memory that holds other bytes");
        if (!v) continue;
        if (!first[v->index]) first[v->index] = n;
        if (value_root(n->in[0])->node->op != &weft_op_parameter)
            return verify_broken(x, "K7", n, "is derived of what is not a parameter as of the run's start");
        if (!type_equal(&v->type, &n->out[0].type) || !derive_alike(first[v->index], n))
            return verify_broken(x, "K7", n, "another node makes the same derived value differently");
    }
    return true;
}

bool verify_derived(verify_index *x) {
    const weft_node **first = verify_array(x, x->n_variables, sizeof *first);
    for (int i = 0; first && i < x->plan->n_programs; i++)
        if (!check_derived(x, &x->plan->programs[i], first)) return false;
    return first;
}
