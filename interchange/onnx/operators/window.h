/* window.h - where the kernels of convolutions and pools are placed: strides, dilations, pads, auto_pad. */
#ifndef WEFT_INTERCHANGE_ONNX_OPERATORS_WINDOW_H
#define WEFT_INTERCHANGE_ONNX_OPERATORS_WINDOW_H

#include "interchange/onnx/import/import.h"

enum { ONNX_SPACE = 3 }; /* the most axes of a kernel */

typedef struct onnx_window {
    int n; /* axes of the kernel: 1 to ONNX_SPACE */
    int64_t kernel[ONNX_SPACE], stride[ONNX_SPACE], dilation[ONNX_SPACE];
    int64_t before[ONNX_SPACE], after[ONNX_SPACE]; /* the padding */
    bool is_cut; /* auto_pad SAME, whose padding would be below 0: strides reach further than the kernel */
} onnx_window;

/* Reads the attributes of a node over x[N, C, ...], which is operand 0 or a cast of it, with a kernel of
 * these lengths (NULL: kernel_shape). */
bool onnx_window_of(onnx_call *c, weft_value *x, const int64_t *kernel, onnx_window *w);
bool onnx_window_is_even(const onnx_window *w); /* equal padding on both sides of each axis */
/* x, and its padding: where it differs between the sides it is put around x, and w then has none. */
weft_value *onnx_window_pad(weft_value *x, onnx_window *w, double value);

#endif
