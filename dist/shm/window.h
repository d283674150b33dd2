/* window.h - the window: memory that the ranks of one machine share, a piece of the same size each. A piece holds
 * flags, a ring of control messages from each of the others, and slots for data.
 *
 * Who has to wait naps on the bell of his own piece, and whoever changes something the other may wait for rings it: no
 * rank spins, and none sleeps longer than it must.
 * Invariants
 *   W1 a piece's flags and slots are written by its rank alone; of a ring, `in` and the messages by the sender
 *      and `out` by the reader; bells by all
 *   W2 filled, added and done only grow; they count the rounds a rank has taken part in, over all groups
 */
#ifndef WEFT_DIST_SHM_WINDOW_H
#define WEFT_DIST_SHM_WINDOW_H

#include "dist/core/transport.h"
#include "graph/core/mem.h"

#include <stdatomic.h>

enum {
    WINDOW_RING = 8,              /* control messages a rank may leave unread from each other */
    WINDOW_DEFAULT = 8 << 20,     /* bytes of data a rank */
    WINDOW_SLOT_MOST = 256 << 10, /* a round stays in the second cache */
    WINDOW_SLOTS = 16             /* at least; fewer only if a slot would be too short */
};

typedef struct window_flags {
    _Alignas(64) atomic_uint bell; /* counts rings; a futex */
    atomic_uint is_asleep;
    _Alignas(64) atomic_uint_least64_t filled; /* rounds whose contributions lie in the slots */
    _Alignas(64) atomic_uint_least64_t added;  /* rounds whose sums do */
    _Alignas(64) atomic_uint_least64_t done; /* rounds in which this rank reads no more of anybody's slots */
} window_flags;

struct window {
    weft_env env;
    int world, n, own; /* ranks in all, of this machine, this rank's place among those */
    int *place_of;     /* [world]: place on this machine; -1: on another */
    char **pieces;     /* [n] */
    size_t slot_bytes, slots, piece_bytes;
};

/* Bytes of a piece with so much for data, a multiple of 64; 0 when it overflows. */
size_t window_piece_bytes(int n, size_t data_bytes);

/* Is that enough data for n ranks, or are they better off without a window? */
bool window_is_enough(int n, size_t data_bytes);

/* The window of n ranks (their ranks in the world; this one's place is `own`); pieces are filled in by the caller,
 * then each rank cleans its own before anyone uses it. NULL: out of memory. */
window *window_new(const weft_env *env, int world, const int *ranks, int n, int own, size_t data_bytes);
void window_clean(window *w);
void window_free(window *w);

window_flags *window_flags_of(const window *w, int place);
/* Where the round with this number lies in a rank's piece. */
char *window_slot(const window *w, int place, uint64_t round);

/* One message to a rank of this machine; false: no room. A heartbeat without room is dropped and counts as sent. */
bool window_send(window *w, int place, const control *message);
bool window_receive(window *w, control *message);

/* listen, look for what is awaited, nap: a ring between listen and nap ends the nap at once. */
unsigned window_listen(window *w);
void window_nap(window *w, unsigned heard, double seconds);
/* Wakes a rank if it naps. */
void window_ring(window *w, int place);

#endif
