/* test_reasons.c - whatever a rank has heard of the others when it hears that one of them has given up, it
 * gives the reason why the collective failed, not what it happens to lack itself at that moment. The ranks
 * are real; the transport is the test's own, and decides what a rank hears. */
#include "dist/core/transport.h"
#include "dist/engine/engine.h"
#include "support/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 6, BOX = 8, NOBODY = -1 };

/* The messages from one rank to another; `out` of the `in` that were sent have been read. */
typedef struct box {
    control messages[BOX];
    int in, out;
} box;

/* What a test sets, and how far it is. */
static struct scene {
    int n;
    int differs;    /* this rank enters a collective of another length */
    int dead, sees; /* `sees` alone sees that `dead` has ended, after it had entered */
    /* [rank]: it hears that these others (bits) have entered, then that this one of them has given up, and
     * nothing else; NOBODY: it hears all at once */
    unsigned entered[MOST];
    int gives_up[MOST];
    box boxes[MOST][MOST]; /* [from][to] */
    atomic_int lost[MOST]; /* [rank]: calls of the `lost` option */
    char text[MOST][1024]; /* [rank]: its error */
} scene;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the boxes */

/* ---- the transport ---- */

static weft_status scene_open(transport *t, weft_error *error) {
    (void)error;
    t->world = t->local_world = scene.n;
    t->nap_seconds = 1e-4;
    return WEFT_OK;
}

/* No data ever come: what has met goes no further. */
static weft_status scene_send(transport *t, int to, int tag, const void *data, size_t bytes,
                              weft_error *error) {
    (void)t, (void)to, (void)tag, (void)data, (void)bytes, (void)error;
    return WEFT_OK;
}

static weft_status scene_receive(transport *t, int from, int tag, void *data, size_t bytes,
                                 weft_error *error) {
    (void)data;
    return scene_send(t, from, tag, NULL, bytes, error);
}

static weft_status scene_progress(transport *t, bool *is_done, weft_error *error) {
    (void)t, (void)error;
    *is_done = false;
    return WEFT_OK;
}

static void put(int from, int to, control m) {
    box *b = &scene.boxes[from][to];
    m.from = from;
    if (b->in < BOX) b->messages[b->in++] = m;
}

/* The dead rank enters what `sees` enters. Heartbeats would fill the boxes. */
static bool scene_control_send(transport *t, int to, const control *m) {
    if (m->kind == CONTROL_BEAT || to == scene.dead) return true;
    pthread_mutex_lock(&lock);
    if (scene.dead != NOBODY && t->rank == scene.sees && m->kind == CONTROL_ENTER) {
        if (!scene.boxes[scene.dead][t->rank].in) put(scene.dead, t->rank, *m);
        put(scene.dead, to, *m);
    }
    put(t->rank, to, *m);
    pthread_mutex_unlock(&lock);
    return true;
}

static bool take(int from, int to, control *m) {
    box *b = &scene.boxes[from][to];
    if (b->out == b->in) return false;
    *m = b->messages[b->out++];
    return true;
}

/* Has `to` heard of all that it is to hear of that they have entered? */
static bool has_heard(int to) {
    bool has = true;
    for (int from = 0; from < scene.n; from++)
        if (scene.entered[to] & 1u << from) has = has && scene.boxes[from][to].out;
    return has;
}

/* The first message says that the sender has entered, the second that it has given up. The dead rank is heard
 * just before the news of its death, so that it is not silent for a second in between. */
static bool may_hear(int from, int to) {
    if (from == scene.dead) return to == scene.sees || scene.boxes[scene.sees][to].in > 1;
    if (scene.gives_up[to] == NOBODY) return true;
    if (!scene.boxes[from][to].out) return scene.entered[to] & 1u << from;
    return from == scene.gives_up[to] && has_heard(to);
}

static bool scene_control_receive(transport *t, control *m) {
    bool has = false;
    pthread_mutex_lock(&lock);
    for (int from = scene.n - 1; !has && from >= 0; from--)
        has = may_hear(from, t->rank) && take(from, t->rank, m);
    pthread_mutex_unlock(&lock);
    return has;
}

static const char *scene_ending(transport *t, int rank) {
    pthread_mutex_lock(&lock);
    bool has_ended = rank == scene.dead && t->rank == scene.sees && scene.boxes[rank][t->rank].in;
    pthread_mutex_unlock(&lock);
    return has_ended ? "its process has ended" : NULL;
}

static void scene_close(transport *t, bool is_failed) {
    (void)t, (void)is_failed;
}

static void scene_free(transport *t) {
    (void)t; /* it is static */
}

static const transport_calls calls = {.kind = "scene",
                                      .open = scene_open,
                                      .send = scene_send,
                                      .receive = scene_receive,
                                      .progress = scene_progress,
                                      .control_send = scene_control_send,
                                      .control_receive = scene_control_receive,
                                      .ending = scene_ending,
                                      .close = scene_close,
                                      .free = scene_free};

/* ---- a scene ---- */

/* All ranks hear all others at once, until `hears` is called for some. */
static void begin(int n) {
    memset(&scene, 0, sizeof scene);
    scene.n = n;
    scene.differs = scene.dead = scene.sees = NOBODY;
    for (int rank = 0; rank < n; rank++) scene.gives_up[rank] = NOBODY;
}

/* Besides `entered` it hears of the one that gives up that it has entered. */
static void hears(int rank, unsigned entered, int gives_up) {
    scene.entered[rank] = entered | 1u << gives_up;
    scene.gives_up[rank] = gives_up;
}

static void count_lost(void *context, const weft_error *error, bool is_found_here) {
    (void)error, (void)is_found_here;
    atomic_fetch_add((atomic_int *)context, 1);
}

/* All ranks but the dead one enter one collective, which fails. */
static void play(void) {
    static transport transports[MOST];
    static float data[MOST][8];
    weft_comm *comms[MOST] = {0};
    uint64_t tickets[MOST] = {0};
    for (int r = 0; r < scene.n; r++) {
        if (r == scene.dead) continue;
        weft_error error = {0};
        transports[r] = (transport){.calls = &calls, .rank = r};
        weft_comm_options options = {
            .deadline_seconds = 60, .lost = count_lost, .event_context = &scene.lost[r]};
        comms[r] = engine_comm(&transports[r], &options, &error);
        NEED(comms[r] != NULL);
    }
    for (int r = 0; r < scene.n; r++) {
        weft_collective c = {.kind = WEFT_COLLECTIVE_BROADCAST,
                             .dtype = WEFT_F32,
                             .buffer = data[r],
                             .count = r == scene.differs ? 7 : 8,
                             .name = "bucket discriminator.12",
                             .order = 17};
        if (comms[r]) CHECK(weft_comm_start(comms[r], &c, &tickets[r], NULL) == WEFT_OK);
    }
    for (int r = 0; r < scene.n; r++) {
        weft_error error = {0};
        if (comms[r]) CHECK(weft_comm_wait(comms[r], tickets[r], &error) == WEFT_PEER);
        snprintf(scene.text[r], sizeof scene.text[r], "%s", error.text);
    }
    for (int r = 0; r < scene.n; r++) weft_comm_free(comms[r]);
}

/* ---- ranks that differ ---- */

static void all_say_where(int rank) {
    char want[40];
    snprintf(want, sizeof want, "7 on rank %d", scene.differs);
    for (int r = 0; r < scene.n; r++) {
        bool says = strstr(scene.text[r], "the first difference is the number of elements: ") &&
                    strstr(scene.text[r], want);
        CHECK_SAYS(
            says,
            "rank %d differs; rank %d hears that %#x (bits) have entered, and %d has given up; rank %d: %s",
            scene.differs, rank, scene.entered[rank], scene.gives_up[rank], r, scene.text[r]);
        CHECK(atomic_load(&scene.lost[r]) == 1);
    }
}

TEST(ranks_that_differ_all_say_where_whatever_one_has_heard) {
    enum { N = 4 };
    for (int differs = 0; differs < N; differs++)
        for (int rank = 0; rank < N; rank++)
            for (int gives_up = 0; gives_up < N; gives_up++)
                for (unsigned entered = 0; entered < 1u << N; entered++) {
                    if (rank == gives_up || entered & (1u << rank | 1u << gives_up)) continue;
                    begin(N);
                    scene.differs = differs;
                    hears(rank, entered, gives_up);
                    play();
                    all_say_where(rank);
                }
}

/* Rank 1 sees the difference to rank 0, and each of the others hears of it from the rank below. */
TEST(a_reason_that_goes_from_rank_to_rank_stays_whole) {
    begin(MOST);
    scene.differs = 0;
    for (int r = 2; r < MOST; r++) hears(r, 0, r - 1);
    play();
    CHECK_HOLDS(scene.text[1], "the first difference is the number of elements: 8 on rank 1, 7 on rank 0");
    for (int r = 2; r < MOST; r++) {
        char want[1024 + 100];
        snprintf(want, sizeof want, "collective #17 (bucket discriminator.12): rank 1 has given up: %s",
                 scene.text[1]);
        CHECK_TEXT(scene.text[r], want);
    }
}

/* ---- a rank that is lost ---- */

/* Rank 3 had come before it died, so the others miss only what they have not heard yet. */
TEST(a_rank_that_is_late_is_not_named_in_the_place_of_a_dead_one) {
    for (int rank = 1; rank < 3; rank++) {
        begin(4);
        scene.dead = 3;
        scene.sees = 0;
        hears(rank, 0, 0);
        play();
        for (int r = 0; r < 3; r++) {
            CHECK_HOLDS(scene.text[r], "rank 3 IS DEAD: its process has ended, has entered");
            CHECK(!strstr(scene.text[r], "HAS NOT ENTERED"));
            CHECK(atomic_load(&scene.lost[r]) == 1);
        }
    }
}

SUITE("reasons that ranks give", {T(ranks_that_differ_all_say_where_whatever_one_has_heard),
                                  T(a_reason_that_goes_from_rank_to_rank_stays_whole),
                                  T(a_rank_that_is_late_is_not_named_in_the_place_of_a_dead_one)})
