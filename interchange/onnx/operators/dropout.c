/* dropout.c - Dropout: it drops in a graph of WEFT_TRAIN, and where training_mode says so. */
#include "interchange/onnx/operators/families.h"

/* Ones of x's shape, as bool. */
static weft_value *all_kept(weft_value *x) {
    weft_value *is_nan = weft_isnan(x);
    return weft_logical_or(is_nan, weft_logical_not(is_nan));
}

/* As weft_dropout(), in a graph of any mode; result 1 is what stays. */
static weft_value *dropped(onnx_call *c, weft_value *x, double ratio) {
    int64_t shape[WEFT_MAX_NDIM];
    onnx_shape_of(c, 0, shape);
    for (int i = 0; i < weft_ndim(x); i++)
        if (shape[i] == ONNX_DEPENDS)
            return onnx_refuse(c, "axis %d depends on the batch, and is not the batch", i);
    weft_value *random = weft_random_uniform(onnx_graph_of(c), weft_ndim(x), shape, 0, 1);
    weft_value *kept = weft_greater_equal(random, onnx_constant(c, random, ratio));
    onnx_result(c, 1, kept);
    weft_value *larger = weft_scale(x, 1 / (1 - ratio)), *zero = onnx_constant(c, x, 0);
    return weft_where(kept, larger, zero);
}

/* Opset 12 made the ratio and training_mode operands. Its seed chooses no mask: the standard leaves the
 * generator open, and here the seed of a store is for all draws. */
weft_value *onnx_build_dropout(onnx_call *c) {
    weft_value *x = onnx_in(c, 0);
    bool is_old = c->opset < 12;
    if (!is_old) onnx_int(c, "seed", 0);
    double ratio = is_old ? onnx_real(c, "ratio", 0.5) : onnx_number(c, 1, 0.5);
    bool is_training = !is_old && onnx_integer(c, 2, 0);
    if (!x || c->in->error->status) return NULL;
    if (!(ratio >= 0 && ratio < 1))
        return onnx_refuse(c, "its ratio is %g: it is at least 0 and below 1", ratio);
    if (ratio > 0 && (is_training || onnx_trains(c))) {
        if (onnx_wants(c, 1) && c->opset < 10)
            return onnx_refuse(c, "what it keeps as numbers (opset 10: as bool)");
        bool is_plain = onnx_trains(c) && !onnx_wants(c, 1);
        return is_plain ? weft_dropout(x, ratio) : dropped(c, x, ratio);
    }
    if (onnx_wants(c, 1))
        onnx_result(c, 1, c->opset < 10 ? weft_cast(all_kept(x), weft_value_dtype(x)) : all_kept(x));
    return x;
}
