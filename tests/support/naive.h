/* naive.h - what ops mean, once more: plain loops over logical elements in double, row-major, written from the
 * documentation. No kernel, no stride, no view and nothing else of ops/ but the structs of attributes, so that a mistake
 * there is no mistake here. */
#ifndef WEFT_TEST_NAIVE_H
#define WEFT_TEST_NAIVE_H

#include "graph/core/graph.h"

/* Elements of one value, row-major. */
typedef struct naive {
    tensor_type type;
    double *v;
} naive;

/* in[i].v NULL: left out. Fills out[k].v, which have room, and in[i].v where the op writes operand i; false: the op is not
 * known here. */
bool naive_run(const weft_node *n, const naive *in, const naive *out);

/* Between a row-major tensor of any type and doubles; a result is rounded to the nearest, ties to even. */
void naive_read(const tensor *from, double *to);
void naive_write(const tensor *to, const double *from);

/* ---- of the files naive*.c ---- */
typedef void naive_op(const weft_node *n, const naive *in, const naive *out);
naive_op naive_matmul, naive_linear, naive_conv;            /* naive_products.c */
naive_op naive_bucket, naive_sgd_update, naive_adam_update; /* naive_updates.c */
int64_t naive_count(const tensor_type *t);
/* Element number i of shape t, as a place; and back. */
void naive_place(const tensor_type *t, int64_t i, int64_t *at);
int64_t naive_number(const tensor_type *t, const int64_t *at);

#endif
