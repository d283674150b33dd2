/* test_full_disk.c - a training on a disk that is full, or becomes it: of its checkpoints the oldest goes for
 * the newest, never the best or the last whole one; what could not be written is reported when it happens.
 * The disk is in memory (faults.capacity). */
#include "support/faults.h"
#include "support/test.h"
#include "weft/weft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 200, MOST = 8 };

/* ---- what is reported ---- */

static struct {
    weft_trainer *trainer;
    int n;
    int64_t iteration; /* when the last line was reported */
    char line[600];
} told;

static void keep_line(void *context, const char *line) {
    (void)context;
    snprintf(told.line, sizeof told.line, "%s", line);
    told.n++;
    if (told.trainer) told.iteration = weft_trainer_progress(told.trainer)->iteration;
}

static void forget(weft_trainer *t) {
    memset(&told, 0, sizeof told);
    told.trainer = t;
}

/* ---- trainings on random numbers ---- */

static weft_model *build(const weft_env *env, int width) {
    weft_model *m = weft_model_new_in("m", env);
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *x = weft_random_normal(g, WEFT_SHAPE(4, WIDTH), 0, 1), *y = x;
    WEFT_SCOPE(y, "net") {
        y = weft_relu(weft_linear(y, width, "fc1", NULL));
        y = weft_linear(y, WIDTH, "fc2", NULL);
    }
    weft_value *loss = weft_mse(y, x, NULL);
    weft_minimize(loss, "net", &(weft_optimizer){.type = "adam", .lr = 1e-3});
    weft_output(loss, "loss");
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return m;
}

typedef struct lone {
    faults *f;
    weft_model *model;
    weft_trainer *trainer;
} lone;

/* `keep` checkpoints stay, one an iteration; 0: none are written. `log`: a file, or NULL. */
static lone lone_open(faults *f, int width, int keep, int64_t iterations, const char *log) {
    lone l = {f, build(&f->env, width), NULL};
    weft_error error = {0};
    weft_hook hook = weft_hook_json(log ? log : "unused", 1);
    weft_trainer_options how = {.compile = {.threads = 1},
                                .env = &f->env,
                                .iterations = iterations,
                                .n_hooks = log != NULL,
                                .hooks = &hook};
    if (keep) how.checkpoints = (weft_trainer_checkpoints){.folder = "c", .every = 1, .keep = keep};
    if (keep) how.checkpoints.resume = "auto";
    l.trainer = weft_trainer_new(l.model, &how, &error);
    CHECK_SAYS(l.trainer != NULL, "%s", error.text);
    if (!log) hook.free(hook.self);
    return l;
}

static void lone_close(lone *l) {
    told.trainer = NULL;
    weft_trainer_free(l->trainer);
    weft_model_free(l->model);
}

/* What `list` says of folder "c": "3 4 ", from its oldest step on. */
static const char *steps_of(const faults *f) {
    static char text[200];
    weft_error error = {0};
    int64_t *steps = NULL;
    int n = 0;
    CHECK_SAYS(!weft_checkpoint_steps("c", &f->env, &steps, &n, &error), "%s", error.text);
    *text = 0;
    for (int i = 0; i < n; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%lld ", (long long)steps[i]);
    weft_checkpoint_steps_free(steps);
    return text;
}

static void check_whole(const faults *f, int64_t step) {
    char path[100];
    weft_error error = {0};
    snprintf(path, sizeof path, "c/step-%08lld", (long long)step);
    weft_checkpoint *c = weft_checkpoint_open(path, &f->env, &error);
    CHECK_SAYS(c && !weft_checkpoint_verify(c, &error), "%s", error.text);
    weft_checkpoint_close(c);
}

/* Bytes of a checkpoint on the disk. */
static uint64_t bytes_of_one(void) {
    faults f;
    uint64_t bytes = 0;
    faults_init(&f);
    lone l = lone_open(&f, WIDTH, 1, 1, NULL);
    CHECK(weft_trainer_fit(l.trainer, NULL) == WEFT_OK);
    lone_close(&l);
    for (const fake_file *file = f.files; file; file = file->next) bytes += file->bytes;
    faults_end(&f);
    return bytes;
}

/* ---- the oldest goes ---- */

TEST(the_oldest_goes_for_the_newest) {
    static const struct {
        double room; /* in checkpoints */
        const char *steps;
        int told; /* lines: one before the first step, one when the oldest goes for the first time */
    } rows[] = {{9.5, "4 5 6 ", 0}, {3.5, "4 5 6 ", 2}, {2.5, "5 6 ", 2}};
    uint64_t bytes = bytes_of_one();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        faults f;
        weft_error error = {0};
        faults_init(&f);
        f.env.log = keep_line;
        f.capacity = (uint64_t)(rows[i].room * (double)bytes);
        lone l = lone_open(&f, WIDTH, 3, 6, NULL);
        forget(l.trainer);
        CHECK_SAYS(!weft_trainer_fit(l.trainer, &error), "%s", error.text);
        CHECK_SAYS(!weft_trainer_check(l.trainer, &error), "%s", error.text);
        CHECK_TEXT(steps_of(&f), rows[i].steps);
        CHECK_SAYS(told.n == rows[i].told, "%d lines: %s", told.n, told.line);
        check_whole(&f, 5), check_whole(&f, 6);
        lone_close(&l);
        CHECK(f.live == 0 && f.handles == 0);
        faults_end(&f);
    }
    CHECK_HOLDS(told.line, "c: the disk has room for 0.");
    CHECK_HOLDS(told.line, ": the oldest, step 1, was removed for step 3, and so on until there is room");
}

/* A run that finds a full disk, where there are two; with one it is reported before the first step. */
TEST(a_run_that_goes_on_makes_room_too) {
    uint64_t bytes = bytes_of_one();
    for (int there = 1; there <= 3; there++) {
        faults f;
        weft_error error = {0};
        faults_init(&f);
        lone l = lone_open(&f, WIDTH, 3, there, NULL);
        CHECK(weft_trainer_fit(l.trainer, NULL) == WEFT_OK);
        lone_close(&l);
        f.capacity = bytes * (uint64_t)there + bytes / 2;
        l = lone_open(&f, WIDTH, 3, there + 1, NULL);
        weft_status status = weft_trainer_fit(l.trainer, &error);
        CHECK_SAYS((status != WEFT_OK) == (there == 1), "%d are there: %s", there, error.text);
        CHECK_TEXT(steps_of(&f), there == 1 ? "1 " : there == 2 ? "2 3 " : "2 3 4 ");
        if (there == 1) CHECK_HOLDS(error.text, "make room, or choose another folder");
        lone_close(&l);
        faults_end(&f);
    }
}

TEST(the_last_whole_one_stays) {
    faults f;
    weft_error error = {0};
    int64_t saved;
    faults_init(&f);
    f.env.log = keep_line;
    f.capacity = bytes_of_one() * 3 / 2;
    lone l = lone_open(&f, WIDTH, 2, 20, NULL);
    forget(l.trainer);
    CHECK_SAYS(!weft_trainer_fit(l.trainer, &error), "%s", error.text);
    CHECK(weft_trainer_check(l.trainer, &error) == WEFT_IO);
    CHECK_HOLDS(error.text, "c/step-00000005.tmp/rank-0.safetensors: ");
    CHECK_HOLDS(error.text, "No space left on device");
    /* 2, 3 and 4 fail, each is known at the next iteration, and 5 is one more try */
    CHECK(weft_trainer_progress(l.trainer)->iteration == 5);
    CHECK_TEXT(weft_trainer_saved(l.trainer, &saved), "c/step-00000001");
    CHECK(saved == 1);
    CHECK_TEXT(steps_of(&f), "1 ");
    check_whole(&f, 1);
    f.capacity = 0; /* someone has made room */
    CHECK_SAYS(!weft_trainer_fit(l.trainer, &error) && !weft_trainer_check(l.trainer, &error), "%s",
               error.text);
    CHECK_TEXT(weft_trainer_saved(l.trainer, &saved), "c/step-00000020");
    lone_close(&l);
    CHECK(f.live == 0 && f.handles == 0);
    faults_end(&f);
}

static weft_status save(weft_checkpoint_writer *w, int64_t step, bool is_best) {
    weft_error error = {0};
    weft_status status = weft_checkpoint_begin(w, step, is_best, NULL, 0, &error);
    if (!status) status = weft_checkpoint_end(w, &error);
    CHECK_SAYS(!status || status == WEFT_IO, "step %lld: %s", (long long)step, error.text);
    return status;
}

static weft_checkpoint_writer *writer_of(const lone *l, int64_t best) {
    weft_error error = {0};
    weft_session *session = weft_trainer_session(l->trainer, &error);
    weft_checkpoint_writer *w = weft_checkpoint_writer_open(
        session, &(weft_checkpoint_options){.folder = "c", .keep = 4, .best = best}, &error);
    CHECK_SAYS(w != NULL, "%s", error.text);
    return w;
}

/* Someone else fills the disk: one checkpoint went in vain, and no other one goes until there was room. */
TEST(one_that_fails_all_the_same_costs_one) {
    faults f;
    uint64_t bytes = bytes_of_one();
    faults_init(&f);
    lone l = lone_open(&f, WIDTH, 0, 1, NULL);
    weft_checkpoint_writer *w = writer_of(&l, 0);
    NEED(w != NULL);
    for (int step = 1; step <= 3; step++) CHECK(!save(w, step, false));
    f.capacity = bytes * 22 / 10;
    CHECK(save(w, 4, false) == WEFT_IO && save(w, 5, false) == WEFT_IO);
    CHECK_TEXT(steps_of(&f), "2 3 ");
    f.capacity = bytes * 35 / 10;
    CHECK(!save(w, 6, false));
    CHECK_TEXT(steps_of(&f), "2 3 6 ");
    CHECK(!save(w, 7, false));
    CHECK_TEXT(steps_of(&f), "3 6 7 ");
    weft_checkpoint_writer_close(w);
    lone_close(&l);
    faults_end(&f);
}

/* What stays of an earlier run is the newest that is whole, not the newest; it is read to be sure. */
TEST(the_best_those_of_other_models_and_damaged_ones) {
    faults f;
    faults_init(&f);
    lone l = lone_open(&f, WIDTH, 0, 1, NULL), other = lone_open(&f, WIDTH / 2, 0, 1, NULL);
    uint64_t used = 0, bytes = bytes_of_one();
    weft_checkpoint_writer *w = writer_of(&other, 0);
    CHECK(save(w, 1, false) == WEFT_OK);
    weft_checkpoint_writer_close(w);
    w = writer_of(&l, 0);
    for (int64_t step = 2; step <= 5; step++) CHECK(save(w, step, step == 2) == WEFT_OK);
    CHECK_TEXT(steps_of(&f), "1 2 3 4 5 ");
    for (const fake_file *file = f.files; file; file = file->next) used += file->bytes;
    f.capacity = used + bytes / 2;
    CHECK(save(w, 6, false) == WEFT_OK && save(w, 7, false) == WEFT_OK);
    CHECK_TEXT(steps_of(&f), "1 2 5 6 7 ");
    weft_checkpoint_writer_close(w);
    fake_get(&f, "c/step-00000007/rank-0.safetensors")->data[500] ^= 1;
    w = writer_of(&l, 2);
    CHECK(save(w, 8, false) == WEFT_OK); /* 5 goes, 6 is the newest whole one */
    CHECK_TEXT(steps_of(&f), "1 2 6 7 8 ");
    f.io.remove(&f, "c/step-00000008/manifest.json");
    CHECK(save(w, 9, false) == WEFT_IO); /* 6 is the last that is whole, beside the best */
    CHECK_TEXT(steps_of(&f), "1 2 6 7 8 ");
    check_whole(&f, 1), check_whole(&f, 2), check_whole(&f, 6);
    weft_checkpoint_writer_close(w);
    lone_close(&l), lone_close(&other);
    CHECK(f.live == 0 && f.handles == 0);
    faults_end(&f);
}

/* ---- logs ---- */

TEST(the_end_of_a_log_is_told_when_it_happens) {
    faults f;
    weft_error error = {0};
    faults_init(&f);
    f.env.log = keep_line;
    f.capacity = 1000;
    lone l = lone_open(&f, WIDTH, 0, 100, "log.jsonl");
    forget(l.trainer);
    CHECK_SAYS(!weft_trainer_fit(l.trainer, &error), "%s", error.text);
    CHECK(told.n == 1 && told.iteration > 1 && told.iteration < 50);
    CHECK_HOLDS(told.line, "log.jsonl: writing failed at step ");
    CHECK_HOLDS(told.line, ", and the log ends there: No space left on device");
    CHECK(weft_trainer_check(l.trainer, &error) == WEFT_IO);
    CHECK_TEXT(error.text, told.line);
    lone_close(&l);
    CHECK(f.live == 0 && f.handles == 0);
    faults_end(&f);
}

SUITE("full disk",
      {T(the_oldest_goes_for_the_newest), T(a_run_that_goes_on_makes_room_too), T(the_last_whole_one_stays),
       T(one_that_fails_all_the_same_costs_one), T(the_best_those_of_other_models_and_damaged_ones),
       T(the_end_of_a_log_is_told_when_it_happens)})
