/* test_rings.c - the rings of collectives that ranks leave when one is lost, and what is read from them: who
 * is missing, who differs, which collectives are kept; damaged and hostile files. */
#include "graph/core/table.h"
#include "support/comm_world.h"
#include "support/test.h"
#include "tools/graphtool/output/end.h"
#include "tools/graphtool/ranks/ring_file.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FOLDER "rings.test"

static void remove_rings(void) {
    for (int r = 0; r < MOST; r++) {
        char path[64];
        snprintf(path, sizeof path, FOLDER "/rank-%d.ring", r);
        unlink(path);
    }
    rmdir(FOLDER);
}

/* As graphtool does, but not from a handler. */
static void leave_ring(const rank_run *r, uint64_t job) {
    char path[64];
    mkdir(FOLDER, 0777);
    snprintf(path, sizeof path, FOLDER "/rank-%d.ring", r->comm->rank);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    CHECK(fd >= 0 && weft_comm_write_ring(r->comm, fd, job, 0));
    close(fd);
}

static weft_status meet(rank_run *r, uint64_t order, const char *name, weft_error *error) {
    weft_collective c = {
        .order = order, .name = name, .run = 5, .program = "train", .contents = "fc/weight and 3 more"};
    if (r->comm->rank == 1 && strcmp(name, "differs") == 0) c.program = "val";
    return weft_comm_run(r->comm, &c, error);
}

/* ---- who is missing, who differs ---- */

static const char *last;        /* name of the last collective; set before the threads start */
static atomic_int have_written; /* ranks that have left their rings */

/* However busy the machine is; a minute at most. */
static void await_written(int ranks) {
    for (int i = 0; i < 6000 && atomic_load(&have_written) < ranks; i++) test_nap(10);
}

static void part(rank_run *r) {
    weft_error error = {0};
    for (uint64_t i = 1; i <= 3; i++)
        if (meet(r, i, "together", &error)) keep(r, error.text);
    bool stays = r->comm->rank == 1 && strcmp(last, "missed") == 0;
    weft_comm_place(r->comm, stays ? "the data" : "the step");
    if (stays)
        await_written(2);
    else if (meet(r, 4, last, &error) != WEFT_PEER)
        keep(r, "no error");
    leave_ring(r, 77);
    atomic_fetch_add(&have_written, 1);
    await_written(3); /* no rank is gone while another one writes */
}

/* The deadline leaves a busy machine the time for the collectives before the last. */
static void run_parts(const char *name, int64_t window_bytes, double deadline) {
    rank_run ranks[MOST];
    last = name;
    atomic_store(&have_written, 0);
    window_run(3, window_bytes, deadline, 0, part, ranks);
}

static void read_rings(ring_set *s) {
    weft_error error = {0};
    NEED(ring_set_read(FOLDER, s, &error) == WEFT_OK);
}

TEST(a_rank_that_did_not_come_is_blamed_for_the_collective_with_its_parameters) {
    ring_set s;
    run_parts("missed", 4096, 3);
    read_rings(&s);
    CHECK(s.n == 3 && s.world == 3 && s.n_earlier == 0);
    ring_blame b = ring_set_blame(&s);
    NEED(b.of != NULL);
    CHECK(b.record->descriptor.order == 4 && b.record->sequence == 4 && b.record->descriptor.run == 5);
    CHECK_TEXT(b.record->descriptor.name, "missed");
    CHECK_TEXT(b.record->contents, "fc/weight and 3 more");
    CHECK(ring_stand_of(&s, &b, 0) == STAND_ENTERED && ring_stand_of(&s, &b, 2) == STAND_ENTERED);
    bool is_unheard =
        (s.files[0].head.gone[0] | s.files[2].head.gone[0]) & 2; /* for a second: a busy machine */
    CHECK(ring_stand_of(&s, &b, 1) == (is_unheard ? STAND_GONE : STAND_ABSENT));
    CHECK_TEXT(s.files[1].head.place, "the data");
    CHECK_HOLDS(s.files[0].head.text,
                "rank 1 HAS NOT ENTERED, last entered barrier #3 (together), at \"the data\"");
    CHECK_HOLDS(s.files[0].head.text, "; its parameters: fc/weight and 3 more");
    const ring_record *r = s.files[2].records;
    CHECK(s.files[2].head.records == 4 && r[2].finished_ns && r[2].met_ns && !r[3].met_ns && r[3].began_ns);
    ring_set_free(&s);
    remove_rings();
}

TEST(ranks_at_different_collectives_are_told_with_the_first_difference) {
    ring_set s;
    run_parts("differs", 0, 60);
    read_rings(&s);
    ring_blame b = ring_set_blame(&s);
    NEED(b.of != NULL);
    CHECK(b.record->descriptor.order == 4);
    CHECK_HOLDS(b.difference, "the first difference is the program: train on rank 0, val on rank 1");
    CHECK(ring_stand_of(&s, &b, 1) == STAND_DIFFERS);
    ring_set_free(&s);
    remove_rings();
}

/* Two of three files are whole: what they say of the third rank is reported. */
TEST(a_damaged_file_is_passed_over_and_a_folder_within_is_found) {
    ring_set s;
    weft_error error = {0};
    run_parts("missed", 4096, 3);
    CHECK(truncate(FOLDER "/rank-1.ring", 700) == 0);
    read_rings(&s);
    ring_blame b = ring_set_blame(&s);
    NEED(b.of != NULL);
    CHECK(s.n == 2 && s.n_damaged == 1 && b.record->descriptor.order == 4 &&
          ring_stand_of(&s, &b, 1) == STAND_GONE);
    ring_set_free(&s);
    CHECK(mkdir("run.test", 0777) == 0 && rename(FOLDER, "run.test/weft-rings") == 0);
    CHECK(ring_set_read("run.test", &s, &error) == WEFT_OK && s.n == 2);
    ring_set_free(&s);
    CHECK(rename("run.test/weft-rings", FOLDER) == 0 && rmdir("run.test") == 0);
    CHECK(truncate(FOLDER "/rank-0.ring", 700) == 0 && truncate(FOLDER "/rank-2.ring", 700) == 0);
    CHECK(ring_set_read(FOLDER, &s, &error) == WEFT_FILE && s.n == 0 && s.n_damaged == 3);
    ring_set_free(&s);
    remove_rings();
}

TEST(a_rank_without_a_file_is_known_from_those_who_waited_and_other_jobs_are_passed_over) {
    ring_set s;
    run_parts("missed", 4096, 3);
    unlink(FOLDER "/rank-1.ring");
    read_rings(&s);
    ring_blame b = ring_set_blame(&s);
    NEED(b.of != NULL);
    CHECK(s.n == 2 && b.record->descriptor.order == 4 && ring_stand_of(&s, &b, 1) == STAND_GONE);
    ring_header *h = &s.files[1].head; /* as if it were of a job before */
    h->job = 3;
    h->check = hash_bytes(h, offsetof(ring_header, check), 0);
    FILE *f = fopen(FOLDER "/rank-2.ring", "r+b");
    NEED(f && fwrite(h, sizeof *h, 1, f) == 1 && !fclose(f));
    ring_set_free(&s);
    read_rings(&s);
    CHECK(s.n == 1 && s.n_earlier == 1 && s.files[0].head.rank == 0);
    ring_set_free(&s);
    remove_rings();
}

/* ---- what is kept, and when ---- */

static void many(rank_run *r) {
    weft_error error = {0};
    for (uint64_t i = 1; i <= 2500; i++)
        if (meet(r, i, "together", &error)) keep(r, error.text);
    leave_ring(r, 1);
    if (meet(r, 2501, "the end", &error)) keep(r, error.text);
}

TEST(the_last_2000_are_kept_and_nothing_is_blamed_where_all_went_well) {
    rank_run ranks[MOST];
    ring_set s;
    window_run(2, 4096, 60, 0, many, ranks);
    CHECK_TEXT(ranks[0].text, "");
    read_rings(&s);
    CHECK(s.files[0].head.records == RING_RECORDS && s.files[1].head.records == RING_RECORDS);
    CHECK(s.files[0].records[0].number == 501 && s.files[0].records[1999].descriptor.order == 2500);
    CHECK(ring_set_blame(&s).of == NULL);
    ring_set_free(&s);
    remove_rings();
}

static void abort_alone(rank_run *r) {
    weft_error error = {0};
    if (meet(r, 1, "together", &error)) keep(r, error.text);
    if (r->comm->rank == 0) weft_comm_abort(r->comm, "the disk is full");
    while (!weft_comm_poll(r->comm, &error)) test_nap(1);
    int fd = open("/dev/null", O_WRONLY);
    CHECK(!weft_comm_write_ring(r->comm, fd, 1, 0));
    close(fd);
}

TEST(a_rank_that_gives_up_by_itself_is_not_lost_and_leaves_no_ring) {
    rank_run ranks[MOST];
    threads_run(2, 60, 0, abort_alone, ranks);
    CHECK_TEXT(ranks[0].text, "");
    CHECK_TEXT(ranks[1].text, "");
    CHECK(!weft_comm_write_ring(NULL, 1, 0, 0));
    weft_comm *self = weft_comm_self(NULL, NULL);
    CHECK(!weft_comm_write_ring(self, 1, 0, 0));
    weft_comm_free(self);
}

/* ---- the `lost` option ---- */

static atomic_int found_here, told_by_others;

static void count_lost(void *context, const weft_error *error, bool is_found_here) {
    CHECK(context == &found_here && error->status == WEFT_PEER);
    atomic_fetch_add(is_found_here ? &found_here : &told_by_others, 1);
}

static void *stay_or_come(void *context) {
    weft_comm *c = context;
    weft_error error = {0};
    uint64_t order = 1;
    if (c->rank != 1) weft_comm_run(c, &(weft_collective){.order = order, .name = "missed"}, &error);
    for (int i = 0; c->rank == 1 && i < 6000 && found_here + told_by_others < 3; i++) test_nap(10);
    return NULL;
}

TEST(each_rank_is_called_once_when_one_is_lost) {
    weft_comm *comms[3];
    pthread_t threads[3];
    weft_error error = {0};
    weft_comm_options how = {.deadline_seconds = 2, .lost = count_lost, .event_context = &found_here};
    NEED(!weft_comm_threads(3, &how, comms, &error));
    for (int i = 0; i < 3; i++) NEED(!pthread_create(&threads[i], NULL, stay_or_come, comms[i]));
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 3; i++) weft_comm_free(comms[i]);
    CHECK_SAYS(found_here == 2 && told_by_others == 1, "%d found it, %d were reported", found_here,
               told_by_others);
}

/* ---- files of strangers ---- */

static char *make_file(size_t *bytes) {
    rank_run ranks[MOST];
    last = "missed";
    window_run(3, 4096, 3, 0, part, ranks);
    FILE *f = fopen(FOLDER "/rank-0.ring", "rb");
    char *data = test_memory(1 << 16);
    *bytes = f ? fread(data, 1, 1 << 16, f) : 0;
    if (f) fclose(f);
    CHECK(*bytes == sizeof(ring_header) + 4 * sizeof(ring_record));
    return data;
}

static void put(const char *data, size_t bytes) {
    FILE *f = fopen(FOLDER "/rank-0.ring", "wb");
    NEED(f && fwrite(data, 1, bytes, f) == bytes && !fclose(f));
}

static weft_status read_one(void) {
    ring_file f;
    weft_error error = {0};
    weft_status status = ring_file_read(FOLDER "/rank-0.ring", &f, &error);
    CHECK_SAYS(!status == !*error.text, "%s", error.text);
    tool_close();
    return status;
}

TEST(every_byte_counts_and_no_cut_file_is_taken) {
    size_t bytes;
    char *data = make_file(&bytes);
    put(data, bytes);
    CHECK(read_one() == WEFT_OK);
    for (size_t i = 0; i < bytes; i++) {
        data[i] ^= 0x10;
        put(data, bytes);
        CHECK_SAYS(read_one() == WEFT_FILE, "byte %zu of %zu", i, bytes);
        data[i] ^= 0x10;
    }
    for (size_t n = 0; n < bytes; n += n < 2000 ? 7 : 61) {
        put(data, n);
        CHECK_SAYS(read_one() == WEFT_FILE, "%zu bytes of %zu", n, bytes);
    }
    free(data);
    remove_rings();
}

/* Checksums are right, so what is read is what counts. */
TEST(hostile_files_are_refused_or_read_and_no_more) {
    size_t bytes;
    char *data = make_file(&bytes), *copy = test_memory(bytes);
    int refused = 0, n = test_count(5000, 1000);
    for (int k = 0; k < n; k++) {
        test_random r = {test_seed(1) + (uint64_t)k};
        memcpy(copy, data, bytes);
        for (uint64_t i = random_bits(&r) % 4 + 1; i; i--) {
            static const uint64_t values[] = {0, 1, 0x7fffffff, 0xffffffff, UINT64_MAX, 1ull << 63, 2000, 5};
            uint64_t value = random_bits(&r) % 2 ? values[random_bits(&r) % 8] : random_bits(&r);
            size_t width = random_bits(&r) % 2 ? 4 : 8, at = random_bits(&r) % (bytes / 4 - 1) * 4;
            if (at + width <= bytes) memcpy(copy + at, &value, width);
        }
        ring_header *h = (ring_header *)copy;
        h->check = hash_bytes(h, offsetof(ring_header, check), 0);
        for (int i = 0; i < 4; i++) {
            ring_record *one = (ring_record *)(copy + sizeof *h) + i;
            one->check = hash_bytes(one, offsetof(ring_record, check), 0);
        }
        put(copy, bytes);
        if (read_one()) {
            refused++;
            continue;
        }
        ring_set s;
        weft_error error = {0};
        if (!ring_set_read(FOLDER, &s, &error)) {
            ring_blame b = ring_set_blame(&s);
            for (int rank = 0; b.of && rank < s.world && rank < 2000; rank++) ring_stand_of(&s, &b, rank);
        }
        ring_set_free(&s);
    }
    CHECK_SAYS(refused > n / 50 && refused < n, "%d of %d refused", refused, n);
    free(data);
    free(copy);
    remove_rings();
}

SUITE("rings of collectives",
      {T(a_rank_that_did_not_come_is_blamed_for_the_collective_with_its_parameters),
       T(ranks_at_different_collectives_are_told_with_the_first_difference),
       T(a_damaged_file_is_passed_over_and_a_folder_within_is_found),
       T(a_rank_without_a_file_is_known_from_those_who_waited_and_other_jobs_are_passed_over),
       T(the_last_2000_are_kept_and_nothing_is_blamed_where_all_went_well),
       T(a_rank_that_gives_up_by_itself_is_not_lost_and_leaves_no_ring),
       T(each_rank_is_called_once_when_one_is_lost), T(every_byte_counts_and_no_cut_file_is_taken),
       T(hostile_files_are_refused_or_read_and_no_more)})
