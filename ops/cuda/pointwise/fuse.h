/* fuse.h - pointwise nodes and `fused` ones on a GPU: how operands lie under the result (fuse_plan.c), the node as CUDA
 * C (fuse_source.c, over what fuse_prelude.c defines), compiled and run by pointwise.cu. Plans and texts are made without
 * a GPU, so that they can be read and tested anywhere. */
#ifndef WEFT_OPS_CUDA_POINTWISE_FUSE_H
#define WEFT_OPS_CUDA_POINTWISE_FUSE_H

#include "graph/core/graph.h"
#include "ops/cuda/kit/divide.h"

/* How an operand is read. A vector is `fuse_plan.vector` elements that lie one after the other in the result. */
typedef enum fuse_way {
    FUSE_FLAT,   /* lies as the result does: vectors */
    FUSE_SCALAR, /* one element for all: read once a thread */
    FUSE_ROW, /* along its innermost axis as the result, repeated or apart along others: vectors at computed places */
    FUSE_REPEAT, /* the same for a whole vector: one element at a computed place */
    FUSE_GATHER, /* anything else: a place for each element */
} fuse_way;

typedef struct fuse_operand {
    weft_dtype dtype;
    fuse_way way;
    int64_t stride[WEFT_MAX_NDIM]; /* along the plan's axes, 0 where it repeats */
} fuse_operand;

/* The result's axes in the order of its memory, merged where all operands run on evenly. */
typedef struct fuse_plan {
    int n_axes;
    int64_t length[WEFT_MAX_NDIM]; /* outermost first */
    int64_t elements;
    int vector; /* elements that a thread takes at once: 16 bytes of the narrowest operand that is not a byte */
    bool is_wide; /* places need 64 bits */
    int n_in;
    fuse_operand in[FUSED_MAX_IN];
} fuse_plan;

/* NULL when the node can run, else why not. */
const char *fuse_plan_of(const weft_node *n, fuse_plan *p);

/* What the kernel is given; the prelude has the same struct. */
typedef struct fuse_arguments {
    const void *in[FUSED_MAX_IN];
    void *out[FUSED_MAX_BODY];
    uint64_t elements;
    divisor axis[WEFT_MAX_NDIM];
    int64_t stride[FUSED_MAX_IN][WEFT_MAX_NDIM];
} fuse_arguments;

/* Everything but the pointers. */
void fuse_arguments_of(const fuse_plan *p, fuse_arguments *a);

enum { FUSE_THREADS = 256 }; /* in a block */

/* The text of two kernels: `pointwise` by vectors, for 16-byte aligned memory, and `pointwise_narrow`. Free with free();
 * NULL when memory is out. Equal patterns give equal texts, whatever the shapes. */
char *fuse_source(const weft_node *n, const fuse_plan *p);
extern const char fuse_prelude[];

#endif
