/* ddp_lines.c - runs the C lines of the tables in docs/from/ddp.md, each on two ranks, as
 * threads, with all names that the lines use. Then both compile the model with the options as the line left
 * them, and train a step on the data that the sampler gives them. */
#include "weft/weft.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 4, WIDTH = 8, SAMPLES = 48 };

typedef struct place {
    pthread_t thread;
    weft_comm *comm;
    weft_model *model;
    weft_value *loss; /* of a train graph that minimizes nothing yet */
    weft_compile_options options;
    weft_loader_options sampler;
    weft_source *images;
    weft_loader *loader;
    weft_plan *plan; /* these three are opened before the line, with two micro-batches a step */
    weft_store *store;
    weft_session *session;
    void (*line)(struct place *p);
    weft_error error;
} place;

/* The names that lines use. lines.h has a table of them, too. */
#define LINE(number, ...)                                                                                    \
    static void line_##number(place *p) {                                                                    \
        weft_model *m = p->model;                                                                            \
        weft_compile_options o = p->options;                                                                 \
        weft_loader_options how = p->sampler;                                                                \
        weft_comm *comm = p->comm;                                                                           \
        const weft_plan *plan = p->plan;                                                                     \
        weft_store *store = p->store;                                                                        \
        weft_session *s = p->session;                                                                        \
        weft_loader *loader = p->loader;                                                                     \
        weft_value *loss = p->loss;                                                                          \
        weft_error *error = &p->error;                                                                       \
        float batch[BATCH * WIDTH] = {1, 2, 3}, sample[BATCH * WIDTH];                                       \
        weft_feed in[] = {{"image", batch, sizeof batch}};                                                   \
        weft_fetch out[] = {{"sample", sample, sizeof sample}};                                              \
        (void)m, (void)comm, (void)plan, (void)store, (void)s, (void)loader, (void)loss, (void)error;        \
        (void)in, (void)out;                                                                                 \
        __VA_ARGS__;                                                                                         \
        p->options = o;                                                                                      \
        p->sampler = how;                                                                                    \
    }

/* ---- a strategy of your own, with all its functions, which count their calls of both ranks ---- */

enum { DISTRIBUTE, GRADIENT, BEFORE_FORWARD, AFTER_SETUP, CONNECT, FUNCTIONS };
static atomic_int calls[FUNCTIONS];

static weft_value *adds(const weft_bucket *bucket) {
    calls[GRADIENT]++;
    return weft_all_reduce(bucket->gradient, WEFT_RANKS_SUM, NULL);
}

static weft_status decides(const weft_strategy_call *call, weft_distribution *into, weft_error *error) {
    static const char *const cuts[] = {"discriminator/fc1/weight"};
    calls[DISTRIBUTE]++;
    *into = (weft_distribution){.cuts = cuts, .n_cuts = 1, .gradient = adds};
    into->bucket_cap_mb = *(const double *)call->options;
    (void)error;
    return WEFT_OK;
}

static weft_status looks(void *context, weft_session *s, const char *graph, weft_feed *feeds, int n_feeds,
                         weft_error *error) {
    (void)context, (void)s, (void)error;
    calls[BEFORE_FORWARD]++;
    return strcmp(graph, "d_step") || (n_feeds == 1 && feeds[0].data) ? WEFT_OK : WEFT_DATA;
}

static weft_status slows(void *context, weft_session *s, weft_store *store, weft_error *error) {
    (void)context, (void)s;
    calls[AFTER_SETUP]++;
    return weft_store_set_lr(store, NULL, 1e-4, error);
}

static weft_comm *connects(const weft_launch *launch, const weft_comm_options *options, weft_error *error) {
    (void)launch;
    calls[CONNECT]++;
    return weft_comm_self(options, error);
}

static const weft_field cap[] = {{"cap", WEFT_FIELD_REAL, 0, 0, 25}, {.offset = sizeof(double)}};
static const weft_strategy mine = {.name = "mine",
                                   .fields = cap,
                                   .distribute = decides,
                                   .connect = connects,
                                   .before_forward = looks,
                                   .after_setup_optimizers = slows};

/* Each function was called where the line takes the strategy: by both ranks, connect by the line itself. */
static bool was_called(const char *text, bool is_chosen) {
    bool good = !strstr(text, "weft_strategy_connect") || calls[CONNECT] == 2;
    for (int i = 0; i < CONNECT; i++) good &= !is_chosen || calls[i] >= 2;
    if (!good) fprintf(stderr, "%s\n  a function of the strategy was not called\n", text);
    return good;
}

/* ---- the lines ---- */

#include "lines.h"

/* ---- a GAN ---- */

static weft_value *generator(weft_graph *g) {
    weft_value *z = weft_random_normal(g, 2, (int64_t[]){BATCH, WIDTH}, 0, 1);
    WEFT_SCOPE(z, "generator") {
        z = weft_reshape(weft_linear(z, WIDTH, "fc", NULL), 4, (int64_t[]){BATCH, WIDTH, 1, 1});
        z = weft_linear(weft_flatten(weft_relu(weft_batch_norm(z, "bn", NULL)), 1), WIDTH, "out", NULL);
    }
    return z;
}

static weft_value *discriminator(weft_value *x) {
    WEFT_SCOPE(x, "discriminator")
    x = weft_linear(weft_relu(weft_linear(x, 16, "fc1", NULL)), 1, "fc2", NULL);
    return x;
}

static weft_value *mean_square(weft_value *logits, double target) {
    return weft_mean(weft_square(weft_offset(logits, -target)), WEFT_ALL, false);
}

static weft_model *build(weft_value **loss) {
    weft_optimizer adam = {.type = "adam"};
    weft_model *m = weft_model_new("gan");
    weft_graph *d = weft_graph_new(m, "d_step", WEFT_TRAIN);
    weft_value *real = weft_input(d, "image", WEFT_F32, 2, (int64_t[]){BATCH, WIDTH});
    weft_value *d_loss = mean_square(discriminator(real), 1);
    d_loss = weft_add(d_loss, mean_square(discriminator(weft_stop_gradient(generator(d))), 0));
    weft_minimize(d_loss, "discriminator", &adam);
    weft_value *g_loss = mean_square(discriminator(generator(weft_graph_new(m, "g_step", WEFT_TRAIN))), 1);
    weft_minimize(g_loss, "generator", &adam);
    weft_output(generator(weft_graph_new(m, "predict", WEFT_EVAL)), "sample");
    *loss = mean_square(generator(weft_graph_new(m, "r_step", WEFT_TRAIN)), 0);
    return m;
}

/* ---- one rank ---- */

static void open_all(place *p) {
    p->plan = weft_compile(p->model, &p->options, &p->error);
    p->store = weft_store_new(p->plan, 1, &p->error);
    p->session = weft_session_open_on(p->plan, p->store, p->comm, &p->error);
    if (p->session)
        p->loader = weft_loader_new(1, (const weft_source *[]){p->images}, &p->sampler, NULL, &p->error);
}

static void close_all(place *p) {
    weft_loader_free(p->loader);
    weft_session_close(p->session);
    weft_store_free(p->store);
    weft_plan_free(p->plan);
    p->loader = NULL, p->session = NULL, p->store = NULL, p->plan = NULL;
}

static void train(place *p) {
    int64_t rows;
    weft_feed image = {"image", NULL, BATCH * WIDTH * sizeof(float)};
    for (int k = 0; k < 2 && !p->error.status && weft_loader_next(p->loader, &image.data, &rows, &p->error);
         k++)
        if (!weft_run(p->session, "d_step", &image, 1, NULL, 0, &p->error))
            weft_run(p->session, "g_step", NULL, 0, NULL, 0, &p->error);
    if (!p->error.status) weft_sync(p->session, &p->error);
}

static void *run_rank(void *argument) {
    place *p = argument;
    p->options =
        (weft_compile_options){.threads = 1, .world = p->comm->world, .rank = p->comm->rank, .accumulate = 2};
    p->sampler = (weft_loader_options){.batch = BATCH};
    p->model = build(&p->loss);
    p->images = weft_source_open("images.npy", NULL, NULL, &p->error);
    open_all(p);
    if (!p->error.status) p->line(p);
    close_all(p);
    if (!p->error.status) open_all(p);
    if (!p->error.status) train(p);
    close_all(p);
    weft_source_free(p->images);
    weft_model_free(p->model);
    weft_comm_free(p->comm);
    return NULL;
}

static bool run_line(void (*line)(place *p), const char *text) {
    weft_comm *comms[2];
    place ranks[2] = {0};
    for (int i = 0; i < FUNCTIONS; i++) calls[i] = 0;
    bool good = !weft_comm_threads(2, &(weft_comm_options){.deadline_seconds = 60}, comms, &ranks[0].error);
    for (int i = 0; good && i < 2; i++) {
        ranks[i].comm = comms[i];
        ranks[i].line = line;
        if (pthread_create(&ranks[i].thread, NULL, run_rank, &ranks[i])) abort();
    }
    for (int i = 0; good && i < 2; i++) pthread_join(ranks[i].thread, NULL);
    for (int i = 0; i < 2; i++)
        if (ranks[i].error.status)
            good = !fprintf(stderr, "%s\n  rank %d: %s\n", text, i, ranks[i].error.text);
    return was_called(text, ranks[0].options.own_strategy != NULL) && good;
}

/* SAMPLES rows of zeros. */
static bool write_images(void) {
    static float rows[SAMPLES * WIDTH];
    FILE *f = fopen("images.npy", "wb");
    if (!f) return false;
    fprintf(f, "\x93NUMPY%c%cv%c{'descr': '<f4', 'fortran_order': False, 'shape': (%3d, %d), }", 1, 0, 0,
            SAMPLES, WIDTH);
    while (ftell(f) < 127) fputc(' ', f);
    fputc('\n', f);
    bool good = fwrite(rows, sizeof rows, 1, f) == 1;
    return !fclose(f) && good;
}

int main(void) {
    bool good = write_images();
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) good &= run_line(lines[i].run, lines[i].text);
    return good ? 0 : 1;
}
