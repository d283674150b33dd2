/* tip.c - see tip.h. Each part is on a line of its own. */
#include "tools/graphtool/diagram/tip.h"

#include "graph/core/kernel.h"
#include "tools/graphtool/common/tools.h"

void tip_value(text *t, const weft_value *v) {
    text_add(t, "\n%%%d %s, %s", v->id, TYPE(&v->type), bytes_show(type_bytes(&v->type)).text);
}

void tip_node(text *t, const weft_node *n, int count) {
    text_add(t, "%s", n->op->name);
    if (*n->scope) text_add(t, " in %s", n->scope);
    if (n->variable && n->op->flags & OP_VARIABLE) text_add(t, " of %s", n->variable->path);
    if (count > 1) text_add(t, ", the first of %d", count);
    for (int k = 0; k < n->n_out; k++) tip_value(t, &n->out[k]);
    if (n->kernel) text_add(t, "\nkernel: %s", n->kernel->name);
}
