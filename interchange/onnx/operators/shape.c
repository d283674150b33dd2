/* shape.c - operators that move elements or give them another shape. */
#include "interchange/onnx/operators/families.h"

/* 0 is the length that x has there (unless allowzero), -1 what is left. */
weft_value *onnx_build_reshape(onnx_call *c) {
    int64_t shape[WEFT_MAX_NDIM], own[WEFT_MAX_NDIM];
    int n;
    weft_value *x = onnx_in(c, 0);
    const int64_t *wanted = onnx_lengths(c, 1, &n);
    bool keeps_zero = onnx_int(c, "allowzero", 0);
    if (!x || !wanted) return NULL;
    if (n > WEFT_MAX_NDIM) return onnx_refuse(c, "a shape of %d axes; %d are the most", n, WEFT_MAX_NDIM);
    onnx_shape_of(c, 0, own);
    for (int i = 0; i < n; i++) {
        bool is_copied = wanted[i] == 0 && !keeps_zero;
        if (is_copied && i >= weft_ndim(x))
            return onnx_refuse(c, "length %d is 0, and x has %d axes", i, weft_ndim(x));
        shape[i] = is_copied ? own[i] : wanted[i];
    }
    return onnx_reshape(c, x, n, shape);
}

/* To two axes, those before `axis` and those from it on. */
weft_value *onnx_build_flatten(onnx_call *c) {
    int64_t own[WEFT_MAX_NDIM], shape[2] = {1, 1};
    weft_value *x = onnx_in(c, 0);
    int64_t axis = onnx_int(c, "axis", 1);
    if (!x) return NULL;
    onnx_shape_of(c, 0, own);
    if (axis < 0) axis += weft_ndim(x);
    if (axis < 0 || axis > weft_ndim(x))
        return onnx_refuse(c, "axis %jd of a value with %d axes", axis, weft_ndim(x));
    for (int i = 0; i < weft_ndim(x); i++) {
        int64_t *part = &shape[i >= axis];
        bool is_number = own[i] >= 0 && *part >= 0;
        *part = is_number ? *part * own[i] : *part == 1 ? own[i] : ONNX_DEPENDS;
    }
    return onnx_reshape(c, x, 2, shape);
}

weft_value *onnx_build_transpose(onnx_call *c) {
    int64_t axes[WEFT_MAX_NDIM];
    int n;
    weft_value *x = onnx_in(c, 0);
    const int64_t *given = onnx_ints(c, "perm", &n);
    if (!x) return NULL;
    if (given && n != weft_ndim(x)) return onnx_refuse(c, "perm has %d axes, x has %d", n, weft_ndim(x));
    for (int i = 0; i < weft_ndim(x); i++) axes[i] = given ? given[i] : weft_ndim(x) - 1 - i;
    return weft_permute(x, axes);
}

weft_value *onnx_build_concat(onnx_call *c) {
    int n = onnx_operands(c), axis;
    weft_value **values = kit_take(c->in->arena, (size_t)n + 1, sizeof *values);
    if (!values) return kit_no_memory(c->in->error, "Concat"), NULL;
    for (int i = 0; i < n; i++)
        if (!(values[i] = onnx_in(c, i))) return onnx_refuse(c, "operand %d is left out", i);
    if (!n) return onnx_refuse(c, "it has no operands");
    if (!onnx_axis_of(c, onnx_int(c, "axis", 1), weft_ndim(values[0]), &axis)) return NULL;
    return n == 1 ? values[0] : weft_concat(n, values, axis);
}

/* ---- axes of length 1 ---- */

/* Marks the axes that operand 1 names, or the attribute of older opsets: of x, or of x with as many more. How
 * many they are; -1: it names no axes, or an error stands. */
static int marked_axes(onnx_call *c, const weft_value *x, bool is_more, bool is_marked[WEFT_MAX_NDIM]) {
    int axes[WEFT_MAX_NDIM], n;
    const int64_t *list = onnx_list(c, 1, "axes", &n);
    if (!x || !list) return -1;
    int ndim = weft_ndim(x) + (is_more ? n : 0);
    if (ndim > WEFT_MAX_NDIM) onnx_refuse(c, "a shape of %d axes; %d are the most", ndim, WEFT_MAX_NDIM);
    if (ndim > WEFT_MAX_NDIM || !onnx_axes(c, list, n, ndim, axes)) return -1;
    for (int i = 0; i < n; i++) is_marked[axes[i]] = true;
    return n;
}

weft_value *onnx_build_squeeze(onnx_call *c) {
    int64_t own[WEFT_MAX_NDIM], shape[WEFT_MAX_NDIM];
    bool goes[WEFT_MAX_NDIM] = {0};
    weft_value *x = onnx_in(c, 0);
    int n = marked_axes(c, x, false, goes), left = 0;
    if (!x || c->in->error->status) return NULL;
    onnx_shape_of(c, 0, own);
    for (int i = 0; i < weft_ndim(x); i++) {
        if (goes[i] && own[i] != 1) return onnx_refuse(c, "the length of axis %d is not always 1", i);
        if (n < 0 ? own[i] != 1 : !goes[i]) shape[left++] = own[i];
    }
    return onnx_reshape(c, x, left, shape);
}

weft_value *onnx_build_unsqueeze(onnx_call *c) {
    int64_t own[WEFT_MAX_NDIM], shape[WEFT_MAX_NDIM];
    bool is_new[WEFT_MAX_NDIM] = {0};
    weft_value *x = onnx_in(c, 0);
    int n = marked_axes(c, x, true, is_new), from = 0;
    if (!x || c->in->error->status) return NULL;
    if (n < 0) return onnx_refuse(c, "it has no axes");
    onnx_shape_of(c, 0, own);
    for (int i = 0; i < weft_ndim(x) + n; i++) shape[i] = is_new[i] ? 1 : own[from++];
    return onnx_reshape(c, x, weft_ndim(x) + n, shape);
}

/* ---- repeats ---- */

/* The length that `own` and `wanted` broadcast to, for weft_broadcast_to(); -1: x's own. ONNX_DEPENDS:
 * there is none. */
static int64_t expanded(int64_t own, int64_t wanted) {
    if (wanted == 1 || wanted == own) return -1;
    return own == 1 ? wanted : ONNX_DEPENDS;
}

weft_value *onnx_build_expand(onnx_call *c) {
    int64_t own[WEFT_MAX_NDIM], shape[WEFT_MAX_NDIM];
    int n;
    weft_value *x = onnx_in(c, 0);
    const int64_t *wanted = onnx_lengths(c, 1, &n);
    if (!x || !wanted) return NULL;
    int ndim = n > weft_ndim(x) ? n : weft_ndim(x), before = ndim - weft_ndim(x), left = ndim - n;
    if (ndim > WEFT_MAX_NDIM)
        return onnx_refuse(c, "a shape of %d axes; %d are the most", ndim, WEFT_MAX_NDIM);
    onnx_shape_of(c, 0, own);
    for (int i = 0; i < ndim; i++) {
        int64_t length = i < left ? 1 : wanted[i - left];
        shape[i] = i < before ? length : expanded(own[i - before], length);
        if (shape[i] == ONNX_DEPENDS)
            return onnx_refuse(c, "axis %d does not broadcast, or its length depends on the batch", i);
    }
    return weft_broadcast_to(x, ndim, shape);
}

weft_value *onnx_build_tile(onnx_call *c) {
    int64_t own[WEFT_MAX_NDIM], shape[WEFT_MAX_NDIM], repeats[WEFT_MAX_NDIM];
    int n;
    bool is_broadcast = false;
    weft_value *x = onnx_in(c, 0);
    const int64_t *wanted = onnx_lengths(c, 1, &n);
    if (!x || !wanted) return NULL;
    if (n != weft_ndim(x)) return onnx_refuse(c, "%d repeats for %d axes", n, weft_ndim(x));
    onnx_shape_of(c, 0, own);
    for (int i = 0; i < n; i++) {
        bool is_batch = wanted[i] == WEFT_BATCH;
        if (wanted[i] == ONNX_DEPENDS || (is_batch && own[i] != 1))
            return onnx_refuse(c, "how often it repeats axis %d depends on the batch", i);
        shape[i] = is_batch ? WEFT_BATCH : -1;
        repeats[i] = is_batch ? 1 : wanted[i];
        is_broadcast |= is_batch;
    }
    if (is_broadcast) x = weft_broadcast_to(x, n, shape);
    return n ? weft_tile(x, n, repeats) : x;
}

/* ---- blocks ---- */

/* x[N, C, H, W] as six axes with places for the parts of `order`; C, H and W are divided by the block. */
static weft_value *blocks(onnx_call *c, bool is_to_space, bool is_first) {
    int64_t own[WEFT_MAX_NDIM], b = onnx_int(c, "blocksize", 0);
    weft_value *x = onnx_in(c, 0);
    if (!x) return NULL;
    if (weft_ndim(x) != 4) return onnx_refuse(c, "x has %d axes; 4 are taken", weft_ndim(x));
    onnx_shape_of(c, 0, own);
    if (b < 1 || b > 32768) return onnx_refuse(c, "blocksize is %jd", b);
    for (int i = 1; i < 4; i++)
        if (own[i] < 0) return onnx_refuse(c, "the length of axis %d depends on the batch", i);
    if (is_to_space && own[1] % (b * b)) return onnx_refuse(c, "blocks of %jd of %jd channels", b, own[1]);
    if (!is_to_space && (own[2] % b || own[3] % b))
        return onnx_refuse(c, "blocks of %jd of an image %jd x %jd", b, own[2], own[3]);
    int64_t n = own[0], ch = own[1], h = own[2], w = own[3], deep = ch / (b * b);
    if (is_to_space) {
        int64_t first[] = {n, b, b, deep, h, w}, last[] = {n, deep, b, b, h, w},
                to[] = {n, deep, h * b, w * b};
        x = onnx_reshape(c, x, 6, is_first ? first : last);
        x = weft_permute(x, is_first ? (int64_t[]){0, 3, 4, 1, 5, 2} : (int64_t[]){0, 1, 4, 2, 5, 3});
        return onnx_reshape(c, x, 4, to);
    }
    int64_t cut[] = {n, ch, h / b, b, w / b, b}, to[] = {n, ch * b * b, h / b, w / b};
    x = onnx_reshape(c, x, 6, cut);
    x = weft_permute(x, is_first ? (int64_t[]){0, 3, 5, 1, 2, 4} : (int64_t[]){0, 1, 3, 5, 2, 4});
    return onnx_reshape(c, x, 4, to);
}

/* DCR: the place within a block is the outer part of the channel; CRD: the inner one. */
static weft_value *blocks_by_mode(onnx_call *c, bool is_to_space) {
    const char *mode = onnx_word(c, "mode", "DCR");
    bool is_first = !strcmp(mode, "DCR");
    if (!is_first && strcmp(mode, "CRD")) return onnx_refuse(c, "mode is '%.40s'", mode);
    return blocks(c, is_to_space, is_first);
}

weft_value *onnx_build_depth_to_space(onnx_call *c) {
    return blocks_by_mode(c, true);
}

weft_value *onnx_build_space_to_depth(onnx_call *c) {
    return blocks_by_mode(c, false);
}

/* ---- others ---- */

weft_value *onnx_build_trilu(onnx_call *c) {
    weft_value *x = onnx_in(c, 0);
    int64_t k = onnx_integer(c, 1, 0);
    bool is_upper = onnx_int(c, "upper", 1);
    if (!x || c->in->error->status) return NULL;
    return is_upper ? weft_triu(x, k) : weft_tril(x, k);
}

/* The numbers 0, 1, ... of an axis of x as i64, with the axes of x, which else have length 1. */
static weft_value *places_of(onnx_call *c, int64_t length, int axis, int ndim) {
    int64_t shape[WEFT_MAX_NDIM];
    for (int i = 0; i < ndim; i++) shape[i] = i == axis ? length : 1;
    double end = length == WEFT_BATCH ? (double)WEFT_BATCH : (double)length;
    return onnx_reshape(c, weft_arange(onnx_graph_of(c), WEFT_I64, 0, end, 1), ndim, shape);
}

/* Within the first `lens` steps of each sequence element t is that of lens - 1 - t; the rest stays. */
weft_value *onnx_build_reverse_sequence(onnx_call *c) {
    int64_t own[WEFT_MAX_NDIM], shape[WEFT_MAX_NDIM];
    int time, batch;
    weft_value *x = onnx_in(c, 0), *lens = onnx_in(c, 1);
    int64_t time_axis = onnx_int(c, "time_axis", 0), batch_axis = onnx_int(c, "batch_axis", 1);
    if (!x || !lens || !onnx_axis_of(c, time_axis, weft_ndim(x), &time) ||
        !onnx_axis_of(c, batch_axis, weft_ndim(x), &batch))
        return NULL;
    if (time == batch) return onnx_refuse(c, "time_axis and batch_axis are one axis");
    onnx_shape_of(c, 0, own);
    if (own[time] == ONNX_DEPENDS || own[batch] == ONNX_DEPENDS)
        return onnx_refuse(c, "an axis that depends on the batch");
    for (int i = 0; i < weft_ndim(x); i++) shape[i] = i == batch ? own[i] : 1;
    lens = onnx_reshape(c, weft_cast(lens, WEFT_I64), weft_ndim(x), shape);
    weft_value *t = places_of(c, own[time], time, weft_ndim(x));
    weft_value *is_within = weft_less(t, lens), *from_end = weft_offset(weft_sub(lens, t), -1);
    weft_value *ids = weft_where(is_within, from_end, t);
    return weft_take_along_axis(x, ids, time);
}
