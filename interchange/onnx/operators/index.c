/* index.c - elements by their places: gathers, scatters, the largest ones, one-hot. Places below 0 count
 * from the end; Weft's gathers and scatters fail the run for them, so they become places from the front
 * here. */
#include "interchange/onnx/operators/families.h"

#include <math.h>

/* ---- places ---- */

static weft_value *number(onnx_call *c, int64_t n) {
    return weft_constant(onnx_graph_of(c), WEFT_I64, 0, NULL, (double)n);
}

/* ids as i64 from the front of an axis of n elements. */
static weft_value *from_front(onnx_call *c, weft_value *ids, int64_t n) {
    ids = weft_cast(ids, WEFT_I64);
    weft_value *is_negative = weft_less(ids, number(c, 0)), *from_end = weft_add(ids, number(c, n));
    return weft_where(is_negative, from_end, ids);
}

/* Known places from the front of an axis of n elements: themselves where none is below 0, else a
 * constant, unless they follow the batch. */
static weft_value *known_from_front(onnx_call *c, int i, int64_t n) {
    int count;
    bool is_negative = false;
    const onnx_known *k = onnx_known_in(c, i);
    const int64_t *numbers = onnx_side_integers(c, i, &count);
    bool follows = c->operands[i]->known[0] != c->operands[i]->known[1];
    int64_t *ids = numbers ? kit_take(c->in->arena, (size_t)count + 1, sizeof *ids) : NULL;
    if (!ids) return NULL;
    for (int j = 0; j < count; j++) {
        ids[j] = numbers[j] < 0 ? numbers[j] + n : numbers[j];
        is_negative |= numbers[j] < 0;
    }
    if (!is_negative) return onnx_in(c, i);
    if (follows) return from_front(c, onnx_in(c, i), n);
    return weft_constant_tensor(onnx_graph_of(c), WEFT_I64, k->type.ndim, k->type.shape, ids);
}

/* Operand i as places in an axis of x, operand 0. Places below 0 of an axis that depends on
 * the batch fail the run. */
static weft_value *places_in(onnx_call *c, int i, int axis) {
    int64_t own[WEFT_MAX_NDIM];
    weft_value *ids = onnx_in(c, i);
    if (!ids || !onnx_in(c, 0)) return NULL;
    onnx_shape_of(c, 0, own);
    if (own[axis] < 0) return ids;
    return onnx_known_in(c, i) ? known_from_front(c, i, own[axis]) : from_front(c, ids, own[axis]);
}

static bool operands_with_axis(onnx_call *c, int64_t otherwise, int *axis) {
    weft_value *x = onnx_in(c, 0), *ids = onnx_in(c, 1);
    int64_t given = onnx_int(c, "axis", otherwise);
    return x && ids && onnx_axis_of(c, given, weft_ndim(x), axis);
}

/* ---- gathers ---- */

/* Rows of a parameter by places of any shape are an embedding, one known place is a slice. */
weft_value *onnx_build_gather(onnx_call *c) {
    int64_t own[WEFT_MAX_NDIM];
    weft_value *indices[WEFT_MAX_NDIM] = {0}, *x = onnx_in(c, 0), *ids = onnx_in(c, 1);
    int axis;
    if (!operands_with_axis(c, 0, &axis)) return NULL;
    onnx_shape_of(c, 0, own);
    bool is_table = !c->scratch_graph && onnx_is_parameter(c->operands[0]) && weft_ndim(x) == 2 && axis == 0,
         is_known = onnx_known_in(c, 1);
    if (is_known && weft_ndim(ids) == 0) {
        int64_t place = onnx_integer(c, 1, 0);
        return weft_squeeze(weft_slice(x, axis, place, place == -1 ? INT64_MAX : place + 1), axis);
    }
    if (is_table) return weft_embedding_op(x, places_in(c, 1, 0));
    if (is_known && weft_ndim(ids) == 1 && own[axis] >= 0)
        return weft_index_select(x, axis, places_in(c, 1, axis));
    indices[axis] = ids;
    return weft_index(x, axis + 1, indices);
}

weft_value *onnx_build_gather_elements(onnx_call *c) {
    int axis;
    if (!operands_with_axis(c, 0, &axis)) return NULL;
    weft_value *x = onnx_in(c, 0), *ids = places_in(c, 1, axis);
    return weft_gather(x, axis, ids);
}

/* The parts of ids[..., m]: ids for m axes. */
static int parts_of(onnx_call *c, weft_value *ids, int from, weft_value **parts) {
    int64_t last = weft_dim(ids, weft_ndim(ids) - 1);
    if (weft_ndim(ids) < 1 || last < 1 || from + last > weft_ndim(onnx_in(c, 0))) {
        onnx_refuse(c, "its indices name %jd axes of %d", last, weft_ndim(onnx_in(c, 0)) - from);
        return 0;
    }
    return weft_unbind(ids, (int)last, weft_ndim(ids) - 1, parts);
}

/* The numbers 0, 1, ... of axis i, which is one of both x and ids[..., m], along this axis of ids[...]. */
static weft_value *own_places(onnx_call *c, int i, int64_t length, int ndim) {
    int64_t shape[WEFT_MAX_NDIM];
    for (int j = 0; j < ndim; j++) shape[j] = j == i ? length : 1;
    return onnx_reshape(c, weft_arange(onnx_graph_of(c), WEFT_I64, 0, (double)length, 1), ndim, shape);
}

weft_value *onnx_build_gather_nd(onnx_call *c) {
    weft_value *indices[2 * WEFT_MAX_NDIM] = {0}, *x = onnx_in(c, 0), *ids = onnx_in(c, 1);
    int64_t own[WEFT_MAX_NDIM], batch = onnx_int(c, "batch_dims", 0);
    if (!x || !ids) return NULL;
    if (batch < 0 || batch >= weft_ndim(x) || batch >= weft_ndim(ids))
        return onnx_refuse(c, "batch_dims is %jd", batch);
    onnx_shape_of(c, 0, own);
    for (int i = 0; i < batch; i++) {
        if (own[i] == ONNX_DEPENDS) return onnx_refuse(c, "the length of axis %d depends on the batch", i);
        indices[i] = own_places(c, i, own[i], weft_ndim(ids) - 1);
    }
    int n = parts_of(c, ids, (int)batch, indices + batch);
    return n ? weft_index(x, (int)batch + n, indices) : NULL;
}

/* ---- scatters ---- */

/* "add" and the like; false: none of them. */
static bool reduction_of(onnx_call *c, bool *is_plain, weft_scatter_reduction *reduction) {
    const char *name = onnx_word(c, "reduction", "none");
    *is_plain = !strcmp(name, "none");
    if (!strcmp(name, "add"))
        *reduction = WEFT_SCATTER_SUM;
    else if (!strcmp(name, "mul"))
        *reduction = WEFT_SCATTER_PROD;
    else if (!strcmp(name, "max"))
        *reduction = WEFT_SCATTER_AMAX;
    else if (!strcmp(name, "min"))
        *reduction = WEFT_SCATTER_AMIN;
    else if (!*is_plain)
        return onnx_refuse(c, "reduction is '%.40s'", name);
    return true;
}

weft_value *onnx_build_scatter_elements(onnx_call *c) {
    weft_scatter_reduction reduction = WEFT_SCATTER_SUM;
    bool is_plain;
    int axis;
    weft_value *src = onnx_in(c, 2);
    if (!src || !operands_with_axis(c, 0, &axis) || !reduction_of(c, &is_plain, &reduction)) return NULL;
    weft_value *x = onnx_in(c, 0), *ids = places_in(c, 1, axis);
    if (is_plain) return weft_scatter(x, axis, ids, src);
    return weft_scatter_reduce(x, axis, ids, src, reduction, true);
}

/* Places for n axes of x as places of one axis that is all of them. */
static weft_value *as_one_axis(onnx_call *c, const int64_t *own, int n, weft_value *const *parts) {
    weft_value *ids = NULL;
    for (int i = 0; i < n; i++) {
        weft_value *part = from_front(c, parts[i], own[i]);
        ids = ids ? weft_add(weft_mul(ids, number(c, own[i])), part) : part;
    }
    return ids;
}

/* By mul, max and min: the axes that the indices name are one, and what they name parts of x one after
 * the other. */
static weft_value *scatter_joined(onnx_call *c, weft_value *x, int n, weft_value *const *parts,
                                  weft_value *src, weft_scatter_reduction reduction) {
    int64_t own[WEFT_MAX_NDIM], flat[WEFT_MAX_NDIM], rows[WEFT_MAX_NDIM], updates[WEFT_MAX_NDIM];
    int ndim = weft_ndim(x), whole = ndim - n, ids_ndim = weft_ndim(parts[0]);
    onnx_shape_of(c, 0, own);
    onnx_shape_of(c, 2, updates);
    flat[0] = rows[0] = 1;
    for (int i = 0; i < n; i++) {
        if (own[i] < 0)
            return onnx_refuse(c, "the length of axis %d, which it names, depends on the batch", i);
        flat[0] *= own[i];
    }
    for (int i = 0; i < ids_ndim; i++)
        rows[0] =
            updates[i] < 0 || rows[0] < 0 ? (rows[0] == 1 ? updates[i] : ONNX_DEPENDS) : rows[0] * updates[i];
    for (int i = 0; i < whole; i++) flat[1 + i] = rows[1 + i] = own[n + i];
    weft_value *ids = onnx_reshape(c, as_one_axis(c, own, n, parts), 1, rows);
    x = onnx_reshape(c, x, 1 + whole, flat);
    src = onnx_reshape(c, src, 1 + whole, rows);
    return onnx_reshape(c, weft_index_reduce(x, 0, ids, src, reduction, true), ndim, own);
}

weft_value *onnx_build_scatter_nd(onnx_call *c) {
    weft_value *parts[WEFT_MAX_NDIM], *x = onnx_in(c, 0), *ids = onnx_in(c, 1), *src = onnx_in(c, 2);
    weft_scatter_reduction reduction = WEFT_SCATTER_SUM;
    bool is_plain;
    if (!x || !ids || !src || !reduction_of(c, &is_plain, &reduction)) return NULL;
    int n = parts_of(c, ids, 0, parts);
    if (!n) return NULL;
    if (is_plain || reduction == WEFT_SCATTER_SUM) return weft_index_put(x, n, parts, src, !is_plain);
    return scatter_joined(c, x, n, parts, src, reduction);
}

/* Steps of `update` are put into a cache along `axis`, in each sequence from a place of its own on. */
weft_value *onnx_build_tensor_scatter(onnx_call *c) {
    int64_t own[WEFT_MAX_NDIM], shape[WEFT_MAX_NDIM];
    int axis;
    weft_value *x = onnx_in(c, 0), *update = onnx_in(c, 1), *first = onnx_in(c, 2);
    const char *mode = onnx_word(c, "mode", "linear");
    bool is_circular = !strcmp(mode, "circular");
    if (!operands_with_axis(c, -2, &axis)) return NULL;
    if (!is_circular && strcmp(mode, "linear")) return onnx_refuse(c, "mode is '%.40s'", mode);
    if (axis == 0) return onnx_refuse(c, "axis 0 is that of the sequences");
    if (weft_ndim(update) != weft_ndim(x))
        return onnx_refuse(c, "update has %d axes, the cache %d", weft_ndim(update), weft_ndim(x));
    onnx_shape_of(c, 1, shape);
    onnx_shape_of(c, 0, own);
    if (shape[axis] < 0 || own[axis] < 0)
        return onnx_refuse(c, "the length of axis %d depends on the batch", axis);
    weft_value *ids = own_places(c, axis, shape[axis], weft_ndim(x));
    if (first) {
        int64_t each[WEFT_MAX_NDIM];
        for (int i = 0; i < weft_ndim(x); i++) each[i] = i ? 1 : shape[0];
        ids = weft_add(ids, onnx_reshape(c, weft_cast(first, WEFT_I64), weft_ndim(x), each));
    }
    if (is_circular) ids = weft_remainder(ids, number(c, own[axis]));
    for (int i = 0; i < weft_ndim(x); i++)
        if (shape[i] == ONNX_DEPENDS) return onnx_refuse(c, "the length of axis %d depends on the batch", i);
    return weft_scatter(x, axis, weft_broadcast_to(ids, weft_ndim(x), shape), update);
}

/* ---- one-hot, the largest ---- */

/* values are {off, on}. */
weft_value *onnx_build_one_hot(onnx_call *c) {
    int64_t order[WEFT_MAX_NDIM];
    int axis, at = 0;
    weft_value *ids = onnx_in(c, 0), *values = onnx_in(c, 2);
    int64_t depth = onnx_integer(c, 1, 0);
    if (!ids || !values || c->in->error->status) return NULL;
    int ndim = weft_ndim(ids) + 1;
    if (depth < 1) return onnx_refuse(c, "depth is %jd", depth);
    if (!onnx_axis_of(c, onnx_int(c, "axis", -1), ndim, &axis)) return NULL;
    if (weft_ndim(values) != 1 || weft_dim(values, 0) != 2)
        return onnx_refuse(c, "values are not two numbers");
    weft_value *hot = weft_cast(weft_one_hot(from_front(c, ids, depth), depth, WEFT_I64), WEFT_BOOL);
    for (int i = 0; i < ndim; i++) order[i] = i == axis ? ndim - 1 : at++;
    if (axis != ndim - 1) hot = weft_permute(hot, order);
    weft_value *off = weft_squeeze(weft_slice(values, 0, 0, 1), 0),
               *on = weft_squeeze(weft_slice(values, 0, 1, 2), 0);
    return weft_where(hot, on, off);
}

/* Of equal elements the first; in their order, also where the file does not ask for one. */
weft_value *onnx_build_top_k(onnx_call *c) {
    int axis;
    weft_value *x = onnx_in(c, 0), *ids = NULL;
    int64_t k = onnx_has(c, 1) ? onnx_integer(c, 1, 0) : onnx_int(c, "k", 0);
    bool is_largest = onnx_int(c, "largest", 1);
    onnx_int(c, "sorted", 1);
    if (!x || c->in->error->status || !onnx_axis_of(c, onnx_int(c, "axis", -1), weft_ndim(x), &axis))
        return NULL;
    x = weft_topk(x, k, axis, is_largest, &ids);
    onnx_result(c, 1, ids);
    return x;
}

/* ---- what depends on numbers that are known here ---- */

static weft_value *known_ids(onnx_call *c, int ndim, const int64_t *shape, const int64_t *ids) {
    return weft_constant_tensor(onnx_graph_of(c), WEFT_I64, ndim, shape, ids);
}

/* The elements, or parts along an axis, whose condition is true. */
weft_value *onnx_build_compress(onnx_call *c) {
    int axis = 0, n;
    int64_t count = 0, whole[] = {-1};
    weft_value *x = onnx_in(c, 0);
    const int64_t *condition = onnx_integers(c, 1, &n);
    const onnx_attribute *has_axis = onnx_attribute_of(c, "axis");
    int64_t *ids = kit_take(c->in->arena, (size_t)n + 1, sizeof *ids);
    if (!x || !condition || !ids) return NULL;
    if (has_axis && !onnx_axis_of(c, onnx_int(c, "axis", 0), weft_ndim(x), &axis)) return NULL;
    if (!has_axis) x = weft_reshape(x, 1, whole);
    for (int i = 0; i < n; i++)
        if (condition[i]) ids[count++] = i;
    return weft_index_select(x, axis, known_ids(c, 1, &count, ids));
}

/* The places of what is not 0: a row for each axis. */
weft_value *onnx_build_non_zero(onnx_call *c) {
    int n;
    int64_t shape[2] = {0, 0};
    weft_value *x = onnx_in(c, 0);
    const double *numbers = onnx_numbers(c, 0, &n);
    if (!x || !numbers) return NULL;
    shape[0] = weft_ndim(x);
    for (int i = 0; i < n; i++) shape[1] += numbers[i] != 0;
    int64_t *ids = kit_take(c->in->arena, (size_t)(shape[0] * shape[1]) + 1, sizeof *ids), found = 0;
    if (!ids) return kit_no_memory(c->in->error, "NonZero"), NULL;
    for (int i = 0; i < n; i++) {
        int64_t rest = i;
        if (numbers[i] == 0) continue;
        for (int axis = (int)shape[0] - 1; axis >= 0; axis--) {
            ids[axis * shape[1] + found] = rest % weft_dim(x, axis);
            rest /= weft_dim(x, axis);
        }
        found++;
    }
    return known_ids(c, 2, shape, ids);
}

/* Parts of x along an axis, or its elements, to compare: part i begins at numbers + i * inner, and has
 * `outer` runs of `inner` numbers that are `stride` from each other. */
typedef struct parts {
    const double *numbers;
    int64_t n, outer, inner, stride;
} parts;

static int compare_parts(const parts *p, int64_t a, int64_t b) {
    for (int64_t o = 0; o < p->outer; o++)
        for (int64_t i = 0; i < p->inner; i++) {
            double x = p->numbers[o * p->stride + a * p->inner + i],
                   y = p->numbers[o * p->stride + b * p->inner + i];
            if (x != y) return x < y ? -1 : 1;
        }
    return 0;
}

/* The place among the n distinct parts found so far, which are in order: where `part` is, or would be. */
static int64_t place_among(const parts *p, const int64_t *found, int64_t n, int64_t part, bool *is_there) {
    int64_t low = 0, high = n;
    *is_there = false;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        int order = compare_parts(p, found[middle], part);
        if (order == 0) {
            *is_there = true;
            return middle;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* In rising order, or in the order of the first places. */
static weft_value *unique(onnx_call *c, weft_value *x, int axis, const parts *p, bool is_sorted) {
    size_t room = (size_t)p->n + 1;
    int64_t *found = kit_take(c->in->arena, room, sizeof *found),
            *rank = kit_take(c->in->arena, room, sizeof *rank);
    int64_t *first = kit_take(c->in->arena, room, sizeof *first),
            *counts = kit_take(c->in->arena, room, sizeof *counts);
    int64_t *inverse = kit_take(c->in->arena, room, sizeof *inverse), n = 0;
    bool is_there;
    if (!found || !rank || !first || !counts || !inverse) return kit_no_memory(c->in->error, "Unique"), NULL;
    for (int64_t i = 0; i < p->n; i++) {
        int64_t at = place_among(p, found, n, i, &is_there);
        if (is_there) continue;
        memmove(found + at + 1, found + at, (size_t)(n - at) * sizeof *found);
        found[at] = i;
        n++;
    }
    for (int64_t k = 0; k < n; k++) {
        rank[k] = k;
        for (int64_t j = 0; !is_sorted && j < n; j++) rank[k] += (found[j] < found[k]) - (j < k);
        first[rank[k]] = found[k];
    }
    for (int64_t i = 0; i < p->n; i++) {
        inverse[i] = rank[place_among(p, found, n, i, &is_there)];
        counts[inverse[i]]++;
    }
    onnx_result(c, 1, known_ids(c, 1, &n, first));
    onnx_result(c, 2, known_ids(c, 1, &p->n, inverse));
    onnx_result(c, 3, known_ids(c, 1, &n, counts));
    return weft_index_select(x, axis, known_ids(c, 1, &n, first));
}

weft_value *onnx_build_unique(onnx_call *c) {
    enum { MOST = 1 << 15 }; /* time is quadratic */
    int axis = 0, n;
    int64_t whole[] = {-1};
    weft_value *x = onnx_in(c, 0);
    const onnx_attribute *has_axis = onnx_attribute_of(c, "axis");
    const double *numbers = onnx_numbers(c, 0, &n);
    bool is_sorted = onnx_int(c, "sorted", 1);
    if (!x || !numbers) return NULL;
    if (!n) return onnx_refuse(c, "x has no elements");
    if (has_axis && !onnx_axis_of(c, onnx_int(c, "axis", 0), weft_ndim(x), &axis)) return NULL;
    for (int i = 0; i < n; i++) {
        if (numbers[i] != numbers[i]) return onnx_refuse(c, "x has NaN, of which none equals another");
        if (weft_value_dtype(x) == WEFT_I64 && fabs(numbers[i]) > 0x1p53)
            return onnx_refuse(c, "x has numbers above 2^53");
    }
    if (!has_axis) x = weft_reshape(x, 1, whole);
    parts p = {.numbers = numbers, .n = weft_dim(x, axis), .outer = 1, .inner = 1};
    for (int i = 0; i < axis; i++) p.outer *= weft_dim(x, i);
    for (int i = axis + 1; i < weft_ndim(x); i++) p.inner *= weft_dim(x, i);
    if (p.n > MOST) return onnx_refuse(c, "x has %jd parts; %d are the most", p.n, MOST);
    p.stride = p.n * p.inner;
    return unique(c, x, axis, &p, is_sorted);
}
