/* test_loss_scale.c - f16's dynamic loss scale: a step whose gradients overflow, on any rank, changes nothing
 * but the scale, bit for bit; good steps in a row let it grow; the numbers are torch.amp.GradScaler's. */
#include "runtime/plan/program.h"
#include "runtime/store/store.h"
#include "support/world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 4, WIDE = 16, STEPS = 4, BAD = 1 };

static weft_model *model(const weft_optimizer *optimizer) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, 2, (int64_t[]){ROWS, WIDE}), *y = x;
    WEFT_SCOPE(x, "net") y = weft_linear(weft_relu(weft_linear(x, 2 * WIDE, "a", NULL)), WIDE, "b", NULL);
    weft_value *loss = weft_mean(weft_square(y), WEFT_ALL, false);
    weft_minimize(loss, "", optimizer);
    weft_output(loss, "loss");
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return m;
}

/* ---- what a store holds ---- */

static double number(const weft_store *store, const char *end) {
    for (int i = 0; store_part_at(store, i); i++) {
        const store_part *p = store_part_at(store, i);
        size_t n = strlen(p->path), m = strlen(end);
        if (n > m && strcmp(p->path + n - m, end) == 0) return *(double *)p->memory;
    }
    return NAN;
}

/* All bytes but the scale's two numbers. */
static uint64_t digest(const weft_store *store) {
    uint64_t h = 1;
    for (int i = 0; store_part_at(store, i); i++) {
        const store_part *p = store_part_at(store, i);
        if (strstr(p->path, "loss_scale") || strstr(p->path, "good_steps")) continue;
        const unsigned char *bytes = (const unsigned char *)p->memory;
        size_t n = (size_t)(p->end - p->begin) * dtype_bytes(p->type.dtype);
        for (size_t k = 0; k < n; k++) h = (h ^ bytes[k]) * 0x100000001b3u;
    }
    return h;
}

/* ---- a training with one bad step ---- */

/* Step `step` of this rank; a bad one has a pixel that is infinite in f16, in the first micro-batch of the
 * last rank. */
static void take_step(world_rank *r, int step, bool is_bad) {
    int a = r->job->options.accumulate > 1 ? r->job->options.accumulate : 1;
    for (int i = 0; i < a && !r->error.status; i++) {
        float x[ROWS * WIDE];
        test_random random = {(uint64_t)(100 * step + 10 * r->rank + i)};
        for (int k = 0; k < ROWS * WIDE; k++) x[k] = (float)random_in(&random, -1, 1);
        if (is_bad && i == 0 && r->rank == r->world - 1) x[3] = 1e6f;
        weft_run(r->session, "step", (weft_feed[]){{"x", x, sizeof x}}, 1, NULL, 0, &r->error);
    }
    if (!r->error.status) weft_sync(r->session, &r->error);
}

static void train(world_rank *r) {
    for (int step = 0; step < STEPS && !r->error.status; step++) {
        uint64_t before = digest(r->store);
        take_step(r, step, step == BAD);
        bool is_same = before == digest(r->store);
        CHECK_SAYS(is_same == (step == BAD), "rank %d of %d: step %d %s", r->rank, r->world, step,
                   is_same ? "changed nothing" : "was not skipped");
        CHECK(number(r->store, "/loss_scale") == (step < BAD ? 65536 : 32768));
        CHECK(number(r->store, "/good_steps") == (step < BAD ? step + 1 : step - BAD));
        CHECK(number(r->store, "/step") == (step < BAD ? step + 1 : step));
    }
    for (int i = 0; store_part_at(r->store, i); i++) {
        const store_part *p = store_part_at(r->store, i);
        for (int64_t k = 0; p->type.dtype == WEFT_F32 && k < p->end - p->begin; k++)
            CHECK_SAYS(isfinite(((float *)p->memory)[k]), "%s is not finite", p->path);
    }
}

static const weft_optimizer optimizers[] = {
    {.type = "sgd", .lr = 0.1, .momentum = 0.9, .weight_decay = 0.1},
    {.type = "adam", .lr = 0.01, .clip_norm = 0.1, .clip_value = 0.05},
    {.type = "adamw", .lr = 0.01, .schedule = {{WEFT_SCHEDULE_STEP, .period = 2}}},
};

TEST(a_step_that_overflows_changes_nothing_but_the_scale) {
    static const struct {
        int world, accumulate, zero;
        weft_shard shard;
        weft_isa isa;
    } worlds[] = {{1, 1, 0, 0, WEFT_ISA_AUTO}, {1, 1, 0, 0, WEFT_ISA_REFERENCE},
                  {1, 3, 0, 0, WEFT_ISA_AUTO}, {2, 1, 0, 0, WEFT_ISA_AUTO},
                  {2, 2, 1, 0, WEFT_ISA_AUTO}, {3, 1, 2, WEFT_SHARD_FLAT, WEFT_ISA_AUTO}};
    for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++)
        for (size_t w = 0; w < sizeof worlds / sizeof *worlds; w++) {
            weft_model *m = model(&optimizers[i]);
            world_job job = {.model = m, .run = train, .steps = STEPS};
            job.options = (weft_compile_options){.world = worlds[w].world,
                                                 .accumulate = worlds[w].accumulate,
                                                 .zero = worlds[w].zero,
                                                 .shard = worlds[w].shard,
                                                 .isa = worlds[w].isa,
                                                 .precision = WEFT_F16,
                                                 .bucket_cap_mb = 1e-3,
                                                 .verify = true};
            world_free(world_run(&job));
            weft_model_free(m);
        }
}

static void grow(world_rank *r) {
    static const double scales[] = {1024, 2048, 2048, 4096, 4096, 2048, 2048, 4096};
    for (int step = 0; step < 8; step++) {
        take_step(r, step, step == 5);
        CHECK_SAYS(number(r->store, "/loss_scale") == scales[step], "step %d: %g", step,
                   number(r->store, "/loss_scale"));
    }
    CHECK(number(r->store, "/step") == 7);
}

TEST(good_steps_in_a_row_double_the_scale) {
    weft_model *m = model(&(weft_optimizer){.type = "sgd", .loss_scale = 1024, .growth_interval = 2});
    world_job job = {.model = m, .run = grow};
    job.options = (weft_compile_options){.precision = WEFT_F16};
    world_free(world_run(&job));
    weft_model_free(m);
}

/* Powers of two go through f32 and f16 without a trace as long as nothing leaves the range. */
TEST(the_scale_itself_does_not_move_the_parameters) {
    uint64_t digests[2];
    for (int i = 0; i < 2; i++) {
        weft_model *m = model(&(weft_optimizer){.type = "sgd", .lr = 0.1, .loss_scale = i ? 256 : 4096});
        world_job job = {.model = m, .steps = 3};
        job.options = (weft_compile_options){.precision = WEFT_F16};
        world_rank *r = world_run(&job);
        digests[i] = 0;
        const world_part *p = world_find(r, "net/b/weight");
        for (int64_t k = 0; k < p->end; k++) digests[i] = digests[i] * 31 + ((uint32_t *)p->data)[k];
        world_free(r);
        weft_model_free(m);
    }
    CHECK(digests[0] == digests[1]);
}

TEST(only_f16_has_a_scale) {
    static const weft_dtype dtypes[] = {WEFT_F32, WEFT_BF16};
    for (int i = 0; i < 2; i++) {
        weft_error e = {0};
        weft_model *m = model(&optimizers[0]);
        weft_plan *plan = weft_compile(m, &(weft_compile_options){.precision = dtypes[i]}, &e);
        char *text = weft_plan_text(plan);
        CHECK(text && !strstr(text, "loss_scale"));
        weft_text_free(text);
        weft_plan_free(plan);
        weft_model_free(m);
    }
}

TEST(what_one_minimize_judges_has_one_partition_of_ranks) {
    weft_error e = {0};
    weft_model *m = model(&optimizers[0]);
    weft_model_set_ddp(m, "net/a", &(weft_ddp_options){.process_group = "0-1;2-3"});
    weft_compile_options o = {.world = 4, .precision = WEFT_BF16};
    weft_plan *plan = weft_compile(m, &o, &e);
    CHECK_SAYS(plan != NULL, "%s", e.text);
    weft_plan_free(plan);
    o.precision = WEFT_F16;
    CHECK(weft_compile(m, &o, &e) == NULL);
    CHECK_HOLDS(e.text, "graph step judges (f16) the gradients of net");
    weft_model_free(m);
}

/* Another type's training continues from an f16 one's file, and the other way round. */
TEST(files_with_and_without_a_scale_load) {
    static const weft_dtype dtypes[] = {WEFT_F16, WEFT_BF16};
    char path[] = "/tmp/weft_scale_XXXXXX";
    int file = mkstemp(path);
    weft_error e = {0};
    weft_model *models[] = {model(&(weft_optimizer){.type = "adam", .loss_scale = 512}),
                            model(&(weft_optimizer){.type = "adam"})};
    CHECK(file >= 0);
    for (int from = 0; from < 2; from++)
        for (int to = 0; to < 2; to++) {
            weft_plan *plans[] = {
                weft_compile(models[from], &(weft_compile_options){.precision = dtypes[from]}, &e),
                weft_compile(models[to], &(weft_compile_options){.precision = dtypes[to]}, &e)};
            weft_store *stores[] = {weft_store_new(plans[0], 1, &e), weft_store_new(plans[1], 2, &e)};
            CHECK_SAYS(weft_weights_save(stores[0], path, true, &e) == WEFT_OK, "%s", e.text);
            CHECK_SAYS(weft_weights_load(stores[1], path, NULL, NULL, &e) == WEFT_OK, "%s", e.text);
            CHECK(to == 1 || number(stores[1], "/loss_scale") == 512);
            for (int i = 0; i < 2; i++) {
                weft_store_free(stores[i]);
                weft_plan_free(plans[i]);
            }
        }
    remove(path);
    for (int i = 0; i < 2; i++) weft_model_free(models[i]);
}

SUITE("loss scale",
      {T(a_step_that_overflows_changes_nothing_but_the_scale), T(good_steps_in_a_row_double_the_scale),
       T(the_scale_itself_does_not_move_the_parameters), T(only_f16_has_a_scale),
       T(what_one_minimize_judges_has_one_partition_of_ranks), T(files_with_and_without_a_scale_load)})
