/* load.h - who else used this machine's processors: /proc/stat before and after. */
#ifndef WEFT_TOOLS_GRAPHTOOL_BENCH_LOAD_H
#define WEFT_TOOLS_GRAPHTOOL_BENCH_LOAD_H

#include <stdbool.h>

/* CPUs' worth of work in a time: 1 is one processor all the time. */
typedef struct cpu_load {
    bool is_known; /* the system has a /proc/stat */
    double others; /* of other processes, the steal not counted */
    double steal;  /* that the hypervisor gave to other machines */
} cpu_load;

/* A moment; load_own: seconds of work of this process from that moment until now; load_since: the load in
 * that time, beside `own` seconds of this process and those that work with it. */
typedef struct load_moment {
    bool is_known;
    double wall, busy, steal, own; /* seconds */
} load_moment;
load_moment load_now(void);
double load_own(const load_moment *from);
cpu_load load_since(const load_moment *from, double own);

#endif
