/* build.c - parts of optimizers' steps: see build.h. */
#include "ops/optimizer/build.h"

weft_value *weft_update_scale(weft_value *x, weft_value *number) {
    return x && number ? weft_mul(x, weft_cast(number, x->type.dtype)) : NULL;
}

weft_value *moved(weft_value *old, weft_value *new_one, double keep) {
    weft_value *kept = weft_scale(old, keep);
    return weft_add(kept, weft_scale(new_one, 1 - keep));
}

weft_value *momentum_of(const weft_update *u, double momentum) {
    return u->numbers[1] ? weft_scale(u->numbers[1], momentum) : number_like(u->lr, momentum);
}

weft_value *by_momentum(const weft_update *u, weft_value *x, double momentum) {
    return u->numbers[1] ? weft_update_scale(x, momentum_of(u, momentum)) : weft_scale(x, momentum);
}

weft_value *moved_by(const weft_update *u, weft_value *old, weft_value *new_one, double momentum) {
    if (!u->numbers[1]) return moved(old, new_one, momentum);
    weft_value *share = weft_offset(weft_scale(momentum_of(u, momentum), -1), 1);
    weft_value *kept = by_momentum(u, old, momentum);
    return weft_add(kept, weft_update_scale(new_one, share));
}

weft_value *first_bias(const weft_update *u, double beta1) {
    if (!u->numbers[1]) return bias_of(beta1, u->step);
    return weft_offset(weft_scale(weft_pow(momentum_of(u, beta1), u->step), -1), 1);
}

weft_value *decayed_gradient(const weft_update *u, const minimize_attrs *a) {
    if (a->weight_decay == 0) return u->gradient;
    return weft_add(u->gradient, weft_update_scale(u->parameter, u->weight_decay));
}

weft_value *decayed_parameter(const weft_update *u, const minimize_attrs *a) {
    if (a->weight_decay == 0) return u->parameter;
    weft_value *lost = weft_scale(weft_mul(u->lr, u->weight_decay), -1);
    return weft_update_scale(u->parameter, weft_offset(lost, 1));
}

weft_value *power_of(double base, weft_value *x) {
    return weft_pow(number_like(x, base), x);
}

weft_value *power_by(weft_value *x, double exponent) {
    return weft_pow(x, number_like(x, exponent));
}

weft_value *bias_of(double beta, weft_value *step) {
    return weft_offset(weft_scale(power_of(beta, step), -1), 1);
}

weft_value *divided(weft_value *x, weft_value *number) {
    return x && number ? weft_div(x, weft_cast(number, x->type.dtype)) : NULL;
}

weft_value *stepped(weft_value *p, weft_value *d, weft_value *lr) {
    return weft_sub(p, weft_update_scale(d, lr));
}

weft_value *number_like(const weft_value *x, double value) {
    return x ? weft_constant(x->node->graph, x->type.dtype, 0, NULL, value) : NULL;
}

weft_value *norm_of(weft_value *x) {
    return weft_sqrt(weft_sum(weft_square(x), 0, NULL, false));
}
