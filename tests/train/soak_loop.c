/* soak_loop.c - opens and closes all that a program can hold, until SIGTERM: models, plans, stores, sessions,
 * checkpoints, worlds of two ranks as threads. tests/train/soak.py watches what stays behind.
 *
 *     soak_loop FOLDER     (it has the checkpoints)  */
#include "weft/weft.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { BATCH = 8, WIDTH = 64, RANKS = 2 };

static volatile sig_atomic_t is_over;

static void on_signal(int number) {
    (void)number;
    is_over = 1;
}

static weft_model *build(void) {
    weft_optimizer adam = {.type = "adam", .lr = 1e-3};
    weft_model *m = weft_model_new("soak");
    weft_model_set_batch(m, BATCH);
    weft_graph *g = weft_graph_new(m, "train", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, WIDTH));
    weft_value *y = weft_linear(weft_relu(weft_linear(x, 4 * WIDTH, "one", NULL)), WIDTH, "two", NULL);
    weft_value *loss = weft_mse(y, x, NULL);
    weft_output(loss, "loss");
    weft_minimize(loss, "", &adam);
    return m;
}

/* One rank from its plan to its end; alone where `comm` is NULL. */
typedef struct rank {
    const weft_model *model;
    weft_comm *comm;
    const char *folder; /* NULL: no checkpoints */
    weft_error error;
    pthread_t thread;
} rank;

static void steps(rank *r, weft_session *s) {
    static const float x[BATCH * WIDTH] = {1, -1, 0.5f};
    weft_feed feed = {"x", x, sizeof x};
    for (int i = 0; i < 3 && !r->error.status; i++) weft_run(s, "train", &feed, 1, NULL, 0, &r->error);
}

static void save(rank *r, weft_session *s) {
    weft_checkpoint_options how = {.folder = r->folder, .keep = 2};
    weft_checkpoint_writer *w = weft_checkpoint_writer_open(s, &how, &r->error);
    if (w && !weft_checkpoint_begin(w, 3, false, NULL, 0, &r->error)) weft_checkpoint_end(w, &r->error);
    weft_checkpoint_writer_close(w);
}

static void load(rank *r, weft_store *store) {
    weft_error none = {0}; /* the first turn has no checkpoint yet */
    weft_checkpoint *c = weft_checkpoint_newest(r->folder, NULL, NULL, NULL, &none);
    if (c) weft_checkpoint_load(c, store, &r->error);
    weft_checkpoint_close(c);
}

static void *live(void *self) {
    rank *r = self;
    weft_compile_options how = {.threads = 1, .zero = r->comm ? 1 : 0};
    if (r->comm) how.world = r->comm->world, how.rank = r->comm->rank;
    weft_plan *plan = weft_compile(r->model, &how, &r->error);
    weft_store *store = plan ? weft_store_new(plan, 1, &r->error) : NULL;
    if (store && r->folder) load(r, store);
    weft_session *s =
        store && !r->error.status ? weft_session_open_on(plan, store, r->comm, &r->error) : NULL;
    if (s) steps(r, s);
    if (s && r->folder && !r->error.status) save(r, s);
    weft_session_close(s);
    weft_store_free(store);
    weft_plan_free(plan);
    if (r->comm && r->error.status)
        weft_comm_abort(r->comm, r->error.text);
    else if (r->comm)
        weft_comm_free(r->comm);
    return NULL;
}

static weft_status together(const weft_model *m, weft_error *error) {
    rank ranks[RANKS];
    weft_comm *comms[RANKS];
    if (weft_comm_threads(RANKS, NULL, comms, error)) return error->status;
    for (int i = 0; i < RANKS; i++) {
        ranks[i] = (rank){.model = m, .comm = comms[i]};
        pthread_create(&ranks[i].thread, NULL, live, &ranks[i]);
    }
    for (int i = 0; i < RANKS; i++) pthread_join(ranks[i].thread, NULL);
    for (int i = 0; i < RANKS; i++)
        if (ranks[i].error.status) *error = ranks[i].error;
    return error->status;
}

int main(int argc, char **argv) {
    long turns = 0;
    weft_error error = {0};
    if (argc != 2) return fprintf(stderr, "soak_loop: a folder is needed\n"), 2;
    signal(SIGTERM, on_signal);
    while (!is_over && !error.status) {
        weft_model *m = build();
        rank alone = {.model = m, .folder = argv[1]};
        live(&alone);
        error = alone.error;
        if (!error.status) together(m, &error);
        weft_model_free(m);
        turns++;
    }
    if (error.status) fprintf(stderr, "soak_loop: turn %ld: %s\n", turns, error.text);
    printf("%ld turns\n", turns);
    return error.status != WEFT_OK;
}
