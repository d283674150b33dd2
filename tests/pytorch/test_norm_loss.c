/* test_norm_loss.c - norms, losses and recurrent ops against PyTorch: each row is a call of Weft and the same
 * in PyTorch, whose numbers, gradients and gradients of gradients in f64 stand in golden/norm_loss.h
 * (golden/make_norm_loss.py writes it from the rows). Each runs in f64 by the reference kernels and in f32 by
 * the best ones, and replays at another batch. */
#include "ops/norm_loss/norm.h"
#include "support/test.h"
#include "weft/weft.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the rows: operands x, t [2,4,3], w, b [4], integer ids [2,3]; g is their graph ---- */

#define AXES(...)                                                                                            \
    (int64_t[]) {                                                                                            \
        __VA_ARGS__                                                                                          \
    }

/* A norm as the critics below take it. */
typedef weft_value *norm(weft_value *x, weft_value *w, weft_value *b);

static weft_value *layer_norm(weft_value *x, weft_value *w, weft_value *b) {
    return weft_layer_norm_op(x, w, b, 0);
}

/* The op of the layer, of an x [..., C]. */
static weft_value *batch_norm(weft_value *x, weft_value *w, weft_value *b) {
    int64_t shape[] = {-1, weft_dim(x, 1), 4}, flat[] = {-1, 4};
    weft_value *in[] = {weft_reshape(x, 2, flat), w, b};
    return weft_reshape(op_value(&weft_op_batch_norm, 3, in, &(norm_attrs){1e-5}), 3, shape);
}

static weft_value *rms_norm(weft_value *x, weft_value *w, weft_value *b) {
    return weft_add(weft_rms_norm_op(x, w, 0), b);
}

static weft_value *group_norm(weft_value *x, weft_value *w, weft_value *b) {
    return weft_group_norm_op(x, 2, w, b, 0);
}

/* Image i of t, without the batch: [4,3]. */
static weft_value *of_image(weft_value *t, int i) {
    return weft_reshape(weft_slice(t, 0, i, i + 1), 2, AXES(4, 3));
}

static weft_value *over_image(weft_value *x, weft_value *t) {
    weft_value *w = of_image(t, 0), *b = of_image(t, 1);
    return weft_layer_norm_op(x, w, b, 0);
}

/* A critic of x [N,4,3]: a layer (of t, as there is no weight), a norm, tanh. */
static weft_value *through(norm *of, weft_value *x, weft_value *t, weft_value *w, weft_value *b) {
    return weft_tanh(of(weft_matmul(x, t, false, true), w, b));
}

/* The gradient penalty of WGAN-GP: (|d critic / dx| - 1)^2 for each image. */
static weft_value *penalty(norm *of, weft_value *x, weft_value *t, weft_value *w, weft_value *b) {
    weft_value *y = weft_sum(through(of, x, t, w, b), WEFT_ALL, false), *dx = NULL;
    weft_gradients(y, 1, &x, &dx);
    weft_value *norms = weft_sqrt(weft_sum(weft_square(dx), 2, AXES(1, 2), false));
    return weft_square(weft_offset(norms, -1));
}

#define OPTIONS(...) (&(weft_loss){__VA_ARGS__})
#define INDEX(i)     (&(int64_t){i})

/* [2 N, 4] or [3 N, 4] of x [N,4,3]: its last axis becomes rows. */
static weft_value *rows_of(weft_value *x) {
    return weft_reshape(weft_transpose(x, 1, 2), 2, AXES(-1, 4));
}

/* Number 0 of the last axis, as [N,4,1]; w [4] as [4,1]. */
static weft_value *first_of(weft_value *t) {
    return weft_slice(t, 2, 0, 1);
}

static weft_value *column(weft_value *w) {
    return weft_unsqueeze(w, 1);
}

/* The sign of number 0 of each row of rows_of. */
static weft_value *sides_of_rows(weft_value *t) {
    return weft_reshape(weft_slice(weft_sign(rows_of(t)), 1, 0, 1), 1, AXES(-1));
}

static weft_value *fixed(weft_value *v) {
    return weft_stop_gradient(v);
}

/* [N,4,3,3], and targets [N,3,3] that differ along one of the last two axes. */
static weft_value *outer(weft_value *x, weft_value *t) {
    weft_value *column = weft_unsqueeze(x, 3), *row = weft_unsqueeze(t, 2);
    return weft_mul(column, row);
}

static weft_value *wide_ids(weft_value *ids) {
    return weft_broadcast_to(weft_unsqueeze(ids, 2), 3, AXES(-1, 3, 3));
}

/* Numbers in (0, 1). */
static weft_value *part(weft_value *t) {
    return weft_sigmoid(t);
}

/* 1 and -1. */
static weft_value *sides(weft_value *t) {
    return weft_sign(t);
}

/* Operands of recurrent ops: [12] of w and b, two times of [N, 12], a weight of n columns. */
static weft_value *twelve(weft_value *w, weft_value *b) {
    return weft_concat(3, (weft_value *[]){w, b, weft_mul(w, b)}, 0);
}

static weft_value *times(weft_value *x, weft_value *t) {
    weft_value *first = weft_reshape(x, 2, AXES(-1, 12)), *second = weft_reshape(t, 2, AXES(-1, 12));
    return weft_stack(2, (weft_value *[]){first, second}, 0);
}

static weft_value *crossed(weft_value *rows, weft_value *b, int n) {
    weft_value *left = column(rows);
    return weft_mul(left, weft_slice(b, 0, 0, n));
}

/* Row i of each image. */
static weft_value *row(weft_value *x, int i) {
    return weft_reshape(weft_slice(x, 1, i, i + 1), 2, AXES(-1, 3));
}

/* h of all times, then c of the last; batch first. */
static weft_value *lstm(weft_value *x, weft_value *t, weft_value *w, weft_value *b, bool reverse) {
    weft_value *weight = crossed(twelve(w, b), b, 3), *h0 = row(x, 0), *c0 = row(t, 1), *c = NULL;
    weft_value *h = weft_lstm_op(times(x, t), weight, h0, c0, reverse, &c);
    weft_value *last = weft_slice(c, 0, !reverse, 1 + !reverse);
    return weft_transpose(weft_concat(2, (weft_value *[]){h, last}, 0), 0, 1);
}

static weft_value *gru(weft_value *x, weft_value *t, weft_value *w, weft_value *b, bool reverse) {
    weft_value *weight = crossed(twelve(w, b), w, 4), *h0 = weft_reshape(first_of(x), 2, AXES(-1, 4));
    weft_value *bias = twelve(b, w);
    return weft_transpose(weft_gru_op(times(x, t), weight, h0, bias, reverse), 0, 1);
}

static weft_value *rnn(weft_value *x, weft_value *t, weft_value *w, weft_value *b, bool reverse, bool relu) {
    weft_value *weight = crossed(weft_slice(w, 0, 0, 3), b, 3), *h0 = row(t, 2);
    return weft_transpose(weft_rnn_op(weft_transpose(x, 0, 1), weight, h0, reverse, relu), 0, 1);
}

/* The penalty of a recurrent critic. */
static weft_value *slope_of_lstm(weft_value *x, weft_value *t, weft_value *w, weft_value *b) {
    weft_value *y = weft_sum(lstm(x, t, w, b, false), WEFT_ALL, false), *dx = NULL;
    weft_gradients(y, 1, &x, &dx);
    return dx;
}

/* 1: right at any batch (axis 0); 0: at the one that it was built for. Then Weft's call, and PyTorch's. */
/* clang-format off */
#define ROWS(X)                                                                                              \
    X(1, through(layer_norm, x, t, w, b), "through(lambda x, w, b: F.layer_norm(x, (4,), w, b), x, t, w, b)") \
    X(1, weft_layer_norm_op(x, NULL, NULL, 0.1), "F.layer_norm(x, (3,), eps=0.1)") \
    X(1, penalty(layer_norm, x, t, w, b), "penalty(lambda x: through(lambda x, w, b: composed(x, w, b, -1), x, t, w, b), x)") \
    X(1, through(batch_norm, x, t, w, b), "through(lambda x, w, b: batch_norm(x.flatten(0, 1), w, b).view(2, 4, 4), x, t, w, b)") \
    X(1, weft_layer_norm_op(weft_transpose(x, 1, 2), w, NULL, 0), "F.layer_norm(x.mT, (4,), w)") \
    X(1, over_image(x, t), "F.layer_norm(x, (4, 3), t[0], t[1])") \
    X(1, weft_rms_norm_op(x, NULL, 0), "F.rms_norm(x, (3,))") \
    X(1, through(rms_norm, x, t, w, b), "through(lambda x, w, b: F.rms_norm(x, (4,), w) + b, x, t, w, b)") \
    X(1, penalty(rms_norm, x, t, w, b), "penalty(lambda x: through(lambda x, w, b: F.rms_norm(x, (4,), w) + b, x, t, w, b), x)") \
    X(1, weft_rms_norm_op(x, of_image(t, 0), 0.1), "F.rms_norm(x, (4, 3), t[0], 0.1)") \
    X(1, through(group_norm, x, t, w, b), "through(lambda x, w, b: F.group_norm(x, 2, w, b), x, t, w, b)") \
    X(1, weft_group_norm_op(x, 1, w, NULL, 0.1), "F.group_norm(x, 1, w, eps=0.1)") \
    X(1, weft_group_norm_op(weft_reshape(x, 2, AXES(-1, 4)), 2, w, b, 0), "F.group_norm(x.reshape(-1, 4), 2, w, b)") \
    X(1, weft_instance_norm_op(x, w, b, 0), "F.instance_norm(x, weight=w, bias=b)") \
    X(1, weft_instance_norm_op(x, NULL, NULL, 0.5), "F.instance_norm(x, eps=0.5)") \
    X(1, penalty(batch_norm, x, t, w, b), "penalty(lambda x: through(lambda x, w, b: composed(x.flatten(0, 1), w, b, 0).view(2, 4, 4), x, t, w, b), x)") \
    X(1, weft_cross_entropy(x, ids, NULL), "F.cross_entropy(x, ids)") \
    X(1, weft_cross_entropy(rows_of(x), weft_reshape(ids, 1, AXES(-1)), NULL), "F.cross_entropy(rows_of(x), ids.flatten())") \
    X(1, weft_cross_entropy(x, ids, OPTIONS(.ignore_index = INDEX(2))), "F.cross_entropy(x, ids, ignore_index=2)") \
    X(1, weft_cross_entropy(x, ids, OPTIONS(.label_smoothing = 0.1)), "F.cross_entropy(x, ids, label_smoothing=0.1)") \
    X(1, weft_cross_entropy(x, ids, OPTIONS(.weight = fixed(w))), "F.cross_entropy(x, ids, weight=fixed(w))") \
    X(1, weft_cross_entropy(x, ids, OPTIONS(.weight = fixed(w), .ignore_index = INDEX(1), .reduction = WEFT_LOSS_SUM)), "F.cross_entropy(x, ids, weight=fixed(w), ignore_index=1, reduction='sum')") \
    X(1, weft_cross_entropy(x, ids, OPTIONS(.weight = fixed(w), .label_smoothing = 0.3, .ignore_index = INDEX(0))), "F.cross_entropy(x, ids, weight=fixed(w), label_smoothing=0.3, ignore_index=0)") \
    X(1, weft_cross_entropy(x, ids, OPTIONS(.weight = fixed(w), .label_smoothing = 0.3, .reduction = WEFT_LOSS_NONE)), "F.cross_entropy(x, ids, weight=fixed(w), label_smoothing=0.3, reduction='none')") \
    X(1, weft_cross_entropy(x, ids, OPTIONS(.label_smoothing = 0.2, .reduction = WEFT_LOSS_SUM)), "F.cross_entropy(x, ids, label_smoothing=0.2, reduction='sum')") \
    X(1, weft_cross_entropy(x, ids, OPTIONS(.reduction = WEFT_LOSS_NONE, .ignore_index = INDEX(3))), "F.cross_entropy(x, ids, reduction='none', ignore_index=3)") \
    X(1, weft_cross_entropy(x, ids, OPTIONS(.reduction = WEFT_LOSS_SUM)), "F.cross_entropy(x, ids, reduction='sum')") \
    X(1, weft_cross_entropy(rows_of(x), weft_reshape(ids, 1, AXES(-1)), OPTIONS(.ignore_index = INDEX(2))), "F.cross_entropy(rows_of(x), ids.flatten(), ignore_index=2)") \
    X(1, weft_cross_entropy(rows_of(x), weft_reshape(ids, 1, AXES(-1)), OPTIONS(.label_smoothing = 0.1)), "F.cross_entropy(rows_of(x), ids.flatten(), label_smoothing=0.1)") \
    X(1, weft_cross_entropy(rows_of(x), weft_reshape(ids, 1, AXES(-1)), OPTIONS(.weight = fixed(w))), "F.cross_entropy(rows_of(x), ids.flatten(), weight=fixed(w))") \
    X(1, weft_cross_entropy(rows_of(x), weft_reshape(ids, 1, AXES(-1)), OPTIONS(.weight = fixed(w), .ignore_index = INDEX(1), .reduction = WEFT_LOSS_SUM)), "F.cross_entropy(rows_of(x), ids.flatten(), weight=fixed(w), ignore_index=1, reduction='sum')") \
    X(1, weft_cross_entropy(rows_of(x), weft_reshape(ids, 1, AXES(-1)), OPTIONS(.weight = fixed(w), .label_smoothing = 0.3, .ignore_index = INDEX(0))), "F.cross_entropy(rows_of(x), ids.flatten(), weight=fixed(w), label_smoothing=0.3, ignore_index=0)") \
    X(1, weft_cross_entropy(x, weft_cast(weft_reshape(ids, 2, AXES(-1, 3)), WEFT_U8), NULL), "F.cross_entropy(x, ids)") \
    X(1, weft_cross_entropy(x, weft_cast(ids, WEFT_U8), OPTIONS(.label_smoothing = 0.5)), "F.cross_entropy(x, ids, label_smoothing=0.5)") \
    X(1, weft_cross_entropy(x, part(t), NULL), "F.cross_entropy(x, part(t))") \
    X(1, weft_cross_entropy(x, part(t), OPTIONS(.weight = fixed(w), .label_smoothing = 0.1)), "F.cross_entropy(x, part(t), weight=fixed(w), label_smoothing=0.1)") \
    X(1, weft_cross_entropy(rows_of(x), rows_of(t), OPTIONS(.weight = fixed(w), .reduction = WEFT_LOSS_NONE)), "F.cross_entropy(rows_of(x), rows_of(t), weight=fixed(w), reduction='none')") \
    X(1, weft_cross_entropy(outer(x, t), wide_ids(ids), OPTIONS(.reduction = WEFT_LOSS_NONE, .weight = fixed(w))), "F.cross_entropy(outer(x, t), wide_ids(ids), reduction='none', weight=fixed(w))") \
    X(1, weft_nll(weft_log_softmax(x, 1), ids, NULL), "F.nll_loss(F.log_softmax(x, 1), ids)") \
    X(1, weft_nll(x, ids, OPTIONS(.ignore_index = INDEX(2))), "F.nll_loss(x, ids, ignore_index=2)") \
    X(1, weft_nll(x, ids, OPTIONS(.weight = fixed(w))), "F.nll_loss(x, ids, weight=fixed(w))") \
    X(1, weft_nll(x, ids, OPTIONS(.weight = fixed(w), .ignore_index = INDEX(1), .reduction = WEFT_LOSS_SUM)), "F.nll_loss(x, ids, weight=fixed(w), ignore_index=1, reduction='sum')") \
    X(1, weft_nll(x, ids, OPTIONS(.reduction = WEFT_LOSS_NONE, .ignore_index = INDEX(3))), "F.nll_loss(x, ids, reduction='none', ignore_index=3)") \
    X(1, weft_nll(x, ids, OPTIONS(.reduction = WEFT_LOSS_SUM)), "F.nll_loss(x, ids, reduction='sum')") \
    X(1, weft_mse(x, t, NULL), "F.mse_loss(x, t)") \
    X(1, weft_mse(x, t, OPTIONS(.reduction = WEFT_LOSS_SUM)), "F.mse_loss(x, t, reduction='sum')") \
    X(1, weft_mse(x, t, OPTIONS(.reduction = WEFT_LOSS_NONE)), "F.mse_loss(x, t, reduction='none')") \
    X(1, weft_l1(x, t, NULL), "F.l1_loss(x, t)") \
    X(1, weft_l1(x, t, OPTIONS(.reduction = WEFT_LOSS_SUM)), "F.l1_loss(x, t, reduction='sum')") \
    X(1, weft_l1(x, t, OPTIONS(.reduction = WEFT_LOSS_NONE)), "F.l1_loss(x, t, reduction='none')") \
    X(1, weft_smooth_l1(x, t, NULL), "F.smooth_l1_loss(x, t)") \
    X(1, weft_smooth_l1(x, t, OPTIONS(.beta = 0.3)), "F.smooth_l1_loss(x, t, beta=0.3)") \
    X(1, weft_smooth_l1(x, t, OPTIONS(.beta = WEFT_ZERO)), "F.smooth_l1_loss(x, t, beta=0.0)") \
    X(1, weft_smooth_l1(x, t, OPTIONS(.beta = 2, .reduction = WEFT_LOSS_NONE)), "F.smooth_l1_loss(x, t, beta=2.0, reduction='none')") \
    X(1, weft_huber(x, t, NULL), "F.huber_loss(x, t)") \
    X(1, weft_huber(x, t, OPTIONS(.delta = 0.3)), "F.huber_loss(x, t, delta=0.3)") \
    X(1, weft_huber(x, t, OPTIONS(.delta = 2, .reduction = WEFT_LOSS_SUM)), "F.huber_loss(x, t, delta=2.0, reduction='sum')") \
    X(1, weft_kl_div(x, part(t), NULL), "F.kl_div(x, part(t))") \
    X(1, weft_kl_div(x, part(t), OPTIONS(.reduction = WEFT_LOSS_SUM)), "F.kl_div(x, part(t), reduction='sum')") \
    X(1, weft_kl_div(x, part(t), OPTIONS(.reduction = WEFT_LOSS_NONE)), "F.kl_div(x, part(t), reduction='none')") \
    X(1, weft_kl_div(x, part(t), OPTIONS(.reduction = WEFT_LOSS_BATCHMEAN)), "F.kl_div(x, part(t), reduction='batchmean')") \
    X(1, weft_kl_div(x, t, OPTIONS(.log_target = true)), "F.kl_div(x, t, log_target=True)") \
    X(1, weft_hinge_embedding(x, sides(t), NULL), "F.hinge_embedding_loss(x, sides(t))") \
    X(1, weft_hinge_embedding(x, sides(t), OPTIONS(.margin = 0.3)), "F.hinge_embedding_loss(x, sides(t), margin=0.3)") \
    X(1, weft_hinge_embedding(x, sides(t), OPTIONS(.margin = WEFT_ZERO, .reduction = WEFT_LOSS_NONE)), "F.hinge_embedding_loss(x, sides(t), margin=0.0, reduction='none')") \
    X(1, weft_margin_ranking(x, t, sides(t), NULL), "F.margin_ranking_loss(x, t, sides(t))") \
    X(1, weft_margin_ranking(x, t, sides(x), OPTIONS(.margin = 0.4, .reduction = WEFT_LOSS_NONE)), "F.margin_ranking_loss(x, t, sides(x), 0.4, reduction='none')") \
    X(1, weft_bce(part(x), part(t), NULL), "F.binary_cross_entropy(part(x), part(t))") \
    X(1, weft_bce(part(x), part(t), OPTIONS(.reduction = WEFT_LOSS_SUM)), "F.binary_cross_entropy(part(x), part(t), reduction='sum')") \
    X(1, weft_bce(part(x), part(t), OPTIONS(.weight = fixed(first_of(t)))), "F.binary_cross_entropy(part(x), part(t), weight=fixed(first_of(t)))") \
    X(1, weft_bce_with_logits(x, part(t), &(weft_loss){.reduction = WEFT_LOSS_NONE}), "F.binary_cross_entropy_with_logits(x, part(t), reduction='none')") \
    X(1, weft_bce_with_logits(x, part(t), NULL), "F.binary_cross_entropy_with_logits(x, part(t))") \
    X(1, weft_bce_with_logits(x, part(t), OPTIONS(.pos_weight = fixed(first_of(t)))), "F.binary_cross_entropy_with_logits(x, part(t), pos_weight=fixed(first_of(t)))") \
    X(1, weft_bce_with_logits(x, part(t), OPTIONS(.pos_weight = fixed(column(w)), .weight = fixed(column(b)), .reduction = WEFT_LOSS_SUM)), "F.binary_cross_entropy_with_logits(x, part(t), pos_weight=fixed(column(w)), weight=fixed(column(b)), reduction='sum')") \
    X(1, weft_triplet_margin(x, t, weft_offset(x, 0.1), NULL), "F.triplet_margin_loss(x, t, x + 0.1)") \
    X(1, weft_triplet_margin(x, weft_tanh(t), t, OPTIONS(.margin = 2, .swap = true, .reduction = WEFT_LOSS_NONE)), "F.triplet_margin_loss(x, t.tanh(), t, margin=2.0, swap=True, reduction='none')") \
    X(1, weft_triplet_margin(x, t, weft_tanh(x), OPTIONS(.p = 1)), "F.triplet_margin_loss(x, t, x.tanh(), p=1)") \
    X(1, weft_cosine_embedding(rows_of(x), rows_of(t), sides_of_rows(t), NULL), "F.cosine_embedding_loss(rows_of(x), rows_of(t), sides_of_rows(t))") \
    X(1, weft_cosine_embedding(rows_of(x), rows_of(t), sides_of_rows(t), OPTIONS(.margin = 0.2, .reduction = WEFT_LOSS_NONE)), "F.cosine_embedding_loss(rows_of(x), rows_of(t), sides_of_rows(t), 0.2, reduction='none')") \
    X(1, lstm(x, t, w, b, false), "lstm(x, t, w, b)") \
    X(1, lstm(x, t, w, b, true), "lstm(x, t, w, b, True)") \
    X(1, slope_of_lstm(x, t, w, b), "grad(lstm(x, t, w, b).sum(), x, create_graph=True)[0]") \
    X(1, gru(x, t, w, b, false), "gru(x, t, w, b)") \
    X(1, gru(x, t, w, b, true), "gru(x, t, w, b, True)") \
    X(1, rnn(x, t, w, b, false, false), "rnn(torch.rnn_tanh, x, t, w, b)") \
    X(1, rnn(x, t, w, b, true, false), "rnn(torch.rnn_tanh, x, t, w, b, True)") \
    X(1, rnn(x, t, w, b, true, true), "rnn(torch.rnn_relu, x, t, w, b, True)") \
    X(1, weft_cosine_similarity(x, t, 1, 0), "F.cosine_similarity(x, t)") \
    X(1, weft_cosine_similarity(x, t, -1, 0.9), "F.cosine_similarity(x, t, -1, 0.9)") \
    X(1, weft_cosine_similarity(column(w), x, 2, 0), "F.cosine_similarity(column(w), x, 2)") \
    X(1, weft_normalize(x, 1, 0), "F.normalize(x)") \
    X(1, weft_normalize(x, -1, 1), "F.normalize(x, dim=-1, eps=1.0)")
/* clang-format on */

static weft_value *build(int row, weft_value *x, weft_value *t, weft_value *w, weft_value *b,
                         weft_value *ids) {
    int i = 0;
    weft_graph *g = weft_value_graph(x);
    (void)g, (void)t, (void)w, (void)b, (void)ids;
#define X(any_batch, call, torch)                                                                            \
    if (row == i++) return call;
    ROWS(X)
#undef X
    return NULL;
}

static const struct {
    bool any_batch;
    const char *torch;
} rows[] = {
#define X(any_batch, call, torch) {any_batch, torch},
    ROWS(X)
#undef X
};
enum { N_ROWS = sizeof rows / sizeof *rows };

static const struct {
    const char *torch, *numbers;
} golden[] = {
#include "golden/norm_loss.h"
};

/* ---- running a row ---- */

enum { OPERANDS = 4, MOST = 256, BATCH = 4 };
static const char operands[OPERANDS][2] = {"x", "t", "w", "b"};

/* The sum of the squares of all values. */
static weft_value *squares(int n, weft_value *const *values) {
    weft_value *sum = NULL;
    for (int i = 0; i < n; i++) {
        weft_value *part = weft_sum(weft_square(values[i]), WEFT_ALL, false);
        sum = sum ? weft_add(sum, part) : part;
    }
    return sum;
}

/* Outputs y, its gradients x, t, w, b, and those of their squares, x2, t2, w2, b2. */
static weft_model *model_of(int row, weft_dtype dtype, int64_t default_batch) {
    weft_model *m = weft_model_new("norm_loss");
    weft_model_set_batch(m, default_batch);
    weft_graph *g = weft_graph_new(m, "g", WEFT_TRAIN);
    weft_value *by[OPERANDS], *first[OPERANDS] = {0}, *second[OPERANDS] = {0};
    for (int i = 0; i < OPERANDS; i++)
        by[i] = i < 2 ? weft_input(g, operands[i], dtype, 3, AXES(WEFT_BATCH, 4, 3))
                      : weft_input(g, operands[i], dtype, 1, AXES(4));
    weft_value *ids = weft_input(g, "ids", WEFT_I64, 2, AXES(WEFT_BATCH, 3));
    weft_value *y = build(row, by[0], by[1], by[2], by[3], ids);
    weft_output(y, "y");
    if (!y) return m;
    weft_gradients(squares(1, &y), OPERANDS, by, first);
    if (!first[0]) return m;
    weft_gradients(squares(OPERANDS, first), OPERANDS, by, second);
    for (int i = 0; i < OPERANDS; i++) {
        char name[] = {operands[i][0], '2', 0};
        weft_output(first[i], operands[i]);
        weft_output(second[i], name);
    }
    return m;
}

/* Number i of operand `salt`, as in make_norm_loss.py. */
static double operand(int salt, int i) {
    return (i * 37 + salt * 29 + 11) % 101 / 50.0 - 1;
}

/* Operands in room for MOST elements each. */
typedef struct feed_room {
    double wide[OPERANDS][MOST];
    float narrow[OPERANDS][MOST];
    int64_t ids[MOST];
} feed_room;

static int feeds_fill(const weft_plan *plan, weft_dtype dtype, feed_room *room, weft_feed *feeds) {
    weft_port port;
    int n = 0;
    for (int k = 0; k < OPERANDS; k++)
        for (int i = 0; i < MOST; i++) {
            room->wide[k][i] = operand(k + 1, i);
            room->narrow[k][i] = (float)room->wide[k][i];
        }
    for (int i = 0; i < MOST; i++) room->ids[i] = (5 * i + i / 4) % 4;
    for (; weft_plan_input(plan, "g", n, &port); n++) {
        int k = 0;
        while (k < OPERANDS && strcmp(port.name, operands[k])) k++;
        const void *data = k == OPERANDS       ? (const void *)room->ids
                           : dtype == WEFT_F64 ? (const void *)room->wide[k]
                                               : (const void *)room->narrow[k];
        feeds[n] = (weft_feed){port.name, data, port.bytes};
    }
    return n;
}

/* One fetched output, as doubles. */
typedef struct result {
    char name[16];
    int n;
    double v[MOST];
} result;

typedef struct results {
    int n;
    result of[2 * OPERANDS + 1];
} results;

static void results_read(results *r, weft_dtype dtype, const weft_fetch *fetches) {
    for (int i = 0; i < r->n; i++)
        for (int k = 0; k < r->of[i].n; k++)
            r->of[i].v[k] =
                dtype == WEFT_F64 ? ((double *)fetches[i].data)[k] : ((float *)fetches[i].data)[k];
}

/* Runs the model at this batch (0: its default). */
static results *run_model(weft_model *m, weft_dtype dtype, int64_t batch, weft_isa isa, const char *what) {
    weft_error e = {0};
    weft_port port;
    weft_feed feeds[OPERANDS + 1];
    weft_fetch fetches[2 * OPERANDS + 1];
    feed_room *room = test_memory(sizeof *room);
    results *r = test_memory(sizeof *r);
    r->n = 0;
    weft_plan *plan = weft_compile(
        m, &(weft_compile_options){.isa = isa, .batch = batch, .threads = 2, .verify = true}, &e);
    weft_store *store = plan ? weft_store_new(plan, 1, &e) : NULL;
    weft_session *session = store ? weft_session_open(plan, store, &e) : NULL;
    for (; session && weft_plan_output(plan, "g", r->n, &port); r->n++) {
        fetches[r->n] = (weft_fetch){port.name, test_memory(port.bytes), port.bytes};
        snprintf(r->of[r->n].name, sizeof r->of[0].name, "%s", port.name);
        r->of[r->n].n = (int)(port.bytes / (dtype == WEFT_F64 ? sizeof(double) : sizeof(float)));
    }
    int n = session ? feeds_fill(plan, dtype, room, feeds) : 0;
    if (CHECK_SAYS(session && weft_run(session, "g", feeds, n, fetches, r->n, &e) == WEFT_OK, "%s: %s", what,
                   e.text))
        results_read(r, dtype, fetches);
    for (int i = 0; i < r->n; i++) free(fetches[i].data);
    weft_session_close(session);
    weft_store_free(store);
    weft_plan_free(plan);
    free(room);
    return r;
}

/* ---- comparing ---- */

static const result *result_named(const results *r, const char *name) {
    for (int i = 0; i < r->n; i++)
        if (strcmp(r->of[i].name, name) == 0) return &r->of[i];
    return NULL;
}

/* Reads one section, "NAME numbers", up to | or the end. */
static const char *section_read(const char *at, result *into) {
    size_t length = strcspn(at, " ");
    snprintf(into->name, sizeof into->name, "%.*s", (int)length, at);
    at += length;
    for (into->n = 0; *at == ' ' && into->n < MOST; into->n++) {
        char *end;
        into->v[into->n] = strtod(at, &end);
        at = end;
    }
    return *at == '|' ? at + 1 : at;
}

/* The largest difference, as a part of the largest number, or of 1: what cancels is known to so much. */
static double apart(const result *a, const result *b) {
    double most = 1, off = 0;
    if (!a || a->n != b->n) return INFINITY;
    for (int i = 0; i < b->n; i++) {
        most = fmax(most, fabs(b->v[i]));
        off = fmax(off, isfinite(a->v[i]) ? fabs(a->v[i] - b->v[i]) : INFINITY);
    }
    return off / most;
}

static void check_row(const char *torch, const char *numbers, const results *got, double within,
                      const char *how) {
    while (*numbers) {
        result want;
        numbers = section_read(numbers, &want);
        double off = apart(result_named(got, want.name), &want);
        CHECK_SAYS(off <= within, "%s: %s in %s is off by %g", torch, want.name, how, off);
    }
}

TEST(values_gradients_and_second_gradients_are_those_of_pytorch) {
    NEED(sizeof golden / sizeof *golden == N_ROWS);
    for (int i = 0; i < N_ROWS; i++) {
        CHECK_TEXT(golden[i].torch, rows[i].torch); /* else: make_norm_loss.py was not run */
        for (int k = 0; k < 2; k++) {
            weft_dtype dtype = k ? WEFT_F32 : WEFT_F64;
            weft_model *m = model_of(i, dtype, 2);
            CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s: %s", rows[i].torch,
                       weft_model_error(m)->text);
            results *got = run_model(m, dtype, 0, k ? WEFT_ISA_AUTO : WEFT_ISA_REFERENCE, rows[i].torch);
            check_row(rows[i].torch, golden[i].numbers, got, k ? 2e-4 : 1e-9, k ? "f32" : "f64");
            weft_model_free(m);
            free(got);
        }
    }
}

/* What was built at batch 2 and compiled for BATCH is what was built at BATCH. */
TEST(they_replay_at_another_batch) {
    for (int i = 0; i < N_ROWS; i++) {
        if (!rows[i].any_batch) continue;
        weft_model *two = model_of(i, WEFT_F64, 2), *four = model_of(i, WEFT_F64, BATCH);
        results *replayed = run_model(two, WEFT_F64, BATCH, WEFT_ISA_REFERENCE, rows[i].torch);
        results *direct = run_model(four, WEFT_F64, 0, WEFT_ISA_REFERENCE, rows[i].torch);
        CHECK(replayed->n == direct->n);
        for (int k = 0; k < direct->n; k++) {
            double off = apart(result_named(replayed, direct->of[k].name), &direct->of[k]);
            CHECK_SAYS(off <= 1e-12, "%s: %s is off by %g", rows[i].torch, direct->of[k].name, off);
        }
        weft_model_free(two);
        weft_model_free(four);
        free(replayed);
        free(direct);
    }
}

/* ---- weights that are computed: two training steps, then eval ---- */

static const struct {
    const char *kind, *numbers;
} weight_norms[] = {
#include "golden/weight_norms.h"
};

/* Variables of a layer, in the order of their names, and their shapes. */
typedef struct layer_state {
    int n;
    const char *path[4];
    int64_t elements[4];
} layer_state;

static weft_value *layer(weft_value *x, const char *kind) {
    weft_parametrization form = strstr(kind, "spectral") ? WEFT_SPECTRAL_NORM : WEFT_WEIGHT_NORM;
    if (strstr(kind, "linear"))
        return weft_linear(x, 4, "fc", &(weft_linear_options){.parametrization = form});
    weft_conv conv = {.out = 4, .kernel = 3, .parametrization = form}, up = {3, 2, .parametrization = form};
    return strstr(kind, "up") ? weft_conv_transpose2d(x, &up, "fc") : weft_conv2d(x, &conv, "fc");
}

static layer_state state_of(const char *kind) {
    bool up = strstr(kind, "up") != NULL, linear = strstr(kind, "linear") != NULL;
    int64_t weight = linear ? 12 : up ? 24 : 72, out = up ? 3 : 4, lengths = up ? 2 : 4;
    if (strstr(kind, "spectral"))
        return (layer_state){4,
                             {"fc/bias", "fc/parametrizations/weight/0/_u", "fc/parametrizations/weight/0/_v",
                              "fc/parametrizations/weight/original"},
                             {out, out, weight / out, weight}};
    return (layer_state){
        3,
        {"fc/bias", "fc/parametrizations/weight/original0", "fc/parametrizations/weight/original1"},
        {out, lengths, weight}};
}

/* Graph `train` outputs y and the gradients g0, g1, ... of the sum of its squares; graph `eval` y. */
static weft_model *layer_model(const char *kind) {
    weft_model *m = weft_model_new("layer");
    bool linear = strstr(kind, "linear") != NULL;
    for (int k = 0; k < 2; k++) {
        weft_graph *g = weft_graph_new(m, k ? "eval" : "train", k ? WEFT_EVAL : WEFT_TRAIN);
        weft_value *x = linear ? weft_input(g, "x", WEFT_F32, 2, AXES(2, 3))
                               : weft_input(g, "x", WEFT_F32, 4, AXES(2, 2, 4, 4));
        weft_value *y = layer(x, kind), *by[3] = {0}, *found[3] = {0};
        weft_output(y, "y");
        if (k || !y) continue;
        bool spectral = strstr(kind, "spectral") != NULL;
        int64_t out = strstr(kind, "up") ? 3 : 4;
        int64_t shape[4] = {linear || !strstr(kind, "up") ? 4 : 2,
                            linear               ? 3
                            : strstr(kind, "up") ? 3
                                                 : 2,
                            strstr(kind, "up") ? 2 : 3, strstr(kind, "up") ? 2 : 3};
        int ndim = linear ? 2 : 4, n = spectral ? 2 : 3;
        WEFT_SCOPE(x, "fc") {
            by[0] = weft_parameter(x, "bias", 1, &out, (weft_init){0});
            WEFT_SCOPE(x, "parametrizations") WEFT_SCOPE(x, "weight") {
                int64_t lengths[] = {shape[0], 1, 1, 1};
                if (!spectral) by[1] = weft_parameter(x, "original0", ndim, lengths, (weft_init){0});
                by[n - 1] =
                    weft_parameter(x, spectral ? "original" : "original1", ndim, shape, (weft_init){0});
            }
        }
        weft_gradients(squares(1, &y), n, by, found);
        for (int i = 0; i < n; i++) weft_output(found[i], (char[]){'g', (char)('0' + i), 0});
    }
    return m;
}

static void set_operand(weft_store *store, const char *path, int salt, int64_t n) {
    float v[MOST];
    double squares = 0;
    weft_error e = {0};
    for (int i = 0; i < n; i++) squares += operand(salt, i) * operand(salt, i);
    bool is_unit = strstr(path, "/_") != NULL;
    for (int i = 0; i < n; i++) v[i] = (float)(operand(salt, i) / (is_unit ? sqrt(squares) : 1));
    CHECK_SAYS(weft_store_set(store, path, v, (size_t)n * sizeof *v, &e) == WEFT_OK, "%s", e.text);
}

/* Runs a graph on operand 1; its outputs, as NAME and `step`, are added to r. */
static void run_layer(weft_session *session, const weft_plan *plan, const char *graph, const char *step,
                      results *r) {
    float x[MOST], out[4][MOST];
    weft_error e = {0};
    weft_port port, in;
    weft_fetch fetches[4];
    int n = 0;
    for (int i = 0; i < MOST; i++) x[i] = (float)operand(1, i);
    for (; weft_plan_output(plan, graph, n, &port); n++)
        fetches[n] = (weft_fetch){port.name, out[n], port.bytes};
    NEED(weft_plan_input(plan, graph, 0, &in));
    CHECK_SAYS(weft_run(session, graph, &(weft_feed){"x", x, in.bytes}, 1, fetches, n, &e) == WEFT_OK, "%s",
               e.text);
    for (int i = 0; i < n; i++) {
        result *to = &r->of[r->n++];
        bool is_y = fetches[i].name[0] == 'y';
        snprintf(to->name, sizeof to->name, "%s%s", is_y ? "" : fetches[i].name, is_y ? step : "");
        to->n = (int)(fetches[i].bytes / sizeof(float));
        for (int k = 0; k < to->n; k++) to->v[k] = out[i][k];
    }
}

TEST(parametrized_weights_are_those_of_pytorch) {
    for (size_t i = 0; i < sizeof weight_norms / sizeof *weight_norms; i++) {
        const char *kind = weight_norms[i].kind;
        weft_error e = {0};
        weft_model *m = layer_model(kind);
        layer_state state = state_of(kind);
        weft_plan *plan = weft_compile(m, &(weft_compile_options){.threads = 2, .verify = true}, &e);
        weft_store *store = plan ? weft_store_new(plan, 1, &e) : NULL;
        weft_session *session = store ? weft_session_open(plan, store, &e) : NULL;
        results *first = test_memory(sizeof *first), *r = test_memory(sizeof *r);
        first->n = r->n = 0;
        NEED(CHECK_SAYS(session, "%s: %s", kind, e.text));
        for (int k = 0; k < state.n; k++) set_operand(store, state.path[k], k + 5, state.elements[k]);
        run_layer(session, plan, "train", "y1", first);
        run_layer(session, plan, "train", "y2", r);
        run_layer(session, plan, "eval", "e", r);
        for (int k = 0, s = 0; k < state.n; k++) {
            if (!strstr(state.path[k], "/_")) continue;
            float v[MOST];
            result *to = &r->of[r->n++];
            *to = (result){.n = (int)state.elements[k]};
            snprintf(to->name, sizeof to->name, "s%d", s++);
            CHECK(weft_store_get(store, state.path[k], v, (size_t)to->n * sizeof *v, &e) == WEFT_OK);
            for (int j = 0; j < to->n; j++) to->v[j] = v[j];
        }
        r->of[r->n++] = first->of[0];
        check_row(kind, weight_norms[i].numbers, r, 1e-5, "f32");
        weft_session_close(session);
        weft_store_free(store);
        weft_plan_free(plan);
        weft_model_free(m);
        free(first);
        free(r);
    }
}

/* ---- eval ---- */

/* With mean 0, variance 1, weight 1 and bias 0: y = k x, k = (1 + eps)^(-1/2). The gradient of the
 * sum of y^3 is 3 k y^2, and the gradient of its sum of squares 36 k^3 y^3. */
TEST(batch_norm_in_eval_graphs_has_second_gradients) {
    weft_error e = {0};
    weft_model *m = weft_model_new("eval");
    weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
    weft_value *x = weft_input(g, "x", WEFT_F32, 2, AXES(3, 2)), *dx = NULL, *second = NULL;
    weft_value *y = weft_batch_norm(x, "bn", NULL);
    weft_gradients(weft_sum(weft_mul(y, weft_square(y)), WEFT_ALL, false), 1, &x, &dx);
    weft_gradients(squares(1, &dx), 1, &x, &second);
    weft_output(second, "second");
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.verify = true}, &e);
    weft_store *store = plan ? weft_store_new(plan, 1, &e) : NULL;
    weft_session *session = store ? weft_session_open(plan, store, &e) : NULL;
    float in[6], out[6];
    for (int i = 0; i < 6; i++) in[i] = (float)operand(1, i);
    weft_feed feed = {"x", in, sizeof in};
    weft_fetch fetch = {"second", out, sizeof out};
    CHECK_SAYS(session && weft_run(session, "g", &feed, 1, &fetch, 1, &e) == WEFT_OK, "%s", e.text);
    for (int i = 0; session && i < 6; i++) {
        double k = 1 / sqrt(1 + 1e-5), want = 36 * k * k * k * pow(k * in[i], 3);
        CHECK_SAYS(fabs(out[i] - want) <= 1e-5 * (1 + fabs(want)), "%g, not %g", out[i], want);
    }
    weft_session_close(session);
    weft_store_free(store);
    weft_plan_free(plan);
    weft_model_free(m);
}

/* ---- targets ---- */

/* By nll, by nll and cross_entropy with weights, of rows and of images: the run's status for the targets. The
 * first target is ignored. */
static weft_status run_targets(int loss, bool is_image, weft_dtype dtype, const void *targets, size_t bytes) {
    weft_error e = {0};
    weft_model *m = weft_model_new("targets");
    weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
    weft_value *x = weft_constant(g, WEFT_F32, is_image ? 3 : 2, is_image ? AXES(1, 4, 2) : AXES(2, 4), 0.5);
    weft_value *t = weft_input(g, "t", dtype, is_image ? 2 : 1, is_image ? AXES(1, 2) : AXES(2));
    weft_loss o = {.ignore_index = INDEX(7), .reduction = WEFT_LOSS_SUM};
    if (loss) o.weight = weft_constant(g, WEFT_F32, 1, AXES(4), 2);
    weft_output(loss == 2 ? weft_cross_entropy(x, t, &o) : weft_nll(x, t, &o), "loss");
    weft_plan *plan = weft_compile(m, &(weft_compile_options){0}, &e);
    weft_store *store = plan ? weft_store_new(plan, 1, &e) : NULL;
    weft_session *session = store ? weft_session_open(plan, store, &e) : NULL;
    weft_feed feed = {"t", targets, bytes};
    float got = 0;
    if (session) weft_run(session, "g", &feed, 1, &(weft_fetch){"loss", &got, sizeof got}, 1, &e);
    CHECK_SAYS(!e.status || e.status == WEFT_DATA, "%s", e.text);
    if (!e.status && loss < 2) CHECK(got == (loss ? -1.0f : -0.5f));
    weft_session_close(session);
    weft_store_free(store);
    weft_plan_free(plan);
    weft_model_free(m);
    return e.status;
}

TEST(targets_that_are_no_class_and_not_ignored_fail_the_run) {
    for (int loss = 0; loss < 3; loss++)
        for (int is_image = 0; is_image < 2; is_image++) {
            static const int64_t good[] = {7, 3}, above[] = {7, 4}, below[] = {7, -1};
            static const uint8_t small[] = {7, 3}, large[] = {7, 255};
            CHECK(run_targets(loss, is_image, WEFT_I64, good, sizeof good) == WEFT_OK);
            CHECK(run_targets(loss, is_image, WEFT_I64, above, sizeof above) == WEFT_DATA);
            CHECK(run_targets(loss, is_image, WEFT_I64, below, sizeof below) == WEFT_DATA);
            CHECK(run_targets(loss, is_image, WEFT_U8, small, sizeof small) == WEFT_OK);
            CHECK(run_targets(loss, is_image, WEFT_U8, large, sizeof large) == WEFT_DATA);
        }
}

/* ---- errors: the sentence, with this file and the scope ---- */

/* clang-format off */
#define ERRORS(X)                                                                                            \
    X(weft_layer_norm_op(x, weft_reshape(w, 2, AXES(2, 2)), NULL, 0), "layer_norm: the weight is f32[2,2], x f32[2,4,3]: it must have the lengths") \
    X(weft_layer_norm_op(x, NULL, b, 0), "layer_norm: a bias without a weight") \
    X(weft_rms_norm_op(x, w, 0), "rms_norm: weight is f32[4]: it must be [3]") \
    X(weft_group_norm_op(x, 3, w, b, 0), "group_norm: 3 groups of the 4 channels of f32[2,4,3]") \
    X(weft_group_norm_op(w, 1, NULL, NULL, 0), "group_norm: x is f32[4]: it must be [N, C, ...]") \
    X(weft_group_norm_op(weft_transpose(x, 1, 2), 1, w, NULL, 0), "group_norm: the weight is f32[4]: it must be [3]") \
    X(weft_instance_norm_op(weft_slice(x, 2, 0, 1), w, b, 0), "with more than one element a channel") \
    X(weft_layer_norm(x, "n", &(weft_norm_options){.axes = 4}), "layer_norm: axes=4 of f32[2,4,3]: it must be 1 to 3") \
    X(weft_group_norm(x, 2, "n", &(weft_norm_options){.axes = 2}), "group_norm: axes=2: only layer_norm and rms_norm") \
    X(weft_instance_norm(x, "n", &(weft_norm_options){.eps = -1}), "layer_norm: eps must not be negative") \
    X(weft_rms_norm(x, "n", &(weft_norm_options){.no_weight = true, .weight = &(weft_init){0}}), "no_weight, and an initializer") \
    X(weft_cross_entropy(x, w, NULL), "cross_entropy: x is f32[2,4,3], the target f32[4]: it must be [N, C] or") \
    X(weft_cross_entropy(x, ids, OPTIONS(.weight = weft_slice(w, 0, 0, 3))), "cross_entropy: the weight is f32[3]: it must be [4]") \
    X(weft_cross_entropy(x, ids, OPTIONS(.label_smoothing = 1.5)), "cross_entropy: label_smoothing=1.5: it must be 0 to 1") \
    X(weft_cross_entropy(x, t, OPTIONS(.ignore_index = INDEX(1))), "cross_entropy: the targets are probabilities") \
    X(weft_cross_entropy(x, ids, OPTIONS(.reduction = (weft_reduction)7)), "cross_entropy: reduction=7") \
    X(weft_cross_entropy(x, ids, OPTIONS(.margin = 1)), "cross_entropy: this loss has no option margin") \
    X(weft_nll(x, weft_slice(w, 0, 0, 3), NULL), "nll: x is f32[2,4,3], the target f32[3]") \
    X(weft_nll(x, weft_cast(ids, WEFT_F32), NULL), "nll: the target is f32[2,3]: it must be integer") \
    X(weft_mse(x, t, OPTIONS(.weight = w)), "mse: this loss has no option weight") \
    X(weft_l1(x, w, NULL), "l1: the prediction is f32[2,4,3], the target f32[4]") \
    X(weft_l1(x, t, OPTIONS(.reduction = WEFT_LOSS_BATCHMEAN)), "l1: this loss has no option WEFT_LOSS_BATCHMEAN") \
    X(weft_smooth_l1(x, t, OPTIONS(.beta = -1)), "smooth_l1: beta=-1: it must be 0 or more") \
    X(weft_smooth_l1(x, t, OPTIONS(.delta = 1)), "smooth_l1: this loss has no option delta") \
    X(weft_huber(x, t, OPTIONS(.delta = WEFT_ZERO)), "it must be above 0 (0 means 1)") \
    X(weft_huber(x, t, OPTIONS(.beta = 1)), "huber: this loss has no option beta") \
    X(weft_kl_div(x, t, OPTIONS(.swap = true)), "kl_div: this loss has no option swap") \
    X(weft_bce(x, t, OPTIONS(.weight = w)), "bce: the weight is f32[4]: it must broadcast to the prediction, f32[2,4,3]") \
    X(weft_bce(x, t, OPTIONS(.pos_weight = w)), "bce: this loss has no option pos_weight") \
    X(weft_bce_with_logits(x, t, OPTIONS(.pos_weight = w)), "bce_with_logits: the pos_weight is f32[4]") \
    X(weft_bce_with_logits(x, t, OPTIONS(.ignore_index = INDEX(0))), "bce_with_logits: this loss has no option ignore_index") \
    X(weft_hinge_embedding(x, t, OPTIONS(.log_target = true)), "hinge_embedding: this loss has no option log_target") \
    X(weft_hinge_embedding(x, t, OPTIONS(.margin = INFINITY)), "hinge_embedding: margin=inf: it must be finite") \
    X(weft_margin_ranking(x, t, w, NULL), "margin_ranking: the prediction is f32[2,4,3], the target f32[4]") \
    X(weft_cosine_embedding(x, t, w, NULL), "cosine_embedding: a is f32[2,4,3]") \
    X(weft_triplet_margin(x, t, x, OPTIONS(.p = 3)), "triplet_margin: p=3: the norm must be 1 or 2") \
    X(weft_triplet_margin(x, t, w, NULL), "triplet_margin: the prediction is f32[2,4,3], the target f32[4]") \
    X(weft_cosine_similarity(x, t, 3, 0), "cosine_similarity: f32[2,4,3] has no axis 3") \
    X(weft_spectral_norm(x, 3, 1, "s"), "spectral_norm: f32[2,4,3] has no axis 3") \
    X(weft_spectral_norm(x, 0, 0, "s"), "spectral_norm: 0 iterations") \
    X(weft_weight_norm(x, w, 0), "weight_norm: g is f32[4]: it must be f32[2,1,1]") \
    X(weft_weight_norm(w, b, 0), "weight_norm: f32[4] with axis 0") \
    X(weft_linear(x, 4, "fc", &(weft_linear_options){.parametrization = (weft_parametrization)9}), "parametrization=9") \
    X(weft_normalize(x, -4, 0), "normalize: f32[2,4,3] has no axis -4")
/* clang-format on */

static weft_value *build_wrong(int row, weft_value *x, weft_value *t, weft_value *w, weft_value *b,
                               weft_value *ids) {
    int i = 0;
#define X(call, error)                                                                                       \
    if (row == i++) return call;
    ERRORS(X)
#undef X
    return NULL;
}

TEST(errors_name_file_scope_and_rule) {
    static const char *const errors[] = {
#define X(call, error) error,
        ERRORS(X)
#undef X
    };
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        weft_model *m = weft_model_new("m");
        weft_model_set_batch(m, 2);
        weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
        weft_value *x = weft_input(g, "x", WEFT_F32, 3, AXES(WEFT_BATCH, 4, 3)), *y = x;
        weft_value *t = weft_input(g, "t", WEFT_F32, 3, AXES(WEFT_BATCH, 4, 3));
        weft_value *w = weft_input(g, "w", WEFT_F32, 1, AXES(4)),
                   *b = weft_input(g, "b", WEFT_F32, 1, AXES(4));
        weft_value *ids = weft_input(g, "ids", WEFT_I64, 2, AXES(WEFT_BATCH, 3));
        WEFT_SCOPE(x, "net") y = build_wrong((int)i, x, t, w, b, ids);
        CHECK_SAYS(y == NULL, "%s: there is a value", errors[i]);
        CHECK_HOLDS(weft_model_error(m)->text, errors[i]);
        CHECK_HOLDS(weft_model_error(m)->text, "test_norm_loss.c:");
        CHECK_HOLDS(weft_model_error(m)->text, "in net");
        weft_model_free(m);
    }
}

SUITE("norm loss",
      {T(batch_norm_in_eval_graphs_has_second_gradients), T(parametrized_weights_are_those_of_pytorch),
       T(errors_name_file_scope_and_rule), T(values_gradients_and_second_gradients_are_those_of_pytorch),
       T(targets_that_are_no_class_and_not_ignored_fail_the_run), T(they_replay_at_another_batch)})
