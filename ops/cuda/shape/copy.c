/* copy.c - rows of the ops that only move elements of any type (views that need a copy after all, concat,
 * pad, reorder between layouts, assignment to variables and buckets), and of constant. */
#include "ops/cuda/cuda.h"
#include "ops/cuda/kit/parts.h"
#include "ops/kit/basic_attrs.h"
#include "ops/kit/ops.h"

/* Nothing is copied where the planner placed the result on the operand. */
static void copy_work(const weft_node *n, node_work *w) {
    if (value_is_within(&n->out[0], n->in[0]) || value_is_within(n->in[0], &n->out[0])) *w = (node_work){0};
}

/* A slice reads no more than it keeps. */
static void slice_work(const weft_node *n, node_work *w) {
    w->read = w->written;
}

/* A copy for each operand. */
static void concat_work(const weft_node *n, node_work *w) {
    w->launches = n->n_in;
}

/* Padding before, after and between the operand's elements, each only where there are some. */
static void pad_work(const weft_node *n, node_work *w) {
    const pad_attrs *a = n->attrs;
    w->launches = 1 + (a->before > 0) + (a->after > 0) + (a->between > 0);
}

#define ROW(title, runs, works)                                                                              \
    CUDA_KERNEL_OF(title, title, .strided_in = ~0u, .work = works, CUDA_RUN(runs));
/* One run serves all ops that read an operand through the op's view(), another all that keep the operand's
 * shape. */
ROW(permute, permute, NULL)
ROW(slice, permute, slice_work)
ROW(broadcast_to, permute, NULL)
ROW(reorder, reorder, copy_work)
ROW(assign, reorder, copy_work)
ROW(sum_ranks, reorder, copy_work)
ROW(gather_ranks, reshape, NULL)
ROW(scatter_ranks, reorder, copy_work)
ROW(broadcast_ranks, reorder, copy_work)
ROW(reshape, reshape, NULL)
ROW(concat, concat, concat_work)
ROW(pad, pad, pad_work)
ROW(flip, flip, NULL)
ROW(constant, constant, NULL)
#undef ROW

/* One launch copies several operands, and writes zeros into several gaps between them; those that the planner
 * placed in the result are there already. */
static void bucket_work(const weft_node *n, node_work *w) {
    int64_t end = 0;
    int parts = 0;
    for (int i = 0; i < n->n_in; i++) {
        const weft_variable *v = n->variable->members[i];
        parts += (v->offset > end) + !value_is_within(n->in[i], &n->out[0]);
        end = v->offset + type_elements(&v->type);
    }
    parts += n->variable->type.shape[0] > end;
    w->launches = launches_of(parts, BUCKET_PARTS);
}

CUDA_KERNEL(bucket, .work = bucket_work);
