/* limit.c - the memory and the files that a meeting needs: rank 0 has a connection of each other rank at
 * once. */
#include "dist/meet/meet.h"

#include "graph/core/error.h"
#include "graph/core/mem.h"

#include <sys/resource.h>

uint64_t meet_raise_files(uint64_t likes) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit)) return UINT64_MAX; /* nobody knows */
    struct rlimit more = {limit.rlim_max < likes ? limit.rlim_max : likes, limit.rlim_max};
    if (more.rlim_cur > limit.rlim_cur && setrlimit(RLIMIT_NOFILE, &more) == 0) limit = more;
    return limit.rlim_cur;
}

/* New descriptors are the lowest that are free, so the listener's number says about how many are taken. A
 * limit that cannot be raised so far may leave fewer places to strangers, but none too few to ranks. */
weft_status meet_make_room(const meeting *m, int strangers, weft_error *error) {
    int world = m->options.launch->world;
    uint64_t needs = (uint64_t)m->listener + (uint64_t)world;
    uint64_t has = meet_raise_files(needs + (uint64_t)strangers);
    if (has >= needs) return WEFT_OK;
    return error_set(error, WEFT_IO,
                     "rank 0 must have %llu files open to meet %d ranks, and may have %llu: raise the limit "
                     "(ulimit -n, and the hard one, ulimit -Hn)",
                     (unsigned long long)needs, world, (unsigned long long)has);
}

weft_status meet_make_table(meeting *m, weft_error *error) {
    if (m->table) return WEFT_OK;
    m->table_room = meet_table_most(m->options.launch->world);
    m->table = mem_new(&m->env, m->table_room);
    return m->table ? WEFT_OK : error_memory(error, "the table of all ranks");
}
