/* slice.c - operators that take ranges of axes, and cut values into parts. */
#include "interchange/onnx/operators/families.h"

typedef struct range {
    int64_t begin, end, step;
} range;

static int64_t within(int64_t number, int64_t least, int64_t most) {
    return number < least ? least : number > most ? most : number;
}

/* Of an axis of n elements: numbers below 0 count from its end, those outside are cut. A range of a
 * negative step becomes one of the flipped axis. */
static range of_length(range r, int64_t n) {
    int64_t begin = r.begin < 0 ? within(r.begin, -n - 1, 0) + n : r.begin,
            end = r.end < 0 ? within(r.end, -n - 1, 0) + n : r.end;
    begin = r.step > 0 ? within(begin, 0, n) : n - 1 - within(begin, 0, n - 1);
    end = r.step > 0 ? within(end, 0, n) : n - 1 - within(end, -1, n - 1);
    return (range){begin, end < begin ? begin : end, r.step < 0 ? -r.step : r.step};
}

/* The same of an axis whose length depends on the batch: numbers stay as they are, but those past any end. */
static range of_batch(range r) {
    if (r.step < 0) r = (range){-1 - r.begin, -1 - r.end, -r.step};
    if (r.begin <= -INT32_MAX) r.begin = 0;
    if (r.end >= INT32_MAX) r.end = INT64_MAX;
    return r;
}

/* Whether x has the elements; ONNX would take those that there are, which other batches have more of. */
static bool are_there(onnx_call *c, const range *r, int64_t length, int axis) {
    bool is_good = r->begin >= -length && r->begin <= length && r->end >= -length;
    if (is_good && (r->end == INT64_MAX || r->end <= length)) return true;
    return onnx_refuse(c,
                       "it cuts axis %d, which follows the batch and may be shorter, at %jd: import with the "
                       "batch as a number (axes)",
                       axis, is_good || r->end < -length ? r->end : r->begin);
}

static weft_value *take(onnx_call *c, weft_value *x, int axis, int64_t own, range r) {
    bool is_flipped = r.step < 0;
    r.step = within(r.step, -INT32_MAX, INT32_MAX);
    r.begin = within(r.begin, -INT64_MAX, INT64_MAX);
    r.end = within(r.end, -INT64_MAX, INT64_MAX);
    if (own == 0) return x;
    r = own < 0 ? of_batch(r) : of_length(r, own);
    if (own < 0 && !are_there(c, &r, weft_dim(x, axis), axis)) return NULL;
    if (is_flipped) x = weft_flip(x, 1, (int64_t[]){axis});
    if (r.begin == 0 && r.step == 1 && r.end == (own < 0 ? INT64_MAX : own)) return x;
    return r.step == 1 ? weft_slice(x, axis, r.begin, r.end)
                       : weft_strided_slice(x, axis, r.begin, r.end, r.step);
}

/* Starts or ends: of operand i on this side, or of the attribute that old opsets have. */
static const int64_t *bounds(onnx_call *c, int i, const char *name, int *n) {
    return onnx_has(c, i) ? onnx_side_integers(c, i, n) : onnx_ints(c, name, n);
}

/* The same on the other side; in a graph that computes the node there is this side alone. */
static const int64_t *bounds_there(onnx_call *c, int i, const int64_t *here) {
    int n;
    if (!onnx_has(c, i) || c->scratch_graph) return here;
    c->side = !c->side;
    const int64_t *there = onnx_side_integers(c, i, &n);
    c->side = !c->side;
    return there;
}

/* A bound that depends on the batch is at the same place from the end of the axis, as Shape(x)[0] - 1, which
 * is -1, or from its beginning. */
static bool fix_bound(onnx_call *c, int axis, int64_t *bound, int64_t there) {
    enum { LEAST = -INT32_MAX, MOST = INT32_MAX };
    if (*bound == there) return true;
    int64_t here = within(*bound, LEAST, MOST), length = weft_dim(onnx_in(c, 0), axis);
    there = within(there, LEAST, MOST);
    c->side = !c->side;
    int64_t length_there = weft_dim(onnx_in(c, 0), axis);
    c->side = !c->side;
    if (here >= 0 && there >= 0 && here - length == there - length_there)
        *bound = here < length ? here - length : INT64_MAX;
    else if (here < 0 && there < 0 && here + length == there + length_there)
        *bound = here + length < 0 ? -INT64_MAX : here + length;
    else
        return onnx_refuse(c, "where it cuts axis %d depends on the batch", axis);
    return true;
}

weft_value *onnx_build_slice(onnx_call *c) {
    int64_t own[WEFT_MAX_NDIM];
    int axes[WEFT_MAX_NDIM], n, n_ends, n_axes, n_steps;
    weft_value *x = onnx_in(c, 0);
    const int64_t *begins = bounds(c, 1, "starts", &n), *ends = bounds(c, 2, "ends", &n_ends);
    const int64_t *list = onnx_list(c, 3, "axes", &n_axes), *steps = onnx_integers(c, 4, &n_steps);
    if (!x || c->in->error->status) return NULL;
    if (!begins || !ends || n != n_ends || (list && n_axes != n) || (steps && n_steps != n))
        return onnx_refuse(c, "starts, ends, axes and steps are not as many");
    const int64_t *begins_there = bounds_there(c, 1, begins), *ends_there = bounds_there(c, 2, ends);
    if (!begins_there || !ends_there || !onnx_axes(c, list, n, weft_ndim(x), axes)) return NULL;
    onnx_shape_of(c, 0, own);
    for (int i = 0; x && i < n; i++) {
        range r = {begins[i], ends[i], steps ? steps[i] : 1};
        if (r.step == 0) return onnx_refuse(c, "a step of 0");
        if (!fix_bound(c, axes[i], &r.begin, begins_there[i]) ||
            !fix_bound(c, axes[i], &r.end, ends_there[i]))
            return NULL;
        x = take(c, x, axes[i], own[axes[i]], r);
    }
    return x;
}

/* ---- parts ---- */

/* n sizes of an axis: those given, or equal ones, of which the last may be smaller. */
static bool sizes_of(onnx_call *c, const int64_t *given, int64_t own, int n, int64_t *sizes) {
    int open = 0;
    if (!given && own < 0) return onnx_refuse(c, "parts of an axis that depends on the batch");
    int64_t even = (own + n - 1) / n, left = own;
    for (int i = 0; i < n; i++) {
        sizes[i] = given ? given[i] : left < even ? left : even;
        left -= sizes[i];
        if (given && given[i] < 0) sizes[i] = -1, open++;
    }
    return open < 2 ? true : (bool)onnx_refuse(c, "two sizes depend on the batch");
}

weft_value *onnx_build_split(onnx_call *c) {
    int64_t own[WEFT_MAX_NDIM];
    int axis, n = c->node->n_out, given;
    weft_value *x = onnx_in(c, 0);
    const int64_t *sizes = onnx_has(c, 1) ? onnx_lengths(c, 1, &given) : onnx_ints(c, "split", &given);
    int64_t parts_wanted = onnx_int(c, "num_outputs", n),
            *own_sizes = kit_take(c->in->arena, (size_t)n + 1, sizeof *own_sizes);
    weft_value **parts = kit_take(c->in->arena, (size_t)n + 1, sizeof *parts);
    if (!x || c->in->error->status) return NULL;
    if (!own_sizes || !parts) return kit_no_memory(c->in->error, "Split"), NULL;
    if (parts_wanted != n || (sizes && given != n))
        return onnx_refuse(c, "%d sizes, num_outputs %jd, and %d results", given, parts_wanted, n);
    if (!onnx_axis_of(c, onnx_int(c, "axis", 0), weft_ndim(x), &axis)) return NULL;
    onnx_shape_of(c, 0, own);
    if (!sizes && own[axis] < 0) {
        if (weft_chunk(x, n, axis, parts) != n)
            return onnx_refuse(c, "%d parts of an axis that depends on the batch", n);
    } else {
        if (!sizes_of(c, sizes, own[axis], n, own_sizes)) return NULL;
        weft_split(x, n, own_sizes, axis, parts);
    }
    for (int i = 0; i < n; i++) onnx_result(c, i, parts[i]);
    return parts[0];
}
