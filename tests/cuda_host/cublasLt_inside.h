/* cublasLt_inside.h - the objects of the emulated cuBLASLt, for its two files. Every object has a mark that
 * is cleared when it is destroyed, so that later use is found. */
#ifndef CUDA_HOST_CUBLASLT_INSIDE_H
#define CUDA_HOST_CUBLASLT_INSIDE_H

#include "cuda_host/cublasLt.h"
#include "cuda_host/cuda_host.h"

enum { ALIVE = 0x57454654 }; /* "WEFT" in ASCII */

struct cublasLtContext {
    int alive = ALIVE;
};

struct cublasLtMatmulDescOpaque_t {
    int alive = ALIVE;
    cublasComputeType_t compute;
    cublasOperation_t transpose[2] = {CUBLAS_OP_N, CUBLAS_OP_N}; /* of A and B */
    cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    const void *bias = nullptr;
    void *aux = nullptr;
    int64_t aux_ld = 0;
};

struct cublasLtMatrixLayoutOpaque_t {
    int alive = ALIVE;
    cudaDataType_t type;
    int64_t rows, columns, ld; /* column-major: ld elements from column to column */
    int32_t count = 1;         /* matrices of a batch, and elements from one to the next */
    int64_t stride = 0;
};

struct cublasLtMatmulPreferenceOpaque_t {
    int alive = ALIVE;
    uint64_t workspace = 0;
    uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
    uint32_t alignment[4] = {256, 256, 256, 256}; /* of A, B, C, D in bytes */
};

template <class T> static bool is_alive(const T *object) {
    return object && object->alive == ALIVE;
}

#endif
