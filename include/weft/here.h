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
#include "weft/flow.h"
#include "weft/layers.h"
#include "weft/op.h"
#include "weft/strategy.h"
#include "weft/train.h"

#define WEFT_HERE_VALUE(v) weft_at(v, __FILE__, __LINE__)
#define WEFT_HERE_GRAPH(g) weft_graph_at(g, __FILE__, __LINE__)
#define WEFT_HERE_MODEL(m) weft_model_at(m, __FILE__, __LINE__)
/* The same of the first of several arguments. */
#define WEFT_VALUE_HERE(v, ...) WEFT_HERE_VALUE(v), __VA_ARGS__
#define WEFT_GRAPH_HERE(g, ...) WEFT_HERE_GRAPH(g), __VA_ARGS__
#define WEFT_MODEL_HERE(m, ...) WEFT_HERE_MODEL(m), __VA_ARGS__

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
/** weft_einsum() from a place. */
static inline weft_value *weft_einsum_at(const char *file, int line, const char *equation, int n,
                                         weft_value *const *operands) {
    weft_list_at(n, operands, file, line);
    return weft_einsum(equation, n, operands);
}
/** weft_call_op() from a place. */
static inline weft_value *weft_call_op_at(const char *file, int line, const char *name, int n,
                                          weft_value *const *operands, const weft_op_numbers *numbers) {
    weft_list_at(n, operands, file, line);
    return weft_call_op(name, n, operands, numbers);
}
#define weft_call_op(...) weft_call_op_at(__FILE__, __LINE__, __VA_ARGS__)
#define weft_einsum(...) weft_einsum_at(__FILE__, __LINE__, __VA_ARGS__)
#define weft_concat(...) weft_concat_at(__FILE__, __LINE__, __VA_ARGS__)
#define weft_stack(...) weft_stack_at(__FILE__, __LINE__, __VA_ARGS__)

#define weft_model_set_batch(...) weft_model_set_batch(WEFT_MODEL_HERE(__VA_ARGS__))
#define weft_graph_new(...) weft_graph_new(WEFT_MODEL_HERE(__VA_ARGS__))
#define weft_model_set_flow(...) weft_model_set_flow(WEFT_MODEL_HERE(__VA_ARGS__))
#define weft_model_set_flow_named(...) weft_model_set_flow_named(WEFT_MODEL_HERE(__VA_ARGS__))
#define weft_model_set_precision(...) weft_model_set_precision(WEFT_MODEL_HERE(__VA_ARGS__))
#define weft_model_set_optimizer(...) weft_model_set_optimizer(WEFT_MODEL_HERE(__VA_ARGS__))
#define weft_freeze(...) weft_freeze(WEFT_MODEL_HERE(__VA_ARGS__))
#define weft_model_set_ddp(...) weft_model_set_ddp(WEFT_MODEL_HERE(__VA_ARGS__))
#define weft_model_set_ddp_text(...) weft_model_set_ddp_text(WEFT_MODEL_HERE(__VA_ARGS__))
#define weft_scope_enter(...) weft_scope_enter(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_graph_scope_enter(...) weft_graph_scope_enter(WEFT_GRAPH_HERE(__VA_ARGS__))
#define weft_input(...) weft_input(WEFT_GRAPH_HERE(__VA_ARGS__))
#define weft_output(...) weft_output(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_parameter(...) weft_parameter(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_parameter_in(...) weft_parameter_in(WEFT_GRAPH_HERE(__VA_ARGS__))
#define weft_state(...) weft_state(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_value_of(...) weft_value_of(WEFT_GRAPH_HERE(__VA_ARGS__))
#define weft_assign(...) weft_assign(WEFT_VALUE_HERE(__VA_ARGS__))
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
#define weft_leaky_relu(...) weft_leaky_relu(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_clamp(...) weft_clamp(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_softplus(...) weft_softplus(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_gelu(x) weft_gelu(WEFT_HERE_VALUE(x))
#define weft_gelu_tanh(x) weft_gelu_tanh(WEFT_HERE_VALUE(x))
#define weft_silu(x) weft_silu(WEFT_HERE_VALUE(x))
#define weft_mish(x) weft_mish(WEFT_HERE_VALUE(x))
#define weft_elu(...) weft_elu(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_selu(x) weft_selu(WEFT_HERE_VALUE(x))
#define weft_prelu(...) weft_prelu(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_hardswish(x) weft_hardswish(WEFT_HERE_VALUE(x))
#define weft_hardsigmoid(x) weft_hardsigmoid(WEFT_HERE_VALUE(x))
#define weft_hardtanh(...) weft_hardtanh(WEFT_VALUE_HERE(__VA_ARGS__))
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
#define weft_scale(...) weft_scale(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_offset(...) weft_offset(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_cast(...) weft_cast(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_stop_gradient(x) weft_stop_gradient(WEFT_HERE_VALUE(x))
#define weft_add(...) weft_add(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_sub(...) weft_sub(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_mul(...) weft_mul(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_div(...) weft_div(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_pow(...) weft_pow(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_maximum(...) weft_maximum(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_minimum(...) weft_minimum(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_equal(...) weft_equal(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_greater(...) weft_greater(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_not_equal(...) weft_not_equal(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_greater_equal(...) weft_greater_equal(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_less(...) weft_less(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_less_equal(...) weft_less_equal(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_logical_and(...) weft_logical_and(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_logical_or(...) weft_logical_or(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_logical_xor(...) weft_logical_xor(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_fmod(...) weft_fmod(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_remainder(...) weft_remainder(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_floor_divide(...) weft_floor_divide(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_trunc_divide(...) weft_trunc_divide(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_where(...) weft_where(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_sum(...) weft_sum(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_mean(...) weft_mean(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_amax(...) weft_amax(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_amin(...) weft_amin(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_prod(...) weft_prod(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_any(...) weft_any(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_all(...) weft_all(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_argmax(...) weft_argmax(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_argmin(...) weft_argmin(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_max(...) weft_max(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_min(...) weft_min(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_var(...) weft_var(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_std(...) weft_std(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_logsumexp(...) weft_logsumexp(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_vector_norm(...) weft_vector_norm(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_cumsum(...) weft_cumsum(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_cumprod(...) weft_cumprod(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_reshape(...) weft_reshape(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_flatten(...) weft_flatten(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_permute(...) weft_permute(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_transpose(...) weft_transpose(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_unsqueeze(...) weft_unsqueeze(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_squeeze(...) weft_squeeze(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_broadcast_to(...) weft_broadcast_to(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_slice(...) weft_slice(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_pad(...) weft_pad(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_constant_pad(...) weft_constant_pad(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_reflect_pad(...) weft_reflect_pad(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_replicate_pad(...) weft_replicate_pad(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_circular_pad(...) weft_circular_pad(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_tril(...) weft_tril(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_triu(...) weft_triu(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_one_hot(...) weft_one_hot(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_tile(...) weft_tile(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_repeat_interleave(...) weft_repeat_interleave(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_roll(...) weft_roll(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_flip(...) weft_flip(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_split(...) weft_split(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_chunk(...) weft_chunk(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_unbind(...) weft_unbind(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_gather(...) weft_gather(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_take_along_axis(...) weft_take_along_axis(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_index_select(...) weft_index_select(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_scatter(...) weft_scatter(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_scatter_add(...) weft_scatter_add(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_index_add(...) weft_index_add(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_bincount(...) weft_bincount(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_sort(...) weft_sort(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_argsort(...) weft_argsort(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_topk(...) weft_topk(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_constant(...) weft_constant(WEFT_GRAPH_HERE(__VA_ARGS__))
#define weft_constant_tensor(...) weft_constant_tensor(WEFT_GRAPH_HERE(__VA_ARGS__))
#define weft_arange(...) weft_arange(WEFT_GRAPH_HERE(__VA_ARGS__))
#define weft_linspace(...) weft_linspace(WEFT_GRAPH_HERE(__VA_ARGS__))
#define weft_eye(...) weft_eye(WEFT_GRAPH_HERE(__VA_ARGS__))
#define weft_random_uniform(...) weft_random_uniform(WEFT_GRAPH_HERE(__VA_ARGS__))
#define weft_random_normal(...) weft_random_normal(WEFT_GRAPH_HERE(__VA_ARGS__))
#define weft_dropout(...) weft_dropout(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_matmul(...) weft_matmul(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_linear_op(...) weft_linear_op(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_embedding_op(...) weft_embedding_op(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_attention(...) weft_attention(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_lstm_op(...) weft_lstm_op(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_rotary(...) weft_rotary(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_gru_op(...) weft_gru_op(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_rnn_op(...) weft_rnn_op(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_conv2d_op(...) weft_conv2d_op(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_conv_transpose2d_op(...) weft_conv_transpose2d_op(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_conv1d_op(...) weft_conv1d_op(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_conv_transpose1d_op(...) weft_conv_transpose1d_op(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_conv3d_op(...) weft_conv3d_op(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_conv_transpose3d_op(...) weft_conv_transpose3d_op(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_max_pool2d(...) weft_max_pool2d(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_avg_pool2d(...) weft_avg_pool2d(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_adaptive_avg_pool2d(...) weft_adaptive_avg_pool2d(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_adaptive_max_pool2d(...) weft_adaptive_max_pool2d(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_max_pool1d(...) weft_max_pool1d(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_avg_pool1d(...) weft_avg_pool1d(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_adaptive_avg_pool1d(...) weft_adaptive_avg_pool1d(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_adaptive_max_pool1d(...) weft_adaptive_max_pool1d(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_max_pool3d(...) weft_max_pool3d(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_avg_pool3d(...) weft_avg_pool3d(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_adaptive_avg_pool3d(...) weft_adaptive_avg_pool3d(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_adaptive_max_pool3d(...) weft_adaptive_max_pool3d(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_interpolate(...) weft_interpolate(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_pixel_shuffle(...) weft_pixel_shuffle(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_pixel_unshuffle(...) weft_pixel_unshuffle(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_softmax(...) weft_softmax(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_log_softmax(...) weft_log_softmax(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_layer_norm_op(...) weft_layer_norm_op(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_rms_norm_op(...) weft_rms_norm_op(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_group_norm_op(...) weft_group_norm_op(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_batch_norm_op(...) weft_batch_norm_op(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_instance_norm_op(...) weft_instance_norm_op(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_cross_entropy(...) weft_cross_entropy(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_nll(...) weft_nll(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_bce_with_logits(...) weft_bce_with_logits(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_bce(...) weft_bce(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_mse(...) weft_mse(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_l1(...) weft_l1(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_smooth_l1(...) weft_smooth_l1(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_huber(...) weft_huber(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_kl_div(...) weft_kl_div(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_hinge_embedding(...) weft_hinge_embedding(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_margin_ranking(...) weft_margin_ranking(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_cosine_embedding(...) weft_cosine_embedding(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_triplet_margin(...) weft_triplet_margin(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_cosine_similarity(...) weft_cosine_similarity(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_normalize(...) weft_normalize(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_linear(...) weft_linear(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_conv2d(...) weft_conv2d(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_conv_transpose2d(...) weft_conv_transpose2d(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_conv1d(...) weft_conv1d(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_conv_transpose1d(...) weft_conv_transpose1d(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_conv3d(...) weft_conv3d(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_conv_transpose3d(...) weft_conv_transpose3d(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_batch_norm(...) weft_batch_norm(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_layer_norm(...) weft_layer_norm(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_rms_norm(...) weft_rms_norm(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_group_norm(...) weft_group_norm(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_instance_norm(...) weft_instance_norm(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_moving_mean(...) weft_moving_mean(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_spectral_norm(...) weft_spectral_norm(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_weight_norm(...) weft_weight_norm(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_embedding(...) weft_embedding(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_lstm(...) weft_lstm(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_gru(...) weft_gru(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_rnn(...) weft_rnn(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_gradients(...) weft_gradients(WEFT_VALUE_HERE(__VA_ARGS__))
#define weft_minimize(...) weft_minimize(WEFT_VALUE_HERE(__VA_ARGS__))

#endif
