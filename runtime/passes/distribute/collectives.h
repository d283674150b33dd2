/* collectives.h - what passes share that put collectives into a program. */
#ifndef WEFT_RUNTIME_PASSES_DISTRIBUTE_COLLECTIVES_H
#define WEFT_RUNTIME_PASSES_DISTRIBUTE_COLLECTIVES_H

#include "runtime/plan/program.h"
#include "runtime/passes/passes.h"

/* Starts an all_reduce, a reduce_scatter or a broadcast (from rank 0 of the group) of `buffer` in its own memory, and
 * waits for it. `path` names it in reports. The wire's type and sums in any order are for gradients alone. NULL after an
 * error. */
weft_value *collective_start(program *p, const weft_op *op, weft_value *buffer, const subgraph *group,
                             const char *path, bool is_gradient);
weft_value *collective_wait(weft_value *started);

/* sync_norm.c, collectives.c, broadcast_buffers.c */
bool pass_sync_norm(program *p);
bool lower_sum_ranks(program *p);
bool broadcast_buffers(program *p);

#endif
