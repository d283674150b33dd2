/* test_optimizers.c - every optimizer, by name: 100 steps in f64 equal PyTorch's or those of a NumPy
 * reference (tests/golden/make_optimizers.py, which reads the rows below); and in f32, over buckets: w ranks
 * with any sharding train to the bits of one, a saved state continues to the bit, and a step that f16 skips
 * changes nothing. */
#include "ops/cpu/isa.h"
#include "graph/settings/minimize.h"
#include "ops/catalog/catalog.h"
#include "ops/kit/ops.h"
#include "ops/optimizer/update.h"
#include "runtime/store/store.h"
#include "support/world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Settings, and what make_optimizers.py evaluates for them. */
/* clang-format off */
#define ROWS(X) \
    X("sgd", "", "torch.optim.SGD(p, lr=0.05)", {.type = "SGD", .lr = 0.05}) \
    X("sgd", "momentum", "torch.optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.1, weight_decay=0.01)", {.type = "sgd", .lr = 0.05, .momentum = 0.9, .dampening = 0.1, .weight_decay = 0.01}) \
    X("adam", "", "torch.optim.Adam(p, lr=0.01)", {.type = "Adam", .lr = 0.01}) \
    X("adam", "amsgrad", "torch.optim.Adam(p, lr=0.01, amsgrad=True, weight_decay=0.01)", {.type = "adam", .lr = 0.01, .amsgrad = true, .weight_decay = 0.01}) \
    X("adamw", "", "torch.optim.AdamW(p, lr=0.01)", {.type = "AdamW", .lr = 0.01}) \
    X("adamw", "amsgrad", "torch.optim.AdamW(p, lr=0.01, betas=(0.8, 0.99), amsgrad=True)", {.type = "adamw", .lr = 0.01, .beta1 = 0.8, .beta2 = 0.99, .amsgrad = true}) \
    X("amsgrad", "", "torch.optim.Adam(p, amsgrad=True)", {.type = "amsgrad"}) \
    X("asgd", "", "torch.optim.ASGD(p)", {.type = "ASGD"}) \
    X("asgd", "averaging", "torch.optim.ASGD(p, lr=0.05, lambd=0.01, alpha=0.6, t0=20, weight_decay=0.01)", {.type = "asgd", .lr = 0.05, .lambd = 0.01, .alpha = 0.6, .t0 = 20, .weight_decay = 0.01}) \
    X("rprop", "", "torch.optim.Rprop(p)", {.type = "Rprop"}) \
    X("rprop", "etas", "torch.optim.Rprop(p, lr=0.02, etas=(0.4, 1.3), step_sizes=(1e-3, 0.2))", {.type = "rprop", .lr = 0.02, .eta_minus = 0.4, .eta_plus = 1.3, .step_min = 1e-3, .step_max = 0.2}) \
    X("rmsprop", "", "torch.optim.RMSprop(p)", {.type = "RMSprop"}) \
    X("rmsprop", "momentum", "torch.optim.RMSprop(p, alpha=0.9, momentum=0.9, eps=1e-6)", {.type = "rmsprop", .alpha = 0.9, .momentum = 0.9, .eps = 1e-6}) \
    X("rmsprop", "centered", "torch.optim.RMSprop(p, momentum=0.8, centered=True, weight_decay=0.01)", {.type = "rmsprop", .momentum = 0.8, .centered = true, .weight_decay = 0.01}) \
    X("adagrad", "", "torch.optim.Adagrad(p)", {.type = "Adagrad"}) \
    X("adagrad", "decay", "torch.optim.Adagrad(p, lr=0.1, lr_decay=0.01, initial_accumulator_value=0.1, weight_decay=0.01)", {.type = "adagrad", .lr = 0.1, .lr_decay = 0.01, .initial_accumulator = 0.1, .weight_decay = 0.01}) \
    X("adadelta", "", "torch.optim.Adadelta(p)", {.type = "Adadelta"}) \
    X("adadelta", "rho", "torch.optim.Adadelta(p, lr=0.5, rho=0.8, eps=1e-4, weight_decay=0.01)", {.type = "adadelta", .lr = 0.5, .rho = 0.8, .eps = 1e-4, .weight_decay = 0.01}) \
    X("adafactor", "", "torch.optim.Adafactor(p, eps=(2**-23, 1e-3))", {.type = "Adafactor"}) \
    X("adafactor", "numbers", "torch.optim.Adafactor(p, lr=0.05, beta2_decay=-0.6, eps=(1e-4, 0.1), d=1.5, weight_decay=0.01)", {.type = "adafactor", .lr = 0.05, .beta2_decay = 0.6, .eps = 1e-4, .eps2 = 0.1, .update_rms = 1.5, .weight_decay = 0.01}) \
    X("adamax", "", "torch.optim.Adamax(p)", {.type = "Adamax"}) \
    X("adamax", "betas", "torch.optim.Adamax(p, betas=(0.8, 0.9), eps=1e-4, weight_decay=0.01)", {.type = "adamax", .beta1 = 0.8, .beta2 = 0.9, .eps = 1e-4, .weight_decay = 0.01}) \
    X("nadam", "", "torch.optim.NAdam(p)", {.type = "NAdam"}) \
    X("nadam", "decay", "torch.optim.NAdam(p, lr=0.01, weight_decay=0.1, momentum_decay=0.02)", {.type = "nadam", .lr = 0.01, .weight_decay = 0.1, .momentum_decay = 0.02}) \
    X("nadam", "decoupled", "torch.optim.NAdam(p, weight_decay=0.1, decoupled_weight_decay=True)", {.type = "nadam", .weight_decay = 0.1, .decoupled_weight_decay = true}) \
    X("radam", "", "torch.optim.RAdam(p)", {.type = "RAdam"}) \
    X("radam", "decay", "torch.optim.RAdam(p, lr=0.01, betas=(0.9, 0.9), weight_decay=0.1)", {.type = "radam", .lr = 0.01, .beta2 = 0.9, .weight_decay = 0.1}) \
    X("radam", "decoupled", "torch.optim.RAdam(p, weight_decay=0.1, decoupled_weight_decay=True)", {.type = "radam", .weight_decay = 0.1, .decoupled_weight_decay = true}) \
    X("lamb", "", "Lamb(p, lr=0.01)", {.type = "lamb", .lr = 0.01}) \
    X("lamb", "decay", "Lamb(p, lr=0.01, weight_decay=0.1, beta1=0.8)", {.type = "LAMB", .lr = 0.01, .weight_decay = 0.1, .beta1 = 0.8}) \
    X("lars", "", "Lars(p, lr=0.5)", {.type = "lars", .lr = 0.5}) \
    X("lars", "momentum", "Lars(p, lr=0.5, momentum=0.9, weight_decay=0.01, trust=0.02)", {.type = "LARS", .lr = 0.5, .momentum = 0.9, .weight_decay = 0.01, .trust = 0.02}) \
    X("lion", "", "Lion(p)", {.type = "lion"}) \
    X("lion", "decay", "Lion(p, lr=0.01, weight_decay=0.1, beta2=0.9)", {.type = "Lion", .lr = 0.01, .weight_decay = 0.1, .beta2 = 0.9}) \
    X("muon", "", "Muon(p)", {.type = "Muon"}) \
    X("muon", "momentum", "Muon(p, lr=0.02, momentum=0.8, weight_decay=0.01)", {.type = "muon", .lr = 0.02, .momentum = 0.8, .weight_decay = 0.01})
/* clang-format on */

typedef struct row {
    const char *type, *what;
    weft_optimizer optimizer;
} row;
#define X(type, what, torch, ...) {type, what, __VA_ARGS__},
static const row rows[] = {ROWS(X)};
#undef X
enum { N_ROWS = sizeof rows / sizeof *rows };

static const optimizer_kind *kind_of(const row *r) {
    int i = 0;
    while (strcmp(optimizer_kinds[i]->type, r->type)) i++;
    return optimizer_kinds[i];
}

TEST(every_optimizer_has_a_row) {
    for (int i = 0; optimizer_kinds[i]; i++) {
        int count = optimizer_kinds[i]->follows; /* test_moving_mean.c */
        for (int k = 0; k < N_ROWS; k++) count += strcmp(rows[k].type, optimizer_kinds[i]->type) == 0;
        CHECK_SAYS(count > 0, "%s has no row", optimizer_kinds[i]->type);
    }
}

/* ---- curves in f64 ---- */

enum { PARTS = 3, LINE = 2 /* the last is of one axis */, ELEMENTS = 6, CURVE_STEPS = 100, POINTS = 5 };
static const int64_t part_shape[PARTS][2] = {{3, 2}, {2, 3}, {1, 6}};
static const int points[POINTS] = {1, 2, 5, 50, 100};

/* By row, point and part: the parameters of make_optimizers.py. */
static const double golden[N_ROWS][POINTS][PARTS][ELEMENTS] = {
#include "golden/optimizers.h"
};

static double start_of(int part, int i) {
    return 0.5 * (i + 1) * (i % 2 ? -1 : 1) / (part + 1);
}

/* The gradient of a curved valley whose floor moves. */
static double slope_of(int part, int i, int step, double p) {
    return (0.2 + 0.3 * i) * (p - 0.1 * part) + 0.4 * sin(0.7 * step * (i + 1) + part);
}

/* The settings that weft_minimize makes of the row. */
static minimize_attrs attrs_of(weft_model *m, const weft_optimizer *o) {
    weft_graph *g = weft_graph_new(m, "settings", WEFT_TRAIN);
    weft_value *w = weft_parameter_in(g, "w", 2, (int64_t[]){2, 2}, (weft_init){WEFT_INIT_ONES});
    weft_minimize(weft_mean(w, WEFT_ALL, false), "", o);
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return g->last ? *(minimize_attrs *)g->last->attrs : (minimize_attrs){0};
}

/* One parameter and its state, in f64. */
typedef struct curve {
    const optimizer_kind *kind;
    minimize_attrs a;
    weft_plan *plan;
    weft_store *store;
    weft_session *session;
    tensor_type type; /* of the parameter */
    double p[ELEMENTS], g[ELEMENTS], slots[OPTIMIZER_SLOTS][ELEMENTS], product;
    weft_error error;
} curve;

static weft_value *input(weft_graph *g, const char *name, int ndim, const int64_t *shape) {
    return weft_input(g, name, WEFT_F64, ndim, shape);
}

/* The type of slot i of the parameter; false: it has none. */
static bool slot_of(const curve *c, int i, tensor_type *type) {
    return optimizer_has_slot(&c->a, c->kind, i) &&
           optimizer_slot_type(c->kind->slots[i].shape, &c->type, type);
}

/* A graph of the step alone: inputs to outputs. */
static weft_model *step_model(const curve *c) {
    static const char *const names[] = {"s0", "s1", "s2", "s3"}, *const outs[] = {"o0", "o1", "o2", "o3"};
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "step", WEFT_EVAL);
    tensor_type type = c->type;
    weft_update u = {.parameter = input(g, "p", type.ndim, type.shape),
                     .gradient = input(g, "g", type.ndim, type.shape)};
    u.lr = input(g, "lr", 0, NULL);
    u.step = input(g, "t", 0, NULL);
    u.weight_decay = weft_constant(g, WEFT_F64, 0, NULL, c->a.weight_decay);
    if (c->kind->has_product) {
        u.numbers[0] = weft_mul(input(g, "product", 0, NULL), update_product(u.step, NULL, &c->a));
        weft_output(u.numbers[0], "product");
    }
    for (int i = 0; i < OPTIMIZER_SLOTS; i++)
        if (slot_of(c, i, &type)) u.slots[i] = input(g, names[i], type.ndim, type.shape);
    optimizer_build(c->kind, &u, &c->a);
    weft_output(u.parameter, "p");
    for (int i = 0; i < OPTIMIZER_SLOTS; i++)
        if (u.slots[i]) weft_output(u.slots[i], outs[i]);
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return m;
}

static bool curve_open(curve *c) {
    weft_model *m = step_model(c);
    c->plan = weft_compile(m, &(weft_compile_options){.isa = WEFT_ISA_REFERENCE}, &c->error);
    c->store = c->plan ? weft_store_new(c->plan, 1, &c->error) : NULL;
    c->session = c->store ? weft_session_open(c->plan, c->store, &c->error) : NULL;
    weft_model_free(m);
    return CHECK_SAYS(c->session != NULL, "%s: %s", c->kind->type, c->error.text);
}

static void curve_close(curve *c) {
    weft_session_close(c->session);
    weft_store_free(c->store);
    weft_plan_free(c->plan);
}

static void built_step(curve *c, double lr, double t) {
    static const char *const names[] = {"s0", "s1", "s2", "s3"}, *const outs[] = {"o0", "o1", "o2", "o3"};
    weft_feed feeds[5 + OPTIMIZER_SLOTS] = {
        {"p", c->p, sizeof c->p}, {"g", c->g, sizeof c->g}, {"lr", &lr, sizeof lr}, {"t", &t, sizeof t}};
    weft_fetch fetches[2 + OPTIMIZER_SLOTS] = {{"p", c->p, sizeof c->p}};
    int n_feeds = 4, n_fetches = 1;
    tensor_type type;
    for (int i = 0; i < OPTIMIZER_SLOTS; i++)
        if (slot_of(c, i, &type)) {
            feeds[n_feeds++] = (weft_feed){names[i], c->slots[i], type_bytes(&type)};
            fetches[n_fetches++] = (weft_fetch){outs[i], c->slots[i], type_bytes(&type)};
        }
    if (c->kind->has_product) {
        feeds[n_feeds++] = (weft_feed){"product", &c->product, sizeof c->product};
        fetches[n_fetches++] = (weft_fetch){"product", &c->product, sizeof c->product};
    }
    weft_run(c->session, "step", feeds, n_feeds, fetches, n_fetches, &c->error);
}

/* sgd and adam have ops, which are run on f64 buffers. */
static void op_step(curve *c, double lr, double t) {
    const optimizer_kind *k = c->kind;
    const tensor_type flat = type_of(WEFT_F64, 1, (int64_t[]){ELEMENTS}), number = type_scalar(WEFT_F64);
    union {
        sgd_update_attrs sgd;
        adam_update_attrs adam;
    } attrs;
    tensor in[7] = {{c->p, flat, {1}}, {c->g, flat, {1}}}, out = {c->p, flat, {1}};
    int n = 2;
    bool is_sgd = strcmp(k->update->name, "sgd_update") == 0;
    for (int i = 0; i < (is_sgd ? 1 : 2); i++)
        in[n++] = optimizer_has_slot(&c->a, k, i) ? (tensor){c->slots[i], flat, {1}} : (tensor){0};
    in[n++] = (tensor){&lr, number, {0}};
    in[n++] = (tensor){&t, number, {0}};
    if (is_sgd)
        attrs.sgd = (sgd_update_attrs){1, c->a.momentum, c->a.dampening, c->a.weight_decay, c->a.nesterov};
    else
        attrs.adam =
            (adam_update_attrs){1, c->a.beta1, c->a.beta2, c->a.eps, c->a.weight_decay, k->sets.name != NULL};
    k->update->reference(&(kernel_call){.attrs = &attrs, .n_in = n, .n_out = 1, .in = in, .out = &out});
}

static void check_point(const curve *c, const row *r, int point, int part) {
    for (int i = 0; i < ELEMENTS; i++) {
        double want = golden[r - rows][point][part][i], off = fabs(c->p[i] - want);
        CHECK_SAYS(off <= 1e-9 * fmax(fabs(want), 1e-3),
                   "%s %s: step %d, part %d, element %d: %.17g, not %.17g", r->type, r->what, points[point],
                   part, i, c->p[i], want);
    }
}

static void check_curve(const row *r, int part) {
    weft_model *m = weft_model_new("settings");
    curve c = {.a = attrs_of(m, &r->optimizer), .product = 1};
    c.kind = optimizer_find(m, c.a.type);
    c.type = type_of(WEFT_F64, 2, part_shape[part]);
    if (part == LINE && !c.kind->is_for_matrices) c.type = type_of(WEFT_F64, 1, &part_shape[part][1]);
    bool is_built = optimizer_is_built(&c.a, c.kind);
    for (int i = 0; i < ELEMENTS; i++) {
        c.p[i] = start_of(part, i);
        for (int s = 0; s < OPTIMIZER_SLOTS; s++)
            if (c.kind->slots[s].initial_from)
                c.slots[s][i] = *(double *)((char *)&c.a + c.kind->slots[s].initial_from);
    }
    bool good = !is_built || curve_open(&c);
    for (int t = 1, point = 0; good && t <= CURVE_STEPS; t++) {
        for (int i = 0; i < ELEMENTS; i++) c.g[i] = slope_of(part, i, t, c.p[i]);
        (is_built ? built_step : op_step)(&c, c.a.lr, t);
        if (!CHECK_SAYS(!c.error.status, "%s", c.error.text)) break;
        if (point < POINTS && t == points[point]) check_point(&c, r, point++, part);
    }
    if (is_built) curve_close(&c);
    weft_model_free(m);
}

TEST(a_hundred_steps_in_f64_are_those_of_pytorch) {
    for (int i = 0; i < N_ROWS; i++)
        for (int part = 0; part < PARTS; part++) check_curve(&rows[i], part);
}

/* ---- over buckets, in f32 ---- */

/* Matrices and lines of several sizes; matrices alone where the optimizer refuses lines. */
static weft_model *net_of(const weft_optimizer *o) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, 2, (int64_t[]){4, 16}), *y = x;
    WEFT_SCOPE(x, "net") {
        y = weft_tanh(weft_linear(y, 300, "a", NULL));
        y = weft_tanh(weft_linear(y, 33, "b", NULL));
        y = weft_linear(y, 5, "c", NULL);
    }
    weft_value *loss = weft_mean(weft_square(y), WEFT_ALL, false);
    const optimizer_kind *kind = optimizer_spelt(m, o->type);
    if (kind && kind->is_for_matrices) weft_freeze(m, "*bias");
    weft_minimize(loss, "", o);
    weft_output(loss, "loss");
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s: %s", o->type, weft_model_error(m)->text);
    return m;
}

/* The elements of a state of torch.optim.Adafactor, and how often there is such a state. */
static int64_t elements_of(const weft_store *s, const char *slot, int *count) {
    const store_part *p;
    int64_t sum = 0;
    *count = 0;
    for (int i = 0; (p = store_part_at(s, i)); i++) {
        const char *name = strrchr(p->path, '/');
        if (strncmp(p->path, "optimizer.", 10) || !name || strcmp(name + 1, slot)) continue;
        *count += 1;
        sum += p->end - p->begin;
    }
    return sum;
}

/* The net's weights are [300, 16], [33, 300] and [5, 33]. On each rank the plan's memory is what its store
 * has: what it keeps of a parameter begins at 64 bytes, and so do the numbers `step` and `lr`. */
TEST(adafactor_keeps_a_number_for_each_row_and_column) {
    weft_model *m = net_of(&(weft_optimizer){.type = "adafactor"});
    int64_t rows_of = 0, columns = 0, lines = 0;
    int n;
    for (int rank = 0; rank < 3; rank++) { /* one alone, then two with ZeRO */
        weft_error e = {0};
        weft_plan *plan = weft_compile(
            m,
            &(weft_compile_options){.world = rank ? 2 : 1, .rank = rank ? rank - 1 : 0, .zero = rank ? 1 : 0},
            &e);
        weft_store *s = plan ? weft_store_new(plan, 1, &e) : NULL;
        CHECK_SAYS(s != NULL, "%s", e.text);
        int64_t r = elements_of(s, "row_var", &n), c = elements_of(s, "col_var", &n);
        int64_t v = elements_of(s, "variance", &n);
        CHECK(n == 3); /* the biases */
        int64_t least = 4 * (r + c + v), got = (int64_t)weft_plan_memory(plan).optimizer;
        CHECK_SAYS(got >= least && got <= least + 64 * (9 + 2), "rank %d: %lld bytes of state, not %lld",
                   rank, (long long)got, (long long)least);
        if (!rank) CHECK(r == 300 + 33 + 5 && c == 16 + 300 + 33 && v == 300 + 33 + 5);
        if (rank) rows_of += r, columns += c, lines += v;
        weft_store_free(s);
        weft_plan_free(plan);
    }
    CHECK(rows_of == 300 + 33 + 5 && columns == 16 + 300 + 33 && lines == 300 + 33 + 5);
    weft_model_free(m);
}

/* Each buffer of a bucket is read once: what an update makes of them is one node. */
TEST(an_update_is_one_fused_node) {
    static const char *const types[] = {"rmsprop", "nadam", "rprop", "adadelta",
                                        "adamax",  "radam", "asgd",  "adagrad"};
    if (isa_best() == WEFT_ISA_REFERENCE) return; /* no kernel of this processor is fused */
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        weft_error e = {0};
        weft_model *m = weft_model_new("m");
        weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
        weft_value *p = weft_parameter_in(g, "p", 1, (int64_t[]){777}, (weft_init){WEFT_INIT_ONES});
        weft_minimize(weft_sum(weft_square(p), WEFT_ALL, false), "",
                      &(weft_optimizer){.type = types[i], .momentum = i ? 0 : 0.9});
        weft_plan *plan = weft_compile(m, &(weft_compile_options){.verify = true}, &e);
        int nodes = 0;
        for (const weft_node *n = plan ? plan->programs[0].graph->first : NULL; n; n = n->next) {
            bool computes = n->op == &weft_op_fused || n->op->flags & OP_POINTWISE;
            nodes += n->is_update && computes && n->out[0].type.ndim == 1;
        }
        CHECK_SAYS(nodes == 1, "%s: %d nodes: %s", types[i], nodes, e.text);
        weft_plan_free(plan);
        weft_model_free(m);
    }
}

/* Whether any range of a bucket can be updated alone. */
static bool is_flat(const row *r) {
    weft_model *m = weft_model_new("settings");
    minimize_attrs a = attrs_of(m, &r->optimizer);
    bool answer = false;
    CHECK(optimizer_is_elementwise(m, optimizer_find(m, a.type), &a, &answer));
    weft_model_free(m);
    return answer;
}

static void check_worlds(const row *r, const weft_optimizer *o) {
    static const struct {
        int zero;
        weft_shard shard;
    } kinds[] = {{0, WEFT_SHARD_GREEDY},
                 {1, WEFT_SHARD_GREEDY},
                 {2, WEFT_SHARD_GREEDY},
                 {1, WEFT_SHARD_FLAT},
                 {2, WEFT_SHARD_FLAT}};
    weft_model *m = net_of(o);
    world_job one = {.model = m, .steps = 5};
    char what[100];
    one.options = (weft_compile_options){.accumulate = 2, .bucket_cap_mb = 0.01};
    world_rank *alone = world_run(&one);
    for (size_t k = 0; k < (is_flat(r) ? 5 : 3); k++) {
        world_job many = one;
        many.options = (weft_compile_options){.world = 2,
                                              .zero = kinds[k].zero,
                                              .shard = kinds[k].shard,
                                              .bucket_cap_mb = 0.01,
                                              .verify = true};
        world_rank *ranks = world_run(&many);
        snprintf(what, sizeof what, "%s %s zero=%d shard=%d", r->type, r->what, kinds[k].zero,
                 kinds[k].shard);
        world_check(alone, ranks, 2, world_trained, what);
        world_free(ranks);
    }
    world_free(alone);
    weft_model_free(m);
}

TEST(ranks_train_to_the_bits_of_one_however_state_is_sharded) {
    static const weft_param_group bias = {"*bias", 0.5, WEFT_ZERO};
    for (int i = 0; i < N_ROWS; i++) {
        weft_optimizer o = rows[i].optimizer;
        const optimizer_kind *kind = kind_of(&rows[i]);
        if (i % 2) o.clip_norm = 0.05, o.ema = 0.9;
        if (o.weight_decay > 0 && !kind->is_for_matrices) o.n_groups = 1, o.groups = &bias;
        check_worlds(&rows[i], &o);
    }
}

/* ---- a session of one rank ---- */

typedef struct trainer {
    weft_plan *plan;
    weft_store *store;
    weft_session *session;
    weft_error error;
} trainer;

static trainer trainer_open(const weft_model *m, weft_dtype precision) {
    trainer t = {0};
    t.plan = weft_compile(
        m, &(weft_compile_options){.precision = precision, .bucket_cap_mb = 0.01, .verify = true}, &t.error);
    t.store = t.plan ? weft_store_new(t.plan, 1, &t.error) : NULL;
    t.session = t.store ? weft_session_open(t.plan, t.store, &t.error) : NULL;
    CHECK_SAYS(t.session != NULL, "%s", t.error.text);
    return t;
}

static void trainer_close(trainer *t) {
    weft_session_close(t->session);
    weft_store_free(t->store);
    weft_plan_free(t->plan);
}

/* Steps [from, to); step `bad` has an input that overflows in f16. */
static void train(trainer *t, int from, int to, int bad) {
    float x[4 * 16];
    for (int step = from; step < to; step++) {
        test_random r = {(uint64_t)step};
        for (int i = 0; i < 4 * 16; i++) x[i] = (float)random_in(&r, -1, 1);
        if (step == bad) x[3] = 1e6f;
        weft_run(t->session, "step", (weft_feed[]){{"x", x, sizeof x}}, 1, NULL, 0, &t->error);
        weft_sync(t->session, &t->error);
        CHECK_SAYS(!t->error.status, "%s", t->error.text);
    }
}

/* Whether a store has the bits of another, apart from the scale's two numbers where is_scaled. */
static bool same_bits(const weft_store *a, const weft_store *b, bool is_scaled, const char **where) {
    for (int i = 0; store_part_at(a, i); i++) {
        const store_part *p = store_part_at(a, i), *q = store_part_at(b, i);
        *where = p->path;
        if (is_scaled && (strstr(p->path, "loss_scale") || strstr(p->path, "good_steps"))) continue;
        size_t bytes = (size_t)(p->end - p->begin) * dtype_bytes(p->type.dtype);
        if (!q || strcmp(p->path, q->path) || memcmp(p->memory, q->memory, bytes)) return false;
    }
    return true;
}

static void save(const trainer *t, char path[]) {
    weft_error e = {0};
    strcpy(path, "/tmp/weft_optimizers_XXXXXX");
    int file = mkstemp(path);
    if (CHECK(file >= 0)) close(file);
    CHECK_SAYS(weft_weights_save(t->store, path, true, &e) == WEFT_OK, "%s", e.text);
}

/* Four steps, and two steps saved and loaded into another store, then two: the bits are the same. */
TEST(a_saved_state_goes_on_to_the_bit) {
    for (int i = 0; i < N_ROWS; i++) {
        char path[40];
        const char *where = "";
        weft_optimizer o = rows[i].optimizer;
        o.ema = 0.9;
        weft_model *m = net_of(&o);
        trainer one = trainer_open(m, WEFT_F32), two = trainer_open(m, WEFT_F32);
        train(&one, 0, 2, -1);
        save(&one, path);
        train(&one, 2, 4, -1);
        CHECK_SAYS(weft_weights_load(two.store, path, NULL, NULL, &two.error) == WEFT_OK, "%s",
                   two.error.text);
        train(&two, 2, 4, -1);
        bool is_same = same_bits(one.store, two.store, false, &where);
        CHECK_SAYS(is_same, "%s %s: %s", rows[i].type, rows[i].what, where);
        unlink(path);
        trainer_close(&one);
        trainer_close(&two);
        weft_model_free(m);
    }
}

TEST(a_step_that_f16_skips_changes_nothing) {
    for (int i = 0; i < N_ROWS; i++) {
        char path[40];
        const char *where = "";
        weft_optimizer o = rows[i].optimizer;
        o.ema = 0.9;
        weft_model *m = net_of(&o);
        trainer one = trainer_open(m, WEFT_F16), two = trainer_open(m, WEFT_F16);
        train(&one, 0, 2, -1);
        save(&one, path);
        train(&one, 2, 3, 2);
        CHECK_SAYS(weft_weights_load(two.store, path, NULL, NULL, &two.error) == WEFT_OK, "%s",
                   two.error.text);
        bool is_same = same_bits(one.store, two.store, true, &where);
        CHECK_SAYS(is_same, "%s %s: %s", rows[i].type, rows[i].what, where);
        train(&one, 3, 4, -1);
        is_same = same_bits(one.store, two.store, true, &where);
        CHECK_SAYS(!is_same, "%s %s: no step was done", rows[i].type, rows[i].what);
        unlink(path);
        trainer_close(&one);
        trainer_close(&two);
        weft_model_free(m);
    }
}

/* Parameters of rate 0 stay as they are, whatever the optimizer. */
TEST(a_group_without_a_rate_does_not_move) {
    static const weft_param_group still = {"*b/weight", .lr_scale = WEFT_ZERO};
    for (int i = 0; i < N_ROWS; i++) {
        float first[300 * 33], last[300 * 33];
        weft_optimizer o = rows[i].optimizer;
        o.n_groups = 1, o.groups = &still;
        weft_model *m = net_of(&o);
        trainer t = trainer_open(m, WEFT_F32);
        weft_store_get(t.store, "net/b/weight", first, sizeof first, &t.error);
        train(&t, 0, 3, -1);
        weft_store_get(t.store, "net/b/weight", last, sizeof last, &t.error);
        CHECK_SAYS(!memcmp(first, last, sizeof first), "%s %s: %s", rows[i].type, rows[i].what, t.error.text);
        trainer_close(&t);
        weft_model_free(m);
    }
}

/* ---- what is refused ---- */

TEST(flat_shards_are_refused_where_an_update_is_not_element_by_element) {
    for (int i = 0; i < N_ROWS; i++) {
        weft_error e = {0};
        weft_model *m = net_of(&rows[i].optimizer);
        weft_plan *plan =
            weft_compile(m, &(weft_compile_options){.world = 2, .zero = 1, .shard = WEFT_SHARD_FLAT}, &e);
        bool is_by_parameter = strstr("lamb lars muon adafactor", rows[i].type) != NULL;
        CHECK_SAYS(is_by_parameter == !plan, "%s: %s", rows[i].type, e.text);
        if (is_by_parameter) CHECK_HOLDS(e.text, "has shard=flat, which cuts parameters, but the update of");
        weft_plan_free(plan);
        weft_model_free(m);
    }
}

/* Whether parameters and what an optimizer keeps for them have the same bits in both stores; numbers such as
 * the step are left out, as a schedule may have more. */
static bool same_state(const weft_store *a, const weft_store *b, const char **where) {
    for (int i = 0; store_part_at(a, i); i++) {
        const store_part *p = store_part_at(a, i);
        const store_part *q = store_part_of(b, p->path);
        if (!p->type.ndim) continue;
        *where = p->path;
        if (!q || memcmp(p->memory, q->memory, (size_t)(p->end - p->begin) * dtype_bytes(p->type.dtype)))
            return false;
    }
    return true;
}

/* A schedule whose factor is 1 at each step trains to the bits of none, over several buckets. Reference
 * kernels multiply by an attribute in f64, and by an operand in its type. */
static void check_factor_one(const row *r, const char *schedule) {
    const char *where = "";
    if (isa_best() == WEFT_ISA_REFERENCE) return;
    weft_error e = {0};
    weft_optimizer o = r->optimizer, scheduled = o;
    CHECK_SAYS(weft_schedule_text(schedule, scheduled.schedule, &e) == WEFT_OK, "%s", e.text);
    weft_model *m = net_of(&o), *other = net_of(&scheduled);
    trainer plain = trainer_open(m, WEFT_F32), t = trainer_open(other, WEFT_F32);
    if (plain.session && t.session) {
        train(&plain, 0, 4, -1);
        train(&t, 0, 4, -1);
        CHECK_SAYS(same_state(plain.store, t.store, &where), "%s %s %s: %s", r->type, r->what, schedule,
                   where);
    }
    trainer_close(&plain), trainer_close(&t);
    weft_model_free(m), weft_model_free(other);
}

TEST(a_schedule_of_factor_one_changes_no_bit) {
    int decays = 0, momenta = 0;
    for (int i = 0; i < N_ROWS; i++) {
        const weft_optimizer *o = &rows[i].optimizer;
        bool has_rate = strcmp(rows[i].type, "rprop") != 0; /* it reads the rate at its first step alone */
        if (has_rate) check_factor_one(&rows[i], "constant,from=1");
        if (o->weight_decay > 0) check_factor_one(&rows[i], "constant,from=1,of=weight_decay"), decays++;
        if (o->momentum > 0) check_factor_one(&rows[i], "constant,from=1,of=momentum"), momenta++;
    }
    CHECK_SAYS(decays > 10 && momenta > 4, "%d, %d", decays, momenta);
}

SUITE("optimizers",
      {T(a_schedule_of_factor_one_changes_no_bit), T(every_optimizer_has_a_row),
       T(an_update_is_one_fused_node), T(adafactor_keeps_a_number_for_each_row_and_column),
       T(a_hundred_steps_in_f64_are_those_of_pytorch),
       T(ranks_train_to_the_bits_of_one_however_state_is_sharded), T(a_saved_state_goes_on_to_the_bit),
       T(a_step_that_f16_skips_changes_nothing), T(a_group_without_a_rate_does_not_move),
       T(flat_shards_are_refused_where_an_update_is_not_element_by_element)})
