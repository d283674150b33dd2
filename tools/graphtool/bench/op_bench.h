/* op_bench.h - `bench --op`: the time of one op at given shapes, and the share of what the peaks allow. */
#ifndef WEFT_TOOLS_GRAPHTOOL_BENCH_OP_BENCH_H
#define WEFT_TOOLS_GRAPHTOOL_BENCH_OP_BENCH_H

#include "tools/graphtool/options/options.h"

/* Each call of --op; "all": every op that runs alone, at sizes made of its samples, the farthest from the
 * peaks first. Prints a table, or JSON. Returns the exit status. */
int op_bench_run(const options *o);

#endif
