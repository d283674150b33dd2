/* test_faults.c - memory runs out at every single allocation in turn, from building a model to a training
 * step: each failure is one clean error, nothing leaks, and the work done before stays right. And many
 * sessions at once, in threads of their own. */
#include "support/example.h"
#include "support/faults.h"
#include "support/models/own_model.h"
#include "support/test.h"
#include "weft/weft.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 4, STEPS = 6 };

/* ---- the whole road once ---- */

static weft_value *network(weft_value *x) {
    WEFT_SCOPE(x, "net") {
        x = weft_relu(weft_batch_norm(weft_conv2d(x, &(weft_conv){.out = 4, .kernel = 3, .pad = 1}, "conv"),
                                      "bn", NULL));
        x = weft_dropout(weft_flatten(x, 1), 0.1);
        x = weft_linear(x, 3, "fc", NULL);
    }
    return x;
}

static weft_model *build(const weft_env *env) {
    weft_model *m = weft_model_new_in("m", env);
    weft_model_set_batch(m, BATCH);
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, 4, (int64_t[]){WEFT_BATCH, 2, 6, 6});
    weft_value *y = weft_input(g, "y", WEFT_I32, 1, (int64_t[]){WEFT_BATCH});
    weft_value *loss = weft_cross_entropy(network(x), y, NULL);
    weft_minimize(loss, "net", &(weft_optimizer){.type = "adam", .clip_norm = 1});
    weft_output(loss, "loss");
    return m;
}

static weft_status run_step(weft_session *s, int step, float *loss, weft_error *error) {
    float x[BATCH * 2 * 36];
    int32_t y[BATCH];
    test_random r = {(uint64_t)step};
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = (float)random_in(&r, -1, 1);
    for (int i = 0; i < BATCH; i++) y[i] = (int32_t)(random_bits(&r) % 3);
    return weft_run(s, "step", (weft_feed[]){{"x", x, sizeof x}, {"y", y, sizeof y}}, 2,
                    (weft_fetch[]){{"loss", loss, sizeof *loss}}, 1, error);
}

/* losses[steps] of a training from scratch; the first failure's status otherwise. */
static weft_status whole_road(const weft_env *env, int steps, float *losses, weft_error *error) {
    weft_model *m = build(env);
    weft_plan *plan =
        m ? weft_compile(m, &(weft_compile_options){.threads = 1, .verify = true}, error) : NULL;
    weft_store *store = plan ? weft_store_new(plan, 5, error) : NULL;
    weft_session *s = store ? weft_session_open(plan, store, error) : NULL;
    weft_status status = m ? error->status : WEFT_MEMORY;
    for (int i = 0; s && !status && i < steps; i++) status = run_step(s, i, &losses[i], error);
    weft_session_close(s);
    weft_store_free(store);
    weft_plan_free(plan);
    weft_model_free(m);
    return status;
}

TEST(running_out_of_memory_anywhere_is_one_clean_error) {
    float right[STEPS], losses[STEPS];
    weft_error error = {0};
    CHECK_SAYS(whole_road(NULL, STEPS, right, &error) == WEFT_OK, "%s", error.text);
    for (int lasting = 0; lasting < 2; lasting++) {
        long failures = 0;
        for (long n = 1;; n++) {
            faults f;
            faults_init(&f);
            faults_arm(&f, n, 0, lasting);
            memset(&error, 0, sizeof error);
            weft_status status = whole_road(&f.env, STEPS, losses, &error);
            bool hit = faults_hit(&f);
            CHECK_SAYS(f.live == 0, "allocation %ld: %zu bytes leak", n, f.live);
            faults_end(&f);
            if (!hit) {
                CHECK(status == WEFT_OK && memcmp(right, losses, sizeof right) == 0);
                break;
            }
            failures++;
            /* a kernel may fall back to another when its library is out of memory: the answer is then
             * close */
            if (status == WEFT_OK) continue;
            CHECK_SAYS(status == WEFT_MEMORY, "allocation %ld: status %d: %s", n, status, error.text);
            CHECK(error.status == WEFT_OK || error.text[0]);
        }
        CHECK_SAYS(failures > 10, "%ld", failures);
    }
}

/* An optimizer of the model's own: recorded, saved, read and built again. */
static weft_status own_road(faults *f, weft_error *error) {
    weft_model *m = own_model(&f->env, &(weft_optimizer){.type = "normed"}), *copy = NULL;
    weft_status status = m ? weft_save(m, "own", error) : WEFT_MEMORY;
    if (!status && !(copy = weft_load("own", &f->env, error))) status = error->status;
    weft_plan *plan = copy ? weft_compile(copy, &(weft_compile_options){.threads = 1}, error) : NULL;
    if (copy && !plan) status = error->status;
    weft_plan_free(plan);
    weft_model_free(copy);
    weft_model_free(m);
    return status;
}

TEST(an_own_optimizer_without_memory_is_one_clean_error) {
    faults f;
    faults_init(&f);
    for (long n = 1, step = 1;; n += step, step = n / 200 + 1) {
        weft_error error = {0};
        faults_arm(&f, n, 0, false);
        weft_status status = own_road(&f, &error);
        bool hit = faults_hit(&f);
        CHECK_SAYS(f.live == 0, "allocation %ld: %zu bytes leak", n, f.live);
        /* a kernel may fall back to another, as above */
        CHECK_SAYS(status == WEFT_OK || (hit && status == WEFT_MEMORY), "allocation %ld: status %d: %s", n,
                   status, error.text);
        if (!hit) break;
    }
    faults_end(&f);
}

/* ---- threads ---- */

typedef struct worker {
    pthread_t thread;
    const weft_plan *plan;
    float losses[STEPS];
    weft_error error;
} worker;

static void *train(void *argument) {
    worker *w = argument;
    weft_store *store = weft_store_new(w->plan, 5, &w->error);
    weft_session *s = store ? weft_session_open(w->plan, store, &w->error) : NULL;
    for (int i = 0; s && i < STEPS && !w->error.status; i++) run_step(s, i, &w->losses[i], &w->error);
    weft_session_close(s);
    weft_store_free(store);
    return NULL;
}

TEST(sessions_in_many_threads_do_not_meet) {
    enum { WORKERS = 6 };
    static worker workers[WORKERS];
    weft_error error = {0};
    weft_model *m = build(NULL);
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.threads = 2}, &error);
    NEED(plan);
    for (int i = 0; i < WORKERS; i++) {
        workers[i].plan = plan;
        CHECK(pthread_create(&workers[i].thread, NULL, train, &workers[i]) == 0);
    }
    for (int i = 0; i < WORKERS; i++) {
        CHECK(pthread_join(workers[i].thread, NULL) == 0);
        CHECK_SAYS(workers[i].error.status == WEFT_OK, "%s", workers[i].error.text);
        CHECK(memcmp(workers[i].losses, workers[0].losses, sizeof workers[0].losses) == 0);
    }
    weft_plan_free(plan);
    weft_model_free(m);
}

/* One model, compiled by many threads at once. */
static void *compile_some(void *argument) {
    const weft_model *m = argument;
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.verify = true}, NULL);
    char *text = weft_plan_text(plan);
    weft_plan_free(plan);
    return text;
}

TEST(one_model_compiles_in_many_threads_alike) {
    enum { WORKERS = 6 };
    pthread_t threads[WORKERS];
    char *texts[WORKERS];
    weft_model *m = example_model(NULL);
    for (int i = 0; i < WORKERS; i++) CHECK(pthread_create(&threads[i], NULL, compile_some, m) == 0);
    for (int i = 0; i < WORKERS; i++) {
        void *text = NULL;
        CHECK(pthread_join(threads[i], &text) == 0);
        texts[i] = text;
    }
    for (int i = 1; i < WORKERS; i++) CHECK_TEXT(texts[i], texts[0]);
    for (int i = 0; i < WORKERS; i++) free(texts[i]);
    weft_model_free(m);
}

SUITE("faults", {T(running_out_of_memory_anywhere_is_one_clean_error),
                 T(an_own_optimizer_without_memory_is_one_clean_error),
                 T(sessions_in_many_threads_do_not_meet), T(one_model_compiles_in_many_threads_alike)})
