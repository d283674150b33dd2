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

/* A moment; load_since: from that moment until now. */
typedef struct load_moment {
    bool is_known;
    double wall, busy, steal, own; /* seconds */
} load_moment;
load_moment load_now(void);
cpu_load load_since(const load_moment *from);

#endif
