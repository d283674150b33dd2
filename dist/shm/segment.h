/* segment.h - a segment: memory that one process makes and others of its machine map.
 *
 * It is a memfd and has no name: the others open /proc/PID/fd/N, so nothing can stay behind however processes end, and
 * the size of /dev/shm does not matter. That needs a common PID namespace and the right to look into the other process
 * (same user, not set-uid). Memory is taken before anyone touches it: a segment that does not fit is an error here,
 * never a SIGBUS later.
 */
#ifndef WEFT_DIST_SHM_SEGMENT_H
#define WEFT_DIST_SHM_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SEGMENT_WHY = 200 };

/* What the others need to find it: its maker tells them, as bytes. */
typedef struct segment_key {
    int32_t pid, fd;        /* pid 0: there is none */
    uint64_t device, inode; /* what they find must be this */
} segment_key;

/* An empty one: its file descriptor, or -1 with `why`. */
int segment_make(segment_key *key, char why[SEGMENT_WHY]);
/* Another process's; likewise. */
int segment_open(const segment_key *key, char why[SEGMENT_WHY]);
/* Takes the memory, all of it. */
bool segment_grow(int fd, size_t bytes, char why[SEGMENT_WHY]);
/* NULL with `why`. Unmapped by segment_unmap; stays when the descriptor is closed. */
void *segment_map(int fd, size_t bytes, char why[SEGMENT_WHY]);
void segment_unmap(void *memory, size_t bytes);

#endif
