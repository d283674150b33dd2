/* world.h - graphtool as one rank of many: mpirun, srun, torchrun or graphtool launch starts it several times
 * with the same command line.
 *
 * Only rank 0 writes: on the others standard output goes to /dev/null, and --output, --log and --profile are
 * dropped. An error on any rank is printed once and ends all ranks. */
#ifndef WEFT_TOOLS_GRAPHTOOL_RANKS_WORLD_H
#define WEFT_TOOLS_GRAPHTOOL_RANKS_WORLD_H

#include "tools/graphtool/options/options.h"

/* Reads rank and world size (--launcher). When rank 0 leads the command the other ranks leave at once; else
 * they join, and o->comm is set where there are several; `how` may be NULL. At the end of the command it
 * leaves them, or aborts them after an error. *o stays where it is. */
void world_open(options *o, const weft_comm_options *how);

int world_rank(const options *o); /* 0 when alone */
int world_size(const options *o); /* 1 when alone */
/* Nothing to do when alone: gives all ranks the bytes of rank `root`; sums values[n] over all ranks in
 * place. */
void world_broadcast(const options *o, int root, void *data, size_t bytes, const char *name);
void world_sum(const options *o, int n, double *values);

#endif
