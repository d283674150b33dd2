/* ring.c - the ring of the last collectives. The caller's thread begins a record under the lock, the engine's
 * thread adds the times, and a signal handler on any thread writes them all: so records are plain memory of
 * fixed places, and ring_write takes no lock, allocates nothing and calls nothing but write and
 * clock_gettime. A record that changes while it is copied is half old, but it has a checksum of what was
 * copied. */
#include "dist/engine/engine.h"

#include "graph/core/table.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define LISTENS_NS 1000000000u /* between two looks for messages, at most */

static ring_record *record_of(const engine *e, uint64_t number) {
    return &e->ring[number % RING_RECORDS];
}

void ring_begin(engine *e, const stream_op *op) {
    ring_record *r = record_of(e, op->number);
    memset(r, 0, sizeof *r);
    r->number = op->number;
    r->sequence = op->sequence;
    r->started_ns = op->started_ns;
    r->descriptor = op->descriptor;
    r->group = op->group->id;
    r->members = (uint32_t)op->group->n;
    text_cut(r->contents, op->contents, sizeof r->contents);
}

void ring_note(engine *e, const stream_op *op, uint64_t finished_ns) {
    ring_record *r = record_of(e, op->number);
    r->began_ns = op->began_ns;
    r->met_ns = op->met_ns;
    r->finished_ns = finished_ns;
}

/* ---- writing, in a signal handler ---- */

static bool write_all(int fd, const void *data, size_t bytes) {
    for (size_t at = 0; at < bytes;) {
        ssize_t n = write(fd, (const char *)data + at, bytes - at);
        if (n < 0 && errno != EINTR) return false;
        if (n > 0) at += (size_t)n;
    }
    return true;
}

static void set_bit(uint64_t *bits, int rank) {
    if (rank < RING_MISSING) bits[rank / 64] |= (uint64_t)1 << rank % 64;
}

/* Which members have not entered the collective at the head of the stream, and which are not there. A rank
 * that has not listened itself, as it was stopped, knows nothing of the others. */
static void note_missing(const engine *e, ring_header *h, uint64_t issued) {
    if (e->finished >= issued) return;
    const stream_op *op = &e->queue[e->finished % QUEUE];
    uint64_t now = clock_peek();
    bool has_listened = weft_clock_ns() < e->pumped_ns + LISTENS_NS;
    bool has_ended = has_listened && op->group && watch_has_ended(e, op, now);
    h->waiting = op->number;
    for (int i = 0; has_listened && op->group && i < op->group->n; i++) {
        if (i == op->group->own) continue;
        if (!watch_arrival(op, i)) set_bit(h->missing, op->group->ranks[i]);
        if (watch_is_gone(e, op, i, has_ended, now)) set_bit(h->gone, op->group->ranks[i]);
    }
}

static void fill_header(const engine *e, ring_header *h, uint64_t issued) {
    memset(h, 0, sizeof *h);
    memcpy(h->magic, RING_MAGIC, sizeof h->magic);
    h->version = RING_VERSION;
    h->order = RING_ORDER;
    h->header_bytes = sizeof *h;
    h->record_bytes = sizeof(ring_record);
    h->rank = (uint32_t)e->t->rank;
    h->world = (uint32_t)e->t->world;
    h->records = (uint32_t)(issued < RING_RECORDS ? issued : RING_RECORDS);
    h->pid = (uint32_t)getpid();
    h->written_ns = weft_clock_ns();
    note_missing(e, h, issued);
    place_read(&e->place, h->place);
    memcpy(h->host, e->host, sizeof h->host);
    text_cut(h->text, e->lost.status ? e->lost.text : e->failure.text, sizeof h->text);
}

/* Has a rank given up for a reason of its own, which it tells? Then no rank is lost. */
static bool is_given_up(const engine *e) {
    bool is = e->failure.status && !e->lost.status;
    for (int i = 0; e->peers && i < e->t->world; i++) is |= e->peers[i].has_failed && !e->peers[i].has_lost;
    return is;
}

bool ring_write(const engine *e, int fd, uint64_t job, uint64_t job_ns) {
    ring_header h;
    ring_record r;
    if (!e->ring || is_given_up(e)) {
        errno = ENODATA;
        return false;
    }
    uint64_t issued = e->issued;
    fill_header(e, &h, issued);
    h.job = job;
    h.job_ns = job_ns;
    h.check = hash_bytes(&h, offsetof(ring_header, check), 0);
    bool good = write_all(fd, &h, sizeof h);
    for (uint64_t number = issued - h.records + 1; good && number <= issued; number++) {
        memcpy(&r, record_of(e, number), sizeof r);
        r.check = hash_bytes(&r, offsetof(ring_record, check), 0);
        good = write_all(fd, &r, sizeof r);
    }
    return good;
}
