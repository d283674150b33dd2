/* built.c - updates that are built from ops, which end in a `renew` of the parameters and of each state:
 *      g' = scale g                              clipping and the loss scale of f16
 *      p', slots' = the optimizer's builder      over the whole range where every op of it is pointwise
 *                                                (else for each parameter of the range, in its own shape)
 *      p', slots' = where(the step is done, p', slots' / p, slots)          f16
 *      renew(p, g, p')    renew(slot, g, slot')
 * The pass `fuse` joins the pointwise ops. */
#include "runtime/passes/distribute/reduction.h"
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
    for (int i = 0; r->kind->own && r->kind->fields[i]; i++)
        r->u.numbers[i] = setting(r, r->kind->fields[i], v);
    if (r->kind->own) return;
    r->u.numbers[0] = v->product;
    r->u.numbers[1] = v->momentum;
}

/* ---- parameter by parameter ---- */

/* What a parameter reads of a flat buffer, and the new values of such a buffer so far: parts[0 .. n), which
 * reach up to element `end`. */
typedef struct pieces {
    weft_value *flat; /* NULL: there is none */
    slot_shape shape;
    int64_t first; /* of the buffer, as slot_place says it */
    int64_t end;
    weft_value **parts;
    int n;
} pieces;

enum { OF_PARAMETER, OF_GRADIENT, OF_SLOTS, BUFFERS = OF_SLOTS + OPTIMIZER_SLOTS };

/* Of a parameter, in its shape; NULL: the buffer has nothing of it. */
static weft_value *piece_of(const pieces *b, const weft_variable *v) {
    tensor_type type;
    if (!b->flat || !optimizer_slot_type(b->shape, &v->type, &type)) return NULL;
    int64_t begin = slot_place(b->shape, v->bucket, v->offset) - b->first;
    weft_value *part = weft_slice(b->flat, 0, begin, begin + type_elements(&type));
    return weft_reshape(part, type.ndim, type.shape);
}

/* Appends what of the buffer lies between the last part and `begin`, and new values, which may be NULL. */
static void append(pieces *b, int64_t begin, weft_value *values) {
    if (begin > b->end) b->parts[b->n++] = weft_slice(b->flat, 0, b->end, begin);
    if (!values) return;
    b->parts[b->n++] = weft_reshape(values, 1, (int64_t[]){-1});
    b->end = begin + type_elements(&values->type);
}

static void append_piece(pieces *b, const weft_variable *v, weft_value *values) {
    if (values) append(b, slot_place(b->shape, v->bucket, v->offset) - b->first, values);
}

static bool build_part(const range *r, const weft_variable *v, pieces list[BUFFERS]) {
    weft_update u = r->before;
    u.parameter = piece_of(&list[OF_PARAMETER], v);
    u.gradient = piece_of(&list[OF_GRADIENT], v);
    for (int i = 0; i < OPTIMIZER_SLOTS; i++) u.slots[i] = piece_of(&list[OF_SLOTS + i], v);
    if (!u.parameter || !u.gradient || !optimizer_build(r->kind, &u, r->a)) return false;
    append_piece(&list[OF_PARAMETER], v, u.parameter);
    for (int i = 0; i < OPTIMIZER_SLOTS; i++) append_piece(&list[OF_SLOTS + i], v, u.slots[i]);
    return true;
}

/* The whole buffer from its parts. */
static weft_value *joined(pieces *b) {
    append(b, b->flat->type.shape[0], NULL);
    return values_join(b->parts, b->n);
}

/* All members in [first, first + the range's length) of the bucket. A range cuts no member: flat shards are
 * refused (trainings.c). */
static bool build_parts(range *r, const weft_variable *s, int64_t first) {
    int64_t length = r->before.parameter->type.shape[0];
    pieces list[BUFFERS] = {{.flat = r->before.parameter}, {.flat = r->u.gradient}};
    for (int i = 0; i < OPTIMIZER_SLOTS; i++)
        list[OF_SLOTS + i] = (pieces){.flat = r->before.slots[i], .shape = r->kind->slots[i].shape};
    for (int i = 0; i < BUFFERS; i++) {
        list[i].first = slot_place(list[i].shape, s, first);
        list[i].parts = scratch_array(r->p->graph->model, 2 * s->n_members + 1, sizeof *list[i].parts);
        if (!list[i].parts) return false;
    }
    for (int m = 0; m < s->n_members; m++) {
        int64_t begin = s->members[m]->offset - first;
        if (begin >= 0 && begin < length && !build_part(r, s->members[m], list)) return false;
    }
    r->u.parameter = joined(&list[OF_PARAMETER]);
    for (int i = 0; i < OPTIMIZER_SLOTS; i++)
        if (r->before.slots[i]) r->u.slots[i] = joined(&list[OF_SLOTS + i]);
    return model_ok(r->p->graph->model);
}

/* ---- the whole ---- */

/* Overwrites `old`; in f16, a step that is skipped leaves it. */
static weft_value *renewed(weft_graph *g, weft_value *old, weft_value *gradient, weft_value *new_one,
                           const step_values *v) {
    if (v->done) new_one = weft_where(weft_cast(v->done, WEFT_BOOL), new_one, old);
    return node_value(g, &weft_op_renew, 3, (weft_value *[]){old, gradient, new_one}, NULL);
}

weft_value *update_built(program *p, const optimizer_entry *o, const weft_variable *s, weft_variable *over,
                         weft_value *gradient, const minimize_attrs *a, double lr_scale,
                         const step_values *v) {
    weft_graph *g = p->graph;
    if (g->n_nodes > UPDATE_NODES)
        return graph_fail(g, WEFT_UNSUPPORTED, "optimizer: graph %s would have more than %d nodes", g->name,
                          UPDATE_NODES);
    range r = {.p = p, .kind = optimizer_find(g->model, a->type), .a = a};
    r.u.parameter = variable_value(g, over);
    r.u.gradient = v->scale ? weft_update_scale(gradient, v->scale) : gradient;
    r.u.lr = lr_scale != 1 ? weft_scale(v->lr, lr_scale) : v->lr;
    r.u.step = v->step;
    for (int i = 0; i < OPTIMIZER_SLOTS; i++) {
        weft_variable *state = optimizer_has_slot(a, r.kind, i) ? optimizer_slot_of(p->plan, o, s, i) : NULL;
        if (state) r.u.slots[i] = variable_value(g, state);
    }
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

/* ema old + (1 - ema) now; with a warm-up, by ema (1 - exp(-step / gamma)) for ema. */
static weft_value *averaged(weft_value *old, weft_value *now, const minimize_attrs *a, const step_values *v) {
    if (a->ema_gamma == 0) return moved(old, now, a->ema);
    weft_value *lost = weft_scale(weft_exp(weft_scale(v->step, -1 / a->ema_gamma)), -1);
    weft_value *keep = weft_scale(weft_offset(lost, 1), a->ema);
    weft_value *share = weft_offset(weft_scale(keep, -1), 1), *kept = weft_update_scale(old, keep);
    return weft_add(kept, weft_update_scale(now, share));
}

/* The average's next value: `now` where it begins. */
static weft_value *next_average(weft_value *old, weft_value *now, const minimize_attrs *a,
                                const step_values *v) {
    weft_value *is_first = weft_isnan(old);
    weft_value *next = averaged(weft_where(is_first, now, old), now, a, v); /* never NaN by itself */
    return weft_where(is_first, now, next);
}

bool update_average(program *p, const optimizer_entry *o, const weft_variable *s, weft_value *gradient,
                    weft_value *updated, const minimize_attrs *a, const step_values *v) {
    weft_variable *average = optimizer_slot_of(p->plan, o, s, SLOT_AVERAGE);
    if (!average) return true;
    weft_value *old = variable_value(p->graph, average);
    return renewed(p->graph, old, gradient, next_average(old, updated, a, v), v) != NULL;
}

bool update_state_averages(program *p, const optimizer_entry *o, const minimize_attrs *a,
                           const step_values *v) {
    weft_graph *g = p->graph;
    for (weft_variable *s = a->ema_buffers ? g->model->variables : NULL; s; s = s->next) {
        weft_variable *average =
            training_averages(a, s) ? optimizer_slot_of(p->plan, o, s, SLOT_AVERAGE) : NULL;
        if (!average) continue;
        weft_value *old = variable_value(g, average);
        weft_value *next = next_average(old, variable_value(g, s), a, v);
        if (v->done) next = weft_where(weft_cast(v->done, WEFT_BOOL), next, old);
        if (!variable_assign(g, average, next)) return false;
    }
    return true;
}
