/* names.h - errors about an unknown name: with the nearest one, and the valid ones. */
#ifndef WEFT_TOOLS_GRAPHTOOL_OUTPUT_NAMES_H
#define WEFT_TOOLS_GRAPHTOOL_OUTPUT_NAMES_H

#include "graph/core/mem.h"
#include "graph/core/nearest.h"

typedef struct names {
    nearest near;
    text all;
} names;

/* For the word that was given; add every valid name, each of which must outlive *n, then refuse. */
names names_for(const char *word);
void names_add(names *n, const char *name);
/* The same with all words of a list that NULL ends. */
names names_of(const char *word, const char *const *words);
/* Prints "<message>: did you mean 'd_step'? There are d_step, g_step", with the names where they fit into a
 * line, and ends the command. */
_Noreturn void names_refuse(names *n, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
