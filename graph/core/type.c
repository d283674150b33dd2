/* type.c - element types by table, shape arithmetic with overflow checks, types as text, and the strides of
 * the two memory layouts; see type.h. */
#include "graph/core/type.h"

#include "graph/core/words.h"

#include <stdio.h>
#include <string.h>

/* By weft_dtype: the name in dumps and the size in bytes. */
static const struct {
    const char *name;
    size_t bytes;
} dtypes[WEFT_DTYPES] = {
    [WEFT_F32] = {"f32", 4}, [WEFT_F64] = {"f64", 8}, [WEFT_BF16] = {"bf16", 2}, [WEFT_F16] = {"f16", 2},
    [WEFT_I64] = {"i64", 8}, [WEFT_I32] = {"i32", 4}, [WEFT_U8] = {"u8", 1},     [WEFT_BOOL] = {"bool", 1},
    [WEFT_I8] = {"i8", 1},   [WEFT_U16] = {"u16", 2}, [WEFT_U32] = {"u32", 4},
};

size_t dtype_bytes(weft_dtype dtype) {
    return (unsigned)dtype < WEFT_DTYPES ? dtypes[dtype].bytes : 0;
}

const char *dtype_name(weft_dtype dtype) {
    return (unsigned)dtype < WEFT_DTYPES ? dtypes[dtype].name : "?";
}

bool dtype_parse(const char *name, size_t length, weft_dtype *dtype) {
    for (int i = 0; i < WEFT_DTYPES; i++)
        if (word_is(dtypes[i].name, name, length)) {
            *dtype = (weft_dtype)i;
            return true;
        }
    return false;
}

/* The float types come first in weft_dtype. */
bool dtype_is_float(weft_dtype dtype) {
    return dtype <= WEFT_F16;
}

bool dtype_is_reduced(weft_dtype dtype) {
    return dtype == WEFT_BF16 || dtype == WEFT_F16;
}

weft_dtype dtype_accumulator(weft_dtype dtype) {
    return dtype_is_reduced(dtype) ? WEFT_F32 : dtype;
}

bool dtype_is_integer(weft_dtype dtype) {
    return dtype >= WEFT_I64 && dtype <= WEFT_U8;
}

bool dtype_is_wide(weft_dtype dtype) {
    return dtype == WEFT_I64 || dtype == WEFT_I32;
}

bool dtype_is_data(weft_dtype dtype) {
    return dtype >= WEFT_I8;
}

tensor_type type_of(weft_dtype dtype, int ndim, const int64_t *shape) {
    tensor_type t = {.dtype = dtype, .ndim = ndim};
    for (int i = 0; i < ndim && i < WEFT_MAX_NDIM; i++) t.shape[i] = shape[i];
    return t;
}

tensor_type type_scalar(weft_dtype dtype) {
    return (tensor_type){.dtype = dtype};
}

bool shape_equal(const tensor_type *a, const tensor_type *b) {
    if (a->ndim != b->ndim) return false;
    for (int i = 0; i < a->ndim; i++)
        if (a->shape[i] != b->shape[i]) return false;
    return true;
}

bool type_equal(const tensor_type *a, const tensor_type *b) {
    return a->dtype == b->dtype && shape_equal(a, b);
}

/* No overflow check: the type has passed type_check. */
int64_t type_elements(const tensor_type *t) {
    int64_t n = 1;
    for (int i = 0; i < t->ndim; i++) n *= t->shape[i];
    return n;
}

size_t type_bytes(const tensor_type *t) {
    return (size_t)type_elements(t) * dtype_bytes(t->dtype);
}

bool type_is_empty(const tensor_type *t) {
    for (int i = 0; i < t->ndim; i++)
        if (t->shape[i] == 0) return true;
    return false;
}

/* An axis of 0 counts as 1, so that no product of the other axes can overflow either. */
bool type_check_or_empty(const tensor_type *t) {
    const size_t most = (size_t)1 << 46; /* 64 TiB: far above any machine, far below overflow */
    if (dtype_bytes(t->dtype) == 0 || t->ndim < 0 || t->ndim > WEFT_MAX_NDIM) return false;
    /* Checked after each axis, so that the product cannot wrap around before it is compared. */
    size_t bytes = dtype_bytes(t->dtype);
    for (int i = 0; i < t->ndim; i++) {
        int64_t length = t->shape[i] ? t->shape[i] : 1;
        if (length < 0 || !size_mul(&bytes, bytes, (size_t)length) || bytes > most) return false;
    }
    return true;
}

bool type_check(const tensor_type *t) {
    return type_check_or_empty(t) && !type_is_empty(t);
}

bool shape_broadcast(const tensor_type *a, const tensor_type *b, tensor_type *out) {
    tensor_type r = {.dtype = a->dtype, .ndim = a->ndim > b->ndim ? a->ndim : b->ndim};
    for (int i = 0; i < r.ndim; i++) {
        /* Axis i of the result is axis ia of a and ib of b; negative: that shape is shorter, and the axis has
         * length 1. */
        int ia = i - (r.ndim - a->ndim), ib = i - (r.ndim - b->ndim);
        int64_t la = ia < 0 ? 1 : a->shape[ia], lb = ib < 0 ? 1 : b->shape[ib];
        if (la != lb && la != 1 && lb != 1) return false;
        r.shape[i] = la == 1 ? lb : la;
    }
    *out = r;
    return true;
}

/* -1 is the last axis, as in PyTorch. */
bool axis_resolve(int64_t *axis, int ndim) {
    if (*axis < -ndim || *axis >= ndim) return false;
    if (*axis < 0) *axis += ndim;
    return true;
}

type_text type_show(const tensor_type *t) {
    type_text s;
    int used = snprintf(s.text, sizeof s.text, "%s[", dtype_name(t->dtype));
    for (int i = 0; i < t->ndim && i < WEFT_MAX_NDIM; i++)
        used += snprintf(s.text + used, sizeof s.text - (size_t)used, i ? ",%jd" : "%jd", t->shape[i]);
    snprintf(s.text + used, sizeof s.text - (size_t)used, "]");
    return s;
}

/* Every axis may be any number; type_check decides later. */
bool type_parse(const char **at, tensor_type *type) {
    const char *open = strchr(*at, '[');
    tensor_type t = {0};
    if (!open || !dtype_parse(*at, (size_t)(open - *at), &t.dtype)) return false;
    const char *p = open + 1;
    while (*p != ']') {
        if (t.ndim == WEFT_MAX_NDIM || (t.ndim && *p++ != ',')) return false;
        if (!integer_parse(&p, &t.shape[t.ndim++])) return false;
    }
    *at = p + 1;
    *type = t;
    return true;
}

/* The last axis has stride 1. */
void stride_row_major(const tensor_type *t, int64_t stride[WEFT_MAX_NDIM]) {
    int64_t step = 1;
    for (int i = t->ndim - 1; i >= 0; i--) {
        stride[i] = step;
        step *= t->shape[i];
    }
}

bool type_is_image(const tensor_type *t) {
    return t->ndim == 4 || t->ndim == 5;
}

void stride_channels_last(const tensor_type *t, int64_t stride[WEFT_MAX_NDIM]) {
    if (!type_is_image(t)) {
        stride_row_major(t, stride);
        return;
    }
    /* Innermost to outermost: C, W, H, (D,) N. */
    int64_t step = stride[1] = 1;
    step *= t->shape[1];
    for (int i = t->ndim - 1; i > 1; i--) {
        stride[i] = step;
        step *= t->shape[i];
    }
    stride[0] = step;
}

bool stride_same(const tensor_type *t, const int64_t *a, const int64_t *b) {
    for (int i = 0; i < t->ndim; i++)
        if (t->shape[i] > 1 && a[i] != b[i]) return false;
    return true;
}
