/* norm_rows.c - norms whose rows are several axes of x, by ops that know one: a layer_norm or rms_norm over
 * as many trailing axes as its weight has (torch's normalized_shape); group_norm and instance_norm, whose
 * rows are the channels of a group with all their elements. Rows are the last axis of a reshape, which is a
 * view, and the weights of channels are pointwise, so that they fuse with what follows. */
#include "ops/norm_loss/norm.h"

/* Whether the axes of v are the last ones of x. */
static bool is_end_of(const weft_value *v, const weft_value *x) {
    int lead = x->type.ndim - v->type.ndim;
    for (int i = 0; lead >= 0 && i < v->type.ndim; i++)
        if (v->type.shape[i] != x->type.shape[lead + i]) return false;
    return lead >= 0;
}

static bool wrong_end(const char *norm, const char *what, const weft_value *v, const weft_value *x) {
    return value_fail(
        x, WEFT_SHAPE,
        "%s: the %s is %s, x %s: it must have the lengths of the last axes of x, those that are "
        "normalized",
        norm, what, TYPE(&v->type), TYPE(&x->type));
}

bool norm_rows_of(norm_rows *rows, const char *norm, weft_value *x, int axes, weft_value *w, weft_value *b) {
    *rows = (norm_rows){.x = x, .w = w, .b = b};
    if (!axes && w) axes = w->type.ndim;
    if (!x || axes < 2) return true; /* the op checks it */
    if (w && !is_end_of(w, x)) return wrong_end(norm, "weight", w, x);
    if (w && b && !shape_equal(&b->type, &w->type)) return wrong_end(norm, "bias", b, x);
    int64_t flat[] = {-1};
    lengths merged = rows->shape = lengths_of(x);
    lengths_merge(&merged, merged.n - axes, merged.n);
    rows->x = reshape_lengths(x, &merged);
    if (w) rows->w = weft_reshape(w, 1, flat);
    if (b) rows->b = weft_reshape(b, 1, flat);
    return rows->x != NULL;
}

weft_value *norm_rows_back(const norm_rows *rows, weft_value *y) {
    return rows->shape.n ? reshape_lengths(y, &rows->shape) : y;
}

/* ---- groups of channels ---- */

/* Weight or bias [C] as it broadcasts against x [N, C, ...]; false after recording the error. */
static bool of_channels(const char *norm, const char *what, const weft_value *x, weft_value **v) {
    int64_t shape[WEFT_MAX_NDIM] = {x->type.shape[1], 1, 1, 1, 1, 1, 1};
    if (!*v) return true;
    if ((*v)->type.ndim != 1 || (*v)->type.shape[0] != shape[0])
        return value_fail(x, WEFT_SHAPE, "%s: the %s is %s: it must be [%lld], axis 1 of x", norm, what,
                          TYPE(&(*v)->type), (long long)shape[0]);
    if (x->type.ndim > 2) *v = weft_reshape(*v, x->type.ndim - 1, shape);
    return *v != NULL;
}

/* x [N, C, ...] with the elements of each group, or, for 0 groups, of each channel as a row. */
static weft_value *grouped(const char *norm, weft_value *x, int64_t groups, weft_value *w, weft_value *b,
                           double eps) {
    lengths shape = lengths_of(x), rows = shape;
    lengths_merge(&rows, groups ? 1 : 2, rows.n);
    if (groups) {
        lengths_insert(&rows, 1, groups);
        lengths_divide(&rows, 2, groups);
    }
    if (!of_channels(norm, "weight", x, &w)) return NULL;
    if (!of_channels(norm, "bias", x, &b)) return NULL;
    weft_value *flat = reshape_lengths(x, &rows);
    weft_value *y = reshape_lengths(weft_layer_norm_op(flat, NULL, NULL, eps), &shape);
    weft_value *beside = w ? w : b; /* f32 where x may be reduced */
    if (y && beside && dtype_is_reduced(y->type.dtype)) y = weft_cast(y, beside->type.dtype);
    if (w) y = weft_mul(y, w);
    if (b) y = weft_add(y, b);
    return y && y->type.dtype != x->type.dtype ? weft_cast(y, x->type.dtype) : y;
}

/* torch.nn.functional.group_norm (Wu and He, arXiv 1803.08494). */
weft_value *weft_group_norm_op(weft_value *x, int64_t groups, weft_value *w, weft_value *b, double eps) {
    if (!x) return NULL;
    if (x->type.ndim < 2)
        return value_fail(x, WEFT_SHAPE, "group_norm: x is %s: it must be [N, C, ...]", TYPE(&x->type));
    if (groups < 1 || x->type.shape[1] % groups)
        return value_fail(x, WEFT_ARGUMENT,
                          "group_norm: %lld groups of the %lld channels of %s: they must be of one size",
                          (long long)groups, (long long)x->type.shape[1], TYPE(&x->type));
    return grouped("group_norm", x, groups, w, b, eps);
}

/* torch.nn.functional.instance_norm by the instance's own statistics (Ulyanov et al., arXiv 1607.08022):
 * groups of one channel. */
weft_value *weft_instance_norm_op(weft_value *x, weft_value *w, weft_value *b, double eps) {
    if (!x) return NULL;
    int64_t elements = 1;
    for (int i = 2; i < x->type.ndim; i++) elements *= x->type.shape[i];
    if (x->type.ndim < 3 || elements == 1)
        return value_fail(
            x, WEFT_SHAPE,
            "instance_norm: x is %s: it must be [N, C, ...] with more than one element a channel",
            TYPE(&x->type));
    return grouped("instance_norm", x, 0, w, b, eps);
}
