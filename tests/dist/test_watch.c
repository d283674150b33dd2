/* test_watch.c - what rank 0 of four says when rank 2's process ends and rank 3 has noticed it first: on a
 * busy machine the news comes before rank 0's own look, or after rank 3 has ended, too. The transport is a
 * script. */
#include "dist/core/ring.h"
#include "dist/core/transport.h"
#include "dist/engine/engine.h"
#include "support/test.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { WORLD = 4, DEAD = 2, TELLER = 3 };

/* What comes to rank 0, in this order: that `entered` ranks from 1 on have entered its collective; what
 * TELLER says of DEAD. DEAD is seen to have ended after that, or both are before. */
static struct script {
    int entered;
    bool ends_before; /* both are seen to have ended before TELLER's words are read */
    /* ---- how far it is; the engine's thread's alone ---- */
    int next;
    bool is_awaited, was_looked, is_told;
    control own; /* the collective that rank 0 has entered */
} script;

static weft_status script_open(transport *t, weft_error *error) {
    (void)error;
    t->world = t->local_world = WORLD;
    t->nap_seconds = 1e-4;
    return WEFT_OK;
}

static weft_status script_move(transport *t, int peer, int tag, void *data, size_t bytes, weft_error *error) {
    (void)t, (void)peer, (void)tag, (void)data, (void)bytes, (void)error;
    return WEFT_OK;
}

static weft_status script_send(transport *t, int to, int tag, const void *data, size_t bytes,
                               weft_error *error) {
    (void)data;
    return script_move(t, to, tag, NULL, bytes, error);
}

/* No data ever come. */
static weft_status script_progress(transport *t, bool *is_done, weft_error *error) {
    (void)t, (void)error;
    *is_done = false;
    return WEFT_OK;
}

static bool script_control_send(transport *t, int to, const control *m) {
    (void)t, (void)to;
    if (m->kind != CONTROL_ENTER) return true;
    script.own = *m;
    script.is_awaited = true;
    return true;
}

static bool script_control_receive(transport *t, control *m) {
    (void)t;
    bool is_idle = script.entered < 0;
    if (script.is_awaited && script.next < script.entered) {
        *m = script.own;
        m->from = ++script.next;
        return true;
    }
    if (script.is_told || (!is_idle && !script.is_awaited) || (script.ends_before && !script.was_looked))
        return false;
    *m = (control){.kind = CONTROL_FAIL,
                   .from = TELLER,
                   .is_loss = 1,
                   .origin = TELLER,
                   .missing = DEAD,
                   .text = "it misses a rank"};
    script.is_told = true;
    return true;
}

static const char *script_ending(transport *t, int rank) {
    (void)t;
    bool has_ended = script.ends_before ? script.is_awaited && (rank == DEAD || rank == TELLER)
                                        : script.is_told && rank == DEAD;
    if (has_ended && rank == TELLER) script.was_looked = true;
    return has_ended ? "its process has ended" : NULL;
}

static void script_close(transport *t, bool is_failed) {
    (void)t, (void)is_failed;
}

static void script_free(transport *t) {
    (void)t; /* it is static */
}

static const transport_calls calls = {.kind = "script",
                                      .open = script_open,
                                      .send = script_send,
                                      .receive = script_move,
                                      .progress = script_progress,
                                      .control_send = script_control_send,
                                      .control_receive = script_control_receive,
                                      .ending = script_ending,
                                      .close = script_close,
                                      .free = script_free};

/* What the `lost` option was called with. */
static struct report {
    atomic_bool is_there;
    bool is_found_here;
    char text[1024];
} report;

static void note_lost(void *context, const weft_error *error, bool is_found_here) {
    (void)context;
    report.is_found_here = is_found_here;
    snprintf(report.text, sizeof report.text, "%s", error->text);
    atomic_store(&report.is_there, true);
}

/* Runs the script; the communicator is to be freed. entered < 0: rank 0 enters no collective. */
static weft_comm *run_script(int entered, bool ends_before) {
    static transport t;
    static float data[8];
    script = (struct script){.entered = entered, .ends_before = ends_before};
    report.text[0] = 0;
    atomic_store(&report.is_there, false);
    t = (transport){.calls = &calls};
    weft_error error = {0};
    weft_comm_options options = {.deadline_seconds = 60, .lost = note_lost};
    weft_comm *comm = engine_comm(&t, &options, &error);
    if (!CHECK_SAYS(comm, "%s", error.text)) return NULL;
    weft_collective sum = {.kind = WEFT_COLLECTIVE_BROADCAST,
                           .dtype = WEFT_F32,
                           .buffer = data,
                           .count = 8,
                           .name = "net.0",
                           .root = 1};
    if (entered >= 0) CHECK(weft_comm_run(comm, &sum, &error) == WEFT_PEER);
    for (int i = 0; i < 60000 && !atomic_load(&report.is_there); i++) clock_nap(1e-3);
    CHECK(atomic_load(&report.is_there));
    return comm;
}

/* All have entered: it is in no collective that the dead one is missed. */
TEST(a_rank_that_hears_of_a_loss_before_its_own_look_names_the_lost_one) {
    weft_comm *comm = run_script(WORLD - 1, false);
    CHECK(report.is_found_here);
    CHECK_HOLDS(report.text, "rank 2 IS DEAD: its process has ended, has entered");
    weft_comm_free(comm);
}

TEST(so_does_one_that_waits_in_no_collective) {
    weft_comm *comm = run_script(-1, false);
    CHECK(report.is_found_here);
    CHECK_HOLDS(report.text, "rank 2 IS DEAD: its process has ended");
    weft_comm_free(comm);
}

TEST(a_rank_that_has_said_why_it_goes_is_not_the_lost_one) {
    weft_comm *comm = run_script(WORLD - 1, true);
    CHECK(report.is_found_here);
    CHECK_HOLDS(report.text, "1 of 4 ranks dead; rank 2 IS DEAD");
    CHECK(!strstr(report.text, "rank 3"));
    weft_comm_free(comm);
}

/* Rank 1 was never heard, as a busy machine may have it. */
TEST(beside_a_dead_rank_a_silent_one_is_not_gone) {
    weft_comm *comm = run_script(0, true);
    FILE *file = tmpfile();
    ring_header h = {0};
    NEED(comm && file);
    for (int i = 0; i < 6000 && !h.gone[0];
         i++) { /* it is empty where the engine's thread has had no time to listen */
        if (i) clock_nap(1e-2);
        CHECK(ftruncate(fileno(file), 0) == 0 && lseek(fileno(file), 0, SEEK_SET) == 0);
        CHECK(weft_comm_write_ring(comm, fileno(file), 1, 0));
        CHECK(pread(fileno(file), &h, sizeof h, 0) == (ssize_t)sizeof h);
    }
    CHECK_SAYS(h.gone[0] == 1u << DEAD, "gone: %llx", (unsigned long long)h.gone[0]);
    fclose(file);
    weft_comm_free(comm);
}

SUITE("watch",
      {T(a_rank_that_hears_of_a_loss_before_its_own_look_names_the_lost_one),
       T(so_does_one_that_waits_in_no_collective), T(a_rank_that_has_said_why_it_goes_is_not_the_lost_one),
       T(beside_a_dead_rank_a_silent_one_is_not_gone)})
