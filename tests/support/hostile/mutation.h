/* mutation.h - files with something wrong, drawn by seed: flipped bits, cuts and repeats, numbers and lengths
 * that programs trip over, names of other types, keys twice, deep nesting. */
#ifndef WEFT_TEST_MUTATION_H
#define WEFT_TEST_MUTATION_H

#include "support/test.h"

/* A file that is being changed. */
typedef struct mutant {
    unsigned char *data;
    size_t n, room;
} mutant;

/* Room for every mutant of a file of n bytes; the caller frees m->data. */
void mutant_new(mutant *m, size_t n);
void mutant_set(mutant *m, const void *data, size_t n);
/* Makes `m` the good file with one to three changes. */
void mutate(mutant *m, const void *good, size_t n, test_random *r);

#endif
