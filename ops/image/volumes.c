/* volumes.c - pooling of volumes x[N, C, D, H, W]; torch.nn.functional.max_pool3d and its like.
 *
 * A window of a volume is the product of one in its planes and one along its depth, and so is the divisor of
 * an average; thus these builders pool the N D planes as images, and what remains as images [N, C, D, h w].
 * Channels-last a volume is each of these in the same memory: nothing is copied in between. Among equal
 * maxima the first by depth, row, column wins, and of NaNs the last, as in PyTorch: planes come first for
 * that. */
#include "ops/kit/op_kit.h"

static const int64_t swap[] = {0, 2, 1, 3, 4};

/* x [N, C, D, H, W] as images [N D, C, H, W]. Axis 0 may be the batch. */
static weft_value *planes_of(weft_value *x) {
    const int64_t *s = x->type.shape;
    int64_t shape[] = {-1, s[1], s[3], s[4]};
    x = weft_permute(x, swap);
    return weft_reshape(x, 4, shape);
}

/* x [N D, C, h, w] as images [N, C, D, h w]. */
static weft_value *depths_of(weft_value *x, int64_t depth) {
    if (!x) return NULL;
    const int64_t *s = x->type.shape;
    int64_t shape[] = {-1, depth, s[1], s[2] * s[3]};
    x = weft_reshape(x, 4, shape);
    return weft_permute(x, swap);
}

/* x [N, C, d, h w] as a volume [N, C, d, h, w]. */
static weft_value *volume_of(weft_value *x, int64_t width) {
    if (!x) return NULL;
    const int64_t *s = x->type.shape;
    return weft_reshape(x, 5, (int64_t[]){-1, s[1], s[2], s[3] / width, width});
}

static bool volume_fits(const char *name, const weft_value *x) {
    return x->type.ndim == 5 ||
           value_fail(x, WEFT_SHAPE, "%s: x is %s: it must be [N, C, D, H, W]", name, TYPE(&x->type));
}

/* ---- sliding windows ---- */

static bool in_range(const weft_value *x, const char *name, const char *what, int axis, int64_t v,
                     int64_t least) {
    return (v >= least && v <= 65536) ||
           value_fail(x, WEFT_ARGUMENT, "%s: %s[%d]=%lld: it must be %lld to 65536", name, what, axis,
                      (long long)v, (long long)least);
}

/* What pooling of images checks, too, but in words of the volume: of its three axes and its shape. */
static bool window_fits(const char *name, const weft_value *x, const weft_pool *p) {
    for (int i = 0; i < 3; i++) {
        int64_t kernel = p->kernel[i], pad = p->pad[i], length = x->type.shape[2 + i];
        if (!in_range(x, name, "kernel", i, kernel, 1) || !in_range(x, name, "stride", i, p->stride[i], 0) ||
            !in_range(x, name, "pad", i, pad, 0) || !in_range(x, name, "dilation", i, p->dilation[i], 0))
            return false;
        if (pad > kernel / 2)
            return value_fail(x, WEFT_SHAPE, "%s: pad %lld: it must be at most half of the kernel %lld", name,
                              (long long)pad, (long long)kernel);
        int64_t reach = (p->dilation[i] ? p->dilation[i] : 1) * (kernel - 1) + 1;
        int64_t partly = p->ceil_mode ? (p->stride[i] ? p->stride[i] : kernel) - 1 : 0;
        if (length + 2 * pad + partly < reach)
            return value_fail(x, WEFT_SHAPE,
                              "%s: %s: axis %d with pad %lld on both sides is smaller than the kernel %lld",
                              name, TYPE(&x->type), 2 + i, (long long)pad, (long long)reach);
    }
    return true;
}

/* The window in planes, and that along the depth, which for an average divides by the rest. */
static void parts_of(const weft_pool *whole, weft_pool *plane, weft_pool *depth) {
    *plane = *depth = *whole;
    for (int i = 0; i < 3; i++) {
        plane->kernel[i] = i < 2 ? whole->kernel[1 + i] : 0;
        plane->stride[i] = i < 2 ? whole->stride[1 + i] : 0;
        plane->pad[i] = i < 2 ? whole->pad[1 + i] : 0;
        plane->dilation[i] = i < 2 ? whole->dilation[1 + i] : 0;
        depth->kernel[i] = i == 0 ? whole->kernel[0] : i == 1;
        depth->stride[i] = i == 0 ? whole->stride[0] : 0;
        depth->pad[i] = i == 0 ? whole->pad[0] : 0;
        depth->dilation[i] = i == 0 ? whole->dilation[0] : 0;
    }
    /* `divisor` is that of the whole sum. */
    if (whole->divisor > 0) depth->divisor = 1;
}

/* A window that moves nothing together: nothing is done along the depth. */
static bool is_flat(const weft_pool *p) {
    return p->kernel[0] == 1 && p->stride[0] >= 0 && p->stride[0] <= 1 && p->pad[0] == 0 &&
           p->dilation[0] >= 0;
}

static weft_value *pool_volume(const char *name, weft_value *(*op)(weft_value *, const weft_pool *),
                               weft_value *x, const weft_pool *pool) {
    weft_pool plane, depth;
    if (!x) return op(x, NULL);
    int64_t length = x->type.ndim == 5 ? x->type.shape[2] : 0;
    const weft_pool none = {.divisor = 0}, *whole = pool ? pool : &none;
    parts_of(whole, &plane, &depth);
    x = volume_fits(name, x) && window_fits(name, x, whole) ? planes_of(x) : NULL;
    if (x) x = op(x, &plane);
    int64_t width = x ? x->type.shape[3] : 1;
    x = depths_of(x, length);
    if (x && !is_flat(&depth)) x = op(x, &depth);
    return volume_of(x, width);
}

weft_value *weft_max_pool3d(weft_value *x, const weft_pool *pool) {
    return pool_volume("max_pool3d", weft_max_pool2d, x, pool);
}

weft_value *weft_avg_pool3d(weft_value *x, const weft_pool *pool) {
    return pool_volume("avg_pool3d", weft_avg_pool2d, x, pool);
}

/* ---- parts ---- */

static weft_value *pool_parts(const char *name, weft_value *(*op)(weft_value *, int64_t, int64_t),
                              weft_value *x, const int64_t size[3]) {
    if (!x) return op(x, size[1], size[2]);
    if (!volume_fits(name, x)) return NULL;
    if (size[0] < 1 || size[1] < 1 || size[2] < 1)
        return value_fail(x, WEFT_ARGUMENT, "%s: a size of %lld x %lld x %lld: each at least 1", name,
                          (long long)size[0], (long long)size[1], (long long)size[2]);
    int64_t depth = x->type.shape[2];
    x = planes_of(x);
    x = depths_of(x ? op(x, size[1], size[2]) : NULL, depth);
    if (x) x = op(x, size[0], x->type.shape[3]);
    return volume_of(x, size[2]);
}

weft_value *weft_adaptive_avg_pool3d(weft_value *x, int64_t depth, int64_t height, int64_t width) {
    return pool_parts("adaptive_avg_pool3d", weft_adaptive_avg_pool2d, x, (int64_t[]){depth, height, width});
}

weft_value *weft_adaptive_max_pool3d(weft_value *x, int64_t depth, int64_t height, int64_t width) {
    return pool_parts("adaptive_max_pool3d", weft_adaptive_max_pool2d, x, (int64_t[]){depth, height, width});
}
