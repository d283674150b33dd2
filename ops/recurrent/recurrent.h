/* recurrent.h - what lstm, gru, rnn and their backward ops share: attributes, shapes, the order of the steps.
 *
 * The products of all inputs with the input weights are one `linear` before the op; the op has only what one
 * step needs from the step before. With G gates (lstm 4, gru 3, rnn 1):
 *     x [T, B, G H]   w [G H, H]   h0 [B, H] (may be left out: zeros)   ->   h [T, B, H] ...
 * Step s of the op is time s, or with `reverse` time T - 1 - s. The gradients of w and h0 are products over
 * all steps, apart from the backward op (recurrent_gradients). */
#ifndef WEFT_OPS_RECURRENT_RECURRENT_H
#define WEFT_OPS_RECURRENT_RECURRENT_H

#include "ops/kit/op_kit.h"
#include "ops/kit/place.h"

typedef struct recurrent_attrs {
    bool reverse; /* from the last time to the first */
    int64_t act;  /* of rnn: recurrent_act */
} recurrent_attrs;

typedef enum recurrent_act { RECURRENT_TANH, RECURRENT_RELU } recurrent_act;

/* `reverse` alone, for lstm and gru; with `act` for rnn. */
extern const op_attr recurrent_attr_table[], rnn_attr_table[];

enum { LSTM_GATES = 4, GRU_GATES = 3, RNN_GATES = 1 };

/* The time of step s. */
static inline int64_t recurrent_time(const recurrent_attrs *a, int64_t steps, int64_t s) {
    return a->reverse ? steps - 1 - s : s;
}

/* ---- for infer ---- */

/* Operand x is [T, B, gates H] of a float type, operand w [gates H, H] of the same. */
bool recurrent_want(op_call *c, int x, int w, int gates);
/* Operand i is missing or [B, H], for x of operand 0; of x's type, or (`is_f32`) f32 where x is reduced. */
bool recurrent_want_state(op_call *c, int i, int64_t hidden, bool is_f32);
/* Operand i is missing or has this type. */
bool recurrent_want_type(op_call *c, int i, tensor_type type);
/* [T, B, features] and [B, features] for x [T, B, ...]. */
tensor_type recurrent_all(weft_dtype dtype, const tensor_type *x, int64_t features);
tensor_type recurrent_one(weft_dtype dtype, const tensor_type *x, int64_t features);

/* ---- for builders ---- */

/* What users get of a result: v times 1, which is v once gradients are made. In PyTorch it is a stack of the
 * steps' states, so a gradient by it does not reach the states that gradients read, as one by v would. */
weft_value *recurrent_given(weft_value *v, place p);

/* ---- for gradients ---- */

/* The gradients of w (operand 1) and of h0 (operand 2) of a forward node whose result 0 is h, from dgates [T,
 * B, G H], the gradient of what w h contributed: dw is the sum over steps of dgates^T h_before; dh0 = dgates
 * w of step 0, plus `carry` (NULL: nothing), which reached h0 past w. */
void recurrent_gradients(weft_node *n, weft_value *dgates, weft_value *carry, const bool *wanted,
                         weft_value **din);

/* ---- for kernels ---- */

/* Operand i; NULL where it is missing. */
static inline const tensor *recurrent_operand(const kernel_call *c, int i) {
    return i < c->n_in && c->in[i].data ? &c->in[i] : NULL;
}

/* ---- for reference kernels: operands may be NULL ---- */

/* Computes unit j of sample b in step s, from what the steps before it (backward: after it) have left. */
typedef void recurrent_unit(const kernel_call *c, int64_t s, int64_t b, int64_t j);
/* All units of h (any tensor [T, B, H]), from the first step to the last, or from the last to the first. */
weft_status recurrent_forward(const kernel_call *c, const tensor *h, recurrent_unit *unit);
weft_status recurrent_backward(const kernel_call *c, const tensor *h, recurrent_unit *unit);
/* 1 / (1 + e^-x) */
double recurrent_sigma(double x);

/* The state before step s: h of the step before, or h0, or 0 where that is missing. */
double recurrent_before(const tensor *h, const tensor *h0, const recurrent_attrs *a, int64_t s, int64_t b,
                        int64_t j);
/* sum over k of w[row, k] h_before[b, k]. */
double recurrent_product(const tensor *w, const tensor *h, const tensor *h0, const recurrent_attrs *a,
                         int64_t s, int64_t b, int64_t row);
/* sum over k of dgates[b, k] w[k, j] of the step after s; 0 for the last. */
double recurrent_back(const tensor *w, const tensor *dgates, const recurrent_attrs *a, int64_t s, int64_t b,
                      int64_t j);
/* Element [time of step s, b, j], or 0 where the operand is missing. */
double recurrent_at(const tensor *t, const recurrent_attrs *a, int64_t s, int64_t b, int64_t j);

#endif
