/* compare.c - what all ranks must have alike, compared before it can do harm. Only hashes travel while all is well; the two
 * values are fetched when they are to be told, so that every rank tells the same sentence. */
#include "dist/facts.h"
#include "graph/graph.h"
#include "graph/mem.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { VALUE_BYTES = 160 };
#define UNKNOWN 0 /* the hash of no value */

typedef struct comparing {
    weft_comm *comm;
    const weft_setting *settings;
    int n;
    uint64_t *theirs; /* rank 0's hashes */
    int32_t *votes;   /* [world]: 1 + the setting that differs on a rank, 0: none */
    weft_error *error;
} comparing;

/* Of the name too: lists that are not of the same things differ. */
static uint64_t hash_setting(const weft_setting *s) {
    return s->value ? hash_text(s->value, hash_text(s->name, 1)) | 1 : UNKNOWN;
}

static weft_status share(comparing *c, int root, const char *what, void *data, size_t bytes) {
    weft_collective all = {
        .kind = WEFT_BROADCAST, .dtype = WEFT_U8, .root = root, .name = what, .buffer = data, .count = bytes};
    return weft_comm_run(c->comm, &all, c->error);
}

static int32_t first_difference(const comparing *c) {
    for (int32_t i = 0; i < c->n; i++) {
        uint64_t mine = hash_setting(&c->settings[i]);
        if (mine != c->theirs[i] && mine != UNKNOWN && c->theirs[i] != UNKNOWN) return i + 1;
    }
    return 0;
}

/* The first setting that differs anywhere, and the first rank where it does; false: none. */
static bool find_difference(const comparing *c, int *setting, int *rank) {
    *setting = c->n;
    for (int r = 0; r < c->comm->world; r++)
        if (c->votes[r] && c->votes[r] <= *setting) {
            *setting = c->votes[r] - 1;
            *rank = r;
        }
    return *setting < c->n;
}

static weft_status tell_difference(comparing *c, int setting, int rank) {
    char values[2][VALUE_BYTES];
    const weft_setting *s = &c->settings[setting];
    text_cut(values[0], SHOW(s->value), VALUE_BYTES);
    text_cut(values[1], SHOW(s->value), VALUE_BYTES);
    weft_status status = share(c, 0, "what rank 0 has", values[0], VALUE_BYTES);
    if (!status) status = share(c, rank, "what differs", values[1], VALUE_BYTES);
    if (status) return status;
    return error_set(c->error, WEFT_PEER, "the ranks do not agree: %s %s on rank 0, %s on rank %d", s->name,
                     values[0], values[1], rank);
}

static weft_status compare(comparing *c) {
    int setting = 0, rank = 0;
    for (int i = 0; i < c->n; i++) c->theirs[i] = hash_setting(&c->settings[i]);
    weft_status status = share(c, 0, "what ranks must share", c->theirs, (size_t)c->n * sizeof *c->theirs);
    if (status) return status;
    c->votes[c->comm->rank] = first_difference(c);
    weft_collective votes = {.kind = WEFT_ALL_GATHER,
                             .dtype = WEFT_I32,
                             .name = "votes on that",
                             .buffer = c->votes,
                             .count = (size_t)c->comm->world};
    status = weft_comm_run(c->comm, &votes, c->error);
    if (status || !find_difference(c, &setting, &rank)) return status;
    return tell_difference(c, setting, rank);
}

weft_status weft_comm_compare(weft_comm *comm, const weft_setting *settings, int n, weft_error *error) {
    if (n < 0 || (n && !settings))
        return error_set(error, WEFT_ARGUMENT, "weft_comm_compare: there are no settings");
    if (!comm || comm->world == 1 || !n) return WEFT_OK;
    size_t world = (size_t)comm->world;
    comparing c = {.comm = comm, .settings = settings, .n = n, .error = error};
    c.theirs = mem_new_array(NULL, (size_t)n, sizeof *c.theirs);
    c.votes = mem_new_array(NULL, world, sizeof *c.votes);
    weft_status status = WEFT_OK;
    if (c.theirs && c.votes) {
        status = compare(&c);
    } else {
        status = error_memory(error, "weft_comm_compare");
        weft_comm_fail(comm, "weft_comm_compare: memory could not be had"); /* the others wait */
    }
    mem_free(NULL, c.votes, world * sizeof *c.votes);
    mem_free(NULL, c.theirs, (size_t)n * sizeof *c.theirs);
    return status;
}
