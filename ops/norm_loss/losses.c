/* losses.c - losses that compare a prediction with a target element by element, composed of pointwise ops,
 * which fuse; what all losses share (loss.h); the check of a loss's two operands. */
#include "ops/norm_loss/loss.h"

#include <float.h>
#include <math.h>

/* Broadcasting [N] against [N, 1] would give N x N losses without an error, a frequent mistake. */
bool loss_fits(const char *loss, const weft_value *x, const weft_value *target) {
    const weft_value *known = x ? x : target;
    if (!known) return false;
    if (!x || !target)
        return value_fail(known, WEFT_ARGUMENT, "%s: the %s is NULL, and no call before this one failed",
                          loss, x ? "target" : "prediction");
    return target->type.ndim == 0 || shape_equal(&x->type, &target->type) ||
           value_fail(known, WEFT_SHAPE,
                      "%s: the prediction is %s, the target %s: they must have one shape, as elements are "
                      "compared one "
                      "by one (weft_reshape one of them), or the target be a single number, []",
                      loss, TYPE(&x->type), TYPE(&target->type));
}

/* ---- options ---- */

/* The first field that is set and that the loss does not have; NULL: there is none. */
static const char *excess(const weft_loss *o, unsigned has) {
    const struct {
        unsigned field;
        bool is_set;
        const char *name;
    } fields[] = {
        {LOSS_WEIGHT, o->weight != NULL, "weight"},
        {LOSS_POS_WEIGHT, o->pos_weight != NULL, "pos_weight"},
        {LOSS_IGNORE, o->ignore_index != NULL, "ignore_index"},
        {LOSS_SMOOTHING, o->label_smoothing != 0, "label_smoothing"},
        {LOSS_BETA, o->beta != 0, "beta"},
        {LOSS_DELTA, o->delta != 0, "delta"},
        {LOSS_MARGIN, o->margin != 0, "margin"},
        {LOSS_LOG_TARGET, o->log_target, "log_target"},
        {LOSS_P, o->p != 0, "p"},
        {LOSS_SWAP, o->swap, "swap"},
        {LOSS_BATCH, o->reduction == WEFT_LOSS_BATCHMEAN, "WEFT_LOSS_BATCHMEAN"},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].is_set && !(has & fields[i].field)) return fields[i].name;
    return NULL;
}

bool loss_options(weft_loss *into, const char *loss, weft_value *x, const weft_loss *options, unsigned has) {
    *into = options ? *options : (weft_loss){0};
    const char *name = excess(into, has);
    if (!value_reserved(x, loss, into->reserved, sizeof into->reserved)) return false;
    if (name) return value_fail(x, WEFT_ARGUMENT, "%s: this loss has no option %s", loss, name);
    if (!isfinite(into->margin))
        return value_fail(x, WEFT_ARGUMENT, "%s: margin=%g: it must be finite", loss, into->margin);
    if ((int)into->reduction >= WEFT_LOSS_MEAN && into->reduction <= WEFT_LOSS_BATCHMEAN) return true;
    return value_fail(x, WEFT_ARGUMENT, "%s: reduction=%d: it must be one of WEFT_LOSS_MEAN, ...", loss,
                      (int)into->reduction);
}

weft_value *loss_reduce(weft_value *loss, weft_reduction reduction) {
    if (!loss || reduction == WEFT_LOSS_NONE) return loss;
    return reduction == WEFT_LOSS_MEAN ? weft_mean(loss, 0, NULL, false) : weft_sum(loss, 0, NULL, false);
}

weft_value *loss_constant(const weft_value *x, double value) {
    return weft_constant(x->node->graph, x->type.dtype, 0, NULL, value);
}

/* ---- differences ---- */

/* torch.nn.functional.mse_loss. */
weft_value *weft_mse(weft_value *x, weft_value *target, const weft_loss *options) {
    weft_loss o;
    if (!loss_fits("mse", x, target) || !loss_options(&o, "mse", x, options, 0)) return NULL;
    return loss_reduce(weft_square(weft_sub(x, target)), o.reduction);
}

/* torch.nn.functional.l1_loss. */
weft_value *weft_l1(weft_value *x, weft_value *target, const weft_loss *options) {
    weft_loss o;
    if (!loss_fits("l1", x, target) || !loss_options(&o, "l1", x, options, 0)) return NULL;
    return loss_reduce(weft_abs(weft_sub(x, target)), o.reduction);
}

/* d^2 / 2 where |d| < bound, else bound (|d| - bound / 2), with d = x - target, times `factor`. */
static weft_value *rounded(weft_value *x, weft_value *target, double bound, double factor) {
    weft_value *d = weft_sub(x, target), *size = weft_abs(d);
    weft_value *near = weft_scale(weft_square(d), factor / 2);
    weft_value *far = weft_scale(weft_offset(size, -bound / 2), factor * bound);
    weft_value *edge = d ? loss_constant(d, bound) : NULL;
    return weft_where(weft_less(size, edge), near, far);
}

/* Resolves beta or delta: above 0, or 0 where `zero` is allowed. */
static bool bound_of(const char *loss, const char *what, const weft_value *x, double value, bool zero,
                     double *bound) {
    *bound = option_number(value, 1);
    if ((zero ? *bound >= 0 : *bound > 0) && *bound <= FLT_MAX) return true;
    return value_fail(x, WEFT_ARGUMENT, "%s: %s=%g: it must be %s (0 means 1%s)", loss, what, value,
                      zero ? "0 or more" : "above 0", zero ? "; a true 0 is WEFT_ZERO" : "");
}

/* torch.nn.functional.smooth_l1_loss: huber's with delta = beta, divided by beta. */
weft_value *weft_smooth_l1(weft_value *x, weft_value *target, const weft_loss *options) {
    weft_loss o;
    double beta;
    if (!loss_fits("smooth_l1", x, target) || !loss_options(&o, "smooth_l1", x, options, LOSS_BETA) ||
        !bound_of("smooth_l1", "beta", x, o.beta, true, &beta))
        return NULL;
    if (beta == 0) return loss_reduce(weft_abs(weft_sub(x, target)), o.reduction);
    return loss_reduce(rounded(x, target, beta, 1 / beta), o.reduction);
}

/* torch.nn.functional.huber_loss. */
weft_value *weft_huber(weft_value *x, weft_value *target, const weft_loss *options) {
    weft_loss o;
    double delta;
    if (!loss_fits("huber", x, target) || !loss_options(&o, "huber", x, options, LOSS_DELTA) ||
        !bound_of("huber", "delta", x, o.delta, false, &delta))
        return NULL;
    return loss_reduce(rounded(x, target, delta, 1), o.reduction);
}

/* ---- probabilities ---- */

static weft_value *weighted(weft_value *loss, weft_value *weight) {
    return weight ? weft_mul(loss, weight) : loss;
}

/* A weight may broadcast to the loss, but not enlarge it. */
static bool weight_fits(const char *loss, const char *what, const weft_value *x, const weft_value *weight) {
    tensor_type both;
    if (!weight || (shape_broadcast(&x->type, &weight->type, &both) && shape_equal(&both, &x->type)))
        return true;
    return value_fail(x, WEFT_SHAPE, "%s: the %s is %s: it must broadcast to the prediction, %s", loss, what,
                      TYPE(&weight->type), TYPE(&x->type));
}

/* torch.nn.functional.binary_cross_entropy_with_logits: the part of positive targets, t log(1 + e^-x), counts
 * pos_weight times. */
weft_value *weft_bce_with_logits(weft_value *x, weft_value *target, const weft_loss *options) {
    static const char name[] = "bce_with_logits";
    weft_loss o;
    if (!loss_fits(name, x, target) || !loss_options(&o, name, x, options, LOSS_WEIGHT | LOSS_POS_WEIGHT) ||
        !weight_fits(name, "weight", x, o.weight) || !weight_fits(name, "pos_weight", x, o.pos_weight))
        return NULL;
    weft_value *loss = op_value(&weft_op_bce_with_logits, 2, (weft_value *[]){x, target}, NULL);
    if (o.pos_weight) {
        weft_value *more = weft_mul(weft_offset(o.pos_weight, -1), target);
        weft_value *positive = weft_mul(more, weft_logsigmoid(x));
        loss = weft_sub(loss, positive);
    }
    return loss_reduce(weighted(loss, o.weight), o.reduction);
}

/* log(x), at least -100, as PyTorch's; no gradient flows where it is less or x is 0. */
static weft_value *bounded_log(weft_value *x) {
    weft_value *zero = loss_constant(x, 0), *one = loss_constant(x, 1), *least = loss_constant(x, -100);
    weft_value *is_zero = weft_equal(x, zero), *safe = weft_where(is_zero, one, x);
    weft_value *log = weft_where(is_zero, least, weft_log(safe));
    return weft_maximum(log, least);
}

/* torch.nn.functional.binary_cross_entropy: -t log x - (1 - t) log(1 - x). */
weft_value *weft_bce(weft_value *x, weft_value *target, const weft_loss *options) {
    weft_loss o;
    if (!loss_fits("bce", x, target) || !loss_options(&o, "bce", x, options, LOSS_WEIGHT) ||
        !weight_fits("bce", "weight", x, o.weight))
        return NULL;
    weft_value *rest = weft_offset(weft_neg(x), 1), *none = weft_offset(weft_neg(target), 1);
    weft_value *yes = rest ? weft_mul(target, bounded_log(x)) : NULL;
    weft_value *no = rest ? weft_mul(none, bounded_log(rest)) : NULL;
    return loss_reduce(weighted(weft_neg(weft_add(yes, no)), o.weight), o.reduction);
}

/* t log t, which is 0 at 0. */
static weft_value *entropy_of(weft_value *t) {
    weft_value *zero = loss_constant(t, 0), *one = loss_constant(t, 1);
    weft_value *safe = weft_where(weft_equal(t, zero), one, t);
    return weft_mul(t, weft_log(safe));
}

/* torch.nn.functional.kl_div: t (log t - x), x being the log of a probability, and with log_target t as
 * well. */
weft_value *weft_kl_div(weft_value *x, weft_value *target, const weft_loss *options) {
    weft_loss o;
    if (!loss_fits("kl_div", x, target) ||
        !loss_options(&o, "kl_div", x, options, LOSS_LOG_TARGET | LOSS_BATCH))
        return NULL;
    weft_value *loss;
    if (o.log_target) {
        weft_value *t = weft_exp(target);
        loss = weft_mul(t, weft_sub(target, x));
    } else {
        weft_value *entropy = entropy_of(target), *cross = weft_mul(target, x);
        loss = weft_sub(entropy, cross);
    }
    if (o.reduction != WEFT_LOSS_BATCHMEAN || !loss) return loss_reduce(loss, o.reduction);
    /* The sum divided by the length of axis 0 is a mean of sums, right at any batch. */
    int64_t axes[WEFT_MAX_NDIM];
    for (int i = 1; i < loss->type.ndim; i++) axes[i - 1] = i;
    if (loss->type.ndim > 1) loss = weft_sum(loss, loss->type.ndim - 1, axes, false);
    return weft_mean(loss, 0, NULL, false);
}

/* ---- margins ---- */

/* torch.nn.functional.hinge_embedding_loss: x where the target is 1, max(margin - x, 0) where it is -1. */
weft_value *weft_hinge_embedding(weft_value *x, weft_value *target, const weft_loss *options) {
    weft_loss o;
    if (!loss_fits("hinge_embedding", x, target) ||
        !loss_options(&o, "hinge_embedding", x, options, LOSS_MARGIN))
        return NULL;
    weft_value *zero = loss_constant(x, 0), *one = loss_constant(target, 1),
               *minus = loss_constant(target, -1);
    weft_value *hinge = weft_relu(weft_offset(weft_neg(x), option_number(o.margin, 1)));
    weft_value *is_one = weft_equal(target, one), *is_minus = weft_equal(target, minus);
    weft_value *apart = weft_where(is_one, zero, hinge), *near = weft_where(is_minus, zero, x);
    return loss_reduce(weft_add(apart, near), o.reduction);
}

/* torch.nn.functional.margin_ranking_loss: max(-target (a - b) + margin, 0). */
weft_value *weft_margin_ranking(weft_value *a, weft_value *b, weft_value *target, const weft_loss *options) {
    weft_loss o;
    if (!loss_fits("margin_ranking", a, b) || !loss_fits("margin_ranking", a, target) ||
        !loss_options(&o, "margin_ranking", a, options, LOSS_MARGIN))
        return NULL;
    weft_value *order = weft_mul(weft_sub(b, a), target);
    return loss_reduce(weft_relu(weft_offset(order, option_number(o.margin, 0))), o.reduction);
}
