/* losses.c - losses by classes. */
#include "interchange/onnx/operators/families.h"

/* Losses of 16 bits are computed in f32. */
static weft_value *wide(weft_value *x) {
    bool is_reduced = x && (weft_value_dtype(x) == WEFT_F16 || weft_value_dtype(x) == WEFT_BF16);
    return is_reduced ? weft_cast(x, WEFT_F32) : x;
}

static weft_value *in_type_of(weft_value *x, weft_value *y) {
    return x && y && weft_value_dtype(x) != weft_value_dtype(y) ? weft_cast(y, weft_value_dtype(x)) : y;
}

/* The attributes and the weight of each class, operand 2. */
static bool loss_of(onnx_call *c, weft_loss *loss, int64_t *ignored) {
    const char *reduction = onnx_word(c, "reduction", "mean");
    const onnx_attribute *given = onnx_attribute_of(c, "ignore_index");
    *ignored = onnx_int(c, "ignore_index", 0);
    *loss = (weft_loss){.weight = wide(onnx_in(c, 2)), .ignore_index = given ? ignored : NULL};
    if (!strcmp(reduction, "mean"))
        loss->reduction = WEFT_LOSS_MEAN;
    else if (!strcmp(reduction, "sum"))
        loss->reduction = WEFT_LOSS_SUM;
    else if (!strcmp(reduction, "none"))
        loss->reduction = WEFT_LOSS_NONE;
    else
        return onnx_refuse(c, "reduction is '%.40s'", reduction);
    return true;
}

weft_value *onnx_build_nll(onnx_call *c) {
    weft_value *x = onnx_in(c, 0), *target = onnx_in(c, 1);
    weft_loss loss;
    int64_t ignored;
    return loss_of(c, &loss, &ignored) ? in_type_of(x, weft_nll(wide(x), target, &loss)) : NULL;
}

/* Result 1 is the logarithm of the softmax, from which the loss is computed where it is wanted. */
weft_value *onnx_build_cross_entropy(onnx_call *c) {
    weft_value *x = onnx_in(c, 0), *target = onnx_in(c, 1);
    weft_loss loss;
    int64_t ignored;
    if (!loss_of(c, &loss, &ignored)) return NULL;
    if (!onnx_wants(c, 1)) return in_type_of(x, weft_cross_entropy(wide(x), target, &loss));
    weft_value *logs = weft_log_softmax(wide(x), 1);
    onnx_result(c, 1, in_type_of(x, logs));
    return in_type_of(x, weft_nll(logs, target, &loss));
}
