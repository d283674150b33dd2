/* test_hooks.c - the hooks that Weft brings, against numbers that a hook of the test saw; errors of one rank,
 * which end all. */
#include "support/faults.h"
#include "support/ranks.h"
#include "support/test.h"
#include "weft/weft.h"

#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BATCH = 4, SAMPLES = 50, MOST = 64, WORLDS = 3 };

/* ---- data and model: a line through sines ---- */

/* The context, if there is one, is a sample that cannot be read. */
static weft_status read_sample(void *context, int64_t i, void *const *into, weft_error *error) {
    if (context && i == *(const int64_t *)context)
        return weft_error_set(error, WEFT_FILE, "photos/7.png: it is damaged");
    *(float *)into[0] = (float)sin((double)i);
    *(float *)into[1] = (float)cos((double)i * 3);
    return WEFT_OK;
}

static const weft_source samples = {.count = SAMPLES,
                                    .n = 2,
                                    .arrays = {{"x", WEFT_F32, 1, {1}}, {"t", WEFT_F32, 1, {1}}},
                                    .read = read_sample};
static const weft_source *const list[] = {&samples};
#define DATA                                                                                                 \
    { 1, list, NULL }

/* With outputs "constant" of the training and so many more of both, 0, 1, ..., of these names or "extra0" and
 * on. */
static weft_model *build_with(const double *constant, int extras, const char *const *names) {
    weft_model *m = weft_model_new("m");
    weft_optimizer sgd = {.type = "sgd",
                          .name = "slow",
                          .lr = 0.05,
                          .schedule = {{WEFT_SCHEDULE_MULTI_STEP, .milestones = {5, 9}, .gamma = 0.5}}};
    weft_model_batch(m, BATCH);
    for (int i = 0; i < 2; i++) {
        weft_graph *g = weft_graph_new(m, i ? "val" : "train", i ? WEFT_EVAL : WEFT_TRAIN);
        weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, 1));
        weft_value *t = weft_input(g, "t", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, 1));
        weft_value *loss = weft_mse(weft_linear(x, 1, "fc"), t);
        if (i == 0) weft_minimize(loss, "", &sgd);
        weft_output(loss, "loss");
        if (i == 0 && constant) weft_output(weft_constant(g, WEFT_F64, 0, NULL, *constant), "constant");
        for (int k = 0; k < extras; k++) {
            char name[20];
            if (names)
                snprintf(name, sizeof name, "%s", names[k]);
            else
                snprintf(name, sizeof name, "extra%d", k);
            weft_output(weft_constant(g, WEFT_F64, 0, NULL, k), name);
        }
    }
    return m;
}

static weft_model *build(void) {
    return build_with(NULL, 0, NULL);
}

/* ---- a hook that sees every iteration and validation ---- */

typedef struct seen {
    int n, vals;
    double loss[MOST], samples[MOST], val[MOST];
    int64_t val_iteration[MOST];
    float weight[MOST]; /* of fc at each validation */
    weft_status again;  /* what weft_trainer_fit() said within the hook */
} seen;

static weft_status see(void *self, weft_trainer *t, weft_point point, weft_error *error) {
    seen *s = self;
    const weft_progress *p = weft_trainer_progress(t);
    (void)error;
    if (point == WEFT_AFTER_ITERATION && s->n < MOST) {
        s->loss[s->n] = weft_metrics_get(&p->train, "loss");
        s->samples[s->n++] = (double)p->train.samples;
    }
    if (point == WEFT_AFTER_VAL && s->vals < MOST) {
        weft_sync(weft_trainer_session(t, NULL), NULL);
        weft_store_get(weft_trainer_store(t), "fc/weight", &s->weight[s->vals], 4, NULL);
        s->val_iteration[s->vals] = p->iteration;
        s->val[s->vals++] = weft_metrics_get(&p->val, "loss");
    }
    return WEFT_OK;
}

#define SEES(s)                                                                                              \
    (weft_hook) {                                                                                            \
        "sees", see, NULL, NULL, (s)                                                                         \
    }

/* An evaluator whose metric "score" is the next number of a list at each validation. */
typedef struct script {
    const double *values;
    int next;
} script;

static weft_status script_open(void *self, int64_t rows, const weft_read *reads, int64_t *counts,
                               int64_t *sums, weft_error *error) {
    (void)self, (void)rows, (void)reads, (void)error;
    *counts = *sums = 0;
    return WEFT_OK;
}

static weft_status script_batch(void *self, int64_t rows, const weft_read *reads, weft_tally *tally,
                                weft_error *error) {
    (void)self, (void)rows, (void)reads, (void)tally, (void)error;
    return WEFT_OK;
}

static weft_status script_report(void *self, weft_tally *tally, weft_error *error) {
    script *s = self;
    (void)error;
    weft_tally_report(tally, NULL, s->values[s->next++]);
    return WEFT_OK;
}

#define SCRIPT(s)                                                                                            \
    (weft_evaluator) {                                                                                       \
        "score", {NULL}, script_open, script_batch, script_report, NULL, (s)                                 \
    }

static weft_trainer *trainer_of(const weft_model *m, const weft_trainer_options *o) {
    weft_error e = {0};
    weft_trainer *t = weft_trainer_new(m, o, &e);
    CHECK_SAYS(t != NULL, "%s", e.text);
    return t;
}

/* The weighted mean of iterations [begin, end). */
static double mean_of(const seen *s, int begin, int end) {
    double sum = 0, weight = 0;
    for (int i = begin; i < end; i++) sum += s->loss[i] * s->samples[i], weight += s->samples[i];
    return sum / weight;
}

static bool is_near(double a, double b) {
    return fabs(a - b) <= 1e-8 * fabs(b);
}

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
        CHECK_SAYS(is_near(number(line, "loss"), mean_of(s, last, end)), "line %d", n);
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
            CHECK(is_near(value, mean_of(s, losses ? 10 : 0, losses ? s->n : 10)) && ++losses);
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
        CHECK(fabs(loss - mean_of(s, lines ? 10 : 0, lines ? s->n : 10)) < 1e-4);
        CHECK_HOLDS(row, "  lr 0.0125  "); /* after 14 updates, and after 22 */
        lines++;
    }
    fclose(f);
    CHECK(lines == 2);
}

TEST(logs_are_means_of_an_interval_by_samples) {
    weft_error e = {0};
    seen s = {0};
    weft_model *m = build();
    weft_flow(m, "0-5: train; 6-: train*2");
    char folder[] = "/tmp/weft_hooksXXXXXX";
    NEED(mkdtemp(folder));
    snprintf(json_path, sizeof json_path, "%s/log.jsonl", folder);
    snprintf(csv_path, sizeof csv_path, "%s/log.csv", folder);
    snprintf(text_path, sizeof text_path, "%s/log.txt", folder);
    FILE *text = fopen(text_path, "w");
    weft_hook hooks[] = {SEES(&s), weft_hook_json(json_path, 4), weft_hook_csv(csv_path, 0),
                         weft_hook_text(text, 0)};
    weft_trainer *t = trainer_of(
        m, &(weft_trainer_options){.train = DATA, .val = DATA, .epochs = 2, .n_hooks = 4, .hooks = hooks});
    CHECK_SAYS(t && weft_trainer_fit(t, &e) == WEFT_OK && weft_trainer_check(t, &e) == WEFT_OK, "%s", e.text);
    weft_trainer_free(t);
    fclose(text);
    check_json(&s);
    check_csv(&s);
    check_text(&s);
    weft_model_free(m);
    unlink(json_path), unlink(csv_path), unlink(text_path), rmdir(folder);
}

/* ---- event files, by a reader of its own ---- */

/* CRC-32C by a table. */
static uint32_t crc_of(const uint8_t *data, size_t n) {
    static uint32_t table[256];
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++) c = c & 1 ? 0x82F63B78u ^ (c >> 1) : c >> 1;
        table[i] = c;
    }
    uint32_t crc = 0xFFFFFFFFu;
    while (n--) crc = table[(crc ^ *data++) & 0xFF] ^ (crc >> 8);
    return crc ^ 0xFFFFFFFFu;
}

static bool masked_as(const uint8_t *data, size_t n, const uint8_t *check) {
    uint32_t crc = crc_of(data, n), masked = ((crc >> 15) | (crc << 17)) + 0xa282ead8u, said;
    memcpy(&said, check, 4);
    return masked == said;
}

/* A field of a message: its number, and where its content is; returns what comes after it. */
static const uint8_t *field(const uint8_t *at, int *number, uint64_t *value, const uint8_t **data) {
    uint64_t parts[2] = {0};
    int kind = 0;
    for (int part = 0; part < 2; part++) {
        if (part) kind = (int)(parts[0] & 7);
        if (part && kind != 0 && kind != 2) break;
        for (int shift = 0;; shift += 7) {
            parts[part] |= (uint64_t)(*at & 127) << shift;
            if (!(*at++ & 128)) break;
        }
    }
    *number = (int)(parts[0] >> 3);
    *value = parts[1];
    *data = at;
    return at + (kind == 2 ? parts[1] : kind == 1 ? 8 : kind == 5 ? 4 : 0);
}

typedef struct scalars {
    int n, records;
    struct {
        char tag[60];
        int64_t step;
        float value;
    } list[1000];
    char version[20];
} scalars;

static void read_summary(const uint8_t *at, const uint8_t *end, int64_t step, scalars *into) {
    int number;
    uint64_t bytes;
    const uint8_t *data, *inner;
    while (at < end) {
        at = field(at, &number, &bytes, &data);
        const uint8_t *stop = data + bytes;
        for (const uint8_t *v = data; number == 1 && v < stop && into->n < 1000;) {
            v = field(v, &number, &bytes, &inner);
            if (number == 1) snprintf(into->list[into->n].tag, 60, "%.*s", (int)bytes, (const char *)inner);
            if (number == 2) memcpy(&into->list[into->n].value, inner, 4);
            number = 1;
        }
        into->list[into->n++].step = step;
    }
}

static void read_event(const uint8_t *at, const uint8_t *end, scalars *into) {
    int64_t step = 0;
    while (at < end) {
        int number;
        uint64_t value;
        const uint8_t *data;
        at = field(at, &number, &value, &data);
        if (number == 2) step = (int64_t)value;
        if (number == 3) snprintf(into->version, 20, "%.*s", (int)value, (const char *)data);
        if (number == 5) read_summary(data, data + value, step, into);
    }
}

static void read_events(const char *path, scalars *into) {
    static uint8_t file[1 << 16];
    FILE *f = fopen(path, "rb");
    NEED(f != NULL);
    size_t n = fread(file, 1, sizeof file, f);
    fclose(f);
    for (size_t at = 0; at < n; into->records++) {
        uint64_t length;
        memcpy(&length, file + at, 8);
        NEED(masked_as(file + at, 8, file + at + 8) && length < n - at);
        NEED(masked_as(file + at + 12, length, file + at + 12 + length));
        read_event(file + at + 12, file + at + 12 + length, into);
        at += 16 + length;
    }
}

static float scalar_at(const scalars *s, const char *tag, int64_t step) {
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->list[i].tag, tag) == 0 && s->list[i].step == step) return s->list[i].value;
    return NAN;
}

/* With WEFT_TEST_EVENTS=FOLDER the files stay there: tools/nightly.sh events reads them by TensorBoard. */
TEST(event_files_hold_the_scalars) {
    const char *kept = getenv("WEFT_TEST_EVENTS");
    CHECK(crc_of((const uint8_t *)"123456789", 9) == 0xE3069283u);
    char folder[] = "/tmp/weft_eventsXXXXXX", path[600] = "", logs[300], csv[300];
    weft_error e = {0};
    seen s = {0};
    scalars *got = calloc(1, sizeof *got);
    NEED(mkdtemp(folder) && got);
    snprintf(logs, sizeof logs, "%s/logs", kept ? kept : folder);
    snprintf(csv, sizeof csv, "%s/log.csv", kept ? kept : folder);
    weft_model *m = build();
    weft_hook hooks[] = {SEES(&s), weft_hook_tensorboard(logs, 5), weft_hook_csv(csv, 5)};
    weft_trainer *t =
        trainer_of(m, &(weft_trainer_options){.train = DATA, .val = DATA, .n_hooks = 3, .hooks = hooks});
    CHECK_SAYS(t && weft_trainer_fit(t, &e) == WEFT_OK, "%s", e.text);
    weft_trainer_free(t);
    DIR *d = opendir(logs);
    for (struct dirent *entry; d && (entry = readdir(d));)
        if (strstr(entry->d_name, ".tfevents.")) snprintf(path, sizeof path, "%s/%s", logs, entry->d_name);
    if (d) closedir(d);
    read_events(path, got);
    CHECK_TEXT(got->version, "brain.Event:2");
    CHECK(s.n == 12 && got->records == 1 + 3 + 1);
    for (int end = 5; end <= 12; end = end == 10 ? 12 : end + 5)
        CHECK(scalar_at(got, "train/loss", end) == (float)mean_of(&s, end == 12 ? 10 : end - 5, end));
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
    weft_model *m = build_with(NULL, NAMES, names);
    weft_hook hook = weft_hook_json(path, 12);
    weft_trainer *t =
        trainer_of(m, &(weft_trainer_options){.train = DATA, .val = DATA, .n_hooks = 1, .hooks = &hook});
    CHECK_SAYS(t && weft_trainer_fit(t, &e) == WEFT_OK, "%s", e.text);
    weft_trainer_free(t);
    weft_model_free(m);
    json_t *train = json_line(path, 0), *val = json_line(path, 1);
    CHECK(number(train, "step") == 12 && number(train, "epoch") == 1 && number(train, "samples") == 48);
    CHECK(is_near(number(train, "lr"), 0.0125) && number(train, "memory_mib") < 1 &&
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
    char folder[] = "/tmp/weft_manyXXXXXX", json[100], csv[100], logs[100], path[600] = "", row[300];
    weft_error e = {0};
    int rows = 0;
    NEED(mkdtemp(folder));
    snprintf(json, sizeof json, "%s/json", folder);
    snprintf(csv, sizeof csv, "%s/csv", folder);
    snprintf(logs, sizeof logs, "%s/logs", folder);
    weft_model *m = build_with(NULL, EXTRAS, NULL);
    weft_hook hooks[] = {weft_hook_json(json, 12), weft_hook_csv(csv, 12), weft_hook_tensorboard(logs, 12)};
    weft_trainer *t =
        trainer_of(m, &(weft_trainer_options){.train = DATA, .val = DATA, .n_hooks = 3, .hooks = hooks});
    CHECK_SAYS(t && weft_trainer_fit(t, &e) == WEFT_OK && weft_trainer_check(t, &e) == WEFT_OK, "%s", e.text);
    weft_trainer_free(t);
    weft_model_free(m);
    DIR *d = opendir(logs);
    for (struct dirent *entry; d && (entry = readdir(d));)
        if (strstr(entry->d_name, ".tfevents.")) snprintf(path, sizeof path, "%s/%s", logs, entry->d_name);
    if (d) closedir(d);
    scalars *got = calloc(1, sizeof *got);
    NEED(got);
    read_events(path, got);
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

static weft_status sleeps(void *self, weft_trainer *t, weft_point point, weft_error *error) {
    (void)self, (void)t, (void)error;
    return point == WEFT_BEFORE_VAL && usleep(400000) ? WEFT_DATA : WEFT_OK;
}

static weft_status read_slowly(void *context, int64_t i, void *const *into, weft_error *error) {
    usleep(2000);
    return read_sample(context, i, into, error);
}

/* Four samples of 2 ms each are waited for by the first iteration, whatever is read ahead later. */
TEST(logs_have_the_seconds_that_an_iteration_waits_for_data) {
    char folder[] = "/tmp/weft_dataXXXXXX", path[100];
    weft_error e = {0};
    weft_source slow = samples;
    double waited = 0;
    slow.read = read_slowly;
    NEED(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/log", folder);
    weft_model *m = build();
    weft_hook hook = weft_hook_json(path, 1);
    weft_trainer *t =
        trainer_of(m, &(weft_trainer_options){.train = {1, (const weft_source *[]){&slow}, NULL},
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

/* A validation of 0.4 seconds would leave ten samples a second. */
TEST(samples_per_second_leave_validations_out) {
    char folder[] = "/tmp/weft_ratesXXXXXX", path[100], row[300], *at;
    weft_error e = {0};
    double rate;
    int lines = 0;
    NEED(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/log", folder);
    FILE *text = tmpfile();
    NEED(text);
    weft_model *m = build();
    weft_hook hooks[] = {weft_hook_json(path, 1), weft_hook_text(text, 1), {.name = "sleeps", .at = sleeps}};
    weft_trainer *t = trainer_of(
        m,
        &(weft_trainer_options){
            .train = DATA, .val = DATA, .iterations = 5, .val_iterations = 2, .n_hooks = 3, .hooks = hooks});
    CHECK_SAYS(t && weft_trainer_fit(t, &e) == WEFT_OK, "%s", e.text);
    CHECK(t && weft_trainer_progress(t)->seconds > 1.1); /* these have all */
    weft_trainer_free(t);
    weft_model_free(m);
    rewind(text);
    while (fgets(row, sizeof row, text))
        if ((at = strstr(row, " samples/s"))) {
            while (at > row && at[-1] != ' ') at--;
            CHECK_SAYS(sscanf(at, "%lf", &rate) == 1 && rate > 20, "%s", row);
            lines++;
        }
    fclose(text);
    CHECK(lines == 5);
    for (int i = 0; i < 8; i++) {
        json_t *line = json_line(path, i);
        if (json_object_get(line, "loss"))
            CHECK_SAYS(number(line, "samples_per_second") > 20, "%d: %g", i,
                       number(line, "samples_per_second"));
        json_decref(line);
    }
    unlink(path), rmdir(folder);
}

/* ---- samples ---- */

/* Images of 2 x 3 pixels: the weight, once every two iterations, as a grid of 2 x 4. */
static weft_model *build_painter(void) {
    weft_model *m = build();
    weft_graph *g = weft_graph_new(m, "predict", WEFT_EVAL);
    weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, 1));
    weft_output(weft_reshape(weft_tile(x, WEFT_SHAPE(1, 6)), WEFT_SHAPE(-1, 2, 3)), "photo");
    return m;
}

/* The bytes of the image in an event file, by their place behind a tag. */
static const uint8_t *find_bytes(const uint8_t *in, size_t n, const uint8_t *what, size_t length) {
    for (size_t i = 0; i + length <= n; i++)
        if (memcmp(in + i, what, length) == 0) return in + i;
    return NULL;
}

static size_t read_whole(const char *path, uint8_t *into, size_t room) {
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(into, 1, room, f) : 0;
    if (f) fclose(f);
    return n;
}

static void check_picture(const char *folder, int step, const uint8_t *events, size_t n_events) {
    static const uint8_t head[] = {0, 0, 0, 18, 0, 0, 0, 6};
    uint8_t png[1000];
    char path[100];
    snprintf(path, sizeof path, "%s/photo-%d.png", folder, step);
    size_t n = read_whole(path, png, sizeof png);
    NEED(n > 40 && memcmp(png + 1, "PNG", 3) == 0);
    CHECK(memcmp(png + 16, head, 8) == 0 && png[24] == 8 && png[25] == 0); /* 18 x 6, 8 bits, gray */
    CHECK(find_bytes(events, n_events, png, n) != NULL);
    unlink(path);
}

TEST(samples_are_drawn_into_files_and_events) {
    static uint8_t events[1 << 14];
    const char *kept = getenv("WEFT_TEST_EVENTS");
    char folder[] = "/tmp/weft_samplesXXXXXX", path[100], logs[300], name[600] = "";
    weft_error e = {0};
    NEED(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/photo.png", folder);
    snprintf(logs, sizeof logs, "%s/samples", kept ? kept : folder);
    weft_dataset data = {1, list, (const char *[]){"x", NULL}};
    weft_hook hook = weft_hook_samples(&(weft_samples){
        .data = data, .path = path, .tensorboard = logs, .every = 5, .rows = 2, .columns = 4});
    weft_model *m = build_painter();
    weft_trainer *t = trainer_of(m, &(weft_trainer_options){.train = DATA, .n_hooks = 1, .hooks = &hook});
    CHECK_SAYS(t && weft_trainer_fit(t, &e) == WEFT_OK && weft_trainer_check(t, &e) == WEFT_OK, "%s", e.text);
    weft_trainer_free(t);
    DIR *d = opendir(logs);
    for (struct dirent *entry; d && (entry = readdir(d));)
        if (strstr(entry->d_name, ".tfevents.")) snprintf(name, sizeof name, "%s/%s", logs, entry->d_name);
    if (d) closedir(d);
    size_t n = read_whole(name, events, sizeof events);
    check_picture(folder, 5, events, n);
    check_picture(folder, 10, events, n);
    scalars *got = calloc(1, sizeof *got); /* the records have right lengths and checks, too */
    if (got) read_events(name, got);
    CHECK(got && got->records == 3 && strcmp(got->list[0].tag, "samples") == 0 && got->list[1].step == 10);
    free(got);
    if (!kept) unlink(name), rmdir(logs);
    hook = weft_hook_samples(&(weft_samples){.data = data, .path = path, .every = 5});
    memset(path, 0, sizeof path); /* it was copied */
    t = trainer_of(m, &(weft_trainer_options){.train = DATA, .n_hooks = 1, .hooks = &hook});
    rmdir(folder);
    weft_flow(m, "no flow"); /* the model is not compiled again: it cannot be */
    CHECK(weft_trainer_fit(t, &e) == WEFT_OK && weft_trainer_check(t, &e) == WEFT_IO);
    CHECK_HOLDS(e.text, "/photo-5.png: it cannot be written");
    weft_trainer_free(t);
    weft_model_free(m);
}

/* ---- curves ---- */

/* Text between `from` and `to` of the n-th line that has `mark`. */
static const char *line_with(const char *text, const char *mark, int n) {
    const char *at = text;
    for (int i = 0; at && (at = strstr(at, mark)) && i < n; i++) at++;
    while (at && at > text && at[-1] != '\n') at--;
    return at;
}

/* The axis of y by two of its numbers, as the picture shows them. */
static bool find_axis(const char *svg, double *value, double *per_pixel) {
    double y[2], v[2];
    for (int i = 0; i < 2; i++) {
        const char *at = line_with(svg, "text-anchor=\"end\"", i), *y_at = at ? strstr(at, " y=\"") : NULL,
                   *v_at = at ? strchr(at, '>') : NULL;
        if (!y_at || !v_at) return false;
        y[i] = atof(y_at + 4), v[i] = atof(v_at + 1);
    }
    *per_pixel = (v[1] - v[0]) / (y[1] - y[0]);
    *value = v[0] - (y[0] - 4) * *per_pixel; /* letters stand 4 pixels below their line */
    return true;
}

/* The curve of the loss: each point where the axis says, in the SVG and as a pixel of the PNG. */
static void check_curve(const char *svg, const png_image *png, const uint8_t *pixels, const seen *s) {
    double value = 0, per_pixel = 1, x, y;
    const char *at = line_with(svg, "stroke=\"#1f6fb4\" stroke-width=\"1.8\"", 0);
    NEED(at && find_axis(svg, &value, &per_pixel) && (at = strstr(at, "points=\"")));
    at += 8;
    for (int begin = 0; begin < s->n; begin += 4) {
        int end = begin + 4 < s->n ? begin + 4 : s->n, used = 0;
        NEED(sscanf(at, "%lf,%lf%n", &x, &y, &used) == 2);
        CHECK_SAYS(fabs(value + y * per_pixel - mean_of(s, begin, end)) < fabs(per_pixel) * 0.02,
                   "step %d: %g, not %g", end, value + y * per_pixel, mean_of(s, begin, end));
        const uint8_t *pixel = pixels + ((size_t)(2 * y) * png->width + (size_t)(2 * x)) * 3;
        bool is_free = end != s->val_iteration[0] && end != s->val_iteration[1]; /* of marks */
        CHECK(!is_free ||
              (abs(pixel[0] - 0x1f) < 90 && abs(pixel[1] - 0x6f) < 90 && abs(pixel[2] - 0xb4) < 60));
        at += used + (at[used] == ' ');
    }
    CHECK(*at == '"');
}

TEST(curves_are_where_the_axes_say) {
    char folder[] = "/tmp/weft_curvesXXXXXX", paths[2][100];
    NEED(mkdtemp(folder));
    for (int i = 0; i < 2; i++) snprintf(paths[i], sizeof paths[i], "%s/c.%s", folder, i ? "png" : "svg");
    static char svg[1 << 16];
    weft_error e = {0};
    seen s = {0};
    weft_model *m = build();
    weft_hook hooks[] = {SEES(&s), weft_hook_curves(paths[0], 4), weft_hook_curves(paths[1], 4)};
    weft_trainer *t = trainer_of(
        m, &(weft_trainer_options){.train = DATA, .val = DATA, .epochs = 2, .n_hooks = 3, .hooks = hooks});
    CHECK_SAYS(t && weft_trainer_fit(t, &e) == WEFT_OK && weft_trainer_check(t, &e) == WEFT_OK, "%s", e.text);
    weft_trainer_free(t);
    CHECK(read_whole(paths[0], (uint8_t *)svg, sizeof svg - 1) > 1000);
    png_image png = {.version = PNG_IMAGE_VERSION};
    CHECK(png_image_begin_read_from_file(&png, paths[1]) && png.width == 2 * 920 && png.height == 2 * 280);
    png.format = PNG_FORMAT_RGB;
    uint8_t *pixels = test_memory(PNG_IMAGE_SIZE(png));
    CHECK(png_image_finish_read(&png, NULL, pixels, 0, NULL));
    check_curve(svg, &png, pixels, &s);
    CHECK_HOLDS(svg, ">loss</text>");
    CHECK_HOLDS(svg, ">lr</text>");
    CHECK_HOLDS(svg, ">val</text>");
    free(pixels);
    weft_model_free(m);
    unlink(paths[0]), unlink(paths[1]);
    weft_hook wrong = weft_hook_curves(paths[0], 0);
    m = build();
    t = trainer_of(m, &(weft_trainer_options){.train = DATA, .n_hooks = 1, .hooks = &wrong});
    rmdir(folder);
    CHECK(weft_trainer_fit(t, &e) == WEFT_OK && weft_trainer_check(t, &e) == WEFT_IO);
    CHECK_HOLDS(e.text, "it cannot be written");
    weft_trainer_free(t);
    weft_model_free(m);
}

/* Means of a constant differ in the last bits; neither those nor numbers as far apart as can be are ticks
 * without end. */
TEST(curves_of_constants_have_few_ticks) {
    static const double values[] = {0.1, 1e300, -0.1, 0, 5e-324, 1e16 + 2};
    char folder[] = "/tmp/weft_ticksXXXXXX", path[100];
    static char svg[1 << 16];
    NEED(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/c.svg", folder);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        weft_error e = {0};
        weft_model *m = build_with(&values[i], 0, NULL);
        weft_hook hook = weft_hook_curves(path, 10);
        weft_trainer *t =
            trainer_of(m, &(weft_trainer_options){.train = DATA, .epochs = 2, .n_hooks = 1, .hooks = &hook});
        CHECK_SAYS(t && weft_trainer_fit(t, &e) == WEFT_OK && weft_trainer_check(t, &e) == WEFT_OK, "%s",
                   e.text);
        weft_trainer_free(t);
        weft_model_free(m);
        memset(svg, 0, sizeof svg);
        int ticks = 0;
        CHECK(read_whole(path, (uint8_t *)svg, sizeof svg - 1) > 1000);
        for (const char *at = svg; (at = strstr(at, "text-anchor=\"middle\"")); at++) ticks++;
        for (const char *at = svg; (at = strstr(at, "text-anchor=\"end\"")); at++) ticks++;
        CHECK_SAYS(ticks > 10 && ticks < 60, "%g: %d", values[i], ticks);
    }
    unlink(path), rmdir(folder);
}

/* ---- logs that fail ---- */

TEST(a_log_that_fails_is_told_and_the_training_goes_on) {
    faults f;
    static const char *const says[] = {"writing failed at step 1", "writing failed at step 5",
                                       "lines before step 12 may be lost"};
    static const long calls[] = {2, 6, 14}; /* open, 12 lines, sync */
    for (int i = 0; i < 3; i++) {
        weft_error e = {0};
        weft_model *m = build();
        weft_hook hook = weft_hook_json("log", 1);
        faults_init(&f);
        weft_env files = {.io = &f.io};
        weft_trainer *t = trainer_of(
            m, &(weft_trainer_options){.env = &files, .train = DATA, .n_hooks = 1, .hooks = &hook});
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
        weft_model *m = build();
        weft_hook hook = i == 0   ? weft_hook_csv(path, 1)
                         : i == 1 ? weft_hook_json(path, 1)
                                  : weft_hook_tensorboard(path, 1);
        weft_trainer *t = trainer_of(m, &(weft_trainer_options){.train = DATA, .n_hooks = 1, .hooks = &hook});
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

TEST(a_run_that_fails_before_its_first_step_leaves_the_picture) {
    char path[] = "/tmp/weft_curvesXXXXXX.svg", text[20] = "";
    weft_error e = {0};
    int file = mkstemps(path, 4);
    NEED(file >= 0 && write(file, "an earlier one", 14) == 14 && close(file) == 0);
    weft_model *m = build();
    weft_hook hooks[] = {weft_hook_curves(path, 1), weft_hook_csv("/tmp/weft_no_folder/log.csv", 1)};
    weft_trainer *t = trainer_of(m, &(weft_trainer_options){.train = DATA, .n_hooks = 2, .hooks = hooks});
    CHECK(weft_trainer_fit(t, &e) == WEFT_IO);
    weft_trainer_free(t);
    weft_model_free(m);
    CHECK(read_whole(path, (uint8_t *)text, sizeof text - 1) == 14 && strcmp(text, "an earlier one") == 0);
    unlink(path);
}

/* ---- early stop, best weights ---- */

static const struct {
    weft_early_stop how;
    double score[12];
    int vals; /* that ran, of 12 */
} stops[] = {
    {{"score"}, {5, 4, 3, 3, 3, 3, 0}, 6},                                    /* patience 3 */
    {{"score", .patience = 2}, {5, 6, 4, 5, 4, 0}, 5},                        /* an equal one is no better */
    {{"score", .max = true, .patience = 1}, {1, 2, 3, 2, 9}, 4},              /* a greater one is better */
    {{"score", .patience = 2, .min_delta = 0.5}, {5, 4.6, 4.4, 4.2, 4.1}, 5}, /* from 5 to 4.4 is enough */
    {{"score", .patience = 4}, {5, 4, NAN, 3, 2}, 3},                         /* NaN stops at once */
    {{"score", .patience = 20}, {0}, 12},
};

typedef struct stop_run {
    int row;
    int64_t iterations[WORLDS];
    int vals[WORLDS];
} stop_run;

static void run_stop(weft_comm *comm, int rank, void *context) {
    stop_run *r = context;
    weft_error e = {0};
    script s = {.values = stops[r->row].score};
    weft_evaluator evaluator = SCRIPT(&s);
    weft_hook hook = weft_hook_early_stop(&stops[r->row].how);
    weft_model *m = build();
    weft_trainer *t = trainer_of(m, &(weft_trainer_options){.comm = comm,
                                                            .train = DATA,
                                                            .val = DATA,
                                                            .epochs = 12,
                                                            .n_evaluators = 1,
                                                            .evaluators = &evaluator,
                                                            .n_hooks = 1,
                                                            .hooks = &hook});
    CHECK_SAYS(t && weft_trainer_fit(t, &e) == WEFT_OK, "%s", e.text);
    r->vals[rank] = s.next;
    r->iterations[rank] = t ? weft_trainer_progress(t)->iteration : -1;
    weft_trainer_free(t);
    weft_model_free(m);
}

TEST(a_metric_that_no_longer_improves_stops_all_ranks_at_once) {
    for (int row = 0; row < (int)(sizeof stops / sizeof *stops); row++)
        for (int world = 1; world <= WORLDS; world++) {
            stop_run r = {.row = row};
            ranks_run(world, 60, run_stop, &r);
            for (int k = 0; k < world; k++) {
                CHECK_SAYS(r.vals[k] == stops[row].vals, "row %d, rank %d of %d: %d", row, k, world,
                           r.vals[k]);
                CHECK(r.iterations[k] == r.vals[k] * (SAMPLES / BATCH / world));
            }
        }
}

TEST(the_file_has_the_best_weights) {
    static const double score[] = {5, 3, 4, 2, 2, 6};
    static const int greatest[] = {0, 0, 0, 0, 0, 5}, least[] = {0, 1, 1, 3, 3, 3};
    char folder[] = "/tmp/weft_bestXXXXXX", path[100];
    NEED(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/best.safetensors", folder);
    for (int vals = 1; vals <= 6; vals++)
        for (int max = 0; max < 2; max++) {
            weft_error e = {0};
            float kept = 0;
            seen s = {0};
            script of = {.values = score};
            weft_evaluator evaluator = SCRIPT(&of);
            weft_hook hooks[] = {SEES(&s), weft_hook_best(&(weft_best){"score", max, path, false})};
            weft_model *m = build();
            weft_trainer *t = trainer_of(m, &(weft_trainer_options){.train = DATA,
                                                                    .val = DATA,
                                                                    .epochs = vals,
                                                                    .n_evaluators = 1,
                                                                    .evaluators = &evaluator,
                                                                    .n_hooks = 2,
                                                                    .hooks = hooks});
            CHECK_SAYS(t && weft_trainer_fit(t, &e) == WEFT_OK, "%s", e.text);
            CHECK_SAYS(!weft_weights_load(weft_trainer_store(t), path, &e), "%s", e.text);
            weft_store_get(weft_trainer_store(t), "fc/weight", &kept, 4, NULL);
            CHECK(s.vals == vals && kept == s.weight[max ? greatest[vals - 1] : least[vals - 1]]);
            weft_trainer_free(t);
            weft_model_free(m);
            unlink(path);
        }
    rmdir(folder);
}

/* ---- a plateau ---- */

enum { EVALUATIONS = 60 };

typedef struct plateau_run {
    weft_plateau rules;
    const double *rates; /* [EVALUATIONS]: PyTorch's */
} plateau_run;

/* Checks the base rate after each validation. */
static weft_status check_rate(void *self, weft_trainer *t, weft_point point, weft_error *error) {
    const double **next = self;
    double lr = -1;
    if (point != WEFT_AFTER_VAL) return WEFT_OK;
    weft_status status = weft_store_get(weft_trainer_store(t), "optimizer.slow/lr", &lr, sizeof lr, error);
    CHECK_SAYS(fabs(lr - **next) <= 1e-12 * **next, "iteration %d: %g, not %g",
               (int)weft_trainer_progress(t)->iteration, lr, **next);
    ++*next;
    return status;
}

static void run_plateau(weft_comm *comm, int rank, void *context) {
    const plateau_run *r = context;
    const double *next = r->rates;
    double scores[EVALUATIONS];
    weft_error e = {0};
    for (int i = 0; i < EVALUATIONS; i++) /* as golden/make_schedules.py */
        scores[i] = 1 + ((i * 7) % 5) / 4.0 - (i < 12 ? i : 12) / 16.0;
    script s = {.values = scores};
    weft_evaluator evaluator = SCRIPT(&s);
    weft_hook hooks[] = {weft_hook_plateau("score", "slow", &r->rules),
                         {"rate", check_rate, NULL, NULL, &next}};
    weft_model *m = build();
    weft_trainer *t = trainer_of(m, &(weft_trainer_options){.comm = comm,
                                                            .train = DATA,
                                                            .val = DATA,
                                                            .iterations = EVALUATIONS,
                                                            .val_epochs = -1,
                                                            .val_iterations = 1,
                                                            .n_evaluators = 1,
                                                            .evaluators = &evaluator,
                                                            .n_hooks = 2,
                                                            .hooks = hooks});
    (void)rank;
    NEED(t && !weft_store_set_lr(weft_trainer_store(t), NULL, 0.5, &e));
    CHECK_SAYS(weft_trainer_fit(t, &e) == WEFT_OK, "%s", e.text);
    CHECK(next == r->rates + EVALUATIONS);
    weft_trainer_free(t);
    weft_model_free(m);
}

static void check_plateau(weft_plateau rules, const double *rates) {
    for (int world = 1; world <= 2; world++) ranks_run(world, 60, run_plateau, &(plateau_run){rules, rates});
}

TEST(rates_fall_on_a_plateau_as_in_pytorch) {
#define UNPACKED(...)   __VA_ARGS__
#define PLATEAU(p, ...) check_plateau(UNPACKED p, (const double[EVALUATIONS]){__VA_ARGS__});
#include "golden/schedules.h"
}

/* A trainer that a hook refuses: its error. */
static weft_error refused(weft_model *m, weft_trainer_options o, weft_hook hook) {
    weft_error e = {0};
    o.n_hooks = 1, o.hooks = &hook;
    weft_trainer *t = weft_trainer_new(m, &o, &e);
    CHECK(!t);
    weft_trainer_free(t);
    return e;
}

static weft_status read_label(void *context, int64_t i, void *const *into, weft_error *error) {
    (void)context, (void)error;
    *(int32_t *)into[0] = (int32_t)(i % 2);
    return WEFT_OK;
}

TEST(wrong_hooks_are_refused) {
    const struct {
        weft_hook hook;
        const char *says;
    } wrong[] = {
        {weft_hook_text(NULL, 0), "text: a file is needed"},
        {weft_hook_json(NULL, 0), "json: a path is needed"},
        {weft_hook_csv(NULL, 0), "csv: a path is needed"},
        {weft_hook_tensorboard(NULL, 0), "tensorboard: a folder is needed"},
        {weft_hook_curves(NULL, 0), "curves: a path is needed that ends with .svg or .png"},
        {weft_hook_curves("curves.pdf", 0), "curves: a path is needed that ends with .svg or .png"},
        {weft_hook_samples(NULL), "samples: a path or a folder for TensorBoard is needed"},
        {weft_hook_samples(&(weft_samples){.rows = 2}), "samples: a path or a folder"},
        {weft_hook_samples(&(weft_samples){.path = "x.png", .every = -1}), "must not be negative"},
        {weft_hook_early_stop(NULL), "early stop: a metric is needed"},
        {weft_hook_early_stop(&(weft_early_stop){"loss", .patience = -1}), "patience must not be negative"},
        {weft_hook_early_stop(&(weft_early_stop){"loss", .min_delta = NAN}), "min_delta must be 0 or more"},
        {weft_hook_best(&(weft_best){"loss"}), "best: a metric and a path are needed"},
        {weft_hook_best(&(weft_best){.path = "x"}), "best: a metric and a path are needed"},
        {weft_hook_plateau(NULL, NULL, NULL), "plateau: a metric is needed"},
        {{.name = "mine"}, "hook 0 could not be made: mine"},
    };
    weft_model *m = build();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        weft_error e = refused(m, (weft_trainer_options){.train = DATA}, wrong[i].hook);
        CHECK(e.status == WEFT_ARGUMENT);
        CHECK_HOLDS(e.text, "hook 0 could not be made: ");
        CHECK_HOLDS(e.text, wrong[i].says);
    }
    CHECK(refused(m, (weft_trainer_options){.train = DATA}, (weft_hook){0}).status == WEFT_MEMORY);
    weft_model_free(m);
}

/* Before the first step, and before a log is opened. */
TEST(names_and_folders_that_are_wrong_are_found_at_once) {
    script of = {0};
    weft_evaluator evaluators[] = {SCRIPT(&of)};
    weft_trainer_options o = {.train = DATA, .val = DATA, .n_evaluators = 1, .evaluators = evaluators};
    weft_dataset data = {1, list, (const char *[]){"x", NULL}};
    const struct {
        weft_hook hook;
        weft_status status;
        const char *says;
    } wrong[] = {
        {weft_hook_early_stop(&(weft_early_stop){"los"}), WEFT_NAME,
         "hook early stop: the validation gives no metric 'los'; it gives: loss, score"},
        {weft_hook_best(&(weft_best){"scores", .path = "b"}), WEFT_NAME, "no metric 'scores'"},
        {weft_hook_best(&(weft_best){"score/part", .path = "/tmp/weft_no_folder/b"}), WEFT_IO,
         "/tmp/weft_no_folder/b: the hook best cannot write there: No such file or directory"},
        {weft_hook_plateau("sore", NULL, NULL), WEFT_NAME,
         "hook plateau: the validation gives no metric 'sore'"},
        {weft_hook_plateau("loss", "slwo", NULL), WEFT_NAME, "'slwo'"},
        {weft_hook_plateau("loss", NULL, &(weft_plateau){.factor = 2, .has_best = true}), WEFT_ARGUMENT,
         "factor must be"},
        {weft_hook_curves("/tmp/weft_no_folder/c.svg", 0), WEFT_IO, "/tmp/weft_no_folder"},
        {weft_hook_samples(&(weft_samples){.graph = "predcit", .data = data, .path = "x.png"}), WEFT_NAME,
         "predcit"},
        {weft_hook_samples(&(weft_samples){.output = "foto", .data = data, .path = "x.png"}), WEFT_NAME,
         "foto"},
        {weft_hook_samples(&(weft_samples){.data = {1, list, NULL}, .path = "x.png"}), WEFT_NAME,
         "hook samples: "},
        {weft_hook_samples(&(weft_samples){.graph = "val", .data = DATA, .path = "x.png"}), WEFT_SHAPE,
         "hook samples: "},
        {weft_hook_samples(&(weft_samples){.data = data, .path = "/tmp/weft_no_folder/x.png"}), WEFT_IO,
         "/tmp/weft_no_folder"},
        {weft_hook_samples(&(weft_samples){.data = data, .tensorboard = "/tmp/weft_no_folder/logs/"}),
         WEFT_IO, "/tmp/weft_no_folder"},
    };
    weft_model *m = build_painter();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        weft_error e = refused(m, o, wrong[i].hook);
        CHECK_SAYS(e.status == wrong[i].status, "%d: %d %s", (int)i, (int)e.status, e.text);
        CHECK_HOLDS(e.text, wrong[i].says);
    }
    o.val = (weft_dataset){0}, o.n_evaluators = 0;
    weft_error e = refused(m, o, weft_hook_early_stop(&(weft_early_stop){"loss"}));
    CHECK(e.status == WEFT_ORDER);
    weft_model_free(m);
}

/* The confusion matrix has metrics of its own names. */
TEST(metrics_of_evaluators_are_known_before_the_first_step) {
    weft_model *m = weft_model_new("m");
    weft_model_batch(m, 2);
    weft_source labels = {.count = 4, .n = 1, .arrays = {{"label", WEFT_I32, 0, {0}}}, .read = read_label};
    weft_dataset data = {1, (const weft_source *[]){&labels}, NULL};
    for (int i = 0; i < 2; i++) {
        weft_graph *g = weft_graph_new(m, i ? "val" : "train", i ? WEFT_EVAL : WEFT_TRAIN);
        weft_value *label = weft_input(g, "label", WEFT_I32, WEFT_SHAPE(WEFT_BATCH));
        weft_value *scores =
            weft_linear(weft_reshape(weft_cast(label, WEFT_F32), WEFT_SHAPE(-1, 1)), 2, "fc");
        weft_output(scores, "scores");
        if (!i)
            weft_minimize(weft_cross_entropy(scores, label), "", &(weft_optimizer){.type = "sgd", .lr = 0.1});
    }
    static const char *const names[] = {"confusion/f1", "accuracy", "confusion", "confusion/f2",
                                        "accuracy/x"};
    for (int i = 0; i < 5; i++) {
        weft_error e = {0};
        weft_evaluator of[] = {weft_evaluator_confusion("scores", "label", NULL),
                               weft_evaluator_accuracy("scores", "label", 1)};
        char name[20];
        snprintf(name, sizeof name, "%s", names[i]);
        weft_hook hook = weft_hook_early_stop(&(weft_early_stop){name});
        memset(name, 0, sizeof name); /* it was copied */
        weft_trainer *t = weft_trainer_new(m,
                                           &(weft_trainer_options){.train = data,
                                                                   .val = data,
                                                                   .n_evaluators = 2,
                                                                   .evaluators = of,
                                                                   .n_hooks = 1,
                                                                   .hooks = &hook},
                                           &e);
        CHECK_SAYS(i < 2 ? t && weft_trainer_fit(t, &e) == WEFT_OK : !t && e.status == WEFT_NAME, "%s: %s",
                   names[i], e.text);
        if (i > 1) CHECK_HOLDS(e.text, "confusion/recall, confusion/f1, confusion/iou, accuracy");
        weft_trainer_free(t);
    }
    weft_model_free(m);
}

/* ---- errors of one rank ---- */

typedef enum fault { BY_HOOK, BY_DATA, BY_VAL_HOOK, BY_METRIC } fault;

typedef struct fault_run {
    fault fault;
    weft_status status[WORLDS];
    char text[WORLDS][200];
} fault_run;

static weft_status fail_at(void *self, weft_trainer *t, weft_point point, weft_error *error) {
    const fault_run *r = self;
    const weft_progress *p = weft_trainer_progress(t);
    weft_point when = r->fault == BY_HOOK ? WEFT_BEFORE_ITERATION : WEFT_AFTER_VAL;
    if (p->rank != 1 || point != when || p->iteration < 2) return WEFT_OK;
    return weft_error_set(error, WEFT_DATA, "the hook of rank 1 is out of luck");
}

static void run_fault(weft_comm *comm, int rank, void *context) {
    fault_run *r = context;
    weft_error e = {0};
    int64_t broken = -1; /* later than ranks compare their data */
    weft_source mine = samples;
    mine.context = &broken;
    weft_hook hook = {"fails", fail_at, NULL, NULL, r};
    weft_model *m = build();
    weft_trainer *t =
        trainer_of(m, &(weft_trainer_options){.comm = comm,
                                              .train = {1, (const weft_source *[]){&mine}, NULL},
                                              .val = DATA,
                                              .epochs = 3,
                                              .n_hooks = r->fault == BY_HOOK || r->fault == BY_VAL_HOOK,
                                              .hooks = &hook});
    if (r->fault == BY_DATA && rank == 1) broken = 40;
    if (r->fault == BY_METRIC && t) {
        float nan = NAN;
        weft_store_set(weft_trainer_store(t), "fc/weight", &nan, 4, NULL);
    }
    r->status[rank] = t ? weft_trainer_fit(t, &e) : WEFT_OK;
    snprintf(r->text[rank], sizeof r->text[rank], "%.199s", e.text);
    if (r->fault == BY_METRIC) { /* all met it: the communicator goes on */
        weft_metrics metrics;
        CHECK_SAYS(weft_trainer_validate(t, &metrics, &e) == WEFT_OK, "%s", e.text);
    }
    weft_trainer_free(t);
    weft_model_free(m);
}

TEST(an_error_of_one_rank_ends_all_with_its_text) {
    static const char *const texts[] = {"the hook of rank 1 is out of luck", "photos/7.png: it is damaged",
                                        "the hook of rank 1 is out of luck", "step 1: loss is nan"};
    for (int i = 0; i < 4; i++)
        for (int world = 2; world <= WORLDS; world++) {
            fault_run r = {.fault = (fault)i};
            ranks_run(world, 30, run_fault, &r);
            for (int k = 0; k < world; k++) {
                CHECK(r.status[k] == (k == 1 && i == BY_DATA            ? WEFT_FILE
                                      : k == 1 || (fault)i == BY_METRIC ? WEFT_DATA
                                                                        : WEFT_PEER));
                CHECK_HOLDS(r.text[k], texts[i]);
                if (k != 1 && (fault)i != BY_METRIC) CHECK_HOLDS(r.text[k], "rank 1 has given up: ");
            }
        }
}

/* Rank 0 writes, and alone finds that a folder is not there. */
static void run_without_folder(weft_comm *comm, int rank, void *context) {
    weft_error e = {0};
    weft_hook hook = weft_hook_best(&(weft_best){"loss", .path = "/tmp/weft_no_folder/best"});
    weft_model *m = build();
    weft_trainer_options o = {.comm = comm, .train = DATA, .val = DATA, .n_hooks = 1, .hooks = &hook};
    weft_trainer *t = weft_trainer_new(m, &o, &e);
    CHECK(rank || !t);
    if (t) weft_trainer_fit(t, &e);
    CHECK(e.status == (rank ? WEFT_PEER : WEFT_IO));
    CHECK_HOLDS(e.text, rank ? "rank 0 has given up: /tmp/weft_no_folder/best: "
                             : "the hook best cannot write there");
    CHECK_HOLDS(e.text, "/tmp/weft_no_folder");
    weft_trainer_free(t);
    weft_model_free(m);
    (void)context;
}

TEST(a_folder_that_rank_0_lacks_ends_all) {
    for (int world = 2; world <= WORLDS; world++) ranks_run(world, 30, run_without_folder, NULL);
}

/* ---- what hooks may call ---- */

static weft_status calls_back(void *self, weft_trainer *t, weft_point point, weft_error *error) {
    int *which = self;
    weft_metrics metrics;
    if (point != WEFT_AFTER_ITERATION && point != WEFT_BEFORE_VAL) return WEFT_OK;
    if (*which == 2 && point == WEFT_BEFORE_VAL) return weft_trainer_validate(t, NULL, error);
    if (point == WEFT_BEFORE_VAL || *which == 2) return WEFT_OK;
    return *which == 0   ? weft_trainer_fit(t, error)
           : *which == 1 ? weft_trainer_train_step(t, &metrics, error)
                         : weft_trainer_validate(t, NULL, error);
}

static weft_status own_step(weft_trainer *t, void *user, weft_error *error) {
    (void)user;
    return weft_trainer_fit(t, error);
}

TEST(training_within_a_hook_is_refused) {
    static const char *const says[] = {"weft_trainer_fit: it must not be called from a hook",
                                       "weft_trainer_train_step: it must not be called from a hook",
                                       "hooks call hooks without end, at before_val", ""};
    for (int which = 0; which < 4; which++) {
        weft_error e = {0};
        weft_hook hook = {"calls back", calls_back, NULL, NULL, &which};
        weft_model *m = build();
        weft_trainer *t =
            trainer_of(m, &(weft_trainer_options){.train = DATA, .val = DATA, .n_hooks = 1, .hooks = &hook});
        CHECK(weft_trainer_fit(t, &e) == (which < 3 ? WEFT_ORDER : WEFT_OK));
        CHECK_HOLDS(e.text, says[which]);
        weft_trainer_free(t);
        weft_model_free(m);
    }
    weft_error e = {0};
    weft_model *m = build();
    weft_trainer *t = trainer_of(m, &(weft_trainer_options){.train = DATA, .train_step = own_step});
    CHECK(weft_trainer_fit(t, &e) == WEFT_ORDER);
    weft_trainer_free(t);
    weft_model_free(m);
}

SUITE("hooks", {T(logs_are_means_of_an_interval_by_samples),
                T(event_files_hold_the_scalars),
                T(metrics_named_as_a_lines_own_numbers_do_not_hide_them),
                T(logs_have_any_number_of_metrics),
                T(logs_have_the_seconds_that_an_iteration_waits_for_data),
                T(samples_per_second_leave_validations_out),
                T(samples_are_drawn_into_files_and_events),
                T(curves_are_where_the_axes_say),
                T(curves_of_constants_have_few_ticks),
                T(a_log_that_fails_is_told_and_the_training_goes_on),
                T(a_log_that_could_not_be_opened_is_tried_again),
                T(a_metric_that_no_longer_improves_stops_all_ranks_at_once),
                T(rates_fall_on_a_plateau_as_in_pytorch),
                T(the_file_has_the_best_weights),
                T(wrong_hooks_are_refused),
                T(names_and_folders_that_are_wrong_are_found_at_once),
                T(metrics_of_evaluators_are_known_before_the_first_step),
                T(a_run_that_fails_before_its_first_step_leaves_the_picture),
                T(an_error_of_one_rank_ends_all_with_its_text),
                T(a_folder_that_rank_0_lacks_ends_all),
                T(training_within_a_hook_is_refused)})
