/* test_worlds.c - many ranks train to the same bits as one: w ranks with a micro-batches each give, for w * a micro-
 * batches a step, the parameters of one rank that takes them all, to the last bit. Ranks are threads here. */
#include "support/test.h"
#include "weft/weft.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 6, STEPS = 12, MOST_RANKS = 4, WEIGHTS = 4096 };

/* ---- models: inputs x f32 and y u8; parameters under "net" ---- */

static weft_value *mlp(weft_value *x) {
    WEFT_SCOPE(x, "net") {
        x = weft_dropout(weft_relu(weft_linear(weft_flatten(x, 1), 24, "fc1")), 0.2);
        x = weft_linear(x, 3, "fc2");
    }
    return x;
}

/* No BatchNorm: its statistics are those of each rank's own micro-batch, which is the same in any world, but the
 * running ones differ from rank to rank. */
static weft_value *conv_net(weft_value *x) {
    WEFT_SCOPE(x, "net") {
        x = weft_gelu(weft_conv2d(x, &(weft_conv){.out = 8, .kernel = 3, .pad = 1}, "conv1"));
        x = weft_relu(weft_batch_norm(
            weft_conv2d(x, &(weft_conv){.out = 8, .kernel = 3, .stride = 2, .no_bias = true}, "conv2"),
            "bn"));
        x = weft_linear(weft_flatten(x, 1), 3, "fc");
    }
    return x;
}

typedef struct task {
    weft_value *(*network)(weft_value *x);
    weft_optimizer optimizer;
} task;

static weft_model *build(const task *t) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, 4, (int64_t[]){BATCH, 2, 6, 6});
    weft_value *y = weft_input(g, "y", WEFT_U8, 1, (int64_t[]){BATCH});
    weft_value *loss = weft_cross_entropy(t->network(x), y);
    weft_minimize(loss, "net", &t->optimizer);
    weft_output(loss, "loss");
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return m;
}

/* ---- a rank ---- */

typedef struct rank {
    pthread_t thread;
    const weft_model *model;
    weft_comm *comm;
    int accumulate;
    double cap_mb;
    int zero;
    uint64_t seed;
    float weights[WEIGHTS];
    int n_weights;
    weft_error error;
} rank;

static weft_status micro_step(weft_session *s, int64_t number, weft_error *error) {
    float x[BATCH * 2 * 36];
    uint8_t y[BATCH];
    test_random random = {(uint64_t)number + 1};
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = (float)random_in(&random, -1, 1);
    for (int i = 0; i < BATCH; i++) y[i] = (uint8_t)(random_bits(&random) % 3);
    return weft_run(s, "step", (weft_feed[]){{"x", x, sizeof x}, {"y", y, sizeof y}}, 2, NULL, 0, error);
}

/* Parameters one after the other; running statistics are left out. */
static void keep_weights(rank *r, const weft_store *store) {
    const char *path;
    for (int i = 0; (path = weft_store_path(store, i)); i++) {
        int64_t shape[WEFT_MAX_NDIM], n = 1;
        int ndim = weft_store_shape(store, path, NULL, shape);
        if (strncmp(path, "net/", 4) || strstr(path, "running_")) continue;
        for (int k = 0; k < ndim; k++) n *= shape[k];
        if (r->n_weights + n > WEIGHTS) return;
        weft_store_get(store, path, r->weights + r->n_weights, (size_t)n * sizeof(float), NULL);
        r->n_weights += (int)n;
    }
}

static void *train(void *argument) {
    rank *r = argument;
    int world = r->comm ? r->comm->world : 1, id = r->comm ? r->comm->rank : 0, a = r->accumulate;
    weft_compile_options options = {.threads = 1,
                                    .accumulate = a,
                                    .world = world,
                                    .rank = id,
                                    .zero = r->zero,
                                    .bucket_cap_mb = r->cap_mb,
                                    .verify = true};
    weft_plan *plan = weft_compile(r->model, &options, &r->error);
    weft_store *store = plan ? weft_store_new(plan, r->seed, &r->error) : NULL;
    weft_session *s = store ? weft_session_open_on(plan, store, r->comm, &r->error) : NULL;
    for (int64_t step = 0; s && step < STEPS; step++)
        for (int i = 0; i < a && !r->error.status; i++) micro_step(s, (step * world + id) * a + i, &r->error);
    if (s) weft_sync(s, &r->error);
    if (s) keep_weights(r, store);
    weft_session_close(s);
    weft_store_free(store);
    weft_plan_free(plan);
    weft_comm_free(r->comm);
    return NULL;
}

static void train_world(const task *t, int world, int accumulate, double cap_mb, int zero, rank *ranks) {
    weft_comm *comms[MOST_RANKS] = {0};
    weft_error error = {0};
    weft_model *m = build(t);
    if (world > 1) CHECK_SAYS(weft_comm_threads(world, NULL, comms, &error) == WEFT_OK, "%s", error.text);
    for (int i = 0; i < world; i++) {
        ranks[i] = (rank){.model = m,
                          .comm = comms[i],
                          .accumulate = accumulate,
                          .cap_mb = cap_mb,
                          .zero = zero,
                          .seed = 5 + (uint64_t)i};
        CHECK(pthread_create(&ranks[i].thread, NULL, train, &ranks[i]) == 0);
    }
    for (int i = 0; i < world; i++) {
        CHECK(pthread_join(ranks[i].thread, NULL) == 0);
        CHECK_SAYS(ranks[i].error.status == WEFT_OK, "rank %d: %s", i, ranks[i].error.text);
    }
    weft_model_free(m);
}

/* ---- the same bits ---- */

static void check_worlds(const char *name, const task *t) {
    static const int cases[][3] = {
        {2, 2, 1}, {3, 3, 1}, {4, 2, 2}, {4, 4, 1}}; /* micro-batches, world, each */
    static rank one[MOST_RANKS], many[MOST_RANKS];
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        train_world(t, 1, cases[c][0], 0, 0, one);
        CHECK(one[0].n_weights > 100);
        for (int kind = 0; kind < 4; kind++) { /* ZeRO or not, buckets of one parameter each or not */
            int zero = kind % 2;
            train_world(t, cases[c][1], cases[c][2], kind / 2 ? 1e-5 : 0, zero, many);
            for (int i = 0; i < cases[c][1]; i++)
                CHECK_SAYS(
                    memcmp(one[0].weights, many[i].weights, sizeof one[0].weights) == 0,
                    "%s: rank %d of %d, %d micro-batches each, zero %d: other bits than one rank with %d",
                    name, i, cases[c][1], cases[c][2], zero, cases[c][0]);
        }
    }
}

TEST(an_mlp_with_dropout_trains_to_the_same_bits_in_any_world) {
    check_worlds("adam", &(task){mlp, {.type = "adam", .lr = 1e-2}});
    check_worlds("sgd, clipped", &(task){mlp, {.type = "sgd", .lr = 0.1, .momentum = 0.9, .clip_norm = 0.1}});
}

TEST(a_conv_net_trains_to_the_same_bits_in_any_world) {
    check_worlds("adamw", &(task){conv_net, {.type = "adamw", .lr = 1e-2}});
}

TEST(optimizer_state_is_shared_out_by_zero) {
    weft_model *m = build(&(task){conv_net, {.type = "adam"}});
    weft_error error = {0};
    uint64_t whole = 0, parts = 0, most = 0;
    for (int rank = -1; rank < 3; rank++) { /* -1: without ZeRO */
        weft_compile_options options = {.world = 3, .zero = rank >= 0, .rank = rank < 0 ? 0 : rank};
        weft_plan *plan = weft_compile(m, &options, &error);
        NEED(plan);
        uint64_t bytes = weft_plan_memory(plan).optimizer;
        if (rank < 0)
            whole = bytes;
        else
            parts += bytes;
        if (rank >= 0 && bytes > most) most = bytes;
        weft_plan_free(plan);
    }
    /* each rank has the scalars, and padding of its own */
    CHECK_SAYS(parts >= whole && parts < whole + 4096 && most < whole * 2 / 3,
               "%llu in all, %llu on three ranks, at most %llu", (unsigned long long)whole,
               (unsigned long long)parts, (unsigned long long)most);
    weft_model_free(m);
}

/* ---- ranks that differ ---- */

typedef struct opener {
    pthread_t thread;
    weft_comm *comm;
    const weft_model *model;
    weft_error error;
} opener;

static void *open_session(void *argument) {
    opener *o = argument;
    weft_plan *plan = weft_compile(o->model, &(weft_compile_options){.threads = 1, .world = 2}, &o->error);
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
    weft_model *models[2] = {build(&(task){mlp, {.type = "adam"}}),
                             build(&(task){conv_net, {.type = "adam"}})};
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

/* ---- ranks that part while they train ---- */

typedef struct runner {
    pthread_t thread;
    weft_comm *comm;
    const weft_model *model;
    const char *graph; /* what this rank runs in its third step */
    uint8_t label;     /* and on which label */
    weft_error error;
} runner;

static weft_model *two_graphs(void) {
    weft_model *m = weft_model_new("m");
    for (int i = 0; i < 2; i++) {
        weft_graph *g = weft_graph_new(m, i ? "b" : "a", WEFT_TRAIN);
        weft_value *x = weft_input(g, "x", WEFT_F32, 4, (int64_t[]){BATCH, 2, 6, 6});
        weft_value *y = weft_input(g, "y", WEFT_U8, 1, (int64_t[]){BATCH});
        weft_minimize(weft_cross_entropy(mlp(x), y), "net", &(weft_optimizer){.type = "sgd"});
    }
    return m;
}

static void *run_three(void *argument) {
    runner *r = argument;
    float x[BATCH * 2 * 36] = {0};
    uint8_t y[BATCH] = {0};
    weft_compile_options options = {.threads = 1, .world = 2, .bucket_cap_mb = 1e-5};
    weft_plan *plan = weft_compile(r->model, &options, &r->error);
    weft_store *store = weft_store_new(plan, 1, &r->error);
    weft_session *s = weft_session_open_on(plan, store, r->comm, &r->error);
    for (int i = 0; s && i < 3 && !r->error.status; i++) {
        if (i == 2) y[0] = r->label;
        weft_run(s, i < 2 ? "a" : r->graph, (weft_feed[]){{"x", x, sizeof x}, {"y", y, sizeof y}}, 2, NULL, 0,
                 &r->error);
    }
    if (r->error.status) weft_comm_abort(r->comm, "this rank gave up");
    weft_session_close(s);
    weft_store_free(store);
    weft_plan_free(plan);
    weft_comm_free(r->comm);
    return NULL;
}

static void run_pair(runner *r) {
    weft_comm *comms[2];
    weft_model *m = two_graphs();
    CHECK(weft_comm_threads(2, &(weft_comm_options){.deadline_seconds = 5}, comms, NULL) == WEFT_OK);
    for (int i = 0; i < 2; i++) {
        r[i].comm = comms[i];
        r[i].model = m;
        CHECK(pthread_create(&r[i].thread, NULL, run_three, &r[i]) == 0);
    }
    for (int i = 0; i < 2; i++) CHECK(pthread_join(r[i].thread, NULL) == 0);
    weft_model_free(m);
}

TEST(ranks_that_run_different_graphs_are_told_which) {
    runner r[2] = {{.graph = "a"}, {.graph = "b"}};
    run_pair(r);
    for (int i = 0; i < 2; i++) {
        CHECK_SAYS(r[i].error.status == WEFT_PEER, "rank %d: %s", i, r[i].error.text);
        CHECK_HOLDS(r[i].error.text, "program");
    }
}

TEST(an_error_on_one_rank_ends_the_others_too) {
    runner r[2] = {{.graph = "a"}, {.graph = "a", .label = 3}};
    run_pair(r);
    CHECK_SAYS(r[1].error.status == WEFT_DATA, "%s", r[1].error.text);
    CHECK_SAYS(r[0].error.status == WEFT_PEER, "%s", r[0].error.text);
}

TEST(a_plan_for_several_ranks_needs_their_communicator) {
    weft_model *m = build(&(task){mlp, {.type = "adam"}});
    weft_error error = {0};
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.world = 2}, &error);
    weft_store *store = weft_store_new(plan, 1, &error);
    CHECK(weft_session_open(plan, store, &error) == NULL);
    CHECK_HOLDS(error.text, "for a world of 2, the communicator has 1");
    weft_store_free(store);
    weft_plan_free(plan);
    weft_model_free(m);
}

SUITE("worlds",
      {T(an_mlp_with_dropout_trains_to_the_same_bits_in_any_world),
       T(a_conv_net_trains_to_the_same_bits_in_any_world), T(optimizer_state_is_shared_out_by_zero),
       T(ranks_with_different_plans_are_told_before_the_first_step),
       T(ranks_that_run_different_graphs_are_told_which), T(an_error_on_one_rank_ends_the_others_too),
       T(a_plan_for_several_ranks_needs_their_communicator)})
