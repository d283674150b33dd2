/* index.c - elements by their places, sorting, embeddings as nodes of ONNX. */
#include "interchange/onnx/exporters/exporter_families.h"

/* ids as a type that ONNX takes. */
static edge *ids_of(export_call *c, int i) {
    weft_dtype dtype = export_dtype(c, i);
    return export_cast(c, export_in(c, i), dtype, dtype == WEFT_I32 ? dtype : WEFT_I64);
}

edge *export_embedding(export_call *c) {
    return export_2(c, "Gather", export_in(c, 0), ids_of(c, 1));
}

/* ---- along one axis ---- */

/* Lengths of what gather and scatter go over: those of ids, and where these broadcast those of x. */
static bool loop_lengths(export_call *c, export_length length[WEFT_MAX_NDIM]) {
    export_length x[WEFT_MAX_NDIM];
    weft_value *ids = export_operand(c, 1);
    if (!export_lengths(c, export_operand(c, 0), x) || !export_lengths(c, ids, length)) return false;
    for (int i = 0; i < weft_ndim(ids); i++)
        if (export_int(c, "broadcast") && i != export_axis(c, "axis") && weft_dim(ids, i) == 1)
            length[i] = x[i];
    return true;
}

/* Operand i, repeated to the loop. */
static edge *over_loop(export_call *c, int i, edge *x, const export_length *loop) {
    export_length own[WEFT_MAX_NDIM];
    if (!export_lengths(c, export_operand(c, i), own)) return NULL;
    return export_expand(c, x, export_ndim(c, i), own, export_ndim(c, 1), loop);
}

/* Whether ids are of one axis alone. */
static bool is_along_axis(export_call *c) {
    weft_value *ids = export_operand(c, 1);
    bool all = export_int(c, "broadcast");
    for (int i = 0; i < weft_ndim(ids); i++)
        all = all && (i == export_axis(c, "axis") || weft_dim(ids, i) == 1);
    return all;
}

static edge *gather_along(export_call *c, int64_t axis) {
    int64_t flat = -1;
    edge *ids = ids_of(c, 1);
    ids = export_2(c, "Reshape", ids, export_ints(c, 1, &flat));
    return with_int(c, export_2(c, "Gather", export_in(c, 0), ids), "axis", axis);
}

edge *export_gather(export_call *c) {
    int64_t axis = export_axis(c, "axis");
    export_length loop[WEFT_MAX_NDIM], own[WEFT_MAX_NDIM];
    edge *x = export_in(c, 0);
    if (is_along_axis(c)) return gather_along(c, axis);
    if (!loop_lengths(c, loop) || !export_lengths(c, export_operand(c, 0), own)) return NULL;
    edge *ids = over_loop(c, 1, ids_of(c, 1), loop);
    loop[axis] = own[axis];
    if (export_int(c, "broadcast")) x = over_loop(c, 0, x, loop);
    return with_int(c, export_2(c, "GatherElements", x, ids), "axis", axis);
}

/* src as long as the loop: repeated, or without what is too much. */
static edge *src_of(export_call *c, const export_length *loop) {
    edge *src = export_in(c, 2);
    export_length own[WEFT_MAX_NDIM];
    int n = export_ndim(c, 2);
    if (n == 0 || export_int(c, "broadcast")) return over_loop(c, 2, src, loop);
    if (!export_lengths(c, export_operand(c, 2), own)) return NULL;
    for (int i = 0; i < n; i++) {
        if (own[i].per_batch == loop[i].per_batch && own[i].rest == loop[i].rest) continue;
        if (loop[i].per_batch)
            return export_refuse(
                c, "ids follow the batch along axis %d, and src does not: export with a fixed batch", i);
        src = export_slice(c, src, i, 0, loop[i].rest, 1);
    }
    return src;
}

static edge *scatter(export_call *c, edge *x, edge *ids, edge *src, const char *reduction) {
    edge *y = with_int(c, export_3(c, "ScatterElements", x, ids, src), "axis", export_axis(c, "axis"));
    return reduction ? with_text(c, y, "reduction", reduction) : y;
}

static edge *scattered(export_call *c, const char *reduction) {
    export_length loop[WEFT_MAX_NDIM];
    if (!loop_lengths(c, loop)) return NULL;
    edge *ids = over_loop(c, 1, ids_of(c, 1), loop), *src = src_of(c, loop);
    return scatter(c, export_in(c, 0), ids, src, reduction);
}

edge *export_scatter(export_call *c) {
    return scattered(c, NULL);
}

edge *export_scatter_add(export_call *c) {
    return scattered(c, "add");
}

/* `fresh`: what is at the places does not count. A product begins there with 1, and an extreme with one
 * of the elements that are joined, which changes none. */
edge *export_scatter_reduce(export_call *c) {
    bool is_product = !strcmp(export_word(c, "join"), "prod");
    const char *reduction = is_product ? "mul" : !strcmp(export_word(c, "join"), "amax") ? "max" : "min";
    export_length loop[WEFT_MAX_NDIM];
    if (!loop_lengths(c, loop)) return NULL;
    edge *x = export_in(c, 0), *ids = over_loop(c, 1, ids_of(c, 1), loop), *src = src_of(c, loop),
         *first = src;
    if (is_product)
        first = export_expand(c, export_number(c, export_dtype(c, 0), 1), 0, NULL, export_ndim(c, 1), loop);
    if (export_int(c, "fresh")) x = scatter(c, x, ids, first, NULL);
    return scatter(c, x, ids, src, reduction);
}

/* ---- by ids for several axes ---- */

typedef struct places {
    int n, r;            /* ids, and axes of what they broadcast to */
    weft_attribute axes; /* of x, which ids stand for */
    export_length ids[WEFT_MAX_NDIM];
    int ndim;                        /* of x */
    int first;                       /* the axis of the result where those of the ids begin */
    int64_t in_front[WEFT_MAX_NDIM]; /* axes of x: those of the ids, then the others */
} places;

/* Adds ids k to the lengths that all broadcast to. */
static bool join_lengths(export_call *c, places *p, int k) {
    weft_value *ids = export_operand(c, k);
    export_length own[WEFT_MAX_NDIM];
    if (!export_lengths(c, ids, own)) return false;
    for (int i = 0; i < weft_ndim(ids); i++) {
        export_length *all = &p->ids[p->r - weft_ndim(ids) + i];
        if (own[i].per_batch || own[i].rest != 1) *all = own[i];
    }
    return true;
}

static bool places_of(export_call *c, places *p) {
    *p = (places){.axes = export_attribute_of(c, "axes"), .ndim = export_ndim(c, 0)};
    bool follow = true, taken[WEFT_MAX_NDIM] = {false};
    int at = 0;
    p->n = p->axes.n;
    for (int k = 0; k < p->n; k++) {
        if (export_ndim(c, k + 1) > p->r) p->r = export_ndim(c, k + 1);
        follow = follow && (!k || p->axes.integers[k] == p->axes.integers[k - 1] + 1);
        taken[p->axes.integers[k]] = true;
        p->in_front[at++] = p->axes.integers[k];
    }
    for (int i = 0; i < p->ndim; i++)
        if (!taken[i]) p->in_front[at++] = i;
    p->first = follow ? (int)p->axes.integers[0] : 0;
    for (int i = 0; i < p->r; i++) p->ids[i] = (export_length){0, 1};
    for (int k = 0; k < p->n; k++)
        if (!join_lengths(c, p, k + 1)) return false;
    return true;
}

/* Ids of all axes, [ids..., n]. */
static edge *tuples(export_call *c, const places *p) {
    edge *parts[WEFT_MAX_NDIM];
    for (int k = 0; k < p->n; k++) {
        export_length own[WEFT_MAX_NDIM];
        if (!export_lengths(c, export_operand(c, k + 1), own)) return NULL;
        edge *ids = export_cast(c, export_in(c, k + 1), export_dtype(c, k + 1), WEFT_I64);
        parts[k] = export_unsqueeze(c, export_expand(c, ids, export_ndim(c, k + 1), own, p->r, p->ids), p->r);
    }
    return export_concat(c, p->n, parts, p->r);
}

/* For each axis of the result that of [ids..., others...]. */
static int result_axes(const places *p, int64_t axes[2 * WEFT_MAX_NDIM]) {
    int others = p->ndim - p->n, at = 0;
    for (int i = 0; i < p->first; i++) axes[at++] = p->r + i;
    for (int i = 0; i < p->r; i++) axes[at++] = i;
    for (int i = p->first; i < others; i++) axes[at++] = p->r + i;
    return at;
}

edge *export_index(export_call *c) {
    places p;
    int64_t axes[2 * WEFT_MAX_NDIM];
    if (!places_of(c, &p)) return NULL;
    if (p.n == 1)
        return with_int(c, export_2(c, "Gather", export_in(c, 0), ids_of(c, 1)), "axis", p.axes.integers[0]);
    edge *x = export_permute(c, export_in(c, 0), p.ndim, p.in_front);
    edge *y = export_2(c, "GatherND", x, tuples(c, &p));
    int n = result_axes(&p, axes);
    return export_permute(c, y, n, axes);
}

static void inverse(int n, const int64_t *axes, int64_t *of) {
    for (int i = 0; i < n; i++) of[axes[i]] = i;
}

/* Lengths of what is put: those of the result of `index`. */
static int put_lengths(const places *p, const export_length *x, const int64_t *axes, export_length *to) {
    int n = p->r + p->ndim - p->n;
    for (int i = 0; i < n; i++)
        to[i] = axes[i] < p->r ? p->ids[axes[i]] : x[p->in_front[p->n + axes[i] - p->r]];
    return n;
}

edge *export_index_put(export_call *c) {
    places p;
    export_length x[WEFT_MAX_NDIM], own[WEFT_MAX_NDIM], to[2 * WEFT_MAX_NDIM];
    int64_t axes[2 * WEFT_MAX_NDIM], back[2 * WEFT_MAX_NDIM];
    int last = c->about.n_operands - 1;
    if (!places_of(c, &p) || !export_lengths(c, export_operand(c, 0), x) ||
        !export_lengths(c, export_operand(c, last), own))
        return NULL;
    int n = result_axes(&p, axes);
    put_lengths(&p, x, axes, to);
    inverse(n, axes, back);
    edge *values =
        export_permute(c, export_expand(c, export_in(c, last), export_ndim(c, last), own, n, to), n, back);
    edge *in_front = export_permute(c, export_in(c, 0), p.ndim, p.in_front), *ids = tuples(c, &p);
    edge *y = export_3(c, "ScatterND", in_front, ids, values);
    if (export_int(c, "accumulate")) with_text(c, y, "reduction", "add");
    inverse(p.ndim, p.in_front, back);
    return export_permute(c, y, p.ndim, back);
}

/* ---- order ---- */

/* All elements of an axis are its largest ones, as many as it has. */
edge *export_sort(export_call *c) {
    int64_t axis = export_axis(c, "axis"), first = export_int(c, "first");
    export_length length[WEFT_MAX_NDIM];
    if (!export_lengths(c, export_operand(c, 0), length)) return NULL;
    edge *k = first ? export_ints(c, 1, &first) : export_shape(c, 1, &length[axis]);
    edge *y = export_new(c, "TopK", 2, (edge *[]){export_in(c, 0), k}, 2);
    with_int(c, y, "axis", axis);
    with_int(c, y, "largest", export_int(c, "descending"));
    export_set(c, 1, export_out(y, 1));
    return y;
}
