/* blas_choose.cu - chooses the algorithm of cuBLASLt for a product: the library's own estimate, or what
 * `graphtool calibrate` found. Nothing is timed here. */
#include "ops/cuda/linalg/blas_call.cuh"

extern "C" {
#include "ops/calibration.h"
#include "ops/cuda/kit/operand.h"
}

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the library's estimate ---- */

static cublasStatus_t prefer(cublasLtMatmulPreference_t p, cublasLtMatmulPreferenceAttributes_t attribute,
                             uint32_t value) {
    return cublasLtMatmulPreferenceSetAttribute(p, attribute, &value, sizeof value);
}

/* What an algorithm must satisfy. Split sums that are added in place are added in the order in which blocks
 * finish, so deterministic runs exclude them. */
static cublasStatus_t preferences(const blas_call *call, const kernel_env *env,
                                  cublasLtMatmulPreference_t p) {
    uint64_t cap = call->workspace_bytes;
    cublasStatus_t s =
        cublasLtMatmulPreferenceSetAttribute(p, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &cap, sizeof cap);
    if (s == CUBLAS_STATUS_SUCCESS && env->deterministic)
        s = prefer(p, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                   CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = prefer(p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, (uint32_t)call->left_alignment);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = prefer(p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, (uint32_t)call->right_alignment);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = prefer(p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, (uint32_t)call->out_alignment);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = prefer(p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, (uint32_t)call->out_alignment);
    return s;
}

enum { MOST = 32 }; /* most algorithms of one query */

/* One query of the library's heuristic, which answers for alignments, types and workspace without running
 * anything. */
weft_status blas_algorithms(const blas_call *call, const kernel_env *env, cublasLtMatmulAlgo_t *found,
                            int room, int *n, weft_error *error) {
    cublasLtMatmulHeuristicResult_t results[MOST];
    cublasLtMatmulPreference_t p;
    int count = 0;
    *n = 0;
    cublasStatus_t s = cublasLtMatmulPreferenceCreate(&p);
    if (s != CUBLAS_STATUS_SUCCESS) return blas_status(s, "choosing an algorithm", error);
    s = preferences(call, env, p);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = cublasLtMatmulAlgoGetHeuristic((cublasLtHandle_t)env->cuda->blas, call->what, call->left,
                                           call->right, call->out, call->out, p, room < MOST ? room : MOST,
                                           results, &count);
    cublasLtMatmulPreferenceDestroy(p);
    for (int i = 0; i < count && s == CUBLAS_STATUS_SUCCESS; i++)
        if (results[i].state == CUBLAS_STATUS_SUCCESS) found[(*n)++] = results[i].algo;
    if (s == CUBLAS_STATUS_SUCCESS && *n == 0) s = CUBLAS_STATUS_NOT_SUPPORTED;
    return blas_status(s, "choosing an algorithm", error);
}

/* ---- algorithms as text ---- */

/* The fields of an algorithm after its id, in the order of the text; zeros are left out. */
static const struct {
    const char *name;
    cublasLtMatmulAlgoConfigAttributes_t attribute;
    size_t bytes;
} fields[] = {
    {"tile", CUBLASLT_ALGO_CONFIG_TILE_ID, 4},
    {"stages", CUBLASLT_ALGO_CONFIG_STAGES_ID, 4},
    {"splitk", CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 4},
    {"reduction", CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, 4},
    {"swizzle", CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, 4},
    {"custom", CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, 4},
    {"inner", CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, 2},
    {"cluster", CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, 2},
};
enum { FIELDS = sizeof fields / sizeof *fields };

/* A field of 2 or 4 bytes as a number. Little-endian, as every machine with CUDA: the first `bytes` of
 * `value` are the field. */
static bool field_get(const cublasLtMatmulAlgo_t *algorithm, int attribute, size_t bytes, uint32_t *value) {
    size_t written;
    *value = 0;
    return cublasLtMatmulAlgoConfigGetAttribute(algorithm, (cublasLtMatmulAlgoConfigAttributes_t)attribute,
                                                value, bytes, &written) == CUBLAS_STATUS_SUCCESS;
}

bool blas_algorithm_write(text *t, const cublasLtMatmulAlgo_t *algorithm) {
    uint32_t value;
    if (!field_get(algorithm, CUBLASLT_ALGO_CONFIG_ID, 4, &value)) return false;
    text_add(t, "id=%u", value);
    for (int i = 0; i < FIELDS; i++) {
        if (!field_get(algorithm, fields[i].attribute, fields[i].bytes, &value)) return false;
        if (value) text_add(t, " %s=%u", fields[i].name, value);
    }
    return true;
}

/* Reads " name=3" at *at and moves past it. Returns false, without moving, when another field is there. */
static bool field_read(const char **at, const char *name, uint32_t *value) {
    int used = 0;
    char format[32];
    snprintf(format, sizeof format, " %s=%%u%%n", name);
    if (sscanf(*at, format, value, &used) < 1 || used == 0) return false;
    *at += used;
    return true;
}

/* Returns false for text that is not an algorithm, or one that this library does not know. */
static bool algorithm_read(const char *from, const blas_call *call, const kernel_env *env,
                           cublasLtMatmulAlgo_t *algorithm) {
    uint32_t value;
    if (!field_read(&from, "id", &value)) return false;
    if (cublasLtMatmulAlgoInit((cublasLtHandle_t)env->cuda->blas, call->compute, CUDA_R_32F, call->in_type,
                               call->in_type, call->out_type, call->out_type, (int)value,
                               algorithm) != CUBLAS_STATUS_SUCCESS)
        return false;
    for (int i = 0; i < FIELDS; i++)
        if (field_read(&from, fields[i].name, &value) &&
            cublasLtMatmulAlgoConfigSetAttribute(algorithm, fields[i].attribute, &value, fields[i].bytes) !=
                CUBLAS_STATUS_SUCCESS)
            return false;
    return *from == 0;
}

/* ---- the choice ---- */

/* Whether the algorithm of a table can be used here. Tables come from other versions and other GPUs; what
 * does not fit is ignored. */
static bool is_taken(const blas_call *call, const kernel_env *env, const cublasLtMatmulAlgo_t *algorithm) {
    cublasLtMatmulHeuristicResult_t result;
    uint32_t scheme;
    if (!field_get(algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, 4, &scheme)) return false;
    if (env->deterministic && scheme & CUBLASLT_REDUCTION_SCHEME_INPLACE) return false;
    return cublasLtMatmulAlgoCheck((cublasLtHandle_t)env->cuda->blas, call->what, call->left, call->right,
                                   call->out, call->out, algorithm, &result) == CUBLAS_STATUS_SUCCESS &&
           result.workspaceSize <= call->workspace_bytes;
}

/* `named`: the table's algorithm, or NULL. */
static weft_status open_once(const weft_node *n, const kernel_env *env, const blas_plan *plan,
                             const char *named, blas_call *call, weft_error *error) {
    int count;
    weft_status status = blas_call_new(n, env, plan, call, error);
    if (status != WEFT_OK) return status;
    if (named && algorithm_read(named, call, env, &call->algorithm) && is_taken(call, env, &call->algorithm))
        return WEFT_OK;
    return blas_algorithms(call, env, &call->algorithm, 1, &count, error);
}

/* Tries the fused epilogue first; if the library has no algorithm for it, the plain product with the epilogue
 * apart. The gradient of a bias is apart unless a table says otherwise: sums fused to a product have been
 * reported to slow it down by more than a pass over dy takes (NVIDIA/CUDALibrarySamples#90). Out of memory is
 * no reason to try again. */
weft_status blas_open(const weft_node *n, const kernel_env *env, blas_plan *plan, blas_call *call,
                      weft_error *error) {
    weft_error first = {};
    const char *named = calibration_find(n, env);
    blas_epilogue *e = &plan->epilogue;
    if (named && blas_has_epilogue(plan) && strncmp(named, BLAS_APART, strlen(BLAS_APART)) == 0) {
        e->is_apart = true;
        named += strlen(BLAS_APART);
    }
    if (!named && e->sums) e->is_apart = true;
    weft_status status = open_once(n, env, plan, named, call, &first);
    if (status == WEFT_OK) return status;
    if (status == WEFT_MEMORY || e->is_apart || !blas_has_epilogue(plan))
        return error_set(error, status, "%s", first.text);
    blas_call_free(call);
    e->is_apart = true;
    return open_once(n, env, plan, NULL, call, error);
}
