/* replay.c - repeats a graph's builder calls in another model, at that model's batch size. Shapes are
 * inferred again, so a reshape that fixed the old batch size fails here with its own message. The source
 * model is only read, so that several threads may compile from it. */
#include "graph/core/graph.h"

#include <string.h>

bool node_replay(const weft_node *n, weft_graph *g, weft_value **map) {
    arena *a = &g->model->arena;
    weft_value **in = arena_new_array(a, n->n_in, sizeof *in);
    const char *scope = scope_intern(g->model, n->scope);
    if (!in || !scope) return graph_fail(g, WEFT_MEMORY, "replay: out of memory");
    if (n->op->flags & OP_COMPILER) /* a dump of a plan was read back, which cannot be compiled again */
        return graph_fail(g, WEFT_ARGUMENT, "%s: only the compiler makes these", n->op->name);
    for (const op_attr *f = n->op->attrs; f && f->name; f++)
        if (f->by_passes && attr_is_set(f, n->attrs))
            return graph_fail(g, WEFT_ARGUMENT, "%s: only the compiler sets its %s", n->op->name, f->name);
    for (int i = 0; i < n->n_in; i++) in[i] = n->in[i] ? map[n->in[i]->id] : NULL;
    build_place at;
    build_begin(&at, g, scope, NULL);
    g->model->file = n->file;
    g->model->line = n->line;
    weft_node *copy = node_new(g, n->op, n->n_in, in, n->attrs);
    build_end(&at);
    if (!copy) return false;
    for (int k = 0; k < n->n_out; k++) map[n->out[k].id] = node_result(copy, k);
    return true;
}

bool model_awaits_batch(const weft_model *m) {
    return !m->is_bound && m->batch == 1 && m->names_batch;
}

bool model_is_as_built(const weft_model *m) {
    /* Other kinds of variables are made by the compiler. */
    for (const weft_variable *v = m->variables; v; v = v->next)
        if (!variable_is_named(v->kind)) return false;
    for (const weft_graph *g = m->graphs; g; g = g->next)
        for (const weft_node *n = g->first; n; n = n->next)
            if (n->is_backward || n->is_update || n->n_body || n->kernel) return false;
    return true;
}

/* Adds to the error of a call that fits at the batch and the one rank of building, and not at these, how a
 * program writes lengths that follow them. */
static void *batch_misfit(const weft_model *from, weft_model *model) {
    char what[sizeof model->error.text];
    if (model->error.status != WEFT_SHAPE) return NULL;
    memcpy(what, model->error.text, sizeof what);
    if (model->needs_world)
        error_set(
            &model->error, WEFT_SHAPE,
            "%s; it fits the batch of %jd and the one rank that the model was built with, but not %jd and "
            "%d: in shapes write -1 or WEFT_BATCH for what follows the batch or a gather makes longer; the "
            "places of a rank's rows are weft_rank_rows",
            what, from->batch, model->batch, model->world);
    else if (model->batch != from->batch)
        error_set(
            &model->error, WEFT_SHAPE,
            "%s; it fits the batch of %jd that the model was built with, but not %jd: in shapes write -1 "
            "or WEFT_BATCH for what follows the batch, not a number from weft_dim",
            what, from->batch, model->batch);
    return NULL;
}

bool graph_replay_into(const weft_graph *from, weft_graph *g) {
    weft_value **map = arena_new_array(&g->model->arena, from->next_id, sizeof *map);
    if (!map) return graph_fail(g, WEFT_MEMORY, "replay: out of memory");
    for (const weft_node *n = from->first; n; n = n->next)
        if (!node_replay(n, g, map)) return false;
    for (const graph_output *o = from->outputs; o; o = o->next) weft_output(map[o->value->id], o->name);
    return model_ok(g->model);
}

weft_graph *graph_replay(const weft_graph *from, weft_model *model, const char *name) {
    weft_graph *g = weft_graph_new(model, name, from->mode);
    if (!g || graph_replay_into(from, g)) return g;
    return batch_misfit(from->model, model);
}
