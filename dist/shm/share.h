/* share.h - makes the window of the ranks of one machine: each makes a segment, its piece, and maps the
 * pieces of the others. What the ranks tell each other meanwhile goes through functions of the transport,
 * which has not opened yet. */
#ifndef WEFT_DIST_SHM_SHARE_H
#define WEFT_DIST_SHM_SHARE_H

#include "dist/shm/segment.h"
#include "dist/shm/window.h"

/* The outcome of a vote: the first rank that failed (its place on this machine), -1: none; and its reason. */
typedef struct vote {
    int first;
    char why[REASON_BYTES];
} vote;

/* What a rank gives the others: its window_bytes, or the reason why it failed, "" if it succeeded. */
typedef struct share_part {
    int64_t value;
    char why[REASON_BYTES];
} share_part;

typedef struct share_options {
    const weft_env *env;  /* its log gets one line per machine */
    int64_t window_bytes; /* of weft_comm_options */
    const int *ranks;     /* [local_world]: ranks in the world of this machine's ranks, in their order */
    /* Gathers parts[local_world] of `bytes` bytes each among them, with a deadline; that of this rank is
     * filled in. `what` names the call in messages. */
    weft_status (*gather)(transport *t, const char *what, void *parts, size_t bytes, weft_error *error);
    share_part *parts; /* [local_world]: room, so that a rank without memory can say so */
} share_options;

/* Makes t->window. All ranks of the machine call it. Having none is fine too: then t->window is NULL on all
 * of them, and the log says why. Only a failure of an exchange is an error. */
weft_status share_window(transport *t, const share_options *options, weft_error *error);
/* transport_calls.ending of ranks of this machine: their processes. NULL without a window. */
const char *share_ending(transport *t, int rank);
/* Unmaps the pieces and forgets the processes; window_free frees the rest. */
void share_end(transport *t);

#endif
