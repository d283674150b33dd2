/* random.c - random numbers. ONNX leaves the generator open: the numbers follow the seed of a run, and a
 * node's own seed changes nothing. */
#include "interchange/onnx/operators/families.h"
#include "interchange/onnx/import/types.h"

typedef weft_value *generator(weft_graph *graph, int ndim, const int64_t *shape, double a, double b);

static weft_value *numbers(onnx_call *c, int ndim, const int64_t *shape, generator *function, double a,
                           double b) {
    for (int i = 0; i < ndim; i++)
        if (shape[i] == ONNX_DEPENDS)
            return onnx_refuse(c, "length %d depends on the batch and is not the batch", i);
    onnx_attribute_of(c, "seed");
    return function(onnx_graph_of(c), ndim, shape, a, b);
}

/* The shape is an attribute. */
static weft_value *of_shape(onnx_call *c, generator *function, double a, double b) {
    weft_dtype dtype;
    int n;
    const int64_t *shape = onnx_ints(c, "shape", &n);
    if (!onnx_dtype_of(c, "dtype", WEFT_F32, &dtype)) return NULL;
    if (n > WEFT_MAX_NDIM) return onnx_refuse(c, "a shape of %d axes; %d are the most", n, WEFT_MAX_NDIM);
    return onnx_as(numbers(c, n, shape, function, a, b), dtype);
}

/* The shape is that of the operand, as is the type where none is given. */
static weft_value *like(onnx_call *c, generator *function, double a, double b) {
    weft_value *x = onnx_in(c, 0);
    int64_t shape[WEFT_MAX_NDIM];
    weft_dtype dtype;
    if (!x || !onnx_dtype_of(c, "dtype", weft_value_dtype(x), &dtype)) return NULL;
    onnx_shape_of(c, 0, shape);
    return onnx_as(numbers(c, weft_ndim(x), shape, function, a, b), dtype);
}

weft_value *onnx_build_random_normal(onnx_call *c) {
    return of_shape(c, weft_random_normal, onnx_real(c, "mean", 0), onnx_real(c, "scale", 1));
}

weft_value *onnx_build_random_normal_like(onnx_call *c) {
    return like(c, weft_random_normal, onnx_real(c, "mean", 0), onnx_real(c, "scale", 1));
}

weft_value *onnx_build_random_uniform(onnx_call *c) {
    return of_shape(c, weft_random_uniform, onnx_real(c, "low", 0), onnx_real(c, "high", 1));
}

weft_value *onnx_build_random_uniform_like(onnx_call *c) {
    return like(c, weft_random_uniform, onnx_real(c, "low", 0), onnx_real(c, "high", 1));
}

/* 1 with the probability that the operand says. */
weft_value *onnx_build_bernoulli(onnx_call *c) {
    weft_value *p = onnx_in(c, 0);
    int64_t shape[WEFT_MAX_NDIM];
    weft_dtype dtype;
    if (!p || !onnx_dtype_of(c, "dtype", weft_value_dtype(p), &dtype)) return NULL;
    onnx_shape_of(c, 0, shape);
    weft_value *u = numbers(c, weft_ndim(p), shape, weft_random_uniform, 0, 1);
    return onnx_as(weft_less(u, onnx_as(p, WEFT_F32)), dtype);
}

/* Classes drawn by x[B, C], logs of what each counts: the largest of x - log(-log(u)), u uniform. */
weft_value *onnx_build_multinomial(onnx_call *c) {
    weft_value *x = onnx_in(c, 0);
    int64_t own[WEFT_MAX_NDIM], samples = onnx_int(c, "sample_size", 1);
    weft_dtype dtype;
    if (!x || !onnx_dtype_of(c, "dtype", WEFT_I32, &dtype)) return NULL;
    if (weft_ndim(x) != 2) return onnx_refuse(c, "x has %d axes; 2 are taken", weft_ndim(x));
    onnx_shape_of(c, 0, own);
    weft_value *u = numbers(c, 3, (int64_t[]){own[0], samples, own[1]}, weft_random_uniform, 0, 1);
    weft_value *noise = weft_neg(weft_log(weft_neg(weft_log(u))));
    return onnx_as(weft_argmax(weft_add(weft_unsqueeze(onnx_as(x, WEFT_F32), 1), noise), 2, false), dtype);
}
