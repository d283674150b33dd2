/* result.h - what a timing measured, as JSON and as text; docs/graphtool.md has the keys. */
#ifndef WEFT_TOOLS_GRAPHTOOL_BENCH_RESULT_H
#define WEFT_TOOLS_GRAPHTOOL_BENCH_RESULT_H

#include "tools/graphtool/bench/limit.h"
#include "tools/graphtool/bench/statistics.h"
#include "tools/graphtool/bench/timing.h"

/* [low, high]; null: it is not known. */
json_t *interval_json(interval in);
json_t *result_json(const timing *t);
/* Adds the machine, and what of its peaks is reached. */
void result_add_machine(json_t *result, const timing *t, const peaks *p);
/* Two lines about such JSON. */
void result_print(const json_t *result);

#endif
