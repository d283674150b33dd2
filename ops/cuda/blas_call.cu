/* blas_call.cu - see blas_call.cuh: descriptors, and putting products on the stream. */
#include "ops/cuda/blas_call.cuh"

extern "C" {
#include "ops/cuda/operand.h"
}

#include <string.h>

weft_status blas_status(cublasStatus_t s, const char *doing, weft_error *error) {
    if (s == CUBLAS_STATUS_SUCCESS) return WEFT_OK;
    if (s == CUBLAS_STATUS_ALLOC_FAILED) return error_memory(error, "cuBLASLt");
    return error_set(error, s == CUBLAS_STATUS_NOT_SUPPORTED ? WEFT_UNSUPPORTED : WEFT_DEVICE, "cuBLASLt: %s: %s",
                     doing, cublasLtGetStatusString(s));
}

static cudaDataType_t type_of_elements(weft_dtype dtype) {
    return dtype == WEFT_BF16 ? CUDA_R_16BF : dtype == WEFT_F16 ? CUDA_R_16F : CUDA_R_32F;
}

/* ---- descriptors ---- */

static cublasStatus_t set(cublasLtMatmulDesc_t what, cublasLtMatmulDescAttributes_t attribute, const void *value,
                          size_t bytes) {
    return cublasLtMatmulDescSetAttribute(what, attribute, value, bytes);
}

/* Rows of m are columns there; a matrix that lies by columns is handed over as its transpose. */
static cublasStatus_t layout_new(const blas_plan *plan, const matrices *m, cudaDataType_t type, bool *transposed,
                                 cublasLtMatrixLayout_t *layout) {
    *transposed = !(m->column_stride == 1 && m->row_stride >= m->columns);
    cublasStatus_t s =
        *transposed ? cublasLtMatrixLayoutCreate(layout, type, (uint64_t)m->rows, (uint64_t)m->columns, m->column_stride)
                    : cublasLtMatrixLayoutCreate(layout, type, (uint64_t)m->columns, (uint64_t)m->rows, m->row_stride);
    if (s != CUBLAS_STATUS_SUCCESS || plan->count == 1) return s;
    int32_t count = (int32_t)plan->count;
    int64_t stride = m->batch[plan->along] > 1 ? m->batch_stride[plan->along] : 0;
    s = cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                             sizeof stride);
    return s;
}

static cublasStatus_t layouts_new(const blas_plan *plan, blas_call *call) {
    bool transposed[3];
    cublasStatus_t s = layout_new(plan, &plan->p.b, call->in_type, &transposed[0], &call->left);
    if (s == CUBLAS_STATUS_SUCCESS) s = layout_new(plan, &plan->p.a, call->in_type, &transposed[1], &call->right);
    if (s == CUBLAS_STATUS_SUCCESS) s = layout_new(plan, &plan->p.out, call->out_type, &transposed[2], &call->out);
    for (int i = 0; i < 2 && s == CUBLAS_STATUS_SUCCESS; i++) {
        cublasOperation_t operation = transposed[i] ? CUBLAS_OP_T : CUBLAS_OP_N;
        s = set(call->what, i ? CUBLASLT_MATMUL_DESC_TRANSB : CUBLASLT_MATMUL_DESC_TRANSA, &operation, sizeof operation);
    }
    return s;
}

/* The library looks at the pointer's alignment when it picks an algorithm. */
static cublasStatus_t epilogue_new(const blas_plan *plan, blas_call *call) {
    if (!plan->p.bias) return CUBLAS_STATUS_SUCCESS;
    cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    cublasStatus_t s = set(call->what, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    return s == CUBLAS_STATUS_SUCCESS ? blas_call_bias(call, (const void *)(uintptr_t)call->bias_alignment) : s;
}

cublasStatus_t blas_call_bias(const blas_call *call, const void *bias) {
    return set(call->what, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
}

weft_status blas_call_new(const weft_node *n, const kernel_env *env, const blas_plan *plan, blas_call *call,
                          weft_error *error) {
    weft_dtype in = n->in[0]->type.dtype, out = n->out[0].type.dtype;
    memset(call, 0, sizeof *call);
    call->workspace_bytes = plan->library_bytes;
    call->in_type = type_of_elements(in);
    call->out_type = type_of_elements(out);
    call->compute = env->tf32 && in == WEFT_F32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    call->left_alignment =
        blas_alignment(plan, &plan->p.b, plan->copies[1] ? NULL : n->in[1], dtype_bytes(in));
    call->right_alignment =
        blas_alignment(plan, &plan->p.a, plan->copies[0] ? NULL : n->in[0], dtype_bytes(in));
    call->out_alignment = blas_alignment(plan, &plan->p.out, &n->out[0], dtype_bytes(out));
    call->bias_alignment = plan->p.bias && !plan->converts_bias ? operand_alignment(n->in[2]) : OPERAND_ALIGN;
    if (plan->count > INT32_MAX || plan->calls > INT32_MAX)
        return error_set(error, WEFT_UNSUPPORTED, "%s: more products than cuBLASLt counts", n->op->name);
    cublasStatus_t s = cublasLtMatmulDescCreate(&call->what, call->compute, CUDA_R_32F);
    if (s == CUBLAS_STATUS_SUCCESS) s = layouts_new(plan, call);
    if (s == CUBLAS_STATUS_SUCCESS) s = epilogue_new(plan, call);
    return blas_status(s, "describing a product", error);
}

void blas_call_free(blas_call *call) {
    if (call->left) cublasLtMatrixLayoutDestroy(call->left);
    if (call->right) cublasLtMatrixLayoutDestroy(call->right);
    if (call->out) cublasLtMatrixLayoutDestroy(call->out);
    if (call->what) cublasLtMatmulDescDestroy(call->what);
    memset(call, 0, sizeof *call);
}

/* ---- running ---- */

cublasStatus_t blas_run(const blas_plan *plan, const blas_call *call, const struct cuda_context *cuda, const void *a,
                        const void *b, void *out, size_t in_width, size_t out_width, void *workspace) {
    const float one = 1, zero = 0;
    for (int64_t i = 0; i < plan->calls; i++) {
        const char *left = (const char *)b + (size_t)blas_offset(plan, &plan->p.b, i) * in_width;
        const char *right = (const char *)a + (size_t)blas_offset(plan, &plan->p.a, i) * in_width;
        char *to = (char *)out + (size_t)blas_offset(plan, &plan->p.out, i) * out_width;
        cublasStatus_t s =
            cublasLtMatmul((cublasLtHandle_t)cuda->blas, call->what, &one, left, call->left, right, call->right, &zero,
                           to, call->out, to, call->out, &call->algorithm, blas_workspace(plan, workspace),
                           plan->library_bytes, (cudaStream_t)cuda->stream);
        if (s != CUBLAS_STATUS_SUCCESS) return s;
    }
    return CUBLAS_STATUS_SUCCESS;
}
