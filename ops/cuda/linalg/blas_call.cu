/* blas_call.cu - see blas_call.cuh: descriptors, and enqueueing products. */
#include "ops/cuda/linalg/blas_call.cuh"

extern "C" {
#include "ops/cuda/kit/operand.h"
}

#include <string.h>

/* cuBLASLt's status as ours; `doing` says what failed. */
weft_status blas_status(cublasStatus_t s, const char *doing, weft_error *error) {
    if (s == CUBLAS_STATUS_SUCCESS) return WEFT_OK;
    if (s == CUBLAS_STATUS_ALLOC_FAILED) return error_memory(error, "cuBLASLt");
    return error_set(error, s == CUBLAS_STATUS_NOT_SUPPORTED ? WEFT_UNSUPPORTED : WEFT_DEVICE,
                     "cuBLASLt: %s: %s", doing, cublasLtGetStatusString(s));
}

static cudaDataType_t type_of_elements(weft_dtype dtype) {
    return dtype == WEFT_BF16 ? CUDA_R_16BF : dtype == WEFT_F16 ? CUDA_R_16F : CUDA_R_32F;
}

/* ---- descriptors ---- */

static cublasStatus_t set(cublasLtMatmulDesc_t what, cublasLtMatmulDescAttributes_t attribute,
                          const void *value, size_t bytes) {
    return cublasLtMatmulDescSetAttribute(what, attribute, value, bytes);
}

/* The layout of one operand. The library's matrices are column-major: our rows are its columns. A matrix that
 * is contiguous by columns is described as its transpose. */
static cublasStatus_t layout_new(const blas_plan *plan, const matrices *m, cudaDataType_t type,
                                 bool *transposed, cublasLtMatrixLayout_t *layout) {
    *transposed = !(m->column_stride == 1 && m->row_stride >= m->columns);
    cublasStatus_t s = *transposed ? cublasLtMatrixLayoutCreate(layout, type, (uint64_t)m->rows,
                                                                (uint64_t)m->columns, m->column_stride)
                                   : cublasLtMatrixLayoutCreate(layout, type, (uint64_t)m->columns,
                                                                (uint64_t)m->rows, m->row_stride);
    if (s != CUBLAS_STATUS_SUCCESS || plan->count == 1) return s;
    int32_t count = (int32_t)plan->count;
    int64_t stride = m->batch[plan->along] > 1 ? m->batch_stride[plan->along] : 0;
    s = cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                             sizeof stride);
    return s;
}

/* The library's A is our b, its B our a: see blas_call. */
static cublasStatus_t layouts_new(const blas_plan *plan, blas_call *call) {
    bool transposed[3];
    cublasStatus_t s = layout_new(plan, &plan->p.b, call->in_type, &transposed[0], &call->left);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = layout_new(plan, &plan->p.a, call->in_type, &transposed[1], &call->right);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = layout_new(plan, &plan->p.out, call->out_type, &transposed[2], &call->out);
    for (int i = 0; i < 2 && s == CUBLAS_STATUS_SUCCESS; i++) {
        cublasOperation_t operation = transposed[i] ? CUBLAS_OP_T : CUBLAS_OP_N;
        s = set(call->what, i ? CUBLASLT_MATMUL_DESC_TRANSB : CUBLASLT_MATMUL_DESC_TRANSA, &operation,
                sizeof operation);
    }
    return s;
}

/* The library's epilogue of a forward product, by activation, and by [bias] + 2 [kept]. */
static const cublasLtEpilogue_t forward[ACTS][4] = {
    {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS},
    {CUBLASLT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_RELU_BIAS, CUBLASLT_EPILOGUE_RELU_AUX,
     CUBLASLT_EPILOGUE_RELU_AUX_BIAS},
    {CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_BIAS, CUBLASLT_EPILOGUE_GELU_AUX,
     CUBLASLT_EPILOGUE_GELU_AUX_BIAS},
};
static const cublasLtEpilogue_t backward[ACTS] = {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_DRELU,
                                                  CUBLASLT_EPILOGUE_DGELU};

/* BGRADB sums the library's B, which is our left operand. */
static cublasLtEpilogue_t epilogue_of(const blas_plan *plan) {
    const blas_epilogue *e = &plan->epilogue;
    if (e->is_apart) return forward[ACT_NONE][plan->p.bias > 0];
    if (e->sums) return CUBLASLT_EPILOGUE_BGRADB;
    return e->is_backward ? backward[e->act] : forward[e->act][(plan->p.bias > 0) + 2 * e->keeps];
}

static bool has_bias_pointer(const blas_plan *plan) {
    return plan->p.bias || (plan->epilogue.sums && !plan->epilogue.is_apart);
}

static bool has_kept_pointer(const blas_plan *plan) {
    return blas_reads_kept(plan) && !plan->epilogue.is_apart;
}

cublasStatus_t blas_call_places(const blas_plan *plan, const blas_call *call, const void *bias,
                                const void *kept) {
    cublasStatus_t s = CUBLAS_STATUS_SUCCESS;
    if (has_bias_pointer(plan)) s = set(call->what, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    if (has_kept_pointer(plan) && s == CUBLAS_STATUS_SUCCESS)
        s = set(call->what, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &kept, sizeof kept);
    return s;
}

/* The element types are the library's choice: the type of the result for a bias, its gradient and GELU's
 * operand, bits for ReLU. The library looks at the alignment of these pointers when it chooses an algorithm,
 * so numbers with the right alignment serve before the real pointers are known. */
static cublasStatus_t epilogue_new(const blas_plan *plan, blas_call *call) {
    cublasLtEpilogue_t epilogue = epilogue_of(plan);
    int64_t columns = plan->epilogue.kept_columns;
    cublasStatus_t s = CUBLAS_STATUS_SUCCESS;
    if (epilogue == CUBLASLT_EPILOGUE_DEFAULT) return s;
    s = set(call->what, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    if (has_kept_pointer(plan) && s == CUBLAS_STATUS_SUCCESS)
        s = set(call->what, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &columns, sizeof columns);
    return s == CUBLAS_STATUS_SUCCESS
               ? blas_call_places(plan, call, (const void *)(uintptr_t)call->bias_alignment,
                                  (const void *)(uintptr_t)call->kept_alignment)
               : s;
}

/* The value with the kept elements; NULL: none. */
static const weft_value *kept_value(const weft_node *n, const blas_plan *plan) {
    if (!blas_reads_kept(plan)) return NULL;
    return plan->epilogue.is_backward ? n->in[2] : &n->out[1];
}

/* Alignments in bytes of everything that the call points to; `left` and `right` are the library's A and B. */
static void alignments(const weft_node *n, const blas_plan *plan, blas_call *call) {
    size_t in = dtype_bytes(n->in[0]->type.dtype), out = dtype_bytes(n->out[0].type.dtype);
    const weft_value *kept = kept_value(n, plan);
    call->left_alignment = blas_alignment(plan, &plan->p.b, plan->copies[1] ? NULL : n->in[1], in);
    call->right_alignment = blas_alignment(plan, &plan->p.a, plan->copies[0] ? NULL : n->in[0], in);
    call->out_alignment = blas_alignment(plan, &plan->p.out, &n->out[0], out);
    call->bias_alignment = call->kept_alignment = OPERAND_ALIGN;
    if (plan->p.bias && !plan->converts_bias) call->bias_alignment = operand_alignment(n->in[2]);
    if (plan->epilogue.sums) call->bias_alignment = operand_alignment(&n->out[1]);
    if (kept) call->kept_alignment = operand_alignment(kept);
}

/* On failure *call is half built: blas_call_free frees what is there. */
weft_status blas_call_new(const weft_node *n, const kernel_env *env, const blas_plan *plan, blas_call *call,
                          weft_error *error) {
    weft_dtype in = n->in[0]->type.dtype, out = n->out[0].type.dtype;
    memset(call, 0, sizeof *call);
    call->workspace_bytes = plan->library_bytes;
    call->in_type = type_of_elements(in);
    call->out_type = type_of_elements(out);
    /* sums are f32 for all types; TF32 only where the user allows it */
    call->compute = env->tf32 && in == WEFT_F32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    alignments(n, plan, call);
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

/* ---- runs ---- */
/* ---- running ---- */

/* One cublasLtMatmul for each step over the outer batch axes, all on the session's stream. Widths in
 * bytes. */
cublasStatus_t blas_run(const blas_plan *plan, const blas_call *call, const struct cuda_context *cuda,
                        const void *a, const void *b, void *out, size_t in_width, size_t out_width,
                        void *workspace) {
    const float one = 1, zero = 0;
    for (int64_t i = 0; i < plan->calls; i++) {
        const char *left = (const char *)b + (size_t)blas_offset(plan, &plan->p.b, i) * in_width;
        const char *right = (const char *)a + (size_t)blas_offset(plan, &plan->p.a, i) * in_width;
        char *to = (char *)out + (size_t)blas_offset(plan, &plan->p.out, i) * out_width;
        cublasStatus_t s =
            cublasLtMatmul((cublasLtHandle_t)cuda->blas, call->what, &one, left, call->left, right,
                           call->right, &zero, to, call->out, to, call->out, &call->algorithm,
                           blas_workspace(plan, workspace), plan->library_bytes, (cudaStream_t)cuda->stream);
        if (s != CUBLAS_STATUS_SUCCESS) return s;
    }
    return CUBLAS_STATUS_SUCCESS;
}
