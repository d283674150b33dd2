/* zoo_vit.c - ViT-Ti/16 of weft-zoo, with the names of timm's vit_tiny_patch16_224. Dosovitskiy et al., arXiv
 * 2010.11929; sizes of Touvron et al., arXiv 2012.12877, table 1: 12 layers of 192, three heads, images of
 * 224 x 224 in patches of 16 x 16. */
#include "zoo.h"

#include <stdio.h>

enum { LAYERS = 12, HEADS = 3, PATCH = 16, PATCHES = 14 * 14, TOKENS = PATCHES + 1 };

static const weft_init vit_init = {WEFT_INIT_NORMAL, 0, 0.02}, vit_zeros = {WEFT_INIT_ZEROS};

static weft_value *vit_linear(weft_value *x, int64_t out, const char *name) {
    return weft_linear(x, out, name, &(weft_linear_options){.weight = &vit_init, .bias = &vit_zeros});
}

/* timm's norms have eps 1e-6. */
static weft_value *vit_norm(weft_value *x, const char *name) {
    return weft_layer_norm(x, name, &(weft_norm_options){.eps = 1e-6});
}

/* Third `part` of the columns of qkv [B,T,3d], as heads [B,H,T,d/H]. */
static weft_value *vit_heads(weft_value *qkv, int part, int64_t d) {
    return zoo_split_heads(weft_slice(qkv, 2, part * d, (part + 1) * d), HEADS);
}

static weft_value *vit_attention(weft_value *x, int64_t d) {
    weft_value *y = x;
    WEFT_SCOPE(x, "attn") {
        weft_value *qkv = vit_linear(x, 3 * d, "qkv");
        weft_value *v = vit_heads(qkv, 2, d), *k = vit_heads(qkv, 1, d), *q = vit_heads(qkv, 0, d);
        y = vit_linear(zoo_join_heads(weft_attention(q, k, v, NULL)), d, "proj");
    }
    return y;
}

static weft_value *vit_mlp(weft_value *x, int64_t d) {
    WEFT_SCOPE(x, "mlp") {
        x = vit_linear(weft_gelu(vit_linear(x, 4 * d, "fc1")), d, "fc2");
    }
    return x;
}

/* Images -> tokens [B,197,d]: one a patch, and one in front that the class is read from. */
static weft_value *vit_tokens(weft_value *x, int64_t d) {
    const weft_conv patches = {.out = d, .kernel = PATCH, .stride = PATCH};
    weft_value *first = weft_parameter(x, "cls_token", WEFT_SHAPE(1, 1, d), vit_init);
    weft_value *position = weft_parameter(x, "pos_embed", WEFT_SHAPE(1, TOKENS, d), vit_init);
    WEFT_SCOPE(x, "patch_embed") {
        x = weft_conv2d(x, &patches, "proj");
    }
    x = weft_transpose(weft_flatten(x, 2), 1, 2);
    first = weft_broadcast_to(first, WEFT_SHAPE(WEFT_BATCH, 1, d));
    return weft_add(weft_concat(2, (weft_value *[]){first, x}, 1), position);
}

/* [B,3,224,224] -> [B,1000] */
static weft_value *vit_logits(weft_value *x, const zoo_options *o) {
    int64_t d = zoo_width(o, 192);
    x = vit_tokens(x, d);
    WEFT_SCOPE(x, "blocks") {
        for (int i = 0; i < LAYERS; i++) {
            char name[16];
            snprintf(name, sizeof name, "%d", i);
            WEFT_SCOPE(x, name) {
                x = weft_add(x, vit_attention(vit_norm(x, "norm1"), d));
                x = weft_add(x, vit_mlp(vit_norm(x, "norm2"), d));
            }
        }
    }
    x = vit_norm(x, "norm");
    x = weft_squeeze(weft_slice(x, 1, 0, 1), 1);
    return vit_linear(x, 1000, "head");
}

void zoo_vit_tiny(weft_model *m, const zoo_options *o) {
    weft_optimizer adamw = {.type = "adamw", .lr = 5e-4, .weight_decay = 0.05};
    zoo_classify(m, o, &(zoo_classifier){zoo_image224, vit_logits, zoo_label, adamw});
    weft_model_set_ddp(m, "", NULL);
}
