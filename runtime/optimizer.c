/* optimizer.c - the pass that turns `minimize` into update nodes over segments.
 *
 * For each minimize call, at the end of the graph:
 *     lr    = schedule(base lr, step)            step' = assign(step + 1)
 *     g     = bucket(gradients of the segment's members)       one flat buffer a segment
 *     scale = clip_scale(global_norm(all gradients))           when clipping is asked for
 *     adam_update(segment, g, exp_avg, exp_avg_sq, lr, step', scale)
 * With accumulation the buckets of the first micro-batch are the store's gradient buffers, later ones are added
 * to them, and only the last program updates. In a world of several ranks a bucket (the accumulated one) goes
 * through all_reduce and wait before its update; with ZeRO it is reduced to the segment's owner, which alone updates
 * and then broadcasts the parameters.
 */
#include "runtime/program.h"

#include "graph/minimize.h"
#include "ops/collective.h"
#include "ops/update.h"
#include "weft/comm.h"
#include "weft/ops.h"

#include <stdio.h>
#include <string.h>

extern const weft_op weft_op_bucket;

/* Every optimizer: a new one is an op and a row. Operands of the op: segment, gradients, slots..., lr, step, scale. */
typedef struct optimizer_kind {
    const char *type;
    const weft_op *op;
    const char *slots[3]; /* torch's names of the state; NULL ends */
} optimizer_kind;

static const optimizer_kind kinds[] = {
    {"sgd", &weft_op_sgd_update, {"momentum_buffer"}},
    {"adam", &weft_op_adam_update, {"exp_avg", "exp_avg_sq"}},
    {"adamw", &weft_op_adam_update, {"exp_avg", "exp_avg_sq"}},
};

static const optimizer_kind *kind_of(const minimize_attrs *a) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].type, a->type) == 0) return &kinds[i];
    return NULL;
}

static bool has_slot(const minimize_attrs *a, const optimizer_kind *kind, int slot) {
    if (slot >= 3 || !kind->slots[slot]) return false;
    return kind->op != &weft_op_sgd_update || a->momentum != 0;
}

/* ---- variables ---- */

static weft_variable *find(weft_model *m, const char *optimizer, const char *what, const char *slot) {
    char path[1500];
    snprintf(path, sizeof path, slot ? "optimizer.%s/%s/%s" : "optimizer.%s/%s", optimizer, what, slot);
    return variable_find(m, path);
}

static bool make(weft_model *m, const char *optimizer, const char *what, const char *slot, tensor_type type,
                 weft_variable *segment, weft_init init) {
    char path[1500];
    if (find(m, optimizer, what, slot)) return true;
    snprintf(path, sizeof path, slot ? "optimizer.%s/%s/%s" : "optimizer.%s/%s", optimizer, what, slot);
    weft_variable *v = variable_new(m, path, VARIABLE_OPTIMIZER, &type, init);
    if (!v) return false;
    v->segment = segment;
    v->owner = segment ? segment->owner : 0;
    if (segment) {
        v->members = segment->members;
        v->n_members = segment->n_members;
    }
    return true;
}

static bool is_trained_by(const weft_variable *segment, const minimize_attrs *a) {
    return segment->kind == VARIABLE_SEGMENT && path_matches(a->pattern, segment->members[0]->path);
}

/* Level `level` of the tree in which micro-batches are added (ops/accumulate.c). */
static void gradient_path(char path[400], const weft_variable *segment, int level) {
    snprintf(path, 400, "gradient.%s/%d", segment->path, level);
}

static bool make_gradients(weft_model *m, const weft_variable *s, int levels) {
    char path[400];
    for (int l = 0; l < levels; l++) {
        gradient_path(path, s, l);
        if (variable_find(m, path)) continue;
        weft_variable *g = variable_new(m, path, VARIABLE_GRADIENT, &s->type, (weft_init){0});
        if (!g) return false;
        g->members = s->members;
        g->n_members = s->n_members;
    }
    return true;
}

static bool make_all(weft_model *m, const minimize_attrs *a, int accumulate) {
    const optimizer_kind *kind = kind_of(a);
    if (!make(m, a->name, "step", NULL, type_scalar(WEFT_F64), NULL, (weft_init){0}) ||
        !make(m, a->name, "lr", NULL, type_scalar(WEFT_F64), NULL, (weft_init){WEFT_INIT_CONSTANT, a->lr, 0}))
        return false;
    for (weft_variable *s = m->variables; s; s = s->next) {
        if (!is_trained_by(s, a)) continue;
        for (int i = 0; has_slot(a, kind, i); i++)
            if (!make(m, a->name, s->path, kind->slots[i], s->type, s, (weft_init){0})) return false;
        if (accumulate > 1 && !make_gradients(m, s, accumulate_levels(accumulate))) return false;
    }
    return true;
}

bool optimizer_variables(weft_model *m, const weft_model *source, int accumulate) {
    for (const weft_graph *g = source->graphs; g; g = g->next)
        for (const weft_node *n = g->first; n; n = n->next)
            if (n->op == &weft_op_minimize && !make_all(m, n->attrs, accumulate)) return false;
    return true;
}

/* ---- the pass ---- */

typedef struct step_values {
    weft_value *lr, *step, *scale;
} step_values;

/* Sets the fields of `into` that have a namesake in `from`: minimize's beta1 becomes adam_update's. */
static void copy_namesakes(const weft_op *to, void *into, const weft_op *from, const void *attrs) {
    static const size_t width[] = {[ATTR_INT] = 8, [ATTR_REAL] = 8, [ATTR_BOOL] = sizeof(bool)};
    for (const op_attr *t = to->attrs; t && t->name; t++)
        for (const op_attr *f = from->attrs; f->name; f++)
            if (strcmp(t->name, f->name) == 0 && t->kind == f->kind && t->kind <= ATTR_BOOL)
                memcpy((char *)into + t->offset, (const char *)attrs + f->offset, width[t->kind]);
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

/* The gradients of a segment's members in their order, from the minimize node's operands. */
static bool member_gradients(const weft_node *n, const weft_variable *s, weft_value **list) {
    int count = (n->n_in - 1) / 2;
    for (int i = 0; i < s->n_members; i++) {
        list[i] = NULL;
        for (int k = 0; k < count; k++)
            if (n->in[1 + k]->variable == s->members[i]) list[i] = n->in[1 + count + k];
        if (!list[i])
            return model_fail(n->graph->model, n->graph, WEFT_INTERNAL, "optimizer: %s has no gradient",
                              s->members[i]->path);
    }
    return true;
}

/* The bucket added to the micro-batches before it; the result is the whole when this phase is the last. */
static weft_value *accumulated(program *p, const weft_variable *s, weft_value *bucket) {
    enum { MOST = 24 };
    weft_graph *g = p->graph;
    weft_value *in[MOST];
    char path[400];
    int of = p->plan->options.accumulate, levels = accumulate_levels(of);
    for (int l = 0; l < levels; l++) {
        gradient_path(path, s, levels - 1 - l);
        in[l] = variable_value(g, variable_find(g->model, path));
    }
    in[levels] = bucket;
    return node_value(g, &weft_op_accumulate, levels + 1, in,
                      &(accumulate_attrs){.of = of, .last = p->phase == PHASE_LAST});
}

/* The gradients of a segment in one buffer, as this phase wants them; NULL after an error. */
static weft_value *bucket(program *p, const weft_node *n, weft_variable *s) {
    weft_graph *g = p->graph;
    weft_value **list = arena_new_array(&g->model->arena, (size_t)s->n_members, sizeof *list);
    if (!list || !member_gradients(n, s, list)) return NULL;
    char path[400];
    weft_node *b = node_new(g, &weft_op_bucket, s->n_members, list, &(variable_attrs){s->path});
    if (!b || p->phase == PHASE_WHOLE) return b ? &b->out[0] : NULL;
    if (p->phase != PHASE_FIRST) return accumulated(p, s, &b->out[0]);
    gradient_path(path, s, 0);
    b->out[0].variable = variable_find(g->model, path);
    return &b->out[0];
}

/* ---- collectives: the sum over ranks starts where a bucket is done and is awaited by its update ---- */

static bool is_shared(const program *p) {
    return p->plan->options.world > 1;
}

/* A result in its operand's own memory. */
static weft_value *same_memory(weft_node *n) {
    if (!n) return NULL;
    if (!n->in[0]->variable) n->out[0].base = n->in[0];
    return &n->out[0];
}

/* To the owner alone where there is one; clipping wants the norm of all, and so all everywhere. */
static weft_value *start_sum(program *p, const minimize_attrs *m, const weft_variable *s, weft_value *flat) {
    bool to_one = s->owner && m->clip_norm <= 0;
    size_t bytes = weft_collective_scratch(to_one ? WEFT_REDUCE : WEFT_ALL_REDUCE, WEFT_F32, (weft_dtype)0,
                                           (size_t)s->type.shape[0], p->plan->options.world);
    collective_attrs a = {
        .path = s->path, .scratch = (int64_t)(bytes ? bytes : MEM_ALIGN), .root = to_one ? s->owner - 1 : 0};
    p->n_collectives++; /* numbered when the schedule is pinned */
    return same_memory(node_new(p->graph, to_one ? &weft_op_reduce : &weft_op_all_reduce, 1, &flat, &a));
}

/* `flat` as its collective leaves it. */
static weft_value *finished(program *p, weft_value *flat) {
    if (!is_shared(p)) return flat;
    return same_memory(
        node_new(p->graph, &weft_op_wait, 2, (weft_value *[]){flat, &flat->node->out[1]}, NULL));
}

static weft_value *clip(weft_graph *g, const minimize_attrs *a, weft_value **parts, int n_parts) {
    _Alignas(16) char attrs[256] = {0};
    weft_value *norm = node_value(g, &weft_op_global_norm, n_parts, parts, NULL);
    set_field(&weft_op_clip_scale, attrs, "max_norm", a->clip_norm);
    return norm ? node_value(g, &weft_op_clip_scale, 1, &norm, attrs) : NULL;
}

/* What the norm is taken over: each member's gradient, at its parameter's index, so that the sum's order does not
 * depend on how segments are cut. */
static bool norm_parts(program *p, const weft_node *n, weft_variable *s, weft_value *flat,
                       weft_value **parts) {
    weft_value **list = arena_new_array(&p->graph->model->arena, (size_t)s->n_members, sizeof *list);
    bool whole = p->phase == PHASE_WHOLE && !is_shared(p);
    if (!list || (whole && !member_gradients(n, s, list))) return false;
    for (int i = 0; i < s->n_members; i++) {
        const weft_variable *v = s->members[i];
        parts[v->index] =
            whole ? list[i] : weft_slice(flat, 0, v->offset, v->offset + type_elements(&v->type));
    }
    return true;
}

static int compact(weft_value **parts, int count) {
    int n = 0;
    for (int i = 0; i < count; i++)
        if (parts[i]) parts[n++] = parts[i];
    return n;
}

static bool step_begin(program *p, const minimize_attrs *a, step_values *out) {
    weft_graph *g = p->graph;
    weft_variable *step = find(g->model, a->name, "step", NULL), *lr = find(g->model, a->name, "lr", NULL);
    if (!step || !lr)
        return model_fail(g->model, g, WEFT_INTERNAL, "optimizer %s has no step", SHOW(a->name));
    _Alignas(16) char attrs[256] = {0};
    copy_namesakes(&weft_op_schedule, attrs, &weft_op_minimize, a);
    set_field(&weft_op_schedule, attrs, "kind", (double)a->schedule);
    weft_value *before = variable_value(g, step);
    weft_value *base = variable_value(g, lr);
    out->lr =
        before && base ? node_value(g, &weft_op_schedule, 2, (weft_value *[]){base, before}, attrs) : NULL;
    weft_value *next = before ? weft_offset(before, 1) : NULL;
    out->step = next ? node_value(g, &weft_op_assign, 1, &next, &(variable_attrs){step->path}) : NULL;
    return out->step && out->lr;
}

static bool update(program *p, const minimize_attrs *a, weft_variable *s, weft_value *gradient,
                   step_values v) {
    weft_graph *g = p->graph;
    const optimizer_kind *kind = kind_of(a);
    weft_value *in[8] = {variable_value(g, s), gradient};
    int n = 2;
    double lr_scale, decay_scale;
    _Alignas(16) char attrs[256] = {0};
    for (int i = 0; i < 3 && kind->slots[i]; i++)
        in[n++] =
            has_slot(a, kind, i) ? variable_value(g, find(g->model, a->name, s->path, kind->slots[i])) : NULL;
    in[n++] = v.lr;
    in[n++] = v.step;
    if (v.scale) in[n++] = v.scale;
    minimize_group(a, s->members[0]->path, &lr_scale, &decay_scale);
    copy_namesakes(kind->op, attrs, &weft_op_minimize, a);
    set_field(kind->op, attrs, "lr_scale", lr_scale);
    set_field(kind->op, attrs, "weight_decay", a->weight_decay * decay_scale);
    set_field(kind->op, attrs, "decoupled", strcmp(a->type, "adamw") == 0);
    weft_value *updated = node_value(g, kind->op, n, in, attrs);
    if (!updated || !s->owner) return updated != NULL;
    p->n_collectives++;
    return node_new(g, &weft_op_broadcast, 1, &updated,
                    &(collective_attrs){.path = s->path, .root = s->owner - 1}) != NULL;
}

typedef struct expansion {
    program *p;
    weft_node *n;
    const minimize_attrs *a;
    weft_value **flat;  /* by a segment's index */
    weft_value **parts; /* what the norm is taken over: each member's gradient, by its parameter's index */
    step_values v;
} expansion;

/* Buckets, and the start of their sums over ranks. */
static bool gather(expansion *e, weft_variable *s) {
    program *p = e->p;
    if (!(e->flat[s->index] = bucket(p, e->n, s))) return false;
    if (p->phase == PHASE_FIRST || p->phase == PHASE_ADD || !is_shared(p)) return true;
    return (e->flat[s->index] = start_sum(p, e->a, s, e->flat[s->index])) != NULL;
}

/* Clipping needs every gradient before the first update. */
static bool measure(expansion *e, weft_variable *s) {
    if (!(e->flat[s->index] = finished(e->p, e->flat[s->index]))) return false;
    return norm_parts(e->p, e->n, s, e->flat[s->index], e->parts);
}

static bool apply(expansion *e, weft_variable *s) {
    weft_value *flat = e->flat[s->index];
    if (e->a->clip_norm <= 0) flat = finished(e->p, flat);
    return flat && update(e->p, e->a, s, flat, e->v);
}

static bool for_segments(expansion *e, bool (*act)(expansion *e, weft_variable *s)) {
    for (weft_variable *s = e->p->graph->model->variables; s; s = s->next)
        if (is_trained_by(s, e->a) && !act(e, s)) return false;
    return true;
}

static bool expand(program *p, weft_node *n) {
    weft_graph *g = p->graph;
    size_t count = (size_t)g->model->n_variables;
    expansion e = {.p = p, .n = n, .a = n->attrs};
    e.flat = arena_new_array(&g->model->arena, count, sizeof *e.flat);
    e.parts = arena_new_array(&g->model->arena, count, sizeof *e.parts);
    if (!e.flat || !e.parts)
        return model_fail(g->model, g, WEFT_MEMORY, "optimizer: memory could not be had");
    if (!for_segments(&e, gather)) return false;
    if (p->phase == PHASE_FIRST || p->phase == PHASE_ADD) return true;
    if (e.a->clip_norm > 0 &&
        (!for_segments(&e, measure) || !(e.v.scale = clip(g, e.a, e.parts, compact(e.parts, (int)count)))))
        return false;
    return step_begin(p, e.a, &e.v) && for_segments(&e, apply);
}

bool pass_optimizer(program *p) {
    weft_graph *g = p->graph;
    g->building_update = true;
    bool good = true;
    for (weft_node *n = g->first, *next; n && good; n = next) {
        next = n->next;
        if (n->op != &weft_op_minimize) continue;
        for (weft_node *other = n->next; other; other = other->next)
            if (other->op == &weft_op_minimize &&
                strcmp(((minimize_attrs *)other->attrs)->name, ((minimize_attrs *)n->attrs)->name) == 0)
                return model_fail(g->model, g, WEFT_NAME,
                                  "graph %s: two minimize calls use the optimizer '%s': name them", g->name,
                                  SHOW(((minimize_attrs *)n->attrs)->name));
        scope_entry here = {.path = scope_intern(g->model, "")}, *above = g->scope;
        g->scope = &here;
        good = expand(p, n);
        g->scope = above;
        p->trains = true;
        node_remove(n);
    }
    g->building_update = false;
    return good && graph_order_edges(g);
}
