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
BUILD("Conv", 1, onnx_build_conv)
BUILD("Gemm", 7, onnx_build_gemm)
BUILD("GlobalAveragePool", 1, onnx_build_global_average_pool)
BUILD("MaxPool", 8, onnx_build_max_pool)

#undef BUILD
#undef UNARY
#undef BINARY
#undef KNOW
#undef RANDOM
