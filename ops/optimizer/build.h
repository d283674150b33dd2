/* build.h - parts of optimizers' steps that are built from ops. g is the gradient, p the parameter. */
#ifndef WEFT_OPS_OPTIMIZER_BUILD_H
#define WEFT_OPS_OPTIMIZER_BUILD_H

#include "graph/settings/minimize.h"
#include "ops/kit/op_kit.h"

/* The step of adam and adamw where amsgrad is set (adam_kin.c). */
void build_amsgrad(weft_update *u, const minimize_attrs *a, bool is_decoupled);

/* keep old + (1 - keep) new: a moving mean. */
weft_value *moved(weft_value *old, weft_value *new_one, double keep);
/* The same with momentum or beta1, which a schedule may change. */
weft_value *moved_by(const weft_update *u, weft_value *old, weft_value *new_one, double momentum);
/* momentum x, and momentum (or beta1) itself, f64[] */
weft_value *by_momentum(const weft_update *u, weft_value *x, double momentum);
weft_value *momentum_of(const weft_update *u, double momentum);
/* g + weight_decay p */
weft_value *decayed_gradient(const weft_update *u, const minimize_attrs *a);
/* p (1 - lr weight_decay): decoupled decay. */
weft_value *decayed_parameter(const weft_update *u, const minimize_attrs *a);
/* 1 - beta^step, f64[]; of beta1, which a schedule may change */
weft_value *bias_of(double beta, weft_value *step);
weft_value *first_bias(const weft_update *u, double beta1);
/* base^x for a number x, f64[] */
weft_value *power_of(double base, weft_value *x);
/* x^exponent for a number x, f64[] */
weft_value *power_by(weft_value *x, double exponent);
/* a / b for numbers, and x / number */
weft_value *divided(weft_value *x, weft_value *number);
/* p - lr d */
weft_value *stepped(weft_value *p, weft_value *d, weft_value *lr);
/* A number of the type of x, of no axes. */
weft_value *number_like(const weft_value *x, double value);
/* The 2-norm of all elements, of no axes. */
weft_value *norm_of(weft_value *x);

#endif
