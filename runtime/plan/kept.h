/* kept.h - what a session with a guard keeps of each graph's step: the inputs of its micro-batches, then the
 * variables that it changes before its gate, then the flags of its micro-batches so far. `head` is a graph's
 * first program. */
#ifndef WEFT_RUNTIME_PLAN_KEPT_H
#define WEFT_RUNTIME_PLAN_KEPT_H

#include "runtime/plan/program.h"

/* The next variable that is kept; NULL: no more. *at is NULL at first. */
const weft_variable *kept_next(const program *head, const weft_node **at);
/* The inputs of a program, each aligned: those of one micro-batch. */
uint64_t kept_input_bytes(const program *p);
/* The flags of its earlier micro-batches, aligned. */
uint64_t kept_flag_bytes(const program *head);
/* All together, each aligned; 0 for a program that keeps nothing. */
uint64_t kept_bytes(const program *p);

#endif
