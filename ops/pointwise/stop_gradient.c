/* stop_gradient.c - x, but no gradient flows through it; torch.Tensor.detach. Any type. */
#include "ops/kit/op_kit.h"

static bool infer(op_call *c) {
    return true;
}

static double scalar(const double *x, const void *attrs) {
    return x[0];
}

static int64_t integer(const int64_t *x, const void *attrs) {
    return x[0];
}

/* After autodiff it has no effect and is removed; before, it must stay. */
static weft_value *simplify(weft_node *n) {
    return n->graph->is_expanded ? n->in[0] : NULL;
}

const weft_op weft_op_stop_gradient = {
    .name = "stop_gradient",
    .summary = "x, through which no gradient flows",
    .torch = "torch.Tensor.detach",
    .min_in = 1,
    .flags = OP_POINTWISE | OP_NO_GRADIENT,
    .precision = PRECISION_FOLLOWS,
    .infer = infer,
    .simplify = simplify,
    .scalar = scalar,
    .integer = integer,
    .samples = (const op_sample[]){{"f32[2,3]", .out = "f32[2,3]"}, {"i64[3]", .out = "i64[3]"}, {0}},
};

weft_value *weft_stop_gradient(weft_value *x) {
    return op_value(&weft_op_stop_gradient, 1, &x, NULL);
}
