/* test_agree.c - before the first step, ranks start with the same values, those of the first rank of each
 * process group, or get an error that names a differing value and the rank. Ranks are threads. */
#include "runtime/session/state.h"
#include "support/test.h"
#include "support/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Parameters of two subgraphs, running statistics, state of two optimizers. */
static weft_model *model(const char *groups) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, 2, (int64_t[]){4, 8});
    WEFT_SCOPE(x, "net") x = weft_batch_norm(weft_dropout(weft_linear(x, 6, "fc", NULL), 0.5), "bn", NULL);
    WEFT_SCOPE(x, "head") x = weft_linear(x, 1, "fc", NULL);
    weft_value *loss = weft_mean(weft_square(x), WEFT_ALL, false);
    weft_minimize(loss, "net", &(weft_optimizer){.type = "adam", .name = "a"});
    weft_minimize(loss, "head", &(weft_optimizer){.type = "sgd", .name = "b", .momentum = 0.5});
    weft_output(loss, "loss");
    if (groups) weft_model_set_ddp(m, "net", &(weft_ddp_options){.process_group = groups});
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return m;
}

/* Values that identify their rank, in everything that a user can name. */
static bool is_all(const world_rank *r, const char *path, double number) {
    float values[64];
    int64_t shape[WEFT_MAX_NDIM], n = 1;
    weft_dtype dtype;
    int ndim = weft_store_shape(r->store, path, &dtype, shape);
    for (int i = 0; i < ndim; i++) n *= shape[i];
    if (dtype == WEFT_F64) {
        double one = 0;
        return weft_store_get(r->store, path, &one, sizeof one, NULL) == WEFT_OK && one == number;
    }
    if (weft_store_get(r->store, path, values, (size_t)n * sizeof *values, NULL)) return false;
    while (n && values[n - 1] == (float)number) n--;
    return n == 0;
}

static void set_all(world_rank *r, const char *path, double number) {
    float values[64];
    int64_t shape[WEFT_MAX_NDIM], n = 1;
    weft_dtype dtype;
    int ndim = weft_store_shape(r->store, path, &dtype, shape);
    for (int i = 0; i < ndim; i++) n *= shape[i];
    for (int i = 0; i < 64; i++) values[i] = (float)number;
    if (dtype == WEFT_F64)
        weft_store_set(r->store, path, &number, sizeof number, &r->error);
    else
        weft_store_set(r->store, path, values, (size_t)n * sizeof *values, &r->error);
}

static void reopen(world_rank *r, weft_error *error) {
    weft_session_close(r->session);
    r->session = weft_session_open_on(r->plan, r->store, r->comm, error);
}

static void wrong(world_rank *r, const char *what) {
    if (r->error.status) return;
    r->error.status = WEFT_INTERNAL;
    snprintf(r->error.text, sizeof r->error.text, "not as wanted: %s", what);
}

/* ---- made equal ---- */

static void mark_and_reopen(world_rank *r) {
    static const int first_of_group[] = {2, 1, 2, 1}; /* of "2,0;1,3", by rank */
    bool has_groups = r->job->options.world == 4;
    const char *path;
    for (int i = 0; (path = weft_store_path(r->store, i)); i++) set_all(r, path, r->rank + 1);
    if (!r->error.status) reopen(r, &r->error);
    for (int i = 0; r->session && (path = weft_store_path(r->store, i)); i++) {
        bool is_grouped = has_groups && strstr(path, "net/");
        if (!is_all(r, path, is_grouped ? first_of_group[r->rank] + 1 : 1)) wrong(r, path);
    }
}

/* Parameters, running statistics, optimizer state, step counters, learning rates, counters of random
 * draws. */
TEST(all_begin_with_what_rank_0_has) {
    weft_model *m = model(NULL);
    world_job job = {.model = m, .run = mark_and_reopen, .options = {.world = 3}};
    world_free(world_run(&job));
    weft_model_free(m);
}

TEST(a_process_group_begins_with_what_its_first_rank_has) {
    weft_model *m = model("2,0;1,3");
    world_job job = {.model = m, .run = mark_and_reopen, .options = {.world = 4}};
    world_free(world_run(&job));
    weft_model_free(m);
}

/* What is shared out stays; all else is made equal though memory is laid out differently on each rank. */
static void mark_shared_out(world_rank *r) {
    const char *path;
    weft_error ignored;
    for (int i = 0; (path = weft_store_path(r->store, i)); i++)
        if (strncmp(path, "optimizer.", 10)) set_all(r, path, r->rank + 1);
    set_all(r, "optimizer.a/step", r->rank + 1);
    set_all(r, "optimizer.b/head/fc/weight/momentum_buffer", r->rank + 1); /* head has no ZeRO */
    float bias[6] = {7, 7, 7, 7, 7, 7};
    bool has_bias = !weft_store_set(r->store, "optimizer.a/net/fc/bias/exp_avg", bias, sizeof bias, &ignored);
    if (!r->error.status) reopen(r, &r->error);
    for (int i = 0; r->session && (path = weft_store_path(r->store, i)); i++)
        if (strncmp(path, "optimizer.", 10) && !is_all(r, path, 1)) wrong(r, path);
    if (!is_all(r, "optimizer.a/step", 1)) wrong(r, "step");
    if (!is_all(r, "optimizer.b/head/fc/weight/momentum_buffer", 1)) wrong(r, "whole state");
    if (has_bias != is_all(r, "optimizer.a/net/fc/bias/exp_avg", 7)) wrong(r, "state that is shared out");
}

TEST(what_is_not_shared_out_is_made_equal) {
    weft_model *m = model(NULL);
    weft_model_set_ddp(m, "net", &(weft_ddp_options){.zero = 1});
    world_job job = {.model = m, .run = mark_shared_out, .options = {.world = 3}};
    world_free(world_run(&job));
    weft_model_free(m);
}

/* Larger than what travels at once. */
static void compare_large(world_rank *r) {
    enum { N = 1100 * 1100 };
    float *values = test_memory(N * sizeof *values);
    for (int i = 0; i < N; i++) values[i] = (float)(i * (r->rank + 1) % 1000003);
    weft_store_set(r->store, "fc/weight", values, N * sizeof *values, &r->error);
    if (!r->error.status) reopen(r, &r->error);
    weft_store_get(r->store, "fc/weight", values, N * sizeof *values, &r->error);
    for (int i = 0; i < N; i++)
        if (values[i] != (float)(i % 1000003)) wrong(r, "a large parameter");
    free(values);
}

TEST(large_values_travel_in_pieces) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *y = weft_linear(weft_input(g, "x", WEFT_F32, 2, (int64_t[]){1, 1100}), 1100, "fc", NULL);
    weft_minimize(weft_mean(y, WEFT_ALL, false), NULL, &(weft_optimizer){.type = "sgd"});
    world_job job = {.model = m, .run = compare_large, .options = {.world = 2}};
    world_free(world_run(&job));
    weft_model_free(m);
}

/* ---- checked to be equal ---- */

typedef struct check_job {
    world_job job;    /* whose context is this */
    const char *path; /* that a rank changes; NULL: none */
    int rank;
} check_job;

static void change_and_check(world_rank *r) {
    const check_job *j = r->job->context;
    weft_compile_options options = {
        .threads = 1, .check_equal = true, .world = r->comm->world, .rank = r->rank};
    options.zero = r->job->options.zero;
    weft_plan *plan = weft_compile(r->job->model, &options, &r->error);
    if (j->path && r->rank == j->rank) set_all(r, j->path, 0.125);
    if (plan && !r->error.status) {
        weft_session_close(r->session);
        weft_plan_free(r->plan);
        r->plan = plan;
        r->session = weft_session_open_on(r->plan, r->store, r->comm, &r->error);
    }
}

/* Every rank gets one text: it holds `says`. */
static void check_one(const char *groups, int zero, const char *path, int rank, const char *says) {
    weft_model *m = model(groups);
    check_job j = {.job = {.model = m, .run = change_and_check, .options = {.world = 4, .zero = zero}},
                   .path = path,
                   .rank = rank};
    j.job.context = &j;
    world_rank *ranks = world_run_any(&j.job, true);
    for (int i = 0; i < 4; i++) {
        weft_status want = says ? WEFT_PEER : WEFT_OK;
        CHECK_SAYS(ranks[i].error.status == want && (!says || strstr(ranks[i].error.text, says)),
                   "%s on rank %d: rank %d has status %d: %s", path, rank, i, ranks[i].error.status,
                   ranks[i].error.text);
    }
    world_free(ranks);
    weft_model_free(m);
}

TEST(the_first_value_that_differs_is_named_on_all_ranks) {
    check_one(NULL, 0, NULL, 0, NULL);
    check_one(NULL, 1, NULL, 0, NULL);
    check_one(NULL, 0, "net/fc/weight", 2, "net/fc/weight f32[6,8] of rank 2 differs from that of rank 0");
    check_one(NULL, 0, "net/fc/weight", 0, "net/fc/weight f32[6,8] of rank 1 differs from that of rank 0");
    check_one(NULL, 0, "net/bn/running_mean", 1,
              "net/bn/running_mean f32[6] of rank 1 differs from that of rank 0");
    check_one(NULL, 0, "optimizer.b/lr", 3, "optimizer.b/lr f64[] of rank 3 differs from that of rank 0");
    check_one(NULL, 0, "optimizer.a/net/fc/bias/exp_avg", 3,
              "optimizer.a/net/fc/bias/exp_avg f32[6] of rank 3");
    check_one(NULL, 2, "head/fc/bias", 3, "head/fc/bias f32[1] of rank 3 differs from that of rank 0");
    check_one("0,3;2,1", 0, "net/fc/bias", 1, "net/fc/bias f32[6] of rank 1 differs from that of rank 2");
}

TEST(stores_of_different_seeds_differ_in_their_first_parameter) {
    weft_model *m = model(NULL);
    world_job job = {.model = m, .options = {.world = 2, .check_equal = true}}; /* rank r has seed r */
    world_rank *ranks = world_run_any(&job, true);
    for (int i = 0; i < 2; i++) {
        CHECK(ranks[i].error.status == WEFT_PEER);
        CHECK_HOLDS(ranks[i].error.text,
                    "session: net/fc/weight f32[6,8] of rank 1 differs from that of rank 0");
    }
    world_free(ranks);
    weft_model_free(m);
}

SUITE("agree", {T(all_begin_with_what_rank_0_has), T(a_process_group_begins_with_what_its_first_rank_has),
                T(what_is_not_shared_out_is_made_equal), T(large_values_travel_in_pieces),
                T(the_first_value_that_differs_is_named_on_all_ranks),
                T(stores_of_different_seeds_differ_in_their_first_parameter)})
