/* machine.h - the machine and the program that a measurement was made with. */
#ifndef WEFT_TOOLS_GRAPHTOOL_BENCH_MACHINE_H
#define WEFT_TOOLS_GRAPHTOOL_BENCH_MACHINE_H

#include "weft/plan.h"

#include <jansson.h>

/* The keys of `machine` in docs/graphtool.md, null where the system does not say them. The speed of memory is
 * measured now, with the threads and instruction set of `like`. */
json_t *machine_json(const weft_compile_options *like);

#endif
