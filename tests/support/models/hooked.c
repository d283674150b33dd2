/* hooked.c - see hooked.h. */
#include "support/models/hooked.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- data and model: a line through sines ---- */

weft_status hooked_read(void *context, int64_t i, void *const *into, weft_error *error) {
    if (context && i == *(const int64_t *)context)
        return weft_error_set(error, WEFT_FILE, "photos/7.png: it is damaged");
    *(float *)into[0] = (float)sin((double)i);
    *(float *)into[1] = (float)cos((double)i * 3);
    return WEFT_OK;
}

const weft_source hooked_samples = {.count = SAMPLES,
                                    .n = 2,
                                    .arrays = {{"x", WEFT_F32, 1, {1}}, {"t", WEFT_F32, 1, {1}}},
                                    .read = hooked_read};
const weft_source *const hooked_list[] = {&hooked_samples};
weft_model *hooked_model_with(const double *constant, int extras, const char *const *names) {
    weft_model *m = weft_model_new("m");
    weft_optimizer sgd = {.type = "sgd",
                          .name = "slow",
                          .lr = 0.05,
                          .schedule = {{WEFT_SCHEDULE_MULTI_STEP, .milestones = {5, 9}, .gamma = 0.5}}};
    weft_model_set_batch(m, BATCH);
    for (int i = 0; i < 2; i++) {
        weft_graph *g = weft_graph_new(m, i ? "val" : "train", i ? WEFT_EVAL : WEFT_TRAIN);
        weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, 1));
        weft_value *t = weft_input(g, "t", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, 1));
        weft_value *loss = weft_mse(weft_linear(x, 1, "fc", NULL), t, NULL);
        if (i == 0) weft_minimize(loss, "", &sgd);
        weft_output(loss, "loss");
        if (i == 0 && constant) weft_output(weft_constant(g, WEFT_F64, 0, NULL, *constant), "constant");
        for (int k = 0; k < extras; k++) {
            char name[60];
            if (names)
                snprintf(name, sizeof name, "%s", names[k]);
            else
                snprintf(name, sizeof name, "extra%d", k);
            weft_output(weft_constant(g, WEFT_F64, 0, NULL, k), name);
        }
    }
    return m;
}

weft_model *hooked_model(void) {
    return hooked_model_with(NULL, 0, NULL);
}

weft_model *hooked_painter(void) {
    weft_model *m = hooked_model();
    weft_graph *g = weft_graph_new(m, "predict", WEFT_EVAL);
    weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, 1));
    weft_output(weft_reshape(weft_tile(x, WEFT_SHAPE(1, 6)), WEFT_SHAPE(-1, 2, 3)), "photo");
    return m;
}

weft_trainer *hooked_trainer(const weft_model *m, const weft_trainer_options *o) {
    weft_error e = {0};
    weft_trainer *t = weft_trainer_new(m, o, &e);
    CHECK_SAYS(t != NULL, "%s", e.text);
    return t;
}

/* ---- a hook that sees every iteration and validation ---- */

weft_status seen_at(void *self, weft_trainer *t, weft_hook_point point, weft_error *error) {
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

double seen_mean(const seen *s, int begin, int end) {
    double sum = 0, weight = 0;
    for (int i = begin; i < end; i++) sum += s->loss[i] * s->samples[i], weight += s->samples[i];
    return sum / weight;
}

bool is_near(double a, double b) {
    return fabs(a - b) <= 1e-8 * fabs(b);
}

/* ---- an evaluator ---- */

static weft_status script_open(void *self, int64_t rows, const weft_view *reads, weft_tally_size *keeps,
                               weft_error *error) {
    (void)self, (void)rows, (void)reads, (void)keeps, (void)error;
    return WEFT_OK;
}

static weft_status script_batch(void *self, int64_t rows, const weft_view *reads, weft_tally *tally,
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

weft_evaluator script_evaluator(script *s) {
    return (weft_evaluator){"score", {NULL}, script_open, script_batch, script_report, NULL, s};
}

/* ---- files ---- */

size_t bytes_of_file(const char *path, void *into, size_t room) {
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(into, 1, room, f) : 0;
    if (f) fclose(f);
    return n;
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

/* False where lengths or checks are wrong. */
static bool read_records(const uint8_t *file, size_t n, scalars *into) {
    for (size_t at = 0; at < n; into->records++) {
        uint64_t length;
        if (!CHECK(n - at > 16 && masked_as(file + at, 8, file + at + 8))) return false;
        memcpy(&length, file + at, 8);
        if (!CHECK(length <= n - at - 16 && masked_as(file + at + 12, length, file + at + 12 + length)))
            return false;
        read_event(file + at + 12, file + at + 12 + length, into);
        at += 16 + length;
    }
    return true;
}

scalars *events_read(const char *folder, char path[600]) {
    static uint8_t file[1 << 16];
    DIR *d = opendir(folder);
    *path = 0;
    for (struct dirent *entry; d && (entry = readdir(d));)
        if (strstr(entry->d_name, ".tfevents.")) snprintf(path, 600, "%s/%s", folder, entry->d_name);
    if (d) closedir(d);
    size_t n = bytes_of_file(path, file, sizeof file);
    scalars *got = calloc(1, sizeof *got);
    CHECK(crc_of((const uint8_t *)"123456789", 9) == 0xE3069283u);
    if (CHECK(n && got) && read_records(file, n, got)) return got;
    free(got);
    return NULL;
}

float scalar_at(const scalars *s, const char *tag, int64_t step) {
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->list[i].tag, tag) == 0 && s->list[i].step == step) return s->list[i].value;
    return NAN;
}
