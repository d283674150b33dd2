/* dropout.c - x / (1 - p) with probability 1 - p, else 0; torch.nn.functional.dropout in training. In eval
 * graphs it is x.
 *
 * No mask is stored: element i is dropped when its Philox word is below p 2^32, so dx is dropout of dy with
 * the same key. Elements are numbered row-major; those of values with four axes channels-last (n, h, w, c),
 * in the order of their memory, whatever the layout, so that the numbers do not depend on it. */
#include "ops/random/random.h"

#include "ops/kit/philox.h"

static const op_attr attrs[] = {
    {"p", ATTR_REAL, offsetof(dropout_attrs, p)},
    {"key", ATTR_KEY, offsetof(dropout_attrs, key)},
    {0},
};

static bool infer(op_call *c) {
    double p = ((const dropout_attrs *)c->attrs)->p;
    if (!(p >= 0 && p <= 1)) return op_fail(c, WEFT_ARGUMENT, "p %g: a probability is 0 to 1", p);
    return infer_same(c);
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    if (wanted[0]) din[0] = node_value(n->graph, n->op, 1, dout, n->attrs);
}

/* The number of an element in the random stream. */
static uint64_t element_number(const tensor_type *t, const int64_t *at) {
    int64_t stride[WEFT_MAX_NDIM], i = 0;
    stride_channels_last(t, stride);
    for (int k = 0; k < t->ndim; k++) i += at[k] * stride[k];
    return (uint64_t)i;
}

static weft_status reference(const kernel_call *c) {
    const dropout_attrs *a = c->attrs;
    const tensor *x = &c->in[0], *y = &c->out[0];
    philox_stream s = philox_stream_of(c->run, a->key);
    uint64_t threshold = dropout_threshold(a->p);
    double factor = dropout_factor(a->p);
    /* Rounded as in the fast kernels, for equal bits. */
    if (x->type.dtype == WEFT_F32) factor = (float)factor;
    int64_t at[WEFT_MAX_NDIM] = {0};
    do {
        bool dropped = philox_word(&s, element_number(&y->type, at)) < threshold;
        element_set(y, at, dropped ? 0 : element_get(x, at) * factor);
    } while (index_next(&y->type, at));
    return WEFT_OK;
}

const weft_op weft_op_dropout = {
    .name = "dropout",
    .summary = "zeroes elements with probability p, scales the others by 1/(1-p)",
    .torch = "torch.nn.functional.dropout",
    .min_in = 1,
    .flags = OP_RANDOM,
    OP_ATTRS(dropout_attrs, attrs),
    .image_in = 1,
    .image_out = 1,
    /* Element i of y depends on element i of x alone. */
    .in_place = 1,
    .precision = PRECISION_FOLLOWS,
    .infer = infer,
    .gradient = gradient,
    .reference = reference,
    .samples =
        (const op_sample[]){{"f32[5,7]", "p=0.5 key=0x7", .out = "f32[5,7]"},
                            {"f32[2,3,4,5]", "p=0.25 key=0x8", .out = "f32[2,3,4,5]"},
                            {"f32[70,1003]", "p=0.1 key=0x9", .out = "f32[70,1003]", .no_gradient = true},
                            /* ^ large, for the fast kernel */
                            {"f32[3]", "p=1", .out = "f32[3]"},
                            {"f32[3]", "p=1.5", .error = "a probability is 0 to 1"},
                            {"i32[3]", "p=0.5", .error = "floating point"},
                            {0}},
};

weft_value *weft_dropout(weft_value *x, double p) {
    if (!x) return NULL;
    weft_graph *g = x->node->graph;
    /* A new value even where dropout does nothing, so that gradients by it mean the same in all modes. */
    if (p == 0 || (g->mode == WEFT_EVAL && p > 0 && p <= 1)) return value_again(x);
    dropout_attrs a = {.p = p, .key = random_key(g)};
    return node_value(g, &weft_op_dropout, 1, &x, &a);
}
