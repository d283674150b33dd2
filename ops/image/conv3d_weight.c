/* conv3d_weight.c - the gradient of a weight of conv3d or conv_transpose3d; conv2d_weight with an axis more:
 *     big [N, C, D, H, W]   small [N, O, d, h, w]   ->   dw [O, C/groups, kd, kh, kw]
 *     dbig = conv_transpose3d(small, ddw)   dsmall = conv3d(big, ddw)
 */
#include "ops/image/conv2d.h"

static const op_attr attrs[] = {CONV_ATTR_ROWS, {0}};

const weft_op weft_op_conv3d_weight = {
    .name = "conv3d_weight",
    .summary = "gradient of the weight of a convolution of volumes, from its larger and its smaller volume",
    CONV_WEIGHT_FIELDS,
    .samples =
        (const op_sample[]){
            {"f32[2,2,3,4,3], f32[2,3,2,2,2]", "kernel=2,3,2 stride=1,1,1 pad=0,0,0 dilation=1,1,1 groups=1",
             .out = "f32[3,2,2,3,2]"},
            {"bf16[2,16,3,4,4], bf16[2,32,3,4,4]",
             "kernel=3,3,3 stride=1,1,1 pad=1,1,1 dilation=1,1,1 groups=1 f32_output=1",
             .out = "f32[32,16,3,3,3]", .no_gradient = true},
            {"f32[1,4,4,3,5], f32[1,4,4,2,2]", "kernel=2,3,1 stride=1,2,3 pad=1,1,0 dilation=2,1,1 groups=2",
             .out = "f32[4,2,2,3,1]"},
            {"f32[1,1,6,5,2], f32[1,2,3,2,2]", "kernel=2,2,1 stride=1,1,1 pad=1,0,0 dilation=3,2,1 groups=1",
             .out = "f32[2,1,2,2,1]"},
            /* too large for differences element by element */
            {"f32[2,16,5,7,6], f32[2,32,5,7,6]",
             "kernel=3,3,3 stride=1,1,1 pad=1,1,1 dilation=1,1,1 groups=1", .out = "f32[32,16,3,3,3]",
             .no_gradient = true},
            {"f32[2,3,4,8,8], f32[2,48,2,4,4]", "kernel=2,4,4 stride=2,2,2 pad=0,1,1 dilation=1,1,1 groups=1",
             .out = "f32[48,3,2,4,4]", .no_gradient = true},
            {"f32[2,32,5,5,5], f32[2,32,3,3,3]",
             "kernel=3,3,3 stride=2,2,2 pad=1,1,1 dilation=1,1,1 groups=2", .out = "f32[32,16,3,3,3]",
             .no_gradient = true},
            {"f32[2,32,3,4,4], f32[2,100,3,4,4]",
             "kernel=1,1,1 stride=1,1,1 pad=0,0,0 dilation=1,1,1 groups=1", .out = "f32[100,32,1,1,1]",
             .no_gradient = true},
            {"f32[2,2,3,4,3], f32[1,3,2,2,2]", "kernel=2,3,2 stride=1,1,1 pad=0,0,0 dilation=1,1,1 groups=1",
             .error = "the same number of images"},
            {"f32[2,2,3,4,3], f32[2,3,3,2,2]", "kernel=2,3,2 stride=1,1,1 pad=0,0,0 dilation=1,1,1 groups=1",
             .error = "no convolution with this window leads from axis 2"},
            {"f32[2,2,4,3], f32[2,3,2,2]", "kernel=3,2 stride=1,1 pad=0,0 dilation=1,1 groups=1",
             .error = "kernel has 2 numbers: it must have 3"},
            {0}},
};
