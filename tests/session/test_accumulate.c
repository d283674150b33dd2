/* test_accumulate.c - steps of several micro-batches: counted by weft_run, or ended explicitly after
 * weft_run_no_sync, of any length up to the plan's; graphs and sessions that need one gradient buffer at
 * once; ranks that do not sync. */
#include "support/test.h"
#include "weft/weft.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 4, WIDTH = 5, WEIGHTS = 512 };

/* ---- a model of two subgraphs, and what runs it ---- */

static weft_value *network(weft_value *x) {
    WEFT_SCOPE(x, "left") x = weft_tanh(weft_linear(x, 9, "fc", NULL));
    WEFT_SCOPE(x, "right") x = weft_linear(x, 2, "fc", NULL);
    return x;
}

/* A training graph `name` over both subgraphs. */
static void add_graph(weft_model *m, const char *name, const char *pattern, const weft_optimizer *optimizer) {
    weft_graph *g = weft_graph_new(m, name, WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, 2, (int64_t[]){ROWS, WIDTH});
    weft_value *loss = weft_mse(network(x), weft_input(g, "t", WEFT_F32, 2, (int64_t[]){ROWS, 2}), NULL);
    weft_minimize(loss, pattern, optimizer);
    weft_output(loss, "loss");
}

static weft_model *build(const weft_optimizer *optimizer) {
    weft_model *m = weft_model_new("m");
    add_graph(m, "step", "", optimizer);
    weft_graph *g = weft_graph_new(m, "predict", WEFT_EVAL);
    weft_output(network(weft_input(g, "x", WEFT_F32, 2, (int64_t[]){ROWS, WIDTH})), "y");
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return m;
}

typedef struct rig {
    weft_plan *plan;
    weft_store *store;
    weft_session *session;
    weft_error error;
} rig;

static rig rig_open(const weft_model *m, weft_compile_options options, weft_comm *comm) {
    rig r = {0};
    options.threads = 1;
    options.verify = true;
    r.plan = weft_compile(m, &options, &r.error);
    r.store = r.plan ? weft_store_new(r.plan, 3, &r.error) : NULL;
    r.session = r.store ? weft_session_open_on(r.plan, r.store, comm, &r.error) : NULL;
    CHECK_SAYS(r.session != NULL, "%s", r.error.text);
    return r;
}

static void rig_close(rig *r) {
    weft_session_close(r->session);
    weft_store_free(r->store);
    weft_plan_free(r->plan);
}

/* Micro-batch `number` of a fixed sequence through a graph. */
static weft_status micro(rig *r, const char *graph, int64_t number, bool no_sync) {
    float x[ROWS * WIDTH], t[ROWS * 2];
    test_random random = {(uint64_t)number + 1};
    for (int i = 0; i < ROWS * WIDTH; i++) x[i] = (float)random_in(&random, -1, 1);
    for (int i = 0; i < ROWS * 2; i++) t[i] = (float)random_in(&random, -1, 1);
    weft_feed feeds[] = {{"x", x, sizeof x}, {"t", t, sizeof t}};
    return (no_sync ? weft_run_no_sync : weft_run)(r->session, graph, feeds, 2, NULL, 0, &r->error);
}

/* A step of n micro-batches from `first` on; by hand all but the last run without sync. */
static void step(rig *r, int64_t first, int n, bool by_hand) {
    for (int i = 0; i < n; i++)
        CHECK_SAYS(micro(r, "step", first + i, by_hand && i < n - 1) == WEFT_OK, "%s", r->error.text);
}

typedef struct weights {
    float at[WEIGHTS];
    int n;
} weights;

/* What is trained; into `from` the other way. */
static weights exchange(const rig *r, const weights *from) {
    weights w = {.n = 0};
    const char *path;
    CHECK(weft_sync(r->session, NULL) == WEFT_OK);
    for (int i = 0; (path = weft_store_path(r->store, i)); i++) {
        int64_t shape[WEFT_MAX_NDIM], n = 1;
        int ndim = weft_store_shape(r->store, path, NULL, shape);
        if (strncmp(path, "optimizer.", 10) == 0) continue;
        for (int k = 0; k < ndim; k++) n *= shape[k];
        if (w.n + n > WEIGHTS) break;
        if (from) CHECK(weft_store_set(r->store, path, from->at + w.n, (size_t)n * 4, NULL) == WEFT_OK);
        CHECK(weft_store_get(r->store, path, w.at + w.n, (size_t)n * 4, NULL) == WEFT_OK);
        w.n += (int)n;
    }
    CHECK(w.n > 60);
    return w;
}

static bool are_equal(const weights *a, const weights *b) {
    return a->n == b->n && memcmp(a->at, b->at, (size_t)a->n * sizeof(float)) == 0;
}

/* ---- weft_run_no_sync ---- */

TEST(steps_ended_by_hand_give_the_bits_of_counted_ones) {
    static const int lengths[] = {2, 3, 4, 5, 7, 8};
    weft_model *m = build(&(weft_optimizer){.type = "adam", .lr = 1e-2, .clip_norm = 0.1});
    for (size_t i = 0; i < 2 * sizeof lengths / sizeof *lengths; i++) {
        int k = lengths[i / 2];
        weights w[2];
        for (int by_hand = 0; by_hand < 2; by_hand++) {
            weft_isa isa = i % 2 ? WEFT_ISA_AUTO : WEFT_ISA_REFERENCE;
            rig r = rig_open(m, (weft_compile_options){.accumulate = k, .isa = isa}, NULL);
            for (int s = 0; s < 4; s++) step(&r, s * k, k, by_hand);
            w[by_hand] = exchange(&r, NULL);
            rig_close(&r);
        }
        CHECK_SAYS(are_equal(&w[0], &w[1]), "%d micro-batches", k);
    }
    weft_model_free(m);
}

/* A step of n micro-batches in a plan for k is one of a plan for n at n / k of the learning rate. With k / n
 * a power of two both scalings are exact, so the bits agree: whatever longer steps have left in the levels
 * above. */
static void check_short_steps(const weft_model *m, weft_isa isa, int k, const int *lengths) {
    rig r = rig_open(m, (weft_compile_options){.accumulate = k, .isa = isa}, NULL);
    for (int s = 0; lengths[s]; s++) {
        int n = lengths[s];
        rig peer = rig_open(m, (weft_compile_options){.accumulate = n, .isa = isa}, NULL);
        weights before = exchange(&r, NULL), after[2];
        exchange(&peer, &before);
        CHECK(weft_store_set_lr(peer.store, NULL, 0.1 * n / k, NULL) == WEFT_OK);
        step(&peer, 100 * s, n, false);
        step(&r, 100 * s, n, true);
        after[0] = exchange(&peer, NULL);
        after[1] = exchange(&r, NULL);
        CHECK(!are_equal(&before, &after[0]));
        CHECK_SAYS(are_equal(&after[0], &after[1]), "step %d: %d of %d micro-batches", s, n, k);
        rig_close(&peer);
    }
    rig_close(&r);
}

TEST(a_step_may_end_early_after_longer_ones) {
    weft_model *m = build(&(weft_optimizer){.type = "sgd", .lr = 0.1});
    for (int isa = 0; isa < 2; isa++) {
        check_short_steps(m, isa ? WEFT_ISA_AUTO : WEFT_ISA_REFERENCE, 24, (int[]){24, 3, 6, 12, 3, 0});
        check_short_steps(m, isa ? WEFT_ISA_AUTO : WEFT_ISA_REFERENCE, 20, (int[]){5, 20, 10, 5, 0});
        check_short_steps(m, isa ? WEFT_ISA_AUTO : WEFT_ISA_REFERENCE, 16, (int[]){16, 2, 8, 4, 2, 0});
    }
    weft_model_free(m);
}

TEST(wrong_runs_without_sync_say_what_to_do) {
    weft_model *m = build(&(weft_optimizer){.type = "sgd", .lr = 0.1});
    rig one = rig_open(m, (weft_compile_options){0}, NULL);
    CHECK(micro(&one, "step", 0, true) == WEFT_ORDER);
    CHECK_HOLDS(one.error.text, "compile with options.accumulate");
    CHECK(micro(&one, "nope", 0, true) == WEFT_NAME);
    rig_close(&one);

    rig three = rig_open(m, (weft_compile_options){.accumulate = 3}, NULL), counted;
    CHECK(micro(&three, "predict", 0, true) == WEFT_ORDER);
    CHECK_HOLDS(three.error.text, "graph predict adds no gradients");
    CHECK(micro(&three, "step", 0, true) == WEFT_OK);
    float x[ROWS * WIDTH] = {0}; /* a run that is refused does not count */
    CHECK(weft_run_no_sync(three.session, "step", (weft_feed[]){{"x", x, sizeof x}}, 1, NULL, 0, NULL) ==
          WEFT_NAME);
    CHECK(micro(&three, "step", 1, true) == WEFT_OK);
    for (int i = 0; i < 2; i++) { /* and the session continues */
        CHECK(micro(&three, "step", 2, true) == WEFT_ORDER);
        CHECK_HOLDS(three.error.text, "micro-batch 3 of 3 ends the step");
    }
    CHECK(micro(&three, "step", 2, false) == WEFT_OK);
    counted = rig_open(m, (weft_compile_options){.accumulate = 3}, NULL);
    step(&counted, 0, 3, false);
    weights a = exchange(&three, NULL), b = exchange(&counted, NULL);
    CHECK(are_equal(&a, &b));
    rig_close(&counted);
    rig_close(&three);
    weft_model_free(m);
}

TEST(counted_runs_before_one_without_sync_belong_to_its_step) {
    weft_model *m = build(&(weft_optimizer){.type = "sgd", .lr = 0.1});
    weights before, w[2];
    for (int i = 0; i < 2; i++) {
        rig r = rig_open(m, (weft_compile_options){.accumulate = 8}, NULL);
        before = exchange(&r, NULL);
        CHECK(micro(&r, "step", 0, i) == WEFT_OK);
        CHECK(micro(&r, "step", 1, true) == WEFT_OK);
        CHECK(micro(&r, "step", 2, false) == WEFT_OK);
        w[i] = exchange(&r, NULL);
        for (int k = 0; k < 7; k++) CHECK(micro(&r, "step", k, false) == WEFT_OK); /* by count again */
        weights later = exchange(&r, NULL);
        CHECK(are_equal(&w[i], &later));
        rig_close(&r);
    }
    CHECK(are_equal(&w[0], &w[1]) && !are_equal(&w[0], &before));
    weft_model_free(m);
}

TEST(a_step_of_one_micro_batch_takes_a_second_plan_on_the_store) {
    weft_model *m = build(&(weft_optimizer){.type = "adam", .lr = 1e-2});
    rig r = rig_open(m, (weft_compile_options){.accumulate = 4}, NULL), single = r;
    single.plan = weft_compile(m, &(weft_compile_options){.threads = 1}, &r.error);
    single.session = weft_session_open(single.plan, r.store, &r.error);
    NEED(single.session);
    weights before = exchange(&r, NULL);
    CHECK(micro(&single, "step", 0, false) == WEFT_OK);
    weights after = exchange(&r, NULL);
    CHECK(!are_equal(&before, &after));
    step(&r, 1, 3, true);
    CHECK(micro(&single, "step", 4, false) == WEFT_OK);
    weft_session_close(single.session);
    weft_plan_free(single.plan);
    rig_close(&r);
    weft_model_free(m);
}

/* ---- one gradient buffer, two graphs ---- */

static weft_model *build_two(const char *pattern_b) {
    weft_model *m = weft_model_new("m");
    weft_optimizer sgd = {.type = "sgd", .lr = 0.1};
    add_graph(m, "a", strcmp(pattern_b, "right") ? "" : "left", &sgd);
    add_graph(m, "b", pattern_b, &sgd);
    return m;
}

TEST(a_graph_cannot_begin_a_step_amid_anothers_over_the_same_parameters) {
    weft_model *m = build_two("left");
    rig r = rig_open(m, (weft_compile_options){.accumulate = 3}, NULL), quiet;
    CHECK(micro(&r, "a", 0, false) == WEFT_OK);
    for (int no_sync = 0; no_sync < 2; no_sync++) {
        CHECK(micro(&r, "b", 1, no_sync) == WEFT_ORDER);
        CHECK_HOLDS(r.error.text, "graph b cannot begin a step");
        CHECK_HOLDS(r.error.text, "graph a trains the same parameters and has added 1 micro-batches");
    }
    for (int i = 1; i < 3; i++) CHECK(micro(&r, "a", i, false) == WEFT_OK);
    for (int i = 0; i < 2; i++) CHECK(micro(&r, "b", i, false) == WEFT_OK);
    CHECK(micro(&r, "a", 0, false) == WEFT_ORDER);
    CHECK_HOLDS(r.error.text, "graph b trains the same");
    CHECK(micro(&r, "b", 2, false) == WEFT_OK);

    quiet =
        rig_open(m, (weft_compile_options){.accumulate = 3}, NULL); /* the same without what was refused */
    for (int i = 0; i < 6; i++) CHECK(micro(&quiet, i < 3 ? "a" : "b", i % 3, false) == WEFT_OK);
    weights a = exchange(&r, NULL), b = exchange(&quiet, NULL);
    CHECK(are_equal(&a, &b));
    rig_close(&quiet);
    rig_close(&r);
    weft_model_free(m);
}

TEST(graphs_over_different_parameters_may_take_turns_by_micro_batches) {
    weft_model *m = build_two("right");
    rig r = rig_open(m, (weft_compile_options){.accumulate = 2}, NULL);
    for (int i = 0; i < 8; i++)
        CHECK_SAYS(micro(&r, i % 2 ? "b" : "a", i / 2, false) == WEFT_OK, "%s", r.error.text);
    rig_close(&r);
    weft_model_free(m);
}

/* All sessions of a store share its buffers: a session that was disturbed gets an error and starts again. */
TEST(a_session_that_lost_its_gradients_to_another_is_told) {
    weft_model *m = build(&(weft_optimizer){.type = "sgd", .lr = 0.1});
    rig r = rig_open(m, (weft_compile_options){.accumulate = 2}, NULL), other = r;
    other.session = weft_session_open(r.plan, r.store, &r.error);
    NEED(other.session);
    CHECK(micro(&r, "step", 0, false) == WEFT_OK);
    CHECK(micro(&other, "step", 1, false) == WEFT_OK);
    CHECK(micro(&r, "step", 2, false) == WEFT_ORDER);
    CHECK_HOLDS(r.error.text, "another session used the store in the middle of its step");
    CHECK(micro(&other, "step", 3, false) == WEFT_OK); /* it was not disturbed */
    for (int i = 0; i < 2; i++) CHECK(micro(&r, "step", i, false) == WEFT_OK);
    weft_session_close(other.session);
    rig_close(&r);
    weft_model_free(m);
}

/* ---- a world ---- */

typedef struct rank {
    pthread_t thread;
    weft_comm *comm;
    const weft_model *model;
    int steps; /* each of one run without sync and one with; 0: runs without sync alone */
    weights w;
} rank;

static void *train(void *argument) {
    rank *a = argument;
    rig r = rig_open(a->model, (weft_compile_options){.accumulate = 8, .world = 2, .rank = a->comm->rank},
                     a->comm);
    if (a->steps == 0)
        for (int i = 0; i < 7; i++) CHECK(micro(&r, "step", i, true) == WEFT_OK);
    for (int s = 0; s < a->steps; s++) step(&r, 4 * s + 2 * a->comm->rank, 2, true);
    a->w = exchange(&r, NULL);
    rig_close(&r);
    weft_comm_free(a->comm);
    return NULL;
}

static void count_event(void *context, const weft_comm_event *event) {
    if (event->collective->run) atomic_fetch_add((atomic_int *)context, 1);
}

static int train_pair(const weft_model *m, int steps, rank ranks[2]) {
    atomic_int count = 0;
    weft_comm *comms[2];
    weft_comm_options options = {.event = count_event, .event_context = &count};
    CHECK(weft_comm_threads(2, &options, comms, NULL) == WEFT_OK);
    for (int i = 0; i < 2; i++) {
        ranks[i] = (rank){.comm = comms[i], .model = m, .steps = steps};
        CHECK(pthread_create(&ranks[i].thread, NULL, train, &ranks[i]) == 0);
    }
    for (int i = 0; i < 2; i++) CHECK(pthread_join(ranks[i].thread, NULL) == 0);
    return count;
}

TEST(ranks_communicate_only_in_runs_that_end_a_step) {
    static rank ranks[2];
    weft_model *m = build(&(weft_optimizer){.type = "sgd", .lr = 0.1});
    CHECK(train_pair(m, 0, ranks) == 0);
    int count = train_pair(m, 3, ranks);
    CHECK_SAYS(count == 2 * 3 * 2, "%d", count); /* ranks, steps, buckets: one of each subgraph */
    rig one = rig_open(m, (weft_compile_options){.accumulate = 4}, NULL);
    CHECK(weft_store_set_lr(one.store, NULL, 0.1 * 4 / 16, NULL) == WEFT_OK);
    for (int s = 0; s < 3; s++) step(&one, 4 * s, 4, false);
    weights w = exchange(&one, NULL);
    for (int i = 0; i < 2; i++) CHECK_SAYS(are_equal(&w, &ranks[i].w), "rank %d", i);
    rig_close(&one);
    weft_model_free(m);
}

/* The first bucket's sum over ranks begins before the last bucket is full, or nothing hides it. */
TEST(sums_over_ranks_begin_amid_the_last_backward) {
    weft_model *m = build(&(weft_optimizer){.type = "sgd", .lr = 0.1});
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.accumulate = 2, .world = 2}, NULL);
    NEED(plan);
    char *text = weft_plan_text(plan);
    const char *last = strstr(text, "graph step.last"), *bucket = strstr(last, "= bucket(");
    const char *sum = strstr(last, "= all_reduce("), *next = strstr(bucket + 1, "= bucket(");
    CHECK_SAYS(bucket < sum && sum < next, "%s", text);
    weft_text_free(text);
    weft_plan_free(plan);
    weft_model_free(m);
}

SUITE("accumulate",
      {T(steps_ended_by_hand_give_the_bits_of_counted_ones), T(a_step_may_end_early_after_longer_ones),
       T(wrong_runs_without_sync_say_what_to_do), T(counted_runs_before_one_without_sync_belong_to_its_step),
       T(a_step_of_one_micro_batch_takes_a_second_plan_on_the_store),
       T(a_graph_cannot_begin_a_step_amid_anothers_over_the_same_parameters),
       T(graphs_over_different_parameters_may_take_turns_by_micro_batches),
       T(a_session_that_lost_its_gradients_to_another_is_told),
       T(ranks_communicate_only_in_runs_that_end_a_step), T(sums_over_ranks_begin_amid_the_last_backward)})
