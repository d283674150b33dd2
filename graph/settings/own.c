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

/* One of the values that an update has, as records name it. */
typedef struct update_place {
    weft_value **at;
    const char *own; /* its name among values of its sort */
    char name[NAME_ROOM];
    bool is_number, is_output;
    const optimizer_slot_kind *slot; /* whose value it is; NULL: of none */
} update_place;

/* Number i of them, in the order in which builders get them as inputs. False: there are no more. */
static bool place_at(const optimizer_kind *kind, weft_update *u, int i, update_place *p) {
    const struct {
        const char *name;
        weft_value **at;
    } plain[] = {{"parameter", &u->parameter},
                 {"gradient", &u->gradient},
                 {"lr", &u->lr},
                 {"step", &u->step},
                 {"weight_decay", &u->weight_decay}};
    enum { PLAIN = sizeof plain / sizeof *plain };
    int n_slots = 0, n_numbers = 0;
    while (kind->slots[n_slots].name) n_slots++;
    while (kind->own && kind->fields[n_numbers]) n_numbers++;
    const char *sort = "";
    if (i < PLAIN) {
        *p = (update_place){.at = plain[i].at, .own = plain[i].name, .is_number = i > 1, .is_output = i == 0};
    } else if ((i -= PLAIN) < n_slots) {
        const optimizer_slot_kind *slot = &kind->slots[i];
        *p = (update_place){.at = &u->slots[i], .own = slot->name, .is_output = true, .slot = slot};
        sort = "slot.";
    } else if ((i -= n_slots) < n_numbers) {
        *p = (update_place){.at = &u->numbers[i], .own = kind->fields[i], .is_number = true};
        sort = "number.";
    } else {
        return false;
    }
    snprintf(p->name, sizeof p->name, "%s%s", sort, p->own);
    return true;
}

/* The place of the input or output of that name; false: an update has no such value. */
static bool place_of(const optimizer_kind *kind, weft_update *u, const char *name, update_place *p) {
    for (int i = 0; place_at(kind, u, i, p); i++)
        if (strcmp(p->name, name) == 0) return true;
    return false;
}

/* Inputs for all that an update has. */
static void inputs_make(weft_graph *g, const optimizer_kind *kind, const tensor_type *type, weft_update *u) {
    const tensor_type number = type_scalar(WEFT_F64);
    update_place p;
    for (int i = 0; place_at(kind, u, i, &p); i++) {
        tensor_type t = p.is_number ? number : *type;
        if (!p.slot || optimizer_slot_type(p.slot->shape, type, &t))
            *p.at = weft_input(g, p.name, t.dtype, t.ndim, t.shape);
    }
    if (kind->has_product) u->numbers[0] = weft_input(g, "product", WEFT_F64, 0, NULL);
}

/* The first output without a value; false: all have one. */
static bool output_lacks(const optimizer_kind *kind, weft_update *u, update_place *p) {
    for (int i = 0; place_at(kind, u, i, p); i++)
        if (p->is_output && !*p->at) return true;
    return false;
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
    update_place p;
    const tensor_type *t = &n->out[0].type;
    if (!place_of(&o->kind, u, name, &p))
        return record_fail(m, o, SHOW(name), "is not an input that an update has");
    *p.at = &n->out[0];
    if (p.is_number ? is_number(t) && t->dtype == WEFT_F64
                    : type_equal(t, &u->parameter->type) && dtype_is_float(t->dtype))
        return true;
    return record_fail(m, o, SHOW(name), "must have the parameter's type, numbers f64[]");
}

weft_graph *own_record_begin(weft_model *m, own_optimizer *o) {
    return graph_apart(m, o->kind.type, WEFT_TRAIN);
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
    update_place place;
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
        if (!place_of(&o->kind, &out, p->name, &place) || !place.is_output)
            return record_fail(m, o, SHOW(p->name), "is not an output that an update has");
        *place.at = p->value;
        if (!type_equal(&p->value->type, &u.parameter->type))
            return record_fail(m, o, SHOW(p->name), "must keep the parameter's shape and type");
    }
    if (output_lacks(&o->kind, &out, &place))
        return record_fail(m, o, SHOW(place.own), "is not an output of it");
    return record_add(m, o, g, &u.parameter->type);
}

/* ---- recording ---- */

/* The builder's NULLs without an error are reported: it never set a value, or an operand of its was NULL. */
static bool record_build(weft_model *m, own_optimizer *o, weft_graph *g, const tensor_type *type) {
    weft_update u = {.context = o->is.context};
    update_place p;
    inputs_make(g, &o->kind, type, &u);
    if (!model_ok(m)) return false;
    o->is.build(&u);
    if (!model_ok(m)) return false;
    if (output_lacks(&o->kind, &u, &p))
        return record_fail(m, o, "a value", "is NULL when its builder returns");
    for (int i = 0; place_at(&o->kind, &u, i, &p); i++)
        if (p.is_output) weft_output(*p.at, p.name);
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
    if (kind->own ? !kind->own->is.build || kind->own->records : *answer) return true;
    weft_model *m = model_new("probe", &of->env, of->catalog);
    weft_graph *g = m ? graph_apart(m, "probe", WEFT_TRAIN) : NULL;
    weft_update u = {.context = kind->own ? kind->own->is.context : NULL};
    if (g) inputs_make(g, kind, &type, &u);
    bool is_begun = g && model_ok(m); /* builders look into the values that they get */
    if (is_begun && kind->own)
        kind->own->is.build(&u);
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
    if (!o || !o->is.build || o->is_elementwise) return true;
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
    update_place p;
    weft_value **map = arena_new_array(&g->model->arena, r->graph->next_id, sizeof *map);
    if (!map) return graph_fail(g, WEFT_MEMORY, "optimizer %s: out of memory", kind->type);
    for (const weft_node *n = r->graph->first; n; n = n->next) {
        if (n->op == &weft_op_input && place_of(kind, u, input_name(n), &p))
            map[n->out[0].id] = *p.at;
        else if (!node_replay(n, g, map))
            return false;
    }
    for (const graph_output *o = r->graph->outputs; o; o = o->next)
        if (place_of(kind, &out, o->name, &p)) *p.at = map[o->value->id];
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
        return graph_fail(g, WEFT_ARGUMENT,
                          "optimizer %s: its update is not recorded for parameters %s: make them before "
                          "weft_minimize is called, in a program with its builder",
                          kind->type, TYPE(&type));
    if (kind->own)
        good = record_replay(found, kind, u);
    else
        kind->build(u, a);
    if (!good || !model_ok(g->model) || !u->parameter) return false;
    return type_equal(&u->parameter->type, &type) ||
           graph_fail(g, WEFT_INTERNAL, "optimizer %s: the update of %s is %s", kind->type, TYPE(&type),
                      TYPE(&u->parameter->type));
}

/* ---- definitions ---- */

static bool is_word(const char *s) {
    size_t n = s ? strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") : 0;
    return n && n <= 40 && !s[n];
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
            return model_fail(m, NULL, WEFT_ARGUMENT,
                              "optimizer %s: slot %s: its initial value %g is not an f32", d->type,
                              d->slots[i].name, d->slots[i].initial);
        o->is.slots[i].name = arena_copy(&m->arena, d->slots[i].name);
        o->kind.slots[i] = (optimizer_slot_kind){.name = o->is.slots[i].name, .initial = d->slots[i].initial};
    }
    return true;
}

static bool numbers_take(weft_model *m, own_optimizer *o, const weft_optimizer_definition *d) {
    for (int i = 0; i < WEFT_MAX_NUMBERS && d->numbers[i].field; i++) {
        const weft_optimizer_number *n = &d->numbers[i];
        const optimizer_setting *s = optimizer_settings;
        while (s->name && strcmp(s->name, n->field)) s++;
        if (!s->name || !s->is_own ||
            optimizer_reads(&o->kind, n->field)) /* all optimizers read the others */
            return model_fail(
                m, NULL, WEFT_ARGUMENT,
                "optimizer %s: number '%s': it must name, once, a number of weft_optimizer that some "
                "optimizers read, as \"momentum\" or \"eps\"",
                d->type, SHOW(n->field));
        if (!(n->value >= 0 && n->value <= 3e38))
            return model_fail(m, NULL, WEFT_ARGUMENT, "optimizer %s: %s=%g: it must be from 0 to 3e38",
                              d->type, n->field, n->value);
        o->kind.fields[i] = o->is.numbers[i].field = arena_copy(&m->arena, n->field);
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
    const char *type = o ? arena_copy(&m->arena, d->type) : NULL;
    if (!type) return model_fail(m, NULL, WEFT_MEMORY, "optimizer %s: out of memory", d->type);
    o->is = *d;
    o->is.type = o->kind.type = type;
    o->kind.own = o;
    if (!slots_take(m, o, d) || !numbers_take(m, o, d)) return NULL;
    own_optimizer **end = &m->own;
    while (*end) end = &(*end)->next;
    return *end = o;
}

weft_status weft_define_optimizer(weft_model *m, const weft_optimizer_definition *d) {
    const tensor_type type = type_of(WEFT_F32, 1, (int64_t[]){PROBE});
    bool is_flat = false;
    weft_error why;
    if (!m) return WEFT_ARGUMENT;
    if (!model_ok(m)) return m->error.status;
    if (!d || !d->build) {
        model_fail(m, NULL, WEFT_ARGUMENT, "weft_define_optimizer: a definition with a builder is needed");
        return m->error.status;
    }
    if (reserved_check(d->reserved, sizeof d->reserved, "weft_optimizer_definition", &why)) {
        model_fail(m, NULL, why.status, "%s", why.text);
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
        weft_optimizer_definition d = o->is;
        d.build = NULL;
        own_optimizer *copy = own_optimizer_new(to, &d);
        for (const update_record *r = o->records; r; r = r->next) {
            weft_graph *g = copy ? own_record_begin(to, copy) : NULL;
            if (!g || !graph_replay_into(r->graph, g) || !own_record_end(to, copy, g)) return false;
        }
        if (!copy) return false;
    }
    return true;
}
