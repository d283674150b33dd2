/* names.c - see names.h. */
#include "tools/graphtool/common/names.h"

#include "tools/graphtool/common/output.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGE = 400, LIST = 500 };

names names_for(const char *word) {
    return (names){.near = nearest_to(word, strlen(word))};
}

void names_add(names *n, const char *name) {
    nearest_try(&n->near, name);
    text_add(&n->all, "%s%s", n->all.length ? ", " : "", name);
}

void names_end(names *n) {
    free(text_detach(&n->all));
}

int names_refuse(names *n, const char *format, ...) {
    char message[MESSAGE];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    char *all = text_detach(&n->all);
    near_text ask = nearest_ask(&n->near);
    bool fits = all && *all && strlen(all) <= LIST;
    int status = fits ? tool_fail("%s%s%s are %s", message, ask.question, ask.there, all)
                      : tool_fail("%s%s", message, ask.question);
    free(all);
    return status;
}
