/* window.c - see window.h. The layout of a piece: window_flags, n message rings, then slots from data_begin
 * on. */
#include "dist/shm/window.h"

#include "dist/core/clock.h"

#include <string.h>

#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* One sender, one reader, no lock; `in` and `out` count messages and are on cache lines of their own. */
typedef struct message_ring {
    _Alignas(64) atomic_uint_least64_t in;
    _Alignas(64) atomic_uint_least64_t out;
    control messages[WINDOW_RING];
} message_ring;

/* Offset of the slots, in bytes. */
static size_t data_begin(int n) {
    return size_align(sizeof(window_flags) + (size_t)n * sizeof(message_ring), MEM_ALIGN);
}

size_t window_piece_bytes(int n, size_t data_bytes) {
    size_t bytes;
    if (!size_add(&bytes, data_begin(n), data_bytes) || bytes > SIZE_MAX - MEM_ALIGN) return 0;
    return size_align(bytes, MEM_ALIGN);
}

/* Bytes of a slot: 1/16 of the data, up to WINDOW_SLOT_MOST, and at least 64 bytes for each rank's range. */
static size_t slot_bytes(int n, size_t data_bytes) {
    size_t least = (size_t)n * MEM_ALIGN, slot = data_bytes / WINDOW_SLOTS / MEM_ALIGN * MEM_ALIGN;
    if (slot > WINDOW_SLOT_MOST) slot = WINDOW_SLOT_MOST;
    return slot < least ? least : slot;
}

/* Two slots let a rank fill one while the others read the other. */
bool window_is_enough(int n, size_t data_bytes) {
    return data_bytes / 2 >= slot_bytes(n, data_bytes) && window_piece_bytes(n, data_bytes) > 0;
}

/* The positions of ranks are the same on all of them, because `ranks` is. */
window *window_new(const weft_env *env, int world, const int *ranks, int n, int own, size_t data_bytes) {
    window *w = mem_new(env, sizeof *w);
    if (!w) return NULL;
    if (env) w->env = *env;
    arena_init(&w->memory, &w->env);
    w->world = world;
    w->n = n;
    w->own = own;
    w->place_of = arena_new_array(&w->memory, (size_t)world, sizeof *w->place_of);
    w->pieces = arena_new_array(&w->memory, (size_t)n, sizeof *w->pieces);
    w->piece_bytes = window_piece_bytes(n, data_bytes);
    w->slot_bytes = slot_bytes(n, data_bytes);
    w->slots = data_bytes / w->slot_bytes;
    if (!w->place_of || !w->pieces) {
        window_free(w);
        return NULL;
    }
    for (int i = 0; i < world; i++) w->place_of[i] = -1;
    for (int i = 0; i < n; i++) w->place_of[ranks[i]] = i;
    return w;
}

void window_clean(window *w) {
    memset(w->pieces[w->own], 0, data_begin(w->n));
}

void window_free(window *w) {
    if (!w) return;
    weft_env env = w->env;
    arena_free(&w->memory);
    mem_free(&env, w, sizeof *w);
}

/* The flags are at the start of a piece. */
window_flags *window_flags_of(const window *w, int place) {
    return (window_flags *)w->pieces[place];
}

char *window_slot(const window *w, int place, uint64_t round) {
    return w->pieces[place] + data_begin(w->n) + (size_t)(round % w->slots) * w->slot_bytes;
}

/* ---- control messages ---- */

/* The ring in `to`'s piece that `from` writes. */
static message_ring *ring_of(const window *w, int to, int from) {
    return (message_ring *)(w->pieces[to] + sizeof(window_flags)) + from;
}

/* Entries and failures of other ranks never fill more than half a ring (E3 of engine.h); heartbeats are
 * dropped beyond that half. */
bool window_send(window *w, int place, const control *message) {
    message_ring *r = ring_of(w, place, w->own);
    uint64_t in = atomic_load_explicit(&r->in, memory_order_relaxed);
    uint64_t unread = in - atomic_load_explicit(&r->out, memory_order_acquire);
    if (message->kind == CONTROL_BEAT && unread >= WINDOW_RING / 2) return true;
    if (unread >= WINDOW_RING) return false;
    r->messages[in % WINDOW_RING] = *message;
    atomic_store_explicit(&r->in, in + 1, memory_order_release);
    window_ring(w, place);
    return true;
}

/* Release and acquire on `in` and `out` order the message's bytes. */
bool window_receive(window *w, control *message) {
    for (int from = 0; from < w->n; from++) {
        message_ring *r = ring_of(w, w->own, from);
        uint64_t out = atomic_load_explicit(&r->out, memory_order_relaxed);
        if (atomic_load_explicit(&r->in, memory_order_acquire) == out) continue;
        *message = r->messages[out % WINDOW_RING];
        atomic_store_explicit(&r->out, out + 1, memory_order_release);
        return true;
    }
    return false;
}

/* ---- naps ---- */

/* The sleeper sets is_asleep, then looks for the change; the other rank makes the change, then looks at
 * is_asleep. The two fences make it impossible that both see the old value. */
unsigned window_listen(window *w) {
    window_flags *f = window_flags_of(w, w->own);
    unsigned heard = atomic_load(&f->bell);
    atomic_store(&f->is_asleep, 1);
    atomic_thread_fence(memory_order_seq_cst);
    return heard;
}

void window_ring(window *w, int place) {
    window_flags *f = window_flags_of(w, place);
    atomic_thread_fence(memory_order_seq_cst);
    if (!atomic_load_explicit(&f->is_asleep, memory_order_relaxed)) return;
    atomic_fetch_add(&f->bell, 1);
#ifdef __linux__
    syscall(SYS_futex, (unsigned *)&f->bell, FUTEX_WAKE, 1, NULL, NULL, 0);
#endif
}

/* An early end does no harm: the caller looks again. */
void window_nap(window *w, unsigned heard, double seconds) {
    window_flags *f = window_flags_of(w, w->own);
    struct timespec length = clock_span(seconds);
#ifdef __linux__
    syscall(SYS_futex, (unsigned *)&f->bell, FUTEX_WAIT, heard, &length, NULL, 0);
#else
    if (length.tv_sec || length.tv_nsec > 50000)
        length = (struct timespec){.tv_nsec = 50000}; /* without a futex nothing ends the nap early */
    if (atomic_load(&f->bell) == heard) nanosleep(&length, NULL);
#endif
    atomic_store_explicit(&f->is_asleep, 0, memory_order_relaxed);
}
