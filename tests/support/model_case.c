/* model_case.c - builds the model of a case (model_case.h): each node is a call of the builder that bears its
 * name. */
#include "support/model_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_IN = 64, MOST_NUMBERS = 40, MOST_VALUES = 4000 };

/* A node being built. Operands, integers and reals mean what the op's line below makes of them. */
typedef struct call {
    weft_graph *graph;
    const char *op, *name;
    int n, n_i, n_r;
    weft_value *in[MOST_IN];
    int64_t i[MOST_NUMBERS];
    double r[MOST_NUMBERS];
    weft_value *more[MOST_IN]; /* of gradients, which has several results */
    int n_more;
} call;

static void stop(const char *what, const char *name) {
    fprintf(stderr, "model case: %s: %s\n", name ? name : "?", what);
    exit(2);
}

static const char *text(const json_t *from, const char *key) {
    const char *s = json_string_value(json_object_get(from, key));
    return s ? s : "";
}

static double real(const json_t *from, const char *key) {
    return json_number_value(json_object_get(from, key));
}

static int64_t whole(const json_t *from, const char *key) {
    return json_integer_value(json_object_get(from, key));
}

/* ---- scopes ---- */

static int enter_path(weft_graph *g, const char *path, size_t length) {
    int depth = 0;
    char name[256];
    for (const char *end = path + length; path < end; depth++) {
        const char *cut = memchr(path, '/', (size_t)(end - path));
        size_t n = (size_t)((cut ? cut : end) - path);
        if (n >= sizeof name) stop("a scope's name is too long", path);
        memcpy(name, path, n);
        name[n] = 0;
        weft_graph_scope_enter(g, name);
        path += n + (cut != NULL);
    }
    return depth;
}

static void leave_path(weft_graph *g, int depth) {
    while (depth--) weft_scope_leave(g);
}

/* Parameters and state are named by their whole path, whatever the scope of their node. `near`: a value of
 * the graph. */
static weft_value *variable(call *c, weft_value *near) {
    const char *slash = strrchr(c->name, '/'), *name = slash ? slash + 1 : c->name;
    int depth = slash ? enter_path(c->graph, c->name, (size_t)(slash - c->name)) : 0;
    weft_init zeros = {0};
    weft_value *v = near ? weft_state(near, name, c->n_i, c->i, zeros)
                         : weft_parameter_in(c->graph, name, c->n_i, c->i, zeros);
    leave_path(c->graph, depth);
    return v;
}

/* ---- ops: those whose builders look alike in tables, the others below ---- */

static const struct {
    const char *op;
    weft_value *(*build)(weft_value *);
} one_operand[] = {
    {"neg", weft_neg},
    {"abs", weft_abs},
    {"square", weft_square},
    {"sqrt", weft_sqrt},
    {"rsqrt", weft_rsqrt},
    {"reciprocal", weft_reciprocal},
    {"exp", weft_exp},
    {"log", weft_log},
    {"tanh", weft_tanh},
    {"relu", weft_relu},
    {"sigmoid", weft_sigmoid},
    {"stop_gradient", weft_stop_gradient},
    {"gelu", weft_gelu},
    {"gelu_tanh", weft_gelu_tanh},
    {"silu", weft_silu},
    {"mish", weft_mish},
    {"hardswish", weft_hardswish},
    {"erf", weft_erf},
    {"sin", weft_sin},
    {"cos", weft_cos},
    {"tan", weft_tan},
    {"asin", weft_asin},
    {"acos", weft_acos},
    {"atan", weft_atan},
    {"floor", weft_floor},
    {"ceil", weft_ceil},
    {"round", weft_round},
    {"trunc", weft_trunc},
    {"sign", weft_sign},
    {"isnan", weft_isnan},
    {"isinf", weft_isinf},
    {"logical_not", weft_logical_not},
};

static const struct {
    const char *op;
    weft_value *(*build)(weft_value *, double);
} with_number[] = {{"leaky_relu", weft_leaky_relu},
                   {"elu", weft_elu},
                   {"scale", weft_scale},
                   {"offset", weft_offset},
                   {"dropout", weft_dropout}};

static const struct {
    const char *op;
    weft_value *(*build)(weft_value *, double, double);
} with_numbers[] = {{"clamp", weft_clamp}, {"softplus", weft_softplus}};

static const struct {
    const char *op;
    weft_value *(*build)(weft_value *, weft_value *);
} two_operands[] = {
    {"add", weft_add},
    {"sub", weft_sub},
    {"mul", weft_mul},
    {"div", weft_div},
    {"pow", weft_pow},
    {"maximum", weft_maximum},
    {"minimum", weft_minimum},
    {"equal", weft_equal},
    {"greater", weft_greater},
    {"not_equal", weft_not_equal},
    {"greater_equal", weft_greater_equal},
    {"logical_and", weft_logical_and},
    {"logical_or", weft_logical_or},
    {"logical_xor", weft_logical_xor},
    {"fmod", weft_fmod},
    {"remainder", weft_remainder},
    {"mse", weft_mse},
    {"embedding", weft_embedding_op},
    {"cross_entropy", weft_cross_entropy},
    {"bce_with_logits", weft_bce_with_logits},
};

static bool pointwise(call *c, weft_value **out) {
    for (size_t k = 0; k < sizeof one_operand / sizeof *one_operand; k++)
        if (strcmp(c->op, one_operand[k].op) == 0) return *out = one_operand[k].build(c->in[0]), true;
    for (size_t k = 0; k < sizeof with_number / sizeof *with_number; k++)
        if (strcmp(c->op, with_number[k].op) == 0)
            return *out = with_number[k].build(c->in[0], c->r[0]), true;
    for (size_t k = 0; k < sizeof with_numbers / sizeof *with_numbers; k++)
        if (strcmp(c->op, with_numbers[k].op) == 0)
            return *out = with_numbers[k].build(c->in[0], c->r[0], c->r[1]), true;
    for (size_t k = 0; k < sizeof two_operands / sizeof *two_operands; k++)
        if (strcmp(c->op, two_operands[k].op) == 0)
            return *out = two_operands[k].build(c->in[0], c->in[1]), true;
    return false;
}

static weft_value *makers(call *c) {
    weft_dtype dtype = (weft_dtype)c->i[0];
    for (int k = 1; k < c->n_i && !strcmp(c->op, "input"); k++)
        if (c->i[k] < 0) c->i[k] = WEFT_BATCH;
    if (!strcmp(c->op, "input")) return weft_input(c->graph, c->name, dtype, c->n_i - 1, c->i + 1);
    if (!strcmp(c->op, "constant")) return weft_constant(c->graph, dtype, c->n_i - 1, c->i + 1, c->r[0]);
    if (!strcmp(c->op, "random_uniform"))
        return weft_random_uniform(c->graph, c->n_i, c->i, c->r[0], c->r[1]);
    if (!strcmp(c->op, "random_normal")) return weft_random_normal(c->graph, c->n_i, c->i, c->r[0], c->r[1]);
    stop("no such op", c->op);
    return NULL;
}

static weft_value *indices(call *c) {
    const int64_t *i = c->i;
    weft_value *x = c->in[0], *ids = c->in[1], *src = c->in[2];
    if (!strcmp(c->op, "gather")) return weft_gather(x, (int)i[0], ids);
    if (!strcmp(c->op, "take_along_axis")) return weft_take_along_axis(x, ids, (int)i[0]);
    if (!strcmp(c->op, "index_select")) return weft_index_select(x, (int)i[0], ids);
    if (!strcmp(c->op, "scatter")) return weft_scatter(x, (int)i[0], ids, src);
    if (!strcmp(c->op, "scatter_add")) return weft_scatter_add(x, (int)i[0], ids, src);
    if (!strcmp(c->op, "index_add")) return weft_index_add(x, (int)i[0], ids, src);
    if (!strcmp(c->op, "sort")) return weft_sort(x, (int)i[0], i[1], NULL);
    if (!strcmp(c->op, "topk")) return weft_topk(x, i[0], (int)i[1], i[2], NULL);
    if (!strcmp(c->op, "one_hot")) return weft_one_hot(x, i[0], WEFT_I64);
    return makers(c);
}

static weft_value *moves(call *c) {
    const int64_t *i = c->i;
    weft_value *x = c->in[0];
    if (!strcmp(c->op, "stack")) return weft_stack(c->n, c->in, (int)i[0]);
    if (!strcmp(c->op, "tile")) return weft_tile(x, c->n_i, i);
    if (!strcmp(c->op, "roll")) return weft_roll(x, i[0], (int)i[1]);
    if (!strcmp(c->op, "flip")) return weft_flip(x, c->n_i, i);
    if (!strcmp(c->op, "repeat_interleave")) return weft_repeat_interleave(x, i[0], (int)i[1]);
    if (!strcmp(c->op, "tril")) return weft_tril(x, i[0]);
    if (!strcmp(c->op, "triu")) return weft_triu(x, i[0]);
    if (!strcmp(c->op, "constant_pad")) return weft_constant_pad(x, c->n_i / 2, i, c->r[0]);
    return indices(c);
}

static weft_value *shapes(call *c) {
    const int64_t *i = c->i;
    const int64_t *axes = c->n_i > 1 ? i + 1 : NULL; /* all of them */
    weft_value *x = c->in[0];
    if (!strcmp(c->op, "sum")) return weft_sum(x, c->n_i - 1, axes, i[0]);
    if (!strcmp(c->op, "mean")) return weft_mean(x, c->n_i - 1, axes, i[0]);
    if (!strcmp(c->op, "amax")) return weft_amax(x, c->n_i - 1, axes, i[0]);
    if (!strcmp(c->op, "amin")) return weft_amin(x, c->n_i - 1, axes, i[0]);
    if (!strcmp(c->op, "var")) return weft_var(x, c->r[0], c->n_i - 1, axes, i[0]);
    if (!strcmp(c->op, "logsumexp")) return weft_logsumexp(x, c->n_i - 1, axes, i[0]);
    if (!strcmp(c->op, "vector_norm")) return weft_vector_norm(x, c->r[0], c->n_i - 1, axes, i[0]);
    if (!strcmp(c->op, "prod")) return weft_prod(x, c->n_i - 1, axes, i[0]);
    if (!strcmp(c->op, "cumsum")) return weft_cumsum(x, (int)i[0]);
    if (!strcmp(c->op, "cumprod")) return weft_cumprod(x, (int)i[0]);
    if (!strcmp(c->op, "argmin")) return weft_argmin(x, (int)i[0], i[1]);
    if (!strcmp(c->op, "argmax")) return weft_argmax(x, (int)i[0], i[1]);
    if (!strcmp(c->op, "cast")) return weft_cast(x, (weft_dtype)i[0]);
    if (!strcmp(c->op, "reshape")) return weft_reshape(x, c->n_i, i);
    if (!strcmp(c->op, "flatten")) return weft_flatten(x, (int)i[0]);
    if (!strcmp(c->op, "permute")) return weft_permute(x, i);
    if (!strcmp(c->op, "transpose")) return weft_transpose(x, (int)i[0], (int)i[1]);
    if (!strcmp(c->op, "broadcast_to")) return weft_broadcast_to(x, c->n_i, i);
    if (!strcmp(c->op, "concat")) return weft_concat(c->n, c->in, (int)i[0]);
    if (!strcmp(c->op, "slice")) return weft_slice(x, (int)i[0], i[1], i[2]);
    if (!strcmp(c->op, "pad")) return weft_pad(x, (int)i[0], i[1], i[2]);
    return moves(c);
}

static weft_window window_of(const int64_t *i) {
    return (weft_window){.stride = {i[0], i[1]},
                         .pad = {i[2], i[3]},
                         .dilation = {i[4], i[5]},
                         .groups = i[6],
                         .output_padding = {i[7], i[8]}};
}

static weft_value *volumes(const call *c) {
    const int64_t *i = c->i;
    const weft_window window = {.stride = {i[0], i[1], i[2]},
                                .pad = {i[3], i[4], i[5]},
                                .dilation = {i[6], i[7], i[8]},
                                .output_padding = {i[9], i[10], i[11]},
                                .groups = i[12]};
    const weft_pool pool = {.kernel = {i[0], i[1], i[2]},
                            .stride = {i[3], i[4], i[5]},
                            .pad = {i[6], i[7], i[8]},
                            .dilation = {i[9], i[10], i[11]},
                            .ceil_mode = i[12],
                            .exclude_pad = i[13],
                            .divisor = i[14]};
    if (!strcmp(c->op, "conv3d")) return weft_conv3d_op(c->in[0], c->in[1], c->in[2], &window);
    if (!strcmp(c->op, "conv_transpose3d"))
        return weft_conv_transpose3d_op(c->in[0], c->in[1], c->in[2], &window);
    if (!strcmp(c->op, "max_pool3d")) return weft_max_pool3d(c->in[0], &pool);
    if (!strcmp(c->op, "avg_pool3d")) return weft_avg_pool3d(c->in[0], &pool);
    if (!strcmp(c->op, "adaptive_avg_pool3d")) return weft_adaptive_avg_pool3d(c->in[0], i[0], i[1], i[2]);
    return weft_adaptive_max_pool3d(c->in[0], i[0], i[1], i[2]);
}

static weft_value *build(call *c) {
    const int64_t *i = c->i;
    weft_value **in = c->in, *out;
    weft_window window = window_of(i);
    weft_pool pool = {.kernel = {i[0], i[1]},
                      .stride = {i[2], i[3]},
                      .pad = {i[4], i[5]},
                      .dilation = {i[6], i[7]},
                      .ceil_mode = i[8],
                      .exclude_pad = i[9],
                      .divisor = i[10]};
    if (pointwise(c, &out)) return out;
    if (!strcmp(c->op, "where")) return weft_where(in[0], in[1], in[2]);
    if (!strcmp(c->op, "matmul")) return weft_matmul(in[0], in[1], i[0], i[1]);
    if (!strcmp(c->op, "linear")) return weft_linear_op(in[0], in[1], in[2]);
    if (!strcmp(c->op, "attention")) return weft_attention(in[0], in[1], in[2], i[0], c->r[0]);
    if (!strcmp(c->op, "lstm")) return weft_lstm_op(in[0], in[1], in[2], in[3], i[0], NULL);
    if (!strcmp(c->op, "gru")) return weft_gru_op(in[0], in[1], in[2], in[3], i[0]);
    if (!strcmp(c->op, "rnn")) return weft_rnn_op(in[0], in[1], in[2], i[0], false);
    if (!strcmp(c->op, "conv2d")) return weft_conv2d_op(in[0], in[1], in[2], &window);
    if (!strcmp(c->op, "conv_transpose2d")) return weft_conv_transpose2d_op(in[0], in[1], in[2], &window);
    if (!strcmp(c->op, "max_pool2d")) return weft_max_pool2d(in[0], &pool);
    if (!strcmp(c->op, "avg_pool2d")) return weft_avg_pool2d(in[0], &pool);
    if (!strcmp(c->op, "adaptive_avg_pool2d")) return weft_adaptive_avg_pool2d(in[0], i[0], i[1]);
    if (!strcmp(c->op, "adaptive_max_pool2d")) return weft_adaptive_max_pool2d(in[0], i[0], i[1]);
    if (!strcmp(c->op, "interpolate"))
        return weft_interpolate(in[0], &(weft_interpolation){.size = {i[0], i[1]},
                                                             .scale = {c->r[0], c->r[1]},
                                                             .mode = (weft_interpolation_mode)i[2],
                                                             .align_corners = i[3]});
    if (!strcmp(c->op, "pixel_shuffle")) return weft_pixel_shuffle(in[0], i[0]);
    if (!strcmp(c->op, "pixel_unshuffle")) return weft_pixel_unshuffle(in[0], i[0]);
    if (!strcmp(c->op, "reflect_pad")) return weft_reflect_pad(in[0], c->n_i / 2, i);
    if (!strcmp(c->op, "replicate_pad")) return weft_replicate_pad(in[0], c->n_i / 2, i);
    if (!strcmp(c->op, "circular_pad")) return weft_circular_pad(in[0], c->n_i / 2, i);
    if (strstr(c->op, "3d")) return volumes(c);
    if (!strcmp(c->op, "conv1d")) return weft_conv1d_op(in[0], in[1], in[2], &window);
    if (!strcmp(c->op, "conv_transpose1d")) return weft_conv_transpose1d_op(in[0], in[1], in[2], &window);
    if (!strcmp(c->op, "max_pool1d")) return weft_max_pool1d(in[0], &pool);
    if (!strcmp(c->op, "avg_pool1d")) return weft_avg_pool1d(in[0], &pool);
    if (!strcmp(c->op, "adaptive_avg_pool1d")) return weft_adaptive_avg_pool1d(in[0], i[0]);
    if (!strcmp(c->op, "adaptive_max_pool1d")) return weft_adaptive_max_pool1d(in[0], i[0]);
    if (!strcmp(c->op, "softmax")) return weft_softmax(in[0], (int)i[0]);
    if (!strcmp(c->op, "log_softmax")) return weft_log_softmax(in[0], (int)i[0]);
    if (!strcmp(c->op, "layer_norm")) return weft_layer_norm_op(in[0], in[1], in[2], c->r[0]);
    if (!strcmp(c->op, "l1")) return weft_l1(in[0], in[1], NULL);
    if (!strcmp(c->op, "smooth_l1")) return weft_smooth_l1(in[0], in[1], &(weft_loss){.beta = c->r[0]});
    if (!strcmp(c->op, "huber")) return weft_huber(in[0], in[1], &(weft_loss){.delta = c->r[0]});
    if (!strcmp(c->op, "cosine_similarity")) return weft_cosine_similarity(in[0], in[1], (int)i[0], c->r[0]);
    if (!strcmp(c->op, "normalize")) return weft_normalize(in[0], (int)i[0], c->r[0]);
    if (!strcmp(c->op, "cross_entropy_with"))
        return weft_cross_entropy_with(in[0], in[1],
                                       &(weft_loss){.reduction = (weft_reduction)i[0],
                                                    .weight = in[2],
                                                    .ignore_index = &(int64_t){i[1]},
                                                    .label_smoothing = c->r[0]});
    if (!strcmp(c->op, "rms_norm")) return weft_rms_norm_op(in[0], in[1], c->r[0]);
    if (!strcmp(c->op, "group_norm")) return weft_group_norm_op(in[0], i[0], in[1], in[2], c->r[0]);
    if (!strcmp(c->op, "instance_norm")) return weft_instance_norm_op(in[0], in[1], in[2], c->r[0]);
    return shapes(c);
}

/* batch_norm is a layer: its parameters and statistics are named under its name, a whole path. */
static weft_value *batch_norm(call *c) {
    const char *slash = strrchr(c->name, '/');
    int depth = slash ? enter_path(c->graph, c->name, (size_t)(slash - c->name)) : 0;
    weft_batch_norm_options options = {.eps = c->r[0], .momentum = c->r[1]};
    weft_value *y = weft_batch_norm_with(c->in[0], slash ? slash + 1 : c->name, &options);
    leave_path(c->graph, depth);
    return y;
}

/* ---- nodes ---- */

static void read_call(const json_t *node, weft_value *const *values, int n_values, call *c) {
    const json_t *in = json_object_get(node, "in"), *i = json_object_get(node, "i"),
                 *r = json_object_get(node, "r");
    c->op = text(node, "op");
    c->name = text(node, "s");
    c->n = (int)json_array_size(in);
    c->n_i = (int)json_array_size(i);
    c->n_r = (int)json_array_size(r);
    if (c->n > MOST_IN || c->n_i > MOST_NUMBERS || c->n_r > MOST_NUMBERS) stop("too many numbers", c->op);
    for (int k = 0; k < c->n; k++) {
        json_int_t at = json_integer_value(json_array_get(in, (size_t)k)); /* -1: none */
        if (at >= n_values) stop("an operand comes later", c->op);
        c->in[k] = at < 0 ? NULL : values[at];
    }
    for (int k = 0; k < c->n_i; k++) c->i[k] = json_integer_value(json_array_get(i, (size_t)k));
    for (int k = 0; k < c->n_r; k++) c->r[k] = json_number_value(json_array_get(r, (size_t)k));
}

/* Appends the node's values: one, none for assign, as many as targets for gradients. */
static int add_node(weft_graph *g, const json_t *node, weft_value **values, int n) {
    const char *scope = text(node, "scope");
    call c = {.graph = g};
    read_call(node, values, n, &c);
    bool is_variable = !strcmp(c.op, "parameter") || !strcmp(c.op, "state") || !strcmp(c.op, "batch_norm");
    int depth = is_variable ? 0 : enter_path(g, scope, strlen(scope));
    if (!strcmp(c.op, "gradients")) {
        weft_gradients(c.in[0], c.n - 1, c.in + 1, c.more);
        for (int k = 0; k + 1 < c.n; k++) values[n++] = c.more[k];
    } else if (!strcmp(c.op, "assign")) {
        weft_assign(c.in[0], c.in[1]);
    } else if (is_variable) {
        bool is_state = !strcmp(c.op, "state");
        values[n] =
            !strcmp(c.op, "batch_norm") ? batch_norm(&c) : variable(&c, is_state ? values[n - 1] : NULL);
        n++;
    } else {
        values[n++] = build(&c);
    }
    leave_path(g, depth);
    return n;
}

/* ---- training ---- */

static weft_optimizer optimizer_of(const json_t *m, weft_param_group *groups) {
    const json_t *list = json_object_get(m, "groups"), *entry;
    size_t k;
    weft_optimizer o = {.type = text(m, "type"),
                        .name = text(m, "name"),
                        .lr = real(m, "lr"),
                        .momentum = real(m, "momentum"),
                        .dampening = real(m, "dampening"),
                        .nesterov = json_is_true(json_object_get(m, "nesterov")),
                        .beta1 = real(m, "beta1"),
                        .beta2 = real(m, "beta2"),
                        .eps = real(m, "eps"),
                        .weight_decay = real(m, "weight_decay"),
                        .clip_norm = real(m, "clip_norm"),
                        .schedule = {.kind = (weft_schedule_kind)whole(m, "schedule"),
                                     .warmup_steps = whole(m, "warmup_steps"),
                                     .step_size = whole(m, "step_size"),
                                     .gamma = real(m, "gamma"),
                                     .total_steps = whole(m, "total_steps"),
                                     .floor = real(m, "floor")},
                        .n_groups = (int)json_array_size(list),
                        .groups = json_array_size(list) ? groups : NULL};
    /* a scale of no decay is an error; adamw decays by default */
    bool decays = o.weight_decay > 0 || (o.weight_decay == 0 && strcmp(o.type, "adamw") == 0);
    json_array_foreach(list, k, entry) groups[k] = (weft_param_group){
        text(entry, "pattern"), real(entry, "lr_scale"), decays ? real(entry, "decay_scale") : 0};
    return o;
}

static void add_graph(weft_model *m, const json_t *from, double loss_scale) {
    static const weft_mode modes[] = {WEFT_EVAL, WEFT_TRAIN};
    weft_graph *g =
        weft_graph_new(m, text(from, "name"), modes[json_is_true(json_object_get(from, "train"))]);
    weft_value *values[MOST_VALUES];
    weft_param_group groups[16];
    const json_t *entry;
    size_t k;
    int n = 0;
    json_array_foreach(json_object_get(from, "nodes"), k, entry) {
        if (n + MOST_IN > MOST_VALUES) stop("too many nodes", text(from, "name"));
        n = add_node(g, entry, values, n);
    }
    json_array_foreach(json_object_get(from, "outs"), k, entry)
        weft_output(values[whole(entry, "id")], text(entry, "name"));
    json_array_foreach(json_object_get(from, "freeze"), k, entry) weft_freeze(m, json_string_value(entry));
    json_array_foreach(json_object_get(from, "mins"), k, entry) {
        weft_optimizer o = optimizer_of(entry, groups);
        o.loss_scale = loss_scale;
        if (o.n_groups > 16) stop("too many groups", o.name);
        weft_minimize(values[whole(entry, "loss")], text(entry, "pattern"), &o);
    }
}

weft_model *case_model(const json_t *c, size_t config) {
    const json_t *graph, *o = json_array_get(json_object_get(c, "configs"), config);
    weft_model *m = weft_model_new("case");
    size_t k;
    if (!m) stop("out of memory", "model");
    if (whole(c, "batch") > 0) weft_model_batch(m, whole(c, "batch"));
    json_array_foreach(json_object_get(c, "graphs"), k, graph) add_graph(m, graph, real(o, "loss_scale"));
    return m;
}
