/* schedule.c - the learning rate of a step, f64[], from the base rate and t, the number of earlier updates:
 *     t < warmup:   base (t + 1) / warmup
 *     constant:     base
 *     step:         base gamma^floor(t / step_size)
 *     cosine:       base (floor + (1 - floor) (1 + cos(pi (t - warmup) / (total - warmup))) / 2),
 *                   from step total on: base floor
 * weft/train.h; cosine as in tests/golden/README.md and Loshchilov and Hutter, arXiv 1608.03983, eq. 5. */
#include "ops/optimizer/update.h"

#include <math.h>

#define F(field) offsetof(schedule_attrs, field)
static const op_attr attrs[] = {
    {"kind", ATTR_INT, F(kind), 0, WEFT_SCHEDULE_COSINE},
    {"warmup_steps", ATTR_INT, F(warmup_steps), 0, INT64_MAX},
    {"step_size", ATTR_INT, F(step_size), 0, INT64_MAX},
    {"total_steps", ATTR_INT, F(total_steps), 0, INT64_MAX},
    {"gamma", ATTR_REAL, F(gamma), 0, 0},
    {"floor", ATTR_REAL, F(floor), 0, 0},
    {0},
};
#undef F

static bool infer(op_call *c) {
    const schedule_attrs *a = c->attrs;
    if (a->warmup_steps < 0 || a->step_size < 0 || a->total_steps < 0)
        return op_fail(c, WEFT_ARGUMENT, "step counts must be plain numbers");
    if (a->kind == WEFT_SCHEDULE_STEP && a->step_size < 1)
        return op_fail(c, WEFT_ARGUMENT, "a step schedule needs step_size >= 1");
    if (a->kind == WEFT_SCHEDULE_COSINE && a->total_steps <= a->warmup_steps)
        return op_fail(c, WEFT_ARGUMENT, "a cosine schedule needs total_steps above warmup_steps");
    if (!infer_update(c, 0, 0)) return false;
    c->n_out = 1;
    c->out[0] = type_scalar(WEFT_F64);
    return true;
}

/* The multiplier of the base rate at step t. */
static double factor(const schedule_attrs *a, double t) {
    const double pi = 3.14159265358979323846;
    double warmup = (double)a->warmup_steps, after = t - warmup;
    if (after < 0) return (t + 1) / warmup;
    if (a->kind == WEFT_SCHEDULE_STEP) return pow(a->gamma, floor(t / (double)a->step_size));
    if (a->kind != WEFT_SCHEDULE_COSINE) return 1;
    double way = after / ((double)a->total_steps - warmup);
    return way >= 1 ? a->floor : a->floor + (1 - a->floor) * 0.5 * (1 + cos(pi * way));
}

static weft_status reference(const kernel_call *c) {
    *(double *)c->out[0].data = scalar_operand(c, 0, 0) * factor(c->attrs, scalar_operand(c, 1, 0));
    return WEFT_OK;
}

const weft_op weft_op_schedule = {
    .name = "schedule",
    .summary = "the learning rate of a step",
    .min_in = 2,
    .max_in = 2,
    .flags = OP_NO_GRADIENT | OP_COMPILER,
    .attrs_bytes = sizeof(schedule_attrs),
    .attrs = attrs,
    .infer = infer,
    .reference = reference,
    .samples =
        (const op_sample[]){
            {"f64[], f64[]", .out = "f64[]"},
            {"f64[], f64[]", "kind=1 step_size=3 gamma=0.5", .out = "f64[]", .low = 4, .high = 9},
            {"f64[], f64[]", "kind=2 warmup_steps=3 total_steps=20 floor=0.1", .out = "f64[]"},
            {"f64[], f64[]", "kind=1", .error = "needs step_size"},
            {"f64[], f64[]", "kind=2 warmup_steps=3", .error = "needs total_steps"},
            {"f64[], f32[]", .error = "must be f64[]"},
            {0}},
};
