/* zoo.h - shared by the files of weft-zoo. */
#ifndef WEFT_EXAMPLES_ZOO_H
#define WEFT_EXAMPLES_ZOO_H

#include "weft/weft.h"

/* Options of a model: those of the command line, and some that tests set. */
typedef struct zoo_options {
    int64_t batch;                        /* 0: the model's default */
    int64_t layers, d, heads, ctx, vocab; /* GPTs only; 0: the model's default */
    int64_t schedule_steps;               /* convnet only: steps of the cosine schedule */
    bool pictures;                        /* classifiers of colour images: u8 and i64, as files give them */
    /* Set by tests: */
    int64_t narrow;                  /* divides the widths of mlp, convnet, dcgan28 and resnet50 */
    const weft_optimizer *optimizer; /* replaces the model's optimizer; NULL: keep it */
} zoo_options;

#define ZOO_DEFAULTS                                                                                         \
    { .schedule_steps = 2340 }

/* A model: its name, default batch size, builder and a line of --list. */
typedef struct zoo_entry {
    const char *name;
    int64_t batch;
    void (*build)(weft_model *m, const zoo_options *o);
    const char *what;
    const zoo_options *own; /* defaults of the sizes that the command line may change; NULL: none */
    bool takes_pictures;    /* it has inputs of zoo_image and zoo_label */
} zoo_entry;

enum { ZOO_MODELS = 23 };
extern const zoo_entry zoo_models[ZOO_MODELS];

/* Input "image" u8[B,28,28] as f32[B,1,28,28]: (pixel / 255 - mean) / deviation. */
weft_value *zoo_pixels(weft_graph *g, double mean, double deviation);

/* f32 in [-1, 1] back to u8 pixels. */
weft_value *zoo_to_pixels(weft_value *x);

/* Input `name` i32[B, length], and the mean cross-entropy of logits [B, T, words] against input "target"
 * i32[B, T], which it makes. */
weft_value *zoo_words(weft_graph *g, const char *name, int64_t length);
weft_value *zoo_word_loss(weft_value *logits);

/* [B, T, d] as heads [B, heads, T, d / heads], and back. */
weft_value *zoo_split_heads(weft_value *x, int64_t heads);
weft_value *zoo_join_heads(weft_value *x);

/* Inputs of classifiers of colour images: "image" f32[B,3,side,side], "label" i32[B]. With options.pictures
 * they are u8 and i64, and pixels become numbers as ImageNet's models take them. */
weft_value *zoo_image(weft_graph *g, const zoo_options *o, int64_t side);
weft_value *zoo_image224(weft_graph *g, const zoo_options *o);
weft_value *zoo_label(weft_graph *g, const zoo_options *o);

/* The fraction of rows whose largest logit is that of the target, f32[]. */
weft_value *zoo_accuracy(weft_value *logits, weft_value *target);

/* Self-supervised models (zoo_views.c): input f32[B,3,32,32]; an image's representation, [B, 256];
 * linear, ReLU, linear. With `in_groups` norms are of groups of channels, else batch norm, also in the
 * head. */
weft_value *zoo_view(weft_graph *g, const char *name);
weft_value *zoo_encoder(weft_value *x, const zoo_options *o, bool in_groups);
weft_value *zoo_head(weft_value *x, const zoo_options *o, bool in_groups, const char *name);
/* In a graph of its own: every parameter of `follower` becomes keep times itself plus (1 - keep) times the
 * leader's of the same name; keep is f32[]. */
void zoo_follow(weft_graph *g, const char *follower, const char *leader, weft_value *keep);
/* keep, but 0 in the first run of the graph: then the follower becomes equal to its leader. */
weft_value *zoo_after_first(weft_graph *g, weft_value *keep);

/* A classifier: the parts from which zoo_classify builds the graphs train, val and predict. */
typedef struct zoo_classifier {
    weft_value *(*input)(weft_graph *g, const zoo_options *o);
    weft_value *(*logits)(weft_value *x, const zoo_options *o);
    weft_value *(*target)(weft_graph *g, const zoo_options *o);
    weft_optimizer optimizer;
} zoo_classifier;
void zoo_classify(weft_model *m, const zoo_options *o, const zoo_classifier *c);

/* The optimizer and the width after the options of tests. */
const weft_optimizer *zoo_optimizer(const zoo_options *o, const weft_optimizer *own);
int64_t zoo_width(const zoo_options *o, int64_t width);

/* examples/zoo_gan.c: graphs d_step, g_step, val and predict. */
void zoo_dcgan28(weft_model *m, const zoo_options *o);
void zoo_dcgan(weft_model *m, const zoo_options *o);

/* examples/zoo_resnet.c */
void zoo_resnet18(weft_model *m, const zoo_options *o);
void zoo_resnet50(weft_model *m, const zoo_options *o);

/* each in the file of its name */
void zoo_vae(weft_model *m, const zoo_options *o);
void zoo_wgan_gp(weft_model *m, const zoo_options *o); /* zoo_wgan.c: graphs d_step, g_step, val, predict */
void zoo_mobilenet_v2(weft_model *m, const zoo_options *o);
void zoo_vit_tiny(weft_model *m, const zoo_options *o);
void zoo_bert_tiny(weft_model *m, const zoo_options *o);
void zoo_llama_tiny(weft_model *m, const zoo_options *o);
void zoo_unet_ddpm(weft_model *m, const zoo_options *o); /* zoo_unet.c */
void zoo_byol(weft_model *m, const zoo_options *o);      /* graphs train, teacher, val and predict */
void zoo_simclr(weft_model *m, const zoo_options *o);
void zoo_moco(weft_model *m, const zoo_options *o); /* graphs key, train and predict */
void zoo_dino(weft_model *m, const zoo_options *o); /* graphs teacher, train and predict */
void zoo_moe(weft_model *m, const zoo_options *o);
void zoo_cyclegan(weft_model *m, const zoo_options *o);
void zoo_lstm_char(weft_model *m, const zoo_options *o);     /* zoo_lstm.c */
void zoo_convnet_twice(weft_model *m, const zoo_options *o); /* zoo_twice.c: graphs plain and augmented */

/* examples/zoo_gpt.c */
extern const zoo_options zoo_gpt_own, zoo_gpt2_own;
/* A copy of *o in which sizes that are 0 have the values of *own. */
zoo_options zoo_sized(const zoo_options *o, const zoo_options *own);
void zoo_gpt(weft_model *m, const zoo_options *o);
void zoo_gpt2(weft_model *m, const zoo_options *o);

#endif
