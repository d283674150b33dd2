/* room.h - how much memory may still be taken, and an error before more is asked for. */
#ifndef WEFT_RUNTIME_STORE_ROOM_H
#define WEFT_RUNTIME_STORE_ROOM_H

#include "graph/core/byte_count.h"
#include "runtime/store/device.h"

/* What each of the ranks on this machine may still take. */
typedef struct room {
    uint64_t bytes; /* UINT64_MAX: nothing says */
    char by[240];   /* "this machine", "control group /job/1", "ulimit -v ..."; "" likewise */
} room;
/* That of the host, whose /proc and /sys/fs/cgroup are below `root` ("": where they are). */
room room_at(const char *root, int local_world, int threads);

/* Below it nobody is asked: many small sessions are opened fast. */
enum { ROOM_LEAST = 16 << 20 };
/* WEFT_MEMORY unless `bytes` and `more` are there: "WHAT needs 2.0 GiB ...", with what takes most of the plan
 * and `more`, which is called `name` (NULL: as weft_fit_options says). Writes to `*free` (or NULL) what there
 * is. */
weft_status room_check(const weft_plan *plan, const char *what, uint64_t bytes, uint64_t more,
                       const char *name, int local_world, room *free, weft_error *error);

#endif
