/* recurrent.c - LSTM, GRU and RNN. The inputs' part is one product for all times, and the steps are Weft's
 * fused ones; a GRU that resets before its product and an LSTM with peepholes are built step by step. Weights
 * are cut into gates, which ONNX has in another order. */
#include "interchange/onnx/operators/families.h"

enum { X, W, R, B, LENGTHS, H0, C0, PEEPHOLES };
enum { MOST_STEPS = 256, MOST_GATES = 4 };

typedef enum recurrent_kind { RNN, GRU, LSTM } recurrent_kind;

/* Weft's gate i is ONNX's gate order[i]. */
static const struct {
    int gates;
    int order[MOST_GATES];
    int activations; /* of a direction */
    const char *activation[3];
} kinds[] = {
    [RNN] = {1, {0}, 1, {"Tanh"}},
    [GRU] = {3, {1, 0, 2}, 2, {"Sigmoid", "Tanh"}},             /* z r h -> r z n */
    [LSTM] = {4, {0, 2, 3, 1}, 3, {"Sigmoid", "Tanh", "Tanh"}}, /* i o f c -> i f g o */
};

/* A node, and one direction of it. */
typedef struct recurrent {
    recurrent_kind kind;
    weft_value *x; /* [T, B, features] */
    weft_value *w, *r;
    weft_value *b_w, *b_r, *peepholes; /* may be NULL */
    weft_value *h0, *c0;               /* [B, H]; NULL: zeros */
    int64_t hidden, steps;             /* below 0: how many depends on the batch */
    int directions;
    bool reverse, relu, is_batch_first, resets_after;
} recurrent;

static weft_value *cast(weft_value *x, weft_dtype dtype) {
    return x && weft_value_dtype(x) != dtype ? weft_cast(x, dtype) : x;
}

/* The type of sums: f32 for f16 and bf16. */
static weft_dtype wide(const weft_value *x) {
    weft_dtype dtype = weft_value_dtype(x);
    return dtype == WEFT_F16 || dtype == WEFT_BF16 ? WEFT_F32 : dtype;
}

/* ---- attributes ---- */

static bool take_direction(onnx_call *c, recurrent *r) {
    const char *name = onnx_word(c, "direction", "forward");
    bool is_both = !strcmp(name, "bidirectional");
    r->reverse = !strcmp(name, "reverse");
    r->directions = is_both ? 2 : 1;
    if (is_both || r->reverse || !strcmp(name, "forward")) return true;
    return onnx_refuse(c, "direction is '%.40s'", name);
}

static bool is_name(const char *given, const char *name) {
    while (*given && (*given | 32) == (*name | 32)) given++, name++;
    return !*given && !*name;
}

/* Those of a direction; only the operator's defaults are taken, and Relu in an RNN. */
static bool take_activations(onnx_call *c, recurrent *r, int direction) {
    const onnx_attribute *a = onnx_attribute_of(c, "activations");
    int n = kinds[r->kind].activations;
    if (a && a->n != n * r->directions)
        return onnx_refuse(c, "%d activations; %d are needed", a->n, n * r->directions);
    r->relu = r->kind == RNN && a && is_name(a->texts[direction], "Relu");
    for (int i = 0; a && !r->relu && i < n; i++)
        if (!is_name(a->texts[direction * n + i], kinds[r->kind].activation[i]))
            return onnx_refuse(c, "activation '%.40s' in the place of %s", a->texts[direction * n + i],
                               kinds[r->kind].activation[i]);
    return true;
}

static bool take_options(onnx_call *c, recurrent *r) {
    int64_t layout = onnx_int(c, "layout", 0);
    if (layout != 0 && layout != 1) return onnx_refuse(c, "layout is %jd", layout);
    r->is_batch_first = layout;
    if (onnx_attribute_of(c, "clip")) return onnx_refuse(c, "clip: states are not limited here");
    if (onnx_attribute_of(c, "activation_alpha") || onnx_attribute_of(c, "activation_beta"))
        return onnx_refuse(c, "activations with numbers (activation_alpha, activation_beta)");
    if (r->kind == LSTM && onnx_int(c, "input_forget", 0))
        return onnx_refuse(c, "input_forget 1: gates that share their weights");
    r->resets_after = r->kind == GRU && onnx_int(c, "linear_before_reset", 0);
    return take_direction(c, r);
}

/* ---- operands ---- */

/* All sequences must have all times. */
static bool are_full(onnx_call *c, int64_t steps) {
    int n;
    const int64_t *lengths = onnx_integers(c, LENGTHS, &n);
    for (int i = 0; i < n; i++)
        if (lengths[i] != steps)
            return onnx_refuse(c, "sequence_lens has %jd of %jd times: mask the results instead", lengths[i],
                               steps);
    return lengths || !onnx_has(c, LENGTHS);
}

static bool take_input(onnx_call *c, recurrent *r) {
    int64_t own[WEFT_MAX_NDIM];
    weft_value *x = onnx_in(c, X), *w = onnx_in(c, R);
    if (!x || !w || !onnx_in(c, W)) return false;
    if (weft_ndim(x) != 3 || weft_ndim(w) != 3 || weft_ndim(onnx_in(c, W)) != 3)
        return onnx_refuse(c, "x, W and R must have three axes");
    onnx_shape_of(c, X, own);
    r->steps = own[r->is_batch_first];
    r->hidden = weft_dim(w, 2);
    r->x = r->is_batch_first ? weft_transpose(x, 0, 1) : x;
    if (onnx_int(c, "hidden_size", r->hidden) != r->hidden)
        return onnx_refuse(c, "hidden_size is not R's, %jd", r->hidden);
    if (weft_dim(w, 0) != r->directions)
        return onnx_refuse(c, "weights of %jd directions for %d", weft_dim(w, 0), r->directions);
    return are_full(c, weft_dim(x, r->is_batch_first));
}

/* Part i of `axis`, without the axis. */
static weft_value *part(weft_value *x, int64_t i, int axis) {
    return x ? weft_squeeze(weft_slice(x, axis, i, i + 1), axis) : NULL;
}

/* The gates along axis 0, in Weft's order. */
static weft_value *in_order(const recurrent *r, weft_value *x) {
    weft_value *gate[MOST_GATES];
    int n = kinds[r->kind].gates;
    if (!x || n == 1) return x;
    for (int i = 0; i < n; i++) {
        int64_t begin = kinds[r->kind].order[i] * r->hidden;
        gate[i] = weft_slice(x, 0, begin, begin + r->hidden);
    }
    return weft_concat(n, gate, 0);
}

static void take_parameters(onnx_call *c, recurrent *r, int direction) {
    weft_value *b = part(onnx_in(c, B), direction, 0);
    int64_t rows = kinds[r->kind].gates * r->hidden;
    r->w = in_order(r, part(onnx_in(c, W), direction, 0));
    r->r = in_order(r, part(onnx_in(c, R), direction, 0));
    r->b_w = b ? in_order(r, weft_slice(b, 0, 0, rows)) : NULL;
    r->b_r = b ? in_order(r, weft_slice(b, 0, rows, 2 * rows)) : NULL;
    r->h0 = part(onnx_in(c, H0), direction, r->is_batch_first);
    if (r->kind != LSTM) return;
    r->c0 = part(onnx_in(c, C0), direction, r->is_batch_first);
    r->peepholes = part(onnx_in(c, PEEPHOLES), direction, 0);
}

/* ---- steps built one by one ---- */

static weft_value *plus(weft_value *a, weft_value *b) {
    return !a ? b : !b ? a : weft_add(a, b);
}

static weft_value *gate_of(const recurrent *r, weft_value *x, int i, int axis) {
    return x ? weft_slice(x, axis, i * r->hidden, (i + 1) * r->hidden) : NULL;
}

/* n = tanh(x + w (r h) + b): the reset before the product. x has both biases. */
static weft_value *gru_step(const recurrent *r, weft_value *x, weft_value *h) {
    weft_value *w = weft_slice(r->r, 0, 0, 2 * r->hidden), *w_n = gate_of(r, r->r, 2, 0);
    weft_value *gates = weft_slice(x, 1, 0, 2 * r->hidden), *n = gate_of(r, x, 2, 1);
    gates = weft_sigmoid(plus(gates, h ? weft_linear_op(h, w, NULL) : NULL));
    weft_value *reset = gate_of(r, gates, 0, 1), *keep = gate_of(r, gates, 1, 1);
    if (h) n = weft_add(n, weft_linear_op(weft_mul(reset, h), w_n, NULL));
    n = weft_tanh(n);
    weft_value *change = weft_sub(n, weft_mul(keep, n));
    return h ? weft_add(change, weft_mul(keep, h)) : change;
}

/* Gates see the cell through peepholes, in the order i, o, f; the output gate sees the new one. */
static weft_value *lstm_step(const recurrent *r, weft_value *x, weft_value *h, weft_value **cell) {
    weft_value *gates = plus(x, h ? weft_linear_op(h, r->r, NULL) : NULL), *gate[4], *old = *cell;
    weft_value *p_i = gate_of(r, r->peepholes, 0, 0), *p_o = gate_of(r, r->peepholes, 1, 0),
               *p_f = gate_of(r, r->peepholes, 2, 0);
    for (int i = 0; i < 4; i++) gate[i] = gate_of(r, gates, i, 1);
    weft_value *in = weft_sigmoid(plus(gate[0], old ? weft_mul(p_i, old) : NULL));
    weft_value *forget = weft_sigmoid(plus(gate[1], old ? weft_mul(p_f, old) : NULL));
    weft_value *added = weft_mul(in, weft_tanh(gate[2]));
    *cell = plus(added, old ? weft_mul(forget, old) : NULL);
    weft_value *out = weft_sigmoid(weft_add(gate[3], weft_mul(p_o, *cell)));
    return weft_mul(out, weft_tanh(*cell));
}

/* h[T, B, H], and *last, the cell after the last step. */
static weft_value *by_steps(onnx_call *c, const recurrent *r, weft_value *x, weft_value **last) {
    weft_value *all[MOST_STEPS], *h = r->h0;
    *last = r->c0;
    if (r->steps < 1 || r->steps > MOST_STEPS)
        return onnx_refuse(c, "%s is built step by step, at most %d of them",
                           r->kind == GRU ? "linear_before_reset 0" : "an LSTM with peepholes", MOST_STEPS);
    for (int64_t i = 0; i < r->steps; i++) {
        int64_t t = r->reverse ? r->steps - 1 - i : i;
        weft_value *now = part(x, t, 0);
        h = all[t] = r->kind == GRU ? gru_step(r, now, h) : lstm_step(r, now, h, last);
    }
    return weft_stack((int)r->steps, all, 0);
}

/* ---- a node ---- */

/* The state after the last step of x[T, B, H]. */
static weft_value *end_of(weft_value *x, bool reverse) {
    return weft_squeeze(reverse ? weft_slice(x, 0, 0, 1) : weft_slice(x, 0, -1, INT64_MAX), 0);
}

/* h[T, B, H] of one direction, and of an LSTM the last cell. */
static weft_value *direction_of(onnx_call *c, const recurrent *r, weft_value **last) {
    weft_dtype dtype = weft_value_dtype(r->x), sums = wide(r->x);
    weft_value *b = r->resets_after ? r->b_w : plus(r->b_w, r->b_r), *cell = NULL;
    weft_value *x = weft_linear_op(r->x, r->w, b);
    if (r->peepholes || (r->kind == GRU && !r->resets_after)) return by_steps(c, r, x, last);
    if (r->kind == RNN) return weft_rnn_op(x, r->r, r->h0, r->reverse, r->relu);
    if (r->kind == GRU) return weft_gru_op(x, r->r, r->h0, cast(r->b_r, sums), r->reverse);
    weft_value *h = weft_lstm_op(x, r->r, r->h0, cast(r->c0, sums), r->reverse, &cell);
    *last = cast(end_of(cell, r->reverse), dtype);
    return h;
}

static weft_value *build(onnx_call *c, recurrent_kind kind) {
    enum { MOST = 2 };
    weft_value *h[MOST], *last_h[MOST], *last_c[MOST] = {0};
    recurrent r = {.kind = kind};
    if (!take_options(c, &r) || !take_input(c, &r)) return NULL;
    for (int i = 0; i < r.directions; i++) {
        r.reverse = r.reverse || i;
        if (!take_activations(c, &r, i)) return NULL;
        take_parameters(c, &r, i);
        h[i] = direction_of(c, &r, &last_c[i]);
        last_h[i] = end_of(h[i], r.reverse);
    }
    int axis = r.is_batch_first;
    if (onnx_wants(c, 1)) onnx_result(c, 1, weft_stack(r.directions, last_h, axis));
    if (kind == LSTM && onnx_wants(c, 2)) onnx_result(c, 2, weft_stack(r.directions, last_c, axis));
    weft_value *all = weft_stack(r.directions, h, r.is_batch_first ? 2 : 1);
    return r.is_batch_first ? weft_transpose(all, 0, 1) : all;
}

weft_value *onnx_build_lstm(onnx_call *c) {
    return build(c, LSTM);
}

weft_value *onnx_build_gru(onnx_call *c) {
    return build(c, GRU);
}

weft_value *onnx_build_rnn(onnx_call *c) {
    return build(c, RNN);
}
