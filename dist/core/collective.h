/* collective.h - what a collective moves: which rank adds which elements, and which ranks need the result.
 * Pure arithmetic without communication; the engine and NCCL's transfers call it round by round.
 *
 * A buffer is processed in rounds of bounded size. That bounds the scratch memory, and no message exceeds
 * what an MPI count (an int) can express. In one round rank p works on work[p], and these ranges are
 * disjoint; rank o needs the range dest[o] of the result. After its work, p sends the intersection of
 * work[p] and dest[o] to each o. Sums are elementwise, so the cut into rounds and ranges never changes the
 * bits. */
#ifndef WEFT_DIST_CORE_COLLECTIVE_H
#define WEFT_DIST_CORE_COLLECTIVE_H

#include "graph/core/error.h"
#include "graph/core/mem.h"
#include "weft/comm.h"

enum {
    /* of a round of a sum: 8 MiB of f32, about the size of a last-level cache */
    ROUND_ELEMENTS = 2 << 20,
    ROUND_MOVE_BYTES = 256 << 20, /* of a round of a broadcast or an all_gather */
};

typedef struct range {
    size_t begin, end; /* elements, half open */
} range;

static inline size_t range_length(range r) {
    return r.end - r.begin;
}
range range_common(range a, range b); /* The intersection of a and b; begin == end when it is empty. */

bool collective_is_sum(weft_collective_kind kind);
/* Address of an element of the buffer. */
char *collective_at(const weft_collective *c, size_t element);

/* Checks the collective's arguments for a group of `world` ranks: kind, types, buffer, root, counts,
 * scratch. On failure *error names the first that is wrong. */
weft_status collective_check(const weft_collective *c, int world, weft_error *error);

/* The largest rounds, which depend on the memory that the data pass through: messages, a window's slot, or
 * a GPU. */
typedef struct cut_room {
    size_t sum;   /* elements in a round of a sum */
    size_t range; /* elements of each rank's range in a round of a reduce_scatter that adds at the owners */
    size_t move;  /* elements in a round of a broadcast or an all_gather */
    /* sending is costly, so each rank forwards a slice instead of one rank sending everything to everyone */
    bool can_relay;
    bool to_owners; /* the owner of a range always adds it, however unequal the ranges are */
} cut_room;
/* The limits for transfers by messages: they follow from weft_collective_scratch and ROUND_MOVE_BYTES. */
cut_room cut_room_of_messages(const weft_collective *c, int world);

typedef enum cut_way {
    CUT_WINDOWS, /* a round is one window of the whole buffer */
    CUT_RANGES,  /* a round takes a piece of every rank's range */
    CUT_OWNERS   /* a round is a window of one rank's range; the rounds of all ranks follow each other */
} cut_way;

/* How one collective is cut into rounds; cut_of fills it, cut_round reads it. */
typedef struct cut {
    const weft_collective *c;
    int world;
    cut_way way;
    size_t rounds;
    size_t step; /* elements per round: of the buffer, or of each rank's range */
    bool can_relay;
} cut;
cut cut_of(const weft_collective *c, int world, const cut_room *room);
/* Fills work[world] and dest[world] for one round. Returns the rank that first deals out the slices which
 * the others forward, or -1 if no slices are forwarded. */
int cut_round(const cut *k, size_t round, range *work, range *dest);

#endif
