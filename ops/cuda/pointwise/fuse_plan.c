/* fuse_plan.c - the layout of a pointwise node's operands under its result: see fuse.h. */
#include "ops/cuda/pointwise/fuse.h"

#include "graph/core/kernel.h"

#include <string.h>

/* The strides of a value, row-major until the layout pass has set others. */
static void strides_of(const weft_value *v, int64_t stride[WEFT_MAX_NDIM]) {
    if (v->has_layout)
        memcpy(stride, v->stride, WEFT_MAX_NDIM * sizeof *stride);
    else
        stride_row_major(&v->type, stride);
}

/* The axes of the result by falling stride, without those of length 1. Returns false when the result is not
 * dense. */
static bool result_order(const weft_value *v, int axes[WEFT_MAX_NDIM], int *n) {
    int64_t stride[WEFT_MAX_NDIM], dense = 1;
    strides_of(v, stride);
    *n = 0;
    for (int i = 0; i < v->type.ndim; i++) {
        if (v->type.shape[i] == 1) continue;
        int k = (*n)++;
        for (; k > 0 && stride[axes[k - 1]] < stride[i]; k--) axes[k] = axes[k - 1];
        axes[k] = i;
    }
    for (int k = *n - 1; k >= 0; k--) {
        if (stride[axes[k]] != dense) return false;
        dense *= v->type.shape[axes[k]];
    }
    return true;
}

/* The stride of an operand along an axis of the result; 0 where it broadcasts. */
static int64_t stride_along(const weft_value *operand, const weft_value *result, int axis) {
    int64_t stride[WEFT_MAX_NDIM];
    int own = axis - (result->type.ndim - operand->type.ndim);
    strides_of(operand, stride);
    return own < 0 || operand->type.shape[own] == 1 ? 0 : stride[own];
}

/* Appends an axis, or merges it with the last one where every operand runs on evenly. */
static void axis_add(const weft_node *n, fuse_plan *p, int axis) {
    int64_t length = n->out[0].type.shape[axis], step[FUSED_MAX_IN];
    int last = p->n_axes - 1;
    bool even = last >= 0;
    for (int i = 0; i < n->n_in; i++) {
        step[i] = stride_along(n->in[i], &n->out[0], axis);
        even = even && p->in[i].stride[last] == step[i] * length;
    }
    if (!even) last = p->n_axes++;
    p->length[last] = even ? p->length[last] * length : length;
    for (int i = 0; i < n->n_in; i++) p->in[i].stride[last] = step[i];
}

/* Whether every vector of the operand is contiguous and aligned, if its memory is. */
static bool reads_vectors(const fuse_plan *p, const fuse_operand *o) {
    int64_t width = (int64_t)dtype_bytes(o->dtype), bytes = p->vector * width, unit = bytes < 16 ? bytes : 16;
    for (int k = 0; k < p->n_axes - 1; k++)
        if (o->stride[k] * width % unit != 0) return false;
    return o->stride[p->n_axes - 1] == 1;
}

/* The cheapest way that is right. */
static fuse_way way_of(const fuse_plan *p, const fuse_operand *o) {
    int inner = p->n_axes - 1;
    int64_t dense = 1;
    bool is_flat = true, is_scalar = true;
    for (int k = inner; k >= 0; k--) {
        is_flat &= o->stride[k] == dense;
        is_scalar &= o->stride[k] == 0;
        dense *= p->length[k];
    }
    if (is_scalar) return FUSE_SCALAR;
    if (is_flat) return FUSE_FLAT;
    if (p->length[inner] % p->vector != 0) return FUSE_GATHER;
    if (o->stride[inner] == 0) return FUSE_REPEAT;
    return reads_vectors(p, o) ? FUSE_ROW : FUSE_GATHER;
}

/* 4 elements, or 8 where some operand or result has elements of 2 bytes. */
static int vector_of(const weft_node *n) {
    for (int i = 0; i < n->n_in; i++)
        if (dtype_is_reduced(n->in[i]->type.dtype)) return 8;
    for (int k = 0; k < n->n_out; k++)
        if (dtype_is_reduced(n->out[k].type.dtype)) return 8;
    return 4;
}

/* From types and layouts alone; addresses are checked by each run. */
const char *fuse_plan_of(const weft_node *n, fuse_plan *p) {
    int axes[WEFT_MAX_NDIM], count;
    int64_t first[WEFT_MAX_NDIM], other[WEFT_MAX_NDIM];
    if (n->n_in > FUSED_MAX_IN || n->n_out > FUSED_MAX_BODY) return "too many members";
    /* all results are written at one offset, so they must have one layout */
    strides_of(&n->out[0], first);
    for (int k = 1; k < n->n_out; k++) {
        strides_of(&n->out[k], other);
        if (!stride_same(&n->out[0].type, first, other)) return "results in different layouts";
    }
    if (!result_order(&n->out[0], axes, &count)) return "the result is not dense";
    *p = (fuse_plan){.elements = type_elements(&n->out[0].type), .vector = vector_of(n), .n_in = n->n_in};
    for (int i = 0; i < n->n_in; i++) {
        if (!n->in[i]) return "an operand is missing";
        p->in[i].dtype = n->in[i]->type.dtype;
    }
    /* from the outermost axis to the innermost */
    for (int k = 0; k < count; k++) axis_add(n, p, axes[k]);
    p->is_wide = p->elements > INT32_MAX; /* more than 2^31 - 1 elements */
    for (int i = 0; i < n->n_in; i++) p->in[i].way = way_of(p, &p->in[i]);
    return NULL;
}

void fuse_arguments_of(const fuse_plan *p, fuse_arguments *a) {
    *a = (fuse_arguments){.elements = (uint64_t)p->elements};
    for (int k = 0; k < p->n_axes; k++) a->axis[k] = divisor_of(p->length[k], p->elements);
    for (int i = 0; i < p->n_in; i++) memcpy(a->stride[i], p->in[i].stride, sizeof a->stride[i]);
}
