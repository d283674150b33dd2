/* test_strategy.c - strategies: each of Weft's is the options that it stands for; texts, files and
 * contradictions; cuts and sums of your own; what a strategy does in a run. Ranks are threads. */
#include "graph/core/graph.h"
#include "graph/settings/strategy.h"
#include "ops/kit/ops.h"
#include "runtime/plan/program.h"
#include "runtime/store/store.h"
#include "runtime/verify/verify.h"
#include "support/faults.h"
#include "support/test.h"
#include "support/world.h"
#include "weft/weft.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a model: a/fc1, a/fc2, b/fc; and b/bn with state ---- */

static weft_model *nets_where(const weft_env *env, const char *trained) {
    weft_model *m = weft_model_new_in("nets", env);
    weft_graph *g = weft_graph_new(m, "train", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(8, 12));
    WEFT_SCOPE(x, "a") x = weft_linear(weft_tanh(weft_linear(x, 16, "fc1", NULL)), 10, "fc2", NULL);
    WEFT_SCOPE(x, "b") x = weft_linear(weft_batch_norm(x, "bn", NULL), 3, "fc", NULL);
    weft_value *loss = weft_mean(weft_square(x), WEFT_ALL, false);
    weft_minimize(loss, trained, &(weft_optimizer){.type = "adam", .lr = 0.01});
    weft_output(loss, "loss");
    CHECK_TEXT(weft_model_error(m)->text, "");
    return m;
}

static weft_model *two_nets(const weft_env *env) {
    return nets_where(env, NULL);
}

/* NULL with the error's text. */
static weft_plan *compile(const weft_model *m, const weft_compile_options *o, weft_error *error) {
    weft_compile_options all = *o;
    all.threads = 1;
    all.verify = true;
    *error = (weft_error){0};
    return weft_compile(m, &all, error);
}

/* The plan's text without its `strategy` line; the caller frees it. */
static char *plan_without_line(const weft_plan *plan) {
    char *dump = plan ? weft_plan_text(plan) : NULL, *line = dump ? strstr(dump, "\nstrategy ") : NULL;
    if (line) memmove(line, strchr(line + 1, '\n'), strlen(strchr(line + 1, '\n')) + 1);
    return dump;
}

static void check_refused(const weft_model *m, const weft_compile_options *o, const char *says) {
    weft_error error;
    weft_plan *plan = compile(m, o, &error);
    CHECK_SAYS(!plan && strstr(error.text, says), "wanted '%s', got '%s'", says,
               plan ? "a plan" : error.text);
    weft_plan_free(plan);
}

/* ---- Weft's own ---- */

typedef struct twin {
    const char *strategy;
    weft_compile_options options;
    const char *path, *ddp; /* weft_model_set_ddp_text of the twin; NULL: none */
    const char *other, *other_ddp;
} twin;

static const twin twins[] = {
    {"separate_ddp", {0}, NULL, NULL, NULL, NULL},
    {"separate_ddp:bucket_cap_mb=0.001", {.bucket_cap_mb = 0.001}, NULL, NULL, NULL, NULL},
    {"separate_ddp:bf16_wire=1", {0}, "a", "bf16_wire=1", "b", "bf16_wire=1"},
    {"separate_ddp:broadcast_buffers=1,serial=1",
     {.serial = true},
     "a",
     "broadcast_buffers=1",
     "b",
     "broadcast_buffers=1"},
    {"ddp", {0}, "", "", NULL, NULL},
    {"ddp:sync_batch_norm=1,find_unused_parameters=1,check_equal=1",
     {.check_equal = true},
     "",
     "sync_batch_norm=1,find_unused_parameters=1",
     NULL,
     NULL},
    {"ddp:reduce=fast,bucket_cap_mb=0.0005",
     {.reduce = WEFT_REDUCE_FAST, .bucket_cap_mb = 0.0005},
     "",
     "",
     NULL,
     NULL},
    {"zero", {.zero = 1}, NULL, NULL, NULL, NULL},
    {"zero:stage=2,shard=flat", {.zero = 2, .shard = WEFT_SHARD_FLAT}, NULL, NULL, NULL, NULL},
    {"zero:stage=1,shard=greedy,bucket_cap_mb=1,reduce=ordered",
     {.zero = 1, .bucket_cap_mb = 1},
     NULL,
     NULL,
     NULL,
     NULL},
};

TEST(each_strategy_is_the_plan_of_the_options_that_it_stands_for) {
    for (size_t i = 0; i < sizeof twins / sizeof *twins; i++)
        for (int world = 1; world <= 2; world++) {
            const twin *t = &twins[i];
            weft_model *plain = two_nets(NULL), *m = two_nets(NULL);
            weft_error error;
            if (t->path) weft_model_set_ddp_text(plain, t->path, t->ddp);
            if (t->other) weft_model_set_ddp_text(plain, t->other, t->other_ddp);
            weft_compile_options o = t->options, by_name = {.world = world, .strategy = t->strategy};
            o.world = world;
            weft_plan *want = compile(plain, &o, &error), *got = compile(m, &by_name, &error);
            CHECK_SAYS(want && got, "%s: %s", t->strategy, error.text);
            char *a = plan_without_line(want), *b = plan_without_line(got);
            CHECK_SAYS(a && b && strcmp(a, b) == 0, "%s, %d ranks: another plan", t->strategy, world);
            if (got) CHECK_TEXT(weft_plan_strategy(got), t->strategy);
            if (want) CHECK_TEXT(weft_plan_strategy(want), "separate_ddp");
            free(a);
            free(b);
            weft_plan_free(want);
            weft_plan_free(got);
            weft_model_free(plain);
            weft_model_free(m);
        }
}

TEST(every_strategy_trains_to_the_bits_of_one_rank) {
    static const char *const names[] = {"ddp", "separate_ddp", "zero", "zero:stage=2,shard=flat"};
    weft_model *m = two_nets(NULL);
    world_job job = {.model = m, .options = {.accumulate = 2, .strategy = "single"}, .steps = 4};
    world_rank *one = world_run(&job);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        job.options = (weft_compile_options){.world = 2, .strategy = names[i]};
        world_rank *two = world_run(&job);
        world_check(one, two, 2, world_trained, names[i]);
        world_free(two);
    }
    world_free(one);
    weft_model_free(m);
}

TEST(strategies_are_listed_by_name) {
    static const char *const names[] = {"single", "ddp", "separate_ddp", "zero"};
    for (int i = 0; i < 4; i++) CHECK_TEXT(weft_strategy_name(i), names[i]);
    CHECK(!weft_strategy_name(4) && !weft_strategy_name(-1));
}

/* ---- refusals ---- */

TEST(what_a_strategy_does_not_take_is_refused) {
    static const struct {
        const char *strategy, *says;
    } rows[] = {
        {"single", "strategy single: it is for a world of one rank, and there are 2"},
        {"single:serial=1", "strategy single has no key 'serial'; it takes no keys"},
        {"dpd", "there is no strategy 'dpd': did you mean 'ddp'? There are single, ddp, separate_ddp, zero"},
        {"zero:stages=2", "strategy zero has no key 'stages'; it takes bucket_cap_mb, reduce, serial, "
                          "check_equal, stage, shard"},
        {"zero:stage=3", "stage=3: it must be a whole number from 1 to 2"},
        {"zero:stage=1.5", "stage=1.5: it must be a whole number"},
        {"zero:stage=two", "stage=two: it must be"},
        {"zero:shard=half", "shard=half: it must be greedy or flat"},
        {"ddp:serial=2", "serial=2: it must be 1, or be left out"},
        {"ddp:bucket_cap_mb=0", "bucket_cap_mb=0: it must be a number above 0"},
        {"ddp:bucket_cap_mb=nan", "bucket_cap_mb=nan"},
        {"ddp:reduce=quick", "reduce=quick: it must be auto, ordered or fast"},
        {"ddp:zero=1", "strategy ddp has no key 'zero'"},
        {"", "a name is expected"},
        {":stage=1", "a name is expected"},
        {"zero:", "key=value is expected"},
        {"zero:stage", "key=value is expected"},
        {"zero:stage=", "key=value is expected"},
        {"zero:stage=1,", "key=value is expected"},
        {"zero:=1", "key=value is expected"},
        {"zero:stage=1=2", "key=value is expected"},
        {"zero:Stage=1", "key=value is expected"},
        {"zero:stage=1,stage=1", "a key is given twice"},
        {"zero:shard=fl at", "key=value is expected"},
        {"zero:shard=\x1b[31m", "key=value is expected"},
        {"ze\nro", "a name is expected"},
    };
    weft_model *m = two_nets(NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_refused(m, &(weft_compile_options){.world = 2, .strategy = rows[i].strategy}, rows[i].says);
    char *huge = test_memory(1 << 20);
    memset(huge, 'z', 1 << 20);
    huge[(1 << 20) - 1] = 0;
    check_refused(m, &(weft_compile_options){.world = 2, .strategy = huge}, "longer than 1000 characters");
    free(huge);
    weft_model_free(m);
}

TEST(an_option_that_contradicts_is_an_error) {
    static const struct {
        weft_compile_options options;
        const char *path, *ddp, *says; /* says NULL: it does not contradict */
    } rows[] = {
        {{.strategy = "zero:stage=2", .zero = 1},
         NULL,
         NULL,
         "it sets zero=2, and the options 1: leave one of them out"},
        {{.strategy = "zero:stage=2", .zero = 2}, NULL, NULL, NULL},
        {{.strategy = "zero:shard=flat"}, NULL, NULL, NULL},
        {{.strategy = "zero:shard=greedy"}, NULL, NULL, NULL},
        {{.strategy = "zero:shard=greedy", .shard = WEFT_SHARD_FLAT},
         NULL,
         NULL,
         "it sets shard=greedy, and the options flat: leave one of them out"},
        {{.strategy = "ddp", .zero = 1}, NULL, NULL, NULL},
        {{.strategy = "ddp:bucket_cap_mb=2", .bucket_cap_mb = 3},
         NULL,
         NULL,
         "it sets bucket_cap_mb=2, and the options 3"},
        {{.strategy = "ddp:reduce=fast", .reduce = WEFT_REDUCE_ORDERED},
         NULL,
         NULL,
         "it sets reduce=fast, and the options ordered"},
        {{.strategy = "ddp:serial=0", .serial = true}, NULL, NULL, "serial=0: it must be 1, or be left out"},
        {{.strategy = "zero:check_equal=0", .check_equal = true}, NULL, NULL, "check_equal=0: it must be 1"},
        {{.strategy = "ddp:find_unused_parameters=0"},
         "",
         "find_unused_parameters=1",
         "find_unused_parameters=0: it must be 1"},
        {{.strategy = "separate_ddp:broadcast_buffers=0"},
         "a",
         "broadcast_buffers=1",
         "broadcast_buffers=0: it must be 1"},
        {{.strategy = "ddp:sync_batch_norm=0"}, "", "sync_batch_norm=1", "sync_batch_norm=0: it must be 1"},
        {{.strategy = "ddp:bf16_wire=0"}, "", "bf16_wire=1", "bf16_wire=0: it must be 1"},
        {{.strategy = "ddp", .serial = true, .check_equal = true}, "", "bf16_wire=1", NULL},
        {{.strategy = "ddp"},
         "a",
         "zero=1",
         "the model is one subgraph of it, and weft_model_set_ddp makes a another"},
        {{.strategy = "ddp"}, "", "zero=1", NULL},
        {{.strategy = "ddp:bf16_wire=1"}, "", "broadcast_buffers=1", NULL},
        {{.strategy = "separate_ddp:bf16_wire=1"}, "a/fc1", "zero=1", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_model *m = two_nets(NULL);
        weft_compile_options o = rows[i].options;
        weft_error error;
        o.world = 2;
        if (rows[i].path) weft_model_set_ddp_text(m, rows[i].path, rows[i].ddp);
        if (rows[i].says) {
            check_refused(m, &o, rows[i].says);
        } else {
            weft_plan *plan = compile(m, &o, &error);
            CHECK_SAYS(plan != NULL, "%zu: %s", i, error.text);
            weft_plan_free(plan);
        }
        weft_model_free(m);
    }
}

/* ---- in the model and its files ---- */

TEST(a_model_and_its_files_keep_the_text) {
    char path[] = "strategy.bin";
    weft_model *m = two_nets(NULL);
    weft_error error = {0};
    CHECK(!weft_model_strategy_text(m));
    CHECK(weft_model_strategy(m, "zero:stage=2,shard=flat") == WEFT_OK);
    CHECK(weft_save(m, path, &error) == WEFT_OK);
    weft_model *loaded = weft_load(path, NULL, &error);
    char *text = weft_model_text(m);
    weft_model *parsed = weft_model_parse(text, "text", NULL, &error);
    CHECK_SAYS(loaded && parsed, "%s", error.text);
    CHECK_HOLDS(text, "\nstrategy zero:stage=2,shard=flat\n");
    if (loaded) CHECK_TEXT(weft_model_strategy_text(loaded), "zero:stage=2,shard=flat");
    if (parsed) CHECK_TEXT(weft_model_strategy_text(parsed), "zero:stage=2,shard=flat");
    weft_plan *plan = loaded ? compile(loaded, &(weft_compile_options){.world = 2}, &error) : NULL;
    CHECK_SAYS(plan && plan->options.zero == 2 && plan->options.shard == WEFT_SHARD_FLAT, "%s", error.text);
    char *dump = weft_plan_text(plan);
    if (dump) CHECK_HOLDS(dump, "\nstrategy zero:stage=2,shard=flat\n");
    weft_model *back = dump ? weft_model_parse(dump, "plan", NULL, &error) : NULL;
    CHECK_SAYS(back != NULL, "%s", error.text);
    weft_plan_free(plan);
    /* an option goes before the model's text */
    plan = loaded ? compile(loaded, &(weft_compile_options){.world = 2, .strategy = "ddp"}, &error) : NULL;
    CHECK_SAYS(plan && plan->options.zero == 0, "%s", error.text);
    weft_plan_free(plan);
    weft_model_free(back);
    weft_model_free(parsed);
    weft_model_free(loaded);
    weft_text_free(dump);
    weft_text_free(text);
    CHECK(weft_model_strategy(m, NULL) == WEFT_OK && !weft_model_strategy_text(m));
    CHECK(weft_model_strategy(m, "no name") == WEFT_ARGUMENT);
    CHECK_HOLDS(weft_model_error(m)->text, "strategy 'no name': NAME:key=value,...: a name is expected");
    weft_model_free(m);
    remove(path);
}

TEST(a_name_in_a_file_loads_no_code) {
    weft_model *m = two_nets(NULL);
    weft_model_strategy(m, "/tmp/evil.so");
    CHECK(weft_model_error(m)->status == WEFT_ARGUMENT);
    weft_model_free(m);
    m = two_nets(NULL);
    weft_model_strategy(m, "powersgd:rank=2");
    check_refused(m, &(weft_compile_options){.world = 2}, "there is no strategy 'powersgd'");
    check_refused(m, &(weft_compile_options){.world = 2}, "weft_compile_options.own_strategy");
    weft_model_free(m);
}

TEST(hostile_texts_are_refused) {
    static const char alphabet[] = "zero:stage=12,shard=flatdp_separate\"\\ \n\x80%*/";
    weft_model *m = two_nets(NULL);
    test_random r = {test_seed(1)};
    for (int i = test_count(3000, 500); i > 0; i--) {
        char text[40];
        size_t n = random_bits(&r) % (sizeof text - 1);
        weft_error error = {0};
        for (size_t k = 0; k < n; k++) text[k] = alphabet[random_bits(&r) % (sizeof alphabet - 1)];
        text[n] = 0;
        if (random_bits(&r) & 1) memcpy(text, "zero:", n < 5 ? n : 5);
        weft_plan *plan = weft_compile(
            m, &(weft_compile_options){.world = 2, .strategy = text, .stop_after = "flow"}, &error);
        if (!CHECK_SAYS(plan || *error.text, "'%s': neither a plan nor an error", text)) break;
        weft_plan_free(plan);
    }
    weft_model_free(m);
}

/* ---- your own: data ---- */

static const weft_field own_fields[] = {{"cap", WEFT_FIELD_NUMBER, 0, 0.001, 10}, {.offset = sizeof(double)}};

static weft_status tells(const weft_strategy_call *call, weft_distribution *into, weft_error *error) {
    double cap = *(const double *)call->options;
    (void)error;
    *into = *(const weft_distribution *)call->context;
    if (cap > 0) into->bucket_cap_mb = cap;
    return WEFT_OK;
}

static weft_strategy own(const weft_distribution *d) {
    return (weft_strategy){"mine", own_fields, .distribute = tells, .context = (void *)(uintptr_t)d};
}

static const weft_variable *bucket_named(const weft_plan *plan, const char *path) {
    const weft_variable *s = plan ? variable_find(plan->model, path) : NULL;
    return s && s->kind == VARIABLE_BUCKET ? s : NULL;
}

TEST(buckets_begin_at_the_cuts_and_nowhere_else) {
    static const char *const cuts[] = {"a/fc1/weight", "a/fc2/bias"};
    const weft_distribution d = {.bucket_cap_mb = 0.0001, .n_cuts = 2, .cuts = cuts};
    weft_strategy s = own(&d);
    weft_model *m = two_nets(NULL);
    weft_error error;
    weft_plan *plan = compile(m, &(weft_compile_options){.world = 2, .own_strategy = &s}, &error);
    CHECK_SAYS(plan != NULL, "%s", error.text);
    const weft_variable *first = bucket_named(plan, "a.0"), *second = bucket_named(plan, "a.1"),
                        *third = bucket_named(plan, "a.2");
    if (CHECK(first && second && third && !bucket_named(plan, "a.3"))) {
        CHECK_TEXT(first->members[0]->path, "a/fc2/weight");
        CHECK_TEXT(second->members[0]->path, "a/fc2/bias");
        CHECK_TEXT(third->members[0]->path, "a/fc1/weight");
        CHECK(first->n_members == 1 && second->n_members == 1 && third->n_members == 2);
        CHECK(bucket_named(plan, "b.1") != NULL); /* no cut: by size */
    }
    CHECK_TEXT(weft_plan_strategy(plan), "mine");
    weft_plan_free(plan);
    const char *const wrong[] = {"a/fc3/weight"};
    const weft_distribution none = {.n_cuts = 1, .cuts = wrong}, lost = {.n_cuts = 1};
    s = own(&none);
    check_refused(m, &(weft_compile_options){.world = 2, .own_strategy = &s},
                  "it cuts at 'a/fc3/weight', and the model has no such parameter");
    s = own(&lost);
    check_refused(m, &(weft_compile_options){.world = 2, .own_strategy = &s}, "it says a number of cuts");
    weft_model_free(m);
}

TEST(cuts_change_no_bit) {
    static const char *const cuts[] = {"a/fc1/weight", "a/fc2/bias", "b/fc/weight"};
    const weft_distribution d = {.n_cuts = 3, .cuts = cuts};
    weft_strategy s = own(&d);
    weft_model *m = two_nets(NULL);
    world_job job = {.model = m, .options = {.accumulate = 2}, .steps = 4};
    world_rank *one = world_run(&job);
    for (int zero = 0; zero < 3; zero++) {
        job.options = (weft_compile_options){
            .world = 2, .own_strategy = &s, .zero = zero, .shard = zero ? WEFT_SHARD_GREEDY : 0};
        world_rank *two = world_run(&job);
        world_check(one, two, 2, world_trained, "cut");
        world_free(two);
    }
    world_free(one);
    weft_model_free(m);
}

TEST(subgraphs_of_a_strategy_have_its_options) {
    static const weft_strategy_subgraph list[] = {{"a/fc1", {.zero = 1}}, {"", {.process_group = "0;1"}}};
    const weft_distribution d = {.n_subgraphs = 2, .subgraphs = list};
    weft_strategy s = own(&d);
    weft_model *m = two_nets(NULL);
    weft_error error;
    weft_compile_options o = {.world = 2, .own_strategy = &s, .strategy = "mine:cap=0.5"};
    weft_plan *plan = compile(m, &o, &error);
    if (CHECK_SAYS(plan != NULL, "%s", error.text)) {
        const subgraph *fc1 = subgraph_of(plan, "a/fc1/weight"), *rest = subgraph_of(plan, "b/fc/weight");
        CHECK(fc1->ddp.zero == 1 && fc1->n_ranks == 2 && rest->ddp.zero == 0 && rest->n_ranks == 1);
        CHECK(rest->ddp.bucket_cap_mb == 0.5);
    }
    weft_plan_free(plan);
    weft_model_set_ddp(m, "a/fc1", &(weft_ddp_options){.zero = 2});
    check_refused(m, &o, "it sets zero of subgraph a/fc1, and weft_model_set_ddp to another value");
    weft_model_free(m);
}

static weft_status refuses(const weft_strategy_call *call, weft_distribution *into, weft_error *error) {
    (void)into;
    snprintf(error->text, sizeof error->text, "rank %d does not like it", call->rank);
    return error->status = WEFT_UNSUPPORTED;
}

TEST(ones_own_strategy_is_checked_as_weft_s) {
    const weft_distribution nothing = {0}, bad = {.zero = 7}, list = {.n_subgraphs = 2},
                            cap = {.bucket_cap_mb = -1};
    weft_strategy s = own(&nothing), unnamed = {.distribute = tells}, taken = {.name = "ddp"},
                  no = {.name = "mine", .distribute = refuses};
    weft_model *m = two_nets(NULL);
#define OWN(strategy, ...) (&(weft_compile_options){.world = 2, .own_strategy = &strategy, __VA_ARGS__})
    check_refused(m, OWN(unnamed, .rank = 0), "a name is expected");
    static const weft_field unsized[] = {{"cap", WEFT_FIELD_NUMBER, 4000, 0.001, 10}, {0}};
    weft_strategy lost = {"mine", unsized, .distribute = tells};
    check_refused(m, OWN(lost, .strategy = "mine:cap=1"), "a field of it is not within its structure");
    check_refused(m, OWN(taken, .rank = 0), "own_strategy 'ddp': its name must be letters");
    check_refused(m, OWN(s, .strategy = "zero"),
                  "own_strategy is mine, and the strategy that is chosen zero");
    check_refused(m, OWN(s, .strategy = "mines"),
                  "there are single, ddp, separate_ddp, zero and your own, mine");
    check_refused(m, OWN(s, .strategy = "mine:rank=2"), "strategy mine has no key 'rank'; it takes cap");
    check_refused(m, OWN(s, .strategy = "mine:cap=100"), "cap=100: it must be a number from 0.001");
    check_refused(m, OWN(no, .rank = 1), "strategy mine: rank 1 does not like it");
    s = own(&bad);
    check_refused(m, OWN(s, .rank = 0), "zero=7: it must be a whole number from 0 to 2");
    s = own(&cap);
    check_refused(m, OWN(s, .rank = 0), "bucket_cap_mb=-1: it must be a number above 0");
    s = own(&list);
    check_refused(m, OWN(s, .rank = 0), "it says a number of subgraphs");
#undef OWN
    weft_model_free(m);
}

/* ---- your own: nodes on a bucket's gradient ---- */

static weft_value *same(const weft_bucket *b) {
    return b->gradient;
}

static weft_value *nothing(const weft_bucket *b) {
    (void)b;
    return NULL;
}

static weft_value *by_ranks(const weft_bucket *b) {
    return weft_all_reduce(b->gradient, WEFT_RANKS_SUM, NULL);
}

static weft_value *late_read(const weft_bucket *b) {
    weft_value *kept = weft_state(b->gradient, "kept", 0, NULL, (weft_init){0});
    weft_assign(kept, weft_offset(kept, 1));
    return weft_add(b->gradient, weft_scale(weft_state(b->gradient, "kept", 0, NULL, (weft_init){0}), 0));
}

/* Twice a half is the same number; the state counts steps. */
static weft_value *halves(const weft_bucket *b) {
    weft_value *half = weft_scale(b->gradient, 0.5);
    weft_value *steps = weft_state(half, "steps", 0, NULL, (weft_init){0});
    weft_assign(steps, weft_offset(steps, 1));
    return weft_scale(weft_all_reduce(half, WEFT_RANKS_SUM, NULL), 2);
}

static weft_value *shorter(const weft_bucket *b) {
    return weft_slice(b->gradient, 0, 0, 3);
}

static weft_value *random_part(const weft_bucket *b) {
    int64_t n = weft_dim(b->gradient, 0);
    return weft_add(b->gradient, weft_random_normal(weft_value_graph(b->gradient), 1, &n, 0, 1));
}

static weft_value *of_model(const weft_bucket *b) {
    weft_value *p = weft_value_of(weft_value_graph(b->gradient), "a/fc1/bias");
    return weft_add(b->gradient, weft_sum(p, WEFT_ALL, false));
}

static weft_value *another_input(const weft_bucket *b) {
    weft_value *x = weft_input(weft_value_graph(b->gradient), "x", WEFT_F32, 0, NULL);
    return weft_add(b->gradient, x);
}

static weft_value *wrong_call(const weft_bucket *b) {
    return weft_matmul(b->gradient, b->gradient, true, true);
}

/* Subgraph a alone, and what a builder gets. */
static weft_value *noted(const weft_bucket *b) {
    CHECK(b->ranks == 2 && b->n_members > 0 && b->members[0].begin == 0 && b->members[0].ndim > 0);
    CHECK(strncmp(b->members[0].path, b->subgraph, strlen(b->subgraph)) == 0);
    CHECK(strncmp(b->name, b->subgraph, strlen(b->subgraph)) == 0);
    CHECK_TEXT(b->call->name, "mine");
    return strcmp(b->subgraph, "a") == 0 ? by_ranks(b) : NULL;
}

static int count_ops(const weft_plan *plan, const weft_op *op) {
    int count = 0;
    for (int i = 0; plan && i < plan->n_programs; i++)
        for (const weft_node *n = plan->programs[i].graph->first; n; n = n->next) count += n->op == op;
    return count;
}

TEST(nodes_that_change_nothing_give_the_bits_of_none) {
    static weft_value *(*const builders[])(const weft_bucket *b) = {same, nothing, by_ranks, halves, noted};
    weft_model *m = two_nets(NULL);
    for (int accumulate = 1; accumulate <= 2; accumulate++) {
        world_job job = {.model = m, .options = {.accumulate = 2 * accumulate}, .steps = 4};
        world_rank *one = world_run(&job);
        for (size_t i = 0; i < sizeof builders / sizeof *builders; i++)
            for (int serial = 0; serial < 2; serial++) {
                const weft_distribution d = {
                    .gradient = builders[i], .serial = serial, .bucket_cap_mb = 0.0005};
                weft_strategy s = own(&d);
                char what[60];
                snprintf(what, sizeof what, "builder %zu, serial %d, accumulate %d", i, serial, accumulate);
                job.options = (weft_compile_options){
                    .world = 2, .accumulate = accumulate, .own_strategy = &s, .verify = true};
                world_rank *two = world_run(&job);
                world_check(one, two, 2, world_trained, what);
                world_free(two);
            }
        world_free(one);
    }
    weft_model_free(m);
}

TEST(nodes_are_part_of_the_plan) {
    const weft_distribution d = {.gradient = halves}, as_always = {.gradient = same};
    weft_strategy s = own(&d), plain = own(&as_always);
    weft_model *m = two_nets(NULL);
    weft_error error;
    weft_plan *plan = compile(m, &(weft_compile_options){.world = 2, .own_strategy = &s}, &error);
    weft_plan *none = compile(m, &(weft_compile_options){.world = 2, .own_strategy = &plain}, &error);
    weft_plan *alone = compile(m, &(weft_compile_options){.own_strategy = &s}, &error);
    if (CHECK_SAYS(plan && none && alone, "%s", error.text)) {
        int buckets = 0;
        for (const weft_variable *v = plan->model->variables; v; v = v->next)
            buckets += v->kind == VARIABLE_BUCKET;
        CHECK(count_ops(plan, &weft_op_summed) == buckets && count_ops(plan, &weft_op_all_reduce) == buckets);
        CHECK(!count_ops(none, &weft_op_summed) && !count_ops(alone, &weft_op_summed));
        CHECK(plan->fingerprint != none->fingerprint);
        char *dump = weft_plan_text(plan), *json = weft_plan_json(plan), *other = weft_plan_text(none);
        CHECK_HOLDS(dump, "\nstrategy mine\n# compressed: other bits in another world\n");
        CHECK_HOLDS(dump, "optimizer strategy/a.0/steps f32[]");
        CHECK_HOLDS(dump, "= summed(");
        CHECK_HOLDS(json, "\"strategy\": \"mine\"");
        CHECK_HOLDS(json, "\"compressed\": true");
        CHECK(!strstr(other, "compressed"));
        weft_model *back = weft_model_parse(dump, "plan", NULL, &error);
        char *again = back ? weft_model_text(back) : NULL;
        CHECK_SAYS(back != NULL, "%s", error.text);
        if (again) CHECK_HOLDS(again, "= summed(");
        weft_text_free(again);
        weft_model_free(back);
        weft_text_free(dump);
        weft_text_free(json);
        weft_text_free(other);
        CHECK_SAYS(weft_plan_verify(plan, &error) == WEFT_OK, "%s", error.text);
    }
    weft_plan_free(plan);
    weft_plan_free(none);
    weft_plan_free(alone);
    weft_model_free(m);
}

TEST(a_plan_for_a_gpu_has_the_nodes_too) {
    const weft_distribution d = {.gradient = halves};
    weft_strategy s = own(&d);
    weft_model *m = two_nets(NULL);
    weft_error error;
    weft_compile_options o = {.world = 2, .own_strategy = &s, .device = WEFT_DEVICE_CUDA};
    weft_plan *plan = compile(m, &o, &error);
    CHECK_SAYS(plan && count_ops(plan, &weft_op_summed), "%s", error.text);
    weft_plan_free(plan);
    weft_model_free(m);
}

TEST(the_plans_of_all_ranks_fit_together) {
    static const weft_strategy_subgraph list[] = {{"b", {.zero = 1}}};
    const weft_distribution d = {
        .gradient = noted, .n_subgraphs = 1, .subgraphs = list, .bucket_cap_mb = 0.0005};
    weft_strategy s = own(&d);
    weft_model *m = two_nets(NULL);
    weft_plan *plans[2];
    weft_error error;
    for (int r = 0; r < 2; r++) {
        plans[r] = compile(m, &(weft_compile_options){.world = 2, .rank = r, .own_strategy = &s}, &error);
        CHECK_SAYS(plans[r] != NULL, "%s", error.text);
    }
    if (plans[0] && plans[1])
        CHECK_SAYS(verify_world((const weft_plan *const *)plans, 2, &error) == WEFT_OK, "%s", error.text);
    for (int r = 0; r < 2; r++) weft_plan_free(plans[r]);
    weft_model_free(m);
}

/* The first node of the op that belongs to a bucket. */
static weft_node *node_of(const program *p, const weft_op *op, const weft_variable *bucket) {
    weft_node *n = p->graph->first;
    while (n && !(n->op == op && (!bucket || n->variable == bucket))) n = n->next;
    return n;
}

/* The rule that finds the change, "" for none. */
static void check_caught(const program *p, const char *rule, const char *what) {
    weft_error error = {0};
    verify_index x;
    bool good = verify_index_open(&x, p->plan, p) && verify_summed(&x) && verify_buckets(&x);
    weft_status status = verify_index_close(&x, good, &error);
    CHECK_SAYS(*rule ? status && strncmp(error.text, rule, strlen(rule)) == 0 : !status,
               "%s: wanted %s, got '%s'", what, *rule ? rule : "nothing", error.text);
}

TEST(wrong_sums_are_found_by_their_rules) {
    static const char *const cuts[] = {"a/fc1/weight"};
    const weft_distribution d = {.gradient = halves, .n_cuts = 1, .cuts = cuts};
    weft_strategy s = own(&d);
    weft_model *m = two_nets(NULL);
    weft_error error;
    weft_plan *plan = compile(m, &(weft_compile_options){.world = 2, .own_strategy = &s}, &error);
    NEED(plan != NULL);
    const program *p = &plan->programs[0];
    weft_variable *a = variable_find(plan->model, "a.0"), *b = variable_find(plan->model, "a.1");
    weft_node *sum = node_of(p, &weft_op_summed, a), *other = node_of(p, &weft_op_summed, b);
    weft_node *start = node_of(p, &weft_op_all_reduce, a),
              *state = node_of(p, &weft_op_assign, variable_find(plan->model, "strategy/a.0/steps"));
    NEED(sum && other && start && state);
    check_caught(p, "", "a good plan");
    weft_value *kept = sum->in[0];
    const weft_node *constant = node_of(p, &weft_op_parameter, NULL);
    sum->in[0] = other->in[0]; /* a.1 is of another size, or made of another bucket's gradients */
    check_caught(p, "L23", "another bucket's sum");
    sum->in[0] = &((weft_node *)(uintptr_t)constant)->out[0];
    check_caught(p, "L23", "a parameter");
    sum->in[0] = kept;
    start->variable = b;
    check_caught(p, "L23", "a collective of another bucket");
    start->variable = a;
    kept = state->in[0];
    state->in[0] = other->in[0];
    check_caught(p, "L23", "state of another bucket's gradients");
    state->in[0] = kept;
    sum->variable = b;
    check_caught(p, "L23", "a sum under another name");
    sum->variable = a;
    a->members[1]->is_cut = true;
    check_caught(p, "L4", "a cut within a bucket");
    a->members[1]->is_cut = false;
    weft_node *update = p->graph->first;
    while (update && verify_updated_by(update) != a) update = update->next;
    NEED(update != NULL);
    kept = update->in[1];
    update->in[1] = &node_of(p, &weft_op_bucket, a)->out[0];
    check_caught(p, "L5", "an update that does not read the sum");
    update->in[1] = kept;
    check_caught(p, "", "a good plan again");
    weft_plan_free(plan);
    weft_model_free(m);
}

TEST(wrong_nodes_are_one_error) {
    static const struct {
        weft_value *(*build)(const weft_bucket *b);
        const char *says;
    } rows[] = {
        {shorter, "and what its builder returns f32[3]"},
        {random_part, "draws random numbers"},
        {of_model, "parameter names a parameter"},
        {another_input, "input has effects"},
        {wrong_call, "matmul"},
        {late_read, "reads state that was assigned before"},
    };
    weft_model *m = two_nets(NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const weft_distribution d = {.gradient = rows[i].build};
        weft_strategy s = own(&d);
        check_refused(m, &(weft_compile_options){.world = 2, .own_strategy = &s}, rows[i].says);
    }
    const weft_distribution zero = {.gradient = by_ranks, .zero = 1};
    weft_strategy s = own(&zero);
    check_refused(m, &(weft_compile_options){.world = 2, .own_strategy = &s},
                  "strategy mine: bucket a.0: ZeRO shards it, and only whole buckets");
    const weft_distribution scaled = {.gradient = halves};
    s = own(&scaled);
    check_refused(m, &(weft_compile_options){.world = 2, .own_strategy = &s, .precision = WEFT_F16},
                  "its sum keeps state, and gradients in f16 have another scale");
    weft_model_free(m);
}

/* What is compiled with a strategy of your own, with state, without the n-th allocation. */
TEST(a_strategy_without_memory_is_one_clean_error) {
    static const char *const cuts[] = {"a/fc1/weight"};
    static const weft_strategy_subgraph list[] = {{"b", {.bucket_cap_mb = 1}}};
    const weft_distribution d = {
        .gradient = halves, .n_cuts = 1, .cuts = cuts, .n_subgraphs = 1, .subgraphs = list};
    weft_strategy s = own(&d);
    faults f;
    faults_init(&f);
    for (long n = 1, step = 1;; n += step, step = n / 100 + 1) {
        weft_error error = {0};
        faults_arm(&f, n, 0, false);
        weft_model *m = weft_model_new_in("nets", &f.env);
        weft_graph *g = m ? weft_graph_new(m, "train", WEFT_TRAIN) : NULL;
        weft_value *x = g ? weft_input(g, "x", WEFT_F32, WEFT_SHAPE(4, 6)) : NULL;
        WEFT_SCOPE(x, "a") x = weft_linear(weft_linear(x, 3, "fc1", NULL), 3, "fc2", NULL);
        WEFT_SCOPE(x, "b") x = weft_linear(x, 3, "fc", NULL);
        if (x) weft_minimize(weft_sum(x, WEFT_ALL, false), NULL, &(weft_optimizer){.type = "sgd"});
        weft_compile_options o = {.world = 2, .threads = 1, .own_strategy = &s, .strategy = "mine:cap=0.5"};
        weft_plan *plan = m ? weft_compile(m, &o, &error) : NULL;
        bool hit = faults_hit(&f);
        CHECK_SAYS(plan || !m || (hit && error.status == WEFT_MEMORY), "allocation %ld: status %d: %s", n,
                   error.status, error.text);
        weft_plan_free(plan);
        weft_model_free(m);
        CHECK_SAYS(f.live == 0, "allocation %ld: %zu bytes leak", n, f.live);
        if (!hit) break;
    }
    faults_end(&f);
}

/* A clipped norm, an average and f16 read what the nodes return, too. */
TEST(clipping_reads_what_the_nodes_return) {
    const weft_distribution d = {.gradient = halves};
    weft_strategy s = own(&d);
    weft_model *m = weft_model_new("clipped");
    weft_value *x = weft_input(weft_graph_new(m, "train", WEFT_TRAIN), "x", WEFT_F32, WEFT_SHAPE(8, 12));
    WEFT_SCOPE(x, "net") x = weft_linear(weft_tanh(weft_linear(x, 6, "fc1", NULL)), 3, "fc2", NULL);
    weft_minimize(
        weft_mean(weft_square(x), WEFT_ALL, false), NULL,
        &(weft_optimizer){.type = "lamb", .lr = 0.01, .clip_norm = 0.05, .clip_value = 0.01, .ema = 0.9});
    static const weft_guard guards[] = {WEFT_GUARD_OFF, WEFT_GUARD_NAN, WEFT_GUARD_GRAD};
    world_job job = {.model = m, .options = {.accumulate = 2}, .steps = 4};
    world_rank *one = world_run(&job);
    for (int i = 0; i < 3; i++) {
        job.options = (weft_compile_options){
            .world = 2, .own_strategy = &s, .verify = true, .guard = guards[i], .bucket_cap_mb = 0.0001};
        world_rank *two = world_run(&job);
        world_check(one, two, 2, world_trained, "clipped");
        world_free(two);
    }
    world_free(one);
    weft_model_free(m);
}

/* ---- what a sum keeps, with bad steps and files ---- */

enum { KEPT_STEPS = 2 /* of each of two calls of world_train */ };
static const char kept_file[] = "strategy_kept.safetensors";

/* two_nets, and a graph that trains subgraph c on what a makes. */
static weft_model *three_nets(void) {
    weft_model *m = nets_where(NULL, "a,b");
    weft_value *x = weft_input(weft_graph_new(m, "other", WEFT_TRAIN), "x", WEFT_F32, WEFT_SHAPE(8, 12));
    WEFT_SCOPE(x, "a") x = weft_linear(weft_tanh(weft_linear(x, 16, "fc1", NULL)), 10, "fc2", NULL);
    WEFT_SCOPE(x, "c") x = weft_linear(weft_linear(x, 12, "fc1", NULL), 3, "fc2", NULL);
    weft_minimize(weft_mean(weft_square(x), WEFT_ALL, false), "c",
                  &(weft_optimizer){.type = "sgd", .name = "other", .lr = 0.1});
    CHECK_TEXT(weft_model_error(m)->text, "");
    return m;
}

/* halves() but in b, which is sharded, and summed as without a strategy. */
static weft_value *halves_but_b(const weft_bucket *b) {
    return strcmp(b->subgraph, "b") ? halves(b) : NULL;
}

/* A step of all ranks in which one rank has no number in one micro-batch. */
static void bad_step(world_rank *r, const char *graph, int rank, int micro) {
    float x[8 * 12];
    weft_status status = WEFT_OK;
    for (int i = 0; i < 96; i++) x[i] = r->rank == rank ? NAN : (float)i / 96;
    for (int i = 0; i < r->job->options.accumulate && !status; i++)
        status = i == micro
                     ? weft_run(r->session, graph, (weft_feed[]){{"x", x, sizeof x}}, 1, NULL, 0, &r->error)
                     : world_micro(r, graph, 100 + i, NULL);
    if (!status && r->job->options.manual) status = weft_run_update(r->session, graph, &r->error);
    CHECK_SAYS(status == WEFT_DATA, "rank %d of a bad step: %s", r->rank, r->error.text);
    r->error = (weft_error){0};
}

/* What halves() counts in each bucket of a and of c. */
static void check_kept(const world_rank *r, float steps) {
    static const tensor_type number = {.dtype = WEFT_F32};
    int buckets = 0;
    for (const weft_variable *v = r->plan->model->variables; v; v = v->next) {
        const float *kept =
            strategy_keeps(v->kind, v->path) ? store_memory(r->store, v->path, &number) : NULL;
        buckets += kept != NULL;
        if (kept) CHECK_SAYS(*kept == steps, "rank %d: %s is %g, not %g", r->rank, v->path, *kept, steps);
    }
    CHECK_SAYS(buckets > 3, "%d buckets", buckets);
    for (int i = 0; weft_store_path(r->store, i); i++)
        CHECK(!strstr(weft_store_path(r->store, i), "strategy"));
}

/* Good steps, the same again; where the context says so bad ones between them, and a file after them. */
static void around_bad_steps(world_rank *r) {
    int last = r->job->options.accumulate - 1;
    world_train(r);
    if (!r->job->context) {
        world_train(r);
        return;
    }
    check_kept(r, KEPT_STEPS);
    bad_step(r, "train", 0, 0);
    bad_step(r, "other", 1, last);
    bad_step(r, "train", 1, last);
    world_train(r);
    CHECK(weft_sync(r->session, &r->error) == WEFT_OK);
    check_kept(r, 2 * KEPT_STEPS);
    weft_session_save(r->session, r->rank ? NULL : kept_file, true, &r->error);
}

static void load_kept(world_rank *r) {
    weft_weights_load(r->store, kept_file, NULL, NULL, &r->error);
}

/* Two steps from the file on, where what is kept begins again. */
static void go_on_from_file(world_rank *r) {
    load_kept(r);
    world_train(r);
    weft_sync(r->session, &r->error);
    if (r->world > 1) check_kept(r, KEPT_STEPS);
}

static void check_file_keeps_nothing(void) {
    weft_error error = {0};
    weft_port port;
    weft_tensors *file = weft_tensors_open(kept_file, NULL, &error);
    NEED(file != NULL);
    CHECK(weft_tensors_at(file, 0, &port));
    for (int i = 0; weft_tensors_at(file, i, &port); i++)
        CHECK_SAYS(!strstr(port.name, "strategy"), "%s is in a file", port.name);
    weft_tensors_close(file);
}

static void check_what_is_kept(const weft_model *m, const weft_strategy *s, int accumulate, bool manual) {
    world_job alone = {
        .model = m, .options = {.accumulate = 2 * accumulate}, .steps = KEPT_STEPS, .run = around_bad_steps};
    world_job job = {.model = m, .steps = KEPT_STEPS, .run = around_bad_steps, .context = s};
    char what[60];
    snprintf(what, sizeof what, "accumulate %d, manual %d", accumulate, manual);
    job.options = (weft_compile_options){.world = 2,
                                         .accumulate = accumulate,
                                         .own_strategy = s,
                                         .guard = WEFT_GUARD_NAN,
                                         .manual = manual,
                                         .verify = true};
    world_rank *one = world_run(&alone), *two = world_run(&job);
    world_check(one, two, 2, world_trained, what);
    world_free(two);
    check_file_keeps_nothing();
    alone.run = load_kept;
    two = world_run(&alone);
    world_check(one, two, 1, world_trained, "loaded");
    world_free(two);
    world_free(one);
    alone.run = job.run = go_on_from_file;
    one = world_run(&alone), two = world_run(&job);
    world_check(one, two, 2, world_trained, "trained on from the file");
    world_free(two);
    world_free(one);
    remove(kept_file);
}

TEST(what_a_sum_keeps_counts_good_steps_and_is_in_no_file) {
    static const weft_strategy_subgraph list[] = {{"b", {.zero = 2}}};
    const weft_distribution d = {
        .gradient = halves_but_b, .n_subgraphs = 1, .subgraphs = list, .bucket_cap_mb = 0.0005};
    weft_strategy s = own(&d);
    weft_model *m = three_nets();
    for (int way = 0; way < 4; way++) check_what_is_kept(m, &s, 2 - way / 2, way % 2);
    weft_model_free(m);
}

/* ---- in a run ---- */

typedef struct seen {
    int opened, runs;
    float data[8 * 12];
    bool fails;
} seen;

static weft_status zeros_for_all(void *context, weft_session *session, const char *graph, weft_feed *feeds,
                                 int n_feeds, weft_error *error) {
    seen *s = context;
    (void)session;
    s->runs++;
    CHECK_TEXT(graph, "train");
    CHECK(n_feeds == 1 && strcmp(feeds[0].name, "x") == 0);
    feeds[0].data = s->data;
    if (!s->fails) return WEFT_OK;
    snprintf(error->text, sizeof error->text, "these numbers are bad");
    return error->status = WEFT_DATA;
}

static weft_status slower(void *context, weft_session *session, weft_store *store, weft_error *error) {
    seen *s = context;
    s->opened++;
    CHECK(session && store);
    return s->fails && s->opened > 1 ? WEFT_DATA : weft_store_set_lr(store, NULL, 0.5, error);
}

TEST(runs_ask_the_strategy_first) {
    seen s = {0};
    weft_strategy strategy = {
        .name = "mine", .before_forward = zeros_for_all, .after_setup_optimizers = slower, .context = &s};
    weft_model *m = two_nets(NULL);
    weft_error error;
    float x[8 * 12], loss, want;
    weft_feed in = {"x", x, sizeof x};
    weft_fetch out = {"loss", &loss, sizeof loss};
    for (int i = 0; i < 96; i++) x[i] = (float)i;
    weft_plan *plan = compile(m, &(weft_compile_options){.own_strategy = &strategy}, &error);
    weft_plan *plain = compile(m, &(weft_compile_options){0}, &error);
    weft_store *store = weft_store_new(plan, 1, &error), *other = weft_store_new(plain, 1, &error);
    weft_session *session = weft_session_open(plan, store, &error),
                 *usual = weft_session_open(plain, other, &error);
    NEED(session && usual);
    CHECK(s.opened == 1 && weft_run(session, "train", &in, 1, &out, 1, &error) == WEFT_OK && s.runs == 1);
    want = loss;
    in.data = s.data;
    CHECK(weft_run(usual, "train", &in, 1, &out, 1, &error) == WEFT_OK &&
          memcmp(&want, &loss, sizeof loss) == 0);
    CHECK(in.data == s.data);
    double lr = 0;
    CHECK(weft_store_get(store, "optimizer.adam:all/lr", &lr, sizeof lr, NULL) == WEFT_OK && lr == 0.5);
    s.fails = true;
    CHECK(weft_run(session, "train", &in, 1, &out, 1, &error) == WEFT_DATA);
    CHECK_HOLDS(error.text, "strategy mine: graph train: these numbers are bad");
    weft_session_close(session);
    session = weft_session_open(plan, store, &error);
    CHECK(!session);
    CHECK_HOLDS(error.text, "strategy mine: after_setup_optimizers failed");
    weft_session_close(session);
    weft_session_close(usual);
    weft_store_free(store);
    weft_store_free(other);
    weft_plan_free(plan);
    weft_plan_free(plain);
    weft_model_free(m);
}

/* ---- of a trainer ---- */

static const char *const steps[] = {"train", "val", "test"};

/* Runs of each graph. */
static weft_status count_runs(void *context, weft_session *session, const char *graph, weft_feed *feeds,
                              int n_feeds, weft_error *error) {
    int *runs = context;
    (void)session, (void)error;
    for (int i = 0; i < 3; i++) runs[i] += strcmp(graph, steps[i]) == 0 && n_feeds == 1 && feeds[0].data;
    return WEFT_OK;
}

static weft_status give_row(void *context, int64_t i, void *const *into, weft_error *error) {
    (void)context, (void)error;
    for (int k = 0; k < 12; k++) ((float *)into[0])[k] = (float)(i + k) / 32;
    return WEFT_OK;
}

TEST(steps_of_a_trainer_ask_the_strategy) {
    static const weft_source rows = {
        .count = 32, .n = 1, .arrays = {{"x", WEFT_F32, 1, {12}}}, .read = give_row};
    int runs[3] = {0};
    weft_error error = {0};
    weft_model *m = two_nets(NULL);
    for (int i = 1; i < 3; i++) {
        weft_value *x = weft_input(weft_graph_new(m, steps[i], WEFT_EVAL), "x", WEFT_F32, WEFT_SHAPE(8, 12));
        weft_output(weft_mean(weft_square(x), WEFT_ALL, false), "size");
    }
    weft_strategy strategy = {.name = "mine", .before_forward = count_runs, .context = runs};
    weft_dataset data = {1, (const weft_source *[]){&rows}};
    weft_trainer *t = weft_trainer_new(
        m,
        &(weft_trainer_options){
            .compile = {.own_strategy = &strategy}, .train = data, .val = data, .test = data, .epochs = 2},
        &error);
    NEED(t != NULL);
    CHECK_SAYS(!weft_trainer_fit(t, &error) && !weft_trainer_test(t, NULL, &error), "%s", error.text);
    CHECK_SAYS(runs[0] == 8 && runs[1] == 8 && runs[2] == 4, "%d, %d, %d", runs[0], runs[1], runs[2]);
    weft_trainer_free(t);
    weft_model_free(m);
}

static void ask_groups(world_rank *r) {
    weft_comm *a = weft_session_group(r->session, "a"), *b = weft_session_group(r->session, "b/fc/weight");
    CHECK(a && a->world == 1 && b && b->world == 2 && b->rank == r->rank);
    CHECK(!weft_session_group(r->session, "c") && !weft_session_group(NULL, "a"));
}

TEST(a_subgraph_has_its_group) {
    weft_model *m = two_nets(NULL);
    weft_model_set_ddp(m, "a", &(weft_ddp_options){.process_group = "0;1"});
    world_job job = {.model = m, .options = {.world = 2}, .run = ask_groups};
    world_free(world_run(&job));
    weft_model_free(m);
}

/* ---- ranks that differ, and what a rank logs ---- */

typedef struct member {
    pthread_t thread;
    const weft_model *model;
    weft_comm *comm;
    weft_error error;
} member;

static void *open_and_close(void *argument) {
    member *r = argument;
    weft_compile_options o = {.world = 2, .rank = r->comm->rank, .strategy = r->comm->rank ? "zero" : "ddp"};
    weft_plan *plan = compile(r->model, &o, &r->error);
    weft_store *store = plan ? weft_store_new(plan, 1, &r->error) : NULL;
    weft_session_close(store ? weft_session_open_on(plan, store, r->comm, &r->error) : NULL);
    weft_store_free(store);
    weft_plan_free(plan);
    weft_comm_free(r->comm);
    return NULL;
}

TEST(ranks_with_other_strategies_are_told_so) {
    weft_comm *comms[2];
    member ranks[2] = {0};
    weft_model *m = two_nets(NULL);
    NEED(weft_comm_threads(2, NULL, comms, NULL) == WEFT_OK);
    for (int i = 0; i < 2; i++) {
        ranks[i] = (member){.model = m, .comm = comms[i]};
        if (pthread_create(&ranks[i].thread, NULL, open_and_close, &ranks[i])) abort();
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(ranks[i].thread, NULL);
        CHECK(ranks[i].error.status == WEFT_PEER);
        CHECK_HOLDS(ranks[i].error.text, "the ranks do not agree: strategy ddp on rank 0, zero on rank 1");
    }
    weft_model_free(m);
}

typedef struct lines {
    char text[2000];
} lines;

static void keep_line(void *context, const char *line) {
    lines *l = context;
    if (!strncmp(line, "rank ", 5))
        snprintf(l->text + strlen(l->text), sizeof l->text - strlen(l->text), "%s\n", line);
}

TEST(a_rank_logs_once_who_it_is) {
    lines told = {""};
    weft_env env = {.log = keep_line, .log_context = &told};
    weft_model *m = two_nets(&env);
    weft_error error = {0};
    weft_comm *comm = weft_comm_self(NULL, &error);
    weft_plan *plan = compile(m, &(weft_compile_options){.strategy = "single"}, &error);
    weft_store *store = weft_store_new(plan, 1, &error);
    weft_session *s = weft_session_open_on(plan, store, comm, &error);
    CHECK_TEXT(told.text, "rank 0 of 1: cpu, self, strategy single\n");
    weft_session_close(s);
    weft_store_free(store);
    weft_plan_free(plan);
    weft_comm_free(comm);
    weft_model_free(m);
}

/* ---- connecting ---- */

static weft_comm *connects(const weft_launch *launch, const weft_comm_options *options, weft_error *error) {
    CHECK(launch->world == 3);
    (void)options;
    return weft_comm_self(NULL, error);
}

TEST(a_strategy_connects_or_one_rank_is_alone) {
    weft_launch one = {.launcher = "none", .world = 1}, three = {.launcher = "env", .world = 3};
    weft_strategy s = {.name = "mine"}, with = {.name = "mine", .connect = connects};
    weft_error error = {0};
    weft_comm *comm = weft_strategy_connect(&s, &one, NULL, &error);
    CHECK_SAYS(comm && comm->world == 1, "%s", error.text);
    weft_comm_free(comm);
    CHECK(!weft_strategy_connect(&s, &three, NULL, &error) && error.status == WEFT_ARGUMENT);
    CHECK_HOLDS(error.text,
                "strategy mine: a world of 3 ranks needs weft_strategy.connect, such as weft_comm_mpi");
    comm = weft_strategy_connect(&with, &three, NULL, &error);
    CHECK(comm != NULL);
    weft_comm_free(comm);
    comm = weft_strategy_connect(NULL, &one, NULL, &error);
    CHECK(comm != NULL);
    weft_comm_free(comm);
}

SUITE("strategies", {T(each_strategy_is_the_plan_of_the_options_that_it_stands_for),
                     T(every_strategy_trains_to_the_bits_of_one_rank),
                     T(strategies_are_listed_by_name),
                     T(what_a_strategy_does_not_take_is_refused),
                     T(an_option_that_contradicts_is_an_error),
                     T(a_model_and_its_files_keep_the_text),
                     T(a_name_in_a_file_loads_no_code),
                     T(hostile_texts_are_refused),
                     T(buckets_begin_at_the_cuts_and_nowhere_else),
                     T(cuts_change_no_bit),
                     T(subgraphs_of_a_strategy_have_its_options),
                     T(ones_own_strategy_is_checked_as_weft_s),
                     T(nodes_that_change_nothing_give_the_bits_of_none),
                     T(nodes_are_part_of_the_plan),
                     T(a_plan_for_a_gpu_has_the_nodes_too),
                     T(the_plans_of_all_ranks_fit_together),
                     T(wrong_sums_are_found_by_their_rules),
                     T(wrong_nodes_are_one_error),
                     T(a_strategy_without_memory_is_one_clean_error),
                     T(clipping_reads_what_the_nodes_return),
                     T(what_a_sum_keeps_counts_good_steps_and_is_in_no_file),
                     T(runs_ask_the_strategy_first),
                     T(steps_of_a_trainer_ask_the_strategy),
                     T(a_subgraph_has_its_group),
                     T(ranks_with_other_strategies_are_told_so),
                     T(a_rank_logs_once_who_it_is),
                     T(a_strategy_connects_or_one_rank_is_alone)})
