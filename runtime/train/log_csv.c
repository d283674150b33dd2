/* log_csv.c - every number of a line as a row of its own: step,epoch,phase,name,value. So a metric that comes
 * later needs no column. */
#include "runtime/train/log.h"

#include <math.h>
#include <string.h>

enum { LONGEST = LOG_NAME * 2 + 100 /* row */ };

typedef struct csv_log {
    log_file file;
    interval interval;
    log_values values;
    bool has_head;
    char rows[1 << 14]; /* that are written together */
} csv_log;

/* A name with a comma or a quote stands in quotes (RFC 4180). */
static size_t put_name(char *into, const char *name) {
    size_t n = 0;
    bool quotes = strpbrk(name, ",\"\n") != NULL;
    if (quotes) into[n++] = '"';
    for (; *name; name++) {
        if (*name == '"') into[n++] = '"';
        into[n++] = *name;
    }
    if (quotes) into[n++] = '"';
    return n;
}

static size_t put_row(char *into, size_t room, const weft_progress *p, const char *phase, const char *name,
                      double value) {
    size_t n = (size_t)snprintf(into, room, "%lld,%lld,%s,", (long long)p->iteration, (long long)p->epoch + 1,
                                phase);
    n += put_name(into + n, name);
    n += (size_t)snprintf(into + n, room - n, isnan(value) ? ",nan\n" : ",%.9g\n", value);
    return n;
}

static weft_status csv_at(void *self, weft_trainer *t, weft_point point, weft_error *error) {
    static const char head[] = "step,epoch,phase,name,value\n";
    csv_log *l = self;
    const char *phase;
    size_t n = 0;
    const weft_progress *p = weft_trainer_progress(t);
    if (p->rank) return WEFT_OK;
    weft_status status = log_file_open(&l->file, t->env, error);
    if (status) return status;
    if (!l->has_head) log_file_write(&l->file, p->iteration, head, sizeof head - 1);
    l->has_head = true;
    if (interval_line(&l->interval, t, point, &phase, &l->values)) {
        for (int i = 0; i < l->values.n; i++) {
            n += put_row(l->rows + n, sizeof l->rows - n, p, phase, l->values.list[i].name,
                         l->values.list[i].value);
            if (i + 1 < l->values.n && n + LONGEST < sizeof l->rows) continue;
            log_file_write(&l->file, p->iteration, l->rows, n);
            n = 0;
        }
    }
    if (point == WEFT_AFTER_RUN || point == WEFT_AFTER_TEST) log_file_sync(&l->file, p->iteration);
    return WEFT_OK;
}

static weft_status csv_check(void *self, weft_error *error) {
    const csv_log *l = self;
    weft_status status = log_file_check(&l->file, error);
    return status ? status : log_values_check(&l->values, error);
}

static void csv_free(void *self) {
    csv_log *l = self;
    log_file_free(&l->file);
    interval_free(&l->interval, &l->values);
    weft_memory_free(NULL, l, sizeof *l);
}

weft_hook weft_hook_csv(const char *path, int64_t every) {
    if (!path) return hook_refused("csv: a path is needed");
    csv_log *l = kit_new(NULL, sizeof *l);
    if (!l) return hook_refused(NULL);
    l->interval.every = every;
    if (log_file_new(&l->file, path)) return (weft_hook){"csv", csv_at, csv_free, csv_check, l};
    csv_free(l);
    return hook_refused(NULL);
}
