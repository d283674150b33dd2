/* places.c - index and index_put of elements of any width; adding all types but f64, bf16 and f16.
 *
 * First the ids become offsets in x (or y), one for each of their places. Then rows move: a row is what is
 * contiguous of the axes that are taken whole. index has threads share all rows. What index_put writes at one
 * place comes from all ids in their order, so its threads share the columns of rows, and the rows of the
 * axes that are taken whole. */
#include "ops/cpu/simd/copy.h"
#include "ops/cpu/simd/ids.h"
#include "ops/index/places.h"

#include <string.h>

enum { STRIP = 512 /* columns that one thread puts */, WORTH_A_THREAD = 4096 /* elements */ };
/* Memories: x or y, which ids point into; what is taken or put. */
enum { OTHER, SOURCE, SIDES };

/* Axes that are taken whole, with their strides in each memory. */
typedef struct axis {
    int64_t length, stride[SIDES];
} axis;

typedef struct job {
    places_loop loop;
    char *memory[SIDES];
    size_t width;
    int64_t places, *offset;     /* of the ids, and where each is in OTHER */
    int64_t step[WEFT_MAX_NDIM]; /* strides of SOURCE along the axes of the ids */
    int n;
    axis outer[WEFT_MAX_NDIM], columns; /* columns: the innermost axis */
    int64_t rows;                       /* combinations of `outer` */
} job;

static size_t workspace(const weft_node *n, const kernel_env *env) {
    places_loop loop;
    if (places_loop_of(n->attrs, n->in, &loop)) return 0;
    return (size_t)type_elements(&loop.ids) * sizeof(int64_t);
}

/* Adds ids k times the stride of their axis to the offsets. False: one is outside. */
static bool add_ids(const kernel_call *c, job *j, int k, int64_t stride) {
    const tensor *ids = &c->in[1 + k];
    int64_t by[WEFT_MAX_NDIM], at[WEFT_MAX_NDIM] = {0}, length = c->in[0].type.shape[j->loop.axis[k]];
    places_ids_strides(&j->loop, ids, by);
    for (int64_t p = 0; p < j->places; p++) {
        int64_t place = 0;
        for (int i = 0; i < j->loop.ids.ndim; i++) place += at[i] * by[i];
        int64_t id = id_at(ids, place);
        if (id < -length || id >= length) return false;
        j->offset[p] += (id < 0 ? id + length : id) * stride;
        index_next(&j->loop.ids, at);
    }
    return true;
}

/* Appends an axis, merged with the last where all strides continue. */
static void push_axis(job *j, axis a) {
    axis *last = j->n ? &j->outer[j->n - 1] : NULL;
    if (a.length == 1) return;
    if (last && last->stride[OTHER] == a.stride[OTHER] * a.length &&
        last->stride[SOURCE] == a.stride[SOURCE] * a.length)
        a.length *= last->length;
    else
        last = &j->outer[j->n++];
    *last = a;
}

/* The offsets, and the axes that are taken whole. The result is row-major. */
static weft_status job_of(job *j, const kernel_call *c, const tensor *other, const tensor *source) {
    int64_t stride[WEFT_MAX_NDIM];
    *j = (job){.memory = {other->data, source->data}, .width = dtype_bytes(other->type.dtype)};
    if (places_loop_of(c->attrs, c->node->in, &j->loop)) return WEFT_INTERNAL;
    j->offset = c->workspace;
    j->places = type_elements(&j->loop.ids);
    memset(j->offset, 0, (size_t)j->places * sizeof *j->offset);
    for (int k = 0; k < j->loop.n; k++)
        if (!add_ids(c, j, k, other->stride[j->loop.axis[k]])) return places_check(c, &j->loop);
    places_strides(&j->loop, source, stride);
    for (int i = 0; i < j->loop.shape.ndim; i++) {
        int own = j->loop.whole[i];
        if (own < 0)
            j->step[i - j->loop.first] = stride[i];
        else
            push_axis(j, (axis){j->loop.shape.shape[i], {other->stride[own], stride[i]}});
    }
    j->columns = j->n ? j->outer[--j->n] : (axis){1, {0}};
    j->rows = 1;
    for (int i = 0; i < j->n; i++) j->rows *= j->outer[i].length;
    return WEFT_OK;
}

/* Where row `row` begins in each memory. */
static void row_begins(const job *j, int64_t row, int64_t at[SIDES]) {
    at[OTHER] = at[SOURCE] = 0;
    for (int i = j->n - 1; i >= 0; row /= j->outer[i--].length)
        for (int s = 0; s < SIDES; s++) at[s] += row % j->outer[i].length * j->outer[i].stride[s];
}

/* Where place p of the ids is in what is taken or put. */
static int64_t source_of(const job *j, int64_t p) {
    int64_t at = 0;
    for (int i = j->loop.ids.ndim - 1; i >= 0; p /= j->loop.ids.shape[i--])
        at += p % j->loop.ids.shape[i] * j->step[i];
    return at;
}

#define WIDTHS(X) X(uint8_t, 1) X(uint16_t, 2) X(uint32_t, 4) X(uint64_t, 8)

/* ---- index ---- */

#define X(type, bytes)                                                                                       \
    static void take_##bytes(const job *j, int64_t from, int64_t to) {                                       \
        const type *x = (const type *)j->memory[OTHER] + from;                                               \
        type *y = (type *)j->memory[SOURCE] + to;                                                            \
        int64_t a = j->columns.stride[OTHER], b = j->columns.stride[SOURCE];                                 \
        if (a == 1 && b == 1)                                                                                \
            memcpy(y, x, (size_t)j->columns.length *bytes);                                                  \
        else                                                                                                 \
            for (int64_t i = 0; i < j->columns.length; i++) y[i * b] = x[i * a];                             \
    }
WIDTHS(X)
#undef X

static weft_status index_run(void *state, const kernel_call *c) {
    tensor y = c->out[0];
    job j;
    stride_row_major(&y.type, y.stride);
    weft_status status = job_of(&j, c, &c->in[0], &y);
    if (status) return status;
    void (*take)(const job *, int64_t, int64_t) = j.width == 1   ? take_1
                                                  : j.width == 2 ? take_2
                                                  : j.width == 4 ? take_4
                                                                 : take_8;
    int64_t tasks = j.rows * j.places, most = tasks * j.columns.length / WORTH_A_THREAD + 1;
    int threads = most < c->threads ? (int)most : c->threads;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t t = 0; t < tasks; t++) {
        int64_t at[SIDES];
        row_begins(&j, t / j.places, at);
        take(&j, at[OTHER] + j.offset[t % j.places], at[SOURCE] + source_of(&j, t % j.places));
    }
    return WEFT_OK;
}

/* ---- index_put ---- */

static bool accumulates(const weft_node *n) {
    return ((const places_attrs *)n->attrs)->accumulate;
}

static const char *put_declines(const weft_node *n, const kernel_env *env) {
    weft_dtype dtype = n->in[0]->type.dtype;
    return accumulates(n) && (dtype == WEFT_F64 || dtype_is_reduced(dtype)) ? "adds f64, bf16 or f16" : NULL;
}

/* Columns [first, past) of all places of one row, in the order of the ids. PUT is = or +=. */
#define PUT(name, type, PUT)                                                                                 \
    static void name(const job *j, const int64_t at[SIDES], int64_t first, int64_t past) {                   \
        int64_t a = j->columns.stride[OTHER], b = j->columns.stride[SOURCE];                                 \
        for (int64_t p = 0; p < j->places; p++) {                                                            \
            type *y = (type *)j->memory[OTHER] + at[OTHER] + j->offset[p];                                   \
            const type *from = (const type *)j->memory[SOURCE] + at[SOURCE] + source_of(j, p);               \
            for (int64_t i = first; i < past; i++) y[i * a] PUT from[i * b];                                 \
        }                                                                                                    \
    }
PUT(put_1, uint8_t, =)
PUT(put_2, uint16_t, =)
PUT(put_4, uint32_t, =)
PUT(put_8, uint64_t, =)
PUT(put_add_f32, float, +=)
/* unsigned, so that sums wrap around */
PUT(put_add_i64, uint64_t, +=)
PUT(put_add_i32, uint32_t, +=)
PUT(put_add_u8, uint8_t, +=)

typedef void (*put)(const job *, const int64_t at[SIDES], int64_t, int64_t);

static put put_of(const kernel_call *c) {
    weft_dtype dtype = c->out[0].type.dtype;
    if (accumulates(c->node))
        return dtype == WEFT_F32   ? put_add_f32
               : dtype == WEFT_I64 ? put_add_i64
               : dtype == WEFT_I32 ? put_add_i32
                                   : put_add_u8;
    size_t width = dtype_bytes(dtype);
    return width == 1 ? put_1 : width == 2 ? put_2 : width == 4 ? put_4 : put_8;
}

/* y begins as x; nothing is copied where the planner put the result on the operand. */
static weft_status put_run(void *state, const kernel_call *c) {
    const tensor *x = &c->in[0];
    tensor y = c->out[0];
    job j;
    stride_row_major(&y.type, y.stride);
    weft_status status = job_of(&j, c, &y, &c->in[c->n_in - 1]);
    if (status) return status;
    if (y.data != x->data) SIMD(strided_copy)(y.data, y.stride, x->data, x->stride, &y.type, c->threads);
    int64_t strips = (j.columns.length + STRIP - 1) / STRIP, tasks = j.rows * strips;
    int64_t most = j.rows * j.places * j.columns.length / WORTH_A_THREAD + 1;
    int threads = most < c->threads ? (int)most : c->threads;
    put each = put_of(c);
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t t = 0; t < tasks; t++) {
        int64_t at[SIDES], first = t % strips * STRIP, past = first + STRIP;
        row_begins(&j, t / strips, at);
        each(&j, at, first, past < j.columns.length ? past : j.columns.length);
    }
    return WEFT_OK;
}

SIMD_KERNEL(index, .strided_in = ~0u, .workspace = workspace, .run = index_run);
SIMD_KERNEL(index_put, .strided_in = ~0u, .declines = put_declines, .workspace = workspace, .run = put_run);
