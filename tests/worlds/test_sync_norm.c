/* test_sync_norm.c - statistics over ranks: with sync_batch_norm, ranks that split a batch train as one rank
 * with the whole batch, running statistics included. Ranks are threads. */
#include "graph/core/graph.h"
#include "ops/structure/collective.h"
#include "ops/structure/ranks.h"
#include "ops/kit/ops.h"
#include "runtime/plan/program.h"
#include "support/kernels/evaluate.h"
#include "support/test.h"
#include "weft/weft.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WHOLE = 12, IMAGE = 2 * 6 * 6, STEPS = 6, MOST_RANKS = 4, VALUES = 4096 };

/* ---- a model: images and vectors are normalized ---- */

static weft_value *network(weft_value *x) {
    weft_conv conv = {.out = 8, .kernel = 3, .pad = 1, .no_bias = true};
    WEFT_SCOPE(x, "net") {
        x = weft_relu(weft_batch_norm(weft_conv2d(x, &conv, "conv1"), "bn1", NULL));
        x = weft_tanh(weft_batch_norm(weft_conv2d(x, &conv, "conv2"), "bn2", NULL));
        x = weft_batch_norm(weft_linear(weft_flatten(x, 1), 10, "fc1", NULL), "bn3", NULL);
        x = weft_linear(weft_relu(x), 3, "fc2", NULL);
    }
    return x;
}

/* Of `batch` images; `options` may be NULL. */
static weft_model *build(int64_t batch, const weft_ddp_options *options) {
    weft_model *m = weft_model_new("m");
    for (int i = 0; i < 2; i++) {
        weft_graph *g = weft_graph_new(m, i ? "eval" : "step", i ? WEFT_EVAL : WEFT_TRAIN);
        weft_value *x = weft_input(g, "x", WEFT_F32, 4, (int64_t[]){batch, 2, 6, 6});
        weft_value *y = weft_input(g, "y", WEFT_U8, 1, (int64_t[]){batch});
        weft_value *loss = weft_cross_entropy(network(x), y, NULL);
        if (i == 0) weft_minimize(loss, "net", &(weft_optimizer){.type = "sgd", .lr = 0.05, .momentum = 0.9});
        weft_output(loss, "loss");
    }
    if (options) weft_model_set_ddp(m, "net", options);
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return m;
}

/* ---- a rank ---- */

typedef struct setup {
    int world, accumulate, zero;
    int parts; /* ranks that share a whole batch; 0: all do */
    double cap_mb;
    const weft_ddp_options *ddp;
} setup;

typedef struct rank {
    pthread_t thread;
    const weft_model *model;
    weft_comm *comm;
    const setup *setup;
    int n_values, n_tensors;
    int begin[64]; /* of each tensor; the entries under "net" in the store's order */
    char name[64][40];
    float values[VALUES];
    weft_error error;
} rank;

/* This rank's rows of the whole batch number `batch`, which is the same in any world. */
static weft_status run_part(weft_session *s, int rank, int world, int batch, weft_error *error) {
    float x[WHOLE * IMAGE];
    uint8_t y[WHOLE];
    int rows = WHOLE / world, first = rank * rows;
    test_random random = {(uint64_t)batch + 1};
    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        x[i] = (float)(random_in(&random, -1, 1) + 0.3 * (double)(i / IMAGE)); /* rows that differ much */
    for (int i = 0; i < WHOLE; i++) y[i] = (uint8_t)(random_bits(&random) % 3);
    weft_feed feeds[] = {{"x", x + first * IMAGE, (size_t)(rows * IMAGE) * sizeof *x},
                         {"y", y + first, (size_t)rows}};
    return weft_run(s, "step", feeds, 2, NULL, 0, error);
}

static void keep_values(rank *r, const weft_store *store) {
    const char *path;
    for (int i = 0; (path = weft_store_path(store, i)); i++) {
        int64_t shape[WEFT_MAX_NDIM], n = 1;
        int ndim = weft_store_shape(store, path, NULL, shape);
        if (strncmp(path, "net/", 4)) continue;
        for (int k = 0; k < ndim; k++) n *= shape[k];
        if (!CHECK(r->n_values + n <= VALUES && r->n_tensors < 63)) return;
        weft_store_get(store, path, r->values + r->n_values, (size_t)n * sizeof(float), NULL);
        snprintf(r->name[r->n_tensors], sizeof *r->name, "%s", path);
        r->begin[r->n_tensors++] = r->n_values;
        r->n_values += (int)n;
    }
    r->begin[r->n_tensors] = r->n_values;
}

static void *train(void *argument) {
    rank *r = argument;
    const setup *u = r->setup;
    int id = r->comm ? r->comm->rank : 0, parts = u->parts ? u->parts : u->world;
    weft_compile_options options = {.threads = 1,
                                    .accumulate = u->accumulate,
                                    .world = u->world,
                                    .rank = id,
                                    .zero = u->zero,
                                    .bucket_cap_mb = u->cap_mb,
                                    .verify = true};
    weft_plan *plan = weft_compile(r->model, &options, &r->error);
    weft_store *store = plan ? weft_store_new(plan, 7, &r->error) : NULL;
    weft_session *s = store ? weft_session_open_on(plan, store, r->comm, &r->error) : NULL;
    for (int i = 0; s && i < STEPS * u->accumulate && !r->error.status; i++)
        run_part(s, id % parts, parts, i, &r->error);
    if (s) weft_sync(s, &r->error);
    if (s) keep_values(r, store);
    weft_session_close(s);
    weft_store_free(store);
    weft_plan_free(plan);
    weft_comm_free(r->comm);
    return NULL;
}

static void train_world(const setup *u, rank *ranks) {
    weft_comm *comms[MOST_RANKS] = {0};
    weft_model *m = build(WHOLE / (u->parts ? u->parts : u->world), u->ddp);
    if (u->world > 1) CHECK(weft_comm_threads(u->world, NULL, comms, NULL) == WEFT_OK);
    for (int i = 0; i < u->world; i++) {
        ranks[i] = (rank){.model = m, .comm = comms[i], .setup = u};
        CHECK(pthread_create(&ranks[i].thread, NULL, train, &ranks[i]) == 0);
    }
    for (int i = 0; i < u->world; i++) {
        CHECK(pthread_join(ranks[i].thread, NULL) == 0);
        CHECK_SAYS(ranks[i].error.status == WEFT_OK, "rank %d: %s", i, ranks[i].error.text);
    }
    weft_model_free(m);
}

/* |a - b| / |b| of tensor t, as vectors. */
static double distance(const rank *a, const rank *b, int t) {
    double apart = 0, whole = 0;
    for (int i = b->begin[t]; i < b->begin[t + 1]; i++) {
        apart += pow((double)a->values[i] - (double)b->values[i], 2);
        whole += pow((double)b->values[i], 2);
    }
    return sqrt(apart / (whole > 0 ? whole : 1));
}

static double worst_distance(const rank *a, const rank *b, int *tensor) {
    double worst = -1;
    for (int t = 0; t < b->n_tensors; t++)
        if (!(distance(a, b, t) <= worst)) worst = distance(a, b, *tensor = t);
    return worst;
}

static void check_like_one(int world, int accumulate) {
    static rank one[MOST_RANKS], many[MOST_RANKS];
    const weft_ddp_options sync = {.sync_batch_norm = true};
    int t = 0;
    train_world(&(setup){.world = 1, .accumulate = accumulate}, one);
    train_world(&(setup){.world = world, .accumulate = accumulate, .ddp = &sync}, many);
    CHECK(one[0].n_tensors == 18 && many[0].n_values == one[0].n_values);
    double apart = worst_distance(&many[0], &one[0], &t);
    CHECK_SAYS(apart < 1e-5, "world %d, %d each: %s is %g from one rank's", world, accumulate, one[0].name[t],
               apart);
    for (int i = 1; i < world; i++)
        CHECK_SAYS(memcmp(many[0].values, many[i].values, sizeof many[0].values) == 0,
                   "rank %d has other bits than rank 0", i);
}

TEST(ranks_that_split_a_batch_train_as_one_with_the_whole) {
    check_like_one(2, 1);
    check_like_one(3, 1);
}

TEST(each_micro_batch_has_statistics_of_its_own_over_all_ranks) {
    check_like_one(2, 3);
}

TEST(each_process_group_has_statistics_of_its_own) {
    static rank one[MOST_RANKS], pairs[MOST_RANKS];
    const weft_ddp_options sync = {.sync_batch_norm = true, .process_group = "0-1;2-3"};
    int t = 0;
    train_world(&(setup){.world = 1, .accumulate = 1}, one);
    train_world(&(setup){.world = 4, .parts = 2, .accumulate = 1, .ddp = &sync}, pairs);
    double apart = worst_distance(&pairs[0], &one[0], &t);
    CHECK_SAYS(apart < 1e-5, "%s is %g from one rank's", one[0].name[t], apart);
    for (int i = 1; i < 4; i++)
        CHECK_SAYS(memcmp(pairs[0].values, pairs[i].values, sizeof pairs[0].values) == 0,
                   "rank %d has other bits than rank 0", i);
}

TEST(without_the_option_ranks_have_statistics_of_their_own) {
    static rank one[MOST_RANKS], many[MOST_RANKS];
    int t;
    train_world(&(setup){.world = 1, .accumulate = 1}, one);
    train_world(&(setup){.world = 2, .accumulate = 1}, many);
    CHECK(worst_distance(&many[0], &one[0], &t) > 1e-2);
    CHECK(worst_distance(&many[0], &many[1], &t) > 1e-2);
}

TEST(the_bits_do_not_depend_on_buckets_or_zero) {
    static rank plain[MOST_RANKS], other[MOST_RANKS];
    const weft_ddp_options sync = {.sync_batch_norm = true};
    train_world(&(setup){.world = 2, .accumulate = 2, .ddp = &sync}, plain);
    for (int kind = 1; kind < 4; kind++) {
        setup u = {
            .world = 2, .accumulate = 2, .ddp = &sync, .zero = kind & 1, .cap_mb = kind & 2 ? 1e-5 : 0};
        train_world(&u, other);
        CHECK_SAYS(memcmp(plain[0].values, other[1].values, sizeof plain[0].values) == 0,
                   "zero %d, buckets of %g MiB: other bits", u.zero, u.cap_mb);
    }
}

/* ---- plans ---- */

static int count_nodes(const weft_plan *plan, const char *graph, const weft_op *op) {
    int count = 0;
    for (int i = 0; i < plan->n_programs; i++)
        for (const weft_node *n = plan->programs[i].graph->first; n; n = n->next)
            count += n->op == op && strcmp(plan->programs[i].name, graph) == 0;
    return count;
}

TEST(a_plan_has_two_sums_forward_and_two_backward_for_each_layer_that_asks) {
    for (int world = 1; world < 3; world++) {
        weft_error e = {0};
        weft_model *m = build(4, NULL);
        weft_model_set_ddp(m, "net/bn2", &(weft_ddp_options){.sync_batch_norm = true});
        weft_plan *plan =
            weft_compile(m, &(weft_compile_options){.world = world, .bucket_cap_mb = 64, .verify = true}, &e);
        weft_model_free(m);
        if (!CHECK_SAYS(plan != NULL, "%s", e.text)) continue;
        CHECK(count_nodes(plan, "step", &weft_op_batch_norm) == (world == 1 ? 3 : 2));
        CHECK(count_nodes(plan, "step", &weft_op_sum_ranks) == 0);
        CHECK(count_nodes(plan, "eval", &weft_op_all_reduce) == 0);
        int sums = 0, gradients = 0;
        for (const weft_node *n = plan->programs[0].graph->first; n; n = n->next) {
            if (n->op != &weft_op_all_reduce) continue;
            gradients += n->variable != NULL;
            sums += strcmp(((const collective_attrs *)n->attrs)->path, "net/bn2") == 0;
        }
        CHECK_SAYS(sums == (world == 1 ? 0 : 4) && (gradients > 0) == (world > 1), "%d sums", sums);
        weft_plan_free(plan);
    }
}

/* ---- the composition against the op, in f64: the other rank of the world has the same data ---- */

enum { PROBE = 48 };

/* y and the gradients of sum(y k) + sum(mean^2) by x, weight, bias, y and the mean, through which none
 * reaches x; of a batch of 16 values a channel. */
static weft_model *probe(bool is_image, const weft_ddp_options *options) {
    static const char *const names[] = {"dx", "dw", "db", "dy", "dmean"};
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *x = is_image ? weft_input(g, "x", WEFT_F32, 4, (int64_t[]){4, 3, 2, 2})
                             : weft_input(g, "x", WEFT_F32, 2, (int64_t[]){16, 3});
    weft_value *k = weft_input(g, "k", WEFT_F32, x->type.ndim, x->type.shape), *in[5] = {x}, *gradient[5];
    weft_value *y = in[3] = weft_batch_norm(x, "bn", NULL), *mean = in[4] = &y->node->out[1];
    WEFT_SCOPE(x, "bn") {
        in[1] = weft_parameter(x, "weight", 1, (int64_t[]){3}, (weft_init){0});
        in[2] = weft_parameter(x, "bias", 1, (int64_t[]){3}, (weft_init){0});
    }
    weft_value *loss = weft_sum(weft_mul(y, k), WEFT_ALL, false);
    weft_gradients(weft_add(loss, weft_sum(weft_square(mean), WEFT_ALL, false)), 5, in, gradient);
    weft_output(y, "y");
    for (int i = 0; i < 5; i++) weft_output(gradient[i], names[i]);
    if (options) weft_model_set_ddp(m, "bn", options);
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return m;
}

/* What the ranks of a world add up to when all have the same. */
static int add_ranks(weft_graph *g, double ranks) {
    int count = 0;
    for (weft_node *n = g->first, *next; n; n = next) {
        next = n->next;
        if (n->op != &weft_op_sum_ranks) continue;
        g->cursor = n;
        graph_replace(g, &n->out[0], weft_scale(n->in[0], ranks));
        g->cursor = NULL;
        node_remove(n);
        count++;
    }
    return count;
}

static void fill(const tensor *t, test_random *r, double low, double high) {
    for (int64_t i = 0; i < type_elements(&t->type); i++) tensor_set(t, i, random_in(r, low, high));
}

/* Outputs one after the other, then the running statistics; how many. */
static int answers(bool is_image, bool is_synced, int world, double *list) {
    weft_error error = {0};
    int count = 0;
    weft_model *m = probe(is_image, &(weft_ddp_options){.sync_batch_norm = is_synced});
    weft_plan *plan = weft_compile(
        m, &(weft_compile_options){.world = world, .stop_after = "autodiff", .verify = true}, &error);
    weft_model_free(m);
    if (!CHECK_SAYS(plan != NULL, "%s", error.text)) return 0;
    weft_graph *g = plan->programs[0].graph;
    CHECK(add_ranks(g, world) == (is_synced ? 4 : 0));
    evaluation *e = evaluate_new(g, true);
    test_random r = {3};
    for (const weft_node *n = g->first; n; n = n->next) {
        tensor t = evaluate_tensor(e, &n->out[0]);
        if (n->op == &weft_op_input) fill(&t, &r, -1, 2);
    }
    for (const weft_variable *v = g->model->variables; v; v = v->next) {
        tensor t = evaluate_variable(e, v);
        fill(&t, &r, 0, v->kind == VARIABLE_STATE ? 0 : 2);
    }
    CHECK_SAYS(evaluate_run(e, NULL, &error) == WEFT_OK, "%s", error.text);
    for (const graph_output *o = g->outputs; o; o = o->next)
        for (int64_t i = 0; i < type_elements(&o->value->type); i++)
            list[count++] = evaluate_get(e, o->value, i);
    for (const weft_variable *v = g->model->variables; v; v = v->next) {
        tensor t = evaluate_variable(e, v);
        for (int64_t i = 0; i < 3 && v->kind == VARIABLE_STATE; i++) list[count++] = tensor_get(&t, i);
    }
    evaluate_free(e);
    weft_plan_free(plan);
    return count;
}

TEST(gradients_of_the_composition_are_those_of_batch_norm) {
    for (int is_image = 0; is_image < 2; is_image++) {
        double op[4 * PROBE] = {0}, composed[4 * PROBE] = {0};
        int n = answers(is_image, false, 2, op), variances = n - 3;
        CHECK(n == 3 * PROBE + 3 * 3 + 6 && answers(is_image, true, 2, composed) == n);
        for (int i = 0; i < variances; i++)
            CHECK_SAYS(fabs(op[i] - composed[i]) < 1e-9, "%d: %.12g by the op, %.12g composed", i, op[i],
                       composed[i]);
        for (int i = variances; i < n;
             i++) /* they began at 0: unbiased over 16 values a channel, and over 32 */
            CHECK(fabs(op[i] * 30 / 31 - composed[i]) < 1e-9);
    }
}

SUITE("sync_norm",
      {T(ranks_that_split_a_batch_train_as_one_with_the_whole),
       T(each_micro_batch_has_statistics_of_its_own_over_all_ranks),
       T(each_process_group_has_statistics_of_its_own),
       T(without_the_option_ranks_have_statistics_of_their_own), T(the_bits_do_not_depend_on_buckets_or_zero),
       T(a_plan_has_two_sums_forward_and_two_backward_for_each_layer_that_asks),
       T(gradients_of_the_composition_are_those_of_batch_norm)})
