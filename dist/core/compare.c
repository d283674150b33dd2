/* compare.c - compares settings that all ranks must share, before a difference can do harm. While all
 * agree only hashes travel; on a difference the two values are fetched, so that every rank reports the
 * same sentence. A setting is compared with the lowest rank that knows its value (its root). One round
 * compares with rank 0; each further rank that knows a setting which no lower rank knew costs one more
 * round. */
#include "dist/core/descriptor.h"
#include "dist/core/exchange.h"
#include "graph/core/graph.h"
#include "graph/core/mem.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* VALUE_BYTES: a value in a message, cut if longer. KNOWS_MORE: a rank's vote. */
enum { VALUE_BYTES = 160, KNOWS_MORE = -1 };
#define UNKNOWN 0 /* the hash of a setting whose value this rank does not know */

typedef struct comparing {
    weft_comm *comm;
    const weft_setting *settings;
    int n;
    int root; /* the rank whose hashes are broadcast in this round */
    /* [n]: the root's hashes */
    uint64_t *theirs;
    uint64_t *mine; /* [n]: own hashes; UNKNOWN once a setting has been compared */
    /* [world]: 1 + index of the setting that differs on that rank; KNOWS_MORE: it knows one that the root
     * does not; 0: neither */
    int32_t *votes;
    weft_error *error;
} comparing;

/* The name is hashed as well, so lists of different settings differ. A known value never hashes to
 * UNKNOWN. */
static uint64_t hash_setting(const weft_setting *s) {
    return s->value ? hash_text(s->value, hash_text(s->name, 1)) | 1 : UNKNOWN;
}

/* This rank's vote: the first setting that differs wins over knowing more. */
static int32_t vote(const comparing *c) {
    bool knows_more = false;
    for (int32_t i = 0; i < c->n; i++) {
        if (c->mine[i] == c->theirs[i] || c->mine[i] == UNKNOWN) continue;
        if (c->theirs[i] != UNKNOWN) return i + 1;
        knows_more = true;
    }
    return knows_more ? KNOWS_MORE : 0;
}

/* The first setting that differs anywhere, and the first rank on which it does; false when nothing
 * differs. */
static bool find_difference(const comparing *c, int *setting, int *rank) {
    *setting = c->n;
    for (int r = 0; r < c->comm->world; r++)
        if (c->votes[r] > 0 && c->votes[r] <= *setting) {
            *setting = c->votes[r] - 1;
            *rank = r;
        }
    return *setting < c->n;
}

/* Fetches both values and fails with the same sentence on every rank. */
static weft_status tell_difference(comparing *c, int setting, int rank) {
    char values[2][VALUE_BYTES];
    const weft_setting *s = &c->settings[setting];
    text_cut(values[0], SHOW(s->value), VALUE_BYTES);
    text_cut(values[1], SHOW(s->value), VALUE_BYTES);
    weft_status status =
        comm_share(c->comm, c->root, "the setting of another rank", values[0], VALUE_BYTES, c->error);
    if (!status)
        status = comm_share(c->comm, rank, "the setting that differs", values[1], VALUE_BYTES, c->error);
    if (status) return status;
    return error_set(c->error, WEFT_PEER, "the ranks do not agree: %s %s on rank %d, %s on rank %d", s->name,
                     values[0], c->root, values[1], rank);
}

/* One round: all ranks compare their settings with the root's, and all get all votes. */
static weft_status compare_with_root(comparing *c) {
    memcpy(c->theirs, c->mine, (size_t)c->n * sizeof *c->theirs);
    weft_status status = comm_share(c->comm, c->root, "the settings of all ranks", c->theirs,
                                    (size_t)c->n * sizeof *c->theirs, c->error);
    if (status) return status;
    return comm_exchange(c->comm, "the result of comparing settings", c->votes, vote(c), c->error);
}

/* The next root: the lowest rank above this one that knows more; false when there is none. */
static bool find_root(comparing *c) {
    for (int r = c->root + 1; r < c->comm->world; r++)
        if (c->votes[r] == KNOWS_MORE) {
            c->root = r;
            return true;
        }
    return false;
}

/* Each round compares at least one setting that no lower rank knew, so the loop ends. */
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
    arena memory = {0};
    comparing c = {.comm = comm,
                   .settings = settings,
                   .n = n,
                   .theirs = arena_new_array(&memory, (size_t)n, sizeof *c.theirs),
                   .mine = arena_new_array(&memory, (size_t)n, sizeof *c.mine),
                   .votes = arena_new_array(&memory, (size_t)comm->world, sizeof *c.votes),
                   .error = error};
    weft_status status = WEFT_OK;
    if (c.theirs && c.mine && c.votes) {
        status = compare(&c);
    } else {
        status = error_memory(error, "weft_comm_compare");
        /* the other ranks are already waiting */
        weft_comm_fail(comm, "weft_comm_compare: out of memory");
    }
    arena_free(&memory);
    return status;
}
