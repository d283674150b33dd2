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
#include "graph/settings/field.h"
#include "graph/settings/flow.h"
#include "graph/settings/minimize.h"
#include "graph/settings/schedule.h"
#include "graph/settings/precision.h"
#include "weft/file.h"

#include <string.h>

/* What is written. Where memory is out, `failed` is set, and messages from then on are `spare`, so that
 * callers need not ask. */
typedef struct saver {
    arena memory;
    bool failed;
    Weft__Schedule spare; /* the largest message that stands in a list */
} saver;

static void *message_new(saver *s, const ProtobufCMessageDescriptor *kind) {
    void *message = s->failed ? NULL : arena_new(&s->memory, kind->sizeof_message);
    s->failed |= !message;
    if (s->failed) message = &s->spare;
    protobuf_c_message_init(kind, message);
    return message;
}

/* Appends an empty message to a list, of whose pointer `list` is the address. */
static void *message_add(saver *s, const ProtobufCMessageDescriptor *kind, void *list, size_t *n) {
    void *message = message_new(s, kind), **array;
    if (s->failed) return message;
    memcpy(&array, list, sizeof array);
    if (!(*n & (*n - 1))) { /* 0, 1, 2, 4 ...: it may be full */
        void **more = arena_new_array(&s->memory, 2 * *n + 1, sizeof *more);
        s->failed = !more;
        if (s->failed) return message;
        if (*n) memcpy(more, array, *n * sizeof *more);
        array = more;
        memcpy(list, &array, sizeof array);
    }
    array[(*n)++] = message;
    return message;
}

/* The fields of protobuf-c's structs are not const, but packing only reads them. */
static char *plain(const char *string) {
    return (char *)(string ? string : "");
}

/* ---- attributes ---- */

/* A full part. Its fields have the same names in the file, where true zeros are 0. */
static void part_save(saver *s, Weft__Schedule *to, const weft_schedule *part) {
    for (const weft_field *f = weft_schedule_fields(); f->name; f++) {
        const char *from = (const char *)part + f->offset;
        void *into = schedule_member(to, f);
        if (f->kind == WEFT_FIELD_FLAG)
            *(protobuf_c_boolean *)into = *from;
        else if (f->kind == WEFT_FIELD_NUMBER)
            *(double *)into = schedule_real(*(const double *)from);
        else
            memcpy(into, from, field_width(f));
    }
    to->milestones = arena_new(&s->memory, sizeof part->milestones);
    s->failed |= !to->milestones;
    if (to->milestones) memcpy(to->milestones, part->milestones, sizeof part->milestones);
    while (to->n_milestones < WEFT_MAX_MILESTONES && part->milestones[to->n_milestones]) to->n_milestones++;
}

static void schedules_save(saver *s, Weft__Schedules *to, const char *text) {
    weft_schedule parts[WEFT_MAX_SCHEDULES];
    char why[SCHEDULE_WHY];
    schedules_parse(text, parts, why); /* the node's own checks have read it before */
    for (int i = 0; i < schedule_count(parts); i++)
        part_save(s, message_add(s, &weft__schedule__descriptor, &to->parts, &to->n_parts), &parts[i]);
}

/* `to` borrows what the attribute points to. */
static void field_save(saver *s, Weft__Attribute *to, const op_attr *f, const void *attrs) {
    to->name = plain(f->name);
    to->value_case = attribute_case[f->kind];
    switch (f->kind) {
    case ATTR_INT:
    case ATTR_REAL:
    case ATTR_DTYPE:
    case ATTR_KEY: /* all at one place of the message, in the C type of the attribute */
        memcpy(&to->integer, (const char *)attrs + f->offset, attr_width(f));
        return;
    case ATTR_BOOL:
        to->flag = ATTR_FIELD(const bool, attrs, f);
        return;
    case ATTR_STRING:
        to->text = plain(ATTR_FIELD(const char *const, attrs, f));
        return;
    case ATTR_SCHEDULES:
        to->schedules = message_new(s, &weft__schedules__descriptor);
        schedules_save(s, to->schedules, ATTR_FIELD(const char *const, attrs, f));
        return;
    case ATTR_INTS:
        to->integers = message_new(s, &weft__integers__descriptor);
        to->integers->n_v = (size_t)ATTR_FIELD(const attr_ints, attrs, f).n;
        to->integers->v = (int64_t *)ATTR_FIELD(const attr_ints, attrs, f).v;
        return;
    case ATTR_BYTES:
        to->data.len = ATTR_FIELD(const attr_bytes, attrs, f).n;
        to->data.data = (uint8_t *)ATTR_FIELD(const attr_bytes, attrs, f).data;
        return;
    }
}

/* Adds a message for each field that is not zero. */
static void attributes_save(saver *s, Weft__Attribute ***list, size_t *n, const op_attr *table,
                            const void *attrs) {
    for (const op_attr *f = table; f && f->name; f++)
        if (attr_is_set(f, attrs))
            field_save(s, message_add(s, &weft__attribute__descriptor, list, n), f, attrs);
}

/* ---- graphs ---- */

/* Of an op that a program defines: graphtool shows it by these. */
static void types_save(saver *s, Weft__Call *call, const weft_node *n) {
    for (int k = 0; k < n->n_out && op_is_of_program(n->op); k++) {
        Weft__Type *to = message_add(s, &weft__type__descriptor, &call->results, &call->n_results);
        if (s->failed) return;
        to->dtype = (Weft__DType)n->out[k].type.dtype;
        to->n_shape = (size_t)n->out[k].type.ndim;
        to->shape = n->out[k].type.shape;
    }
}

/* number[id] is 1 plus the number of the call that makes value `id`; 0 is an operand left out. */
static void call_save(saver *s, Weft__Call *call, const weft_node *n, const uint32_t *number) {
    uint32_t *operands = arena_new_array(&s->memory, 2 * n->n_in, sizeof *operands);
    call->op = plain(n->op->name);
    call->scope = plain(n->scope);
    attributes_save(s, &call->attributes, &call->n_attributes, n->op->attrs, n->attrs);
    types_save(s, call, n);
    s->failed |= !operands;
    if (!operands) return;
    call->n_operand_call = call->n_operand_result = (size_t)n->n_in;
    call->operand_call = operands;
    call->operand_result = operands + n->n_in;
    for (int i = 0; i < n->n_in; i++) {
        if (!n->in[i]) continue;
        call->operand_call[i] = number[n->in[i]->id];
        call->operand_result[i] = (uint32_t)n->in[i]->index;
    }
}

/* Calls are numbered from 0 in the order of the list; number[] counts from 1. */
static void graph_save(saver *s, Weft__Graph *to, const weft_graph *g) {
    uint32_t *number = arena_new_array(&s->memory, g->next_id, sizeof *number);
    to->name = plain(g->name);
    to->train = g->mode == WEFT_TRAIN;
    s->failed |= !number;
    for (const weft_node *n = g->first; n && !s->failed; n = n->next) {
        call_save(s, message_add(s, &weft__call__descriptor, &to->calls, &to->n_calls), n, number);
        for (int k = 0; k < n->n_out; k++) number[n->out[k].id] = (uint32_t)to->n_calls;
    }
    for (const graph_output *o = g->outputs; o && !s->failed; o = o->next) {
        Weft__Output *out = message_add(s, &weft__output__descriptor, &to->outputs, &to->n_outputs);
        out->name = plain(o->name);
        out->call = number[o->value->id] - 1;
        out->result = (uint32_t)o->value->index;
    }
}

/* ---- what a model says besides ---- */

static void variables_save(saver *s, Weft__Model *model, const weft_model *m) {
    for (const weft_variable *v = m->variables; v; v = v->next) {
        Weft__Variable *to =
            message_add(s, &weft__variable__descriptor, &model->variables, &model->n_variables);
        to->path = plain(v->path);
        to->kind =
            v->kind == VARIABLE_PARAMETER ? WEFT__VARIABLE__KIND__PARAMETER : WEFT__VARIABLE__KIND__STATE;
        to->dtype = (Weft__DType)v->type.dtype;
        to->n_shape = (size_t)v->type.ndim;
        to->shape = (int64_t *)v->type.shape;
        to->init = (Weft__Variable__Init)v->init.kind;
        to->a = v->init.a;
        to->b = v->init.b;
        to->frozen = v->is_frozen;
    }
}

static void subgraphs_save(saver *s, Weft__Model *model, const weft_model *m) {
    for (const ddp_entry *e = m->ddps; e; e = e->next) {
        Weft__Subgraph *to =
            message_add(s, &weft__subgraph__descriptor, &model->subgraphs, &model->n_subgraphs);
        to->path = plain(e->path);
        attributes_save(s, &to->options, &to->n_options, ddp_attr_table, &e->attrs);
    }
}

static void precisions_save(saver *s, Weft__Model *model, const weft_model *m) {
    for (const precision_entry *e = m->precisions; e; e = e->next) {
        Weft__Precision *to =
            message_add(s, &weft__precision__descriptor, &model->precisions, &model->n_precisions);
        to->path = plain(e->path);
        to->dtype = (Weft__DType)e->dtype;
    }
}

static void step_save(Weft__FlowStep *to, const weft_flow_step *step) {
    to->graph = plain(step->graph);
    to->repeat = (uint32_t)step->repeat;
    to->accumulate = (uint32_t)step->accumulate;
    to->batch = (Weft__FlowStep__Batch)step->batch;
    to->from = step->from;
    to->to = step->to < INT64_MAX ? step->to : 0;
}

static void flows_save(saver *s, Weft__Model *model, const weft_model *m) {
    for (const flow_entry *e = m->flows; e; e = e->next) {
        Weft__Flow *to = message_add(s, &weft__flow__descriptor, &model->flows, &model->n_flows);
        to->name = plain(e->name);
        for (int i = 0; i < e->n; i++)
            step_save(message_add(s, &weft__flow_step__descriptor, &to->steps, &to->n_steps), &e->steps[i]);
    }
}

static void optimizer_save(saver *s, Weft__Optimizer *to, const own_optimizer *o) {
    to->type = plain(o->kind.type);
    for (int i = 0; o->kind.slots[i].name; i++) {
        Weft__Slot *slot = message_add(s, &weft__slot__descriptor, &to->slots, &to->n_slots);
        slot->name = plain(o->kind.slots[i].name);
        slot->initial = o->kind.slots[i].initial;
    }
    for (int i = 0; o->kind.fields[i]; i++) {
        Weft__Number *number = message_add(s, &weft__number__descriptor, &to->numbers, &to->n_numbers);
        number->field = plain(o->kind.defaults[i].name);
        number->value = o->kind.defaults[i].value;
    }
    for (const update_record *r = o->records; r; r = r->next)
        graph_save(s, message_add(s, &weft__graph__descriptor, &to->updates, &to->n_updates), r->graph);
}

static void model_save(saver *s, Weft__Model *to, const weft_model *m) {
    weft__model__init(to);
    /* For people; weft_load does not read it. */
    to->producer = arena_printf(&s->memory, "weft %s", weft_version());
    s->failed |= !to->producer;
    to->name = plain(m->name);
    to->batch = m->batch;
    to->strategy = plain(m->strategy);
    variables_save(s, to, m);
    for (const weft_graph *g = m->graphs; g; g = g->next)
        graph_save(s, message_add(s, &weft__graph__descriptor, &to->graphs, &to->n_graphs), g);
    subgraphs_save(s, to, m);
    precisions_save(s, to, m);
    flows_save(s, to, m);
    for (const own_optimizer *o = m->own; o; o = o->next)
        optimizer_save(s, message_add(s, &weft__optimizer__descriptor, &to->optimizers, &to->n_optimizers),
                       o);
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

typedef struct list_count {
    size_t n;
    int most;
    const char *what;
} list_count;

static weft_status check_lists(const list_count *lists, size_t n, const char *path, weft_error *error) {
    for (size_t i = 0; i < n; i++)
        if (lists[i].n > (size_t)lists[i].most)
            return error_set(error, WEFT_FILE, "%.600s: the model has %zu %s, a file at most %d", path,
                             lists[i].n, lists[i].what, lists[i].most);
    return WEFT_OK;
}

/* Refuses what weft_load() would refuse. */
static weft_status check_counts(const Weft__Model *m, const char *path, weft_error *error) {
    size_t calls = 0, operands = 0;
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < m->n_graphs && !status; i++) {
        const Weft__Graph *g = m->graphs[i];
        size_t inputs = 0;
        calls += g->n_calls;
        for (size_t j = 0; j < g->n_calls; j++) {
            operands += g->calls[j]->n_operand_call;
            inputs += strcmp(g->calls[j]->op, "input") == 0;
        }
        const list_count ports[] = {{inputs, MODEL_MAX_INPUTS, "inputs in a graph"},
                                    {g->n_outputs, MODEL_MAX_INPUTS, "outputs in a graph"}};
        status = check_lists(ports, sizeof ports / sizeof *ports, path, error);
    }
    const list_count lists[] = {{m->n_graphs, MODEL_MAX_GRAPHS, "graphs"},
                                {m->n_variables, MODEL_MAX_VARIABLES, "variables"},
                                {m->n_subgraphs, MODEL_MAX_SUBGRAPHS, "subgraphs"},
                                {m->n_precisions, MODEL_MAX_SUBGRAPHS, "precisions"},
                                {m->n_flows, MODEL_MAX_FLOWS, "flows"},
                                {calls, MODEL_MAX_NODES, "calls"},
                                {operands, MODEL_MAX_OPERANDS, "operands"}};
    return status ? status : check_lists(lists, sizeof lists / sizeof *lists, path, error);
}

weft_status model_pack(const weft_model *m, const char *path, uint8_t **packed, size_t *bytes,
                       weft_error *error) {
    saver s = {0};
    Weft__Model model;
    weft_status status = check_model(m, path, error);
    *packed = NULL;
    if (status) return status;
    arena_init(&s.memory, &m->env);
    model_save(&s, &model, m);
    *bytes = s.failed ? 0 : SEAL_BYTES + weft__model__get_packed_size(&model);
    if (!s.failed) status = check_counts(&model, path, error);
    if (!s.failed && !status && *bytes <= MODEL_MAX_FILE_BYTES) *packed = mem_raw(&m->env, *bytes);
    if (status) {
        *bytes = 0;
    } else if (*bytes > MODEL_MAX_FILE_BYTES) {
        status = error_set(error, WEFT_FILE, "%.600s: the model takes %zu bytes, a file at most %d", path,
                           *bytes, MODEL_MAX_FILE_BYTES);
    } else if (!*packed) {
        status = error_memory(error, path);
    } else {
        weft__model__pack(&model, *packed + SEAL_BYTES);
        seal_write(*packed, *packed + SEAL_BYTES, *bytes - SEAL_BYTES);
    }
    arena_free(&s.memory);
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
