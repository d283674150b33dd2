/* nearest.h - the name that a misspelt one is nearest to, for errors that help. */
#ifndef WEFT_GRAPH_CORE_NEAREST_H
#define WEFT_GRAPH_CORE_NEAREST_H

#include <stddef.h>

typedef struct nearest {
    const char *word; /* as it was written; it need not end in NUL */
    size_t length;
    const char *name; /* the best of those that were tried; NULL: none is near */
    int distance;     /* of that name; smaller is nearer */
} nearest;

nearest nearest_to(const char *word, size_t length);
/* Keeps `name` where it is nearer than those before it. It must live as long as it is used. */
void nearest_try(nearest *n, const char *name);
/* The same for a word that stands for `name` elsewhere: "learning-rate" for "lr". */
void nearest_try_as(nearest *n, const char *word, const char *name);

/* What an error says: ": did you mean 'd_step'?", or nothing where no name is near, and what
 * the list of all names begins with: " There", or "; there"; and " It has ", or "; it has ". */
typedef struct near_text {
    char question[120];
    const char *there, *it_has;
} near_text;
near_text nearest_ask(const nearest *n);

#endif
