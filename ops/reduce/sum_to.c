/* sum_to.c - the sum over broadcast axes. */
#include "ops/kit/op_kit.h"

/* Broadcast axes are those that `like` lacks or has with length 1. Reduced axes stay until the reshape. */
weft_value *sum_to(weft_value *gradient, const weft_value *like) {
    if (!gradient || shape_equal(&gradient->type, &like->type)) return gradient;
    int64_t axes[WEFT_MAX_NDIM];
    int n = 0, lead = gradient->type.ndim - like->type.ndim;
    for (int i = 0; i < gradient->type.ndim; i++)
        if (i < lead || (like->type.shape[i - lead] == 1 && gradient->type.shape[i] != 1)) axes[n++] = i;
    weft_value *sum = weft_sum(gradient, n, axes, true);
    return lead ? weft_reshape(sum, like->type.ndim, like->type.shape) : sum;
}
