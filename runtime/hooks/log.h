/* log.h - what the logs share: numbers of an interval, and files that may fail. */
#ifndef WEFT_RUNTIME_HOOKS_LOG_H
#define WEFT_RUNTIME_HOOKS_LOG_H

#include "runtime/hooks/hook.h"

/* ---- interval.c ---- */

enum { LOG_NAME = 80, LOG_EVERY = 10 };

/* A sum of a metric since the last line. */
typedef struct interval_sum {
    char name[LOG_NAME];
    double sum, weight;
} interval_sum;

typedef struct interval {
    kit_arena *memory; /* the hook's */
    int64_t every;     /* iterations between lines */
    /* At the last line; checkpoints keep them, so a resumed training has its lines at the same iterations,
     * with means of those that it ran. The first two are whole numbers. */
    double iteration, samples;
    double seconds; /* of training, without validations */
    double data_seconds;
    int n;
    interval_sum *sums;
} interval;

/* Metrics, learning rates, and numbers of the machine. */
typedef enum log_kind { LOG_METRIC, LOG_RATE, LOG_MACHINE } log_kind;

typedef struct log_value {
    char name[LOG_NAME];
    log_kind kind;
    double value;
} log_value;

/* The numbers of a line. */
typedef struct log_values {
    int n;
    log_value *list;
} log_values;

/* Adds the last iteration's metrics, with its samples as their weight. */
void interval_note(interval *i, const weft_progress *p);
/* Whether `every` iterations have run since the last line, or the run is at its end. */
bool interval_is_due(const interval *i, const weft_progress *p);
void interval_restart(interval *i, const weft_trainer *t);
/* Means of the interval. */
void interval_means(const interval *i, log_values *into);
/* Adds learning rates, throughput and memory. */
void interval_rates(const interval *i, const weft_trainer *t, log_values *into);
/* At each point: notes, and fills `into` with the numbers of a line of *phase ("train", "val", "test") when
 * one is due. */
bool interval_line(interval *i, const weft_trainer *t, weft_hook_point point, const char **phase,
                   log_values *into);
/* What checkpoints keep of it. */
enum { INTERVAL_KEPT = 4 };
void interval_open(interval *i, kit_arena *memory, weft_hook_number kept[INTERVAL_KEPT]);

/* ---- log_file.c ---- */

/* A file that is written while the training runs. The first failure ends it, and is reported by env.log and
 * by its check. */
typedef struct log_file {
    kit_arena *memory; /* the hook's */
    const weft_env *env;
    char *path;   /* of an event file: made when it is opened */
    char *folder; /* of an event file */
    void *file;   /* NULL: not open yet, or lost */
    double bytes; /* written so far, a whole number; more than 0 before it is open: append after them */
    bool is_open;
    weft_error lost; /* why it could not be written, the first time */
} log_file;

/* Copies path and folder, either of which may be NULL. */
void log_file_new(log_file *l, kit_arena *memory, const char *path, const char *folder);
weft_status log_file_open(log_file *l, const weft_env *env, weft_error *error);
void log_file_write(log_file *l, int64_t step, const void *bytes, size_t n);
void log_file_sync(log_file *l, int64_t step);
weft_status log_file_check(const log_file *l, weft_error *error);
void log_file_close(log_file *l);
/* Writes a whole file at once. */
weft_status file_write_whole(const char *path, const void *bytes, size_t n, const weft_env *env,
                             weft_error *error);

/* ---- log_lines.c ---- */

/* A hook that writes its lines into a file, in one of several forms. */
typedef struct log_lines {
    kit_arena memory;
    const struct log_form *form;
    log_file file;
    interval interval;
    log_values values; /* of the line that is written */
    weft_hook_number kept[INTERVAL_KEPT + 1];
} log_lines;

typedef struct log_form {
    const char *name, *without; /* of the hook, and why there is none without a path */
    bool is_events;             /* an event file in a folder, not a file of this path */
    const char *head;           /* what a file begins with; NULL: nothing */
    void (*write)(log_lines *l, const weft_trainer *t, const char *phase);
} log_form;

weft_hook log_lines_hook(const log_form *form, const char *path, int64_t every);

#endif
