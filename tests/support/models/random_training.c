/* random_training.c - see random_training.h. */
#include "support/models/random_training.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCH = TRAINING_BATCH, CLASSES = TRAINING_CLASSES, NETS = TRAINING_NETS };

/* ---- optimizers ---- */

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

static bool has_state(const weft_model *m, const char *pattern) {
    weft_parameter_info p;
    for (int i = 0; weft_model_parameter(m, pattern, i, &p); i++)
        if (p.is_state && p.dtype == WEFT_F32) return true;
    return false;
}

/* `has_state`: the pattern has some, wherever the optimizer is used. */
static void draw_averages(test_random *r, random_training *d, bool has_state, weft_optimizer *o) {
    o->ema = 0.9;
    if (random_one_in(r, 2)) o->ema_gamma = 3;
    o->ema_buffers = random_one_in(r, 2) && has_state;
    d->averages_state |= o->ema_buffers;
}

/* The same settings wherever a model names this optimizer. */
static void minimize(random_training *d, weft_value *loss, const char *pattern, const char *name) {
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
    bool is_shared = strcmp(name, "both") == 0; /* by two patterns */
    if (random_one_in(r, 3)) draw_averages(r, d, !is_shared && has_state(d->model, pattern), &o);
    bool has_product = strcmp(o.type, "nadam") == 0; /* of all parameters, so all train in every step */
    if (random_one_in(r, 3)) o.n_groups = 1, o.groups = random_one_in(r, 2) || has_product ? &slow : &some;
    char matrices[60];
    snprintf(matrices, sizeof matrices, "%s*last/weight", pattern);
    bool is_muon = strcmp(o.type, "muon") == 0;
    if (is_muon) o.n_groups = 0, o.groups = NULL, o.ema_buffers = false, pattern = matrices;
    weft_minimize(loss, pattern, &o);
    d->is_whole |= optimizers[row].is_whole;
}

/* ---- parts of graphs ---- */

int training_axes(const random_training *d, int64_t shape[4]) {
    static const int64_t shapes[NET_KINDS][4] = {{BATCH, 0}, {BATCH, 4, 5}, {BATCH, 3, 6, 5}};
    memcpy(shape, shapes[d->kind], sizeof shapes[0]);
    if (d->kind == NET_FEATURES) shape[1] = d->features;
    return 2 + (int)d->kind;
}

weft_value *training_input(random_training *d, const char *graph, weft_mode mode) {
    int64_t shape[4];
    int ndim = training_axes(d, shape);
    return weft_input(weft_graph_new(d->model, graph, mode), "x", WEFT_F32, ndim, shape);
}

static weft_value *input(random_training *d, const char *graph) {
    return training_input(d, graph, WEFT_TRAIN);
}

/* Of logits [B, CLASSES]. */
static weft_value *loss_of(test_random *r, weft_value *y) {
    weft_graph *g = weft_value_graph(y);
    switch (random_below(r, 4)) {
    case 0:
        return weft_mean(weft_cross_entropy(y, weft_input(g, "label", WEFT_I32, 1, (int64_t[]){BATCH}), NULL),
                         0, NULL, false);
    case 1:
        return weft_bce_with_logits(y, weft_constant(g, WEFT_F32, 0, NULL, random_below(r, 2)), NULL);
    case 2:
        return weft_scale(weft_mean(weft_softplus(y, 1, 20), WEFT_ALL, false), 100);
    default:
        return weft_mean(weft_square(weft_offset(y, -0.5)), WEFT_ALL, false);
    }
}

/* (|d sum(y) / dx| - 1)^2, as in WGAN-GP. */
static weft_value *penalty(weft_value *y, weft_value *x) {
    weft_value *by = NULL;
    weft_gradients(weft_sum(y, WEFT_ALL, false), 1, &x, &by);
    weft_value *norms =
        weft_sqrt(weft_offset(weft_sum(weft_square(weft_flatten(by, 1)), WEFT_AXES(1), false), 1e-3));
    return weft_mean(weft_square(weft_offset(norms, -1)), WEFT_ALL, false);
}

/* The distance of a network's last bias from an average of it, which graph "move" renews. */
static weft_value *with_teacher(random_training *d, weft_value *loss, const char *net) {
    char path[60];
    weft_graph *g = weft_value_graph(loss);
    snprintf(path, sizeof path, "%s/last/bias", net);
    weft_value *b = weft_value_of(g, path);
    int64_t n = weft_dim(b, 0);
    weft_value *mean = weft_state(b, "teacher", 1, &n, (weft_init){WEFT_INIT_CONSTANT, 0.1, 0});
    loss = weft_add(loss, weft_sum(weft_square(weft_sub(b, mean)), WEFT_ALL, false));
    if (d->has_teacher) return loss;
    d->has_teacher = true;
    g = weft_graph_new(d->model, "move", WEFT_EVAL);
    b = weft_value_of(g, path), mean = weft_value_of(g, "teacher");
    weft_assign(mean, weft_add(weft_scale(mean, 0.75), weft_scale(b, 0.25)));
    return loss;
}

/* A running mean that no graph reads, and a count: of this rank alone. */
static void watch(weft_value *x) {
    weft_value *n = weft_state_in(weft_value_graph(x), "running_count", WEFT_I64, 0, NULL, (weft_init){0});
    weft_assign(n, weft_offset(n, 1));
    weft_value *s = weft_state(x, "running_size", 0, NULL, (weft_init){WEFT_INIT_ZEROS, 0, 0});
    weft_value *now = weft_mean(weft_abs(x), WEFT_ALL, false);
    weft_assign(s, weft_add(weft_scale(s, 0.9), weft_scale(now, 0.1)));
}

/* ---- models ---- */

/* One graph over networks one after the other: trained together, or each by its own loss. */
static void make_chain(test_random *r, random_training *d) {
    static const char *const names[] = {"o0", "o1", "o2"};
    d->kind = (net_kind)random_below(r, NET_KINDS);
    d->n_nets = 1 + random_below(r, NETS);
    bool apart = random_one_in(r, 2), is_centered = random_one_in(r, 3), is_taught = random_one_in(r, 4);
    weft_value *x = input(d, "step"), *sum = NULL;
    if (random_one_in(r, 3)) watch(x);
    static const char *const scopes[] = {"first", "second", "third"};
    for (int i = 0; i < d->n_nets; i++) {
        d->nets[i] = net_draw(r, scopes[i], i ? NET_FEATURES : d->kind, d->is_local);
        x = net_build(apart ? weft_stop_gradient(x) : x, &d->nets[i], CLASSES);
        if (i == 0 && is_centered) {
            weft_value *batch = weft_mean(x, WEFT_AXES(0), false);
            x = weft_sub(x, weft_moving_mean(batch, 0.8, "center"));
        }
        if (!apart && i + 1 < d->n_nets) continue;
        weft_value *loss = i ? weft_mean(weft_square(x), WEFT_ALL, false) : loss_of(r, x);
        if (i == 0 && is_taught) loss = with_teacher(d, loss, scopes[0]);
        if (apart) minimize(d, loss, scopes[i], names[i]);
        sum = sum ? weft_add(sum, loss) : loss;
    }
    if (!apart) minimize(d, sum, "", "all");
    weft_output(sum, "loss");
}

/* Two graphs, a generator's and a discriminator's; perhaps with one optimizer. */
static void make_gan(test_random *r, random_training *d) {
    bool one = random_one_in(r, 3), has_penalty = random_one_in(r, 3), is_taught = random_one_in(r, 4);
    d->kind = NET_FEATURES;
    d->nets[0] = net_draw(r, "generator", NET_FEATURES, d->is_local);
    d->nets[1] = net_draw(r, "discriminator", NET_FEATURES, d->is_local);
    d->n_nets = 2;
    weft_value *x = input(d, "d_step");
    weft_value *z = weft_random_normal(weft_value_graph(x), 2, (int64_t[]){BATCH, d->features}, 0, 1);
    weft_value *fake = weft_stop_gradient(net_build(z, &d->nets[0], d->features));
    weft_value *of_fake = net_build(fake, &d->nets[1], 1), *of_real = net_build(x, &d->nets[1], 1);
    weft_value *loss = weft_add(weft_mean(weft_softplus(of_fake, 1, 20), WEFT_ALL, false),
                                weft_mean(weft_softplus(weft_neg(of_real), 1, 20), WEFT_ALL, false));
    if (has_penalty) loss = weft_add(loss, penalty(of_real, x));
    if (is_taught) loss = with_teacher(d, loss, "discriminator");
    minimize(d, loss, "discriminator", one ? "both" : "d");
    weft_output(loss, "loss");
    x = input(d, "g_step");
    fake = net_build(x, &d->nets[0], d->features);
    loss = weft_scale(weft_mean(net_build(fake, &d->nets[1], 1), WEFT_ALL, false), -100);
    minimize(d, loss, "generator", one ? "both" : "g");
    weft_output(loss, "loss");
}

/* Two tasks over one trunk. */
static void make_tasks(test_random *r, random_training *d) {
    static const char *const graphs[] = {"task0", "task1"}, *const heads[] = {"head0", "head1"};
    bool one = random_one_in(r, 2), is_taught = random_one_in(r, 4);
    d->kind = (net_kind)random_below(r, NET_KINDS);
    d->nets[0] = net_draw(r, "trunk", d->kind, d->is_local);
    d->n_nets = 3;
    for (int i = 0; i < 2; i++) {
        d->nets[1 + i] = net_draw(r, heads[i], NET_FEATURES, d->is_local);
        weft_value *x = input(d, graphs[i]), *trunk = net_build(x, &d->nets[0], 5);
        weft_value *loss = loss_of(r, net_build(trunk, &d->nets[1 + i], CLASSES));
        if (is_taught) loss = with_teacher(d, loss, "trunk");
        minimize(d, loss, "trunk", one ? "all" : "trunk");
        minimize(d, loss, heads[i], heads[i]);
        weft_output(loss, "loss");
    }
}

/* What makes ranks unlike each other, or sums that are rounded. */
static void draw_local_ddp(test_random *r, random_training *d, int world) {
    const char *name = d->nets[random_below(r, d->n_nets)].name;
    switch (random_below(r, 4)) {
    case 0:
        weft_model_set_ddp_text(d->model, name, "sync_batch_norm=1");
        break;
    case 1:
        weft_model_set_ddp_text(d->model, name, "bf16_wire=1");
        break;
    case 2:
        weft_model_set_ddp_text(d->model, name, "broadcast_buffers=1");
        break;
    default:
        for (int i = 0; i < d->n_nets && world % 2 == 0; i++)
            weft_model_set_ddp_text(d->model, d->nets[i].name,
                                    world == 2 ? "process_group=0;1" : "process_group=0,2;1,3");
    }
}

/* The parameters of a block; the last layer of each network trains. */
static void freeze_block(test_random *r, random_training *d) {
    weft_parameter_info p;
    char pattern[60];
    const random_net *n = &d->nets[random_below(r, d->n_nets)];
    snprintf(pattern, sizeof pattern, "%s/b%d", n->name, random_below(r, n->blocks));
    for (int i = 0; weft_model_parameter(d->model, pattern, i, &p); i++)
        if (!p.is_state) {
            weft_freeze(d->model, pattern);
            return;
        }
}

random_training training_draw(uint64_t number, test_random *r) {
    static const weft_dtype precisions[] = {0, 0, 0, WEFT_BF16, WEFT_F16};
    static const int micros[] = {2, 3, 4, 6, 8, 12};
    random_training d = {
        .model = weft_model_new("relations"), .seed = number, .features = 4 + random_below(r, 5)};
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
    if (random_one_in(r, 4)) freeze_block(r, &d);
    if (d.is_local && random_one_in(r, 2)) draw_local_ddp(r, &d, world);
    d.options =
        (weft_compile_options){.world = world,
                               .accumulate = d.is_local ? 1 + random_below(r, 2) : micros[random_below(r, 6)],
                               .precision = precisions[random_below(r, 5)],
                               .isa = random_one_in(r, 5) ? WEFT_ISA_REFERENCE : WEFT_ISA_AUTO,
                               .guard_factor = 1e9,
                               .verify = true};
    return d;
}

/* ---- layouts ---- */

/* Whether `world` ranks sum as one does: docs/distribution.md, "Sums". */
static bool is_exact(const int *micros, int world) {
    for (; *micros; micros++) {
        int each = *micros / world;
        if (*micros % world || (world > 1 && each & (each - 1))) return false;
    }
    return true;
}

void training_layout(test_random *r, const random_training *d, const int *micros, weft_compile_options *o) {
    static const weft_guard guards[] = {WEFT_GUARD_OFF, WEFT_GUARD_NAN, WEFT_GUARD_SPIKE};
    int world = d->options.world, all = world * d->options.accumulate;
    do
        if (!d->is_local) world = 1 + random_below(r, TRAINING_WORLD);
    while (!d->is_local && !(all % world == 0 && is_exact(micros, world)));
    *o = d->options;
    o->world = world;
    o->accumulate = all / world;
    o->zero = random_below(r, 3);
    o->shard = random_one_in(r, 2) && !d->is_whole ? WEFT_SHARD_FLAT : WEFT_SHARD_GREEDY;
    if (random_one_in(r, 2)) o->bucket_cap_mb = 1e-4 * (1 + random_below(r, 30));
    o->serial = random_one_in(r, 5);
    o->manual = random_one_in(r, 4);
    o->guard = guards[random_below(r, 3)];
}

/* ---- copies ---- */

weft_model *training_copy(const weft_model *m, bool by_file) {
    weft_error e = {0};
    char name[100], *text = weft_model_text(m);
    snprintf(name, sizeof name, "relations-%d.bin", (int)getpid());
    weft_model *copy = NULL;
    if (!by_file)
        copy = weft_model_parse(text, "text", NULL, &e);
    else if (!weft_save(m, name, &e))
        copy = weft_load(name, NULL, &e);
    remove(name);
    weft_text_free(text);
    CHECK_SAYS(copy != NULL, "%s", e.text);
    return copy;
}
