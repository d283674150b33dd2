/* twin.c - which lengths follow the batch, or the number of ranks.
 *
 * While a model is built these are numbers like all others, and a builder that must write a shape (a reshape)
 * cannot tell them apart: a batch of 1 looks like any axis of 1. So it asks for the same value at another
 * batch: the twin of a graph repeats its calls at MORE_BATCH times the batch and RANKS ranks. Lengths that
 * differ there follow one of them. A call that fits only the numbers it was built with has no twin, and
 * nothing that reads it has: compiling at another batch reports that call.
 *
 * Twins are made when a builder first asks, up to the calls so far, and belong to a model of their own. */
#include "graph/core/graph.h"

/* Multiples of the batch, so that what divides the batch divides that of the twin; no number of ranks is a
 * number of batches, so that neither is taken for the other. */
enum { MORE_BATCH = 15, RANKS = 5 };

static bool follows_nothing(const weft_model *m) {
    return m->is_bound || !(m->names_batch || m->names_ranks);
}

static weft_model *twin_model(weft_model *m) {
    if (m->twin) return m->twin;
    if (!(m->twin = model_new(m->name, &m->env, m->catalog))) return NULL;
    m->twin->batch = m->batch * MORE_BATCH;
    m->twin->world = RANKS;
    m->twin->is_bound = m->twin->is_twin = true;
    return m->twin;
}

/* Makes room for the values of `from` so far. */
static bool grow(weft_graph *from) {
    weft_value **more;
    int room = from->twin_room ? from->twin_room : 64;
    if (from->next_id <= from->twin_room) return true;
    while (room < from->next_id) room *= 2;
    more = arena_new_array(&from->model->twin->arena, (size_t)room, sizeof *more);
    for (int i = 0; more && i < from->twin_room; i++) more[i] = from->twin_values[i];
    from->twin_values = more ? more : from->twin_values;
    from->twin_room = more ? room : from->twin_room;
    return more;
}

/* A call whose operands have twins. What it cannot repeat has none. */
static void repeat(const weft_node *n, weft_graph *from) {
    const weft_variable *v = n->variable;
    weft_model *twin = from->model->twin;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && !from->twin_values[n->in[i]->id]) return;
    if (v && !variable_find(twin, v->path)) variable_new(twin, v->path, v->kind, &v->type, v->init);
    node_replay(n, from->twin, from->twin_values);
    if (twin->error.status != WEFT_MEMORY) twin->error = (weft_error){0};
}

static bool catch_up(weft_graph *g) {
    weft_model *twin = twin_model(g->model);
    if (!twin) return false;
    if (!g->twin) g->twin = graph_apart(twin, g->name, g->mode);
    if (!g->twin || !grow(g)) return false;
    for (weft_node *n = g->twin_last ? g->twin_last->next : g->first; n; n = n->next) {
        repeat(n, g);
        g->twin_last = n;
    }
    return twin->error.status == WEFT_OK;
}

const tensor_type *value_twin(const weft_value *x) {
    weft_graph *g = x->node->graph;
    if (follows_nothing(g->model) || !model_ok(g->model)) return NULL;
    if (!catch_up(g)) return model_fail(g->model, g, WEFT_MEMORY, "a shape at another batch: out of memory");
    return g->twin_values[x->id] ? &g->twin_values[x->id]->type : NULL;
}

bool weft_dim_batch(const weft_value *x, int axis, int64_t *per_batch, int64_t *rest) {
    if (!x || axis < -x->type.ndim || axis >= x->type.ndim) return false;
    const weft_model *m = x->node->graph->model;
    int at = axis < 0 ? axis + x->type.ndim : axis;
    int64_t length = x->type.shape[at], more = m->batch * (MORE_BATCH - 1);
    const tensor_type *twin = value_twin(x);
    if (!twin && !follows_nothing(m)) return false;
    int64_t grows = twin ? twin->shape[at] - length : 0;
    *per_batch = grows / more;
    *rest = length - *per_batch * m->batch;
    return grows % more == 0;
}
