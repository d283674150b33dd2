/* hostile_lost.c - what a training leaves when something went wrong: rings of collectives (dist/core/ring.h)
 * and bad.step (docs/formats.md). Checksums within are put right after a change, so all other rules count.
 * Each file lies in a folder of its own, beside the ring of another rank. */
#define _GNU_SOURCE
#include "fuzz/hostile_config.h"

#include "graph/core/table.h"
#include "support/folder.h"
#include "support/world.h"
#include "tools/graphtool/output/end.h"
#include "tools/graphtool/model/replayed.h"
#include "tools/graphtool/ranks/ring_file.h"
#include "weft/bad_step.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { RANKS = 2 };

/* ---- the folder ---- */

typedef struct place {
    char folder[40], file[80];
} place;

static place *place_new(hostile *h, const char *name) {
    place *p = test_memory(sizeof *p);
    snprintf(p->folder, sizeof p->folder, "/tmp/weft_hostile_XXXXXX");
    if (!mkdtemp(p->folder)) abort();
    snprintf(p->file, sizeof p->file, "%s/%s", p->folder, name);
    return h->kept = p;
}

static void free_place(hostile *h) {
    const place *p = h->kept;
    remove_tree(p->folder);
    free(h->kept);
}

static void put_file(subject *s) {
    const place *p = s->h->kept;
    const fake_file *file = hostile_file(s);
    FILE *f = fopen(p->file, "wbe");
    bool is_put = f && fwrite(file->data, 1, file->bytes, f) == file->bytes;
    if ((f && fclose(f)) || !is_put) hostile_complain(s, "the test cannot write its file");
}

/* ---- rings ---- */

/* Collective 3 waits for rank 1, which ends. */
static void *enter(void *context) {
    weft_comm *c = context;
    weft_error error = {0};
    for (uint64_t i = 1; i <= (c->rank ? 2 : 3); i++)
        weft_comm_run(
            c, &(weft_collective){.order = i, .name = "b.0", .program = "train", .contents = "fc/weight"},
            &error);
    return NULL;
}

static void leave(weft_comm *c, const char *folder) {
    char path[80];
    snprintf(path, sizeof path, "%s/rank-%d.ring", folder, c->rank);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0 || !weft_comm_write_ring(c, fd, 77, 0)) fprintf(stderr, "%s: no ring was written\n", path);
    if (fd >= 0) close(fd);
}

static void make_ring(hostile *h) {
    weft_comm *comms[RANKS];
    weft_error error = {0};
    pthread_t other;
    const place *p = place_new(h, "rank-0.ring");
    if (weft_comm_threads(RANKS, &(weft_comm_options){.deadline_seconds = 0.3}, comms, &error)) return;
    bool has_thread = pthread_create(&other, NULL, enter, comms[1]) == 0;
    enter(comms[0]);
    if (has_thread) pthread_join(other, NULL);
    for (int i = 0; i < RANKS; i++) leave(comms[i], p->folder);
    for (int i = 0; i < RANKS; i++) weft_comm_free(comms[i]);
    hostile_put_from(h, p->file);
}

/* Whole records, as many as the head says unless that number itself was changed. */
static void mend_ring(mutant *m, const mutant *good) {
    ring_header head, was;
    if (m->n < sizeof head || good->n < sizeof head) return;
    memcpy(&head, m->data, sizeof head);
    memcpy(&was, good->data, sizeof was);
    if (head.records == was.records) {
        head.records = (uint32_t)((m->n - sizeof head) / sizeof(ring_record));
        m->n = sizeof head + head.records * sizeof(ring_record);
    }
    head.check = hash_bytes(&head, offsetof(ring_header, check), 0);
    memcpy(m->data, &head, sizeof head);
    for (size_t at = sizeof head; at + sizeof(ring_record) <= m->n; at += sizeof(ring_record)) {
        uint64_t check = hash_bytes(m->data + at, offsetof(ring_record, check), 0);
        memcpy(m->data + at + offsetof(ring_record, check), &check, sizeof check);
    }
}

/* What graphtool blame does with the folder. Files that are passed over are reported on stderr. */
static void blame(subject *s, const char *folder) {
    ring_set set;
    weft_error error = {0};
    int before = dup(STDERR_FILENO), said = memfd_create("said", MFD_CLOEXEC);
    dup2(said, STDERR_FILENO);
    weft_status status = ring_set_read(folder, &set, &error);
    dup2(before, STDERR_FILENO);
    if (status && !*error.text) hostile_complain(s, "the folder is refused without a sentence");
    if (!status) {
        ring_blame b = ring_set_blame(&set);
        for (int rank = 0; b.of && rank < set.world && rank < 2 * RING_MISSING; rank++)
            ring_stand_of(&set, &b, rank);
        for (int i = 0; i < set.n; i++) ring_waiting(&set.files[i]);
    }
    ring_set_free(&set);
    tool_close();
    close(before);
    close(said);
}

static void try_ring(subject *s) {
    const place *p = s->h->kept;
    ring_file f;
    put_file(s);
    s->good = ring_file_read(p->file, &f, &s->error) == WEFT_OK;
    if (s->good) blame(s, p->folder);
}

/* ---- bad steps ---- */

enum { ROWS = 3, WIDTH = 4 };

static weft_model *small_model(void) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, 2, (int64_t[]){ROWS, WIDTH});
    WEFT_SCOPE(x, "net") x = weft_relu(weft_linear(x, 3, "fc", NULL));
    weft_minimize(weft_mean(weft_square(x), WEFT_ALL, false), "", &(weft_optimizer){.type = "adam"});
    return m;
}

/* Rank 1's input is bad. */
static void save_bad(world_rank *r) {
    float x[ROWS * WIDTH] = {1, 2, 3};
    weft_error error = {0};
    if (r->rank == 1) x[5] = NAN;
    weft_run(r->session, "step", (weft_feed[]){{"x", x, sizeof x}}, 1, NULL, 0, &error);
    weft_bad_step_save(r->session, r->job->model, r->rank ? NULL : r->job->context, &r->error);
}

static void make_bad_step(hostile *h) {
    const place *p = place_new(h, "bad.step");
    weft_model *m = small_model();
    world_job job = {.model = m,
                     .options = {.world = RANKS, .isa = WEFT_ISA_REFERENCE, .guard = WEFT_GUARD_NAN},
                     .run = save_bad,
                     .context = p->file};
    world_free(world_run(&job));
    weft_model_free(m);
    hostile_put_from(h, p->file);
}

/* The model.bin within: its length and checksum (graph/file/model_file.c). */
static void mend_model(mutant *m, size_t begin, size_t end) {
    enum { LENGTH_AT = 8, CHECKSUM_AT = 17, SEAL = 25 };
    if (end > m->n || begin > end || end - begin < SEAL) return;
    unsigned char *model = m->data + begin;
    uint64_t length = end - begin, checksum = XXH3_64bits(model + SEAL, length - SEAL);
    memcpy(model + LENGTH_AT, &length, sizeof length);
    memcpy(model + CHECKSUM_AT, &checksum, sizeof checksum);
}

/* The length of the head, where the data after it kept theirs, the model, and the checksum at the end. */
static void mend_bad_step(mutant *m, const mutant *good) {
    static const char key[] = "\"model\":", place_of[] = "\"data_offsets\":[";
    uint64_t head;
    unsigned long long begin = 0, end = 0;
    char range[60] = "";
    memcpy(&head, good->data, sizeof head);
    size_t data = good->n - sizeof head - head;
    if (m->n < data + sizeof head) return;
    head = m->n - data - sizeof head;
    memcpy(m->data, &head, sizeof head);
    const char *from = (const char *)m->data + sizeof head;
    const char *at = memmem(from, head, key, sizeof key - 1);
    if (at) at = memmem(at, (size_t)(from + head - at), place_of, sizeof place_of - 1);
    if (!at) return;
    at += sizeof place_of - 1;
    size_t room = (size_t)(from + head - at);
    memcpy(range, at, room < sizeof range - 1 ? room : sizeof range - 1);
    if (sscanf(range, "%8llu,%8llu", &begin, &end) == 2)
        mend_model(m, sizeof head + head + begin, sizeof head + head + end);
    uint64_t checksum = XXH3_64bits(m->data, m->n - sizeof checksum);
    memcpy(m->data + m->n - sizeof checksum, &checksum, sizeof checksum);
}

/* What graphtool replay does. A step that is fine here is not an error. */
static void try_bad_step(subject *s) {
    const place *p = s->h->kept;
    replayed r;
    put_file(s);
    char *report = replayed_open(&r, p->file, &s->error) ? replayed_run(&r, &s->error) : NULL;
    s->good = s->error.status == WEFT_OK;
    if (report && !s->good) hostile_complain(s, "a report, and an error: %s", s->error.text);
    free(report);
    replayed_close(&r);
}

const hostile_format hostile_lost[] = {{"ring", make_ring, try_ring, free_place, mend_ring},
                                       {"bad.step", make_bad_step, try_bad_step, free_place, mend_bad_step},
                                       {0}};
