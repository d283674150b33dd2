/* cast.c - x as another element type; torch.Tensor.to. Float to integer drops the fraction and clamps to the
 * 64-bit range, NaN becomes 0, and narrower integers keep the low bits. To bool: x != 0. dx = dy in the type
 * of x, for float types only. */
#include "ops/kit/basic_attrs.h"
#include "ops/kit/op_kit.h"

#include <math.h>

static const op_attr attrs[] = {
    {"dtype", ATTR_DTYPE, offsetof(cast_attrs, dtype)},
    {0},
};

static bool infer(op_call *c) {
    c->out[0].dtype = ((const cast_attrs *)c->attrs)->dtype;
    return true;
}

static double scalar(const double *x, const void *attrs) {
    weft_dtype dtype = ((const cast_attrs *)attrs)->dtype;
    const double most = 9223372036854774784.0; /* the largest double below 2^63 */
    if (dtype == WEFT_BOOL) return x[0] != 0;
    if (dtype_is_float(dtype)) return x[0];
    return isnan(x[0]) ? 0 : x[0] > most ? most : x[0] < -most ? -most : x[0];
}

/* Of integers, to integers and bool. */
static int64_t integer(const int64_t *x, const void *attrs) {
    return ((const cast_attrs *)attrs)->dtype == WEFT_BOOL ? x[0] != 0 : x[0];
}

/* A cast up to f32 and back changes nothing; a cast down and back rounds, so it stays. */
static weft_value *simplify(weft_node *n) {
    weft_value *x = n->in[0], *before = x->node->op == n->op ? x->node->in[0] : NULL;
    bool is_back = before && before->type.dtype == n->out[0].type.dtype;
    if (is_back && dtype_is_reduced(before->type.dtype) && x->type.dtype == WEFT_F32) return before;
    return simplify_same_type(n);
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    weft_dtype dtype = n->in[0]->type.dtype;
    if (wanted[0] && dtype_is_float(dtype) && dtype_is_float(n->out[0].type.dtype))
        din[0] = weft_cast(dout[0], dtype);
}

const weft_op weft_op_cast = {
    .name = "cast",
    .summary = "x as another element type",
    .torch = "torch.Tensor.to",
    .min_in = 1,
    .flags = OP_POINTWISE | OP_MOVES,
    .role = ROLE_CAST,
    OP_ATTRS(cast_attrs, attrs),
    .precision = PRECISION_FOLLOWS,
    .infer = infer,
    .simplify = simplify,
    .gradient = gradient,
    .scalar = scalar,
    .integer = integer,
    .samples =
        (const op_sample[]){{"u8[2,3]", "dtype=f32", .out = "f32[2,3]", .below = 256},
                            {"i64[7]", "dtype=f32"},
                            {"i32[7]", "dtype=f32"},
                            {"bool[5]", "dtype=f32"},
                            {"i64[7]", "dtype=i32", .least = -9, .below = 9},
                            {"i32[2,5,4,3]", "dtype=i64", .least = -9, .below = 9},
                            {"i64[9]", "dtype=bool", .below = 2},
                            {"i32[300]", "dtype=u8", .below = 300},
                            {"f32[2,5,4,3]", "dtype=i32", .out = "i32[2,5,4,3]", .low = -9, .high = 9},
                            {"f32[9]", "dtype=bool"},
                            {"f32[2,5,4,3]", "dtype=i8", .out = "i8[2,5,4,3]", .low = -300, .high = 300},
                            {"i64[67]", "dtype=u16", .least = -9, .below = 70000},
                            {"i32[67]", "dtype=u32", .least = -9, .below = 9, .out = "u32[67]"},
                            {"u32[67]", "dtype=i64", .out = "i64[67]"},
                            {"u32[67]", "dtype=f32"},
                            {"i8[67]", "dtype=f32", .out = "f32[67]"},
                            {"u16[2,5,4,3]", "dtype=bf16"},
                            {"i8[67]", "dtype=bool"},
                            {"f32[9]", "dtype=bf16"},
                            {"f32[203]", "dtype=bf16"}, /* ties among them: tests/support/kernels/samples.c */
                            {"f32[203]", "dtype=f16"},
                            /* differences through f32 are too coarse for a check of this in f64 */
                            {"f64[3]", "dtype=f32", .no_gradient = true},
                            {0}},
};

weft_value *weft_cast(weft_value *x, weft_dtype dtype) {
    if (!x) return NULL;
    return node_value(x->node->graph, &weft_op_cast, 1, &x, &(cast_attrs){dtype});
}
