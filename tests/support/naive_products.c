/* naive_products.c - products and convolutions of naive.h, from their sums. */
#include "ops/image/conv2d.h"
#include "ops/linalg/matmul.h"
#include "support/naive.h"

#include <string.h>

/* Element (row, column) of the matrix of `x` that serves place `at` of the result. */
static double matrix_get(const naive *x, const tensor_type *out, const int64_t *at, int64_t row,
                         int64_t column) {
    int64_t from[WEFT_MAX_NDIM];
    int last = x->type.ndim - 1, lead = out->ndim - x->type.ndim;
    for (int k = 0; k < last - 1; k++) from[k] = x->type.shape[k] == 1 ? 0 : at[k + lead];
    from[last - 1] = row;
    from[last] = column;
    return x->v[naive_number(&x->type, from)];
}

void naive_matmul(const weft_node *n, const naive *in, const naive *out) {
    const matmul_attrs *a = n->attrs;
    const tensor_type *left = &in[0].type, *t = &out->type;
    int64_t inner = left->shape[left->ndim - (a->transpose_a ? 2 : 1)], at[WEFT_MAX_NDIM] = {0};
    for (int64_t i = 0; i < naive_count(t); i++) {
        double sum = 0;
        naive_place(t, i, at);
        int64_t row = at[t->ndim - 2], column = at[t->ndim - 1];
        for (int64_t k = 0; k < inner; k++)
            sum += matrix_get(&in[0], t, at, a->transpose_a ? k : row, a->transpose_a ? row : k) *
                   matrix_get(&in[1], t, at, a->transpose_b ? column : k, a->transpose_b ? k : column);
        out->v[i] = sum;
    }
}

/* y = x w^T + b: w is [out, in]. */
void naive_linear(const weft_node *n, const naive *in, const naive *out) {
    int64_t columns = in[1].type.shape[0], inner = in[1].type.shape[1];
    for (int64_t i = 0; i < naive_count(&out->type); i++) {
        int64_t row = i / columns, column = i % columns;
        double sum = n->n_in > 2 && in[2].v ? in[2].v[column] : 0;
        for (int64_t k = 0; k < inner; k++) sum += in[0].v[row * inner + k] * in[1].v[column * inner + k];
        out->v[i] = sum;
    }
}

/* ---- convolutions: three solutions of one trilinear form (ops/image/conv2d.h) ---- */

typedef struct conv_parts {
    naive big, small, weight;
} conv_parts;

static conv_parts parts_of(const weft_node *n, const naive *in, const naive *out) {
    if (strcmp(n->op->name, "conv2d") == 0) return (conv_parts){.big = in[0], .weight = in[1], .small = *out};
    if (strcmp(n->op->name, "conv2d_weight") == 0)
        return (conv_parts){.big = in[0], .small = in[1], .weight = *out};
    return (conv_parts){.small = in[0], .weight = in[1], .big = *out};
}

static double *element(const naive *x, int64_t a, int64_t b, int64_t c, int64_t d) {
    return &x->v[naive_number(&x->type, (int64_t[]){a, b, c, d})];
}

/* All terms that place (y, x) of small's channel o of image i has. */
static void add_terms(const conv_attrs *a, const conv_parts *p, const double *result, int64_t i, int64_t o,
                      int64_t y, int64_t x) {
    const int64_t *w = p->weight.type.shape, *b = p->big.type.shape;
    int64_t group = o / (p->small.type.shape[1] / a->groups), first = group * w[1];
    double *small = element(&p->small, i, o, y, x);
    for (int64_t c = 0; c < w[1]; c++) {
        double *plane = element(&p->big, i, first + c, 0, 0), *weight = element(&p->weight, o, c, 0, 0);
        for (int64_t ky = 0; ky < w[2]; ky++)
            for (int64_t kx = 0; kx < w[3]; kx++, weight++) {
                int64_t Y = y * a->stride.v[0] - a->pad.v[0] + ky * a->dilation.v[0];
                int64_t X = x * a->stride.v[1] - a->pad.v[1] + kx * a->dilation.v[1];
                if (Y < 0 || Y >= b[2] || X < 0 || X >= b[3]) continue;
                double *big = plane + Y * b[3] + X;
                if (result == p->big.v) *big += *small * *weight;
                if (result == p->small.v) *small += *big * *weight;
                if (result == p->weight.v) *weight += *big * *small;
            }
    }
}

void naive_conv(const weft_node *n, const naive *in, const naive *out) {
    conv_parts p = parts_of(n, in, out);
    const int64_t *s = p.small.type.shape;
    int64_t pixels = naive_count(&out->type) / out->type.shape[0] / out->type.shape[1];
    bool has_bias = n->n_in > 2 && in[2].v;
    for (int64_t i = 0; i < naive_count(&out->type); i++)
        out->v[i] = has_bias ? in[2].v[i / pixels % out->type.shape[1]] : 0;
    for (int64_t i = 0; i < s[0]; i++)
        for (int64_t o = 0; o < s[1]; o++)
            for (int64_t y = 0; y < s[2]; y++)
                for (int64_t x = 0; x < s[3]; x++) add_terms(n->attrs, &p, out->v, i, o, y, x);
}
