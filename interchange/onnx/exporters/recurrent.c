/* recurrent.c - recurrent layers as the operators of ONNX, which take the input and its weights, where Weft's
 * ops take their product: the `linear` before the op is part of the operator. Gates stand in another
 * order. */
#include "interchange/onnx/exporters/exporter_families.h"

enum { X, W, H0 };
enum { MOST_GATES = 4 };

typedef struct layer {
    const char *op;
    int gates;
    int order[MOST_GATES]; /* for each gate of ONNX that of Weft */
    edge *h0, *c0;         /* initial states, [B, H] */
    edge *bias;            /* of the state's part, [gates H]; may be NULL */
} layer;

/* Rows [gates H, ...] in the order of ONNX, with an axis for the direction in front. */
static edge *reordered(export_call *c, const layer *l, edge *rows) {
    int64_t hidden = weft_dim(export_operand(c, W), 1), n = l->gates * hidden;
    int64_t *from = kit_take(c->e->arena, (size_t)n, sizeof *from);
    for (int64_t i = 0; from && i < n; i++) from[i] = l->order[i / hidden] * hidden + i % hidden;
    if (!from || !rows) return NULL;
    if (l->gates > 1)
        rows = with_int(c, export_2(c, "Gather", rows, export_constant(c, WEFT_I64, 1, &n, from)), "axis", 0);
    return export_unsqueeze(c, rows, 0);
}

static edge *zeros(export_call *c, int64_t n) {
    export_length length = {0, n};
    return export_expand(c, export_number(c, export_dtype(c, X), 0), 0, NULL, 1, &length);
}

/* Biases of the input's part and of the state's. */
static edge *biases(export_call *c, const layer *l, edge *of_input) {
    int64_t n = l->gates * weft_dim(export_operand(c, W), 1);
    if (!of_input && !l->bias) return NULL;
    edge *first = reordered(c, l, of_input ? of_input : zeros(c, n)),
         *second = reordered(c, l, l->bias ? l->bias : zeros(c, n)), *parts[] = {first, second};
    return export_concat(c, 2, parts, 1);
}

/* The weights that leave x as it is: where no `linear` is before the op. */
static edge *identity(export_call *c, int64_t n) {
    int64_t shape[] = {n, n};
    float *all = kit_take(c->e->arena, (size_t)(n * n), sizeof *all);
    for (int64_t i = 0; all && i < n; i++) all[i * n + i] = 1;
    return all ? export_cast(c, export_constant(c, WEFT_F32, 2, shape, all), WEFT_F32, export_dtype(c, X))
               : NULL;
}

static edge *of(export_call *c, const weft_node *node, int i) {
    const weft_value *v = weft_node_operand(node, i);
    return v ? export_entry_of(c->e, v)->is : NULL;
}

/* The operator's node; all times of h, [T, B, H]. */
static edge *recurrent(export_call *c, const layer *l) {
    const weft_node *before = weft_value_node(export_operand(c, X));
    weft_node_info about;
    bool is_linear = weft_node_about(before, &about) && !strcmp(about.op, "linear");
    int64_t hidden = weft_dim(export_operand(c, W), 1);
    edge *x = is_linear ? of(c, before, 0) : export_in(c, X);
    edge *w = is_linear ? of(c, before, 1) : identity(c, l->gates * hidden),
         *bias = is_linear ? of(c, before, 2) : NULL;
    edge *h0 = l->h0 ? export_unsqueeze(c, l->h0, 0) : NULL,
         *c0 = l->c0 ? export_unsqueeze(c, l->c0, 0) : NULL;
    w = reordered(c, l, w);
    edge *r = reordered(c, l, export_in(c, W)), *b = biases(c, l, bias), *in[] = {x, w, r, b, NULL, h0, c0};
    edge *y = export_new(c, l->op, 7, in, l->gates == 4 ? 3 : 2);
    with_int(c, y, "hidden_size", hidden);
    return export_int(c, "reverse") ? with_text(c, y, "direction", "reverse") : y;
}

/* ---- the cell of an LSTM ---- */

/* Whether a node takes the last step of v alone. */
static bool takes_last(export_call *c, const weft_node *node, const weft_value *v) {
    weft_node_info about;
    weft_attribute axis = {0}, begin = {0}, end = {0};
    int64_t steps = weft_dim(v, 0), last = export_int(c, "reverse") ? 0 : steps - 1;
    if (!weft_node_about(node, &about) || strcmp(about.op, "slice")) return false;
    weft_node_attribute(node, "axis", &axis);
    weft_node_attribute(node, "begin", &begin);
    weft_node_attribute(node, "end", &end);
    int64_t from = begin.integers[0], to = end.integers[0];
    if (from < 0) from += steps;
    to = to == INT64_MAX ? steps : to < 0 ? to + steps : to;
    return (axis.integers[0] == 0 || axis.integers[0] == -3) && from == last && to == last + 1;
}

static bool reads(const weft_node *node, const weft_value *v) {
    weft_node_info about;
    bool found = false;
    weft_node_about(node, &about);
    for (int i = 0; i < about.n_operands; i++) found |= weft_node_operand(node, i) == v;
    return found;
}

/* A factor of 1, which the builder puts after the op. */
static bool is_same(const weft_node *node) {
    weft_node_info about;
    weft_attribute factor = {0};
    return weft_node_about(node, &about) && !strcmp(about.op, "scale") &&
           weft_node_attribute(node, "factor", &factor) && factor.real == 1;
}

/* Whether the graph reads v's last step alone. A scaled value is not read by what scales it again. */
static bool only_last(export_call *c, const weft_value *v, bool may_be_scaled) {
    const weft_value *output;
    bool all = true;
    for (int i = 0; (output = weft_graph_output(c->e->graph, i, NULL)); i++) all &= output != v;
    for (const weft_node *n = c->node; all && (n = weft_graph_node(c->e->graph, n));) {
        if (!export_entry_of(c->e, n)->is_needed || !reads(n, v)) continue;
        bool is_scaled = may_be_scaled && is_same(n);
        all = is_scaled ? only_last(c, weft_node_result(n, 0), false) : takes_last(c, n, v);
    }
    return all;
}

/* ONNX has the cell of the last step. It stands for all of them where nobody reads another. */
static bool last_cell(export_call *c, edge *y) {
    weft_value *v = export_result(c, 1);
    export_length to[WEFT_MAX_NDIM], from[WEFT_MAX_NDIM];
    if (!only_last(c, v, true))
        return export_refuse(c, "ONNX gives the cell of the last step alone, and the graph reads others");
    if (!export_lengths(c, v, to)) return false;
    memcpy(from, to, sizeof to);
    from[0] = (export_length){0, 1};
    export_set(c, 1, export_expand(c, export_out(y, 2), 3, from, 3, to));
    return true;
}

/* ---- the ops ---- */

/* i, f, g, o of Weft; i, o, f, c of ONNX. */
edge *export_lstm(export_call *c) {
    edge *y = recurrent(
        c,
        &(layer){
            .op = "LSTM", .gates = 4, .order = {0, 3, 1, 2}, .h0 = export_in(c, H0), .c0 = export_in(c, 3)});
    if (!y || (export_wants(c, 1) && !last_cell(c, y))) return NULL;
    return export_squeeze(c, y, 1);
}

/* r, z, n of Weft; z, r, h of ONNX. */
edge *export_gru(export_call *c) {
    edge *y = recurrent(
        c, &(layer){
               .op = "GRU", .gates = 3, .order = {1, 0, 2}, .h0 = export_in(c, H0), .bias = export_in(c, 3)});
    return y ? export_squeeze(c, with_int(c, y, "linear_before_reset", 1), 1) : NULL;
}

edge *export_rnn(export_call *c) {
    edge *y = recurrent(c, &(layer){.op = "RNN", .gates = 1, .h0 = export_in(c, H0)});
    if (y && !strcmp(export_word(c, "act"), "relu")) with_list(c, y, "activations", "Relu");
    return y ? export_squeeze(c, y, 1) : NULL;
}
