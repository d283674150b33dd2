/* zoo_moe.c - a mixture of experts of weft-zoo: a GPT whose feed-forward layers are eight networks, of
 * which each token takes two. Lepikhin et al., arXiv 2006.16668: the two with the highest probabilities,
 * weighted by them; an expert takes CAPACITY tokens of a sequence at most, first choices before second
 * ones, and drops the others. Fedus et al., arXiv 2101.03961, equation 4: a loss that balances the
 * experts; Zoph et al., arXiv 2202.08906, equation 5: one that keeps the router's logits small. Both are
 * of a micro-batch, as theirs are of a device's. */
#include "zoo.h"

#include <stdio.h>

enum {
    LAYERS = 4,
    HEADS = 4,
    TOKENS = 64,
    VOCAB = 65,
    EXPERTS = 8,
    CHOICES = 2,
    CAPACITY = 20,
    SLOTS = EXPERTS * CAPACITY
};
#define BALANCE 0.01
#define SMALL   0.001

static const weft_init moe_init = {WEFT_INIT_NORMAL, 0, 0.02};

static weft_value *moe_linear(weft_value *x, int64_t out, const char *name) {
    return weft_linear(x, out, name, &(weft_linear_options){.no_bias = true, .weight = &moe_init});
}

static weft_value *whole(weft_value *near, double number) {
    return weft_constant(weft_value_graph(near), WEFT_I64, 0, NULL, number);
}

/* The slot of each choice, [B, CHOICES T], all first choices before all second ones: expert e has the
 * slots from e CAPACITY on, in the order of its tokens; SLOTS: the expert has dropped it. */
static weft_value *slots_of(weft_value *chosen) {
    weft_value *expert = weft_reshape(weft_transpose(chosen, 1, 2), WEFT_SHAPE(-1, CHOICES * TOKENS));
    weft_value *mine = weft_one_hot(expert, EXPERTS, WEFT_I64);
    weft_value *count = weft_sum(weft_mul(weft_cumsum(mine, 1), mine), WEFT_AXES(-1), false); /* from 1 */
    weft_value *place = weft_offset(count, -1);
    weft_value *fits = weft_less(place, whole(place, CAPACITY));
    weft_value *slot = weft_add(weft_scale(expert, CAPACITY), place);
    return weft_where(fits, slot, whole(slot, SLOTS));
}

/* The token in each slot, [B, SLOTS]; TOKENS: the slot is empty. */
static weft_value *tokens_in(weft_value *slot) {
    weft_graph *g = weft_value_graph(slot);
    weft_value *choice = weft_arange(g, WEFT_I64, 0, CHOICES * TOKENS, 1);
    weft_value *token = weft_remainder(choice, whole(choice, TOKENS));
    token = weft_broadcast_to(token, WEFT_SHAPE(WEFT_BATCH, CHOICES * TOKENS));
    weft_value *empty = weft_constant(g, WEFT_I64, WEFT_SHAPE(WEFT_BATCH, SLOTS + 1), TOKENS);
    return weft_slice(weft_scatter(empty, 1, slot, token), 1, 0, SLOTS);
}

/* x[B, EXPERTS, CAPACITY, d]: each expert is a row of two weights. */
static weft_value *experts(weft_value *x, int64_t wide) {
    int64_t d = weft_dim(x, 3);
    weft_value *up = weft_parameter(x, "w1", WEFT_SHAPE(EXPERTS, d, wide), moe_init);
    weft_value *down = weft_parameter(x, "w2", WEFT_SHAPE(EXPERTS, wide, d), moe_init);
    return weft_matmul(weft_gelu(weft_matmul(x, up, false, false)), down, false, false);
}

/* What keeps the experts busy alike, and the logits small. */
static weft_value *router_loss(weft_value *logits, weft_value *probabilities, weft_value *chosen) {
    weft_value *first = weft_one_hot(weft_squeeze(weft_slice(chosen, 2, 0, 1), 2), EXPERTS, WEFT_F32);
    weft_value *share = weft_mean(first, WEFT_AXES(0, 1), false);
    weft_value *likely = weft_mean(probabilities, WEFT_AXES(0, 1), false);
    weft_value *balance = weft_sum(weft_mul(weft_stop_gradient(share), likely), WEFT_ALL, false);
    weft_value *size = weft_mean(weft_square(weft_logsumexp(logits, WEFT_AXES(-1), false)), WEFT_ALL, false);
    balance = weft_scale(balance, BALANCE * EXPERTS);
    return weft_add(balance, weft_scale(size, SMALL));
}

/* Tokens x[B, T, d] go to their slots, through the experts, and back; *loss gets the router's. */
static weft_value *mixture(weft_value *x, weft_value **loss) {
    int64_t d = weft_dim(x, 2);
    weft_value *chosen, *logits = weft_cast(moe_linear(x, EXPERTS, "router"), WEFT_F32);
    weft_value *probabilities = weft_softmax(logits, -1);
    weft_value *weight = weft_topk(probabilities, CHOICES, -1, true, &chosen); /* [B, T, CHOICES] */
    weight = weft_div(weight, weft_sum(weight, WEFT_AXES(-1), true));
    *loss = router_loss(logits, probabilities, chosen);

    weft_value *slot = slots_of(chosen);
    weft_value *token = weft_unsqueeze(tokens_in(slot), -1);
    weft_value *taken =
        weft_take_along_axis(weft_pad(x, 1, 0, 1), token, 1); /* zeros for empty slots */
    weft_value *made = experts(weft_reshape(taken, WEFT_SHAPE(-1, EXPERTS, CAPACITY, d)), 2 * d);
    made = weft_pad(weft_reshape(made, WEFT_SHAPE(-1, SLOTS, d)), 1, 0, 1); /* and for dropped choices */
    weft_value *back = weft_take_along_axis(made, weft_unsqueeze(slot, -1), 1);
    back = weft_cast(weft_reshape(back, WEFT_SHAPE(-1, CHOICES, TOKENS, d)), WEFT_F32);
    weft_value *by = weft_unsqueeze(weft_transpose(weight, 1, 2), -1);
    return weft_sum(weft_mul(back, by), WEFT_AXES(1), false);
}

static weft_value *attention(weft_value *x) {
    int64_t d = weft_dim(x, 2);
    weft_value *all = moe_linear(x, 3 * d, "qkv"), *part[3];
    for (int i = 0; i < 3; i++) part[i] = zoo_split_heads(weft_slice(all, 2, i * d, (i + 1) * d), HEADS);
    weft_value *q = weft_rotary(part[0], NULL), *k = weft_rotary(part[1], NULL);
    x = weft_attention(q, k, part[2], &(weft_attention_options){.causal = true});
    return moe_linear(zoo_join_heads(x), d, "proj");
}

static weft_value *layer(weft_value *x, int number, weft_value **loss) {
    char name[16];
    snprintf(name, sizeof name, "layer%d", number);
    WEFT_SCOPE(x, name) {
        x = weft_add(x, attention(weft_rms_norm(x, "norm1", NULL)));
        x = weft_add(x, mixture(weft_rms_norm(x, "norm2", NULL), loss));
    }
    return x;
}

/* Logits [B, T, VOCAB]; *loss gets the sum of the layers'. */
static weft_value *moe_logits(weft_graph *g, const zoo_options *o, weft_value **loss) {
    weft_value *x = zoo_words(g, "tokens", TOKENS), *one = NULL;
    *loss = NULL;
    x = weft_embedding(x, VOCAB, zoo_width(o, 256), "wte", &(weft_embedding_options){.weight = &moe_init});
    for (int i = 0; i < LAYERS; i++) {
        x = layer(x, i, &one);
        *loss = *loss ? weft_add(*loss, one) : one;
    }
    return moe_linear(weft_rms_norm(x, "norm", NULL), VOCAB, "head");
}

static weft_value *moe_loss(weft_graph *g, const zoo_options *o) {
    weft_value *router, *words = zoo_word_loss(moe_logits(g, o, &router));
    weft_value *loss = weft_add(words, router);
    weft_output(loss, "loss");
    weft_output(router, "router_loss");
    return loss;
}

void zoo_moe(weft_model *m, const zoo_options *o) {
    const weft_optimizer adamw = {.type = "adamw", .lr = 3e-4, .weight_decay = 0.1, .clip_norm = 1};
    weft_minimize(moe_loss(weft_graph_new(m, "train", WEFT_TRAIN), o), "", zoo_optimizer(o, &adamw));
    moe_loss(weft_graph_new(m, "val", WEFT_EVAL), o);
    weft_value *unused, *logits = moe_logits(weft_graph_new(m, "predict", WEFT_EVAL), o, &unused);
    weft_output(weft_softmax(logits, -1), "probabilities");
}
