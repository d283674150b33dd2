/* distribution.c - runs the code blocks of docs/distribution.md: two ranks, as threads, open their sessions
 * and train. */
#include <pthread.h>

enum { BATCH = 4, WIDTH = 8, SAMPLES = 24 };

typedef struct member {
    pthread_t thread;
    const weft_model *model, *gan;
    weft_comm *comm;
    weft_error error;
} member;

/* ---- models ---- */

static weft_value *mean_square(weft_value *x, double target) {
    return weft_mean(weft_square(weft_offset(x, -target)), WEFT_ALL, false);
}

static weft_model *build(void) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, 2, (int64_t[]){2, 3}), *loss = x;
    WEFT_SCOPE(x, "net") {
        weft_value *y = weft_linear(x, 4, "fc", NULL), *z = weft_linear(x, 4, "other", NULL);
        const weft_init start = {WEFT_INIT_CONSTANT, 2.66}; /* log(1 / 0.07) */
        weft_value *scale = weft_parameter(x, "log_scale", 0, NULL, start);
        loss = weft_add(mean_square(y, 0), clip_loss(y, z, scale));
    }
    weft_minimize(loss, "net", &(weft_optimizer){.type = "sgd"});
    share_statistics(m);
    return m;
}

static weft_value *generator(weft_graph *g) {
    weft_value *z = weft_random_normal(g, 2, (int64_t[]){BATCH, WIDTH}, 0, 1);
    WEFT_SCOPE(z, "generator")
    z = weft_linear(weft_relu(weft_linear(z, WIDTH, "fc", NULL)), WIDTH, "out", NULL);
    return z;
}

static weft_value *discriminator(weft_value *x) {
    WEFT_SCOPE(x, "discriminator") x = weft_linear(x, 1, "fc", NULL);
    return x;
}

static weft_model *build_gan(void) {
    weft_optimizer adam = {.type = "adam"};
    weft_model *m = weft_model_new("gan");
    weft_graph *d = weft_graph_new(m, "d_step", WEFT_TRAIN);
    weft_value *real = weft_input(d, "image", WEFT_F32, 2, (int64_t[]){BATCH, WIDTH});
    weft_value *fake = discriminator(weft_stop_gradient(generator(d)));
    weft_minimize(weft_add(mean_square(discriminator(real), 1), mean_square(fake, 0)), "discriminator",
                  &adam);
    fake = discriminator(generator(weft_graph_new(m, "g_step", WEFT_TRAIN)));
    weft_minimize(mean_square(fake, 1), "generator", &adam);
    choose_subgraphs(m);
    return m;
}

static bool write_images(void) {
    static float rows[SAMPLES * WIDTH];
    FILE *f = fopen("images.npy", "wb");
    if (!f) return false;
    fprintf(f, "\x93NUMPY%c%cv%c{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }", 1, 0, 0,
            SAMPLES, WIDTH);
    while (ftell(f) < 127) fputc(' ', f);
    fputc('\n', f);
    bool good = fwrite(rows, sizeof rows, 1, f) == 1;
    return !fclose(f) && good;
}

/* ---- one rank ---- */

/* One rank of a world: `comm` from weft_comm_threads, _local, _mpi, _ucx or your own. */
static weft_session *open_rank(const weft_model *model, weft_comm *comm, weft_plan **plan, weft_store **store,
                               weft_error *error) {
    weft_compile_options options = {
        .world = comm->world, .rank = comm->rank, .accumulate = 2, .bucket_cap_mb = 4};
    *plan = weft_compile(model, &options, error);
    *store = *plan ? weft_store_new(*plan, 1, error) : NULL;
    return *store ? weft_session_open_on(*plan, *store, comm, error) : NULL;
}

static void train_steps(member *r) {
    weft_plan *plan = NULL;
    weft_store *store = NULL;
    float x[6] = {1, 2, 3, 4, 5, 6};
    weft_session *s = open_rank(r->model, r->comm, &plan, &store, &r->error);
    for (int i = 0; s && i < 4 && !r->error.status; i++)
        weft_run(s, "step", (weft_feed[]){{"x", x, sizeof x}}, 1, NULL, 0, &r->error);
    if (s && !r->error.status)
        step_over(s, (weft_feed[]){{"x", x, sizeof x}, {"x", x, sizeof x}}, 2, &r->error);
    weft_session_close(s);
    weft_store_free(store);
    weft_plan_free(plan);
}

static void *run_member(void *argument) {
    member *r = argument;
    train_steps(r);
    weft_source *images = r->error.status ? NULL : weft_source_open("images.npy", NULL, NULL, &r->error);
    if (images) train_gan(r->gan, r->comm, images, BATCH * WIDTH * sizeof(float), &r->error);
    weft_source_free(images);
    weft_comm_free(r->comm);
    return NULL;
}

int main(void) {
    member members[2] = {0};
    weft_comm *comms[2];
    weft_model *m = build(), *gan = build_gan();
    int failed = !write_images() || weft_comm_threads(2, NULL, comms, &members[0].error) != WEFT_OK;
    for (int i = 0; i < 2 && !failed; i++) {
        members[i].model = m;
        members[i].gan = gan;
        members[i].comm = comms[i];
        failed |= pthread_create(&members[i].thread, NULL, run_member, &members[i]);
    }
    for (int i = 0; i < 2 && !failed; i++) failed |= pthread_join(members[i].thread, NULL);
    for (int i = 0; i < 2; i++)
        if (members[i].error.status) failed = fprintf(stderr, "%s\n", members[i].error.text);
    weft_model_free(gan);
    weft_model_free(m);
    return failed;
}
