/* model_case_build.c - builds the model of a case (model_case.h): variables, scopes, nodes (model_call.c),
 * gradients, outputs and optimizers. */
#include "support/models/model_case.h"

#include "support/models/model_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_VALUES = 4000 };

static const char *text(const json_t *from, const char *key) {
    const char *s = json_string_value(json_object_get(from, key));
    return s ? s : "";
}

static double real(const json_t *from, const char *key) {
    return json_number_value(json_object_get(from, key));
}

static int64_t whole(const json_t *from, const char *key) {
    return json_integer_value(json_object_get(from, key));
}

/* ---- scopes ---- */

static int enter_path(weft_graph *g, const char *path, size_t length) {
    int depth = 0;
    char name[256];
    for (const char *end = path + length; path < end; depth++) {
        const char *cut = memchr(path, '/', (size_t)(end - path));
        size_t n = (size_t)((cut ? cut : end) - path);
        if (n >= sizeof name) call_stop("a scope's name is too long", path);
        memcpy(name, path, n);
        name[n] = 0;
        weft_graph_scope_enter(g, name);
        path += n + (cut != NULL);
    }
    return depth;
}

static void leave_path(weft_graph *g, int depth) {
    while (depth--) weft_scope_leave(g);
}

/* Parameters and state are named by their whole path, whatever the scope of their node. `near`: a value of
 * the graph. */
static weft_value *variable(call *c, weft_value *near) {
    const char *slash = strrchr(c->name, '/'), *name = slash ? slash + 1 : c->name;
    int depth = slash ? enter_path(c->graph, c->name, (size_t)(slash - c->name)) : 0;
    weft_init zeros = {0};
    weft_value *v = near ? weft_state(near, name, c->n_i, c->i, zeros)
                         : weft_parameter_in(c->graph, name, c->n_i, c->i, zeros);
    leave_path(c->graph, depth);
    return v;
}

/* batch_norm is a layer: its parameters and statistics are named under its name, a whole path. */
static weft_value *batch_norm(call *c) {
    const char *slash = strrchr(c->name, '/');
    int depth = slash ? enter_path(c->graph, c->name, (size_t)(slash - c->name)) : 0;
    weft_batch_norm_options options = {.eps = c->r[0], .momentum = c->r[1]};
    weft_value *y = weft_batch_norm(c->in[0], slash ? slash + 1 : c->name, &options);
    leave_path(c->graph, depth);
    return y;
}

/* ---- nodes ---- */

static void read_call(const json_t *node, weft_value *const *values, int n_values, call *c) {
    const json_t *in = json_object_get(node, "in"), *i = json_object_get(node, "i"),
                 *r = json_object_get(node, "r");
    c->op = text(node, "op");
    c->name = text(node, "s");
    c->options = json_object_get(node, "o");
    c->n = (int)json_array_size(in);
    c->n_i = (int)json_array_size(i);
    c->n_r = (int)json_array_size(r);
    if (c->n > MOST_IN || c->n_i > MOST_NUMBERS || c->n_r > MOST_REALS) call_stop("too many numbers", c->op);
    for (int k = 0; k < c->n; k++) {
        json_int_t at = json_integer_value(json_array_get(in, (size_t)k)); /* -1: none */
        if (at >= n_values) call_stop("an operand comes later", c->op);
        c->in[k] = at < 0 ? NULL : values[at];
    }
    for (int k = 0; k < c->n_i; k++) c->i[k] = json_integer_value(json_array_get(i, (size_t)k));
    for (int k = 0; k < c->n_r; k++) c->r[k] = json_number_value(json_array_get(r, (size_t)k));
}

/* Appends the node's values: one, none for assign, as many as targets for gradients. */
static int add_node(weft_graph *g, const json_t *node, weft_value **values, int n) {
    const char *scope = text(node, "scope");
    call c = {.graph = g};
    read_call(node, values, n, &c);
    bool is_variable = !strcmp(c.op, "parameter") || !strcmp(c.op, "state") || !strcmp(c.op, "batch_norm");
    int depth = is_variable ? 0 : enter_path(g, scope, strlen(scope));
    if (!strcmp(c.op, "gradients")) {
        weft_gradients(c.in[0], c.n - 1, c.in + 1, c.more);
        for (int k = 0; k + 1 < c.n; k++) values[n++] = c.more[k];
    } else if (!strcmp(c.op, "assign")) {
        weft_assign(c.in[0], c.in[1]);
    } else if (is_variable) {
        bool is_state = !strcmp(c.op, "state");
        values[n] =
            !strcmp(c.op, "batch_norm") ? batch_norm(&c) : variable(&c, is_state ? values[n - 1] : NULL);
        n++;
    } else {
        values[n++] = call_build(&c);
    }
    leave_path(g, depth);
    return n;
}

/* ---- training ---- */

/* Kind 1 is STEP, 2 COSINE, as evaluate.py reads them. */
static weft_schedule schedule_of(const json_t *m) {
    int64_t kind = whole(m, "schedule"), warmup = whole(m, "warmup_steps");
    if (kind == 1)
        return (weft_schedule){WEFT_SCHEDULE_STEP, .warmup = warmup, .period = whole(m, "step_size"),
                               .gamma = real(m, "gamma")};
    if (kind == 2)
        return (weft_schedule){WEFT_SCHEDULE_COSINE, .warmup = warmup, .end = whole(m, "total_steps"),
                               .to = real(m, "floor")};
    return warmup ? (weft_schedule){WEFT_SCHEDULE_CONSTANT, .warmup = warmup, .from = 1}
                  : (weft_schedule){WEFT_SCHEDULE_NONE};
}

static weft_optimizer optimizer_of(const json_t *m, weft_param_group *groups) {
    const json_t *list = json_object_get(m, "groups"), *entry;
    size_t k;
    weft_optimizer o = {.type = text(m, "type"),
                        .name = text(m, "name"),
                        .lr = real(m, "lr"),
                        .momentum = real(m, "momentum"),
                        .dampening = real(m, "dampening"),
                        .nesterov = json_is_true(json_object_get(m, "nesterov")),
                        .beta1 = real(m, "beta1"),
                        .beta2 = real(m, "beta2"),
                        .eps = real(m, "eps"),
                        .weight_decay = real(m, "weight_decay"),
                        .clip_norm = real(m, "clip_norm"),
                        .schedule = {schedule_of(m)},
                        .n_groups = (int)json_array_size(list),
                        .groups = json_array_size(list) ? groups : NULL};
    /* a scale of no decay is an error; adamw decays by default */
    bool decays = o.weight_decay > 0 || (o.weight_decay == 0 && strcmp(o.type, "adamw") == 0);
    json_array_foreach(list, k, entry) groups[k] = (weft_param_group){
        text(entry, "pattern"), real(entry, "lr_scale"), decays ? real(entry, "decay_scale") : 0};
    return o;
}

static void add_graph(weft_model *m, const json_t *from, double loss_scale) {
    static const weft_mode modes[] = {WEFT_EVAL, WEFT_TRAIN};
    weft_graph *g =
        weft_graph_new(m, text(from, "name"), modes[json_is_true(json_object_get(from, "train"))]);
    weft_value *values[MOST_VALUES];
    weft_param_group groups[16];
    const json_t *entry;
    size_t k;
    int n = 0;
    json_array_foreach(json_object_get(from, "nodes"), k, entry) {
        if (n + MOST_IN > MOST_VALUES) call_stop("too many nodes", text(from, "name"));
        n = add_node(g, entry, values, n);
    }
    json_array_foreach(json_object_get(from, "outs"), k, entry)
        weft_output(values[whole(entry, "id")], text(entry, "name"));
    json_array_foreach(json_object_get(from, "freeze"), k, entry) weft_freeze(m, json_string_value(entry));
    json_array_foreach(json_object_get(from, "mins"), k, entry) {
        weft_optimizer o = optimizer_of(entry, groups);
        o.loss_scale = loss_scale;
        if (o.n_groups > 16) call_stop("too many groups", o.name);
        weft_minimize(values[whole(entry, "loss")], text(entry, "pattern"), &o);
    }
}

weft_model *case_model(const json_t *c, size_t config) {
    const json_t *graph, *o = json_array_get(json_object_get(c, "configs"), config);
    weft_model *m = weft_model_new("case");
    size_t k;
    if (!m) call_stop("out of memory", "model");
    if (whole(c, "batch") > 0) weft_model_set_batch(m, whole(c, "batch"));
    json_array_foreach(json_object_get(c, "graphs"), k, graph) add_graph(m, graph, real(o, "loss_scale"));
    return m;
}
