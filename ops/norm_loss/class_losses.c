/* class_losses.c - cross_entropy and nll with all of PyTorch's options; torch.nn.functional.cross_entropy and
 * nll_loss. Without options, of [N, C], cross_entropy is the op of that name.
 *
 * For a row i with target t, weights w (or 1) and smoothing s the loss is
 *     (1 - s) w[t] (lse - x[t]) + s / C (lse (sum of w) - sum of w x)
 * where lse - x[t] and lse are the results of the op; so smoothing and weights cost one more pass over the
 * logits at most. A mean divides by the sum of w[t] over the rows that count. */
#include "ops/norm_loss/loss.h"
#include "ops/norm_loss/norm.h"

/* Logits [N, C, ...] and their targets as rows: x [R, C], target [R]. */
typedef struct class_rows {
    weft_value *x, *target;
    lengths shape; /* of the targets, in which losses of rows come back; no axes: as they are */
} class_rows;

static bool targets_fit(const char *loss, const weft_value *x, const weft_value *target) {
    const tensor_type *a = &x->type, *t = &target->type;
    bool fits = a->ndim >= 2 && t->ndim == a->ndim - 1;
    for (int i = 0; fits && i < t->ndim; i++) fits = t->shape[i] == a->shape[i ? i + 1 : 0];
    return fits || value_fail(x, WEFT_SHAPE,
                              "%s: x is %s, the target %s: it must be [N, C] or [N, C, ...] with one integer "
                              "target a row, [N] or [N, ...], or with probabilities of its shape",
                              loss, TYPE(a), TYPE(t));
}

/* Moves the classes to the end, and merges all other axes. */
static bool rows_of(class_rows *r, weft_value *x, weft_value *target) {
    int64_t order[WEFT_MAX_NDIM] = {0}, flat[] = {-1};
    *r = (class_rows){.x = x, .target = target};
    if (x->type.ndim == 2) return true;
    r->shape = lengths_of(target);
    for (int i = 1; i < r->shape.n; i++) order[i] = i + 1;
    order[r->shape.n] = 1;
    x = weft_permute(x, order);
    if (!x) return false;
    lengths rows = lengths_of(x);
    lengths_merge(&rows, 0, r->shape.n);
    r->x = reshape_lengths(x, &rows);
    r->target = weft_reshape(target, 1, flat);
    return r->x && r->target;
}

static int64_t ignored_index(const weft_loss *o) {
    return o->ignore_index ? *o->ignore_index : -100;
}

/* Whether each row counts, as bool; NULL where the type of the targets has no number to ignore. */
static weft_value *counted(weft_value *target, int64_t ignored) {
    weft_dtype dtype = target->type.dtype;
    if (!constant_fits(dtype, (double)ignored)) return NULL;
    weft_value *never = weft_constant(target->node->graph, dtype, 0, NULL, (double)ignored);
    return weft_not_equal(target, never);
}

/* 0 where a row does not count. */
static weft_value *masked(weft_value *v, weft_value *counts) {
    return v && counts ? weft_where(counts, v, loss_constant(v, 0)) : v;
}

/* The targets, with 0 for those that are ignored: any other number that is not a class fails the run. */
static weft_value *class_ids(const class_rows *r, weft_value *counts) {
    weft_value *ids = r->target;
    if (!counts) return ids;
    weft_value *first = weft_constant(ids->node->graph, ids->type.dtype, 0, NULL, 0);
    return weft_where(counts, ids, first);
}

/* What a row counts: w[t], or 1, or 0 if it is ignored: [R]; of x's accumulator type. */
static weft_value *row_weights(const class_rows *r, weft_value *weight, weft_value *counts) {
    int64_t table[] = {-1, 1}, flat[] = {-1};
    weft_dtype dtype = dtype_accumulator(r->x->type.dtype);
    if (!weight && counts) return weft_cast(counts, dtype);
    if (!weight) {
        weft_value *zeros = weft_scale(weft_cast(r->target, dtype), 0);
        return weft_offset(zeros, 1);
    }
    weft_value *ids = class_ids(r, counts);
    weft_value *rows = weft_embedding_op(weft_reshape(weight, 2, table), ids);
    return masked(weft_reshape(rows, 1, flat), counts);
}

/* A sum over classes, lse (sum of w) - sum of w x, for each row that counts. */
static weft_value *smooth_rows(const class_rows *r, weft_value *lse, weft_value *weight, weft_value *counts) {
    weft_value *x = r->x;
    if (x->type.dtype != lse->type.dtype) x = weft_cast(x, lse->type.dtype);
    if (!weight) {
        weft_value *sum = weft_sum(x, 1, (int64_t[]){1}, false);
        return masked(weft_sub(weft_scale(lse, (double)x->type.shape[1]), sum), counts);
    }
    weft_value *sum = weft_sum(weft_mul(x, weight), 1, (int64_t[]){1}, false);
    weft_value *all = weft_mul(lse, weft_sum(weight, 0, NULL, false));
    return masked(weft_sub(all, sum), counts);
}

/* Losses of rows become the result; a mean divides by what the rows count, in all. */
static weft_value *rows_reduce(const class_rows *r, const weft_loss *o, weft_value *loss,
                               weft_value *weights) {
    if (o->reduction == WEFT_LOSS_NONE) return r->shape.n ? reshape_lengths(loss, &r->shape) : loss;
    if (o->reduction == WEFT_LOSS_SUM) return weft_sum(loss, 0, NULL, false);
    weft_value *sum = weft_sum(loss, 0, NULL, false), *whole = weft_sum(weights, 0, NULL, false);
    return weft_div(sum, whole);
}

static bool class_weight_fits(const char *loss, const weft_value *x, const weft_loss *o) {
    const tensor_type *w = o->weight ? &o->weight->type : NULL;
    if (o->label_smoothing < 0 || o->label_smoothing > 1)
        return value_fail(x, WEFT_ARGUMENT, "%s: label_smoothing=%g: it must be 0 to 1", loss,
                          o->label_smoothing);
    if (!w || (w->ndim == 1 && w->shape[0] == x->type.shape[1])) return true;
    return value_fail(x, WEFT_SHAPE, "%s: the weight is %s: it must be [%lld], one number a class", loss,
                      TYPE(w), (long long)x->type.shape[1]);
}

/* The op, whose row losses are smoothed and weighted where the options say so. */
static weft_value *index_targets(weft_value *x, weft_value *target, const weft_loss *o) {
    static const int64_t reductions[] = {LOSS_MEAN, LOSS_SUM, LOSS_NONE};
    class_rows r;
    double s = o->label_smoothing;
    bool is_plain = !o->weight && s == 0;
    cross_entropy_attrs a = {ignored_index(o), is_plain ? reductions[o->reduction] : LOSS_NONE};
    if (!rows_of(&r, x, target)) return NULL;
    weft_value *in[] = {r.x, r.target};
    weft_node *n = node_new(x->node->graph, &weft_op_cross_entropy, 2, in, &a);
    if (!n) return NULL;
    weft_value *loss = node_result(n, 0);
    if (is_plain) return r.shape.n && a.reduction == LOSS_NONE ? reshape_lengths(loss, &r.shape) : loss;
    weft_value *counts = counted(r.target, a.ignore_index);
    weft_value *weights = row_weights(&r, o->weight, counts);
    if (o->weight) loss = weft_mul(loss, weights);
    if (s > 0) {
        weft_value *smooth = smooth_rows(&r, node_result(n, 1), o->weight, counts);
        smooth = weft_scale(smooth, s / (double)r.x->type.shape[1]);
        loss = weft_add(weft_scale(loss, 1 - s), smooth);
    }
    return rows_reduce(&r, o, loss, weights);
}

/* -sum of t log_softmax(x) w over the classes, with t smoothed; a mean is over all rows. */
static weft_value *probability_targets(weft_value *x, weft_value *target, const weft_loss *o) {
    int64_t classes = x->type.shape[1], shape[WEFT_MAX_NDIM] = {classes, 1, 1, 1, 1, 1, 1};
    double s = o->label_smoothing;
    weft_value *logs = weft_log_softmax(x, 1), *weight = o->weight;
    if (weight && x->type.ndim > 2) weight = weft_reshape(weight, x->type.ndim - 1, shape);
    if (weight) logs = weft_mul(logs, weight);
    if (s > 0) target = weft_offset(weft_scale(target, 1 - s), s / (double)classes);
    weft_value *sum = weft_sum(weft_mul(logs, target), 1, (int64_t[]){1}, false);
    return loss_reduce(weft_neg(sum), o->reduction);
}

weft_value *weft_cross_entropy(weft_value *logits, weft_value *target, const weft_loss *options) {
    static const char name[] = "cross_entropy";
    weft_loss o;
    weft_value *x = logits;
    if (!x || !target) return op_value(&weft_op_cross_entropy, 2, (weft_value *[]){x, target}, NULL);
    if (!loss_options(&o, name, x, options, LOSS_WEIGHT | LOSS_IGNORE | LOSS_SMOOTHING)) return NULL;
    bool is_index = dtype_is_integer(target->type.dtype);
    bool is_soft = !is_index && x->type.ndim >= 2 && shape_equal(&x->type, &target->type);
    if (is_soft && o.ignore_index)
        return value_fail(x, WEFT_ARGUMENT, "%s: the targets are probabilities: none has an ignore_index",
                          name);
    if ((!is_soft && !targets_fit(name, x, target)) || !class_weight_fits(name, x, &o)) return NULL;
    return is_soft ? probability_targets(x, target, &o) : index_targets(x, target, &o);
}

/* x[t] of each row that counts, which fails the run where t is not a class; else x[0]. */
static weft_value *picked(const class_rows *r, weft_value *counts) {
    weft_value *own = weft_gather(r->x, 1, weft_unsqueeze(class_ids(r, counts), 1));
    return weft_reshape(own, 1, (int64_t[]){-1});
}

/* -w[t] x[t] of each row; x are logs of probabilities. */
weft_value *weft_nll(weft_value *x, weft_value *target, const weft_loss *options) {
    weft_loss o;
    class_rows r;
    if (!x || !target) return op_value(&weft_op_cross_entropy, 2, (weft_value *[]){x, target}, NULL);
    if (!loss_options(&o, "nll", x, options, LOSS_WEIGHT | LOSS_IGNORE) || !targets_fit("nll", x, target) ||
        !class_weight_fits("nll", x, &o))
        return NULL;
    if (!dtype_is_integer(target->type.dtype))
        return value_fail(x, WEFT_TYPE, "nll: the target is %s: it must be integer", TYPE(&target->type));
    if (!rows_of(&r, x, target)) return NULL;
    weft_value *counts = counted(r.target, ignored_index(&o));
    weft_value *weights = row_weights(&r, o.weight, counts);
    weft_value *loss = masked(weft_neg(picked(&r, counts)), counts);
    return rows_reduce(&r, &o, o.weight ? weft_mul(loss, weights) : loss, weights);
}
