/* random.h - attributes of the random ops, for their kernels. `key` selects the random stream
 * (random_key). */
#ifndef WEFT_OPS_RANDOM_RANDOM_H
#define WEFT_OPS_RANDOM_RANDOM_H

#include "ops/kit/dropout.h"
#include "ops/kit/op_kit.h"

/* random_uniform: a = low, b = high. random_normal: a = mean, b = standard deviation. */
typedef struct random_attrs {
    attr_ints shape;
    double a, b;
    uint64_t key;
} random_attrs;

/* The rows of both tables, whose numbers have the names A and B; result 0 for infer, and the builder. */
#define RANDOM_ATTRS(A, B)                                                                                   \
    {"shape", ATTR_INTS, offsetof(random_attrs, shape), 0, INT64_MAX},                                       \
        {A, ATTR_REAL, offsetof(random_attrs, a)}, {B, ATTR_REAL, offsetof(random_attrs, b)}, {              \
        "key", ATTR_KEY, offsetof(random_attrs, key)                                                         \
    }
bool random_infer(op_call *c);
weft_value *random_value(weft_graph *g, const weft_op *op, int ndim, const int64_t *shape, double a,
                         double b);

#endif
