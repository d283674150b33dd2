/* alternate.h - two workloads in turns in one process, so that what the machine does meanwhile meets both. */
#ifndef WEFT_TOOLS_GRAPHTOOL_BENCH_ALTERNATE_H
#define WEFT_TOOLS_GRAPHTOOL_BENCH_ALTERNATE_H

#include "tools/graphtool/bench/compare.h"
#include "tools/graphtool/bench/timing.h"

enum { SPELL = 2 /* timed steps */, ALTERNATE_LEAST = SPELL * (STATISTICS_LEAST - 1) + 1 /* --steps */ };

/* Runs rounds of both until each has --steps, with --until until the interval of the ratio is that narrow, or
 * there are a hundred times as many. A round has an untimed and SPELL timed steps of each, in the order
 * a b b a; its ratio is that of the means, and the comparison has the median of the rounds. */
comparison alternate(timing *mine, timing *other);

#endif
