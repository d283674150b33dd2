/* shape.c - constants, and ops that move elements, as nodes of ONNX. */
#include "interchange/onnx/exporters/exporter_families.h"

/* ---- constants ---- */

/* One number, repeated. */
edge *export_constant_op(export_call *c) {
    weft_value *y = export_result(c, 0);
    export_length length[WEFT_MAX_NDIM];
    edge *one = export_number(c, weft_value_dtype(y), export_real(c, "value"));
    if (!export_lengths(c, y, length)) return NULL;
    return export_expand(c, one, 0, NULL, weft_ndim(y), length);
}

edge *export_constant_tensor(export_call *c) {
    weft_attribute shape = export_attribute_of(c, "shape"), data = export_attribute_of(c, "data");
    return export_constant(c, (weft_dtype)export_int(c, "dtype"), shape.n, shape.integers, data.data);
}

/* begin + i step, computed in f64 and rounded once, as Weft does. */
edge *export_arange(export_call *c) {
    weft_value *y = export_result(c, 0);
    export_length length[WEFT_MAX_NDIM];
    int64_t one = 1;
    double begin = export_real(c, "begin"), step = export_real(c, "step");
    weft_dtype dtype = weft_value_dtype(y);
    if (!export_lengths(c, y, length)) return NULL;
    edge *n = export_squeeze(c, export_shape(c, 1, length), 0);
    edge *zero = export_number(c, WEFT_I64, 0), *by = export_constant(c, WEFT_I64, 0, NULL, &one);
    edge *i = export_3(c, "Range", zero, n, by);
    if (begin == 0 && step == 1) return export_cast(c, i, WEFT_I64, dtype);
    i = export_cast(c, i, WEFT_I64, WEFT_F64);
    i = export_2(c, "Mul", i, export_number(c, WEFT_F64, step));
    return export_cast(c, export_2(c, "Add", i, export_number(c, WEFT_F64, begin)), WEFT_F64, dtype);
}

/* ---- shapes ---- */

static bool is_same_shape(const weft_value *a, const weft_value *b) {
    if (weft_ndim(a) != weft_ndim(b)) return false;
    for (int i = 0; i < weft_ndim(a); i++)
        if (weft_dim(a, i) != weft_dim(b, i)) return false;
    return true;
}

edge *export_reshape_op(export_call *c) {
    weft_value *y = export_result(c, 0);
    export_length length[WEFT_MAX_NDIM];
    if (is_same_shape(export_operand(c, 0), y)) return export_in(c, 0);
    return export_lengths(c, y, length) ? export_reshape(c, export_in(c, 0), weft_ndim(y), length) : NULL;
}

edge *export_permute_op(export_call *c) {
    weft_attribute axes = export_attribute_of(c, "axes");
    for (int i = 0; i < axes.n; i++)
        if (axes.integers[i] < 0) axes.integers[i] += axes.n;
    return export_permute(c, export_in(c, 0), axes.n, axes.integers);
}

edge *export_broadcast_to(export_call *c) {
    weft_value *x = export_operand(c, 0), *y = export_result(c, 0);
    export_length from[WEFT_MAX_NDIM], to[WEFT_MAX_NDIM];
    if (!export_lengths(c, x, from) || !export_lengths(c, y, to)) return NULL;
    return export_expand(c, export_in(c, 0), weft_ndim(x), from, weft_ndim(y), to);
}

edge *export_concat_op(export_call *c) {
    int n = c->about.n_operands;
    edge **parts = kit_take(c->e->arena, (size_t)n, sizeof *parts);
    for (int i = 0; parts && i < n; i++) parts[i] = export_in(c, i);
    return parts ? export_concat(c, n, parts, export_axis(c, "axis")) : NULL;
}

/* The whole axis is the operand. */
edge *export_slice_op(export_call *c) {
    int64_t axis = export_axis(c, "axis"), begin = export_int(c, "begin"), end = export_int(c, "end"),
            step = export_int(c, "step");
    bool is_whole = begin == 0 && end == INT64_MAX && step < 2;
    return is_whole ? export_in(c, 0) : export_slice(c, export_in(c, 0), axis, begin, end, step ? step : 1);
}

edge *export_flip(export_call *c) {
    weft_attribute axes = export_attribute_of(c, "axes");
    int64_t begin[WEFT_MAX_NDIM], end[WEFT_MAX_NDIM], step[WEFT_MAX_NDIM];
    for (int i = 0; i < axes.n; i++) {
        begin[i] = step[i] = -1;
        end[i] = INT64_MIN;
    }
    if (!axes.n) return export_in(c, 0);
    edge *from = export_ints(c, axes.n, begin), *to = export_ints(c, axes.n, end);
    edge *along = export_ints(c, axes.n, axes.integers), *by = export_ints(c, axes.n, step);
    return export_new(c, "Slice", 5, (edge *[]){export_in(c, 0), from, to, along, by}, 1);
}

/* Between elements: each gets an axis with so many after it, which the ones after the last are taken off. */
static edge *spread_out(export_call *c, edge *x, int64_t axis, int64_t between, edge *value) {
    export_length length[WEFT_MAX_NDIM];
    int64_t pads[] = {0, between}, last = axis + 1;
    int n = export_ndim(c, 0);
    if (!export_lengths(c, export_operand(c, 0), length)) return NULL;
    x = export_padded(c, export_unsqueeze(c, x, axis + 1), 1, &last, pads, value);
    length[axis] = (export_length){length[axis].per_batch * (between + 1), length[axis].rest * (between + 1)};
    return export_slice(c, export_reshape(c, x, n, length), axis, 0, -between, 1);
}

edge *export_pad(export_call *c) {
    int64_t axis = export_axis(c, "axis"), between = export_int(c, "between");
    int64_t pads[] = {export_int(c, "before"), export_int(c, "after")};
    edge *x = export_in(c, 0), *value = export_number(c, export_dtype(c, 0), export_real(c, "value"));
    if (between) x = spread_out(c, x, axis, between, value);
    if (!pads[0] && !pads[1]) return x;
    return export_padded(c, x, 1, &axis, pads, value);
}
