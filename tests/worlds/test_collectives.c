/* test_collectives.c - ops over ranks in graphs: what they give in worlds of 1 to 4 ranks and in process
 * groups, their gradients beside one rank with the whole batch, their place in plans, and their errors.
 * Ranks are threads. */
#include "graph/core/graph.h"
#include "ops/structure/ranks.h"
#include "runtime/plan/program.h"
#include "runtime/plan/value.h"
#include "runtime/verify/verify.h"
#include "support/models/over_ranks.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 4 };

static void run_values(int world, const over_ranks *v) {
    weft_model *m = over_ranks_values(v);
    world_job job = {
        .model = m, .options = {.world = world, .verify = true}, .run = over_ranks_check, .context = v};
    world_free(world_run(&job));
    job.options.unoptimized = true;
    world_free(world_run(&job));
    weft_model_free(m);
}

TEST(ops_over_ranks_give_what_loops_over_ranks_give) {
    static const weft_dtype dtypes[] = {WEFT_F32, WEFT_F64, WEFT_BF16, WEFT_F16, WEFT_I64, WEFT_I32};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (int world = 1; world <= MOST_RANKS; world++)
            run_values(world, &(over_ranks){.group = NULL, .n = world, .dtype = dtypes[d]});
}

TEST(ops_over_ranks_know_their_process_group) {
    run_values(4, &(over_ranks){.group = "0-1;2-3", .n = 2, .dtype = WEFT_F32});
    run_values(2, &(over_ranks){.group = "0;1", .n = 1, .dtype = WEFT_F32});
    run_values(3, &(over_ranks){.group = "0-2", .n = 3, .dtype = WEFT_F64});
    run_values(1, &(over_ranks){.group = "0-1;2-3", .n = 1, .dtype = WEFT_F32});
}

/* ---- gradients: ranks that share a batch train as one rank with the whole ---- */

static world_rank *train_contrast(int world, weft_compile_options options) {
    weft_model *m = over_ranks_model();
    options.world = world;
    options.batch = OVER_RANKS_BATCH / world;
    options.verify = true;
    world_rank *ranks =
        world_run(&(world_job){.model = m, .options = options, .run = over_ranks_train, .seed = 3});
    weft_model_free(m);
    return ranks;
}

/* The largest difference of parameters relative to the largest of them. */
static double apart(const world_rank *a, const world_rank *b) {
    double most = 0, scale = 1e-30;
    for (int i = 0; i < a->n_parts; i++) {
        const world_part *p = &a->parts[i], *q = world_find(b, p->path);
        if (p->width != sizeof(float) || !world_parameters(p->path) ||
            !CHECK(q && q->elements == p->elements))
            continue;
        for (int64_t k = 0; k < p->elements; k++) {
            double x = ((const float *)p->data)[k], y = ((const float *)q->data)[k];
            most = fmax(most, fabs(x - y));
            scale = fmax(scale, fabs(x));
        }
    }
    return most / scale;
}

TEST(ranks_that_share_a_batch_train_as_one_with_the_whole) {
    static const weft_compile_options options[] = {
        {.threads = 1}, {.accumulate = 2}, {.zero = 1, .bucket_cap_mb = 1e-4}, {.zero = 2, .accumulate = 3}};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        weft_compile_options alone = options[i];
        alone.zero = 0;
        world_rank *want = train_contrast(1, alone);
        for (int world = 2; world <= MOST_RANKS; world++) {
            world_rank *got = train_contrast(world, options[i]);
            char where[300];
            double by = apart(want, got);
            CHECK_SAYS(by < 1e-5, "options %zu, %d ranks: parameters differ by %g", i, world, by);
            for (int r = 1; r < world; r++)
                CHECK_SAYS(world_agrees(got, &got[r], world_parameters, where), "rank %d of %d differs in %s",
                           r, world, where);
            world_free(got);
        }
        world_free(want);
    }
}

/* ---- plans ---- */

static int count_over_ranks(const weft_plan *plan) {
    int count = 0;
    for (int i = 0; i < plan->n_programs; i++)
        for (const weft_node *n = plan->programs[i].graph->first; n; n = n->next)
            count += op_is_over_ranks(n->op) || node_starts_collective(n);
    return count;
}

TEST(one_rank_has_nothing_to_send) {
    weft_model *m = over_ranks_model();
    weft_error error = {0};
    for (int i = 0; i < 2; i++) {
        weft_plan *plan = weft_compile(m, &(weft_compile_options){.verify = true, .unoptimized = i}, &error);
        if (CHECK_SAYS(plan != NULL, "%s", error.text))
            CHECK(count_over_ranks(plan) == 0 && !weft_plan_note(plan, 0));
        weft_plan_free(plan);
    }
    weft_model_free(m);
}

TEST(micro_batches_of_one_rank_are_not_one_batch) {
    weft_model *m = over_ranks_model();
    weft_error error = {0};
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.accumulate = 3}, &error);
    const char *note = plan ? weft_plan_note(plan, 0) : NULL;
    CHECK_SAYS(note != NULL, "%s", error.text);
    if (note) CHECK_HOLDS(note, "sees one micro-batch: a step of 3 is not one of 3 times the batch");
    weft_plan_free(plan);
    weft_model_free(m);
}

TEST(the_plans_of_all_ranks_fit_together_and_say_that_they_differ_from_one) {
    weft_model *m = over_ranks_model();
    weft_plan *plans[3] = {0};
    weft_error error = {0};
    for (int zero = 0; zero <= 2; zero++) {
        for (int r = 0; r < 3; r++) {
            weft_compile_options o = {.world = 3, .rank = r, .batch = 4, .zero = zero, .bucket_cap_mb = 1e-4};
            plans[r] = weft_compile(m, &o, &error);
            NEED(plans[r] != NULL);
            CHECK(plans[r]->fingerprint == plans[0]->fingerprint);
        }
        CHECK_SAYS(verify_world((const weft_plan *const *)plans, 3, &error) == WEFT_OK, "%s", error.text);
        char *one = verify_rank_text(plans[0]), *other = verify_rank_text(plans[1]);
        CHECK(one && other && strcmp(one, other)); /* or the proof of a large world would leave a rank out */
        free(one);
        free(other);
        const char *note = weft_plan_note(plans[0], 0);
        if (CHECK(note != NULL)) {
            CHECK_HOLDS(note, "differs from one rank: ");
            CHECK_HOLDS(note, "over_ranks.c:");
            CHECK_HOLDS(note, "3 ranks train as one rank with 3 times the batch, not with 3 micro-batches");
        }
        for (int r = 0; r < 3; r++) weft_plan_free(plans[r]);
    }
    weft_model_free(m);
}

TEST(a_model_with_ops_over_ranks_is_saved_and_read) {
    weft_model *m = over_ranks_model();
    weft_error error = {0};
    char *text = weft_model_text(m);
    weft_model *back = text ? weft_model_parse(text, "text", NULL, &error) : NULL;
    char *again = back ? weft_model_text(back) : NULL;
    CHECK_SAYS(again && strcmp(text, again) == 0, "%s", error.text);
    const char *path = "test_collectives.bin";
    weft_model *loaded = weft_save(m, path, &error) ? NULL : weft_load(path, NULL, &error);
    char *third = loaded ? weft_model_text(loaded) : NULL;
    remove(path);
    CHECK_SAYS(third && strcmp(text, third) == 0, "%s", error.text);
    weft_text_free(text);
    weft_text_free(again);
    weft_text_free(third);
    weft_model_free(m);
    weft_model_free(back);
    weft_model_free(loaded);
}

/* Neither the batch nor the world need be along axis 0. */
TEST(results_have_the_shape_of_their_operand_wherever_the_batch_and_the_world_are) {
    static const weft_over_ranks how[] = {WEFT_RANKS_SUM, WEFT_RANKS_MEAN, WEFT_RANKS_MAX, WEFT_RANKS_MIN};
    for (int world = 1; world <= 3; world++)
        for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
            weft_model *m = weft_model_new("shapes");
            weft_graph *g = weft_graph_new(m, "eval", WEFT_EVAL);
            weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(3, WEFT_BATCH));
            weft_value *both = weft_matmul(x, weft_all_gather(x, 1, NULL), true, false); /* [B, world B] */
            weft_output(weft_all_reduce(x, how[i], NULL), "x");
            weft_output(weft_all_reduce(both, how[i], NULL), "both");
            weft_error error = {0};
            weft_plan *plan = weft_compile(m, &(weft_compile_options){.world = world, .batch = 8}, &error);
            weft_port one = {0}, two = {0};
            CHECK_SAYS(plan != NULL, "%s", error.text);
            CHECK(weft_plan_output(plan, "eval", 0, &one) && weft_plan_output(plan, "eval", 1, &two));
            CHECK(one.ndim == 2 && one.shape[0] == 3 && one.shape[1] == 8);
            CHECK(two.ndim == 2 && two.shape[0] == 8 && two.shape[1] == 8 * world);
            weft_plan_free(plan);
            weft_model_free(m);
        }
}

/* A text, or a file, cannot say what only passes do. */
TEST(a_sum_with_the_path_of_a_pass_is_refused) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "eval", WEFT_EVAL);
    weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(3));
    weft_output(node_value(g, &weft_op_sum_ranks, 1, &x, &(ranks_attrs){.path = "model"}), "y");
    for (int world = 1; world <= 2; world++) {
        weft_error error = {0};
        weft_plan *plan = weft_compile(m, &(weft_compile_options){.world = world}, &error);
        CHECK(!plan && error.status == WEFT_ARGUMENT);
        CHECK_HOLDS(error.text, "sum_ranks: only the compiler sets its path");
        weft_plan_free(plan);
    }
    weft_model_free(m);
}

/* ---- evaluation ---- */

static weft_status read_sample(void *context, int64_t i, void *const *into, weft_error *error) {
    (void)context, (void)error;
    memset(into[0], 0, 3 * sizeof(float));
    return WEFT_OK;
}

/* Ranks validate different batches: with several of them the trainer says so before the first step. */
static void open_trainer(world_rank *r) {
    weft_source samples = {.count = 7, .n = 1, .arrays = {{"x", WEFT_F32, 1, {3}}}, .read = read_sample};
    const weft_source *list[] = {&samples};
    const weft_trainer_options options = {
        .comm = r->comm, .train = {1, list, NULL}, .val = {1, list, NULL}, .iterations = 1};
    weft_error error = {0};
    weft_trainer *t = weft_trainer_new(r->job->model, &options, &error);
    CHECK((t != NULL) == (r->world == 1));
    if (r->world > 1) {
        CHECK(error.status == WEFT_UNSUPPORTED);
        CHECK_HOLDS(error.text, "graph val has an op over ranks, gather_ranks (");
        CHECK_HOLDS(error.text, "test_collectives.c:");
        CHECK_HOLDS(error.text, "weft_run() on all ranks");
    }
    weft_trainer_free(t);
}

TEST(a_validation_refuses_ops_over_several_ranks) {
    weft_model *m = weft_model_new("evaluated");
    weft_model_set_batch(m, 2);
    for (int i = 0; i < 2; i++) {
        weft_graph *g = weft_graph_new(m, i ? "val" : "step", i ? WEFT_EVAL : WEFT_TRAIN);
        weft_value *y = weft_linear(weft_input(g, "x", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, 3)), 2, "fc", NULL);
        weft_value *loss = weft_mean(weft_square(i ? weft_all_gather(y, 0, NULL) : y), WEFT_ALL, false);
        if (!i) weft_minimize(loss, "", &(weft_optimizer){.type = "sgd", .lr = 0.1});
        weft_output(loss, "loss");
    }
    for (int world = 1; world <= 2; world++)
        world_free(world_run(&(world_job){.model = m, .options = {.world = world}, .run = open_trainer}));
    weft_model_free(m);
}

/* ---- errors ---- */

static void check_refused(weft_value *(*build)(weft_value *x), weft_dtype dtype, int world,
                          const char *says) {
    weft_model *m = weft_model_new("refused");
    weft_graph *g = weft_graph_new(m, "eval", WEFT_EVAL);
    weft_error error = *weft_model_error(m);
    weft_value *y = build(weft_input(g, "x", dtype, WEFT_SHAPE(4, 3)));
    if (y) weft_output(y, "y");
    weft_plan *plan = NULL;
    if (weft_model_error(m)->status)
        error = *weft_model_error(m);
    else
        plan = weft_compile(m, &(weft_compile_options){.world = world}, &error);
    CHECK(!plan && error.status != WEFT_INTERNAL);
    CHECK_HOLDS(error.text, says);
    CHECK_HOLDS(error.text, "test_collectives.c:");
    weft_plan_free(plan);
    weft_model_free(m);
}

#define BUILDS(NAME, CALL)                                                                                   \
    static weft_value *NAME(weft_value *x) {                                                                 \
        return CALL;                                                                                         \
    }
BUILDS(no_group, weft_all_gather(x, 0, "0-"))
BUILDS(twice, weft_all_gather(x, 0, "0,1;1"))
BUILDS(high_rank, weft_all_gather(x, 0, "0-3"))
BUILDS(uneven, weft_all_gather(x, 0, "0-1"))
BUILDS(no_axis, weft_all_gather(x, 2, NULL))
BUILDS(no_axis_of_parts, weft_reduce_scatter(x, -3, WEFT_RANKS_SUM, NULL))
BUILDS(parts, weft_reduce_scatter(x, 0, WEFT_RANKS_SUM, NULL))
BUILDS(largest_parts, weft_reduce_scatter(x, 0, WEFT_RANKS_MAX, NULL))
BUILDS(no_such, weft_all_reduce(x, (weft_over_ranks)9, NULL))
BUILDS(whole_mean, weft_all_reduce(x, WEFT_RANKS_MEAN, NULL))
BUILDS(no_root, weft_broadcast(x, 3, NULL))
BUILDS(below_root, weft_broadcast(x, -1, NULL))
BUILDS(fixed, weft_reshape(weft_all_gather(x, 0, NULL), 2, (int64_t[]){4, 3}))

TEST(what_does_not_fit_the_ranks_is_one_error) {
    check_refused(no_group, WEFT_F32, 1, "group '0-': a group is ranks and ranges");
    check_refused(twice, WEFT_F32, 1, "group '0,1;1': a rank is named twice");
    check_refused(high_rank, WEFT_F32, 3, "group '0-3': a rank is not below the world");
    check_refused(uneven, WEFT_F32, 3, "group '0-1': groups must be of one size, with every rank in one");
    check_refused(no_axis, WEFT_F32, 1, "there is no such axis");
    check_refused(no_axis_of_parts, WEFT_F32, 1, "there is no such axis");
    check_refused(parts, WEFT_F32, 3, "axis 0 of f32[4,3] cannot be cut into equal parts for 3 ranks");
    check_refused(largest_parts, WEFT_F32, 2, "it takes sums and means");
    check_refused(no_such, WEFT_F32, 2, "no such weft_over_ranks");
    check_refused(whole_mean, WEFT_I64, 2, "integers have no mean");
    check_refused(no_root, WEFT_F32, 3, "root 3 is not a place in a group of 3 ranks");
    check_refused(below_root, WEFT_F32, 2, "root");
    check_refused(fixed, WEFT_F32, 2,
                  "but not 1 and 2: in shapes write -1 or WEFT_BATCH for what follows the batch or a gather");
    CHECK(!weft_all_reduce(NULL, WEFT_RANKS_SUM, NULL) && !weft_all_gather(NULL, 0, NULL));
    CHECK(!weft_reduce_scatter(NULL, 0, WEFT_RANKS_SUM, NULL) && !weft_broadcast(NULL, 0, NULL));
    CHECK(!weft_rank(NULL, NULL) && !weft_world(NULL, NULL));
}

SUITE("collectives",
      {T(ops_over_ranks_give_what_loops_over_ranks_give), T(ops_over_ranks_know_their_process_group),
       T(ranks_that_share_a_batch_train_as_one_with_the_whole), T(one_rank_has_nothing_to_send),
       T(micro_batches_of_one_rank_are_not_one_batch),
       T(the_plans_of_all_ranks_fit_together_and_say_that_they_differ_from_one),
       T(a_model_with_ops_over_ranks_is_saved_and_read),
       T(results_have_the_shape_of_their_operand_wherever_the_batch_and_the_world_are),
       T(a_sum_with_the_path_of_a_pass_is_refused), T(a_validation_refuses_ops_over_several_ranks),
       T(what_does_not_fit_the_ranks_is_one_error)})
