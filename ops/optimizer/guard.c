/* guard.c - what decides that a step is bad, so that it updates nothing (weft_compile_options.guard):
 *     guard       flags of the losses of one micro-batch, added to those of the step's earlier ones
 *     gate        the flags, summed over ranks, and of each norm of gradients whether it is finite
 *     guard_mean  the running mean of a loss's size, by which a spike is one
 * A session looks at the gate's result: updates come after it and are skipped in a bad step.
 *
 * Sizes of losses are added up as multiples of 2^-16 up to 2^24. So their sums are exact in f64 for up to
 * 2^13 micro-batches, and are the same however these are spread over ranks. */
#include "ops/optimizer/update.h"

#include <math.h>

#define F(field) offsetof(guard_attrs, field)
static const op_attr guard_list[] = {
    {"count", ATTR_INT, F(count), 1, 1 << 20},
    {"losses", ATTR_INT, F(losses), 0, 1 << 20},
    {"factor", ATTR_REAL, F(factor)},
    {0},
};
#undef F
#define F(field) offsetof(guard_mean_attrs, field)
static const op_attr mean_list[] = {
    {"index", ATTR_INT, F(index), 0, 1 << 20},
    {"parts", ATTR_INT, F(parts), 1, INT64_MAX},
    {0},
};
#undef F

static bool is_number(const tensor_type *t) {
    return t->dtype == WEFT_F64 && t->ndim == 0;
}

/* Operands: a loss each, then with a factor a mean each. Result: f64[count] flags; with a factor as many sums
 * of sizes after them. */
static bool guard_infer(op_call *c) {
    const guard_attrs *a = c->attrs;
    if (a->factor && !(a->factor > 1))
        return op_fail(c, WEFT_ARGUMENT, "factor %g: it must be above 1", a->factor);
    if (c->n_in != a->losses * (a->factor > 0 ? 2 : 1) || a->losses > a->count)
        return op_fail(c, WEFT_ARGUMENT, "%d operands for %lld of %lld losses", c->n_in, (long long)a->losses,
                       (long long)a->count);
    for (int i = 0; i < c->n_in; i++) {
        const tensor_type *t = c->in[i] ? op_in(c, i) : NULL;
        bool is_loss = i < a->losses;
        if (!t || t->ndim || (is_loss ? !dtype_is_float(t->dtype) : !is_number(t)))
            return op_fail(c, WEFT_SHAPE, "operand %d must be %s", i, is_loss ? "a float scalar" : "f64[]");
    }
    c->out[0] =
        (tensor_type){.dtype = WEFT_F64, .ndim = 1, .shape = {a->factor > 0 ? 2 * a->count : a->count}};
    return true;
}

static double size_of(double loss) {
    const double unit = 65536, most = 16777216;
    return isfinite(loss) ? rint(fmin(fabs(loss), most) * unit) / unit : 0;
}

/* A mean below 0: there is none yet. */
static weft_status guard_reference(const kernel_call *c) {
    const guard_attrs *a = c->attrs;
    const double *carried = c->run ? c->run->carried : NULL;
    double *flags = c->out[0].data, *sums = flags + a->count;
    for (int64_t i = 0; i < a->count; i++) {
        bool is_here = i < a->losses;
        double loss = is_here ? element_get(&c->in[i], NULL) : 0;
        double mean = is_here && a->factor > 0 ? scalar_operand(c, (int)(a->losses + i), -1) : -1;
        bool is_bad = !isfinite(loss) || (mean >= 0 && fabs(loss) > a->factor * mean);
        flags[i] = is_bad + (carried ? carried[i] : 0);
        if (a->factor > 0) sums[i] = size_of(loss) + (carried ? carried[a->count + i] : 0);
    }
    return WEFT_OK;
}

const weft_op weft_op_guard = {
    .name = "guard",
    .summary = "flags of losses that are not finite, or far above their mean",
    .min_in = 0,
    .max_in = -1,
    .flags = OP_EFFECT | OP_NO_GRADIENT | OP_COMPILER,
    OP_ATTRS(guard_attrs, guard_list),
    .infer = guard_infer,
    .reference = guard_reference,
    .samples = (const op_sample[]){{"f32[], f32[]", "count=2 losses=2", .out = "f64[2]"},
                                   {"f32[], f64[]", "count=1 losses=1 factor=2", .out = "f64[2]"},
                                   {"bf16[], f16[], f64[]", "count=3 losses=3", .out = "f64[3]"},
                                   {"", "count=100", .out = "f64[100]"},
                                   {"f32[]", "count=1 losses=2", .error = "1 operands for 2 of 1"},
                                   {"f32[2]", "count=1 losses=1", .error = "must be a float scalar"},
                                   {"f32[], f64[]", "count=1 losses=1 factor=0.5", .error = "above 1"},
                                   {0}},
};

/* Operands: the flags (and what is after them), then f64[] norms: of loss i for i below their number. */
static bool gate_infer(op_call *c) {
    const guard_attrs *a = c->attrs;
    const tensor_type *flags = op_in(c, 0);
    if (flags->dtype != WEFT_F64 || flags->ndim != 1 || flags->shape[0] < a->count)
        return op_fail(c, WEFT_SHAPE, "operand 0 is %s: it must be f64[%lld] at least", TYPE(flags),
                       (long long)a->count);
    if (c->n_in - 1 > a->count) return op_fail(c, WEFT_ARGUMENT, "there are more norms than losses");
    for (int i = 1; i < c->n_in; i++)
        if (!is_number(op_in(c, i))) return op_fail(c, WEFT_SHAPE, "operand %d must be f64[]", i);
    c->out[0] = (tensor_type){.dtype = WEFT_F64, .ndim = 1, .shape = {a->count}};
    return true;
}

static weft_status gate_reference(const kernel_call *c) {
    const guard_attrs *a = c->attrs;
    double *out = c->out[0].data;
    for (int64_t i = 0; i < a->count; i++)
        out[i] = ((const double *)c->in[0].data)[i] + !isfinite(scalar_operand(c, (int)i + 1, 0));
    return WEFT_OK;
}

const weft_op weft_op_gate = {
    .name = "gate",
    .summary = "says whether a step is bad, before any of its updates",
    .min_in = 1,
    .max_in = -1,
    .flags = OP_EFFECT | OP_NO_GRADIENT | OP_COMPILER,
    OP_ATTRS(guard_attrs, guard_list),
    .infer = gate_infer,
    .reference = gate_reference,
    .samples = (const op_sample[]){{"f64[2]", "count=2", .out = "f64[2]"},
                                   {"f64[2], f64[]", "count=1", .out = "f64[1]"},
                                   {"f64[100], f64[]", "count=100", .out = "f64[100]"},
                                   {"f64[2]", "count=3", .error = "f64[3] at least"},
                                   {"f64[1], f64[], f64[]", "count=1", .error = "more norms than losses"},
                                   {0}},
};

/* Operands: the sums of all ranks, and the mean so far. */
static bool mean_infer(op_call *c) {
    const guard_mean_attrs *a = c->attrs;
    const tensor_type *sums = op_in(c, 0);
    if (sums->dtype != WEFT_F64 || sums->ndim != 1 || a->index >= sums->shape[0])
        return op_fail(c, WEFT_SHAPE, "operand 0 is %s: it has no f64 number %lld", TYPE(sums),
                       (long long)a->index);
    if (!is_number(op_in(c, 1))) return op_fail(c, WEFT_SHAPE, "operand 1 must be f64[]");
    c->out[0] = type_scalar(WEFT_F64);
    return true;
}

static weft_status mean_reference(const kernel_call *c) {
    const guard_mean_attrs *a = c->attrs;
    double now = ((const double *)c->in[0].data)[a->index] / (double)a->parts,
           mean = scalar_operand(c, 1, -1);
    *(double *)c->out[0].data = mean < 0 ? now : mean + (now - mean) / GUARD_WARMTH;
    return WEFT_OK;
}

const weft_op weft_op_guard_mean = {
    .name = "guard_mean",
    .summary = "the running mean of a loss's size",
    .min_in = 2,
    .flags = OP_NO_GRADIENT | OP_COMPILER,
    OP_ATTRS(guard_mean_attrs, mean_list),
    .infer = mean_infer,
    .reference = mean_reference,
    .samples = (const op_sample[]){{"f64[4], f64[]", "index=3 parts=2", .out = "f64[]"},
                                   {"f64[2], f64[]", "index=2 parts=1", .error = "has no f64 number 2"},
                                   {"f64[2], f32[]", "index=1 parts=1", .error = "must be f64[]"},
                                   {0}},
};
