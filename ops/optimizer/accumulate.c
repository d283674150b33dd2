/* accumulate.c - adds the gradients of a micro-batch to those before it, in place, by an aligned binary tree
 * over the numbers of a step's micro-batches: (0 + 1) + (2 + 3), for three (0 + 1) + 2. So the bits do not
 * depend on how the micro-batches of a step are distributed over ranks, as long as each rank's share is a
 * power of two.
 *
 * It works like counting in binary: operand `levels - 1 - l` holds the sum of 2^l micro-batches that waits
 * for its neighbour. Micro-batch i (run->local) is added to the levels of the trailing ones of i, and the sum
 * is stored on the next level. `last` ends the step after any number of micro-batches: the sums on the levels
 * of the bits of that number are added, highest level first, into operand 0, which is the result. Where the
 * last micro-batch has been added before, there is no new gradient: the levels are the only operands. */
#include "ops/optimizer/update.h"

static const op_attr attrs[] = {
    {"of", ATTR_INT, offsetof(accumulate_attrs, of), 1, 1 << 20},
    {"last", ATTR_BOOL, offsetof(accumulate_attrs, last)},
    {0},
};

/* Operands: the levels, the highest first, then the new gradient; all flat and of one type. */
static bool infer(op_call *c) {
    const accumulate_attrs *a = c->attrs;
    int levels = accumulate_levels(a->of);
    if (!infer_update(c, c->n_in, 0)) return false;
    if (c->n_in != levels + 1 && !(a->last && c->n_in == levels))
        return op_fail(c, WEFT_ARGUMENT, "%lld micro-batches need %d levels, then the gradient: %d operands",
                       (long long)a->of, levels, c->n_in);
    return true;
}

int accumulate_levels(int64_t of) {
    int levels = 1;
    while (of >> levels) levels++;
    return levels;
}

/* Adds element e of a micro-batch. f32 sums are rounded after each addition, as kernels do. */
static void add_element(const kernel_call *c, int64_t e, int levels, int64_t local) {
    double carry = flat_get(&c->in[levels], e);
    int l = 0;
    bool single = c->in[0].type.dtype == WEFT_F32;
    for (; local >> l & 1; l++) {
        carry = flat_get(&c->in[levels - 1 - l], e) + carry;
        if (single) carry = (float)carry;
    }
    flat_set(&c->in[levels - 1 - l], e, carry);
}

/* Adds up element e of the levels in operand 0 after micro-batch `local`, the step's last. */
static void combine_element(const kernel_call *c, int64_t e, int levels, int64_t local) {
    bool single = c->in[0].type.dtype == WEFT_F32;
    int top = accumulate_levels(local + 1) - 1; /* levels above `top` hold sums of an earlier step */
    double total = flat_get(&c->in[levels - 1 - top], e);
    for (int k = top - 1; k >= 0; k--) {
        if ((local + 1) >> k & 1) total = total + flat_get(&c->in[levels - 1 - k], e);
        if (single) total = (float)total;
    }
    flat_set(&c->in[0], e, total);
}

static weft_status reference(const kernel_call *c) {
    const accumulate_attrs *a = c->attrs;
    int levels = accumulate_levels(a->of);
    /* The clamp keeps a wrong number from indexing past the levels. */
    int64_t local = c->run->local < a->of ? c->run->local : a->of - 1;
    for (int64_t e = 0; e < type_elements(&c->in[0].type); e++) {
        if (c->n_in > levels) add_element(c, e, levels, local);
        if (a->last) combine_element(c, e, levels, local);
        flat_set(&c->out[0], e, flat_get(&c->in[0], e));
    }
    return WEFT_OK;
}

const weft_op weft_op_accumulate = {
    .name = "accumulate",
    .summary = "adds a micro-batch's gradients to those before, by a binary tree",
    .min_in = 1,
    .max_in = 22,
    .flags = OP_EFFECT | OP_NO_GRADIENT | OP_COMPILER,
    OP_ATTRS(accumulate_attrs, attrs),
    .writes = 0x7fffffff, /* every level; what is added is left alone */
    .infer = infer,
    .reference = reference,
    .samples = (const op_sample[]){{"f32[7], f32[7]", "of=1 last=1"},
                                   {"f32[7], f32[7], f32[7]", "of=2"},
                                   {"f32[50003], f32[50003], f32[50003]", "of=3 last=1"},
                                   {"f32[5000], f32[5000], f32[5000], f32[5000]", "of=5 last=1"},
                                   {"f64[7], f64[7], f64[7]", "of=2 last=1"},
                                   {"f32[5000], f32[5000], f32[5000]", "of=5 last=1"},
                                   {"f64[7]", "of=1 last=1"},
                                   {"f32[7], f32[7]", "of=2", .error = "2 micro-batches need 2 levels"},
                                   {"f32[7]", "of=2 last=1", .error = "2 micro-batches need 2 levels"},
                                   {"f32[7], f32[8]", "of=1", .error = "must be like operand 0"},
                                   {"i32[7], i32[7]", "of=1", .error = "f32 or f64"},
                                   {0}},
};
