/* collectives.h - starts and waits that passes put into a program, and the passes that do so. */
#ifndef WEFT_RUNTIME_PASSES_DISTRIBUTE_COLLECTIVES_H
#define WEFT_RUNTIME_PASSES_DISTRIBUTE_COLLECTIVES_H

#include "runtime/plan/program.h"
#include "runtime/passes/passes.h"

/* collectives.c: adds the start of a collective (a broadcast is from rank 0 of the group) that works in
 * place in `buffer`. `path` names it in reports. Only gradients may travel in bf16 or be added in any
 * order. NULL after an error, or for a NULL buffer. */
weft_value *collective_start(program *p, const weft_op *op, weft_value *buffer, const subgraph *group,
                             const char *path, bool is_gradient);
/* Adds the wait; its result is the buffer afterwards. */
weft_value *collective_wait(weft_value *started);

/* sums.c: the sum of a bucket with s->sum, by the nodes of the strategy; awaited already. NULL after
 * an error. */
weft_value *own_sum(program *p, const weft_variable *s, weft_value *flat);

/* sync_norm.c, collectives.c, broadcast_buffers.c */
bool pass_sync_norm(program *p);
bool lower_collectives(program *p);
bool broadcast_buffers(program *p);

#endif
