/* built.c - updates that are built from ops, which end in a `renew` of the parameters and of each state:
 *      g' = scale g                              clipping and the loss scale of f16
 *      p', slots' = the optimizer's builder      over the whole range where every op of it is pointwise
 *                                                (else for each parameter of the range, in its own shape)
 *      p', slots' = where(the step is done, p', slots' / p, slots)          f16
 *      renew(p, g, p')    renew(slot, g, slot')
 * The pass `fuse` joins the pointwise ops. */
#include "runtime/passes/optimizer/optimizer.h"

#include "ops/kit/ops.h"
#include "ops/optimizer/build.h"
#include "weft/ops.h"

#include <string.h>

/* The values of an update over one range: u.parameter and u.slots change, `before` keeps what they were. */
typedef struct range {
    program *p;
    const optimizer_kind *kind;
    const minimize_attrs *a;
    weft_update u, before;
} range;

static weft_value *number(const range *r, double value) {
    return weft_constant(r->p->graph, WEFT_F64, 0, NULL, value);
}

/* A setting of a model's own optimizer, by the name of its attribute. */
static weft_value *setting(const range *r, const char *name, const step_values *v) {
    bool is_scheduled = v->momentum && (strcmp(name, "momentum") == 0 || strcmp(name, "beta1") == 0);
    for (const op_attr *f = weft_op_minimize.attrs; f->name; f++)
        if (f->kind == ATTR_REAL && strcmp(f->name, name) == 0) {
            double value = *(const double *)((const char *)r->a + f->offset);
            return is_scheduled ? weft_scale(v->momentum, value) : number(r, value);
        }
    return NULL;
}

/* Each call makes its own constants; equal ones are merged later. */
static void numbers_fill(range *r, const step_values *v) {
    r->u.weight_decay = v->decay ? weft_scale(v->decay, r->a->weight_decay) : number(r, r->a->weight_decay);
    for (int i = 0; r->kind->own && i < WEFT_MAX_NUMBERS && r->kind->fields[i]; i++)
        r->u.numbers[i] = setting(r, r->kind->fields[i], v);
    if (r->kind->own) return;
    r->u.numbers[0] = v->product;
    r->u.numbers[1] = v->momentum;
}

/* ---- parameter by parameter ---- */

/* `flat` from element begin on, in the shape of a parameter. */
static weft_value *part_of(weft_value *flat, const weft_variable *v, int64_t begin) {
    weft_value *part = weft_slice(flat, 0, begin, begin + type_elements(&v->type));
    return weft_reshape(part, v->type.ndim, v->type.shape);
}

/* Appends the new values, flat, after what of `flat` comes between the last part and this one. */
static void append(weft_value **parts, int *n, weft_value *flat, int64_t end, int64_t begin,
                   weft_value *values) {
    if (begin > end) parts[(*n)++] = weft_slice(flat, 0, end, begin);
    if (values) parts[(*n)++] = weft_reshape(values, 1, (int64_t[]){-1});
}

/* lists[0] are the parts of the parameters, lists[1 + i] those of slot i. */
static bool build_part(range *r, const weft_variable *v, int64_t begin, int64_t end,
                       weft_value **lists[OPTIMIZER_SLOTS + 1], int counts[OPTIMIZER_SLOTS + 1]) {
    weft_update u = r->before;
    u.parameter = part_of(u.parameter, v, begin);
    u.gradient = part_of(r->u.gradient, v, begin);
    for (int i = 0; i < OPTIMIZER_SLOTS; i++)
        if (u.slots[i]) u.slots[i] = part_of(u.slots[i], v, begin);
    if (!u.parameter || !u.gradient || !optimizer_build(r->kind, &u, r->a)) return false;
    append(lists[0], &counts[0], r->before.parameter, end, begin, u.parameter);
    for (int i = 0; i < OPTIMIZER_SLOTS; i++)
        if (u.slots[i]) append(lists[1 + i], &counts[1 + i], r->before.slots[i], end, begin, u.slots[i]);
    return true;
}

/* All members in [first, first + the range's length) of the bucket. A range cuts no member: flat shards are
 * refused (trainings.c). */
static bool build_parts(range *r, const weft_variable *s, int64_t first) {
    int64_t length = r->before.parameter->type.shape[0], end = 0;
    weft_value **lists[OPTIMIZER_SLOTS + 1];
    int counts[OPTIMIZER_SLOTS + 1] = {0};
    for (int i = 0; i <= OPTIMIZER_SLOTS; i++)
        if (!(lists[i] =
                  arena_new_array(&r->p->graph->model->arena, 2 * (size_t)s->n_members + 1, sizeof **lists)))
            return model_fail(r->p->graph->model, r->p->graph, WEFT_MEMORY, "optimizer: out of memory");
    for (int m = 0; m < s->n_members; m++) {
        const weft_variable *v = s->members[m];
        int64_t begin = v->offset - first;
        if (begin < 0 || begin >= length) continue;
        if (!build_part(r, v, begin, end, lists, counts)) return false;
        end = begin + type_elements(&v->type);
    }
    append(lists[0], &counts[0], r->before.parameter, end, length, NULL);
    r->u.parameter = values_join(lists[0], counts[0]);
    for (int i = 0; i < OPTIMIZER_SLOTS; i++) {
        if (!r->before.slots[i]) continue;
        append(lists[1 + i], &counts[1 + i], r->before.slots[i], end, length, NULL);
        r->u.slots[i] = values_join(lists[1 + i], counts[1 + i]);
    }
    return model_ok(r->p->graph->model);
}

/* ---- the whole ---- */

/* Overwrites `old`; in f16, a step that is skipped leaves it. */
static weft_value *renewed(weft_graph *g, weft_value *old, weft_value *gradient, weft_value *new_one,
                           const step_values *v) {
    if (v->done) new_one = weft_where(weft_cast(v->done, WEFT_BOOL), new_one, old);
    return new_one ? node_value(g, &weft_op_renew, 3, (weft_value *[]){old, gradient, new_one}, NULL) : NULL;
}

weft_value *update_built(program *p, const optimizer_entry *o, const weft_variable *s, weft_variable *over,
                         weft_value *gradient, const minimize_attrs *a, double lr_scale,
                         const step_values *v) {
    weft_graph *g = p->graph;
    if (g->n_nodes > UPDATE_NODES)
        return model_fail(g->model, g, WEFT_UNSUPPORTED, "optimizer: graph %s would have more than %d nodes",
                          g->name, UPDATE_NODES);
    range r = {.p = p, .kind = optimizer_find(g->model, a->type), .a = a};
    r.u.parameter = variable_value(g, over);
    r.u.gradient = v->scale ? weft_update_scale(gradient, v->scale) : gradient;
    r.u.lr = lr_scale != 1 ? weft_scale(v->lr, lr_scale) : v->lr;
    r.u.step = v->step;
    for (int i = 0; i < OPTIMIZER_SLOTS; i++)
        if (optimizer_has_slot(a, r.kind, i))
            r.u.slots[i] = variable_value(g, optimizer_slot_of(p->plan, o, s, i));
    numbers_fill(&r, v);
    if (!model_ok(g->model)) return NULL;
    r.before = r.u;
    if (o->is_elementwise ? !optimizer_build(r.kind, &r.u, a)
                          : !build_parts(&r, s, s->shards ? over->offset : 0))
        return NULL;
    for (int i = 0; i < OPTIMIZER_SLOTS; i++)
        if (r.before.slots[i] != r.u.slots[i] && !renewed(g, r.before.slots[i], gradient, r.u.slots[i], v))
            return NULL;
    return renewed(g, r.before.parameter, gradient, r.u.parameter, v);
}

bool update_average(program *p, const optimizer_entry *o, const weft_variable *s, weft_value *gradient,
                    weft_value *updated, double ema, const step_values *v) {
    weft_graph *g = p->graph;
    weft_variable *state = optimizer_slot_of(p->plan, o, s, SLOT_AVERAGE);
    if (!state) return true;
    weft_value *old = variable_value(g, state), *is_first = weft_isnan(old);
    weft_value *next = moved(weft_where(is_first, updated, old), updated, ema); /* never NaN by itself */
    return renewed(g, old, gradient, weft_where(is_first, updated, next), v) != NULL;
}
