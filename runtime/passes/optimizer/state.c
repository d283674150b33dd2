/* state.c - the variables that updates of optimizers need. */
#include "runtime/passes/optimizer/optimizer.h"
#include "runtime/passes/passes.h"

#include "graph/core/precision.h"
#include "ops/optimizer/update.h"

#include <stdio.h>
#include <string.h>

bool optimizer_has_slot(const minimize_attrs *a, const optimizer_kind *kind, int slot) {
    if (slot >= OPTIMIZER_SLOTS || !kind->slots[slot]) return false;
    return !kind->slots_need || *(const double *)((const char *)a + kind->slots_need) != 0;
}

/* ---- names ---- */

typedef struct state_path {
    char text[2000];
} state_path;

static state_path path_of(const char *name, const char *what, const char *slot) {
    state_path p;
    snprintf(p.text, sizeof p.text, slot ? "optimizer.%s/%s/%s" : "optimizer.%s/%s", name, what, slot);
    return p;
}

static state_path gradient_path(const weft_variable *bucket, int level) {
    state_path p;
    snprintf(p.text, sizeof p.text, "gradient.%s/%d", bucket->path, level);
    return p;
}

weft_variable *optimizer_variable(weft_model *m, const char *name, const char *what, const char *slot) {
    return variable_find(m, path_of(name, what, slot).text);
}

weft_variable *gradient_variable(weft_model *m, const weft_variable *bucket, int level) {
    return variable_find(m, gradient_path(bucket, level).text);
}

/* ---- making them ---- */

static weft_variable *make(weft_model *m, const char *path, variable_kind kind, tensor_type type,
                           weft_init init) {
    return variable_shared(m, path, kind, &type, init);
}

/* For one more in plan->states, which doubles when its number is a power of two. */
static bool make_room(weft_plan *plan) {
    size_t count = (size_t)plan->n_states;
    if (count & (count - 1)) return true;
    optimizer_slot *more = arena_new_array(&plan->model->arena, count ? 2 * count : 1, sizeof *more);
    if (!more) return false;
    if (count) memcpy(more, plan->states, count * sizeof *more);
    plan->states = more;
    return true;
}

/* The record of one, once: several calls may train by one optimizer. first_state: number of the last record of a bucket,
 * by its index, from 1. */
static optimizer_slot *new_state(weft_plan *plan, const minimize_attrs *a, const weft_variable *s,
                                 const char *slot, int *first_state) {
    arena *memory = &plan->model->arena;
    const char *name = arena_printf(memory, "optimizer.%s", a->name);
    int *first = &first_state[s->index];
    for (int i = *first; name && i; i = plan->states[i - 1].next) {
        optimizer_slot *o = &plan->states[i - 1];
        if (strcmp(o->name, name) == 0 && strcmp(o->slot, slot) == 0) return o;
    }
    if (!name || !make_room(plan))
        return model_fail(plan->model, NULL, WEFT_MEMORY, "optimizer: memory could not be had");
    optimizer_slot *o = &plan->states[plan->n_states++];
    *o = (optimizer_slot){.bucket = s, .name = name, .slot = slot, .next = *first};
    *first = plan->n_states;
    return o;
}

/* State over a bucket, or over this rank's range of it. */
static bool make_slot(weft_plan *plan, const minimize_attrs *a, weft_variable *s, const char *slot,
                      int *first_state) {
    weft_variable *over = s->shards ? shard_find(plan->model, s) : s;
    optimizer_slot *state = new_state(plan, a, s, slot, first_state);
    if (!state) return false;
    if (!over) return true;
    weft_variable *v = make(plan->model, path_of(a->name, s->path, slot).text, VARIABLE_OPTIMIZER, over->type,
                            (weft_init){0});
    if (!v) return false;
    v->bucket = s;
    v->offset = over->offset; /* 0 for a bucket */
    v->members = s->shards ? NULL : s->members;
    v->n_members = s->shards ? 0 : s->n_members;
    state->variable = v;
    return true;
}

static bool make_gradients(weft_plan *plan, const weft_variable *s) {
    int levels = accumulate_levels(plan->options.accumulate);
    for (int l = 0; plan->options.accumulate > 1 && l < levels; l++) {
        weft_variable *g =
            make(plan->model, gradient_path(s, l).text, VARIABLE_GRADIENT, s->type, (weft_init){0});
        if (!g) return false;
        g->members = s->members;
        g->n_members = s->n_members;
    }
    return true;
}

/* Of f16's gradients (ops/optimizer/loss_scale.c). */
static bool make_loss_scale(weft_plan *plan, const training *t) {
    const minimize_attrs *a = t->minimize->attrs;
    weft_init first = {WEFT_INIT_CONSTANT, a->loss_scale > 0 ? a->loss_scale : MINIMIZE_LOSS_SCALE, 0};
    tensor_type number = type_scalar(WEFT_F64);
    if (!precision_reaches(t->graph, WEFT_F16, plan->options.precision)) return true;
    return make(plan->model, path_of(a->name, "loss_scale", NULL).text, VARIABLE_OPTIMIZER, number, first) &&
           make(plan->model, path_of(a->name, "good_steps", NULL).text, VARIABLE_OPTIMIZER, number,
                (weft_init){0});
}

static bool make_all(weft_plan *plan, const training *t, int *first_state) {
    weft_model *m = plan->model;
    const minimize_attrs *a = t->minimize->attrs;
    const optimizer_kind *kind = optimizer_find(a->type);
    tensor_type number = type_scalar(WEFT_F64);
    weft_init lr = {WEFT_INIT_CONSTANT, a->lr, 0};
    if (!make(m, path_of(a->name, "step", NULL).text, VARIABLE_OPTIMIZER, number, (weft_init){0}) ||
        !make(m, path_of(a->name, "lr", NULL).text, VARIABLE_OPTIMIZER, number, lr) ||
        !make_loss_scale(plan, t))
        return false;
    for (weft_variable *s = m->variables; s; s = s->next) {
        if (s->kind != VARIABLE_BUCKET || !t->trains[s->members[0]->index]) continue;
        for (int i = 0; optimizer_has_slot(a, kind, i); i++)
            if (!make_slot(plan, a, s, kind->slots[i], first_state)) return false;
        if (!make_gradients(plan, s)) return false;
    }
    return true;
}

bool optimizer_variables(weft_plan *plan) {
    size_t variables = (size_t)plan->model->n_variables + 1;
    int *first_state = arena_new_array(&plan->model->arena, variables, sizeof *first_state);
    if (!first_state) return model_fail(plan->model, NULL, WEFT_MEMORY, "optimizer: memory could not be had");
    for (int i = 0; i < plan->n_trainings; i++)
        if (!make_all(plan, &plan->trainings[i], first_state)) return false;
    return true;
}
