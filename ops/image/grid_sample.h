/* grid_sample.h - shared by grid_sample and its transpose: which elements of x a place reads along an axis,
 * and with which weights, or which derivatives of these by the place. */
#ifndef WEFT_OPS_IMAGE_GRID_SAMPLE_H
#define WEFT_OPS_IMAGE_GRID_SAMPLE_H

#include "ops/kit/op_kit.h"

typedef struct grid_attrs {
    int64_t mode, padding; /* weft_grid_mode, weft_grid_padding */
    bool align_corners;
    attr_ints order; /* derivatives by each number of a place; none: all 0 */
    attr_ints size;  /* of the transpose: x's (D,) H, W */
} grid_attrs;

#define GRID_ATTRS                                                                                           \
    {"mode", ATTR_INT, offsetof(grid_attrs, mode), 0, WEFT_GRID_BICUBIC, grid_modes},                        \
        {"padding", ATTR_INT, offsetof(grid_attrs, padding), 0, WEFT_GRID_REFLECTION, grid_paddings},        \
        {"align_corners", ATTR_BOOL, offsetof(grid_attrs, align_corners)}, {                                 \
        "order", ATTR_INTS, offsetof(grid_attrs, order), 0, GRID_MOST_ORDER                                  \
    }
enum { GRID_MOST_ORDER = 3, GRID_TAPS = 4 };
extern const char *const grid_modes[], *const grid_paddings[];

/* What infer checks: operand `image` is [N, C, (D,) H, W], operand 1 the grid [N, (d,) h, w, 2 or 3], whose
 * other axes are those of `shape` (of x or dy). */
bool grid_fits(const op_call *c, int image);

/* Along one axis: n elements of x, -1 for one outside, and their weights. */
typedef struct grid_axis {
    int n;
    int64_t at[GRID_TAPS];
    double weight[GRID_TAPS];
} grid_axis;
/* Number k of a place, for an axis of `length`. */
grid_axis grid_axis_of(const grid_attrs *a, int k, double place, int64_t length);
/* The axes depth, height and width of one place of the grid; depth has one element where x is an image.
 * `at` is the index in the grid, whose last number is set here. */
void grid_place(const grid_attrs *a, const tensor *grid, int64_t *at, const tensor_type *x,
                grid_axis axis[3]);

/* The gradient by the grid: for each number of a place, the sum over channels of dy times grid_sample's
 * derivative by it. */
weft_value *grid_gradient(const weft_node *n, weft_value *dy, weft_value *x, weft_value *grid);

#endif
