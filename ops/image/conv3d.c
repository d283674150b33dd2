/* conv3d.c - three-dimensional convolution (cross-correlation); torch.nn.functional.conv3d. conv2d with an
 * axis more:
 *     x [N, C, D, H, W]   w [out, C/groups, kd, kh, kw]   b [out] or none   ->   y [N, out, d, h, w]
 *     dx = conv_transpose3d(dy, w)   dw = conv3d_weight(x, dy)   db = sum of dy over n, z, y, x
 */
#include "ops/image/conv2d.h"

static const op_attr attrs[] = {
    {"out", ATTR_INT, offsetof(conv_attrs, out), 1, INT64_MAX}, CONV_ATTR_ROWS, {0}};

const weft_op weft_op_conv3d = {
    .name = "conv3d",
    .summary = "three-dimensional convolution of volumes x[N,C,D,H,W] with w[out,C/groups,kd,kh,kw], + b",
    .torch = "torch.nn.functional.conv3d",
    CONV_FIELDS(WEFT_PARAMS_DEPTHWISE),
    .infer = conv_infer,
    .gradient = conv_gradient,
    .reference = conv_reference,
    .samples =
        (const op_sample[]){
            {"f32[2,2,3,4,3], f32[3,2,2,3,2], f32[3]",
             "out=3 kernel=2,3,2 stride=1,1,1 pad=0,0,0 dilation=1,1,1 groups=1", .out = "f32[2,3,2,2,2]"},
            {"bf16[2,16,3,4,4], bf16[32,16,3,3,3], f32[32]",
             "out=32 kernel=3,3,3 stride=1,1,1 pad=1,1,1 dilation=1,1,1 groups=1", .out = "bf16[2,32,3,4,4]",
             .no_gradient = true},
            {"bf16[2,3,3,5,4], bf16[4,3,2,3,3]",
             "out=4 kernel=2,3,3 stride=1,1,1 pad=0,0,0 dilation=1,1,1 groups=1 f32_output=1",
             .out = "f32[2,4,2,3,2]", .no_gradient = true},
            {"f32[2,3,2,3,2], f32[2,3,1,1,1]",
             "out=2 kernel=1,1,1 stride=1,1,1 pad=0,0,0 dilation=1,1,1 groups=1", .out = "f32[2,2,2,3,2]"},
            {"f32[1,4,4,3,5], f32[4,2,2,3,1]",
             "out=4 kernel=2,3,1 stride=1,2,3 pad=1,1,0 dilation=2,1,1 groups=2", .out = "f32[1,4,4,2,2]"},
            {"f32[1,2,5,2,3], f32[4,1,3,1,2], f32[4]",
             "out=4 kernel=3,1,2 stride=2,1,1 pad=1,0,1 dilation=1,1,1 groups=2", .out = "f32[1,4,3,2,4]"},
            {"f32[1,1,1,5,4], f32[2,1,1,3,3]",
             "out=2 kernel=1,3,3 stride=1,1,1 pad=0,1,1 dilation=1,1,1 groups=1", .out = "f32[1,2,1,5,4]"},
            /* as large as it takes for the fast kernels to be real; too large for differences element by
               element */
            {"f32[2,16,5,7,6], f32[32,16,3,3,3], f32[32]",
             "out=32 kernel=3,3,3 stride=1,1,1 pad=1,1,1 dilation=1,1,1 groups=1", .out = "f32[2,32,5,7,6]",
             .no_gradient = true},
            {"f32[2,3,4,8,8], f32[48,3,2,4,4]",
             "out=48 kernel=2,4,4 stride=2,2,2 pad=0,1,1 dilation=1,1,1 groups=1", .out = "f32[2,48,2,4,4]",
             .no_gradient = true},
            {"f32[2,32,5,5,5], f32[32,16,3,3,3]",
             "out=32 kernel=3,3,3 stride=1,1,1 pad=2,2,2 dilation=2,2,2 groups=2", .out = "f32[2,32,5,5,5]",
             .no_gradient = true},
            {"f32[2,32,3,5,5], f32[64,32,1,1,1]",
             "out=64 kernel=1,1,1 stride=2,2,2 pad=0,0,0 dilation=1,1,1 groups=1", .out = "f32[2,64,2,3,3]",
             .no_gradient = true},
            {"f32[2,2,3,4,3], f32[3,1,2,3,2]",
             "out=3 kernel=2,3,2 stride=1,1,1 pad=0,0,0 dilation=1,1,1 groups=1",
             .error = "weight f32[3,1,2,3,2]: it must be f32[3,2,2,3,2]"},
            {"f32[2,2,3,4,3], f32[3,2,4,3,2]",
             "out=3 kernel=4,3,2 stride=1,1,1 pad=0,0,0 dilation=1,1,1 groups=1",
             .error = "axis 2 with pad 0 on both sides is smaller than the kernel, 4 with dilation"},
            {"f32[2,3,3,4,3], f32[4,1,2,3,2]",
             "out=4 kernel=2,3,2 stride=1,1,1 pad=0,0,0 dilation=1,1,1 groups=2",
             .error = "3 channels to 4 in 2 groups"},
            {"f32[2,2,3,4,3], f32[3,2,2,3,2]",
             "out=3 kernel=2,3,2 stride=1,1 pad=0,0,0 dilation=1,1,1 groups=1",
             .error = "stride has 2 numbers: it must have 3, depth, height and width"},
            {"f32[2,2,4,3], f32[3,2,2,3,2]",
             "out=3 kernel=2,3,2 stride=1,1,1 pad=0,0,0 dilation=1,1,1 groups=1",
             .error = "x f32[2,2,4,3]: it must be [N, C, D, H, W]"},
            {0}},
};

weft_value *weft_conv3d_op(weft_value *x, weft_value *w, weft_value *b, const weft_window *window) {
    return conv_value(&weft_op_conv3d, x, w, b, window);
}
