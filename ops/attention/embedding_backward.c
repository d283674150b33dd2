/* embedding_backward.c - the gradient of embedding with respect to its table: rows of dy [..., d] added up by
 * ids [...] into dw [rows, d], zeros where no id points. Rows are added in the order of ids, so the bits do
 * not depend on threads. Linear in dy; its gradient is embedding. */
#include "ops/attention/embedding.h"

#include <string.h>

static const op_attr attrs[] = {
    {"rows", ATTR_INT, offsetof(embedding_backward_attrs, rows), 1, INT64_MAX},
    {0},
};

/* dy has one axis more than ids: d. */
static bool infer(op_call *c) {
    if (!op_want_float(c, 0)) return false;
    const tensor_type *dy = op_in(c, 0), *ids = op_in(c, 1);
    tensor_type lead = type_of(ids->dtype, dy->ndim - 1, dy->shape);
    if (!dtype_is_integer(ids->dtype))
        return op_fail(c, WEFT_TYPE, "ids are %s: they must be integer", TYPE(ids));
    if (dy->ndim < 1 || !type_equal(&lead, ids))
        return op_fail(c, WEFT_SHAPE, "dy %s and ids %s: one row of dy an id", TYPE(dy), TYPE(ids));
    int64_t shape[] = {((const embedding_backward_attrs *)c->attrs)->rows, dy->shape[dy->ndim - 1]};
    c->out[0] = type_of(dy->dtype, 2, shape);
    return true;
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    if (wanted[0]) din[0] = weft_embedding_op(dout[0], n->in[1]);
}

/* Columns of a row that are summed together: in double, and rounded once, for results of a reduced type. */
enum { COLUMNS = 64 };

/* Sets row `id` of dw, COLUMNS columns from `first`: the sum over all places of that id. */
static void row_backward(const kernel_call *c, int64_t id, int64_t first) {
    const tensor *dy = &c->in[0], *ids = &c->in[1], *dw = &c->out[0];
    int64_t columns = dw->type.shape[1] - first, at[WEFT_MAX_NDIM] = {0}, *column = &at[ids->type.ndim];
    double sum[COLUMNS] = {0};
    if (columns > COLUMNS) columns = COLUMNS;
    do {
        if (element_int(ids, at) != id) continue;
        for (*column = first; *column < first + columns; ++*column)
            sum[*column - first] += element_get(dy, at);
        *column = 0;
    } while (index_next(&ids->type, at));
    for (int64_t k = 0; k < columns; k++) element_set(dw, (int64_t[]){id, first + k}, sum[k]);
}

/* Computes the row of each id at the id's first occurrence. Quadratic in the number of ids: a reference. */
static void reduced_reference(const kernel_call *c) {
    const tensor *ids = &c->in[1], *dw = &c->out[0];
    int64_t at[WEFT_MAX_NDIM] = {0};
    do {
        int64_t id = element_int(ids, at), before[WEFT_MAX_NDIM] = {0};
        while (element_int(ids, before) != id) index_next(&ids->type, before);
        if (memcmp(before, at, sizeof at) != 0) continue;
        for (int64_t first = 0; first < dw->type.shape[1]; first += COLUMNS) row_backward(c, id, first);
    } while (index_next(&ids->type, at));
}

static weft_status reference(const kernel_call *c) {
    const tensor *dy = &c->in[0], *ids = &c->in[1], *dw = &c->out[0];
    weft_status status = embedding_ids(c, ids, dw->type.shape[0]);
    if (status) return status;
    int64_t at[WEFT_MAX_NDIM] = {0}, zero[2] = {0};
    do element_set(dw, zero, 0);
    while (index_next(&dw->type, zero));
    if (dtype_is_reduced(dw->type.dtype)) {
        reduced_reference(c);
        return WEFT_OK;
    }
    do {
        int64_t to[] = {element_int(ids, at), at[ids->type.ndim]};
        element_set(dw, to, element_get(dw, to) + element_get(dy, at));
    } while (index_next(&dy->type, at));
    return WEFT_OK;
}

const weft_op weft_op_embedding_backward = {
    .name = "embedding_backward",
    .summary = "gradient of embedding by its table",
    .min_in = 2,
    OP_ATTRS(embedding_backward_attrs, attrs),
    .infer = infer,
    .gradient = gradient,
    .reference = reference,
    .samples = (const op_sample[]){{"f32[5,3], i64[5]", "rows=6", .out = "f32[6,3]"},
                                   {"f32[2,6,3], u8[2,6]", "rows=4", .out = "f32[4,3]"},
                                   {"f32[40,9,100], i32[40,9]", "rows=65", .below = 65,
                                    .no_gradient = true}, /* large */
                                   {"f32[5,3], i64[4]", "rows=6", .error = "one row of dy an id"},
                                   {"f32[5,3], i64[5]", .error = "at least 1"},
                                   {0}},
};
