/* zoo_curve.c - trains a model of the zoo for 20 steps on numbers from a hash and prints its losses, one
 * line "STEP GRAPH OUTPUT VALUE" each, for tests/pytorch/test_zoo.py.
 *
 * zoo_curve MODEL [FOLDER] where to write, for PyTorch, the first weights as MODEL.safetensors and the
 * model's text, which has the keys of its random numbers, as MODEL.txt
 * zoo_curve MODEL RANKS trains it on RANKS threads that share the batch; losses are means over the ranks
 *
 * Sizes and optimizers are those of `curves`: small, so that a step takes milliseconds, and steps so short
 * that rounding, which differs between engines and processors, stays below the bound that the losses are
 * compared with. Rounding moves a number across the kink of a relu in some step on some processor, and the
 * gradient jumps: at a rate of 1e-4 wgan_gp's loss then jumped by 4e-5, at 1e-2 byol's by 2e-6, of which 20
 * steps made 2e-3, in PyTorch as here. The rates are a hundredth and a thousandth of those. cyclegan's loss
 * is 2e-6 off at 1e-6 and 3e-7 at 2e-7, where a rate 10% lower still is 1e-4 off. */
#include "examples/zoo.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 20, SEED = 7, PORTS = 16, MOST_LOSSES = 400, MOST_RANKS = 8 };

static const weft_optimizer slow_sgd = {.type = "sgd", .lr = 1e-5, .momentum = 0.9};

static const weft_optimizer slow_adam = {.type = "adam", .lr = 1e-6, .beta1 = WEFT_ZERO, .beta2 = 0.9};

static const weft_optimizer slow_cycle = {.type = "adam", .lr = 2e-7, .beta1 = 0.5};

static const weft_optimizer plain_sgd = {.type = "sgd", .lr = 1e-5};

/* limit: integers are below it (u8: 256) */
static const struct curve {
    const char *name;
    int64_t batch, limit;
    zoo_options size;
} curves[] = {
    {"vae", 16, 0, {.narrow = 4}},
    {"wgan_gp", 8, 0, {.narrow = 8, .optimizer = &slow_adam}},
    {"mobilenet_v2", 8, 1000, {.narrow = 8, .optimizer = &slow_sgd}},
    {"vit_tiny", 2, 1000, {.narrow = 4}},
    {"bert_tiny", 2, 30522, {.narrow = 2}},
    {"lstm_char", 8, 65, {.narrow = 8}},
    {"llama_tiny", 1, 32000, {.narrow = 4}},
    {"unet_ddpm", 4, 0, {.narrow = 8}},
    {"byol", 32, 0, {.narrow = 8, .optimizer = &plain_sgd}},
    {"moe", 8, 65, {.narrow = 8}},
    {"cyclegan", 2, 0, {.narrow = 8, .optimizer = &slow_cycle}},
    {"simclr", 16, 0, {.narrow = 8, .optimizer = &plain_sgd}},
    {"dino", 8, 0, {.narrow = 8, .optimizer = &plain_sgd}},
    {"moco", 16, 0, {.narrow = 8, .optimizer = &plain_sgd}},
};

/* A rank, and what it prints. */
typedef struct run {
    const struct curve *curve;
    const char *folder; /* NULL: nothing is written */
    int rank, world;
    weft_comm *comm;
    weft_model *model;
    weft_plan *plan;
    weft_store *store;
    weft_session *session;
    int status, n_losses;
    struct {
        char name[100];
        double value;
    } losses[MOST_LOSSES];
    pthread_t thread;
} run;

static int fail(const weft_error *error) {
    fprintf(stderr, "zoo_curve: %s\n", error->text);
    return 1;
}

/* ---- data ---- */

/* Steele, Lea, Flood 2014: splitmix64. */
static uint64_t mix(uint64_t x) {
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/* Element i of an input in a step, uniform in [0, 1). */
static double drawn(const char *name, int step, int64_t i) {
    uint64_t key = 0;
    for (const char *c = name; *c; c++) key = key * 31 + (unsigned char)*c;
    return (double)(mix(mix(key + (uint64_t)step) + (uint64_t)i) >> 40) * 0x1p-24;
}

static void set(void *data, const weft_port *p, int64_t i, double u, int64_t limit) {
    double number =
        p->ndim ? 2 * u - 1 : 1 + 0.25 * (2 * u - 1); /* single numbers are temperatures and the like */
    if (p->dtype == WEFT_F32) ((float *)data)[i] = (float)number;
    if (p->dtype == WEFT_U8) ((uint8_t *)data)[i] = (uint8_t)(256 * u);
    if (p->dtype == WEFT_BOOL) ((uint8_t *)data)[i] = u < 0.8;
    if (p->dtype == WEFT_I32) ((int32_t *)data)[i] = (int32_t)((double)limit * u);
}

static void *filled(const run *r, const weft_port *p, int step) {
    int64_t n = 1;
    for (int i = 0; i < p->ndim; i++) n *= p->shape[i];
    void *data = calloc(1, p->bytes);
    for (int64_t i = 0; data && i < n; i++)
        set(data, p, i, drawn(p->name, step, (p->ndim ? r->rank * n : 0) + i), r->curve->limit);
    return data;
}

/* ---- steps ---- */

/* Runs one training graph and keeps its outputs, which are single numbers. */
static int run_graph(run *r, const char *graph, int step) {
    weft_error error = {0};
    weft_port port;
    weft_feed feeds[PORTS];
    weft_fetch fetches[PORTS];
    float values[PORTS];
    int inputs = 0, outputs = 0;
    for (; weft_plan_input(r->plan, graph, inputs, &port); inputs++)
        feeds[inputs] = (weft_feed){port.name, filled(r, &port, step), port.bytes};
    for (; weft_plan_output(r->plan, graph, outputs, &port); outputs++)
        fetches[outputs] = (weft_fetch){port.name, &values[outputs], sizeof(float)};
    weft_status status = weft_run(r->session, graph, feeds, inputs, fetches, outputs, &error);
    for (int i = 0; i < inputs; i++) free((void *)feeds[i].data);
    for (int i = 0; !status && i < outputs && r->n_losses < MOST_LOSSES; i++) {
        snprintf(r->losses[r->n_losses].name, sizeof r->losses->name, "%d %s %s", step, graph,
                 fetches[i].name);
        r->losses[r->n_losses++].value = (double)values[i];
    }
    return status ? fail(&error) : 0;
}

/* A step is one of the model's flow. */
static int run_steps(run *r) {
    weft_flow_step s;
    for (int step = 0; step < STEPS; step++)
        for (int i = 0; weft_plan_flow(r->plan, i, &s); i++)
            if (run_graph(r, s.graph, step)) return 1;
    return 0;
}

/* What PyTorch needs to train the same. */
static int write_start(const run *r, const char *folder) {
    weft_error error = {0};
    char path[1000];
    snprintf(path, sizeof path, "%s/%s.safetensors", folder, r->curve->name);
    if (weft_weights_save(r->store, path, false, &error)) return fail(&error);
    snprintf(path, sizeof path, "%s/%s.txt", folder, r->curve->name);
    char *text = weft_model_text(r->model);
    FILE *f = text ? fopen(path, "w") : NULL;
    bool is_written = f && fputs(text, f) >= 0;
    if (f && fclose(f)) is_written = false;
    weft_text_free(text);
    if (!is_written) fprintf(stderr, "zoo_curve: %s cannot be written\n", path);
    return !is_written;
}

/* All ranks have the first values of rank 0, whose seed does not depend on the world. */
static int train(run *r) {
    weft_error error = {0};
    const zoo_entry *entry = NULL;
    for (int i = 0; i < ZOO_MODELS; i++)
        if (strcmp(zoo_models[i].name, r->curve->name) == 0) entry = &zoo_models[i];
    r->model = weft_model_new(r->curve->name);
    weft_model_set_batch(r->model, r->curve->batch / r->world);
    entry->build(r->model, &r->curve->size);
    const weft_compile_options how = {.threads = r->world == 1 ? 2 : 1, .world = r->world, .rank = r->rank};
    if (!(r->plan = weft_compile(r->model, &how, &error))) return fail(&error);
    if (!(r->store = weft_store_new(r->plan, SEED, &error))) return fail(&error);
    if (r->folder && write_start(r, r->folder)) return 1;
    if (!(r->session = weft_session_open_on(r->plan, r->store, r->comm, &error))) return fail(&error);
    return run_steps(r);
}

static void *train_rank(void *argument) {
    run *r = argument;
    r->status = train(r);
    if (r->status) weft_comm_abort(r->comm, "its training failed");
    weft_session_close(r->session);
    weft_store_free(r->store);
    weft_plan_free(r->plan);
    weft_model_free(r->model);
    return NULL;
}

/* Means over the ranks, which have equally many rows. */
static void print_losses(const run *ranks) {
    int world = ranks->world;
    for (int i = 0; i < ranks->n_losses; i++) {
        double sum = 0;
        for (int k = 0; k < world; k++) sum += ranks[k].losses[i].value;
        printf("%s %.9g\n", ranks->losses[i].name, sum / world);
    }
}

static int train_world(run *ranks, int world) {
    weft_comm *comms[MOST_RANKS] = {0};
    weft_error error = {0};
    int status = 0;
    if (world > 1 && weft_comm_threads(world, NULL, comms, &error)) return fail(&error);
    for (int i = 0; i < world; i++) {
        ranks[i].rank = i, ranks[i].world = world, ranks[i].comm = comms[i];
        if (pthread_create(&ranks[i].thread, NULL, train_rank, &ranks[i])) abort();
    }
    for (int i = 0; i < world; i++) {
        pthread_join(ranks[i].thread, NULL);
        status |= ranks[i].status;
    }
    for (int i = 0; i < world; i++) weft_comm_free(comms[i]);
    if (!status) print_losses(ranks);
    return status;
}

int main(int argc, char **argv) {
    enum { CURVES = sizeof curves / sizeof *curves };
    static run ranks[MOST_RANKS];
    const struct curve *found = NULL;
    for (int i = 0; argc > 1 && i < CURVES; i++)
        if (strcmp(curves[i].name, argv[1]) == 0) found = &curves[i];
    if (!found) {
        for (int i = 0; i < CURVES; i++) printf("%s\n", curves[i].name); /* the list, for the script */
        return argc > 1;
    }
    int world = argc > 2 ? atoi(argv[2]) : 1;
    bool has_world = argc > 2 && world >= 1 && world <= MOST_RANKS;
    for (int i = 0; i < MOST_RANKS; i++) ranks[i].curve = found;
    if (argc > 2 && !has_world) ranks[0].folder = argv[2];
    return train_world(ranks, has_world ? world : 1);
}
