/* test_runs.c - runs that fail in the middle and are repeated, fetches, and the output of profile and trace:
 * alone and in a world of two ranks, as threads. */
#include "support/test.h"
#include "weft/weft.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROWS = 4, WIDTH = 6, WEIGHTS = WIDTH * 3 };

typedef struct rig {
    weft_plan *plan;
    weft_store *store;
    weft_session *session;
    weft_error error;
} rig;

static rig rig_open(const weft_model *m, weft_compile_options options, weft_comm *comm) {
    rig r = {0};
    options.threads = 1;
    options.world = comm ? comm->world : 1;
    options.rank = comm ? comm->rank : 0;
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

/* The gradients of "first" are done before "second" is used, which alone can fail at run time: by a label
 * that is not a class. */
static weft_model *build(const char *optimizer) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, 2, (int64_t[]){ROWS, WIDTH}), *a = NULL, *b = NULL;
    weft_value *y = weft_input(g, "y", WEFT_U8, 1, (int64_t[]){ROWS});
    weft_optimizer how = {.type = optimizer, .lr = 0.1};
    WEFT_SCOPE(x, "first") a = weft_linear(weft_tanh(weft_linear(x, 3, "fc", NULL)), 64, "wide", NULL);
    weft_minimize(weft_mean(weft_square(a), WEFT_ALL, false), "first", &how);
    /* many activations: it pays to be done with the gradients of "first" before them */
    weft_value *wide = weft_constant(g, WEFT_F32, 1, (int64_t[]){4096}, 0.5);
    WEFT_SCOPE(x, "second") b = weft_reshape(weft_linear(x, 3, "fc", NULL), 3, (int64_t[]){ROWS, 3, 1});
    b = weft_mean(weft_tanh(weft_mul(b, wide)), 1, (int64_t[]){2}, false);
    weft_minimize(weft_cross_entropy(b, y, NULL), "second", &how);
    g = weft_graph_new(m, "look", WEFT_EVAL);
    x = weft_input(g, "x", WEFT_F32, 2, (int64_t[]){ROWS, WIDTH});
    weft_output(weft_slice(x, 0, 1, 3), "rows");
    weft_output(weft_slice(x, 1, 2, 4), "columns");
    WEFT_SCOPE(x, "first")
    WEFT_SCOPE(x, "fc")
    weft_output(weft_parameter(x, "weight", 2, (int64_t[]){3, WIDTH}, (weft_init){0}), "weight");
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return m;
}

static weft_status run(rig *r, int64_t number, bool is_good) {
    float x[ROWS * WIDTH];
    uint8_t y[ROWS];
    test_random random = {(uint64_t)number + 1};
    for (int i = 0; i < ROWS * WIDTH; i++) x[i] = (float)random_in(&random, -1, 1);
    for (int i = 0; i < ROWS; i++) y[i] = (uint8_t)(random_bits(&random) % 3);
    if (!is_good) y[1] = 3;
    return weft_run(r->session, "step", (weft_feed[]){{"x", x, sizeof x}, {"y", y, sizeof y}}, 2, NULL, 0,
                    &r->error);
}

static void get(const rig *r, const char *scope, float weight[WEIGHTS]) {
    char path[40];
    snprintf(path, sizeof path, "%s/fc/weight", scope);
    CHECK(weft_store_get(r->store, path, weight, WEIGHTS * sizeof *weight, NULL) == WEFT_OK);
}

/* ---- failures ---- */

/* A first or a middle run may be repeated: what it had added before it failed counts once. */
TEST(a_run_that_failed_before_the_last_may_be_repeated) {
    weft_model *m = build("sgd");
    float w[2][2][WEIGHTS];
    for (int fails = 0; fails < 2; fails++) {
        rig r = rig_open(m, (weft_compile_options){.accumulate = 4}, NULL);
        for (int i = 0; i < 8; i++) {
            if (fails && i % 4 < 3) CHECK(run(&r, 77, false) == WEFT_DATA);
            CHECK_SAYS(run(&r, i, true) == WEFT_OK, "%s", r.error.text);
        }
        get(&r, "first", w[fails][0]);
        get(&r, "second", w[fails][1]);
        rig_close(&r);
    }
    CHECK(memcmp(w[0], w[1], sizeof w[0]) == 0);
    weft_model_free(m);
}

/* A last run that fails when "first" is summed up already cannot be: its step is over, and no part of it is
 * counted later. */
TEST(a_last_run_that_failed_behind_a_sum_ends_its_step) {
    weft_model *m = build("sgd");
    float w[2][2][WEIGHTS];
    for (int fails = 0; fails < 2; fails++) {
        rig r = rig_open(m, (weft_compile_options){.accumulate = 3}, NULL);
        for (int i = 0; fails && i < 3; i++) CHECK(run(&r, 50 + i, i < 2) == (i < 2 ? WEFT_OK : WEFT_DATA));
        for (int i = 0; i < 3; i++) CHECK_SAYS(run(&r, i, true) == WEFT_OK, "%s", r.error.text);
        get(&r, "first", w[fails][0]);
        get(&r, "second", w[fails][1]);
        rig_close(&r);
    }
    CHECK(memcmp(w[0], w[1], sizeof w[0]) == 0);
    weft_model_free(m);
}

/* ---- a world of two ---- */

typedef struct rank rank;
struct rank {
    pthread_t thread;
    weft_comm *comm;
    const weft_model *model;
    weft_compile_options options;
    void (*act)(rank *a, rig *r);
    float weight[WEIGHTS];
    int arrivals;
};

static void *be_rank(void *argument) {
    rank *a = argument;
    rig r = rig_open(a->model, a->options, a->comm);
    if (r.session) a->act(a, &r);
    rig_close(&r);
    weft_comm_free(a->comm);
    return NULL;
}

static void run_pair(rank ranks[2], const weft_model *m, weft_compile_options options,
                     void (*act)(rank *a, rig *r), const weft_comm_options *how) {
    weft_comm *comms[2];
    CHECK(weft_comm_threads(2, how, comms, NULL) == WEFT_OK);
    for (int i = 0; i < 2; i++) {
        ranks[i] = (rank){.comm = comms[i], .model = m, .options = options, .act = act};
        CHECK(pthread_create(&ranks[i].thread, NULL, be_rank, &ranks[i]) == 0);
    }
    for (int i = 0; i < 2; i++) CHECK(pthread_join(ranks[i].thread, NULL) == 0);
}

/* The label is met before any bucket is full: the other rank waits for a run that comes after all. */
static weft_model *build_one(void) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, 2, (int64_t[]){ROWS, WIDTH}), *a = NULL;
    weft_value *y = weft_input(g, "y", WEFT_U8, 1, (int64_t[]){ROWS});
    WEFT_SCOPE(x, "first") a = weft_linear(x, 3, "fc", NULL);
    weft_minimize(weft_cross_entropy(a, y, NULL), "first", &(weft_optimizer){.type = "sgd", .lr = 0.1});
    return m;
}

static void repeat(rank *a, rig *r) {
    for (int i = 0; i < 4 && !r->error.status; i++) {
        if (i == 2 && a->comm->rank == 1) CHECK(run(r, 77, false) == WEFT_DATA);
        r->error = (weft_error){0};
        CHECK_SAYS(run(r, 2 * i + a->comm->rank, true) == WEFT_OK, "rank %d: %s", a->comm->rank,
                   r->error.text);
    }
    if (r->error.status) weft_comm_abort(a->comm, "a run failed");
    get(r, "first", a->weight);
}

TEST(a_rank_may_repeat_a_run_that_failed_before_its_first_collective) {
    rank ranks[2];
    weft_model *m = build_one();
    float w[WEIGHTS];
    run_pair(ranks, m, (weft_compile_options){0}, repeat, NULL);
    rig r = rig_open(m, (weft_compile_options){.accumulate = 2}, NULL);
    for (int i = 0; i < 8; i++) CHECK(run(&r, i, true) == WEFT_OK);
    get(&r, "first", w);
    for (int i = 0; i < 2; i++) CHECK_SAYS(memcmp(w, ranks[i].weight, sizeof w) == 0, "rank %d", i);
    rig_close(&r);
    weft_model_free(m);
}

/* ---- what is fetched ---- */

TEST(parts_of_an_input_are_fetched_as_they_are) {
    weft_model *m = build("sgd");
    rig r = rig_open(m, (weft_compile_options){0}, NULL);
    float x[ROWS][WIDTH], rows[2][WIDTH], columns[ROWS][2];
    for (int i = 0; i < ROWS * WIDTH; i++) x[i / WIDTH][i % WIDTH] = (float)i;
    weft_fetch fetches[] = {{"rows", rows, sizeof rows}, {"columns", columns, sizeof columns}};
    CHECK(weft_run(r.session, "look", (weft_feed[]){{"x", x, sizeof x}}, 1, fetches, 2, &r.error) == WEFT_OK);
    CHECK(memcmp(rows, x[1], sizeof rows) == 0);
    for (int i = 0; i < ROWS; i++) CHECK(columns[i][0] == x[i][2] && columns[i][1] == x[i][3]);
    rig_close(&r);
    weft_model_free(m);
}

/* Makes the stream slow, so that what outlasts a run is still under way when the next one asks for it. */
static void nap(void *context, const weft_comm_event *event) {
    (void)context;
    if (event->collective->run) test_nap(20);
}

static void look(rank *a, rig *r) {
    float x[ROWS * WIDTH] = {0}, after[WEIGHTS];
    for (int i = 0; i < 3; i++) {
        CHECK_SAYS(run(r, i, true) == WEFT_OK, "%s", r->error.text);
        CHECK(weft_run(r->session, "look", (weft_feed[]){{"x", x, sizeof x}}, 1,
                       (weft_fetch[]){{"weight", a->weight, sizeof a->weight}}, 1, &r->error) == WEFT_OK);
        CHECK(weft_sync(r->session, &r->error) == WEFT_OK);
        get(r, "first", after);
        CHECK_SAYS(memcmp(after, a->weight, sizeof after) == 0, "rank %d, run %d: not what the owner sent",
                   a->comm->rank, i);
    }
}

TEST(a_parameter_is_fetched_when_it_has_arrived) {
    rank ranks[2];
    weft_model *m = build("adam");
    run_pair(ranks, m, (weft_compile_options){.zero = 1}, look, &(weft_comm_options){.event = nap});
    CHECK(memcmp(ranks[0].weight, ranks[1].weight, sizeof ranks[0].weight) == 0);
    weft_model_free(m);
}

/* ---- profile and trace ---- */

static void profile(rank *a, rig *r) {
    (void)a;
    CHECK(run(r, 0, true) == WEFT_OK);
    weft_session_set_profile(r->session, true);
    for (int i = 0; i < 3; i++) CHECK(run(r, i, true) == WEFT_OK);
    char *text = weft_session_profile_text(r->session);
    if (!CHECK(text != NULL)) return;
    CHECK_HOLDS(text, " collective all_reduce");
    CHECK_HOLDS(text, " collective wait");
    weft_text_free(text);
}

TEST(a_profile_lists_collectives) {
    rank ranks[2];
    weft_model *m = build("sgd");
    run_pair(ranks, m, (weft_compile_options){0}, profile, NULL);
    weft_model_free(m);
}

static void count_arrival(void *context, const weft_node_event *e) {
    rank *a = context;
    if (e->is_wait && e->order < 0) {
        CHECK(e->kernel == NULL && strcmp(e->op, "wait") == 0 && e->finished_ns >= e->began_ns);
        a->arrivals++;
    }
}

static void trace(rank *a, rig *r) {
    weft_session_trace(r->session, count_arrival, a);
    for (int i = 0; i < 3; i++) CHECK(run(r, i, true) == WEFT_OK);
}

TEST(a_trace_tells_who_waited_for_what_an_earlier_run_sent) {
    rank ranks[2];
    weft_model *m = build("adam");
    run_pair(ranks, m, (weft_compile_options){.zero = 1}, trace, NULL);
    for (int i = 0; i < 2; i++) CHECK_SAYS(ranks[i].arrivals > 0, "rank %d", i);
    run_pair(ranks, m, (weft_compile_options){0}, trace, NULL);
    for (int i = 0; i < 2; i++) CHECK_SAYS(ranks[i].arrivals == 0, "rank %d", i);
    weft_model_free(m);
}

SUITE("runs", {T(a_run_that_failed_before_the_last_may_be_repeated),
               T(a_last_run_that_failed_behind_a_sum_ends_its_step),
               T(a_rank_may_repeat_a_run_that_failed_before_its_first_collective),
               T(parts_of_an_input_are_fetched_as_they_are), T(a_parameter_is_fetched_when_it_has_arrived),
               T(a_profile_lists_collectives), T(a_trace_tells_who_waited_for_what_an_earlier_run_sent)})
