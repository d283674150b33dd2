/* reduction.h - what the optimizer pass asks of distribution: gradients brought to the ranks that update,
 * parameters brought back to all ranks, and the guard against bad steps. */
#ifndef WEFT_RUNTIME_PASSES_DISTRIBUTE_REDUCTION_H
#define WEFT_RUNTIME_PASSES_DISTRIBUTE_REDUCTION_H

#include "runtime/plan/program.h"

#include "graph/settings/minimize.h"
#include "ops/optimizer/update.h"

/* ---- guard.c: false after an error ---- */

/* What the guard of one program is made of: norms[0] are the flags, then a norm for each of the first
 * minimize calls that has one. norms NULL: no guard. */
typedef struct guarding {
    guard_attrs attrs;
    weft_value **norms;
    int n_norms;
} guarding;
/* Before minimize calls are expanded: the flags of the losses, and the gate, unless it waits for norms. */
bool guard_begin(program *p, guarding *into);
/* A norm of gradients by which the step is judged, too; NULL: an error. */
bool guard_norm(guarding *guard, weft_value *norm);
/* The gate; before the first update. */
bool guard_end(program *p, guarding *guard);

/* ---- reduction.c: NULL or false after an error ---- */

/* Whether ranks exchange this bucket's gradients. */
bool reduction_is_needed(const program *p, const weft_variable *s);
/* Starts the sum over ranks of a whole bucket. */
weft_value *reduction_start(program *p, const weft_variable *s, weft_value *flat);
/* The sum once it is complete, in the bucket's memory; the bucket itself where it is not exchanged. */
weft_value *reduction_finish(program *p, const weft_variable *s, weft_value *flat);
/* *own becomes the part of the finished gradients by which this rank updates, as means over all ranks; NULL:
 * it has none. */
bool reduction_own(program *p, const weft_variable *s, weft_value *finished, weft_value **own);
/* parts[n] joined along axis 0, by as many concats as that takes (each has at most 32 operands). Overwrites
 * parts. */
weft_value *values_join(weft_value **parts, int n);
/* The norm of all gradients of buckets[0 .. count), but of those whose trains[], bool[], is false (NULL: none
 * is); own[] and trains[] are by index of a bucket. */
weft_value *reduction_norm(program *p, weft_variable *const *buckets, int count, weft_value *const *own,
                           weft_value *const *trains);
/* Sends updated ranges to all ranks. `after` is what must be done before: the update, or on a rank without a
 * range the wait that the update would have read. */
bool reduction_return(program *p, const weft_variable *s, weft_value *after, weft_value *scale);

#endif
