/* world.h - graphtool as one rank of many: mpirun or srun starts it several times with the same command line.
 *
 * Rank 0 alone writes: on the others standard output goes nowhere and --output, --log and --profile are dropped.
 * An error on any rank is told once and ends all of them. */
#ifndef WEFT_TOOLS_GRAPHTOOL_COMMON_WORLD_H
#define WEFT_TOOLS_GRAPHTOOL_COMMON_WORLD_H

#include "tools/graphtool/common/tools.h"

typedef enum world_use {
    WORLD_JOINS, /* the ranks work together: o->comm is set when there are several */
    WORLD_LEADS, /* rank 0 works alone; the others leave at once */
} world_use;

/* Finds out who we are (--launcher) and joins the others; `how` may be NULL. Returns -1 to go on, else the exit
 * status. */
int world_open(options *o, world_use use, const weft_comm_options *how);
/* The end of a command with this status: parts from the others, or ends them. Returns the status. */
int world_close(options *o, int status);

int world_rank(const options *o); /* 0 alone */
int world_size(const options *o);
/* By mpirun, srun or torchrun: what it passes on of our output is no terminal, whatever isatty says. */
bool world_is_launched(void); /* 1 alone */

/* Sums over all ranks, in place, n at most WORLD_MOST. Alone nothing happens. -1, or the exit status. */
enum { WORLD_MOST = 64 };
int world_sum(const options *o, int n, double *values);

#endif
