/* dnn.cuh - one convolution of cuDNN's graph API, from shapes to a plan that runs.
 *
 * dnn.cu alone knows that API: descriptors with attributes that are finalized, an operation, a graph of it, engines that
 * the library's heuristics propose, the first of them that keeps our rules, a plan of that. An operation has one type:
 * a result wider than its operands is refused (9.19; fused with a conversion it is had, for seconds of compiling a plan).
 */
#ifndef WEFT_OPS_CUDA_DNN_DNN_CUH
#define WEFT_OPS_CUDA_DNN_DNN_CUH

extern "C" {
#include "ops/cuda/cuda.h"
}

typedef enum dnn_kind {
    DNN_CONV,        /* big, weight -> small */
    DNN_CONV_DATA,   /* small, weight -> big */
    DNN_CONV_WEIGHT, /* big, small -> weight */
} dnn_kind;

typedef struct dnn_tensor {
    tensor_type type; /* four axes, stored channels-last */
    int alignment;    /* of its first element, in bytes */
} dnn_tensor;

typedef struct dnn_conv {
    dnn_kind kind;
    dnn_tensor big, small, weight;
    int64_t pad[2], stride[2], dilation[2];
    size_t workspace_bytes; /* at most */
    bool may_round;         /* f32 operands to TF32: it was asked for, or they have no more bits */
} dnn_conv;

/* A plan with its descriptors; one run at a time. WEFT_UNSUPPORTED: the library has nothing within our rules. */
typedef struct dnn dnn;
weft_status dnn_new(const dnn_conv *what, const kernel_env *env, dnn **made, weft_error *error);
void dnn_free(dnn *d);

typedef struct dnn_buffers {
    void *big, *small, *weight, *workspace;
} dnn_buffers;
weft_status dnn_run(dnn *d, const struct cuda_context *cuda, const dnn_buffers *b, weft_error *error);

#endif
