/* reduce.c - see reduce.h: the division of the work; rows of the reductions and argmax. */
#include "ops/cuda/reduce/reduce.h"

#include "ops/cuda/kit/columns.h"
#include "ops/cuda/cuda.h"

#include <string.h>

enum {
    ROW_PIECE = 4096,        /* least elements that a block sums */
    ROW_BLOCKS = 1024,       /* blocks that are enough for any GPU */
    COLUMN_PIECE = 64,       /* least elements that a thread sums */
    COLUMN_SUMS = 256 * 1024 /* threads that are enough */
};

static void strides_of(const weft_value *v, int64_t stride[WEFT_MAX_NDIM]) {
    if (v->has_layout)
        memcpy(stride, v->stride, WEFT_MAX_NDIM * sizeof *stride);
    else
        stride_row_major(&v->type, stride);
}

/* Appends an axis, merged with the last where both strides continue. */
static void list_add(reduce_list *l, reduce_axis a) {
    reduce_axis *last = l->n ? &l->at[l->n - 1] : NULL;
    if (last && last->in == a.in * a.length && last->out == a.out * a.length)
        *last = (reduce_axis){.length = last->length * a.length, .in = a.in, .out = a.out};
    else
        l->at[l->n++] = a;
    l->count *= a.length;
}

/* The divisors for offsets within the list. */
static void list_end(reduce_list *l) {
    for (int k = 0; k < l->n; k++) l->at[k].by = divisor_of(l->at[k].length, l->count);
}

static int64_t at_least_1(int64_t n) {
    return n > 1 ? n : 1;
}

/* Pieces of each result: enough to fill a GPU, of at least the least size, and of whole vectors. */
static void cut_pieces(reduce_plan *r) {
    int64_t least = r->along_rows ? ROW_PIECE : COLUMN_PIECE,
            enough = r->along_rows ? ROW_BLOCKS : COLUMN_SUMS;
    int64_t wanted = (r->reduced.count + least - 1) / least, most = at_least_1(enough / r->kept.count);
    r->pieces = at_least_1(wanted < most ? wanted : most);
    r->piece = (r->reduced.count + r->pieces - 1) / r->pieces;
    r->piece = (r->piece + 7) / 8 * 8; /* whole vectors */
    r->pieces = (r->reduced.count + r->piece - 1) / r->piece;
}

/* Axes are sorted by the operand's strides (an insertion sort), then divided into kept and reduced. */
void reduce_plan_of(reduce_plan *r, const weft_node *n) {
    const sum_attrs *a = n->attrs;
    const tensor_type *x = &n->in[0]->type;
    unsigned mask = sum_axes(a, x->ndim);
    int64_t in[WEFT_MAX_NDIM], out[WEFT_MAX_NDIM];
    reduce_axis sorted[WEFT_MAX_NDIM];
    bool is_reduced[WEFT_MAX_NDIM];
    int count = 0, result_axis = 0;
    strides_of(n->in[0], in);
    strides_of(&n->out[0], out);
    for (int i = 0; i < x->ndim; i++) {
        bool reduced = mask >> i & 1;
        reduce_axis next = {.length = x->shape[i], .in = in[i], .out = reduced ? 0 : out[result_axis]};
        if (!reduced || a->keep) result_axis++;
        if (x->shape[i] == 1) continue;
        int k = count++;
        for (; k > 0 && sorted[k - 1].in < next.in; k--) {
            sorted[k] = sorted[k - 1];
            is_reduced[k] = is_reduced[k - 1];
        }
        sorted[k] = next;
        is_reduced[k] = reduced;
    }
    *r = (reduce_plan){.kind = reduce_kind_of(n->op), .kept.count = 1, .reduced.count = 1, .factor = 1};
    for (int k = 0; k < count; k++) list_add(is_reduced[k] ? &r->reduced : &r->kept, sorted[k]);
    list_end(&r->kept);
    list_end(&r->reduced);
    r->along_rows = count == 0 || is_reduced[count - 1];
    r->factor = 1.0f / (float)sum_divisor(a, r->reduced.count);
    cut_pieces(r);
}

bool reduce_is_columns(const reduce_plan *r) {
    return r->kind == REDUCE_SUM && !r->along_rows && r->kept.n == 1 && r->reduced.n == 1 &&
           r->kept.at[0].in == 1;
}

/* ---- rows ---- */

static const char *declines(const weft_node *n, const kernel_env *env) {
    return n->in[0]->type.dtype == WEFT_F64 || n->out[0].type.dtype != WEFT_F64 ? NULL
                                                                                : "an f64 result of less";
}

/* Parts of the column sums, or one number for each piece, of 8 bytes where the kernel folds in f64 or i64;
 * none when results are done in one go. */
static size_t workspace(const weft_node *n, const kernel_env *env) {
    reduce_plan r;
    weft_dtype dtype = n->in[0]->type.dtype;
    bool is_narrow = dtype_is_float(dtype) && dtype != WEFT_F64;
    size_t bytes = is_narrow ? sizeof(float) : sizeof(double);
    reduce_plan_of(&r, n);
    if (reduce_is_columns(&r) && is_narrow) {
        int64_t columns = r.kept.count, rows = r.reduced.count;
        return (size_t)(columns_chunks(rows, columns, dtype_bytes(dtype)) * columns) * bytes;
    }
    return r.pieces > 1 ? (size_t)(r.kept.count * r.pieces) * bytes : 0;
}

/* Parts, where there are any, are written by one kernel and added by another. */
static void work(const weft_node *n, node_work *w) {
    size_t bytes = workspace(n, NULL);
    if (!bytes) return;
    w->launches = 2;
    w->read += (double)bytes;
    w->written += (double)bytes;
}

#define REDUCE_KERNEL(name_)                                                                                 \
    CUDA_KERNEL_OF(name_, name_, .strided_in = 1, .declines = declines, .workspace = workspace,              \
                   .work = work, CUDA_RUN(sum))
REDUCE_KERNEL(sum);
REDUCE_KERNEL(amax);
REDUCE_KERNEL(amin);
REDUCE_KERNEL(prod);
CUDA_KERNEL(argmax, .strided_in = 1);
CUDA_KERNEL_OF(argmin, argmin, .strided_in = 1, CUDA_RUN(argmax));
