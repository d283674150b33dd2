/* machine.h - the machine and the program that a measurement was made with. */
#ifndef WEFT_TOOLS_GRAPHTOOL_BENCH_MACHINE_H
#define WEFT_TOOLS_GRAPHTOOL_BENCH_MACHINE_H

#include "tools/graphtool/bench/limit.h"

/* The keys of `machine` in docs/graphtool.md, null where the system does not say them. */
json_t *machine_json(const peaks *p);

#endif
