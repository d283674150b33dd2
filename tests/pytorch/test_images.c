/* test_images.c - pooling and other builders of images against PyTorch: each row is a call of Weft and the
 * same in PyTorch, whose numbers, gradients and second gradients stand in golden/images.h
 * (golden/make_shapes.py writes it from the rows). Rows also replay at another batch. */
#include "support/test.h"
#include "weft/weft.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the rows: x is f32[2,2,4,5], batch first; g its graph ---- */

#define SHAPE(...)                                                                                           \
    sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (int64_t[]) {                                        \
        __VA_ARGS__                                                                                          \
    }
#define AS(...)            weft_reshape(x, SHAPE(-1, __VA_ARGS__))
#define MAX2D(...)         weft_max_pool2d(x, &(weft_pool){__VA_ARGS__})
#define AVG2D(...)         weft_avg_pool2d(x, &(weft_pool){__VA_ARGS__})
#define RESIZE(...)        weft_interpolate(x, &(weft_interpolation){__VA_ARGS__})
#define GRID(x, grid, ...) weft_grid_sample(x, weft_scale(grid, 0.25), &(weft_grid_options){__VA_ARGS__})
#define SIZE(...)          .size = {__VA_ARGS__}
#define SCALE(...)         .scale = {__VA_ARGS__}
#define AXES(...)                                                                                            \
    (int64_t[]) {                                                                                            \
        __VA_ARGS__                                                                                          \
    }
#define K(...) .kernel = {__VA_ARGS__}
#define S(...) .stride = {__VA_ARGS__}
#define P(...) .pad = {__VA_ARGS__}
#define D(...) .dilation = {__VA_ARGS__}

/* What w() of make_shapes.py makes: 11 i modulo 17, / 8, - 1. */
static weft_value *weights(weft_graph *g, int ndim, const int64_t *shape) {
    int64_t n = 1;
    for (int i = 0; i < ndim; i++) n *= shape[i];
    weft_value *x = weft_scale(weft_arange(g, WEFT_F32, 0, (double)n, 1), 11);
    x = weft_fmod(x, weft_constant(g, WEFT_F32, 0, NULL, 17));
    return weft_reshape(weft_offset(weft_scale(x, 1.0 / 8), -1), ndim, shape);
}

/* How often PyTorch's and Weft's result can be differentiated, Weft's call, and PyTorch's. */
/* clang-format off */
#define ROWS(X)                                                                                              \
    X(2, MAX2D(K(3, 2), S(2, 3), P(1, 0), .ceil_mode = true),                                                \
      "F.max_pool2d(x, (3, 2), (2, 3), (1, 0), ceil_mode=True)")                                             \
    X(2, MAX2D(K(3, 3), S(2, 2), .ceil_mode = true),   "F.max_pool2d(x, 3, 2, ceil_mode=True)")              \
    X(2, MAX2D(K(6, 2), S(3, 2), P(0, 1), .ceil_mode = true),                                                \
      "F.max_pool2d(x, (6, 2), (3, 2), (0, 1), ceil_mode=True)")                                             \
    X(2, MAX2D(K(2, 2), S(1, 1), D(2, 3)),             "F.max_pool2d(x, 2, 1, dilation=(2, 3))")             \
    X(2, MAX2D(K(3, 2), S(2, 1), P(1, 1), D(2, 2)),                                                          \
      "F.max_pool2d(x, (3, 2), (2, 1), 1, dilation=2)")                                                      \
    X(2, MAX2D(K(2, 3), S(2, 2), P(1, 1), D(3, 2), .ceil_mode = true),                                       \
      "F.max_pool2d(x, (2, 3), 2, 1, dilation=(3, 2), ceil_mode=True)")                                      \
    X(2, weft_adaptive_max_pool2d(x, 3, 2),            "F.adaptive_max_pool2d(x, (3, 2))")                   \
    X(2, weft_adaptive_max_pool2d(x, 6, 1),            "F.adaptive_max_pool2d(x, (6, 1))")                   \
    X(2, weft_adaptive_avg_pool2d(x, 3, 7),            "F.adaptive_avg_pool2d(x, (3, 7))")                   \
    X(2, AVG2D(K(3, 3), S(2, 2), P(1, 1)),             "F.avg_pool2d(x, 3, 2, 1)")                           \
    X(2, AVG2D(K(3, 3), S(2, 2), P(1, 1), .exclude_pad = true),                                              \
      "F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)")                                                   \
    X(2, AVG2D(K(3, 2), S(2, 3), P(1, 0), .ceil_mode = true),                                                \
      "F.avg_pool2d(x, (3, 2), (2, 3), (1, 0), ceil_mode=True)")                                             \
    X(2, AVG2D(K(3, 3), S(2, 2), P(1, 1), .ceil_mode = true),                                                \
      "F.avg_pool2d(x, 3, 2, 1, ceil_mode=True)")                                                            \
    X(2, AVG2D(K(3, 3), S(2, 2), P(1, 1), .ceil_mode = true, .exclude_pad = true),                           \
      "F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False)")                                   \
    X(2, AVG2D(K(3, 4), S(3, 3), P(1, 2), .ceil_mode = true, .divisor = 5),                                  \
      "F.avg_pool2d(x, (3, 4), 3, (1, 2), ceil_mode=True, divisor_override=5)")                              \
    X(2, RESIZE(SIZE(8, 10)),                              "F.interpolate(x, (8, 10))")                      \
    X(2, RESIZE(SIZE(3, 7)),                               "F.interpolate(x, (3, 7))")                       \
    X(2, RESIZE(SIZE(3, 7), .mode = WEFT_INTERPOLATE_NEAREST_EXACT),   "F.interpolate(x, (3, 7), mode='nearest-exact')") \
    X(2, RESIZE(SCALE(2.5, 0.6)),                           "F.interpolate(x, scale_factor=(2.5, 0.6))")     \
    X(2, RESIZE(SIZE(8, 10), .mode = WEFT_INTERPOLATE_BILINEAR),       "F.interpolate(x, (8, 10), mode='bilinear')")     \
    X(2, RESIZE(SIZE(3, 7), .mode = WEFT_INTERPOLATE_BILINEAR),        "F.interpolate(x, (3, 7), mode='bilinear')")      \
    X(2, RESIZE(SIZE(1, 9), .mode = WEFT_INTERPOLATE_BILINEAR, .align_corners = true),                                   \
      "F.interpolate(x, (1, 9), mode='bilinear', align_corners=True)")                                       \
    X(2, RESIZE(SIZE(7, 3), .mode = WEFT_INTERPOLATE_BILINEAR, .align_corners = true),                                   \
      "F.interpolate(x, (7, 3), mode='bilinear', align_corners=True)")                                       \
    X(2, RESIZE(SCALE(1.7, 0.7), .mode = WEFT_INTERPOLATE_BILINEAR),                                                     \
      "F.interpolate(x, scale_factor=(1.7, 0.7), mode='bilinear')")                                          \
    X(2, weft_interpolate(AS(8, 5), &(weft_interpolation){.size = {7}, .mode = WEFT_INTERPOLATE_BILINEAR}),              \
      "F.interpolate(x.reshape(-1, 8, 5), 7, mode='linear')")                                                \
    X(2, weft_interpolate(AS(8, 5), &(weft_interpolation){.scale = {1.5}}),                                  \
      "F.interpolate(x.reshape(-1, 8, 5), scale_factor=1.5)")                                                \
    X(2, RESIZE(SIZE(8, 10), .mode = WEFT_INTERPOLATE_BICUBIC),        "F.interpolate(x, (8, 10), mode='bicubic')")      \
    X(2, RESIZE(SIZE(3, 7), .mode = WEFT_INTERPOLATE_BICUBIC, .align_corners = true),                        \
      "F.interpolate(x, (3, 7), mode='bicubic', align_corners=True)")                                        \
    X(2, RESIZE(SCALE(1.7, 0.7), .mode = WEFT_INTERPOLATE_BICUBIC),                                          \
      "F.interpolate(x, scale_factor=(1.7, 0.7), mode='bicubic')")                                           \
    X(2, RESIZE(SIZE(2, 3), .mode = WEFT_INTERPOLATE_BILINEAR, .antialias = true),                           \
      "F.interpolate(x, (2, 3), mode='bilinear', antialias=True)")                                           \
    X(2, RESIZE(SIZE(7, 2), .mode = WEFT_INTERPOLATE_BICUBIC, .antialias = true),                            \
      "F.interpolate(x, (7, 2), mode='bicubic', antialias=True)")                                            \
    X(2, RESIZE(SIZE(3, 2), .mode = WEFT_INTERPOLATE_BICUBIC, .antialias = true, .align_corners = true),     \
      "F.interpolate(x, (3, 2), mode='bicubic', antialias=True, align_corners=True)")                        \
    X(2, RESIZE(SCALE(0.6, 1.5), .mode = WEFT_INTERPOLATE_BILINEAR, .antialias = true),                      \
      "F.interpolate(x, scale_factor=(0.6, 1.5), mode='bilinear', antialias=True)")                          \
    X(2, weft_interpolate(AS(2, 2, 2, 5), &(weft_interpolation){.size = {3, 5, 2}}),                         \
      "F.interpolate(x.reshape(-1, 2, 2, 2, 5), (3, 5, 2))")                                                 \
    X(2, weft_interpolate(AS(1, 4, 5, 2), &(weft_interpolation){.scale = {0.6, 1.4, 2}, .mode = WEFT_INTERPOLATE_NEAREST_EXACT}), \
      "F.interpolate(x.reshape(-1, 1, 4, 5, 2), scale_factor=(0.6, 1.4, 2), mode='nearest-exact')")          \
    X(2, weft_interpolate(AS(1, 4, 2, 5), &(weft_interpolation){.size = {7, 3, 4}, .mode = WEFT_INTERPOLATE_BILINEAR}), \
      "F.interpolate(x.reshape(-1, 1, 4, 2, 5), (7, 3, 4), mode='trilinear')")                               \
    X(2, weft_interpolate(AS(2, 2, 5, 2), &(weft_interpolation){.size = {3, 2, 5}, .mode = WEFT_INTERPOLATE_BILINEAR, .align_corners = true}), \
      "F.interpolate(x.reshape(-1, 2, 2, 5, 2), (3, 2, 5), mode='trilinear', align_corners=True)")           \
    X(1, GRID(x, AS(4, 5, 2), .padding = WEFT_GRID_ZEROS),                                                   \
      "F.grid_sample(x, x.reshape(-1, 4, 5, 2) / 4, align_corners=False)")                                   \
    X(1, GRID(x, AS(5, 4, 2), .align_corners = true, .padding = WEFT_GRID_BORDER),                           \
      "F.grid_sample(x, x.reshape(-1, 5, 4, 2) / 4, 'bilinear', 'border', True)")                            \
    X(1, GRID(x, AS(2, 10, 2), .padding = WEFT_GRID_REFLECTION),                                             \
      "F.grid_sample(x, x.reshape(-1, 2, 10, 2) / 4, 'bilinear', 'reflection', False)")                      \
    X(1, GRID(x, AS(20, 1, 2), .align_corners = true, .padding = WEFT_GRID_REFLECTION),                      \
      "F.grid_sample(x, x.reshape(-1, 20, 1, 2) / 4, 'bilinear', 'reflection', True)")                       \
    X(1, GRID(x, AS(4, 5, 2), .mode = WEFT_GRID_NEAREST),                                                    \
      "F.grid_sample(x, x.reshape(-1, 4, 5, 2) / 4, 'nearest', align_corners=False)")                        \
    X(1, GRID(x, AS(4, 5, 2), .mode = WEFT_GRID_BICUBIC),                                                    \
      "F.grid_sample(x, x.reshape(-1, 4, 5, 2) / 4, 'bicubic', align_corners=False)")                        \
    X(1, GRID(x, AS(4, 5, 2), .mode = WEFT_GRID_BICUBIC, .padding = WEFT_GRID_REFLECTION, .align_corners = true), \
      "F.grid_sample(x, x.reshape(-1, 4, 5, 2) / 4, 'bicubic', 'reflection', True)")                         \
    X(1, GRID(x, AS(4, 5, 2), .mode = WEFT_GRID_BICUBIC, .padding = WEFT_GRID_BORDER),                       \
      "F.grid_sample(x, x.reshape(-1, 4, 5, 2) / 4, 'bicubic', 'border', False)")                            \
    X(1, GRID(AS(2, 2, 2, 5), weft_slice(AS(2, 1, 5, 4), 4, 0, 3), .padding = WEFT_GRID_ZEROS),              \
      "F.grid_sample(x.reshape(-1, 2, 2, 2, 5), x.reshape(-1, 2, 1, 5, 4)[..., :3] / 4, align_corners=False)") \
    X(1, GRID(AS(1, 4, 2, 5), weft_slice(AS(2, 1, 5, 4), 4, 0, 3), .padding = WEFT_GRID_REFLECTION, .align_corners = true), \
      "F.grid_sample(x.reshape(-1, 1, 4, 2, 5), x.reshape(-1, 2, 1, 5, 4)[..., :3] / 4, 'bilinear', 'reflection', True)") \
    X(1, GRID(AS(1, 4, 2, 5), weft_slice(AS(2, 1, 5, 4), 4, 0, 3), .mode = WEFT_GRID_NEAREST, .padding = WEFT_GRID_BORDER), \
      "F.grid_sample(x.reshape(-1, 1, 4, 2, 5), x.reshape(-1, 2, 1, 5, 4)[..., :3] / 4, 'nearest', 'border', False)") \
    X(2, weft_affine_grid(weft_reshape(weft_slice(AS(40), 1, 0, 6), SHAPE(-1, 2, 3)), AXES(3, 4), false),    \
      "F.affine_grid(x.reshape(-1, 40)[:, :6].reshape(-1, 2, 3), (len(x), 1, 3, 4), align_corners=False)")   \
    X(2, weft_affine_grid(weft_reshape(weft_slice(AS(40), 1, 0, 6), SHAPE(-1, 2, 3)), AXES(1, 3), true),     \
      "F.affine_grid(x.reshape(-1, 40)[:, :6].reshape(-1, 2, 3), (len(x), 1, 1, 3), align_corners=True)")    \
    X(2, weft_affine_grid(weft_reshape(weft_slice(AS(40), 1, 0, 12), SHAPE(-1, 3, 4)), AXES(2, 3, 1), false), \
      "F.affine_grid(x.reshape(-1, 40)[:, :12].reshape(-1, 3, 4), (len(x), 1, 2, 3, 1), align_corners=False)") \
    X(2, weft_unfold(x, AXES(2, 3), &(weft_window){S(2, 1), P(1, 2), D(1, 2)}),                              \
      "F.unfold(x, (2, 3), (1, 2), (1, 2), (2, 1))")                                                         \
    X(2, weft_unfold(x, AXES(2, 2), NULL),             "F.unfold(x, 2)")                                     \
    X(2, weft_fold(AS(4, 10), AXES(3, 6), AXES(2, 2), NULL), "F.fold(x.reshape(-1, 4, 10), (3, 6), 2)")      \
    X(2, weft_fold(AS(8, 5), AXES(8, 1), AXES(2, 1), &(weft_window){S(2, 1), P(1, 0)}),                      \
      "F.fold(x.reshape(-1, 8, 5), (8, 1), (2, 1), 1, (1, 0), (2, 1))")                                      \
    X(2, weft_avg_pool2d(AS(1, 8, 5), &(weft_pool){K(2, 2), S(2, 1), P(1, 1), D(3, 2)}),                     \
      "F.unfold(x.reshape(-1, 1, 8, 5), 2, (3, 2), 1, (2, 1)).mean(1).reshape(-1, 1, 4, 5)")                 \
    X(2, AVG2D(K(2, 2), S(2, 2), P(2, 1)),             "F.avg_pool2d(F.pad(x, (1, 1, 2, 2)), 2)")            \
    X(2, MAX2D(K(3, 4), S(1, 2), P(2, 3)),                                                                   \
      "F.max_pool2d(F.pad(x, (3, 3, 2, 2), value=-torch.inf), (3, 4), (1, 2))")                              \
    X(2, weft_pixel_shuffle(AS(8, 1, 5), 2),           "F.pixel_shuffle(x.reshape(-1, 8, 1, 5), 2)")         \
    X(2, weft_pixel_shuffle(AS(2, 4, 5, 1), 2),        "F.pixel_shuffle(x.reshape(-1, 2, 4, 5, 1), 2)")      \
    X(2, weft_pixel_unshuffle(AS(1, 4, 10), 2),        "F.pixel_unshuffle(x.reshape(-1, 1, 4, 10), 2)")      \
    X(2, weft_reflect_pad(x, 2, AXES(2, 1, 3, 0)),     "F.pad(x, (2, 1, 3, 0), 'reflect')")                  \
    X(2, weft_reflect_pad(x, 1, AXES(0, 4)),           "F.pad(x, (0, 4, 0, 0), 'reflect')")                  \
    X(2, weft_replicate_pad(x, 2, AXES(2, 1, 3, 0)),   "F.pad(x, (2, 1, 3, 0), 'replicate')")                \
    X(2, weft_circular_pad(x, 2, AXES(2, 5, 1, 0)),    "F.pad(x, (2, 5, 1, 0), 'circular')")                 \
    X(2, weft_conv1d_op(AS(4, 10), weights(g, SHAPE(6, 2, 3)), NULL,                                         \
             &(weft_window){S(2), P(1), D(2), .groups = 2}),                                                 \
      "F.conv1d(x.reshape(-1, 4, 10), w(6, 2, 3), None, 2, 1, 2, 2)")                                        \
    X(2, weft_conv1d_op(AS(8, 5), weights(g, SHAPE(2, 8, 5)), weights(g, SHAPE(2)), NULL),                   \
      "F.conv1d(x.reshape(-1, 8, 5), w(2, 8, 5), w(2))")                                                     \
    X(2, weft_conv_transpose1d_op(AS(4, 10), weights(g, SHAPE(4, 3, 4)), weights(g, SHAPE(3)),               \
             &(weft_window){S(3), P(1), .output_padding = {2}}),                                             \
      "F.conv_transpose1d(x.reshape(-1, 4, 10), w(4, 3, 4), w(3), 3, 1, 2)")                                 \
    X(2, weft_max_pool1d(AS(4, 10), &(weft_pool){K(3), S(2), P(1), D(2), .ceil_mode = true}),                \
      "F.max_pool1d(x.reshape(-1, 4, 10), 3, 2, 1, 2, True)")                                                \
    X(2, weft_avg_pool1d(AS(4, 10), &(weft_pool){K(4), S(3), P(2), .ceil_mode = true, .exclude_pad = true}), \
      "F.avg_pool1d(x.reshape(-1, 4, 10), 4, 3, 2, True, False)")                                            \
    X(2, weft_adaptive_avg_pool1d(AS(4, 10), 3), "F.adaptive_avg_pool1d(x.reshape(-1, 4, 10), 3)")           \
    X(2, weft_adaptive_max_pool1d(AS(4, 10), 4), "F.adaptive_max_pool1d(x.reshape(-1, 4, 10), 4)")           \
    X(2, weft_max_pool3d(AS(2, 5, 2, 2), &(weft_pool){K(2, 2, 2), S(1, 1, 1)}),                              \
      "F.max_pool3d(x.reshape(-1, 2, 5, 2, 2), 2, 1)")                                                       \
    X(2, weft_max_pool3d(AS(1, 5, 4, 2), &(weft_pool){K(3, 2, 2), P(1, 1, 0), .ceil_mode = true}),           \
      "F.max_pool3d(x.reshape(-1, 1, 5, 4, 2), (3, 2, 2), padding=(1, 1, 0), ceil_mode=True)")               \
    X(2, weft_max_pool3d(AS(1, 4, 5, 2), &(weft_pool){K(2, 3, 1), S(1, 2, 1), D(2, 2, 1)}),                  \
      "F.max_pool3d(x.reshape(-1, 1, 4, 5, 2), (2, 3, 1), (1, 2, 1), dilation=(2, 2, 1))")                   \
    X(2, weft_max_pool3d(weft_remainder(AS(1, 4, 2, 5), weft_constant(g, WEFT_F32, 0, NULL, 0.25)),          \
                         &(weft_pool){K(2, 2, 3), S(2, 1, 1)}),                                              \
      "F.max_pool3d(torch.remainder(x.reshape(-1, 1, 4, 2, 5), 0.25), (2, 2, 3), (2, 1, 1))")                \
    X(2, weft_max_pool3d(AS(1, 2, 4, 5), &(weft_pool){K(1, 2, 2)}),                                          \
      "F.max_pool3d(x.reshape(-1, 1, 2, 4, 5), (1, 2, 2))")                                                  \
    X(2, weft_avg_pool3d(AS(1, 5, 4, 2), &(weft_pool){K(3, 3, 2), S(2, 2, 1), P(1, 1, 1)}),                  \
      "F.avg_pool3d(x.reshape(-1, 1, 5, 4, 2), (3, 3, 2), (2, 2, 1), 1)")                                    \
    X(2, weft_avg_pool3d(AS(1, 4, 5, 2), &(weft_pool){K(3, 2, 2), S(2, 2, 2), P(1, 0, 1), .ceil_mode = true, \
                                                      .exclude_pad = true}),                                 \
      "F.avg_pool3d(x.reshape(-1, 1, 4, 5, 2), (3, 2, 2), 2, (1, 0, 1), True, False)")                       \
    X(2, weft_avg_pool3d(AS(1, 4, 5, 2), &(weft_pool){K(3, 2, 2), S(2, 3, 1), .ceil_mode = true}),           \
      "F.avg_pool3d(x.reshape(-1, 1, 4, 5, 2), (3, 2, 2), (2, 3, 1), ceil_mode=True)")                       \
    X(2, weft_avg_pool3d(AS(2, 2, 2, 5), &(weft_pool){K(2, 1, 3), S(1, 1, 2), P(1, 0, 1), .divisor = 7}),    \
      "F.avg_pool3d(x.reshape(-1, 2, 2, 2, 5), (2, 1, 3), (1, 1, 2), (1, 0, 1), divisor_override=7)")        \
    X(2, weft_adaptive_avg_pool3d(AS(1, 5, 4, 2), 3, 3, 1),                                                  \
      "F.adaptive_avg_pool3d(x.reshape(-1, 1, 5, 4, 2), (3, 3, 1))")                                         \
    X(2, weft_adaptive_max_pool3d(AS(1, 5, 2, 4), 2, 1, 3),                                                  \
      "F.adaptive_max_pool3d(x.reshape(-1, 1, 5, 2, 4), (2, 1, 3))")                                         \
    X(2, weft_conv3d_op(AS(2, 5, 2, 2), weights(g, SHAPE(4, 1, 3, 2, 1)), weights(g, SHAPE(4)),              \
                        &(weft_window){S(2, 1, 1), P(1, 0, 1), D(2, 1, 1), .groups = 2}),                    \
      "F.conv3d(x.reshape(-1, 2, 5, 2, 2), w(4, 1, 3, 2, 1), w(4), (2, 1, 1), (1, 0, 1), (2, 1, 1), 2)")     \
    X(2, weft_conv3d_op(AS(1, 2, 4, 5), weights(g, SHAPE(3, 1, 2, 3, 3)), NULL, &(weft_window){P(1, 1, 1)}), \
      "F.conv3d(x.reshape(-1, 1, 2, 4, 5), w(3, 1, 2, 3, 3), None, 1, 1)")                                   \
    X(2, weft_conv_transpose3d_op(AS(4, 1, 2, 5), weights(g, SHAPE(4, 1, 2, 3, 2)), weights(g, SHAPE(2)),    \
             &(weft_window){S(2, 2, 1), P(0, 1, 1), .output_padding = {1, 0, 0}, .groups = 2}),              \
      "F.conv_transpose3d(x.reshape(-1, 4, 1, 2, 5), w(4, 1, 2, 3, 2), w(2), (2, 2, 1), (0, 1, 1), (1, 0, 0), 2)") \
    X(2, weft_conv_transpose3d_op(AS(1, 2, 5, 4), weights(g, SHAPE(1, 2, 2, 2, 3)), NULL,                    \
             &(weft_window){D(3, 2, 1), .output_padding = {2, 1, 0}}),                                       \
      "F.conv_transpose3d(x.reshape(-1, 1, 2, 5, 4), w(1, 2, 2, 2, 3), None, 1, 0, (2, 1, 0), 1, (3, 2, 1))") \
    X(2, weft_relu(weft_max_pool3d(weft_conv3d_op(AS(1, 4, 5, 2), weights(g, SHAPE(2, 1, 3, 3, 1)), NULL,    \
                                                  &(weft_window){P(1, 1, 0)}), &(weft_pool){K(2, 2, 1)})),   \
      "F.relu(F.max_pool3d(F.conv3d(x.reshape(-1, 1, 4, 5, 2), w(2, 1, 3, 3, 1), None, 1, (1, 1, 0)), (2, 2, 1)))")
/* clang-format on */

static weft_value *build(int row, weft_graph *g, weft_value *x) {
    int i = 0;
    (void)g;
#define X(order, call, torch)                                                                                \
    if (row == i++) return call;
    ROWS(X)
#undef X
    return NULL;
}

static const struct {
    int order;
    const char *torch;
} rows[] = {
#define X(order, call, torch) {order, torch},
    ROWS(X)
#undef X
};
enum { N_ROWS = sizeof rows / sizeof *rows };

/* What PyTorch answers: the result, after | the gradient of the sum of its squares by x, after another | the
 * gradient of the sum of that one's squares. */
static const struct {
    const char *torch, *numbers;
} golden[] = {
#include "golden/images.h"
};

/* ---- running a row ---- */

/* Outputs y, dx and ddx, as far as the row can be differentiated. */
static weft_model *model_of(int row, int64_t default_batch) {
    static const char *const names[] = {"y", "dx", "ddx"};
    weft_model *m = weft_model_new("images");
    weft_model_set_batch(m, default_batch);
    weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
    weft_value *x = weft_input(g, "x", WEFT_F32, SHAPE(WEFT_BATCH, 2, 4, 5)), *y = build(row, g, x);
    for (int i = 0; y && i <= rows[row].order; i++) {
        weft_output(y, names[i]);
        if (i < rows[row].order) weft_gradients(weft_sum(weft_square(y), WEFT_ALL, false), 1, &x, &y);
    }
    return m;
}

enum { MOST = 2000 };

/* The outputs one after another, and their types: "f32[2,2,2,2] f32[2,2,4,5]". */
typedef struct answer {
    int n;
    float v[MOST];
    char types[200];
    bool is_wrong;
} answer;

static void add_output(answer *a, const weft_port *port, const float *data) {
    size_t n = port->bytes / sizeof(float), at = strlen(a->types);
    at += (size_t)snprintf(a->types + at, sizeof a->types - at, "%sf32[", at ? " " : "");
    for (int i = 0; i < port->ndim; i++)
        at +=
            (size_t)snprintf(a->types + at, sizeof a->types - at, "%s%d", i ? "," : "", (int)port->shape[i]);
    snprintf(a->types + at, sizeof a->types - at, "]");
    for (size_t i = 0; i < n && a->n < MOST; i++) a->v[a->n++] = data[i];
}

/* The outputs of the model at this batch (0: its default). */
static void run_model(weft_model *m, int64_t batch, weft_isa isa, answer *a) {
    enum { X_MOST = 4 * 2 * 4 * 5 };
    float x[X_MOST];
    weft_error e = {0};
    weft_port port, in;
    weft_fetch fetches[3];
    int n = 0;
    a->n = 0;
    a->types[0] = '\0';
    for (int i = 0; i < X_MOST; i++) x[i] = (float)(i * 37 % 163) / 16 - 4.5f;
    weft_plan *plan = weft_compile(
        m, &(weft_compile_options){.isa = isa, .batch = batch, .threads = 2, .verify = true}, &e);
    weft_store *store = plan ? weft_store_new(plan, 1, &e) : NULL;
    weft_session *session = store ? weft_session_open(plan, store, &e) : NULL;
    while (session && weft_plan_output(plan, "g", n, &port)) {
        fetches[n] = (weft_fetch){port.name, test_memory(port.bytes), port.bytes};
        n++;
    }
    weft_feed feed = {"x", x, session && weft_plan_input(plan, "g", 0, &in) ? in.bytes : 0};
    a->is_wrong = !session || weft_run(session, "g", &feed, 1, fetches, n, &e) != WEFT_OK;
    CHECK_SAYS(!a->is_wrong, "%s", e.text);
    for (int i = 0; i < n; i++) {
        weft_plan_output(plan, "g", i, &port);
        if (!a->is_wrong) add_output(a, &port, fetches[i].data);
        free(fetches[i].data);
    }
    weft_session_close(session);
    weft_store_free(store);
    weft_plan_free(plan);
}

/* Reads the first `outputs` of a golden line. */
static void read_golden(const char *line, int outputs, answer *a) {
    a->n = 0;
    a->types[0] = '\0';
    for (int i = 0; i < outputs; i++) {
        const char *colon = strchr(line, ':');
        size_t used = strlen(a->types);
        if (!colon) return;
        snprintf(a->types + used, sizeof a->types - used, "%s%.*s", i ? " " : "", (int)(colon - line), line);
        char *end = (char *)colon + 1;
        while (*end == ' ' && end[1] != '|' && a->n < MOST) a->v[a->n++] = strtof(end, &end);
        line = end + strlen(" | ");
        if (!*end) return;
    }
}

/* Apart by less than 1e-5 of the largest of all. */
static void compare(const answer *got, const answer *want, const char *what) {
    double most = 1, worst = 0;
    int at = 0;
    if (!CHECK_SAYS(strcmp(got->types, want->types) == 0 && got->n == want->n, "%s: %s, not %s", what,
                    got->types, want->types))
        return;
    for (int i = 0; i < want->n; i++) most = fmax(most, fabs(want->v[i]));
    for (int i = 0; i < want->n; i++)
        if (!(fabs(got->v[i] - want->v[i]) <= worst)) {
            worst = fabs(got->v[i] - want->v[i]);
            at = i;
        }
    CHECK_SAYS(worst <= 1e-5 * most, "%s: number %d is %.7g, not %.7g", what, at, got->v[at], want->v[at]);
}

TEST(builders_give_the_numbers_and_both_gradients_of_pytorch) {
    static const weft_isa isas[] = {WEFT_ISA_REFERENCE, WEFT_ISA_AUTO};
    static answer got, want;
    NEED(sizeof golden / sizeof *golden == N_ROWS);
    for (int i = 0; i < N_ROWS; i++) {
        CHECK_TEXT(golden[i].torch, rows[i].torch); /* else: make_shapes.py was not run */
        read_golden(golden[i].numbers, 1 + rows[i].order, &want);
        for (int k = 0; k < 2; k++) {
            weft_model *m = model_of(i, 2);
            if (CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s: %s", rows[i].torch,
                           weft_model_error(m)->text)) {
                run_model(m, 0, isas[k], &got);
                if (!got.is_wrong) compare(&got, &want, rows[i].torch);
            }
            weft_model_free(m);
        }
    }
}

/* What was built at batch 2 and compiled for 4 is what was built at 4. */
TEST(builders_replay_at_another_batch) {
    static answer replayed, direct;
    for (int i = 0; i < N_ROWS; i++) {
        weft_model *two = model_of(i, 2), *four = model_of(i, 4);
        run_model(two, 4, WEFT_ISA_AUTO, &replayed);
        run_model(four, 0, WEFT_ISA_AUTO, &direct);
        if (!replayed.is_wrong && !direct.is_wrong) compare(&replayed, &direct, rows[i].torch);
        weft_model_free(two);
        weft_model_free(four);
    }
}

SUITE("images",
      {T(builders_give_the_numbers_and_both_gradients_of_pytorch), T(builders_replay_at_another_batch)})
