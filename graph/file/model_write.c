/* model_write.c - weft_save: the builder calls of a model as model.bin (graph/file/model.proto). The same
 * model gives the same bytes. Fields that are zero are left out, so that old files read as zero for
 * attributes that are added later.
 *
 * All messages are built in one arena, borrow strings and shapes of the model, and are packed at the end. */
#include "graph/settings/ddp.h"
#include "graph/file/io.h"
#include "graph/core/limits.h"
#include "graph/file/model_file.h"
#include "graph/file/packed.h"
#include "graph/settings/flow.h"
#include "graph/settings/minimize.h"
#include "graph/settings/schedule.h"
#include "graph/settings/precision.h"
#include "weft/file.h"

#include <string.h>

/* The fields of protobuf-c's structs are not const, but packing only reads them. */
static char *plain(const char *string) {
    return (char *)(string ? string : "");
}

/* ---- schedules: full parts, whose true zeros the file has as 0 ---- */

static Weft__Schedule *part_save(const weft_schedule *s, arena *a) {
    Weft__Schedule *to = arena_new(a, sizeof *to);
    weft_schedule *copy = arena_new(a, sizeof *copy);
    if (!to || !copy) return NULL;
    *copy = *s;
    weft__schedule__init(to);
    to->kind = (Weft__Schedule__Kind)s->kind;
    to->of = (Weft__Schedule__Number)s->of;
    to->by_epoch = s->by_epoch;
    to->replaces = s->replaces;
    to->begin = s->begin;
    to->end = s->end;
    to->warmup = s->warmup;
    to->length = s->length;
    to->period = s->period;
    to->period_mult = s->period_mult;
    to->linear = s->linear;
    to->three_phase = s->three_phase;
    to->gamma = schedule_real(s->gamma);
    to->from = schedule_real(s->from);
    to->middle = schedule_real(s->middle);
    to->to = schedule_real(s->to);
    to->power = schedule_real(s->power);
    to->share = schedule_real(s->share);
    to->milestones = copy->milestones;
    while (to->n_milestones < WEFT_MAX_MILESTONES && copy->milestones[to->n_milestones]) to->n_milestones++;
    return to;
}

/* False: memory is out. */
static bool schedules_save(Weft__Attribute *to, const char *text, arena *a) {
    weft_schedule parts[WEFT_MAX_SCHEDULES];
    char why[SCHEDULE_WHY];
    schedules_parse(text, parts, why); /* the node's own checks have read it before */
    Weft__Schedules *list = to->schedules = arena_new(a, sizeof *list);
    if (!list) return false;
    weft__schedules__init(list);
    list->parts = arena_new_array(a, WEFT_MAX_SCHEDULES, sizeof *list->parts);
    for (int i = 0; list->parts && i < schedule_count(parts); i++)
        if (!(list->parts[list->n_parts++] = part_save(&parts[i], a))) return false;
    to->value_case = WEFT__ATTRIBUTE__VALUE_SCHEDULES;
    return list->parts != NULL;
}

/* ---- attributes ---- */

/* False: the list is empty, or memory is out. */
static bool ints_save(Weft__Attribute *to, const attr_ints *from, arena *a) {
    if (from->n == 0) return false;
    to->integers = arena_new(a, sizeof *to->integers);
    if (!to->integers) return false;
    weft__integers__init(to->integers);
    to->integers->n_v = (size_t)from->n;
    to->integers->v = (int64_t *)from->v;
    to->value_case = WEFT__ATTRIBUTE__VALUE_INTEGERS;
    return true;
}

/* Fills *to with one attribute; false: it is zero and need not be saved. */
static bool field_save(Weft__Attribute *to, const op_attr *f, const void *attrs, arena *a) {
    weft__attribute__init(to);
    to->name = plain(f->name);
    switch (f->kind) {
    case ATTR_INT:
        to->value_case = WEFT__ATTRIBUTE__VALUE_INTEGER;
        return (to->integer = ATTR_FIELD(const int64_t, attrs, f)) != 0;
    case ATTR_REAL:
        to->value_case = WEFT__ATTRIBUTE__VALUE_REAL;
        return (to->real = ATTR_FIELD(const double, attrs, f)) != 0;
    case ATTR_BOOL:
        to->value_case = WEFT__ATTRIBUTE__VALUE_FLAG;
        return (to->flag = ATTR_FIELD(const bool, attrs, f)) != 0;
    case ATTR_DTYPE:
        to->value_case = WEFT__ATTRIBUTE__VALUE_DTYPE;
        to->dtype = (Weft__DType)ATTR_FIELD(const weft_dtype, attrs, f);
        return true;
    case ATTR_KEY:
        to->value_case = WEFT__ATTRIBUTE__VALUE_KEY;
        to->key = ATTR_FIELD(const uint64_t, attrs, f);
        return true;
    case ATTR_STRING:
        to->value_case = WEFT__ATTRIBUTE__VALUE_TEXT;
        to->text = plain(ATTR_FIELD(const char *const, attrs, f));
        return ATTR_FIELD(const char *const, attrs, f) != NULL;
    case ATTR_SCHEDULES:
        return ATTR_FIELD(const char *const, attrs, f) &&
               schedules_save(to, ATTR_FIELD(const char *const, attrs, f), a);
    case ATTR_INTS:
        return ints_save(to, &ATTR_FIELD(const attr_ints, attrs, f), a);
    case ATTR_BYTES: {
        const attr_bytes *v = &ATTR_FIELD(const attr_bytes, attrs, f);
        to->value_case = WEFT__ATTRIBUTE__VALUE_DATA;
        to->data = (ProtobufCBinaryData){v->n, (uint8_t *)v->data};
        return v->n != 0;
    }
    }
    return false;
}

/* Fills *to with an array of *n messages, one for each field that is not zero. False when memory is out. */
static bool attributes_save(Weft__Attribute ***to, size_t *n, const op_attr *table, const void *attrs,
                            arena *a) {
    size_t count = 0;
    for (const op_attr *f = table; f && f->name; f++) count++;
    Weft__Attribute *list = arena_new_array(a, count + 1, sizeof *list);
    *to = arena_new_array(a, count + 1, sizeof **to);
    if (!list || !*to) return false;
    for (const op_attr *f = table; f && f->name; f++) {
        Weft__Attribute *next = &list[*n];
        if (field_save(next, f, attrs, a))
            (*to)[(*n)++] = next;
        else if ((f->kind == ATTR_INTS && ATTR_FIELD(const attr_ints, attrs, f).n) ||
                 (f->kind == ATTR_SCHEDULES && ATTR_FIELD(const char *const, attrs, f)))
            return false; /* memory */
    }
    return true;
}

/* ---- calls, graphs, variables; NULL or false: memory is out ---- */

/* number[id] is 1 plus the number of the call that makes value `id`; 0 is an operand left out. */
static Weft__Call *call_save(const weft_node *n, const uint32_t *number, arena *a) {
    Weft__Call *call = arena_new(a, sizeof *call);
    if (!call) return NULL;
    weft__call__init(call);
    call->op = plain(n->op->name);
    call->scope = plain(n->scope);
    call->n_operand_call = call->n_operand_result = (size_t)n->n_in;
    call->operand_call = arena_new_array(a, (size_t)n->n_in + 1, sizeof *call->operand_call);
    call->operand_result = arena_new_array(a, (size_t)n->n_in + 1, sizeof *call->operand_result);
    if (!call->operand_call || !call->operand_result) return NULL;
    for (int i = 0; i < n->n_in; i++) {
        if (!n->in[i]) continue;
        call->operand_call[i] = number[n->in[i]->id];
        call->operand_result[i] = (uint32_t)n->in[i]->index;
    }
    bool good = attributes_save(&call->attributes, &call->n_attributes, n->op->attrs, n->attrs, a);
    return good ? call : NULL;
}

/* In the order of the calls. number[] counts from 1, the file's calls from 0. */
static bool outputs_save(Weft__Graph *graph, const weft_graph *g, const uint32_t *number, arena *a) {
    size_t count = 0;
    for (const graph_output *o = g->outputs; o; o = o->next) count++;
    graph->outputs = arena_new_array(a, count + 1, sizeof *graph->outputs);
    for (const graph_output *o = g->outputs; graph->outputs && o; o = o->next) {
        Weft__Output *out = arena_new(a, sizeof *out);
        if (!out) return false;
        weft__output__init(out);
        out->name = plain(o->name);
        out->call = number[o->value->id] - 1;
        out->result = (uint32_t)o->value->index;
        graph->outputs[graph->n_outputs++] = out;
    }
    return graph->outputs != NULL;
}

/* Calls are numbered from 0 in the order of the list. */
static Weft__Graph *graph_save(const weft_graph *g, arena *a) {
    Weft__Graph *graph = arena_new(a, sizeof *graph);
    uint32_t *number = arena_new_array(a, (size_t)g->next_id + 1, sizeof *number);
    if (!graph || !number) return NULL;
    weft__graph__init(graph);
    graph->name = plain(g->name);
    graph->train = g->mode == WEFT_TRAIN;
    graph->calls = arena_new_array(a, (size_t)graph_node_count(g) + 1, sizeof *graph->calls);
    if (!graph->calls) return NULL;
    for (const weft_node *n = g->first; n; n = n->next) {
        Weft__Call *call = call_save(n, number, a);
        if (!call) return NULL;
        graph->calls[graph->n_calls++] = call;
        for (int k = 0; k < n->n_out; k++) number[n->out[k].id] = (uint32_t)graph->n_calls;
    }
    return outputs_save(graph, g, number, a) ? graph : NULL;
}

/* All fields are written; proto3 leaves out those that are zero. */
static Weft__Variable *variable_save(const weft_variable *v, arena *a) {
    Weft__Variable *to = arena_new(a, sizeof *to);
    if (!to) return NULL;
    weft__variable__init(to);
    to->path = plain(v->path);
    to->kind = v->kind == VARIABLE_PARAMETER ? WEFT__VARIABLE__KIND__PARAMETER : WEFT__VARIABLE__KIND__STATE;
    to->dtype = (Weft__DType)v->type.dtype;
    to->n_shape = (size_t)v->type.ndim;
    to->shape = (int64_t *)v->type.shape;
    to->init = (Weft__Variable__Init)v->init.kind;
    to->a = v->init.a;
    to->b = v->init.b;
    to->frozen = v->is_frozen;
    return to;
}

static Weft__Subgraph *subgraph_save(const ddp_entry *e, arena *a) {
    Weft__Subgraph *to = arena_new(a, sizeof *to);
    if (!to) return NULL;
    weft__subgraph__init(to);
    to->path = plain(e->path);
    return attributes_save(&to->options, &to->n_options, ddp_attr_table, &e->attrs, a) ? to : NULL;
}

static bool subgraphs_save(Weft__Model *model, const weft_model *m, arena *a) {
    size_t count = 0;
    for (const ddp_entry *e = m->ddps; e; e = e->next) count++;
    model->subgraphs = arena_new_array(a, count + 1, sizeof *model->subgraphs);
    for (const ddp_entry *e = m->ddps; model->subgraphs && e; e = e->next)
        if (!(model->subgraphs[model->n_subgraphs++] = subgraph_save(e, a))) return false;
    return model->subgraphs != NULL;
}

static bool precisions_save(Weft__Model *model, const weft_model *m, arena *a) {
    size_t count = 0;
    for (const precision_entry *e = m->precisions; e; e = e->next) count++;
    model->precisions = arena_new_array(a, count + 1, sizeof *model->precisions);
    for (const precision_entry *e = m->precisions; model->precisions && e; e = e->next) {
        Weft__Precision *to = model->precisions[model->n_precisions++] = arena_new(a, sizeof *to);
        if (!to) return false;
        weft__precision__init(to);
        to->path = plain(e->path);
        to->dtype = (Weft__DType)e->dtype;
    }
    return model->precisions != NULL;
}

static Weft__FlowStep *step_save(const weft_flow_step *s, arena *a) {
    Weft__FlowStep *to = arena_new(a, sizeof *to);
    if (!to) return NULL;
    weft__flow_step__init(to);
    to->graph = plain(s->graph);
    to->repeat = (uint32_t)s->repeat;
    to->accumulate = (uint32_t)s->accumulate;
    to->batch = (Weft__FlowStep__Batch)s->batch;
    to->from = s->from;
    to->to = s->to < INT64_MAX ? s->to : 0;
    return to;
}

static Weft__Flow *flow_save(const flow_entry *e, arena *a) {
    Weft__Flow *to = arena_new(a, sizeof *to);
    if (!to) return NULL;
    weft__flow__init(to);
    to->name = plain(e->name);
    to->steps = arena_new_array(a, (size_t)e->n, sizeof *to->steps);
    for (int i = 0; to->steps && i < e->n; i++)
        if (!(to->steps[to->n_steps++] = step_save(&e->steps[i], a))) return NULL;
    return to->steps ? to : NULL;
}

static bool flows_save(Weft__Model *model, const weft_model *m, arena *a) {
    size_t count = 0;
    for (const flow_entry *e = m->flows; e; e = e->next) count++;
    model->flows = arena_new_array(a, count + 1, sizeof *model->flows);
    for (const flow_entry *e = m->flows; model->flows && e; e = e->next)
        if (!(model->flows[model->n_flows++] = flow_save(e, a))) return false;
    return model->flows != NULL;
}

static Weft__Slot *slot_save(const optimizer_slot_kind *s, arena *a) {
    Weft__Slot *to = arena_new(a, sizeof *to);
    if (!to) return NULL;
    weft__slot__init(to);
    to->name = plain(s->name);
    to->initial = s->initial;
    return to;
}

static Weft__Number *number_save(const optimizer_number *n, arena *a) {
    Weft__Number *to = arena_new(a, sizeof *to);
    if (!to) return NULL;
    weft__number__init(to);
    to->field = plain(n->name);
    to->value = n->value;
    return to;
}

static Weft__Optimizer *optimizer_save(const own_optimizer *o, arena *a) {
    Weft__Optimizer *to = arena_new(a, sizeof *to);
    size_t count = 0;
    if (!to) return NULL;
    weft__optimizer__init(to);
    for (const update_record *r = o->records; r; r = r->next) count++;
    to->type = plain(o->kind.type);
    to->slots = arena_new_array(a, WEFT_MAX_SLOTS, sizeof *to->slots);
    to->numbers = arena_new_array(a, WEFT_MAX_NUMBERS, sizeof *to->numbers);
    to->updates = arena_new_array(a, count + 1, sizeof *to->updates);
    if (!to->slots || !to->numbers || !to->updates) return NULL;
    for (int i = 0; i < WEFT_MAX_SLOTS && o->kind.slots[i].name; i++)
        if (!(to->slots[to->n_slots++] = slot_save(&o->kind.slots[i], a))) return NULL;
    for (int i = 0; i < WEFT_MAX_NUMBERS && o->kind.fields[i]; i++)
        if (!(to->numbers[to->n_numbers++] = number_save(&o->kind.defaults[i], a))) return NULL;
    for (const update_record *r = o->records; r; r = r->next)
        if (!(to->updates[to->n_updates++] = graph_save(r->graph, a))) return NULL;
    return to;
}

static bool optimizers_save(Weft__Model *model, const weft_model *m, arena *a) {
    model->optimizers = arena_new_array(a, MODEL_MAX_OWN, sizeof *model->optimizers);
    for (const own_optimizer *o = m->own; model->optimizers && o; o = o->next)
        if (!(model->optimizers[model->n_optimizers++] = optimizer_save(o, a))) return false;
    return model->optimizers != NULL;
}

static Weft__Model *model_save(const weft_model *m, arena *a) {
    Weft__Model *model = arena_new(a, sizeof *model);
    if (!model) return NULL;
    weft__model__init(model);
    /* For people; weft_load does not read it. */
    model->producer = arena_printf(a, "weft %s", weft_version());
    model->name = plain(m->name);
    model->batch = m->batch;
    model->strategy = plain(m->strategy ? m->strategy : "");
    model->variables = arena_new_array(a, (size_t)m->n_variables + 1, sizeof *model->variables);
    model->graphs = arena_new_array(a, (size_t)weft_graph_count(m) + 1, sizeof *model->graphs);
    if (!model->producer || !model->variables || !model->graphs) return NULL;
    for (const weft_variable *v = m->variables; v; v = v->next)
        if (!(model->variables[model->n_variables++] = variable_save(v, a))) return NULL;
    for (const weft_graph *g = m->graphs; g; g = g->next)
        if (!(model->graphs[model->n_graphs++] = graph_save(g, a))) return NULL;
    bool is_saved = subgraphs_save(model, m, a) && precisions_save(model, m, a) && flows_save(model, m, a) &&
                    optimizers_save(model, m, a);
    return is_saved ? model : NULL;
}

/* ---- saving ---- */

static weft_status check_model(const weft_model *m, const char *path, weft_error *error) {
    /* The first error of building, so that a caller need not ask for it apart. */
    if (!model_ok(m)) {
        if (error) *error = m->error;
        return m->error.status;
    }
    if (scopes_check(m, error)) return WEFT_ORDER;
    if (model_is_as_built(m)) return WEFT_OK;
    return error_set(error, WEFT_ARGUMENT,
                     "%.600s: only a model as it was built can be saved, not the graphs of a plan", path);
}

weft_status model_pack(const weft_model *m, const char *path, uint8_t **packed, size_t *bytes,
                       weft_error *error) {
    arena a;
    weft_status status = check_model(m, path, error);
    *packed = NULL;
    if (status) return status;
    arena_init(&a, &m->env);
    Weft__Model *model = model_save(m, &a);
    *bytes = model ? SEAL_BYTES + weft__model__get_packed_size(model) : 0;
    if (model && *bytes <= MODEL_MAX_FILE_BYTES) *packed = mem_raw(&m->env, *bytes);
    if (*bytes > MODEL_MAX_FILE_BYTES) {
        status = error_set(error, WEFT_FILE, "%.600s: the model takes %zu bytes, a file at most %d", path,
                           *bytes, MODEL_MAX_FILE_BYTES);
    } else if (!*packed) {
        status = error_memory(error, path);
    } else {
        weft__model__pack(model, *packed + SEAL_BYTES);
        seal_write(*packed, *packed + SEAL_BYTES, *bytes - SEAL_BYTES);
    }
    arena_free(&a);
    return status;
}

weft_status weft_save(const weft_model *m, const char *path, weft_error *error) {
    uint8_t *packed;
    size_t bytes;
    if (error) *error = (weft_error){0};
    if (!m || !path) return error_set(error, WEFT_ARGUMENT, "weft_save: a model and a path are needed");
    weft_status status = model_pack(m, path, &packed, &bytes, error);
    if (!status) status = file_write_atomic(&m->env, path, packed, bytes, error);
    mem_free(&m->env, packed, bytes);
    return status;
}
