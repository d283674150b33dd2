/* names.c - see names.h. */
#include "tools/graphtool/output/names.h"

#include "tools/graphtool/output/output.h"

#include <string.h>

enum { LIST = 500 /* bytes of names that fit into a line */ };

names names_for(const char *word) {
    return (names){.near = nearest_to(word, strlen(word))};
}

void names_add(names *n, const char *name) {
    nearest_try(&n->near, name);
    text_add(&n->all, "%s%s", n->all.length ? ", " : "", name);
}

names names_of(const char *word, const char *const *words) {
    names n = names_for(word);
    for (int i = 0; words[i]; i++) names_add(&n, words[i]);
    return n;
}

void names_refuse(names *n, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const char *message = tool_vtext(format, args);
    va_end(args);
    const char *all = tool_take(&n->all);
    near_text ask = nearest_ask(&n->near);
    if (*all && strlen(all) <= LIST) tool_fail("%s%s%s are %s", message, ask.question, ask.there, all);
    tool_fail("%s%s", message, ask.question);
}
