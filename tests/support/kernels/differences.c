/* differences.c - see differences.h. */
#include "support/kernels/differences.h"

#include "ops/kit/op_kit.h"
#include "support/kernels/naive.h"
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

struct differences {
    const weft_graph *g;
    size_t *offset; /* by id: where its elements begin */
    size_t total;
    double *v;
};

/* One evaluation: its own copy of all elements, and which value is held where it was put. Outer ones hold
 * theirs too. */
typedef struct moved {
    const struct moved *outer;
    const weft_value *held; /* NULL: the graph as it is */
    double *v;
} moved;

differences *differences_new(const weft_graph *g) {
    differences *d = test_memory(sizeof *d);
    *d = (differences){.g = g, .offset = test_memory((size_t)g->next_id * sizeof *d->offset)};
    for (const weft_node *n = g->first; n; n = n->next)
        for (int k = 0; k < n->n_out; k++) {
            d->offset[n->out[k].id] = d->total;
            d->total += (size_t)type_elements(&n->out[k].type);
        }
    d->v = test_memory(d->total * sizeof *d->v);
    return d;
}

void differences_free(differences *d) {
    free(d->offset);
    free(d->v);
    free(d);
}

double *differences_at(const differences *d, const weft_value *v) {
    return d->v + d->offset[v->id];
}

static bool run_between(const differences *d, const moved *m, const weft_node *first, const weft_node *last);

/* ---- one gradient ---- */

/* The loss when element i of `target` is what it was plus h. A stop_gradient keeps what it gave before the
 * move. */
static bool loss_at(const differences *d, const moved *m, const weft_node *n, const weft_value *target,
                    int64_t i, double h, double *loss) {
    moved now = {.outer = m, .held = target, .v = test_memory(d->total * sizeof *now.v)};
    memcpy(now.v, m->v, d->total * sizeof *now.v);
    now.v[d->offset[target->id] + (size_t)i] += h;
    bool good = run_between(d, &now, target->node, n->in[0]->node);
    *loss = now.v[d->offset[n->in[0]->id]];
    free(now.v);
    return good;
}

/* Richardson's extrapolation: the error is of order h^4. */
static bool gradients_run(const differences *d, const moved *m, const weft_node *n) {
    const double h = 2e-3;
    for (int k = 0; k < n->n_out; k++)
        for (int64_t i = 0; i < type_elements(&n->out[k].type); i++) {
            double at[4];
            for (int s = 0; s < 4; s++)
                if (!loss_at(d, m, n, n->in[k + 1], i, (double[]){h, -h, 2 * h, -2 * h}[s], &at[s]))
                    return false;
            double near = (at[0] - at[1]) / (2 * h), far = (at[2] - at[3]) / (4 * h);
            m->v[d->offset[n->out[k].id] + (size_t)i] = (4 * near - far) / 3;
        }
    return true;
}

/* ---- nodes ---- */

static bool is_held(const moved *m, const weft_node *n) {
    for (; m; m = m->outer)
        if (m->held && m->held->node == n) return true;
    return false;
}

static bool node_run(const differences *d, const moved *m, const weft_node *n) {
    naive in[OP_MAX_OUT], out[OP_MAX_OUT];
    double constant;
    if (n->op == &weft_op_gradients) return gradients_run(d, m, n);
    for (int i = 0; i < n->n_in; i++) in[i] = (naive){n->in[i]->type, m->v + d->offset[n->in[i]->id]};
    for (int k = 0; k < n->n_out; k++) out[k] = (naive){n->out[k].type, m->v + d->offset[n->out[k].id]};
    if (!constant_value(&n->out[0], &constant) || n->op != &weft_op_constant) return naive_run(n, in, out);
    for (int64_t i = 0; i < type_elements(&out->type); i++) out->v[i] = constant;
    return true;
}

/* What `last` needs, by mark; a `gradients` node needs its loss and targets. */
static bool *needed_by(const differences *d, const weft_node *last) {
    bool *needed = test_memory((size_t)d->g->next_id * sizeof *needed);
    memset(needed, 0, (size_t)d->g->next_id);
    for (int k = 0; k < last->n_out; k++) needed[last->out[k].id] = true;
    for (const weft_node *n = last; n; n = n->prev) {
        bool is_needed = false;
        for (int k = 0; k < n->n_out; k++) is_needed |= needed[n->out[k].id];
        for (int i = 0; is_needed && i < n->n_in; i++) needed[n->in[i]->id] = true;
    }
    return needed;
}

/* Of [first, last] what is needed; nothing when `last` comes before. */
static bool run_between(const differences *d, const moved *m, const weft_node *first, const weft_node *last) {
    bool good = true, *needed = needed_by(d, last);
    for (const weft_node *n = first; good && n && n->id <= last->id; n = n->next) {
        bool is_needed = false;
        for (int k = 0; k < n->n_out; k++) is_needed |= needed[n->out[k].id];
        bool stays = n->op == &weft_op_input || (strcmp(n->op->name, "stop_gradient") == 0 && m->held);
        if (is_needed && !stays && !is_held(m, n)) good = node_run(d, m, n);
    }
    free(needed);
    return good;
}

bool differences_run(differences *d) {
    moved m = {.v = d->v};
    bool good = true;
    for (const weft_node *n = d->g->first; good && n; n = n->next)
        if (n->op != &weft_op_input && n->n_out) good = node_run(d, &m, n);
    return good;
}
