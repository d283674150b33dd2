/* operators_list.h - the operators, a row each: its name, the opset since which the row holds (until the
 * next row of the name), and the function of the file of its family in operators/, or a builder of Weft:
 *   BUILD   weft_value *function(onnx_call *)   KNOW    the same, known from attributes and types alone
 *   UNARY   weft_value *builder(weft_value *)   RANDOM  as BUILD; equal calls give other results
 *   BINARY  the same of two that broadcast
 *   COMPOSE bool function(onnx_call *), which builds the node on both sides; COMPOSE_IN: of another domain */

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
BUILD("Conv", 1, onnx_build_conv)
BUILD("Gemm", 7, onnx_build_gemm)
BUILD("GlobalAveragePool", 1, onnx_build_global_average_pool)
BUILD("MaxPool", 8, onnx_build_max_pool)

/* ---- attention ---- */
BUILD("Attention", 23, onnx_build_attention)
BUILD("CausalConvWithState", 27, onnx_build_causal_conv)
COMPOSE_IN("ai.onnx.preview", "FlexAttention", 1, onnx_flex_attention)
BUILD("LinearAttention", 27, onnx_build_linear_attention)
BUILD("RotaryEmbedding", 23, onnx_build_rotary_embedding)

/* ---- graphs within a graph ---- */
COMPOSE("If", 1, onnx_if)
COMPOSE("Loop", 1, onnx_loop)
COMPOSE("Scan", 9, onnx_scan)

/* ---- recurrent layers ---- */
BUILD("GRU", 7, onnx_build_gru)
BUILD("LSTM", 7, onnx_build_lstm)
BUILD("RNN", 7, onnx_build_rnn)

#undef BUILD
#undef COMPOSE
#undef COMPOSE_IN
#undef UNARY
#undef BINARY
#undef KNOW
#undef RANDOM
