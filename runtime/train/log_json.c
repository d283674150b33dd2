/* log_json.c - every iteration, validation and test as a line of JSON. */
#include "runtime/train/trainer.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

typedef struct json_log {
    char *path;
    FILE *file; /* NULL: not open yet, or lost */
    bool is_open;
    int64_t lost; /* the step at which a line could not be written; 0: none */
    int reason;   /* errno of it */
} json_log;

/* Writing 0 bytes finds files like /dev/full. */
static weft_status begin(json_log *l, weft_error *error) {
    l->is_open = true;
    if ((l->file = fopen(l->path, "we")) && write(fileno(l->file), "", 0) >= 0) return WEFT_OK;
    return weft_error_io(error, l->path, "it cannot be written", errno);
}

/* The log ends where a write fails. */
static void lose(json_log *l, int64_t step) {
    l->reason = errno;
    l->lost = step;
    if (l->file) fclose(l->file);
    l->file = NULL;
}

/* NaN and infinities, which JSON lacks, are null. */
static void put_metrics(json_t *line, const char *prefix, const weft_metrics *m) {
    for (int i = 0; i < m->n; i++) {
        char key[300];
        double value = m->list[i].value;
        snprintf(key, sizeof key, "%s%s", prefix, m->list[i].name);
        json_object_set_new(line, key, isfinite(value) ? json_real(value) : json_null());
    }
}

static void write_line(json_log *l, int64_t step, json_t *line) {
    bool is_written = line && json_dumpf(line, l->file, JSON_COMPACT | JSON_REAL_PRECISION(9)) == 0 &&
                      fputc('\n', l->file) != EOF && fflush(l->file) == 0;
    if (!is_written) lose(l, step);
    json_decref(line);
}

static json_t *begun(const weft_progress *p) {
    return json_pack("{s:I, s:I}", "step", (json_int_t)p->iteration, "epoch", (json_int_t)p->epoch + 1);
}

static void iteration(json_log *l, const weft_progress *p) {
    json_t *line = begun(p);
    if (line) {
        json_object_set_new(line, "samples", json_integer((json_int_t)p->samples));
        json_object_set_new(line, "seconds", json_real(p->seconds));
        put_metrics(line, "", &p->train);
    }
    write_line(l, p->iteration, line);
}

static void evaluation(json_log *l, const weft_progress *p, const char *prefix, const weft_metrics *m) {
    json_t *line = begun(p);
    if (line) put_metrics(line, prefix, m);
    write_line(l, p->iteration, line);
}

static weft_status at(void *self, weft_trainer *t, weft_point point, weft_error *error) {
    json_log *l = self;
    const weft_progress *p = weft_trainer_progress(t);
    if (p->rank) return WEFT_OK;
    if (!l->is_open) {
        weft_status status = begin(l, error);
        if (status) return status;
    }
    if (!l->file) return WEFT_OK;
    if (point == WEFT_AFTER_ITERATION) iteration(l, p);
    if (point == WEFT_AFTER_VAL) evaluation(l, p, "val_", &p->val);
    if (point == WEFT_AFTER_TEST) evaluation(l, p, "test_", &p->test);
    return WEFT_OK;
}

static weft_status check_log(void *self, weft_error *error) {
    const json_log *l = self;
    char what[80];
    if (!l->lost) return WEFT_OK;
    snprintf(what, sizeof what, "writing failed at step %lld, and the log ends there", (long long)l->lost);
    return weft_error_io(error, l->path, what, l->reason);
}

static void end(void *self) {
    json_log *l = self;
    if (l->file) fclose(l->file);
    weft_memory_free(NULL, l->path, strlen(l->path) + 1);
    weft_memory_free(NULL, l, sizeof *l);
}

weft_hook weft_hook_json(const char *path) {
    weft_hook none = {.name = "json"};
    json_log *l = path ? kit_new(NULL, sizeof *l) : NULL;
    if (!l) return none;
    if (!(l->path = weft_memory_new(NULL, strlen(path) + 1))) {
        weft_memory_free(NULL, l, sizeof *l);
        return none;
    }
    strcpy(l->path, path);
    return (weft_hook){"json", at, end, check_log, l};
}
