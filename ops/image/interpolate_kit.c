/* interpolate_kit.c - see interpolate.h. The formulas are PyTorch's (aten/src/ATen/native/UpSample.h). */
#include "ops/image/interpolate.h"

#include <math.h>

const char *const interpolate_modes[] = {"nearest", "nearest_exact", "bilinear", NULL};

static bool scales_fit(const op_call *c, const interpolate_attrs *a) {
    bool both = a->scale_h > 0 && a->scale_w > 0, none = a->scale_h == 0 && a->scale_w == 0;
    if (!both && !none)
        return op_fail(c, WEFT_ARGUMENT, "scale_h=%g scale_w=%g: both must be above 0, or 0 for a size",
                       a->scale_h, a->scale_w);
    if (a->align_corners && a->mode != WEFT_INTERPOLATE_BILINEAR)
        return op_fail(c, WEFT_ARGUMENT, "align_corners is for bilinear, not for %s",
                       interpolate_modes[a->mode]);
    return both == (a->size.n == 0) || op_fail(c, WEFT_ARGUMENT, "a size or scales: exactly one of them");
}

bool interpolate_shape(const op_call *c, const tensor_type *x, tensor_type *y) {
    const interpolate_attrs *a = c->attrs;
    if (x->ndim != 4) return op_fail(c, WEFT_SHAPE, "x is %s: it must be [N, C, H, W]", TYPE(x));
    if (!scales_fit(c, a)) return false;
    if (a->size.n && a->size.n != 2)
        return op_fail(c, WEFT_ARGUMENT, "size has %d numbers: it must have 2, height and width", a->size.n);
    *y = *x;
    for (int i = 0; i < 2; i++) {
        double scaled = floor((double)x->shape[2 + i] * (i ? a->scale_w : a->scale_h));
        if (a->size.n == 0 && !(scaled >= 1 && scaled <= INT32_MAX))
            return op_fail(c, WEFT_SHAPE, "%s: axis %d would be %g long: it must be 1 to 2^31-1", TYPE(x),
                           2 + i, scaled);
        y->shape[2 + i] = a->size.n ? a->size.v[i] : (int64_t)scaled;
    }
    return true;
}

interpolate_axis interpolate_axis_of(const interpolate_attrs *a, int i, const tensor_type *x,
                                     const tensor_type *y) {
    double scale = i ? a->scale_w : a->scale_h;
    interpolate_axis axis = {x->shape[2 + i], y->shape[2 + i], a->mode, 0, a->align_corners};
    if (axis.align_corners)
        axis.step = axis.out > 1 ? (double)(axis.in - 1) / (double)(axis.out - 1) : 0;
    else
        axis.step = scale > 0 ? 1 / scale : (double)axis.in / (double)axis.out;
    return axis;
}

/* The nearest element is found in f32, as in PyTorch: rounding decides which one it is. */
static int64_t nearest(const interpolate_axis *a, int64_t i) {
    float step = (float)a->step, offset = a->mode == WEFT_INTERPOLATE_NEAREST_EXACT ? 0.5f : 0;
    float at = floorf(((float)i + offset) * step);
    int64_t k = (int64_t)at;
    return k < a->in - 1 ? k : a->in - 1;
}

/* Elements have their middle at k + 0.5, or, with align_corners, the first and the last of x and y
 * coincide. */
int64_t interpolate_tap(const interpolate_axis *a, int64_t i, double *second) {
    *second = 0;
    if (a->mode != WEFT_INTERPOLATE_BILINEAR) return nearest(a, i);
    double at = a->align_corners ? a->step * (double)i : a->step * ((double)i + 0.5) - 0.5;
    if (at < 0) at = 0;
    int64_t k = (int64_t)at;
    if (k >= a->in - 1) return a->in - 1;
    *second = at - (double)k;
    return k;
}
