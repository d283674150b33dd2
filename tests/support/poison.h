/* poison.h - memory that holds rubbish wherever nobody may read: what a session's arena holds before its first write, what is
 * dead, workspaces. Numbers that depend on it differ between two kinds of rubbish. */
#ifndef WEFT_TEST_POISON_H
#define WEFT_TEST_POISON_H

#include "weft/weft.h"

/* Bytes that make NaNs, and such that make large numbers and small integers. */
enum { POISON_NAN = 0xff, POISON_LARGE = 0x7f, POISON_ZERO = 0 };

/* Environments whose memory comes filled with that byte; for weft_model_new_in. */
const weft_env *poison_env(int byte);

/* From here on every kernel of a session on the CPU finds its workspace filled with `byte`, and the memory of its results
 * where it is the first to write there; what it is the last to read is filled behind it. Its call is checked, too:
 * kernel_check_call. NULL: memory is out. */
typedef struct poison poison;
poison *poison_put(weft_session *session, int byte);
/* How many kernels ran so. To be called before the session closes, when nothing of it is under way. */
int64_t poison_end(poison *p);

#endif
