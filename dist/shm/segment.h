/* segment.h - a segment: memory that one process makes and other processes of the machine map.
 *
 * A segment is a memfd and has no name. The other processes open /proc/PID/fd/N, so nothing is left behind
 * however the processes end, and the size of /dev/shm does not matter. This needs a common PID namespace and
 * permission to inspect the other process (same user, not set-uid). All memory is allocated before it is
 * used, so a segment that does not fit is an error here and never a SIGBUS later. Functions that fail write
 * the reason into `why`. */
#ifndef WEFT_DIST_SHM_SEGMENT_H
#define WEFT_DIST_SHM_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* bytes of the buffer for a reason */
enum { SEGMENT_WHY = 200 };

/* What another process needs to find a segment; its maker sends it as bytes. */
typedef struct segment_key {
    int32_t pid, fd;        /* the maker's process and descriptor number; pid 0: there is no segment */
    uint64_t device, inode; /* of the memfd, to recognize it */
} segment_key;

/* Makes an empty segment and its key. Returns its file descriptor, which the caller closes, or -1 with
 * `why`. */
int segment_make(segment_key *key, char why[SEGMENT_WHY]);
/* Opens the segment of another process. Returns a file descriptor likewise, or -1 with `why`. */
int segment_open(const segment_key *key, char why[SEGMENT_WHY]);
/* Sizes the segment and allocates all its memory; false with `why`. */
bool segment_grow(int fd, size_t bytes, char why[SEGMENT_WHY]);
/* Maps the segment, or returns NULL with `why`. The mapping outlives the descriptor; segment_unmap ends
 * it. */
void *segment_map(int fd, size_t bytes, char why[SEGMENT_WHY]);
void segment_unmap(void *memory, size_t bytes);

#endif
