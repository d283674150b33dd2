/* test_comm_failures.c - ranks that differ, stall or give up: all get an error that names them, and none
 * hangs. */
#include "dist/core/clock.h"
#include "dist/core/ring.h"
#include "support/comm_world.h"
#include "support/test.h"
#include "weft/support.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- ranks that differ, stall, give up ---- */

/* A rank waits until so many ranks have said something, however busy the machine is; a minute at most. */
static atomic_int said;
static void await_said(int ranks) {
    for (int i = 0; i < 6000 && atomic_load(&said) < ranks; i++) test_nap(10);
}

/* Rank 1 is what `change` makes of the others' collective. */
static void (*change)(weft_collective *c); /* set before the threads start */
static void differ(rank_run *r) {
    float x[4] = {0};
    _Alignas(64) char scratch[256];
    weft_error error = {0};
    weft_collective c = {.kind = WEFT_COLLECTIVE_ALL_REDUCE,
                         .buffer = x,
                         .count = 4,
                         .scratch = scratch,
                         .scratch_bytes = sizeof scratch,
                         .order = 17,
                         .run = 7,
                         .program = "d_step",
                         .name = "bucket generator.2"};
    if (r->comm->rank == 1) change(&c);
    weft_comm_run(r->comm, &c, &error);
    keep(r, error.text);
    weft_error again = {0};
    c.order++;
    if (weft_comm_run(r->comm, &c, &again) != WEFT_PEER || strcmp(error.text, again.text))
        keep(r, "errors stay");
}

static void another_kind(weft_collective *c) {
    c->kind = WEFT_COLLECTIVE_BROADCAST;
}
static void fewer_elements(weft_collective *c) {
    c->count = 1;
}
static void another_program(weft_collective *c) {
    c->program = "g_step";
    c->order = 3;
}
static void one_run_more(weft_collective *c) {
    c->run++;
}
static void another_order(weft_collective *c) {
    c->order = 18;
}
static void sum_to_one(weft_collective *c) {
    c->kind = WEFT_COLLECTIVE_REDUCE;
}
static void any_order_will_do(weft_collective *c) {
    c->unordered = true;
}

TEST(ranks_that_differ_hear_the_first_difference_on_both_sides) {
    static const struct {
        void (*change)(weft_collective *c);
        const char *on_0, *on_1;
    } cases[] = {
        {another_kind, "the kind: all_reduce on rank 0, broadcast on rank 1",
         "broadcast on rank 1, all_reduce on rank 0"},
        {fewer_elements, "number of elements: 4 on rank 0, 1 on rank 1", "1 on rank 1, 4 on rank 0"},
        {another_program, "the program: d_step on rank 0, g_step on rank 1",
         "g_step on rank 1, d_step on rank 0"},
        {one_run_more, "the run: 7 on rank 0, 8 on rank 1", "8 on rank 1, 7 on rank 0"},
        {another_order, "order number: 17 on rank 0, 18 on rank 1", "18 on rank 1, 17 on rank 0"},
        {sum_to_one,
         "rank 0 is at all_reduce #17 (bucket generator.2), rank 1 at reduce #17 (bucket generator.2)",
         "reduce on rank 1, all_reduce on rank 0"},
        {any_order_will_do, "the order of the sum (1: any): 0 on rank 0, 1 on rank 1",
         "1 on rank 1, 0 on rank 0"},
    };
    rank_run ranks[MOST];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        change = cases[i].change;
        window_run(2, i % 2 * 4096, 60, 0, differ, ranks);
        CHECK_HOLDS(ranks[0].text, cases[i].on_0);
        CHECK_HOLDS(ranks[1].text, cases[i].on_1);
    }
}

static weft_status barrier(rank_run *r, uint64_t order, const char *name, weft_error *error) {
    return weft_comm_run(r->comm, &(weft_collective){.order = order, .name = name, .run = 5}, error);
}

static void one_stays_away(rank_run *r) {
    weft_error error = {0};
    if (barrier(r, 16, "generator.1", &error)) keep(r, "the first must pass");
    if (r->comm->rank == 1) {
        weft_comm_place(r->comm, "data loader wait"); /* a heartbeat has it before the deadline */
        await_said(2);
        return; /* frees without entering */
    }
    if (barrier(r, 17, "generator.2", &error) != WEFT_PEER) keep(r, "no error");
    keep(r, error.text);
    atomic_fetch_add(&said, 1);
}

TEST(a_rank_that_does_not_come_is_named_with_its_place_when_the_deadline_passes) {
    rank_run ranks[MOST];
    atomic_store(&said, 0);
    window_run(3, 4096, 3, 0, one_stays_away, ranks);
    for (int i = 0; i < 3; i += 2) {
        CHECK_HOLDS(ranks[i].text, "#17 (generator.2)");
        CHECK_HOLDS(
            ranks[i].text,
            "rank 1 HAS NOT ENTERED, last entered barrier #16 (generator.1), at \"data loader wait\"");
        CHECK_HOLDS(ranks[i].text, "; finished here before: barrier #16 (generator.1) of run 5 ");
    }
    CHECK_TEXT(ranks[1].text, "");
}

static void one_aborts(rank_run *r) {
    weft_error error = {0};
    if (r->comm->rank == 0)
        weft_comm_abort(r->comm, "the disk is full");
    else if (barrier(r, 1, "x", &error) != WEFT_PEER)
        keep(r, "no error");
    keep(r, error.text);
}

TEST(a_rank_that_aborts_gives_all_the_reason) {
    rank_run ranks[MOST];
    threads_run(3, 60, 0, one_aborts, ranks);
    CHECK_HOLDS(ranks[1].text, "rank 0 has given up: rank 0 was aborted: the disk is full");
    CHECK_HOLDS(ranks[2].text, "the disk is full");
}

/* Nothing is under way when rank 0 gives up: poll reports it without waiting, and the next collective
 * fails. */
static void one_fails(rank_run *r) {
    weft_error error = {0};
    if (barrier(r, 1, "together", &error)) keep(r, "the first must pass");
    if (weft_comm_poll(r->comm, &error) && r->comm->rank == 0) keep(r, "all is well");
    if (barrier(r, 2, "once more", &error)) keep(r, "the second must pass");
    atomic_fetch_add(&said, 1);
    if (r->comm->rank == 0) await_said(3); /* all have passed it */
    if (r->comm->rank == 0) weft_comm_fail(r->comm, "the GPU is lost");
    for (int i = 0; i < 60000 && !weft_comm_poll(r->comm, &error); i++) test_nap(1);
    keep(r, error.text);
    atomic_fetch_add(&said, 1);
    if (barrier(r, 3, "too late", &error) != WEFT_PEER) keep(r, "no error");
    if (r->comm->rank == 0) await_said(6); /* the others have heard before it is gone */
}

TEST(a_rank_that_fails_is_heard_by_those_who_ask) {
    rank_run ranks[MOST];
    for (int window = 0; window < 2; window++) {
        atomic_store(&said, 0);
        window_run(3, window * 4096, 60, 0, one_fails, ranks);
        CHECK_TEXT(ranks[0].text, "the GPU is lost");
        for (int i = 1; i < 3; i++) CHECK_HOLDS(ranks[i].text, "rank 0 has given up: the GPU is lost");
    }
    weft_comm *self = weft_comm_self(NULL, NULL);
    CHECK(weft_comm_poll(self, NULL) == WEFT_OK);
    weft_comm_fail(self, "enough");
    CHECK(weft_comm_poll(self, NULL) == WEFT_PEER);
    weft_comm_free(self);
}

/* Ranks that differ in the second of two collectives and then only poll: each sees its own difference, not
 * that the other saw one first (the second is announced while the first is active). */
static void differ_and_poll(rank_run *r) {
    weft_error error = {0};
    uint64_t ticket;
    weft_collective c = {.kind = WEFT_COLLECTIVE_BARRIER, .order = 1, .run = 5, .program = "both"};
    if (weft_comm_start(r->comm, &c, &ticket, &error)) return keep(r, error.text);
    c.order = 2;
    c.program = r->comm->rank ? "g" : "d";
    if (weft_comm_start(r->comm, &c, &ticket, &error)) return keep(r, error.text);
    while (!weft_comm_poll(r->comm, &error)) sched_yield();
    keep(r, error.text);
}

TEST(a_rank_that_polls_hears_its_own_difference_first) {
    rank_run ranks[MOST];
    for (int i = 0; i < 1000; i++) {
        window_run(2, i % 2 * 4096, 60, 0, differ_and_poll, ranks);
        CHECK_HOLDS(ranks[0].text, "the first difference is the program: d on rank 0, g on rank 1");
        CHECK_HOLDS(ranks[1].text, "the first difference is the program: g on rank 1, d on rank 0");
    }
}

/* Rank 1 gives up as soon as it has its part, which may fail rank 0 while rank 2 has not yet copied. */
static void send_and_forget(rank_run *r) {
    char data[1024];
    weft_error error = {0};
    memset(data, r->comm->rank == 0 ? 7 : 0, sizeof data);
    weft_collective c = {.kind = WEFT_COLLECTIVE_BROADCAST,
                         .dtype = WEFT_U8,
                         .buffer = data,
                         .count = sizeof data,
                         .name = "data"};
    weft_status status = weft_comm_run(r->comm, &c, &error);
    if (r->comm->rank == 1) weft_comm_abort(r->comm, "enough");
    for (size_t i = 0; r->comm->rank == 2 && !status && i < sizeof data; i++)
        if (data[i] != 7) keep(r, "a collective that went well brought other bytes");
    memset(data, 9, sizeof data); /* after an error, too, the buffer is the caller's again */
    test_nap(1);
}

TEST(a_failure_does_not_hand_out_a_buffer_that_is_gone) {
    rank_run ranks[MOST];
    for (int i = 0; i < 300; i++) {
        threads_run(3, 60, 0, send_and_forget, ranks);
        CHECK_TEXT(ranks[2].text, "");
    }
}

/* ---- a job that is suspended ---- */

/* Times in a ring are the system's: files of ranks that were stopped and of others are compared. */
static void check_ring_time(rank_run *r, uint64_t began) {
    ring_header h = {0};
    FILE *file = tmpfile();
    if (!file || !weft_comm_write_ring(r->comm, fileno(file), 1, 0) ||
        pread(fileno(file), &h, sizeof h, 0) != (ssize_t)sizeof h)
        keep(r, "no ring");
    if (h.written_ns < began || h.written_ns > weft_clock_ns()) keep(r, "a ring of another time");
    if (file) fclose(file);
}

/* Rank 1 is late by some 400 ms in which it runs. */
static void come_late(rank_run *r) {
    weft_error error = {0};
    weft_collective c = {.name = "late"};
    for (int i = 0; r->comm->rank == 1 && i < 40; i++) test_nap(10);
    uint64_t began = weft_clock_ns();
    weft_comm_run(r->comm, &c, &error);
    keep(r, error.text);
    check_ring_time(r, began);
}

static int run_suspended(void) {
    rank_run ranks[MOST];
    threads_run(2, 2, 0, come_late, ranks);
    return *ranks[0].text || *ranks[1].text;
}

/* The whole process stands still, for longer than a rank is waited for. */
TEST(time_in_which_a_job_is_suspended_is_not_waited) {
    int status = -1;
    pid_t child = fork();
    if (child == 0) _exit(run_suspended());
    NEED(child > 0);
    test_nap(150);
    kill(child, SIGSTOP);
    test_nap(3000);
    kill(child, SIGCONT);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* ---- a handler that writes the ring ---- */

enum { HANDLED = 2000 };
static struct handled {
    weft_comm *comm;
    int file;
    pthread_t thread;
    atomic_bool is_ready, is_over;
    atomic_int n;
} handled;

static void on_signal(int number) {
    (void)number;
    weft_comm_write_ring(handled.comm, handled.file, 1, 0);
    atomic_fetch_add(&handled.n, 1);
}

/* Rank 0 waits in a collective, and asks for the time without a pause, as the engine's thread does all the
 * time; rank 1 interrupts it. */
static void ask_or_interrupt(rank_run *r) {
    weft_error error = {0};
    weft_collective c = {.name = "late"};
    uint64_t ticket;
    if (r->comm->rank == 0) {
        struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
        weft_comm_start(r->comm, &c, &ticket, &error);
        handled.comm = r->comm;
        handled.thread = pthread_self();
        sigaction(SIGUSR2, &action, NULL);
        atomic_store(&handled.is_ready, true);
        while (!atomic_load(&handled.is_over)) clock_now();
        weft_comm_wait(r->comm, ticket, &error);
        keep(r, error.text);
        return;
    }
    while (!atomic_load(&handled.is_ready)) sched_yield();
    for (int i = 0; i < HANDLED; i++) {
        pthread_kill(handled.thread, SIGUSR2);
        while (atomic_load(&handled.n) <= i) sched_yield();
    }
    atomic_store(&handled.is_over, true);
    weft_comm_run(r->comm, &c, &error);
    keep(r, error.text);
}

static int run_interrupted(void) {
    rank_run ranks[MOST];
    alarm(60); /* a lock would keep its thread for ever */
    handled.file = open("/dev/null", O_WRONLY);
    threads_run(2, 60, 0, ask_or_interrupt, ranks);
    return handled.file < 0 || *ranks[0].text || *ranks[1].text;
}

TEST(a_handler_of_signals_writes_the_ring_whatever_its_thread_does) {
    int status = -1;
    pid_t child = fork();
    if (child == 0) _exit(run_interrupted());
    CHECK_SAYS(child > 0 && waitpid(child, &status, 0) == child && status == 0, "status %x",
               (unsigned)status);
}

SUITE("communicators that fail",
      {T(ranks_that_differ_hear_the_first_difference_on_both_sides),
       T(a_rank_that_does_not_come_is_named_with_its_place_when_the_deadline_passes),
       T(a_rank_that_aborts_gives_all_the_reason), T(a_rank_that_fails_is_heard_by_those_who_ask),
       T(a_rank_that_polls_hears_its_own_difference_first),
       T(a_failure_does_not_hand_out_a_buffer_that_is_gone),
       T(time_in_which_a_job_is_suspended_is_not_waited),
       T(a_handler_of_signals_writes_the_ring_whatever_its_thread_does)})
