/* test_trainer_faults.c - a training whose memory runs out, or whose files fail, at every single call in
 * turn, once or from then on: sources, compiling, running, validation, logs, checkpoints, resuming. It ends
 * with the right weights or with one clean error; nothing leaks; the earlier checkpoint is whole; and the
 * next run continues from what is there to the undisturbed weights. */
#include "support/faults.h"
#include "support/test.h"
#include "weft/weft.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 4, SAMPLES = 12, WIDTH = 3, EPOCHS = 2, ITERATIONS = EPOCHS * SAMPLES / BATCH, FIRST = 2 };

#define FIRST_STEP "c/step-00000002"

/* ---- a training ---- */

static void add_graph(weft_model *m, const char *name, weft_mode mode) {
    weft_graph *g = weft_graph_new(m, name, mode);
    weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, WIDTH)), *y = x;
    WEFT_SCOPE(y, "net") {
        y = weft_dropout(weft_tanh(weft_linear(y, 4, "fc1", NULL)), 0.1);
        y = weft_linear(y, WIDTH, "fc2", NULL);
    }
    y = weft_mul(weft_mul(y, weft_input(g, "tau", WEFT_F32, 0, NULL)),
                 weft_input(g, "kl", WEFT_F32, 0, NULL));
    weft_value *loss = weft_mse(y, x, NULL);
    if (mode == WEFT_TRAIN) weft_minimize(loss, "net", &(weft_optimizer){.type = "adam", .lr = 1e-2});
    weft_output(loss, "loss");
}

static weft_model *build(const weft_env *env) {
    weft_model *m = weft_model_new_in("m", env);
    weft_model_set_batch(m, BATCH);
    add_graph(m, "step", WEFT_TRAIN);
    add_graph(m, "val", WEFT_EVAL);
    return m;
}

static bool has_bad; /* two samples for training are NaN, and their steps are passed over */
static int64_t n_skipped;

static void put_floats(faults *f, const char *name, const char *shape, const float *rows, size_t bytes) {
    static char file[64 + 64 + SAMPLES * WIDTH * sizeof *rows];
    size_t n =
        (size_t)snprintf(file + 10, 80, "{'descr': '<f4', 'fortran_order': False, 'shape': %s}", shape);
    memcpy(file, "\x93NUMPY\1\0", 8);
    file[8] = (char)n, file[9] = 0;
    memcpy(file + 10 + n, rows, bytes);
    fake_put(f, name, file, 10 + n + bytes);
}

static void put_rows(faults *f, const char *name, bool is_bad) {
    float rows[SAMPLES * WIDTH];
    for (int i = 0; i < SAMPLES * WIDTH; i++) rows[i] = (float)(i * 7 % 11) / 10 - 0.5f;
    if (is_bad) rows[4] = rows[8 * WIDTH] = NAN;
    put_floats(f, name, "(12, 3)", rows, sizeof rows);
}

static void put_data(faults *f) {
    const float numbers[] = {1, 0.75f, 0.5f, 1.25f};
    put_rows(f, "x.npy", has_bad);
    put_rows(f, "v.npy", false);
    put_floats(f, "tau.npy", "(4,)", numbers, sizeof numbers);
}

static const weft_env *env_of; /* of the run under way */

static weft_status fit(const weft_model *m, const weft_source *train, const weft_source *val,
                       int64_t iterations, weft_error *error) {
    static const char *const names[] = {"x"};
    weft_hook hooks[] = {weft_hook_json("log.jsonl", 1), weft_hook_csv("log.csv", 1),
                         weft_hook_plateau("loss", NULL, &(weft_plateau){.patience = 1, .threshold = 10}),
                         weft_hook_early_stop(&(weft_early_stop){.metric = "loss", .patience = 9})};
    weft_trainer_options o = {.compile = {.threads = 1, .isa = WEFT_ISA_REFERENCE},
                              .env = env_of,
                              .seed = 3,
                              .train = {1, &train, names},
                              .val = {1, &val, names},
                              .set = "tau=rows:tau.npy kl=cosine:1:0.5:4",
                              .epochs = EPOCHS,
                              .iterations = iterations,
                              .skip_bad_steps = has_bad ? 2 : 0,
                              .n_hooks = 4,
                              .hooks = hooks};
    o.checkpoints = (weft_trainer_checkpoints){.folder = "c", .every = 2, .resume = "auto", .keep = 3};
    weft_trainer *t = weft_trainer_new(m, &o, error);
    weft_status status = t ? weft_trainer_fit(t, error) : error->status;
    if (!status) status = weft_trainer_check(t, error);
    n_skipped += t ? weft_trainer_progress(t)->skipped : 0;
    if (!status) status = weft_trainer_save(t, "w", true, error);
    weft_trainer_free(t);
    return status;
}

static weft_status train_for(faults *f, int64_t iterations, weft_error *error) {
    env_of = &f->env;
    weft_model *m = build(&f->env);
    if (!m)
        return error->status = WEFT_MEMORY, snprintf(error->text, sizeof error->text, "no model"),
               WEFT_MEMORY;
    weft_source *source = weft_source_open("x.npy", NULL, &f->env, error);
    weft_source *val = source ? weft_source_open("v.npy", NULL, &f->env, error) : NULL;
    weft_status status = val ? fit(m, source, val, iterations, error) : error->status;
    weft_source_free(val);
    weft_source_free(source);
    weft_model_free(m);
    return status;
}

static weft_status train(faults *f, weft_error *error) {
    return train_for(f, 0, error);
}

/* ---- what is there before and after ---- */

static faults kept; /* the undisturbed files: those of step 2, the weights "w" of the end */

/* Forgets what a run has left. */
static void restore(faults *f) {
    static const char *const names[] = {FIRST_STEP "/manifest.json", FIRST_STEP "/rank-0.safetensors"};
    while (f->files) f->io.remove(f, f->files->name);
    put_data(f);
    fake_put(f, "w", "old", 3);
    for (int i = 0; i < 2; i++) {
        const fake_file *file = fake_get(&kept, names[i]);
        if (file) fake_put(f, names[i], file->data, file->bytes);
    }
}

static bool holds(const faults *f, const void *data, size_t bytes) {
    const fake_file *w = fake_get(f, "w");
    return w && w->bytes == bytes && memcmp(w->data, data, bytes) == 0;
}

static void check_files(faults *f) {
    weft_error error = {0};
    const fake_file *right = fake_get(&kept, "w");
    CHECK(holds(f, "old", 3) || holds(f, right->data, right->bytes));
    if (fake_get(&kept, FIRST_STEP "/manifest.json")) {
        weft_checkpoint *c = weft_checkpoint_open(FIRST_STEP, &f->env, &error);
        CHECK_SAYS(c && !weft_checkpoint_verify(c, &error), "%s", error.text);
        weft_checkpoint_close(c);
    }
    CHECK_SAYS(train(f, &error) == WEFT_OK, "the next run: %s", error.text);
    CHECK_SAYS(holds(f, right->data, right->bytes), "the next run has other weights");
    restore(f);
}

/* Status WEFT_OK means the right weights. */
static weft_status train_right(faults *f, weft_error *error) {
    weft_status status = train(f, error);
    const fake_file *right = fake_get(&kept, "w");
    if (!status) CHECK_SAYS(holds(f, right->data, right->bytes), "it ended well, with other weights");
    return status;
}

static void attack(bool resumes) {
    faults f;
    weft_error error = {0};
    faults_init(&kept);
    put_data(&kept);
    if (resumes) CHECK_SAYS(!train_for(&kept, FIRST, &error), "%s", error.text);
    faults_init(&f);
    restore(&f);
    faults_arm(&f, 0, 0, false);
    CHECK_SAYS(train(&f, &error) == WEFT_OK, "%s", error.text);
    CHECK_SAYS(f.allocations > 250 && f.calls > 50, "%ld allocations, %ld file calls", f.allocations,
               f.calls);
    const fake_file *w = fake_get(&f, "w");
    fake_put(&kept, "w", w->data, w->bytes);
    restore(&f);
    faults_inject(&f, true, train_right, check_files);
    faults_inject(&f, false, train_right, check_files);
    CHECK(f.live == 0 && f.handles == 0);
    faults_end(&f);
    faults_end(&kept);
}

TEST(a_training_survives_any_failure) {
    attack(false);
}

TEST(a_training_that_resumes_survives_any_failure) {
    attack(true);
}

/* Keeping inputs, running again, telling: each of it fails once. */
TEST(a_training_that_passes_over_bad_steps_survives_any_failure) {
    has_bad = true;
    n_skipped = 0;
    attack(false);
    CHECK_SAYS(n_skipped > (test_is_quick() ? 300 : 1000), "%lld bad steps", (long long)n_skipped);
    has_bad = false;
}

SUITE("trainer faults", {T(a_training_survives_any_failure), T(a_training_that_resumes_survives_any_failure),
                         T(a_training_that_passes_over_bad_steps_survives_any_failure)})
