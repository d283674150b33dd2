/* norms.c - norms, softmax and losses as nodes of ONNX. */
#include "interchange/onnx/exporters/exporter_families.h"

edge *export_softmax(export_call *c) {
    return with_int(c, export_1(c, "Softmax", export_in(c, 0)), "axis", export_axis(c, "axis"));
}

edge *export_log_softmax(export_call *c) {
    return with_int(c, export_1(c, "LogSoftmax", export_in(c, 0)), "axis", export_axis(c, "axis"));
}

/* 1 for each element of the last axis, in the type of operand 0. */
static edge *ones(export_call *c) {
    weft_value *x = export_operand(c, 0);
    int64_t n = export_fixed(c, x, weft_ndim(x) - 1);
    float *all = n < 0 ? NULL : kit_take(c->e->arena, (size_t)n, sizeof *all);
    for (int64_t i = 0; all && i < n; i++) all[i] = 1;
    return all ? export_cast(c, export_constant(c, WEFT_F32, 1, &n, all), WEFT_F32, weft_value_dtype(x))
               : NULL;
}

/* ONNX keeps the last axis of both statistics. */
edge *export_layer_norm(export_call *c) {
    edge *in[] = {export_in(c, 0), c->about.n_operands > 1 ? export_in(c, 1) : ones(c), export_in(c, 2)};
    edge *y = export_new(c, "LayerNormalization", 3, in, 3);
    for (int i = 1; i < 3; i++)
        if (export_wants(c, i)) export_set(c, i, export_squeeze(c, export_out(y, i), -1));
    with_int(c, y, "axis", -1);
    return with_real(c, y, "epsilon", export_real(c, "eps"));
}

/* RMSNormalization is of opset 23, so it is in parts: x / sqrt(mean x^2 + eps) w. */
edge *export_rms_norm(export_call *c) {
    edge *x = export_in(c, 0), *w = export_in(c, 1);
    int64_t last = export_ndim(c, 0) - 1;
    edge *squares = export_reduce(c, "ReduceMean", export_2(c, "Mul", x, x), 1, &last, true);
    squares = export_2(c, "Add", squares, export_number(c, export_dtype(c, 0), export_real(c, "eps")));
    edge *rstd = export_1(c, "Reciprocal", export_1(c, "Sqrt", squares)), *y = export_2(c, "Mul", x, rstd);
    if (export_wants(c, 1)) export_set(c, 1, export_squeeze(c, rstd, last));
    return w ? export_2(c, "Mul", y, w) : y;
}

/* A number for each channel, [C], beside x[N, C, ...]. */
static edge *next_to(export_call *c, edge *channels) {
    int64_t shape[WEFT_MAX_NDIM] = {-1, 1, 1, 1};
    return export_ndim(c, 0) == 2 ? channels : export_2(c, "Reshape", channels, export_ints(c, 3, shape));
}

/* By the batch's statistics. */
edge *export_batch_norm(export_call *c) {
    edge *x = export_in(c, 0), *eps = export_number(c, export_dtype(c, 0), export_real(c, "eps"));
    int64_t axes[] = {0, 2, 3};
    int n = export_ndim(c, 0) == 2 ? 1 : 3;
    if (export_wants(c, 3))
        return export_refuse(
            c, "running statistics are updated in graphs that train alone: export one of WEFT_EVAL");
    edge *mean = export_reduce(c, "ReduceMean", x, n, axes, true), *apart = export_2(c, "Sub", x, mean);
    edge *var = export_reduce(c, "ReduceMean", export_2(c, "Mul", apart, apart), n, axes, true);
    edge *rstd = export_1(c, "Reciprocal", export_1(c, "Sqrt", export_2(c, "Add", var, eps)));
    int64_t flat = -1;
    if (export_wants(c, 1)) export_set(c, 1, export_2(c, "Reshape", mean, export_ints(c, 1, &flat)));
    if (export_wants(c, 2)) export_set(c, 2, export_2(c, "Reshape", rstd, export_ints(c, 1, &flat)));
    edge *y = export_2(c, "Mul", apart, rstd);
    y = export_2(c, "Mul", y, next_to(c, export_in(c, 1)));
    return export_2(c, "Add", y, next_to(c, export_in(c, 2)));
}

edge *export_cross_entropy(export_call *c) {
    static const char *const reductions[] = {"mean", "sum", "none"}; /* in the order of the op's words */
    weft_dtype dtype = export_dtype(c, 1);
    int64_t classes = 1;
    edge *target = export_cast(c, export_in(c, 1), dtype, dtype == WEFT_I32 ? dtype : WEFT_I64);
    edge *y = export_2(c, "SoftmaxCrossEntropyLoss", export_in(c, 0), target);
    with_text(c, y, "reduction", reductions[export_int(c, "reduction")]);
    if (export_wants(c, 1))
        export_set(c, 1, export_reduce(c, "ReduceLogSumExp", export_in(c, 0), 1, &classes, false));
    return with_int(c, y, "ignore_index", export_int(c, "ignore_index"));
}
