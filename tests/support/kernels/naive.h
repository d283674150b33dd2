/* naive.h - the ops once more, independently: plain loops over logical elements in double, row-major, written
 * from the documentation. They use no kernels, strides, views or anything else of ops/ except the structs of
 * attributes, so a mistake there is not repeated here. */
#ifndef WEFT_TEST_NAIVE_H
#define WEFT_TEST_NAIVE_H

#include "graph/core/graph.h"

/* Elements of one value, row-major. */
typedef struct naive {
    tensor_type type;
    double *v;
} naive;

/* Computes a node. in[i].v NULL: the operand is left out. Fills out[k].v, which the caller allocates, and
 * in[i].v if the op writes operand i. false: the op is not known here. */
bool naive_run(const weft_node *n, const naive *in, const naive *out);

/* Conversions between a row-major tensor of any type and doubles; results are rounded to nearest, ties to
 * even. */
void naive_read(const tensor *from, double *to);
void naive_write(const tensor *to, const double *from);

/* ---- shared by the files naive*.c ---- */
typedef void naive_op(const weft_node *n, const naive *in, const naive *out);
naive_op naive_matmul, naive_linear, naive_conv; /* naive_products.c */
naive_op naive_bucket, naive_chunk_squares, naive_sgd_update, naive_adam_update,
    naive_renew;                                                   /* naive_updates.c */
naive_op naive_random_uniform, naive_random_normal, naive_dropout; /* naive_random.c */
int64_t naive_count(const tensor_type *t);
/* The coordinates of element number i of shape t, and back. */
void naive_place(const tensor_type *t, int64_t i, int64_t *at);
int64_t naive_number(const tensor_type *t, const int64_t *at);

#endif
