/* progress.h - how a training run reports progress: a bar on a terminal, plain lines elsewhere, and a log of
 * JSON lines. */
#ifndef WEFT_TOOLS_GRAPHTOOL_COMMON_PROGRESS_H
#define WEFT_TOOLS_GRAPHTOOL_COMMON_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { PROGRESS_MAX = 32 };

typedef struct progress {
    FILE *log; /* JSON lines; NULL: none */
    const char *log_path;
    bool has_lost_log; /* a line could not be written: reported once, and the log ends there */
    bool is_terminal;
    int64_t total; /* steps of the whole run */
    int64_t step, samples;
    double start, shown; /* seconds of clock_seconds; shown: when the last line was printed */
    int n;
    const char *names[PROGRESS_MAX];
    double sums[PROGRESS_MAX];   /* sums since the last line */
    int64_t since[PROGRESS_MAX]; /* steps in each sum */
} progress;

/* Opens the log (NULL: none). Returns -1, or the exit status after printing the error. */
int progress_open(progress *p, const char *log_path, int64_t total, int n, const char *const *names);
/* Logs one step, and prints a line when it is time. A log that fails does not stop the training. */
void progress_step(progress *p, int64_t epoch, int64_t rows, const bool *has, const double *values);
/* Prints and logs validation results at the end of an epoch. */
void progress_validation(progress *p, int64_t epoch, int n, const char *const *names, const double *values);
/* Ends the bar's line, closes the log. */
void progress_close(progress *p);

#endif
