/* random_normal.c - f32 numbers mean + std z, new at each run; torch.normal. z comes from ops/kit/philox.h
 * by Box and Muller: elements 4 b to 4 b + 3 (row-major) are the two pairs from the four words of counter b.
 * No operands, no gradient. */
#include "ops/random/random.h"

#include "ops/kit/philox.h"

static const op_attr attrs[] = {RANDOM_ATTRS("mean", "std"), {0}};

/* std 0 gives constants, which is allowed. */
static bool infer(op_call *c) {
    const random_attrs *a = c->attrs;
    if (a->b < 0) return op_fail(c, WEFT_ARGUMENT, "std %g must not be negative", a->b);
    return random_infer(c);
}

static weft_status reference(const kernel_call *c) {
    const random_attrs *a = c->attrs;
    philox_stream s = philox_stream_of(c->run, a->key);
    float mean = (float)a->a, std = (float)a->b;
    int64_t at[WEFT_MAX_NDIM] = {0};
    uint64_t i = 0;
    do {
        uint32_t words[4];
        float z[4];
        philox_block(&s, i / 4, words);
        philox_normal_pair(words[0], words[1], &z[0], &z[1]);
        philox_normal_pair(words[2], words[3], &z[2], &z[3]);
        element_set(&c->out[0], at, mean + std * z[i++ % 4]);
    } while (index_next(&c->out[0].type, at));
    return WEFT_OK;
}

const weft_op weft_op_random_normal = {
    .name = "random_normal",
    .summary = "normally distributed numbers, new at each run",
    .torch = "torch.randn",
    /* two equal nodes have different keys and are never merged */
    .flags = OP_RANDOM | OP_NO_GRADIENT,
    OP_ATTRS(random_attrs, attrs),
    .infer = infer,
    .reference = reference,
    .samples = (const op_sample[]){{"", "shape=3,7 mean=2 std=0.5 key=0x5", .out = "f32[3,7]"},
                                   {"", "shape=70,1003 std=1 key=0x1234567890", .out = "f32[70,1003]"},
                                   {"", "std=1", .out = "f32[]"},
                                   {"", "shape=2 std=-1", .error = "must not be negative"},
                                   {0}},
};

weft_value *weft_random_normal(weft_graph *g, int ndim, const int64_t *shape, double mean, double std) {
    return random_value(g, &weft_op_random_normal, ndim, shape, mean, std);
}
