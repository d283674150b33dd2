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

/* Exchanges among the ranks of one machine, with a deadline. `what` names the call in messages. */
typedef struct share_calls {
    /* Gathers parts[local_world] of `bytes` bytes each; this rank's own is filled in. */
    weft_status (*gather)(transport *t, const char *what, void *parts, size_t bytes, weft_error *error);
    /* Replaces *value by the least of all. */
    weft_status (*least)(transport *t, const char *what, int64_t *value, weft_error *error);
    /* `why` is the reason why this rank failed, NULL or empty if it succeeded. The outcome is the same on
     * every rank. */
    weft_status (*settle)(transport *t, const char *what, const char *why, vote *outcome, weft_error *error);
} share_calls;

typedef struct share_options {
    const weft_env *env;  /* its log gets one line per machine */
    int64_t window_bytes; /* of weft_comm_options */
    const int *ranks;     /* [local_world]: ranks in the world of this machine's ranks, in their order */
} share_options;

/* Makes t->window. All ranks of the machine call it. Having none is fine too: then t->window is NULL on all
 * of them, and the log says why. Only a failure of an exchange is an error. */
weft_status share_window(transport *t, const share_calls *calls, const share_options *options,
                         weft_error *error);
/* transport_calls.ending of ranks of this machine: their processes. NULL without a window. */
const char *share_ending(transport *t, int rank);
/* Unmaps the pieces and forgets the processes; window_free frees the rest. */
void share_end(transport *t);

#endif
