/* linalg.c - sums of products by letters, and determinants. */
#include "interchange/onnx/operators/families.h"
#include "interchange/onnx/import/types.h"

weft_value *onnx_build_einsum(onnx_call *c) {
    enum { MOST = 64 };
    weft_value *operands[MOST];
    const char *equation = onnx_word(c, "equation", "");
    int n = onnx_operands(c);
    if (n < 1 || n > MOST) return onnx_refuse(c, "%d operands; 1 to %d are taken", n, MOST);
    for (int i = 0; i < n; i++) operands[i] = onnx_in(c, i);
    if (!operands[0] || !onnx_is_integer(operands[0])) return weft_einsum(equation, n, operands);
    /* Of integers as f64, which has all of them up to 2^53. */
    weft_dtype dtype = weft_value_dtype(operands[0]);
    for (int i = 0; i < n; i++) operands[i] = onnx_as_real(operands[i]);
    return onnx_as(weft_einsum(equation, n, operands), dtype);
}

/* One element of each matrix. */
static weft_value *element(weft_value *x, int row, int column) {
    int last = weft_ndim(x) - 1;
    weft_value *line = weft_slice(x, last - 1, row, row + 1);
    return weft_squeeze(weft_squeeze(weft_slice(line, last, column, column + 1), last), last - 1);
}

/* The determinant of the rows from `row` on without the columns taken, by its first row. */
static weft_value *minor(weft_value *x, int n, int row, unsigned taken) {
    weft_value *sum = NULL;
    int sign = 1;
    for (int i = 0; i < n; i++) {
        if (taken >> i & 1) continue;
        weft_value *part = element(x, row, i);
        if (row + 1 < n) part = weft_mul(part, minor(x, n, row + 1, taken | 1U << i));
        sum = !sum ? part : sign > 0 ? weft_add(sum, part) : weft_sub(sum, part);
        sign = -sign;
    }
    return sum;
}

weft_value *onnx_build_det(onnx_call *c) {
    enum { LARGEST = 4 };
    weft_value *x = onnx_in(c, 0);
    if (!x) return NULL;
    if (weft_ndim(x) < 2) return onnx_refuse(c, "x has %d axes; it needs 2", weft_ndim(x));
    int64_t n = weft_dim(x, weft_ndim(x) - 1);
    if (n < 1 || n > LARGEST)
        return onnx_refuse(c, "a determinant of %jd x %jd; %d x %d is the largest", n, n, LARGEST, LARGEST);
    if (weft_dim(x, weft_ndim(x) - 2) != n)
        return onnx_refuse(c, "a determinant of %jd x %jd", weft_dim(x, weft_ndim(x) - 2), n);
    return minor(x, (int)n, 0, 0);
}
