/* test_cuda_threads.c - sessions of one GPU in several threads: each opens, captures, runs, is read and
 * closes at times of its own, and trains to the bits of a session that is alone. While one captures, the
 * others may not call what CUDA forbids then (runtime/session/cuda/captures.c). */
#include "cuda/support/gpu.h"
#include "cuda/support/narrow.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef WEFT_CUDA_HOST
#include "cuda_host/cuda_host.h"
#endif

enum { THREADS = 3, STEPS = 5 };

static const int models[THREADS] = {0, 1, 2}; /* of narrow_models: mlp, gpt, convnet */

/* One thread and its model. */
typedef struct trainer {
    const weft_model *model;
    test_random random;
    world_rank *alone;
    int rounds, wrong;
    char what[1200]; /* the first round that went wrong */
} trainer;

/* Up to 2 ms, so that threads meet in every place. */
static void nap(test_random *r) {
    nanosleep(&(struct timespec){.tv_nsec = (long)(random_bits(r) % 2000000)}, NULL);
}

/* Trains step by step with naps between, and reads a parameter within: that waits for the GPU. */
static void train_with_naps(world_rank *r) {
    trainer *t = (trainer *)(uintptr_t)r->job->context;
    world_job one = *r->job;
    for (int64_t step = 0; step < STEPS && !r->error.status; step++) {
        const world_job *whole = r->job;
        one.steps = 1;
        one.first = step;
        nap(&t->random);
        r->job = &one;
        world_train(r);
        r->job = whole;
        const char *path = weft_store_path(r->store, 0);
        int64_t shape[WEFT_MAX_NDIM];
        weft_dtype type;
        size_t bytes = 4;
        for (int i = 0, n = weft_store_shape(r->store, path, &type, shape); i < n; i++)
            bytes *= (size_t)shape[i];
        void *values = test_memory(bytes);
        if (!r->error.status) weft_store_get(r->store, path, values, bytes, &r->error);
        free(values);
    }
    nap(&t->random);
}

static world_rank *train(trainer *t, void (*run)(world_rank *r)) {
    weft_compile_options options = {.device = WEFT_DEVICE_CUDA, .deterministic = true};
    return world_run_any(
        &(world_job){.model = t->model, .steps = STEPS, .options = options, .run = run, .context = t}, true);
}

/* Whether a round gave the losses and the values of the session that was alone. */
static void compare(trainer *t, const world_rank *got) {
    char where[300] = "its losses";
    bool good = !got->error.status && got->n_losses == t->alone->n_losses &&
                memcmp(got->losses, t->alone->losses, sizeof(float) * (size_t)got->n_losses) == 0 &&
                world_agrees(t->alone, got, world_all, where);
    if (!good && t->wrong++ == 0)
        snprintf(t->what, sizeof t->what, "%s", got->error.status ? got->error.text : where);
}

static void *train_again_and_again(void *argument) {
    trainer *t = argument;
    for (int i = 0; i < t->rounds; i++) {
        nap(&t->random);
        world_rank *got = train(t, train_with_naps);
        compare(t, got);
        world_free(got);
    }
    return NULL;
}

TEST(sessions_in_threads_train_as_one_that_is_alone) {
    trainer each[THREADS];
    pthread_t threads[THREADS];
    uint64_t seed = test_seed(1);
    for (int i = 0; i < THREADS; i++) {
        each[i] = (trainer){.model = narrow_build(&narrow_models[models[i]], &narrow_clipped),
                            .random = {seed * THREADS + (uint64_t)i},
                            .rounds = test_count(8, 3)};
        each[i].alone = train(&each[i], train_with_naps);
        CHECK_SAYS(!each[i].alone->error.status, "alone: %s", each[i].alone->error.text);
    }
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, train_again_and_again, &each[i])) abort();
    for (int i = 0; i < THREADS; i++) {
        if (pthread_join(threads[i], NULL)) abort();
        CHECK_SAYS(!each[i].wrong, "seed %llu, %s: %d of %d rounds went wrong, first: %s",
                   (unsigned long long)seed, narrow_models[models[i]].name, each[i].wrong, each[i].rounds,
                   each[i].what);
        world_free(each[i].alone);
        weft_model_free((weft_model *)(uintptr_t)each[i].model);
    }
#ifdef WEFT_CUDA_HOST
    CHECK(cuda_host_count().graphs == 0 && cuda_host_count().allocations == 0);
#endif
}

/* ---- one store ---- */

/* A thread that evaluates: what it must get, and what it got. */
typedef struct reader {
    const weft_plan *plan;
    weft_store *store;
    test_random random;
    float want[4 * 3], weight[5 * 3];
    int rounds, wrong;
    weft_error error;
} reader;

static weft_model *evaluator(void) {
    weft_model *m = weft_model_new("evaluator");
    weft_graph *g = weft_graph_new(m, "eval", WEFT_EVAL);
    weft_value *x = weft_input(g, "x", WEFT_F32, 2, (int64_t[]){4, 5});
    weft_output(weft_relu(weft_linear(x, 3, "fc", NULL)), "y");
    return m;
}

/* Opens a session, runs it until its launches are replayed, and closes it; reads the store between. */
static void evaluate(reader *r, float y[4 * 3], float weight[5 * 3]) {
    const float x[20] = {1, -2, 3, [9] = 4, [15] = -1};
    weft_session *s = weft_session_open(r->plan, r->store, &r->error);
    for (int i = 0; i < 4 && s && !r->error.status; i++) {
        weft_run(s, "eval", (weft_feed[]){{"x", x, sizeof x}}, 1,
                 (weft_fetch[]){{"y", y, sizeof(float) * 4 * 3}}, 1, &r->error);
        if (i % 2) nap(&r->random);
        if (!r->error.status) weft_store_get(r->store, "fc/weight", weight, sizeof(float) * 5 * 3, &r->error);
    }
    weft_session_close(s);
}

static void *evaluate_again_and_again(void *argument) {
    reader *r = argument;
    float y[4 * 3], weight[5 * 3];
    for (int i = 0; i < r->rounds && !r->error.status; i++) {
        evaluate(r, y, weight);
        r->wrong += memcmp(y, r->want, sizeof y) || memcmp(weight, r->weight, sizeof weight);
    }
    return NULL;
}

/* Sessions that do not write may run on one store at the same time, and the store may be read meanwhile. */
TEST(sessions_on_one_store_evaluate_in_threads) {
    weft_model *m = evaluator();
    weft_error error = {0};
    weft_plan *plan =
        weft_compile(m, &(weft_compile_options){.device = WEFT_DEVICE_CUDA, .threads = 1}, &error);
    weft_store *store = plan ? weft_store_new(plan, 3, &error) : NULL;
    NEED(CHECK_SAYS(store, "%s", error.text));
    reader alone = {plan, store, {1}, .rounds = test_count(20, 6)}, each[THREADS];
    pthread_t threads[THREADS];
    evaluate(&alone, alone.want, alone.weight);
    CHECK_SAYS(!alone.error.status, "%s", alone.error.text);
    for (int i = 0; i < THREADS; i++) {
        each[i] = alone;
        each[i].random.state = test_seed(1) * THREADS + (uint64_t)i;
        if (pthread_create(&threads[i], NULL, evaluate_again_and_again, &each[i])) abort();
    }
    for (int i = 0; i < THREADS; i++) {
        if (pthread_join(threads[i], NULL)) abort();
        CHECK_SAYS(!each[i].error.status && !each[i].wrong, "thread %d: %d rounds wrong; %s", i,
                   each[i].wrong, each[i].error.text);
    }
    weft_store_free(store);
    weft_plan_free(plan);
    weft_model_free(m);
}

GPU_SUITE("sessions in threads",
          {T(sessions_in_threads_train_as_one_that_is_alone), T(sessions_on_one_store_evaluate_in_threads)})
