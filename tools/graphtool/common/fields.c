/* fields.c - see fields.h. */
#include "tools/graphtool/common/fields.h"

#include "tools/graphtool/common/names.h"
#include "tools/graphtool/common/output.h"

#include "graph/core/error.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* An option and its value, for messages. */
typedef struct said {
    const char *option, *value;
} said;

static int refuse_name(const said *s, const char *name, int n, const field *table) {
    names known = names_for(name);
    for (int i = 0; i < n; i++) names_add(&known, table[i].name);
    return names_refuse(&known, "--%s=%s: it has no field '%s'", s->option, SHOW(s->value), SHOW(name));
}

static int read_whole(const said *s, const field *f, const char *value) {
    enum { MOST = 1000000 };
    char *end;
    errno = 0;
    long long n = strtoll(value, &end, 10);
    if (errno || end == value || *end || n < 1 || n > MOST)
        return tool_fail("--%s=%s: %s: a whole number from 1 to %d is needed", s->option, SHOW(s->value),
                         f->name, MOST);
    *f->whole = n;
    return -1;
}

static int read_real(const said *s, const field *f, const char *value) {
    char *end;
    double x = strtod(value, &end);
    if (end == value || *end || !isfinite(x) || x <= 0)
        return tool_fail("--%s=%s: %s: a number above 0 is needed", s->option, SHOW(s->value), f->name);
    *f->real = x;
    return -1;
}

/* Without the quotation marks around it. */
static char *bare(char *value) {
    size_t n = strlen(value);
    if (n < 2 || *value != '"' || value[n - 1] != '"') return value;
    value[n - 1] = 0;
    return value + 1;
}

static int read_one(const said *s, char *one, int n, const field *table) {
    char *value = strchr(one, '=');
    if (!value || !value[1])
        return tool_fail("--%s=%s: NAME=VALUE is needed at '%s'", s->option, SHOW(s->value), SHOW(one));
    *value = 0;
    value = bare(value + 1);
    int i = 0;
    while (i < n && strcmp(table[i].name, one)) i++;
    if (i == n) return refuse_name(s, one, n, table);
    if (table[i].whole) return read_whole(s, &table[i], value);
    if (table[i].real) return read_real(s, &table[i], value);
    *table[i].text = value;
    return -1;
}

int fields_read(const char *option, const char *value, char *fields, int n, const field *table) {
    const said s = {option, value};
    int status = -1;
    for (char *one; status < 0 && fields && *fields && (one = strsep(&fields, ","));)
        status = read_one(&s, one, n, table);
    return status;
}
