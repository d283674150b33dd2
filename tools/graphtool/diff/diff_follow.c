/* diff_follow.c - which changes of shapes follow from others. A weight [out, in] follows where its readers'
 * other operands have changed by the same factors: then the layer is made for what it gets. */
#include "tools/graphtool/diff/diff.h"

#include "tools/graphtool/output/end.h"

/* Lengths are below 2^47, so that products of two are not exact; the factor of two lengths is. */
static bool is_factor(const diff_ratios *r, int64_t from, int64_t to) {
    for (int i = 0; i < r->n; i++)
        if ((double)from / (double)to == (double)r->v[i].from / (double)r->v[i].to) return true;
    return false;
}

void diff_note_axes(diff_ratios *r, const tensor_type *a, const tensor_type *b) {
    for (int i = 0; i < a->ndim && a->ndim == b->ndim; i++) {
        int64_t from = a->shape[i], to = b->shape[i];
        if (from != to && from && to && r->n < DIFF_RATIOS && !is_factor(r, from, to))
            r->v[r->n++] = (diff_ratio){from, to};
    }
}

bool diff_explains(const diff_ratios *r, const tensor_type *a, const tensor_type *b) {
    if (a->ndim != b->ndim || a->dtype != b->dtype) return false;
    for (int i = 0; i < a->ndim; i++)
        if (a->shape[i] != b->shape[i] && !is_factor(r, a->shape[i], b->shape[i])) return false;
    return true;
}

bool diff_explains_numbers(const diff_ratios *r, const attr_ints *a, const attr_ints *b) {
    if (a->n != b->n) return false;
    for (int i = 0; i < a->n; i++)
        if (a->v[i] != b->v[i] && !is_factor(r, a->v[i], b->v[i])) return false;
    return true;
}

diff_ratios diff_batches(const diff_graph *g) {
    int64_t from = g->p[0] ? g->p[0]->plan->options.batch : g->g[0]->model->batch;
    int64_t to = g->p[1] ? g->p[1]->plan->options.batch : g->g[1]->model->batch;
    diff_ratios r = {0};
    if (from != to && from > 0 && to > 0) r.v[r.n++] = (diff_ratio){from, to};
    return r;
}

/* Marks the variables that two readers read as the same one, where their other operands explain it. */
static void mark_explained(const diff_graph *g, const weft_node *a, const weft_node *b,
                           const weft_variable *const *pair, unsigned char *marks) {
    diff_ratios r = diff_batches(g);
    int n = a->n_in < b->n_in ? a->n_in : b->n_in;
    for (int i = 0; i < n; i++)
        if (a->in[i] && b->in[i] && !a->in[i]->node->variable && !b->in[i]->node->variable)
            diff_note_axes(&r, &a->in[i]->type, &b->in[i]->type);
    for (int i = 0; i < n; i++) {
        if (!a->in[i] || !b->in[i] || !a->in[i]->node->variable) continue;
        if (pair[a->in[i]->node->variable->index] != b->in[i]->node->variable) continue;
        unsigned char *mark = &marks[a->in[i]->node->variable->index];
        if (diff_explains(&r, &a->in[i]->type, &b->in[i]->type)) *mark |= DIFF_SHAPE_FOLLOWS;
        if (r.n) *mark |= DIFF_READ_WITH_OTHERS;
    }
}

unsigned char *diff_explained(const difference *d, const weft_model *first,
                              const weft_variable *const *pair) {
    unsigned char *marks = tool_new((size_t)first->n_variables + 1, sizeof *marks);
    for (int k = 0; k < d->n_graphs; k++) {
        const diff_graph *g = &d->graphs[k];
        for (int i = 0; g->pair && i < g->pair->side[0].n; i++) {
            int other = g->pair->side[0].other[i];
            if (other >= 0)
                mark_explained(g, g->pair->side[0].nodes[i], g->pair->side[1].nodes[other], pair, marks);
        }
    }
    return marks;
}
