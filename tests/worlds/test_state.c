/* test_state.c - the whole state of a training in one file: many ranks together save what one rank saves
 * alone, byte for byte; training continues from it in any other world; and no failure of one rank leaves the
 * others waiting. Ranks are threads. */
#include "support/faults.h"
#include "support/test.h"
#include "support/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCH = 4, MICROS = 4 /* a step, over all ranks */ };

/* Two subgraphs: one draws random numbers and is clipped, one has a schedule; biases of both are in
 * groups. */
static weft_model *small_model(const weft_env *env) {
    static const weft_param_group biases[] = {{"*bias", 2, WEFT_ZERO}};
    weft_model *m = weft_model_new_in("m", env);
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN), *val = weft_graph_new(m, "val", WEFT_EVAL);
    for (int i = 0; i < 2; i++) {
        weft_value *x = weft_input(i ? val : g, "x", WEFT_F32, 2, (int64_t[]){BATCH, 24});
        weft_value *y = weft_input(i ? val : g, "y", WEFT_U8, 1, (int64_t[]){BATCH});
        WEFT_SCOPE(x, "net") {
            x = weft_dropout(weft_relu(weft_linear(x, 40, "fc1", NULL)), 0.2);
            x = weft_relu(weft_linear(x, 30, "fc2", NULL));
        }
        WEFT_SCOPE(x, "head") x = weft_linear(x, 3, "fc", NULL);
        weft_value *loss = weft_cross_entropy(x, y, NULL);
        if (i == 0) {
            weft_minimize(loss, "net",
                          &(weft_optimizer){.type = "adam",
                                            .name = "a",
                                            .lr = 1e-2,
                                            .clip_norm = 0.5,
                                            .weight_decay = 0.1,
                                            .n_groups = 1,
                                            .groups = biases});
            weft_minimize(loss, "head",
                          &(weft_optimizer){.type = "sgd",
                                            .name = "b",
                                            .lr = 0.1,
                                            .momentum = 0.9,
                                            .schedule = {{WEFT_SCHEDULE_STEP, .period = 3, .gamma = 0.5}}});
        }
        weft_output(loss, "loss");
    }
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return m;
}

/* ---- what ranks do ---- */

typedef struct state_job {
    world_job job; /* whose context is this */
    const char *load, *save;
    int64_t from, to; /* steps */
    bool only_weights;
} state_job;

static const state_job *job_of(const world_rank *r) {
    return r->job->context;
}

/* Checks do not belong in a rank's thread: what is wrong becomes its error. */
static bool expect(world_rank *r, bool good, const char *what) {
    if (!good && !r->error.status) {
        r->error.status = WEFT_INTERNAL;
        snprintf(r->error.text, sizeof r->error.text, "the test wants: %s", what);
    }
    return good;
}

static void train(world_rank *r, int64_t from, int64_t to) {
    const weft_compile_options *o = &r->job->options;
    int64_t world = o->world > 1 ? o->world : 1, a = o->accumulate > 1 ? o->accumulate : 1;
    for (int64_t step = from; step < to; step++)
        for (int64_t i = 0; i < a && !r->error.status; i++)
            world_micro(r, "step", (step * world + r->rank) * a + i, NULL);
}

static void load_train_save(world_rank *r) {
    const state_job *j = job_of(r);
    if (j->load) weft_weights_load(r->store, j->load, NULL, NULL, &r->error);
    if (!r->error.status) train(r, j->from, j->to);
    if (j->save && !r->error.status)
        weft_session_save(r->session, r->rank ? NULL : j->save, !j->only_weights, &r->error);
}

static world_rank *run_job(state_job *j) {
    j->job.context = j;
    j->job.seed = 5;
    return world_run(&j->job);
}

/* ---- files of a folder of its own ---- */

static char folder[] = "/tmp/weft_state_XXXXXX";

static const char *file(const char *name) {
    static _Thread_local char paths[8][64];
    static _Thread_local int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static char *bytes_of(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    char *data = test_memory(1 << 24);
    *n = f ? fread(data, 1, 1 << 24, f) : 0;
    if (f) fclose(f);
    return data;
}

static bool same_files(const char *a, const char *b) {
    size_t n, m;
    char *x = bytes_of(a, &n), *y = bytes_of(b, &m);
    bool same = n && n == m && memcmp(x, y, n) == 0;
    free(x);
    free(y);
    return same;
}

/* ---- worlds ---- */

typedef struct variant {
    int world, zero;
    weft_shard shard;
} variant;
static const variant variants[] = {{1, 0, 0},
                                   {2, 0, 0},
                                   {2, 1, WEFT_SHARD_GREEDY},
                                   {4, 2, WEFT_SHARD_FLAT},
                                   {2, 2, WEFT_SHARD_FLAT},
                                   {4, 1, WEFT_SHARD_GREEDY}};
enum { VARIANTS = sizeof variants / sizeof *variants };

static void run_variant(const weft_model *m, const variant *v, const char *load, int64_t from, int64_t to,
                        const char *save, bool only_weights) {
    state_job j = {.job = {.model = m, .classes = 3, .run = load_train_save},
                   .load = load,
                   .save = save,
                   .from = from,
                   .to = to,
                   .only_weights = only_weights};
    j.job.options = (weft_compile_options){.world = v->world,
                                           .accumulate = MICROS / v->world,
                                           .zero = v->zero,
                                           .shard = v->shard,
                                           .bucket_cap_mb = 2e-3};
    world_free(run_job(&j));
}

TEST(many_ranks_save_the_file_of_one) {
    weft_model *m = small_model(NULL);
    run_variant(m, &variants[0], NULL, 0, 3, file("one"), false);
    run_variant(m, &variants[0], NULL, 0, 3, file("one-weights"), true);
    for (int i = 1; i < VARIANTS; i++) {
        const variant *v = &variants[i];
        run_variant(m, v, NULL, 0, 3, file("many"), false);
        CHECK_SAYS(same_files(file("one"), file("many")), "world %d zero %d shard %d", v->world, v->zero,
                   v->shard);
        run_variant(m, v, NULL, 0, 3, file("many"), true);
        CHECK_SAYS(same_files(file("one-weights"), file("many")),
                   "without training: world %d zero %d shard %d", v->world, v->zero, v->shard);
    }
    weft_model_free(m);
}

TEST(training_goes_on_in_another_world) {
    weft_model *m = small_model(NULL);
    run_variant(m, &variants[0], NULL, 0, 10, file("ten"), false);
    for (int i = 0; i < VARIANTS; i++) {
        const variant *a = &variants[i];
        run_variant(m, a, NULL, 0, 5, file("five"), false);
        for (int k = 0; k < VARIANTS; k++) {
            const variant *b = &variants[k];
            if (test_is_quick() && k != (i + 1) % VARIANTS) continue;
            run_variant(m, b, file("five"), 5, 10, file("again"), false);
            CHECK_SAYS(same_files(file("ten"), file("again")),
                       "world %d zero %d shard %d, then world %d zero %d shard %d", a->world, a->zero,
                       a->shard, b->world, b->zero, b->shard);
        }
    }
    weft_model_free(m);
}

/* State that is shorter than its parameters: it is whole on one rank. */
TEST(rows_and_columns_of_matrices_are_saved_and_loaded_in_any_world) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(4, 24)), *y = x;
    for (int i = 0; i < 3; i++)
        y = weft_tanh(weft_linear(y, 30 - 7 * i, ((const char *[]){"a", "b", "c"})[i], NULL));
    weft_minimize(weft_mean(weft_square(y), WEFT_ALL, false), NULL, &(weft_optimizer){.type = "adafactor"});
    run_variant(m, &variants[0], NULL, 0, 2, file("two"), false);
    run_variant(m, &variants[0], NULL, 0, 4, file("four"), false);
    for (int i = 1; i < VARIANTS; i++) {
        const variant *v = &variants[i];
        if (v->shard == WEFT_SHARD_FLAT) continue;
        run_variant(m, v, NULL, 0, 2, file("many"), false);
        CHECK_SAYS(same_files(file("two"), file("many")), "world %d zero %d", v->world, v->zero);
        run_variant(m, v, file("two"), 2, 4, file("many"), false);
        CHECK_SAYS(same_files(file("four"), file("many")), "world %d zero %d", v->world, v->zero);
    }
    weft_model_free(m);
}

/* A tensor of more than one piece, cut between ranks in the middle of pieces. */
TEST(large_tensors_travel_in_pieces) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, 2, (int64_t[]){2, 1100});
    weft_minimize(weft_mean(weft_square(weft_linear(x, 1100, "fc", NULL)), WEFT_ALL, false), NULL,
                  &(weft_optimizer){.type = "sgd", .momentum = 0.9});
    run_variant(m, &(variant){1, 0, 0}, NULL, 0, 1, file("one"), false);
    run_variant(m, &(variant){4, 1, WEFT_SHARD_FLAT}, NULL, 0, 1, file("flat"), false);
    run_variant(m, &(variant){2, 1, WEFT_SHARD_GREEDY}, NULL, 0, 1, file("greedy"), false);
    CHECK(same_files(file("one"), file("flat")) && same_files(file("one"), file("greedy")));
    run_variant(m, &(variant){4, 1, WEFT_SHARD_FLAT}, file("one"), 1, 2, file("flat"), false);
    run_variant(m, &(variant){1, 0, 0}, file("one"), 1, 2, file("two"), false);
    CHECK(same_files(file("two"), file("flat")));
    weft_model_free(m);
}

/* ---- process groups ---- */

TEST(of_process_groups_that_of_rank_0_is_saved) {
    weft_model *m = small_model(NULL);
    weft_model_set_ddp(m, "net",
                       &(weft_ddp_options){.process_group = "2-3;1,0", .zero = 1, .shard = WEFT_SHARD_FLAT});
    state_job four = {
        .job = {.model = m, .classes = 3, .run = load_train_save}, .save = file("groups"), .to = 3};
    four.job.options = (weft_compile_options){.world = 4, .zero = 1, .bucket_cap_mb = 2e-3};
    world_rank *ranks = run_job(&four);
    state_job one = {.job = {.model = m, .run = load_train_save}, .load = file("groups")};
    world_rank *loaded = run_job(&one);
    char where[300];
    for (int i = 0; i < 2; i++)
        CHECK_SAYS(world_agrees(loaded, &ranks[i], world_all, where), "rank %d: %s", i, where);
    CHECK(!world_agrees(loaded, &ranks[2], world_all, where)); /* its group trained on other data */
    world_free(ranks);
    world_free(loaded);
    weft_model_free(m);
}

/* ---- errors ---- */

static weft_status save_statuses[2][64];

/* Rank 0's files fail at their n-th call, one call after the other, until none is left. */
static void save_with_faults(world_rank *r) {
    faults *f = (faults *)(uintptr_t)job_of(r)->load;
    weft_status status = WEFT_IO;
    train(r, 0, 1);
    for (int n = 1; n < 64 && status && !r->error.status; n++) {
        weft_error error = {0};
        if (r->rank == 0) faults_arm(f, 0, n, false);
        status = save_statuses[r->rank][n] = weft_session_save(r->session, "w", true, &error);
        expect(r, !status || strstr(error.text, r->rank ? "rank 0: w" : "w"),
               "a text that names rank 0 and the file");
    }
    expect(r, !status, "an end without failures");
}

TEST(a_file_that_fails_at_any_call_is_an_error_on_all_ranks) {
    faults f;
    faults_init(&f);
    weft_env env = {.io = &f.io}; /* the memory is of several threads */
    fake_put(&f, "w", "old", 3);
    weft_model *m = small_model(&env);
    state_job j = {.job = {.model = m, .classes = 3, .run = save_with_faults}, .load = (const char *)&f};
    j.job.options = (weft_compile_options){.world = 2, .zero = 2, .shard = WEFT_SHARD_FLAT};
    world_free(run_job(&j));
    int n = 1;
    for (; save_statuses[0][n]; n++)
        CHECK_SAYS(save_statuses[0][n] == WEFT_IO && save_statuses[1][n] == WEFT_PEER, "call %d: %d and %d",
                   n, save_statuses[0][n], save_statuses[1][n]);
    CHECK_SAYS(n > 20 && save_statuses[1][n] == WEFT_OK, "%d calls", n);
    CHECK(fake_count(&f) == 1 && fake_get(&f, "w")->bytes > 1000 && f.handles == 0);
    weft_model_free(m);
    faults_end(&f);
}

static void save_nowhere(world_rank *r) {
    weft_error error = {0};
    weft_status status = weft_session_save(r->session, r->rank ? "/tmp/x" : NULL, true, &error);
    expect(r, status == (r->rank ? WEFT_PEER : WEFT_ARGUMENT) && strstr(error.text, "a path is needed"),
           "no path");
    status = weft_weights_save(r->store, file("mine"), true, &error);
    expect(r, status == WEFT_ORDER && strstr(error.text, "weft_session_save"), "the way out is named");
    weft_session_save(r->session, file("all"), true, &r->error); /* the world is as good as before */
}

TEST(one_rank_cannot_save_what_is_shared_out) {
    weft_model *m = small_model(NULL);
    state_job j = {.job = {.model = m, .run = save_nowhere}};
    j.job.options = (weft_compile_options){.world = 3, .zero = 1};
    world_free(run_job(&j));
    CHECK(access(file("all"), F_OK) == 0 && access(file("mine"), F_OK) != 0);
    CHECK(weft_session_save(NULL, "x", true, NULL) == WEFT_ARGUMENT);
    weft_model_free(m);
}

static int loads_alone;

static void load_on_one(world_rank *r) {
    weft_error error = {0};
    weft_session_close(r->session);
    if (r->rank == loads_alone) weft_weights_load(r->store, job_of(r)->load, NULL, NULL, &r->error);
    r->session = weft_session_open_on(r->plan, r->store, r->comm, &error);
    bool is_shared_out = r->job->options.zero > 0, is_lost = loads_alone > 0;
    const char *says = is_lost
                           ? "rank 1 has loaded weights, but rank 0, whose values all ranks receive, has not"
                           : "some ranks have loaded optimizer state";
    expect(r, (r->session == NULL) == (is_shared_out || is_lost),
           "an error where state is shared out, or what was loaded would be replaced");
    expect(r, r->session || (error.status == WEFT_PEER && strstr(error.text, says)), "their text");
}

TEST(state_that_is_shared_out_is_loaded_by_all_or_none) {
    weft_model *m = small_model(NULL);
    run_variant(m, &variants[0], NULL, 0, 1, file("one"), false);
    for (int zero = 0; zero < 6; zero++) {
        loads_alone = zero / 3;
        state_job j = {.job = {.model = m, .run = load_on_one}, .load = file("one")};
        j.job.options = (weft_compile_options){.world = 3, .zero = zero % 3};
        world_free(run_job(&j));
    }
    weft_model_free(m);
}

/* ---- one store, several sessions ---- */

static void validate_between(world_rank *r) {
    float data[40 * 24] = {0}, loss[2] = {0};
    uint8_t label[BATCH] = {0, 1, 2, 0};
    weft_feed feeds[] = {{"x", data, BATCH * 24 * sizeof(float)}, {"y", label, sizeof label}};
    weft_fetch fetch = {"loss", loss, sizeof *loss};
    weft_error error = {0};
    size_t bytes = 40 * 24 * sizeof(float);
    weft_plan *plan =
        weft_compile(r->job->model, &(weft_compile_options){.threads = 1, .graph = "val"}, &r->error);
    weft_session *val = plan ? weft_session_open(plan, r->store, &r->error) : NULL;
    if (!val) return;
    train(r, 0, 2);
    expect(r, weft_run(val, "val", feeds, 2, &fetch, 1, &error) == WEFT_ORDER, "the other session to wait");
    expect(r, strstr(error.text, "weft_sync"), "a way out");
    expect(r, weft_store_get(r->store, "net/fc1/weight", data, bytes, &error) == WEFT_ORDER,
           "no stale values");
    expect(r, strstr(error.text, "net/fc1/weight") && strstr(error.text, "weft_sync"),
           "a way out of reading");
    expect(r, weft_store_set(r->store, "net/fc1/weight", data, bytes, NULL) == WEFT_ORDER, "nothing lost");
    expect(r, weft_weights_save(r->store, file("early"), false, NULL) == WEFT_ORDER,
           "nothing stale in files");
    expect(r, weft_store_set_lr(r->store, NULL, 0.01, NULL) == WEFT_OK, "learning rates are here");
    weft_sync(r->session, &r->error);
    expect(r, weft_store_get(r->store, "net/fc1/weight", data, bytes, NULL) == WEFT_OK, "values");
    weft_run(val, "val", feeds, 2, &fetch, 1, &r->error);
    train(r, 2, 3);
    fetch.data = &loss[1];
    if (!r->error.status) weft_sync(r->session, &r->error);
    if (!r->error.status) weft_run(val, "val", feeds, 2, &fetch, 1, &r->error);
    expect(r, loss[0] > 0 && loss[1] != loss[0], "what was trained to be seen");
    weft_session_close(val);
    weft_plan_free(plan);
}

TEST(values_that_are_on_their_way_are_not_read) {
    weft_model *m = small_model(NULL);
    state_job j = {.job = {.model = m, .classes = 3, .run = validate_between}};
    j.job.options = (weft_compile_options){.world = 2, .zero = 1};
    world_free(run_job(&j));
    weft_model_free(m);
}

/* Greedy, with buckets of one parameter each, gives rank 0 some whole: only the cut shows that plan and store
 * differ. */
TEST(a_store_for_another_way_of_sharing_out_is_refused) {
    weft_model *m = small_model(NULL);
    weft_error error = {0};
    weft_plan *plans[2];
    weft_comm *comms[2];
    CHECK(weft_comm_threads(2, NULL, comms, NULL) == WEFT_OK);
    for (int i = 0; i < 2; i++)
        plans[i] =
            weft_compile(m, &(weft_compile_options){.world = 2, .zero = i, .bucket_cap_mb = 1e-5}, &error);
    weft_store *store = weft_store_new(plans[0], 1, &error);
    CHECK(weft_session_open_on(plans[1], store, comms[0], &error) == NULL);
    CHECK(error.status == WEFT_ORDER);
    weft_store_free(store);
    for (int i = 0; i < 2; i++) {
        weft_comm_abort(comms[i], "the test is over");
        weft_plan_free(plans[i]);
    }
    for (int i = 0; i < 2; i++) weft_comm_free(comms[i]);
    weft_model_free(m);
}

static const test_case cases[] = {T(many_ranks_save_the_file_of_one),
                                  T(training_goes_on_in_another_world),
                                  T(rows_and_columns_of_matrices_are_saved_and_loaded_in_any_world),
                                  T(large_tensors_travel_in_pieces),
                                  T(of_process_groups_that_of_rank_0_is_saved),
                                  T(a_file_that_fails_at_any_call_is_an_error_on_all_ranks),
                                  T(one_rank_cannot_save_what_is_shared_out),
                                  T(state_that_is_shared_out_is_loaded_by_all_or_none),
                                  T(values_that_are_on_their_way_are_not_read),
                                  T(a_store_for_another_way_of_sharing_out_is_refused)};

int main(int argc, char **argv) {
    char command[80];
    if (!mkdtemp(folder)) return 1;
    int status = test_main("state", cases, (int)(sizeof cases / sizeof *cases), argc, argv);
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command) ? 1 : status;
}
