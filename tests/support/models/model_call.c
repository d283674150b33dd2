/* model_call.c - builds a node of a case: a call of the builder that bears its name. Builders that look alike
 * stand in tables; the others have a line each. */
#include "support/models/model_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void call_stop(const char *what, const char *name) {
    fprintf(stderr, "model case: %s: %s\n", name ? name : "?", what);
    exit(2);
}

/* ---- tables ---- */

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
    {"selu", weft_selu},
    {"relu6", weft_relu6},
    {"hardsigmoid", weft_hardsigmoid},
    {"softsign", weft_softsign},
    {"logsigmoid", weft_logsigmoid},
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
    {"sinh", weft_sinh},
    {"cosh", weft_cosh},
    {"asinh", weft_asinh},
    {"acosh", weft_acosh},
    {"atanh", weft_atanh},
    {"expm1", weft_expm1},
    {"log1p", weft_log1p},
    {"floor", weft_floor},
    {"ceil", weft_ceil},
    {"round", weft_round},
    {"trunc", weft_trunc},
    {"sign", weft_sign},
    {"isnan", weft_isnan},
    {"isinf", weft_isinf},
    {"logical_not", weft_logical_not},
    {"bitwise_not", weft_bitwise_not},
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
} with_numbers[] = {{"clamp", weft_clamp}, {"softplus", weft_softplus}, {"hardtanh", weft_hardtanh}};

static const struct {
    const char *op;
    weft_value *(*build)(weft_value *, weft_value *);
} two_operands[] = {
    {"add", weft_add},
    {"sub", weft_sub},
    {"mul", weft_mul},
    {"div", weft_div},
    {"pow", weft_pow},
    {"atan2", weft_atan2},
    {"maximum", weft_maximum},
    {"minimum", weft_minimum},
    {"equal", weft_equal},
    {"greater", weft_greater},
    {"not_equal", weft_not_equal},
    {"greater_equal", weft_greater_equal},
    {"less", weft_less},
    {"less_equal", weft_less_equal},
    {"prelu", weft_prelu},
    {"logical_and", weft_logical_and},
    {"logical_or", weft_logical_or},
    {"logical_xor", weft_logical_xor},
    {"bitwise_and", weft_bitwise_and},
    {"bitwise_or", weft_bitwise_or},
    {"bitwise_xor", weft_bitwise_xor},
    {"bitwise_left_shift", weft_bitwise_left_shift},
    {"bitwise_right_shift", weft_bitwise_right_shift},
    {"fmod", weft_fmod},
    {"remainder", weft_remainder},
    {"floor_divide", weft_floor_divide},
    {"trunc_divide", weft_trunc_divide},
    {"embedding", weft_embedding_op},
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

/* The numbers of the call, in the type. */
static weft_value *constant_tensor(call *c, weft_dtype dtype) {
    float f32[MOST_REALS];
    int64_t i64[MOST_REALS];
    uint8_t small[MOST_REALS];
    for (int k = 0; k < c->n_r; k++) {
        f32[k] = (float)c->r[k];
        i64[k] = (int64_t)c->r[k];
        small[k] = (uint8_t)c->r[k];
    }
    const void *data = dtype == WEFT_F32 ? (void *)f32 : dtype == WEFT_I64 ? (void *)i64 : small;
    return weft_constant_tensor(c->graph, dtype, c->n_i - 1, c->i + 1, data);
}

static weft_value *makers(call *c) {
    weft_dtype dtype = (weft_dtype)c->i[0];
    for (int k = 1; k < c->n_i && !strcmp(c->op, "input"); k++)
        if (c->i[k] < 0) c->i[k] = WEFT_BATCH;
    if (!strcmp(c->op, "input")) return weft_input(c->graph, c->name, dtype, c->n_i - 1, c->i + 1);
    if (!strcmp(c->op, "constant_tensor")) return constant_tensor(c, dtype);
    if (!strcmp(c->op, "constant")) return weft_constant(c->graph, dtype, c->n_i - 1, c->i + 1, c->r[0]);
    if (!strcmp(c->op, "rank")) return weft_rank(c->graph, NULL);
    if (!strcmp(c->op, "world")) return weft_world(c->graph, NULL);
    if (!strcmp(c->op, "arange")) return weft_arange(c->graph, dtype, c->r[0], c->r[1], c->r[2]);
    if (!strcmp(c->op, "linspace")) return weft_linspace(c->graph, dtype, c->r[0], c->r[1], c->i[1]);
    if (!strcmp(c->op, "eye")) return weft_eye(c->graph, dtype, c->i[1], c->i[2]);
    if (!strcmp(c->op, "random_uniform"))
        return weft_random_uniform(c->graph, c->n_i, c->i, c->r[0], c->r[1]);
    if (!strcmp(c->op, "random_normal")) return weft_random_normal(c->graph, c->n_i, c->i, c->r[0], c->r[1]);
    call_stop("no such op", c->op);
    return NULL;
}

/* The element, or its place: number 2. */
static weft_value *extreme(call *c) {
    weft_value *place = NULL;
    weft_value *value =
        (!strcmp(c->op, "max") ? weft_max : weft_min)(c->in[0], (int)c->i[0], c->i[1], &place);
    return c->i[2] ? place : value;
}

/* The axes of the ids, after whether index_put adds; its operands are x, values, ids. */
static weft_value *places(call *c) {
    weft_value *at[WEFT_MAX_NDIM] = {0};
    int puts = !strcmp(c->op, "index_put"), n = 0;
    for (int k = puts; k < c->n_i; k++) {
        at[c->i[k]] = c->in[1 + k];
        n = (int)c->i[k] + 1;
    }
    return puts ? weft_index_put(c->in[0], n, at, c->in[1], c->i[0]) : weft_index(c->in[0], n, at);
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
    if (!strcmp(c->op, "scatter_reduce"))
        return weft_scatter_reduce(x, (int)i[0], ids, src, (weft_scatter_reduction)i[1], i[2]);
    if (!strcmp(c->op, "index_reduce"))
        return weft_index_reduce(x, (int)i[0], ids, src, (weft_scatter_reduction)i[1], i[2]);
    if (!strcmp(c->op, "index") || !strcmp(c->op, "index_put")) return places(c);
    if (!strcmp(c->op, "argsort")) return weft_argsort(x, (int)i[0], i[1]);
    if (!strcmp(c->op, "sort")) return weft_sort(x, (int)i[0], i[1], NULL);
    if (!strcmp(c->op, "topk")) return weft_topk(x, i[0], (int)i[1], i[2], NULL);
    if (!strcmp(c->op, "bincount")) return weft_bincount(x, i[0]);
    if (!strcmp(c->op, "one_hot")) return weft_one_hot(x, i[0], WEFT_I64);
    return makers(c);
}

/* Which part, the axis, then the sizes or how many there are. */
static weft_value *part(call *c) {
    weft_value *parts[MOST_NUMBERS] = {0};
    weft_value *x = c->in[0];
    int axis = (int)c->i[1];
    if (!strcmp(c->op, "split")) weft_split(x, c->n_i - 2, c->i + 2, axis, parts);
    if (!strcmp(c->op, "chunk")) weft_chunk(x, (int)c->i[2], axis, parts);
    if (!strcmp(c->op, "unbind")) weft_unbind(x, (int)c->i[2], axis, parts);
    return parts[c->i[0]];
}

static weft_value *moves(call *c) {
    const int64_t *i = c->i;
    weft_value *x = c->in[0];
    if (!strcmp(c->op, "split") || !strcmp(c->op, "chunk") || !strcmp(c->op, "unbind")) return part(c);
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

static const struct {
    const char *op;
    weft_value *(*build)(weft_value *, int n_axes, const int64_t *axes, bool keep);
} over_axes[] = {
    {"sum", weft_sum},   {"mean", weft_mean}, {"amax", weft_amax},           {"amin", weft_amin},
    {"prod", weft_prod}, {"any", weft_any},   {"logsumexp", weft_logsumexp}, {"all", weft_all},
};

/* What a gather gives has the length of the world along its axis, which no other call of a case may need: its
 * squares are added along it, or, times a number of the rank, it is scattered again. */
static weft_value *gathered(call *c) {
    weft_value *x = c->in[0], *all = weft_all_gather(x, (int)c->i[0], NULL);
    if (!strcmp(c->op, "all_gather")) return weft_sum(weft_square(all), 1, c->i, true);
    all = weft_mul(all, weft_amax(x, 1, c->i, true));
    return weft_reduce_scatter(all, (int)c->i[0], (weft_over_ranks)c->i[1], NULL);
}

static weft_value *shapes(call *c) {
    const int64_t *i = c->i;
    const int64_t *axes = c->n_i > 1 ? i + 1 : NULL; /* all of them */
    weft_value *x = c->in[0];
    for (size_t k = 0; k < sizeof over_axes / sizeof *over_axes; k++)
        if (!strcmp(c->op, over_axes[k].op)) return over_axes[k].build(x, c->n_i - 1, axes, i[0]);
    if (!strcmp(c->op, "var")) return weft_var(x, c->r[0], c->n_i - 1, axes, i[0]);
    if (!strcmp(c->op, "std")) return weft_std(x, c->r[0], c->n_i - 1, axes, i[0]);
    if (!strcmp(c->op, "vector_norm")) return weft_vector_norm(x, c->r[0], c->n_i - 1, axes, i[0]);
    if (!strcmp(c->op, "all_reduce")) return weft_all_reduce(x, (weft_over_ranks)i[0], NULL);
    if (!strcmp(c->op, "broadcast")) return weft_broadcast(x, (int)i[0], NULL);
    if (!strcmp(c->op, "all_gather") || !strcmp(c->op, "reduce_scatter")) return gathered(c);
    if (!strcmp(c->op, "rank_rows")) return weft_rank_rows(x, NULL);
    if (!strcmp(c->op, "cumsum")) return weft_cumsum(x, (int)i[0]);
    if (!strcmp(c->op, "cumprod")) return weft_cumprod(x, (int)i[0]);
    if (!strcmp(c->op, "max") || !strcmp(c->op, "min")) return extreme(c);
    if (!strcmp(c->op, "argmin")) return weft_argmin(x, (int)i[0], i[1]);
    if (!strcmp(c->op, "argmax")) return weft_argmax(x, (int)i[0], i[1]);
    if (!strcmp(c->op, "cast")) return weft_cast(x, (weft_dtype)i[0]);
    if (!strcmp(c->op, "reshape")) return weft_reshape(x, c->n_i, i);
    if (!strcmp(c->op, "flatten")) return weft_flatten(x, (int)i[0]);
    if (!strcmp(c->op, "squeeze")) return weft_squeeze(x, (int)i[0]);
    if (!strcmp(c->op, "unsqueeze")) return weft_unsqueeze(x, (int)i[0]);
    if (!strcmp(c->op, "permute")) return weft_permute(x, i);
    if (!strcmp(c->op, "transpose")) return weft_transpose(x, (int)i[0], (int)i[1]);
    if (!strcmp(c->op, "broadcast_to")) return weft_broadcast_to(x, c->n_i, i);
    if (!strcmp(c->op, "concat")) return weft_concat(c->n, c->in, (int)i[0]);
    if (!strcmp(c->op, "slice")) return weft_slice(x, (int)i[0], i[1], i[2]);
    if (!strcmp(c->op, "strided_slice")) return weft_strided_slice(x, (int)i[0], i[1], i[2], i[3]);
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

/* ---- ops with options ---- */

static double number(const call *c, const char *key) {
    return json_number_value(json_object_get(c->options, key));
}

static bool is_set(const call *c, const char *key) {
    return json_is_true(json_object_get(c->options, key));
}

static const struct {
    const char *op;
    weft_value *(*build)(weft_value *, weft_value *, const weft_loss *);
    bool is_weighted;         /* operand 2, and perhaps 3, are options */
    weft_reduction reduction; /* of a case that has no option for it */
} losses[] = {{"cross_entropy", weft_cross_entropy, false},
              {"cross_entropy_with", weft_cross_entropy, true},
              {"soft_cross_entropy", weft_cross_entropy, true},
              {"nll", weft_nll, true},
              {"bce", weft_bce, true},
              {"bce_with_logits", weft_bce_with_logits, false, WEFT_LOSS_NONE},
              {"bce_with_logits_with", weft_bce_with_logits, true},
              {"mse", weft_mse, false},
              {"mse_with", weft_mse, false},
              {"l1", weft_l1, false},
              {"smooth_l1", weft_smooth_l1, false},
              {"huber", weft_huber, false},
              {"kl_div", weft_kl_div, false},
              {"hinge_embedding", weft_hinge_embedding, false}};

static const struct {
    const char *op;
    weft_value *(*build)(weft_value *, weft_value *, weft_value *, const weft_loss *);
} losses_of_three[] = {{"margin_ranking", weft_margin_ranking},
                       {"cosine_embedding", weft_cosine_embedding},
                       {"triplet_margin", weft_triplet_margin}};

static bool loss(call *c, weft_value **out) {
    const int64_t ignored = (int64_t)number(c, "ignore_index");
    weft_loss o = {.reduction = (weft_reduction)number(c, "reduction"),
                   .ignore_index = json_object_get(c->options, "ignore_index") ? &ignored : NULL,
                   .label_smoothing = number(c, "label_smoothing"),
                   .beta = number(c, "beta"),
                   .delta = number(c, "delta"),
                   .margin = number(c, "margin"),
                   .p = number(c, "p"),
                   .swap = is_set(c, "swap"),
                   .log_target = is_set(c, "log_target")};
    for (size_t k = 0; k < sizeof losses_of_three / sizeof *losses_of_three; k++)
        if (!strcmp(c->op, losses_of_three[k].op))
            return *out = losses_of_three[k].build(c->in[0], c->in[1], c->in[2], &o), true;
    for (size_t k = 0; k < sizeof losses / sizeof *losses; k++) {
        if (strcmp(c->op, losses[k].op) != 0) continue;
        o.weight = losses[k].is_weighted ? c->in[2] : NULL;
        o.pos_weight = losses[k].is_weighted && c->n > 3 ? c->in[3] : NULL;
        if (losses[k].reduction) o.reduction = losses[k].reduction;
        return *out = losses[k].build(c->in[0], c->in[1], &o), true;
    }
    return false;
}

static weft_value *attention_with(call *c) {
    weft_attention_options o = {.causal = is_set(c, "causal"),
                                .scale = number(c, "scale"),
                                .mask = c->in[3],
                                .dropout = number(c, "dropout"),
                                .window = (int64_t)number(c, "window"),
                                .ahead = (int64_t)number(c, "ahead"),
                                .offset = (int64_t)number(c, "offset"),
                                .softcap = number(c, "softcap")};
    return weft_attention(c->in[0], c->in[1], c->in[2], &o);
}

static weft_value *rotary(call *c) {
    weft_rotary_options o = {.base = number(c, "base"),
                             .offset = (int64_t)number(c, "offset"),
                             .dims = (int64_t)number(c, "dims"),
                             .interleaved = is_set(c, "interleaved")};
    return weft_rotary(c->in[0], &o);
}

/* h, c or their sum: number 1. */
static weft_value *lstm(call *c) {
    weft_value *cells = NULL;
    weft_value *h = weft_lstm_op(c->in[0], c->in[1], c->in[2], c->in[3], c->i[0], c->i[1] ? &cells : NULL);
    return c->i[1] == 0 ? h : c->i[1] == 1 ? cells : weft_add(h, cells);
}

weft_value *call_build(call *c) {
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
    if (pointwise(c, &out) || loss(c, &out)) return out;
    if (!strcmp(c->op, "where")) return weft_where(in[0], in[1], in[2]);
    if (!strcmp(c->op, "matmul")) return weft_matmul(in[0], in[1], i[0], i[1]);
    if (!strcmp(c->op, "linear")) return weft_linear_op(in[0], in[1], in[2]);
    if (!strcmp(c->op, "einsum")) return weft_einsum(c->name, c->n, in);
    if (!strcmp(c->op, "attention"))
        return weft_attention(in[0], in[1], in[2],
                              &(weft_attention_options){.causal = i[0], .scale = c->r[0]});
    if (!strcmp(c->op, "attention_with")) return attention_with(c);
    if (!strcmp(c->op, "rotary")) return rotary(c);
    if (!strcmp(c->op, "lstm")) return lstm(c);
    if (!strcmp(c->op, "gru")) return weft_gru_op(in[0], in[1], in[2], in[3], i[0]);
    if (!strcmp(c->op, "rnn")) return weft_rnn_op(in[0], in[1], in[2], i[0], i[1]);
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
                                                             .align_corners = i[3],
                                                             .antialias = i[4]});
    if (!strcmp(c->op, "interpolate3d"))
        return weft_interpolate(in[0], &(weft_interpolation){.size = {i[0], i[1], i[2]},
                                                             .mode = (weft_interpolation_mode)i[3],
                                                             .align_corners = i[4]});
    if (!strcmp(c->op, "grid_sample"))
        return weft_grid_sample(in[0], in[1],
                                &(weft_grid_options){.mode = (weft_grid_mode)i[0],
                                                     .padding = (weft_grid_padding)i[1],
                                                     .align_corners = i[2]});
    if (!strcmp(c->op, "affine_grid")) return weft_affine_grid(in[0], i, i[2]);
    if (!strcmp(c->op, "unfold")) return weft_unfold(in[0], i + 9, &window);
    if (!strcmp(c->op, "fold")) return weft_fold(in[0], i + 11, i + 9, &window);
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
    if (!strcmp(c->op, "cosine_similarity")) return weft_cosine_similarity(in[0], in[1], (int)i[0], c->r[0]);
    if (!strcmp(c->op, "normalize")) return weft_normalize(in[0], (int)i[0], c->r[0]);
    if (!strcmp(c->op, "rms_norm")) return weft_rms_norm_op(in[0], in[1], c->r[0]);
    if (!strcmp(c->op, "batch_norm_eval"))
        return weft_batch_norm_eval_op(in[0], in[1], in[2], in[3], in[4], c->r[0]);
    if (!strcmp(c->op, "group_norm")) return weft_group_norm_op(in[0], i[0], in[1], in[2], c->r[0]);
    if (!strcmp(c->op, "instance_norm")) return weft_instance_norm_op(in[0], in[1], in[2], c->r[0]);
    return shapes(c);
}
