/* ring_file.c - see ring_file.h. */
#include "tools/graphtool/ranks/ring_file.h"

#include "tools/graphtool/output/end.h"

#include "graph/file/io.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- one file ---- */

static bool ends(const char *text, size_t room) {
    return memchr(text, 0, room) != NULL;
}

static const char *wrong_header(const ring_header *h, size_t bytes) {
    if (bytes < sizeof *h || memcmp(h->magic, RING_MAGIC, sizeof h->magic))
        return "it is not a ring of collectives, as ranks write them to --rings";
    if (h->version != RING_VERSION) return "it is of another version of the format";
    if (h->order != RING_ORDER || h->header_bytes != sizeof *h || h->record_bytes != sizeof(ring_record))
        return "it is of another kind of machine";
    if (h->check != hash_bytes(h, offsetof(ring_header, check), 0)) return "its head was damaged";
    if (h->world < 1 || h->world > RING_WORLD || h->rank >= h->world) return "its rank is not in its world";
    if (h->records > RING_RECORDS || bytes != sizeof *h + h->records * sizeof(ring_record))
        return "its length is not that of its collectives: it was cut";
    if (!ends(h->place, sizeof h->place) || !ends(h->host, sizeof h->host) || !ends(h->text, sizeof h->text))
        return "a text in its head does not end";
    return NULL;
}

static const char *wrong_record(const ring_header *h, const ring_record *r) {
    const descriptor *d = &r->descriptor;
    if (r->check != hash_bytes(r, offsetof(ring_record, check), 0)) return "a collective was damaged";
    if (r->members < 1 || r->members > h->world || !r->sequence || d->kind < WEFT_COLLECTIVE_BARRIER ||
        d->kind > WEFT_COLLECTIVE_BROADCAST)
        return "a collective is invalid";
    if (!ends(d->program, sizeof d->program) || !ends(d->name, sizeof d->name) ||
        !ends(r->contents, sizeof r->contents))
        return "a text of a collective does not end";
    return NULL;
}

static void note_group(ring_file *f, const ring_record *r) {
    ring_group *g = (ring_group *)ring_group_of(f, r->group);
    if (!g) {
        g = &f->groups[f->n_groups++];
        *g = (ring_group){r->group, r, r};
    }
    if (r->sequence < g->oldest->sequence) g->oldest = r;
    if (r->sequence > g->newest->sequence) g->newest = r;
}

/* Numbers follow each other, except for records that newer ones took the place of while they were written. */
static const char *take_records(ring_file *f, const char *data) {
    size_t n = f->head.records;
    f->records = tool_new(n + 1, sizeof *f->records);
    f->groups = tool_new(n + 1, sizeof *f->groups);
    memcpy(f->records, data + sizeof f->head, n * sizeof *f->records);
    uint64_t first = n ? f->records[n - 1].number - n + 1 : 0;
    for (size_t i = 0; i < n; i++) {
        const char *wrong = wrong_record(&f->head, &f->records[i]);
        if (wrong) return wrong;
        if (f->records[i].number != first + i) f->records[i].number = 0;
        if (f->records[i].number) note_group(f, &f->records[i]);
    }
    return NULL;
}

weft_status ring_file_read(const char *path, ring_file *into, weft_error *error) {
    enum { LIMIT = sizeof(ring_header) + RING_RECORDS * sizeof(ring_record) };
    char *data = NULL;
    size_t bytes = 0;
    *into = (ring_file){.path = path};
    weft_status status = file_read_all(NULL, path, LIMIT, &data, &bytes, error);
    if (status) return status;
    memcpy(&into->head, data, bytes < sizeof into->head ? bytes : sizeof into->head);
    const char *wrong = wrong_header(&into->head, bytes);
    if (!wrong) wrong = take_records(into, data);
    mem_free(NULL, data, bytes + 1);
    return wrong ? error_set(error, WEFT_FILE, "%.300s: %s", path, wrong) : WEFT_OK;
}

/* ---- a folder ---- */

/* "rank-12.ring" */
static bool is_ring(const char *name) {
    size_t digits = strncmp(name, "rank-", 5) ? 0 : strspn(name + 5, "0123456789");
    return digits && digits < 8 && strcmp(name + 5 + digits, ".ring") == 0;
}

/* A file that breaks a rule is reported, and passed over. */
static void add_file(ring_set *s, const char *name) {
    weft_error wrong = {0};
    ring_file file;
    if (ring_file_read(tool_text("%s/%s", s->folder, name), &file, &wrong)) {
        size_t n = (size_t)s->n_damaged + 1;
        s->damaged = tool_need(mem_grow(NULL, s->damaged, &s->room_damaged, n, sizeof *s->damaged));
        s->damaged[s->n_damaged++] = atoi(name + 5); /* "rank-12.ring" */
        tool_note("this file is skipped: %s", wrong.text);
        return;
    }
    s->files = tool_need(mem_grow(NULL, s->files, &s->room, (size_t)s->n + 1, sizeof file));
    s->files[s->n++] = file;
}

static int by_rank(const void *a, const void *b) {
    const ring_header *x = &((const ring_file *)a)->head, *y = &((const ring_file *)b)->head;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Keeps the files of the newest job. */
static weft_status keep_newest(ring_set *s, weft_error *error) {
    uint64_t job = 0;
    int all = s->n;
    if (!all)
        return error_set(error, WEFT_FILE, "%.300s: it has no file rank-N.ring%s", s->folder,
                         s->n_damaged
                             ? " that is whole"
                             : ": ranks leave them when one is lost, at SIGTERM and at SIGABRT; else "
                               "there is nobody to blame");
    for (int i = 0; i < all; i++)
        if (s->files[i].head.job > job) job = s->files[i].head.job;
    s->n = 0;
    for (int i = 0; i < all; i++)
        if (s->files[i].head.job == job) s->files[s->n++] = s->files[i];
    s->n_earlier = all - s->n;
    s->world = (int)s->files[0].head.world;
    qsort(s->files, (size_t)s->n, sizeof *s->files, by_rank);
    for (const ring_file *f = s->files; f < s->files + s->n; f++) {
        if (f > s->files && f->head.rank == f[-1].head.rank)
            return error_set(error, WEFT_FILE, "%.300s: it is rank %u, as another file is", f->path,
                             f->head.rank);
        if ((int)f->head.world != s->world)
            return error_set(error, WEFT_FILE, "%.300s: it is of a world of %u, another file of %d", f->path,
                             f->head.world, s->world);
    }
    return WEFT_OK;
}

static weft_status read_folder(ring_set *s, const char *folder, weft_error *error) {
    DIR *d = opendir(folder);
    s->folder = folder;
    if (!d)
        return error_set(error, WEFT_IO, "%.300s: the folder cannot be read: %s", folder, strerror(errno));
    for (struct dirent *e; (e = readdir(d));)
        if (is_ring(e->d_name)) add_file(s, e->d_name);
    closedir(d);
    return WEFT_OK;
}

/* A folder of a run has them in its weft-rings. */
weft_status ring_set_read(const char *folder, ring_set *into, weft_error *error) {
    struct stat is;
    *into = (ring_set){0};
    const char *inner = tool_text("%s/weft-rings", folder);
    weft_status status = read_folder(into, folder, error);
    if (!status && !into->n && !into->n_damaged && stat(inner, &is) == 0)
        status = read_folder(into, inner, error);
    return status ? status : keep_newest(into, error);
}

void ring_set_free(ring_set *s) {
    free(s->files);
    free(s->damaged);
    *s = (ring_set){0};
}

/* ---- looking up ---- */

bool ring_set_is_damaged(const ring_set *s, int rank) {
    bool is_damaged = false;
    for (int i = 0; i < s->n_damaged; i++) is_damaged |= s->damaged[i] == rank;
    return is_damaged;
}

const ring_file *ring_set_of(const ring_set *s, int rank) {
    for (const ring_file *f = s->files; f < s->files + s->n; f++)
        if ((int)f->head.rank == rank) return f;
    return NULL;
}

const ring_group *ring_group_of(const ring_file *f, uint32_t group) {
    for (const ring_group *g = f->groups; g < f->groups + f->n_groups; g++)
        if (g->group == group) return g;
    return NULL;
}

/* The record after `from` (NULL: the first), except for those that were overwritten; NULL: there is no
 * more. */
static const ring_record *next_record(const ring_file *f, const ring_record *from) {
    for (from = from ? from + 1 : f->records; from < f->records + f->head.records; from++)
        if (from->number) return from;
    return NULL;
}

/* The same collective as `of`, after record `from` (NULL: the first): ranks that share groups have their
 * collectives in one order. */
static const ring_record *find_after(const ring_file *f, uint32_t group, uint64_t sequence,
                                     const ring_record *from) {
    const ring_group *g = ring_group_of(f, group);
    if (!g || sequence < g->oldest->sequence || sequence > g->newest->sequence) return NULL;
    while ((from = next_record(f, from)) && (from->group != group || from->sequence != sequence)) {
    }
    return from;
}

const ring_record *ring_record_at(const ring_file *f, uint32_t group, uint64_t sequence) {
    return find_after(f, group, sequence, NULL);
}

const ring_record *ring_waiting(const ring_file *f) {
    const ring_record *r = NULL;
    while (f->head.waiting && (r = next_record(f, r)) && r->number != f->head.waiting) {
    }
    return r;
}

static bool has_bit(const uint64_t *bits, int r) {
    return r < RING_MISSING && bits[r / 64] >> r % 64 & 1;
}

/* ---- the first difference ---- */

/* When a collective began, in nanoseconds since the job did: an order over all groups and machines. */
static int64_t began_at(const ring_file *f, const ring_record *r) {
    return (int64_t)(r->started_ns - f->head.job_ns);
}

/* Takes it if it began before what was found. */
static void try_record(ring_blame *b, const ring_file *f, const ring_record *r) {
    if (!b->of || began_at(f, r) < began_at(b->of, b->record)) *b = (ring_blame){.of = f, .record = r};
}

/* How many ranks have entered the collective as this file's record says. */
static int count_alike(const ring_set *s, const ring_record *r) {
    const rendezvous m = {0};
    int n = 0;
    for (const ring_file *f = s->files; f < s->files + s->n; f++) {
        const ring_record *other = ring_record_at(f, r->group, r->sequence);
        n += other && !descriptor_compare(&r->descriptor, &other->descriptor, &m, NULL);
    }
    return n;
}

/* Ranks entered it differently: most of them are right, and the first other one is reported. */
static void tell_difference(ring_blame *b, const ring_set *s) {
    uint32_t group = b->record->group;
    uint64_t sequence = b->record->sequence;
    weft_error error = {0};
    int most = 0;
    for (const ring_file *f = s->files; f < s->files + s->n; f++) {
        const ring_record *r = ring_record_at(f, group, sequence);
        int n = r ? count_alike(s, r) : 0;
        if (n <= most) continue;
        *b = (ring_blame){.of = f, .record = r};
        most = n;
    }
    for (const ring_file *f = s->files; f < s->files + s->n && !error.status; f++) {
        const ring_record *r = ring_record_at(f, group, sequence);
        const rendezvous m = {sequence, group ? "a group" : "world", (int)b->of->head.rank,
                              (int)f->head.rank};
        if (r) descriptor_compare(&b->record->descriptor, &r->descriptor, &m, &error);
    }
    snprintf(b->difference, sizeof b->difference, "%.599s", error.text);
}

/* Of two files of a group: the first collective of it that both have and that differs. */
static void try_difference(ring_blame *b, const ring_file *x, const ring_file *y) {
    const rendezvous m = {0};
    const ring_record *last = NULL; /* of y, of what both have */
    for (const ring_record *r = NULL; (r = next_record(x, r));) {
        const ring_record *other = find_after(y, r->group, r->sequence, last);
        if (!other) continue;
        last = other;
        if (!descriptor_compare(&r->descriptor, &other->descriptor, &m, NULL)) continue;
        try_record(b, x, r);
        return; /* what follows in this pair follows from it */
    }
}

/* The first collective of a group that x has entered and y has not. */
static void try_behind(ring_blame *b, const ring_file *x, const ring_file *y) {
    for (const ring_record *r = NULL; (r = next_record(x, r));) {
        const ring_group *g = ring_group_of(y, r->group);
        if (r->group && !g) continue; /* it may not be a member */
        if (g && g->newest->sequence >= r->sequence) continue;
        try_record(b, x, r);
        return;
    }
}

/* What a rank waited for when it wrote. A rank that it missed may have come later, when it was continued, or
 * have no file; one that is gone may have entered. */
static void try_waiting(ring_blame *b, const ring_file *x) {
    const ring_record *waits = ring_waiting(x);
    uint64_t any = 0;
    for (int i = 0; i < RING_MISSING / 64; i++) any |= x->head.missing[i] | x->head.gone[i];
    if (waits && any) try_record(b, x, waits);
}

ring_blame ring_set_blame(const ring_set *s) {
    ring_blame b = {0};
    for (int i = 0; i < s->n; i++) {
        try_waiting(&b, &s->files[i]);
        if (i) try_difference(&b, &s->files[0], &s->files[i]);
        for (int k = 0; k < s->n; k++)
            if (k != i) try_behind(&b, &s->files[i], &s->files[k]);
    }
    if (b.of) tell_difference(&b, s);
    return b;
}

ring_stand ring_stand_of(const ring_set *s, const ring_blame *b, int rank) {
    weft_error error = {0};
    const ring_record *r = b->record, *own;
    const ring_file *f = ring_set_of(s, rank);
    const rendezvous m = {r->sequence, "", (int)b->of->head.rank, rank};
    bool is_missed = false;
    for (const ring_file *x = s->files; x < s->files + s->n; x++) {
        const ring_record *waits = ring_waiting(x);
        if (!waits || waits->group != r->group || waits->sequence != r->sequence) continue;
        if (has_bit(x->head.gone, rank)) return STAND_GONE;
        is_missed |= has_bit(x->head.missing, rank);
    }
    if (!f) return is_missed ? STAND_GONE : STAND_OUTSIDE;
    own = ring_record_at(f, r->group, r->sequence);
    if (own && descriptor_compare(&r->descriptor, &own->descriptor, &m, &error)) return STAND_DIFFERS;
    if (own) return is_missed ? STAND_LATE : STAND_ENTERED;
    const ring_group *g = ring_group_of(f, r->group);
    if (g && g->newest->sequence > r->sequence) return STAND_ENTERED; /* so long ago that it is not kept */
    return g || !r->group ? STAND_ABSENT : STAND_OUTSIDE;
}
