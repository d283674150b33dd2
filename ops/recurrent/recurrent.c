/* recurrent.c - see recurrent.h. */
#include "ops/recurrent/recurrent.h"

#include <math.h>

static const char *const acts[] = {"tanh", "relu", NULL};

const op_attr recurrent_attr_table[] = {
    {"reverse", ATTR_BOOL, offsetof(recurrent_attrs, reverse), 0, 0},
    {0},
};
const op_attr rnn_attr_table[] = {
    {"reverse", ATTR_BOOL, offsetof(recurrent_attrs, reverse), 0, 0},
    {"act", ATTR_INT, offsetof(recurrent_attrs, act), RECURRENT_TANH, RECURRENT_RELU, acts},
    {0},
};

/* ---- shapes ---- */

bool recurrent_want(op_call *c, int x, int w, int gates) {
    if (!op_want_float(c, x)) return false;
    const tensor_type *xt = op_in(c, x), *wt = op_in(c, w);
    if (wt->dtype != xt->dtype)
        return op_fail(c, WEFT_TYPE, "x is %s and the weight %s: cast one to the other's type", TYPE(xt),
                       TYPE(wt));
    if (xt->ndim != 3 || wt->ndim != 2 || wt->shape[0] != gates * wt->shape[1] ||
        xt->shape[2] != wt->shape[0])
        return op_fail(c, WEFT_SHAPE, "x %s and weight %s: they must be [T, B, %d H] and [%d H, H]", TYPE(xt),
                       TYPE(wt), gates, gates);
    return true;
}

tensor_type recurrent_all(weft_dtype dtype, const tensor_type *x, int64_t features) {
    return type_of(dtype, 3, (int64_t[]){x->shape[0], x->shape[1], features});
}

tensor_type recurrent_one(weft_dtype dtype, const tensor_type *x, int64_t features) {
    return type_of(dtype, 2, (int64_t[]){x->shape[1], features});
}

bool recurrent_want_type(op_call *c, int i, tensor_type type) {
    if (i >= c->n_in || !c->in[i] || type_equal(op_in(c, i), &type)) return true;
    return op_fail(c, WEFT_SHAPE, "operand %d is %s: it must be %s", i, TYPE(op_in(c, i)), TYPE(&type));
}

bool recurrent_want_state(op_call *c, int i, int64_t hidden, bool is_f32) {
    const tensor_type *x = op_in(c, 0);
    weft_dtype dtype = is_f32 ? dtype_accumulator(x->dtype) : x->dtype;
    return recurrent_want_type(c, i, recurrent_one(dtype, x, hidden));
}

/* ---- builders ---- */

weft_value *recurrent_given(weft_value *v, place p) {
    return weft_scale(placed(v, p), 1);
}

/* ---- gradients ---- */

/* Times [begin, end) of v [T, B, n] as rows [.., n]; a view. */
static weft_value *times_of(weft_value *v, int64_t begin, int64_t end) {
    int64_t rows = (end - begin) * v->type.shape[1];
    return weft_reshape(weft_slice(v, 0, begin, end), 2, (int64_t[]){rows, v->type.shape[2]});
}

/* Every step but the first has the h of the step before it, one time earlier or (reverse) later. */
static weft_value *weight_gradient(weft_value *dgates, weft_value *h, weft_value *h0, bool reverse) {
    int64_t steps = dgates->type.shape[0], first = reverse ? steps - 1 : 0;
    weft_value *dw = NULL;
    if (steps > 1) {
        weft_value *later = times_of(dgates, !reverse, steps - reverse);
        dw = weft_matmul(later, times_of(h, reverse, steps - !reverse), true, false);
    }
    if (!h0) return dw;
    weft_value *of_h0 = weft_matmul(times_of(dgates, first, first + 1), h0, true, false);
    return dw ? weft_add(dw, of_h0) : of_h0;
}

void recurrent_gradients(weft_node *n, weft_value *dgates, weft_value *carry, const bool *wanted,
                         weft_value **din) {
    const recurrent_attrs *a = n->attrs;
    weft_value *h0 = n->n_in > 2 ? n->in[2] : NULL;
    int64_t first = a->reverse ? dgates->type.shape[0] - 1 : 0;
    if (wanted[1]) din[1] = weight_gradient(dgates, &n->out[0], h0, a->reverse);
    /* one step from zeros: w is used, and has no influence */
    if (wanted[1] && !din[1]) din[1] = zeros_like(n->in[1]);
    if (!h0 || !wanted[2]) return;
    din[2] = weft_matmul(times_of(dgates, first, first + 1), n->in[1], false, false);
    if (carry) din[2] = weft_add(din[2], weft_cast(carry, h0->type.dtype));
}

/* ---- reference kernels ---- */

static void one_step(const kernel_call *c, const tensor *h, recurrent_unit *unit, int64_t s) {
    for (int64_t b = 0; b < h->type.shape[1]; b++)
        for (int64_t j = 0; j < h->type.shape[2]; j++) unit(c, s, b, j);
}

weft_status recurrent_forward(const kernel_call *c, const tensor *h, recurrent_unit *unit) {
    for (int64_t s = 0; s < h->type.shape[0]; s++) one_step(c, h, unit, s);
    return WEFT_OK;
}

weft_status recurrent_backward(const kernel_call *c, const tensor *h, recurrent_unit *unit) {
    for (int64_t s = h->type.shape[0] - 1; s >= 0; s--) one_step(c, h, unit, s);
    return WEFT_OK;
}

double recurrent_sigma(double x) {
    return 1 / (1 + exp(-x));
}

double recurrent_at(const tensor *t, const recurrent_attrs *a, int64_t s, int64_t b, int64_t j) {
    if (!t) return 0;
    return element_get(t, (int64_t[]){recurrent_time(a, t->type.shape[0], s), b, j});
}

double recurrent_before(const tensor *h, const tensor *h0, const recurrent_attrs *a, int64_t s, int64_t b,
                        int64_t j) {
    if (s > 0) return recurrent_at(h, a, s - 1, b, j);
    return h0 ? element_get(h0, (int64_t[]){b, j}) : 0;
}

double recurrent_product(const tensor *w, const tensor *h, const tensor *h0, const recurrent_attrs *a,
                         int64_t s, int64_t b, int64_t row) {
    double sum = 0;
    for (int64_t k = 0; k < w->type.shape[1]; k++)
        sum += element_get(w, (int64_t[]){row, k}) * recurrent_before(h, h0, a, s, b, k);
    return sum;
}

double recurrent_back(const tensor *w, const tensor *dgates, const recurrent_attrs *a, int64_t s, int64_t b,
                      int64_t j) {
    double sum = 0;
    if (s + 1 == dgates->type.shape[0]) return 0;
    for (int64_t k = 0; k < w->type.shape[0]; k++)
        sum += recurrent_at(dgates, a, s + 1, b, k) * element_get(w, (int64_t[]){k, j});
    return sum;
}
