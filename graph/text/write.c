/* write.c - prints the one dump format. graph/text/read.c reads it back so that it prints the same text
 * again.
 *
 *     model dcgan batch=128
 *     parameter generator/fc/weight f32[6272,64] uniform(-0.125,0.125)
 *     state generator/bn1/running_mean f32[128] zeros(0,0)
 *     bucket adam:generator f32[407680] members=generator/fc/weight,generator/fc/bias
 *     shard adam:generator/own f32[203840] of=adam:generator@203840
 *     optimizer optimizer.adam:generator/step f64[] zeros(0,0)
 *     gradient adam:generator/gradient f32[407680] members=generator/fc/weight,generator/fc/bias
 *     ddp generator bucket_cap_mb=4 zero=1 shard=flat
 *     precision generator bf16
 *     strategy zero:stage=2
 *     flow train d_step*5 g_step
 *     define signum slot momentum_buffer=0 number momentum=0.9
 *     update signum
 *     graph d_step train
 *     %0 u8[128,28,28] = input() name="image" dtype=u8 shape=B,28,28
 *     %7 f32[128,64,14,14]:nhwc = conv2d(%3, d/conv1/weight, -) stride=2,2 in d/conv1 by onednn @5 +0x4000
 *     %9 f32[4], %8 f32[4] = fused(%1, %2) {%8 f32[4] = add(%1, %2); %9 f32[4] = relu(%8)} in generator
 *     output d_loss %57
 *
 * A `ddp` line holds the options of a subgraph that are not zero; `ddp /` and `precision /` are for the whole
 * model. Operands that are parameters are named by path; `-` is an operand left out. `bwd` and `upd` mark
 * nodes made by autodiff and by the optimizer pass. A fused node's results have the numbers of the body nodes
 * that make them. A member of a bucket starts at the next multiple of TEXT_MEMBER_ALIGN after the one before
 * it, or at element `@n`. The lines after `update` are those of a graph: a step of the optimizer that
 * `define` names.
 *
 * After the layout pass types carry `:nhwc`, `:ndhwc` or `:s(1,2)` (strides, in elements), unless they are
 * row-major, and nodes carry their kernel. After the memory pass `@5` is the place in the schedule, `+0x4000`
 * a byte offset in the arena and `=%3+0` a result inside another value's buffer (`+0x4000,=%3+16,-`: three
 * results, the last without a place). `work+0x0:4096` is a workspace of 4096 bytes, `# onednn: why` gives the
 * reason why better kernels declined. */
#include "graph/settings/ddp.h"
#include "graph/settings/flow.h"
#include "graph/settings/minimize.h"
#include "graph/core/kernel.h"
#include "graph/settings/precision.h"
#include "graph/text/read.h"

#include <stdlib.h>

/* A range of a bucket (of=), or the members of a bucket, with offsets where they are not the expected
 * ones. */
static void members_write(text *t, const weft_variable *v) {
    int64_t next = 0;
    if (v->bucket && !v->n_members && v->kind != VARIABLE_PARAMETER) {
        text_add(t, " of=%s", v->bucket->path);
        if (v->offset) text_add(t, "@%jd", v->offset);
    }
    for (int i = 0; i < v->n_members; i++) {
        const weft_variable *p = v->members[i];
        text_add(t, i ? ",%s" : " members=%s", p->path);
        if (p->offset != next) text_add(t, "@%jd", p->offset);
        next = (int64_t)size_align((size_t)(p->offset + type_elements(&p->type)), TEXT_MEMBER_ALIGN);
    }
}

/* "parameter generator/fc/weight f32[6272,64] uniform(-0.125,0.125)", with members or range and `frozen`. */
void variable_write(text *t, const weft_variable *v) {
    text_add(t, "%s %s %s", variable_kind_name(v->kind), v->path, TYPE(&v->type));
    if (variable_has_init(v->kind)) {
        text_add(t, " %s(", init_name(v->init.kind));
        real_write(t, v->init.a);
        text_add(t, ",");
        real_write(t, v->init.b);
        text_add(t, ")");
    }
    members_write(t, v);
    text_add(t, v->is_frozen ? " frozen\n" : "\n");
}

/* Row-major strides are not printed, so a dump without layouts has the same text. */
void value_type_write(text *t, const weft_value *v) {
    int64_t rows[WEFT_MAX_NDIM], last[WEFT_MAX_NDIM];
    text_add(t, "%s", TYPE(&v->type));
    if (!v->has_layout) return;
    stride_row_major(&v->type, rows);
    stride_channels_last(&v->type, last);
    if (stride_same(&v->type, v->stride, rows)) return;
    if (stride_same(&v->type, v->stride, last)) {
        text_add(t, v->type.ndim == 4 ? ":nhwc" : ":ndhwc");
        return;
    }
    for (int i = 0; i < v->type.ndim; i++) text_add(t, i ? ",%jd" : ":s(%jd", v->stride[i]);
    text_add(t, ")");
}

/* "%7", a parameter's path, or "-". */
static void operand_write(text *t, const weft_value *v) {
    if (!v)
        text_add(t, "-");
    else if (v->node->op == &weft_op_parameter)
        text_add(t, "%s", v->variable->path);
    else
        text_add(t, "%%%d", v->id);
}

/* "%7 f32[4] = relu(%3) ...": results, op, operands, attributes; of a node or of a body node. */
static void call_write(text *t, const weft_node *n) {
    for (int k = 0; k < n->n_out; k++) {
        text_add(t, k ? ", %%%d " : "%%%d ", n->out[k].id);
        value_type_write(t, &n->out[k]);
    }
    text_add(t, n->n_out ? " = %s(" : "%s(", n->op->name);
    for (int i = 0; i < n->n_in; i++) {
        if (i) text_add(t, ", ");
        operand_write(t, n->in[i]);
    }
    text_add(t, ")");
    attrs_write(t, n->op, n->attrs);
}

/* Where one result is. */
static void place_write(text *t, const weft_value *v) {
    if (v->base) {
        text_add(t, "=");
        operand_write(t, v->base);
        text_add(t, "+%jd", v->base_offset);
    } else if (v->arena_offset >= 0) {
        text_add(t, "+0x%jx", v->arena_offset);
    } else {
        text_add(t, "-");
    }
}

/* What passes have added: kernel, place in the schedule, places of results, workspace, reasons. */
static void plan_write(text *t, const weft_node *n) {
    bool any = false;
    if (n->kernel) text_add(t, " by %s", n->kernel->name);
    if (n->kernel && n->order >= 0) text_add(t, " @%d", n->order);
    for (int k = 0; k < n->n_out; k++) any |= n->out[k].arena_offset >= 0 || n->out[k].base;
    for (int k = 0; any && k < n->n_out; k++) {
        text_add(t, k ? "," : " ");
        place_write(t, &n->out[k]);
    }
    if (n->workspace_bytes) text_add(t, " work+0x%jx:%zu", n->workspace_offset, n->workspace_bytes);
    if (n->declined) text_add(t, " # %s", n->declined);
}

static void node_write(text *t, const weft_node *n) {
    /* Parameters are named by path in their readers' lines. */
    if (n->op == &weft_op_parameter) return;
    call_write(t, n);
    for (int b = 0; b < n->n_body; b++) {
        text_add(t, b ? "; " : " {");
        call_write(t, n->body[b]);
    }
    if (n->n_body) text_add(t, "}");
    if (*n->scope) text_add(t, " in %s", n->scope);
    if (n->is_backward) text_add(t, " bwd");
    if (n->is_update) text_add(t, " upd");
    plan_write(t, n);
    text_add(t, "\n");
}

/* What a node does, whatever batch and types it has: a minimize says what it trains by which optimizer. */
static void form_write(text *t, const weft_node *n) {
    const minimize_attrs *a = n->attrs;
    text_add(t, "%s", n->op->name);
    for (int i = 0; i < n->n_in; i++) {
        text_add(t, i ? ", " : "(");
        operand_write(t, n->in[i]);
    }
    if (n->op == &weft_op_minimize)
        text_add(t, " %s %s %s", a->pattern ? a->pattern : "", a->type, a->name);
    else
        attrs_write(t, n->op, n->attrs);
    text_add(t, " in %s\n", n->scope);
}

static bool changes_values(const weft_graph *g) {
    bool changes = false;
    for (const weft_node *n = g->first; n; n = n->next)
        changes |= n->op == &weft_op_minimize || n->op == &weft_op_assign;
    return changes;
}

bool model_form(const weft_model *m, uint64_t *fingerprint) {
    text t = {0};
    for (const weft_variable *v = m->variables; v; v = v->next)
        text_add(&t, "%s %s %s%s\n", variable_kind_name(v->kind), v->path, TYPE(&v->type),
                 v->is_frozen ? " frozen" : "");
    for (const weft_graph *g = m->graphs; g; g = g->next) {
        if (!changes_values(g)) continue;
        text_add(&t, "graph %s %s\n", g->name, g->mode == WEFT_TRAIN ? "train" : "eval");
        for (const weft_node *n = g->first; n; n = n->next) form_write(&t, n);
    }
    char *all = text_detach(&t);
    if (all) *fingerprint = hash_text(all, 0);
    free(all);
    return all != NULL;
}

static void body_write(text *t, const weft_graph *g) {
    for (const weft_node *n = g->first; n; n = n->next) node_write(t, n);
    for (const graph_output *o = g->outputs; o; o = o->next) {
        text_add(t, "output %s ", o->name);
        operand_write(t, o->value);
        text_add(t, "\n");
    }
}

void graph_write(text *t, const weft_graph *g) {
    text_add(t, "graph %s %s\n", g->name, g->mode == WEFT_TRAIN ? "train" : "eval");
    body_write(t, g);
}

/* "define signum slot momentum_buffer=0 number momentum=0.9", then its updates. */
void own_optimizers_write(text *t, const weft_model *m) {
    for (const own_optimizer *o = m->own; o; o = o->next) {
        text_add(t, "define %s", o->kind.type);
        for (int i = 0; o->kind.slots[i].name; i++) {
            text_add(t, " slot %s=", o->kind.slots[i].name);
            real_write(t, o->kind.slots[i].initial);
        }
        for (int i = 0; o->kind.fields[i]; i++) {
            text_add(t, " number %s=", o->kind.fields[i]);
            real_write(t, o->kind.defaults[i].value);
        }
        text_add(t, "\n");
        for (const update_record *r = o->records; r; r = r->next) {
            text_add(t, "update %s\n", o->kind.type);
            body_write(t, r->graph);
        }
    }
}

/* ---- bytes of tensors, apart from the lines of their nodes, which people read ---- */

static void data_write(text *t, const attr_bytes *v, bytes_written *done) {
    char *name = arena_printf(&done->arena, "%016jx", v->hash);
    if (name && table_find(&done->by_name, name)) return;
    t->failed |= !name || !table_add(&done->by_name, &done->arena, name, name);
    text_add(t, "data @%s ", name ? name : "");
    bytes_write(t, v);
    text_add(t, "\n");
}

void graph_bytes_write(text *t, const weft_graph *g, bytes_written *done) {
    for (const weft_node *n = g->first; n; n = n->next)
        for (const op_attr *f = n->op->attrs; f && f->name; f++) {
            if (f->kind != ATTR_BYTES) continue;
            const attr_bytes *v = &ATTR_FIELD(const attr_bytes, n->attrs, f);
            if (bytes_are_many(v)) data_write(t, v, done);
        }
}

void header_write(text *t, const weft_model *m) {
    text_add(t, "model %s batch=%jd", m->name, m->batch);
    if (m->needs_world) text_add(t, " world=%d rank=%d", m->world, m->rank);
    text_add(t, "\n");
}

/* Variables come before graphs, so that a reader knows them when nodes name them. */
char *weft_model_text(const weft_model *m) {
    text t = {0};
    bytes_written done = {0};
    if (!m) return NULL;
    arena_init(&done.arena, &m->env);
    header_write(&t, m);
    for (const weft_variable *v = m->variables; v; v = v->next) variable_write(&t, v);
    for (const ddp_entry *e = m->ddps; e; e = e->next) ddp_write(&t, e);
    for (const precision_entry *e = m->precisions; e; e = e->next) precision_write(&t, e);
    if (m->strategy) text_add(&t, "strategy %s\n", m->strategy);
    for (const own_optimizer *o = m->own; o; o = o->next)
        for (const update_record *r = o->records; r; r = r->next) graph_bytes_write(&t, r->graph, &done);
    for (const weft_graph *g = m->graphs; g; g = g->next) graph_bytes_write(&t, g, &done);
    for (const flow_entry *e = m->flows; e; e = e->next) flow_write(&t, e->name, e->n, e->steps);
    own_optimizers_write(&t, m);
    for (const weft_graph *g = m->graphs; g; g = g->next) graph_write(&t, g);
    arena_free(&done.arena);
    return text_detach(&t);
}
