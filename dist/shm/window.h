/* window.h - the window: memory that the ranks of one machine share, one piece of the same size per rank. A
 * piece holds flags, one ring of control messages from each other rank, and slots for data.
 *
 * A rank that waits naps on the bell of its own piece (a futex), and a rank that changes something another
 * may wait for rings that rank's bell. So no rank spins, and none sleeps longer than needed.
 * Invariants
 *   W1 only its own rank writes a piece's flags and slots; in a ring the sender writes `in` and the messages,
 *      the reader writes `out`; every rank may ring a bell
 *   W2 filled, added and done only grow; they count the rounds a rank has taken part in, over all groups */
#ifndef WEFT_DIST_SHM_WINDOW_H
#define WEFT_DIST_SHM_WINDOW_H

#include "dist/core/transport.h"
#include "graph/core/mem.h"

#include <stdatomic.h>

enum {
    WINDOW_RING = 8,              /* control messages in a ring */
    WINDOW_DEFAULT = 8 << 20,     /* bytes of slots per rank */
    WINDOW_SLOT_MOST = 256 << 10, /* bytes of a slot: a round fits in the L2 cache */
    WINDOW_SLOTS = 16             /* at least; fewer only where slots would be too short */
};

typedef struct window_flags {
    _Alignas(64) atomic_uint bell; /* futex word: the number of rings */
    /* 1 while the rank naps or is about to; only then a ring costs a system call */
    atomic_uint is_asleep;
    _Alignas(64) atomic_uint_least64_t filled; /* rounds whose contributions are in the slots */
    _Alignas(64) atomic_uint_least64_t added;  /* rounds whose sums are in the slots */
    /* rounds in which this rank has read all it needs of the others' slots */
    _Alignas(64) atomic_uint_least64_t done;
} window_flags;

/* A rank of this machine, as this process can look at it. */
typedef struct neighbour {
    int32_t pid;
    int fd; /* pidfd, -1: the system has none */
} neighbour;

struct window {
    weft_env env;
    arena memory;      /* of the tables */
    int world, n, own; /* ranks of the world; ranks of this machine, and this one's place among them */
    int *place_of;     /* [world]: a rank's place on this machine; -1: it is on another machine */
    char **pieces;     /* [n]: each rank's piece; mapped and unmapped by the transport */
    size_t slot_bytes, slots, piece_bytes; /* bytes of a slot, slots per piece, bytes of a piece */
    neighbour *neighbours;                 /* [n], or NULL: not known; made and freed by dist/shm/share.c */
};

/* Bytes of a piece with data_bytes of slots, a multiple of 64; 0 on overflow. */
size_t window_piece_bytes(int n, size_t data_bytes);

/* Do data_bytes give at least two slots? Otherwise n ranks are better off without a window. */
bool window_is_enough(int n, size_t data_bytes);

/* The window of n ranks: `ranks` are their ranks in the world, `own` is this one's place. The caller fills in
 * `pieces`, then each rank cleans its own before any rank uses it. NULL: out of memory. */
window *window_new(const weft_env *env, int world, const int *ranks, int n, int own, size_t data_bytes);
/* Zeroes the flags and rings of this rank's piece. */
void window_clean(window *w);
void window_free(window *w);

window_flags *window_flags_of(const window *w, int place);
/* The slot of round number `round` in a rank's piece; slots are reused in turn. */
char *window_slot(const window *w, int place, uint64_t round);

/* Sends one message to a rank of this machine; false when its ring is full. A heartbeat that finds little
 * room is dropped and counts as sent. */
bool window_send(window *w, int place, const control *message);
/* Reads one message of any rank; false when there is none. */
bool window_receive(window *w, control *message);

/* To wait: call listen, look for the awaited change, then nap. A ring between listen and nap ends the nap at
 * once. */
unsigned window_listen(window *w);
void window_nap(window *w, unsigned heard, double seconds);
/* Wakes a rank if it naps. */
void window_ring(window *w, int place);

#endif
