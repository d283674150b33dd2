/* operators_list.h - the operators, a row each: its name, the opset since which the row holds (until the next row
 * of the name), and the function of the file of its family in operators/, or a builder of Weft:
 *   BUILD   weft_value *function(onnx_call *)   KNOW    the same, known from attributes and types alone
 *   UNARY   weft_value *builder(weft_value *)   RANDOM  as BUILD; equal calls give other results
 *   BINARY  the same of two that broadcast */

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

#undef BUILD
#undef UNARY
#undef BINARY
#undef KNOW
#undef RANDOM
