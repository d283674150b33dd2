/* adafactor.c - the optimizer adafactor: torch.optim.Adafactor. rms(x) is the root of the mean square, t the
 * step.
 *     d = t^-beta2_decay,  a = max(eps2, rms(p)) min(lr, 1 / sqrt(t)),  p = p (1 - lr weight_decay)
 *     matrices (the last two axes):  r += d (mean of g^2 over columns - r)
 *                                    c += d (mean of g^2 over rows - c)
 *                                    v = r c / max(eps, mean of r over rows)
 *     others:                        v += d (g^2 - v)
 *     u = g / sqrt(max(v, eps^2)),   p -= a / max(1, rms(u) / update_rms) u
 * Shazeer and Stern, arXiv 1804.04235, algorithms 4 and 5. r and c keep one number a row and a column. */
#include "ops/optimizer/build.h"

enum { ROW_VAR, COL_VAR, VARIANCE };

static weft_value *rms_of(weft_value *x) {
    return weft_sqrt(weft_mean(weft_square(x), 0, NULL, false));
}

/* old += d (new - old) */
static weft_value *drawn(weft_value *old, weft_value *new_one, weft_value *d) {
    return weft_add(old, weft_update_scale(weft_sub(new_one, old), d));
}

/* The mean of x over one of the last two axes, from the end; its length becomes 1. */
static weft_value *mean_along(weft_value *x, int64_t axis) {
    return weft_mean(x, 1, &axis, true);
}

/* The estimate of g^2, from its means over columns and over rows. */
static weft_value *factored(weft_update *u, const minimize_attrs *a, weft_value *square, weft_value *d) {
    weft_value **s = u->slots;
    s[ROW_VAR] = drawn(s[ROW_VAR], mean_along(square, -1), d);
    s[COL_VAR] = drawn(s[COL_VAR], mean_along(square, -2), d);
    weft_value *mean = mean_along(s[ROW_VAR], -2), *least = number_like(mean, a->eps);
    weft_value *product = weft_mul(s[ROW_VAR], s[COL_VAR]);
    return weft_div(product, weft_maximum(mean, least));
}

static void build(weft_update *u, const minimize_attrs *a) {
    weft_value *g = u->gradient, *square = weft_square(g), *d = power_by(u->step, -a->beta2_decay), *v;
    weft_value *most = weft_minimum(u->lr, power_by(u->step, -0.5)), *size = rms_of(u->parameter);
    size = weft_maximum(size, number_like(size, a->eps2));
    if (u->parameter->type.ndim > 1)
        v = factored(u, a, square, d);
    else
        v = u->slots[VARIANCE] = drawn(u->slots[VARIANCE], square, d);
    weft_value *move = weft_mul(weft_rsqrt(weft_maximum(v, number_like(v, a->eps * a->eps))), g);
    weft_value *above = weft_scale(rms_of(move), 1 / a->update_rms);
    weft_value *scale = weft_div(size, weft_maximum(above, number_like(above, 1)));
    u->parameter = stepped(decayed_parameter(u, a), weft_mul(move, scale), most);
}

static const char *broken(const minimize_attrs *a) {
    return a->update_rms < 1 ? "update_rms must be at least 1" : NULL;
}

const optimizer_kind optimizer_adafactor = {
    .type = "adafactor",
    .build = build,
    .fields = {"beta2_decay", "eps", "eps2", "update_rms"},
    .defaults = {{"lr", 1e-2}, {"eps", 0x1p-23}},
    .slots = {{"row_var", .shape = SLOT_ROWS},
              {"col_var", .shape = SLOT_COLUMNS},
              {"variance", .shape = SLOT_NO_MATRIX}},
    .broken = broken,
};
