/* layers_recurrent.c - torch.nn.LSTM, GRU and RNN: layers of steps with their parameters, whose names, shapes
 * and initial values are PyTorch's.
 *
 * For each layer and direction: one linear for the inputs of all times, then the steps as one op. What a
 * layer reads is [T, B, features]; both directions of a layer lie beside each other in the last axis of the
 * next. */
#include "ops/recurrent/recurrent.h"
#include "weft/layers.h"

#include <math.h>
#include <stdio.h>

enum { MOST_STATES = 128 }; /* layers times directions */

/* One kind of layer. */
typedef struct recurrent_kind {
    const char *name;
    int gates;
    bool has_c;         /* a second state beside h */
    bool has_step_bias; /* the steps have a bias of their own; else both are added to what the inputs give */
} recurrent_kind;

static const recurrent_kind lstm_kind = {"lstm", LSTM_GATES, true, false};
static const recurrent_kind gru_kind = {"gru", GRU_GATES, false, true};
static const recurrent_kind rnn_kind = {"rnn", RNN_GATES, false, false};

/* A layer's build: x [T, B, features] and the results so far. */
typedef struct recurrent_build {
    const recurrent_kind *kind;
    const weft_recurrent *options;
    int64_t layers, directions;
    int n_states;
    weft_value *h[MOST_STATES],
        *c[MOST_STATES]; /* of each layer and direction: the state after its last step,
                                                    [1, B, H] */
} recurrent_build;

/* ---- checks ---- */

static bool refuse_option(weft_value *x, const recurrent_kind *kind, const char *why) {
    return value_fail(x, WEFT_ARGUMENT, "%s: %s", kind->name, why);
}

static bool sizes_fit(weft_value *x, const recurrent_build *b) {
    const weft_recurrent *o = b->options;
    char why[120];
    snprintf(why, sizeof why, "hidden=%lld: it must be at least 1", (long long)o->hidden);
    if (o->hidden < 1) return refuse_option(x, b->kind, why);
    snprintf(why, sizeof why, "layers=%lld: it must be 1 to %d, both directions counted (0 means 1)",
             (long long)o->layers, MOST_STATES);
    if (b->layers < 1 || b->layers > MOST_STATES / b->directions) return refuse_option(x, b->kind, why);
    snprintf(why, sizeof why, "dropout=%g: a probability is 0 to 1", o->dropout);
    if (!(o->dropout >= 0 && o->dropout <= 1)) return refuse_option(x, b->kind, why);
    if (o->dropout > 0 && b->layers == 1)
        return refuse_option(x, b->kind, "dropout is between layers, and there is only one");
    return true;
}

/* h0 or c0, if it is there, is [layers * directions, B, hidden]. */
static bool initial_fits(weft_value *x, const recurrent_build *b, const weft_value *state, const char *what) {
    int64_t batch = x->type.shape[b->options->batch_first ? 0 : 1];
    tensor_type want =
        type_of(x->type.dtype, 3, (int64_t[]){b->layers * b->directions, batch, b->options->hidden});
    if (!state || shape_equal(&state->type, &want)) return true;
    return value_fail(x, WEFT_SHAPE,
                      "%s: %s is %s: it must have the shape of %s, [layers * directions, B, hidden]",
                      b->kind->name, what, TYPE(&state->type), TYPE(&want));
}

static bool recurrent_fits(weft_value *x, const recurrent_build *b) {
    const weft_recurrent *o = b->options;
    if (x->type.ndim != 3) {
        return value_fail(x, WEFT_SHAPE, "%s: x is %s: it must be %s", b->kind->name, TYPE(&x->type),
                          o->batch_first ? "[B, T, features]" : "[T, B, features]");
    }
    if (x->type.shape[o->batch_first ? 1 : 0] == 0)
        return value_fail(x, WEFT_SHAPE, "%s: x is %s: there must be a time step", b->kind->name,
                          TYPE(&x->type));
    if (o->c0 && !b->kind->has_c) return refuse_option(x, b->kind, "c0 is a state of lstm alone");
    if (o->relu && b->kind != &rnn_kind) return refuse_option(x, b->kind, "relu is an option of rnn alone");
    return sizes_fit(x, b) && initial_fits(x, b, o->h0, "h0") && initial_fits(x, b, o->c0, "c0");
}

/* ---- one layer in one direction ---- */

/* Parameter KIND_lLAYER, or KIND_lLAYER_reverse. */
static weft_value *gate_parameter(weft_value *x, const recurrent_build *b, const char *what, int64_t state,
                                  int64_t columns) {
    double bound = 1 / sqrt((double)b->options->hidden);
    int64_t shape[] = {b->kind->gates * b->options->hidden, columns};
    char name[60];
    snprintf(name, sizeof name, "%s_l%lld%s", what, (long long)(state / b->directions),
             state % b->directions ? "_reverse" : "");
    return parameter_or_else(x, name, columns ? 2 : 1, shape, NULL,
                             (weft_init){WEFT_INIT_UNIFORM, -bound, bound});
}

/* h0 or c0 of one layer and direction, [B, H]; NULL stays NULL. */
static weft_value *initial_of(const recurrent_build *b, weft_value *all, int64_t state) {
    if (!all) return NULL;
    weft_value *one = weft_slice(all, 0, state, state + 1);
    return weft_squeeze(one, 0);
}

/* The steps of one layer in one direction; `bias` is for those that have one of their own. */
static weft_value *steps_of(weft_value *gates, const recurrent_build *b, int64_t state, weft_value *w,
                            weft_value *bias, weft_value **c) {
    const weft_recurrent *o = b->options;
    bool reverse = state % b->directions;
    weft_value *h0 = initial_of(b, o->h0, state), *c0 = initial_of(b, o->c0, state);
    if (b->kind == &lstm_kind) return weft_lstm_op(gates, w, h0, c0, reverse, c);
    if (b->kind == &gru_kind) return weft_gru_op(gates, w, h0, bias, reverse);
    return weft_rnn_op(gates, w, h0, reverse, o->relu);
}

/* The state after the last step, [1, B, H]. */
static weft_value *last_of(const recurrent_build *b, weft_value *all, int64_t state) {
    bool reverse = state % b->directions;
    return weft_slice(all, 0, reverse ? 0 : -1, reverse ? 1 : INT64_MAX);
}

/* All times of h; notes the states after the last step. */
static weft_value *one_direction(weft_value *x, recurrent_build *b, int64_t state) {
    const weft_recurrent *o = b->options;
    weft_value *w_in = gate_parameter(x, b, "weight_ih", state, x->type.shape[2]);
    weft_value *w = gate_parameter(x, b, "weight_hh", state, o->hidden);
    weft_value *bias = o->no_bias ? NULL : gate_parameter(x, b, "bias_ih", state, 0);
    weft_value *of_h = o->no_bias ? NULL : gate_parameter(x, b, "bias_hh", state, 0), *c = NULL;
    if (bias && !b->kind->has_step_bias) bias = weft_add(bias, of_h);
    weft_value *gates = weft_linear_op(x, w_in, bias);
    weft_value *h = gates ? steps_of(gates, b, state, w, of_h, &c) : NULL;
    if (!h) return NULL;
    b->h[state] = last_of(b, h, state);
    if (c) b->c[state] = last_of(b, c, state);
    return h;
}

static weft_value *one_layer(weft_value *x, recurrent_build *b, int64_t layer) {
    weft_value *h[2] = {0};
    for (int64_t d = 0; d < b->directions; d++) h[d] = one_direction(x, b, layer * b->directions + d);
    if (b->directions == 1 || !h[0] || !h[1]) return h[0];
    return weft_concat(2, h, 2);
}

/* ---- all layers ---- */

/* The last states of all layers and directions, [layers * directions, B, H]. */
static void states_together(const recurrent_build *b, weft_value *const *states, weft_value **into) {
    int n = (int)(b->layers * b->directions);
    if (!into || !states[0]) return;
    *into = n > 1 ? weft_concat(n, states, 0) : states[0];
}

static weft_value *recurrent_layers(weft_value *x, recurrent_build *b, const char *name, weft_value **h_n,
                                    weft_value **c_n) {
    const weft_recurrent *o = b->options;
    if (h_n) *h_n = NULL;
    if (c_n) *c_n = NULL;
    if (!x || !value_reserved(x, b->kind->name, o->reserved, sizeof o->reserved) || !recurrent_fits(x, b))
        return NULL;
    weft_value *y = NULL;
    WEFT_SCOPE(x, name) {
        y = o->batch_first ? weft_transpose(x, 0, 1) : x;
        for (int64_t layer = 0; y && layer < b->layers; layer++) {
            if (layer > 0 && o->dropout > 0) y = weft_dropout(y, o->dropout);
            if (y) y = one_layer(y, b, layer);
        }
        if (y) states_together(b, b->h, h_n);
        if (y) states_together(b, b->c, c_n);
        if (y && o->batch_first) y = weft_transpose(y, 0, 1);
    }
    return y;
}

static recurrent_build recurrent_begin(const recurrent_kind *kind, const weft_recurrent *options) {
    static const weft_recurrent none;
    recurrent_build b = {.kind = kind, .options = options ? options : &none};
    b.layers = b.options->layers ? b.options->layers : 1;
    b.directions = b.options->bidirectional ? 2 : 1;
    return b;
}

weft_value *weft_lstm(weft_value *x, const weft_recurrent *options, const char *name, weft_value **h_n,
                      weft_value **c_n) {
    recurrent_build b = recurrent_begin(&lstm_kind, options);
    return recurrent_layers(x, &b, name, h_n, c_n);
}

weft_value *weft_gru(weft_value *x, const weft_recurrent *options, const char *name, weft_value **h_n) {
    recurrent_build b = recurrent_begin(&gru_kind, options);
    return recurrent_layers(x, &b, name, h_n, NULL);
}

weft_value *weft_rnn(weft_value *x, const weft_recurrent *options, const char *name, weft_value **h_n) {
    recurrent_build b = recurrent_begin(&rnn_kind, options);
    return recurrent_layers(x, &b, name, h_n, NULL);
}
