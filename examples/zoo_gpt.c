/* zoo_gpt.c - the GPTs of weft-zoo, with GPT-2's blocks (Radford et al. 2019; pre-norm, tanh GELU, learned
 * positions). gpt is small, works on characters and has a head of its own. gpt2_124m is the smallest GPT-2;
 * its head is the token embedding, with the vocabulary of 50,257 padded to a multiple of 128. */
#include "zoo.h"

#include <math.h>
#include <stdio.h>

const zoo_options zoo_gpt_own = {.layers = 6, .d = 384, .heads = 6, .ctx = 256, .vocab = 65};
const zoo_options zoo_gpt2_own = {.layers = 12, .d = 768, .heads = 12, .ctx = 1024, .vocab = 50304};

zoo_options zoo_sized(const zoo_options *o, const zoo_options *own) {
    zoo_options all = *o;
    if (!all.layers) all.layers = own->layers;
    if (!all.d) all.d = own->d;
    if (!all.heads) all.heads = own->heads;
    if (!all.ctx) all.ctx = own->ctx;
    if (!all.vocab) all.vocab = own->vocab;
    return all;
}

/* One of the two models, with its sizes. */
typedef struct gpt_shape {
    zoo_options size;
    bool is_gpt2;       /* the head is the token embedding */
    weft_init residual; /* initial values of projections that end in the residual stream */
} gpt_shape;

static const weft_init gpt_init = {WEFT_INIT_NORMAL, 0, 0.02}, gpt_bias = {WEFT_INIT_ZEROS};

static weft_value *gpt_linear(weft_value *x, int64_t out, const char *name, const weft_init *weight) {
    return weft_linear(x, out, name, &(weft_linear_options){.weight = weight, .bias = &gpt_bias});
}

/* Third `part` of the columns of qkv [B,T,3d], as heads [B,H,T,d/H]. */
static weft_value *gpt_heads(weft_value *qkv, int part, const zoo_options *o) {
    weft_value *x = weft_slice(qkv, 2, part * o->d, (part + 1) * o->d);
    return zoo_split_heads(x, o->heads);
}

/* x [B,T,d] -> [B,T,d]: x + attention(ln1(x)), then x + mlp(ln2(x)). */
static weft_value *gpt_block(weft_value *x, const gpt_shape *s, const char *name) {
    const zoo_options *o = &s->size;
    WEFT_SCOPE(x, name) {
        weft_value *qkv = gpt_linear(weft_layer_norm(x, "ln1", NULL), 3 * o->d, "qkv", &gpt_init);
        weft_value *v = gpt_heads(qkv, 2, o), *k = gpt_heads(qkv, 1, o), *q = gpt_heads(qkv, 0, o);
        weft_value *y = weft_attention(q, k, v, &(weft_attention_options){.causal = true});
        x = weft_add(x, gpt_linear(zoo_join_heads(y), o->d, "proj", &s->residual));
        y = weft_gelu_tanh(gpt_linear(weft_layer_norm(x, "ln2", NULL), 4 * o->d, "fc", &gpt_init));
        x = weft_add(x, gpt_linear(y, o->d, "out", &s->residual));
    }
    return x;
}

/* The whole network: tokens i32[B,T] -> logits [B,T,vocab]. */
static weft_value *gpt_body(weft_value *tokens, const gpt_shape *s) {
    const zoo_options *o = &s->size;
    weft_value *x = tokens, *position = NULL;
    WEFT_SCOPE(tokens, "gpt") {
        x = weft_embedding(tokens, o->vocab, o->d, "wte", &(weft_embedding_options){.weight = &gpt_init});
        WEFT_SCOPE(x, "wpe") {
            position = weft_parameter(x, "weight", WEFT_SHAPE(o->ctx, o->d), gpt_init);
        }
        x = weft_add(x, position);
        WEFT_SCOPE(x, "blocks") {
            for (int i = 0; i < o->layers; i++) {
                char name[24];
                snprintf(name, sizeof name, "%d", i);
                x = gpt_block(x, s, name);
            }
        }
        x = weft_layer_norm(x, "ln_f", NULL);
        x = weft_linear(x, o->vocab, s->is_gpt2 ? "wte" : "head",
                        &(weft_linear_options){.no_bias = true, .weight = &gpt_init});
    }
    return x;
}

/* Logits as rows [B T, vocab], for the loss. */
static weft_value *gpt_rows(weft_value *tokens, const gpt_shape *s) {
    return weft_reshape(gpt_body(tokens, s), WEFT_SHAPE(-1, s->size.vocab));
}

static weft_value *gpt_tokens(weft_graph *g, const gpt_shape *s) {
    return zoo_words(g, "tokens", s->size.ctx);
}

static weft_value *gpt_target(weft_graph *g, const gpt_shape *s) {
    return weft_reshape(zoo_words(g, "target", s->size.ctx), WEFT_SHAPE(-1));
}

static void gpt_graphs(weft_model *m, const gpt_shape *s, const weft_optimizer *own) {
    weft_graph *g = weft_graph_new(m, "train", WEFT_TRAIN);
    weft_value *next = gpt_target(g, s);
    weft_value *loss = weft_cross_entropy(gpt_rows(gpt_tokens(g, s), s), next, NULL);
    weft_minimize(loss, "", zoo_optimizer(&s->size, own));
    weft_output(loss, "loss");

    g = weft_graph_new(m, "val", WEFT_EVAL);
    weft_value *logits = gpt_rows(gpt_tokens(g, s), s), *target = gpt_target(g, s);
    weft_output(weft_cross_entropy(logits, target, NULL), "loss");
    weft_output(zoo_accuracy(logits, target), "accuracy");

    g = weft_graph_new(m, "predict", WEFT_EVAL);
    logits = gpt_body(gpt_tokens(g, s), s);
    weft_output(logits, "logits");
    /* the token after the last one of each row */
    weft_output(weft_argmax(weft_slice(logits, 1, -1, INT64_MAX), -1, false), "next");
}

void zoo_gpt(weft_model *m, const zoo_options *o) {
    const weft_optimizer adamw = {.type = "adamw", .lr = 3e-4, .weight_decay = 0.1};
    gpt_graphs(m, &(gpt_shape){zoo_sized(o, &zoo_gpt_own), false, gpt_init}, &adamw);
}

/* Weight decay is for matrices only. Each of the 2 * layers additions to the residual stream adds variance,
 * which the smaller initial projections compensate. */
void zoo_gpt2(weft_model *m, const zoo_options *o) {
    static const weft_param_group no_decay[] = {{"*/bias", .decay_scale = WEFT_ZERO},
                                                {"*/ln*/weight", .decay_scale = WEFT_ZERO}};
    const weft_optimizer adamw = {.type = "adamw",
                                  .lr = 6e-4,
                                  .beta1 = 0.9,
                                  .beta2 = 0.95,
                                  .weight_decay = 0.1,
                                  .clip_norm = 1,
                                  .n_groups = 2,
                                  .groups = no_decay};
    gpt_shape s = {.size = zoo_sized(o, &zoo_gpt2_own), .is_gpt2 = true};
    s.residual = (weft_init){WEFT_INIT_NORMAL, 0, 0.02 / sqrt(2.0 * (double)s.size.layers)};
    gpt_graphs(m, &s, &adamw);
}
