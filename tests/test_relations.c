/* test_relations.c - trainings that must have the same bits: a random model is trained once, and again in a
 * way that changes nothing: on more ranks with fewer micro-batches each, in another ZeRO stage, with other
 * buckets, by manual steps, guarded, from its text or its file, resumed from saved weights in another world.
 * Each loss, each parameter and all of the optimizers' state are compared.
 *
 * Models have one or two training graphs over shared networks of every kind of layer (support/random_net.h),
 * gradient penalties, all of Weft's optimizers with schedules, parameter groups, averages and clipping, in
 * f32, bf16 and f16. A model is `local` if its ranks are not alike: state of each rank's own that a loss
 * reads, norms over ranks, process groups. It is compared with itself in one world alone. */
#include "graph/core/op.h"
#include "support/random_net.h"
#include "support/world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCH = 3, CLASSES = 4, STEPS = 3, NETS = 3, MOST_WORLD = 6 };

/* ---- a model ---- */

typedef struct drawn {
    weft_model *model;
    random_net nets[NETS];
    int n_nets, features; /* features of a vector input */
    uint64_t seed, optimizers;
    bool is_local, is_whole;      /* is_whole: an optimizer that no flat shards can have */
    weft_compile_options options; /* of the training that the others are compared with */
} drawn;

/* What may be scheduled besides the learning rate. */
enum { MOMENTUM = 1, DECAY = 2, NO_LR = 4 };
static const struct {
    weft_optimizer o;
    int scheduled;
    bool is_whole; /* updates are not element by element: no flat shards */
} optimizers[] = {
    {{.type = "sgd", .momentum = 0.9, .weight_decay = 0.01}, MOMENTUM | DECAY, false},
    {{.type = "sgd", .momentum = 0.8, .nesterov = true}, MOMENTUM, false},
    {{.type = "sgd"}, 0, false},
    {{.type = "asgd", .weight_decay = 0.01, .t0 = 1}, DECAY, false},
    {{.type = "rprop"}, NO_LR, false},
    {{.type = "adam", .beta1 = 0.5, .weight_decay = 0.01}, MOMENTUM | DECAY, false},
    {{.type = "adamw"}, MOMENTUM | DECAY, false},
    {{.type = "amsgrad"}, MOMENTUM, false},
    {{.type = "rmsprop", .momentum = 0.9, .centered = true}, MOMENTUM, false},
    {{.type = "adagrad", .lr_decay = 0.1}, 0, false},
    {{.type = "adadelta", .weight_decay = 0.01}, DECAY, false},
    {{.type = "adafactor"}, 0, true},
    {{.type = "adamax"}, MOMENTUM, false},
    {{.type = "nadam"}, MOMENTUM, false},
    {{.type = "radam", .weight_decay = 0.01, .decoupled_weight_decay = true}, DECAY, false},
    {{.type = "lamb", .weight_decay = 0.02}, MOMENTUM | DECAY, true},
    {{.type = "lars", .momentum = 0.9, .weight_decay = 0.02}, MOMENTUM | DECAY, true},
    {{.type = "lion", .weight_decay = 0.01}, MOMENTUM | DECAY, false},
    {{.type = "muon"}, MOMENTUM | DECAY, true},
};
enum { OPTIMIZERS = sizeof optimizers / sizeof *optimizers };

/* Parts of a schedule of what may be scheduled. */
static void draw_schedule(test_random *r, int scheduled, weft_optimizer *o) {
    static const char *const curves[] = {"cosine:0-8",
                                         "linear:0-2,from=0.5",
                                         "step:0-,period=1,gamma=0.5",
                                         "exponential:0-,gamma=0.9",
                                         "constant:0-2",
                                         "multi_step:0-,milestones=1+2",
                                         "cosine:1-8,to=3"};
    static const char *const below_1[] = {"linear:0-3,from=0.5,to=0.9", "constant:0-2,from=0.7"};
    char text[200] = "";
    weft_error e = {0};
    if (!(scheduled & NO_LR) && random_one_in(r, 2)) strcat(text, curves[random_below(r, 7)]);
    if (scheduled & MOMENTUM && random_one_in(r, 3))
        strcat(strcat(strcat(text, " "), below_1[random_below(r, 2)]), ",of=momentum");
    if (scheduled & DECAY && random_one_in(r, 2))
        strcat(strcat(strcat(text, " "), curves[random_below(r, 7)]), ",of=weight_decay");
    if (*text) CHECK_SAYS(!weft_schedule_text(text, o->schedule, &e), "%s: %s", text, e.text);
}

/* The same settings wherever a model names this optimizer. */
static void minimize(drawn *d, weft_value *loss, const char *pattern, const char *name) {
    static const weft_param_group slow = {"*bias", .lr_scale = 2}, some = {"*last*", .from = 1, .to = 2};
    test_random own = {d->optimizers}, *r = &own;
    for (const char *c = name; *c; c++) own.state = random_bits(r) + (unsigned char)*c;
    int row = random_below(r, OPTIMIZERS);
    weft_optimizer o = optimizers[row].o;
    o.name = name;
    o.lr = 0.01;
    draw_schedule(r, optimizers[row].scheduled, &o);
    if (random_one_in(r, 3)) o.clip_norm = 0.5;
    if (random_one_in(r, 6)) o.clip_value = 0.1;
    if (random_one_in(r, 3)) o.ema = 0.9;
    bool has_product = strcmp(o.type, "nadam") == 0; /* of all parameters, so all train in every step */
    if (random_one_in(r, 3)) o.n_groups = 1, o.groups = random_one_in(r, 2) || has_product ? &slow : &some;
    char matrices[60];
    snprintf(matrices, sizeof matrices, "%s*last/weight", pattern);
    if (strcmp(o.type, "muon") == 0) o.n_groups = 0, o.groups = NULL, pattern = matrices;
    weft_minimize(loss, pattern, &o);
    d->is_whole |= optimizers[row].is_whole;
}

static weft_value *input(drawn *d, const char *graph, net_kind kind) {
    static const int64_t shapes[NET_KINDS][4] = {{BATCH, 0}, {BATCH, 4, 5}, {BATCH, 3, 6, 5}};
    int64_t shape[4];
    memcpy(shape, shapes[kind], sizeof shape);
    if (kind == NET_FEATURES) shape[1] = d->features;
    return weft_input(weft_graph_new(d->model, graph, WEFT_TRAIN), "x", WEFT_F32, 2 + (int)kind, shape);
}

/* Of logits [B, CLASSES]. */
static weft_value *loss_of(test_random *r, weft_value *y) {
    weft_graph *g = weft_value_graph(y);
    switch (random_below(r, 4)) {
    case 0:
        return weft_mean(weft_cross_entropy(y, weft_input(g, "label", WEFT_I32, 1, (int64_t[]){BATCH})), 0,
                         NULL, false);
    case 1:
        return weft_mean(weft_bce_with_logits(y, weft_constant(g, WEFT_F32, 0, NULL, random_below(r, 2))), 0,
                         NULL, false);
    case 2:
        return weft_scale(weft_mean(weft_softplus(y, 1, 20), 0, NULL, false), 100);
    default:
        return weft_mean(weft_square(weft_offset(y, -0.5)), 0, NULL, false);
    }
}

/* (|d sum(y) / dx| - 1)^2, as in WGAN-GP. */
static weft_value *penalty(weft_value *y, weft_value *x) {
    weft_value *by = NULL;
    weft_gradients(weft_sum(y, 0, NULL, false), 1, &x, &by);
    weft_value *norms =
        weft_sqrt(weft_offset(weft_sum(weft_square(weft_flatten(by, 1)), WEFT_AXES(1), false), 1e-3));
    return weft_mean(weft_square(weft_offset(norms, -1)), 0, NULL, false);
}

/* A running mean that no graph reads. */
static void watch(weft_value *x) {
    weft_value *s = weft_state(x, "running_size", 0, NULL, (weft_init){WEFT_INIT_ZEROS, 0, 0});
    weft_value *now = weft_mean(weft_abs(x), 0, NULL, false);
    weft_assign(s, weft_add(weft_scale(s, 0.9), weft_scale(now, 0.1)));
}

/* One graph over networks one after the other: trained together, or each by its own loss. */
static void make_chain(test_random *r, drawn *d) {
    static const char *const names[] = {"o0", "o1", "o2"};
    net_kind kind = (net_kind)random_below(r, NET_KINDS);
    d->n_nets = 1 + random_below(r, NETS);
    bool apart = random_one_in(r, 2), is_centered = random_one_in(r, 3);
    weft_value *x = input(d, "step", kind), *sum = NULL;
    if (random_one_in(r, 3)) watch(x);
    static const char *const scopes[] = {"first", "second", "third"};
    for (int i = 0; i < d->n_nets; i++) {
        d->nets[i] = net_draw(r, scopes[i], i ? NET_FEATURES : kind, d->is_local);
        x = net_build(apart ? weft_stop_gradient(x) : x, &d->nets[i], CLASSES);
        if (i == 0 && is_centered) {
            weft_value *batch = weft_mean(x, WEFT_AXES(0), false);
            x = weft_sub(x, weft_moving_mean(batch, 0.8, "center"));
        }
        if (!apart && i + 1 < d->n_nets) continue;
        weft_value *loss = i ? weft_mean(weft_square(x), 0, NULL, false) : loss_of(r, x);
        if (apart) minimize(d, loss, scopes[i], names[i]);
        sum = sum ? weft_add(sum, loss) : loss;
    }
    if (!apart) minimize(d, sum, "", "all");
    weft_output(sum, "loss");
}

/* Two graphs, a generator's and a discriminator's; perhaps with one optimizer. */
static void make_gan(test_random *r, drawn *d) {
    bool one = random_one_in(r, 3), has_penalty = random_one_in(r, 3);
    d->nets[0] = net_draw(r, "generator", NET_FEATURES, d->is_local);
    d->nets[1] = net_draw(r, "discriminator", NET_FEATURES, d->is_local);
    d->n_nets = 2;
    weft_value *x = input(d, "d_step", NET_FEATURES);
    weft_value *z = weft_random_normal(weft_value_graph(x), 2, (int64_t[]){BATCH, d->features}, 0, 1);
    weft_value *fake = weft_stop_gradient(net_build(z, &d->nets[0], d->features));
    weft_value *of_fake = net_build(fake, &d->nets[1], 1), *of_real = net_build(x, &d->nets[1], 1);
    weft_value *loss = weft_add(weft_mean(weft_softplus(of_fake, 1, 20), 0, NULL, false),
                                weft_mean(weft_softplus(weft_neg(of_real), 1, 20), 0, NULL, false));
    if (has_penalty) loss = weft_add(loss, penalty(of_real, x));
    minimize(d, loss, "discriminator", one ? "both" : "d");
    weft_output(loss, "loss");
    x = input(d, "g_step", NET_FEATURES);
    fake = net_build(x, &d->nets[0], d->features);
    loss = weft_scale(weft_mean(net_build(fake, &d->nets[1], 1), 0, NULL, false), -100);
    minimize(d, loss, "generator", one ? "both" : "g");
    weft_output(loss, "loss");
}

/* Two tasks over one trunk. */
static void make_tasks(test_random *r, drawn *d) {
    static const char *const graphs[] = {"task0", "task1"}, *const heads[] = {"head0", "head1"};
    net_kind kind = (net_kind)random_below(r, NET_KINDS);
    bool one = random_one_in(r, 2);
    d->nets[0] = net_draw(r, "trunk", kind, d->is_local);
    d->n_nets = 3;
    for (int i = 0; i < 2; i++) {
        d->nets[1 + i] = net_draw(r, heads[i], NET_FEATURES, d->is_local);
        weft_value *x = input(d, graphs[i], kind), *trunk = net_build(x, &d->nets[0], 5);
        weft_value *loss = loss_of(r, net_build(trunk, &d->nets[1 + i], CLASSES));
        minimize(d, loss, "trunk", one ? "all" : "trunk");
        minimize(d, loss, heads[i], heads[i]);
        weft_output(loss, "loss");
    }
}

/* What makes ranks unlike each other, or sums that are rounded. */
static void draw_local_ddp(test_random *r, drawn *d, int world) {
    const char *name = d->nets[random_below(r, d->n_nets)].name;
    switch (random_below(r, 4)) {
    case 0:
        weft_ddp_text(d->model, name, "sync_batch_norm=1");
        break;
    case 1:
        weft_ddp_text(d->model, name, "bf16_wire=1");
        break;
    case 2:
        weft_ddp_text(d->model, name, "broadcast_buffers=1");
        break;
    default:
        for (int i = 0; i < d->n_nets && world % 2 == 0; i++)
            weft_ddp_text(d->model, d->nets[i].name,
                          world == 2 ? "process_group=0;1" : "process_group=0,2;1,3");
    }
}

static drawn draw(uint64_t number, test_random *r) {
    static const weft_dtype precisions[] = {0, 0, 0, WEFT_BF16, WEFT_F16};
    static const int micros[] = {2, 3, 4, 6};
    drawn d = {.model = weft_model_new("relations"), .seed = number, .features = 4 + random_below(r, 5)};
    d.optimizers = random_bits(r);
    d.is_local = random_one_in(r, 4);
    int world = d.is_local ? (random_one_in(r, 2) ? 2 : 4) : 1;
    switch (random_below(r, 3)) {
    case 0:
        make_chain(r, &d);
        break;
    case 1:
        make_gan(r, &d);
        break;
    default:
        make_tasks(r, &d);
    }
    if (d.is_local && random_one_in(r, 2)) draw_local_ddp(r, &d, world);
    d.options =
        (weft_compile_options){.world = world,
                               .accumulate = d.is_local ? 1 + random_below(r, 2) : micros[random_below(r, 4)],
                               .precision = precisions[random_below(r, 5)],
                               .isa = random_one_in(r, 5) ? WEFT_ISA_REFERENCE : WEFT_ISA_AUTO,
                               .guard_factor = 1e9,
                               .verify = true};
    return d;
}

/* ---- another way to train it ---- */

typedef struct variant {
    weft_compile_options options;
    bool by_text, by_file;
    int resumed;                 /* the first step after the resume; 0: none */
    weft_compile_options before; /* of the steps before it */
    char said[400];
} variant;

static void draw_layout(test_random *r, const drawn *d, weft_compile_options *o) {
    int64_t micros = (int64_t)d->options.world * d->options.accumulate;
    int world = d->options.world;
    while (!d->is_local) {
        world = 1 + random_below(r, MOST_WORLD);
        int64_t each = micros / world;
        bool is_exact = world == 1 || (each & (each - 1)) == 0; /* docs/distribution.md, "Sums" */
        if (micros % world == 0 && is_exact) break;
    }
    *o = d->options;
    o->world = world;
    o->accumulate = (int)(micros / world);
    o->zero = random_below(r, 3);
    o->shard = random_one_in(r, 2) && !d->is_whole ? WEFT_SHARD_FLAT : WEFT_SHARD_GREEDY;
    if (random_one_in(r, 2)) o->bucket_cap_mb = 1e-4 * (1 + random_below(r, 30));
    o->serial = random_one_in(r, 5);
    o->manual = random_one_in(r, 4);
    static const weft_guard guards[] = {WEFT_GUARD_OFF, WEFT_GUARD_NAN, WEFT_GUARD_SPIKE};
    o->guard = guards[random_below(r, 3)];
}

static variant draw_variant(test_random *r, const drawn *d) {
    variant v = {.by_text = random_one_in(r, 4)};
    draw_layout(r, d, &v.options);
    v.by_file = !v.by_text && random_one_in(r, 6);
    if (!d->is_local && random_one_in(r, 3)) {
        v.resumed = 1 + random_below(r, STEPS - 1);
        draw_layout(r, d, &v.before);
        v.before.bucket_cap_mb = random_one_in(r, 2) ? v.options.bucket_cap_mb : v.before.bucket_cap_mb;
        v.before.guard = v.options.guard; /* a spike's mean is part of what is resumed */
    }
    const weft_compile_options *o = &v.options;
    snprintf(v.said, sizeof v.said,
             "seed %llu: world %d x %d micro-batches, zero %d, shard %d, cap %g, serial %d, manual %d, guard "
             "%d, text %d, "
             "file %d, resumed at %d (before: world %d, zero %d, shard %d, cap %g, manual %d)",
             (unsigned long long)d->seed, o->world, o->accumulate, o->zero, o->shard, o->bucket_cap_mb,
             o->serial, o->manual, o->guard, v.by_text, v.by_file, v.resumed, v.before.world, v.before.zero,
             v.before.shard, v.before.bucket_cap_mb, v.before.manual);
    return v;
}

/* ---- training ---- */

static char weights[100];

static void name_weights(void) {
    snprintf(weights, sizeof weights, "relations-%d.st", (int)getpid());
}

static void load_weights(world_rank *r) {
    weft_weights_load(r->store, weights, &r->error);
}

static void train_and_save(world_rank *r) {
    world_train(r);
    if (!r->error.status) weft_session_save(r->session, weights, true, &r->error);
}

static world_rank *train(const weft_model *m, const weft_compile_options *o, int from, int to, bool saves) {
    world_job job = {.model = m,
                     .options = *o,
                     .steps = to - from,
                     .classes = CLASSES,
                     .first = (int64_t)from * o->world * o->accumulate,
                     .stored = from ? load_weights : NULL,
                     .run = saves ? train_and_save : NULL};
    world_rank *ranks = world_run_any(&job, true);
    for (int i = 0; i < o->world; i++) ranks[i].job = NULL;
    return ranks;
}

static weft_model *copy_of(const weft_model *m, bool by_file) {
    weft_error e = {0};
    char name[100], *text = weft_model_text(m);
    snprintf(name, sizeof name, "relations-%d.bin", (int)getpid());
    weft_model *copy = NULL;
    if (!by_file)
        copy = weft_model_parse(text, "text", NULL, &e);
    else if (!weft_save(m, name, &e))
        copy = weft_load(name, NULL, &e);
    remove(name);
    free(text);
    CHECK_SAYS(copy != NULL, "%s", e.text);
    return copy;
}

/* ---- comparing ---- */

/* What each rank has for itself, and the mean of losses that only one of the guards keeps. */
static bool is_compared(const char *path) {
    return !strstr(path, "/running_") && strncmp(path, "running_", 8) && !strstr(path, "/loss_mean.");
}

static const weft_error *first_error(const world_rank *ranks, int world) {
    for (int i = 0; i < world; i++)
        if (ranks[i].error.status && ranks[i].error.status != WEFT_PEER) return &ranks[i].error;
    for (int i = 0; i < world; i++)
        if (ranks[i].error.status) return &ranks[i].error;
    return NULL;
}

/* Losses of the last micro-batch of each step, which is the last rank's. */
static bool same_losses(const world_rank *want, int from, const world_rank *got) {
    int graphs = want->n_losses / STEPS, skip = from * graphs;
    return got->n_losses == want->n_losses - skip &&
           !memcmp(want->losses + skip, got->losses, sizeof(float) * (size_t)got->n_losses);
}

static void compare(const drawn *d, const world_rank *base, const world_rank *got, const variant *v) {
    char where[300];
    for (int i = 0; i < v->options.world; i++) {
        const world_rank *want = d->is_local ? &base[i] : base;
        CHECK_SAYS(world_agrees(want, &got[i], is_compared, where), "%s: rank %d differs in %s", v->said, i,
                   where);
        if (d->is_local || i == v->options.world - 1)
            CHECK_SAYS(same_losses(want, v->resumed, &got[i]), "%s: rank %d has other losses", v->said, i);
    }
}

static void try_variant(const drawn *d, const world_rank *base, const variant *v) {
    weft_model *copy = v->by_text || v->by_file ? copy_of(d->model, v->by_file) : NULL;
    const weft_model *m = copy ? copy : d->model;
    const weft_error *e = NULL;
    world_rank *first = v->resumed ? train(m, &v->before, 0, v->resumed, true) : NULL;
    if (first) e = first_error(first, v->before.world);
    world_rank *got = e ? NULL : train(m, &v->options, v->resumed, STEPS, false);
    if (got) e = first_error(got, v->options.world);
    if (CHECK_SAYS(!e, "%s: %s", v->said, e ? e->text : "")) compare(d, base, got, v);
    if (first) world_free(first);
    if (got) world_free(got);
    remove(weights);
    weft_model_free(copy);
}

/* Only finite trainings are compared: a guard ends others, and without a guard they continue. */
static bool is_finite(const world_rank *ranks, int world) {
    for (int i = 0; i < world; i++)
        for (int k = 0; k < ranks[i].n_losses; k++)
            if (!isfinite(ranks[i].losses[k])) return false;
    return true;
}

/* False: it is not finite. */
static bool check_model(uint64_t seed, int variants) {
    test_random own = {seed * 0x9e3779b97f4a7c15u}, *r = &own;
    drawn d = draw(seed, r);
    if (!CHECK_SAYS(weft_model_error(d.model)->status == WEFT_OK, "seed %llu: %s", (unsigned long long)seed,
                    weft_model_error(d.model)->text)) {
        weft_model_free(d.model);
        return true;
    }
    world_rank *base = train(d.model, &d.options, 0, STEPS, false);
    const weft_error *e = first_error(base, d.options.world);
    bool is_run = !e && is_finite(base, d.options.world);
    CHECK_SAYS(!e, "seed %llu: %s", (unsigned long long)seed, e ? e->text : "");
    for (int i = 0; is_run && i < variants; i++) {
        variant v = draw_variant(r, &d);
        try_variant(&d, base, &v);
    }
    world_free(base);
    weft_model_free(d.model);
    return is_run;
}

TEST(what_changes_nothing_changes_no_bit) {
    uint64_t seed = test_seed(1);
    int models = test_count(60, 12), variants = test_is_quick() ? 2 : 4, run = 0;
    name_weights();
    for (int i = 0; i < models; i++) {
        test_case_begin();
        bool is_run = check_model(seed + (uint64_t)i, variants);
        test_case_end(!is_run);
        run += is_run;
    }
    CHECK_SAYS(10 * run >= 9 * models, "only %d of %d models have finite losses", run, models);
}

/* ---- trainings that were wrong once ---- */

/* Two networks of two layers, with an optimizer each, and one loss. */
static weft_model *two_networks(weft_optimizer first, weft_optimizer second, const char *schedule) {
    weft_error e = {0};
    weft_model *m = weft_model_new("two");
    weft_value *x =
        weft_input(weft_graph_new(m, "step", WEFT_TRAIN), "x", WEFT_F32, 2, (int64_t[]){BATCH, 5});
    weft_optimizer both[] = {first, second};
    static const char *const scopes[] = {"first", "second"};
    for (int i = 0; i < 2; i++) {
        WEFT_SCOPE(x, scopes[i]) {
            x = weft_linear(weft_relu(weft_linear(x, 9, "in")), 7, "out");
        }
    }
    weft_value *loss = weft_mean(weft_square(weft_offset(x, -0.5)), 0, NULL, false);
    for (int i = 0; i < 2; i++) {
        both[i].name = scopes[i];
        both[i].lr = 0.01;
        if (schedule && !i) CHECK_SAYS(!weft_schedule_text(schedule, both[i].schedule, &e), "%s", e.text);
        weft_minimize(loss, scopes[i], &both[i]);
    }
    weft_output(loss, "loss");
    return m;
}

/* A layout that was refused, or had other bits, beside one bucket in one rank. */
static void try_layout(const weft_model *m, weft_compile_options o, const char *what) {
    drawn d = {.options = {.world = 1, .accumulate = o.world * o.accumulate, .verify = true}};
    variant v = {.options = o};
    v.options.verify = true;
    d.model = (weft_model *)m;
    snprintf(v.said, sizeof v.said, "%s: world %d, zero %d, cap %g", what, o.world, o.zero, o.bucket_cap_mb);
    world_rank *base = train(m, &d.options, 0, STEPS, false);
    const weft_error *e = first_error(base, 1);
    if (CHECK_SAYS(!e, "%s: %s", what, e ? e->text : "")) try_variant(&d, base, &v);
    world_free(base);
}

/* B5 and B6 of an attack: LARS with a schedule of its decay over several buckets (rule L21 refused it, or
 * its bits were others); optimizers whose updates are many nodes, so that ranks ordered collectives
 * differently where one had no range of a bucket. */
TEST(layouts_that_were_refused_or_differed_train_to_the_bits_of_one_bucket) {
    const weft_optimizer lars = {.type = "lars", .momentum = 0.9, .weight_decay = 0.02},
                         rprop = {.type = "rprop"}, adam = {.type = "adam", .ema = 0.9};
    weft_model *decays = two_networks(lars, adam, "cosine:1-8,of=weight_decay,to=3"),
               *steps = two_networks(rprop, adam, NULL), *mixed = two_networks(lars, adam, NULL);
    name_weights();
    for (int world = 1; world <= 4; world *= 2)
        try_layout(decays,
                   (weft_compile_options){.world = world, .accumulate = 4 / world, .bucket_cap_mb = 1e-4},
                   "lars");
    for (int world = 2; world <= 4; world *= 2) {
        weft_compile_options o = {.world = world, .accumulate = 4 / world, .zero = 1, .bucket_cap_mb = 1e-4};
        try_layout(mixed, o, "lars beside adam");
        o.shard = WEFT_SHARD_FLAT;
        try_layout(steps, o, "rprop");
    }
    weft_model_free(decays);
    weft_model_free(steps);
    weft_model_free(mixed);
}

SUITE("relations", {T(what_changes_nothing_changes_no_bit),
                    T(layouts_that_were_refused_or_differed_train_to_the_bits_of_one_bucket)})
