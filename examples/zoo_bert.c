/* zoo_bert.c - BERT-tiny of weft-zoo, trained on masked words, with the names of Hugging Face's
 * BertForMaskedLM. Devlin et al., arXiv 1810.04805; two layers of 128, two heads, as Turc et al., arXiv
 * 1908.08962. A row of tokens may be shorter than its places: `mask` is true where a token is. The target is
 * the word that was there, or -100 where none is to be guessed. Attention's weights are not dropped out. */
#include "zoo.h"

#include <stdio.h>

enum { LAYERS = 2, HEADS = 2, TOKENS = 128, VOCAB = 30522, TYPES = 2, PLACES = 512 };

static const weft_init bert_init = {WEFT_INIT_NORMAL, 0, 0.02}, bert_zeros = {WEFT_INIT_ZEROS};

static weft_value *bert_linear(weft_value *x, int64_t out, const char *name) {
    return weft_linear(x, out, name, &(weft_linear_options){.weight = &bert_init, .bias = &bert_zeros});
}

/* LayerNorm with BERT's eps. */
static weft_value *bert_norm(weft_value *x) {
    return weft_layer_norm(x, "LayerNorm", &(weft_norm_options){.eps = 1e-12});
}

static weft_value *bert_heads(weft_value *x, const char *name) {
    return zoo_split_heads(bert_linear(x, weft_dim(x, -1), name), HEADS);
}

/* A product, dropout, and the norm of its sum with what went around it. */
static weft_value *bert_output(weft_value *y, weft_value *around, const char *name) {
    WEFT_SCOPE(y, name) {
        y = weft_dropout(bert_linear(y, weft_dim(around, -1), "dense"), 0.1);
        y = bert_norm(weft_add(y, around));
    }
    return y;
}

/* mask: bool[B,1,1,T], true where a key may be seen. */
static weft_value *bert_attention(weft_value *x, weft_value *mask) {
    weft_value *y = x;
    WEFT_SCOPE(x, "attention") {
        WEFT_GRAPH_SCOPE(weft_value_graph(x), "self") {
            weft_value *q = bert_heads(x, "query"), *k = bert_heads(x, "key"), *v = bert_heads(x, "value");
            y = weft_attention(q, k, v, &(weft_attention_options){.mask = mask});
        }
        y = bert_output(zoo_join_heads(y), x, "output");
    }
    return y;
}

static weft_value *bert_layer(weft_value *x, weft_value *mask, int number) {
    char name[16];
    snprintf(name, sizeof name, "%d", number);
    WEFT_SCOPE(x, name) {
        weft_value *y = x = bert_attention(x, mask);
        WEFT_GRAPH_SCOPE(weft_value_graph(x), "intermediate") {
            y = weft_gelu(bert_linear(x, 4 * weft_dim(x, -1), "dense"));
        }
        x = bert_output(y, x, "output");
    }
    return x;
}

/* A table of vectors as torch.nn.Embedding has it, all of one sentence here, so of type 0. */
static weft_value *bert_table(weft_value *near, const char *name, int64_t rows, int64_t d) {
    weft_value *table = NULL;
    WEFT_SCOPE(near, name) {
        table = weft_parameter(near, "weight", WEFT_SHAPE(rows, d), bert_init);
    }
    return table;
}

static weft_value *bert_embeddings(weft_value *tokens, int64_t d) {
    weft_value *x = tokens;
    WEFT_SCOPE(tokens, "embeddings") {
        x = weft_embedding(tokens, VOCAB, d, "word_embeddings",
                           &(weft_embedding_options){.weight = &bert_init});
        weft_value *place = weft_slice(bert_table(x, "position_embeddings", PLACES, d), 0, 0, TOKENS);
        weft_value *type = weft_slice(bert_table(x, "token_type_embeddings", TYPES, d), 0, 0, 1);
        x = weft_dropout(bert_norm(weft_add(weft_add(x, type), place)), 0.1);
    }
    return x;
}

/* Hidden states -> logits [B,T,vocab]; the last product is with the embedding of words. */
static weft_value *bert_predictions(weft_value *x) {
    weft_value *bias = NULL;
    WEFT_SCOPE(x, "cls") WEFT_GRAPH_SCOPE(weft_value_graph(x), "predictions") {
        bias = weft_parameter(x, "bias", WEFT_SHAPE(VOCAB), bert_zeros);
        WEFT_GRAPH_SCOPE(weft_value_graph(x), "transform") {
            x = bert_norm(weft_gelu(bert_linear(x, weft_dim(x, -1), "dense")));
        }
    }
    WEFT_SCOPE(x, "bert") WEFT_GRAPH_SCOPE(weft_value_graph(x), "embeddings") {
        x = weft_linear_op(x, bert_table(x, "word_embeddings", VOCAB, weft_dim(x, -1)), bias);
    }
    return x;
}

/* Inputs tokens i32[B,T] and mask bool[B,T] -> logits [B,T,vocab]. */
static weft_value *bert_logits(weft_graph *g, const zoo_options *o) {
    weft_value *x = zoo_words(g, "tokens", TOKENS);
    weft_value *mask = weft_input(g, "mask", WEFT_BOOL, WEFT_SHAPE(WEFT_BATCH, TOKENS));
    mask = weft_reshape(mask, WEFT_SHAPE(WEFT_BATCH, 1, 1, TOKENS));
    WEFT_SCOPE(x, "bert") {
        x = bert_embeddings(x, zoo_width(o, 128));
        WEFT_SCOPE(x, "encoder") WEFT_GRAPH_SCOPE(weft_value_graph(x), "layer") {
            for (int i = 0; i < LAYERS; i++) x = bert_layer(x, mask, i);
        }
    }
    return bert_predictions(x);
}

/* The mean over the words to be guessed. */
static weft_value *bert_loss(weft_graph *g, const zoo_options *o) {
    weft_value *loss = zoo_word_loss(bert_logits(g, o));
    weft_output(loss, "loss");
    return loss;
}

void zoo_bert_tiny(weft_model *m, const zoo_options *o) {
    static const weft_param_group no_decay[] = {{"*bias", .decay_scale = WEFT_ZERO},
                                                {"*/LayerNorm/weight", .decay_scale = WEFT_ZERO}};
    const weft_optimizer adamw = {
        .type = "adamw", .lr = 1e-4, .weight_decay = 0.01, .n_groups = 2, .groups = no_decay};
    weft_minimize(bert_loss(weft_graph_new(m, "train", WEFT_TRAIN), o), "", zoo_optimizer(o, &adamw));
    bert_loss(weft_graph_new(m, "val", WEFT_EVAL), o);
    weft_value *logits = bert_logits(weft_graph_new(m, "predict", WEFT_EVAL), o);
    weft_output(weft_argmax(logits, -1, false), "words");
    weft_model_set_ddp(m, "", NULL); /* one subgraph, although it has two top-level scopes */
}
