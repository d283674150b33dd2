/* arg_kit.c - see arg.h. */
#include "ops/reduce/arg.h"

const op_attr arg_attr_table[] = {
    {"axis", ATTR_INT, offsetof(axis_attrs, axis), -WEFT_MAX_NDIM, WEFT_MAX_NDIM - 1},
    {"keep", ATTR_BOOL, offsetof(axis_attrs, keep), 0, 0},
    {0},
};

int arg_sign(const weft_op *op) {
    return op == &weft_op_argmin ? -1 : 1;
}

bool arg_infer(op_call *c) {
    const axis_attrs *a = c->attrs;
    const tensor_type *x = op_in(c, 0);
    tensor_type *out = &c->out[0];
    int64_t axis = a->axis;
    if (!axis_resolve(&axis, x->ndim))
        return op_fail(c, WEFT_SHAPE, "%s has no axis %lld", TYPE(x), (long long)axis);
    *out = type_scalar(WEFT_I64);
    for (int i = 0; i < x->ndim; i++)
        if (i != axis)
            out->shape[out->ndim++] = x->shape[i];
        else if (a->keep)
            out->shape[out->ndim++] = 1;
    c->n_out = 1;
    return true;
}

weft_status arg_reference(const kernel_call *c) {
    const tensor *x = &c->in[0], *y = &c->out[0];
    int sign = arg_sign(c->node->op);
    int64_t axis = ((const axis_attrs *)c->attrs)->axis, at[WEFT_MAX_NDIM] = {0}, to[WEFT_MAX_NDIM] = {0};
    axis_resolve(&axis, x->type.ndim);
    /* One result for each index of x with the axis at 0. */
    tensor_type rows = x->type;
    rows.shape[axis] = 1;
    do {
        int64_t from[WEFT_MAX_NDIM], best = 0;
        double most = 0;
        for (int i = 0; i < rows.ndim; i++) from[i] = at[i];
        for (int64_t k = 0; k < x->type.shape[axis]; k++) {
            from[axis] = k;
            double v = sign * element_get(x, from);
            /* v != v: a first NaN wins against any number */
            if (k == 0 || v > most || (v != v && most == most)) {
                best = k;
                most = v;
            }
        }
        element_set_int(y, to, best);
        index_next(&y->type, to);
    } while (index_next(&rows, at));
    return WEFT_OK;
}
