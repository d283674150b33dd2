/* lost.c - see lost.h. Three may come at once: the communicator's thread (lost_tell), a signal on any thread,
 * and the end of the command. So the ring is written by one of them at a time, and the process is ended by a
 * thread of its own, which waits for nothing but the clock. */
#include "tools/graphtool/ranks/lost.h"

#include "tools/graphtool/output/output.h"

#include "weft/support.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#define END_SECONDS  5.0 /* for the command to end by itself, after a rank was lost */
#define TERM_SECONDS 0.7 /* after SIGTERM: to see which rank is dead; mpirun kills after 1 s */

enum { ROOM = 4096 };

/* One per process, as signals are. */
static struct lost {
    char folder[ROOM], part[ROOM + 32], path[ROOM + 32]; /* the ring file; it is written as `part` */
    uint64_t job, job_ns;      /* the time when it began, and when this rank learned that, on its own clock */
    _Atomic(weft_comm *) comm; /* NULL: no ring is written */
    atomic_bool is_writing, is_told, is_terminated;
    atomic_uint_least64_t end_ns; /* when the process ends; 0: it continues */
    sem_t bell;                   /* something of this has changed */
} lost;

static void pause_for(double seconds) {
    nanosleep(&(struct timespec){.tv_sec = (time_t)seconds,
                                 .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)},
              NULL);
}

/* ---- the ring: async-signal-safe ---- */

/* Whole or not at all, as a reader sees it. */
static void write_file(weft_comm *comm) {
    out_make_folders(lost.folder);
    int fd = open(lost.part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    bool good = fd >= 0 && weft_comm_write_ring(comm, fd, lost.job, lost.job_ns);
    if (fd >= 0) good = close(fd) == 0 && good;
    if (good && !rename(lost.part, lost.path)) return;
    unlink(lost.part);
    rmdir(lost.folder); /* if it is empty */
}

/* False: another thread is at it. */
static bool try_to_write(void) {
    if (atomic_exchange(&lost.is_writing, true)) return false;
    weft_comm *comm = atomic_load(&lost.comm);
    if (comm) write_file(comm);
    atomic_store(&lost.is_writing, false);
    return true;
}

/* When a rank is lost that moment counts, not the SIGTERM that follows. */
void lost_write_ring(void) {
    int kept = errno;
    if (!atomic_load(&lost.is_told)) try_to_write();
    errno = kept;
}

/* ---- signals ---- */

static void on_terminate(int number) {
    (void)number;
    lost_write_ring();
    atomic_store(&lost.is_terminated, true);
    sem_post(&lost.bell);
}

/* abort() raises it again; kill(1) does not. */
static void on_abort(int number) {
    lost_write_ring();
    signal(number, SIG_DFL);
    raise(number);
}

void lost_take_signals(void) {
    if (!atomic_load(&lost.comm)) return;
    signal(SIGTERM, on_terminate);
    signal(SIGABRT, on_abort);
}

/* ---- the end of the process ---- */

/* The job first, so that the launcher ends all ranks; that may hang with the network. */
static void end_process(void) {
    weft_comm *comm = atomic_load(&lost.comm);
    if (comm) weft_comm_abort(comm, "a rank is lost");
    _exit(EXIT_PEER);
}

/* By mpirun after a rank has died, or by a scheduler: the reason is reported first, if there is one. */
static void terminate(void) {
    pause_for(TERM_SECONDS);
    if (atomic_load(&lost.is_told)) return; /* that ends it */
    signal(SIGTERM, SIG_DFL);
    kill(getpid(), SIGTERM);
}

static void *watch(void *unused) {
    (void)unused;
    for (;;) {
        uint64_t end = atomic_load(&lost.end_ns);
        if (end && weft_clock_ns() >= end) end_process();
        if (atomic_exchange(&lost.is_terminated, false)) terminate();
        if (end)
            pause_for(0.1);
        else
            sem_wait(&lost.bell);
    }
    return NULL;
}

void lost_end_in(double seconds) {
    uint64_t none = 0;
    atomic_compare_exchange_strong(&lost.end_ns, &none, weft_clock_ns() + (uint64_t)(seconds * 1e9));
    sem_post(&lost.bell);
}

/* ---- a rank is lost ---- */

bool lost_is_told(void) {
    return atomic_load(&lost.is_told);
}

/* On the communicator's thread, before any call returns the error: this rank's threads may compute for long,
 * and mpirun gives 1 s. */
void lost_tell(void *context, const weft_error *error, bool is_found_here) {
    (void)context;
    atomic_store(&lost.is_told, true);
    tool_report(is_found_here ? error->text : NULL, lost.folder);
    for (int i = 0; i < 200 && !try_to_write(); i++) pause_for(1e-3);
    lost_end_in(END_SECONDS);
}

/* ---- begin and end ---- */

/* --rings, else a folder of those where the run writes, else here. */
static void choose_folder(const options *o, int rank) {
    const char *in = o->rings ? o->rings : o->work_dir ? o->work_dir : o->checkpoint_dir;
    int n = snprintf(lost.folder, sizeof lost.folder, "%s%s%s", in ? in : "", in && !o->rings ? "/" : "",
                     o->rings ? "" : "weft-rings");
    if (n < 1 || n >= ROOM) tool_fail("--rings=%s: the name is too long", in ? in : "");
    snprintf(lost.path, sizeof lost.path, "%s/rank-%d.ring", lost.folder, rank);
    snprintf(lost.part, sizeof lost.part, "%s/rank-%d.tmp", lost.folder, rank);
}

/* The thread takes no signals. */
static bool start_thread(void) {
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    if (sem_init(&lost.bell, 0, 0) || pthread_sigmask(SIG_SETMASK, &all, &before)) return false;
    int code = pthread_create(&thread, NULL, watch, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!code) pthread_detach(thread);
    return !code;
}

void lost_prepare(const options *o, int rank) {
    choose_folder(o, rank);
    if (!start_thread()) tool_fail("a thread could not be made");
}

void lost_watch(weft_comm *comm) {
    atomic_store(&lost.comm, comm);
    lost_take_signals();
}

void lost_note_job(uint64_t job) {
    lost.job = job;
    lost.job_ns = weft_clock_ns();
}

void lost_leave(void) {
    if (!atomic_load(&lost.comm)) return;
    atomic_store(&lost.comm, NULL);
    while (atomic_load(&lost.is_writing)) pause_for(1e-3);
    signal(SIGTERM, SIG_DFL);
    signal(SIGABRT, SIG_DFL);
}
