/* random_model.c - see random_model.h. */
#include "support/models/random_model.h"

#include "graph/settings/minimize.h"

#include <stdio.h>
#include <string.h>

enum { BATCH = 4, MOST_LAYERS = 4, TOWERS = 3 };

int random_below(test_random *r, int n) {
    return (int)(random_bits(r) % (uint64_t)n);
}

bool random_one_in(test_random *r, int n) {
    return random_below(r, n) == 0;
}

/* A scope that can be built in several graphs: its shape is drawn once. */
typedef struct tower {
    const char *name;
    int layers, width, in;
    bool norm[MOST_LAYERS], nested[MOST_LAYERS], gate[MOST_LAYERS], joined[MOST_LAYERS], dropout;
    int mix[MOST_LAYERS];           /* an op over ranks, of training graphs; MIXES and more: none */
    const char *group[MOST_LAYERS]; /* of its ranks */
} tower;

enum { MIXES = 5 };

static tower random_tower(test_random *r, const char *name, int in, int world) {
    tower t = {
        .name = name, .layers = 1 + random_below(r, MOST_LAYERS), .width = 3 + random_below(r, 14), .in = in};
    for (int i = 0; i < t.layers; i++) {
        t.norm[i] = random_one_in(r, 3);
        t.nested[i] = random_one_in(r, 3);
        t.gate[i] = random_one_in(r, 3);
        t.joined[i] = random_one_in(r, 4);
        t.mix[i] = random_below(r, 4 * MIXES);
        t.group[i] = world == 4 && random_one_in(r, 3) ? "2,0;1,3" : NULL;
    }
    t.dropout = random_one_in(r, 5);
    return t;
}

/* Its gradient reaches its bucket through a view, the last node of the backward. */
static weft_value *gate(weft_value *x, const char *name) {
    weft_value *by = weft_parameter(x, name, 1, (int64_t[]){1}, (weft_init){WEFT_INIT_CONSTANT, 1});
    return weft_mul(x, weft_reshape(by, 0, NULL));
}

/* A weight joined of two parameters: their gradients are views with gaps, so the layout pass makes copies for
 * the bucket. */
static weft_value *join(weft_value *x, const char *name) {
    const weft_init init = {WEFT_INIT_CONSTANT, 0.1};
    weft_value *part[2];
    int64_t width = x->type.shape[1];
    WEFT_SCOPE(x, name)
    for (int i = 0; i < 2; i++)
        part[i] = weft_parameter(x, i ? "right" : "left", 2, (int64_t[]){width, i ? width - 1 : 1}, init);
    return weft_matmul(x, weft_concat(2, part, 1), false, false);
}

/* What ranks make of x[n, k] together, of its shape. */
static weft_value *mix(weft_value *x, int kind, const char *group) {
    weft_value *mean = weft_mean(x, WEFT_AXES(0), false);
    if (kind == 0) return weft_sub(x, weft_all_reduce(mean, WEFT_RANKS_MEAN, group));
    if (kind == 1) return weft_add(x, weft_broadcast(mean, 0, group));
    if (kind == 2)
        return weft_add(x, weft_all_reduce(weft_amax(x, WEFT_AXES(0), false), WEFT_RANKS_MAX, group));
    weft_value *all = weft_all_gather(x, 0, group);
    if (kind == 3) return weft_add(x, weft_reduce_scatter(weft_tanh(all), 0, WEFT_RANKS_MEAN, group));
    return weft_matmul(weft_softmax(weft_matmul(x, all, false, true), -1), all, false, false);
}

static weft_value *layer(weft_value *x, const tower *t, int i) {
    char name[20];
    int out = t->width + 3 * i;
    snprintf(name, sizeof name, "gate%d", i);
    if (t->gate[i]) x = gate(x, name);
    snprintf(name, sizeof name, "join%d", i);
    if (t->joined[i]) x = join(x, name);
    snprintf(name, sizeof name, "l%d", i);
    if (t->nested[i]) {
        WEFT_SCOPE(x, name)
        x = weft_linear(weft_tanh(weft_linear(x, t->width, "up", NULL)), out, "down", NULL);
    } else {
        x = weft_linear(x, out, name, NULL);
    }
    if (t->mix[i] < MIXES && x->node->graph->mode == WEFT_TRAIN) x = mix(x, t->mix[i], t->group[i]);
    snprintf(name, sizeof name, "bn%d", i);
    return weft_tanh(t->norm[i] ? weft_batch_norm(x, name, NULL) : x);
}

static weft_value *build(weft_value *x, const tower *t) {
    WEFT_SCOPE(x, t->name) {
        for (int i = 0; i < t->layers; i++) x = layer(x, t, i);
        if (t->dropout) x = weft_dropout(x, 0.2);
        x = weft_linear(x, t->in, "last", NULL); /* towers can stand on each other */
    }
    return x;
}

static weft_value *loss_of(weft_value *y) {
    return weft_mean(weft_square(weft_offset(y, 0.5)), WEFT_ALL, false);
}

/* ---- optimizers ---- */

/* The same settings wherever a model names this optimizer: one that is named twice with two is an error. */
static void minimize(uint64_t seed, weft_value *loss, const char *pattern, const char *name) {
    static const char *const types[] = {"sgd", "adam", "adamw", "rmsprop"};
    static const weft_param_group groups[] = {{"*bias", 2}};
    test_random own = {seed}, *r = &own;
    for (const char *c = name; *c; c++) own.state = random_bits(r) + (unsigned char)*c;
    weft_optimizer o = {.type = types[random_below(r, 4)], .name = name, .lr = 0.01};
    if (random_one_in(r, 2) && strcmp(o.type, "sgd") == 0) o.momentum = 0.9;
    if (random_one_in(r, 2)) o.clip_norm = 0.5;
    if (random_one_in(r, 3)) o.groups = groups;
    o.n_groups = o.groups ? 1 : 0;
    weft_minimize(loss, pattern, &o);
}

/* ---- graphs ---- */

static weft_value *input(weft_model *m, const char *graph, weft_mode mode, int width) {
    return weft_input(weft_graph_new(m, graph, mode), "x", WEFT_F32, 2, (int64_t[]){BATCH, width});
}

/* Outputs straight from the store: a parameter, and a view of it. */
static void show_parameter(weft_value *x, const tower *t) {
    weft_value *w = NULL;
    int64_t shape[] = {t->in, t->width + 3 * (t->layers - 1)};
    WEFT_SCOPE(x, t->name)
    WEFT_SCOPE(x, "last")
    w = weft_parameter(x, "weight", 2, shape, (weft_init){0});
    weft_output(w, "weight");
    weft_output(weft_slice(w, 0, 1, 2), "row");
}

static void add_eval(weft_model *m, const tower *t, int n, int width) {
    weft_value *x = input(m, "eval", WEFT_EVAL, width), *y = x;
    for (int i = 0; i < n; i++) y = build(y, &t[i]);
    weft_output(loss_of(y), "loss");
    show_parameter(x, &t[0]);
}

/* One graph; each tower has its minimize, or one has them all, or the whole is trained twice in one graph. */
static void make_towers(test_random *r, weft_model *m, const tower *t, int n, int width) {
    uint64_t seed = random_bits(r);
    static const char *const names[] = {"o0", "o1", "o2"};
    weft_value *x = input(m, "step", WEFT_TRAIN, width), *sum = NULL;
    bool apart = random_one_in(r, 2);
    for (int i = 0; i < n; i++) {
        x = build(apart ? weft_stop_gradient(x) : x, &t[i]);
        weft_value *loss = loss_of(x);
        if (apart) minimize(seed, loss, t[i].name, names[i]);
        sum = sum ? weft_add(sum, loss) : loss;
    }
    if (!apart) minimize(seed, sum, "", "all");
    weft_output(sum, "loss");
    if (random_one_in(r, 3)) show_parameter(x, &t[0]);
    if (!random_one_in(r, 3)) return;
    x = input(m, "again", WEFT_TRAIN, width); /* the whole model, optimized by another graph */
    for (int i = 0; i < n; i++) x = build(x, &t[i]);
    minimize(seed, loss_of(x), "", random_one_in(r, 2) && !apart ? "all" : "again");
    weft_output(loss_of(x), "loss");
}

static void make_gan(test_random *r, weft_model *m, const tower *t, int width) {
    uint64_t seed = random_bits(r);
    weft_value *x = input(m, "d_step", WEFT_TRAIN, width);
    weft_value *fake = weft_stop_gradient(
        build(weft_random_normal(weft_value_graph(x), 2, (int64_t[]){BATCH, width}, 0, 1), &t[0]));
    weft_value *loss = weft_add(loss_of(build(fake, &t[1])), loss_of(build(x, &t[1])));
    minimize(seed, loss, t[1].name, "d");
    weft_output(loss, "loss");
    x = input(m, "g_step", WEFT_TRAIN, width);
    loss = loss_of(build(build(x, &t[0]), &t[1]));
    minimize(seed, loss, t[0].name, "g");
    weft_output(loss, "loss");
}

/* Two graphs over one trunk, each with a head of its own; "" reaches the other's head, which is left
 * alone. */
static void make_tasks(test_random *r, weft_model *m, const tower *t, int width) {
    uint64_t seed = random_bits(r);
    bool all = random_one_in(r, 2);
    for (int i = 0; i < 2; i++) {
        weft_value *x = input(m, i ? "task1" : "task0", WEFT_TRAIN, width);
        weft_value *trunk = build(x, &t[0]), *loss = loss_of(build(trunk, &t[1 + i]));
        if (all) {
            minimize(seed, loss, "", i && random_one_in(r, 2) ? "both" : "all");
        } else {
            minimize(seed, loss, t[0].name, "trunk");
            minimize(seed, loss, t[1 + i].name, i ? "head1" : "head0");
        }
        weft_output(loss, "loss");
    }
    for (int i = 1; i < 3; i++) weft_model_set_ddp_text(m, t[i].name, "find_unused_parameters=1");
    weft_model_set_ddp_text(m, t[0].name, "find_unused_parameters=1");
}

/* ---- subgraphs ---- */

/* A partition of the ranks, in any order; some may be left out. */
static void random_groups(test_random *r, int world, char *text) {
    int n = 0, order[16];
    for (int i = 0; i < world; i++) {
        int at = random_below(r, i + 1);
        order[i] = order[at];
        order[at] = i;
    }
    for (int i = 0; i < world - random_one_in(r, 4); i++)
        n += sprintf(text + n, "%s%d", i == 0 ? "" : random_one_in(r, 3) ? ";" : ",", order[i]);
}

/* Gradients of several subgraphs that are clipped together must have one partition. */
static bool clips(const weft_model *m) {
    for (const weft_graph *g = m->graphs; g; g = g->next)
        for (const weft_node *n = g->first; n; n = n->next)
            if (n->op == &weft_op_minimize && ((const minimize_attrs *)n->attrs)->clip_norm > 0) return true;
    return false;
}

/* `common`: the partition that all must have, "" for the world; NULL: any. */
static void random_ddp(test_random *r, weft_model *m, const char *path, int world, const char *common) {
    char text[400], groups[100];
    int n = sprintf(text, "zero=%d shard=%s broadcast_buffers=%d sync_batch_norm=%d bf16_wire=%d",
                    random_below(r, 4) - 1, random_one_in(r, 2) ? "flat" : "greedy", random_one_in(r, 3),
                    random_one_in(r, 3), random_one_in(r, 4));
    if (random_one_in(r, 2)) n += sprintf(text + n, " bucket_cap_mb=%g", 1e-4 * (1 + random_below(r, 30)));
    if (!common && world > 1 && random_one_in(r, 3))
        random_groups(r, world, groups);
    else
        snprintf(groups, sizeof groups, "%s", common ? common : "");
    if (*groups) sprintf(text + n, " process_group=%s", groups);
    weft_model_set_ddp_text(m, path, text);
}

static void random_ddps(test_random *r, weft_model *m, const tower *t, int n, int world) {
    char path[60], groups[100] = "";
    const char *common = clips(m) ? groups : NULL;
    bool all =
        common && world > 1 && random_one_in(r, 2); /* then no tower may be left to the default, the world */
    if (all) random_groups(r, world, groups);
    for (int i = 0; i < n; i++) {
        if (all || random_one_in(r, 2)) random_ddp(r, m, t[i].name, world, common);
        snprintf(path, sizeof path, "%s/l%d", t[i].name, random_below(r, t[i].layers));
        if (random_one_in(r, 3)) random_ddp(r, m, path, world, common);
    }
}

weft_model *random_model(test_random *r, int world) {
    static const char *const names[][TOWERS] = {
        {"left", "right", "top"}, {"generator", "discriminator"}, {"trunk", "head0", "head1"}};
    weft_model *m = weft_model_new("random");
    int kind = random_below(r, 3), n = kind == 0 ? 1 + random_below(r, 3) : 1 + kind,
        width = 4 + random_below(r, 8);
    tower t[TOWERS];
    for (int i = 0; i < n; i++) t[i] = random_tower(r, names[kind][i], width, world);
    if (kind == 0) make_towers(r, m, t, n, width);
    if (kind == 1) make_gan(r, m, t, width);
    if (kind == 2) make_tasks(r, m, t, width);
    add_eval(m, t, kind == 2 ? 2 : n, width);
    if (kind != 2) random_ddps(r, m, t, n, world);
    if (kind == 2 && random_one_in(r, 2)) random_ddps(r, m, t, 1, clips(m) ? 1 : world);
    return m;
}

weft_compile_options random_options(test_random *r, int world) {
    bool manual = r->state % 5 == 0; /* no draw: other plans stay as they are */
    weft_guard guard = r->state % 3 ? WEFT_GUARD_NAN : WEFT_GUARD_OFF;
    if (world == 1 && r->state % 7 == 0) guard = WEFT_GUARD_GRAD;
    if (r->state % 4 == 1) guard = WEFT_GUARD_SPIKE;
    return (weft_compile_options){.world = world,
                                  .threads = 1,
                                  .isa = random_one_in(r, 4) ? WEFT_ISA_REFERENCE : WEFT_ISA_AUTO,
                                  .bucket_cap_mb = 1e-4 * (1 + random_below(r, 60)),
                                  .accumulate = 1 + random_below(r, 3),
                                  .zero = random_below(r, 3),
                                  .shard = random_one_in(r, 2) ? WEFT_SHARD_FLAT : WEFT_SHARD_GREEDY,
                                  .serial = random_one_in(r, 6),
                                  .reduce = random_one_in(r, 6) ? WEFT_REDUCE_FAST : WEFT_REDUCE_AUTO,
                                  .manual = manual,
                                  .guard = guard,
                                  .guard_factor = 1e9, /* no loss is a spike */
                                  .verify = true};
}
