/* attention_dropout.c - attention whose weights, the softmax, pass through dropout before they meet v;
 * torch.nn.functional.scaled_dot_product_attention with dropout_p. An op of its own because it draws random
 * numbers, which attention in an eval graph does not; all else is attention's.
 *
 * No mask of dropped weights is stored: attention_backward makes it again from the key (attention_word). */
#include "ops/attention/attention.h"

static const op_attr attrs[] = {
    ATTENTION_ROWS,
    {"p", ATTR_REAL, offsetof(attention_attrs, p)},
    {"key", ATTR_KEY, offsetof(attention_attrs, key)},
    {0},
};

static bool infer(op_call *c) {
    double p = ((const attention_attrs *)c->attrs)->p;
    if (!(p > 0 && p <= 1)) return op_fail(c, WEFT_ARGUMENT, "p %g: it must be above 0 and at most 1", p);
    return attention_infer(c);
}

const weft_op weft_op_attention_dropout = {
    .name = "attention_dropout",
    .summary = "attention with dropout of the softmax",
    .torch = "torch.nn.functional.scaled_dot_product_attention",
    .min_in = 3,
    .max_in = 4,
    .flags = OP_RANDOM | OP_FROM_RESULT,
    OP_ATTRS(attention_attrs, attrs),
    .reference_strided = ATTENTION_STRIDED,
    .precision = PRECISION_REDUCED,
    .f32_in = 1 << ATTENTION_MASK,
    .f32_out = 1 << 1 | 1 << 2,
    .infer = infer,
    .gradient = attention_gradient,
    .reference = attention_reference,
    .samples =
        (const op_sample[]){
            {"f32[2,2,4,3], f32[2,2,5,3], f32[2,2,5,3]", "p=0.5 key=0x7", .out = "f32[2,4,2,3], f32[2,2,4]"},
            {"f32[1,4,3,4], f32[1,2,6,4], f32[1,2,6,4], f32[3,6]", "causal=1 p=0.25 key=0x8",
             .out = "f32[1,3,4,4], f32[1,4,3], f32[1,4,3]"},
            {"f32[2,1,7,3], f32[2,1,7,3], f32[2,1,7,3], bool[2,1,1,7]", "causal=1 window=4 p=0.125 key=0x9"},
            {"f32[2,1,3,3], f32[2,1,4,3], f32[2,1,4,3]", "p=1 key=0x9"},
            {"f32[2,1,4,3], f32[2,1,6,3], f32[2,1,6,2]",
             "window=3 ahead=2 offset=1 softcap=1 p=0.125 key=0x9"},
            /* more than one block of queries, more words than are made at a time */
            {"f32[1,2,107,9], f32[1,2,301,9], f32[1,2,301,9]", "p=0.1 key=0xa", .no_gradient = true},
            {"f32[1,4,61,9], f32[1,2,70,9], f32[1,2,70,9], bool[61,70]", "causal=1 window=30 p=0.3 key=0xb",
             .no_gradient = true},
            {"f32[2,2,4,3], f32[2,2,5,3], f32[2,2,5,3]", "p=1.5", .error = "above 0 and at most 1"},
            {"f32[2,2,4,3], f32[2,2,5,3], f32[2,2,4,3]", "p=0.5", .error = "k [B, H, S, D], v [B, H, S, E]"},
            {0}},
};
