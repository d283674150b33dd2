/* limit.h - the peaks of the device, and the least time that they allow a step. */
#ifndef WEFT_TOOLS_GRAPHTOOL_BENCH_LIMIT_H
#define WEFT_TOOLS_GRAPHTOOL_BENCH_LIMIT_H

#include "tools/graphtool/bench/load.h"
#include "tools/graphtool/training/workload.h"

#include "ops/roof.h"

#include <jansson.h>

/* A GPU's peaks are by its name; a processor's are measured, and too low where others use it meanwhile. */
typedef struct peaks {
    bool is_known, is_measured;
    roof roof;
    cpu_load load; /* while they were measured */
} peaks;

peaks peaks_of(const workload *w);
/* {name, gflops, reduced_gflops, gb_per_s, other_cpus}; null where they are not known. */
json_t *peaks_json(const peaks *p);
/* One line on stderr. */
void peaks_print(const peaks *p);

/* Milliseconds of a step of the plan's flow at these peaks; 0: not known, or iterations differ. */
double limit_ms(const weft_plan *plan, const peaks *p);
/* Floating-point operations of such a step; 0 likewise. */
double limit_flops(const weft_plan *plan);

#endif
