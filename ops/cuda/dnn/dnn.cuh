/* dnn.cuh - one convolution of cuDNN's graph API, from shapes to a plan that runs.
 *
 * Only dnn.cu knows that API: descriptors with attributes that are finalized, an operation, a graph of it,
 * engines that the library's heuristics propose, the one that a table names or the first that keeps our
 * rules, and an execution plan of that one. An operation has one type: cuDNN 9.19 rejects a result wider than
 * its operands. It works when a conversion is fused to the operation, but building such a plan takes
 * seconds. */
#ifndef WEFT_OPS_CUDA_DNN_DNN_CUH
#define WEFT_OPS_CUDA_DNN_DNN_CUH

extern "C" {
#include "ops/calibration.h"
#include "ops/cuda/cuda.h"
}

typedef enum dnn_kind {
    DNN_CONV,        /* big, weight -> small */
    DNN_CONV_DATA,   /* small, weight -> big */
    DNN_CONV_WEIGHT, /* big, small -> weight */
} dnn_kind;

typedef struct dnn_tensor {
    tensor_type type; /* four or five axes, stored channels-last */
    int alignment;    /* of the first element's address, in bytes */
} dnn_tensor;

typedef struct dnn_conv {
    dnn_kind kind;
    dnn_tensor big, small, weight;
    int64_t pad[3], stride[3], dilation[3]; /* (depth,) height, width */
    size_t workspace_bytes;                 /* the most that a plan may need */
    /* f32 operands may become TF32: the user allowed it, or they have no more bits than that */
    bool may_round;
} dnn_conv;

/* A plan with its descriptors; one run at a time. `named` is a table's choice, or NULL; where the library
 * does not have it, its own first choice is taken. dnn_new fails with WEFT_UNSUPPORTED when the library has
 * nothing within our rules; dnn_free takes NULL. */
typedef struct dnn dnn;
weft_status dnn_new(const dnn_conv *what, const kernel_env *env, const char *named, dnn **made,
                    weft_error *error);
/* Only the engine that `named` describes; WEFT_UNSUPPORTED: the library has none such within our rules. */
weft_status dnn_new_exactly(const dnn_conv *what, const kernel_env *env, const char *named, dnn **made,
                            weft_error *error);
void dnn_free(dnn *d);

/* Appends to `list` the engine that dnn_new takes without a table, then the others that the library proposes
 * after it and our rules allow, which may not open. A line each, as tables have them: "engine=38 k5=1", the
 * engine's number, then its knobs by type. `skipped`: how many the rules exclude, by the note that does. */
weft_status dnn_engines(const dnn_conv *what, const kernel_env *env, text *list, text *skipped,
                        weft_error *error);
/* Times them on memory of its own (dnn_tune.cu). */
weft_status dnn_tune(const dnn_conv *what, const kernel_env *env, tuned *found, weft_error *error);

/* Addresses in the GPU's memory. */
typedef struct dnn_buffers {
    void *big, *small, *weight, *workspace;
} dnn_buffers;
/* Enqueues the convolution on the stream of cuda->dnn. */
weft_status dnn_run(dnn *d, const struct cuda_context *cuda, const dnn_buffers *b, weft_error *error);

#endif
