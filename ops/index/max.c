/* max.c - the largest, or smallest, element along one axis and its index; torch.max(x, dim), torch.min(x,
 * dim). Among equal ones it is the first, which alone gets the gradient; amax and amin share it. The values
 * are picked by the index that argmax or argmin finds. */
#include "ops/reduce/reduce.h"

typedef weft_value *find_index(weft_value *x, int axis, bool keep);

static weft_value *value_and_index(const char *name, find_index *find, weft_value *x, int axis, bool keep,
                                   weft_value **indices) {
    int64_t at = axis;
    if (indices) *indices = NULL;
    if (!reduce_fits(name, x, false, 1, &at)) return NULL;
    weft_value *index = find(x, axis, true);
    weft_value *value = weft_take_along_axis(x, index, axis);
    if (!keep) {
        value = weft_squeeze(value, axis);
        index = weft_squeeze(index, axis);
    }
    if (indices) *indices = index;
    return value;
}

weft_value *weft_max(weft_value *x, int axis, bool keep, weft_value **indices) {
    return value_and_index("max", weft_argmax, x, axis, keep, indices);
}

weft_value *weft_min(weft_value *x, int axis, bool keep, weft_value **indices) {
    return value_and_index("min", weft_argmin, x, axis, keep, indices);
}
