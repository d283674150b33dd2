/* own_strategy.c - a strategy of your own: PowerSGD (Vogels et al., 2019, arXiv 1905.13727), and buckets
 * of its own.
 *
 *     mpirun -n 2 weft-own-strategy     trains a network with and without it, and tells losses and bytes
 *
 * The gradient of a layer, a matrix M [rows, columns], is sent as two thin ones of RANK columns. Per
 * step:
 *      M = this rank's gradient + what it has not sent yet
 *      P = sum over ranks of M Q,  its columns made orthonormal      Q = sum over ranks of M^T P
 *      updates read P Q^T;  M - P Q^T / ranks is sent later (error feedback)
 * Q stays for the next step. All of it is nodes of the plan, which the compiler places, orders and
 * proves; vectors are summed as they are. The bits are others than those of exact sums, and the plan says
 * so. */
#include "weft/weft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANK = 2, ROWS = 32, INPUTS = 64, HIDDEN = 256, OUTPUTS = 64, STEPS = 200, MOST_PARTS = 32 };

/* ---- compressed sums ---- */

/* x / (its 2-norm + a little), for a matrix of one column. */
static weft_value *unit(weft_value *x) {
    weft_value *norm = weft_sqrt(weft_sum(weft_square(x), WEFT_AXES(0), true));
    return weft_div(x, weft_offset(norm, 1e-8));
}

/* Gram-Schmidt for two columns. */
static weft_value *orthonormal(weft_value *p) {
    weft_value *first = unit(weft_slice(p, 1, 0, 1)), *second = weft_slice(p, 1, 1, 2);
    weft_value *along = weft_matmul(first, second, true, false); /* [1, 1] */
    second = unit(weft_sub(second, weft_mul(first, along)));
    return weft_concat(2, (weft_value *[]){first, second}, 1);
}

/* State of parameter number i of the bucket: this rank's own. */
static weft_value *kept(weft_value *near, const char *what, int i, int64_t rows, int64_t columns,
                        weft_init init) {
    char name[40];
    snprintf(name, sizeof name, "%s%d", what, i);
    return weft_state(near, name, WEFT_SHAPE(rows, columns), init);
}

/* What stands for the sum over ranks of `gradient` [rows, columns]. */
static weft_value *power(weft_value *gradient, int i, int ranks) {
    int64_t rows = weft_dim(gradient, 0), columns = weft_dim(gradient, 1);
    weft_value *late = kept(gradient, "late", i, rows, columns, (weft_init){0});
    weft_value *q = kept(gradient, "q", i, columns, RANK, (weft_init){WEFT_INIT_NORMAL, 0, 1});
    weft_value *m = weft_add(gradient, late);
    weft_value *p = orthonormal(weft_all_reduce(weft_matmul(m, q, false, false), WEFT_RANKS_SUM, NULL));
    weft_value *next = weft_all_reduce(weft_matmul(m, p, true, false), WEFT_RANKS_SUM, NULL);
    weft_value *sum = weft_matmul(p, next, false, true);
    weft_assign(q, next);
    weft_assign(late, weft_sub(m, weft_scale(sum, 1.0 / ranks)));
    return sum;
}

/* One bucket: each matrix by itself; vectors, and the gaps between parameters, as they are. */
static weft_value *powersgd(const weft_bucket *b) {
    weft_value *parts[MOST_PARTS];
    int n = 0;
    int64_t end = 0, length = weft_dim(b->gradient, 0);
    if (2 * b->n_members + 1 > MOST_PARTS) return b->gradient; /* summed as without this function */
    for (int i = 0; i < b->n_members; i++) {
        const weft_bucket_member *p = &b->members[i];
        int64_t count = 1;
        for (int a = 0; a < p->ndim; a++) count *= p->shape[a];
        if (p->begin > end) parts[n++] = weft_slice(b->gradient, 0, end, p->begin);
        weft_value *part = weft_slice(b->gradient, 0, p->begin, end = p->begin + count);
        if (p->ndim < 2) {
            parts[n++] = weft_all_reduce(part, WEFT_RANKS_SUM, NULL);
            continue;
        }
        part = weft_reshape(part, WEFT_SHAPE(p->shape[0], count / p->shape[0]));
        parts[n++] = weft_reshape(power(part, i, b->ranks), WEFT_SHAPE(count));
    }
    if (end < length) parts[n++] = weft_slice(b->gradient, 0, end, length);
    return weft_concat(n, parts, 0);
}

/* ---- the strategy ---- */

/* A bucket for each layer: a backward finishes fc2 first, the weight before the bias. */
static weft_status distribute(const weft_strategy_call *call, weft_distribution *into, weft_error *error) {
    static const char *const cuts[] = {"net/fc1/weight"};
    (void)call, (void)error;
    into->cuts = cuts;
    into->n_cuts = 1;
    into->gradient = powersgd;
    return WEFT_OK;
}

static const weft_strategy strategy = {
    .name = "powersgd", .distribute = distribute, .connect = weft_comm_mpi};

/* ---- a training ---- */

static weft_model *build(void) {
    weft_model *m = weft_model_new("student");
    weft_graph *g = weft_graph_new(m, "train", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(ROWS, INPUTS));
    weft_value *y = weft_input(g, "y", WEFT_F32, WEFT_SHAPE(ROWS, OUTPUTS));
    WEFT_SCOPE(x, "net") {
        x = weft_tanh(weft_linear(x, HIDDEN, "fc1", NULL));
        x = weft_linear(x, OUTPUTS, "fc2", NULL);
    }
    weft_value *loss = weft_mse(x, y, NULL);
    weft_minimize(loss, NULL, &(weft_optimizer){.type = "sgd", .lr = 0.1, .momentum = 0.9});
    weft_output(loss, "loss");
    return m;
}

/* Numbers in [-1, 1), the same on every machine. */
static float draw(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (float)(int32_t)(*state >> 32) / 2147483648.0f;
}

/* A batch of this rank: y is a fixed mixture of neighbours in x. */
static void fill(float x[ROWS][INPUTS], float y[ROWS][OUTPUTS], uint64_t *state) {
    for (int r = 0; r < ROWS; r++) {
        for (int i = 0; i < INPUTS; i++) x[r][i] = draw(state);
        for (int i = 0; i < OUTPUTS; i++) y[r][i] = x[r][i] - 0.5f * x[r][(i + 1) % INPUTS];
    }
}

/* Bytes that this rank has given to sums since it began. */
static void count_bytes(void *context, const weft_comm_event *event) {
    if (event->collective->kind == WEFT_COLLECTIVE_ALL_REDUCE)
        *(uint64_t *)context += event->collective->count * sizeof(float);
}

/* This rank's mean loss of the last ten steps. `own`: NULL, or the strategy. */
static double train(const weft_model *m, weft_comm *comm, const weft_strategy *own, weft_error *error) {
    static float x[ROWS][INPUTS], y[ROWS][OUTPUTS];
    uint64_t state = (uint64_t)comm->rank + 1;
    float loss = 0;
    double sum = 0;
    weft_compile_options o = {
        .world = comm->world, .rank = comm->rank, .threads = 1, .own_strategy = own, .verify = true};
    weft_plan *plan = weft_compile(m, &o, error);
    weft_store *store = plan ? weft_store_new(plan, 1, error) : NULL;
    weft_session *s = store ? weft_session_open_on(plan, store, comm, error) : NULL;
    for (int i = 0; s && i < STEPS && !error->status; i++) {
        fill(x, y, &state);
        weft_run(s, "train", (weft_feed[]){{"x", x, sizeof x}, {"y", y, sizeof y}}, 2,
                 (weft_fetch[]){{"loss", &loss, sizeof loss}}, 1, error);
        if (i >= STEPS - 10) sum += loss / 10;
    }
    if (s && !error->status) weft_sync(s, error);
    weft_session_close(s);
    weft_store_free(store);
    weft_plan_free(plan);
    return sum;
}

int main(void) {
    weft_error error = {0};
    uint64_t bytes = 0, exact, compressed;
    weft_comm *comm = weft_strategy_connect(
        &strategy, NULL, &(weft_comm_options){.event = count_bytes, .event_context = &bytes}, &error);
    if (!comm) return fprintf(stderr, "%s\n", error.text), 1;
    weft_model *m = build();
    double plain = train(m, comm, NULL, &error);
    exact = bytes / STEPS;
    double thin = error.status ? 0 : train(m, comm, &strategy, &error);
    compressed = (bytes - exact * STEPS) / STEPS;
    if (error.status) {
        fprintf(stderr, "rank %d: %s\n", comm->rank, error.text);
        weft_comm_abort(comm, error.text);
        return 1;
    }
    if (comm->rank == 0)
        printf("exact:    loss %.4f, %llu bytes a step\npowersgd: loss %.4f, %llu bytes a step\n", plain,
               (unsigned long long)exact, thin, (unsigned long long)compressed);
    bool is_alone = comm->world == 1;
    weft_model_free(m);
    weft_comm_free(comm);
    return !(is_alone ? thin == plain : thin < 1.5 * plain && compressed < exact / 4);
}
