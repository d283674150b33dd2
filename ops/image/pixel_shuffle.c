/* pixel_shuffle.c - builders that move blocks of channels to blocks of pixels and back; torch.pixel_shuffle,
 * torch.pixel_unshuffle. Each is one copy: a permute between two reshapes. */
#include "ops/kit/op_kit.h"

/* Axes of the shuffled form: [..., C, factor, factor, H, W] beside [..., C, H, factor, W, factor]. */
enum { SPREAD = 5 };

/* x [lead, ...] by `shape`, permuted by `order`, as the last three axes `result`. Axis 0 may be the batch. */
static weft_value *rearranged(weft_value *x, const int64_t *shape, const int64_t *order,
                              const int64_t *result) {
    int64_t sizes[WEFT_MAX_NDIM], axes[WEFT_MAX_NDIM];
    int lead = x->type.ndim - 3;
    for (int i = 0; i < lead; i++) {
        sizes[i] = i == 0 ? -1 : x->type.shape[i];
        axes[i] = i;
    }
    for (int i = 0; i < SPREAD; i++) {
        sizes[lead + i] = shape[i];
        axes[lead + i] = lead + order[i];
    }
    x = weft_reshape(x, lead + SPREAD, sizes);
    x = weft_permute(x, axes);
    for (int i = 0; i < 3; i++) sizes[lead + i] = result[i];
    return weft_reshape(x, lead + 3, sizes);
}

static bool factor_fits(const char *name, weft_value *x, int64_t factor) {
    if (x->type.ndim < 3 || x->type.ndim > WEFT_MAX_NDIM - 2)
        return value_fail(x, WEFT_SHAPE, "%s: x is %s: it must be [..., C, H, W] of at most %d axes", name,
                          TYPE(&x->type), WEFT_MAX_NDIM - 2);
    return (factor >= 1 && factor <= INT32_MAX) ||
           value_fail(x, WEFT_ARGUMENT, "%s: factor %lld: it must be at least 1", name, (long long)factor);
}

weft_value *weft_pixel_shuffle(weft_value *x, int64_t factor) {
    if (!x || !factor_fits("pixel_shuffle", x, factor)) return NULL;
    const int64_t *s = x->type.shape + x->type.ndim - 3, f = factor;
    if (s[0] % (f * f))
        return value_fail(x, WEFT_SHAPE,
                          "pixel_shuffle: %s has %lld channels: they must be a multiple of %lld * %lld",
                          TYPE(&x->type), (long long)s[0], (long long)f, (long long)f);
    int64_t channels = s[0] / (f * f);
    return rearranged(x, (int64_t[]){channels, f, f, s[1], s[2]}, (int64_t[]){0, 3, 1, 4, 2},
                      (int64_t[]){channels, s[1] * f, s[2] * f});
}

weft_value *weft_pixel_unshuffle(weft_value *x, int64_t factor) {
    if (!x || !factor_fits("pixel_unshuffle", x, factor)) return NULL;
    const int64_t *s = x->type.shape + x->type.ndim - 3, f = factor;
    if (s[1] % f || s[2] % f)
        return value_fail(x, WEFT_SHAPE, "pixel_unshuffle: %s: height and width must be multiples of %lld",
                          TYPE(&x->type), (long long)f);
    return rearranged(x, (int64_t[]){s[0], s[1] / f, f, s[2] / f, f}, (int64_t[]){0, 2, 4, 1, 3},
                      (int64_t[]){s[0] * f * f, s[1] / f, s[2] / f});
}
