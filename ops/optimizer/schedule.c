/* schedule.c - a part of a schedule: what it makes of a number, f64[], at a count of updates or epochs.
 * Operand 0 is the count, 1 the number; 2 is the number without any schedule, for a part that replaces
 * those before it. Missing numbers are 1: the result then is a factor. No kind: the number itself. */
#include "ops/optimizer/schedule.h"

#include "graph/settings/schedule.h"

#define F(field) offsetof(schedule_attrs, field)
static const op_attr attrs[] = {
    {"kind", ATTR_INT, F(kind), 0, WEFT_SCHEDULE_ONE_CYCLE, schedule_kinds},
    {"begin", ATTR_INT, F(begin), 0, INT64_MAX},
    {"end", ATTR_INT, F(end), 0, INT64_MAX},
    {"warmup", ATTR_INT, F(warmup), 0, INT64_MAX},
    {"length", ATTR_INT, F(length), 0, INT64_MAX},
    {"period", ATTR_INT, F(period), 0, INT64_MAX},
    {"period_mult", ATTR_INT, F(period_mult), 0, INT64_MAX},
    {"milestones", ATTR_INTS, F(milestones), 0, INT64_MAX},
    {"gamma", ATTR_REAL, F(gamma)},
    {"from", ATTR_REAL, F(from)},
    {"middle", ATTR_REAL, F(middle)},
    {"to", ATTR_REAL, F(to)},
    {"power", ATTR_REAL, F(power)},
    {"share", ATTR_REAL, F(share)},
    {"linear", ATTR_BOOL, F(linear)},
    {"three_phase", ATTR_BOOL, F(three_phase)},
    {"replaces", ATTR_BOOL, F(replaces)},
    {0},
};
#undef F

schedule_attrs schedule_attrs_of(const weft_schedule *s) {
    schedule_attrs a = {
        .kind = s->kind,
        .begin = s->begin,
        .end = s->end,
        .warmup = s->warmup,
        .length = s->length,
        .period = s->period,
        .period_mult = s->period_mult,
        .gamma = schedule_real(s->gamma),
        .from = schedule_real(s->from),
        .middle = schedule_real(s->middle),
        .to = schedule_real(s->to),
        .power = schedule_real(s->power),
        .share = schedule_real(s->share),
        .linear = s->linear,
        .three_phase = s->three_phase,
        .replaces = s->replaces,
    };
    while (a.milestones.n < WEFT_MAX_MILESTONES && s->milestones[a.milestones.n]) {
        a.milestones.v[a.milestones.n] = s->milestones[a.milestones.n];
        a.milestones.n++;
    }
    return a;
}

/* The rest of the rules is graph/settings/schedule.c's; these keep the formulas from dividing by 0. */
static bool infer(op_call *c) {
    const schedule_attrs *a = c->attrs;
    bool has_period = a->kind == WEFT_SCHEDULE_STEP || a->kind == WEFT_SCHEDULE_COSINE_RESTARTS;
    if (a->begin < 0 || a->end < 0 || a->warmup < 0 || a->length < 0 || a->period < has_period)
        return op_fail(c, WEFT_ARGUMENT, "counts must be plain numbers, and a period at least 1");
    for (int i = 0; i < c->n_in; i++)
        if (c->in[i] && (op_in(c, i)->ndim || op_in(c, i)->dtype != WEFT_F64))
            return op_fail(c, WEFT_TYPE, "operand %d must be f64[]", i);
    c->out[0] = type_scalar(WEFT_F64);
    return true;
}

static weft_status reference(const kernel_call *c) {
    double t = scalar_operand(c, 0, 0), value = scalar_operand(c, 1, 1), base = scalar_operand(c, 2, 1);
    *(double *)c->out[0].data = schedule_apply(c->attrs, value, t, base);
    return WEFT_OK;
}

double weft_schedule_factor(const weft_schedule *parts, weft_scheduled of, int64_t updates, int64_t epoch) {
    weft_schedule full[WEFT_MAX_SCHEDULES] = {{0}};
    char why[SCHEDULE_WHY];
    double factor = 1;
    for (int i = 0; parts && i < schedule_count(parts); i++) full[i] = parts[i];
    if (!schedules_fill(full, why)) return NAN;
    for (int i = 0; i < schedule_count(full); i++) {
        schedule_attrs a = schedule_attrs_of(&full[i]);
        if (full[i].of == of)
            factor = schedule_apply(&a, factor, (double)(full[i].by_epoch ? epoch : updates), 1);
    }
    return factor;
}

const weft_op weft_op_schedule = {
    .name = "schedule",
    .summary = "a number of the optimizer at a step, or at an epoch",
    .min_in = 1,
    .max_in = 3,
    .flags = OP_NO_GRADIENT | OP_COMPILER,
    OP_ATTRS(schedule_attrs, attrs),
    .infer = infer,
    .reference = reference,
    .samples =
        (const op_sample[]){
            {"f64[], f64[]", "kind=constant from=0.5 length=3", .out = "f64[]", .low = 2, .high = 4},
            {"f64[], f64[]", "kind=linear begin=2 end=9 warmup=2 length=5 from=0.1 to=1", .out = "f64[]",
             .high = 12},
            {"f64[], f64[]", "kind=exponential gamma=0.5", .out = "f64[]", .low = 0, .high = 9},
            {"f64[]", "kind=exponential from=0.1 to=1 length=9", .out = "f64[]", .low = 0, .high = 9},
            {"f64[], f64[]", "kind=step period=3 gamma=0.5", .out = "f64[]", .low = 4, .high = 9},
            {"f64[], f64[]", "kind=multi_step milestones=2,5 gamma=0.5", .out = "f64[]", .low = 4, .high = 9},
            {"f64[], f64[]", "kind=polynomial from=1 to=0.1 power=0.9 length=10", .out = "f64[]", .low = 4,
             .high = 9},
            {"f64[], -, f64[]", "kind=cosine warmup=3 length=17 end=20 from=1 to=0.1 replaces=1",
             .out = "f64[]", .high = 25},
            {"f64[], f64[]", "kind=cosine_restarts period=2 period_mult=2 from=1", .out = "f64[]", .low = 4,
             .high = 30},
            {"f64[], f64[]", "kind=one_cycle length=30 from=0.04 middle=1 to=1e-4 share=0.3", .out = "f64[]",
             .low = 0, .high = 30},
            {"f64[], f64[]",
             "kind=one_cycle length=30 from=0.04 middle=1 to=1e-4 share=0.3 three_phase=1 linear=1",
             .out = "f64[]", .low = 15, .high = 30},
            {"f64[], f64[]", "kind=step", .error = "a period at least 1"},
            {"f64[], f64[]", .out = "f64[]"}, /* no part: the number itself */
            {"f64[], f32[]", "kind=exponential gamma=1", .error = "must be f64[]"},
            {0}},
};
