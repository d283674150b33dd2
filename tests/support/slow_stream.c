/* slow_stream.c - see slow_stream.h. */
#include "support/slow_stream.h"

#include "ops/optimizer/update.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 256 };

typedef struct job {
    weft_collective c;
    int rank, world; /* of the group that it goes over */
    void *kept;      /* a copy of the buffer, while it holds garbage */
    bool is_flags;   /* those of guarded losses */
} job;

typedef struct stream {
    stream_pace pace;
    test_random random;
    uint64_t begun, ended, started; /* jobs so far: ended <= begun <= started */
    job jobs[ROOM];
} stream;

typedef struct member {
    weft_comm comm; /* first: this is a weft_comm */
    stream *stream;
    bool owns_stream;
} member;

static size_t width(weft_dtype dtype) {
    return dtype == WEFT_F64 || dtype == WEFT_I64   ? 8
           : dtype == WEFT_F32 || dtype == WEFT_I32 ? 4
           : dtype == WEFT_BF16                     ? 2
                                                    : 1;
}

static stream *stream_of(const weft_comm *comm) {
    return ((const member *)(const void *)comm)->stream;
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

/* What the other ranks make of a number: something else, that depends on which collective it is. No other
 * rank has a bad step. */
static double changed(const job *j, size_t e, double x) {
    if (j->is_flags) return x;
    double other = 0.01 * (double)((j->c.order * 7 + j->c.run * 3 + e) % 11);
    switch (j->c.kind) {
    case WEFT_COLLECTIVE_ALL_REDUCE:
        return 0.75 * x + 0.001 * other;
    case WEFT_COLLECTIVE_REDUCE_SCATTER:
        return is_own(j, e) ? 0.75 * x + 0.001 * other : NAN;
    case WEFT_COLLECTIVE_ALL_GATHER:
        return is_own(j, e) ? x : 0.9 * x + other;
    case WEFT_COLLECTIVE_BROADCAST:
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
    /* where ranks compare numbers, all say what this one does */
    int32_t *votes = j->c.buffer;
    for (size_t e = 0; j->c.dtype == WEFT_I32 && j->c.kind == WEFT_COLLECTIVE_ALL_GATHER && e < j->c.count;
         e++)
        votes[e] = ((const int32_t *)j->kept)[j->rank];
    free(j->kept);
}

/* ---- when ---- */

static void stream_begin(stream *l) {
    begin(&l->jobs[l->begun++ % ROOM]);
}

static void stream_end(stream *l) {
    if (l->begun == l->ended) stream_begin(l);
    end(&l->jobs[l->ended++ % ROOM]);
}

/* First in, first out: one at a time. */
static void pass(stream *l) {
    while (l->pace == STREAM_AT_ONCE && l->ended < l->started) stream_end(l);
    if (l->pace == STREAM_LATE && l->begun == l->ended && l->begun < l->started) stream_begin(l);
    while (l->pace == STREAM_RANDOM && l->ended < l->started && random_bits(&l->random) % 3) {
        if (l->begun == l->ended)
            stream_begin(l);
        else
            stream_end(l);
    }
}

static void finish(stream *l, uint64_t jobs) {
    while (l->ended < jobs) stream_end(l);
    pass(l);
}

void slow_stream_pass(weft_comm *comm) {
    pass(stream_of(comm));
}

int slow_stream_under_way(const weft_comm *comm) {
    return (int)(stream_of(comm)->started - stream_of(comm)->ended);
}

/* ---- the table ---- */

static weft_status stream_start(weft_comm *comm, const weft_collective *c, uint64_t *ticket,
                                weft_error *error) {
    (void)error;
    stream *l = stream_of(comm);
    if (l->started - l->ended == ROOM) stream_end(l);
    l->jobs[l->started % ROOM] = (job){.c = *c,
                                       .rank = comm->rank,
                                       .world = comm->world,
                                       .is_flags = c->name && strcmp(c->name, GUARD_PATH) == 0};
    /* a session opens with values that are all alike, whoever they come from */
    if (c->dtype == WEFT_U8) l->jobs[l->started % ROOM].world = 1;
    *ticket = l->started++;
    pass(l);
    return WEFT_OK;
}

static weft_status stream_test(weft_comm *comm, uint64_t ticket, bool *is_done, weft_error *error) {
    (void)error;
    pass(stream_of(comm));
    *is_done = ticket < stream_of(comm)->ended;
    return WEFT_OK;
}

static weft_status stream_wait(weft_comm *comm, uint64_t ticket, weft_error *error) {
    (void)error;
    finish(stream_of(comm), ticket + 1);
    return WEFT_OK;
}

static weft_status stream_group(weft_comm *world, const int *ranks, int n, weft_comm **group,
                                weft_error *error) {
    (void)error;
    *group = NULL;
    for (int i = 0; i < n; i++) {
        if (ranks[i] != world->rank) continue;
        member *m = test_memory(sizeof *m);
        *m = *(member *)(void *)world;
        m->comm.rank = m->comm.local_rank = i;
        m->comm.world = m->comm.local_world = n;
        m->owns_stream = false;
        *group = &m->comm;
    }
    return WEFT_OK;
}

static void stream_place(weft_comm *comm, const char *place) {
    (void)comm;
    (void)place;
}

static void stream_abort(weft_comm *comm, const char *reason) {
    (void)comm;
    (void)reason;
}

static void stream_free(weft_comm *comm) {
    member *m = (member *)(void *)comm;
    finish(m->stream, m->stream->started);
    if (m->owns_stream) free(m->stream);
    free(m);
}

static const weft_comm_calls calls = {stream_start, stream_test,  stream_wait, stream_group,
                                      stream_place, stream_abort, stream_free};

weft_comm *slow_stream_new(int rank, int world, stream_pace pace, uint64_t seed) {
    member *m = test_memory(sizeof *m);
    stream *l = test_memory(sizeof *l);
    memset(l, 0, sizeof *l);
    l->pace = pace;
    l->random.state = seed;
    *m = (member){.stream = l, .owns_stream = true};
    m->comm = (weft_comm){&calls, "slow", rank, world, rank, world};
    return &m->comm;
}
