/* log_csv.c - every number of a line as a row of its own: step,epoch,phase,name,value. So a metric that comes
 * later needs no column. */
#include "runtime/hooks/log.h"

#include <math.h>

enum { LONGEST = LOG_NAME * 2 + 100 /* row */ };

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

static size_t put_row(char *into, size_t room, const weft_trainer *t, const char *phase, const char *name,
                      double value) {
    size_t n = (size_t)snprintf(into, room, "%jd,%jd,%s,", log_step(t), log_epoch(t), phase);
    n += put_name(into + n, name);
    n += (size_t)snprintf(into + n, room - n, ",%s\n", isnan(value) ? "nan" : NUMBER("%.9g", value));
    return n;
}

static void write_rows(log_lines *l, const weft_trainer *t, const char *phase) {
    char rows[1 << 12]; /* that are written together */
    size_t n = 0;
    for (int i = 0; i < l->values.n; i++) {
        const log_value *v = &l->values.list[i];
        n += put_row(rows + n, sizeof rows - n, t, phase, v->name, v->value);
        if (i + 1 < l->values.n && n + LONGEST < sizeof rows) continue;
        log_file_write(&l->file, log_step(t), rows, n);
        n = 0;
    }
}

weft_hook weft_hook_csv(const char *path, int64_t every) {
    static const log_form form = {.name = "csv",
                                  .without = "csv: a path is needed",
                                  .head = "step,epoch,phase,name,value\n",
                                  .write = write_rows};
    return log_lines_hook(&form, path, every);
}
