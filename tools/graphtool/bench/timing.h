/* timing.h - runs the steps of a workload and keeps the time of each. */
#ifndef WEFT_TOOLS_GRAPHTOOL_BENCH_TIMING_H
#define WEFT_TOOLS_GRAPHTOOL_BENCH_TIMING_H

#include "tools/graphtool/bench/load.h"
#include "tools/graphtool/training/workload.h"

typedef struct timing {
    const options *o;
    const weft_model *model;
    workload work;
    double begun;    /* when its model was about to be compiled, by clock_seconds */
    double ready_ms; /* from then to the end of the first step */
    double until; /* the interval of the median is to be so narrow, as a part of it; 0: --steps are enough */
    json_t *losses;   /* name -> [first five..., last], means over all ranks */
    json_t *last;     /* name -> those of the last step */
    int64_t ran;      /* steps */
    int n, room;      /* of them, that have a time */
    double *ms;       /* of each, the warm-up among them; with several ranks the slowest one's */
    int warmup;       /* how many of the first are left out */
    bool finds;       /* the warm-up is found, not said */
    bool is_reached;  /* --until */
    int n_shared;     /* how many of ms are the slowest rank's already */
    bool is_together; /* a GPU's steps are timed together: each has the mean */
    cpu_load load;    /* while they ran */
} timing;

/* Opens the model's workload. */
timing *timing_open(weft_model *m, const options *o);
/* Runs --warmup steps and --steps more, and further ones until as many are left after the warm-up that is
 * found, and with --until until the interval is narrow enough or there are a hundred times as many. */
void timing_run(timing *t);
/* Makes each time that of the slowest rank; all ranks call it. Decisions before it would be of one rank's. */
void timing_share(timing *t);
/* One step; its losses are recorded. */
void timing_step(timing *t);
/* Ends the run: the load since `from`, the slowest rank's times, the last losses. */
void timing_end(timing *t, const load_moment *from);
/* The steps that count. */
static inline int timing_count(const timing *t) {
    return t->n - t->warmup;
}

#endif
