/* log_json.c - every interval, validation and test as a line of JSON. */
#include "runtime/hooks/log.h"

#include <jansson.h>
#include <math.h>

/* NaN and infinities, which JSON lacks, are null. */
static json_t *line_of(const log_values *values, const weft_trainer *t, const char *phase) {
    const weft_progress *p = &t->progress;
    bool is_train = strcmp(phase, "train") == 0;
    json_t *line =
        json_pack("{s:I, s:I}", "step", (json_int_t)log_step(t), "epoch", (json_int_t)log_epoch(t));
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

static void write_line(log_lines *l, const weft_trainer *t, const char *phase) {
    enum { HOW = JSON_COMPACT | JSON_REAL_PRECISION(9) };
    json_t *line = line_of(&l->values, t, phase);
    size_t bytes = line ? json_dumpb(line, NULL, 0, HOW) : 0;
    char *text = bytes ? weft_memory_new(NULL, bytes + 1) : NULL;
    if (text) {
        json_dumpb(line, text, bytes, HOW);
        text[bytes] = '\n';
        log_file_write(&l->file, log_step(t), text, bytes + 1);
        weft_memory_free(NULL, text, bytes + 1);
    }
    json_decref(line);
}

weft_hook weft_hook_json(const char *path, int64_t every) {
    static const log_form form = {.name = "json", .without = "json: a path is needed", .write = write_line};
    return log_lines_hook(&form, path, every);
}
