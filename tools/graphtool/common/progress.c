/* progress.c - the bar, the lines and the log. Printed values are means since the last line; logged values
 * are those of the step. */
#include "tools/graphtool/common/progress.h"

#include "tools/graphtool/common/tools.h"
#include "tools/graphtool/common/world.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

/* between two updates of the bar, and between two lines */
static const double bar_seconds = 0.2, line_seconds = 5;

int progress_open(progress *p, const char *log_path, int64_t total, int n, const char *const *names) {
    *p = (progress){.log_path = log_path,
                    .total = total,
                    .n = n,
                    .is_terminal = isatty(STDOUT_FILENO) && !world_is_launched()};
    for (int i = 0; i < n; i++) p->names[i] = names[i];
    p->start = clock_seconds();
    p->shown = p->start - line_seconds; /* so that the first step prints at once */
    /* writing 0 bytes finds files like /dev/full */
    if (log_path && (!(p->log = fopen(log_path, "we")) || write(fileno(p->log), "", 0) < 0))
        return tool_fail("%s: it cannot be written: %s", log_path, strerror(errno));
    return -1;
}

/* "1:02:03" or "2:03" */
static void duration(char into[32], double seconds) {
    long s = seconds > 0 && seconds < 1e9 ? lround(seconds) : 0;
    if (s >= 3600)
        snprintf(into, 32, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(into, 32, "%ld:%02ld", s / 60, s % 60);
}

/* Prints the bar or a line, and starts new means. */
static void show(progress *p, int64_t epoch) {
    enum { WIDTH = 24 };
    char left[32], line[1200];
    double now = clock_seconds(), taken = now - p->start;
    duration(left, taken / (double)p->step * (double)(p->total - p->step));
    int at = snprintf(line, sizeof line, "epoch %lld  step %lld/%lld", (long long)epoch, (long long)p->step,
                      (long long)p->total);
    for (int i = 0; i < p->n && at < (int)sizeof line - 200; i++)
        if (p->since[i])
            at += snprintf(line + at, sizeof line - (size_t)at, "  %.60s %s", p->names[i],
                           show_mean(p->sums[i] / (double)p->since[i], 4).text);
    snprintf(line + at, sizeof line - (size_t)at, "  %.0f samples/s  %s left", (double)p->samples / taken,
             left);
    if (p->is_terminal) {
        int done = (int)(WIDTH * p->step / p->total);
        printf("\r[%.*s%*s] %s\033[K", done, "########################", WIDTH - done, "", line);
    } else {
        printf("%s\n", line);
    }
    fflush(stdout); /* errors ignored: a lost terminal must not stop a training run */
    p->shown = now;
    memset(p->since, 0, sizeof p->since);
    memset(p->sums, 0, sizeof p->sums);
}

/* The log ends where a write fails; the training goes on. */
static void lose_log(progress *p) {
    if (!p->has_lost_log)
        tool_warn("%s: writing failed at step %lld: %s; the training goes on without it", p->log_path,
                  (long long)p->step, strerror(errno));
    p->has_lost_log = true;
    if (p->log) fclose(p->log);
    p->log = NULL;
}

static void log_line(progress *p, json_t *line) {
    bool written = line && json_dumpf(line, p->log, JSON_COMPACT | JSON_REAL_PRECISION(9)) == 0 &&
                   fputc('\n', p->log) != EOF && fflush(p->log) == 0;
    if (!written) lose_log(p);
    json_decref(line);
}

/* has NULL: all values are there. */
static void put_values(json_t *line, const char *prefix, int n, const char *const *names, const bool *has,
                       const double *values) {
    for (int i = 0; i < n; i++) {
        char key[300];
        if (has && !has[i]) continue;
        snprintf(key, sizeof key, "%s%s", prefix, names[i]);
        json_object_set_new(line, key, json_number(values[i]));
    }
}

/* Values are means over ranks and micro-batches of one step. */
void progress_step(progress *p, int64_t epoch, int64_t rows, const bool *has, const double *values) {
    p->step++;
    p->samples += rows;
    for (int i = 0; i < p->n; i++) {
        p->since[i] += has[i];
        p->sums[i] += has[i] ? values[i] : 0;
    }
    double now = clock_seconds();
    if (now - p->shown >= (p->is_terminal ? bar_seconds : line_seconds) || p->step == p->total)
        show(p, epoch);
    if (!p->log) return;
    json_t *line = json_pack("{s:I, s:I, s:I, s:o}", "step", (json_int_t)p->step, "epoch", (json_int_t)epoch,
                             "samples", (json_int_t)p->samples, "seconds", json_number(now - p->start));
    if (line) put_values(line, "", p->n, p->names, has, values);
    log_line(p, line);
}

void progress_validation(progress *p, int64_t epoch, int n, const char *const *names, const double *values) {
    if (p->is_terminal) printf("\r\033[K");
    printf("epoch %lld  validation", (long long)epoch);
    for (int i = 0; i < n; i++) printf("  %s %s", names[i], show_mean(values[i], 4).text);
    printf("\n");
    fflush(stdout);
    if (!p->log) return;
    json_t *line = json_pack("{s:I, s:I}", "step", (json_int_t)p->step, "epoch", (json_int_t)epoch);
    if (line) put_values(line, "val_", n, names, NULL, values);
    log_line(p, line);
}

void progress_close(progress *p) {
    if (p->is_terminal && p->step) printf("\n");
    FILE *log = p->log;
    p->log = NULL;
    if (log && fclose(log)) lose_log(p);
}
