/* window.c - the window of the ranks of one machine. Each rank makes a segment (dist/shm/segment.h), its
 * piece, and maps the pieces of the others. MPI carries the keys and the votes and nothing else: its own
 * shared memory (MPI_Win_allocate_shared) waits for ever where /dev/shm is too small for one rank only. After
 * each step all ranks decide together whether there will be a window; without one they use messages. */
#include "dist/mpi/transport.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

/* What a rank needs until all have mapped all pieces. */
typedef struct maker {
    mpi_transport *m;
    int n, own;
    int *ranks, *fds; /* [n] each: rank in the world; descriptor of its segment, -1: none */
    window *w;
    char why[SEGMENT_WHY]; /* why this rank failed; empty: it has not */
} maker;

/* Opens the others' segments. A rank without a segment (pid 0) reports the reason itself. */
static void open_others(maker *k) {
    for (int i = 0; i < k->n && !*k->why; i++)
        if (i != k->own && k->m->keys[i].pid) k->fds[i] = segment_open(&k->m->keys[i], k->why);
}

/* Allocates the own piece and maps all of them. */
static void map_all(maker *k) {
    window *w = k->w;
    if (!segment_grow(k->fds[k->own], w->piece_bytes, k->why)) return;
    for (int i = 0; i < k->n; i++)
        if (!(w->pieces[i] = segment_map(k->fds[i], w->piece_bytes, k->why))) return;
    window_clean(w);
}

/* Mappings outlive the descriptors. */
static void close_all(maker *k) {
    for (int i = 0; i < k->n; i++) {
        if (k->fds[i] >= 0) close(k->fds[i]);
        k->fds[i] = -1;
    }
}

/* Sets the pieces to NULL, so it may be called twice. */
static void unmap_all(window *w) {
    for (int i = 0; i < w->n; i++) {
        segment_unmap(w->pieces[i], w->piece_bytes);
        w->pieces[i] = NULL;
    }
}

/* Makes, opens and maps the segments. m->first is -1 when all ranks have mapped all pieces, else the first
 * that failed. No rank allocates memory before all could open all segments. */
static weft_status try_to_share(maker *k, weft_error *error) {
    mpi_transport *m = k->m;
    k->fds[k->own] = segment_make(&m->keys[k->own], k->why);
    weft_status status = mpi_gather(m, "asking for a window", m->keys, sizeof *m->keys, error);
    if (!status) open_others(k);
    if (!status) status = mpi_settle(m, m->host, "asking for a window", k->why, error);
    if (!status && m->first < 0) {
        map_all(k);
        status = mpi_settle(m, m->host, "making a window", k->why, error);
    }
    close_all(k);
    if (status || m->first >= 0) unmap_all(k->w);
    return status;
}

/* Logs a line once per machine. */
static void say(const mpi_transport *m, const char *line) {
    if (m->env.log && m->t.local_rank == 0) m->env.log(m->env.log_context, line);
}

static void say_messages(const mpi_transport *m, const char *why) {
    char line[REASON_BYTES + 100];
    snprintf(line, sizeof line, "%d ranks of this machine talk by messages: %s", m->t.local_world, why);
    say(m, line);
}

static void say_window(const maker *k) {
    char line[REASON_BYTES];
    snprintf(line, sizeof line, "%d ranks of this machine share memory: %.1f MiB each", k->n,
             (double)k->w->piece_bytes / (1 << 20));
    say(k->m, line);
}

/* ---- the processes of this machine's ranks ---- */

/* A pidfd names one process, also after its number has been given to another; -1: the system has none. */
static int process_open(int32_t pid) {
#ifdef SYS_pidfd_open
    return (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
#else
    (void)pid;
    return -1;
#endif
}

/* Their memory could be opened by these numbers, so they are of this PID namespace. Without memory nothing is
 * known, and deadlines remain. */
static void know_processes(mpi_transport *m) {
    m->processes = mem_new_array(&m->env, (size_t)m->t.local_world, sizeof *m->processes);
    for (int i = 0; m->processes && i < m->t.local_world; i++) m->processes[i] = process_open(m->keys[i].pid);
}

bool mpi_has_ended(transport *t, int rank) {
    const mpi_transport *m = (mpi_transport *)t;
    int place = t->window ? t->window->place_of[rank] : -1;
    if (place < 0 || !m->processes) return false;
    struct pollfd process = {.fd = m->processes[place], .events = POLLIN};
    if (process.fd >= 0) return poll(&process, 1, 0) == 1;
    return kill((pid_t)m->keys[place].pid, 0) && errno == ESRCH;
}

void mpi_window_forget(mpi_transport *m) {
    for (int i = 0; m->processes && i < m->t.local_world; i++)
        if (m->processes[i] >= 0) close(m->processes[i]);
    mem_free(&m->env, m->processes, (size_t)m->t.local_world * sizeof *m->processes);
    m->processes = NULL;
}

/* Installs the window, or logs why there is none. Only a failure of MPI is an error. */
static weft_status share_segments(maker *k, weft_error *error) {
    char reason[REASON_BYTES];
    mpi_transport *m = k->m;
    weft_status status = try_to_share(k, error);
    if (status) return status;
    if (m->first < 0) {
        say_window(k);
        m->t.window = k->w;
        know_processes(m);
        return WEFT_OK;
    }
    snprintf(reason, sizeof reason, "rank %d could not share memory (%.200s)", k->ranks[m->first], m->why);
    say_messages(m, reason);
    return WEFT_OK;
}

/* Fills k->ranks: the ranks in the world of this machine's ranks. Returns an MPI error code. */
static int name_ranks(maker *k) {
    MPI_Group all = MPI_GROUP_NULL, here = MPI_GROUP_NULL;
    int code = MPI_Comm_group(k->m->data, &all);
    if (!code) code = MPI_Comm_group(k->m->host, &here);
    for (int i = 0; !code && i < k->n; i++) code = MPI_Group_translate_ranks(here, 1, &i, all, &k->ranks[i]);
    if (here != MPI_GROUP_NULL) MPI_Group_free(&here);
    if (all != MPI_GROUP_NULL) MPI_Group_free(&all);
    return code;
}

/* Allocates all that this rank needs before it meets the others; on failure k->why says so. */
static void maker_init(maker *k, mpi_transport *m, size_t data_bytes) {
    size_t n = (size_t)m->t.local_world;
    *k = (maker){.m = m, .n = m->t.local_world, .own = m->t.local_rank};
    k->ranks = mem_new_array(&m->env, n, sizeof *k->ranks);
    k->fds = mem_new_array(&m->env, n, sizeof *k->fds);
    m->keys = mem_new_array(&m->env, n, sizeof *m->keys);
    bool good = k->ranks && k->fds && m->keys && !name_ranks(k);
    for (int i = 0; good && i < k->n; i++) k->fds[i] = -1;
    if (good) k->w = window_new(&m->env, m->t.world, k->ranks, k->n, k->own, data_bytes);
    if (!k->w) snprintf(k->why, sizeof k->why, "out of memory for its tables");
}

/* The window stays if the transport has taken it. */
static void maker_free(maker *k) {
    const weft_env *env = &k->m->env;
    size_t n = (size_t)k->n;
    if (k->w != k->m->t.window) window_free(k->w);
    mem_free(env, k->ranks, n * sizeof *k->ranks);
    mem_free(env, k->fds, n * sizeof *k->fds);
}

/* The least window_bytes of the machine's ranks counts, so all take the same branch. */
weft_status mpi_window_open(mpi_transport *m, weft_error *error) {
    char why[100] = "";
    int n = m->t.local_world;
    int64_t bytes = m->window_bytes ? m->window_bytes : WINDOW_DEFAULT;
    weft_status status = mpi_least(m, "asking for a window", bytes, error);
    if (status || n < 2) return status;
    bytes = m->least;
    if (bytes < 0)
        snprintf(why, sizeof why, "window_bytes is %lld", (long long)bytes);
    else if (!window_is_enough(n, (size_t)bytes))
        snprintf(why, sizeof why, "window_bytes is %lld, too little for so many", (long long)bytes);
    if (*why) {
        say_messages(m, why);
        return WEFT_OK;
    }
    maker k;
    maker_init(&k, m, (size_t)bytes);
    status = mpi_settle(m, m->host, "making a window", k.why, error);
    if (!status && m->first < 0)
        status = share_segments(&k, error);
    else if (!status)
        say_messages(m, m->why);
    maker_free(&k);
    return status;
}

void mpi_window_close(mpi_transport *m) {
    if (m->t.window) unmap_all(m->t.window);
}
