/* conv_transpose3d.c - transposed convolution of volumes, the data gradient of conv3d;
 * torch.nn.functional.conv_transpose3d. conv_transpose2d with an axis more:
 *     x [N, C, d, h, w]   w [C, out/groups, kd, kh, kw]   b [out] or none   ->   y [N, out, D, H, W]
 *     dx = conv3d(dy, w)   dw = conv3d_weight(dy, x)   db = sum of dy over n, Z, Y, X
 */
#include "ops/image/conv2d.h"

static const op_attr attrs[] = {
    {"out", ATTR_INT, offsetof(conv_attrs, out), 1, INT64_MAX},
    CONV_ATTR_ROWS,
    {"output_padding", ATTR_INTS, offsetof(conv_attrs, output_padding), 0, CONV_MAX},
    {0},
};

const weft_op weft_op_conv_transpose3d = {
    .name = "conv_transpose3d",
    .summary = "transposed convolution of volumes x[N,C,d,h,w] with w[C,out/groups,kd,kh,kw], + b",
    .torch = "torch.nn.functional.conv_transpose3d",
    CONV_FIELDS(0),
    .infer = conv_transpose_infer,
    .gradient = conv_transpose_gradient,
    .reference = conv_transpose_reference,
    .samples =
        (const op_sample[]){
            {"f32[2,3,2,2,3], f32[3,2,2,3,2], f32[2]",
             "out=2 kernel=2,3,2 stride=1,1,1 pad=0,0,0 dilation=1,1,1 groups=1 output_padding=0,0,0",
             .out = "f32[2,2,3,4,4]"},
            {"f32[1,4,2,3,2], f32[4,2,2,1,3]",
             "out=4 kernel=2,1,3 stride=2,1,2 pad=0,0,1 dilation=1,1,1 groups=2 output_padding=1,0,1",
             .out = "f32[1,4,5,3,4]"},
            /* an output padding of a whole stride: dx is cut */
            {"f32[1,2,3,2,2], f32[2,1,2,2,1], f32[1]",
             "out=1 kernel=2,2,1 stride=1,1,1 pad=1,0,0 dilation=3,2,1 groups=1 output_padding=2,1,0",
             .out = "f32[1,1,6,5,2]"},
            {"f32[2,100,1,1,1], f32[100,32,2,3,3]",
             "out=32 kernel=2,3,3 stride=1,1,1 pad=0,0,0 dilation=1,1,1 groups=1 output_padding=0,0,0",
             .out = "f32[2,32,2,3,3]",
             .no_gradient = true}, /* too large for differences element by element, as those below */
            {"f32[2,32,2,3,3], f32[32,48,4,4,4], f32[48]",
             "out=48 kernel=4,4,4 stride=2,2,2 pad=1,1,1 dilation=1,1,1 groups=1 output_padding=0,0,0",
             .out = "f32[2,48,4,6,6]", .no_gradient = true},
            {"f32[2,32,2,3,3], f32[32,8,3,3,3]",
             "out=16 kernel=3,3,3 stride=2,2,2 pad=1,1,1 dilation=1,1,1 groups=2 output_padding=1,1,1",
             .out = "f32[2,16,4,6,6]", .no_gradient = true},
            {"f32[2,3,2,2,3], f32[2,2,2,3,2]",
             "out=2 kernel=2,3,2 stride=1,1,1 pad=0,0,0 dilation=1,1,1 groups=1 output_padding=0,0,0",
             .error = "it must be f32[3,2,2,3,2]"},
            {"f32[2,3,2,2,3], f32[3,2,2,3,2]",
             "out=2 kernel=2,3,2 stride=2,2,2 pad=0,0,0 dilation=1,1,1 groups=1 output_padding=0,0,2",
             .error = "output_padding 2: it must be smaller than the stride 2 or the dilation 1"},
            {"f32[2,3,2,2,3], f32[3,2,2,3,2]",
             "out=2 kernel=2,3,2 stride=2,2,2 pad=0,0,0 dilation=1,1,1 groups=1 output_padding=0,0",
             .error = "output_padding has 2 numbers: it must have 3, depth, height and width"},
            {"f32[2,3,1,2,3], f32[3,2,2,3,2]",
             "out=2 kernel=2,3,2 stride=1,1,1 pad=1,0,0 dilation=1,1,1 groups=1 output_padding=0,0,0",
             .error = "pad 1 leaves nothing of axis 2"},
            {0}},
};

weft_value *weft_conv_transpose3d_op(weft_value *x, weft_value *w, weft_value *b, const weft_window *window) {
    return conv_transpose_value(&weft_op_conv_transpose3d, x, w, b, window);
}
