/* product.c - see product.h. Strides are in elements; values without a layout yet count as row-major. */
#include "ops/linalg/product.h"

#include "ops/linalg/epilogue.h"

#include <string.h>

static void value_strides(const weft_value *v, int64_t stride[WEFT_MAX_NDIM]) {
    if (v->has_layout)
        memcpy(stride, v->stride, sizeof v->stride);
    else
        stride_row_major(&v->type, stride);
}

/* Strides of axes with length 1 have no meaning; gives them the values that a contiguous matrix would
 * have. */
static void tidy(matrices *m) {
    if (m->columns == 1) m->column_stride = 1;
    if (m->rows == 1) m->row_stride = m->column_stride == 1 ? m->columns : 1;
}

/* Reads the last two axes as rows and columns and aligns the others at the last of `n_batch` batch axes;
 * broadcast axes get length 1 and stride 0. */
static void load(const weft_value *v, bool transposed, int n_batch, matrices *m) {
    int64_t stride[WEFT_MAX_NDIM];
    value_strides(v, stride);
    int last = v->type.ndim - 1, row = transposed ? last : last - 1, column = transposed ? last - 1 : last;
    *m = (matrices){.rows = v->type.shape[row],
                    .columns = v->type.shape[column],
                    .row_stride = stride[row],
                    .column_stride = stride[column]};
    for (int i = 0; i < n_batch; i++) {
        int from = i - (n_batch - (last - 1));
        bool repeats = from < 0 || v->type.shape[from] == 1 || stride[from] == 0;
        m->batch[i] = repeats ? 1 : v->type.shape[from];
        m->batch_stride[i] = repeats ? 0 : stride[from];
    }
    tidy(m);
}

/* Whether batch axes i and i + 1 of m can become one: regular strides, or both broadcast. */
static bool is_even(const matrices *m, int i, int64_t inner) {
    if (m->batch[i] == 1 && m->batch[i + 1] == 1) return true;
    return m->batch[i] > 1 && m->batch[i + 1] == inner &&
           m->batch_stride[i] == inner * m->batch_stride[i + 1];
}

/* Removes batch axis i, whose matrices axis i + 1 covers if `merge`; otherwise it has length 1. */
static void drop_axis(matrices *m, int i, int n_batch, bool merge) {
    if (merge) m->batch[i + 1] *= m->batch[i];
    for (int k = i; k + 1 < n_batch; k++) {
        m->batch[k] = m->batch[k + 1];
        m->batch_stride[k] = m->batch_stride[k + 1];
    }
}

/* Merges from the last axis to the first where all three operands allow it. */
static void merge_batches(product *p) {
    for (int i = p->n_batch - 1; i >= 0; i--) {
        bool nothing = p->out.batch[i] == 1, more = i + 1 < p->n_batch;
        int64_t inner = more ? p->out.batch[i + 1] : 0;
        bool even =
            more && is_even(&p->a, i, inner) && is_even(&p->b, i, inner) && is_even(&p->out, i, inner);
        if (!nothing && !even) continue;
        drop_axis(&p->a, i, p->n_batch, !nothing);
        drop_axis(&p->b, i, p->n_batch, !nothing);
        drop_axis(&p->out, i, p->n_batch, !nothing);
        p->n_batch--;
    }
}

/* A single batch axis that b does not have becomes more rows of a, if they are contiguous. */
static void batch_to_rows(product *p) {
    matrices *a = &p->a;
    if (p->n_batch != 1 || p->b.batch[0] != 1 || a->batch[0] == 1) return;
    if (a->batch_stride[0] != a->rows * a->row_stride && a->rows != 1) return;
    if (a->rows == 1) a->row_stride = a->batch_stride[0];
    a->rows *= a->batch[0];
    p->out.rows = a->rows;
    p->out.row_stride = p->out.columns;
    p->n_batch = 0;
}

/* Linear layers read a contiguous x as one matrix; matmul operands may be views with any strides. */
product product_of(const weft_node *n) {
    product p = {0};
    const weft_value *x = n->in[0], *w = n->in[1], *y = &n->out[0];
    if (n->op == &weft_op_linear || n->op == &weft_op_linear_act) {
        int64_t in = w->type.shape[1], out = w->type.shape[0], rows = type_elements(&x->type) / in;
        p.a = (matrices){.rows = rows, .columns = in, .row_stride = in, .column_stride = 1};
        p.b = (matrices){.rows = in, .columns = out, .row_stride = 1, .column_stride = in};
        p.out = (matrices){.rows = rows, .columns = out, .row_stride = out, .column_stride = 1};
        p.bias = n->n_in == 3 && n->in[2] ? out : 0;
        tidy(&p.b);
        return p;
    }
    static const matmul_attrs weight_gradient = {.transpose_a = true};
    const matmul_attrs *t = n->op == &weft_op_linear_weight ? &weight_gradient : n->attrs;
    p.n_batch = y->type.ndim - 2;
    load(x, t->transpose_a, p.n_batch, &p.a);
    load(w, t->transpose_b, p.n_batch, &p.b);
    load(y, false, p.n_batch, &p.out);
    merge_batches(&p);
    batch_to_rows(&p);
    return p;
}

bool matrices_are_plain(const matrices *m) {
    return (m->column_stride == 1 && m->row_stride >= m->columns) ||
           (m->row_stride == 1 && m->column_stride >= m->rows);
}

/* For copies: what the operand's strides are when it is contiguous. */
int64_t matrices_make_dense(matrices *m, int n_batch) {
    int64_t count = m->rows * m->columns;
    m->row_stride = m->columns;
    m->column_stride = 1;
    for (int i = n_batch - 1; i >= 0; i--) {
        m->batch_stride[i] = count;
        count *= m->batch[i];
    }
    return count;
}

int64_t matrices_count(const matrices *m, int n_batch) {
    int64_t count = 1;
    for (int i = 0; i < n_batch; i++) count *= m->batch[i];
    return count;
}
