/* index.h - what gather, scatter and scatter_add share. All three go over the elements of ids, the loop: ids
 * stand for places along one axis of x, at the same place along the other axes. Axes of ids may be shorter
 * than those of x, as in PyTorch; or, with `broadcast`, they broadcast, as in NumPy's take_along_axis. */
#ifndef WEFT_OPS_INDEX_INDEX_H
#define WEFT_OPS_INDEX_INDEX_H

#include "ops/kit/op_kit.h"

#include <math.h>

typedef struct index_attrs {
    int64_t axis;
    /* outside `axis` x and ids broadcast; else the axes of ids are at most as long as those of x */
    bool broadcast;
} index_attrs;
extern const op_attr index_attr_table[];

/* How scatter_reduce joins two elements. */
typedef enum scatter_kind { SCATTER_PROD, SCATTER_AMAX, SCATTER_AMIN } scatter_kind;
typedef struct scatter_reduce_attrs {
    index_attrs at;
    int64_t join; /* scatter_kind */
    bool fresh;   /* without x's element where ids name a place */
} scatter_reduce_attrs;
double scatter_join(int64_t kind, double a, double b);
int64_t scatter_join_int(int64_t kind, int64_t a, int64_t b);
/* What joined to an element leaves it as it is. */
static inline double scatter_neutral(int64_t kind) {
    return kind == SCATTER_PROD ? 1 : kind == SCATTER_AMAX ? -INFINITY : INFINITY;
}
int64_t scatter_neutral_int(int64_t kind, weft_dtype dtype);

/* The elements that a run goes over. */
typedef struct index_loop {
    tensor_type shape; /* of ids, after broadcasting; its dtype is that of x */
    int axis;
    int64_t length; /* of x along the axis: ids are below it */
} index_loop;

/* The loop of a node whose operands begin with x and ids. False: they do not fit. */
bool index_loop_of(const index_attrs *a, const tensor_type *x, const tensor_type *ids, index_loop *loop);
/* For infer: the same, with the error; also checks that ids are integers. */
bool index_want_loop(op_call *c, index_loop *loop);
/* infer of scatter and scatter_add: x, ids, src -> the type of x. src is one number or has the shape of the
 * loop; its axes may be longer than the loop's, or broadcast. */
bool index_infer_scatter(op_call *c);

/* Strides of an operand or result for places of the loop: 0 where it is broadcast. */
void index_strides(const index_loop *loop, const tensor *t, int64_t stride[WEFT_MAX_NDIM]);

/* Checks that every id is in [0, length); the error names the id and its number. */
weft_status index_check_ids(const kernel_call *c, const tensor *ids, int64_t length);

/* ---- for reference kernels: the tensor's place at place `at` of the loop ---- */
/* Of ids and src. */
void index_place(const index_loop *loop, const tensor *t, const int64_t *at, int64_t *place);
/* Of x or y: along the axis it is the id. */
void index_target(const index_loop *loop, const tensor *ids, const tensor *t, const int64_t *at,
                  int64_t *place);

/* ---- for builders ---- */
/* ids [n], or one id, as ids [1, n, 1, 1] that broadcast to the shape of x. NULL after an error. */
weft_value *index_ids_along(const char *name, weft_value *x, int64_t axis, weft_value *ids);

/* ---- for gradients ---- */
/* Zeros of x's element type, and of its shape after broadcasting, without memory of their own. */
weft_value *index_zeros(weft_value *x, const index_loop *loop, weft_dtype dtype);
/* The gradient of src from that of all places of the loop. */
weft_value *index_to_src(weft_value *gradient, const weft_value *src);

#endif
