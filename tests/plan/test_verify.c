/* test_verify.c - good plans raise no alarm: models, options of subgraphs and of compiling at random, for all
 * ranks of a world, verified one by one and against each other, then simulated in random orders beside a slow
 * stream. */
#include "graph/settings/minimize.h"
#include "ops/catalog/catalog.h"
#include "runtime/verify/verify.h"
#include "runtime/plan/value.h"
#include "support/stream_player.h"
#include "support/models/random_model.h"

#include <stdlib.h>
#include <string.h>

enum { WORLD = 6, RUNS = 40 };

/* What the plans of the test had, so that none of it goes untested. */
typedef struct census {
    int plans, in_flight, groups, sync, buffers, clipped, accumulated, manual, flat, empty, deferred, beside;
    int alike; /* ranks with the plan of an earlier one */
} census;

static int wanted_plans(void) {
    return test_count(1200, 150);
}

static void count_nodes(const program *p, census *c) {
    bool in_flight = false, sync = false, buffers = false, clipped = false;
    verify_index x;
    bool is_indexed = verify_index_open(&x, p->plan, p);
    CHECK(is_indexed);
    for (const weft_node *n = p->graph->first; n; n = n->next) {
        in_flight |= verify_outlasts_run(&x, n);
        sync |= strcmp(n->op->name, "all_reduce") == 0 && !n->is_update;
        buffers |= strcmp(n->op->name, "broadcast") == 0;
        clipped |= strcmp(n->op->name, "clip_scale") == 0;
    }
    c->in_flight += in_flight;
    c->sync += sync;
    c->buffers += buffers;
    c->clipped += clipped;
    c->accumulated += p->phase == PHASE_ADD;
    c->manual += p->phase == PHASE_UPDATE;
    c->deferred += p->deferred <= p->graph->last->order;
    for (const weft_variable *s = p->plan->model->variables; s && is_indexed; s = s->next) {
        int64_t begin, end;
        if (s->kind != VARIABLE_BUCKET || !s->shards) continue;
        verify_own(&x, s, &begin, &end);
        c->empty += begin == end;
    }
    verify_index_close(&x, is_indexed, NULL);
}

static void count_plan(const weft_plan *plan, census *c) {
    c->plans++;
    for (int i = 0; i < plan->n_programs; i++) count_nodes(&plan->programs[i], c);
    for (int i = 0; i < plan->n_subgraphs; i++) {
        const subgraph *g = &plan->subgraphs[i];
        c->groups += g->n_ranks < plan->options.world;
        c->flat += g->ddp.zero && g->ddp.shard == WEFT_SHARD_FLAT;
    }
}

static weft_plan *compile(const weft_model *m, weft_compile_options options, int rank, uint64_t seed) {
    weft_error e = {0};
    options.rank = rank;
    weft_plan *plan = weft_compile(m, &options, &e);
    CHECK_SAYS(plan != NULL, "seed %llu, rank %d: %s", (unsigned long long)seed, rank, e.text);
    return plan;
}

/* Ranks whose plans are the same up to the pass "states", except for numbers of ranks, have one plan:
 * graphtool verify proves one of them for all. How many ranks share another's. */
static int check_classes(const weft_model *m, weft_compile_options options, int world,
                         weft_plan *const *plans, uint64_t seed) {
    char *seen[WORLD] = {0};
    int shared = 0;
    options.stop_after = "states";
    for (int k = 0; k < world; k++) {
        weft_plan *outline = compile(m, options, k, seed);
        int first = 0;
        seen[k] = outline ? verify_rank_text(outline) : NULL;
        weft_plan_free(outline);
        if (!CHECK(seen[k] != NULL)) break;
        while (strcmp(seen[first], seen[k])) first++;
        if (first == k) continue;
        char *one = weft_plan_text(plans[first]), *other = weft_plan_text(plans[k]);
        CHECK_SAYS(strcmp(one, other) == 0, "seed %llu: ranks %d and %d have other plans",
                   (unsigned long long)seed, first, k);
        weft_text_free(one);
        weft_text_free(other);
        shared++;
    }
    for (int k = 0; k < world; k++) free(seen[k]);
    return shared;
}

/* All ranks of one world. */
static void check_world(test_random *r, census *c) {
    uint64_t seed = r->state;
    int world = 1 + random_below(r, WORLD);
    char what[200] = "";
    weft_error e = {0};
    weft_model *m = random_model(r, world);
    weft_compile_options options = random_options(r, world);
    weft_plan *plans[WORLD];
    bool good = true;
    for (int k = 0; k < world; k++) good &= (plans[k] = compile(m, options, k, seed)) != NULL;
    for (int k = 0; good && k < world; k++) {
        test_case_begin();
        CHECK_SAYS(!weft_plan_verify(plans[k], &e), "seed %llu: %s", (unsigned long long)seed, e.text);
        CHECK_SAYS(plans[k]->fingerprint == plans[0]->fingerprint,
                   "seed %llu: rank %d has another fingerprint", (unsigned long long)seed, k);
        CHECK_SAYS(!stream_conflicts(plans[k], r, RUNS, &c->beside, what), "seed %llu, rank %d: %s",
                   (unsigned long long)seed, k, what);
        count_plan(plans[k], c);
        test_case_end(false);
    }
    if (good)
        CHECK_SAYS(!verify_world((const weft_plan *const *)plans, world, &e), "seed %llu: %s",
                   (unsigned long long)seed, e.text);
    if (good) c->alike += check_classes(m, options, world, plans, seed);
    for (int k = 0; k < world; k++) weft_plan_free(plans[k]);
    weft_model_free(m);
}

TEST(good_plans_give_no_alarm_in_any_order) {
    test_random r = {test_seed(1)};
    census c = {0};
    while (c.plans < wanted_plans()) {
        int before = c.plans;
        check_world(&r, &c);
        NEED(c.plans > before);
    }
    int least = wanted_plans() / 20;
    if (wanted_plans() < 100) return; /* a few plans need not have everything */
    CHECK_SAYS(
        c.in_flight > least && c.groups > least && c.sync > least && c.buffers > least && c.clipped > least &&
            c.accumulated > least && c.manual > least && c.flat > least && c.empty > least &&
            c.deferred > least && c.beside > wanted_plans() && c.alike > least,
        "of %d plans: in flight %d, groups %d, sync %d, buffers %d, clipped %d, accumulated %d, manual "
        "%d, flat %d, empty %d, deferred %d, nodes beside one %d, alike %d",
        c.plans, c.in_flight, c.groups, c.sync, c.buffers, c.clipped, c.accumulated, c.manual, c.flat,
        c.empty, c.deferred, c.beside, c.alike);
}

/* Ranks 0, 2 and 3 have no range of the one bucket: 0 before it, the others after it. Only norms have a place
 * for that. */
TEST(ranks_without_a_range_have_one_plan_unless_norms_are_taken) {
    enum { RANKS = 4 };
    static const struct {
        weft_dtype precision;
        weft_guard guard;
        double clip_norm;
        int alike;
    } rows[] = {{.alike = 2},
                {.clip_norm = 1, .alike = 1},
                {.precision = WEFT_F16, .alike = 1},
                {.guard = WEFT_GUARD_GRAD, .alike = 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_plan *plans[RANKS];
        weft_compile_options options = {.world = RANKS,
                                        .zero = 1,
                                        .shard = WEFT_SHARD_FLAT,
                                        .precision = rows[i].precision,
                                        .guard = rows[i].guard};
        weft_model *m = weft_model_new("m");
        weft_value *x = weft_input(weft_graph_new(m, "step", WEFT_TRAIN), "x", WEFT_F32, WEFT_SHAPE(2, 4));
        WEFT_SCOPE(x, "net") x = weft_linear(x, 4, "fc", &(weft_linear_options){.no_bias = true});
        weft_minimize(weft_mean(weft_square(x), WEFT_ALL, false), "",
                      &(weft_optimizer){.type = "sgd", .lr = 1, .clip_norm = rows[i].clip_norm});
        for (int k = 0; k < RANKS; k++) NEED((plans[k] = compile(m, options, k, i)));
        int alike = check_classes(m, options, RANKS, plans, i);
        CHECK_SAYS(alike == rows[i].alike, "row %zu: %d ranks have the plan of an earlier one", i, alike);
        for (int k = 0; k < RANKS; k++) weft_plan_free(plans[k]);
        weft_model_free(m);
    }
}

/* Norms of two subgraphs are summed in one order by ranks that have shares of both, of one, of none. */
TEST(collectives_stand_in_one_order_whatever_a_rank_updates) {
    weft_plan *plans[4];
    weft_error e = {0};
    weft_model *m = weft_model_new("m");
    weft_value *x = weft_input(weft_graph_new(m, "step", WEFT_TRAIN), "x", WEFT_F32, 2, (int64_t[]){2, 4});
    const char *const names[] = {"one", "two", "three"};
    for (int i = 0; i < 3; i++) WEFT_SCOPE(x, names[i])
    x = weft_linear(x, 4, "fc", &(weft_linear_options){.no_bias = i != 1});
    weft_minimize(weft_mean(weft_square(x), WEFT_ALL, false), "",
                  &(weft_optimizer){.type = "adam", .clip_norm = 1});
    for (int i = 0; i < 3; i++)
        weft_model_set_ddp(m, names[i], &(weft_ddp_options){.process_group = "3,2;1"});
    for (int k = 0; k < 4; k++)
        NEED((plans[k] = compile(m, (weft_compile_options){.world = 4, .zero = 1}, k, 0)));
    CHECK_SAYS(!verify_world((const weft_plan *const *)plans, 4, &e), "%s", e.text);
    for (int k = 0; k < 4; k++) CHECK(plans[k]->fingerprint == plans[0]->fingerprint);
    for (int k = 0; k < 4; k++) weft_plan_free(plans[k]);
    weft_model_free(m);
}

/* Layers whose backward ends with a constant 0, which updates that are built from ops may need, too. */
static weft_model *model_with_constants(const char *type) {
    weft_model *m = weft_model_new("m");
    weft_value *x = weft_input(weft_graph_new(m, "step", WEFT_TRAIN), "x", WEFT_F32, 2, (int64_t[]){2, 24});
    WEFT_SCOPE(x, "net") {
        for (int i = 0; i < 6; i++) {
            const char name[] = {'a', (char)('0' + i), 0};
            x = weft_linear(x, 24, name, &(weft_linear_options){.no_bias = true});
            if (!i) x = weft_where(weft_greater(x, weft_neg(x)), weft_flip(x, 1, (int64_t[]){1}), x);
        }
    }
    weft_minimize(weft_mean(weft_square(x), WEFT_ALL, false), "",
                  &(weft_optimizer){.type = type, .lr = 0.01});
    return m;
}

/* In a world where some ranks have no range of a bucket, so none of its update's nodes. */
static void check_order(const weft_model *m, const char *type, weft_shard shard, int zero) {
    enum { RANKS = 5 };
    weft_plan *plans[RANKS] = {0};
    weft_error e = {0};
    bool good = true;
    for (int k = 0; k < RANKS; k++)
        good &= (plans[k] = compile(m,
                                    (weft_compile_options){
                                        .world = RANKS, .zero = zero, .shard = shard, .bucket_cap_mb = 1e-4},
                                    k, 0)) != NULL;
    if (good)
        CHECK_SAYS(!verify_world((const weft_plan *const *)plans, RANKS, &e), "%s, zero %d, shard %d: %s",
                   type, zero, shard, e.text);
    for (int k = 0; k < RANKS; k++) weft_plan_free(plans[k]);
}

TEST(collectives_stand_in_one_order_under_every_optimizer) {
    for (int i = 0; optimizer_kinds[i]; i++) {
        const char *type = optimizer_kinds[i]->type;
        if (optimizer_kinds[i]->follows) continue; /* it trains no layer */
        weft_model *m = model_with_constants(type);
        for (int zero = 1; zero < 3; zero++) check_order(m, type, WEFT_SHARD_GREEDY, zero);
        if (strcmp(type, "rprop") == 0) check_order(m, type, WEFT_SHARD_FLAT, 1);
        weft_model_free(m);
    }
}

/* Two reads of a state, each fetched as a copy, and two writes. A read of the state itself after a later
 * write returns that write's value, and so does a fetch, for which no pass counts writes. */
static weft_plan *reads_and_writes(void) {
    weft_error e = {0};
    weft_model *m = weft_model_new("m");
    weft_value *x = weft_input(weft_graph_new(m, "g", WEFT_TRAIN), "x", WEFT_F32, 1, (int64_t[]){40});
    for (int i = 0; i < 2; i++) {
        weft_value *s = weft_state(x, "s", 1, (int64_t[]){40}, (weft_init){0});
        weft_output(s, i ? "second" : "first");
        weft_assign(s, weft_add(s, x));
    }
    weft_plan *p = weft_compile(m, NULL, &e);
    CHECK_SAYS(p != NULL, "%s", e.text);
    weft_model_free(m);
    return p;
}

TEST(a_value_that_a_write_of_its_own_variable_replaced_is_found) {
    for (int number = 0; number < 2; number++) {
        weft_error e = {0};
        weft_plan *p = reads_and_writes();
        NEED(p != NULL);
        graph_output *o = p->programs[0].graph->outputs;
        if (number) o = o->next;
        NEED(o->value->node->n_in == 1 && value_root(o->value->node->in[0])->variable);
        o->value = o->value->node->in[0];
        CHECK_SAYS(weft_plan_verify(p, &e) == WEFT_INTERNAL && strncmp(e.text, "V5", 2) == 0, "output %d: %s",
                   number, e.text);
        weft_plan_free(p);
    }
}

SUITE("verify", {T(a_value_that_a_write_of_its_own_variable_replaced_is_found),
                 T(good_plans_give_no_alarm_in_any_order),
                 T(ranks_without_a_range_have_one_plan_unless_norms_are_taken),
                 T(collectives_stand_in_one_order_whatever_a_rank_updates),
                 T(collectives_stand_in_one_order_under_every_optimizer)})
