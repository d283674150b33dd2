/* share.c - see share.h. The transport carries the keys and the votes and nothing else. After each step all
 * ranks decide together whether there will be a window; without one they use messages. */
#include "dist/shm/share.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

/* What a rank needs until all have mapped all pieces. */
typedef struct maker {
    transport *t;
    const share_options *options;
    weft_env env;
    arena memory; /* of the tables */
    int n, own;
    int *fds;          /* [n]: descriptor of its segment, -1: none */
    segment_key *keys; /* [n] */
    window *w;
    vote vote;             /* the last one */
    char why[SEGMENT_WHY]; /* why this rank failed; empty: it has not */
} maker;

/* Opens the others' segments. A rank without a segment (pid 0) reports the reason itself. */
static void open_others(maker *k) {
    for (int i = 0; i < k->n && !*k->why; i++)
        if (i != k->own && k->keys[i].pid) k->fds[i] = segment_open(&k->keys[i], k->why);
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

/* ---- exchanges ---- */

static weft_status gather_parts(maker *k, const char *what, weft_error *error) {
    share_part *parts = k->options->parts;
    return k->options->gather(k->t, what, parts, sizeof *parts, error);
}

/* Replaces *value by the least of all. */
static weft_status find_least(maker *k, const char *what, int64_t *value, weft_error *error) {
    share_part *parts = k->options->parts;
    parts[k->own].value = *value;
    weft_status status = gather_parts(k, what, error);
    for (int i = 0; i < k->n && !status; i++)
        if (parts[i].value < *value) *value = parts[i].value;
    return status;
}

/* A vote, whose outcome is the same on every rank. */
static weft_status decide(maker *k, const char *what, weft_error *error) {
    share_part *parts = k->options->parts;
    text_cut(parts[k->own].why, k->why, REASON_BYTES);
    weft_status status = gather_parts(k, what, error);
    k->vote.first = -1;
    for (int i = k->n; i-- > 0 && !status;)
        if (*parts[i].why) {
            k->vote.first = i;
            text_cut(k->vote.why, parts[i].why, REASON_BYTES);
        }
    return status;
}

/* ---- segments ---- */

/* Makes, opens and maps the segments. vote.first is -1 when all ranks have mapped all pieces, else the first
 * that failed. No rank allocates memory before all could open all segments. */
static weft_status try_to_share(maker *k, weft_error *error) {
    k->fds[k->own] = segment_make(&k->keys[k->own], k->why);
    weft_status status = k->options->gather(k->t, "asking for a window", k->keys, sizeof *k->keys, error);
    if (!status) open_others(k);
    if (!status) status = decide(k, "asking for a window", error);
    if (!status && k->vote.first < 0) {
        map_all(k);
        status = decide(k, "making a window", error);
    }
    close_all(k);
    if (status || k->vote.first >= 0) unmap_all(k->w);
    return status;
}

/* Logs once per machine what its ranks do. */
static void say_way(const maker *k, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say_way(const maker *k, const char *format, ...) {
    char what[REASON_BYTES], line[REASON_BYTES + 100];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    snprintf(line, sizeof line, "%d ranks of this machine %s", k->n, what);
    if (k->env.log && k->own == 0) k->env.log(k->env.log_context, line);
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
static void know_processes(window *w, const segment_key *keys) {
    w->neighbours = arena_new_array(&w->memory, (size_t)w->n, sizeof *w->neighbours);
    for (int i = 0; w->neighbours && i < w->n; i++)
        w->neighbours[i] = (neighbour){keys[i].pid, process_open(keys[i].pid)};
}

/* Where there are no pidfds. */
static bool is_gone(int32_t pid) {
    char path[32];
    snprintf(path, sizeof path, "/proc/%d", (int)pid);
    return access(path, F_OK) != 0 && errno == ENOENT;
}

const char *share_ending(transport *t, int rank) {
    const window *w = t->window;
    int place = w ? w->place_of[rank] : -1;
    if (place < 0 || !w->neighbours) return NULL;
    const neighbour *it = &w->neighbours[place];
    struct pollfd process = {.fd = it->fd, .events = POLLIN};
    bool has_ended = it->fd >= 0 ? poll(&process, 1, 0) == 1 : is_gone(it->pid);
    return has_ended ? "its process has ended" : NULL;
}

static void forget_processes(window *w) {
    for (int i = 0; w->neighbours && i < w->n; i++)
        if (w->neighbours[i].fd >= 0) close(w->neighbours[i].fd);
    w->neighbours = NULL;
}

/* Installs the window, or logs why there is none. */
static weft_status share_segments(maker *k, weft_error *error) {
    weft_status status = try_to_share(k, error);
    if (status) return status;
    if (k->vote.first < 0) {
        say_way(k, "share memory: %.1f MiB each", (double)k->w->piece_bytes / (1 << 20));
        k->t->window = k->w;
        know_processes(k->w, k->keys);
        return WEFT_OK;
    }
    say_way(k, "talk by messages: rank %d could not share memory (%.200s)", k->options->ranks[k->vote.first],
            k->vote.why);
    return WEFT_OK;
}

/* Allocates all that this rank needs before it meets the others; on failure k->why says so. */
static void make_tables(maker *k, size_t data_bytes) {
    size_t n = (size_t)k->n;
    k->fds = arena_new_array(&k->memory, n, sizeof *k->fds);
    k->keys = arena_new_array(&k->memory, n, sizeof *k->keys);
    bool good = k->fds && k->keys;
    for (int i = 0; good && i < k->n; i++) k->fds[i] = -1;
    if (good) k->w = window_new(&k->env, k->t->world, k->options->ranks, k->n, k->own, data_bytes);
    if (!k->w) snprintf(k->why, sizeof k->why, "out of memory for its tables");
}

/* The least window_bytes of the machine's ranks counts, so all take the same branch. */
weft_status share_window(transport *t, const share_options *options, weft_error *error) {
    maker k = {.t = t, .options = options, .n = t->local_world, .own = t->local_rank};
    if (options->env) k.env = *options->env;
    arena_init(&k.memory, &k.env);
    int64_t bytes = options->window_bytes ? options->window_bytes : WINDOW_DEFAULT;
    weft_status status = find_least(&k, "asking for a window", &bytes, error);
    if (status || k.n < 2) return status;
    if (bytes < 0 || !window_is_enough(k.n, (size_t)bytes)) {
        say_way(&k, "talk by messages: window_bytes is %lld%s", (long long)bytes,
                bytes < 0 ? "" : ", too little for so many");
        return WEFT_OK;
    }
    make_tables(&k, (size_t)bytes);
    status = decide(&k, "making a window", error);
    if (!status && k.vote.first < 0)
        status = share_segments(&k, error);
    else if (!status)
        say_way(&k, "talk by messages: %s", k.vote.why);
    if (k.w != t->window) window_free(k.w);
    if (!status) arena_free(&k.memory); /* an exchange that failed may still write into the keys */
    return status;
}

void share_end(transport *t) {
    if (!t->window) return;
    unmap_all(t->window);
    forget_processes(t->window);
}
