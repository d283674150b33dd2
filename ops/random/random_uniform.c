/* random_uniform.c - f32 numbers low + (high - low) u in [low, high), new at each run; torch.rand. u comes
 * from ops/kit/philox.h: element i (row-major) takes word i % 4 of counter i / 4. No operands, no
 * gradient. */
#include "ops/random/random.h"

#include "ops/kit/philox.h"

static const op_attr attrs[] = {RANDOM_ATTRS("low", "high"), {0}};

bool random_infer(op_call *c) {
    const random_attrs *a = c->attrs;
    c->out[0] = type_of(WEFT_F32, a->shape.n, a->shape.v);
    return shape_bind(c, &c->out[0]);
}

weft_value *random_value(weft_graph *g, const weft_op *op, int ndim, const int64_t *shape, double a,
                         double b) {
    random_attrs attrs = {.a = a, .b = b};
    if (!g || !model_ok(g->model) || !shape_attr(g, op->name, &attrs.shape, ndim, shape)) return NULL;
    attrs.key = random_key(g);
    return node_value(g, op, 0, NULL, &attrs);
}

static bool infer(op_call *c) {
    const random_attrs *a = c->attrs;
    /* As f32, where close bounds may be equal. */
    if (!((float)a->a < (float)a->b))
        return op_fail(c, WEFT_ARGUMENT, "low %g must be below high %g", a->a, a->b);
    return random_infer(c);
}

static weft_status reference(const kernel_call *c) {
    const random_attrs *a = c->attrs;
    philox_stream s = philox_stream_of(c->run, a->key);
    float low = (float)a->a, high = (float)a->b, below = nextafterf(high, low);
    int64_t at[WEFT_MAX_NDIM] = {0};
    uint64_t i = 0;
    do element_set(&c->out[0], at, philox_uniform(philox_word(&s, i++), low, high - low, below));
    while (index_next(&c->out[0].type, at));
    return WEFT_OK;
}

const weft_op weft_op_random_uniform = {
    .name = "random_uniform",
    .summary = "numbers in [low, high), new at each run",
    .torch = "torch.rand",
    .flags = OP_RANDOM | OP_NO_GRADIENT,
    OP_ATTRS(random_attrs, attrs),
    .infer = infer,
    .reference = reference,
    .samples =
        (const op_sample[]){{"", "shape=3,7 low=-1 high=2 key=0x5", .out = "f32[3,7]"},
                            {"", "shape=70,1003 low=0.25 high=0.5 key=0x1234567890", .out = "f32[70,1003]"},
                            {"", "high=1", .out = "f32[]"},
                            {"", "shape=2 low=1 high=1", .error = "must be below high"},
                            {"", "shape=-1 high=1", .error = "at least 0"},
                            {0}},
};

weft_value *weft_random_uniform(weft_graph *g, int ndim, const int64_t *shape, double low, double high) {
    return random_value(g, &weft_op_random_uniform, ndim, shape, low, high);
}
