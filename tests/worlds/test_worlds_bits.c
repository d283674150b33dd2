/* test_worlds_bits.c - many ranks train to the same bits as one: after 20 steps w ranks with a micro-batches
 * each have the parameters and, where they hold it, the optimizer's state of one rank that took all w * a.
 * Running statistics are each rank's own. The zoo's models are built narrower, by the zoo's own code; ranks
 * are threads. */
#include "examples/zoo.h"
#include "support/world.h"

#include <stdio.h>
#include <string.h>

enum { STEPS = 20, QUICK_STEPS = 3 };

/* ---- settings ---- */

typedef enum overlap { OVERLAP, SERIAL } overlap;
typedef enum cap { TINY, SMALL, DEFAULT } cap; /* a parameter a bucket; some; what fits 25 MiB */
typedef enum clip { FREE, CLIPPED } clip;
typedef enum kind { SGD, ADAM, ADAMW } kind;
typedef enum groups { ALIKE, GROUPS } groups; /* biases without decay, and faster */
typedef enum frozen { ALL, FROZEN } frozen;
enum { GREEDY = WEFT_SHARD_GREEDY, FLAT = WEFT_SHARD_FLAT };

typedef struct setting {
    int world, accumulate, zero, shard;
    overlap overlap;
    cap cap;
    clip clip;
    kind kind;
    groups groups;
    frozen frozen;
} setting;

/* Any two values of two columns (world with accumulate, zero with shard) meet in a line. */
static const setting settings[] = {
    {2, 1, 0, GREEDY, SERIAL, SMALL, FREE, ADAM, GROUPS, FROZEN},
    {4, 1, 2, FLAT, SERIAL, DEFAULT, FREE, SGD, GROUPS, FROZEN},
    {2, 2, 1, FLAT, OVERLAP, SMALL, CLIPPED, SGD, GROUPS, FROZEN},
    {3, 1, 2, GREEDY, OVERLAP, SMALL, FREE, SGD, GROUPS, FROZEN},
    {4, 1, 1, GREEDY, OVERLAP, DEFAULT, CLIPPED, SGD, GROUPS, FROZEN},
    {2, 1, 2, FLAT, OVERLAP, SMALL, CLIPPED, ADAM, ALIKE, ALL},
    {2, 2, 0, GREEDY, OVERLAP, TINY, CLIPPED, ADAMW, GROUPS, ALL},
    {3, 1, 1, FLAT, SERIAL, TINY, FREE, ADAM, ALIKE, ALL},
    {2, 1, 1, GREEDY, OVERLAP, TINY, CLIPPED, SGD, ALIKE, ALL},
    {2, 1, 1, FLAT, OVERLAP, DEFAULT, FREE, ADAMW, GROUPS, ALL},
    {2, 1, 2, GREEDY, SERIAL, TINY, CLIPPED, ADAMW, ALIKE, FROZEN},
    {3, 1, 0, GREEDY, SERIAL, DEFAULT, FREE, SGD, ALIKE, FROZEN},
    {3, 1, 1, GREEDY, OVERLAP, DEFAULT, CLIPPED, ADAM, GROUPS, FROZEN},
    {3, 1, 2, FLAT, OVERLAP, DEFAULT, FREE, ADAMW, GROUPS, FROZEN},
    {2, 2, 1, GREEDY, SERIAL, SMALL, FREE, ADAMW, GROUPS, FROZEN},
    {2, 2, 2, GREEDY, SERIAL, DEFAULT, CLIPPED, ADAM, ALIKE, ALL},
    {2, 2, 2, FLAT, SERIAL, TINY, CLIPPED, ADAM, ALIKE, ALL},
    {4, 1, 0, GREEDY, OVERLAP, TINY, FREE, ADAMW, ALIKE, ALL},
    {4, 1, 1, FLAT, SERIAL, SMALL, FREE, ADAM, ALIKE, ALL},
    {4, 1, 2, GREEDY, OVERLAP, SMALL, FREE, ADAMW, ALIKE, FROZEN},
};
enum { SETTINGS = sizeof settings / sizeof *settings, COLUMNS = 8, MOST_VALUES = 8 };

static const int n_values[COLUMNS] = {4, 5, 2, 3, 2, 3, 2, 2};

/* Column `column` of a line as a number below n_values. */
static int value_of(const setting *s, int column) {
    int of_world = s->world == 4 ? 3 : s->accumulate == 2 ? 2 : s->world - 2;
    int columns[COLUMNS] = {of_world,        s->zero ? 2 * s->zero - 1 + s->shard : 0,
                            (int)s->overlap, (int)s->cap,
                            (int)s->clip,    (int)s->kind,
                            (int)s->groups,  (int)s->frozen};
    return columns[column];
}

static bool meet(int a, int x, int b, int y) {
    for (int i = 0; i < SETTINGS; i++)
        if (value_of(&settings[i], a) == x && value_of(&settings[i], b) == y) return true;
    return false;
}

TEST(any_two_settings_meet) {
    for (int a = 0; a < COLUMNS; a++)
        for (int b = a + 1; b < COLUMNS; b++)
            for (int x = 0; x < n_values[a]; x++)
                for (int y = 0; y < n_values[b]; y++)
                    CHECK_SAYS(meet(a, x, b, y), "column %d is never %d while column %d is %d", a, x, b, y);
}

/* ---- models ---- */

typedef struct zoo_case {
    const char *name;
    zoo_options size;
    const char *freeze; /* a parameter amid the others */
} zoo_case;

static const zoo_entry *entry_of(const char *name) {
    for (int i = 0; i < ZOO_MODELS; i++)
        if (strcmp(zoo_models[i].name, name) == 0) return &zoo_models[i];
    return NULL;
}

static weft_optimizer optimizer_of(const setting *s) {
    static const char *const types[] = {[SGD] = "sgd", [ADAM] = "adam", [ADAMW] = "adamw"};
    static const weft_param_group bias = {"*bias", .lr_scale = 2, .decay_scale = WEFT_ZERO};
    weft_optimizer o = {.type = types[s->kind], .lr = 2e-3, .weight_decay = 0.05};
    if (s->kind == SGD) o.lr = 0.005, o.momentum = 0.9, o.nesterov = s->zero == 1;
    if (s->clip == CLIPPED) o.clip_norm = 0.3, o.clip_value = 0.02;
    if (s->groups == GROUPS) o.n_groups = 1, o.groups = &bias;
    return o;
}

static weft_model *build(const zoo_case *c, const setting *s) {
    zoo_options o = c->size;
    weft_optimizer optimizer = optimizer_of(s);
    weft_model *m = weft_model_new(c->name);
    o.optimizer = &optimizer;
    weft_model_set_batch(m, o.batch);
    entry_of(c->name)->build(m, &o);
    if (s->frozen == FROZEN) weft_freeze(m, c->freeze);
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return m;
}

/* ---- the same bits ---- */

/* Saturated or infinite losses would give equal bits whatever ranks do. */
static void check_losses(const world_rank *r, const char *what) {
    for (int i = 0; i < r->n_losses; i++)
        CHECK_SAYS(r->losses[i] > 1e-3f && r->losses[i] < 100, "%s: loss %g in run %d", what,
                   (double)r->losses[i], i);
    CHECK(r->n_losses > 1 && r->losses[0] != r->losses[r->n_losses - 1]);
}

static void check_setting(const zoo_case *c, const setting *s, int line) {
    static const double caps[] = {[TINY] = 1e-5, [SMALL] = 0.1, [DEFAULT] = 0};
    char what[100];
    weft_model *m = build(c, s);
    world_job one = {.model = m, .steps = test_is_quick() ? QUICK_STEPS : STEPS};
    one.options = (weft_compile_options){.accumulate = s->world * s->accumulate};
    world_job many = one;
    many.options = (weft_compile_options){.world = s->world,
                                          .accumulate = s->accumulate,
                                          .zero = s->zero,
                                          .shard = (weft_shard)s->shard,
                                          .serial = s->overlap == SERIAL,
                                          .bucket_cap_mb = caps[s->cap],
                                          .verify = line % 4 == 0};
    world_rank *alone = world_run(&one), *ranks = world_run(&many);
    snprintf(what, sizeof what, "%s, line %d of the settings", c->name, line);
    check_losses(alone, what);
    world_check(alone, ranks, s->world, world_trained, what);
    world_free(alone);
    world_free(ranks);
    weft_model_free(m);
}

static void check_model(const zoo_case *c, int shift) {
    for (int i = 0; i < SETTINGS; i++)
        if (!test_is_quick() || i % 4 == shift) check_setting(c, &settings[i], i);
}

#define SIZES .layers = 2, .d = 32, .heads = 2, .ctx = 8, .vocab = 10, .schedule_steps = 15

TEST(mlp_trains_to_the_same_bits_in_any_world) {
    check_model(&(zoo_case){"mlp", {SIZES, .batch = 3, .narrow = 3}, "net/fc2/weight"}, 0);
}

TEST(gpt_trains_to_the_same_bits_in_any_world) {
    check_model(&(zoo_case){"gpt", {SIZES, .batch = 2}, "gpt/blocks/0/*"}, 1);
}

TEST(dcgan28_trains_to_the_same_bits_in_any_world) {
    check_model(&(zoo_case){"dcgan28", {SIZES, .batch = 2, .narrow = 8}, "*up1*"}, 2);
}

TEST(convnet_trains_to_the_same_bits_in_any_world) {
    check_model(&(zoo_case){"convnet", {SIZES, .batch = 2, .narrow = 4}, "*conv2/*"}, 3);
}

/* Two optimizers in one graph, which runs each network three times. */
TEST(cyclegan_trains_to_the_same_bits_in_some_worlds) {
    const zoo_case c = {"cyclegan", {.batch = 1, .narrow = 16}, "G_A/model/12"};
    for (int i = 0; i < SETTINGS; i += 5)
        if (!test_is_quick() || i == 15) check_setting(&c, &settings[i], i);
}

/* Choices of experts, their queues and what they drop are integers: equal in any world, in bf16 too. */
TEST(experts_train_to_the_same_bits_in_bf16_with_zero_2) {
    static const setting adamw = {.world = 2, .accumulate = 2, .zero = 2, .kind = ADAMW, .clip = CLIPPED};
    weft_model *m = build(&(zoo_case){"moe", {.batch = 2, .narrow = 8}, NULL}, &adamw);
    world_job one = {.model = m, .steps = QUICK_STEPS, .classes = 65};
    one.options = (weft_compile_options){.accumulate = 4, .precision = WEFT_BF16};
    world_job many = one;
    many.options = (weft_compile_options){
        .world = 2, .accumulate = 2, .zero = 2, .precision = WEFT_BF16, .bucket_cap_mb = 0.1, .verify = true};
    world_rank *alone = world_run(&one), *ranks = world_run(&many);
    check_losses(alone, "moe");
    world_check(alone, ranks, 2, world_all, "moe in bf16");
    world_free(alone);
    world_free(ranks);
    weft_model_free(m);
}

SUITE("bits of worlds",
      {T(any_two_settings_meet), T(mlp_trains_to_the_same_bits_in_any_world),
       T(gpt_trains_to_the_same_bits_in_any_world), T(dcgan28_trains_to_the_same_bits_in_any_world),
       T(convnet_trains_to_the_same_bits_in_any_world), T(cyclegan_trains_to_the_same_bits_in_some_worlds),
       T(experts_train_to_the_same_bits_in_bf16_with_zero_2)})
