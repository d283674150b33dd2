/* embedding.c - rows of a table by integer ids; torch.nn.functional.embedding.
 *     w [rows, d], ids [...] of an integer type  ->  [..., d]
 * An id outside of [0, rows) fails the run. dw is embedding_backward; ids have no gradient. */
#include "ops/attention/embedding.h"

static bool infer(op_call *c) {
    if (!op_want_float(c, 0)) return false;
    const tensor_type *w = op_in(c, 0), *ids = op_in(c, 1);
    if (w->ndim != 2) return op_fail(c, WEFT_SHAPE, "weight is %s: it must be [rows, d]", TYPE(w));
    if (!dtype_is_integer(ids->dtype))
        return op_fail(c, WEFT_TYPE, "ids are %s: they must be integer", TYPE(ids));
    if (ids->ndim == WEFT_MAX_NDIM)
        return op_fail(c, WEFT_SHAPE, "ids are %s: they have too many axes", TYPE(ids));
    c->out[0] = type_of(w->dtype, ids->ndim, ids->shape);
    c->out[0].shape[c->out[0].ndim++] = w->shape[1];
    return true;
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    embedding_backward_attrs a = {n->in[0]->type.shape[0]};
    weft_value *in[] = {dout[0], n->in[1]};
    if (wanted[0]) din[0] = node_value(n->graph, &weft_op_embedding_backward, 2, in, &a);
}

/* Checked before any row is written, so that a bad id leaves no partial result. */
weft_status embedding_ids(const kernel_call *c, const tensor *ids, int64_t rows) {
    int64_t at[WEFT_MAX_NDIM] = {0}, place = 0;
    do {
        int64_t id = element_int(ids, at);
        if (id < 0 || id >= rows)
            return kernel_fail_at(c, place, "id %lld (number %lld) is outside the rows 0 to %lld",
                                  (long long)id, (long long)place, (long long)(rows - 1));
        place++;
    } while (index_next(&ids->type, at));
    return WEFT_OK;
}

static weft_status reference(const kernel_call *c) {
    const tensor *w = &c->in[0], *ids = &c->in[1], *y = &c->out[0];
    weft_status status = embedding_ids(c, ids, w->type.shape[0]);
    if (status) return status;
    int64_t at[WEFT_MAX_NDIM] = {0};
    do element_set(y, at, element_get(w, (int64_t[]){element_int(ids, at), at[ids->type.ndim]}));
    while (index_next(&y->type, at));
    return WEFT_OK;
}

const weft_op weft_op_embedding = {
    .name = "embedding",
    .summary = "rows of a table by integer ids",
    .torch = "torch.nn.functional.embedding",
    /* No precision: runs in f32, the type of its table, which torch.amp.autocast would keep too. */
    .min_in = 2,
    .kinds = {WEFT_PARAMS_EMBEDDING},
    .infer = infer,
    .gradient = gradient,
    .reference = reference,
    .samples =
        (const op_sample[]){{"f32[4,3], i64[5]", .out = "f32[5,3]"},
                            {"f32[4,3], u8[2,6]", .out = "f32[2,6,3]"},
                            {"f32[4,3], i32[]", .out = "f32[3]"},
                            {"f32[65,100], i32[40,9]", .below = 65, .no_gradient = true}, /* large: fast */
                            {"f32[4,3], f32[5]", .error = "they must be integer"},
                            {"f32[4,3,2], i32[5]", .error = "it must be [rows, d]"},
                            {0}},
};

weft_value *weft_embedding_op(weft_value *w, weft_value *ids) {
    return op_value(&weft_op_embedding, 2, (weft_value *[]){w, ids}, NULL);
}
