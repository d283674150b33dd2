/** @file
 * layers.h - ops together with their parameters.
 *
 * A layer finds its parameters under scope/name, or makes them with PyTorch's default initial values. Names
 * and shapes of parameters are those of the torch.nn module, so a state_dict saved as safetensors loads as it
 * is ("generator.fc.weight" is generator/fc/weight). Like ops, layers return NULL after recording an
 * error.
 */
#ifndef WEFT_LAYERS_H
#define WEFT_LAYERS_H

#include "weft/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What the weight of a layer is computed from; torch.nn.utils.parametrizations, with its names of parameters
 * and state. */
typedef enum weft_parametrization {
    WEFT_PLAIN_WEIGHT = 0, /**< the parameter `weight` itself */
    /** weft_spectral_norm() of parametrizations/weight/original, by one iteration in each training graph.
     * Its u and v, in parametrizations/weight/0, begin at random, where PyTorch has iterated 15 times: run
     * a training graph, or load weights, before an eval graph. */
    WEFT_SPECTRAL_NORM = 1,
    /** The same by one iteration in each step of a training, however many micro-batches, ranks and uses in a
     * graph it has: u and v are moving means of momentum 0, two for a layer in each training graph
     * (weft_moving_mean()). With one micro-batch, rank and use it is WEFT_SPECTRAL_NORM. */
    WEFT_SPECTRAL_NORM_IN_STEP = 2,
    /** weft_weight_norm() of parametrizations/weight/original1 (v) by original0 (g). g begins as the length
     * that initial values have in the mean, in PyTorch as that of each v. */
    WEFT_WEIGHT_NORM = 3,
} weft_parametrization;

/** Options of weft_linear(); NULL or zeroes: torch's defaults. */
typedef struct weft_linear_options {
    bool no_bias;                         /**< leave out the bias */
    const weft_init *weight;              /**< NULL: uniform within 1/sqrt(in), as torch.nn.Linear */
    const weft_init *bias;                /**< NULL: the same; must be NULL with no_bias */
    weft_parametrization parametrization; /**< 0: none */
    uint64_t reserved[WEFT_RESERVED];     /**< zeros (status.h) */
} weft_linear_options;

/** x[..., in] -> [..., out], with parameters weight[out, in] and bias[out]. */
WEFT_API weft_value *weft_linear(weft_value *x, int64_t out, const char *name,
                                 const weft_linear_options *options);

/** A convolution. A number is for all axes of the kernel; where they differ, {height, width} with _hw after
 * its name stands in its place, or of a volume {depth, height, width} with _dhw, for one or for all: {.out =
 * 64, .kernel_hw = {1, 7}, .pad_hw = {0, 3}}. */
typedef struct weft_conv {
    int64_t out;                   /**< channels of the result; at least 1: there is no default */
    int64_t kernel;                /**< at least 1: there is no default */
    int64_t stride;                /**< 0: 1 */
    int64_t dilation;              /**< 0: 1 */
    int64_t pad;                   /**< zeros on each side */
    int64_t groups;                /**< 0: 1 */
    int64_t output_padding;        /**< of transposed convolutions; an error in others */
    bool no_bias;                  /**< leave out the bias */
    const weft_init *weight;       /**< NULL: kaiming uniform with a = sqrt 5, as torch.nn */
    const weft_init *bias;         /**< NULL: uniform within 1/sqrt(fan_in); must be NULL with no_bias */
    int64_t kernel_hw[2];          /**< instead of kernel */
    int64_t stride_hw[2];          /**< instead of stride */
    int64_t dilation_hw[2];        /**< instead of dilation */
    int64_t pad_hw[2];             /**< instead of pad */
    int64_t output_padding_hw[2];  /**< instead of output_padding */
    int64_t kernel_dhw[3];         /**< of a volume, instead of kernel */
    int64_t stride_dhw[3];         /**< of a volume, instead of stride */
    int64_t dilation_dhw[3];       /**< of a volume, instead of dilation */
    int64_t pad_dhw[3];            /**< of a volume, instead of pad */
    int64_t output_padding_dhw[3]; /**< of a volume, instead of output_padding */
    weft_parametrization parametrization; /**< 0: none */
    uint64_t reserved[WEFT_RESERVED];     /**< zeros (status.h) */
} weft_conv;
/** x[N, C, H, W] -> [N, out, H', W'], with parameters weight[out, C/groups, kernel, kernel] and bias[out]. */
WEFT_API weft_value *weft_conv2d(weft_value *x, const weft_conv *conv, const char *name);
/** x[N, C, H, W] -> [N, out, H', W'], with parameters weight[C, out/groups, kernel, kernel] and bias[out]. */
WEFT_API weft_value *weft_conv_transpose2d(weft_value *x, const weft_conv *conv, const char *name);
/** x[N, C, L] -> [N, out, L'], with parameters weight[out, C/groups, kernel] and bias[out]; no pairs. */
WEFT_API weft_value *weft_conv1d(weft_value *x, const weft_conv *conv, const char *name);
/** x[N, C, L] -> [N, out, L'], with parameters weight[C, out/groups, kernel] and bias[out]; no pairs. */
WEFT_API weft_value *weft_conv_transpose1d(weft_value *x, const weft_conv *conv, const char *name);
/** x[N, C, D, H, W] -> [N, out, D', H', W'], with parameters weight[out, C/groups, kernel, kernel, kernel]
 * and bias[out]. */
WEFT_API weft_value *weft_conv3d(weft_value *x, const weft_conv *conv, const char *name);
/** x[N, C, D, H, W] -> [N, out, D', H', W'], with parameters weight[C, out/groups, kernel, kernel, kernel]
 * and bias[out]. */
WEFT_API weft_value *weft_conv_transpose3d(weft_value *x, const weft_conv *conv, const char *name);

/** Options of weft_batch_norm(); NULL or zeroes: torch's defaults. */
typedef struct weft_batch_norm_options {
    double eps; /**< added to the variance; 0: 1e-5; WEFT_ZERO (field.h): a true 0 */
    /** Weight of the batch in the running statistics, at most 1; 0: 0.1; WEFT_ZERO: a true 0. */
    double momentum;
    const weft_init *weight; /**< NULL: ones */
    bool no_weight;          /**< leave out weight and bias (affine = False) */
    bool cumulative;    /**< running statistics are means over all batches, which state num_batches_tracked
                           counts (momentum = None) */
    bool no_statistics; /**< no running statistics: eval graphs take the batch's (track_running_stats) */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_batch_norm_options;
/** Normalizes each channel of x[N, C], x[N, C, L], x[N, C, H, W] or x[N, C, D, H, W], with parameters weight,
 * bias and state running_mean, running_var, all [C]. A training graph normalizes by the batch and updates the
 * running statistics (variance unbiased); an eval graph uses them. */
WEFT_API weft_value *weft_batch_norm(weft_value *x, const char *name, const weft_batch_norm_options *options);

/** Options of the norms below; NULL or zeroes: torch's defaults. */
typedef struct weft_norm_options {
    double eps;              /**< of the op: 0: 1e-5, in rms_norm 2^-23; WEFT_ZERO (field.h): a true 0 */
    int axes;                /**< of layer_norm and rms_norm: how many last axes are normalized; 0: 1 */
    bool no_weight;          /**< leave out weight and bias (elementwise_affine or affine = False) */
    bool no_bias;            /**< leave out the bias */
    const weft_init *weight; /**< NULL: ones */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_norm_options;
/** Normalizes over the last axis, of length d, with parameters weight[d] and bias[d]; eps 1e-5. */
WEFT_API weft_value *weft_layer_norm(weft_value *x, const char *name, const weft_norm_options *options);
/** Divides by the root of the mean square over the last axis, of length d, with parameter weight[d]. The
 * models of the Llama family set options.eps. */
WEFT_API weft_value *weft_rms_norm(weft_value *x, const char *name, const weft_norm_options *options);
/** Normalizes x[N, C, ...] over groups of C / groups channels, with parameters weight[C] and bias[C]. */
WEFT_API weft_value *weft_group_norm(weft_value *x, int64_t groups, const char *name,
                                     const weft_norm_options *options);
/** Normalizes each channel of each x[n, C, ...] by its own elements, with parameters weight[C] and bias[C].
 * torch.nn's has these only with affine=True; without them call weft_instance_norm_op(). */
WEFT_API weft_value *weft_instance_norm(weft_value *x, const char *name, const weft_norm_options *options);

/** The moving mean of `value` over the steps of a training, the same on all ranks: a parameter `name` in the
 * current scope, of value's shape and zeros at first. When a step of a training graph ends, it becomes
 * momentum mean + (1 - momentum) m; m is the mean of `value` over the step's micro-batches on all ranks.
 * Returns it as it was when the step began; no gradient goes through it. An eval graph reads it. Each rank
 * renews state of weft_assign() in each of its micro-batches; a moving mean is in step on all ranks, so its
 * bits are those of one rank ("Sums" in docs/distribution.md has the conditions). The center of DINO, Caron
 * et al., arXiv 2104.14294:
 *
 *     weft_value *batch = weft_mean(teacher, WEFT_AXES(0), false);
 *     weft_value *center = weft_moving_mean(batch, 0.9, "center");
 *     weft_value *target = weft_softmax(weft_scale(weft_sub(teacher, center), 1 / 0.04), -1);
 *
 * No weft_minimize() trains it, whatever its pattern, and settings for all optimizers are not for it; its own
 * are those of the optimizer "moving_mean:PATH", which has a momentum and its schedule alone. While it is
 * frozen (weft_freeze()) it stays as it is. `value` is f32, its shape must not follow the batch, and a graph
 * calls this once for a name. Each call counts as a weft_minimize(), of which a model has 256 at most, and
 * has its own sum over ranks. */
WEFT_API weft_value *weft_moving_mean(weft_value *value, double momentum, const char *name);

/** w / (u^T W v), its largest singular value being near u^T W v; W is w as a matrix, whose rows are those of
 * `axis` (PyTorch: 0; for transposed convolutions 1). In a training graph u and v take `iterations`
 * (PyTorch: 1) steps of the power iteration first, and are kept in the state _u and _v in scope `name`; in
 * an eval graph they are what they were. No gradient flows through them. */
WEFT_API weft_value *weft_spectral_norm(weft_value *w, int axis, int iterations, const char *name);
/** g v / |v|, with a length |v| for each of `axis` (PyTorch: 0), over all other axes: v[out, in] g[out, 1],
 * v[out, in, h, w] g[out, 1, 1, 1]. */
WEFT_API weft_value *weft_weight_norm(weft_value *v, weft_value *g, int axis);

/** Options of weft_embedding(); NULL or zeroes: torch's defaults. */
typedef struct weft_embedding_options {
    const weft_init *weight;          /**< NULL: normal(0, 1) */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_embedding_options;
/** ids[...] -> [..., d], with parameter weight[rows, d], as torch.nn.Embedding. */
WEFT_API weft_value *weft_embedding(weft_value *ids, int64_t rows, int64_t d, const char *name,
                                    const weft_embedding_options *options);

/** Options of weft_lstm(), weft_gru() and weft_rnn(). There are no projections (proj_size), and no packed
 * sequences. */
typedef struct weft_recurrent {
    int64_t hidden;     /**< features of the state; at least 1: there is no default */
    int64_t layers;     /**< 0: 1; at most 128, both directions counted */
    double dropout;     /**< of what a layer passes to the next, in training; an error with one layer */
    bool bidirectional; /**< each layer also runs from the last time to the first */
    bool batch_first;   /**< x and the result are [B, T, ..] instead of [T, B, ..]; states are not */
    bool no_bias;       /**< leave out both biases */
    bool relu;          /**< of weft_rnn() alone: max(x, 0) instead of tanh */
    weft_value *h0;     /**< first states [layers * directions, B, hidden]; NULL: zeros */
    weft_value *c0;     /**< the same of an lstm's second state; an error elsewhere */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_recurrent;
/** x[T, B, features] -> h[T, B, directions * hidden] of the last layer, as torch.nn.LSTM. *h_n and *c_n
 * (NULL: not wanted) become the states after the last step, [layers * directions, B, hidden]; directions is
 * 1 or 2. Layer k has parameters weight_ih_lk[4 hidden, ..], weight_hh_lk[4 hidden, hidden], bias_ih_lk and
 * bias_hh_lk[4 hidden] for the gates i, f, g, o, uniform within 1/sqrt(hidden); the backward direction's
 * end in _reverse. */
WEFT_API weft_value *weft_lstm(weft_value *x, const weft_recurrent *options, const char *name,
                               weft_value **h_n, weft_value **c_n);
/** As weft_lstm(), as torch.nn.GRU: the gates are r, z, n, and there is no second state. */
WEFT_API weft_value *weft_gru(weft_value *x, const weft_recurrent *options, const char *name,
                              weft_value **h_n);
/** As weft_lstm(), as torch.nn.RNN: no gates, so parameters have hidden rows, and no second state. */
WEFT_API weft_value *weft_rnn(weft_value *x, const weft_recurrent *options, const char *name,
                              weft_value **h_n);

#ifdef __cplusplus
}
#endif
#endif
