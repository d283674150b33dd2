/* collectives.c - a session among other ranks: its process groups, and the collectives of a run, also gathers
 * that outlast it. in_flight.c has deferred parts, agree.c what ranks agree on. */
#include "runtime/session/state.h"

#include "ops/structure/collective.h"

#include <string.h>

/* ---- process groups ---- */

/* Whether the group is all ranks in their order: then the world's communicator serves. */
static bool is_world(const weft_session *s, const int *ranks, int n) {
    for (int i = 0; i < n; i++)
        if (ranks[i] != i) return false;
    return n == s->comm->world;
}

/* Every rank of the world makes every group of a partition, its own or not, as weft_comm_group requires. *own
 * becomes this rank's. */
static bool make_groups(weft_session *s, const char *text, int *ranks, weft_comm **own, weft_error *error) {
    const char *why;
    for (int first = 0; first < s->comm->world; first++) {
        int n = process_group_of(text, s->comm->world, first, ranks, &why), least = first;
        for (int i = 0; i < n; i++)
            if (ranks[i] < least) least = ranks[i];
        if (least != first) continue; /* made from its lowest rank */
        weft_comm *group = NULL;
        if (is_world(s, ranks, n))
            group = s->comm;
        else if (weft_comm_group(s->comm, ranks, n, &group, error))
            return false;
        if (group) *own = group;
    }
    return *own != NULL;
}

/* "" for the world, so that texts can be compared. */
static const char *group_text(const subgraph *g) {
    return g->ddp.process_group ? g->ddp.process_group : "";
}

/* Subgraphs with the same text share a communicator. */
bool groups_open(weft_session *s, weft_error *error) {
    int *ranks = arena_new_array(&s->arena, s->comm->world, sizeof *ranks);
    s->votes = arena_new_array(&s->arena, s->comm->world, sizeof *s->votes);
    if (!ranks || !s->votes) return !error_memory(error, "session");
    for (int i = 0; i < s->plan->n_groups; i++) {
        const char *text = group_text(&s->plan->subgraphs[i]);
        for (int k = 0; k < i; k++)
            if (strcmp(text, group_text(&s->plan->subgraphs[k])) == 0) s->groups[i] = s->groups[k];
        if (!s->groups[i] && !make_groups(s, text, ranks, &s->groups[i], error)) return false;
    }
    return true;
}

/* Frees each communicator once, and not the world's, which is the caller's. */
void groups_close(weft_session *s) {
    for (int i = 0; s->groups && i < s->plan->n_groups; i++) {
        bool is_first = true;
        for (int k = 0; k < i; k++) is_first &= s->groups[k] != s->groups[i];
        if (is_first && s->groups[i] != s->comm) weft_comm_free(s->groups[i]);
    }
}

/* ---- waiting ---- */

bool collective_outlasts_run(const weft_session *s, const weft_node *n) {
    return n->op == &weft_op_all_gather && !s->plan->options.serial;
}

/* Waits for the collective that `start` started in this run. */
static weft_status await(weft_session *s, const bound_program *r, const weft_node *start, weft_error *error) {
    const collective_attrs *a = start->attrs;
    return weft_comm_wait(s->groups[a->group], r->tickets[a->order], error);
}

/* Errors are ignored: one is being returned already. */
void collectives_drain(weft_session *s, bound_program *r, int reached) {
    for (int i = 0; i < reached; i++) {
        const weft_node *n = r->steps[i].node;
        if (node_starts_collective(n) && !collective_outlasts_run(s, n)) await(s, r, n, NULL);
    }
}

/* ---- running ---- */

/* Collectives work in place on result 0; result 1, if there is one, is scratch. */
weft_collective session_collective(const weft_session *s, const bound_program *r, const step *st) {
    const weft_node *n = st->node;
    const collective_attrs *a = n->attrs;
    bool has_scratch = n->n_out > 1;
    return (weft_collective){.kind = collective_kind(n->op),
                             .dtype = st->out[0].type.dtype,
                             .wire = a->bf16 ? WEFT_BF16 : (weft_dtype)0,
                             .unordered = a->unordered,
                             .buffer = st->out[0].data,
                             .count = (size_t)type_elements(&st->out[0].type),
                             .counts = n->variable ? n->variable->shards : NULL,
                             .root = (int)a->root,
                             .scratch = has_scratch ? st->out[1].data : NULL,
                             .scratch_bytes = has_scratch ? (size_t)a->scratch : 0,
                             .order = (uint64_t)a->order,
                             .run = s->run,
                             .program = r->p->name,
                             .name = a->path,
                             .contents = st->contents};
}

/* Starts a collective, or waits for one. A wait finds its ticket by the number of the collective that it
 * waits for. */
weft_status collective_run(weft_session *s, bound_program *r, const step *st, weft_error *error) {
    const weft_node *n = st->node;
    if (n->op == &weft_op_wait) return await(s, r, n->in[0]->node, error);
    const collective_attrs *a = n->attrs;
    weft_collective c = session_collective(s, r, st);
    weft_status status = weft_comm_start(s->groups[a->group], &c, &r->tickets[a->order], error);
    if (!status && collective_outlasts_run(s, n)) in_flight_add(s, n, r->tickets[a->order]);
    return status;
}

/* ---- gathers that outlast their run ---- */

void in_flight_add(weft_session *s, const weft_node *n, uint64_t ticket) {
    uint64_t *in_flight = &s->in_flight[n->variable->index];
    if (!*in_flight) { /* else one of an earlier run is in flight; the stream keeps the two in order */
        s->n_in_flight++;
        store_note_arriving(s->store, store_owner(s->store, n->variable), 1);
    }
    *in_flight = ticket + 1;
}

void in_flight_remove(weft_session *s, const weft_variable *bucket) {
    uint64_t *in_flight = &s->in_flight[bucket->index];
    if (!*in_flight) return;
    *in_flight = 0;
    s->n_in_flight--;
    store_note_arriving(s->store, store_owner(s->store, bucket), -1);
}

weft_status in_flight_await(weft_session *s, const weft_variable *bucket, weft_error *error) {
    uint64_t in_flight = s->in_flight[bucket->index];
    if (!in_flight) return WEFT_OK;
    weft_status status = weft_comm_wait(s->groups[bucket->subgraph], in_flight - 1, error);
    in_flight_remove(s, bucket);
    return status;
}

weft_status in_flight_await_touched(weft_session *s, const step *st, weft_error *error) {
    weft_status status = WEFT_OK;
    for (int k = 0; s->n_in_flight && k < st->n_touched && !status; k++)
        status = in_flight_await(s, st->touched[k], error);
    return status;
}
