/* watch.c - messages besides the data: which rank has entered what, which is alive, which has given up. They
 * give the two errors that replace a hang: ranks that differ (the first difference, with both values), and a
 * rank that does not come (which one, what it entered last, what its thread is doing, when it was last
 * heard). */
#include "dist/engine/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BEAT_NS 500000000u /* between two heartbeats of a rank in a world of up to 64; in proportion above */
#define LOOK_NS                                                                                              \
    1000000u /* between two looks at the processes of 8 ranks of this machine; in proportion above */
/* A process has ended while nothing is under way here: so long the next collective may come, which is missed
 * then. mpirun leaves 1 s before it kills the others. */
#define ENDED_NS 100000000u

/* Slots are reused every ARRIVALS collectives, so the sequence decides (E3). */
const arrival *watch_arrival(const stream_op *op, int member) {
    const arrival *a = &op->group->arrivals[member * ARRIVALS + (int)(op->sequence % ARRIVALS)];
    return a->sequence == op->sequence ? a : NULL;
}

/* Compares all descriptors that are here, on every call: a difference is found even if other members never
 * enter. */
weft_status watch_members(engine *e, const stream_op *op, bool *are_all_here, weft_error *error) {
    const engine_group *g = op->group;
    *are_all_here = op->announced == g->n;
    for (int i = 0; i < g->n; i++) {
        if (i == g->own) continue;
        const arrival *a = watch_arrival(op, i);
        const rendezvous m = {op->sequence, g->name, e->t->rank, g->ranks[i]};
        if (a && descriptor_compare(&op->descriptor, &a->descriptor, &m, error)) return WEFT_PEER;
        if (!a) *are_all_here = false;
    }
    return WEFT_OK;
}

/* ---- the report of a stall ---- */

/* A member's state in a report, in the order in which they are listed. */
typedef enum presence { ENDED, ABSENT, SILENT, PRESENT, PRESENCES } presence;

/* Nanoseconds between heartbeats: a rank sends `world` of them, so large worlds send them less often. */
static uint64_t beat_ns(const engine *e) {
    return BEAT_NS * (uint64_t)(e->t->world / 64 + 1);
}

/* A rank may fall silent after it has entered, while data move: it missed two heartbeats. One that has said
 * why it goes is not the one that is lost. */
static presence presence_of(const engine *e, const stream_op *op, int member, uint64_t now) {
    const peer *p = &e->peers[op->group->ranks[member]];
    if (member == op->group->own || p->has_failed) return PRESENT;
    if (p->ending) return ENDED;
    if (!watch_arrival(op, member)) return ABSENT;
    return now > p->heard_ns + 2 * beat_ns(e) ? SILENT : PRESENT;
}

/* What a rank entered last. */
static void tell_last(const peer *p, text *t) {
    if (p->has_entered)
        text_add(t, ", last entered %s #%llu%s%s%s", p->last_kind, (unsigned long long)p->last_order,
                 *p->last_name ? " (" : "", *p->last_name ? SHOW(p->last_name) : "",
                 *p->last_name ? ")" : "");
    else
        text_add(t, ", nor any before");
}

/* Adds one rank's state to the report; it has entered the collective in question, or not. */
static void tell_rank(const peer *p, int rank, presence is, bool has_entered, text *t) {
    text_add(t, "; rank %d ", rank);
    if (is == ENDED) text_add(t, "IS DEAD: %s, ", p->ending);
    if (has_entered)
        text_add(t, "has entered%s", is == SILENT ? " but HAS FALLEN SILENT" : "");
    else
        text_add(t, "HAS NOT ENTERED");
    if (!has_entered) tell_last(p, t);
    if (*p->place) text_add(t, ", at \"%s\"", SHOW(p->place));
    if (p->heard_ns)
        text_add(t, ", heard %.1f s ago", clock_since(p->heard_ns));
    else
        text_add(t, ", never heard");
}

void watch_finished(engine *e, const stream_op *op) {
    e->past[e->n_past++ % PAST] = (past){op->descriptor, clock_now()};
}

/* Adds the collectives finished here, newest first: they show which step of which run this rank is in. */
static void tell_past(const engine *e, text *t) {
    uint64_t n = e->n_past < PAST ? e->n_past : PAST;
    for (uint64_t i = 1; i <= n; i++) {
        const past *p = &e->past[(e->n_past - i) % PAST];
        text_add(t, "%s%s", i == 1 ? "; finished here before: " : ", ",
                 descriptor_title(&p->descriptor).text);
        if (p->descriptor.run) text_add(t, " of run %llu", (unsigned long long)p->descriptor.run);
        text_add(t, " %.1f s ago", clock_since(p->finished_ns));
    }
}

/* Lists at most TOLD members: those whose processes have ended, alone, else all, the absent ones first. */
weft_status watch_stalled(engine *e, const stream_op *op, double seconds, weft_error *error) {
    enum { TOLD = 4 };
    text t = {0};
    uint64_t now = clock_now(); /* one time for counting and listing, so that both agree */
    int n = op->group->n, missing = 0, ended = 0, told = 0;
    for (int i = 0; i < n; i++) {
        missing += presence_of(e, op, i, now) != PRESENT;
        ended += presence_of(e, op, i, now) == ENDED;
    }
    if (ended)
        text_add(&t, "%d of %d ranks dead", ended, n);
    else if (missing)
        text_add(&t, "%d of %d ranks missing", missing, n);
    else
        text_add(&t, "though all %d ranks are there: too slow for this deadline", n);
    for (int is = ENDED; is < (ended ? ABSENT : PRESENCES); is++)
        for (int i = 0; i < n; i++) {
            const peer *p = &e->peers[op->group->ranks[i]];
            if (i == op->group->own || p->has_failed) continue;
            if (presence_of(e, op, i, now) != (presence)is || ++told > TOLD) continue;
            if (told == 1 && is != PRESENT) e->missing = op->group->ranks[i];
            tell_rank(p, op->group->ranks[i], (presence)is, watch_arrival(op, i) != NULL, &t);
        }
    if (told > TOLD) text_add(&t, "; and %d more", told - TOLD);
    if (*op->contents) text_add(&t, "; its parameters: %s", op->contents);
    tell_past(e, &t);
    weft_status status = error_set(error, WEFT_PEER, "%s of %s on rank %d: not finished after %.1f s, %s",
                                   descriptor_title(&op->descriptor).text, op->group->name, e->t->rank,
                                   seconds, t.data ? t.data : "");
    free(text_detach(&t));
    return status;
}

bool watch_has_ended(const engine *e, const stream_op *op, uint64_t now) {
    bool has = false;
    for (int i = 0; i < op->group->n; i++) has |= presence_of(e, op, i, now) == ENDED;
    return has;
}

bool watch_is_gone(const engine *e, const stream_op *op, int member, bool has_ended, uint64_t now) {
    presence is = presence_of(e, op, member, now);
    const peer *p = &e->peers[op->group->ranks[member]];
    if (has_ended) return is == ENDED;
    return is == SILENT || (is == ABSENT && now > p->heard_ns + 2 * beat_ns(e));
}

bool watch_misses(const engine *e, const stream_op *op, int rank) {
    uint64_t now = clock_now();
    for (int i = 0; i < op->group->n; i++)
        if (op->group->ranks[i] == rank) return presence_of(e, op, i, now) != PRESENT;
    return false;
}

weft_status watch_ended(engine *e, bool at_once, weft_error *error) {
    uint64_t now = clock_now(), wait = at_once ? 0 : ENDED_NS;
    for (int i = 0; i < e->t->world; i++) {
        const peer *p = &e->peers[i];
        if (!p->ending || p->has_failed || now < p->ended_ns + wait) continue;
        e->missing = i;
        text t = {0};
        tell_last(p, &t);
        if (*p->place) text_add(&t, ", at \"%s\"", SHOW(p->place));
        weft_status status =
            error_set(error, WEFT_PEER, "rank %d IS DEAD: %s%s; rank %d waits for it in no collective yet", i,
                      p->ending, t.data ? t.data : "", e->t->rank);
        free(text_detach(&t));
        return status;
    }
    return WEFT_OK;
}

/* ---- where the caller's thread is ---- */

void place_write(place_text *p, const char *text) {
    uint64_t words[PLACE_BYTES / 8] = {0};
    text_cut((char *)words, text, sizeof words);
    unsigned version = atomic_load_explicit(&p->version, memory_order_relaxed);
    atomic_store_explicit(&p->version, version + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    for (int i = 0; i < PLACE_BYTES / 8; i++)
        atomic_store_explicit(&p->words[i], words[i], memory_order_relaxed);
    atomic_store_explicit(&p->version, version + 2, memory_order_release);
}

/* Some tries, then as it is: a handler may have interrupted the change itself. */
void place_read(const place_text *p, char text[PLACE_BYTES]) {
    uint64_t words[PLACE_BYTES / 8];
    for (int tries = 0; tries < 8; tries++) {
        unsigned before = atomic_load_explicit(&p->version, memory_order_acquire);
        for (int i = 0; i < PLACE_BYTES / 8; i++)
            words[i] = atomic_load_explicit(&p->words[i], memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire);
        if (before % 2 == 0 && atomic_load_explicit(&p->version, memory_order_relaxed) == before) break;
    }
    memcpy(text, words, PLACE_BYTES);
    text[PLACE_BYTES - 1] = 0;
}

/* ---- sending ---- */

/* Sends a message: through the window to ranks of this machine, else by the transport. false: no room now. */
static bool control_put(engine *e, int to, const control *m) {
    window *w = e->t->window;
    if (w && w->place_of[to] >= 0) return window_send(w, w->place_of[to], m);
    return e->t->calls->control_send(e->t, to, m);
}

/* Reads a message from either way; false: there is none. */
static bool control_get(engine *e, control *m) {
    window *w = e->t->window;
    if (w && window_receive(w, m)) return true;
    bool are_all_local = w && w->n == w->world;
    return !are_all_local && e->t->calls->control_receive(e->t, m);
}

/* Sends the collective's descriptor to the members that have not been sent it yet, as far as there is
 * room. */
static void tell_entered(engine *e, stream_op *op) {
    control m;
    memset(&m, 0, sizeof m);
    m.kind = CONTROL_ENTER;
    m.from = e->t->rank;
    m.group = op->group->id;
    m.sequence = op->sequence;
    m.descriptor = op->descriptor;
    m.window_at = op->window_at;
    for (; op->announced < op->group->n; op->announced++)
        if (op->announced != op->group->own && !control_put(e, op->group->ranks[op->announced], &m)) return;
}

/* Announces the active collective and up to AHEAD - 1 after it, in order, so that no member gets a later one
 * first. */
static void tell_started(engine *e) {
    pthread_mutex_lock(&e->lock);
    uint64_t from = e->finished, to = e->issued;
    pthread_mutex_unlock(&e->lock);
    if (to > from + AHEAD) to = from + AHEAD;
    for (; from < to; from++) {
        stream_op *op = &e->queue[from % QUEUE];
        tell_entered(e, op);
        if (op->announced < op->group->n) return;
    }
}

/* Sends a heartbeat to all ranks when one is due, and continues later where there was no room. */
static void beat(engine *e) {
    uint64_t now = clock_now();
    if (e->beat_to >= e->t->world) {
        if (now < e->next_beat_ns) return;
        e->next_beat_ns = now + beat_ns(e);
        e->beat_to = 0;
    }
    control m;
    memset(&m, 0, sizeof m);
    m.kind = CONTROL_BEAT;
    m.from = e->t->rank;
    place_read(&e->place, m.text);
    for (; e->beat_to < e->t->world; e->beat_to++)
        if (e->beat_to != e->t->rank && !control_put(e, e->beat_to, &m)) return;
}

void watch_tell_failure(engine *e, const char *reason, bool is_loss) {
    const peer *heard = e->heard_from < 0 ? NULL : &e->peers[e->heard_from];
    control m;
    memset(&m, 0, sizeof m);
    m.kind = CONTROL_FAIL;
    m.from = e->t->rank;
    m.is_loss = is_loss;
    m.origin = heard ? heard->origin : e->t->rank;
    m.missing = e->missing;
    text_cut(m.text, heard ? heard->reason : reason, sizeof m.text);
    /* Best effort, at most 100 naps of 1 ms: a peer that takes no messages fails at its own deadline. */
    for (int i = 0, tries = 0; i < e->t->world; i++)
        while (i != e->t->rank && !control_put(e, i, &m) && tries++ < 100) engine_nap(e, 1e-3);
}

/* ---- reading ---- */

/* The list only grows while the thread runs, so the result stays valid after the unlock. */
static engine_group *group_find(engine *e, uint32_t id) {
    pthread_mutex_lock(&e->lock);
    engine_group *g = e->groups;
    while (g && g->id != id) g = g->next;
    pthread_mutex_unlock(&e->lock);
    return g;
}

/* Stores the descriptor in the member's slot of arrivals (E3), and in what is known of the rank. */
static void note_entered(engine *e, const control *m) {
    engine_group *g = group_find(e, m->group);
    peer *p = &e->peers[m->from];
    p->has_entered = true;
    p->last_order = m->descriptor.order;
    text_cut(p->last_name, m->descriptor.name, sizeof p->last_name);
    text_cut(p->last_kind, weft_collective_name((weft_collective_kind)m->descriptor.kind),
             sizeof p->last_kind);
    for (int i = 0; g && i < g->n; i++)
        if (g->ranks[i] == m->from)
            g->arrivals[i * ARRIVALS + (int)(m->sequence % ARRIVALS)] =
                (arrival){m->sequence, m->window_at, m->descriptor};
}

/* Notes ranks that have ended. What they had sent is read after this, in the same call. */
static void look_for_endings(engine *e) {
    uint64_t now = e->t->calls->ending ? clock_now() : 0;
    if (now < e->next_look_ns || !now) return;
    e->next_look_ns = now + LOOK_NS * (uint64_t)(e->t->local_world / 8 + 1);
    for (int i = 0; i < e->t->world; i++) {
        peer *p = &e->peers[i];
        if (i == e->t->rank || p->ending) continue;
        p->ending = e->t->calls->ending(e->t, i);
        p->ended_ns = now;
    }
}

void watch_pump(engine *e) {
    tell_started(e);
    beat(e);
    look_for_endings(e);
    control m;
    while (control_get(e, &m)) {
        if (m.from < 0 || m.from >= e->t->world) continue;
        peer *p = &e->peers[m.from];
        p->heard_ns = clock_now();
        /* texts come from another process: end them here */
        m.text[sizeof m.text - 1] = m.descriptor.name[NAME_BYTES - 1] = m.descriptor.program[NAME_BYTES - 1] =
            0;
        if (m.kind == CONTROL_ENTER) note_entered(e, &m);
        if (m.kind == CONTROL_BEAT) text_cut(p->place, m.text, sizeof p->place);
        if (m.kind == CONTROL_FAIL && !p->has_failed) {
            p->has_failed = true;
            p->has_lost = m.is_loss;
            p->origin = m.origin;
            p->missing = m.missing;
            text_cut(p->reason, m.text, sizeof p->reason);
        }
    }
    e->pumped_ns = weft_clock_ns();
}

void watch_pump_now(engine *e) {
    e->next_look_ns = 0;
    watch_pump(e);
}
