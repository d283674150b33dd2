/* test_poison.c - nothing is read before it is written: models train to the same bits whatever unwritten or
 * dead memory holds (support/mutants/poison.h), in worlds of 1 and 2, accumulated, sharded, in each
 * precision. */
#include "examples/zoo.h"
#include "graph/core/graph.h"
#include "graph/core/kernel.h"
#include "ops/cpu/isa.h"
#include "support/mutants/poison.h"
#include "support/models/random_model.h"
#include "support/world.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STEPS = 2 };

/* ---- one model, one way of running it ---- */

static void train_poisoned(world_rank *r) {
    const int *byte = r->job->context;
    poison *p = poison_put(r->session, *byte);
    world_train(r);
    if (!r->error.status) weft_sync(r->session, &r->error);
    CHECK_SAYS(poison_end(p) > 0 || r->error.status, "no kernel ran");
}

typedef weft_model *model_builder(const void *what, const weft_env *env);

/* NULL bits: as it comes, without any poison. */
static world_rank *train(model_builder *build, const void *what, const weft_compile_options *options,
                         const int *byte) {
    weft_model *m = build(what, byte ? poison_env(*byte) : NULL);
    world_job job = {.model = m, .options = *options, .steps = STEPS, .context = byte};
    if (byte) job.run = train_poisoned;
    world_rank *ranks = world_run(&job);
    for (int i = 0; i < (options->world ? options->world : 1); i++) ranks[i].job = NULL;
    weft_model_free(m);
    return ranks;
}

/* Whether there was something to compare: a model may be refused. */
static bool check(model_builder *build, const void *what, const weft_compile_options *options,
                  const char *name) {
    static const int bytes[] = {POISON_NAN, POISON_LARGE, POISON_ZERO};
    int world = options->world ? options->world : 1;
    char where[300], said[200];
    snprintf(said, sizeof said, "%.60s, isa %d, world %d, zero %d, accumulate %d, precision %d", name,
             options->isa, world, options->zero, options->accumulate, options->precision);
    world_rank *plain = train(build, what, options, NULL);
    for (size_t b = 0; b < sizeof bytes / sizeof *bytes; b++) {
        world_rank *ranks = train(build, what, options, &bytes[b]);
        for (int r = 0; r < world; r++) {
            CHECK_SAYS(world_agrees(&plain[r], &ranks[r], world_all, where), "%s, poison %02x, rank %d: %s",
                       said, (unsigned)bytes[b], r, where);
            CHECK_SAYS(
                plain[r].n_losses == ranks[r].n_losses &&
                    !memcmp(plain[r].losses, ranks[r].losses, sizeof(float) * (size_t)plain[r].n_losses),
                "%s, poison %02x, rank %d: other losses", said, (unsigned)bytes[b], r);
        }
        world_free(ranks);
    }
    bool is_run = !plain->error.status;
    world_free(plain);
    return is_run;
}

/* ---- the zoo ---- */

typedef struct zoo_case {
    const char *name;
    zoo_options size;
} zoo_case;

static weft_model *build_zoo(const void *what, const weft_env *env) {
    const zoo_case *c = what;
    weft_model *m = weft_model_new_in(c->name, env);
    weft_model_set_batch(m, c->size.batch);
    for (int i = 0; i < ZOO_MODELS; i++)
        if (strcmp(zoo_models[i].name, c->name) == 0) zoo_models[i].build(m, &c->size);
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return m;
}

TEST(the_zoo_trains_to_the_same_bits_whatever_memory_holds) {
    static const weft_compile_options ways[] = {
        {.world = 1},
        {.world = 1, .isa = WEFT_ISA_AVX2, .accumulate = 3},
        {.world = 2},
        {.world = 2, .zero = 1, .isa = WEFT_ISA_SSE2},
        {.world = 2, .zero = 2, .shard = WEFT_SHARD_FLAT, .accumulate = 2},
        {.world = 1, .precision = WEFT_BF16},
        {.world = 2, .zero = 2, .precision = WEFT_F16},
        {.world = 1, .isa = WEFT_ISA_REFERENCE},
    };
    static const zoo_case zoo[] = {
        {"mlp", {.batch = 3, .narrow = 3, .schedule_steps = 15}},
        {"gpt", {.batch = 2, .layers = 2, .d = 32, .heads = 2, .ctx = 8, .vocab = 10, .schedule_steps = 15}},
        {"dcgan28", {.batch = 2, .narrow = 8, .schedule_steps = 15}},
        {"convnet", {.batch = 2, .narrow = 4, .schedule_steps = 15}},
    };
    for (size_t z = 0; z < sizeof zoo / sizeof *zoo; z++)
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
            if (ways[w].isa <= isa_best() && (!test_is_quick() || (z + w) % 4 == 0))
                check(build_zoo, &zoo[z], &ways[w], zoo[z].name);
}

/* ---- as valgrind sees it ---- */

/* Without poison: test_valgrind.sh runs this, and valgrind reports the use of undefined memory. */
TEST(what_a_step_leaves_is_defined) {
    static const zoo_case zoo[] = {
        {"mlp", {.batch = 2, .narrow = 12, .schedule_steps = 15}},
        {"gpt", {.batch = 1, .layers = 1, .d = 16, .heads = 2, .ctx = 4, .vocab = 10, .schedule_steps = 15}},
        {"dcgan28", {.batch = 2, .narrow = 16, .schedule_steps = 15}},
        {"convnet", {.batch = 2, .narrow = 16, .schedule_steps = 15}},
    };
    static const weft_compile_options ways[] = {{.world = 1}, {.world = 2, .zero = 2, .accumulate = 2}};
    for (size_t i = 0; i < sizeof zoo / sizeof *zoo; i++) {
        world_rank *ranks = train(build_zoo, &zoo[i], &ways[i % 2], NULL);
        for (int p = 0; p < ranks->n_parts; p++)
            for (int64_t k = 0;
                 k < (ranks->parts[p].end - ranks->parts[p].begin) && ranks->parts[p].width == 4; k++)
                if (!CHECK_SAYS(isfinite(((const float *)ranks->parts[p].data)[k]), "%s: %s[%d]", zoo[i].name,
                                ranks->parts[p].path, (int)k))
                    break;
        world_free(ranks);
    }
}

/* ---- gradients that are views ---- */

static weft_model *load(const void *what, const weft_env *env) {
    char path[300];
    weft_error e = {0};
    snprintf(path, sizeof path, TEST_DATA "/attack/%s", (const char *)what);
    weft_model *m = weft_load(path, env, &e);
    CHECK_SAYS(m != NULL, "%s", e.text);
    return m;
}

TEST(gradients_that_are_views_hold_nothing_that_was_there_before) {
    static const char *const files[] = {"cast_sum.bin", "mean_grad_wrong.bin", "permute_grad_wrong.bin",
                                        "rowsum_grad_wrong.bin"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        for (int w = 1; w <= 2; w++)
            check(load, files[i], &(weft_compile_options){.world = w, .zero = w - 1, .accumulate = w},
                  files[i]);
}

/* ---- models at random ---- */

typedef struct random_case {
    uint64_t seed;
    int world;
} random_case;

static weft_model *build_random(const void *what, const weft_env *env) {
    const random_case *c = what;
    test_random r = {c->seed};
    weft_model *m = random_model(&r, c->world);
    if (env) m->env = *env; /* what has come from malloc already goes back there all the same */
    return m;
}

TEST(random_models_train_to_the_same_bits_whatever_memory_holds) {
    int count = test_count(24, 6);
    for (int i = 0; i < count; i++) {
        random_case c = {.seed = test_seed(100) + (uint64_t)i, .world = 1 + i % 2};
        test_random r = {c.seed};
        char name[60];
        weft_compile_options options = random_options(&r, c.world);
        snprintf(name, sizeof name, "random model, seed %d", (int)c.seed);
        test_case_begin();
        test_case_end(!check(build_random, &c, &options, name));
    }
}

SUITE("poison", {T(what_a_step_leaves_is_defined), T(the_zoo_trains_to_the_same_bits_whatever_memory_holds),
                 T(gradients_that_are_views_hold_nothing_that_was_there_before),
                 T(random_models_train_to_the_same_bits_whatever_memory_holds)})
