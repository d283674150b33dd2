/* own.c - optimizers whose step is built from ops: what a model's own ones record, and how a step is built
 * again from a record.
 *
 * A record is a graph apart from the model's others. Its inputs stand for what a weft_update has, its
 * outputs for what the builder put there. A record whose ops are all pointwise, over tensors of one shape
 * and numbers, was made with PROBE elements and is repeated over any flat buffer; another is for parameters
 * of one shape. Records pass the checks below whether they come from a builder, a file or a text: no op in
 * them has effects, draws or names variables. */
#include "graph/settings/minimize.h"

#include "weft/ops.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PROBE = 7, NAME_ROOM = 80 };

/* ---- the values of an update by name ---- */

/* The place in `u` that an input or output of a record names; NULL: there is none. Only "parameter" and
 * slots are outputs. */
static weft_value **place_of(const optimizer_kind *kind, weft_update *u, const char *name, bool is_output) {
    if (strcmp(name, "parameter") == 0) return &u->parameter;
    for (int i = 0; i < OPTIMIZER_SLOTS && kind->slots[i].name; i++)
        if (strncmp(name, "slot.", 5) == 0 && strcmp(name + 5, kind->slots[i].name) == 0) return &u->slots[i];
    if (is_output) return NULL;
    if (strcmp(name, "gradient") == 0) return &u->gradient;
    if (strcmp(name, "lr") == 0) return &u->lr;
    if (strcmp(name, "step") == 0) return &u->step;
    if (strcmp(name, "weight_decay") == 0) return &u->weight_decay;
    for (int i = 0; i < WEFT_MAX_NUMBERS && kind->fields[i]; i++)
        if (strncmp(name, "number.", 7) == 0 && strcmp(name + 7, kind->fields[i]) == 0) return &u->numbers[i];
    return NULL;
}

static weft_value *tensor_input(weft_graph *g, const char *name, const tensor_type *type) {
    return weft_input(g, name, type->dtype, type->ndim, type->shape);
}

/* Inputs for all that an update has. */
static void inputs_make(weft_graph *g, const optimizer_kind *kind, const tensor_type *type, weft_update *u) {
    const tensor_type number = type_scalar(WEFT_F64);
    tensor_type of_slot;
    char name[NAME_ROOM];
    u->parameter = tensor_input(g, "parameter", type);
    u->gradient = tensor_input(g, "gradient", type);
    u->lr = tensor_input(g, "lr", &number);
    u->step = tensor_input(g, "step", &number);
    u->weight_decay = tensor_input(g, "weight_decay", &number);
    for (int i = 0; i < OPTIMIZER_SLOTS && kind->slots[i].name; i++) {
        snprintf(name, sizeof name, "slot.%s", kind->slots[i].name);
        if (optimizer_slot_type(kind->slots[i].shape, type, &of_slot))
            u->slots[i] = tensor_input(g, name, &of_slot);
    }
    for (int i = 0; kind->own && i < WEFT_MAX_NUMBERS && kind->fields[i]; i++) {
        snprintf(name, sizeof name, "number.%s", kind->fields[i]);
        u->numbers[i] = tensor_input(g, name, &number);
    }
    if (kind->has_product) u->numbers[0] = tensor_input(g, "product", &number);
}

static void outputs_make(const optimizer_kind *kind, const weft_update *u) {
    char name[NAME_ROOM];
    weft_output(u->parameter, "parameter");
    for (int i = 0; i < OPTIMIZER_SLOTS && kind->slots[i].name; i++) {
        snprintf(name, sizeof name, "slot.%s", kind->slots[i].name);
        weft_output(u->slots[i], name);
    }
}

/* ---- the rules of records ---- */

static bool is_number(const tensor_type *t) {
    return t->ndim == 0;
}

/* The op is pointwise over tensors of the parameter's shape and numbers. */
static bool is_elementwise(const weft_node *n, const tensor_type *type) {
    if (n->op != &weft_op_input && !(n->op->flags & OP_POINTWISE) &&
        !(n->op->role == ROLE_CONSTANT && is_number(&n->out[0].type)))
        return false;
    for (int k = 0; k < n->n_out; k++)
        if (!is_number(&n->out[k].type) && !shape_equal(&n->out[k].type, type)) return false;
    return true;
}

static bool graph_is_elementwise(const weft_graph *g, const tensor_type *type) {
    for (const weft_node *n = g->first; n; n = n->next)
        if (!is_elementwise(n, type)) return false;
    return type->ndim == 1;
}

/* Why the op cannot be part of an update; NULL: it can. */
static const char *why_not(const weft_node *n) {
    if (n->op->role == ROLE_DECLARES) return "trains or differentiates";
    if (n->op->flags & OP_VARIABLE) return "names a variable: state is kept in slots";
    if (n->op->flags & OP_RANDOM) return "draws random numbers";
    if (n->op->flags & (OP_EFFECT | OP_COMPILER | OP_COMMUNICATES)) return "has effects";
    if (n->op == &weft_op_input || attrs_name_batch(n->op, n->attrs)) return "depends on the batch";
    return NULL;
}

static void *record_fail(weft_model *m, const own_optimizer *o, const char *what, const char *why) {
    return model_fail(m, NULL, WEFT_ARGUMENT, "optimizer %s: its update: %s %s", o->kind.type, what, why);
}

/* Inputs are those of an update, of the types that it gives them. */
static bool input_check(weft_model *m, const own_optimizer *o, weft_node *n, weft_update *u) {
    const char *name = input_name(n);
    weft_value **place = place_of(&o->kind, u, name, false);
    const tensor_type *t = &n->out[0].type;
    bool is_of_parameter = place && (place == &u->parameter || place == &u->gradient ||
                                     (place >= u->slots && place < u->slots + OPTIMIZER_SLOTS));
    if (!place) return record_fail(m, o, SHOW(name), "is no input that an update has");
    *place = &n->out[0];
    if (is_of_parameter ? type_equal(t, &u->parameter->type) && dtype_is_float(t->dtype)
                        : t->ndim == 0 && t->dtype == WEFT_F64)
        return true;
    return record_fail(m, o, SHOW(name), "must have the parameter's type, numbers f64[]");
}

weft_graph *own_record_begin(weft_model *m, own_optimizer *o) {
    weft_graph *g = graph_apart(m, o->kind.type, WEFT_TRAIN);
    return g ? g : model_fail(m, NULL, WEFT_MEMORY, "optimizer %s: out of memory", o->kind.type);
}

static int records_of(const own_optimizer *o, const tensor_type *type, const update_record **found) {
    int count = 0;
    *found = NULL;
    for (const update_record *r = o->records; r; r = r->next, count++)
        if (o->is_elementwise || type_equal(&r->type, type)) *found = r;
    return count;
}

static bool record_add(weft_model *m, own_optimizer *o, weft_graph *g, const tensor_type *type) {
    const update_record *same;
    int count = records_of(o, type, &same);
    if (same) return record_fail(m, o, "one of its shapes", "is recorded twice");
    if (count >= MODEL_MAX_RECORDS) return record_fail(m, o, "it", "is recorded for more than 1024 shapes");
    update_record *r = arena_new(&m->arena, sizeof *r), **end = &o->records;
    if (!r) return model_fail(m, NULL, WEFT_MEMORY, "optimizer %s: out of memory", o->kind.type);
    *r = (update_record){.graph = g, .type = *type};
    while (*end) end = &(*end)->next;
    *end = r;
    o->is_elementwise = !count && graph_is_elementwise(g, type);
    return true;
}

bool own_record_end(weft_model *m, own_optimizer *o, weft_graph *g) {
    weft_update u = {0}, out = {0};
    for (weft_node *n = g->first; n; n = n->next) {
        if (n->op == &weft_op_input) {
            /* "parameter" comes first: the others are like it */
            if (!u.parameter && strcmp(input_name(n), "parameter"))
                return record_fail(m, o, SHOW(input_name(n)), "comes before the parameter");
            if (!u.parameter) u.parameter = &n->out[0];
            if (!input_check(m, o, n, &u)) return false;
        } else if (why_not(n)) {
            return record_fail(m, o, n->op->name, why_not(n));
        }
    }
    if (!u.parameter) return record_fail(m, o, "it", "has no parameter");
    if (g->n_nodes > MODEL_MAX_UPDATE_CALLS) return record_fail(m, o, "it", "has more than 512 calls");
    for (const graph_output *p = g->outputs; p; p = p->next) {
        weft_value **place = place_of(&o->kind, &out, p->name, true);
        if (!place) return record_fail(m, o, SHOW(p->name), "is no output that an update has");
        *place = p->value;
        if (!type_equal(&p->value->type, &u.parameter->type))
            return record_fail(m, o, SHOW(p->name), "must keep the parameter's shape and type");
    }
    if (!out.parameter) return record_fail(m, o, "parameter", "is no output of it");
    for (int i = 0; i < OPTIMIZER_SLOTS && o->kind.slots[i].name; i++)
        if (!out.slots[i]) return record_fail(m, o, SHOW(o->kind.slots[i].name), "is no output of it");
    return record_add(m, o, g, &u.parameter->type);
}

/* ---- recording ---- */

/* The builder's NULLs without an error are told: it never set a value, or an operand of its was NULL. */
static bool record_build(weft_model *m, own_optimizer *o, weft_graph *g, const tensor_type *type) {
    weft_update u = {.context = o->context};
    inputs_make(g, &o->kind, type, &u);
    if (!model_ok(m)) return false;
    o->build(&u);
    bool is_whole = u.parameter != NULL;
    for (int i = 0; i < OPTIMIZER_SLOTS && o->kind.slots[i].name; i++) is_whole &= u.slots[i] != NULL;
    if (model_ok(m) && !is_whole) return record_fail(m, o, "a value", "is NULL when its builder returns");
    if (model_ok(m)) outputs_make(&o->kind, &u);
    return model_ok(m);
}

static bool record(weft_model *m, own_optimizer *o, const tensor_type *type) {
    weft_graph *g = own_record_begin(m, o);
    return g && record_build(m, o, g, type) && own_record_end(m, o, g);
}

/* Builds the step over PROBE elements in a model of its own, where errors cost nothing: one that needs
 * matrices fails there, and is not elementwise. */
bool optimizer_is_elementwise(const weft_model *of, const optimizer_kind *kind, const minimize_attrs *a,
                              bool *answer) {
    const tensor_type type = type_of(WEFT_F32, 1, (int64_t[]){PROBE});
    *answer = kind->own ? kind->own->is_elementwise : !optimizer_is_built(a, kind);
    if (kind->own ? !kind->own->build || kind->own->records : *answer) return true;
    weft_model *m = model_new("probe", &of->env, of->catalog);
    weft_graph *g = m ? graph_apart(m, "probe", WEFT_TRAIN) : NULL;
    weft_update u = {.context = kind->own ? kind->own->context : NULL};
    if (g) inputs_make(g, kind, &type, &u);
    bool is_begun = g && model_ok(m); /* builders look into the values that they get */
    if (is_begun && kind->own)
        kind->own->build(&u);
    else if (is_begun)
        kind->build(&u, a);
    bool has_memory = g && m->error.status != WEFT_MEMORY;
    *answer = has_memory && model_ok(m) && graph_is_elementwise(g, &type);
    weft_model_free(m);
    return has_memory;
}

bool own_record_shapes(weft_model *m, const optimizer_kind *kind, const char *pattern) {
    own_optimizer *o = m->own;
    const update_record *found;
    while (o && &o->kind != kind) o = o->next;
    if (!o || !o->build || o->is_elementwise) return true;
    for (const weft_variable *v = m->variables; v; v = v->next)
        if (v->kind == VARIABLE_PARAMETER && path_matches(pattern, v->path)) {
            records_of(o, &v->type, &found);
            if (!found && !record(m, o, &v->type)) return false;
        }
    return true;
}

/* ---- building from a record ---- */

/* Repeats the record's calls over the values of u, and puts its outputs there. */
static bool record_replay(const update_record *r, const optimizer_kind *kind, weft_update *u) {
    weft_graph *g = u->parameter->node->graph;
    weft_update out = *u;
    weft_value **map = arena_new_array(&g->model->arena, (size_t)r->graph->next_id + 1, sizeof *map);
    if (!map) return model_fail(g->model, g, WEFT_MEMORY, "optimizer %s: out of memory", kind->type);
    for (const weft_node *n = r->graph->first; n; n = n->next) {
        weft_value **place = n->op == &weft_op_input ? place_of(kind, u, input_name(n), false) : NULL;
        if (place)
            map[n->out[0].id] = *place;
        else if (!node_replay(n, g, map))
            return false;
    }
    for (const graph_output *p = r->graph->outputs; p; p = p->next)
        *place_of(kind, &out, p->name, true) = map[p->value->id];
    *u = out;
    return true;
}

bool optimizer_build(const optimizer_kind *kind, weft_update *u, const minimize_attrs *a) {
    const tensor_type type = u->parameter->type;
    weft_graph *g = u->parameter->node->graph;
    const update_record *found = NULL;
    bool good = true;
    if (kind->own) records_of(kind->own, &type, &found);
    if (kind->own && !found)
        return model_fail(g->model, g, WEFT_ARGUMENT,
                          "optimizer %s: its update is not recorded for parameters %s: make them before "
                          "weft_minimize is called, in a program with its builder",
                          kind->type, TYPE(&type));
    if (kind->own)
        good = record_replay(found, kind, u);
    else
        kind->build(u, a);
    if (!good || !model_ok(g->model) || !u->parameter) return false;
    return type_equal(&u->parameter->type, &type) ||
           model_fail(g->model, g, WEFT_INTERNAL, "optimizer %s: the update of %s is %s", kind->type,
                      TYPE(&type), TYPE(&u->parameter->type));
}

/* ---- definitions ---- */

static bool is_word(const char *s) {
    size_t n = s ? strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") : 0;
    return n && n <= 40 && !s[n];
}

/* Numbers of weft_optimizer that only some optimizers read. */
static bool is_own_field(const char *field) {
    const optimizer_setting *s = optimizer_settings;
    while (s->name && strcmp(s->name, field)) s++;
    return s->name && s->is_own;
}

static bool slots_take(weft_model *m, own_optimizer *o, const weft_optimizer_definition *d) {
    for (int i = 0; i < WEFT_MAX_SLOTS && d->slots[i].name; i++) {
        bool is_new = true;
        for (int k = 0; k < i; k++) is_new &= strcmp(d->slots[k].name, d->slots[i].name) != 0;
        if (strcmp(d->slots[i].name, AVERAGE_NAME) == 0)
            return model_fail(m, NULL, WEFT_ARGUMENT,
                              "optimizer %s: slot '" AVERAGE_NAME
                              "': averages have this name (weft_optimizer.ema)",
                              d->type);
        if (!is_word(d->slots[i].name) || !is_new)
            return model_fail(m, NULL, WEFT_ARGUMENT,
                              "optimizer %s: slot '%s': 1 to 40 letters, digits, '_', and no two alike",
                              d->type, SHOW(d->slots[i].name));
        if (!isfinite(d->slots[i].initial) || fabs(d->slots[i].initial) > 3e38)
            return model_fail(m, NULL, WEFT_ARGUMENT, "optimizer %s: slot %s: its initial value %g is no f32",
                              d->type, d->slots[i].name, d->slots[i].initial);
        o->kind.slots[i] = (optimizer_slot_kind){.name = arena_copy(&m->arena, d->slots[i].name),
                                                 .initial = d->slots[i].initial};
    }
    return true;
}

static bool numbers_take(weft_model *m, own_optimizer *o, const weft_optimizer_definition *d) {
    for (int i = 0; i < WEFT_MAX_NUMBERS && d->numbers[i].field; i++) {
        const weft_number *n = &d->numbers[i];
        if (!is_own_field(n->field) || optimizer_reads(&o->kind, n->field))
            return model_fail(
                m, NULL, WEFT_ARGUMENT,
                "optimizer %s: number '%s': it must name, once, a number of weft_optimizer that some "
                "optimizers read, as \"momentum\" or \"eps\"",
                d->type, SHOW(n->field));
        if (!(n->value >= 0 && n->value <= 3e38))
            return model_fail(m, NULL, WEFT_ARGUMENT, "optimizer %s: %s=%g: it must be from 0 to 3e38",
                              d->type, n->field, n->value);
        o->kind.fields[i] = arena_copy(&m->arena, n->field);
        o->kind.defaults[i] = (optimizer_number){o->kind.fields[i], n->value};
    }
    return true;
}

own_optimizer *own_optimizer_new(weft_model *m, const weft_optimizer_definition *d) {
    int count = 0;
    if (!is_word(d->type))
        return model_fail(m, NULL, WEFT_NAME, "optimizer '%s': its type must be 1 to 40 letters, digits, '_'",
                          SHOW(d->type));
    if (optimizer_spelt(m, d->type))
        return model_fail(m, NULL, WEFT_NAME, "optimizer '%s': there is one of this type already", d->type);
    for (const own_optimizer *o = m->own; o; o = o->next) count++;
    if (count >= MODEL_MAX_OWN)
        return model_fail(m, NULL, WEFT_UNSUPPORTED, "optimizer %s: a model has at most %d of its own",
                          d->type, MODEL_MAX_OWN);
    own_optimizer *o = arena_new(&m->arena, sizeof *o);
    if (!o || !(o->kind.type = arena_copy(&m->arena, d->type)))
        return model_fail(m, NULL, WEFT_MEMORY, "optimizer %s: out of memory", d->type);
    o->kind.own = o;
    o->build = d->build;
    o->context = d->context;
    if (!slots_take(m, o, d) || !numbers_take(m, o, d)) return NULL;
    own_optimizer **end = &m->own;
    while (*end) end = &(*end)->next;
    return *end = o;
}

weft_status weft_define_optimizer(weft_model *m, const weft_optimizer_definition *d) {
    const tensor_type type = type_of(WEFT_F32, 1, (int64_t[]){PROBE});
    bool is_flat = false;
    if (!m) return WEFT_ARGUMENT;
    if (!model_ok(m)) return m->error.status;
    if (!d || !d->build) {
        model_fail(m, NULL, WEFT_ARGUMENT, "weft_define_optimizer: a definition with a builder is needed");
        return m->error.status;
    }
    own_optimizer *o = own_optimizer_new(m, d);
    if (!o) return m->error.status;
    if (!optimizer_is_elementwise(m, &o->kind, NULL, &is_flat))
        model_fail(m, NULL, WEFT_MEMORY, "optimizer %s: out of memory", d->type);
    else if (is_flat)
        record(m, o, &type);
    return m->error.status;
}

/* In the same order; records are copied by their calls, as all graphs are. */
bool own_optimizers_copy(const weft_model *from, weft_model *to) {
    for (const own_optimizer *o = from->own; o; o = o->next) {
        weft_optimizer_definition d = {.type = o->kind.type};
        for (int i = 0; i < OPTIMIZER_SLOTS && o->kind.slots[i].name; i++)
            d.slots[i] = (weft_slot){o->kind.slots[i].name, o->kind.slots[i].initial};
        for (int i = 0; i < WEFT_MAX_NUMBERS && o->kind.fields[i]; i++)
            d.numbers[i] = (weft_number){o->kind.fields[i], o->kind.defaults[i].value};
        own_optimizer *copy = own_optimizer_new(to, &d);
        for (const update_record *r = o->records; r; r = r->next) {
            weft_graph *g = copy ? own_record_begin(to, copy) : NULL;
            if (!g || !graph_replay_into(r->graph, g) || !own_record_end(to, copy, g)) return false;
        }
        if (!copy) return false;
    }
    return true;
}
