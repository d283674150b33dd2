/* layouts.c - proves from strides alone that every node of a program finds its operands where it looks for
 * them. What a kernel accepts is in its table (graph/core/kernel.h); everything else is worked out here a
 * second time. Rules:
 *   K1  an operand has a layout that its reader's kernel accepts; nodes without a kernel (collectives,
 *       variables) read row-major
 *   K2  a result has the layout that its kernel writes; a node's results of four axes have the same layout
 *   K3  each element of a view is the element of the operand that the op names
 *   K4  a result in an operand's place has that operand's strides
 *   K5  outputs are row-major: they are fetched as they are in memory
 * K6, of packed operands, is in verify/packed.c. */
#include "runtime/verify/verify.h"

#include "ops/kit/basic_attrs.h"
#include "ops/kit/ops.h"

#include <stdio.h>

/* Fails with the value, its type and its strides. */
static bool wrong(verify_index *x, const char *rule, const weft_node *n, const weft_value *v,
                  const char *what) {
    char text[500], strides[200] = "";
    size_t used = 0;
    for (int i = 0; i < v->type.ndim; i++)
        used += (size_t)snprintf(strides + used, sizeof strides - used, i ? ",%jd" : "%jd", v->stride[i]);
    snprintf(text, sizeof text, "value %%%d %s at strides (%s) %s", v->id, TYPE(&v->type), strides, what);
    return verify_broken(x, rule, n, text);
}

/* ---- layouts of values ---- */

/* Whether the axes in this order (NULL: as they are), the last one fastest, have no gaps in memory. */
static bool runs(const weft_value *v, const int *order) {
    int64_t step = 1;
    for (int i = v->type.ndim - 1; i >= 0; i--) {
        int axis = order ? order[i] : i;
        if (v->type.shape[axis] == 1) continue;
        if (v->stride[axis] != step) return false;
        step *= v->type.shape[axis];
    }
    return true;
}

static bool is_rows(const weft_value *v) {
    return runs(v, NULL);
}

/* Channels-last for four and five axes, row-major for others. */
static bool is_image(const weft_value *v) {
    static const int image[] = {0, 2, 3, 1}, volume[] = {0, 2, 3, 4, 1};
    return runs(v, v->type.ndim == 4 ? image : v->type.ndim == 5 ? volume : NULL);
}

static bool has_bit(unsigned bits, int i) {
    return bits >> (i < 31 ? i : 31) & 1;
}

static bool works_anywhere(const weft_op *op) {
    return op->flags & OP_POINTWISE || op == &weft_op_fused;
}

/* ---- K1, K2 ---- */

/* Whether the kernel accepts operand i at any strides. The reference kernel belongs to no op, so the op says
 * what it accepts. */
static bool takes_any(const weft_node *n, int i) {
    if (!n->kernel) return false;
    if (n->kernel->op) return has_bit(n->kernel->strided_in, i);
    return works_anywhere(n->op) || has_bit(n->op->reference_strided, i);
}

/* K1, and K6 for packed operands. */
static bool check_operands(verify_index *x, const weft_node *n) {
    for (int i = 0; i < n->n_in; i++) {
        const weft_value *v = n->in[i];
        if (!v) continue;
        if (v->node->op == &weft_op_pack && !verify_packed_operand(x, n, i)) return false;
        bool wants_image = has_bit(n->op->image_in, i);
        if (!takes_any(n, i) && !(wants_image ? is_image(v) : is_rows(v)))
            return wrong(x, "K1", n, v, wants_image ? "is not channels-last" : "is not row-major");
    }
    return true;
}

/* K2. Pointwise results and reorders may have either layout, all others the one that the op declares. */
static bool check_results(verify_index *x, const weft_node *n) {
    bool is_free = n->kernel && (works_anywhere(n->op) || n->op == &weft_op_reorder);
    for (int k = 0; k < n->n_out; k++) {
        const weft_value *v = &n->out[k];
        bool wants_image = has_bit(n->op->image_out, k);
        if (!v->has_layout) return wrong(x, "K2", n, v, "has no layout");
        if (is_free ? !is_rows(v) && !is_image(v) : wants_image ? !is_image(v) : !is_rows(v))
            return wrong(x, "K2", n, v, "is not laid out as its kernel writes");
        if (is_free && is_rows(v) != is_rows(&n->out[0]) && shape_equal(&v->type, &n->out[0].type))
            return wrong(x, "K2", n, v, "is not laid out like its node's first result");
    }
    return true;
}

/* ---- K3 ---- */

/* from[] becomes the element of the operand that element at[] of a view is, worked out from the op's
 * attributes. */
static void viewed(const weft_node *n, const int64_t *at, int64_t *from) {
    const tensor_type *x = &n->in[0]->type, *y = &n->out[0].type;
    const shape_attrs *s = n->attrs;
    const slice_attrs *cut = n->attrs;
    int64_t number = 0;
    for (int i = 0; i < y->ndim; i++) number = number * y->shape[i] + at[i];
    for (int i = x->ndim - 1; i >= 0; i--) {
        from[i] = number % x->shape[i]; /* reshape: the same number in row-major order */
        number /= x->shape[i];
    }
    for (int i = 0; i < x->ndim; i++) {
        if (n->op == &weft_op_broadcast_to) from[i] = x->shape[i] == 1 ? 0 : at[i + y->ndim - x->ndim];
        if (n->op == &weft_op_slice) from[i] = at[i];
    }
    for (int i = 0; i < y->ndim && n->op == &weft_op_permute; i++)
        from[s->shape.v[i] + (s->shape.v[i] < 0 ? x->ndim : 0)] = at[i];
    if (n->op == &weft_op_slice) {
        int64_t axis = cut->axis + (cut->axis < 0 ? x->ndim : 0);
        int64_t step = cut->step > 0 ? cut->step : 1;
        from[axis] = at[axis] * step + cut->begin + (cut->begin < 0 ? x->shape[axis] : 0);
    }
}

/* Whether the strides of a view lead to that element. */
static bool names_element(const weft_node *n, const int64_t *at) {
    const weft_value *x = n->in[0], *y = &n->out[0];
    int64_t from[WEFT_MAX_NDIM] = {0}, there = 0, here = y->base_offset;
    viewed(n, at, from);
    for (int i = 0; i < x->type.ndim; i++) there += from[i] * x->stride[i];
    for (int i = 0; i < y->type.ndim; i++) here += at[i] * y->stride[i];
    return here == there;
}

static bool names_number(const weft_node *n, int64_t number) {
    const tensor_type *y = &n->out[0].type;
    int64_t at[WEFT_MAX_NDIM];
    for (int i = y->ndim - 1; i >= 0; i--) {
        at[i] = number % y->shape[i];
        number /= y->shape[i];
    }
    return names_element(n, at);
}

/* Both sides are sums over digits of the element's number, in the radices of the two shapes: where they
 * differ anywhere, they differ where a digit of either begins or ends. The few numbers in between are cheap
 * extra. */
static bool names_all(const weft_node *n) {
    const tensor_type *const sides[] = {&n->in[0]->type, &n->out[0].type};
    int64_t elements = type_elements(&n->out[0].type);
    bool good = names_number(n, 0) && names_number(n, elements - 1);
    for (int s = 0; s < 2; s++) {
        int64_t unit = 1;
        for (int i = sides[s]->ndim - 1; i >= 0; i--) {
            int64_t last = unit * (sides[s]->shape[i] - 1);
            good = good && (unit >= elements || names_number(n, unit)) &&
                   (last >= elements || names_number(n, last));
            unit *= sides[s]->shape[i];
        }
    }
    for (int64_t k = 1; k < 8; k++) good = good && names_number(n, elements / 8 * k);
    return good;
}

static bool is_known_view(const weft_node *n) {
    const weft_op *const known[] = {&weft_op_permute, &weft_op_slice, &weft_op_reshape, &weft_op_broadcast_to,
                                    &weft_op_summed};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (n->op == known[i]) return true;
    return false;
}

/* K3, for a view without a kernel: it must be of an op that viewed() knows. */
static bool check_view(verify_index *x, const weft_node *n) {
    const weft_value *v = &n->out[0];
    if (!is_known_view(n)) return wrong(x, "K3", n, v, "is a view of an op that the verifier does not know");
    if (v->base != n->in[0]) return wrong(x, "K3", n, v, "does not look at its operand");
    if (!verify_not_packed(x, n, n->in[0])) return false;
    return names_all(n) || wrong(x, "K3", n, v, "does not name its operand's elements");
}

/* ---- K4 ---- */

static bool has_strides_of(const weft_value *a, const weft_value *b) {
    for (int i = 0; i < a->type.ndim; i++)
        if (a->type.shape[i] > 1 && a->stride[i] != b->stride[i]) return false;
    return type_equal(&a->type, &b->type);
}

/* K4: a result whose base is an operand's memory. Parts of a bucket are made there, not over an operand. */
static bool check_place(verify_index *x, const weft_node *n, const weft_value *v) {
    if (!v->base || v->base->node->op == &weft_op_bucket || n->op->flags & OP_COMMUNICATES) return true;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && verify_lies_in(n->in[i], v->base) && has_strides_of(v, n->in[i])) return true;
    return wrong(x, "K4", n, v, "has other strides than the operand that it overwrites");
}

/* ---- all of them ---- */

static bool check_layout_node(verify_index *x, const weft_node *n) {
    if (n->op->flags & OP_VIEW && n->out[0].base && !n->kernel) return check_view(x, n);
    if (!check_operands(x, n) || !check_results(x, n)) return false;
    for (int k = 0; k < n->n_out; k++)
        if (!check_place(x, n, &n->out[k])) return false;
    return true;
}

bool verify_layouts(verify_index *x) {
    for (const weft_node *n = x->p->graph->first; n; n = n->next)
        if (!check_layout_node(x, n)) return false;
    for (const graph_output *o = x->p->graph->outputs; o; o = o->next) {
        const weft_node *n = o->value->node;
        if (!verify_not_packed(x, n, o->value)) return false;
        if (!is_rows(o->value)) return wrong(x, "K5", n, o->value, "is fetched, but not row-major");
    }
    return true;
}
