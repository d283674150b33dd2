/* consumer.h - what each program of tests/consumer does with an installed Weft: it fits a line and prints the
 * result. */
#ifndef CONSUMER_H
#define CONSUMER_H

#include <weft/weft.h>

#include <stdio.h>
#include <string.h>

/* Names that the library also uses internally, and one of a library that it loads late: here they are the
 * program's own, with its own meaning. */
#ifdef __cplusplus
extern "C" {
#endif
int mem_free(int x);
int type_check(int x);
int graph_find(int x);
int cudnnCreate(int x);
int ncclAllReduce(int x);
#ifdef __cplusplus
}
#endif

static inline int own_names(void) {
    return mem_free(1) + type_check(1) + graph_find(1) + cudnnCreate(1) + ncclAllReduce(1) == 5 * 8;
}

/* The headers that it was compiled with are those of the library that it runs with. */
static inline int one_version(void) {
    char text[40];
    snprintf(text, sizeof text, "%d.%d.%d", WEFT_VERSION_MAJOR, WEFT_VERSION_MINOR, WEFT_VERSION_PATCH);
    return strcmp(text, weft_version()) == 0;
}

#endif
