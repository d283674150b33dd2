/* fuse.h - pointwise and `fused` nodes on a GPU: the layout of operands under the result (fuse_plan.c), the
 * node as CUDA C source (fuse_source.c, on top of fuse_prelude.c), compiled and run by pointwise.cu. Plans
 * and sources are made without a GPU, so that they can be read and tested anywhere. */
#ifndef WEFT_OPS_CUDA_POINTWISE_FUSE_H
#define WEFT_OPS_CUDA_POINTWISE_FUSE_H

#include "graph/core/graph.h"
#include "ops/cuda/kit/divide.h"

/* How an operand is read. A vector is `fuse_plan.vector` contiguous elements of the result. */
typedef enum fuse_way {
    FUSE_FLAT,   /* same layout as the result: vectors */
    FUSE_SCALAR, /* one element for all: read once by each thread */
    FUSE_ROW, /* contiguous along the innermost axis, other strides elsewhere: vectors at computed offsets */
    FUSE_REPEAT, /* the same for a whole vector: one element at a computed offset */
    FUSE_GATHER, /* anything else: an offset for each element */
} fuse_way;

typedef struct fuse_operand {
    weft_dtype dtype;
    fuse_way way;
    int64_t stride[WEFT_MAX_NDIM]; /* along the plan's axes, in elements; 0 where it repeats */
} fuse_operand;

/* The axes of the result in the order of its memory, merged where all operands run on evenly. */
typedef struct fuse_plan {
    int n_axes;
    int64_t length[WEFT_MAX_NDIM]; /* outermost first */
    int64_t elements;
    /* elements of a thread: 4, or 8 where some type has 2 bytes, so that 16 bytes are read at once */
    int vector;
    bool is_wide; /* offsets need 64 bits */
    int n_in;
    fuse_operand in[FUSED_MAX_IN];
} fuse_plan;

/* Fills *p. Returns NULL when the node can run, else the reason to decline. */
const char *fuse_plan_of(const weft_node *n, fuse_plan *p);

/* The kernel's only parameter; the prelude declares the same struct. */
typedef struct fuse_arguments {
    /* Pointers into the GPU's memory, set by each run, as are the last two fields. */
    const void *in[FUSED_MAX_IN];
    void *out[FUSED_MAX_BODY];
    uint64_t elements;
    divisor axis[WEFT_MAX_NDIM];
    int64_t stride[FUSED_MAX_IN][WEFT_MAX_NDIM];
    struct cuda_failure *failure;
    int order; /* of the node in the schedule */
} fuse_arguments;

/* Fills everything but the pointers and the order. */
void fuse_arguments_of(const fuse_plan *p, fuse_arguments *a);

enum { FUSE_THREADS = 256 }; /* of a block */

/* The source of two kernels: `pointwise` by vectors, for memory aligned to 16 bytes, and `pointwise_narrow`.
 * Free it with free(); NULL: out of memory. Nodes with equal patterns have equal sources, whatever the
 * shapes, so that one compilation serves them all. */
char *fuse_source(const weft_node *n, const fuse_plan *p);
extern const char fuse_prelude[];

#endif
