/* operators_list.h - the operators, a row each: its name, the opset since which the row holds (until the
 * next row of the name), and the function of the file of its family in operators/, or a builder of Weft:
 *   BUILD   weft_value *function(onnx_call *)   KNOW    the same, known from attributes and types alone
 *   UNARY   weft_value *builder(weft_value *)   RANDOM  as BUILD; equal calls give other results
 *   BINARY  the same of two that broadcast      BUILD_OF  as BUILD, of another domain than ONNX's own
 *   LIKE    as BUILD; of operands from 1 on it reads the type alone
 *   COMPOSE bool function(onnx_call *), which builds the node on both sides; COMPOSE_OF: of another domain */

/* ---- constants and shapes ---- */
RANDOM("Bernoulli", 15, onnx_build_bernoulli)
BUILD("BlackmanWindow", 17, onnx_build_blackman_window)
KNOW("Constant", 1, onnx_know_constant)
BUILD("ConstantOfShape", 9, onnx_build_constant_of_shape)
BUILD("EyeLike", 9, onnx_build_eye_like)
BUILD("HammingWindow", 17, onnx_build_hamming_window)
BUILD("HannWindow", 17, onnx_build_hann_window)
BUILD("MelWeightMatrix", 17, onnx_build_mel_weight_matrix)
RANDOM("Multinomial", 7, onnx_build_multinomial)
RANDOM("RandomNormal", 1, onnx_build_random_normal)
RANDOM("RandomNormalLike", 1, onnx_build_random_normal_like)
RANDOM("RandomUniform", 1, onnx_build_random_uniform)
RANDOM("RandomUniformLike", 1, onnx_build_random_uniform_like)
BUILD("Range", 11, onnx_build_range)
KNOW("Shape", 1, onnx_know_shape)
KNOW("Size", 1, onnx_know_size)

/* ---- pointwise ---- */
UNARY("Abs", 1, weft_abs)
UNARY("Acos", 7, weft_acos)
UNARY("Acosh", 9, weft_acosh)
BUILD("Add", 1, onnx_build_early_add)
BINARY("Add", 7, weft_add)
BUILD("And", 1, onnx_build_early_and)
BINARY("And", 7, weft_logical_and)
UNARY("Asin", 7, weft_asin)
UNARY("Asinh", 9, weft_asinh)
UNARY("Atan", 7, weft_atan)
UNARY("Atanh", 9, weft_atanh)
BUILD("BitCast", 26, onnx_build_bit_cast)
BUILD("BitShift", 11, onnx_build_bit_shift)
BINARY("BitwiseAnd", 18, weft_bitwise_and)
UNARY("BitwiseNot", 18, weft_bitwise_not)
BINARY("BitwiseOr", 18, weft_bitwise_or)
BINARY("BitwiseXor", 18, weft_bitwise_xor)
BUILD("Cast", 6, onnx_build_cast)
LIKE("CastLike", 15, onnx_build_cast_like)
UNARY("Ceil", 1, weft_ceil)
BUILD("Clip", 1, onnx_build_clip_attributes)
BUILD("Clip", 11, onnx_build_clip)
UNARY("Cos", 7, weft_cos)
UNARY("Cosh", 9, weft_cosh)
BUILD("Div", 1, onnx_build_early_div)
BUILD("Div", 7, onnx_build_div)
BUILD("Equal", 1, onnx_build_early_equal)
BINARY("Equal", 7, weft_equal)
UNARY("Erf", 9, weft_erf)
UNARY("Exp", 1, weft_exp)
UNARY("Floor", 1, weft_floor)
BUILD("Greater", 1, onnx_build_early_greater)
BINARY("Greater", 7, weft_greater)
BINARY("GreaterOrEqual", 12, weft_greater_equal)
BUILD("Identity", 1, onnx_build_identity)
BUILD("IsInf", 10, onnx_build_is_inf)
UNARY("IsNaN", 9, weft_isnan)
BUILD("Less", 1, onnx_build_early_less)
BINARY("Less", 7, weft_less)
BINARY("LessOrEqual", 12, weft_less_equal)
UNARY("Log", 1, weft_log)
BUILD("Max", 1, onnx_build_max)
BUILD("Mean", 1, onnx_build_mean)
BUILD("Min", 1, onnx_build_min)
BUILD("Mod", 10, onnx_build_mod)
BUILD("Mul", 1, onnx_build_early_mul)
BINARY("Mul", 7, weft_mul)
UNARY("Neg", 1, weft_neg)
UNARY("Not", 1, weft_logical_not)
BUILD("Or", 1, onnx_build_early_or)
BINARY("Or", 7, weft_logical_or)
BUILD("PRelu", 1, onnx_build_early_prelu)
BUILD("PRelu", 7, onnx_build_prelu)
BUILD("Pow", 1, onnx_build_early_pow)
BUILD("Pow", 7, onnx_build_pow)
UNARY("Reciprocal", 1, weft_reciprocal)
BUILD("Relu", 1, onnx_build_relu)
BUILD("Round", 11, onnx_build_round)
UNARY("Sigmoid", 1, weft_sigmoid)
UNARY("Sign", 9, weft_sign)
UNARY("Sin", 7, weft_sin)
UNARY("Sinh", 9, weft_sinh)
UNARY("Sqrt", 1, weft_sqrt)
BUILD("Sub", 1, onnx_build_early_sub)
BINARY("Sub", 7, weft_sub)
BUILD("Sum", 1, onnx_build_sum)
UNARY("Tan", 7, weft_tan)
UNARY("Tanh", 1, weft_tanh)
BUILD("Where", 9, onnx_build_where)
BUILD("Xor", 1, onnx_build_early_xor)
BINARY("Xor", 7, weft_logical_xor)

/* ---- activations ---- */
BUILD("Celu", 12, onnx_build_celu)
BUILD("Elu", 1, onnx_build_elu)
BUILD("Gelu", 20, onnx_build_gelu)
BUILD("HardSigmoid", 1, onnx_build_hard_sigmoid)
UNARY("HardSwish", 14, weft_hardswish)
BUILD("Hardmax", 1, onnx_build_hardmax_flat)
BUILD("Hardmax", 13, onnx_build_hardmax)
BUILD("LeakyRelu", 1, onnx_build_leaky_relu)
BUILD("LogSoftmax", 1, onnx_build_log_softmax_flat)
BUILD("LogSoftmax", 13, onnx_build_log_softmax)
UNARY("Mish", 18, weft_mish)
BUILD("Selu", 1, onnx_build_selu)
BUILD("Shrink", 9, onnx_build_shrink)
BUILD("Softmax", 1, onnx_build_softmax_flat)
BUILD("Softmax", 13, onnx_build_softmax)
BUILD("Softplus", 1, onnx_build_softplus)
UNARY("Softsign", 1, weft_softsign)
BUILD("SwiGLU", 28, onnx_build_swiglu)
BUILD("Swish", 24, onnx_build_swish)
BUILD("ThresholdedRelu", 10, onnx_build_thresholded_relu)

/* ---- reductions ---- */
BUILD("ArgMax", 1, onnx_build_arg_max)
BUILD("ArgMin", 1, onnx_build_arg_min)
BUILD("CumProd", 26, onnx_build_cum_prod)
BUILD("CumSum", 11, onnx_build_cum_sum)
BUILD("ReduceL1", 1, onnx_build_reduce_l1)
BUILD("ReduceL2", 1, onnx_build_reduce_l2)
BUILD("ReduceLogSum", 1, onnx_build_reduce_log_sum)
BUILD("ReduceLogSumExp", 1, onnx_build_reduce_log_sum_exp)
BUILD("ReduceMax", 1, onnx_build_reduce_max)
BUILD("ReduceMean", 1, onnx_build_reduce_mean)
BUILD("ReduceMin", 1, onnx_build_reduce_min)
BUILD("ReduceProd", 1, onnx_build_reduce_prod)
BUILD("ReduceSum", 1, onnx_build_reduce_sum)
BUILD("ReduceSumSquare", 1, onnx_build_reduce_sum_square)

/* ---- sums of products by letters, determinants ---- */
BUILD("Det", 11, onnx_build_det)
BUILD("Einsum", 12, onnx_build_einsum)

/* ---- shape ---- */
BUILD("CenterCropPad", 18, onnx_build_center_crop_pad)
BUILD("Col2Im", 18, onnx_build_col2im)
BUILD("Concat", 1, onnx_build_concat)
BUILD("DepthToSpace", 1, onnx_build_depth_to_space)
BUILD("Expand", 8, onnx_build_expand)
BUILD("Flatten", 1, onnx_build_flatten)
BUILD("Pad", 2, onnx_build_pad)
BUILD("Reshape", 5, onnx_build_reshape)
BUILD("ReverseSequence", 10, onnx_build_reverse_sequence)
BUILD("Slice", 1, onnx_build_slice)
BUILD("SpaceToDepth", 1, onnx_build_space_to_depth)
BUILD("Split", 2, onnx_build_split)
BUILD("Squeeze", 1, onnx_build_squeeze)
BUILD("Tile", 6, onnx_build_tile)
BUILD("Transpose", 1, onnx_build_transpose)
BUILD("Trilu", 14, onnx_build_trilu)
BUILD("Unsqueeze", 1, onnx_build_unsqueeze)

/* ---- elements by index ---- */
BUILD("Compress", 9, onnx_build_compress)
BUILD("Gather", 1, onnx_build_gather)
BUILD("GatherElements", 11, onnx_build_gather_elements)
BUILD("GatherND", 11, onnx_build_gather_nd)
BUILD("NonZero", 9, onnx_build_non_zero)
BUILD("OneHot", 9, onnx_build_one_hot)
BUILD("Scatter", 9, onnx_build_scatter_elements)
BUILD("ScatterElements", 11, onnx_build_scatter_elements)
BUILD("ScatterND", 11, onnx_build_scatter_nd)
BUILD("TensorScatter", 24, onnx_build_tensor_scatter)
BUILD("TopK", 1, onnx_build_top_k)
BUILD("Unique", 11, onnx_build_unique)

/* ---- images ---- */
BUILD("AffineGrid", 20, onnx_build_affine_grid)
BUILD("GridSample", 16, onnx_build_grid_sample)
BUILD("Resize", 10, onnx_build_resize)
BUILD("RoiAlign", 10, onnx_build_roi_align)
BUILD("Upsample", 7, onnx_build_upsample)

/* ---- products, convolutions, pools ---- */
BUILD("AveragePool", 7, onnx_build_average_pool)
BUILD("Conv", 1, onnx_build_conv)
BUILD("ConvInteger", 10, onnx_build_conv_integer)
BUILD("ConvTranspose", 1, onnx_build_conv_transpose)
BUILD("DeformConv", 19, onnx_build_deform_conv)
BUILD("Gemm", 7, onnx_build_gemm)
BUILD("GlobalAveragePool", 1, onnx_build_global_average_pool)
BUILD("GlobalLpPool", 2, onnx_build_global_lp_pool)
BUILD("GlobalMaxPool", 1, onnx_build_global_max_pool)
BUILD("LpPool", 2, onnx_build_lp_pool)
BUILD("MatMul", 1, onnx_build_matmul)
BUILD("MatMulInteger", 10, onnx_build_matmul_integer)
BUILD("MaxPool", 1, onnx_build_max_pool)
BUILD("MaxRoiPool", 1, onnx_build_max_roi_pool)
BUILD("MaxUnpool", 9, onnx_build_max_unpool)
BUILD("QLinearConv", 10, onnx_build_qlinear_conv)
BUILD("QLinearMatMul", 10, onnx_build_qlinear_matmul)

/* ---- norms ---- */
BUILD("BatchNormalization", 7, onnx_build_batch_norm)
BUILD("GroupNormalization", 18, onnx_build_group_norm)
BUILD("InstanceNormalization", 6, onnx_build_instance_norm)
BUILD("LRN", 1, onnx_build_lrn)
BUILD("LayerNormalization", 17, onnx_build_layer_norm)
BUILD("LpNormalization", 1, onnx_build_lp_norm)
BUILD("MeanVarianceNormalization", 9, onnx_build_mean_variance_norm)
BUILD("RMSNormalization", 23, onnx_build_rms_norm)

/* ---- losses, dropout, training ---- */
BUILD_OF("ai.onnx.preview.training", "Adagrad", 1, onnx_build_adagrad)
BUILD_OF("ai.onnx.preview.training", "Adam", 1, onnx_build_adam)
RANDOM("Dropout", 7, onnx_build_dropout)
BUILD_OF("ai.onnx.preview.training", "Gradient", 1, onnx_build_gradient)
BUILD_OF("ai.onnx.preview.training", "Momentum", 1, onnx_build_momentum)
BUILD("NegativeLogLikelihoodLoss", 12, onnx_build_nll)
BUILD("SoftmaxCrossEntropyLoss", 12, onnx_build_cross_entropy)

/* ---- quantization ---- */
BUILD("DequantizeLinear", 10, onnx_build_dequantize)
BUILD("DynamicQuantizeLinear", 11, onnx_build_dynamic_quantize)
BUILD("QuantizeLinear", 10, onnx_build_quantize)

/* ---- what fuse.c makes ---- */
BUILD_OF("weft", "Attention", 0, onnx_build_fused_attention)
BUILD_OF("weft", "RMSNorm", 0, onnx_build_fused_rms_norm)

/* ---- attention ---- */
BUILD("Attention", 23, onnx_build_attention)
BUILD("CausalConvWithState", 27, onnx_build_causal_conv)
COMPOSE_OF("ai.onnx.preview", "FlexAttention", 1, onnx_flex_attention)
BUILD("LinearAttention", 27, onnx_build_linear_attention)
BUILD("RotaryEmbedding", 23, onnx_build_rotary_embedding)

/* ---- Fourier transforms ---- */
BUILD("DFT", 17, onnx_build_dft_17)
BUILD("DFT", 20, onnx_build_dft)
BUILD("STFT", 17, onnx_build_stft)

/* ---- graphs within a graph ---- */
COMPOSE("If", 1, onnx_if)
COMPOSE("Loop", 1, onnx_loop)
COMPOSE("Scan", 9, onnx_scan)

/* ---- recurrent layers ---- */
BUILD("GRU", 7, onnx_build_gru)
BUILD("LSTM", 7, onnx_build_lstm)
BUILD("RNN", 7, onnx_build_rnn)

#undef BUILD
#undef LIKE
#undef COMPOSE
#undef COMPOSE_OF
#undef BUILD_OF
#undef UNARY
#undef BINARY
#undef KNOW
#undef RANDOM
