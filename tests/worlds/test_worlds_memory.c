/* test_worlds_memory.c - the memory that ZeRO saves, from the plans of all ranks; nothing runs here. */
#include "examples/zoo.h"
#include "support/test.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 4 };

/* ---- plans ---- */

static weft_model *build(const char *name, double clip_norm) {
    weft_optimizer adam = {.type = "adam", .clip_norm = clip_norm};
    zoo_options o = ZOO_DEFAULTS;
    weft_model *m = weft_model_new(name);
    o.optimizer = &adam;
    o.d = 64, o.heads = 2, o.ctx = 16, o.layers = 4;
    weft_model_set_batch(m, 2);
    for (int i = 0; i < ZOO_MODELS; i++)
        if (strcmp(zoo_models[i].name, name) == 0) zoo_models[i].build(m, &o);
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return m;
}

static weft_plan *compile(const weft_model *m, weft_compile_options o) {
    weft_error error = {0};
    o.threads = 1;
    weft_plan *plan = weft_compile(m, &o, &error);
    CHECK_SAYS(plan != NULL, "%s", error.text);
    return plan;
}

static weft_memory memory_of(const weft_model *m, weft_compile_options o) {
    weft_plan *plan = compile(m, o);
    weft_memory memory = weft_plan_memory(plan);
    weft_plan_free(plan);
    return memory;
}

/* ---- stage 1: the optimizer's state ---- */

/* Beside the state each rank has the optimizer's step and rate, and padding: a line of memory a variable. */
static void check_shares(const char *name, int zero, weft_shard shard, double cap_mb) {
    weft_model *m = build(name, 0);
    weft_compile_options o = {.world = RANKS, .bucket_cap_mb = cap_mb};
    weft_memory whole = memory_of(m, o);
    uint64_t sum = 0, most = 0, room = 64 * 2 * 40 * RANKS;
    o.zero = zero;
    o.shard = shard;
    for (o.rank = 0; o.rank < RANKS; o.rank++) {
        weft_memory own = memory_of(m, o);
        sum += own.optimizer;
        if (own.optimizer > most) most = own.optimizer;
        CHECK(own.parameters == whole.parameters);
    }
    CHECK_SAYS(sum >= whole.optimizer && sum <= whole.optimizer + room,
               "%s, zero %d: %llu bytes of optimizer on one rank, %llu on %d together", name, zero,
               (unsigned long long)whole.optimizer, (unsigned long long)sum, RANKS);
    CHECK_SAYS(shard != WEFT_SHARD_FLAT || most < whole.optimizer / RANKS * 11 / 10 + room,
               "%s, zero %d, flat: a rank has %llu of %llu", name, zero, (unsigned long long)most,
               (unsigned long long)whole.optimizer);
    weft_model_free(m);
}

TEST(the_shares_of_all_ranks_are_the_optimizer_of_one) {
    static const char *const names[] = {"mlp", "convnet", "dcgan28", "gpt"};
    for (int i = 0; i < 4; i++)
        for (int zero = 1; zero < 3; zero++) {
            check_shares(names[i], zero, WEFT_SHARD_GREEDY, 0);
            check_shares(names[i], zero, WEFT_SHARD_FLAT, 0.5);
        }
}

/* ---- stage 2: gradients ---- */

static json_t *json_of(const weft_plan *plan) {
    char *text = weft_plan_json(plan);
    json_t *json = text ? json_loads(text, 0, NULL) : NULL;
    weft_text_free(text);
    CHECK(json != NULL);
    return json;
}

static size_t buckets_of(const weft_model *m, weft_compile_options o) {
    weft_plan *plan = compile(m, o);
    json_t *json = json_of(plan);
    json_t *first = json_array_get(json_object_get(json, "subgraphs"), 0);
    size_t n = json_array_size(json_object_get(first, "buckets"));
    json_decref(json);
    weft_plan_free(plan);
    return n;
}

/* The arena of a rank in stage 1 and in stage 2. */
static void stages(const weft_model *m, weft_isa isa, uint64_t arena[2]) {
    weft_compile_options o = {
        .world = RANKS, .bucket_cap_mb = 1.0 / 16, .shard = WEFT_SHARD_FLAT, .isa = isa, .zero = 1};
    weft_memory one = memory_of(m, o);
    CHECK(buckets_of(m, o) > 3);
    o.zero = 2;
    weft_memory two = memory_of(m, o);
    CHECK(two.optimizer == one.optimizer && one.gradients == 0 && two.gradients == 0);
    arena[0] = one.activations;
    arena[1] = two.activations;
}

/* With clipping all gradients are there at once, before the first update: of stage 1 whole buckets, of stage
 * 2 what this rank owns. Without, a bucket goes as soon as it is used. The share is that of reference
 * kernels, which need no workspace: others need what the processor asks for, in either stage (oneDNN for
 * AVX2: 900 KiB for each product of this gpt). */
static void check_gradients(const char *name, double clip_norm, double share) {
    weft_model *m = build(name, clip_norm);
    uint64_t reference[2], best[2];
    stages(m, WEFT_ISA_REFERENCE, reference);
    stages(m, WEFT_ISA_AUTO, best);
    CHECK_SAYS((double)reference[1] < share * (double)reference[0],
               "%s, clip %g: an arena of %llu bytes in stage 2, of %llu in stage 1", name, clip_norm,
               (unsigned long long)reference[1], (unsigned long long)reference[0]);
    CHECK_SAYS(best[1] < best[0],
               "%s, clip %g: with this processor's kernels %llu bytes in stage 2, %llu in stage 1", name,
               clip_norm, (unsigned long long)best[1], (unsigned long long)best[0]);
    weft_model_free(m);
}

TEST(stage_2_needs_less_memory_than_stage_1) {
    check_gradients("gpt", 1, 0.7);
    check_gradients("resnet18", 1, 0.7);
    check_gradients("gpt", 0, 0.7);
}

static void check_held(int zero, int accumulate, bool want) {
    weft_model *m = build("mlp", 0);
    weft_plan *plan =
        compile(m, (weft_compile_options){.world = RANKS, .zero = zero, .accumulate = accumulate});
    json_t *json = json_of(plan);
    json_t *g = json_array_get(json_object_get(json, "subgraphs"), 0);
    json_t *held = json_object_get(g, "holds_full_gradients");
    CHECK_SAYS(json_is_boolean(held) && json_is_true(held) == want, "zero %d, accumulate %d", zero,
               accumulate);
    CHECK(json_integer_value(json_object_get(g, "zero")) == zero);
    if (accumulate > 1) CHECK(weft_plan_memory(plan).gradients >= weft_plan_memory(plan).parameters);
    json_decref(json);
    weft_plan_free(plan);
    weft_model_free(m);
}

TEST(a_plan_tells_who_holds_full_gradients) {
    check_held(0, 1, true);
    check_held(1, 1, true);
    check_held(2, 1, false);
    check_held(2, 2, true); /* those of the micro-batches before the last */
}

SUITE("memory of worlds",
      {T(the_shares_of_all_ranks_are_the_optimizer_of_one), T(stage_2_needs_less_memory_than_stage_1),
       T(a_plan_tells_who_holds_full_gradients)})
