/* recurrent.h - the product of one step of lstm, gru, rnn or a backward op of theirs, in plain C: rows
 * compute the workspace from it, and runs follow it.
 *
 * cuBLASLt gets it as a node of its own, which stands in no graph: `linear` of the state and w forward,
 * `matmul` of the gates' gradients and w backward, with an f32 result at the beginning of the workspace. */
#ifndef WEFT_OPS_CUDA_RECURRENT_RECURRENT_H
#define WEFT_OPS_CUDA_RECURRENT_RECURRENT_H

#include "ops/cuda/linalg/blas.h"
#include "ops/recurrent/recurrent.h"

typedef struct step_product {
    weft_node node;
    weft_value state, out;
    weft_value *in[2];
    linear_attrs linear;
    matmul_attrs matmul;
} step_product;

/* Fills *s, which must stay where it is. */
void step_product_of(const weft_node *n, step_product *s);
/* Bytes of the product's result, aligned; cuBLASLt's part of the workspace follows. */
size_t step_product_bytes(const step_product *s);

/* The products of a run: every step has one but the first, which has one with h0; backward the last has
 * none. */
int64_t step_products(const weft_node *n);

#endif
