/* mutants_layouts.c - mutants of strides and views; see mutants.h. */
#include "support/mutants/mutants.h"

#include "graph/core/kernel.h"
#include "ops/image/pack.h"
#include "ops/kit/ops.h"
#include "runtime/plan/value.h"

#include <string.h>

/* ---- kinds ---- */

static bool is_view(const weft_node *n) {
    return n->op->flags & OP_VIEW && n->out[0].base == n->in[0];
}

static bool is_reorder(const weft_node *n) {
    return n->op == &weft_op_reorder && n->kernel;
}

static bool is_pointwise(const weft_node *n) {
    return n->kernel && (n->op->flags & OP_POINTWISE || n->op == &weft_op_fused);
}

static bool is_in_place(const weft_node *n) {
    return is_pointwise(n) && n->out[0].base && n->out[0].base->node->op != &weft_op_bucket;
}

/* Two axes that are longer than 1; false: there are none. */
static bool two_axes(const weft_value *v, int *a, int *b) {
    *a = *b = -1;
    for (int i = 0; i < v->type.ndim; i++) {
        if (v->type.shape[i] < 2) continue;
        *a = *b;
        *b = i;
    }
    return *a >= 0;
}

/* The same bytes, the first axis innermost. */
static bool lay_reversed(weft_value *v) {
    int a, b;
    int64_t step = 1;
    if (!v || !two_axes(v, &a, &b)) return false;
    for (int i = 0; i < v->type.ndim; i++) {
        v->stride[i] = step;
        step *= v->type.shape[i];
    }
    return true;
}

/* An operand of a node that fits, with two axes; NULL: none. */
static weft_value *operand_of(const victim *v, is_kind fits) {
    weft_node *n = mutant_pick(v, fits);
    int a, b;
    for (int i = 0; n && i < n->n_in; i++)
        if (n->in[i] && !n->in[i]->variable && two_axes(n->in[i], &a, &b)) return n->in[i];
    return NULL;
}

/* ---- what kernels are handed ---- */

static bool turned_gradient(const victim *v) {
    return lay_reversed(operand_of(v, is_bucket));
}

static bool repeated_gradient(const victim *v) {
    weft_value *g = operand_of(v, is_bucket);
    if (!g) return false;
    for (int i = 0; i < g->type.ndim; i++) g->stride[i] = 0;
    return true;
}

static bool gap_in_gradient(const victim *v) {
    weft_node *n = mutant_pick(v, is_bucket);
    for (int i = 0; n && i < n->n_in; i++) {
        if (n->in[i]->variable || n->in[i]->type.shape[0] < 2) continue;
        n->in[i]->stride[0]++;
        return true;
    }
    return false;
}

static bool reads_rows(const weft_node *n, const weft_value *v) {
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] == v && kernel_input_layout(n->kernel, n, i) != LIES_ANYHOW) return true;
    return false;
}

/* Its reader gets what it was made from. */
static bool dropped_reorder(const victim *v) {
    weft_node *r = mutant_pick(v, is_reorder);
    for (weft_node *n = r ? r->next : NULL; n; n = n->next)
        for (int i = 0; reads_rows(n, &r->out[0]) && i < n->n_in; i++)
            if (n->in[i] == &r->out[0]) {
                n->in[i] = r->in[0];
                return true;
            }
    return false;
}

static bool is_strict(const weft_node *n) {
    return n->kernel && n->n_in && n->in[0] && type_is_image(&n->in[0]->type) && !n->in[0]->variable &&
           kernel_input_layout(n->kernel, n, 0) != LIES_ANYHOW;
}

/* Channels-last where rows are due, or the other way. */
static bool other_image(const victim *v) {
    weft_node *n = mutant_pick(v, is_strict);
    int64_t rows[WEFT_MAX_NDIM], image[WEFT_MAX_NDIM];
    if (!n) return false;
    weft_value *x = n->in[0];
    stride_row_major(&x->type, rows);
    stride_channels_last(&x->type, image);
    if (stride_same(&x->type, rows, image)) return false;
    memcpy(x->stride, lies_row_major(x) ? image : rows, sizeof x->stride);
    return true;
}

static bool made_otherwise(const victim *v) {
    weft_node *n = mutant_pick(v, is_busy);
    return n && n->kernel && n->n_out && !is_pointwise(n) && !is_reorder(n) && lay_reversed(&n->out[0]);
}

/* ---- views ---- */

static bool view_elsewhere(const victim *v) {
    weft_node *n = mutant_pick(v, is_view);
    if (!n) return false;
    n->out[0].base_offset += 1 + (int64_t)(random_bits(v->r) % 3);
    return true;
}

static bool view_by_other_steps(const victim *v) {
    weft_node *n = mutant_pick(v, is_view);
    weft_value *y = n ? &n->out[0] : NULL;
    for (int i = 0; y && i < y->type.ndim; i++) {
        if (y->type.shape[i] < 2) continue;
        y->stride[i] = y->stride[i] ? 0 : 1; /* repeated or not */
        return true;
    }
    return false;
}

static bool is_turned(const weft_node *n) {
    return is_view(n) && n->op == &weft_op_permute;
}

/* A permutation whose result is read as if nothing were permuted. */
static bool view_not_permuted(const victim *v) {
    weft_node *n = mutant_pick(v, is_turned);
    int64_t rows[WEFT_MAX_NDIM];
    if (!n) return false;
    stride_row_major(&n->out[0].type, rows);
    if (stride_same(&n->out[0].type, n->out[0].stride, rows)) return false;
    memcpy(n->out[0].stride, rows, sizeof rows);
    return true;
}

/* ---- places and outputs ---- */

static bool in_place_otherwise(const victim *v) {
    weft_node *n = mutant_pick(v, is_in_place);
    return n && n->n_out == 1 && type_is_image(&n->out[0].type) && lay_reversed(&n->out[0]);
}

static bool output_as_it_lies(const victim *v) {
    for (graph_output *o = v->g->outputs; o; o = o->next) {
        if (o->value->node->op != &weft_op_reorder || !is_reorder(o->value->node)) continue;
        o->value = o->value->node->in[0];
        return true;
    }
    return false;
}

/* ---- packed operands ---- */

static bool packs(const weft_node *n) {
    return n->op == &weft_op_pack;
}

static bool packed_for_another(const victim *v) {
    weft_node *n = mutant_pick(v, packs);
    if (!n) return false;
    ((pack_attrs *)n->attrs)->operand = 0;
    return true;
}

static bool reads_packed(const weft_node *n) {
    return n->kernel && n->kernel->packed_bytes && n->n_in > 1 && n->in[1] && packs(n->in[1]->node);
}

static bool packed_for_a_kernel_without(const victim *v) {
    weft_node *n = mutant_pick(v, reads_packed), *other = mutant_pick(v, is_pointwise);
    if (!n || !other) return false;
    n->kernel = other->kernel;
    return true;
}

/* Gives a reader another pack of as many bytes, for a node that is alike or not. */
static bool read_another(const victim *v, bool alike) {
    weft_node *n = mutant_pick(v, reads_packed);
    const pack_attrs *mine = n ? n->in[1]->node->attrs : NULL;
    for (weft_node *m = v->g->first; n && m != n; m = m->next) {
        const pack_attrs *a = m->attrs;
        if (!packs(m) || m == n->in[1]->node || a->bytes != mine->bytes) continue;
        if ((strcmp(a->of, mine->of) == 0) != alike) continue;
        n->in[1] = &m->out[0];
        return true;
    }
    return false;
}

static bool packed_for_another_shape(const victim *v) {
    return read_another(v, false);
}

static bool packed_of_another_like_it(const victim *v) {
    return read_another(v, true);
}

static bool packs_another_parameter(const victim *v) {
    weft_node *n = mutant_pick(v, packs);
    for (weft_node *m = v->g->first; n && m != n; m = m->next) {
        if (!m->variable || !m->n_out || m == n->in[0]->node || !type_equal(&m->out[0].type, &n->in[0]->type))
            continue;
        n->in[0] = &m->out[0];
        return true;
    }
    return false;
}

static bool packs_a_computed_value(const victim *v) {
    weft_node *n = mutant_pick(v, packs);
    for (weft_node *m = n ? n->prev : NULL; m; m = m->prev) {
        if (m->variable || !m->n_out || !shape_equal(&m->out[0].type, &n->in[0]->type)) continue;
        n->in[0] = &m->out[0];
        return true;
    }
    return false;
}

static bool named_for_another(const victim *v) {
    weft_node *n = mutant_pick(v, packs), *m = mutant_pick(v, packs);
    if (!n || strcmp(((pack_attrs *)n->attrs)->of, ((pack_attrs *)m->attrs)->of) == 0) return false;
    ((pack_attrs *)n->attrs)->of = ((pack_attrs *)m->attrs)->of;
    return true;
}

static bool named_for_another_batch(const victim *v) {
    weft_node *n = mutant_pick(v, packs);
    char *of = n ? arena_copy(&v->g->model->arena, ((pack_attrs *)n->attrs)->of) : NULL, *batch;
    if (!of || !(batch = strstr(of, "f32[2,"))) return false;
    batch[4] = '4';
    ((pack_attrs *)n->attrs)->of = of;
    return true;
}

static weft_value *packed_before(const weft_node *n) {
    weft_node *m = n ? n->prev : NULL;
    while (m && !packs(m)) m = m->prev;
    return m ? &m->out[0] : NULL;
}

static bool packed_is_viewed(const victim *v) {
    weft_node *n = mutant_pick(v, is_view);
    weft_value *packed = packed_before(n);
    if (!packed) return false;
    n->in[0] = n->out[0].base = packed;
    return true;
}

static bool packed_is_computed_with(const victim *v) {
    weft_node *n = mutant_pick(v, is_pointwise);
    weft_value *packed = packed_before(n);
    if (!packed || !n->n_in) return false;
    n->in[0] = packed;
    return true;
}

static bool packed_is_sent(const victim *v) {
    weft_node *n = mutant_pick(v, node_starts_collective);
    weft_value *packed = packed_before(n);
    if (!packed) return false;
    n->in[0] = packed;
    return true;
}

static bool packed_is_fetched(const victim *v) {
    weft_value *packed = packed_before(v->g->last);
    if (!packed || !v->g->outputs) return false;
    v->g->outputs->value = packed;
    return true;
}

/* Marks all that reads what n makes, and n; false: the node `apart` is among them. */
static bool mark_dependents(const victim *v, const weft_node *n, const weft_node *apart) {
    for (weft_node *m = v->g->first; m; m = m->next) {
        m->mark = m == n;
        for (int i = 0; i < m->n_in; i++)
            if (m->in[i] && m->in[i]->node->mark && m->in[i]->node->order < m->order) m->mark = 1;
    }
    return !apart->mark;
}

/* A weight is packed, and read, when its update is over. */
static bool packs_after_update(const victim *v) {
    weft_node *n = mutant_pick(v, packs), *update = NULL;
    const weft_variable *from = n ? value_root(n->in[0])->variable : NULL;
    for (weft_node *m = n ? n->next : NULL; m; m = m->next)
        if (is_update(m) && mutant_bucket(m) == from->bucket) update = m;
    if (!update || !mark_dependents(v, n, update)) return false;
    for (weft_node *m = update, *before; m; m = before) {
        before = m->prev;
        if (m->mark) node_move_after(m, update);
    }
    mutant_renumber(v->g);
    return true;
}

/* Another program keeps its packed weight where this one keeps another's. */
static bool derived_in_one_place(const victim *v) {
    weft_node *n = mutant_pick(v, packs), *m = v->plan->programs[v->plan->n_programs - 1].graph->first;
    while (n && m && !packs(m)) m = m->next;
    if (!n || !m || m->out[0].variable == n->out[0].variable || !m->out[0].variable || !n->out[0].variable ||
        !type_equal(&n->out[0].type, &m->out[0].type))
        return false;
    m->out[0].variable = n->out[0].variable;
    return true;
}

const mutant mutants_of_layouts[] = {
    {"the axes of a gradient are in another order", turned_gradient, "K1 K2 K3 K4"},
    {"a gradient's elements repeat", repeated_gradient, "K1 K2 K3 K4"},
    {"a gradient has gaps", gap_in_gradient, "K1 K2 K3 K4"},
    {"a reorder is left out", dropped_reorder, "K1 K3"},
    {"an image lies the other way", other_image, "K1 K2 K3 K4"},
    {"a result lies as its kernel does not write", made_otherwise, "K2"},
    {"a view begins elsewhere", view_elsewhere, "K3"},
    {"a view goes by other steps", view_by_other_steps, "K3"},
    {"a permuted view is read in order", view_not_permuted, "K3"},
    {"a result in place has other strides", in_place_otherwise, "K4 K2"},
    {"an output is fetched as it lies", output_as_it_lies, "K5"},
    {"bytes are packed for another operand", packed_for_another, "K6"},
    {"packed bytes are read by a kernel that packs nothing", packed_for_a_kernel_without, "K1 K6"},
    {"packed bytes are those for a node of other shapes", packed_for_another_shape, "K6"},
    {"packed bytes are of another parameter, for a node like it", packed_of_another_like_it, "K6"},
    {"another parameter of that shape is packed", packs_another_parameter, "K6"},
    {"a computed value of that shape is packed", packs_a_computed_value, "K1 K6"},
    {"bytes are packed for the shapes of another reader", named_for_another, "K6"},
    {"bytes are packed for another batch", named_for_another_batch, "K6"},
    {"packed bytes are viewed", packed_is_viewed, "K6"},
    {"packed bytes are computed with", packed_is_computed_with, "K6"},
    {"packed bytes are sent to other ranks", packed_is_sent, "K6"},
    {"packed bytes are fetched", packed_is_fetched, "K6"},
    {"a weight is packed after its update", packs_after_update, "V2 V4"},
    {"two programs derive two things in one place", derived_in_one_place, "K7"},
    {0}};
