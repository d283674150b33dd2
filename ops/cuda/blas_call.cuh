/* blas_call.cuh - one product as cuBLASLt sees it, and the algorithm it is done by. */
#ifndef WEFT_OPS_CUDA_BLAS_CALL_CUH
#define WEFT_OPS_CUDA_BLAS_CALL_CUH

#include <cublasLt.h>

extern "C" {
#include "ops/cuda/blas.h"
}

/* Row-major c = a b is column-major c' = b' a': the library's A is b here, its B is a. */
typedef struct blas_call {
    cublasLtMatmulDesc_t what;
    cublasLtMatrixLayout_t left, right, out;
    cublasLtMatmulAlgo_t algorithm;
    cublasComputeType_t compute;
    cudaDataType_t in_type, out_type;
    size_t workspace_bytes; /* at most */
    int left_alignment, right_alignment, out_alignment, bias_alignment;
} blas_call;

weft_status blas_status(cublasStatus_t s, const char *doing, weft_error *error);

/* Builds the descriptors; the algorithm is not chosen yet. blas_call_free after either. */
weft_status blas_call_new(const weft_node *n, const kernel_env *env, const blas_plan *plan, blas_call *call,
                          weft_error *error);
void blas_call_free(blas_call *call);
/* The bias' place, or before any is known one of the same alignment. */
cublasStatus_t blas_call_bias(const blas_call *call, const void *bias);

/* Up to `room` algorithms within the workspace's cap, the library's favourite first. */
weft_status blas_algorithms(const blas_call *call, const kernel_env *env, cublasLtMatmulAlgo_t *found, int room, int *n,
                            weft_error *error);
/* The one that the calibration table names for the node, if it has it and the library still takes it, else the first. */
weft_status blas_choose(const weft_node *n, const kernel_env *env, blas_call *call, weft_error *error);
/* "id=66 tile=20 stages=36 ...", what tables hold. */
bool blas_algorithm_write(text *t, const cublasLtMatmulAlgo_t *algorithm);

/* c->workspace as the library's own, aligned. */
static inline void *blas_workspace(const blas_plan *plan, void *workspace) {
    return (char *)workspace + plan->library_at;
}

/* Puts all products on the stream. */
cublasStatus_t blas_run(const blas_plan *plan, const blas_call *call, const struct cuda_context *cuda, const void *a,
                        const void *b, void *out, size_t in_width, size_t out_width, void *workspace);

#endif
