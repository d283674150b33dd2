/* log_json.c - every interval, validation and test as a line of JSON. */
#include "runtime/train/log.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

typedef struct json_log {
    log_file file;
    interval interval;
    log_values values;
} json_log;

/* NaN and infinities, which JSON lacks, are null. */
static json_t *line_of(const log_values *values, const weft_progress *p, const char *phase) {
    bool is_train = strcmp(phase, "train") == 0;
    json_t *line =
        json_pack("{s:I, s:I}", "step", (json_int_t)p->iteration, "epoch", (json_int_t)p->epoch + 1);
    if (line && is_train) {
        json_object_set_new(line, "samples", json_integer((json_int_t)p->samples));
        json_object_set_new(line, "seconds", json_real(p->seconds));
    }
    for (int i = 0; line && i < values->n; i++) {
        char key[LOG_NAME + 8];
        double value = values->list[i].value;
        snprintf(key, sizeof key, "%s%s%s", is_train ? "" : phase, is_train ? "" : "_", values->list[i].name);
        json_object_set_new(line, key, isfinite(value) ? json_real(value) : json_null());
    }
    return line;
}

static void write_line(json_log *l, const weft_progress *p, const char *phase) {
    enum { HOW = JSON_COMPACT | JSON_REAL_PRECISION(9) };
    json_t *line = line_of(&l->values, p, phase);
    size_t bytes = line ? json_dumpb(line, NULL, 0, HOW) : 0;
    char *text = bytes ? weft_memory_new(NULL, bytes + 1) : NULL;
    if (text) {
        json_dumpb(line, text, bytes, HOW);
        text[bytes] = '\n';
        log_file_write(&l->file, p->iteration, text, bytes + 1);
        weft_memory_free(NULL, text, bytes + 1);
    }
    json_decref(line);
}

static weft_status at(void *self, weft_trainer *t, weft_point point, weft_error *error) {
    json_log *l = self;
    const char *phase;
    const weft_progress *p = weft_trainer_progress(t);
    if (p->rank) return WEFT_OK;
    weft_status status = log_file_open(&l->file, t->env, error);
    if (status) return status;
    if (interval_line(&l->interval, t, point, &phase, &l->values)) write_line(l, p, phase);
    if (point == WEFT_AFTER_RUN || point == WEFT_AFTER_TEST) log_file_sync(&l->file, p->iteration);
    return WEFT_OK;
}

static weft_status check_log(void *self, weft_error *error) {
    const json_log *l = self;
    weft_status status = log_file_check(&l->file, error);
    return status ? status : log_values_check(&l->values, error);
}

static void end(void *self) {
    json_log *l = self;
    log_file_free(&l->file);
    interval_free(&l->interval, &l->values);
    weft_memory_free(NULL, l, sizeof *l);
}

weft_hook weft_hook_json(const char *path, int64_t every) {
    if (!path) return hook_refused("json: a path is needed");
    json_log *l = kit_new(NULL, sizeof *l);
    if (!l) return hook_refused(NULL);
    l->interval.every = every;
    if (log_file_new(&l->file, path)) return (weft_hook){"json", at, end, check_log, l};
    end(l);
    return hook_refused(NULL);
}
