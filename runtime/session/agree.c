/* agree.c - what the ranks of a world agree on: before the first step, that they hold one plan and start with
 * equal values; and whenever they act together, whether all of them succeeded.
 *
 * Values are sent in the order of the store's parts, which is the same on all ranks however each lays out its
 * memory. Parameters, state, and optimizer state that all hold come from the first rank of their subgraph's
 * process group, as in torch's DDP; the numbers of optimizers and graphs (step, lr, random counters) and the
 * seed come from rank 0 of the world. What ZeRO shards is not sent: each rank has loaded its own range. */
#include "runtime/session/state.h"

#include <string.h>

enum { PIECE = 4 << 20 /* bytes that travel at once */ };

/* ---- whether all succeeded ---- */

/* Two collectives at most: the statuses of all, then the first error's text. WEFT_PEER stands for another
 * rank's error. */
static weft_status settle_votes(weft_comm *comm, int32_t *votes, const char *name, weft_status own,
                                weft_error *error) {
    int from = 0, world = comm->world;
    weft_status status = comm_exchange(comm, name, votes, (int32_t)own, own ? NULL : error);
    if (status) return own ? own : status;
    while (from < world && !votes[from]) from++;
    if (from == world) return WEFT_OK;
    weft_error told = *error, lost = {0};
    status = comm_share(comm, from, name, &told, sizeof told, &lost);
    if (own && own != WEFT_PEER) return own;
    if (status) return error_set(error, WEFT_PEER, "%s", lost.text);
    if (told.status == WEFT_PEER) return error_set(error, WEFT_PEER, "%s", told.text);
    return error_set(error, WEFT_PEER, "rank %d: %s", from, told.text);
}

weft_status ranks_settle(weft_session *s, const char *name, weft_status own, weft_error *error) {
    if (!s->comm || s->comm->world == 1) return own;
    return settle_votes(s->comm, s->votes, name, own, error);
}

weft_status comm_settle(weft_comm *comm, const weft_env *env, const char *name, weft_status own,
                        weft_error *error) {
    if (!comm || comm->world == 1) return own;
    int32_t *votes = mem_new_array(env, (size_t)comm->world, sizeof *votes);
    if (!votes) { /* the others are waiting */
        weft_comm_fail(comm, "out of memory");
        return error_memory(error, name);
    }
    weft_status status = settle_votes(comm, votes, name, own, error);
    mem_free(env, votes, (size_t)comm->world * sizeof *votes);
    return status;
}

/* ---- the parts of a process group ---- */

weft_comm *part_group(const weft_session *s, const store_part *p) {
    const subgraph *g = p->parameter ? subgraph_of(s->plan, p->parameter) : NULL;
    return g ? s->groups[g - s->plan->subgraphs] : s->comm;
}

/* The next part from *index on that `group` makes equal: not sharded, and of this group. NULL: no more. */
static const store_part *next_part(const weft_session *s, const weft_comm *group, int *index) {
    const store_part *p;
    for (; (p = store_part_at(s->store, *index)); ++*index)
        if (!p->cut && part_group(s, p) == group) return p;
    return NULL;
}

/* Calls act for the world, then for each other process group of this rank, in the order of subgraphs. */
static bool for_groups(weft_session *s, bool (*act)(weft_session *s, weft_comm *group, void *context),
                       void *context) {
    bool good = act(s, s->comm, context);
    for (int i = 0; good && i < s->plan->n_subgraphs; i++) {
        bool is_new = s->groups[i] != s->comm;
        for (int k = 0; k < i; k++) is_new &= s->groups[k] != s->groups[i];
        if (is_new && s->groups[i]->world > 1) good = act(s, s->groups[i], context);
    }
    return good;
}

/* ---- making values equal ---- */

/* How far the parts of a group have been sent. */
typedef struct place {
    int part;
    size_t at; /* bytes of it that are done */
} place;

/* piece: PIECE bytes to send from. */
typedef struct sharing {
    char *piece;
    weft_error *error;
} sharing;

/* Copies parts from the store to h->piece (or back), from *from on, until the piece is full or the parts end.
 * Advances *from; *used becomes the bytes. */
static weft_status move_values(weft_session *s, const weft_comm *group, place *from, bool is_back, sharing *h,
                               size_t *used) {
    const store_part *p;
    weft_status status = WEFT_OK;
    for (*used = 0; !status && *used < PIECE && (p = next_part(s, group, &from->part));) {
        size_t left = type_bytes(&p->type) - from->at, n = left < PIECE - *used ? left : PIECE - *used;
        char *piece = h->piece + *used;
        status = is_back ? store_write(s->store, p, from->at, piece, n, h->error)
                         : store_read(s->store, p, from->at, piece, n, h->error);
        *used += n;
        *from = n < left ? (place){from->part, from->at + n} : (place){from->part + 1, 0};
    }
    return status;
}

/* Sends a group's parts piece by piece from its first rank; the others copy each piece into their stores. */
static bool share_values(weft_session *s, weft_comm *group, void *context) {
    sharing *h = context;
    place begin = {0}, end = {0};
    for (;; begin = end) {
        size_t bytes;
        if (move_values(s, group, &end, false, h, &bytes)) return false;
        if (!bytes) return true;
        if (comm_share(group, 0, "store", h->piece, bytes, h->error)) return false;
        if (group->rank && move_values(s, group, &begin, true, h, &bytes)) return false;
    }
}

static bool make_equal(weft_session *s, weft_error *error) {
    sharing h = {mem_raw(&s->env, PIECE), error};
    if (!h.piece) return !error_memory(error, "session");
    bool good = for_groups(s, share_values, &h);
    mem_free(&s->env, h.piece, PIECE);
    return good;
}

/* Random nodes draw by micro-batch, not by rank, so all ranks must have one seed. */
static bool share_seed(weft_session *s, weft_error *error) {
    uint64_t seed = s->store->seed;
    if (comm_share(s->comm, 0, "seed", &seed, sizeof seed, error)) return false;
    for (int i = 0; i < s->plan->n_programs; i++) s->programs[i].run.seed = seed;
    return true;
}

/* ---- checking that values are equal (check_equal) ---- */

typedef struct checking {
    uint64_t *own, *theirs; /* hashes of a group's parts, in order */
    char *piece;
    int first; /* index of the first part that differs; INT32_MAX: none */
    weft_error *error;
} checking;

/* A part is read and hashed in pieces; its size is in the hash. */
static weft_status hash_part(weft_session *s, const store_part *p, checking *c, uint64_t *hash) {
    size_t bytes = type_bytes(&p->type);
    weft_status status = WEFT_OK;
    *hash = bytes + 1;
    for (size_t at = 0; !status && at < bytes; at += PIECE) {
        size_t n = bytes - at < PIECE ? bytes - at : PIECE;
        status = store_read(s->store, p, at, c->piece, n, c->error);
        *hash = hash_bytes(c->piece, n, *hash);
    }
    return status;
}

/* Compares hashes with those of the group's first rank. */
static bool compare(weft_session *s, weft_comm *group, void *context) {
    checking *c = context;
    const store_part *p;
    size_t n = 0;
    for (int i = 0; (p = next_part(s, group, &i)); i++)
        if (hash_part(s, p, c, &c->own[n++])) return false;
    memcpy(c->theirs, c->own, n * sizeof *c->own);
    if (comm_share(group, 0, "check of the store", c->theirs, n * sizeof *c->theirs, c->error)) return false;
    n = 0;
    for (int i = 0; next_part(s, group, &i); i++, n++)
        if (c->own[n] != c->theirs[n] && i < c->first) c->first = i;
    return true;
}

static weft_status tell_difference(const weft_session *s, int first, weft_error *error) {
    if (first == INT32_MAX) return WEFT_OK;
    const store_part *p = store_part_at(s->store, first);
    return error_set(error, WEFT_PEER, "session: %s %s of rank %d differs from that of rank %d (check_equal)",
                     p->path, TYPE(&p->type), s->comm->rank, p->first_rank);
}

/* Every rank reports, so that one that differs makes all fail. */
static bool check_equal(weft_session *s, weft_error *error) {
    size_t n = 1;
    while (store_part_at(s->store, (int)n - 1)) n++;
    checking c = {.own = mem_new_array(&s->env, 2 * n, sizeof *c.own),
                  .piece = mem_raw(&s->env, PIECE),
                  .first = INT32_MAX,
                  .error = error};
    bool good = (c.own && c.piece) || !error_memory(error, "session");
    if (good) c.theirs = c.own + n;
    good = good && for_groups(s, compare, &c);
    mem_free(&s->env, c.piece, PIECE);
    mem_free(&s->env, c.own, 2 * n * sizeof *c.own);
    return good && !ranks_settle(s, "check of the store", tell_difference(s, c.first, error), error);
}

/* ---- before the first step ---- */

/* Whether a rank that shards this bucket with this one has loaded optimizer state and this one has not, or
 * the reverse. */
static bool state_differs(const weft_session *s, const weft_variable *bucket) {
    const subgraph *g = &s->plan->subgraphs[bucket->subgraph];
    for (int i = 0; bucket->shards && i < g->n_ranks; i++)
        if ((s->votes[g->ranks[i]] ^ s->votes[s->comm->rank]) & LOADED_STATE) return true;
    return false;
}

/* A rank of the group that has loaded values which would be overwritten by those of the group's first rank,
 * which has loaded none; -1: none. ranks NULL: the world. */
static int overwritten(const weft_session *s, const int *ranks, int n) {
    if (s->votes[ranks ? ranks[0] : 0] & LOADED_VALUES) return -1;
    for (int i = 1; i < n; i++)
        if (s->votes[ranks ? ranks[i] : i] & LOADED_VALUES) return ranks ? ranks[i] : i;
    return -1;
}

/* votes[] has what each rank has loaded. Only this rank's groups are judged; ranks_settle brings the errors
 * of the others. */
static weft_status check_votes(const weft_session *s, weft_error *error) {
    bool differs = false;
    int first = 0, lost = s->plan->n_subgraphs ? -1 : overwritten(s, NULL, s->comm->world);
    for (int i = 0; i < s->plan->n_subgraphs && lost < 0; i++) {
        const subgraph *g = &s->plan->subgraphs[i];
        lost = overwritten(s, g->ranks, g->n_ranks);
        first = g->ranks[0];
    }
    if (lost >= 0)
        return error_set(error, WEFT_PEER,
                         "session: rank %d has loaded weights, but rank %d, whose values all ranks receive, "
                         "has not: call weft_weights_load on rank %d or on every rank",
                         lost, first, first);
    for (const weft_variable *v = s->plan->model->variables; v; v = v->next) differs |= state_differs(s, v);
    if (!differs) return WEFT_OK;
    return error_set(error, WEFT_PEER,
                     "session: some ranks have loaded optimizer state and others have not: ZeRO shards it, "
                     "so call weft_weights_load on every rank or on none");
}

/* Exchanges what each rank has loaded. Values come from the first rank of a group, so what only others loaded
 * would be lost. Sharded state cannot come from one rank: where one rank of a group has loaded it, all must
 * have. */
static bool check_loaded(weft_session *s, weft_error *error) {
    int32_t own = (int32_t)s->store->loaded;
    if (comm_exchange(s->comm, "loaded weights", s->votes, own, error)) return false;
    return !ranks_settle(s, "loaded weights", check_votes(s, error), error);
}

/* Runs before anything is shared. Options are compared by name; the fingerprint covers the rest: model,
 * layouts, shares. */
static weft_status compare_plans(weft_session *s, weft_error *error) {
    const weft_plan *plan = s->plan;
    size_t n = (size_t)plan->n_agreed;
    weft_setting *settings = arena_new_array(&s->arena, n + 1, sizeof *settings);
    char *fingerprint = arena_printf(&s->arena, "%016jx", plan->fingerprint);
    if (!settings ||
        !fingerprint) { /* the other ranks are waiting: end the communicator, so that they fail too */
        weft_comm_fail(s->comm, "out of memory");
        return error_memory(error, "session");
    }
    memcpy(settings, plan->agreed, n * sizeof *settings);
    settings[n] = (weft_setting){"plan", fingerprint};
    return weft_comm_compare(s->comm, settings, plan->n_agreed + 1, error);
}

bool ranks_agree(weft_session *s, weft_error *error) {
    weft_error own;
    error = error_here(error, &own);
    if (compare_plans(s, error) || !check_loaded(s, error)) return false;
    bool good = s->plan->options.check_equal ? check_equal(s, error) : make_equal(s, error);
    return good && share_seed(s, error);
}
