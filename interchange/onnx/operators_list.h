/* operators_list.h - the operators, a row each: its name, the opset since which the row holds (until the next row
 * of the name), and the function of the file of its family in operators/, or a builder of Weft:
 *   BUILD   weft_value *function(onnx_call *)   KNOW    the same, known from attributes and types alone
 *   UNARY   weft_value *builder(weft_value *)   RANDOM  as BUILD; equal calls give other results
 *   BINARY  the same of two that broadcast      BUILD_OF  as BUILD, of another domain than ONNX's own */

/* ---- constants and shapes ---- */
KNOW("Constant", 1, onnx_know_constant)
KNOW("Shape", 1, onnx_know_shape)
KNOW("Size", 1, onnx_know_size)

/* ---- pointwise ---- */
UNARY("Abs", 6, weft_abs)
BINARY("Add", 7, weft_add)
BUILD("Cast", 6, onnx_build_cast)
BUILD("Div", 7, onnx_build_div)
BUILD("Identity", 1, onnx_build_identity)
BINARY("Mul", 7, weft_mul)
UNARY("Relu", 6, weft_relu)
UNARY("Sigmoid", 6, weft_sigmoid)
BINARY("Sub", 7, weft_sub)

/* ---- shape ---- */
BUILD("Flatten", 1, onnx_build_flatten)
BUILD("Reshape", 5, onnx_build_reshape)
BUILD("Transpose", 1, onnx_build_transpose)

/* ---- products, convolutions, pools ---- */
BUILD("AveragePool", 7, onnx_build_average_pool)
BUILD("Conv", 1, onnx_build_conv)
BUILD("ConvInteger", 10, onnx_build_conv_integer)
BUILD("ConvTranspose", 1, onnx_build_conv_transpose)
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

#undef BUILD
#undef BUILD_OF
#undef UNARY
#undef BINARY
#undef KNOW
#undef RANDOM
