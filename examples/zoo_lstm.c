/* zoo_lstm.c - lstm_char of weft-zoo: the next character of a text by two layers of LSTM, after Karpathy's
 * char-rnn (2015). Every text starts from zero states. */
#include "zoo.h"

enum { TIMES = 64, CHARACTERS = 65 };

/* tokens i32[B, T] -> logits [B, T, CHARACTERS] */
static weft_value *lstm_body(weft_value *tokens, const zoo_options *o) {
    const weft_recurrent lstm = {
        .hidden = zoo_width(o, 256), .layers = 2, .dropout = 0.2, .batch_first = true};
    weft_value *x = tokens;
    WEFT_SCOPE(tokens, "net") {
        x = weft_embedding(x, CHARACTERS, zoo_width(o, 128), "wte", NULL);
        x = weft_lstm(x, &lstm, "lstm", NULL, NULL);
        x = weft_linear(x, CHARACTERS, "head", NULL);
    }
    return x;
}

static weft_value *lstm_tokens(weft_graph *g) {
    return zoo_words(g, "tokens", TIMES);
}

/* Logits as rows [B T, CHARACTERS], and their target. */
static weft_value *lstm_rows(weft_graph *g, const zoo_options *o) {
    return weft_reshape(lstm_body(lstm_tokens(g), o), WEFT_SHAPE(-1, CHARACTERS));
}

static weft_value *lstm_target(weft_graph *g) {
    return weft_reshape(zoo_words(g, "target", TIMES), WEFT_SHAPE(-1));
}

void zoo_lstm_char(weft_model *m, const zoo_options *o) {
    const weft_optimizer adam = {.type = "adam", .lr = 2e-3, .clip_norm = 5};
    weft_graph *g = weft_graph_new(m, "train", WEFT_TRAIN);
    weft_value *logits = lstm_rows(g, o);
    weft_value *loss = weft_cross_entropy(logits, lstm_target(g), NULL);
    weft_minimize(loss, "", zoo_optimizer(o, &adam));
    weft_output(loss, "loss");

    g = weft_graph_new(m, "val", WEFT_EVAL);
    logits = lstm_rows(g, o);
    weft_value *target = lstm_target(g);
    weft_output(weft_cross_entropy(logits, target, NULL), "loss");
    weft_output(zoo_accuracy(logits, target), "accuracy");

    g = weft_graph_new(m, "predict", WEFT_EVAL);
    logits = lstm_body(lstm_tokens(g), o);
    weft_output(logits, "logits");
    /* the character after the last one of each text */
    weft_output(weft_argmax(weft_slice(logits, 1, -1, INT64_MAX), -1, false), "next");
}
