/* copy.c - ops that only move elements: permute, reshape, slice and broadcast_to where a view is not
 * possible, concat, pad, flip, and reorder between layouts. All are one strided copy: a shape, the strides of
 * source and target, any element type.
 *
 * Axes are sorted by the target's memory and merged where both sides run on evenly. The innermost one is a
 * row (memcpy, fill or gather) or, where the source runs along another axis than the target, the two are a
 * plane that is transposed block by block. Threads divide rows and planes. */
#include "ops/kit/basic_attrs.h"
#include "ops/cpu/simd/copy.h"
#include "ops/kit/op_kit.h"

#include <string.h>

enum {
    PIECE = 16 * 1024, /* elements of a row that one thread takes at least */
    ROWS = 64,         /* of a block that is transposed at once: elements along the target's memory */
    ACROSS = 16,       /* and along the source's */
    STRIP = 256,       /* side of the tiles in which planes are walked; one thread takes a row of them */
    WORTH_A_THREAD = 64 * 1024, /* bytes */
};

/* An axis of the copy; strides of target and source in elements. */
typedef struct axis {
    int64_t length, to, from; /* strides in elements */
} axis;

/* One strided copy. */
typedef struct copy_job {
    char *to;
    const char *from;
    size_t width; /* bytes of an element */
    int n;        /* outer axes: each step is one unit of work */
    axis outer[WEFT_MAX_NDIM + 2];
    axis row;    /* along the target's memory */
    axis across; /* of planes: along the source's memory; length 1: rows only */
    /* the last outer axis counts pieces of `step` elements of `row`, or of `across` for planes */
    int64_t step;
} copy_job;

/* Blocks are transposed in a buffer of their own in the L1 cache: both memories are then accessed by whole
 * cache lines, whatever their strides (with a power of two between lines, all would map to one cache set).
 * Planes are walked in tiles of STRIP x STRIP, so that each page of either side is visited often while its
 * translation is in the TLB. */
#define WIDTHS(X) X(uint8_t, 1) X(uint16_t, 2) X(uint32_t, 4) X(uint64_t, 8)

/* For each width of elements: a row; a block [rows, across], read along `across` and written along `rows`; a
 * plane. */
#define X(type, bytes)                                                                                       \
    static void row_##bytes(type *restrict to, const type *restrict from, axis r) {                          \
        if (r.to == 1 && r.from == 0) {                                                                      \
            for (int64_t i = 0; i < r.length; i++) to[i] = *from;                                            \
        } else {                                                                                             \
            for (int64_t i = 0; i < r.length; i++) to[i * r.to] = from[i * r.from];                          \
        }                                                                                                    \
    }                                                                                                        \
    static inline __attribute__((always_inline)) void block_##bytes(                                         \
        type *restrict to, const type *restrict from, int64_t to_step, int64_t step, int64_t rows,           \
        int64_t across) {                                                                                    \
        type part[ACROSS][ROWS];                                                                             \
        for (int64_t i = 0; i < rows; i++)                                                                   \
            for (int64_t j = 0; j < across; j++) part[j][i] = from[i * step + j];                            \
        for (int64_t j = 0; j < across; j++) memcpy(to + j * to_step, part[j], (size_t)rows * sizeof(type)); \
    }                                                                                                        \
    static void plane_##bytes(type *restrict to, const type *restrict from, axis r, axis a) {                \
        if (r.length < ACROSS || a.length < ACROSS / 2) {                                                    \
            for (int64_t j = 0; j < a.length; j++)                                                           \
                for (int64_t i = 0; i < r.length; i++) to[i + j * a.to] = from[i * r.from + j];              \
            return;                                                                                          \
        }                                                                                                    \
        for (int64_t tile = 0; tile < r.length; tile += STRIP)                                               \
            for (int64_t j = 0; j < a.length; j += ACROSS)                                                   \
                for (int64_t i = tile; i < r.length && i < tile + STRIP; i += ROWS) {                        \
                    int64_t rows = r.length - i, across = a.length - j;                                      \
                    type *t = to + i + j * a.to;                                                             \
                    const type *f = from + i * r.from + j;                                                   \
                    rows = rows < ROWS ? rows : ROWS;                                                        \
                    if (across >= ACROSS)                                                                    \
                        block_##bytes(t, f, a.to, r.from, rows, ACROSS);                                     \
                    else                                                                                     \
                        block_##bytes(t, f, a.to, r.from, rows, across);                                     \
                }                                                                                            \
    }
WIDTHS(X)
#undef X

/* One unit: a plane, a contiguous row, or a row with strides. */
static void unit_copy(const copy_job *j, char *to, const char *from, axis row, axis across) {
    if (across.length > 1) {
        switch (j->width) {
#define X(type, bytes)                                                                                       \
    case bytes:                                                                                              \
        plane_##bytes((type *)to, (const type *)from, row, across);                                          \
        return;
            WIDTHS(X)
#undef X
        }
    }
    if (row.to == 1 && row.from == 1) {
        memcpy(to, from, (size_t)row.length * j->width);
        return;
    }
    switch (j->width) {
#define X(type, bytes)                                                                                       \
    case bytes:                                                                                              \
        row_##bytes((type *)to, (const type *)from, row);                                                    \
        return;
        WIDTHS(X)
#undef X
    }
}

/* Units [begin, end): an odometer over the outer axes, whose last axis counts pieces. */
static void units_copy(const copy_job *j, int64_t begin, int64_t end) {
    int64_t at[WEFT_MAX_NDIM + 2], to = 0, from = 0, rest = begin, width = (int64_t)j->width;
    int last = j->n - 1;
    for (int k = last; k >= 0; k--) {
        at[k] = rest % j->outer[k].length;
        rest /= j->outer[k].length;
        to += at[k] * j->outer[k].to;
        from += at[k] * j->outer[k].from;
    }
    for (int64_t u = begin; u < end; u++) {
        axis row = j->row, across = j->across, *cut = across.length > 1 ? &across : &row;
        int64_t left = cut->length - at[last] * j->step;
        cut->length = left < j->step ? left : j->step;
        unit_copy(j, j->to + to * width, j->from + from * width, row, across);
        for (int k = last; k >= 0; k--) {
            to += j->outer[k].to;
            from += j->outer[k].from;
            if (++at[k] < j->outer[k].length) break;
            to -= at[k] * j->outer[k].to;
            from -= at[k] * j->outer[k].from;
            at[k] = 0;
        }
    }
}

/* Fills `list` with the axes by falling target stride, merged. Returns how many there are (0: a single
 * element). */
static int axes_of(axis *list, const tensor_type *shape, const int64_t *to, const int64_t *from) {
    int n = 0, merged = 0;
    for (int i = 0; i < shape->ndim; i++) {
        if (shape->shape[i] == 1) continue;
        int k = n++;
        for (; k > 0 && list[k - 1].to < to[i]; k--) list[k] = list[k - 1];
        list[k] = (axis){shape->shape[i], to[i], from[i]};
    }
    for (int k = 0; k < n; k++) {
        axis *m = merged ? &list[merged - 1] : NULL;
        if (m && m->to == list[k].to * list[k].length && m->from == list[k].from * list[k].length)
            *m = (axis){m->length * list[k].length, list[k].to, list[k].from};
        else
            list[merged++] = list[k];
    }
    return merged;
}

void SIMD(strided_copy)(void *to, const int64_t *to_stride, const void *from, const int64_t *from_stride,
                        const tensor_type *shape, int threads) {
    copy_job j = {
        .to = to, .from = from, .width = dtype_bytes(shape->dtype), .row = {1, 1, 1}, .across = {1, 0, 0}};
    int n = axes_of(j.outer, shape, to_stride, from_stride);
    if (n) j.row = j.outer[--n];
    for (int k = n - 1; k >= 0 && j.row.to == 1 && j.row.from > 1; k--)
        /* the source runs along this axis: transpose it and the row */
        if (j.outer[k].from == 1) {
            j.across = j.outer[k];
            memmove(j.outer + k, j.outer + k + 1, (size_t)(--n - k) * sizeof *j.outer);
            break;
        }
    /* The plane or row is cut into pieces, so that threads can share a single one. */
    const axis *cut = j.across.length > 1 ? &j.across : &j.row;
    j.step = j.across.length > 1 ? STRIP : PIECE;
    j.outer[n++] = (axis){(cut->length + j.step - 1) / j.step, j.step * cut->to, j.step * cut->from};
    j.n = n;
    int64_t units = 1, bytes = (int64_t)type_bytes(shape);
    for (int k = 0; k < n; k++) units *= j.outer[k].length;
    if (threads > bytes / WORTH_A_THREAD + 1) threads = (int)(bytes / WORTH_A_THREAD + 1);
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int t = 0; t < threads; t++) units_copy(&j, units * t / threads, units * (t + 1) / threads);
}

/* ---- the ops ---- */

/* permute, slice, broadcast_to: the op's own view gives the strides and the offset of the source. */
static weft_status view_run(void *state, const kernel_call *c) {
    const tensor *x = &c->in[0], *y = &c->out[0];
    int64_t stride[WEFT_MAX_NDIM], offset;
    if (!c->node->op->view(c->node, x->stride, stride, &offset))
        return error_set(c->error, WEFT_INTERNAL, "%s: no view of the operand", c->node->op->name);
    const char *from = (const char *)x->data + offset * (int64_t)dtype_bytes(x->type.dtype);
    SIMD(strided_copy)(y->data, y->stride, from, stride, &y->type, c->threads);
    return WEFT_OK;
}

/* The row-major order of the result is the row-major order of the operand, so the copy has the operand's
 * shape. */
static weft_status reshape_run(void *state, const kernel_call *c) {
    int64_t rows[WEFT_MAX_NDIM];
    stride_row_major(&c->in[0].type, rows);
    SIMD(strided_copy)(c->out[0].data, rows, c->in[0].data, c->in[0].stride, &c->in[0].type, c->threads);
    return WEFT_OK;
}

static weft_status reorder_run(void *state, const kernel_call *c) {
    SIMD(strided_copy)
    (c->out[0].data, c->out[0].stride, c->in[0].data, c->in[0].stride, &c->out[0].type, c->threads);
    return WEFT_OK;
}

/* Address of index i along `axis`. */
static char *element_at(const tensor *t, int64_t axis, int64_t i) {
    return (char *)t->data + i * t->stride[axis] * (int64_t)dtype_bytes(t->type.dtype);
}

/* Each operand is copied to its range of the axis. */
static weft_status concat_run(void *state, const kernel_call *c) {
    const tensor *y = &c->out[0];
    int64_t axis = ((const axis_attrs *)c->attrs)->axis, at = 0;
    if (!axis_resolve(&axis, y->type.ndim)) return WEFT_INTERNAL;
    for (int i = 0; i < c->n_in; i++) {
        const tensor *x = &c->in[i];
        SIMD(strided_copy)(element_at(y, axis, at), y->stride, x->data, x->stride, &x->type, c->threads);
        at += x->type.shape[axis];
    }
    return WEFT_OK;
}

/* Writes `value` at [begin, begin + length) along the axis: a copy of one element with strides 0. */
static void padding(const tensor *y, int64_t axis, int64_t begin, int64_t length, double value, int threads) {
    static const int64_t still[WEFT_MAX_NDIM] = {0};
    uint64_t room = 0; /* for an element of any type */
    tensor element = {&room, type_scalar(y->type.dtype), {0}};
    element_set(&element, still, value);
    tensor_type part = y->type;
    part.shape[axis] = length;
    if (length) SIMD(strided_copy)(element_at(y, axis, begin), y->stride, &room, still, &part, threads);
}

/* Padding, the operand, padding: three copies that do not overlap. With padding between its elements the
 * operand is copied into padding. */
static weft_status pad_run(void *state, const kernel_call *c) {
    const pad_attrs *a = c->attrs;
    const tensor *x = &c->in[0], *y = &c->out[0];
    int64_t axis = a->axis, to[WEFT_MAX_NDIM];
    if (!axis_resolve(&axis, y->type.ndim)) return WEFT_INTERNAL;
    int64_t end = y->type.shape[axis] - a->after;
    for (int i = 0; i < y->type.ndim; i++) to[i] = y->stride[i] * (i == axis ? a->between + 1 : 1);
    padding(y, axis, 0, a->before, a->value, c->threads);
    if (a->between) padding(y, axis, a->before, end - a->before, a->value, c->threads);
    SIMD(strided_copy)(element_at(y, axis, a->before), to, x->data, x->stride, &x->type, c->threads);
    padding(y, axis, end, a->after, a->value, c->threads);
    return WEFT_OK;
}

/* The last element of each axis that is turned around is the first to be read. */
static weft_status flip_run(void *state, const kernel_call *c) {
    const tensor *x = &c->in[0], *y = &c->out[0];
    int64_t from[WEFT_MAX_NDIM], to[WEFT_MAX_NDIM], offset;
    if (!flip_strides(c->attrs, x, from, &offset)) return WEFT_INTERNAL;
    stride_row_major(&y->type, to);
    const char *first = (const char *)x->data + offset * (int64_t)dtype_bytes(x->type.dtype);
    SIMD(strided_copy)(y->data, to, first, from, &y->type, c->threads);
    return WEFT_OK;
}

/* strided_in = ~0u: operands may have any strides. */
#define ROW(OF, RUNS) SIMD_KERNEL_OF(copy_##OF, OF, .strided_in = ~0u, .run = RUNS);
ROW(permute, view_run)
ROW(slice, view_run)
ROW(broadcast_to, view_run)
ROW(reshape, reshape_run)
ROW(reorder, reorder_run)
ROW(concat, concat_run)
ROW(pad, pad_run)
ROW(flip, flip_run)
