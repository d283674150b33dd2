/* layers.h - ops together with their parameters, which are made (PyTorch's default initial values) or found
 * under scope/name. Parameter names and shapes are those of the torch.nn module, so a state_dict saved as
 * safetensors loads as it is ("generator.fc.weight" is generator/fc/weight).
 */
#ifndef WEFT_LAYERS_H
#define WEFT_LAYERS_H

#include "weft/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Options of linear and embedding; NULL or zeroes: torch's defaults. */
typedef struct weft_linear_options {
    bool no_bias;
    const weft_init *weight, *bias; /* NULL: uniform within 1/sqrt(in), as torch.nn.Linear; no bias with no_bias */
} weft_linear_options;

/* x[..., in] -> [..., out]; weight[out, in], bias[out]. */
WEFT_API weft_value *weft_linear(weft_value *x, int64_t out, const char *name);
WEFT_API weft_value *weft_linear_with(weft_value *x, int64_t out, const char *name,
                                      const weft_linear_options *options);

/* Convolutions: out channels, kernel and the window. Square; for others use weft_conv2d_op. */
typedef struct weft_conv {
    int64_t out, kernel;      /* at least 1: they have no default */
    int64_t stride, dilation; /* 0: 1 */
    int64_t pad;
    int64_t groups;         /* 0: 1 */
    int64_t output_padding; /* conv_transpose2d; an error in conv2d */
    bool no_bias;
    const weft_init *weight, *bias; /* NULL: kaiming uniform with a = sqrt 5, as torch.nn */
} weft_conv;
WEFT_API weft_value *weft_conv2d(weft_value *x, const weft_conv *conv, const char *name);
WEFT_API weft_value *weft_conv_transpose2d(weft_value *x, const weft_conv *conv, const char *name);

/* x[N, C] or [N, C, H, W]; weight, bias, running_mean, running_var [C]; eps 1e-5, momentum 0.1.
 * Train mode normalizes by the batch and moves the running statistics (variance unbiased); eval uses them. */
typedef struct weft_batch_norm_options {
    double eps, momentum;    /* 0: 1e-5 and 0.1; WEFT_ZERO (train.h): a true 0; momentum at most 1 */
    const weft_init *weight; /* NULL: ones */
} weft_batch_norm_options;
WEFT_API weft_value *weft_batch_norm(weft_value *x, const char *name);
WEFT_API weft_value *weft_batch_norm_with(weft_value *x, const char *name,
                                          const weft_batch_norm_options *options);

/* Over the last axis; weight and bias [d]; eps 1e-5. */
WEFT_API weft_value *weft_layer_norm(weft_value *x, const char *name);

/* ids[...] -> [..., d]; weight[rows, d], NULL init: normal(0, 1) as torch.nn.Embedding. */
WEFT_API weft_value *weft_embedding(weft_value *ids, int64_t rows, int64_t d, const char *name,
                                    const weft_init *weight);

#ifdef __cplusplus
}
#endif
#endif
