/* test_minimize.c - gradients where users take them: every sample of every op, each operand made from a
 * parameter on every route (support/models/routes.h), trained by one step of sgd with a learning rate of 1.
 * The change of the parameter is compared with central differences, in each precision, by reference and by
 * fast and fused kernels, with accumulated micro-batches, in worlds of one and two, with ZeRO 0 to 2.
 *
 * The effect of rounding is measured by disturbing each result of the graph in f64. So even in bf16 a
 * gradient that lacks one term of a sum differs from a rounded one: the loss without one element of the op's
 * result is such a mutant.
 *
 * Settings are assigned in turn, so that each op meets each route, and each value of each setting; the
 * nightly run has all combinations. WEFT_TEST_TABLE=1 prints what has run, op by op. */
#include "ops/cpu/isa.h"
#include "ops/kit/op_kit.h"
#include "support/models/routes.h"
#include "support/kernels/samples.h"
#include "support/world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is combined ---- */

typedef struct combination {
    const weft_op *op;
    int op_index;
    const op_sample *spec;
    int operand;
    route way;
} combination;

typedef struct setting {
    weft_dtype precision;
    weft_isa isa;
    int accumulate, world, zero;
    weft_shard shard;
} setting;

enum { PRECISIONS = 3, ISAS = 4, ACCUMULATES = 3, WORLDS = 5 };
enum { SETTINGS = PRECISIONS * ISAS * ACCUMULATES * WORLDS, MAX_OPS = 256, MAX_COMBINATIONS = 8192 };

static const weft_dtype precisions[PRECISIONS] = {WEFT_F32, WEFT_BF16, WEFT_F16};
static const weft_isa isas[ISAS] = {WEFT_ISA_REFERENCE, WEFT_ISA_SSE2, WEFT_ISA_AVX2, WEFT_ISA_AVX512};
static const int accumulates[ACCUMULATES] = {1, 2, 4};
static const struct {
    int world, zero;
    weft_shard shard;
} worlds[WORLDS] = {
    {1, 0, 0}, {2, 0, 0}, {2, 1, WEFT_SHARD_GREEDY}, {2, 2, WEFT_SHARD_FLAT}, {2, 1, WEFT_SHARD_FLAT}};

/* Which value of each setting number `index` has: 3, 4 and 5 have no common factor, so that neighbours differ
 * in each, and SETTINGS of them are all products. */
typedef struct digits {
    int precision, isa, accumulate, world;
} digits;

static digits digits_of(int index) {
    const int others = PRECISIONS * ISAS * WORLDS;
    return (digits){index % PRECISIONS, index % ISAS,
                    (index / others + index % others / PRECISIONS) % ACCUMULATES, index % WORLDS};
}

static setting setting_at(int index) {
    digits d = digits_of(index);
    weft_isa isa = isas[d.isa], best = isa_best();
    return (setting){precisions[d.precision], isa < best ? isa : best, accumulates[d.accumulate],
                     worlds[d.world].world,   worlds[d.world].zero,    worlds[d.world].shard};
}

static int combinations(combination *list) {
    int n = 0;
    EACH_SAMPLE(op, spec) {
        if (op_untrained(op)) continue;
        tensor_type types[SAMPLE_MAX_IN];
        int n_in = spec->error ? 0 : types_parse(spec->in, types, SAMPLE_MAX_IN);
        for (int i = 0; i < n_in; i++) {
            if (sample_untrained(op, spec, i)) continue;
            for (route way = 0; way < ROUTES; way++)
                if (!route_missing(way, &types[i]) && n < MAX_COMBINATIONS)
                    list[n++] = (combination){op, op_index, spec, i, way};
        }
    }
    return n;
}

/* ---- one step ---- */

enum { MAX_MICRO = 8 };

typedef struct step_taken {
    const trained *t;
    float s[MAX_MICRO]; /* of each micro-batch of the step, over all ranks */
} step_taken;

static void take_step(world_rank *r) {
    const step_taken *step = r->job->context;
    const trained *t = step->t;
    int a = r->job->options.accumulate;
    weft_feed feeds[ROUTE_INPUTS];
    for (int i = 0; i < t->n_feeds; i++)
        feeds[i] = (weft_feed){input_name(t->fed[i]->node), t->data[i].data, type_bytes(&t->data[i].type)};
    if (weft_store_set(r->store, "p", t->at.data, type_bytes(&t->at.type), &r->error) ||
        weft_store_set(r->store, "q", t->q_at, sizeof t->q_at, &r->error))
        return;
    for (int i = 0; i < a && !r->error.status; i++) {
        feeds[0].data = &step->s[r->rank * a + i];
        weft_run(r->session, "t", feeds, t->n_feeds, NULL, 0, &r->error);
    }
}

/* One unit in the last place, relative to a number. */
static double unit_of(weft_dtype precision) {
    return precision == WEFT_F32 ? 0x1p-23 : precision == WEFT_BF16 ? 0x1p-8 : 0x1p-11;
}

/* Of the gradient at place k of the sum over micro-batches: a few roundings of the largest element, and a
 * few times what a rounding of each result moves. f32 also adds in another order and has exponentials of
 * its own. */
static double allowed_at(const setting *o, const step_taken *step, const expected *by_micro, int k) {
    int parts = o->accumulate * o->world;
    double largest = 0, moved = 0, unit = unit_of(o->precision);
    for (int i = 0; i < parts; i++) {
        largest += by_micro[i].most * step->s[i] / parts;
        moved += by_micro[i].moved[k] * step->s[i] / parts;
    }
    if (o->precision == WEFT_F32) return 1e-4 + 24 * unit * moved;
    return unit * (2 * largest + 3 * moved) + 1e-5;
}

static double wanted_at(const setting *o, const step_taken *step, const expected *by_micro, int k) {
    int parts = o->accumulate * o->world;
    double want = 0;
    for (int i = 0; i < parts; i++) want += by_micro[i].gradient[k] * step->s[i] / parts;
    return want;
}

static double taken_at(const trained *t, const world_part *p, int64_t at) {
    return (double)((float *)t->at.data)[at] - ((float *)p->data)[at];
}

/* The first place where a rank's gradient is further off than allowed; -1: none. */
static int first_beyond(const trained *t, const setting *o, const step_taken *step, const expected *by_micro,
                        const world_part *p) {
    for (int k = 0; k < by_micro->n; k++) {
        double got = taken_at(t, p, by_micro->place[k]), want = wanted_at(o, step, by_micro, k);
        if (isnan(want)) continue;
        if (!(fabs(got - want) <= allowed_at(o, step, by_micro, k))) return k;
    }
    return -1;
}

/* The gradient is the mean over micro-batches. */
static bool compare(const trained *t, const setting *o, const step_taken *step, const expected *by_micro,
                    const world_rank *r) {
    int parts = o->accumulate * o->world;
    double mean = 0; /* sums may cancel */
    const world_part *p = world_find(r, "p"), *q = world_find(r, "q");
    if (!CHECK(p && q)) return false;
    for (int i = 0; i < parts; i++) mean += step->s[i] / (double)parts;
    int k = first_beyond(t, o, step, by_micro, p);
    if (!CHECK_SAYS(k < 0,
                    "%s: %s, %s, %d micro-batches, world %d, zero %d, shard %d, rank %d: gradient[%lld] is "
                    "%.7g, differences say %.7g, and rounding may move it by %.3g",
                    t->what, dtype_name(o->precision), isa_name(o->isa), o->accumulate, o->world, o->zero,
                    o->shard, r->rank, (long long)by_micro->place[k < 0 ? 0 : k],
                    taken_at(t, p, by_micro->place[k < 0 ? 0 : k]),
                    wanted_at(o, step, by_micro, k < 0 ? 0 : k),
                    allowed_at(o, step, by_micro, k < 0 ? 0 : k)))
        return true;
    for (int i = 0; i < 3; i++) {
        double got = (double)t->q_at[i] - ((float *)q->data)[i], want = t->k[i] * mean;
        if (!CHECK_SAYS(fabs(got - want) < 1e-6 + 2 * unit_of(o->precision) * fabs(want),
                        "%s: q's gradient[%d] is %g, not %g", t->what, i, got, want))
            break;
    }
    return true;
}

enum { SEED = 5, FEW = 2, MANY = 8 }; /* disturbances: at once, and where these do not do */

/* By this op, or because the loss is flat: then a model is refused. */
static bool is_flat_and_refused(const trained *t, const expected *by_micro, const weft_error *e) {
    if (!strstr(e->text, "does not depend on parameter p")) return false;
    return CHECK_SAYS(by_micro->most < 1e-7, "%s: refused, but its gradient is up to %g: %s", t->what,
                      by_micro->most, e->text);
}

/* Whether the step was taken: where the loss is flat there is no model to run. */

/* Disturbances of each micro-batch that draws its own numbers; others are like the first. Beyond the first
 * ones also of the gradient's own nodes. */
static bool disturb_all(const trained *t, const setting *o, bool is_random, int first, int n,
                        expected *by_micro) {
    for (int i = 0; i < o->accumulate * o->world; i++) {
        run_state run = {.seed = SEED, .micro = i, .local = i % o->accumulate};
        if (i && !is_random)
            by_micro[i] = by_micro[0];
        else if (!trained_disturb(t, &run, unit_of(o->precision), first, n, &by_micro[i]) ||
                 (first && !trained_disturb_backward(t, &run, unit_of(o->precision), n, &by_micro[i])))
            return false;
    }
    return true;
}

/* Whether all ranks were compared. What is beyond its bound is looked at again with more disturbances. */
static bool ranks_check(const trained *t, const setting *o, const step_taken *step, bool is_random,
                        expected *by_micro) {
    weft_compile_options options = {.isa = o->isa,
                                    .precision = o->precision,
                                    .accumulate = o->accumulate,
                                    .world = o->world,
                                    .zero = o->zero,
                                    .shard = o->shard,
                                    .verify = true};
    world_job job = {.model = t->m, .options = options, .seed = SEED, .run = take_step, .context = step};
    world_rank *ranks = world_run_any(&job, true);
    bool is_compared = true;
    const world_part *p = ranks->error.status ? NULL : world_find(ranks, "p");
    if (p && first_beyond(t, o, step, by_micro, p) >= 0) disturb_all(t, o, is_random, FEW, MANY, by_micro);
    for (int i = 0; i < o->world; i++) {
        bool is_run = !ranks[i].error.status;
        is_compared &= is_run && compare(t, o, step, by_micro, &ranks[i]);
        if (!is_run && !is_flat_and_refused(t, by_micro, &ranks[i].error))
            CHECK_SAYS(false, "%s: rank %d of %d: %s", t->what, i, o->world, ranks[i].error.text);
    }
    world_free(ranks);
    return is_compared;
}

/* ---- mutants: a term is lost ---- */

typedef struct losses {
    int tried[ROUTES], caught[ROUTES];
} losses;

/* Is a gradient without one term of the loss, where that term matters, distinguishable from a rounded one? */
static void lose_term(const trained *t, const setting *o, const step_taken *step, const expected *by_micro,
                      uint64_t number, losses *all) {
    run_state run = {.seed = SEED};
    expected without = *by_micro;
    double most = 0;
    bool is_seen = false;
    if (o->precision != WEFT_BF16 ||
        !trained_lose(t, &run, (int64_t)(number % (uint64_t)trained_terms(t)), &without))
        return;
    for (int k = 0; k < without.n; k++) {
        double lost = fabs(without.gradient[k] - by_micro->gradient[k]) * step->s[0];
        most = fmax(most, lost);
        is_seen |= lost > allowed_at(o, step, by_micro, k);
    }
    if (most < 1e-2) return; /* less than roundings of the largest element */
    all->tried[t->way]++;
    all->caught[t->way] += is_seen;
}

/* Whether it was compared. */
static bool combination_check(const combination *c, int setting_index, losses *lost) {
    setting o = setting_at(setting_index);
    int parts = o.accumulate * o.world;
    expected by_micro[MAX_MICRO];
    trained t;
    bool is_random = op_draws_random(c->op), is_taken = false;
    bool good = trained_build(&t, c->op, c->spec, c->operand, c->way);
    for (int i = 0; good && i < parts; i++) {
        run_state run = {.seed = SEED, .micro = i, .local = i % o.accumulate};
        by_micro[i] = by_micro[0];
        if (i == 0 || is_random) good = trained_differences(&t, &run, &by_micro[i]);
    }
    good = good && (o.precision == WEFT_F32 || disturb_all(&t, &o, is_random, 0, FEW, by_micro));
    if (good) {
        step_taken step = {.t = &t};
        double most = by_micro->most > 1e-6 ? by_micro->most : 1;
        for (int i = 0; i < parts; i++) step.s[i] = (float)((1 + 0.25 * i) / most);
        double loss_scale = o.precision == WEFT_F16 ? 8 : 0;
        weft_minimize(t.loss, "", &(weft_optimizer){.type = "sgd", .lr = 1, .loss_scale = loss_scale});
        is_taken = ranks_check(&t, &o, &step, is_random, by_micro);
        if (is_taken) lose_term(&t, &o, &step, by_micro, (uint64_t)setting_index, lost);
    }
    trained_free(&t);
    return is_taken;
}

/* ---- what has been run ---- */

typedef struct table {
    bool met[MAX_OPS][ROUTES][SETTINGS];
    const char *why_not[MAX_OPS][ROUTES]; /* of the last operand that had a reason */
} table;

static void note_reasons(table *t) {
    EACH_SAMPLE(op, spec) {
        tensor_type types[SAMPLE_MAX_IN];
        int n = spec->error || op_untrained(op) ? 0 : types_parse(spec->in, types, SAMPLE_MAX_IN);
        for (int i = 0; i < n; i++)
            for (route way = 0; way < ROUTES && !sample_untrained(op, spec, i); way++)
                t->why_not[op_index][way] = route_missing(way, &types[i]);
    }
}

static int met_settings(const table *t, int op, route way) {
    int n = 0;
    for (int i = 0; i < SETTINGS; i++) n += t->met[op][way][i];
    return n;
}

/* The instruction sets of this machine: a setting of a better one runs with the best, and counts as that. */
static unsigned isas_here(void) {
    unsigned here = 0;
    for (int i = 0; i < ISAS; i++)
        if (isas[i] <= isa_best()) here |= 1u << i;
    return here;
}

static unsigned isa_met(int digit) {
    unsigned here = isas_here();
    while (!(here >> digit & 1)) digit--;
    return 1u << digit;
}

/* Each value of each setting, by any route. */
static bool met_each_value(const table *t, int op) {
    unsigned precision = 0, isa = 0, accumulate = 0, world = 0;
    for (route way = 0; way < ROUTES; way++)
        for (int i = 0; i < SETTINGS; i++) {
            if (!t->met[op][way][i]) continue;
            digits d = digits_of(i);
            precision |= 1u << d.precision;
            isa |= isa_met(d.isa);
            accumulate |= 1u << d.accumulate;
            world |= 1u << d.world;
        }
    return precision == 7 && isa == isas_here() && accumulate == 7 && world == (1u << WORLDS) - 1;
}

static void table_print(const table *t) {
    printf("\n%-24s", "op");
    for (route way = 0; way < ROUTES; way++) printf(" %10s", route_names[way]);
    printf("   (settings of %d that were run and compared", SETTINGS);
    for (int i = 0; i < ISAS; i++)
        if (!(isas_here() >> i & 1)) printf("; no %s on this machine", isa_name(isas[i]));
    printf(")\n");
    for (int i = 0; i < op_count(); i++) {
        const char *why = op_untrained(op_at(i));
        printf("%-24s", op_at(i)->name);
        for (route way = 0; way < ROUTES && !why; way++)
            if (met_settings(t, i, way))
                printf(" %10d", met_settings(t, i, way));
            else
                printf(" %10.11s", t->why_not[i][way] ? t->why_not[i][way] : "MISSING");
        printf("%s%s\n", why ? "  " : "", why ? why : "");
    }
}

static void table_check(const table *t) {
    for (int i = 0; i < op_count(); i++) {
        if (op_untrained(op_at(i))) continue;
        for (route way = 0; way < ROUTES; way++)
            CHECK_SAYS(met_settings(t, i, way) || t->why_not[i][way], "%s has never been trained %s",
                       op_at(i)->name, route_names[way]);
        CHECK_SAYS(met_each_value(t, i), "%s has not met each setting", op_at(i)->name);
    }
}

TEST(a_step_takes_the_gradient_from_the_parameter_whatever_its_route_and_the_settings) {
    combination *list = test_memory(MAX_COMBINATIONS * sizeof *list);
    table *t = test_memory(sizeof *t);
    memset(t, 0, sizeof *t);
    int n = combinations(list), cases = test_count(2 * n, n / 4);
    uint64_t first = test_seed(0);
    NEED(n > 0 && n < MAX_COMBINATIONS && op_count() <= MAX_OPS);
    note_reasons(t);
    losses lost = {0};
    for (int i = 0; i < cases; i++) {
        uint64_t number = first + (uint64_t)i;
        const combination *c = &list[number % (uint64_t)n];
        int setting_index = (int)((number % (uint64_t)n + 77 * (number / (uint64_t)n)) % SETTINGS);
        test_case_begin();
        bool is_compared = combination_check(c, setting_index, &lost);
        test_case_end(!is_compared);
        t->met[c->op_index][c->way][setting_index] |= is_compared;
    }
    if (getenv("WEFT_TEST_TABLE")) table_print(t);
    if (first == 0 && cases >= n) table_check(t);
    for (route way = 0; way < ROUTES; way++) {
        if (getenv("WEFT_TEST_TABLE"))
            printf("lost terms, %s: %d of %d seen\n", route_names[way], lost.caught[way], lost.tried[way]);
        CHECK_SAYS(cases < n || 20 * lost.caught[way] >= 17 * lost.tried[way],
                   "%s in bf16: of %d lost terms %d are seen", route_names[way], lost.tried[way],
                   lost.caught[way]);
    }
    free(list);
    free(t);
}

SUITE("minimize", {T(a_step_takes_the_gradient_from_the_parameter_whatever_its_route_and_the_settings)})
