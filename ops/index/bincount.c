/* bincount.c - how often each number is in x; torch.bincount(x, minlength=bins), but with a fixed length: a
 * number outside fails the run, as it does in the scatter_add of ones that this is. */
#include "ops/index/index.h"

weft_value *weft_bincount(weft_value *x, int64_t bins) {
    if (!x) return NULL;
    weft_graph *g = x->node->graph;
    if (!dtype_is_integer(x->type.dtype))
        return value_fail(x, WEFT_TYPE, "bincount: x is %s: it must be integer", TYPE(&x->type));
    if (bins < 1)
        return value_fail(x, WEFT_ARGUMENT, "bincount: %lld bins: there must be at least 1", (long long)bins);
    weft_value *zeros = weft_constant(g, WEFT_I64, 1, &bins, 0),
               *one = weft_constant(g, WEFT_I64, 0, NULL, 1);
    return weft_scatter_add(zeros, 0, weft_reshape(x, 1, (int64_t[]){-1}), one);
}
