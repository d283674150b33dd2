/* walk.c - walks over all that a value is computed from. */
#include "runtime/verify/verify.h"

bool verify_walk_open(verify_walk *w, verify_index *x) {
    *w = (verify_walk){.seen = verify_array(x, x->n_ids, sizeof *w->seen),
                       .stack = verify_array(x, x->n_ids, sizeof *w->stack)};
    return w->seen && w->stack;
}

/* Asks v, and puts its node on the stack when it was not there before. */
static const char *visit(verify_walk *w, const weft_value *v, verify_why_not why_not, void *of) {
    bool goes_on = false;
    const char *why = why_not(of, v, &goes_on);
    if (why || !goes_on || w->seen[v->node->id] == w->number) return why;
    w->seen[v->node->id] = w->number;
    w->stack[w->depth++] = v->node;
    return NULL;
}

const char *verify_walk_back(verify_walk *w, const weft_value *v, verify_why_not why_not, void *of) {
    w->number++;
    w->depth = 0;
    const char *why = visit(w, v, why_not, of);
    while (!why && w->depth) {
        const weft_node *n = w->stack[--w->depth];
        for (int i = 0; i < n->n_in && !why; i++)
            if (n->in[i]) why = visit(w, n->in[i], why_not, of);
    }
    return why;
}
