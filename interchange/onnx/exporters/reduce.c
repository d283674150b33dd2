/* reduce.c - reductions and running sums as nodes of ONNX. */
#include "interchange/onnx/exporters/exporter_families.h"

static edge *reduced(export_call *c, const char *op, edge *x) {
    weft_attribute axes = export_attribute_of(c, "axes");
    int n = export_ndim(c, 0);
    for (int i = 0; i < axes.n; i++)
        if (axes.integers[i] < 0) axes.integers[i] += n;
    return export_reduce(c, op, x, axes.n, axes.integers, export_int(c, "keep"));
}

/* Operand 0 in the type of the result: sums and products of integers are i64. */
static edge *widened(export_call *c) {
    return export_cast(c, export_in(c, 0), export_dtype(c, 0), weft_value_dtype(export_result(c, 0)));
}

/* A mean of n elements by another divisor than n; that is a mean, times n / (n - correction). */
static edge *corrected(export_call *c, edge *mean) {
    weft_attribute axes = export_attribute_of(c, "axes");
    double correction = export_real(c, "correction"), count = 1;
    for (int i = 0; i < (axes.n ? axes.n : export_ndim(c, 0)); i++) {
        int64_t axis = axes.n ? axes.integers[i] : i;
        int64_t length =
            export_fixed(c, export_operand(c, 0), (int)(axis < 0 ? axis + export_ndim(c, 0) : axis));
        if (length < 0) return NULL;
        count *= (double)length;
    }
    double divisor = count > correction ? count - correction : 0;
    return export_2(c, "Mul", mean, export_number(c, weft_value_dtype(export_result(c, 0)), count / divisor));
}

edge *export_sum(export_call *c) {
    if (!export_int(c, "mean")) return reduced(c, "ReduceSum", widened(c));
    edge *mean = reduced(c, "ReduceMean", widened(c));
    return export_real(c, "correction") != 0 ? corrected(c, mean) : mean;
}

edge *export_prod(export_call *c) {
    return reduced(c, "ReduceProd", widened(c));
}

edge *export_amax(export_call *c) {
    return reduced(c, "ReduceMax", export_in(c, 0));
}

edge *export_amin(export_call *c) {
    return reduced(c, "ReduceMin", export_in(c, 0));
}

static edge *arg(export_call *c, const char *op) {
    weft_dtype dtype = export_dtype(c, 0);
    edge *x = export_cast(c, export_in(c, 0), dtype, dtype == WEFT_BOOL ? WEFT_U8 : dtype);
    edge *y = with_int(c, export_1(c, op, x), "axis", export_axis(c, "axis"));
    return with_int(c, y, "keepdims", export_int(c, "keep"));
}

edge *export_argmax(export_call *c) {
    return arg(c, "ArgMax");
}

edge *export_argmin(export_call *c) {
    return arg(c, "ArgMin");
}

edge *export_cumsum(export_call *c) {
    int64_t axis = export_axis(c, "axis");
    edge *x = widened(c), *along = export_constant(c, WEFT_I64, 0, NULL, &axis);
    edge *y = export_2(c, "CumSum", x, along);
    if (export_int(c, "exclusive")) with_int(c, y, "exclusive", 1);
    return export_int(c, "reverse") ? with_int(c, y, "reverse", 1) : y;
}
