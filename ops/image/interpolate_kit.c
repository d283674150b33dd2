/* interpolate_kit.c - see interpolate.h. The formulas are PyTorch's (aten/src/ATen/native/UpSample.h). */
#include "ops/image/interpolate.h"

#include "ops/image/cubic.h"

#include <math.h>

const char *const interpolate_modes[] = {"nearest", "nearest_exact", "bilinear", "bicubic", NULL};

static bool scales_fit(const op_call *c, const interpolate_attrs *a) {
    bool both = a->scale_h > 0 && a->scale_w > 0, none = a->scale_h == 0 && a->scale_w == 0;
    if (!both && !none)
        return op_fail(c, WEFT_ARGUMENT, "scale_h=%g scale_w=%g: both must be above 0, or 0 for a size",
                       a->scale_h, a->scale_w);
    if ((a->align_corners || a->antialias) && a->mode < WEFT_INTERPOLATE_BILINEAR)
        return op_fail(c, WEFT_ARGUMENT, "%s is for bilinear and bicubic, not for %s",
                       a->align_corners ? "align_corners" : "antialias", interpolate_modes[a->mode]);
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
    interpolate_axis axis = {x->shape[2 + i], y->shape[2 + i], a->mode, 0, a->align_corners, a->antialias, 0};
    if (axis.align_corners)
        axis.step = axis.out > 1 ? (double)(axis.in - 1) / (double)(axis.out - 1) : 0;
    else
        axis.step = scale > 0 ? 1 / scale : (double)axis.in / (double)axis.out;
    if (a->antialias) axis.reach = (a->mode == WEFT_INTERPOLATE_BICUBIC ? 2 : 1) * fmax(axis.step, 1);
    return axis;
}

/* The nearest element is found in f32, as in PyTorch: rounding decides which one it is. */
static int64_t nearest(const interpolate_axis *a, int64_t i) {
    float step = (float)a->step, offset = a->mode == WEFT_INTERPOLATE_NEAREST_EXACT ? 0.5f : 0;
    float at = floorf(((float)i + offset) * step);
    int64_t k = (int64_t)at;
    return k < a->in - 1 ? k : a->in - 1;
}

static int64_t within(int64_t k, int64_t length) {
    return k < 0 ? 0 : k < length ? k : length - 1;
}

/* ---- weights ---- */

/* Of a mean over all elements that one of y covers; PyTorch, as Pillow, takes another cubic here. */
static double smooth(const interpolate_axis *a, const interpolate_span *s, int64_t k) {
    double x = ((double)k - s->at + 0.5) / fmax(a->step, 1);
    return a->mode == WEFT_INTERPOLATE_BICUBIC ? cubic(x, CUBIC_SMOOTH) : fmax(1 - fabs(x), 0);
}

/* The four elements around the place; those outside of x are its first or last one. */
static double of_four(const interpolate_axis *a, const interpolate_span *s, int64_t k) {
    double place = floor(s->at), sum = 0;
    for (int64_t j = -1; j < 3; j++)
        if (within((int64_t)place + j, a->in) == k) sum += cubic((double)j - (s->at - place), CUBIC_SHARP);
    return sum;
}

double interpolate_weight(const interpolate_axis *a, const interpolate_span *s, int64_t k) {
    if (a->antialias) return smooth(a, s, k) / s->total;
    if (a->mode == WEFT_INTERPOLATE_BICUBIC) return of_four(a, s, k);
    return k == s->begin ? 1 - s->at : s->at;
}

/* ---- spans ---- */

static interpolate_span smooth_span(const interpolate_axis *a, int64_t i) {
    interpolate_span s = {.at = a->step * ((double)i + 0.5)};
    double begin = s.at - a->reach + 0.5;
    s.begin = begin > 0 ? (int64_t)begin : 0;
    s.end = (int64_t)(s.at + a->reach + 0.5);
    if (s.end > a->in) s.end = a->in;
    for (int64_t k = s.begin; k < s.end; k++) s.total += smooth(a, &s, k);
    return s;
}

/* Elements have their middle at k + 0.5, or, with align_corners, the first and the last of x and y
 * coincide. */
interpolate_span interpolate_span_of(const interpolate_axis *a, int64_t i) {
    if (a->antialias) return smooth_span(a, i);
    if (a->mode < WEFT_INTERPOLATE_BILINEAR) {
        int64_t k = nearest(a, i);
        return (interpolate_span){k, k + 1, 0, 1};
    }
    double at = a->align_corners ? a->step * (double)i : a->step * ((double)i + 0.5) - 0.5;
    if (a->mode == WEFT_INTERPOLATE_BICUBIC) {
        if (at > (double)a->in) at = (double)a->in; /* all four are the last one there */
        int64_t k = (int64_t)floor(at);
        return (interpolate_span){within(k - 1, a->in), within(k + 2, a->in) + 1, at, 1};
    }
    if (at < 0) at = 0;
    int64_t k = (int64_t)at;
    if (k >= a->in - 1) return (interpolate_span){a->in - 1, a->in, 0, 1};
    at -= (double)k;
    return (interpolate_span){k, k + 1 + (at != 0), at, 1};
}

int64_t interpolate_most(const interpolate_axis *a) {
    if (a->mode < WEFT_INTERPOLATE_BILINEAR) return 1;
    if (a->antialias) return within((int64_t)(2 * a->reach) + 2, a->in + 1);
    return a->mode == WEFT_INTERPOLATE_BICUBIC ? 4 : 2;
}
