/* test_relations.c - trainings that must have the same bits: a random model
 * (support/models/random_training.h) is trained once, and again in a way that changes nothing: on more
 * ranks with fewer micro-batches each, in another ZeRO stage, with other buckets, by manual steps, guarded,
 * from its text or its file, resumed from saved weights in another world. Each loss, each parameter and all
 * of the optimizers' state are compared. test_relations_trainer.c does so with the trainer's flows,
 * checkpoints, validations and skipped steps. */
#include "support/models/random_training.h"
#include "support/world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCH = TRAINING_BATCH, CLASSES = TRAINING_CLASSES, STEPS = 3 };

/* ---- another way to train it ---- */

typedef struct variant {
    weft_compile_options options;
    bool by_text, by_file;
    int resumed;                 /* the first step after the resume; 0: none */
    weft_compile_options before; /* of the steps before it */
    char said[400];
} variant;

static variant draw_variant(test_random *r, const random_training *d) {
    variant v = {.by_text = random_one_in(r, 4)};
    const int micros[] = {d->options.world * d->options.accumulate, 0};
    training_layout(r, d, micros, &v.options);
    v.by_file = !v.by_text && random_one_in(r, 6);
    if (!d->is_local && random_one_in(r, 3)) {
        v.resumed = 1 + random_below(r, STEPS - 1);
        training_layout(r, d, micros, &v.before);
        v.before.bucket_cap_mb = random_one_in(r, 2) ? v.options.bucket_cap_mb : v.before.bucket_cap_mb;
        v.before.guard = v.options.guard; /* a spike's mean is part of what is resumed */
    }
    const weft_compile_options *o = &v.options;
    snprintf(v.said, sizeof v.said,
             "seed %llu: world %d x %d micro-batches, zero %d, shard %d, cap %g, serial %d, manual %d, guard "
             "%d, text %d, "
             "file %d, resumed at %d (before: world %d, zero %d, shard %d, cap %g, manual %d)",
             (unsigned long long)d->seed, o->world, o->accumulate, o->zero, o->shard, o->bucket_cap_mb,
             o->serial, o->manual, o->guard, v.by_text, v.by_file, v.resumed, v.before.world, v.before.zero,
             v.before.shard, v.before.bucket_cap_mb, v.before.manual);
    return v;
}

/* ---- training ---- */

static char weights[100];

static void name_weights(void) {
    snprintf(weights, sizeof weights, "relations-%d.st", (int)getpid());
}

static void load_weights(world_rank *r) {
    weft_weights_load(r->store, weights, NULL, NULL, &r->error);
}

static void train_and_save(world_rank *r) {
    world_train(r);
    if (!r->error.status) weft_session_save(r->session, weights, true, &r->error);
}

static world_rank *train(const weft_model *m, const weft_compile_options *o, int from, int to, bool saves) {
    world_job job = {.model = m,
                     .options = *o,
                     .steps = to - from,
                     .classes = CLASSES,
                     .first = (int64_t)from * o->world * o->accumulate,
                     .stored = from ? load_weights : NULL,
                     .run = saves ? train_and_save : NULL};
    world_rank *ranks = world_run_any(&job, true);
    for (int i = 0; i < o->world; i++) ranks[i].job = NULL;
    return ranks;
}

/* ---- comparing ---- */

/* What each rank has for itself, and the mean of losses that only one of the guards keeps. */
static bool is_compared(const char *path) {
    return !strstr(path, "/running_") && strncmp(path, "running_", 8) && !strstr(path, "/loss_mean.");
}

static const weft_error *first_error(const world_rank *ranks, int world) {
    for (int i = 0; i < world; i++)
        if (ranks[i].error.status && ranks[i].error.status != WEFT_PEER) return &ranks[i].error;
    for (int i = 0; i < world; i++)
        if (ranks[i].error.status) return &ranks[i].error;
    return NULL;
}

/* Losses of the last micro-batch of each step, which is the last rank's. */
static bool same_losses(const world_rank *want, int from, const world_rank *got) {
    int graphs = want->n_losses / STEPS, skip = from * graphs;
    return got->n_losses == want->n_losses - skip &&
           !memcmp(want->losses + skip, got->losses, sizeof(float) * (size_t)got->n_losses);
}

static void compare(const random_training *d, const world_rank *base, const world_rank *got,
                    const variant *v) {
    char where[300];
    for (int i = 0; i < v->options.world; i++) {
        const world_rank *want = d->is_local ? &base[i] : base;
        CHECK_SAYS(world_agrees(want, &got[i], is_compared, where), "%s: rank %d differs in %s", v->said, i,
                   where);
        if (d->is_local || i == v->options.world - 1)
            CHECK_SAYS(same_losses(want, v->resumed, &got[i]), "%s: rank %d has other losses", v->said, i);
    }
}

static void try_variant(const random_training *d, const world_rank *base, const variant *v) {
    weft_model *copy = v->by_text || v->by_file ? training_copy(d->model, v->by_file) : NULL;
    const weft_model *m = copy ? copy : d->model;
    const weft_error *e = NULL;
    world_rank *first = v->resumed ? train(m, &v->before, 0, v->resumed, true) : NULL;
    if (first) e = first_error(first, v->before.world);
    world_rank *got = e ? NULL : train(m, &v->options, v->resumed, STEPS, false);
    if (got) e = first_error(got, v->options.world);
    if (CHECK_SAYS(!e, "%s: %s", v->said, e ? e->text : "")) compare(d, base, got, v);
    if (first) world_free(first);
    if (got) world_free(got);
    remove(weights);
    weft_model_free(copy);
}

/* Only finite trainings are compared: a guard ends others, and without a guard they continue. */
static bool is_finite(const world_rank *ranks, int world) {
    for (int i = 0; i < world; i++)
        for (int k = 0; k < ranks[i].n_losses; k++)
            if (!isfinite(ranks[i].losses[k])) return false;
    return true;
}

/* False: it is not finite. */
static bool check_model(uint64_t seed, int variants) {
    test_random own = {seed * 0x9e3779b97f4a7c15u}, *r = &own;
    random_training d = training_draw(seed, r);
    if (!CHECK_SAYS(weft_model_error(d.model)->status == WEFT_OK, "seed %llu: %s", (unsigned long long)seed,
                    weft_model_error(d.model)->text)) {
        weft_model_free(d.model);
        return true;
    }
    world_rank *base = train(d.model, &d.options, 0, STEPS, false);
    const weft_error *e = first_error(base, d.options.world);
    bool is_run = !e && is_finite(base, d.options.world);
    CHECK_SAYS(!e, "seed %llu: %s", (unsigned long long)seed, e ? e->text : "");
    for (int i = 0; is_run && i < variants; i++) {
        variant v = draw_variant(r, &d);
        try_variant(&d, base, &v);
    }
    world_free(base);
    weft_model_free(d.model);
    return is_run;
}

TEST(what_changes_nothing_changes_no_bit) {
    uint64_t seed = test_seed(1);
    int models = test_count(60, 12), variants = test_is_quick() ? 2 : 4, run = 0;
    name_weights();
    for (int i = 0; i < models; i++) {
        test_case_begin();
        bool is_run = check_model(seed + (uint64_t)i, variants);
        test_case_end(!is_run);
        run += is_run;
    }
    CHECK_SAYS(10 * run >= 9 * models, "only %d of %d models have finite losses", run, models);
}

/* ---- trainings that were wrong once ---- */

/* Two networks of two layers, with an optimizer each, and one loss. */
static weft_model *two_networks(weft_optimizer first, weft_optimizer second, const char *schedule) {
    weft_error e = {0};
    weft_model *m = weft_model_new("two");
    weft_value *x =
        weft_input(weft_graph_new(m, "step", WEFT_TRAIN), "x", WEFT_F32, 2, (int64_t[]){BATCH, 5});
    weft_optimizer both[] = {first, second};
    static const char *const scopes[] = {"first", "second"};
    for (int i = 0; i < 2; i++) {
        WEFT_SCOPE(x, scopes[i]) {
            x = weft_linear(weft_relu(weft_linear(x, 9, "in", NULL)), 7, "out", NULL);
        }
    }
    weft_value *loss = weft_mean(weft_square(weft_offset(x, -0.5)), WEFT_ALL, false);
    for (int i = 0; i < 2; i++) {
        both[i].name = scopes[i];
        both[i].lr = 0.01;
        if (schedule && !i) CHECK_SAYS(!weft_schedule_text(schedule, both[i].schedule, &e), "%s", e.text);
        weft_minimize(loss, scopes[i], &both[i]);
    }
    weft_output(loss, "loss");
    return m;
}

/* A layout that was refused, or had other bits, beside one bucket in one rank. */
static void try_layout(const weft_model *m, weft_compile_options o, const char *what) {
    random_training d = {.options = {.world = 1, .accumulate = o.world * o.accumulate, .verify = true}};
    variant v = {.options = o};
    v.options.verify = true;
    d.model = (weft_model *)m;
    snprintf(v.said, sizeof v.said, "%s: world %d, zero %d, cap %g", what, o.world, o.zero, o.bucket_cap_mb);
    world_rank *base = train(m, &d.options, 0, STEPS, false);
    const weft_error *e = first_error(base, 1);
    if (CHECK_SAYS(!e, "%s: %s", what, e ? e->text : "")) try_variant(&d, base, &v);
    world_free(base);
}

/* LARS with a schedule of its decay over several buckets: rule L21 refused it, or its bits were others. And
 * optimizers whose updates are many nodes, where some ranks have no range of a bucket (test_verify.c proves
 * that their collectives come in one order). */
TEST(layouts_that_were_refused_or_differed_train_to_the_bits_of_one_bucket) {
    const weft_optimizer lars = {.type = "lars", .momentum = 0.9, .weight_decay = 0.02},
                         rprop = {.type = "rprop"}, adam = {.type = "adam", .ema = 0.9};
    weft_model *decays = two_networks(lars, adam, "cosine:1-8,of=weight_decay,to=3"),
               *steps = two_networks(rprop, adam, NULL), *mixed = two_networks(lars, adam, NULL);
    name_weights();
    for (int world = 1; world <= 4; world *= 2)
        for (int zero = 0; zero <= 2; zero += 2) {
            weft_compile_options o = {
                .world = world, .accumulate = 4 / world, .zero = zero, .bucket_cap_mb = 1e-4};
            try_layout(decays, o, "lars");
        }
    for (int world = 2; world <= 4; world *= 2) {
        weft_compile_options o = {.world = world, .accumulate = 4 / world, .zero = 1, .bucket_cap_mb = 1e-4};
        try_layout(mixed, o, "lars beside adam");
        o.shard = WEFT_SHARD_FLAT;
        try_layout(steps, o, "rprop");
    }
    weft_model_free(decays);
    weft_model_free(steps);
    weft_model_free(mixed);
}

SUITE("relations", {T(what_changes_nothing_changes_no_bit),
                    T(layouts_that_were_refused_or_differed_train_to_the_bits_of_one_bucket)})
