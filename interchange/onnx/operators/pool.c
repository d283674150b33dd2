/* pool.c - pools over windows and over whole images. */
#include "interchange/onnx/families.h"
#include "interchange/onnx/operators/window.h"

#include <math.h>

weft_value *onnx_build_max_pool(onnx_call *c) {
    weft_value *x = onnx_in(c, 0);
    int64_t pads[2 * ONNX_SPACE];
    onnx_window at;
    weft_pool pool = {.ceil_mode = onnx_int(c, "ceil_mode", 0)};
    if (onnx_int(c, "storage_order", 0)) return onnx_refuse(c, "storage_order 1");
    if (onnx_wants(c, 1)) return onnx_refuse(c, "the places of the maxima");
    if (!x || !onnx_window_of(c, x, NULL, &at)) return NULL;
    bool is_even = onnx_window_is_even(&at);
    for (int i = 0; i < at.n; i++) {
        pool.kernel[i] = at.kernel[i];
        pool.stride[i] = at.stride[i];
        pool.dilation[i] = at.dilation[i];
        pool.pad[i] = is_even ? at.before[i] : 0;
        pads[2 * (at.n - 1 - i)] = at.before[i];
        pads[2 * (at.n - 1 - i) + 1] = at.after[i];
    }
    if (!is_even) x = weft_constant_pad(x, at.n, pads, -INFINITY);
    if (at.n == 1) return weft_max_pool1d(x, &pool);
    return at.n == 2 ? weft_max_pool2d(x, &pool) : weft_max_pool3d(x, &pool);
}

/* The mean over all axes but the first two, which stay with length 1. */
weft_value *onnx_build_global_average_pool(onnx_call *c) {
    weft_value *x = onnx_in(c, 0);
    int64_t axes[WEFT_MAX_NDIM];
    int n = 0;
    for (int i = 2; i < weft_ndim(x); i++) axes[n++] = i;
    return n ? weft_mean(x, n, axes, true) : x;
}
