/* similarity.c - lengths, distances and angles of vectors, and the losses made of them. A length is the
 * root of max(sum of squares, eps^2): the gradient of a vector of zeros is 0, not NaN. */
#include "ops/norm_loss/loss.h"

#include <math.h>

static weft_value *vector_sum(weft_value *x, int64_t axis, bool keep) {
    return weft_sum(x, 1, &axis, keep);
}

/* max(|x|, eps) along an axis, which stays with length 1. */
static weft_value *length_of(weft_value *x, int axis, double eps) {
    weft_value *squares = vector_sum(weft_square(x), axis, true);
    weft_value *least = squares ? loss_constant(squares, eps * eps) : NULL;
    return weft_sqrt(weft_maximum(squares, least));
}

/* Makes *axis one of `type`, that of an operand or of what operands broadcast to; `x` knows the graph. */
static bool axis_fits(const char *what, const weft_value *x, const tensor_type *type, int64_t *axis) {
    int64_t given = *axis;
    return axis_resolve(axis, type->ndim) ||
           value_fail(x, WEFT_SHAPE, "%s: %s has no axis %lld", what, TYPE(type), (long long)given);
}

/* torch.nn.functional.normalize: x / max(|x|, eps), of the 2-norm. */
weft_value *weft_normalize(weft_value *x, int axis, double eps) {
    int64_t at = axis;
    if (!x || !axis_fits("normalize", x, &x->type, &at)) return NULL;
    return weft_div(x, length_of(x, axis, option_number(eps, 1e-12)));
}

/* x with as many axes as `common`, and with its length of `axis`: sums along it are those of what x
 * broadcasts to. The other axes stay as they are. */
static weft_value *spread_along(weft_value *x, const tensor_type *common, int64_t axis) {
    int64_t shape[WEFT_MAX_NDIM];
    while (x && x->type.ndim < common->ndim) x = weft_unsqueeze(x, 0);
    if (!x || x->type.shape[axis] == common->shape[axis]) return x;
    for (int i = 0; i < common->ndim; i++) shape[i] = i == axis ? common->shape[i] : -1;
    return weft_broadcast_to(x, common->ndim, shape);
}

/* torch.nn.functional.cosine_similarity: a b / (max(|a|, eps) max(|b|, eps)), of a and b as they
 * broadcast. */
weft_value *weft_cosine_similarity(weft_value *a, weft_value *b, int axis, double eps) {
    int64_t at = axis;
    tensor_type common;
    if (!a || !b || !shape_broadcast(&a->type, &b->type, &common)) return weft_mul(a, b);
    if (!axis_fits("cosine_similarity", a, &common, &at)) return NULL;
    a = spread_along(a, &common, at);
    b = spread_along(b, &common, at);
    double least = option_number(eps, 1e-8);
    weft_value *of_a = length_of(a, (int)at, least), *of_b = length_of(b, (int)at, least);
    weft_value *unit_a = weft_div(a, of_a), *unit_b = weft_div(b, of_b);
    return vector_sum(weft_mul(unit_a, unit_b), at, false);
}

/* torch.nn.functional.cosine_embedding_loss of a and b [N, D] or [D]: 1 - cos where the target is 1,
 * max(cos - margin, 0) where it is -1. PyTorch adds 1e-12 to the squares of lengths. */
weft_value *weft_cosine_embedding(weft_value *a, weft_value *b, weft_value *target,
                                  const weft_loss *options) {
    static const char name[] = "cosine_embedding";
    weft_loss o;
    if (!loss_fits(name, a, b) || !target) return target ? NULL : weft_mul(a, target);
    const tensor_type rows = type_of(target->type.dtype, a->type.ndim ? a->type.ndim - 1 : 0, a->type.shape);
    if (!loss_options(&o, name, a, options, LOSS_MARGIN)) return NULL;
    if (a->type.ndim < 1 || a->type.ndim > 2 || b->type.ndim != a->type.ndim ||
        !shape_equal(&target->type, &rows))
        return value_fail(a, WEFT_SHAPE,
                          "%s: a is %s, b %s, the target %s: they must be [N, D], [N, D] and [N]", name,
                          TYPE(&a->type), TYPE(&b->type), TYPE(&target->type));
    weft_value *dot = vector_sum(weft_mul(a, b), -1, false);
    weft_value *of_a = weft_offset(vector_sum(weft_square(a), -1, false), 1e-12);
    weft_value *of_b = weft_offset(vector_sum(weft_square(b), -1, false), 1e-12);
    weft_value *cosine = weft_div(dot, weft_sqrt(weft_mul(of_a, of_b)));
    if (!cosine) return NULL;
    weft_value *one = loss_constant(target, 1), *minus = loss_constant(target, -1);
    weft_value *zero = loss_constant(cosine, 0), *apart = weft_offset(weft_neg(cosine), 1);
    weft_value *alike = weft_relu(weft_offset(cosine, -option_number(o.margin, 0)));
    weft_value *is_minus = weft_equal(target, minus), *is_one = weft_equal(target, one);
    weft_value *other = weft_where(is_minus, alike, zero);
    return loss_reduce(weft_where(is_one, apart, other), o.reduction);
}

/* |a - b + eps|, the p-norm along the last axis; torch.nn.functional.pairwise_distance. */
static weft_value *distance(weft_value *a, weft_value *b, double p) {
    weft_value *d = weft_offset(weft_sub(a, b), 1e-6);
    if (p == 1) return vector_sum(weft_abs(d), -1, false);
    return weft_sqrt(vector_sum(weft_square(d), -1, false));
}

/* torch.nn.functional.triplet_margin_loss: max(|anchor - positive| - |anchor - negative| + margin, 0). */
weft_value *weft_triplet_margin(weft_value *anchor, weft_value *positive, weft_value *negative,
                                const weft_loss *options) {
    static const char name[] = "triplet_margin";
    weft_loss o;
    if (!loss_fits(name, anchor, positive) || !loss_fits(name, anchor, negative) ||
        !loss_options(&o, name, anchor, options, LOSS_MARGIN | LOSS_SWAP | LOSS_P))
        return NULL;
    double p = option_number(o.p, 2);
    if (p != 1 && p != 2)
        return value_fail(anchor, WEFT_ARGUMENT, "%s: p=%g: the norm must be 1 or 2 (0 means 2)", name, o.p);
    if (anchor->type.ndim < 1)
        return value_fail(anchor, WEFT_SHAPE, "%s: the anchor is %s: it must be [N, D] or [D]", name,
                          TYPE(&anchor->type));
    weft_value *near = distance(anchor, positive, p), *far = distance(anchor, negative, p);
    if (o.swap) far = weft_minimum(far, distance(positive, negative, p));
    return loss_reduce(weft_relu(weft_offset(weft_sub(near, far), option_number(o.margin, 1))), o.reduction);
}
