/* model_read.c - weft_load: model.bin (graph/file/model.proto) becomes a model again by repeating its calls.
 *
 * The file may be hostile. These hold:
 *   - No number in the file sizes an allocation: protobuf-c unpacks into an arena that is limited by the
 *     file's length (MODEL_MAX_*, graph/core/limits.h), and no message can contain its own kind.
 *   - node_new makes every node, so a file meets the same checks of attributes and shapes as a program;
 *     operands are results of earlier calls.
 *   - Bad names, enumerations and numbers, duplicates, and unknown ops, attributes and fields are errors
 *     that name the file, the place and the rule.
 */
#include "graph/settings/ddp.h"
#include "graph/file/io.h"
#include "graph/core/limits.h"
#include "graph/core/own_op.h"
#include "graph/file/model_file.h"
#include "graph/file/packed.h"
#include "graph/settings/field.h"
#include "graph/settings/flow.h"
#include "graph/settings/minimize.h"
#include "graph/settings/precision.h"
#include "graph/settings/schedule.h"
#include "graph/settings/strategy.h"
#include "weft/file.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The state of one weft_load. */
typedef struct loader {
    const char *path;
    weft_error *error;
    weft_model *m;
    weft_graph *g;
    char place[260]; /* "graph d_step: call 17: ", or "" */
    size_t n_nodes, n_operands;
    weft_node **calls;       /* calls of the present graph, by number */
    const weft_graph **read; /* by variable->index: the last graph with a parameter or state node of it */
} loader;

/* Sets *error to "model.bin: graph d_step: call 17: rule" and returns false. An error of the model itself
 * takes the place of the rule. */
__attribute__((format(printf, 2, 3))) static bool load_fail(loader *l, const char *format, ...) {
    char rule[700];
    va_list args;
    va_start(args, format);
    vsnprintf(rule, sizeof rule, format, args);
    va_end(args);
    bool own = l->m && !model_ok(l->m);
    weft_status status = own && l->m->error.status == WEFT_MEMORY ? WEFT_MEMORY : WEFT_FILE;
    error_set(l->error, status, "%.300s: %s%s", l->path, l->place, own ? l->m->error.text : rule);
    return false;
}

/* The model's error names the entry of the list. */
static bool entry_fail(loader *l, const char *list) {
    snprintf(l->place, sizeof l->place, "%s: ", list);
    return load_fail(l, "out of memory");
}

static bool no_memory(loader *l) {
    error_memory(l->error, l->path);
    return false;
}

/* A list may have so many. */
static bool are_few(loader *l, size_t n, int most, const char *what) {
    return n <= (size_t)most || load_fail(l, "%zu %s, at most %d", n, what, most);
}

/* Protobuf-c keeps fields of a newer version, or of none, in the message's base. */
static bool is_known(loader *l, const ProtobufCMessage *message) {
    return !message->n_unknown_fields || load_fail(l, "a field that this version does not know");
}

/* Errors are of this message from here on. */
__attribute__((format(printf, 3, 4))) static bool enter(loader *l, const ProtobufCMessage *message,
                                                        const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(l->place, sizeof l->place, format, args);
    va_end(args);
    return is_known(l, message);
}

/* ---- variables ---- */

/* Checks one variable and makes it. */
static bool variable_load(loader *l, const Weft__Variable *v) {
    bool is_state = v->kind == WEFT__VARIABLE__KIND__STATE;
    if (!enter(l, &v->base, "variable %s: ", SHOW(v->path))) return false;
    if (!path_is_valid(v->path))
        return load_fail(l, "names of letters, digits, '_', '-', '.' with '/' between");
    if (v->kind != WEFT__VARIABLE__KIND__PARAMETER && !is_state)
        return load_fail(l, "kind %d is neither parameter nor state", (int)v->kind);
    if (!are_few(l, v->n_shape, WEFT_MAX_NDIM, "axes")) return false;
    tensor_type type = type_of((weft_dtype)v->dtype, (int)v->n_shape, v->shape);
    bool is_of_type = type.dtype == WEFT_F32 || (is_state && type.dtype == WEFT_I64);
    if (!type_check(&type) || !is_of_type)
        return load_fail(l,
                         "type %s: f32 (state also i64), every axis at least 1, the whole below 2^46 bytes",
                         TYPE(&type));
    if (is_state && v->frozen) return load_fail(l, "state cannot be frozen");
    if (variable_find(l->m, v->path)) return load_fail(l, "it is listed twice");
    weft_init init = {(weft_init_kind)v->init, v->a, v->b};
    weft_variable *made = NULL;
    if (init_is_valid(l->m, NULL, v->path, init, &type))
        made = variable_new(l->m, v->path, is_state ? VARIABLE_STATE : VARIABLE_PARAMETER, &type, init);
    if (!made) return entry_fail(l, "variables");
    made->is_frozen = v->frozen;
    return true;
}

static bool variables_load(loader *l, const Weft__Model *file) {
    for (size_t i = 0; i < file->n_variables; i++)
        if (!variable_load(l, file->variables[i])) return false;
    l->read = arena_new_array(&l->m->arena, file->n_variables, sizeof *l->read);
    return l->read || no_memory(l);
}

/* ---- schedules ---- */

/* The file has numbers with their defaults, so a 0 is a true one; of fields that the kind does not have it
 * says nothing, and they stay 0. */
static bool part_load(loader *l, Weft__Schedule *from, weft_schedule *part) {
    if (from->base.n_unknown_fields || from->n_milestones > WEFT_MAX_MILESTONES)
        return load_fail(l, "schedules: a part has an unknown field, or over %d milestones",
                         WEFT_MAX_MILESTONES);
    for (const weft_field *f = weft_schedule_fields(); f->name; f++) {
        char *into = (char *)part + f->offset;
        const void *there = schedule_member(from, f);
        if (f->kind == WEFT_FIELD_FLAG)
            *into = *(const protobuf_c_boolean *)there != 0;
        else
            memcpy(into, there, field_width(f));
    }
    for (size_t i = 0; i < from->n_milestones; i++) part->milestones[i] = from->milestones[i];
    return true;
}

/* The attribute is their text, which the model's arena keeps. */
static bool schedules_load(loader *l, const Weft__Schedules *from, const char **into) {
    weft_schedule parts[WEFT_MAX_SCHEDULES] = {{0}};
    char why[SCHEDULE_WHY];
    text t = {0};
    if (!from || from->base.n_unknown_fields || from->n_parts < 1 || from->n_parts > WEFT_MAX_SCHEDULES)
        return load_fail(l, "schedules: 1 to %d parts are possible", WEFT_MAX_SCHEDULES);
    for (size_t i = 0; i < from->n_parts; i++)
        if (!part_load(l, from->parts[i], &parts[i])) return false;
    if (!schedules_fill_zeros(parts, why)) return load_fail(l, "%s", why);
    schedules_write(&t, parts);
    *into = t.failed ? NULL : arena_copy(&l->m->arena, t.data);
    free(t.data);
    return *into || no_memory(l);
}

/* ---- attributes ---- */

/* Reads one attribute. `attrs` borrows the file's strings and bytes; node_new copies them. */
static bool field_load(loader *l, const op_attr *f, const Weft__Attribute *from, void *attrs) {
    if (from->base.n_unknown_fields || from->value_case != attribute_case[f->kind])
        return load_fail(l, "attribute %s has a value of another kind", f->name);
    switch (f->kind) {
    case ATTR_INT:
    case ATTR_REAL:
    case ATTR_DTYPE:
    case ATTR_STRING:
    case ATTR_KEY: /* all at one place of the message, in the C type of the attribute */
        memcpy((char *)attrs + f->offset, &from->integer, attr_width(f));
        return true;
    case ATTR_BOOL:
        ATTR_FIELD(bool, attrs, f) = from->flag != 0;
        return true;
    case ATTR_BYTES:
        ATTR_FIELD(attr_bytes, attrs, f) = attr_bytes_of(from->data.data, from->data.len);
        return true;
    case ATTR_SCHEDULES:
        return schedules_load(l, from->schedules, &ATTR_FIELD(const char *, attrs, f));
    case ATTR_INTS:
        break;
    }
    attr_ints *v = &ATTR_FIELD(attr_ints, attrs, f);
    const Weft__Integers *list = from->integers;
    if (!list || list->base.n_unknown_fields || list->n_v > WEFT_MAX_NDIM)
        return load_fail(l, "attribute %s: at most %d numbers", f->name, WEFT_MAX_NDIM);
    v->n = (int)list->n_v;
    for (int i = 0; i < v->n; i++) v->v[i] = list->v[i];
    return true;
}

/* Attributes that the file leaves out stay zero. */
static bool attributes_load(loader *l, const weft_op *op, size_t n, Weft__Attribute *const *list,
                            void *attrs) {
    uint64_t seen = 0; /* bit i: field i of the op's table was given */
    for (size_t i = 0; i < n; i++) {
        const char *name = list[i]->name;
        const op_attr *f = attr_find(op, name, strlen(name));
        if (!f) return load_fail(l, "%s has no attribute '%s'", op->name, SHOW(name));
        uint64_t bit = (uint64_t)1 << ((f - op->attrs) & 63);
        if (seen & bit) return load_fail(l, "attribute %s is given twice", f->name);
        seen |= bit;
        if (!field_load(l, f, list[i], attrs)) return false;
    }
    return true;
}

/* ---- options of subgraphs ---- */

static bool subgraph_load(loader *l, const Weft__Subgraph *from) {
    ddp_attrs attrs = {0};
    if (!enter(l, &from->base, "subgraph %s: ", SHOW(path_full(from->path)))) return false;
    if (ddp_at(l->m, from->path)) return load_fail(l, "it is listed twice");
    return attributes_load(l, &ddp_fields, from->n_options, from->options, &attrs) &&
           (ddp_set(l->m, from->path, &attrs) || entry_fail(l, "subgraphs"));
}

/* The checks of path and type are those of weft_model_set_precision, with the place in the file in the
 * error. */
static bool precision_load(loader *l, const Weft__Precision *from) {
    if (!enter(l, &from->base, "precision %s: ", SHOW(from->path))) return false;
    if (*from->path && !path_is_valid(from->path)) return load_fail(l, "it is not a path");
    if (precision_at(l->m, from->path)) return load_fail(l, "it is listed twice");
    return precision_set(l->m, from->path, (weft_dtype)from->dtype) || entry_fail(l, "precisions");
}

/* ---- flows ---- */

static bool step_load(loader *l, const Weft__FlowStep *from, weft_flow_step *step) {
    if (!is_known(l, &from->base)) return false;
    if (from->repeat > INT32_MAX || from->accumulate > INT32_MAX)
        return load_fail(l, "a step of graph %s has a number above 2^31-1", SHOW(from->graph));
    *step = (weft_flow_step){.graph = from->graph,
                             .repeat = (int)from->repeat,
                             .accumulate = (int)from->accumulate,
                             .batch = (weft_flow_batch)from->batch,
                             .from = from->from,
                             .to = from->to ? from->to : INT64_MAX};
    return true;
}

/* The rules of a flow are those of weft_model_set_flow, with the place in the file in the error. */
static bool flow_load(loader *l, const Weft__Flow *from) {
    weft_flow_step steps[FLOW_MAX_STEPS];
    if (!enter(l, &from->base, "flow %s: ", SHOW(from->name))) return false;
    if (!are_few(l, from->n_steps, FLOW_MAX_STEPS, "steps")) return false;
    if (flow_find(l->m, from->name)) return load_fail(l, "it is listed twice");
    for (size_t i = 0; i < from->n_steps; i++)
        if (!step_load(l, from->steps[i], &steps[i])) return false;
    return flow_set(l->m, from->name, (int)from->n_steps, steps) || entry_fail(l, "flows");
}

/* ---- calls ---- */

/* operand_call[i] is 1 plus the number of an earlier call; 0: the operand is left out. */
static bool operands_load(loader *l, const Weft__Call *call, size_t number, weft_value **in) {
    for (size_t i = 0; i < call->n_operand_call; i++) {
        uint32_t from = call->operand_call[i], result = call->operand_result[i];
        if (from == 0) continue;
        if (from > number)
            return load_fail(l, "operand %zu is a result of call %u: only earlier calls have results", i,
                             from - 1);
        const weft_node *n = l->calls[from - 1];
        if (result >= (uint32_t)n->n_out)
            return load_fail(l, "operand %zu is result %u of call %u, which has %d", i, result, from - 1,
                             n->n_out);
        in[i] = &n->out[result];
    }
    return true;
}

/* Checks I4: one `parameter` or `state` node for each variable and graph. */
static bool variable_is_new(loader *l, const weft_op *op, const void *attrs) {
    if (op != &weft_op_parameter && op != &weft_op_state) return true;
    const char *path = ((const variable_attrs *)attrs)->path;
    const weft_variable *v = path ? variable_find(l->m, path) : NULL;
    if (!v) return true; /* infer reports it */
    if (l->read[v->index] == l->g) return load_fail(l, "%s is read by an earlier call already", v->path);
    l->read[v->index] = l->g;
    return true;
}

/* ---- ops of a program ---- */

/* The types of the results as the file has them. */
static bool types_load(loader *l, const Weft__Call *call, tensor_type types[OP_MAX_OUT]) {
    if (!are_few(l, call->n_results, WEFT_MAX_OP_RESULTS, "results")) return false;
    for (size_t k = 0; k < call->n_results; k++) {
        const Weft__Type *t = call->results[k];
        if (!is_known(l, &t->base) || !are_few(l, t->n_shape, WEFT_MAX_NDIM, "axes")) return false;
        types[k] = type_of((weft_dtype)t->dtype, (int)t->n_shape, t->shape);
        if (!type_check(&types[k])) return load_fail(l, "result %zu has the type %s", k, TYPE(&types[k]));
    }
    return true;
}

/* The definition may differ from the one that the file was made with. */
static bool types_agree(loader *l, const weft_node *n, size_t n_types, const tensor_type *types) {
    if (n_types && n_types != (size_t)n->n_out)
        return load_fail(l, "%s has %d results; in the file %zu: it is defined another way", n->op->name,
                         n->n_out, n_types);
    for (size_t k = 0; k < n_types; k++)
        if (!type_equal(&types[k], &n->out[k].type))
            return load_fail(l, "%s: result %zu is %s; in the file %s: it is defined another way",
                             n->op->name, k, TYPE(&n->out[k].type), TYPE(&types[k]));
    return true;
}

/* The op of a call that has no definition, where the reader only shows it. NULL after an error. */
static const weft_op *op_shown(loader *l, const Weft__Call *call) {
    op_attr attrs[2 * WEFT_MAX_OP_NUMBERS + 2] = {{0}};
    const weft_op_set *set = l->m->env.ops;
    if (!set || !set->shows_others || !call->n_results)
        return load_fail(l, "%s", op_missing(l->m, call->op, strlen(call->op)).text), NULL;
    if (!are_few(l, call->n_attributes, 2 * WEFT_MAX_OP_NUMBERS, "numbers") ||
        !are_few(l, call->n_operand_call, WEFT_MAX_OP_OPERANDS, "operands"))
        return NULL;
    for (size_t i = 0; i < call->n_operand_call; i++)
        if (!call->operand_call[i]) return load_fail(l, "operand %zu is missing", i), NULL;
    for (size_t i = 0; i < call->n_attributes; i++) {
        bool is_real = call->attributes[i]->value_case == WEFT__ATTRIBUTE__VALUE_REAL;
        attrs[i] = (op_attr){.name = call->attributes[i]->name, .kind = is_real ? ATTR_REAL : ATTR_INT};
    }
    const weft_op *op = own_stand_in(l->m, call->op, (int)call->n_operand_call, attrs);
    if (!op) load_fail(l, "the op");
    return op;
}

/* Repeats one call in its scope. */
static weft_node *call_make(loader *l, const weft_op *op, const Weft__Call *call, size_t number) {
    weft_model *m = l->m;
    const char *scope = scope_intern(m, call->scope);
    weft_value **in = arena_new_array(&m->arena, call->n_operand_call, sizeof *in);
    void *attrs = arena_new(&m->arena, op->attrs_bytes + 1);
    tensor_type types[OP_MAX_OUT];
    if (!scope || !in || !attrs) return no_memory(l), NULL;
    if (op->own) own_defaults(op->own, attrs);
    if (!types_load(l, call, types) || !operands_load(l, call, number, in) ||
        !attributes_load(l, op, call->n_attributes, call->attributes, attrs) ||
        !variable_is_new(l, op, attrs))
        return NULL;
    build_place at;
    build_begin(&at, l->g, scope, NULL);
    bool is_shown = op_is_of_program(op) && !op->own;
    weft_node *n =
        is_shown ? node_new_typed(l->g, op, (int)call->n_operand_call, in, attrs, (int)call->n_results, types)
                 : node_new(l->g, op, (int)call->n_operand_call, in, attrs);
    build_end(&at);
    if (!n)
        load_fail(l, "the call fails");
    else if (!types_agree(l, n, call->n_results, types))
        return NULL;
    else if (op_draws_random(op))
        l->g->next_random++;
    return n;
}

/* The limits count over all graphs of the file. */
static bool call_load(loader *l, const Weft__Call *call, size_t number) {
    if (!enter(l, &call->base, "graph %.100s: call %zu: ", l->g->name, number)) return false;
    if (++l->n_nodes > MODEL_MAX_NODES) return load_fail(l, "more than %d calls", MODEL_MAX_NODES);
    if ((l->n_operands += call->n_operand_call) > MODEL_MAX_OPERANDS)
        return load_fail(l, "more than %d operands", MODEL_MAX_OPERANDS);
    if (call->n_operand_call != call->n_operand_result)
        return load_fail(l, "%zu operand calls and %zu results", call->n_operand_call,
                         call->n_operand_result);
    const weft_op *op = model_op(l->m, call->op, strlen(call->op));
    if (!op && !(op = op_shown(l, call))) return false;
    if (op->flags & OP_COMPILER) return load_fail(l, "%s: only the compiler makes these", op->name);
    if (*call->scope && !path_is_valid(call->scope))
        return load_fail(l, "scope '%s' is not a path", SHOW(call->scope));
    return (l->calls[number] = call_make(l, op, call, number)) != NULL;
}

/* ---- graphs ---- */

static bool output_load(loader *l, const Weft__Output *o, size_t n_calls) {
    if (!enter(l, &o->base, "graph %.100s: output %s: ", l->g->name, SHOW(o->name))) return false;
    if (o->call >= n_calls || o->result >= (uint32_t)l->calls[o->call]->n_out)
        return load_fail(l, "result %u of call %u: there is none", o->result, o->call);
    weft_output(&l->calls[o->call]->out[o->result], o->name);
    return model_ok(l->m) || load_fail(l, "out of memory");
}

/* Calls are numbered by their place in the file; outputs name calls that exist. */
static bool body_load(loader *l, const Weft__Graph *graph) {
    size_t inputs = 0;
    for (size_t i = 0; i < graph->n_calls; i++) inputs += strcmp(graph->calls[i]->op, "input") == 0;
    if (!are_few(l, inputs, MODEL_MAX_INPUTS, "inputs") ||
        !are_few(l, graph->n_outputs, MODEL_MAX_INPUTS, "outputs"))
        return false;
    l->calls = arena_new_array(&l->m->arena, graph->n_calls, sizeof *l->calls);
    if (!l->calls) return no_memory(l);
    for (size_t i = 0; i < graph->n_calls; i++)
        if (!call_load(l, graph->calls[i], i)) return false;
    for (size_t i = 0; i < graph->n_outputs; i++)
        if (!output_load(l, graph->outputs[i], graph->n_calls)) return false;
    return true;
}

static bool graph_load(loader *l, const Weft__Graph *graph) {
    if (!enter(l, &graph->base, "graph %s: ", SHOW(graph->name))) return false;
    l->g = weft_graph_new(l->m, graph->name, graph->train ? WEFT_TRAIN : WEFT_EVAL);
    return l->g ? body_load(l, graph) : load_fail(l, "out of memory");
}

/* ---- optimizers ---- */

/* The names and numbers; their rules are those of weft_define_optimizer. */
static bool definition_load(loader *l, const Weft__Optimizer *from, own_optimizer **made) {
    weft_optimizer_definition d = {.type = from->type};
    if (!are_few(l, from->n_slots, WEFT_MAX_SLOTS, "slots") ||
        !are_few(l, from->n_numbers, WEFT_MAX_NUMBERS, "numbers"))
        return false;
    for (size_t i = 0; i < from->n_slots; i++) {
        if (!is_known(l, &from->slots[i]->base)) return false;
        d.slots[i] = (weft_slot){from->slots[i]->name, from->slots[i]->initial};
    }
    for (size_t i = 0; i < from->n_numbers; i++) {
        if (!is_known(l, &from->numbers[i]->base)) return false;
        d.numbers[i] = (weft_optimizer_number){from->numbers[i]->field, from->numbers[i]->value};
    }
    *made = own_optimizer_new(l->m, &d);
    return *made || load_fail(l, "out of memory");
}

static bool optimizer_load(loader *l, const Weft__Optimizer *from) {
    own_optimizer *o = NULL;
    if (!enter(l, &from->base, "optimizer %s: ", SHOW(from->type)) || !definition_load(l, from, &o))
        return false;
    for (size_t i = 0; i < from->n_updates; i++) {
        if (!enter(l, &from->updates[i]->base, "optimizer %s: ", SHOW(from->type))) return false;
        l->g = own_record_begin(l->m, o);
        if (!l->g) return no_memory(l);
        if (!body_load(l, from->updates[i])) return false;
        if (!own_record_end(l->m, o, l->g)) return entry_fail(l, "optimizers");
    }
    return true;
}

static bool model_load(loader *l, Weft__Model *file, const weft_env *env, const op_catalog *catalog) {
    if (!is_known(l, &file->base)) return false;
    l->m = model_new(file->name, env, catalog);
    if (!l->m) return no_memory(l);
    weft_model_set_batch(l->m, file->batch);
    if (!model_ok(l->m)) return load_fail(l, "model");
    if (!are_few(l, file->n_graphs, MODEL_MAX_GRAPHS, "graphs") ||
        !are_few(l, file->n_variables, MODEL_MAX_VARIABLES, "variables") ||
        !are_few(l, file->n_subgraphs, MODEL_MAX_SUBGRAPHS, "subgraphs") ||
        !are_few(l, file->n_precisions, MODEL_MAX_SUBGRAPHS, "precisions") ||
        !are_few(l, file->n_flows, MODEL_MAX_FLOWS, "flows"))
        return false;
    if (!variables_load(l, file)) return false;
    for (size_t i = 0; i < file->n_subgraphs; i++)
        if (!subgraph_load(l, file->subgraphs[i])) return false;
    for (size_t i = 0; i < file->n_precisions; i++)
        if (!precision_load(l, file->precisions[i])) return false;
    for (size_t i = 0; i < file->n_flows; i++)
        if (!flow_load(l, file->flows[i])) return false;
    /* compiling asks whether its name is known */
    if (*file->strategy && !strategy_set(l->m, file->strategy)) return entry_fail(l, "strategy");
    for (size_t i = 0; i < file->n_optimizers; i++)
        if (!optimizer_load(l, file->optimizers[i])) return false;
    for (size_t i = 0; i < file->n_graphs; i++)
        if (!graph_load(l, file->graphs[i])) return false;
    return true;
}

/* ---- loading ---- */

/* Before protobuf reads a byte: another version may mean something else by every later field. */
static bool unseal(loader *l, const char *data, size_t bytes) {
    uint64_t promised;
    if (!bytes) return load_fail(l, "an empty file is not a Weft model");
    seal_state state = seal_check((const uint8_t *)data, bytes, &promised);
    if (state == SEAL_OTHER_FORMAT)
        return load_fail(l, "not a Weft model: it does not begin with 0d 57 45 46 54 (\"\\rWEFT\")");
    if (state == SEAL_OTHER_VERSION)
        return load_fail(l, "version %ju, this Weft (%s) reads version %d", promised, weft_version(),
                         MODEL_VERSION);
    if (state == SEAL_CUT)
        return load_fail(l, "cut off at %zu bytes of %s%ju", bytes, promised == SEAL_BYTES ? "at least " : "",
                         promised);
    if (state == SEAL_LONGER)
        return load_fail(l, "%zu bytes, but it was written with %ju: other data follow it", bytes, promised);
    if (state == SEAL_CHANGED)
        return load_fail(l, "its checksum does not match: bytes were changed since it was written");
    return true;
}

/* The memory of protobuf-c: an arena, because its pieces have 10 to 100 bytes and each would cost malloc
 * 150. */
typedef struct unpacking {
    arena pieces;
    size_t most;             /* limit of the arena, in bytes */
    bool is_past, is_out_of; /* why the last piece was not allocated: `most`, or no memory */
} unpacking;

static void *piece_new(void *context, size_t bytes) {
    unpacking *u = context;
    u->is_past = bytes > u->most || u->pieces.total > u->most - bytes;
    void *piece = u->is_past ? NULL : arena_new(&u->pieces, bytes);
    u->is_out_of = !piece && !u->is_past;
    return piece;
}

static void piece_free(void *context, void *memory) { /* arena_free frees all */
}

static Weft__Model *unpack(loader *l, const char *data, size_t bytes, unpacking *u) {
    ProtobufCAllocator allocator = {piece_new, piece_free, u};
    if (!unseal(l, data, bytes)) return NULL;
    size_t room = (1 << 20) + 64 * bytes; /* bytes are at most MODEL_MAX_FILE_BYTES */
    u->most = room < MODEL_MAX_UNPACKED_BYTES ? room : MODEL_MAX_UNPACKED_BYTES;
    Weft__Model *file = weft__model__unpack(&allocator, bytes, (const uint8_t *)data);
    if (file) return file;
    if (u->is_out_of)
        no_memory(l);
    else if (u->is_past)
        load_fail(l, "its %zu bytes unpack to more than %zu", bytes, u->most);
    else
        load_fail(l, "its %zu bytes are not a complete protobuf message of graph/file/model.proto (cut off?)",
                  bytes);
    return NULL;
}

/* The unpacked message lives until the model is built; nodes copy what they keep. */
weft_model *model_unpack(const char *path, const char *data, size_t bytes, const weft_env *env,
                         const op_catalog *catalog, weft_error *error) {
    loader l = {.path = path, .error = error};
    unpacking u = {0};
    arena_init(&u.pieces, env);
    Weft__Model *file = unpack(&l, data, bytes, &u);
    bool good = file && model_load(&l, file, env, catalog);
    arena_free(&u.pieces);
    if (good) return l.m;
    weft_model_free(l.m);
    return NULL;
}
