/* poison.h - fills memory that must not be read with garbage: a session's arena before its first write, dead
 * memory, workspaces. If results depend on it, they differ between two kinds of garbage. */
#ifndef WEFT_TEST_POISON_H
#define WEFT_TEST_POISON_H

#include "weft/weft.h"

/* Bytes that form NaNs, and bytes that form large numbers and small integers. */
enum { POISON_NAN = 0xff, POISON_LARGE = 0x7f, POISON_ZERO = 0 };

/* An environment whose allocations are filled with that byte; for weft_model_new_in. */
const weft_env *poison_env(int byte);

/* From here on every kernel of a session on the CPU finds its workspace filled with `byte`, and the memory of
 * its results too if it is the first to write there; after the last reader of a memory it is filled again.
 * Each call is also checked by kernel_check_call. NULL: out of memory. */
typedef struct poison poison;
poison *poison_put(weft_session *session, int byte);
/* Ends this; returns how many kernels ran so. Call it before the session closes, when nothing of it is under
 * way. */
int64_t poison_end(poison *p);

#endif
