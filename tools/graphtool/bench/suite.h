/* suite.h - `bench --suite`: every model of the zoo or of a folder, training and inference, with several sets
 * of options. Each run is a process, so that its peak of memory is its own, and a line of JSON in --output:
 * what `bench --json` prints with `suite`, `engine`, `file`, `phase` and `options`, or why it failed.
 * bench/suite.py makes tables of such lines. */
#ifndef WEFT_TOOLS_GRAPHTOOL_BENCH_SUITE_H
#define WEFT_TOOLS_GRAPHTOOL_BENCH_SUITE_H

#include "tools/graphtool/options/options.h"

/* Runs what the file has no good line of. Returns the exit status: EXIT_WRONG where a run failed. */
int suite_run(const options *o);

#endif
