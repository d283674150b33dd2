/* index.c - gather and scatter of elements of any width, scatter_add and
 * scatter_reduce of all types but f64.
 *
 * The loop over ids is divided into lines along the indexed axis: what a line reads or writes of x and y, no
 * other line does. Threads share the lines, so the elements that scatter adds to one place come in the order
 * of the axis whatever the number of threads. Lines that lie side by side in memory go together, as the
 * columns of a strip. Long sums, and all of reduced types, are kept in f64 for a strip (sums.h). */
#include "ops/cpu/simd/ids.h"
#include "ops/cpu/simd/copy.h"
#include "ops/cpu/reduced.h"
#include "ops/cpu/simd/sums.h"
#include "ops/index/index.h"

#include <string.h>

enum {
    STRIP = 64,           /* columns that go together */
    TOTALS = 16 * 1024,   /* f64 sums that a thread keeps, if a single line needs no more */
    WORTH_A_THREAD = 4096 /* elements */
};
/* Memories: x or y, which ids point into; y or src; ids. */
enum { OTHER, SOURCE, IDS, SIDES };

/* An axis of the loop, with its strides in each memory, in elements. */
typedef struct axis {
    int64_t length, stride[SIDES];
} axis;

/* The loop: lines are the combinations of `outer` and `columns`. */
typedef struct job {
    const kernel_call *c;
    char *memory[SIDES];
    size_t width; /* bytes of an element */
    int n;
    axis outer[WEFT_MAX_NDIM], columns, along;
    int64_t length, step;  /* of the indexed axis: ids are below it; its stride in OTHER */
    int64_t strip, strips; /* columns that go together; strips of all columns */
} job;

/* Appends an axis, merged with the last where all strides continue. */
static void add_axis(job *j, axis a) {
    axis *last = j->n ? &j->outer[j->n - 1] : NULL;
    bool merges = last != NULL;
    if (a.length == 1) return;
    for (int s = 0; s < SIDES && merges; s++) merges = last->stride[s] == a.stride[s] * a.length;
    if (merges)
        a.length *= last->length;
    else
        last = &j->outer[j->n++];
    *last = a;
}

/* The result, which is row-major, is OTHER of scatter and SOURCE of gather. Columns are the innermost axis,
 * where SOURCE runs along it rather than along the indexed axis. */
static void job_of(job *j, const kernel_call *c, bool scatters) {
    tensor y = c->out[0];
    const tensor *other = scatters ? &y : &c->in[0], *source = scatters ? &c->in[2] : &y;
    const tensor *side[SIDES] = {[OTHER] = other, [SOURCE] = source, [IDS] = &c->in[1]};
    int64_t stride[SIDES][WEFT_MAX_NDIM];
    index_loop loop;
    stride_row_major(&y.type, y.stride);
    *j = (job){.c = c, .width = dtype_bytes(other->type.dtype), .columns = {1, {0}}};
    index_loop_of(c->attrs, &c->in[0].type, &c->in[1].type, &loop);
    for (int s = 0; s < SIDES; s++) {
        j->memory[s] = side[s]->data;
        index_strides(&loop, side[s], stride[s]);
    }
    j->length = loop.length;
    j->step = other->stride[loop.axis];
    for (int i = 0; i < loop.shape.ndim; i++) {
        axis a = {loop.shape.shape[i], {stride[OTHER][i], stride[SOURCE][i], stride[IDS][i]}};
        if (i == loop.axis)
            j->along = a;
        else
            add_axis(j, a);
    }
    axis *last = j->n ? &j->outer[j->n - 1] : NULL;
    if (last && (last->stride[SOURCE] <= j->along.stride[SOURCE] || j->along.length == 1))
        j->columns = j->outer[--j->n];
    j->strip = STRIP;
}

/* WEFT_OK when all ids are inside the axis: a loop over i64 becomes vector code. */
static weft_status check_ids(const kernel_call *c, int64_t length) {
    const tensor *ids = &c->in[1];
    int64_t n = type_elements(&ids->type), rows[WEFT_MAX_NDIM];
    stride_row_major(&ids->type, rows);
    if (!stride_same(&ids->type, ids->stride, rows)) return index_check_ids(c, ids, length);
    int threads = n / WORTH_A_THREAD + 1 < c->threads ? (int)(n / WORTH_A_THREAD + 1) : c->threads, bad = 0;
#pragma omp parallel for num_threads(threads) schedule(static) reduction(| : bad) if (threads > 1)
    for (int t = 0; t < threads; t++) {
        int64_t begin = n * t / threads, end = n * (t + 1) / threads;
        if (ids->type.dtype == WEFT_I64)
            for (int64_t i = begin; i < end; i++)
                bad |= (uint64_t)((const int64_t *)ids->data)[i] >= (uint64_t)length;
        else
            for (int64_t i = begin; i < end; i++) bad |= (uint64_t)id_at(ids, i) >= (uint64_t)length;
    }
    return bad ? index_check_ids(c, ids, length) : WEFT_OK;
}

/* One strip: `columns` lines from these elements of each memory on. */
typedef struct strip {
    int64_t at[SIDES], columns;
} strip;

/* The tasks of a job: strips of each combination of outer axes. */
static int64_t tasks_of(job *j) {
    int64_t tasks = j->strips = (j->columns.length + j->strip - 1) / j->strip;
    for (int k = 0; k < j->n; k++) tasks *= j->outer[k].length;
    return tasks;
}

static strip strip_of(const job *j, int64_t task) {
    strip p = {.columns = j->columns.length - task % j->strips * j->strip};
    for (int s = 0; s < SIDES; s++) p.at[s] = task % j->strips * j->strip * j->columns.stride[s];
    if (p.columns > j->strip) p.columns = j->strip;
    task /= j->strips;
    for (int k = j->n - 1; k >= 0; k--) {
        for (int s = 0; s < SIDES; s++) p.at[s] += task % j->outer[k].length * j->outer[k].stride[s];
        task /= j->outer[k].length;
    }
    return p;
}

/* Runs `each` for all strips. */
static void run_strips(job *j, void (*each)(const job *, const strip *)) {
    const axis *a = &j->along;
    int64_t tasks = tasks_of(j), elements = tasks * a->length * j->strip;
    int threads = j->c->threads;
    if (threads > elements / WORTH_A_THREAD + 1) threads = (int)(elements / WORTH_A_THREAD + 1);
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t t = 0; t < tasks; t++) {
        strip p = strip_of(j, t);
        each(j, &p);
    }
}

#define WIDTHS(X) X(uint8_t, 1) X(uint16_t, 2) X(uint32_t, 4) X(uint64_t, 8)

/* ---- gather ---- */

/* Where one id is for all columns these are one copy. */
#define X(type, bytes)                                                                                       \
    static void gather_##bytes(const job *j, const strip *p) {                                               \
        const type *x = (const type *)j->memory[OTHER];                                                      \
        type *y = (type *)j->memory[SOURCE];                                                                 \
        const axis *by = &j->columns;                                                                        \
        bool shares = by->stride[IDS] == 0 && by->stride[OTHER] == 1 && by->stride[SOURCE] == 1;             \
        for (int64_t k = 0; k < j->along.length; k++) {                                                      \
            int64_t ids = p->at[IDS] + k * j->along.stride[IDS];                                             \
            const type *from = x + p->at[OTHER];                                                             \
            type *to = y + p->at[SOURCE] + k * j->along.stride[SOURCE];                                      \
            if (shares) memcpy(to, from + id_at(&j->c->in[1], ids) * j->step, (size_t)p->columns * bytes);   \
            for (int64_t i = 0; i < p->columns && !shares; i++)                                              \
                to[i * by->stride[SOURCE]] =                                                                 \
                    from[i * by->stride[OTHER] + id_at(&j->c->in[1], ids + i * by->stride[IDS]) * j->step];  \
        }                                                                                                    \
    }
WIDTHS(X)
#undef X

static weft_status gather_run(void *state, const kernel_call *c) {
    job j;
    job_of(&j, c, false);
    /* rows that are copied as a whole need no strips */
    if (j.columns.stride[IDS] == 0) j.strip = j.columns.length;
    weft_status status = check_ids(c, j.length);
    if (status) return status;
    switch (j.width) {
#define X(type, bytes)                                                                                       \
    case bytes:                                                                                              \
        run_strips(&j, gather_##bytes);                                                                      \
        break;
        WIDTHS(X)
#undef X
    }
    return WEFT_OK;
}

/* ---- scatter ---- */

/* y begins as x; nothing is copied where the planner put the result on the operand. */
static weft_status begin(job *j, const kernel_call *c) {
    const tensor *x = &c->in[0], *y = &c->out[0];
    job_of(j, c, true);
    weft_status status = check_ids(c, j->length);
    if (!status && y->data != x->data)
        SIMD(strided_copy)(y->data, y->stride, x->data, x->stride, &y->type, c->threads);
    return status;
}

/* OF(a, b) is what becomes of the element a at a place and the element b that ids send there. */
#define NEWER(a, b) (b)
#define SUM(a, b)   ((a) + (b))
#define JOIN(name, type, OF)                                                                                 \
    static void name(const job *j, const strip *p) {                                                         \
        type *y = (type *)j->memory[OTHER] + p->at[OTHER];                                                   \
        const axis *by = &j->columns;                                                                        \
        for (int64_t k = 0; k < j->along.length; k++) {                                                      \
            int64_t ids = p->at[IDS] + k * j->along.stride[IDS];                                             \
            const type *from =                                                                               \
                (const type *)j->memory[SOURCE] + p->at[SOURCE] + k * j->along.stride[SOURCE];               \
            for (int64_t i = 0; i < p->columns; i++) {                                                       \
                type *to =                                                                                   \
                    y + i * by->stride[OTHER] + id_at(&j->c->in[1], ids + i * by->stride[IDS]) * j->step;    \
                *to = (type)OF(*to, from[i * by->stride[SOURCE]]);                                           \
            }                                                                                                \
        }                                                                                                    \
    }
JOIN(scatter_1, uint8_t, NEWER)
JOIN(scatter_2, uint16_t, NEWER)
JOIN(scatter_4, uint32_t, NEWER)
JOIN(scatter_8, uint64_t, NEWER)
JOIN(add_f32, float, SUM)
/* unsigned, so that sums wrap around */
JOIN(add_i64, uint64_t, SUM)
JOIN(add_i32, uint32_t, SUM)
JOIN(add_u8, uint8_t, SUM)

static weft_status scatter_run(void *state, const kernel_call *c) {
    job j;
    weft_status status = begin(&j, c);
    if (status) return status;
    switch (j.width) {
#define X(type, bytes)                                                                                       \
    case bytes:                                                                                              \
        run_strips(&j, scatter_##bytes);                                                                     \
        break;
        WIDTHS(X)
#undef X
    }
    return WEFT_OK;
}

/* ---- scatter_reduce ---- */

static const char *reduce_declines(const weft_node *n, const kernel_env *env) {
    weft_dtype dtype = n->in[0]->type.dtype;
    return dtype == WEFT_F64 || dtype_is_reduced(dtype) ? "f64, bf16 or f16" : NULL;
}

#define LARGER(a, b)  ((b) > (a) || (b) != (b) ? (b) : (a)) /* a NaN stays: nothing is above it */
#define SMALLER(a, b) ((b) < (a) || (b) != (b) ? (b) : (a))
#define PRODUCT(a, b) ((a) * (b))
/* Products are of unsigned, so that they wrap around; u8's product is of ints, which it fits. */
JOIN(prod_f32, float, PRODUCT)
JOIN(prod_i64, uint64_t, PRODUCT)
JOIN(prod_i32, uint32_t, PRODUCT)
JOIN(prod_u8, uint8_t, PRODUCT)
JOIN(amax_f32, float, LARGER)
JOIN(amax_i64, int64_t, LARGER)
JOIN(amax_i32, int32_t, LARGER)
JOIN(amax_u8, uint8_t, LARGER)
JOIN(amin_f32, float, SMALLER)
JOIN(amin_i64, int64_t, SMALLER)
JOIN(amin_i32, int32_t, SMALLER)
JOIN(amin_u8, uint8_t, SMALLER)

typedef void (*for_strip)(const job *, const strip *);

static for_strip join_of(weft_dtype dtype, int64_t join) {
    static const for_strip of[][4] = {{prod_f32, prod_i64, prod_i32, prod_u8},
                                      {amax_f32, amax_i64, amax_i32, amax_u8},
                                      {amin_f32, amin_i64, amin_i32, amin_u8}};
    return of[join][dtype == WEFT_F32 ? 0 : dtype == WEFT_I64 ? 1 : dtype == WEFT_I32 ? 2 : 3];
}

static weft_status reduce_run(void *state, const kernel_call *c) {
    const scatter_reduce_attrs *a = c->attrs;
    weft_dtype dtype = c->out[0].type.dtype;
    job j;
    weft_status status = begin(&j, c);
    if (status) return status;
    if (a->fresh) {
        /* first all places hold what joined to an element leaves it as it is */
        uint64_t bits = 0;
        float neutral = (float)scatter_neutral(a->join);
        int64_t integer = scatter_neutral_int(a->join, dtype);
        memcpy(&bits, dtype == WEFT_F32 ? (void *)&neutral : (void *)&integer, dtype == WEFT_F32 ? 4 : 8);
        job all = j;
        all.memory[SOURCE] = (char *)&bits;
        all.columns.stride[SOURCE] = all.along.stride[SOURCE] = 0;
        for (int k = 0; k < all.n; k++) all.outer[k].stride[SOURCE] = 0;
        run_strips(&all, j.width == 1 ? scatter_1 : j.width == 4 ? scatter_4 : scatter_8);
    }
    run_strips(&j, join_of(dtype, a->join));
    return WEFT_OK;
}

/* ---- scatter_add ---- */

static const char *add_declines(const weft_node *n, const kernel_env *env) {
    return n->in[0]->type.dtype == WEFT_F64 ? "f64" : NULL;
}

/* Columns of a strip whose sums are kept in f64; 0: sums are kept in y. */
static int64_t totals_strip(weft_dtype dtype, int64_t ids, int64_t length) {
    bool keeps = dtype_is_reduced(dtype) || (dtype == WEFT_F32 && ids > SUM_ROWS);
    int64_t strip = TOTALS / length;
    return !keeps ? 0 : strip < 1 ? 1 : strip > STRIP ? STRIP : strip;
}

static size_t add_workspace(const weft_node *n, const kernel_env *env) {
    int64_t axis = ((const index_attrs *)n->attrs)->axis;
    const tensor_type *x = &n->in[0]->type;
    axis_resolve(&axis, x->ndim);
    int64_t strip = totals_strip(x->dtype, n->in[1]->type.shape[axis], x->shape[axis]);
    return (size_t)(strip * x->shape[axis] * env->threads) * sizeof(double);
}

/* One strip: y to totals, all elements added, totals to y. */
static void add_totals(const job *j, const strip *p, double *total) {
    weft_dtype dtype = j->c->out[0].type.dtype;
    const axis *by = &j->columns;
    for (int64_t r = 0; r < j->length; r++)
        for (int64_t i = 0; i < p->columns; i++)
            total[r * j->strip + i] =
                reduced_get(j->memory[OTHER], dtype, p->at[OTHER] + r * j->step + i * by->stride[OTHER]);
    for (int64_t k = 0; k < j->along.length; k++) {
        int64_t ids = p->at[IDS] + k * j->along.stride[IDS];
        int64_t from = p->at[SOURCE] + k * j->along.stride[SOURCE];
        for (int64_t i = 0; i < p->columns; i++)
            total[id_at(&j->c->in[1], ids + i * by->stride[IDS]) * j->strip + i] +=
                reduced_get(j->memory[SOURCE], dtype, from + i * by->stride[SOURCE]);
    }
    for (int64_t r = 0; r < j->length; r++)
        for (int64_t i = 0; i < p->columns; i++)
            reduced_put(j->memory[OTHER], dtype, p->at[OTHER] + r * j->step + i * by->stride[OTHER],
                        (float)total[r * j->strip + i]);
}

/* Each thread has totals of its own in the workspace. */
static void add_in_totals(job *j) {
    int64_t tasks = tasks_of(j), threads = j->c->threads;
    double *totals = j->c->workspace;
#pragma omp parallel for num_threads((int)threads) schedule(static) if (threads > 1)
    for (int64_t t = 0; t < threads; t++)
        for (int64_t k = tasks * t / threads; k < tasks * (t + 1) / threads; k++) {
            strip p = strip_of(j, k);
            add_totals(j, &p, totals + t * j->strip * j->length);
        }
}

static weft_status add_run(void *state, const kernel_call *c) {
    job j;
    weft_status status = begin(&j, c);
    if (status) return status;
    weft_dtype dtype = c->out[0].type.dtype;
    int64_t strip = totals_strip(dtype, j.along.length, j.length);
    if (strip) {
        j.strip = strip;
        add_in_totals(&j);
    } else {
        run_strips(&j, dtype == WEFT_F32   ? add_f32
                       : dtype == WEFT_I64 ? add_i64
                       : dtype == WEFT_I32 ? add_i32
                                           : add_u8);
    }
    return WEFT_OK;
}

SIMD_KERNEL(gather, .strided_in = ~0u, .run = gather_run);
SIMD_KERNEL(scatter, .strided_in = ~0u, .run = scatter_run);
SIMD_KERNEL(scatter_reduce, .strided_in = ~0u, .declines = reduce_declines, .run = reduce_run);
SIMD_KERNEL(scatter_add, .strided_in = ~0u, .declines = add_declines, .workspace = add_workspace,
            .run = add_run);
