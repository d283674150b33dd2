/** @file
 * here.h - lets every error name the caller's line.
 *
 * Each builder is shadowed by a macro of its own name that notes file and line in the model before the call
 * ("gan.c:31: in generator/fc: add: ..."). The functions themselves stay plain C: bindings for other
 * languages use the headers without this one. weft.h includes it last.
 */
#ifndef WEFT_HERE_H
#define WEFT_HERE_H

#include "weft/ddp.h"
#include "weft/layers.h"
#include "weft/train.h"

#define WEFT_HERE_VALUE(v) weft_at(v, __FILE__, __LINE__)
#define WEFT_HERE_GRAPH(g) weft_graph_at(g, __FILE__, __LINE__)
#define WEFT_HERE_MODEL(m) weft_model_at(m, __FILE__, __LINE__)

/** Notes the place by the first of n values that is not NULL, for builders that take a list. */
static inline void weft_list_at(int n, weft_value *const *values, const char *file, int line) {
    int first = 0;
    while (values && first < n && !values[first]) first++;
    if (values && first < n) weft_at(values[first], file, line);
}
/** weft_concat() from a place. */
static inline weft_value *weft_concat_at(const char *file, int line, int n, weft_value *const *values,
                                         int axis) {
    weft_list_at(n, values, file, line);
    return weft_concat(n, values, axis);
}
/** weft_stack() from a place. */
static inline weft_value *weft_stack_at(const char *file, int line, int n, weft_value *const *values,
                                        int axis) {
    weft_list_at(n, values, file, line);
    return weft_stack(n, values, axis);
}
#define weft_concat(...) weft_concat_at(__FILE__, __LINE__, __VA_ARGS__)
#define weft_stack(...) weft_stack_at(__FILE__, __LINE__, __VA_ARGS__)

#define weft_model_batch(model, ...) weft_model_batch(WEFT_HERE_MODEL(model), __VA_ARGS__)
#define weft_graph_new(model, ...) weft_graph_new(WEFT_HERE_MODEL(model), __VA_ARGS__)
#define weft_precision(model, ...) weft_precision(WEFT_HERE_MODEL(model), __VA_ARGS__)
#define weft_freeze(model, ...) weft_freeze(WEFT_HERE_MODEL(model), __VA_ARGS__)
#define weft_ddp(model, ...) weft_ddp(WEFT_HERE_MODEL(model), __VA_ARGS__)
#define weft_ddp_text(model, ...) weft_ddp_text(WEFT_HERE_MODEL(model), __VA_ARGS__)
#define weft_scope_enter(value, ...) weft_scope_enter(WEFT_HERE_VALUE(value), __VA_ARGS__)
#define weft_graph_scope_enter(graph, ...) weft_graph_scope_enter(WEFT_HERE_GRAPH(graph), __VA_ARGS__)
#define weft_input(graph, ...) weft_input(WEFT_HERE_GRAPH(graph), __VA_ARGS__)
#define weft_output(value, ...) weft_output(WEFT_HERE_VALUE(value), __VA_ARGS__)
#define weft_parameter(near, ...) weft_parameter(WEFT_HERE_VALUE(near), __VA_ARGS__)
#define weft_parameter_in(graph, ...) weft_parameter_in(WEFT_HERE_GRAPH(graph), __VA_ARGS__)
#define weft_state(near, ...) weft_state(WEFT_HERE_VALUE(near), __VA_ARGS__)
#define weft_value_of(graph, ...) weft_value_of(WEFT_HERE_GRAPH(graph), __VA_ARGS__)
#define weft_assign(state, ...) weft_assign(WEFT_HERE_VALUE(state), __VA_ARGS__)
#define weft_neg(x) weft_neg(WEFT_HERE_VALUE(x))
#define weft_abs(x) weft_abs(WEFT_HERE_VALUE(x))
#define weft_square(x) weft_square(WEFT_HERE_VALUE(x))
#define weft_sqrt(x) weft_sqrt(WEFT_HERE_VALUE(x))
#define weft_rsqrt(x) weft_rsqrt(WEFT_HERE_VALUE(x))
#define weft_reciprocal(x) weft_reciprocal(WEFT_HERE_VALUE(x))
#define weft_exp(x) weft_exp(WEFT_HERE_VALUE(x))
#define weft_log(x) weft_log(WEFT_HERE_VALUE(x))
#define weft_tanh(x) weft_tanh(WEFT_HERE_VALUE(x))
#define weft_sigmoid(x) weft_sigmoid(WEFT_HERE_VALUE(x))
#define weft_relu(x) weft_relu(WEFT_HERE_VALUE(x))
#define weft_leaky_relu(x, ...) weft_leaky_relu(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_clamp(x, ...) weft_clamp(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_softplus(x, ...) weft_softplus(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_gelu(x) weft_gelu(WEFT_HERE_VALUE(x))
#define weft_gelu_tanh(x) weft_gelu_tanh(WEFT_HERE_VALUE(x))
#define weft_silu(x) weft_silu(WEFT_HERE_VALUE(x))
#define weft_mish(x) weft_mish(WEFT_HERE_VALUE(x))
#define weft_elu(x, ...) weft_elu(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_selu(x) weft_selu(WEFT_HERE_VALUE(x))
#define weft_prelu(x, ...) weft_prelu(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_hardswish(x) weft_hardswish(WEFT_HERE_VALUE(x))
#define weft_hardsigmoid(x) weft_hardsigmoid(WEFT_HERE_VALUE(x))
#define weft_hardtanh(x, ...) weft_hardtanh(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_relu6(x) weft_relu6(WEFT_HERE_VALUE(x))
#define weft_softsign(x) weft_softsign(WEFT_HERE_VALUE(x))
#define weft_logsigmoid(x) weft_logsigmoid(WEFT_HERE_VALUE(x))
#define weft_erf(x) weft_erf(WEFT_HERE_VALUE(x))
#define weft_sin(x) weft_sin(WEFT_HERE_VALUE(x))
#define weft_cos(x) weft_cos(WEFT_HERE_VALUE(x))
#define weft_tan(x) weft_tan(WEFT_HERE_VALUE(x))
#define weft_asin(x) weft_asin(WEFT_HERE_VALUE(x))
#define weft_acos(x) weft_acos(WEFT_HERE_VALUE(x))
#define weft_atan(x) weft_atan(WEFT_HERE_VALUE(x))
#define weft_floor(x) weft_floor(WEFT_HERE_VALUE(x))
#define weft_ceil(x) weft_ceil(WEFT_HERE_VALUE(x))
#define weft_round(x) weft_round(WEFT_HERE_VALUE(x))
#define weft_trunc(x) weft_trunc(WEFT_HERE_VALUE(x))
#define weft_sign(x) weft_sign(WEFT_HERE_VALUE(x))
#define weft_isnan(x) weft_isnan(WEFT_HERE_VALUE(x))
#define weft_isinf(x) weft_isinf(WEFT_HERE_VALUE(x))
#define weft_logical_not(x) weft_logical_not(WEFT_HERE_VALUE(x))
#define weft_scale(x, ...) weft_scale(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_offset(x, ...) weft_offset(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_cast(x, ...) weft_cast(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_stop_gradient(x) weft_stop_gradient(WEFT_HERE_VALUE(x))
#define weft_add(a, ...) weft_add(WEFT_HERE_VALUE(a), __VA_ARGS__)
#define weft_sub(a, ...) weft_sub(WEFT_HERE_VALUE(a), __VA_ARGS__)
#define weft_mul(a, ...) weft_mul(WEFT_HERE_VALUE(a), __VA_ARGS__)
#define weft_div(a, ...) weft_div(WEFT_HERE_VALUE(a), __VA_ARGS__)
#define weft_pow(a, ...) weft_pow(WEFT_HERE_VALUE(a), __VA_ARGS__)
#define weft_maximum(a, ...) weft_maximum(WEFT_HERE_VALUE(a), __VA_ARGS__)
#define weft_minimum(a, ...) weft_minimum(WEFT_HERE_VALUE(a), __VA_ARGS__)
#define weft_equal(a, ...) weft_equal(WEFT_HERE_VALUE(a), __VA_ARGS__)
#define weft_greater(a, ...) weft_greater(WEFT_HERE_VALUE(a), __VA_ARGS__)
#define weft_not_equal(a, ...) weft_not_equal(WEFT_HERE_VALUE(a), __VA_ARGS__)
#define weft_greater_equal(a, ...) weft_greater_equal(WEFT_HERE_VALUE(a), __VA_ARGS__)
#define weft_less(a, ...) weft_less(WEFT_HERE_VALUE(a), __VA_ARGS__)
#define weft_less_equal(a, ...) weft_less_equal(WEFT_HERE_VALUE(a), __VA_ARGS__)
#define weft_logical_and(a, ...) weft_logical_and(WEFT_HERE_VALUE(a), __VA_ARGS__)
#define weft_logical_or(a, ...) weft_logical_or(WEFT_HERE_VALUE(a), __VA_ARGS__)
#define weft_logical_xor(a, ...) weft_logical_xor(WEFT_HERE_VALUE(a), __VA_ARGS__)
#define weft_fmod(a, ...) weft_fmod(WEFT_HERE_VALUE(a), __VA_ARGS__)
#define weft_remainder(a, ...) weft_remainder(WEFT_HERE_VALUE(a), __VA_ARGS__)
#define weft_where(condition, ...) weft_where(WEFT_HERE_VALUE(condition), __VA_ARGS__)
#define weft_sum(x, ...) weft_sum(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_mean(x, ...) weft_mean(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_amax(x, ...) weft_amax(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_amin(x, ...) weft_amin(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_argmax(x, ...) weft_argmax(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_reshape(x, ...) weft_reshape(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_flatten(x, ...) weft_flatten(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_permute(x, ...) weft_permute(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_transpose(x, ...) weft_transpose(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_unsqueeze(x, ...) weft_unsqueeze(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_squeeze(x, ...) weft_squeeze(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_broadcast_to(x, ...) weft_broadcast_to(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_slice(x, ...) weft_slice(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_pad(x, ...) weft_pad(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_constant_pad(x, ...) weft_constant_pad(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_tril(x, ...) weft_tril(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_triu(x, ...) weft_triu(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_one_hot(ids, ...) weft_one_hot(WEFT_HERE_VALUE(ids), __VA_ARGS__)
#define weft_tile(x, ...) weft_tile(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_repeat_interleave(x, ...) weft_repeat_interleave(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_roll(x, ...) weft_roll(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_split(x, ...) weft_split(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_chunk(x, ...) weft_chunk(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_unbind(x, ...) weft_unbind(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_constant(graph, ...) weft_constant(WEFT_HERE_GRAPH(graph), __VA_ARGS__)
#define weft_arange(graph, ...) weft_arange(WEFT_HERE_GRAPH(graph), __VA_ARGS__)
#define weft_linspace(graph, ...) weft_linspace(WEFT_HERE_GRAPH(graph), __VA_ARGS__)
#define weft_eye(graph, ...) weft_eye(WEFT_HERE_GRAPH(graph), __VA_ARGS__)
#define weft_random_uniform(graph, ...) weft_random_uniform(WEFT_HERE_GRAPH(graph), __VA_ARGS__)
#define weft_random_normal(graph, ...) weft_random_normal(WEFT_HERE_GRAPH(graph), __VA_ARGS__)
#define weft_dropout(x, ...) weft_dropout(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_matmul(a, ...) weft_matmul(WEFT_HERE_VALUE(a), __VA_ARGS__)
#define weft_linear_op(x, ...) weft_linear_op(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_embedding_op(w, ...) weft_embedding_op(WEFT_HERE_VALUE(w), __VA_ARGS__)
#define weft_attention(q, ...) weft_attention(WEFT_HERE_VALUE(q), __VA_ARGS__)
#define weft_attention_with(q, ...) weft_attention_with(WEFT_HERE_VALUE(q), __VA_ARGS__)
#define weft_conv2d_op(x, ...) weft_conv2d_op(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_conv_transpose2d_op(x, ...) weft_conv_transpose2d_op(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_max_pool2d(x, ...) weft_max_pool2d(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_avg_pool2d(x, ...) weft_avg_pool2d(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_adaptive_avg_pool2d(x, ...) weft_adaptive_avg_pool2d(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_adaptive_max_pool2d(x, ...) weft_adaptive_max_pool2d(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_softmax(x, ...) weft_softmax(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_log_softmax(x, ...) weft_log_softmax(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_layer_norm_op(x, ...) weft_layer_norm_op(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_cross_entropy(logits, ...) weft_cross_entropy(WEFT_HERE_VALUE(logits), __VA_ARGS__)
#define weft_bce_with_logits(x, ...) weft_bce_with_logits(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_mse(x, ...) weft_mse(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_linear(x, ...) weft_linear(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_linear_with(x, ...) weft_linear_with(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_conv2d(x, ...) weft_conv2d(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_conv_transpose2d(x, ...) weft_conv_transpose2d(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_batch_norm(x, ...) weft_batch_norm(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_batch_norm_with(x, ...) weft_batch_norm_with(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_layer_norm(x, ...) weft_layer_norm(WEFT_HERE_VALUE(x), __VA_ARGS__)
#define weft_embedding(ids, ...) weft_embedding(WEFT_HERE_VALUE(ids), __VA_ARGS__)
#define weft_gradients(loss, ...) weft_gradients(WEFT_HERE_VALUE(loss), __VA_ARGS__)
#define weft_minimize(loss, ...) weft_minimize(WEFT_HERE_VALUE(loss), __VA_ARGS__)

#endif
