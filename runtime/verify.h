/* verify.h - what the verifier's files share. Its rules: V in verify.c (memory), L in verify_lanes.c (communication). */
#ifndef WEFT_RUNTIME_VERIFY_H
#define WEFT_RUNTIME_VERIFY_H

#include "runtime/program.h"

/* Bytes [begin, end) of the arena (space NULL) or of a variable's memory. */
typedef struct verify_range {
    const void *space;
    int64_t begin, end;
} verify_range;

/* Where a value lies, by the verifier's own walk; false for the caller's memory. begin is -1 without a place. */
bool verify_locate(const weft_value *v, verify_range *range);
bool ranges_meet(verify_range a, verify_range b);

/* "RULE: graph d_step, step 12, node: what" with WEFT_INTERNAL. */
weft_status verify_broken(const program *p, weft_error *error, const char *rule, const weft_node *n,
                          const char *what);

weft_status verify_lanes(const program *p, weft_error *error);

#endif
