/* collectives.h - what passes share that put collectives other than gradients' into a program. */
#ifndef WEFT_RUNTIME_COLLECTIVES_H
#define WEFT_RUNTIME_COLLECTIVES_H

#include "runtime/program.h"

/* Starts an all_reduce or a broadcast (from rank 0 of the group) of `buffer` in its own memory, and waits for it. `path`
 * names it in reports. NULL after an error. */
weft_node *collective_start(program *p, const weft_op *op, weft_value *buffer, const subgraph *group,
                            const char *path);
weft_value *collective_wait(weft_node *start);

/* sync_norm.c, collectives.c, broadcast_buffers.c */
bool pass_sync_norm(program *p);
bool lower_sum_ranks(program *p);
bool broadcast_buffers(program *p);

#endif
