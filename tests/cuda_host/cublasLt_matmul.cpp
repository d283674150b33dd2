/* cublasLt_matmul.cpp - products of the emulated cuBLASLt. It rejects what the real library rejects: types
 * outside its table, leading dimensions and batch strides that overlap, addresses and strides below an
 * algorithm's alignment, a workspace that is too small or not aligned to 256 bytes; for epilogues, a missing
 * bias, and auxiliary memory that is not aligned to 256 bytes or whose rows are not multiples of 128 bits
 * (ReLU) or of 8 elements (GELU). It is stricter about memory that is not the GPU's and about destroyed
 * descriptors.
 *
 * There are five algorithms, so that choices matter: one that takes any alignment, fast ones that need 16
 * bytes, and two that split k; the one that adds partial sums in place adds them in another order each
 * time. */
#include "cuda_host/cublasLt_inside.h"
#include "cuda_host/library.h"

#include <algorithm>
#include <cmath>

using namespace cuda_host;

/* ---- algorithms ---- */

/* The contents of cublasLtMatmulAlgo_t's 64 bytes: the id, and the configuration by attribute. */
struct algorithm {
    uint32_t id, config[9];
};
static_assert(sizeof(algorithm) <= sizeof(cublasLtMatmulAlgo_t), "");

/* alignment: of addresses and strides, in bytes; ms: of a call, by the clock of events. */
static const struct {
    uint32_t tile, stages, splits, reduction, alignment;
    double ms;
} algorithms[] = {
    {20, 8, 1, CUBLASLT_REDUCTION_SCHEME_NONE, 16, 1.0},
    {24, 12, 1, CUBLASLT_REDUCTION_SCHEME_NONE, 16, 0.8},
    {20, 8, 3, CUBLASLT_REDUCTION_SCHEME_INPLACE, 16, 0.9},
    {20, 8, 4, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, 16, 2.0},
    {1, 0, 1, CUBLASLT_REDUCTION_SCHEME_NONE, 1, 4.0},
};
enum { FIRST_ID = 60, ALGORITHMS = sizeof algorithms / sizeof *algorithms };

static algorithm algorithm_make(int index) {
    algorithm a = {};
    a.id = (uint32_t)(FIRST_ID + index);
    a.config[CUBLASLT_ALGO_CONFIG_TILE_ID] = algorithms[index].tile;
    a.config[CUBLASLT_ALGO_CONFIG_STAGES_ID] = algorithms[index].stages;
    a.config[CUBLASLT_ALGO_CONFIG_SPLITK_NUM] = algorithms[index].splits;
    a.config[CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME] = algorithms[index].reduction;
    return a;
}

static algorithm algorithm_read(const cublasLtMatmulAlgo_t *from) {
    algorithm a;
    memcpy(&a, from, sizeof a);
    return a;
}

static cublasLtMatmulAlgo_t algorithm_write(const algorithm &a) {
    cublasLtMatmulAlgo_t to = {};
    memcpy(&to, &a, sizeof a);
    return to;
}

static bool algorithm_is_known(const algorithm &a) {
    return a.id >= FIRST_ID && a.id < FIRST_ID + ALGORITHMS && a.config[CUBLASLT_ALGO_CONFIG_SPLITK_NUM] >= 1;
}

cublasStatus_t cublasLtMatmulAlgoInit(cublasLtHandle_t handle, cublasComputeType_t, cudaDataType_t,
                                      cudaDataType_t, cudaDataType_t, cudaDataType_t, cudaDataType_t, int id,
                                      cublasLtMatmulAlgo_t *made) {
    if (!is_alive(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (id < FIRST_ID || id >= FIRST_ID + ALGORITHMS) return CUBLAS_STATUS_INVALID_VALUE;
    algorithm a = {};
    a.id = (uint32_t)id;
    a.config[CUBLASLT_ALGO_CONFIG_SPLITK_NUM] = 1;
    *made = algorithm_write(a);
    return CUBLAS_STATUS_SUCCESS;
}

static size_t config_bytes(cublasLtMatmulAlgoConfigAttributes_t attribute) {
    return attribute >= CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID ? 2 : 4;
}

cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t *algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    const void *value, size_t bytes) {
    algorithm a = algorithm_read(algo);
    if (!value || bytes != config_bytes(attribute) || attribute == CUBLASLT_ALGO_CONFIG_ID)
        return CUBLAS_STATUS_INVALID_VALUE;
    a.config[attribute] = 0;
    memcpy(&a.config[attribute], value, bytes);
    *algo = algorithm_write(a);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void *value, size_t bytes, size_t *written) {
    algorithm a = algorithm_read(algo);
    if (!value || bytes != config_bytes(attribute)) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(value, attribute == CUBLASLT_ALGO_CONFIG_ID ? &a.id : &a.config[attribute], bytes);
    *written = bytes;
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- the rules of a product ---- */

/* A call with copies of its descriptors: D [m, n] = A [m, k] B [k, n], column-major. */
struct matmul {
    cublasLtMatmulDescOpaque_t desc;
    cublasLtMatrixLayoutOpaque_t a, b, c, d;
    int64_t m, n, k;
};

/* The bits of an epilogue. */
enum { HAS_RELU = 2, HAS_BIAS = 4, IS_DRELU = 8, HAS_GELU = 32, IS_DGELU = 64, HAS_AUX = 128, SUMS_B = 512 };

static bool has(const matmul &p, int bits) {
    return p.desc.epilogue & bits;
}

static bool is_emulated(cublasLtEpilogue_t epilogue) {
    switch (epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT:
    case CUBLASLT_EPILOGUE_RELU:
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_RELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU:
    case CUBLASLT_EPILOGUE_GELU_BIAS:
    case CUBLASLT_EPILOGUE_RELU_AUX:
    case CUBLASLT_EPILOGUE_RELU_AUX_BIAS:
    case CUBLASLT_EPILOGUE_DRELU:
    case CUBLASLT_EPILOGUE_GELU_AUX:
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
    case CUBLASLT_EPILOGUE_DGELU:
    case CUBLASLT_EPILOGUE_BGRADB:
        return true;
    }
    return false;
}

static bool is_refusing; /* cublasLt_host_refuse_epilogues */

void cublasLt_host_refuse_epilogues(int on) {
    is_refusing = on;
}

/* What the documentation requires of bias, auxiliary memory and batches. */
static cublasStatus_t epilogue_check(const matmul &p) {
    bool is_mask = has(p, HAS_RELU | IS_DRELU);
    if (!is_emulated(p.desc.epilogue)) return CUBLAS_STATUS_INVALID_VALUE;
    if (is_refusing && has(p, ~(CUBLASLT_EPILOGUE_DEFAULT | HAS_BIAS))) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (has(p, HAS_BIAS | SUMS_B) && !p.desc.bias) return CUBLAS_STATUS_INVALID_VALUE;
    if (!has(p, HAS_AUX))
        return has(p, SUMS_B) && p.d.count > 1 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
    if (p.d.count > 1) /* a batch stride of the auxiliary memory is not emulated */
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (!p.desc.aux || (uintptr_t)p.desc.aux % 16 || p.desc.aux_ld < p.m ||
        p.desc.aux_ld % (is_mask ? 128 : 8))
        return CUBLAS_STATUS_INVALID_VALUE;
    return CUBLAS_STATUS_SUCCESS;
}

static element element_of(cudaDataType_t type) {
    return type == CUDA_R_32F ? ELEMENT_F32 : type == CUDA_R_16F ? ELEMENT_F16 : ELEMENT_BF16;
}

static cublasStatus_t layout_check(const cublasLtMatrixLayoutOpaque_t &l, int64_t rows, int64_t columns,
                                   int32_t count, bool is_result) {
    if (l.rows != rows || l.columns != columns || l.rows < 1 || l.columns < 1 || l.ld < l.rows ||
        l.count != count)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (is_result && count > 1 && l.stride < l.ld * (l.columns - 1) + l.rows)
        return CUBLAS_STATUS_INVALID_VALUE;
    return CUBLAS_STATUS_SUCCESS;
}

static bool types_are_supported(const matmul &p) {
    if (p.a.type != p.b.type || p.c.type != p.d.type) return false;
    if (p.desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32)
        return p.a.type == CUDA_R_32F && p.d.type == CUDA_R_32F;
    return p.desc.compute == CUBLAS_COMPUTE_32F && (p.d.type == p.a.type || p.d.type == CUDA_R_32F);
}

/* Fills *p from live descriptors whose shapes fit; else returns the library's error. */
static cublasStatus_t problem_of(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                 cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                 matmul *p) {
    if (!is_alive(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!is_alive(desc) || !is_alive(a) || !is_alive(b) || !is_alive(c) || !is_alive(d))
        return CUBLAS_STATUS_INVALID_VALUE;
    bool ta = desc->transpose[0] != CUBLAS_OP_N, tb = desc->transpose[1] != CUBLAS_OP_N;
    *p = {*desc, *a, *b, *c, *d, d->rows, d->columns, ta ? a->rows : a->columns};
    if (!types_are_supported(*p)) return CUBLAS_STATUS_NOT_SUPPORTED;
    cublasStatus_t s = layout_check(*a, ta ? p->k : p->m, ta ? p->m : p->k, d->count, false);
    if (s == CUBLAS_STATUS_SUCCESS) s = layout_check(*b, tb ? p->n : p->k, tb ? p->k : p->n, d->count, false);
    if (s == CUBLAS_STATUS_SUCCESS) s = layout_check(*c, p->m, p->n, d->count, true);
    if (s == CUBLAS_STATUS_SUCCESS) s = layout_check(*d, p->m, p->n, d->count, true);
    return s == CUBLAS_STATUS_SUCCESS ? epilogue_check(*p) : s;
}

static bool is_aligned(uint64_t x, uint32_t alignment) {
    return x % alignment == 0;
}

/* Whether addresses (or their known alignments), leading dimensions and batch strides suit the algorithm. */
static bool fits(const algorithm &x, const matmul &p, const uint64_t at[4]) {
    uint32_t wanted = algorithms[x.id - FIRST_ID].alignment;
    const cublasLtMatrixLayoutOpaque_t *layouts[] = {&p.a, &p.b, &p.c, &p.d};
    for (int i = 0; i < 4; i++) {
        uint64_t width = element_bytes(element_of(layouts[i]->type));
        if (!is_aligned(at[i], (uint32_t)std::max<uint64_t>(wanted, width))) return false;
        if (!is_aligned((uint64_t)layouts[i]->ld * width, wanted)) return false;
        if (!is_aligned((uint64_t)layouts[i]->stride * width, wanted)) return false;
    }
    uint64_t bias = (uint64_t)(uintptr_t)p.desc.bias;
    return !has(p, HAS_BIAS | SUMS_B) || is_aligned(bias, std::max(wanted / 2, 2u));
}

/* Bytes: a part of each split in f32, or some counters when parts are added in place. */
static size_t workspace_of(const algorithm &x, const matmul &p) {
    uint32_t splits = x.config[CUBLASLT_ALGO_CONFIG_SPLITK_NUM];
    size_t count = (size_t)p.m * (size_t)p.n * (size_t)p.d.count;
    if (splits == 1) return 0;
    return x.config[CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME] == CUBLASLT_REDUCTION_SCHEME_INPLACE
               ? 1024
               : splits * count * 4;
}

/* Takes any configuration of a known algorithm whose splits and reduction scheme fit each other. */
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t *algo,
                                       cublasLtMatmulHeuristicResult_t *result) {
    matmul p;
    cublasStatus_t s = problem_of(handle, desc, a, b, c, d, &p);
    algorithm x = algorithm_read(algo);
    if (s != CUBLAS_STATUS_SUCCESS) return s;
    if (!algorithm_is_known(x)) return CUBLAS_STATUS_INVALID_VALUE;
    const uint64_t anywhere[4] = {256, 256, 256, 256};
    uint32_t splits = x.config[CUBLASLT_ALGO_CONFIG_SPLITK_NUM],
             way = x.config[CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME];
    if ((splits > 1) != (way != CUBLASLT_REDUCTION_SCHEME_NONE) || !fits(x, p, anywhere))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    *result = {*algo, workspace_of(x, p), CUBLAS_STATUS_SUCCESS, 1.0f, {}};
    return CUBLAS_STATUS_SUCCESS;
}

/* The order of the algorithms depends on the shape, as in the real library. */
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t wish, int wanted,
                                              cublasLtMatmulHeuristicResult_t *results, int *found) {
    matmul p;
    *found = 0;
    if (wanted < 1 || !is_alive(wish)) return CUBLAS_STATUS_INVALID_VALUE;
    cublasStatus_t s = problem_of(handle, desc, a, b, c, d, &p);
    if (s != CUBLAS_STATUS_SUCCESS) return s;
    uint64_t at[4];
    for (int i = 0; i < 4; i++) at[i] = wish->alignment[i];
    for (int i = 0; i < ALGORITHMS && *found < wanted; i++) {
        algorithm x = algorithm_make((int)((i + p.m + p.n + p.k) % ALGORITHMS));
        uint32_t way = x.config[CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME];
        size_t bytes = workspace_of(x, p);
        if ((way & ~wish->reductions) || bytes > wish->workspace || !fits(x, p, at)) continue;
        results[(*found)++] = {algorithm_write(x), bytes, CUBLAS_STATUS_SUCCESS, 1.0f, {}};
    }
    return *found ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

/* ---- computing ---- */

/* op(x), column-major without gaps, rounded to TF32 if the compute type says so. */
static std::vector<float> load(const cublasLtMatrixLayoutOpaque_t &l, const void *from, int64_t batch,
                               bool transposed, bool tf32) {
    std::vector<float> to((size_t)(l.rows * l.columns));
    for (int64_t j = 0; j < l.columns; j++)
        for (int64_t i = 0; i < l.rows; i++) {
            float x = element_load(element_of(l.type), from, batch * l.stride + j * l.ld + i);
            to[(size_t)(transposed ? i * l.columns + j : j * l.rows + i)] = tf32 ? round_tf32(x) : x;
        }
    return to;
}

static float gelu(float z, bool slope) {
    const double k = 0.79788456080286535588, c = 0.044715;
    double x = z, t = std::tanh(k * (x + c * x * x * x));
    return (float)(slope ? 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * k * (1 + 3 * c * x * x)
                         : 0.5 * x * (1 + t));
}

/* The epilogue of element (i, j), bias included. In a byte of the mask only the bits of elements are
 * defined. */
static float finish(const matmul &p, int64_t i, int64_t j, float y) {
    int64_t at = j * p.desc.aux_ld + i;
    uint8_t *byte = has(p, HAS_AUX) ? static_cast<uint8_t *>(p.desc.aux) + at / 8 : nullptr;
    element type = element_of(p.d.type);
    if (has(p, IS_DRELU)) return *byte >> i % 8 & 1 ? y : 0.0f;
    if (has(p, IS_DGELU)) return y * gelu(element_load(type, p.desc.aux, at), true);
    if (has(p, HAS_RELU)) {
        if (byte) *byte = (uint8_t)((*byte & ~(1 << i % 8)) | (y > 0) << i % 8);
        return y > 0 ? y : 0.0f;
    }
    if (!has(p, HAS_GELU)) return y;
    if (byte) element_store(type, p.desc.aux, at, y);
    return gelu(y, false);
}

/* sums[j] = the sum of column j of op(B) */
static void sum_columns(const matmul &p, const std::vector<float> &right) {
    for (int64_t j = 0; j < p.n; j++) {
        float sum = 0;
        for (int64_t k = 0; k < p.k; k++) sum += right[(size_t)(j * p.k + k)];
        element_store(element_of(p.d.type), const_cast<void *>(p.desc.bias), j, sum);
    }
}

/* One matrix of the batch: the splits of k are summed apart, then added in `order`. */
static void compute_one(const matmul &p, const algorithm &x, float alpha, const void *a, const void *b,
                        float beta, const void *c, void *d, int64_t batch) {
    bool tf32 = p.desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    std::vector<float> left = load(p.a, a, batch, p.desc.transpose[0] != CUBLAS_OP_N, tf32),
                       right = load(p.b, b, batch, p.desc.transpose[1] != CUBLAS_OP_N, tf32),
                       sum((size_t)p.m), part((size_t)p.m);
    std::vector<int> order(x.config[CUBLASLT_ALGO_CONFIG_SPLITK_NUM]);
    for (size_t i = 0; i < order.size(); i++) order[i] = (int)i;
    if (x.config[CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME] == CUBLASLT_REDUCTION_SCHEME_INPLACE)
        for (size_t i = order.size(); i > 1; i--) std::swap(order[i - 1], order[cuda_host::random() % i]);
    int64_t length = (p.k + (int64_t)order.size() - 1) / (int64_t)order.size();
    for (int64_t j = 0; j < p.n; j++) {
        std::fill(sum.begin(), sum.end(), 0.0f);
        for (int split : order) {
            std::fill(part.begin(), part.end(), 0.0f);
            for (int64_t k = split * length; k < std::min(p.k, (split + 1) * length); k++)
                for (int64_t i = 0; i < p.m; i++)
                    part[(size_t)i] += left[(size_t)(k * p.m + i)] * right[(size_t)(j * p.k + k)];
            for (int64_t i = 0; i < p.m; i++) sum[(size_t)i] += part[(size_t)i];
        }
        for (int64_t i = 0; i < p.m; i++) {
            float y = alpha * sum[(size_t)i];
            if (beta != 0)
                y += beta * element_load(element_of(p.c.type), c, batch * p.c.stride + j * p.c.ld + i);
            if (has(p, HAS_BIAS)) y += element_load(element_of(p.d.type), p.desc.bias, i);
            element_store(element_of(p.d.type), d, batch * p.d.stride + j * p.d.ld + i, finish(p, i, j, y));
        }
    }
    if (has(p, SUMS_B)) sum_columns(p, right);
}

/* Bytes from the first element to the end of the last. */
static size_t span(const cublasLtMatrixLayoutOpaque_t &l) {
    int64_t count = (l.count - 1) * l.stride + (l.columns - 1) * l.ld + l.rows;
    return (size_t)count * element_bytes(element_of(l.type));
}

/* Whether every operand is in the GPU's memory. */
static bool memory_is_ours(const matmul &p, const void *a, const void *b, const void *d,
                           const void *workspace, size_t bytes) {
    size_t width = element_bytes(element_of(p.d.type)), bias = (size_t)(has(p, SUMS_B) ? p.n : p.m) * width,
           aux_bits = (size_t)(p.desc.aux_ld * p.n) * (has(p, HAS_RELU | IS_DRELU) ? 1 : 8 * width);
    return is_device_memory(a, span(p.a)) && is_device_memory(b, span(p.b)) &&
           is_device_memory(d, span(p.d)) && (!bytes || is_device_memory(workspace, bytes)) &&
           (!has(p, HAS_BIAS | SUMS_B) || is_device_memory(p.desc.bias, bias)) &&
           (!has(p, HAS_AUX) || is_device_memory(p.desc.aux, aux_bits / 8));
}

/* All checks but those of memory are made at the call; the product itself runs later, from copies of the
 * descriptors. */
cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                              cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                              cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspace_bytes,
                              cudaStream_t stream) {
    matmul p;
    cublasStatus_t s = problem_of(handle, desc, a_layout, b_layout, c_layout, d_layout, &p);
    if (s != CUBLAS_STATUS_SUCCESS) return s;
    algorithm x = algorithm_read(algo);
    const uint64_t at[4] = {(uintptr_t)a, (uintptr_t)b, (uintptr_t)c, (uintptr_t)d};
    size_t used = algorithm_is_known(x) ? workspace_of(x, p) : 0;
    if (!algorithm_is_known(x) || !a || !b || !c || !d || !fits(x, p, at)) return CUBLAS_STATUS_INVALID_VALUE;
    if (used > workspace_bytes || (uintptr_t)workspace % 256) return CUBLAS_STATUS_INVALID_VALUE;
    float scale = *static_cast<const float *>(alpha), keep = *static_cast<const float *>(beta);
    if (c == d && memcmp(&p.c.ld, &p.d.ld, sizeof p.c.ld)) return CUBLAS_STATUS_INVALID_VALUE;
    cudaError_t queued = enqueue(stream, "cublasLtMatmul", [=] {
        if (!memory_is_ours(p, a, b, d, workspace, workspace_bytes)) {
            trouble("cublasLtMatmul: an operand or the workspace is not the GPU's memory");
            return;
        }
        cuda_host::spend(algorithms[x.id - FIRST_ID].ms * 1e-3);
        for (int64_t i = 0; i < p.d.count; i++) compute_one(p, x, scale, a, b, keep, c, d, i);
        scribble(workspace, used, workspace_bytes);
    });
    return queued == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
