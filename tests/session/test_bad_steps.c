/* test_bad_steps.c - a trainer and bad steps (weft_trainer_options.skip_bad_steps, weft_trainer_failed): what
 * is passed over leaves the bits of a training that never had these samples; how many are, and whose samples
 * they were. */
#include "support/ranks.h"
#include "support/test.h"
#include "weft/weft.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCH = 4, SAMPLES = 46, WIDTH = 3, MOST = 8, STEP = 2 * BATCH /* samples of a step, in any world */ };
enum { CLASSES = 5 };

/* ---- data, some of whose samples are bad, and which some ranks cannot read ---- */

/* What is wrong with them: an input; the label; or the target, by which the loss is infinite. */
typedef enum flaw { IS_NAN, IS_NO_CLASS, IS_HUGE, FLAWS } flaw;

typedef struct world_data {
    flaw flaw;
    int n_bad, n_left_out, unread_by; /* unread_by: the rank that can read the first step alone; -1: none */
    int64_t bad[MOST];                /* samples */
    int64_t left_out[MOST];           /* steps of an epoch */
} world_data;

typedef struct rank_data {
    const world_data *all;
    int rank;
    atomic_bool is_open; /* all ranks have looked at the data */
} rank_data;

static int64_t sample_at(int64_t place) {
    return place * 7 % SAMPLES;
}

/* The place of a sample in the order. */
static int64_t place_of(int64_t sample) {
    int64_t place = 0;
    while (sample_at(place) != sample) place++;
    return place;
}

static weft_status read_sample(void *context, int64_t i, void *const *into, weft_error *error) {
    const rank_data *d = context;
    float *x = into[0];
    if (atomic_load(&d->is_open) && d->rank == d->all->unread_by && place_of(i) >= STEP) {
        error->status = WEFT_IO;
        snprintf(error->text, sizeof error->text, "a disk is gone");
        return WEFT_IO;
    }
    flaw flaw = d->all->flaw;
    bool is_bad = false;
    for (int k = 0; k < WIDTH; k++) x[k] = (float)((i * (k + 2)) % 17) / 17;
    for (int k = 0; k < d->all->n_bad; k++) is_bad = is_bad || i == d->all->bad[k];
    if (is_bad && flaw == IS_NAN) x[1] = NAN;
    if (flaw == IS_NO_CLASS)
        *(int32_t *)into[1] = is_bad ? CLASSES + 2 : (int32_t)(i % CLASSES);
    else
        *(float *)into[1] = is_bad && flaw == IS_HUGE ? 3e38f : (float)sin((double)i);
    return WEFT_OK;
}

/* The common order without some steps. */
static void order_of(void *context, int64_t epoch, int64_t *order, int64_t n) {
    const rank_data *d = context;
    (void)epoch;
    for (int64_t place = 0, at = 0; at < n; place++) {
        bool is_in = true;
        for (int k = 0; k < d->all->n_left_out; k++) is_in = is_in && place / STEP != d->all->left_out[k];
        if (is_in) order[at++] = sample_at(place);
    }
}

/* ---- a model whose flow runs two graphs on the same batches, with dropout ---- */

static void add_graph(weft_model *m, const char *name, const char *pattern, bool has_classes) {
    weft_graph *g = weft_graph_new(m, name, WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, WIDTH));
    weft_value *t = has_classes ? weft_input(g, "t", WEFT_I32, WEFT_SHAPE(WEFT_BATCH))
                                : weft_input(g, "t", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, 1));
    WEFT_SCOPE(x, "left") x = weft_dropout(weft_tanh(weft_linear(x, 8, "fc", NULL)), 0.2);
    WEFT_SCOPE(x, "right") x = weft_linear(x, has_classes ? CLASSES : 1, "fc", NULL);
    weft_value *loss = has_classes ? weft_cross_entropy(x, t, NULL) : weft_mse(x, t, NULL);
    weft_minimize(loss, pattern, &(weft_optimizer){.type = "adam", .lr = 1e-2, .clip_norm = 1, .ema = 0.9});
    weft_output(loss, "loss");
}

static weft_model *build(bool both, bool has_classes) {
    weft_model *m = weft_model_new("m");
    weft_model_set_batch(m, BATCH);
    add_graph(m, "a", both ? "left" : "", has_classes);
    if (both) add_graph(m, "b", "right", has_classes);
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return m;
}

/* ---- trainings ---- */

typedef struct job {
    world_data data;
    int world, zero;
    bool both, manual, twice, errs; /* errs: after a bad step that it took itself, by an error of its own */
    int64_t skip;
    const char *file;
    /* what came of it, on rank 0 */
    weft_status status[2], check;
    weft_error error;
    int64_t skipped, iteration, numbers;
    bool has_failed;
    weft_failed_step failed;
    int64_t samples[BATCH];
    int n_lines;
    char lines[MOST][1200];
} job;

static void keep_line(void *context, const char *line) {
    job *j = context;
    if (j->n_lines < MOST) snprintf(j->lines[j->n_lines++], sizeof j->lines[0], "%s", line);
}

static weft_status by_hand(weft_trainer *t, void *user, weft_error *error) {
    (void)user;
    weft_status status = weft_trainer_run(t, "a", WEFT_FLOW_NEXT, error);
    return status ? status : weft_run_update(weft_trainer_session(t, NULL), "a", error);
}

static weft_status by_hand_and_error(weft_trainer *t, void *user, weft_error *error) {
    weft_status status = by_hand(t, user, error);
    CHECK_SAYS(status == WEFT_DATA, "%s", error->text);
    status = weft_trainer_run(t, "a", WEFT_FLOW_NEXT, error);
    CHECK(status == WEFT_OK);
    *error = (weft_error){.status = WEFT_DATA, .text = "its own"};
    return WEFT_DATA;
}

/* Losses of bad steps are in no mean. */
static weft_status count_numbers(void *self, weft_trainer *t, weft_hook_point point, weft_error *error) {
    job *j = self;
    const weft_metrics *m = &weft_trainer_progress(t)->train;
    (void)error;
    if (point != WEFT_AFTER_ITERATION || weft_trainer_progress(t)->rank) return WEFT_OK;
    for (int i = 0; i < m->n; i++) CHECK(isfinite(m->list[i].value));
    j->numbers += m->n;
    return WEFT_OK;
}

static void run_rank(weft_comm *comm, int rank, void *context) {
    job *j = context;
    weft_error error = {0};
    rank_data mine = {.all = &j->data, .rank = rank};
    bool has_classes = j->data.flaw == IS_NO_CLASS;
    const weft_source source = {
        .count = SAMPLES,
        .n = 2,
        .arrays = {{"x", WEFT_F32, 1, {WIDTH}}, {"t", has_classes ? WEFT_I32 : WEFT_F32, !has_classes, {1}}},
        .read = read_sample,
        .context = &mine};
    const weft_env env = {.log = keep_line, .log_context = j};
    const weft_hook hook = {.name = "numbers", .at = count_numbers, .self = j};
    weft_model *m = build(j->both, has_classes);
    weft_trainer_options how = {
        .compile = {.threads = 1, .accumulate = 2 / j->world, .zero = j->zero, .manual = j->manual},
        .env = &env,
        .comm = comm,
        .seed = 3,
        .train = {1, (const weft_source *[]){&source}, NULL},
        .sampler = order_of,
        .sampler_context = &mine,
        .sampler_count = SAMPLES - j->data.n_left_out * STEP,
        .epochs = 2,
        .train_step = j->errs     ? by_hand_and_error
                      : j->manual ? by_hand
                                  : NULL,
        .skip_bad_steps = j->skip,
        .n_hooks = 1,
        .hooks = &hook};
    weft_trainer *t = weft_trainer_new(m, &how, &error);
    CHECK_SAYS(t != NULL, "%s", error.text);
    atomic_store(&mine.is_open, true);
    weft_status status[2] = {t ? weft_trainer_fit(t, &error) : WEFT_INTERNAL};
    if (t && j->twice) error = (weft_error){0}, status[1] = weft_trainer_fit(t, &error);
    CHECK(error.status == status[j->twice]); /* a step that was passed over leaves no error */
    if (t && !status[0] && j->file) weft_trainer_save(t, rank ? NULL : j->file, true, &error);
    if (t && rank == 0) {
        memcpy(j->status, status, sizeof status);
        j->error = error;
        j->check = weft_trainer_check(t, NULL);
        j->skipped = weft_trainer_progress(t)->skipped;
        j->iteration = weft_trainer_progress(t)->iteration;
        j->has_failed = weft_trainer_failed(t, &j->failed);
        for (int i = 0; i < BATCH; i++) j->samples[i] = weft_trainer_failed_sample(t, i);
        CHECK(weft_trainer_failed_sample(t, -1) == -1 && weft_trainer_failed_sample(t, BATCH) == -1);
    }
    weft_trainer_free(t);
    weft_model_free(m);
}

static void run(job *j) {
    ranks_run(j->world, 60, run_rank, j);
}

/* ---- passing over ---- */

static bool same_files(const char *one, const char *other) {
    char command[400];
    snprintf(command, sizeof command, "cmp -s %s %s", one, other);
    return system(command) == 0;
}

/* Steps of an epoch that the bad samples of a job belong to, each once. */
static int64_t bad_steps(const world_data *d, int64_t steps[MOST]) {
    int64_t n = 0;
    for (int i = 0; i < d->n_bad; i++) {
        bool is_new = place_of(d->bad[i]) / STEP < SAMPLES / STEP;
        for (int k = 0; k < n; k++) is_new = is_new && steps[k] != place_of(d->bad[i]) / STEP;
        if (is_new) steps[n++] = place_of(d->bad[i]) / STEP;
    }
    return n;
}

TEST(what_is_passed_over_leaves_the_bits_of_a_training_without_these_samples) {
    char want[] = "/tmp/weft_bad_want_XXXXXX", got[] = "/tmp/weft_bad_got_XXXXXX",
         alone[2][40] = {"/tmp/weft_bad_alone_XXXXXX", "/tmp/weft_bad_alone_XXXXXX"};
    close(mkstemp(want)), close(mkstemp(got)), close(mkstemp(alone[0])), close(mkstemp(alone[1]));
    static const int64_t bad[][3] = {{0, -1}, {9, -1}, {35, 14, -1}, {45, -1}};
    int n = 0;
    for (size_t b = 0; b < sizeof bad / sizeof *bad; b++)
        for (int way = 0; way < 8 * FLAWS; way++) {
            if (test_is_quick() && ((int)b + way / 8) % 2) continue; /* each flaw in two of the four */
            bool both = way % 2, manual = way / 4 % 2 && !both;
            job with = {.data = {.flaw = way / 8, .unread_by = -1},
                        .world = 1 + way / 2 % 2,
                        .both = both,
                        .manual = manual,
                        .skip = 4};
            with.zero = with.world > 1 && way / 4 % 2 ? 2 : 0;
            for (int i = 0; bad[b][i] >= 0; i++) with.data.bad[with.data.n_bad++] = bad[b][i];
            job without = with;
            with.file = way % 8 < 2 ? alone[both] : got, without.file = want;
            without.data.n_left_out = (int)bad_steps(&with.data, without.data.left_out);
            without.data.n_bad = 0;
            without.skip = 0;
            run(&with), run(&without);
            CHECK_SAYS(!with.status[0] && !without.status[0], "%s %s", with.error.text, without.error.text);
            int64_t steps = 2 * without.data.n_left_out, all = 2 * (SAMPLES / STEP);
            CHECK_SAYS(with.skipped == steps * (1 + both) && with.iteration == all &&
                           without.iteration == all - steps && without.skipped == 0,
                       "%lld skipped, %lld iterations", (long long)with.skipped, (long long)with.iteration);
            CHECK_SAYS(same_files(want, with.file), "bad samples %d, way %d", (int)b, way);
            if (with.world == 2 && !with.zero) /* one rank with two micro-batches */
                CHECK_SAYS(same_files(alone[both], got), "bad samples %d, way %d: two ranks", (int)b, way);
            CHECK(!with.check && !without.check);
            CHECK(with.numbers == without.numbers && with.n_lines == with.skipped);
            n++;
        }
    printf("bad steps: %d trainings end with the bits of those without the samples\n", n);
    remove(want), remove(got), remove(alone[0]), remove(alone[1]);
}

/* Steps 1 and 2, and 4 of each epoch of 5. */
TEST(as_many_in_a_row_as_the_option_says) {
    job j = {.data = {.unread_by = -1, .n_bad = 3}, .world = 1};
    for (int i = 0; i < 3; i++) j.data.bad[i] = sample_at((int64_t[]){1, 2, 4}[i] * STEP + i);
    static const struct {
        int64_t skip, iteration, skipped;
        weft_status status;
    } rows[] = {{0, 1, 0, WEFT_DATA}, {1, 2, 1, WEFT_DATA}, {2, 10, 6, WEFT_OK}, {9, 10, 6, WEFT_OK}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int manual = 0; manual < 2; manual++) {
            job one = j;
            one.skip = rows[i].skip, one.manual = manual, one.world = 1 + (int)i % 2;
            run(&one);
            CHECK_SAYS(one.status[0] == rows[i].status && one.iteration == rows[i].iteration &&
                           one.skipped == rows[i].skipped,
                       "row %zu: %lld iterations, %lld passed over: %s", i, (long long)one.iteration,
                       (long long)one.skipped, one.error.text);
            CHECK(one.has_failed == (rows[i].status != WEFT_OK));
        }
}

TEST(a_training_without_one_good_step_says_so) {
    for (int world = 1; world <= 2; world++) {
        job j = {.data = {.unread_by = -1, .n_bad = SAMPLES / STEP}, .world = world, .skip = 100};
        for (int i = 0; i < j.data.n_bad; i++) j.data.bad[i] = sample_at(i * STEP + i);
        run(&j);
        CHECK_SAYS(!j.status[0] && j.check == WEFT_DATA && j.skipped == j.iteration, "%s", j.error.text);
        j.data.n_bad--; /* one good step an epoch */
        j.n_lines = 0;
        run(&j);
        CHECK_SAYS(!j.status[0] && !j.check && j.skipped == 2 * j.data.n_bad, "%s", j.error.text);
    }
}

/* ---- whose samples ---- */

TEST(the_samples_of_a_bad_step_are_named) {
    static const char *const first[] = {"first NaN, on rank ", "first wrong value, on rank ",
                                        "first infinity, on rank "};
    for (int64_t bad = 0; bad < SAMPLES; bad += test_is_quick() ? 15 : 5) {
        int64_t place = place_of(bad), batch = place / BATCH;
        if (place / STEP >= SAMPLES / STEP) continue; /* left out of each epoch */
        for (int way = 0; way < 4 * FLAWS; way++) {
            char list[200];
            flaw flaw = way / 4;
            job j = {.data = {.flaw = flaw, .unread_by = -1, .n_bad = 1, .bad = {bad}},
                     .world = 1 + way % 2,
                     .manual = way / 2 % 2};
            run(&j);
            CHECK(j.status[0] == WEFT_DATA && j.has_failed && j.failed.is_bad);
            CHECK_SAYS(j.failed.epoch == 1 && j.failed.iteration == place / STEP + 1, "%lld, %lld",
                       (long long)j.failed.epoch, (long long)j.failed.iteration);
            CHECK(j.failed.rank == (j.world > 1 ? batch % 2 : 0) && j.failed.samples == BATCH);
            CHECK(j.failed.micro_batch == (j.world > 1 ? 0 : batch % 2));
            for (int i = 0; i < BATCH; i++)
                CHECK_SAYS(j.samples[i] == sample_at(batch * BATCH + i), "%d: %lld", i,
                           (long long)j.samples[i]);
            snprintf(list, sizeof list, ", sample %lld, row %lld]", (long long)bad,
                     (long long)(place % BATCH));
            if (flaw == IS_HUGE) /* no input's element is to blame: all samples */
                snprintf(list, sizeof list, ", samples %lld, %lld, %lld, %lld]", (long long)j.samples[0],
                         (long long)j.samples[1], (long long)j.samples[2], (long long)j.samples[3]);
            CHECK_HOLDS(j.error.text, list);
            CHECK(j.failed.row == (flaw == IS_HUGE ? -1 : place % BATCH));
            if (flaw == IS_NO_CLASS) CHECK_HOLDS(j.error.text, "target 7 is outside the classes 0 to 4");
            job skips = j;
            skips.skip = 1, skips.n_lines = 0;
            run(&skips);
            CHECK_SAYS(strstr(skips.lines[0], list) && strstr(skips.lines[0], first[flaw]), "%s",
                       skips.lines[0]);
            CHECK(!skips.has_failed);
        }
    }
}

/* An error that is not a bad step's is not passed over. */
TEST(a_step_that_takes_a_bad_step_itself_has_its_own_errors) {
    job j = {.data = {.unread_by = -1, .n_bad = 1, .bad = {sample_at(0)}}, .skip = 3};
    j.world = 1, j.manual = j.errs = true;
    run(&j);
    CHECK_SAYS(j.status[0] == WEFT_DATA && j.skipped == 0 && j.iteration == 0, "%lld passed over: %s",
               (long long)j.skipped, j.error.text);
    CHECK_TEXT(j.error.text, "its own");
}

/* An error of one rank, in a training that another error of all ranks had ended: the others must learn it. */
TEST(an_error_after_a_bad_step_is_told_to_all_ranks) {
    job j = {.data = {.unread_by = 1, .n_bad = 1, .bad = {0}}, .world = 2, .twice = true};
    run(&j);
    CHECK(j.status[0] == WEFT_DATA);
    CHECK_SAYS(j.status[1] == WEFT_PEER, "%s", j.error.text);
    CHECK_HOLDS(j.error.text, "a disk is gone");
    CHECK(!j.has_failed);
}

TEST(a_training_without_a_guard_cannot_pass_over) {
    static const struct {
        const char *says;
        weft_trainer_options how;
    } rows[] = {{"skip_bad_steps needs a guard", {.skip_bad_steps = 1, .own_guard = true}},
                {"skip_bad_steps needs a guard", {.skip_bad_steps = 1, .keep_going = true}},
                {"skip_bad_steps=-1: it must be a whole number from 1", {.skip_bad_steps = -1}}};
    weft_model *m = build(false, false);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_error error = {0};
        weft_trainer *t = weft_trainer_new(m, &rows[i].how, &error);
        CHECK(!t && error.status == WEFT_ARGUMENT);
        CHECK_HOLDS(error.text, rows[i].says);
        weft_trainer_free(t);
    }
    CHECK(!weft_trainer_failed(NULL, NULL) && weft_trainer_failed_sample(NULL, 0) == -1);
    CHECK(weft_bad_steps(NULL) == 0 && !weft_bad_step_at(NULL, NULL, NULL));
    weft_model_free(m);
}

SUITE("bad steps",
      {T(what_is_passed_over_leaves_the_bits_of_a_training_without_these_samples),
       T(as_many_in_a_row_as_the_option_says), T(a_training_without_one_good_step_says_so),
       T(the_samples_of_a_bad_step_are_named), T(a_step_that_takes_a_bad_step_itself_has_its_own_errors),
       T(an_error_after_a_bad_step_is_told_to_all_ranks), T(a_training_without_a_guard_cannot_pass_over)})
