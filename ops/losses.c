/* losses.c - losses that are composed of other ops. */
#include "ops/op_kit.h"

weft_value *weft_mse(weft_value *x, weft_value *target) {
    return weft_mean(weft_square(weft_sub(x, target)), 0, NULL, false);
}
