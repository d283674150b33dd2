/* slow_lane.c - see slow_lane.h. */
#include "support/slow_lane.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 256 };

typedef struct job {
    weft_collective c;
    int rank, world; /* of the group that it goes over */
    void *kept;      /* the buffer, while garbage lies there */
} job;

typedef struct lane {
    lane_pace pace;
    test_random random;
    uint64_t begun, ended, started; /* jobs so far: ended <= begun <= started */
    job jobs[ROOM];
} lane;

typedef struct member {
    weft_comm comm; /* first: this is a weft_comm */
    lane *lane;
    bool owns_lane;
} member;

static size_t width(weft_dtype dtype) {
    return dtype == WEFT_F64 || dtype == WEFT_I64   ? 8
           : dtype == WEFT_F32 || dtype == WEFT_I32 ? 4
           : dtype == WEFT_BF16                     ? 2
                                                    : 1;
}

static lane *lane_of(const weft_comm *comm) {
    return ((const member *)(const void *)comm)->lane;
}

/* ---- what collectives do ---- */

static void begin(job *j) {
    size_t bytes = j->c.count * width(j->c.dtype);
    j->kept = test_memory(bytes + 1);
    if (!bytes) return;
    memcpy(j->kept, j->c.buffer, bytes);
    memset(j->c.buffer, 0xff, bytes); /* NaN */
    if (j->c.scratch_bytes) memset(j->c.scratch, 0xff, j->c.scratch_bytes);
}

static bool is_own(const job *j, size_t e) {
    size_t first = 0, last = 0;
    if (!j->c.counts) weft_comm_range(j->c.count, j->world, j->rank, &first, &last);
    for (int r = 0; j->c.counts && r < j->rank; r++) first += j->c.counts[r];
    if (j->c.counts) last = first + j->c.counts[j->rank];
    return e >= first && e < last;
}

/* What the other ranks make of a number: something else, that depends on which collective it is. */
static double changed(const job *j, size_t e, double x) {
    double other = 0.01 * (double)((j->c.order * 7 + j->c.run * 3 + e) % 11);
    switch (j->c.kind) {
    case WEFT_ALL_REDUCE:
        return 0.75 * x + 0.001 * other;
    case WEFT_REDUCE_SCATTER:
        return is_own(j, e) ? 0.75 * x + 0.001 * other : NAN;
    case WEFT_ALL_GATHER:
        return is_own(j, e) ? x : 0.9 * x + other;
    case WEFT_BROADCAST:
        return j->c.root == j->rank ? x : 0.9 * x + other;
    default:
        return x;
    }
}

static void end(job *j) {
    size_t bytes = j->c.count * width(j->c.dtype);
    bool is_alone = j->world == 1;
    if (bytes) memcpy(j->c.buffer, j->kept, bytes);
    for (size_t e = 0; !is_alone && e < j->c.count; e++) {
        if (j->c.dtype == WEFT_F32)
            ((float *)j->c.buffer)[e] = (float)changed(j, e, ((float *)j->c.buffer)[e]);
        if (j->c.dtype == WEFT_F64) ((double *)j->c.buffer)[e] = changed(j, e, ((double *)j->c.buffer)[e]);
    }
    free(j->kept);
}

/* ---- when ---- */

static void lane_begin(lane *l) {
    begin(&l->jobs[l->begun++ % ROOM]);
}

static void lane_end(lane *l) {
    if (l->begun == l->ended) lane_begin(l);
    end(&l->jobs[l->ended++ % ROOM]);
}

/* First in, first out: one at a time. */
static void pass(lane *l) {
    while (l->pace == LANE_AT_ONCE && l->ended < l->started) lane_end(l);
    if (l->pace == LANE_LATE && l->begun == l->ended && l->begun < l->started) lane_begin(l);
    while (l->pace == LANE_RANDOM && l->ended < l->started && random_bits(&l->random) % 3) {
        if (l->begun == l->ended)
            lane_begin(l);
        else
            lane_end(l);
    }
}

static void finish(lane *l, uint64_t jobs) {
    while (l->ended < jobs) lane_end(l);
    pass(l);
}

void slow_lane_pass(weft_comm *comm) {
    pass(lane_of(comm));
}

int slow_lane_under_way(const weft_comm *comm) {
    return (int)(lane_of(comm)->started - lane_of(comm)->ended);
}

/* ---- the table ---- */

static weft_status lane_start(weft_comm *comm, const weft_collective *c, uint64_t *ticket,
                              weft_error *error) {
    (void)error;
    lane *l = lane_of(comm);
    if (l->started - l->ended == ROOM) lane_end(l);
    l->jobs[l->started % ROOM] = (job){.c = *c, .rank = comm->rank, .world = comm->world};
    /* a session opens with values that are all alike, whoever they come from */
    if (c->dtype == WEFT_U8) l->jobs[l->started % ROOM].world = 1;
    *ticket = l->started++;
    pass(l);
    return WEFT_OK;
}

static weft_status lane_test(weft_comm *comm, uint64_t ticket, bool *is_done, weft_error *error) {
    (void)error;
    pass(lane_of(comm));
    *is_done = ticket < lane_of(comm)->ended;
    return WEFT_OK;
}

static weft_status lane_wait(weft_comm *comm, uint64_t ticket, weft_error *error) {
    (void)error;
    finish(lane_of(comm), ticket + 1);
    return WEFT_OK;
}

static weft_status lane_group(weft_comm *world, const int *ranks, int n, weft_comm **group,
                              weft_error *error) {
    (void)error;
    *group = NULL;
    for (int i = 0; i < n; i++) {
        if (ranks[i] != world->rank) continue;
        member *m = test_memory(sizeof *m);
        *m = *(member *)(void *)world;
        m->comm.rank = m->comm.local_rank = i;
        m->comm.world = m->comm.local_world = n;
        m->owns_lane = false;
        *group = &m->comm;
    }
    return WEFT_OK;
}

static void lane_place(weft_comm *comm, const char *place) {
    (void)comm;
    (void)place;
}

static void lane_abort(weft_comm *comm, const char *reason) {
    (void)comm;
    (void)reason;
}

static void lane_free(weft_comm *comm) {
    member *m = (member *)(void *)comm;
    finish(m->lane, m->lane->started);
    if (m->owns_lane) free(m->lane);
    free(m);
}

static const weft_comm_calls calls = {lane_start, lane_test,  lane_wait, lane_group,
                                      lane_place, lane_abort, lane_free};

weft_comm *slow_lane_new(int rank, int world, lane_pace pace, uint64_t seed) {
    member *m = test_memory(sizeof *m);
    lane *l = test_memory(sizeof *l);
    memset(l, 0, sizeof *l);
    l->pace = pace;
    l->random.state = seed;
    *m = (member){.lane = l, .owns_lane = true};
    m->comm = (weft_comm){&calls, "slow", rank, world, rank, world};
    return &m->comm;
}
