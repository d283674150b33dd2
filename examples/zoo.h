/* zoo.h - what the files of weft-zoo share. */
#ifndef WEFT_EXAMPLES_ZOO_H
#define WEFT_EXAMPLES_ZOO_H

#include "weft/weft.h"

/* What the command line may change. */
typedef struct zoo_options {
    int64_t batch;                        /* 0: the model's own */
    int64_t layers, d, heads, ctx, vocab; /* gpt */
    int64_t schedule_steps;               /* convnet: over how many steps the cosine falls */
} zoo_options;

#define SHAPE(...)                                                                                           \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) {                                 \
        __VA_ARGS__                                                                                          \
    }

/* u8 images [B,28,28] as f32 [B,1,28,28]: (pixel / 255 - mean) / deviation. */
weft_value *zoo_pixels(weft_graph *g, double mean, double deviation);

/* examples/zoo_gan.c: graphs d_step, g_step, val and predict. */
void zoo_dcgan28(weft_model *m, const zoo_options *o);
void zoo_dcgan(weft_model *m, const zoo_options *o);

#endif
