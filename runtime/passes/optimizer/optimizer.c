/* optimizer.c - the pass that replaces `minimize` by update nodes over buckets.
 *
 * For each minimize call, at the end of the graph:
 *      lr    = schedule(base lr, step)...         step' = assign(step + 1)
 *      g     = bucket(gradients of the bucket's members)       one flat buffer for each bucket
 *      scale = clip_scale(root_sum(chunk_squares(g)...))        when clipping is asked for
 *      adam_update(bucket, g, exp_avg, exp_avg_sq, lr, step', scale)      or a step of ops (built.c)
 *      renew(average, g, where(average is NaN, p, ema average + (1 - ema) p))       where averages are kept
 *      assign(average, ...)      the same of the model's state, where ema_buffers is asked for
 * Where a group has a range of updates, its updates are skipped outside of it, by a scale of -1 or a `where`.
 * Where clip_value is asked for, gradients are clamped before that norm is taken.
 * In f16, loss_scale replaces clip_scale, and step grows by the number of steps that loss_scale did, 0 or 1.
 * With accumulation, the first micro-batch writes its buckets to the store's gradient buffers, later ones are
 * added to them, and only the last program updates. A program of the update alone has the sum of these
 * buffers as its buckets, and nothing that was in the graph before. In a world of several ranks the bucket
 * (the accumulated one) is summed over ranks first; with ZeRO each rank updates its own range and sends it to
 * all (reduction.c). */
#include "runtime/passes/distribute/reduction.h"
#include "runtime/passes/optimizer/optimizer.h"
#include "runtime/passes/passes.h"

#include "graph/settings/schedule.h"
#include "ops/optimizer/update.h"
#include "ops/kit/ops.h"
#include "weft/ops.h"

#include <string.h>

/* Copies the attributes that both ops have by the same name and kind: minimize's beta1 becomes adam_update's.
 */
static void copy_namesakes(const weft_op *to, void *into, const weft_op *from, const void *attrs) {
    for (const op_attr *t = to->attrs; t && t->name; t++)
        for (const op_attr *f = from->attrs; f->name; f++)
            if (strcmp(t->name, f->name) == 0 && t->kind == f->kind && t->kind <= ATTR_BOOL)
                memcpy((char *)into + t->offset, (const char *)attrs + f->offset, attr_width(t));
}

static void set_field(const weft_op *op, void *attrs, const char *name, double value) {
    for (const op_attr *f = op->attrs; f && f->name; f++) {
        if (strcmp(f->name, name)) continue;
        char *at = (char *)attrs + f->offset;
        if (f->kind == ATTR_REAL) *(double *)at = value;
        if (f->kind == ATTR_INT) *(int64_t *)at = (int64_t)value;
        if (f->kind == ATTR_BOOL) *(bool *)at = value != 0;
    }
}

/* list[i] becomes the gradient of the bucket's member i; gradient[] is by index of the parameter. */
static bool member_gradients(const weft_node *n, const weft_variable *s, weft_value *const *gradient,
                             weft_value **list) {
    for (int i = 0; i < s->n_members; i++) {
        list[i] = gradient[s->members[i]->index];
        if (!list[i])
            return model_fail(n->graph->model, n->graph, WEFT_INTERNAL, "optimizer: %s has no gradient",
                              s->members[i]->path);
    }
    return true;
}

/* Adds the bucket to the earlier micro-batches of the step; where the program ends it the result is the whole
 * sum. NULL as bucket: all have been added. */
static weft_value *accumulated(program *p, const weft_variable *s, weft_value *bucket) {
    enum { MOST = 24 }; /* levels and the bucket: accumulate is at most 2^20 */
    weft_graph *g = p->graph;
    weft_value *in[MOST];
    int of = p->accumulate, levels = accumulate_levels(of);
    for (int l = 0; l < levels; l++) in[l] = variable_value(g, gradient_levels(p->plan, s)[levels - 1 - l]);
    in[levels] = bucket;
    return node_value(g, &weft_op_accumulate, bucket ? levels + 1 : levels, in,
                      &(accumulate_attrs){.of = of, .last = program_ends_step(p)});
}

/* The bucket's gradients in one buffer: in the arena, or in the first phase of a step the store's level 0.
 * NULL after an error. */
static weft_value *bucket(program *p, const weft_node *n, weft_variable *s, weft_value *const *gradient) {
    weft_graph *g = p->graph;
    if (p->phase == PHASE_UPDATE) return accumulated(p, s, NULL);
    weft_value **list = scratch_array(g->model, s->n_members, sizeof *list);
    if (!list || !member_gradients(n, s, gradient, list)) return NULL;
    weft_node *b = node_new(g, &weft_op_bucket, s->n_members, list, &(variable_attrs){s->path});
    if (!b || p->phase == PHASE_WHOLE) return b ? &b->out[0] : NULL;
    if (p->phase != PHASE_FIRST) return accumulated(p, s, &b->out[0]);
    b->out[0].variable = *gradient_levels(p->plan, s);
    return &b->out[0];
}

static weft_value *clip(weft_graph *g, const minimize_attrs *a, weft_value *norm) {
    return node_value(g, &weft_op_clip_scale, 1, &norm, &(clip_scale_attrs){a->clip_norm});
}

/* A number f64[]. */
static weft_value *number(weft_graph *g, double value) {
    return weft_constant(g, WEFT_F64, 0, NULL, value);
}

/* The factor on gradients, from clipping and in f16 from the loss scale, which gets its next value here. */
static bool scale_begin(program *p, const minimize_attrs *a, const optimizer_entry *o, weft_value *norm,
                        step_values *out) {
    weft_graph *g = p->graph;
    weft_variable *scale = o->loss_scale, *good = o->good_steps;
    if (!norm) return false;
    if (!scale) return (out->scale = clip(g, a, norm)) != NULL;
    int64_t interval = a->growth_interval ? a->growth_interval : MINIMIZE_GROWTH_INTERVAL;
    weft_value *in[3] = {norm}; /* one node a statement: C leaves the order within a list open */
    in[1] = variable_value(g, scale);
    in[2] = variable_value(g, good);
    weft_node *n = node_new(g, &weft_op_loss_scale, 3, in,
                            &(loss_scale_attrs){a->clip_value > 0 ? 0 : a->clip_norm, interval});
    if (!n) return false;
    out->scale = &n->out[0];
    out->done = &n->out[3];
    return variable_assign(g, scale, &n->out[1]) && variable_assign(g, good, &n->out[2]);
}

/* The product of update_product() over the steps so far, for optimizers that have it. A skipped step leaves
 * it. */
static bool product_begin(program *p, const minimize_attrs *a, const optimizer_entry *o, step_values *out) {
    if (!o->product) return true;
    weft_value *before = variable_value(p->graph, o->product);
    weft_value *next = weft_mul(before, update_product(out->step, out->momentum, a));
    if (out->done) next = weft_where(weft_cast(out->done, WEFT_BOOL), next, before);
    return (out->product = variable_assign(p->graph, o->product, next)) != NULL;
}

/* What the schedule's parts of a number make of `base`; without base of 1, which gives a factor. Where
 * there are none, the base is copied: a deferred update must not read what the loop may set. */
static bool scheduled(program *p, const weft_schedule *parts, weft_scheduled of, const optimizer_entry *o,
                      weft_value *before, weft_value *base, weft_value **into) {
    weft_graph *g = p->graph;
    *into = base;
    for (int i = 0; i < schedule_count(parts); i++) {
        if (parts[i].of != of) continue;
        schedule_attrs attrs = schedule_attrs_of(&parts[i]);
        weft_value *count = parts[i].by_epoch ? variable_value(g, o->epoch) : before;
        weft_value *in[] = {count, *into, base};
        if (!(*into = node_value(g, &weft_op_schedule, attrs.replaces ? 3 : 2, in, &attrs))) return false;
    }
    if (base && *into == base)
        *into = node_value(g, &weft_op_schedule, 2, (weft_value *[]){before, base}, &(schedule_attrs){0});
    return *into || !base;
}

/* Learning rate and factors, from the schedule and the steps done so far, and the next step count, which
 * updates use for bias correction. */
static bool step_begin(program *p, const minimize_attrs *a, const optimizer_entry *o, step_values *out) {
    weft_graph *g = p->graph;
    weft_schedule parts[WEFT_MAX_SCHEDULES];
    char why[SCHEDULE_WHY];
    if (!schedules_parse(a->schedule, parts, why)) return graph_fail(g, WEFT_INTERNAL, "%s", why);
    weft_value *before = variable_value(g, o->step);
    weft_value *base = o->lr ? variable_value(g, o->lr) : number(g, 1);
    if (!before || !base || !scheduled(p, parts, WEFT_SCHEDULED_LR, o, before, base, &out->lr) ||
        !scheduled(p, parts, WEFT_SCHEDULED_MOMENTUM, o, before, NULL, &out->momentum) ||
        !scheduled(p, parts, WEFT_SCHEDULED_WEIGHT_DECAY, o, before, NULL, &out->decay))
        return false;
    weft_value *next = out->done ? weft_add(before, out->done) : weft_offset(before, 1);
    out->step = variable_assign(g, o->step, next);
    return out->step && product_begin(p, a, o, out);
}

/* The state while one minimize call is expanded; arrays are by index of a variable. */
typedef struct expansion {
    program *p;
    weft_node *n;
    const minimize_attrs *a;
    const optimizer_entry *o;
    param_groups groups;
    weft_value **gradient; /* by parameter: its gradient */
    bool *is_trained;
    int n_buckets;
    weft_variable **buckets; /* the trained ones, in the order in which the backward finishes them */
    weft_value **flat;       /* the bucket's gradients; once finished, their sum over ranks */
    weft_value **own;        /* the gradients that this rank updates by; NULL: no range */
    /* by bucket, bool[]: whether this update is one in which its group trains; NULL: it always is */
    weft_value **trains;
    step_values v;
    guarding *guard;
    bool is_summed; /* all sums over ranks have been awaited, for the norm */
} expansion;

/* Whether this update, number `before`, is in the range of the bucket's group. */
static bool find_range(expansion *e, weft_variable *s) {
    weft_graph *g = e->p->graph;
    int64_t from, to;
    if (!param_groups_range(&e->groups, s->members[0], &from, &to)) return true;
    weft_value *before = variable_value(g, e->o->step), **trains = &e->trains[s->index];
    if (from) *trains = weft_greater_equal(before, number(g, (double)from));
    weft_value *end = to ? number(g, (double)to) : NULL;
    weft_value *is_before = to ? weft_less(before, end) : NULL;
    if (to) *trains = from ? weft_logical_and(*trains, is_before) : is_before;
    return *trains != NULL;
}

/* The numbers of a bucket's update: outside of its range it is skipped, and its steps count from there. */
static bool in_range(const expansion *e, const weft_variable *s, step_values *v) {
    weft_graph *g = e->p->graph;
    weft_value *trains = e->trains[s->index];
    int64_t from, to;
    *v = e->v;
    if (!trains) return true;
    weft_value *done = weft_cast(trains, WEFT_F64), *skip = number(g, -1);
    weft_value *scale = v->scale ? v->scale : number(g, 1);
    param_groups_range(&e->groups, s->members[0], &from, &to);
    v->done = v->done ? weft_mul(v->done, done) : done;
    v->scale = weft_where(trains, scale, skip);
    if (from) v->step = weft_offset(v->step, -(double)from);
    return v->done && v->scale && v->step;
}

/* Updates `over`, the bucket or this rank's range of it, by `gradient`. Returns the updated values. */
static weft_value *update(const expansion *e, const weft_variable *s, weft_variable *over,
                          weft_value *gradient) {
    weft_graph *g = e->p->graph;
    const minimize_attrs *a = e->a;
    step_values v;
    const optimizer_kind *kind = optimizer_find(g->model, a->type);
    minimize_attrs own = *a;
    double lr_scale = param_groups_apply(&e->groups, s->members[0], &own);
    if (!in_range(e, s, &v)) return NULL;
    if (optimizer_is_built(a, kind)) return update_built(e->p, e->o, s, over, gradient, &own, lr_scale, &v);
    weft_value *in[OPTIMIZER_SLOTS + 7] = {variable_value(g, over), gradient};
    int n = 2;
    _Alignas(16) char attrs[256] = {0};
    for (int i = 0; i < op_max_in(kind->update) - 7; i++)
        in[n++] = optimizer_has_slot(a, kind, i)
                      ? variable_value(g, optimizer_slot_of(e->p->plan, e->o, s, i))
                      : NULL;
    weft_value *const numbers[] = {v.lr, v.step, v.scale, v.momentum, v.decay};
    for (int i = 0; i < 5; i++) in[n++] = numbers[i];
    while (!in[n - 1]) n--;
    copy_namesakes(kind->update, attrs, &weft_op_minimize, &own);
    set_field(kind->update, attrs, "lr_scale", lr_scale);
    if (kind->sets.name) set_field(kind->update, attrs, kind->sets.name, kind->sets.value);
    return node_value(g, kind->update, n, in, attrs);
}

/* Makes the bucket, and starts its sum over ranks when this program ends the step. */
static bool gather(expansion *e, weft_variable *s) {
    program *p = e->p;
    weft_value *flat = bucket(p, e->n, s, e->gradient);
    if (flat && program_ends_step(p) && reduction_is_needed(p, s)) flat = reduction_start(p, s, flat);
    return (e->flat[s->index] = flat) != NULL;
}

/* Clips a range of gradients by value; with `factor`, f16's, the product. */
static bool clip_values(const minimize_attrs *a, weft_value *factor, weft_value **own) {
    if (a->clip_value <= 0 || !*own) return true;
    if (factor) *own = weft_mul(*own, weft_cast(factor, WEFT_F32));
    return (*own = weft_clamp(*own, -a->clip_value, a->clip_value)) != NULL;
}

/* Waits for the bucket's sum and takes this rank's part of it, clipped unless f16's scale is still in it. */
static bool finish_sum(expansion *e, weft_variable *s) {
    weft_value **own = &e->own[s->index];
    e->flat[s->index] = reduction_finish(e->p, s, e->flat[s->index]);
    return e->flat[s->index] && reduction_own(e->p, s, e->flat[s->index], own) &&
           (e->o->loss_scale || clip_values(e->a, NULL, own));
}

/* f16 with clipping by value: the gradients lose their scale, are clipped by value, then by their new norm. A
 * step that was found to overflow is skipped all the same. */
static bool clip_unscaled(expansion *e, weft_variable *s) {
    return clip_values(e->a, e->v.scale, &e->own[s->index]);
}

static bool apply(expansion *e, weft_variable *s) {
    program *p = e->p;
    if (!e->is_summed && !finish_sum(e, s)) return false;
    weft_value *own = e->own[s->index], *done = e->flat[s->index];
    weft_variable *over = s->shards ? s->own : s;
    if (own && (!(done = update(e, s, over, own)) || !update_average(p, e->o, s, own, done, e->a, &e->v)))
        return false;
    return !s->shards || reduction_return(p, s, done, e->v.scale);
}

/* Calls act for each bucket in the order of the backward; stops at the first error. */
static bool for_buckets(expansion *e, bool (*act)(expansion *e, weft_variable *s)) {
    for (int i = 0; i < e->n_buckets; i++)
        if (!act(e, e->buckets[i])) return false;
    return true;
}

/* Updates of whole buckets run in the order of their sums. With ZeRO the last bucket goes first: it holds
 * what the next forward reads first, and parameters travel back in the order of the updates. */
static bool apply_all(expansion *e) {
    bool is_sharded = false;
    for (int i = 0; i < e->n_buckets; i++) is_sharded |= e->buckets[i]->shards != NULL;
    for (int i = 0; i < e->n_buckets; i++)
        if (!apply(e, e->buckets[is_sharded ? e->n_buckets - 1 - i : i])) return false;
    return true;
}

/* Finds the buckets whose parameters autodiff gave gradients; false: the loss reaches none, and may leave all
 * out. */
static bool find_trained(expansion *e) {
    int count = (e->n->n_in - 1) / 2;
    for (int k = 0; k < count; k++) {
        const weft_variable *v = e->n->in[1 + k]->variable;
        e->gradient[v->index] = e->n->in[1 + count + k];
        if (v->bucket) e->is_trained[v->bucket->index] = true;
    }
    for (weft_variable *s = e->p->graph->model->variables; s; s = s->next)
        if (e->is_trained[s->index]) e->buckets[e->n_buckets++] = s;
    return e->n_buckets > 0;
}

static weft_value *norm_of(const expansion *e) {
    return reduction_norm(e->p, e->buckets, e->n_buckets, e->own, e->trains);
}

/* Whether the guard judges gradients, too. f16's loss scale does so itself. */
static bool is_judged(const expansion *e) {
    return e->p->plan->options.guard == WEFT_GUARD_GRAD && !e->o->loss_scale;
}

/* The factor that all updates wait for, where there is one. */
static bool clip_begin(expansion *e) {
    weft_graph *g = e->p->graph;
    bool scales = e->a->clip_norm > 0 || e->o->loss_scale;
    if (!scales && !is_judged(e)) return true;
    weft_value *norm = for_buckets(e, finish_sum) ? norm_of(e) : NULL;
    e->is_summed = true;
    if (is_judged(e) && !guard_norm(e->guard, norm)) return false;
    if (!scales) return true;
    if (!scale_begin(e->p, e->a, e->o, norm, &e->v)) return false;
    if (e->a->clip_value <= 0 || !e->o->loss_scale) return true;
    if (!for_buckets(e, clip_unscaled)) return false;
    weft_value *factor = e->a->clip_norm > 0 ? clip(g, e->a, norm_of(e)) : number(g, 1);
    weft_value *skip = number(g, -1);
    return (e->v.scale = weft_where(weft_cast(e->v.done, WEFT_BOOL), factor, skip)) != NULL;
}

/* The nodes of one minimize call before its updates. Programs that do not end the step only fill and add up
 * buckets. */
static bool expand_sums(expansion *e) {
    if (!find_trained(e)) return true;
    if (!for_buckets(e, gather)) return false;
    return !program_ends_step(e->p) || (for_buckets(e, find_range) && clip_begin(e));
}

/* And its updates. */
static bool expand_updates(expansion *e) {
    program *p = e->p;
    if (!e->n_buckets || !program_ends_step(p)) return true;
    return step_begin(p, e->a, e->o, &e->v) && apply_all(e) && update_state_averages(p, e->o, e->a, &e->v);
}

static bool expansion_open(expansion *e, program *p, weft_node *n, guarding *guard) {
    weft_model *m = p->graph->model;
    const minimize_attrs *a = n->attrs;
    *e = (expansion){.p = p,
                     .n = n,
                     .a = a,
                     .o = optimizer_named(p->plan, a->name),
                     .guard = guard,
                     .gradient = scratch_array(m, m->n_variables, sizeof *e->gradient),
                     .is_trained = scratch_array(m, m->n_variables, sizeof *e->is_trained),
                     .flat = scratch_array(m, m->n_variables, sizeof *e->flat),
                     .own = scratch_array(m, m->n_variables, sizeof *e->own),
                     .trains = scratch_array(m, m->n_variables, sizeof *e->trains),
                     .buckets = scratch_array(m, m->n_variables, sizeof *e->buckets)};
    if (!e->o) return node_fail(m, n, WEFT_INTERNAL, "optimizer %s has no variables", SHOW(a->name));
    return param_groups_open(&e->groups, &m->env, a->groups) && e->gradient && e->is_trained && e->flat &&
           e->own && e->trains && e->buckets;
}

/* For a program of the update alone: leaves nothing but `minimize`, whose operands still name the parameters.
 * Updates then read all variables again, as earlier runs left them. */
static void keep_minimizes(weft_graph *g) {
    g->outputs = NULL;
    g->outputs_end = &g->outputs;
    for (weft_node *n = g->last, *before; n; n = before) {
        before = n->prev;
        if (n->op != &weft_op_minimize) node_remove(n);
    }
}

/* Two calls of one graph must not use one optimizer: its step would count twice in a run. */
static bool check_other_names(const weft_node *n) {
    weft_graph *g = n->graph;
    const char *name = ((const minimize_attrs *)n->attrs)->name;
    for (const weft_node *other = n->next; other; other = other->next)
        if (other->op == &weft_op_minimize && strcmp(((const minimize_attrs *)other->attrs)->name, name) == 0)
            return node_fail(g->model, other, WEFT_NAME,
                             "minimize: graph %s: two minimize calls use the optimizer '%s': give each a "
                             "name of its own (weft_optimizer.name)",
                             g->name, SHOW(name));
    return true;
}

static weft_node *next_minimize(weft_node *n) {
    while (n && n->op != &weft_op_minimize) n = n->next;
    return n;
}

/* Each stage of the pass is for all calls list[0 .. count) in turn. */
static bool for_calls(expansion *list, int count, bool (*act)(expansion *e)) {
    weft_graph *g = list->p->graph;
    bool good = true;
    for (int i = 0; i < count && good; i++) {
        build_place at;
        build_begin(&at, g, scope_intern(g->model, ""), g->cursor);
        good = act(&list[i]);
        build_end(&at);
    }
    return good;
}

static bool expand(expansion *e) {
    return expand_sums(e) && expand_updates(e);
}

/* Where a gate waits for norms of gradients, all of them come before the first update. */
static bool expand_all(expansion *list, int count, guarding *guard) {
    if (list->p->plan->options.guard != WEFT_GUARD_GRAD) return for_calls(list, count, expand);
    return for_calls(list, count, expand_sums) && guard_end(list->p, guard) &&
           for_calls(list, count, expand_updates);
}

/* The pass `clean` orders the new nodes by edges. */
bool pass_optimizer(program *p) {
    weft_graph *g = p->graph;
    int count = 0;
    guarding guard;
    expansion *list = scratch_array(g->model, p->plan->n_trainings, sizeof *list);
    if (p->phase == PHASE_UPDATE) keep_minimizes(g);
    if (!list || !next_minimize(g->first)) return list != NULL;
    g->building_update = p->trains = true;
    bool good = guard_begin(p, &guard);
    for (weft_node *n = next_minimize(g->first); n && good; n = next_minimize(n->next))
        good = check_other_names(n) && expansion_open(&list[count++], p, n, &guard);
    good = good && expand_all(list, count, &guard);
    g->building_update = false;
    for (int i = 0; i < count; i++) {
        if (good) node_remove(list[i].n);
        param_groups_close(&list[i].groups);
    }
    return good;
}
