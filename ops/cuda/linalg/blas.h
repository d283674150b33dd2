/* blas.h - a node of `matmul`, `linear` or an op of ops/linalg/epilogue.h as calls of cuBLASLt, in plain C: rows state its
 * workspace by this, runs go by it.
 *
 * One call does one batch axis, the longest; the others are walked by the host. Operands whose rows and columns both
 * skip elements are copied into the workspace first, a bias of another type than the result's is converted there.
 */
#ifndef WEFT_OPS_CUDA_LINALG_BLAS_H
#define WEFT_OPS_CUDA_LINALG_BLAS_H

#include "ops/cuda/cuda.h"
#include "ops/linalg/epilogue.h"
#include "ops/linalg/product.h"

/* What is done to a product's elements before they are stored, but for the bias. */
typedef struct blas_epilogue {
    epilogue_act act;
    bool is_backward;     /* times act' of what was kept; else act of the product */
    bool keeps;           /* what the backward wants: result 1 */
    bool sums;            /* the left operand's rows are summed too: result 1, a bias' gradient */
    int64_t kept_columns; /* elements (relu: bits) of a row that is kept */
    bool is_apart;        /* not cuBLASLt's work: kernels of our own follow the product */
} blas_epilogue;

typedef struct blas_plan {
    product p;            /* as the library gets it */
    blas_epilogue epilogue;
    matrices from[2];     /* the operands as they come */
    bool copies[2];       /* whether they are made dense first */
    size_t copy_at[2];    /* in the workspace, likewise below */
    bool converts_bias;
    size_t bias_at, library_at;
    size_t library_bytes; /* what the library may use */
    size_t bytes;         /* of workspace */
    int along;            /* the batch axis of one call; meaningless without batch axes */
    int64_t count, calls; /* products a call, calls */
} blas_plan;

blas_plan blas_plan_of(const weft_node *n);

/* Elements from the first matrix of m to that of call `call`. */
int64_t blas_offset(const blas_plan *plan, const matrices *m, int64_t call);

/* Bytes that the first element of every call's matrix is aligned to, for m of value v (or of a copy: v is NULL). */
int blas_alignment(const blas_plan *plan, const matrices *m, const weft_value *v, size_t width);

static inline bool blas_has_epilogue(const blas_plan *plan) {
    return plan->epilogue.act || plan->epilogue.sums;
}

static inline bool blas_reads_kept(const blas_plan *plan) {
    return plan->epilogue.act && (plan->epilogue.is_backward || plan->epilogue.keeps);
}

/* The rows' `tune` (blas_tune.cu). */
weft_status blas_tune(const weft_node *n, const kernel_env *env, text *found, weft_error *error);

#endif
