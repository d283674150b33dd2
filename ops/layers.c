/* layers.c - ops with their parameters, which are made or found under scope/name, with the names, shapes and
 * default initial values of torch.nn. Each layer enters a scope of its name, so that its nodes form one box
 * in diagrams.
 *
 * Initial values: torch.nn.Linear and the convolutions use kaiming_uniform with a = sqrt 5, which is uniform
 * within 1 / sqrt(fan_in), and the same bound for the bias (torch.nn.init; reset_parameters of each
 * module). */
#include "ops/norm_loss/norm.h"
#include "ops/weight_norms.h"
#include "weft/layers.h"

#include <float.h>
#include <math.h>

/* Uniform within 1 / sqrt(fan_in). */
static weft_init within(double fan_in) {
    double bound = 1 / sqrt(fan_in > 0 ? fan_in : 1);
    return (weft_init){WEFT_INIT_UNIFORM, -bound, bound};
}

/* x if it fits, else NULL after recording the layer's rule. */
static weft_value *want(weft_value *x, bool fits, const char *layer, const char *rule) {
    return fits ? x : value_fail(x, WEFT_SHAPE, "%s: x is %s: %s", layer, TYPE(&x->type), rule);
}

/* Resolves an option: 0 means the default, WEFT_ZERO a true 0; other values must be from 0 to `most`. */
static bool number_fits(weft_value *x, const char *layer, const char *what, double value, double otherwise,
                        double most, double *into) {
    *into = option_number(value, otherwise);
    if (*into >= 0 && *into <= most) return true;
    return value_fail(x, WEFT_ARGUMENT,
                      "%s: %s=%g: it must be from 0 to %g (0 means %g; a true 0 is WEFT_ZERO)", layer, what,
                      value, most, otherwise);
}

static bool bias_fits(weft_value *x, const char *layer, bool no_bias, const weft_init *bias) {
    return !no_bias || !bias ||
           value_fail(x, WEFT_ARGUMENT, "%s: no_bias, and an initializer for the bias: only one of them",
                      layer);
}

/* A number of features or a kernel size must be positive. */
static bool size_fits(weft_value *x, const char *layer, const char *what, int64_t size) {
    return size >= 1 ||
           value_fail(x, WEFT_ARGUMENT, "%s: %s=%lld: it must be at least 1", layer, what, (long long)size);
}

/* ---- linear ---- */

/* Weight [out, in] and bias [out] under scope/name, as torch.nn.Linear. */
weft_value *weft_linear(weft_value *x, int64_t out, const char *name, const weft_linear_options *options) {
    static const weft_linear_options defaults;
    const weft_linear_options *o = options ? options : &defaults;
    if (!x || !want(x, x->type.ndim > 0, "linear", "it needs an axis") ||
        !value_reserved(x, "linear", o->reserved, sizeof o->reserved) ||
        !size_fits(x, "linear", "out", out) || !bias_fits(x, "linear", o->no_bias, o->bias))
        return NULL;
    int64_t in = weft_dim(x, -1);
    weft_init bound = within((double)in);
    weft_value *y = NULL;
    WEFT_SCOPE(x, name) {
        int64_t shape[] = {out, in};
        weft_value *w = layer_weight(x, 2, shape, o->weight, bound, o->parametrization, 0);
        weft_value *b = o->no_bias ? NULL : parameter_or_else(x, "bias", 1, &out, o->bias, bound);
        if (w && (b || o->no_bias)) y = weft_linear_op(x, w, b);
    }
    return y;
}

/* ---- convolutions ---- */

static int64_t groups_of(const weft_conv *c) {
    return c->groups ? c->groups : 1;
}

/* One setting: the number for all axes, or those of an image or of a volume in its place. */
typedef struct setting {
    const char *name;
    int64_t number;
    const int64_t *image, *volume;
    int64_t *into;
} setting;

/* What is wrong with a setting for a window of so many axes; NULL: nothing. */
static const char *unfit(const setting *s, int axes) {
    static const char *const twice[] = {"_hw: or the number without _hw: only one of them",
                                        "_dhw: or the number without _dhw: only one of them"};
    bool has_two = s->image[0] || s->image[1], has_three = s->volume[0] || s->volume[1] || s->volume[2];
    if (has_two && axes != 2)
        return axes == 1 ? "_hw: a line has one axis" : "_hw: a volume has three axes: use _dhw";
    if (has_three && axes != 3)
        return axes == 1 ? "_dhw: a line has one axis" : "_dhw: an image has two axes: use _hw";
    return s->number && (has_two || has_three) ? twice[has_three] : NULL;
}

/* Fills kernel and window; false after recording that a setting is given twice, or for other axes. */
static bool window_of(weft_value *x, const weft_conv *c, const char *layer, int axes, int64_t kernel[3],
                      weft_window *w) {
    *w = (weft_window){.groups = c->groups};
    const setting list[] = {{"kernel", c->kernel, c->kernel_hw, c->kernel_dhw, kernel},
                            {"stride", c->stride, c->stride_hw, c->stride_dhw, w->stride},
                            {"dilation", c->dilation, c->dilation_hw, c->dilation_dhw, w->dilation},
                            {"pad", c->pad, c->pad_hw, c->pad_dhw, w->pad},
                            {"output_padding", c->output_padding, c->output_padding_hw, c->output_padding_dhw,
                             w->output_padding}};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        const setting *s = &list[i];
        const char *why = unfit(s, axes);
        if (why) return value_fail(x, WEFT_ARGUMENT, "%s: %s%s", layer, s->name, why);
        const int64_t *each = axes == 3 ? s->volume : s->image;
        bool has_each = each[0] || each[1] || (axes == 3 && each[2]);
        for (int k = 0; k < axes; k++) s->into[k] = has_each ? each[k] : s->number;
    }
    return true;
}

/* Which op a layer is of, over how many axes, and whether its weight begins with the input channels. */
typedef struct conv_kind {
    const char *layer, *form;
    int axes;
    bool is_transposed;
    weft_value *(*op)(weft_value *, weft_value *, weft_value *, const weft_window *);
} conv_kind;

/* A convolution with weight [rows, columns, kernel]. PyTorch takes fan_in from axis 1 and the kernel for both
 * kinds. */
static weft_value *conv_layer(weft_value *x, const weft_conv *c, const char *name, const conv_kind *kind,
                              const int64_t kernel[3], const weft_window *window) {
    int64_t in = x->type.shape[1], groups = groups_of(c);
    int64_t shape[] = {kind->is_transposed ? in : c->out, (kind->is_transposed ? c->out : in) / groups,
                       kernel[0], kernel[1], kernel[2]};
    double fan_in = (double)shape[1];
    for (int i = 0; i < kind->axes; i++) fan_in *= (double)kernel[i];
    weft_init bound = within(fan_in);
    weft_value *y = NULL;
    WEFT_SCOPE(x, name) {
        weft_value *w = layer_weight(x, 2 + kind->axes, shape, c->weight, bound, c->parametrization,
                                     kind->is_transposed ? 1 : 0);
        weft_value *b = c->no_bias ? NULL : parameter_or_else(x, "bias", 1, &c->out, c->bias, bound);
        if (w && (b || c->no_bias)) y = kind->op(x, w, b, window);
    }
    return y;
}

/* Checks common to all kinds: x is a line, an image or a volume, options are there, and the groups divide the
 * output or input channels. */
static weft_value *conv_checked(weft_value *x, const weft_conv *c, const char *name, const conv_kind *kind) {
    if (!x) return NULL;
    const char *layer = kind->layer;
    int64_t kernel[3] = {0};
    weft_window window;
    if (!c) return value_fail(x, WEFT_ARGUMENT, "%s: options are needed", layer);
    if (!want(x, x->type.ndim == 2 + kind->axes, layer, kind->form) ||
        !value_reserved(x, layer, c->reserved, sizeof c->reserved))
        return NULL;
    if (!size_fits(x, layer, "out", c->out) || !window_of(x, c, layer, kind->axes, kernel, &window) ||
        !bias_fits(x, layer, c->no_bias, c->bias))
        return NULL;
    for (int i = 0; i < kind->axes; i++)
        if (!size_fits(x, layer, "kernel", kernel[i])) return NULL;
    int64_t divided = kind->is_transposed ? c->out : x->type.shape[1];
    if (groups_of(c) < 1 || divided % groups_of(c))
        return value_fail(x, WEFT_ARGUMENT, "%s: %lld groups do not divide %lld %s channels", layer,
                          (long long)groups_of(c), (long long)divided,
                          kind->is_transposed ? "output" : "input");
    return conv_layer(x, c, name, kind, kernel, &window);
}

/* Weight [out, in / groups, kernel...], transposed [in, out / groups, kernel...]. */
weft_value *weft_conv2d(weft_value *x, const weft_conv *c, const char *name) {
    static const conv_kind kind = {"conv2d", "it must be [N, C, H, W]", 2, false, weft_conv2d_op};
    return conv_checked(x, c, name, &kind);
}

weft_value *weft_conv_transpose2d(weft_value *x, const weft_conv *c, const char *name) {
    static const conv_kind kind = {"conv_transpose2d", "it must be [N, C, H, W]", 2, true,
                                   weft_conv_transpose2d_op};
    return conv_checked(x, c, name, &kind);
}

weft_value *weft_conv1d(weft_value *x, const weft_conv *c, const char *name) {
    static const conv_kind kind = {"conv1d", "it must be [N, C, L]", 1, false, weft_conv1d_op};
    return conv_checked(x, c, name, &kind);
}

weft_value *weft_conv_transpose1d(weft_value *x, const weft_conv *c, const char *name) {
    static const conv_kind kind = {"conv_transpose1d", "it must be [N, C, L]", 1, true,
                                   weft_conv_transpose1d_op};
    return conv_checked(x, c, name, &kind);
}

weft_value *weft_conv3d(weft_value *x, const weft_conv *c, const char *name) {
    static const conv_kind kind = {"conv3d", "it must be [N, C, D, H, W]", 3, false, weft_conv3d_op};
    return conv_checked(x, c, name, &kind);
}

weft_value *weft_conv_transpose3d(weft_value *x, const weft_conv *c, const char *name) {
    static const conv_kind kind = {"conv_transpose3d", "it must be [N, C, D, H, W]", 3, true,
                                   weft_conv_transpose3d_op};
    return conv_checked(x, c, name, &kind);
}

/* ---- normalization ---- */

/* Moves a running statistic: state = (1 - momentum) state + momentum batch. */
static void move_average(weft_value *state, weft_value *batch, double momentum) {
    weft_value *added = weft_scale(batch, momentum);
    weft_assign(state, weft_add(weft_scale(state, 1 - momentum), added));
}

/* Reshapes [C] so that it broadcasts over x [N, C], [N, C, L], [N, C, H, W] or [N, C, D, H, W]. */
static weft_value *along(weft_value *channels, const weft_value *x) {
    int64_t shape[] = {x->type.shape[1], 1, 1, 1};
    return x->type.ndim > 2 ? weft_reshape(channels, x->type.ndim - 1, shape) : channels;
}

/* A line or a volume as an image, in the same memory, row-major or channels-last. */
static weft_value *as_image(weft_value *x) {
    lengths l = lengths_of(x);
    if (l.n == 3) lengths_insert(&l, 2, 1);
    if (l.n == 5) lengths_merge(&l, 2, 4);
    return l.n == x->type.ndim ? x : reshape_lengths(x, &l);
}

static bool batch_norm_fits(weft_value *x) {
    return want(x, x->type.ndim >= 2 && x->type.ndim <= 5, "batch_norm",
                "it must be [N, C], [N, C, L], [N, C, H, W] or [N, C, D, H, W]");
}

weft_value *weft_batch_norm_op(weft_value *x, weft_value *w, weft_value *b, double eps, weft_value **mean,
                               weft_value **variance) {
    norm_attrs a = {0};
    if (mean) *mean = NULL;
    if (variance) *variance = NULL;
    if (!x || !batch_norm_fits(x) || !number_fits(x, "batch_norm", "eps", eps, 1e-5, FLT_MAX, &a.eps))
        return NULL;
    lengths shape = lengths_of(x);
    weft_value *image = as_image(x);
    if (!image) return NULL;
    weft_node *n = node_new(x->node->graph, &weft_op_batch_norm, 3, (weft_value *[]){image, w, b}, &a);
    if (!n) return NULL;
    if (mean) *mean = &n->out[1];
    if (variance) *variance = &n->out[3]; /* unbiased, as the running one in PyTorch */
    return image == x ? &n->out[0] : reshape_lengths(&n->out[0], &shape);
}

/* Normalizes by the batch's statistics and updates the running ones. */
static weft_value *batch_norm_train(weft_value *x, weft_value *w, weft_value *b, weft_value *mean,
                                    weft_value *var, double eps, double momentum) {
    weft_value *of_batch[2], *y = weft_batch_norm_op(x, w, b, eps, &of_batch[0], &of_batch[1]);
    if (!y) return NULL;
    move_average(mean, of_batch[0], momentum);
    move_average(var, of_batch[1], momentum);
    return y;
}

/* Normalizes by the running statistics, with pointwise ops that fuse with their neighbours: x factor +
 * shift. */
static weft_value *batch_norm_eval(weft_value *x, weft_value *w, weft_value *b, weft_value *mean,
                                   weft_value *var, double eps) {
    weft_value *factor = weft_mul(w, weft_rsqrt(weft_offset(var, eps)));
    weft_value *shift = weft_sub(b, weft_mul(mean, factor));
    weft_value *added = along(shift, x);
    return weft_add(weft_mul(x, along(factor, x)), added);
}

weft_value *weft_batch_norm(weft_value *x, const char *name, const weft_batch_norm_options *options) {
    static const weft_batch_norm_options defaults;
    const weft_batch_norm_options *o = options ? options : &defaults;
    const weft_init zeros = {WEFT_INIT_ZEROS, 0, 0}, ones = {WEFT_INIT_ONES, 0, 0};
    if (!x || !batch_norm_fits(x)) return NULL;
    int64_t channels = x->type.shape[1];
    double momentum, eps;
    if (!value_reserved(x, "batch_norm", o->reserved, sizeof o->reserved) ||
        !number_fits(x, "batch_norm", "momentum", o->momentum, 0.1, 1, &momentum) ||
        !number_fits(x, "batch_norm", "eps", o->eps, 1e-5, FLT_MAX, &eps))
        return NULL;
    weft_value *y = NULL;
    WEFT_SCOPE(x, name) {
        weft_value *w = parameter_or_else(x, "weight", 1, &channels, o->weight, ones);
        weft_value *b = parameter_or_else(x, "bias", 1, &channels, NULL, zeros);
        weft_value *mean = weft_state(x, "running_mean", 1, &channels, zeros);
        weft_value *var = weft_state(x, "running_var", 1, &channels, ones);
        if (!mean || !var)
            y = NULL;
        else if (x->node->graph->mode == WEFT_TRAIN)
            y = batch_norm_train(x, w, b, mean, var, o->eps, momentum);
        else
            y = batch_norm_eval(x, w, b, mean, var, eps);
    }
    return y;
}

/* Weight of ones and bias of zeros; *w and *b stay NULL where the options say so. */
static bool norm_parameters(weft_value *x, const weft_norm_options *o, int ndim, const int64_t *shape,
                            bool has_bias, weft_value **w, weft_value **b) {
    const weft_init zeros = {WEFT_INIT_ZEROS, 0, 0}, ones = {WEFT_INIT_ONES, 0, 0};
    *w = *b = NULL;
    if (!value_reserved(x, "options of a norm", o->reserved, sizeof o->reserved)) return false;
    if (o->no_weight && o->weight)
        return value_fail(x, WEFT_ARGUMENT, "no_weight, and an initializer for the weight: only one of them");
    if (o->no_weight) return true;
    *w = parameter_or_else(x, "weight", ndim, shape, o->weight, ones);
    if (*w && has_bias && !o->no_bias) *b = parameter_or_else(x, "bias", ndim, shape, NULL, zeros);
    return *w && (*b || !has_bias || o->no_bias);
}

static const weft_norm_options *norm_options(const weft_norm_options *options) {
    static const weft_norm_options defaults;
    return options ? options : &defaults;
}

/* layer_norm or rms_norm with parameters of the lengths of the last axes. */
static weft_value *row_norm(weft_value *x, const char *name, const weft_norm_options *o, const char *layer,
                            bool has_bias,
                            weft_value *(*op)(weft_value *, int, weft_value *, weft_value *, double)) {
    if (!x || !want(x, x->type.ndim > 0, layer, "it needs an axis")) return NULL;
    int axes = o->axes ? o->axes : 1, lead = x->type.ndim - axes;
    weft_value *w, *b, *y = NULL;
    if (axes < 1 || lead < 0)
        return value_fail(x, WEFT_ARGUMENT, "%s: axes=%d of %s: it must be 1 to %d (0 means 1)", layer, axes,
                          TYPE(&x->type), x->type.ndim);
    WEFT_SCOPE(x, name) if (norm_parameters(x, o, axes, x->type.shape + lead, has_bias, &w, &b)) {
        y = op(x, axes, w, b, o->eps);
    }
    return y;
}

/* As torch.nn.LayerNorm. */
weft_value *weft_layer_norm(weft_value *x, const char *name, const weft_norm_options *options) {
    return row_norm(x, name, norm_options(options), "layer_norm", true, layer_norm_over);
}

/* As torch.nn.RMSNorm. */
weft_value *weft_rms_norm(weft_value *x, const char *name, const weft_norm_options *options) {
    if (x && options && options->no_bias)
        return value_fail(x, WEFT_ARGUMENT, "rms_norm: no_bias has no effect: this norm has no bias");
    return row_norm(x, name, norm_options(options), "rms_norm", false, rms_norm_over);
}

static bool no_axes(weft_value *x, const char *layer, const weft_norm_options *o) {
    return !o->axes ||
           value_fail(x, WEFT_ARGUMENT, "%s: axes=%d: only layer_norm and rms_norm have this option", layer,
                      o->axes);
}

/* As torch.nn.GroupNorm. */
weft_value *weft_group_norm(weft_value *x, int64_t groups, const char *name,
                            const weft_norm_options *options) {
    const weft_norm_options *o = norm_options(options);
    weft_value *w, *b, *y = NULL;
    if (!x || !want(x, x->type.ndim > 1, "group_norm", "it must be [N, C, ...]") ||
        !no_axes(x, "group_norm", o))
        return NULL;
    WEFT_SCOPE(x, name) if (norm_parameters(x, o, 1, &x->type.shape[1], true, &w, &b)) {
        y = weft_group_norm_op(x, groups, w, b, o->eps);
    }
    return y;
}

/* As torch.nn.InstanceNorm1d to 3d with affine=True. */
weft_value *weft_instance_norm(weft_value *x, const char *name, const weft_norm_options *options) {
    const weft_norm_options *o = norm_options(options);
    weft_value *w, *b, *y = NULL;
    if (!x || !want(x, x->type.ndim > 2, "instance_norm", "it must be [N, C, ...]") ||
        !no_axes(x, "instance_norm", o))
        return NULL;
    WEFT_SCOPE(x, name) if (norm_parameters(x, o, 1, &x->type.shape[1], true, &w, &b)) {
        y = weft_instance_norm_op(x, w, b, o->eps);
    }
    return y;
}

/* ---- embedding ---- */

/* Rows of a table [rows, d] with normal initial values, as torch.nn.Embedding. */
weft_value *weft_embedding(weft_value *ids, int64_t rows, int64_t d, const char *name,
                           const weft_embedding_options *options) {
    const weft_init normal = {WEFT_INIT_NORMAL, 0, 1};
    weft_value *y = NULL;
    if (!ids || (options && !value_reserved(ids, "embedding", options->reserved, sizeof options->reserved)))
        return NULL;
    WEFT_SCOPE(ids, name) {
        weft_value *w = parameter_or_else(ids, "weight", 2, (int64_t[]){rows, d},
                                          options ? options->weight : NULL, normal);
        y = weft_embedding_op(w, ids);
    }
    return y;
}
