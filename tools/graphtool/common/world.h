/* world.h - graphtool as one rank of many: mpirun, srun, torchrun or graphtool launch starts it several times
 * with the same command line.
 *
 * Only rank 0 writes: on the others standard output goes to /dev/null, and --output, --log and --profile are
 * dropped. An error on any rank is printed once and ends all ranks. */
#ifndef WEFT_TOOLS_GRAPHTOOL_COMMON_WORLD_H
#define WEFT_TOOLS_GRAPHTOOL_COMMON_WORLD_H

#include "tools/graphtool/common/tools.h"

typedef enum world_use {
    WORLD_JOINS, /* the ranks work together: o->comm is set when there are several */
    WORLD_LEADS, /* rank 0 works alone; the others leave at once */
} world_use;

/* Reads rank and world size (--launcher) and joins the other ranks; `how` may be NULL. At the end of the
 * command it leaves them, or aborts them after an error. *o stays where it is. */
void world_open(options *o, world_use use, const weft_comm_options *how);

int world_rank(const options *o); /* 0 when alone */
int world_size(const options *o); /* 1 when alone */
/* Did mpirun, srun or torchrun start this process? Then output goes through it, and isatty is no guide. */
bool world_is_launched(void);

/* Nothing to do when alone: gives all ranks the bytes of rank `root`; sums values[n] over all ranks in
 * place. */
void world_broadcast(const options *o, int root, void *data, size_t bytes, const char *name);
void world_sum(const options *o, int n, double *values);

#endif
