/* ring_file.h - reads the ring files of a folder (dist/core/ring.h) and finds the first collective that a
 * rank did not enter, or entered differently. The files are read as any file of a stranger. */
#ifndef WEFT_TOOLS_GRAPHTOOL_RANKS_RING_FILE_H
#define WEFT_TOOLS_GRAPHTOOL_RANKS_RING_FILE_H

#include "dist/core/ring.h"

/* What a file has of one group. */
typedef struct ring_group {
    uint32_t group;
    const ring_record *oldest, *newest;
} ring_group;

/* The ring of one rank. */
typedef struct ring_file {
    const char *path;
    ring_header head;
    /* [head.records], oldest first; number 0: it was overwritten while it was written */
    ring_record *records;
    ring_group *groups; /* [n_groups] */
    int n_groups;
} ring_file;

/* The rings of one job: of the newest, if files of several lie in the folder. */
typedef struct ring_set {
    const char *folder;
    int n, n_earlier; /* files of the job; files of other jobs */
    int n_damaged;    /* files that were passed over, each of them told */
    int *damaged;     /* [n_damaged]: their ranks, by their names */
    int world;
    size_t room, room_damaged;
    ring_file *files; /* [n], by rank */
} ring_set;

/* What one file holds, in memory of tool_new. WEFT_FILE when it breaks a rule. */
weft_status ring_file_read(const char *path, ring_file *into, weft_error *error);

/* All files of a folder, or of weft-rings in it where it has none itself; damaged ones are reported. Call
 * ring_set_free in any case. */
weft_status ring_set_read(const char *folder, ring_set *into, weft_error *error);
void ring_set_free(ring_set *s);

/* Whether a file of this rank was passed over. */
bool ring_set_is_damaged(const ring_set *s, int rank);
/* The file of a rank; NULL: there is none. */
const ring_file *ring_set_of(const ring_set *s, int rank);
/* What a file has of a group; its record with this number in the group; NULL: nothing. */
const ring_group *ring_group_of(const ring_file *f, uint32_t group);
const ring_record *ring_record_at(const ring_file *f, uint32_t group, uint64_t sequence);
/* The collective that this rank waited for when it wrote; NULL: none. */
const ring_record *ring_waiting(const ring_file *f);
/* How a rank stands to a collective. The later ones explain the earlier ones: who is gone is the reason why
 * others are absent. LATE: it came when others had given up. */
typedef enum ring_stand {
    STAND_OUTSIDE,
    STAND_ENTERED,
    STAND_LATE,
    STAND_ABSENT,
    STAND_DIFFERS,
    STAND_GONE
} ring_stand;

/* The first collective over all groups that not all members have entered alike. */
typedef struct ring_blame {
    const ring_file *of;       /* a rank that has entered it; NULL: there is no such collective */
    const ring_record *record; /* its record */
    char difference[600];      /* the first difference in words, where ranks entered differently */
} ring_blame;
ring_blame ring_set_blame(const ring_set *s);
ring_stand ring_stand_of(const ring_set *s, const ring_blame *b, int rank);

#endif
