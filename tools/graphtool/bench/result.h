/* result.h - what a timing measured, as JSON and as text; docs/graphtool.md has the keys. */
#ifndef WEFT_TOOLS_GRAPHTOOL_BENCH_RESULT_H
#define WEFT_TOOLS_GRAPHTOOL_BENCH_RESULT_H

#include "tools/graphtool/bench/timing.h"

json_t *result_json(const timing *t);
/* Its key "machine": measures the speed of memory. */
json_t *result_machine(const timing *t);
/* Two lines about such JSON. */
void result_print(const json_t *result);

#endif
