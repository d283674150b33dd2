/* test_logs.c - logs of text, JSON, CSV and event files, against numbers that a hook of the test saw (event
 * files by TensorBoard, too: read_events.py, tools/nightly.sh events); logs that fail. */
#define _GNU_SOURCE /* posix_openpt */
#include "support/faults.h"
#include "support/models/hooked.h"
#include "support/locale.h"

#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- logs ---- */

static char json_path[100], csv_path[100], text_path[100];

static double number(const json_t *line, const char *key) {
    return json_number_value(json_object_get(line, key));
}

/* 14 iterations with 1 batch or, from 6 on, 2: 22 batches of two epochs of 12. */
static void check_json(const seen *s) {
    FILE *f = fopen(json_path, "r");
    NEED(f != NULL);
    static const int ends[] = {4, 8, 12};
    int n = 0, vals = 0, last = 0;
    json_t *line;
    for (; (line = json_loadf(f, JSON_DISABLE_EOF_CHECK, NULL)); json_decref(line)) {
        if (json_object_get(line, "val_loss")) {
            CHECK(is_near(number(line, "val_loss"), s->val[vals++]));
            continue;
        }
        int end = n < 3 ? ends[n] : s->n;
        CHECK_SAYS(is_near(number(line, "loss"), seen_mean(s, last, end)), "line %d", n);
        CHECK(number(line, "step") == end && number(line, "memory_mib") > 0);
        int updates = end <= 6 ? end : 6 + 2 * (end - 6);
        double lr = 0.05 * (updates > 9 ? 0.25 : updates > 5 ? 0.5 : 1); /* of the last update */
        CHECK_SAYS(is_near(number(line, "lr"), lr), "line %d: lr %g", n, number(line, "lr"));
        CHECK(number(line, "samples_per_second") > 0);
        last = end;
        n++;
    }
    fclose(f);
    CHECK(n == 4 && vals == s->vals && vals > 0 && s->n > 12 && s->n < 16);
}

static void check_csv(const seen *s) {
    char row[300], phase[20], name[40], head[] = "step,epoch,phase,name,value\n";
    long long step, epoch;
    double value;
    int losses = 0, vals = 0, rates = 0;
    FILE *f = fopen(csv_path, "r");
    NEED(f != NULL);
    CHECK(fgets(row, sizeof row, f) && strcmp(row, head) == 0);
    while (fgets(row, sizeof row, f)) {
        CHECK_SAYS(sscanf(row, "%lld,%lld,%19[a-z],%39[a-z_],%lf", &step, &epoch, phase, name, &value) == 5,
                   "%s", row);
        bool is_loss = strcmp(name, "loss") == 0, is_train = strcmp(phase, "train") == 0;
        if (is_loss && is_train)
            CHECK(is_near(value, seen_mean(s, losses ? 10 : 0, losses ? s->n : 10)) && ++losses);
        if (is_loss && !is_train) CHECK(is_near(value, s->val[vals++]));
        rates += strcmp(name, "lr") == 0;
    }
    fclose(f);
    CHECK(losses == 2 && rates == 2 && vals == s->vals);
}

/* Lines into a file: every ten iterations without more. */
static void check_text(const seen *s) {
    char row[300];
    int lines = 0;
    double loss;
    FILE *f = fopen(text_path, "r");
    NEED(f != NULL);
    while (fgets(row, sizeof row, f)) {
        const char *at = strstr(row, "loss ");
        if (strstr(row, "validation") || !CHECK(at && sscanf(at, "loss %lf", &loss) == 1)) continue;
        CHECK(fabs(loss - seen_mean(s, lines ? 10 : 0, lines ? s->n : 10)) < 1e-4);
        CHECK_SAYS((strstr(row, "  lr 0.0125") != NULL) == (lines == 0), "%s", row); /* it stays */
        CHECK_SAYS((strstr(row, " left") != NULL) == (lines == 0), "%s", row);       /* then all is done */
        lines++;
    }
    fclose(f);
    CHECK(lines == 2);
}

static void check_logs(bool has_comma) {
    weft_error e = {0};
    seen s = {0};
    weft_model *m = hooked_model();
    weft_model_set_flow(m, "0-5: train; 6-: train*2");
    char folder[] = "/tmp/weft_hooksXXXXXX";
    NEED(mkdtemp(folder));
    snprintf(json_path, sizeof json_path, "%s/log.jsonl", folder);
    snprintf(csv_path, sizeof csv_path, "%s/log.csv", folder);
    snprintf(text_path, sizeof text_path, "%s/log.txt", folder);
    FILE *text = fopen(text_path, "w");
    weft_hook hooks[] = {SEES(&s), weft_hook_json(json_path, 4), weft_hook_csv(csv_path, 0),
                         weft_hook_text(text, 0)};
    weft_trainer *t = hooked_trainer(
        m, &(weft_trainer_options){
               .train = HOOKED_DATA, .val = HOOKED_DATA, .epochs = 2, .n_hooks = 4, .hooks = hooks});
    if (has_comma) locale_comma();
    CHECK_SAYS(t && weft_trainer_fit(t, &e) == WEFT_OK && weft_trainer_check(t, &e) == WEFT_OK, "%s", e.text);
    weft_trainer_free(t);
    if (has_comma) locale_back();
    fclose(text);
    check_json(&s);
    check_csv(&s);
    if (!has_comma) check_text(&s); /* lines for people are as the host writes numbers */
    weft_model_free(m);
    unlink(json_path), unlink(csv_path), unlink(text_path), rmdir(folder);
}

TEST(logs_are_means_of_an_interval_by_samples) {
    check_logs(false);
}

TEST(logs_have_points_where_the_host_has_commas) {
    check_logs(true);
}

/* ---- event files ---- */

/* With WEFT_TEST_EVENTS=FOLDER the files stay there: tools/nightly.sh events reads them by TensorBoard. */
TEST(event_files_hold_the_scalars) {
    const char *kept = getenv("WEFT_TEST_EVENTS");
    char folder[] = "/tmp/weft_eventsXXXXXX", path[600], logs[300], csv[300];
    weft_error e = {0};
    seen s = {0};
    NEED(mkdtemp(folder));
    snprintf(logs, sizeof logs, "%s/logs", kept ? kept : folder);
    snprintf(csv, sizeof csv, "%s/log.csv", kept ? kept : folder);
    weft_model *m = hooked_model();
    weft_hook hooks[] = {SEES(&s), weft_hook_tensorboard(logs, 5), weft_hook_csv(csv, 5)};
    weft_trainer *t = hooked_trainer(
        m, &(weft_trainer_options){.train = HOOKED_DATA, .val = HOOKED_DATA, .n_hooks = 3, .hooks = hooks});
    CHECK_SAYS(t && weft_trainer_fit(t, &e) == WEFT_OK, "%s", e.text);
    weft_trainer_free(t);
    scalars *got = events_read(logs, path);
    NEED(got);
    CHECK_TEXT(got->version, "brain.Event:2");
    CHECK(s.n == 12 && got->records == 1 + 3 + 1);
    for (int end = 5; end <= 12; end = end == 10 ? 12 : end + 5)
        CHECK(scalar_at(got, "train/loss", end) == (float)seen_mean(&s, end == 12 ? 10 : end - 5, end));
    CHECK(scalar_at(got, "val/loss", 12) == (float)s.val[0] && scalar_at(got, "train/lr", 5) == 0.05F);
    weft_model_free(m);
    if (!kept) unlink(path), unlink(csv), rmdir(logs);
    rmdir(folder);
    free(got);
}

/* ---- names and numbers of metrics ---- */

/* The n-th line of a log of JSON; NULL: it has fewer. */
static json_t *json_line(const char *path, int n) {
    FILE *f = fopen(path, "r");
    json_t *line = NULL;
    for (int i = 0; f && i <= n; i++) {
        json_decref(line);
        line = json_loadf(f, JSON_DISABLE_EOF_CHECK, NULL);
    }
    if (f) fclose(f);
    return line;
}

TEST(metrics_named_as_a_lines_own_numbers_do_not_hide_them) {
    static const char *const names[] = {
        "step", "epoch", "samples", "seconds", "lr", "memory_mib", "samples_per_second", "data_time"};
    enum { NAMES = sizeof names / sizeof *names };
    char folder[] = "/tmp/weft_namesXXXXXX", path[100];
    weft_error e = {0};
    NEED(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/log", folder);
    weft_model *m = hooked_model_with(NULL, NAMES, names);
    weft_hook hook = weft_hook_json(path, 12);
    weft_trainer *t = hooked_trainer(
        m, &(weft_trainer_options){.train = HOOKED_DATA, .val = HOOKED_DATA, .n_hooks = 1, .hooks = &hook});
    CHECK_SAYS(t && weft_trainer_fit(t, &e) == WEFT_OK, "%s", e.text);
    double mib = t ? (double)weft_plan_memory(weft_trainer_plan(t)).total / (1 << 20) : 0;
    weft_trainer_free(t);
    weft_model_free(m);
    json_t *train = json_line(path, 0), *val = json_line(path, 1);
    CHECK(number(train, "step") == 12 && number(train, "epoch") == 1 && number(train, "samples") == 48);
    CHECK(is_near(number(train, "lr"), 0.0125) && fabs(number(train, "memory_mib") - mib) < 1e-3 &&
          number(val, "step") == 12);
    CHECK(number(train, "data_time") >= 0 && json_object_get(train, "data_time"));
    for (int k = 0; k < NAMES; k++) {
        char key[60];
        snprintf(key, sizeof key, "metric/%s", names[k]);
        CHECK_SAYS(json_object_get(train, key) && number(train, key) == k, "%s", key);
        snprintf(key, sizeof key, "val_metric/%s", names[k]);
        CHECK_SAYS(json_object_get(val, key) && number(val, key) == k, "%s", key);
    }
    json_decref(train), json_decref(val);
    unlink(path), rmdir(folder);
}

TEST(logs_have_any_number_of_metrics) {
    enum { EXTRAS = 150 };
    char folder[] = "/tmp/weft_manyXXXXXX", json[100], csv[100], logs[100], path[600], row[300];
    weft_error e = {0};
    int rows = 0;
    NEED(mkdtemp(folder));
    snprintf(json, sizeof json, "%s/json", folder);
    snprintf(csv, sizeof csv, "%s/csv", folder);
    snprintf(logs, sizeof logs, "%s/logs", folder);
    weft_model *m = hooked_model_with(NULL, EXTRAS, NULL);
    weft_hook hooks[] = {weft_hook_json(json, 12), weft_hook_csv(csv, 12), weft_hook_tensorboard(logs, 12)};
    weft_trainer *t = hooked_trainer(
        m, &(weft_trainer_options){.train = HOOKED_DATA, .val = HOOKED_DATA, .n_hooks = 3, .hooks = hooks});
    CHECK_SAYS(t && weft_trainer_fit(t, &e) == WEFT_OK && weft_trainer_check(t, &e) == WEFT_OK, "%s", e.text);
    weft_trainer_free(t);
    weft_model_free(m);
    scalars *got = events_read(logs, path);
    NEED(got);
    json_t *train = json_line(json, 0), *val = json_line(json, 1);
    for (int k = 0; k < EXTRAS; k++) {
        char key[40];
        snprintf(key, sizeof key, "val_extra%d", k);
        CHECK_SAYS(json_object_get(train, key + 4) && number(train, key + 4) == k, "%s", key + 4);
        CHECK_SAYS(json_object_get(val, key) && number(val, key) == k, "%s", key);
        snprintf(key, sizeof key, "train/extra%d", k);
        CHECK_SAYS(scalar_at(got, key, 12) == (float)k, "%s", key);
    }
    CHECK(json_object_get(train, "lr") && scalar_at(got, "train/lr", 12) == 0.0125F);
    json_decref(train), json_decref(val);
    free(got);
    FILE *f = fopen(csv, "r");
    while (f && fgets(row, sizeof row, f)) rows += strstr(row, "extra") != NULL;
    if (f) fclose(f);
    CHECK(rows == 2 * EXTRAS);
    unlink(json), unlink(csv), unlink(path), rmdir(logs), rmdir(folder);
}

/* ---- rates ---- */

enum { VAL_MS = 400 };

static weft_status sleeps(void *self, weft_trainer *t, weft_hook_point point, weft_error *error) {
    (void)self, (void)t, (void)error;
    if (point == WEFT_BEFORE_VAL) test_nap(VAL_MS);
    return WEFT_OK;
}

static weft_status read_slowly(void *context, int64_t i, void *const *into, weft_error *error) {
    test_nap(2);
    return hooked_read(context, i, into, error);
}

/* Four samples of 2 ms each are waited for by the first iteration, whatever is read ahead later. */
TEST(logs_have_the_seconds_that_an_iteration_waits_for_data) {
    char folder[] = "/tmp/weft_dataXXXXXX", path[100];
    weft_error e = {0};
    weft_source slow = hooked_samples;
    double waited = 0;
    slow.read = read_slowly;
    NEED(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/log", folder);
    weft_model *m = hooked_model();
    weft_hook hook = weft_hook_json(path, 1);
    weft_trainer *t =
        hooked_trainer(m, &(weft_trainer_options){.train = {1, (const weft_source *[]){&slow}, NULL},
                                                  .iterations = 4,
                                                  .n_hooks = 1,
                                                  .hooks = &hook});
    CHECK_SAYS(t && weft_trainer_fit(t, &e) == WEFT_OK, "%s", e.text);
    double all = weft_trainer_progress(t)->data_seconds;
    CHECK(all == weft_loader_waited(weft_trainer_loader(t)));
    weft_trainer_free(t);
    weft_model_free(m);
    for (int i = 0; i < 4; i++) {
        json_t *line = json_line(path, i);
        waited += number(line, "data_time");
        CHECK_SAYS(number(line, "data_time") > (i ? 0 : 0.0079), "%d: %g", i, number(line, "data_time"));
        json_decref(line);
    }
    CHECK_SAYS(fabs(waited - all) < 1e-6, "%g in lines, %g in all", waited, all);
    unlink(path), rmdir(folder);
}

/* What comes after the last epoch is of that one: a test, and a fit that has nothing left to do. */
TEST(lines_after_the_last_epoch_have_its_number) {
    char folder[] = "/tmp/weft_epochsXXXXXX", path[100];
    weft_error e = {0};
    weft_metrics metrics;
    NEED(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/log", folder);
    weft_model *m = hooked_model();
    weft_hook hook = weft_hook_json(path, 12); /* 50 samples by 4: one line an epoch */
    weft_trainer *t = hooked_trainer(m, &(weft_trainer_options){.train = HOOKED_DATA,
                                                                .val = HOOKED_DATA,
                                                                .test = HOOKED_DATA,
                                                                .epochs = 2,
                                                                .n_hooks = 1,
                                                                .hooks = &hook});
    CHECK_SAYS(t && weft_trainer_fit(t, &e) == WEFT_OK && weft_trainer_test(t, &metrics, &e) == WEFT_OK, "%s",
               e.text);
    weft_trainer_free(t);
    weft_model_free(m);
    static const int epochs[] = {1, 1, 2, 2, 2}; /* training, validation, twice; the test */
    for (int i = 0; i < 5; i++) {
        json_t *line = json_line(path, i);
        CHECK_SAYS(number(line, "epoch") == epochs[i], "line %d: epoch %g", i, number(line, "epoch"));
        json_decref(line);
    }
    unlink(path), rmdir(folder);
}

/* Whether so many seconds, told with few digits, leave three validations out of all. */
static bool leaves_out(double seconds, double all) {
    return CHECK_SAYS(seconds * 0.95 < all - 3 * VAL_MS * 1e-3, "%g s of iterations in %g s", seconds, all);
}

/* What five iterations took by their rates, and three validations, is not more than the whole took. */
TEST(samples_per_second_leave_validations_out) {
    char folder[] = "/tmp/weft_ratesXXXXXX", path[100], row[300], *at;
    weft_error e = {0};
    double rate, all, by_steps = 0, by_samples = 0;
    int lines = 0;
    NEED(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/log", folder);
    FILE *text = tmpfile();
    NEED(text);
    weft_model *m = hooked_model();
    weft_hook hooks[] = {weft_hook_json(path, 1), weft_hook_text(text, 1), {.name = "sleeps", .at = sleeps}};
    weft_trainer *t = hooked_trainer(m, &(weft_trainer_options){.train = HOOKED_DATA,
                                                                .val = HOOKED_DATA,
                                                                .iterations = 5,
                                                                .val_iterations = 2,
                                                                .n_hooks = 3,
                                                                .hooks = hooks});
    CHECK_SAYS(t && weft_trainer_fit(t, &e) == WEFT_OK, "%s", e.text);
    all = t ? weft_trainer_progress(t)->seconds : 0;
    weft_trainer_free(t);
    weft_model_free(m);
    rewind(text);
    while (fgets(row, sizeof row, text))
        if ((at = strstr(row, " steps/s"))) {
            while (at > row && at[-1] != ' ') at--;
            if (CHECK_SAYS(sscanf(at, "%lf", &rate) == 1 && rate > 0, "%s", row)) by_steps += 1 / rate;
            lines++;
        }
    fclose(text);
    CHECK(lines == 5);
    for (int i = 0; i < 8; i++) {
        json_t *line = json_line(path, i);
        if (json_object_get(line, "loss")) by_samples += 4 / number(line, "samples_per_second");
        json_decref(line);
    }
    leaves_out(by_steps, all);
    leaves_out(by_samples, all);
    unlink(path), rmdir(folder);
}

/* ---- what lines of text have ---- */

/* The text log of so many iterations; the caller frees it. */
static char *text_of(int64_t iterations, int64_t every) {
    weft_error e = {0};
    char *text = NULL;
    size_t n = 0;
    FILE *file = open_memstream(&text, &n);
    weft_model *m = hooked_model();
    weft_hook hook = weft_hook_text(file, every);
    weft_trainer *t =
        hooked_trainer(m, &(weft_trainer_options){
                              .train = HOOKED_DATA, .iterations = iterations, .n_hooks = 1, .hooks = &hook});
    CHECK_SAYS(t && weft_trainer_fit(t, &e) == WEFT_OK, "%s", e.text);
    weft_trainer_free(t);
    weft_model_free(m);
    fclose(file);
    return text;
}

static int count_of(const char *text, const char *what) {
    int n = 0;
    for (; (text = strstr(text, what)); text++) n++;
    return n;
}

/* The model's rate is halved after 5 updates, and after 9. */
TEST(a_line_has_the_learning_rate_when_it_changes) {
    static const struct {
        const char *step, *rate;
    } rows[] = {{"step 1/12", "  lr 0.05 "}, {"step 6/12", "  lr 0.025 "}, {"step 10/12", "  lr 0.0125 "}};
    char *text = text_of(12, 1);
    CHECK(count_of(text, "\n") == 12 && count_of(text, "  lr ") == 3);
    for (int i = 0; i < 3; i++) {
        const char *line = strstr(text, rows[i].step), *rate = line ? strstr(line, rows[i].rate) : NULL;
        CHECK_SAYS(rate && rate < strchr(line, '\n'), "%s", rows[i].step);
    }
    free(text);
}

/* Two graphs, each with an optimizer of its own. */
static weft_model *model_of_two_rates(void) {
    weft_model *m = weft_model_new("m");
    weft_model_set_batch(m, BATCH);
    for (int i = 0; i < 2; i++) {
        weft_optimizer sgd = {.type = "sgd", .name = i ? "second" : "first", .lr = 0.1};
        weft_graph *g = weft_graph_new(m, i ? "b" : "a", WEFT_TRAIN);
        weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, 1));
        weft_value *t = weft_input(g, "t", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, 1));
        weft_minimize(weft_mse(weft_linear(x, 1, i ? "right" : "left", NULL), t, NULL), i ? "right" : "left",
                      &sgd);
    }
    return m;
}

/* The rates of `first` and `second`, by the number of the iteration. */
static const double two_rates[][2] = {{0.1, 0.1}, {0.05, 0.1}, {0.1, 0.1},
                                      {0.1, 0.1}, {0.2, 0.2},  {0.2, 0.3}};
enum { TWO_RATES = sizeof two_rates / sizeof *two_rates };

static weft_status set_rates(void *self, weft_trainer *t, weft_hook_point point, weft_error *error) {
    (void)self;
    if (point != WEFT_BEFORE_ITERATION) return WEFT_OK;
    const double *rates = two_rates[weft_trainer_progress(t)->iteration];
    weft_status status = weft_store_set_lr(weft_trainer_store(t), "first", rates[0], error);
    return status ? status : weft_store_set_lr(weft_trainer_store(t), "second", rates[1], error);
}

/* Where rates become equal again, the one that has changed stands for both. */
TEST(a_line_has_the_rate_of_each_optimizer_when_it_changes) {
    static const char *const has[TWO_RATES] = {"  lr 0.1", "  lr/first 0.05", "  lr 0.1",
                                               "",         "  lr 0.2",        "  lr/second 0.3"};
    weft_error e = {0};
    char row[300];
    FILE *text = tmpfile();
    NEED(text);
    weft_model *m = model_of_two_rates();
    weft_hook hooks[] = {{.name = "rates", .at = set_rates}, weft_hook_text(text, 1)};
    weft_trainer *t = hooked_trainer(
        m,
        &(weft_trainer_options){.train = HOOKED_DATA, .iterations = TWO_RATES, .n_hooks = 2, .hooks = hooks});
    CHECK_SAYS(t && weft_trainer_fit(t, &e) == WEFT_OK, "%s", e.text);
    weft_trainer_free(t);
    weft_model_free(m);
    rewind(text);
    for (int i = 0; i < TWO_RATES; i++) {
        NEED(fgets(row, sizeof row, text));
        char *rate = strstr(row, "  lr"), *end = rate ? strstr(rate + 2, "  ") : NULL;
        CHECK_SAYS(count_of(row, "  lr") == (*has[i] != 0), "%s", row);
        if (rate) *(end ? end : strchr(rate, '\n')) = 0;
        CHECK_TEXT(rate ? rate : "", has[i]);
    }
    fclose(text);
}

TEST(a_run_has_about_twenty_lines) {
    static const struct {
        int iterations, lines, third; /* the iteration of the third line */
    } rows[] = {{9, 1, 0}, {20, 2, 0}, {200, 20, 30}, {201, 12, 40}, {1000, 22, 50}, {1700, 20, 50}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *text = text_of(rows[i].iterations, 0), third[40];
        snprintf(third, sizeof third, "  step %d/%d  ", rows[i].third, rows[i].iterations);
        CHECK_SAYS(count_of(text, "\n") == rows[i].lines, "%d iterations: %d lines", rows[i].iterations,
                   count_of(text, "\n"));
        CHECK_SAYS(rows[i].iterations < 10 || strstr(text, "  step 10/"), "%d iterations",
                   rows[i].iterations);
        CHECK_SAYS(!rows[i].third || strstr(text, third), "%d iterations", rows[i].iterations);
        CHECK(count_of(text, " steps/s") == rows[i].lines && count_of(text, " left\n") == rows[i].lines - 1);
        free(text);
    }
}

static weft_status run_train(weft_trainer *t, void *user, weft_error *error) {
    (void)user;
    return weft_trainer_run(t, "train", WEFT_FLOW_NEXT, error);
}

/* 50 epochs of 12 batches, which a step of your own does not tell before: lines are 10 apart up to 200, then
 * 20 up to 420, then 50. */
TEST(lines_of_a_run_of_unknown_length_become_rarer) {
    weft_error e = {0};
    char *text = NULL;
    size_t n = 0;
    FILE *file = open_memstream(&text, &n);
    weft_model *m = hooked_model();
    weft_hook hook = weft_hook_text(file, 0);
    weft_trainer *t = hooked_trainer(
        m, &(weft_trainer_options){
               .train = HOOKED_DATA, .epochs = 50, .train_step = run_train, .n_hooks = 1, .hooks = &hook});
    CHECK_SAYS(t && weft_trainer_fit(t, &e) == WEFT_OK, "%s", e.text);
    weft_trainer_free(t);
    weft_model_free(m);
    fclose(file);
    static const char *const steps[] = {"  step 10 ", "  step 200 ", "  step 420 ", "  step 450 ",
                                        "  step 600 "};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) CHECK_HOLDS(text, steps[i]);
    CHECK_SAYS(count_of(text, "\n") == 36, "%d lines", count_of(text, "\n"));
    free(text);
}

/* ---- a terminal ---- */

/* The end of a terminal of so many columns that a program writes to; *screen is the other. NULL: there is
 * none. */
static FILE *terminal(unsigned short columns, int *screen) {
    struct winsize size = {.ws_row = 24, .ws_col = columns};
    *screen = posix_openpt(O_RDWR | O_NOCTTY);
    if (*screen < 0 || grantpt(*screen) || unlockpt(*screen)) return NULL;
    int file = open(ptsname(*screen), O_RDWR | O_NOCTTY);
    return file >= 0 && !ioctl(file, TIOCSWINSZ, &size) ? fdopen(file, "w") : NULL;
}

/* What came until the end of a line, which a terminal gives in pieces. */
static void see_screen(int screen, char *text, size_t room) {
    struct pollfd comes = {.fd = screen, .events = POLLIN};
    size_t n = 0;
    while (!memchr(text, '\n', n) && poll(&comes, 1, 10000) == 1) {
        ssize_t more = read(screen, text + n, room - 1 - n);
        if (more <= 0) break;
        n += (size_t)more;
    }
    text[n] = 0;
}

/* Takes the escape that clears the rest of a line out of a text; the columns of its longest line. */
static size_t widest(char *text) {
    size_t most = 0, n = 0;
    char *to = text;
    for (const char *at = text; *at; at++) {
        bool is_clear = strncmp(at, "\033[K", 3) == 0;
        if (is_clear) at += 2;
        if (is_clear) continue;
        n = *at == '\r' || *at == '\n' ? 0 : n + 1;
        most = n > most ? n : most;
        *to++ = *at;
    }
    *to = 0;
    return most;
}

/* A line never reaches the last column, where it would wrap: metrics that have no room are left out, pace and
 * rest of the time are not; a bar takes the room that is left. */
TEST(a_bar_is_as_wide_as_its_terminal) {
    static const struct {
        unsigned short columns;
        int names;              /* of metrics beside the loss */
        bool is_whole, has_bar; /* pace and rest are there */
    } rows[] = {{20, 1, false, false}, {60, 1, true, false}, {80, 8, true, false},
                {132, 1, true, true},  {200, 1, true, true}, {200, 8, true, true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[1 << 12];
        weft_error e = {0};
        int screen;
        FILE *file = terminal(rows[i].columns, &screen);
        NEED(file);
        weft_model *m = hooked_model_with(NULL, rows[i].names, NULL);
        weft_hook hook = weft_hook_text(file, 0);
        weft_trainer *t = hooked_trainer(
            m, &(weft_trainer_options){.train = HOOKED_DATA, .epochs = 2, .n_hooks = 1, .hooks = &hook});
        CHECK_SAYS(t && weft_trainer_fit(t, &e) == WEFT_OK, "%s", e.text);
        weft_trainer_free(t);
        weft_model_free(m);
        see_screen(screen, text, sizeof text);
        size_t width = widest(text);
        CHECK_SAYS(width < rows[i].columns, "%zu of %d columns: %s", width, rows[i].columns, text);
        const char *pace = strstr(text, " steps/s  "); /* then the rest, "0:02 left" on a slow machine */
        CHECK_SAYS((pace && strstr(pace, " left")) == rows[i].is_whole, "%d columns: %s", rows[i].columns,
                   text);
        CHECK_SAYS((strstr(text, "\r[####") || !rows[i].has_bar) && strstr(text, "epoch 2  step 24"),
                   "%d columns: %s", rows[i].columns, text);
        CHECK(strchr(text, '\033') == NULL && strchr(text, '\n') == text + strlen(text) - 1);
        fclose(file);
        close(screen);
    }
}

/* ---- logs that fail ---- */

TEST(a_log_that_fails_is_told_and_the_training_goes_on) {
    faults f;
    static const char *const says[] = {"writing failed at step 1", "writing failed at step 5",
                                       "lines before step 12 may be lost"};
    static const long calls[] = {2, 6, 14}; /* open, 12 lines, sync */
    for (int i = 0; i < 3; i++) {
        weft_error e = {0};
        weft_model *m = hooked_model();
        weft_hook hook = weft_hook_json("log", 1);
        faults_init(&f);
        weft_env files = {.io = &f.io};
        weft_trainer *t = hooked_trainer(
            m, &(weft_trainer_options){.env = &files, .train = HOOKED_DATA, .n_hooks = 1, .hooks = &hook});
        faults_arm(&f, 0, calls[i], false);
        CHECK_SAYS(weft_trainer_fit(t, &e) == WEFT_OK && weft_trainer_progress(t)->iteration == 12, "%s",
                   e.text);
        CHECK(faults_hit(&f) && weft_trainer_check(t, &e) == WEFT_IO);
        CHECK_HOLDS(e.text, says[i]);
        weft_trainer_free(t);
        CHECK(f.handles == 0);
        faults_end(&f);
        weft_model_free(m);
    }
}

/* Each log fails again until its folder is there. */
TEST(a_log_that_could_not_be_opened_is_tried_again) {
    for (int i = 0; i < 3; i++) {
        char folder[] = "/tmp/weft_retryXXXXXX", path[100], command[200];
        weft_error e = {0};
        NEED(mkdtemp(folder));
        rmdir(folder);
        snprintf(path, sizeof path, "%s/log", folder);
        weft_model *m = hooked_model();
        weft_hook hook = i == 0   ? weft_hook_csv(path, 1)
                         : i == 1 ? weft_hook_json(path, 1)
                                  : weft_hook_tensorboard(path, 1);
        weft_trainer *t =
            hooked_trainer(m, &(weft_trainer_options){.train = HOOKED_DATA, .n_hooks = 1, .hooks = &hook});
        for (int again = 0; again < 2; again++) {
            CHECK(weft_trainer_fit(t, &e) == WEFT_IO && weft_trainer_progress(t)->iteration == 0);
            CHECK_HOLDS(e.text, i < 2 ? "it cannot be written" : "it cannot be made");
        }
        NEED(mkdir(folder, 0777) == 0);
        CHECK_SAYS(weft_trainer_fit(t, &e) == WEFT_OK && weft_trainer_check(t, &e) == WEFT_OK, "%s", e.text);
        CHECK(access(path, F_OK) == 0);
        weft_trainer_free(t);
        weft_model_free(m);
        snprintf(command, sizeof command, "rm -r %s", folder);
        CHECK(system(command) == 0);
    }
}

SUITE("logs", {T(logs_are_means_of_an_interval_by_samples), T(logs_have_points_where_the_host_has_commas),
               T(event_files_hold_the_scalars), T(metrics_named_as_a_lines_own_numbers_do_not_hide_them),
               T(logs_have_any_number_of_metrics), T(logs_have_the_seconds_that_an_iteration_waits_for_data),
               T(lines_after_the_last_epoch_have_its_number), T(samples_per_second_leave_validations_out),
               T(a_line_has_the_learning_rate_when_it_changes),
               T(a_line_has_the_rate_of_each_optimizer_when_it_changes), T(a_run_has_about_twenty_lines),
               T(lines_of_a_run_of_unknown_length_become_rarer), T(a_bar_is_as_wide_as_its_terminal),
               T(a_log_that_fails_is_told_and_the_training_goes_on),
               T(a_log_that_could_not_be_opened_is_tried_again)})
