/* product.h - a node of `matmul`, `linear` or an op of epilogue.h as products of matrices with any strides,
 * for the libraries of all backends.
 *
 * Permuted and transposed views are used without copies, batch axes with regular strides are merged, and a
 * batch that only the left operand has becomes more rows of one product. */
#ifndef WEFT_OPS_LINALG_PRODUCT_H
#define WEFT_OPS_LINALG_PRODUCT_H

#include "ops/linalg/matmul.h"

enum { BATCH_AXES = WEFT_MAX_NDIM - 2 };

/* A matrix of rows x columns for each index of the batch axes; strides are in elements. An axis of length 1
 * serves all indices of the other operand's axis. */
typedef struct matrices {
    int64_t batch[BATCH_AXES], batch_stride[BATCH_AXES];
    int64_t rows, columns, row_stride, column_stride;
} matrices;

/* out = a b + bias */
typedef struct product {
    int n_batch;
    matrices a, b, out; /* out is row-major */
    int64_t bias;       /* its length, 0: none */
} product;

/* Describes the node's product. */
product product_of(const weft_node *n);

/* Whether rows or columns are contiguous and do not overlap, as libraries require. */
bool matrices_are_plain(const matrices *m);
/* Makes them row-major, batch by batch; returns the number of elements. */
int64_t matrices_make_dense(matrices *m, int n_batch);
/* The number of matrices: the product of the batch lengths. */
int64_t matrices_count(const matrices *m, int n_batch);

#endif
