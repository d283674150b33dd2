/* update.c - helpers of the optimizer's ops: see update.h. */
#include "ops/optimizer/update.h"

#include <string.h>

bool infer_update(op_call *c, int n_flat, unsigned optional) {
    for (int i = 0; i < c->n_in; i++) {
        if (!c->in[i] && !(optional >> i & 1)) return op_fail(c, WEFT_ARGUMENT, "operand %d is missing", i);
        if (!c->in[i]) continue;
        const tensor_type *t = op_in(c, i), *p = op_in(c, 0);
        if (i < n_flat && !type_equal(t, p))
            return op_fail(c, WEFT_SHAPE, "operand %d is %s: it must be like operand 0, %s", i, TYPE(t),
                           TYPE(p));
        if (i >= n_flat && (t->ndim || t->dtype != WEFT_F64))
            return op_fail(c, WEFT_TYPE, "operand %d is %s: it must be f64[]", i, TYPE(t));
    }
    weft_dtype dtype = op_in(c, 0)->dtype;
    if (dtype != WEFT_F32 && dtype != WEFT_F64)
        return op_fail(c, WEFT_TYPE, "operand 0 is %s: it must be f32 or f64", TYPE(op_in(c, 0)));
    c->n_out = 1; /* the updated parameters, in the memory of operand 0 */
    return true;
}

double scalar_operand(const kernel_call *c, int i, double missing) {
    return i < c->n_in && c->in[i].data ? *(const double *)c->in[i].data : missing;
}

bool update_is_skipped(const kernel_call *c, int i) {
    if (!(scalar_operand(c, i, 1) < 0)) return false;
    /* Result 0 usually is operand 0's memory; a test may separate them. */
    if (c->out[0].data != c->in[0].data) memcpy(c->out[0].data, c->in[0].data, type_bytes(&c->out[0].type));
    return true;
}

double flat_get(const tensor *t, int64_t i) {
    return t->type.dtype == WEFT_F32 ? ((const float *)t->data)[i] : ((const double *)t->data)[i];
}

void flat_set(const tensor *t, int64_t i, double value) {
    if (t->type.dtype == WEFT_F32)
        ((float *)t->data)[i] = (float)value;
    else
        ((double *)t->data)[i] = value;
}
