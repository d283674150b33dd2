/* reduce.c - reductions over any axes (sum and mean, amax, amin, prod), argmax and argmin; of f32, and of
 * bf16, f16, u8 and bool by way of floats in small buffers. What follows says sum; the other kinds go the
 * same way (fold.h).
 *
 * The axes of the operand, in the order of its memory, are kept or reduced. If the innermost is reduced,
 * results are sums along rows; if it is kept, rows are added to each other. Either way the work is cut into
 * chunks by shape alone, a chunk is summed in a fixed order, and the chunks of a result are added in order:
 * the bits do not depend on the number of threads. A chunk in turn is summed in blocks (sums.h), so long sums
 * lose no more than short ones. */
#include "ops/cpu/simd/fold.h"
#include "ops/cpu/reduced.h"
#include "ops/cpu/simd/simd.h"
#include "ops/cpu/simd/sums.h"
#include "ops/reduce/arg.h"

#include <string.h>

enum {
    ROW_CHUNK = 16 * 1024, /* elements of a row that are summed together */
    MAX_CHUNKS = 64,       /* most chunks, of rows that are added to each other */
    MIN_ROWS = 64,         /* least rows of such a chunk */
    COLUMNS = 1024,        /* of a row that are handled together */
    ROOM = 4 * COLUMNS,    /* floats that bf16 and f16 are read into at once */
    WORTH_A_THREAD = 16 * 1024,
};

typedef struct axis {
    int64_t length, in, out; /* strides in elements; out is 0 for reduced axes */
} axis;

typedef struct axis_list {
    int n;
    axis at[WEFT_MAX_NDIM];
    int64_t count; /* product of the lengths */
} axis_list;

typedef struct reduction {
    const tensor *x, *y;
    const fold *fold;
    float *partial;          /* workspace: sums of chunks */
    axis_list kept, reduced; /* without `inner` */
    axis inner;              /* the innermost axis of the operand's memory */
    bool inner_is_reduced;
    int64_t chunks, chunk; /* chunks of a result; their length in rows, or in elements of the inner axis */
    int64_t tiles;         /* of COLUMNS, when the inner axis is kept */
    float factor;          /* 1 / divisor of a mean */
} reduction;

/* Appends an axis, merged with the last where both strides continue. */
static void list_add(axis_list *l, axis a) {
    axis *last = l->n ? &l->at[l->n - 1] : NULL;
    if (last && last->in == a.in * a.length && last->out == a.out * a.length)
        *last = (axis){last->length * a.length, a.in, a.out};
    else
        l->at[l->n++] = a;
    l->count *= a.length;
}

/* The offsets of index i (row-major over the list): returns the operand's and sets *out, in elements. */
static int64_t list_offset(const axis_list *l, int64_t i, int64_t *out) {
    int64_t in = 0;
    *out = 0;
    for (int k = l->n - 1; k >= 0; k--) {
        int64_t at = i % l->at[k].length;
        i /= l->at[k].length;
        in += at * l->at[k].in;
        *out += at * l->at[k].out;
    }
    return in;
}

/* Divides the work from shapes and strides alone, so that workspace and run agree. */
static void reduction_plan(reduction *r, const weft_node *n, const tensor_type *x, const int64_t *stride,
                           const int64_t *y_stride) {
    const sum_attrs *a = n->attrs;
    unsigned mask = sum_axes(a, x->ndim);
    axis sorted[WEFT_MAX_NDIM];
    bool is_reduced[WEFT_MAX_NDIM];
    /* insertion sort of the axes by falling stride; axes of length 1 have no part in it */
    int count = 0, y_axis = 0;
    for (int i = 0; i < x->ndim; i++) {
        bool reduced = mask >> i & 1;
        axis next = {x->shape[i], stride[i], reduced ? 0 : y_stride[y_axis]};
        if (!reduced || a->keep) y_axis++;
        if (x->shape[i] == 1) continue;
        int k = count++;
        for (; k > 0 && sorted[k - 1].in < next.in; k--) {
            sorted[k] = sorted[k - 1];
            is_reduced[k] = is_reduced[k - 1];
        }
        sorted[k] = next;
        is_reduced[k] = reduced;
    }
    *r = (reduction){.kept.count = 1, .reduced.count = 1, .inner = {1, 1, 1}, .factor = 1};
    r->fold = &folds[reduce_kind_of(n->op)];
    for (int k = 0; k < count; k++) list_add(is_reduced[k] ? &r->reduced : &r->kept, sorted[k]);
    /* the innermost axis is taken out of its list: it is the inner loop */
    int64_t summed = r->reduced.count;
    if (count) {
        r->inner_is_reduced = is_reduced[count - 1];
        axis_list *l = r->inner_is_reduced ? &r->reduced : &r->kept;
        r->inner = l->at[--l->n];
        l->count /= r->inner.length;
    }
    r->factor = 1.0f / (float)sum_divisor(a, summed);
    if (r->inner_is_reduced) {
        r->chunk = ROW_CHUNK;
        r->chunks = r->reduced.count * ((r->inner.length + ROW_CHUNK - 1) / ROW_CHUNK);
        r->tiles = 1;
    } else {
        r->chunk = (r->reduced.count + MAX_CHUNKS - 1) / MAX_CHUNKS;
        if (r->chunk < MIN_ROWS) r->chunk = MIN_ROWS;
        r->chunks = (r->reduced.count + r->chunk - 1) / r->chunk;
        r->tiles = (r->inner.length + COLUMNS - 1) / COLUMNS;
    }
}

/* ---- along rows ---- */

/* Whether elements are 8 bits: u8 and bool. */
static bool is_bytes(const tensor *x) {
    return dtype_bytes(x->type.dtype) == 1;
}

/* Contiguous elements from `at` on, as floats. */
static void read_row(const tensor *x, int64_t at, int64_t n, float *restrict to) {
    const uint8_t *bytes = (const uint8_t *)x->data + at;
    if (is_bytes(x))
        for (int64_t i = 0; i < n; i++) to[i] = bytes[i];
    else
        reduced_load(to, x->data, x->type.dtype, at, n);
}

static void put(const tensor *y, int64_t at, float value) {
    if (is_bytes(y))
        ((uint8_t *)y->data)[at] = (uint8_t)value;
    else
        reduced_put(y->data, y->type.dtype, at, value);
}

/* Elements at, at + stride, ... of x, as floats. */
static void gather(const tensor *x, int64_t at, int64_t stride, int64_t n, float *to) {
    if (stride == 1)
        read_row(x, at, n, to);
    else if (is_bytes(x))
        for (int64_t i = 0; i < n; i++) to[i] = ((const uint8_t *)x->data)[at + i * stride];
    else if (x->type.dtype == WEFT_F32)
        for (int64_t i = 0; i < n; i++) to[i] = ((const float *)x->data)[at + i * stride];
    else
        for (int64_t i = 0; i < n; i++) to[i] = reduced_get(x->data, x->type.dtype, at + i * stride);
}

/* One number more in a result. */
static void sum_to_total(const reduction *r, double *sum, float part) {
    r->fold->totals(sum, &part, 1);
}

/* n elements of the inner axis, ROOM at a time. */
static float row_sum(const reduction *r, int64_t at, int64_t n) {
    const tensor *x = r->x;
    int64_t stride = r->inner.in;
    float room[ROOM];
    double sum = r->fold->none;
    if (x->type.dtype == WEFT_F32 && stride == 1) return r->fold->row((const float *)x->data + at, n);
    for (int64_t i = 0; i < n; i += ROOM) {
        int64_t length = n - i < ROOM ? n - i : ROOM;
        gather(x, at + i * stride, stride, length, room);
        sum_to_total(r, &sum, r->fold->row(room, length));
    }
    return (float)sum;
}

/* Sum of chunk i of the result whose elements begin at `at`. */
static float chunk_sum(const reduction *r, int64_t at, int64_t i) {
    int64_t pieces = r->chunks / r->reduced.count, none;
    int64_t begin = i % pieces * r->chunk, left = r->inner.length - begin;
    at += list_offset(&r->reduced, i / pieces, &none) + begin * r->inner.in;
    return row_sum(r, at, left < r->chunk ? left : r->chunk);
}

static void put_result(const reduction *r, int64_t out, double sum) {
    put(r->y, out, (float)(sum * r->factor));
}

/* Result m alone, its chunks in order, in f64. */
static void result_sum(const reduction *r, int64_t m) {
    int64_t out, at = list_offset(&r->kept, m, &out);
    double sum = r->fold->none;
    for (int64_t i = 0; i < r->chunks; i++) sum_to_total(r, &sum, chunk_sum(r, at, i));
    put_result(r, out, sum);
}

/* For few results with many chunks: chunks run in parallel, then their sums are added in order. */
static void results_by_chunks(const reduction *r, int threads) {
    int64_t tasks = r->kept.count * r->chunks;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t t = 0; t < tasks; t++) {
        int64_t out;
        r->partial[t] = chunk_sum(r, list_offset(&r->kept, t / r->chunks, &out), t % r->chunks);
    }
    for (int64_t m = 0; m < r->kept.count; m++) {
        int64_t out;
        double sum = r->fold->none;
        list_offset(&r->kept, m, &out);
        for (int64_t i = 0; i < r->chunks; i++) sum_to_total(r, &sum, r->partial[m * r->chunks + i]);
        put_result(r, out, sum);
    }
}

static bool by_chunks(const reduction *r) {
    return r->inner_is_reduced && r->kept.count < 64 && r->chunks > 1;
}

/* ---- rows added to each other ---- */

static void fill(float *to, float value, int64_t n) {
    for (int64_t i = 0; i < n; i++) to[i] = value;
}

/* Narrow dense rows: as many side by side as fill LANES are treated as one row. */
static void narrow_rows_add(const fold *f, float *restrict acc, const float *restrict x, int64_t n,
                            int64_t width) {
    float wide[2 * LANES];
    /* `side` rows are contiguous, so they are one row of side * width floats */
    int64_t side = LANES / width + 1, whole = n / side;
    fill(wide, f->none, side * width);
    f->rows(wide, x, side * width, whole, side * width);
    for (int64_t s = 0; s < side; s++) f->rows(acc, wide + s * width, width, 1, width);
    f->rows(acc, x + whole * side * width, width, n - whole * side, width);
}

/* acc[j] += n rows of x from element `at` on, `row` elements apart. */
static void any_rows_add(const reduction *r, float *acc, int64_t at, int64_t row, int64_t n, int64_t width) {
    const tensor *x = r->x;
    const fold *f = r->fold;
    int64_t step = r->inner.in;
    float room[ROOM];
    const float *from = (const float *)x->data + at;
    bool is_dense = step == 1 && row == width, is_narrow = width < LANES;
    if (x->type.dtype == WEFT_F32) {
        if (step != 1)
            f->strided_rows(acc, from, row, n, step, width);
        else if (is_dense && is_narrow)
            narrow_rows_add(f, acc, from, n, width);
        else
            f->rows(acc, from, row, n, width);
        return;
    }
    for (int64_t i = 0, most = ROOM / width; i < n; i += most) {
        int64_t rows = n - i < most ? n - i : most;
        if (is_dense)
            read_row(x, at + i * row, rows * width, room);
        else
            for (int64_t k = 0; k < rows; k++) gather(x, at + (i + k) * row, step, width, room + k * width);
        if (is_narrow)
            narrow_rows_add(f, acc, room, rows, width);
        else
            f->rows(acc, room, width, rows, width);
    }
}

/* Rows of a block when rows are added to each other: SUM_ROWS; narrow dense rows that go side by side count
 * as one. */
static int64_t block_rows(const reduction *r) {
    const axis *run = r->reduced.n ? &r->reduced.at[r->reduced.n - 1] : NULL;
    bool is_narrow =
        run && r->tiles == 1 && r->inner.length < LANES && r->inner.in == 1 && run->in == r->inner.length;
    int64_t rows = is_narrow ? SUM_ROWS * (LANES / r->inner.length + 1) : SUM_ROWS;
    return run && run->length >= rows ? rows : SUM_ROWS;
}

/* acc = the sum of rows [begin, end) of the reduced axes, at most a block; the first column is at element
 * `at`. */
static void block_sum(const reduction *r, float *acc, int64_t at, int64_t begin, int64_t end, int64_t width) {
    const axis one = {1, 0, 0}, *run = r->reduced.n ? &r->reduced.at[r->reduced.n - 1] : &one;
    fill(acc, r->fold->none, width);
    while (begin < end) {
        int64_t none, rows = run->length - begin % run->length;
        int64_t from = at + list_offset(&r->reduced, begin, &none);
        if (rows > end - begin) rows = end - begin;
        any_rows_add(r, acc, from, run->in, rows, width);
        begin += rows;
    }
}

/* The same for any number of rows: blocks in f32, their sums in f64. */
static void rows_sum(const reduction *r, float *acc, int64_t at, int64_t begin, int64_t end, int64_t width) {
    int64_t block = block_rows(r);
    if (end - begin <= block) {
        block_sum(r, acc, at, begin, end, width);
        return;
    }
    /* blocks in f32, their sums in f64 */
    double total[COLUMNS];
    for (int64_t j = 0; j < width; j++) total[j] = r->fold->none;
    for (; begin < end; begin += block) {
        block_sum(r, acc, at, begin, end - begin < block ? end : begin + block, width);
        r->fold->totals(total, acc, width);
    }
    for (int64_t j = 0; j < width; j++) acc[j] = (float)total[j];
}

/* Columns [first, first + width) of result m, rounded. */
static void put_columns(const reduction *r, const float *acc, int64_t m, int64_t first, int64_t width) {
    int64_t out;
    list_offset(&r->kept, m, &out);
    for (int64_t j = 0; j < width; j++) put(r->y, out + (first + j) * r->inner.out, acc[j] * r->factor);
}

static int64_t tile_width(const reduction *r, int64_t tile) {
    int64_t left = r->inner.length - tile * COLUMNS;
    return left < COLUMNS ? left : COLUMNS;
}

/* Tasks are (result, tile of COLUMNS, chunk). With one chunk the task writes the result; else a second pass
 * adds the at most MAX_CHUNKS partial sums of a tile in order, in f32. */
static void columns_sum(const reduction *r, int threads) {
    int64_t tasks = r->kept.count * r->tiles;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t t = 0; t < tasks * r->chunks; t++) {
        float acc[COLUMNS];
        int64_t none, m = t / r->chunks / r->tiles, tile = t / r->chunks % r->tiles, i = t % r->chunks;
        int64_t width = tile_width(r, tile), begin = i * r->chunk, end = begin + r->chunk;
        int64_t at = list_offset(&r->kept, m, &none) + tile * COLUMNS * r->inner.in;
        rows_sum(r, acc, at, begin, end < r->reduced.count ? end : r->reduced.count, width);
        if (r->chunks == 1)
            put_columns(r, acc, m, tile * COLUMNS, width);
        else
            memcpy(r->partial + t * COLUMNS, acc, (size_t)width * sizeof *acc);
    }
    if (r->chunks == 1) return;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t t = 0; t < tasks; t++) {
        float acc[COLUMNS];
        int64_t width = tile_width(r, t % r->tiles);
        fill(acc, r->fold->none, width);
        r->fold->rows(acc, r->partial + t * r->chunks * COLUMNS, COLUMNS, r->chunks, width);
        put_columns(r, acc, t / r->tiles, t % r->tiles * COLUMNS, width);
    }
}

/* ---- the kernels ---- */

static const char *sum_declines(const weft_node *n, const kernel_env *env) {
    return dtype_is_row(n->in[0]->type.dtype) ? NULL : "an operand that is not f32, bf16 or f16";
}

static const char *extremum_declines(const weft_node *n, const kernel_env *env) {
    return dtype_bytes(n->in[0]->type.dtype) == 1 ? NULL : sum_declines(n, env);
}

/* by_chunks: one float for each chunk; columns: COLUMNS floats for each task; else none. */
static size_t sum_workspace(const weft_node *n, const kernel_env *env) {
    reduction r;
    reduction_plan(&r, n, &n->in[0]->type, n->in[0]->stride, n->out[0].stride);
    if (by_chunks(&r)) return (size_t)(r.kept.count * r.chunks) * sizeof(float);
    if (r.inner_is_reduced || r.chunks == 1) return 0;
    return (size_t)(r.kept.count * r.tiles * r.chunks * COLUMNS) * sizeof(float);
}

/* Three ways: columns (the inner axis is kept), few long results by chunks, else a result for each task. */
static weft_status sum_run(void *state, const kernel_call *c) {
    reduction r;
    reduction_plan(&r, c->node, &c->in[0].type, c->in[0].stride, c->out[0].stride);
    r.x = &c->in[0];
    r.y = &c->out[0];
    r.partial = c->workspace;
    int64_t elements = type_elements(&c->in[0].type);
    int threads =
        elements / WORTH_A_THREAD + 1 < c->threads ? (int)(elements / WORTH_A_THREAD + 1) : c->threads;
    if (!r.inner_is_reduced) {
        columns_sum(&r, threads);
    } else if (by_chunks(&r)) {
        results_by_chunks(&r, threads);
    } else {
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
        for (int64_t m = 0; m < r.kept.count; m++) result_sum(&r, m);
    }
    return WEFT_OK;
}

/* ---- argmax, and argmin as argmax of -x: `sign` is 1 or -1 ---- */

/* The largest of sign * x, and whether there is a NaN, in LANES lanes. */
static float row_max(const float *restrict x, int64_t n, float sign, bool *has_nan) {
    float most[LANES], best = sign * x[0];
    int32_t nans[LANES] = {0};
    int64_t i = 0;
    for (int j = 0; j < LANES; j++) most[j] = best;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++) {
            float v = sign * x[i + j];
            most[j] = v > most[j] ? v : most[j];
            nans[j] |= v != v;
        }
    for (; i < n; i++) {
        best = sign * x[i] > best ? sign * x[i] : best;
        nans[0] |= x[i] != x[i];
    }
    for (int j = 0; j < LANES; j++) {
        best = most[j] > best ? most[j] : best;
        *has_nan |= nans[j];
    }
    return best;
}

/* The first position of a NaN, or else of the largest number; *most is the number there, times the sign. */
static int64_t dense_argmax(const float *x, int64_t n, float sign, float *most) {
    bool has_nan = false;
    int64_t i = 0;
    *most = row_max(x, n, sign, &has_nan);
    if (has_nan)
        while (x[i] == x[i]) i++;
    else
        while (sign * x[i] != *most) i++;
    *most = sign * x[i];
    return i;
}

/* Piece by piece: the first NaN ends the search; a later piece wins only with a larger number, so ties go
 * to the first. */
static int64_t row_argmax(const tensor *x, int64_t at, int64_t stride, int64_t n, float sign) {
    bool is_plain = x->type.dtype == WEFT_F32 && stride == 1;
    int64_t best = -1, piece = is_plain ? n : ROOM;
    float room[ROOM], most = 0;
    for (int64_t i = 0; i < n; i += piece) {
        int64_t length = n - i < piece ? n - i : piece;
        const float *from = (const float *)x->data + at;
        float here;
        if (!is_plain) {
            gather(x, at + i * stride, stride, length, room);
            from = room;
        }
        int64_t k = dense_argmax(from, length, sign, &here);
        if (best < 0 || here > most || here != here) {
            best = i + k;
            most = here;
        }
        if (most != most) break;
    }
    return best;
}

/* out: i64 positions; rows are divided among the threads. */
static weft_status argmax_run(void *state, const kernel_call *c) {
    const tensor *x = &c->in[0], *y = &c->out[0];
    int64_t along = ((const axis_attrs *)c->attrs)->axis;
    if (!axis_resolve(&along, x->type.ndim)) return WEFT_INTERNAL;
    axis_list rows = {.count = 1};
    for (int i = 0, k = 0; i < x->type.ndim; i++) {
        bool keeps = ((const axis_attrs *)c->attrs)->keep;
        if (i != along) list_add(&rows, (axis){x->type.shape[i], x->stride[i], y->stride[k]});
        if (i != along || keeps) k++;
    }
    int64_t length = x->type.shape[along], step = x->stride[along];
    float sign = (float)arg_sign(c->node->op);
#pragma omp parallel for num_threads(c->threads) schedule(static) if (rows.count * length > WORTH_A_THREAD)
    for (int64_t i = 0; i < rows.count; i++) {
        int64_t out, in = list_offset(&rows, i, &out);
        ((int64_t *)y->data)[out] = row_argmax(x, in, step, length, sign);
    }
    return WEFT_OK;
}

#define REDUCE_KERNEL(OF, DECLINES)                                                                          \
    SIMD_KERNEL_OF(reduce_##OF, OF, .strided_in = 1, .declines = DECLINES, .workspace = sum_workspace,          \
                .run = sum_run)
REDUCE_KERNEL(sum, sum_declines);
REDUCE_KERNEL(amax, extremum_declines);
REDUCE_KERNEL(amin, extremum_declines);
REDUCE_KERNEL(prod, sum_declines);

#define ARG_KERNEL(OF)                                                                                       \
    SIMD_KERNEL_OF(reduce_##OF, OF, .strided_in = 1, .declines = sum_declines, .run = argmax_run)
ARG_KERNEL(argmax);
ARG_KERNEL(argmin);
