/* test_worlds.c - ranks that differ: in their plans, in what they run, in failures. Each gets an error that
 * names the difference and the ranks, and none waits for ever. Ranks are threads. (Ranks that agree:
 * test_worlds_*.c.) */
#include "support/world.h"

#include <string.h>

enum { ROWS = 6, WIDE = 12, HIDDEN = 24 };

/* ---- models: graphs a and b over one net ---- */

static weft_model *two_graphs(int64_t hidden) {
    weft_model *m = weft_model_new("m");
    for (int i = 0; i < 2; i++) {
        weft_graph *g = weft_graph_new(m, i ? "b" : "a", WEFT_TRAIN);
        weft_value *x = weft_input(g, "x", WEFT_F32, 2, (int64_t[]){ROWS, WIDE});
        weft_value *y = weft_input(g, "y", WEFT_U8, 1, (int64_t[]){ROWS});
        WEFT_SCOPE(x, "net") x = weft_linear(weft_relu(weft_linear(x, hidden, "fc1", NULL)), 3, "fc2", NULL);
        weft_minimize(weft_cross_entropy(x, y, NULL), "net", &(weft_optimizer){.type = "sgd"});
    }
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return m;
}

/* ---- before the first step ---- */

typedef struct opener {
    pthread_t thread;
    weft_comm *comm;
    const weft_model *model;
    weft_error error;
} opener;

static void *open_session(void *argument) {
    opener *o = argument;
    weft_compile_options options = {.threads = 1, .world = 2, .rank = o->comm->rank};
    weft_plan *plan = weft_compile(o->model, &options, &o->error);
    weft_store *store = weft_store_new(plan, 1, &o->error);
    weft_session *s = weft_session_open_on(plan, store, o->comm, &o->error);
    CHECK(s == NULL);
    weft_session_close(s);
    weft_store_free(store);
    weft_plan_free(plan);
    weft_comm_free(o->comm);
    return NULL;
}

TEST(ranks_with_different_plans_are_told_before_the_first_step) {
    opener o[2] = {{0}};
    weft_comm *comms[2];
    weft_model *models[2] = {two_graphs(HIDDEN), two_graphs(HIDDEN + 1)};
    CHECK(weft_comm_threads(2, NULL, comms, NULL) == WEFT_OK);
    for (int i = 0; i < 2; i++) {
        o[i].comm = comms[i];
        o[i].model = models[i];
        CHECK(pthread_create(&o[i].thread, NULL, open_session, &o[i]) == 0);
    }
    for (int i = 0; i < 2; i++) CHECK(pthread_join(o[i].thread, NULL) == 0);
    for (int i = 0; i < 2; i++) {
        CHECK_SAYS(o[i].error.status == WEFT_PEER, "%s", o[i].error.text);
        CHECK_HOLDS(o[i].error.text, "plan ");
        weft_model_free(models[i]);
    }
}

TEST(a_plan_for_several_ranks_needs_their_communicator) {
    weft_model *m = two_graphs(HIDDEN);
    weft_error error = {0};
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.world = 2}, &error);
    weft_store *store = weft_store_new(plan, 1, &error);
    CHECK(weft_session_open(plan, store, &error) == NULL);
    CHECK_HOLDS(error.text, "for a world of 2, the communicator has 1");
    weft_store_free(store);
    weft_plan_free(plan);
    weft_model_free(m);
}

/* ---- while they train ---- */

/* Two steps of graph a together; what comes after them is up to the test. */
static bool two_steps(world_rank *r) {
    for (int i = 0; i < 2; i++) world_micro(r, "a", i, NULL);
    return !r->error.status;
}

static world_rank *run_pair(void (*run)(world_rank *r)) {
    static const int stages[] = {0, 1, 2};
    static int next;
    weft_model *m = two_graphs(HIDDEN);
    world_job job = {
        .model = m, .classes = 3, .run = run, .comm = &(weft_comm_options){.deadline_seconds = 2}};
    job.options = (weft_compile_options){.world = 2, .bucket_cap_mb = 1e-5, .zero = stages[next++ % 3]};
    world_rank *ranks = world_run_any(&job, true);
    weft_model_free(m);
    return ranks;
}

static void part_ways(world_rank *r) {
    if (two_steps(r)) world_micro(r, r->rank ? "b" : "a", 2, NULL);
}

TEST(ranks_that_run_different_graphs_are_told_which) {
    for (int i = 0; i < 3; i++) {
        world_rank *r = run_pair(part_ways);
        for (int k = 0; k < 2; k++) {
            CHECK_SAYS(r[k].error.status == WEFT_PEER, "rank %d: %s", k, r[k].error.text);
            CHECK_HOLDS(r[k].error.text, "program");
        }
        world_free(r);
    }
}

/* A label that the loss does not have: the run fails after its forward. */
static void fail_alone(world_rank *r) {
    world_job wild = *r->job;
    if (!two_steps(r)) return;
    if (r->rank) wild.classes = 100;
    r->job = &wild;
    world_micro(r, "a", 2, NULL);
}

TEST(an_error_on_one_rank_ends_the_others_too) {
    for (int i = 0; i < 3; i++) {
        world_rank *r = run_pair(fail_alone);
        CHECK_SAYS(r[1].error.status == WEFT_DATA, "%s", r[1].error.text);
        CHECK_SAYS(r[0].error.status == WEFT_PEER, "%s", r[0].error.text);
        world_free(r);
    }
}

/* One batch more than the other rank. The end of the run, without a partner, reveals it. */
static void run_one_more(world_rank *r) {
    if (two_steps(r) && r->rank) world_micro(r, "a", 2, NULL);
}

TEST(a_rank_with_a_batch_more_is_told_that_the_other_has_left) {
    world_rank *r = run_pair(run_one_more);
    CHECK_SAYS(r[1].error.status == WEFT_PEER, "%s", r[1].error.text);
    CHECK_HOLDS(r[1].error.text, "rank 0");
    world_free(r);
}

SUITE("worlds",
      {T(ranks_with_different_plans_are_told_before_the_first_step),
       T(a_plan_for_several_ranks_needs_their_communicator),
       T(ranks_that_run_different_graphs_are_told_which), T(an_error_on_one_rank_ends_the_others_too),
       T(a_rank_with_a_batch_more_is_told_that_the_other_has_left)})
