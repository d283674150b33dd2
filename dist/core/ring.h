/* ring.h - the ring file: the last collectives that one rank has started, and what it knew when it wrote
 * them. A header, then records, oldest first; both are these structures as they are in memory, little-endian,
 * each with a checksum as its last field. Written from signal handlers (engine/ring.c), read by graphtool
 * blame, which trusts nothing in it. */
#ifndef WEFT_DIST_CORE_RING_H
#define WEFT_DIST_CORE_RING_H

#include "dist/core/descriptor.h"
#include "dist/core/transport.h"

enum {
    RING_VERSION = 1,
    RING_RECORDS = 2000,  /* at most in a file */
    RING_MISSING = 1024,  /* ranks that `missing` has a bit for */
    RING_WORLD = 1 << 16, /* ranks at most */
    CONTENTS_BYTES = 160, /* of weft_collective.contents, with the final 0 */
    RING_HOST = 64,
    RING_TEXT = 1024
};
#define RING_MAGIC "weftring"
#define RING_ORDER 0x01020304u /* bytes of a number: the first is the lowest */

/* One collective. Times are nanoseconds of the monotonic clock, 0: not yet. */
typedef struct ring_record {
    uint64_t number;      /* among all that this rank has started, from 1 */
    uint64_t sequence;    /* among those of its group, from 1: equal on all members */
    uint64_t started_ns;  /* the caller has started it */
    uint64_t began_ns;    /* it was first on the stream */
    uint64_t met_ns;      /* all members had entered */
    uint64_t finished_ns; /* it had finished */
    descriptor descriptor;
    uint32_t group, members; /* number of the group, 0: the world; ranks in it */
    char contents[CONTENTS_BYTES];
    uint64_t check; /* hash_bytes of all before it */
} ring_record;

typedef struct ring_header {
    char magic[8];
    uint32_t version, order, header_bytes, record_bytes;
    uint32_t rank, world, records, pid;
    uint64_t job;    /* a number that is the same on all ranks of a job, and larger in later jobs */
    uint64_t job_ns; /* when this rank got it, on the clock of the records: the same moment on all ranks */
    uint64_t written_ns;                 /* on the clock of the records */
    uint64_t waiting;                    /* number of the collective that `missing` is about; 0: none */
    uint64_t missing[RING_MISSING / 64]; /* bit r: rank r has not entered it */
    uint64_t gone[RING_MISSING / 64];    /* bit r: its process has ended, or it is not heard any more */
    char place[PLACE_BYTES], host[RING_HOST], text[RING_TEXT]; /* text: the communicator's error, or "" */
    uint64_t check;                                            /* as in a record */
} ring_header;

/* What a file holds: a change of these is a new RING_VERSION. */
_Static_assert(sizeof(ring_record) == 360 && sizeof(ring_header) == 1488, "the format of ring files");

#endif
