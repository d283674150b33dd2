/* progress.h - how a training run shows itself: a bar on a terminal, plain lines elsewhere, a JSON line a step. */
#ifndef WEFT_TOOLS_GRAPHTOOL_COMMON_PROGRESS_H
#define WEFT_TOOLS_GRAPHTOOL_COMMON_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { PROGRESS_MAX = 32 };

typedef struct progress {
    FILE *log; /* JSON lines; NULL: none */
    const char *log_path;
    bool has_lost_log; /* a line could not be written: told once, and none comes behind it */
    bool is_terminal;
    int64_t total; /* steps; known ahead */
    int64_t step, samples;
    double start, shown; /* seconds; when the last line was shown */
    int n;
    const char *names[PROGRESS_MAX];
    double sums[PROGRESS_MAX]; /* since the last line */
    int64_t since;
} progress;

/* Opens the log (NULL: none). Returns -1, or the exit status after telling why not. */
int progress_open(progress *p, const char *log_path, int64_t total, int n, const char *const *names);
/* One step is done: logs it, and shows a line when it is time. A log that fails costs nothing but itself. */
void progress_step(progress *p, int64_t epoch, int64_t rows, const double *values);
/* Validation figures at an epoch's end. */
void progress_validation(progress *p, int64_t epoch, int n, const char *const *names, const double *values);
/* Ends the bar's line, closes the log. */
void progress_close(progress *p);

#endif
