/* compare.h - one measurement beside another: the ratio of their medians, how sure it is, and a verdict. */
#ifndef WEFT_TOOLS_GRAPHTOOL_BENCH_COMPARE_H
#define WEFT_TOOLS_GRAPHTOOL_BENCH_COMPARE_H

#include "tools/graphtool/bench/statistics.h"
#include "tools/graphtool/options/options.h"

#include <jansson.h>

typedef struct comparison {
    const char *with; /* the other: a file, a model, options */
    double ratio;     /* this one's time divided by the other's */
    interval in;      /* of the ratio, 95%; not known of fewer than steps_needed */
    int steps_needed; /* --steps of both */
    json_t *other;    /* what was measured of the other */
} comparison;

/* A file of `bench --json`, whose times are used. */
json_t *result_read(const char *path);
/* Of two such results: their steps are drawn apart. */
comparison compare_results(const json_t *mine, json_t *other, const char *with);

/* Adds "comparison" to this one's result. */
void compare_add(json_t *mine, const comparison *c);
/* One line, and one of the settings in which the two differ. */
void compare_print(const json_t *mine, const comparison *c);
/* Ends the command where --fail-above is given and `steps` are fewer than needed; `of`: whose they are. */
void compare_check(const options *o, int64_t steps, int needed, const char *of);
/* How many steps of a result count. */
int compare_steps(const json_t *result);
/* The exit status: EXIT_WRONG, with an error, where all of the interval is above --fail-above. */
int compare_status(const options *o, const comparison *c);

#endif
