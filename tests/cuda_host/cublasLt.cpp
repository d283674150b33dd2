/* cublasLt.cpp - see cublasLt.h: handles and descriptors; products are in cublasLt_matmul.cpp. Use of a
 * destroyed object and wrong sizes of attributes are errors. */
#include "cuda_host/cublasLt_inside.h"

#include <string.h>

template <class T> static cublasStatus_t destroy(T *object) {
    if (!is_alive(object)) return CUBLAS_STATUS_INVALID_VALUE;
    object->alive = 0;
    delete object;
    return CUBLAS_STATUS_SUCCESS;
}

/* Copies an attribute's value if it has the right size. */
template <class T> static cublasStatus_t take(T *into, const void *value, size_t bytes) {
    if (!value || bytes != sizeof *into) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(into, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- handles, descriptors ---- */

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
    int count;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (cuda_host::library_opens() != cudaSuccess) return CUBLAS_STATUS_INTERNAL_ERROR;
    *handle = new cublasLtContext;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    cublasStatus_t status = destroy(handle);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    return cuda_host::library_closes() == cudaSuccess ? status : CUBLAS_STATUS_INTERNAL_ERROR;
}

size_t cublasLtGetVersion(void) {
    return 130100;
}

const char *cublasLtGetStatusString(cublasStatus_t status) {
    switch (status) {
    case CUBLAS_STATUS_SUCCESS:
        return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
        return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
        return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
        return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED:
        return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR:
        return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED:
        return "CUBLAS_STATUS_NOT_SUPPORTED";
    }
    return "unknown";
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
    if (scale != CUDA_R_32F) return CUBLAS_STATUS_INVALID_VALUE;
    *desc = new cublasLtMatmulDescOpaque_t;
    (*desc)->compute = compute;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
    return destroy(desc);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute, const void *value,
                                              size_t bytes) {
    if (!is_alive(desc)) return CUBLAS_STATUS_INVALID_VALUE;
    switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
        return take(&desc->transpose[0], value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
        return take(&desc->transpose[1], value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return take(&desc->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return take(&desc->bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
        return take(&desc->aux, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
        return take(&desc->aux_ld, value, bytes);
    }
    return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType_t type, uint64_t rows,
                                          uint64_t columns, int64_t ld) {
    *layout = new cublasLtMatrixLayoutOpaque_t;
    (*layout)->type = type;
    (*layout)->rows = (int64_t)rows;
    (*layout)->columns = (int64_t)columns;
    (*layout)->ld = ld;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
    return destroy(layout);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void *value,
                                                size_t bytes) {
    if (!is_alive(layout)) return CUBLAS_STATUS_INVALID_VALUE;
    if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) return take(&layout->count, value, bytes);
    if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET) return take(&layout->stride, value, bytes);
    return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
    *preference = new cublasLtMatmulPreferenceOpaque_t;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
    return destroy(preference);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t bytes) {
    if (!is_alive(p)) return CUBLAS_STATUS_INVALID_VALUE;
    if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) return take(&p->workspace, value, bytes);
    if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) return take(&p->reductions, value, bytes);
    int which = attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
    return which >= 0 && which < 4 ? take(&p->alignment[which], value, bytes) : CUBLAS_STATUS_INVALID_VALUE;
}
