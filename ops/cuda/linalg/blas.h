/* blas.h - a node of `matmul`, `linear` or an op of ops/linalg/epilogue.h as calls of cuBLASLt, in plain C:
 * rows compute the workspace from this plan, and runs follow it.
 *
 * One call does one batch axis, the longest; the host loops over the others. An operand whose rows and
 * columns both have strides above 1 is first copied into the workspace; so is a bias whose type is not the
 * result's, with a conversion. */
#ifndef WEFT_OPS_CUDA_LINALG_BLAS_H
#define WEFT_OPS_CUDA_LINALG_BLAS_H

#include "ops/cuda/cuda.h"
#include "ops/linalg/epilogue.h"
#include "ops/linalg/product.h"

/* What happens to the elements of a product before they are stored, apart from the bias. */
typedef struct blas_epilogue {
    epilogue_act act;
    bool is_backward;     /* times act' of the kept values; else act of the product */
    bool keeps;           /* result 1 is what the backward op needs: GELU's operand, or ReLU's mask */
    bool sums;            /* result 1 is the sum over rows of the left operand: a bias' gradient */
    int64_t kept_columns; /* elements (ReLU: bits) of a row of the kept values */
    bool is_apart;        /* cuBLASLt does not do it: our own kernels follow the product */
} blas_epilogue;

typedef struct blas_plan {
    product p; /* with the strides that the library gets */
    blas_epilogue epilogue;
    matrices from[2];  /* the operands with the strides of the node */
    bool copies[2];    /* operand i is first copied, dense */
    size_t copy_at[2]; /* byte offsets in the workspace, as those below */
    bool converts_bias;
    size_t bias_at, library_at;
    size_t library_bytes; /* scratch of the library */
    size_t bytes;         /* of the whole workspace */
    int along;            /* the batch axis of one call; meaningless without batch axes */
    int64_t count, calls; /* products of one call; calls */
} blas_plan;

blas_plan blas_plan_of(const weft_node *n);

/* Offset of the first matrix of call number `call` in m, in elements. */
int64_t blas_offset(const blas_plan *plan, const matrices *m, int64_t call);

/* Alignment in bytes of the first element of every call's matrix, for m of value v (NULL: m is a copy in the
 * workspace); elements are `width` bytes. */
int blas_alignment(const blas_plan *plan, const matrices *m, const weft_value *v, size_t width);

static inline bool blas_has_epilogue(const blas_plan *plan) {
    return plan->epilogue.act || plan->epilogue.sums;
}

/* Whether a call has a pointer to kept values: it reads them (backward) or writes them (forward). */
static inline bool blas_reads_kept(const blas_plan *plan) {
    return plan->epilogue.act && (plan->epilogue.is_backward || plan->epilogue.keeps);
}

/* The rows' `tune` (blas_tune.cu). */
weft_status blas_tune(const weft_node *n, const kernel_env *env, struct tuned *found, weft_error *error);

#endif
