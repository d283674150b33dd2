/* blas_call.cuh - one product as cuBLASLt sees it, and the algorithm it is done by. */
#ifndef WEFT_OPS_CUDA_LINALG_BLAS_CALL_CUH
#define WEFT_OPS_CUDA_LINALG_BLAS_CALL_CUH

#include <cublasLt.h>

extern "C" {
#include "ops/cuda/linalg/blas.h"
}

/* Row-major c = a b is column-major c' = b' a': the library's A is b here, its B is a. */
typedef struct blas_call {
    cublasLtMatmulDesc_t what;
    cublasLtMatrixLayout_t left, right, out;
    cublasLtMatmulAlgo_t algorithm;
    cublasComputeType_t compute;
    cudaDataType_t in_type, out_type;
    size_t workspace_bytes; /* at most */
    int left_alignment, right_alignment, out_alignment, bias_alignment, kept_alignment;
} blas_call;

weft_status blas_status(cublasStatus_t s, const char *doing, weft_error *error);

/* Builds the descriptors; the algorithm is not chosen yet. blas_call_free after either. */
weft_status blas_call_new(const weft_node *n, const kernel_env *env, const blas_plan *plan, blas_call *call,
                          weft_error *error);
void blas_call_free(blas_call *call);
/* Where the bias (or its gradient) and what is kept lie, if the call has them; before that is known, as when an algorithm
 * is chosen, blas_call_new has set places of the same alignment. */
cublasStatus_t blas_call_places(const blas_plan *plan, const blas_call *call, const void *bias, const void *kept);

/* Up to `room` algorithms within the workspace's cap, the library's favourite first. */
weft_status blas_algorithms(const blas_call *call, const kernel_env *env, cublasLtMatmulAlgo_t *found, int room, int *n,
                            weft_error *error);
/* Builds the descriptors and takes the algorithm that the calibration table names for the node, if it names one that the
 * library still takes, else the first. The table, or a library that has no algorithm for the epilogue, may put that
 * apart: the plan has it so from then on. */
weft_status blas_open(const weft_node *n, const kernel_env *env, blas_plan *plan, blas_call *call, weft_error *error);
/* What stands in tables before the algorithm of a product whose epilogue is apart. */
#define BLAS_APART "apart "
/* "id=66 tile=20 stages=36 ...", what tables hold. */
bool blas_algorithm_write(text *t, const cublasLtMatmulAlgo_t *algorithm);

/* c->workspace as the library's own, aligned. */
static inline void *blas_workspace(const blas_plan *plan, void *workspace) {
    return (char *)workspace + plan->library_at;
}

/* Puts all products on the stream. */
cublasStatus_t blas_run(const blas_plan *plan, const blas_call *call, const struct cuda_context *cuda, const void *a,
                        const void *b, void *out, size_t in_width, size_t out_width, void *workspace);

/* What an epilogue that is apart leaves to do behind the products. */
weft_status blas_epilogue_apart(const kernel_call *c, const blas_plan *plan);

#endif
