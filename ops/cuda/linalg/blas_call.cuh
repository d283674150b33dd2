/* blas_call.cuh - one product as cuBLASLt's descriptors, and the algorithm that does it. */
#ifndef WEFT_OPS_CUDA_LINALG_BLAS_CALL_CUH
#define WEFT_OPS_CUDA_LINALG_BLAS_CALL_CUH

#include <cublasLt.h>

extern "C" {
#include "ops/cuda/kit/operand.h"
#include "ops/cuda/linalg/blas.h"
}

/* Row-major c = a b is column-major c' = b' a', so the library's A (`left`) is b and its B (`right`) is a. */
typedef struct blas_call {
    cublasLtMatmulDesc_t what;
    cublasLtMatrixLayout_t left, right, out;
    cublasLtMatmulAlgo_t algorithm;
    cublasComputeType_t compute;
    cudaDataType_t in_type, out_type;
    size_t workspace_bytes; /* the most that the algorithm may use */
    /* In bytes. */
    int left_alignment, right_alignment, out_alignment, bias_alignment, kept_alignment;
} blas_call;

/* WEFT_OK, or an error "cuBLASLt: DOING: ...". */
weft_status blas_status(cublasStatus_t s, const char *doing, weft_error *error);

/* Builds the descriptors; the algorithm is not chosen yet. Call blas_call_free after success and after
 * failure. */
weft_status blas_call_new(const weft_node *n, const kernel_env *env, const blas_plan *plan, blas_call *call,
                          weft_error *error);
void blas_call_free(blas_call *call);
/* Sets the pointers of the bias (or its gradient) and of the kept values, if the call has them. Before these
 * are known, as when an algorithm is chosen, blas_call_new has set pointers with the same alignment. */
cublasStatus_t blas_call_places(const blas_plan *plan, const blas_call *call, const void *bias,
                                const void *kept);

/* Up to `room` algorithms that fit the workspace, the library's best estimate first; *n of them. */
weft_status blas_algorithms(const blas_call *call, const kernel_env *env, cublasLtMatmulAlgo_t *found,
                            int room, int *n, weft_error *error);
/* Builds the descriptors and takes the algorithm that the calibration table has for the node, if the library
 * still accepts it, else the library's first. The table, or a library without an algorithm for the epilogue,
 * may put the epilogue apart: plan->epilogue.is_apart is then set. */
weft_status blas_open(const weft_node *n, const kernel_env *env, blas_plan *plan, blas_call *call,
                      weft_error *error);
/* The prefix of an algorithm in a table, for a product whose epilogue is apart. */
#define BLAS_APART "apart "
/* Writes "id=66 tile=20 stages=36 ...", the form in tables. */
bool blas_algorithm_write(text *t, const cublasLtMatmulAlgo_t *algorithm);

/* The library's part of the workspace, aligned. */
static inline void *blas_workspace(const blas_plan *plan, void *workspace) {
    return operand_scratch(workspace, plan->library_at);
}

/* Enqueues all products on the stream; nothing waits. */
cublasStatus_t blas_run(const blas_plan *plan, const blas_call *call, const struct cuda_context *cuda,
                        const void *a, const void *b, void *out, size_t in_width, size_t out_width,
                        void *workspace);

/* Enqueues what an epilogue that is apart leaves to do after the products. */
weft_status blas_epilogue_apart(const kernel_call *c, const blas_plan *plan);

#endif
