/* family.h - families of ops that differ by a formula. A family is a file that has a row for each op: its
 * formula, its text and the fields of its struct. */
#ifndef WEFT_OPS_POINTWISE_FAMILY_H
#define WEFT_OPS_POINTWISE_FAMILY_H

#include "ops/kit/op_kit.h"

/* The op NAME of N operands x[0] (and x[1]): its formula, and its struct, whose other fields come last. */
#define POINTWISE_OP(NAME, N, FLAGS, FORMULA, TEXT, ...)                                                     \
    static double NAME##_scalar(const double *x, const void *attrs) {                                        \
        return FORMULA;                                                                                      \
    }                                                                                                        \
    const weft_op weft_op_##NAME = {                                                                         \
        .name = #NAME,                                                                                       \
        .summary = TEXT,                                                                                     \
        .min_in = N,                                                                                         \
        .flags = OP_POINTWISE | (FLAGS),                                                                     \
        .scalar = NAME##_scalar,                                                                             \
        __VA_ARGS__,                                                                                         \
    };

/* The formula of NAME for i64 (and i32, whose results wrap around). */
#define INTEGER(NAME, FORMULA)                                                                               \
    static int64_t NAME##_integer(const int64_t *x, const void *attrs) {                                     \
        return FORMULA;                                                                                      \
    }

/* The same with a builder, of one operand and of two. */
#define UNARY_OP(NAME, ...)                                                                                  \
    POINTWISE_OP(NAME, 1, __VA_ARGS__)                                                                       \
    weft_value *weft_##NAME(weft_value *x) {                                                                 \
        return op_value(&weft_op_##NAME, 1, &x, NULL);                                                       \
    }
#define BINARY_OP(NAME, ...)                                                                                 \
    POINTWISE_OP(NAME, 2, __VA_ARGS__)                                                                       \
    weft_value *weft_##NAME(weft_value *a, weft_value *b) {                                                  \
        return op_value(&weft_op_##NAME, 2, (weft_value *[]){a, b}, NULL);                                   \
    }

/* A function of x whose gradient is NAME_gradient, and one of a and b, which broadcast; its samples and other
 * fields come last. Those with PRECISION_F32 are so under torch.amp.autocast, too. */
#define FUNCTION_OP(NAME, FLAGS, FORMULA, TEXT, TORCH, PRECISION, ...)                                       \
    UNARY_OP(NAME, FLAGS, FORMULA, TEXT, .torch = TORCH, .precision = PRECISION, .infer = infer_same,        \
             .gradient = NAME##_gradient, .samples = __VA_ARGS__)
#define BROADCAST_OP(NAME, FLAGS, FORMULA, TEXT, PRECISION, ...)                                             \
    BINARY_OP(NAME, FLAGS, FORMULA, TEXT, .torch = "torch." #NAME, .precision = PRECISION,                   \
              .infer = infer_broadcast, .gradient = NAME##_gradient, .samples = __VA_ARGS__)
/* NAME_backward, the gradient of NAME: of dy = x[0] and x[1], which is the operand or the result of NAME. */
#define BACKWARD_OP(NAME, FORMULA, TEXT)                                                                     \
    POINTWISE_OP(NAME##_backward, 2, 0, FORMULA, TEXT, .precision = PRECISION_FOLLOWS, .infer = infer_alike, \
                 .gradient = NAME##_backward_gradient, .samples = backward_samples)

#define GRADIENT(NAME)                                                                                       \
    static void NAME##_gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din)
/* The gradient of an op that has a backward op. */
#define GRADIENT_BY_OP(NAME, X)                                                                              \
    GRADIENT(NAME) {                                                                                         \
        din[0] = backward_value(n, &weft_op_##NAME##_backward, dout[0], X);                                  \
    }

static inline weft_value *backward_value(weft_node *n, const weft_op *op, weft_value *dy, weft_value *x) {
    return node_value(n->graph, op, 2, (weft_value *[]){dy, x}, n->attrs);
}

/* The gradient of a backward op by dy, in which it is linear; whether that by x is wanted, too. */
static inline bool backward_again(weft_node *n, weft_value *const *dout, const bool *wanted,
                                  weft_value **din) {
    if (wanted[0]) din[0] = backward_value(n, n->op, dout[0], n->in[1]);
    return wanted[1];
}

/* Samples that families share; those named whole are of ops that have a formula for integers, too. */
static const op_sample unary_samples[] = {
    {"f32[2,3]", .out = "f32[2,3]"}, {"f32[2,5,4,3]"}, {"i32[3]", .error = "must be floating point"}, {0}};
static const op_sample whole_samples[] = {{"f32[2,3]", .out = "f32[2,3]"},
                                          {"f32[2,5,4,3]"},
                                          {"i64[2,3]", .out = "i64[2,3]", .least = -9, .below = 9},
                                          {"i32[2,5,4,3]", .least = -99, .below = 99},
                                          {"u8[3]", .error = "must be floating point, i32 or i64"},
                                          {0}};
static const op_sample positive_samples[] = {{"f32[2,3]", .out = "f32[2,3]", .low = 0.3, .high = 3},
                                             {"f32[2,5,4,3]", .low = 0.3, .high = 3},
                                             {"i32[3]", .error = "must be floating point"},
                                             {0}};
static const op_sample below_one_samples[] = {{"f32[2,3]", .low = -0.9, .high = 0.9, .out = "f32[2,3]"},
                                              {"f32[2,5,4,3]", .low = -0.9, .high = 0.9},
                                              {"i32[3]", .error = "must be floating point"},
                                              {0}};
static const op_sample binary_samples[] = {{"f32[2,3], f32[3]", .out = "f32[2,3]"},
                                           {"f32[2,1,4], f32[3,1]", .out = "f32[2,3,4]"},
                                           {"f32[4], f32[3]", .error = "do not broadcast"},
                                           {"f32[2], f64[2]", .error = "cast one"},
                                           {0}};
static const op_sample whole_binary_samples[] = {
    {"f32[2,3], f32[3]", .out = "f32[2,3]"},
    {"f32[2,1,4], f32[3,1]", .out = "f32[2,3,4]"},
    {"i64[2,3], i64[3]", .out = "i64[2,3]", .least = -9, .below = 9},
    {"i32[2,1,4], i32[3,1]", .out = "i32[2,3,4]", .least = -70000, .below = 70000},
    {"f32[4], f32[3]", .error = "do not broadcast"},
    {"f32[2], f64[2]", .error = "cast one"},
    {"i32[2], i64[2]", .error = "cast one"},
    {"u8[2], u8[2]", .error = "must be floating point, i32 or i64"},
    {0}};
static const op_sample quotient_samples[] = {
    {"f32[2,3], f32[3]", .out = "f32[2,3]", .low = 0.5, .high = 2},
    {"f32[2,1,4], f32[3,1]", .out = "f32[2,3,4]", .low = 0.5, .high = 2},
    {"f32[4], f32[3]", .error = "do not broadcast"},
    {"f32[2], f64[2]", .error = "cast one"},
    {0}};
static const op_sample backward_samples[] = {{"f32[2,3], f32[2,3]", .out = "f32[2,3]"},
                                             {"f32[2,5,4,3], f32[2,5,4,3]"},
                                             {"f32[2,3], f32[3]", .error = "must have one shape"},
                                             {0}};

#endif
