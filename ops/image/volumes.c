/* volumes.c - pooling of volumes x[N, C, D, H, W]; torch.nn.functional.max_pool3d and its like.
 *
 * A window of a volume is the product of one in its planes and one along its depth, and so is the divisor of
 * an average; thus these builders pool the N D planes as images, and what remains as images [N, C, D, h w].
 * Channels-last a volume is each of these in the same memory: nothing is copied in between. Among equal
 * maxima the first by depth, row, column wins, and of NaNs the last, as in PyTorch: planes come first for
 * that. */
#include "ops/image/volumes.h"

static const int64_t swap[] = {0, 2, 1, 3, 4};

weft_value *volume_planes(weft_value *x, lengths *whole) {
    x = weft_permute(x, swap);
    if (!x) return NULL;
    lengths l = *whole = lengths_of(x);
    lengths_merge(&l, 0, 2);
    return reshape_lengths(x, &l);
}

weft_value *volume_depths(weft_value *x, lengths *whole) {
    if (!x) return NULL;
    lengths l = *whole, now = lengths_of(x);
    for (int i = 2; i < 5; i++) {
        l.here[i] = now.here[i - 1];
        l.there[i] = now.there[i - 1];
    }
    *whole = l;
    lengths_merge(&l, 3, 5);
    return weft_permute(reshape_lengths(x, &l), swap);
}

weft_value *volume_again(weft_value *x, const lengths *whole) {
    if (!x) return NULL;
    lengths l = lengths_of(x);
    lengths_insert(&l, 4, whole->here[4]);
    l.there[4] = whole->there[4];
    l.here[3] = whole->here[3];
    l.there[3] = whole->there[3];
    return reshape_lengths(x, &l);
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
    lengths shape;
    const weft_pool none = {.divisor = 0}, *whole = pool ? pool : &none;
    parts_of(whole, &plane, &depth);
    x = volume_fits(name, x) && window_fits(name, x, whole) ? volume_planes(x, &shape) : NULL;
    if (x) x = volume_depths(op(x, &plane), &shape);
    if (x && !is_flat(&depth)) x = op(x, &depth);
    return volume_again(x, &shape);
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
    lengths shape;
    x = volume_planes(x, &shape);
    x = volume_depths(x ? op(x, size[1], size[2]) : NULL, &shape);
    if (x) x = op(x, size[0], x->type.shape[3]);
    return volume_again(x, &shape);
}

weft_value *weft_adaptive_avg_pool3d(weft_value *x, int64_t depth, int64_t height, int64_t width) {
    return pool_parts("adaptive_avg_pool3d", weft_adaptive_avg_pool2d, x, (int64_t[]){depth, height, width});
}

weft_value *weft_adaptive_max_pool3d(weft_value *x, int64_t depth, int64_t height, int64_t width) {
    return pool_parts("adaptive_max_pool3d", weft_adaptive_max_pool2d, x, (int64_t[]){depth, height, width});
}
