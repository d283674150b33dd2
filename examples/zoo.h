/* zoo.h - what the files of weft-zoo share. */
#ifndef WEFT_EXAMPLES_ZOO_H
#define WEFT_EXAMPLES_ZOO_H

#include "weft/weft.h"

/* What the command line may change. */
typedef struct zoo_options {
    int64_t batch;                        /* 0: the model's own */
    int64_t layers, d, heads, ctx, vocab; /* gpt */
    int64_t schedule_steps;               /* convnet: over how many steps the cosine falls */
    /* What tests change. */
    int64_t narrow;                  /* layers of mlp, convnet and dcgan28 are narrower by this factor */
    const weft_optimizer *optimizer; /* instead of the model's own; NULL: that */
} zoo_options;

#define ZOO_DEFAULTS                                                                                         \
    { .layers = 6, .d = 384, .heads = 6, .ctx = 256, .vocab = 65, .schedule_steps = 2340 }

typedef struct zoo_entry {
    const char *name;
    int64_t batch;
    void (*build)(weft_model *m, const zoo_options *o);
    const char *what;
} zoo_entry;

enum { ZOO_MODELS = 6 };
extern const zoo_entry zoo_models[ZOO_MODELS];

#define SHAPE(...)                                                                                           \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) {                                 \
        __VA_ARGS__                                                                                          \
    }

/* u8 images [B,28,28] as f32 [B,1,28,28]: (pixel / 255 - mean) / deviation. */
weft_value *zoo_pixels(weft_graph *g, double mean, double deviation);

const weft_optimizer *zoo_optimizer(const zoo_options *o, const weft_optimizer *own);
int64_t zoo_width(const zoo_options *o, int64_t width);

/* examples/zoo_gan.c: graphs d_step, g_step, val and predict. */
void zoo_dcgan28(weft_model *m, const zoo_options *o);
void zoo_dcgan(weft_model *m, const zoo_options *o);

#endif
