/* zoo_llama.c - a small Llama of weft-zoo, with the names of Hugging Face's LlamaForCausalLM. Touvron et
 * al., arXiv 2302.13971: RMSNorm before each part, rotary positions, SwiGLU, no biases; as in Llama 2
 * several heads share keys and values (Ainslie et al., arXiv 2305.13245). Sizes are those of the 15
 * million parameter model of TinyStories, but that six heads share two of keys and values. */
#include "zoo.h"

#include <stdio.h>

enum { LAYERS = 6, HEADS = 6, SHARED = 2, TOKENS = 256, VOCAB = 32000 };

static const weft_init llama_init = {WEFT_INIT_NORMAL, 0, 0.02};

static weft_value *llama_linear(weft_value *x, int64_t out, const char *name) {
    return weft_linear(x, out, name, &(weft_linear_options){.no_bias = true, .weight = &llama_init});
}

static weft_value *llama_norm(weft_value *x, const char *name) {
    return weft_rms_norm(x, name, &(weft_norm_options){.eps = 1e-5});
}

static weft_value *llama_heads(weft_value *x, int64_t heads, int64_t width, const char *name) {
    return zoo_split_heads(llama_linear(x, heads * width, name), heads);
}

static weft_value *llama_attention(weft_value *x) {
    int64_t d = weft_dim(x, -1), width = d / HEADS;
    weft_value *y = x;
    WEFT_SCOPE(x, "self_attn") {
        weft_value *q = weft_rotary(llama_heads(x, HEADS, width, "q_proj"), NULL);
        weft_value *k = weft_rotary(llama_heads(x, SHARED, width, "k_proj"), NULL);
        y = weft_attention(q, k, llama_heads(x, SHARED, width, "v_proj"),
                           &(weft_attention_options){.causal = true});
        y = llama_linear(zoo_join_heads(y), d, "o_proj");
    }
    return y;
}

/* SwiGLU: down(silu(gate(x)) * up(x)), 8/3 d wide (Shazeer, arXiv 2002.05202). */
static weft_value *llama_mlp(weft_value *x) {
    int64_t d = weft_dim(x, -1);
    WEFT_SCOPE(x, "mlp") {
        weft_value *gate = weft_silu(llama_linear(x, d * 8 / 3, "gate_proj"));
        x = llama_linear(weft_mul(gate, llama_linear(x, d * 8 / 3, "up_proj")), d, "down_proj");
    }
    return x;
}

static weft_value *llama_layer(weft_value *x, int number) {
    char name[16];
    snprintf(name, sizeof name, "%d", number);
    WEFT_SCOPE(x, name) {
        x = weft_add(x, llama_attention(llama_norm(x, "input_layernorm")));
        x = weft_add(x, llama_mlp(llama_norm(x, "post_attention_layernorm")));
    }
    return x;
}

/* Input tokens i32[B,T] -> logits [B,T,vocab]. */
static weft_value *llama_logits(weft_graph *g, const zoo_options *o) {
    weft_value *x = zoo_words(g, "tokens", TOKENS);
    WEFT_SCOPE(x, "model") {
        x = weft_embedding(x, VOCAB, zoo_width(o, 288), "embed_tokens",
                           &(weft_embedding_options){.weight = &llama_init});
        WEFT_SCOPE(x, "layers") {
            for (int i = 0; i < LAYERS; i++) x = llama_layer(x, i);
        }
        x = llama_norm(x, "norm");
    }
    return llama_linear(x, VOCAB, "lm_head");
}

static weft_value *llama_loss(weft_graph *g, const zoo_options *o) {
    weft_value *loss = zoo_word_loss(llama_logits(g, o));
    weft_output(loss, "loss");
    return loss;
}

void zoo_llama_tiny(weft_model *m, const zoo_options *o) {
    static const weft_param_group no_decay[] = {{"*norm/weight", .decay_scale = WEFT_ZERO}};
    const weft_optimizer adamw = {.type = "adamw",
                                  .lr = 5e-4,
                                  .beta2 = 0.95,
                                  .weight_decay = 0.1,
                                  .clip_norm = 1,
                                  .n_groups = 1,
                                  .groups = no_decay};
    weft_minimize(llama_loss(weft_graph_new(m, "train", WEFT_TRAIN), o), "", zoo_optimizer(o, &adamw));
    llama_loss(weft_graph_new(m, "val", WEFT_EVAL), o);
    weft_value *logits = llama_logits(weft_graph_new(m, "predict", WEFT_EVAL), o);
    weft_output(weft_argmax(weft_slice(logits, 1, -1, INT64_MAX), -1, false), "next");
    weft_model_set_ddp(m, "", NULL); /* one subgraph, although it has two top-level scopes */
}
