/* collective.h - what a collective moves: who sums which elements, who needs the result. Pure arithmetic, no
 * communication: the engine asks, round by round.
 *
 * A buffer goes through in rounds (windows of bounded size, so that scratch is bounded and no message exceeds what
 * an MPI count can say). In a round rank p works on work[p] (disjoint ranges) and rank o needs dest[o] of the
 * result; then p sends the common part of work[p] and dest[o] to o. Sums work element by element, so the cut
 * never shows in the bits.
 */
#ifndef WEFT_DIST_CORE_COLLECTIVE_H
#define WEFT_DIST_CORE_COLLECTIVE_H

#include "graph/core/error.h"
#include "graph/core/mem.h"
#include "weft/comm.h"

enum {
    ROUND_ELEMENTS = 2 << 20,     /* of a sum: 8 MiB of f32, about what the last cache holds */
    ROUND_MOVE_BYTES = 256 << 20, /* of what is only moved */
};

typedef struct range {
    size_t begin, end; /* elements */
} range;

range range_common(range a, range b); /* begin == end when there is nothing in common */

bool collective_is_sum(weft_collective_kind kind);

/* Does it make sense in a group of this size? */
weft_status collective_check(const weft_collective *c, int world, weft_error *error);

/* What a round may hold: it depends on where the data go through. */
typedef struct cut_room {
    size_t sum;     /* elements of a sum */
    size_t range;   /* elements of each rank's range, of a reduce_scatter to the owners */
    size_t move;    /* elements of what is only moved */
    bool can_relay; /* sending costs: ranks pass on a slice each, so that nobody sends all to everyone */
    bool to_owners; /* a reduce_scatter always adds at the owners */
} cut_room;
cut_room cut_room_of_messages(const weft_collective *c, int world);

typedef enum cut_way {
    CUT_WINDOWS, /* a round is a window of the buffer */
    CUT_RANGES,  /* a piece of every rank's range */
    CUT_OWNERS   /* a window of one rank's range; one rank's rounds after another's */
} cut_way;

/* How a collective is cut into rounds. */
typedef struct cut {
    const weft_collective *c;
    int world;
    cut_way way;
    size_t rounds;
    size_t step; /* elements a round: of the buffer, or of each rank's range */
    bool can_relay;
} cut;
cut cut_of(const weft_collective *c, int world, const cut_room *room);
/* Fills work[world] and dest[world] for one round. Returns the rank that deals the slices that the others pass on,
 * -1 if none does. */
int cut_round(const cut *k, size_t round, range *work, range *dest);

#endif
