/* clone.c - a model without graphs that has the variables of another one, and all that it says. */
#include "graph/settings/clone.h"

#include "graph/settings/ddp.h"
#include "graph/settings/flow.h"
#include "graph/settings/minimize.h"
#include "graph/settings/precision.h"

weft_model *model_clone_variables(const weft_model *from, int64_t batch, int world, int rank) {
    weft_model *m = model_new(from->name, &from->env, from->catalog);
    if (!m) return NULL;
    m->batch = batch;
    m->is_bound = true;
    m->world = world;
    m->rank = rank;
    for (const weft_variable *v = from->variables; v; v = v->next) {
        weft_variable *copy = variable_new(m, v->path, v->kind, &v->type, v->init);
        if (!copy) continue;
        copy->is_frozen = v->is_frozen;
        copy->kinds = v->kinds;
    }
    /* Options name scopes, so they are set after the variables are there. */
    for (const ddp_entry *e = from->ddps; e; e = e->next) ddp_set(m, e->path, &e->attrs);
    for (const precision_entry *e = from->precisions; e; e = e->next) precision_set(m, e->path, e->dtype);
    for (const flow_entry *e = from->flows; e; e = e->next) flow_set(m, e->name, e->n, e->steps);
    own_optimizers_copy(from, m); /* an error stays in the model */
    return m;
}
