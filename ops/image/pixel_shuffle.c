/* pixel_shuffle.c - builders that move blocks of channels to blocks of pixels and back; torch.pixel_shuffle,
 * torch.pixel_unshuffle. Each is one copy: a permute between two reshapes. */
#include "ops/shape/lengths.h"

/* Axes of the shuffled form: [..., C, factor, factor, H, W] beside [..., C, H, factor, W, factor]. */
enum { SPREAD = 5 };

/* x [..., C, H, W] in the shape of `spread`, permuted by `order`, as `result`. */
static weft_value *rearranged(weft_value *x, const lengths *spread, const int64_t *order,
                              const lengths *result) {
    int64_t axes[WEFT_MAX_NDIM];
    int lead = x->type.ndim - 3;
    for (int i = 0; i < lead; i++) axes[i] = i;
    for (int i = 0; i < SPREAD; i++) axes[lead + i] = lead + order[i];
    return reshape_lengths(weft_permute(reshape_lengths(x, spread), axes), result);
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
    lengths spread = lengths_of(x), result = spread;
    int c = x->type.ndim - 3;
    lengths_cut(&spread, c, f);
    lengths_cut(&spread, c, f);
    lengths_divide(&result, c, f * f);
    lengths_scale(&result, c + 1, f);
    lengths_scale(&result, c + 2, f);
    return rearranged(x, &spread, (int64_t[]){0, 3, 1, 4, 2}, &result);
}

weft_value *weft_pixel_unshuffle(weft_value *x, int64_t factor) {
    if (!x || !factor_fits("pixel_unshuffle", x, factor)) return NULL;
    const int64_t *s = x->type.shape + x->type.ndim - 3, f = factor;
    if (s[1] % f || s[2] % f)
        return value_fail(x, WEFT_SHAPE, "pixel_unshuffle: %s: height and width must be multiples of %lld",
                          TYPE(&x->type), (long long)f);
    lengths spread = lengths_of(x), result = spread;
    int c = x->type.ndim - 3;
    lengths_cut(&spread, c + 2, f);
    lengths_cut(&spread, c + 1, f);
    for (int i = 1; i < 3; i++) lengths_divide(&result, c + i, f);
    lengths_scale(&result, c, f * f);
    return rearranged(x, &spread, (int64_t[]){0, 2, 4, 1, 3}, &result);
}
