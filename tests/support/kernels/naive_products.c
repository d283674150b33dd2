/* naive_products.c - products and convolutions of naive.h, from their sums. */
#include "ops/image/conv2d.h"
#include "ops/linalg/matmul.h"
#include "support/kernels/naive.h"

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

/* Images and their windows as volumes of depth 1. */
typedef struct conv_parts {
    naive big, small, weight;
    int64_t stride[3], pad[3], dilation[3];
} conv_parts;

static naive as_volume(const naive *x) {
    const int64_t *s = x->type.shape;
    if (x->type.ndim == 5) return *x;
    return (naive){type_of(x->type.dtype, 5, (int64_t[]){s[0], s[1], 1, s[2], s[3]}), x->v};
}

static conv_parts parts_of(const weft_node *n, const naive *in, const naive *out) {
    const conv_attrs *a = n->attrs;
    const naive *big = &in[0], *small = out, *weight = &in[1];
    if (strstr(n->op->name, "transpose")) {
        small = &in[0];
        big = out;
    } else if (strstr(n->op->name, "weight")) {
        small = &in[1];
        weight = out;
    }
    conv_parts p = {as_volume(big), as_volume(small), as_volume(weight), {1}, {0}, {1}};
    int flat = 5 - big->type.ndim;
    for (int i = flat; i < 3; i++) {
        p.stride[i] = a->stride.v[i - flat];
        p.pad[i] = a->pad.v[i - flat];
        p.dilation[i] = a->dilation.v[i - flat];
    }
    return p;
}

static double *element(const naive *x, int64_t a, int64_t b) {
    return &x->v[naive_number(&x->type, (int64_t[]){a, b, 0, 0, 0})];
}

/* Where tap k of the window at place s lies along axis i of big. */
static int64_t along(const conv_parts *p, int i, int64_t s, int64_t k) {
    return s * p->stride[i] - p->pad[i] + k * p->dilation[i];
}

/* All terms that place (z, y, x) of small, at `small`, has with a channel of big and its weight. */
static void add_terms(const conv_parts *p, const double *result, double *small, double *channel,
                      double *weight, const int64_t *place) {
    const int64_t *w = p->weight.type.shape + 2, *b = p->big.type.shape + 2;
    for (int64_t kz = 0; kz < w[0]; kz++)
        for (int64_t ky = 0; ky < w[1]; ky++)
            for (int64_t kx = 0; kx < w[2]; kx++, weight++) {
                int64_t Z = along(p, 0, place[0], kz), Y = along(p, 1, place[1], ky),
                        X = along(p, 2, place[2], kx);
                if (Z < 0 || Z >= b[0] || Y < 0 || Y >= b[1] || X < 0 || X >= b[2]) continue;
                double *big = channel + (Z * b[1] + Y) * b[2] + X;
                if (result == p->big.v) *big += *small * *weight;
                if (result == p->small.v) *small += *big * *weight;
                if (result == p->weight.v) *weight += *big * *small;
            }
}

void naive_conv(const weft_node *n, const naive *in, const naive *out) {
    conv_parts p = parts_of(n, in, out);
    int64_t pixels = naive_count(&out->type) / out->type.shape[0] / out->type.shape[1];
    bool has_bias = n->n_in > 2 && in[2].v;
    for (int64_t i = 0; i < naive_count(&out->type); i++)
        out->v[i] = has_bias ? in[2].v[i / pixels % out->type.shape[1]] : 0;
    int64_t channels = p.weight.type.shape[1],
            outs = p.small.type.shape[1] / ((const conv_attrs *)n->attrs)->groups;
    for (int64_t i = 0; i < naive_count(&p.small.type); i++) {
        int64_t at[WEFT_MAX_NDIM];
        naive_place(&p.small.type, i, at);
        for (int64_t c = 0; c < channels; c++)
            add_terms(&p, out->v, p.small.v + i, element(&p.big, at[0], at[1] / outs * channels + c),
                      element(&p.weight, at[1], c), at + 2);
    }
}
