/* compare.c - what all ranks must have alike, compared before it can do harm. Only hashes travel while all is well; the two
 * values are fetched when they are to be told, so that every rank tells the same sentence. A setting is compared with the
 * lowest rank that knows it: with rank 0 in one round; each rank that knows one that nobody before knew takes one more. */
#include "dist/core/descriptor.h"
#include "graph/core/graph.h"
#include "graph/core/mem.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { VALUE_BYTES = 160, KNOWS_MORE = -1 };
#define UNKNOWN 0 /* the hash of no value */

typedef struct comparing {
    weft_comm *comm;
    const weft_setting *settings;
    int n;
    int root; /* whose hashes travel */
    uint64_t *theirs;
    uint64_t *mine; /* those that have not been compared yet */
    int32_t *votes; /* [world]: 1 + the setting that differs on a rank, KNOWS_MORE than theirs, 0: neither */
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

static int32_t vote(const comparing *c) {
    bool knows_more = false;
    for (int32_t i = 0; i < c->n; i++) {
        if (c->mine[i] == c->theirs[i] || c->mine[i] == UNKNOWN) continue;
        if (c->theirs[i] != UNKNOWN) return i + 1;
        knows_more = true;
    }
    return knows_more ? KNOWS_MORE : 0;
}

/* The first setting that differs anywhere, and the first rank where it does; false: none. */
static bool find_difference(const comparing *c, int *setting, int *rank) {
    *setting = c->n;
    for (int r = 0; r < c->comm->world; r++)
        if (c->votes[r] > 0 && c->votes[r] <= *setting) {
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
    weft_status status = share(c, c->root, "what others have", values[0], VALUE_BYTES);
    if (!status) status = share(c, rank, "what differs", values[1], VALUE_BYTES);
    if (status) return status;
    return error_set(c->error, WEFT_PEER, "the ranks do not agree: %s %s on rank %d, %s on rank %d", s->name,
                     values[0], c->root, values[1], rank);
}

/* Everybody's settings with the root's, and who differs or knows more. */
static weft_status compare_with_root(comparing *c) {
    memcpy(c->theirs, c->mine, (size_t)c->n * sizeof *c->theirs);
    weft_status status =
        share(c, c->root, "what ranks must share", c->theirs, (size_t)c->n * sizeof *c->theirs);
    if (status) return status;
    c->votes[c->comm->rank] = vote(c);
    weft_collective votes = {.kind = WEFT_ALL_GATHER,
                             .dtype = WEFT_I32,
                             .name = "votes on that",
                             .buffer = c->votes,
                             .count = (size_t)c->comm->world};
    return weft_comm_run(c->comm, &votes, c->error);
}

/* The next root; false: nobody knows more. */
static bool find_root(comparing *c) {
    for (int r = c->root + 1; r < c->comm->world; r++)
        if (c->votes[r] == KNOWS_MORE) {
            c->root = r;
            return true;
        }
    return false;
}

/* Each round compares a setting at least that no lower rank knew. */
static weft_status compare(comparing *c) {
    int setting = 0, rank = 0;
    for (int i = 0; i < c->n; i++) c->mine[i] = hash_setting(&c->settings[i]);
    do {
        weft_status status = compare_with_root(c);
        if (status) return status;
        if (find_difference(c, &setting, &rank)) return tell_difference(c, setting, rank);
        for (int i = 0; i < c->n; i++)
            if (c->theirs[i] != UNKNOWN) c->mine[i] = UNKNOWN;
    } while (find_root(c));
    return WEFT_OK;
}

weft_status weft_comm_compare(weft_comm *comm, const weft_setting *settings, int n, weft_error *error) {
    if (n < 0 || (n && !settings))
        return error_set(error, WEFT_ARGUMENT, "weft_comm_compare: there are no settings");
    if (!comm || comm->world == 1 || !n) return WEFT_OK;
    size_t world = (size_t)comm->world;
    comparing c = {.comm = comm, .settings = settings, .n = n, .error = error};
    c.theirs = mem_new_array(NULL, (size_t)n, sizeof *c.theirs);
    c.mine = mem_new_array(NULL, (size_t)n, sizeof *c.mine);
    c.votes = mem_new_array(NULL, world, sizeof *c.votes);
    weft_status status = WEFT_OK;
    if (c.theirs && c.mine && c.votes) {
        status = compare(&c);
    } else {
        status = error_memory(error, "weft_comm_compare");
        weft_comm_fail(comm, "weft_comm_compare: memory could not be had"); /* the others wait */
    }
    mem_free(NULL, c.votes, world * sizeof *c.votes);
    mem_free(NULL, c.mine, (size_t)n * sizeof *c.mine);
    mem_free(NULL, c.theirs, (size_t)n * sizeof *c.theirs);
    return status;
}
