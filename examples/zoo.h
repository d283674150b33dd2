/* zoo.h - what the files of weft-zoo share. */
#ifndef WEFT_EXAMPLES_ZOO_H
#define WEFT_EXAMPLES_ZOO_H

#include "weft/weft.h"

/* What the command line may change. */
typedef struct zoo_options {
    int64_t batch;                        /* 0: the model's own */
    int64_t layers, d, heads, ctx, vocab; /* of a GPT; 0: the model's own */
    int64_t schedule_steps;               /* convnet: over how many steps the cosine falls */
    /* What tests change. */
    int64_t narrow; /* layers of mlp, convnet, dcgan28 and resnet50 are narrower by this factor */
    const weft_optimizer *optimizer; /* instead of the model's own; NULL: that */
} zoo_options;

#define ZOO_DEFAULTS                                                                                         \
    { .schedule_steps = 2340 }

typedef struct zoo_entry {
    const char *name;
    int64_t batch;
    void (*build)(weft_model *m, const zoo_options *o);
    const char *what;
    const zoo_options *own; /* sizes that the command line may change; NULL: none */
} zoo_entry;

enum { ZOO_MODELS = 8 };
extern const zoo_entry zoo_models[ZOO_MODELS];

#define SHAPE(...)                                                                                           \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) {                                 \
        __VA_ARGS__                                                                                          \
    }

/* u8 images [B,28,28] as f32 [B,1,28,28]: (pixel / 255 - mean) / deviation. */
weft_value *zoo_pixels(weft_graph *g, double mean, double deviation);

/* The share of rows whose largest logit is the target's. */
weft_value *zoo_accuracy(weft_value *logits, weft_value *target);

/* A classifier: graphs train, val and predict around logits(input). */
typedef struct zoo_classifier {
    weft_value *(*input)(weft_graph *g, const zoo_options *o);
    weft_value *(*logits)(weft_value *x, const zoo_options *o);
    weft_value *(*target)(weft_graph *g, const zoo_options *o);
    weft_optimizer optimizer;
} zoo_classifier;
void zoo_classify(weft_model *m, const zoo_options *o, const zoo_classifier *c);

const weft_optimizer *zoo_optimizer(const zoo_options *o, const weft_optimizer *own);
int64_t zoo_width(const zoo_options *o, int64_t width);

/* examples/zoo_gan.c: graphs d_step, g_step, val and predict. */
void zoo_dcgan28(weft_model *m, const zoo_options *o);
void zoo_dcgan(weft_model *m, const zoo_options *o);

/* examples/zoo_resnet.c */
void zoo_resnet18(weft_model *m, const zoo_options *o);
void zoo_resnet50(weft_model *m, const zoo_options *o);

/* examples/zoo_gpt.c */
extern const zoo_options zoo_gpt_own, zoo_gpt2_own;
/* *o with the sizes that it leaves 0 from *own. */
zoo_options zoo_sized(const zoo_options *o, const zoo_options *own);
void zoo_gpt(weft_model *m, const zoo_options *o);
void zoo_gpt2(weft_model *m, const zoo_options *o);

#endif
