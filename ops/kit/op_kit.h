/* op_kit.h - helpers for the files of ops: access to single elements, reference loops, shapes in attributes,
 * algebra and gradients that several ops share. */
#ifndef WEFT_OPS_KIT_OP_KIT_H
#define WEFT_OPS_KIT_OP_KIT_H

#include "graph/core/element.h"
#include "graph/core/graph.h"
#include "ops/kit/ops.h"
#include "weft/ops.h"

/* Number i of a node's formula (ops/pointwise/pointwise_list.h): the i-th attribute of kind ATTR_REAL. False
 * past the last. */
bool formula_number(const weft_node *n, int i, double *value);

/* infer of ops of x and numbers, which are their attributes of kind ATTR_REAL: infer_same, and of an integer
 * x each is a whole number that its type can hold. */
bool infer_numbers(op_call *c);

/* The reference kernel of pointwise ops: op->scalar or op->integer of every element, with operands
 * broadcast. */
weft_status reference_pointwise(const kernel_call *c);
/* The reference kernel of ops whose result has the operand's type and elements, in strides of its own. */
weft_status reference_copy(const kernel_call *c);
/* The reference kernel of ops whose result has the operand's elements, in row-major order, in another
 * shape. */
weft_status reference_reshape(const kernel_call *c);
/* The reference kernel of OP_VIEW ops: copies the view. */
weft_status reference_view(const kernel_call *c);
/* infer of comparisons: two operands of one type, any; the result is their broadcast, of bool. */
bool infer_compare(op_call *c);

/* infer of tests of one operand, of any type: the result is bool. */
bool infer_test(op_call *c);

/* An op's attributes: their struct and the table of its fields. */
#define OP_ATTRS(type, table) .attrs_bytes = sizeof(type), .attrs = table

/* The row of an attribute `axis`, which may be negative. */
#define AXIS_ROW(attrs)                                                                                      \
    { "axis", ATTR_INT, offsetof(attrs, axis), -WEFT_MAX_NDIM, WEFT_MAX_NDIM - 1 }

/* ---- constants ---- */
/* Whether v is the result of a `constant` node; *value is its number, rounded to the value's type. NULL is
 * not a constant. */
bool constant_value(const weft_value *v, double *value);
/* Whether a type can hold a number: integers and bool exactly, floating-point types rounded, but a finite
 * number not to infinity. */
bool constant_fits(weft_dtype dtype, double value);

/* ---- algebra, for `simplify` ---- */
/* Operand 0 if the result has its type, else NULL: reshape, broadcast_to, slice and cast to the type that x
 * has. */
weft_value *simplify_same_type(weft_node *n);

/* ---- options of builders ---- */
/* value, or `otherwise` where it is 0; WEFT_ZERO is a true 0. */
double option_number(double value, double otherwise);

/* ---- operands of losses ---- */
/* Whether a loss accepts these operands: neither is NULL, and both have one shape or the target has one
 * element. Else records the error. */
bool loss_fits(const char *loss, const weft_value *x, const weft_value *target);

/* ---- for gradients: defined by families, since they are built from ops ---- */
/* Sums `gradient`, that of a broadcast result, to the shape of operand `like`. */
weft_value *sum_to(weft_value *gradient, const weft_value *like);
/* A new value equal to v (an identity node): for a builder that has nothing to compute but must return a
 * value that the caller can name apart from v in weft_gradients. */
weft_value *value_again(weft_value *v);
/* Zeros of the value's type and shape, also where it is infinite or NaN. */
weft_value *zeros_like(weft_value *like);

#endif
