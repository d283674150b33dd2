/* uses.c - what makes and reads each name of a graph, before its nodes are built: import.h. */
#include "interchange/onnx/import/import.h"

onnx_use *onnx_use_of(onnx_uses *u, const char *name) {
    onnx_use *found = onnx_table_find(&u->table, name);
    if (found) return found;
    onnx_use *made = kit_take(u->arena, 1, sizeof *made);
    if (!made) return NULL;
    made->maker = -1;
    return onnx_table_add(&u->table, u->arena, name, made) ? made : NULL;
}

static bool read_node(onnx_uses *u, const onnx_node *n, int index) {
    for (int i = 0; i < n->n_in; i++) {
        onnx_use *use = onnx_use_of(u, n->in[i]);
        if (!use) return false;
        use->uses++;
    }
    for (int i = 0; i < n->n_out; i++) {
        onnx_use *use = onnx_use_of(u, n->out[i]);
        if (!use) return false;
        use->maker = index;
    }
    for (int i = 0; i < n->n_attributes; i++) u->has_bodies |= n->attributes[i].graph.end > 0;
    return true;
}

bool onnx_uses_of(onnx_uses *u, kit_arena *arena, const onnx_graph *g) {
    *u = (onnx_uses){.arena = arena};
    for (int i = 0; i < g->n_nodes; i++)
        if (!read_node(u, &g->nodes[i], i)) return false;
    for (int i = 0; i < g->n_initializers; i++) {
        onnx_use *use = onnx_use_of(u, g->initializers[i].name);
        if (!use) return false;
        use->initializer = &g->initializers[i];
    }
    for (int i = 0; i < g->n_outputs; i++) {
        onnx_use *use = onnx_use_of(u, g->outputs[i].name);
        if (!use) return false;
        use->uses++;
        use->is_output = true;
    }
    return true;
}

void onnx_leave_out_unread(onnx_uses *u, onnx_graph *g) {
    for (int i = 0; i < g->n_nodes && !u->has_bodies; i++)
        for (int j = 1; j < g->nodes[i].n_out; j++) {
            const onnx_use *use = onnx_use_of(u, g->nodes[i].out[j]);
            if (use && !use->uses) g->nodes[i].out[j] = "";
        }
}
