/* states.c - makes the variables that updates need: step, learning rate and loss scale of each optimizer, its
 * state over each bucket or this rank's range of it, and the buffers in which gradients of micro-batches are
 * added. */
#include "runtime/passes/optimizer/optimizer.h"
#include "runtime/passes/passes.h"

#include "graph/settings/precision.h"
#include "graph/settings/schedule.h"
#include "ops/optimizer/update.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

/* ---- finding them ---- */

/* Where the number of a slot is kept: index + 1 in plan->states, 0 until the slot is made. */
static int *slot_number(const optimizer_entry *o, const weft_variable *bucket, int slot) {
    return &o->slots[bucket->index * OPTIMIZER_STATES + slot];
}

weft_variable *optimizer_slot_of(const weft_plan *plan, const optimizer_entry *o, const weft_variable *bucket,
                                 int slot) {
    int number = *slot_number(o, bucket, slot);
    return number ? plan->states[number - 1].variable : NULL;
}

/* ---- making them ---- */

/* Makes the variable, or finds it where an earlier call made it with this kind and type. Paths are printed
 * only here; all other code follows the plan's pointers. */
__attribute__((format(printf, 5, 6))) static weft_variable *
make(weft_model *m, variable_kind kind, tensor_type type, weft_init init, const char *format, ...) {
    char path[2000];
    va_list args;
    va_start(args, format);
    vsnprintf(path, sizeof path, format, args);
    va_end(args);
    return variable_shared(m, path, kind, &type, init);
}

static weft_init init_of(double first) {
    return (weft_init){first != 0 ? WEFT_INIT_CONSTANT : WEFT_INIT_ZEROS, first, 0};
}

/* A scalar of the optimizer: f64[]. */
static weft_variable *make_number(weft_plan *plan, const optimizer_entry *o, const char *what, double first) {
    return make(plan->model, VARIABLE_OPTIMIZER, type_scalar(WEFT_F64), init_of(first), "%s/%s", o->path,
                what);
}

/* Appends to plan->states, and sets the slot's number. */
static optimizer_slot *add_state(weft_plan *plan, int *number, optimizer_slot state) {
    size_t count = (size_t)plan->n_states;
    optimizer_slot *more = arena_grow(&plan->model->arena, plan->states, count, sizeof *more);
    if (!more) return NULL;
    plan->states = more;
    more[count] = state;
    *number = ++plan->n_states;
    return &more[count];
}

/* Of the state over `over`, the bucket or this rank's range of it. */
static tensor_type slot_type(slot_shape shape, const weft_variable *s, const weft_variable *over) {
    int64_t end = over->offset + over->type.shape[0];
    int64_t count = slot_place(shape, s, end) - slot_place(shape, s, over->offset);
    return type_of(WEFT_F32, 1, &count);
}

/* State over a bucket, or over this rank's range of it; made once, though several calls may train by one
 * optimizer. A rank without a range, or without a parameter in it that has such state, has the record but no
 * variable. */
static bool make_slot(weft_plan *plan, const optimizer_entry *o, weft_variable *s,
                      const optimizer_slot_kind *kind, const minimize_attrs *a, int slot) {
    weft_variable *over = s->shards ? s->own : s;
    int *number = slot_number(o, s, slot);
    if (*number || !slot_place(kind->shape, s, s->type.shape[0])) return true;
    optimizer_slot *state = add_state(plan, number,
                                      (optimizer_slot){.bucket = s,
                                                       .name = o->path,
                                                       .slot = kind->name,
                                                       .shape = kind->shape,
                                                       .is_average = slot == SLOT_AVERAGE});
    if (!state) return false;
    tensor_type type = over ? slot_type(kind->shape, s, over) : (tensor_type){0};
    if (!over || !type.shape[0]) return true;
    double first =
        kind->initial_from ? *(const double *)((const char *)a + kind->initial_from) : kind->initial;
    weft_variable *v =
        make(plan->model, VARIABLE_OPTIMIZER, type, init_of(first), "%s/%s/%s", o->path, s->path, kind->name);
    if (!v) return false;
    v->bucket = s;
    v->offset = over->offset; /* 0 for a bucket */
    v->members = s->shards ? NULL : s->members;
    v->n_members = s->shards ? 0 : s->n_members;
    state->variable = v;
    return true;
}

/* The average of a state of the model, in a variable of its own. */
static bool make_state_average(weft_plan *plan, const optimizer_entry *o, const weft_variable *state) {
    int *number = slot_number(o, state, SLOT_AVERAGE);
    if (*number) return true;
    weft_variable *v = make(plan->model, VARIABLE_OPTIMIZER, state->type, init_of((double)NAN), "%s/%s/%s",
                            o->path, state->path, AVERAGE_NAME);
    optimizer_slot average = {
        .bucket = state, .name = o->path, .slot = AVERAGE_NAME, .is_average = true, .variable = v};
    return v && add_state(plan, number, average);
}

/* One buffer a level of the tree of the graph's micro-batches, each as large as the bucket, whole even with
 * ZeRO. Graphs that train the bucket share them. */
static bool make_gradients(weft_plan *plan, const weft_variable *s, const char *graph) {
    bool is_run = !plan->options.flow || flow_has(plan, graph);
    int of = is_run ? accumulate_of(plan, graph) : 1;
    bool are_kept = is_run && (of > 1 || plan->options.manual);
    for (int l = 0; are_kept && l < accumulate_levels(of); l++) {
        weft_variable *g =
            make(plan->model, VARIABLE_GRADIENT, s->type, (weft_init){0}, "gradient.%s/%d", s->path, l);
        if (!g) return false;
        g->members = s->members;
        g->n_members = s->n_members;
        gradient_levels(plan, s)[l] = g;
    }
    return true;
}

/* The loss scale of f16 gradients and the count of good steps (ops/optimizer/loss_scale.c), where the graph
 * computes in f16. */
static bool make_loss_scale(weft_plan *plan, const training *t, optimizer_entry *o) {
    const minimize_attrs *a = t->minimize->attrs;
    double first = a->loss_scale > 0 ? a->loss_scale : MINIMIZE_LOSS_SCALE;
    if (minimize_follows(t->minimize) || !precision_reaches(t->graph, WEFT_F16, plan->options.precision))
        return true;
    o->loss_scale = make_number(plan, o, "loss_scale", first);
    o->good_steps = make_number(plan, o, "good_steps", 0);
    return o->loss_scale && o->good_steps;
}

/* The number of the epoch, where a part of a schedule reads it. */
static bool make_epoch(weft_plan *plan, const minimize_attrs *a, optimizer_entry *o) {
    weft_schedule parts[WEFT_MAX_SCHEDULES];
    char why[SCHEDULE_WHY];
    bool is_read = false;
    if (!schedules_parse(a->schedule, parts, why))
        return model_fail(plan->model, NULL, WEFT_INTERNAL, "%s", why);
    for (int i = 0; i < schedule_count(parts); i++) is_read |= parts[i].by_epoch;
    return !is_read || (o->epoch = make_number(plan, o, "epoch", 0)) != NULL;
}

/* The optimizer of that name, added when it is new. NULL: no memory. */
static optimizer_entry *entry_of(weft_plan *plan, const char *name, int variables) {
    optimizer_entry *o = optimizer_named(plan, name);
    if (o) return o;
    arena *memory = &plan->model->arena;
    o = &plan->optimizers[plan->n_optimizers];
    *o = (optimizer_entry){.name = arena_copy(memory, name),
                           .path = arena_printf(memory, "optimizer.%s", name),
                           .slots = model_array(plan->model, variables * OPTIMIZER_STATES, sizeof *o->slots)};
    if (!o->name || !o->path || !o->slots) return NULL;
    plan->n_optimizers++;
    return o;
}

/* All variables for one minimize call. Rule of check_same (trainings.c): calls with one name have the same
 * settings. */
static bool make_all(weft_plan *plan, training *t, optimizer_entry *o) {
    weft_model *m = plan->model;
    const minimize_attrs *a = t->minimize->attrs;
    static const optimizer_slot_kind average = {.name = AVERAGE_NAME, .initial = (double)NAN};
    const optimizer_kind *kind = optimizer_find(m, a->type);
    if (!optimizer_is_elementwise(plan->model, kind, a, &o->is_elementwise)) return false;
    if (a->schedule && !(o->schedule = arena_copy(&m->arena, a->schedule))) return false;
    if (kind->has_product && !(o->product = make_number(plan, o, "product", 1))) return false;
    /* The mean of one loss: graphs that share an optimizer may have losses of very different sizes. */
    if (plan->options.guard == WEFT_GUARD_SPIKE &&
        !(t->loss_mean = make(m, VARIABLE_OPTIMIZER, type_scalar(WEFT_F64), init_of(-1), "%s/loss_mean.%s",
                              o->path, t->name)))
        return false;
    o->step = make_number(plan, o, "step", 0);
    if (!kind->follows)
        o->lr = make(m, VARIABLE_OPTIMIZER, type_scalar(WEFT_F64), (weft_init){WEFT_INIT_CONSTANT, a->lr, 0},
                     "%s/lr", o->path);
    if (!o->step || (!o->lr && !kind->follows) || !make_epoch(plan, a, o) || !make_loss_scale(plan, t, o))
        return false;
    for (weft_variable *s = m->variables; s; s = s->next) {
        if (training_averages(a, s) && !make_state_average(plan, o, s)) return false;
        if (s->kind != VARIABLE_BUCKET || !t->trains[s->members[0]->index]) continue;
        for (int i = 0; i < OPTIMIZER_SLOTS; i++)
            if (optimizer_has_slot(a, kind, i) && !make_slot(plan, o, s, &kind->slots[i], a, i)) return false;
        if (a->ema > 0 && !make_slot(plan, o, s, &average, a, SLOT_AVERAGE)) return false;
        if (!make_gradients(plan, s, t->name)) return false;
    }
    return true;
}

/* The pass. Records are by name, so calls of several graphs share them. */
bool optimizer_variables(weft_plan *plan) {
    weft_model *m = plan->model;
    int variables = m->n_variables; /* counts buckets, but not what is made here */
    int levels = accumulate_levels(plan->accumulate_most);
    plan->optimizers = model_array(m, plan->n_trainings, sizeof *plan->optimizers);
    if (plan->accumulate_most > 1 || plan->options.manual) {
        plan->gradients = model_array(m, (int64_t)variables * levels, sizeof *plan->gradients);
        if (!plan->gradients) return false;
    }
    for (int i = 0; i < plan->n_trainings; i++) {
        training *t = &plan->trainings[i];
        optimizer_entry *o = plan->optimizers ? entry_of(plan, t->optimizer, variables) : NULL;
        if (!o || !make_all(plan, t, o)) return false;
    }
    return true;
}
