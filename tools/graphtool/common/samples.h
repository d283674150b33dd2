/* samples.h - what --samples asks for: pictures of what a graph makes, while it trains. */
#ifndef WEFT_TOOLS_GRAPHTOOL_COMMON_SAMPLES_H
#define WEFT_TOOLS_GRAPHTOOL_COMMON_SAMPLES_H

#include "tools/graphtool/common/dataset.h"

typedef struct samples {
    weft_samples how;                  /* for weft_hook_samples(); no path: none are asked for */
    char *said;                        /* a copy of its text, which `how` points into */
    char *tensorboard;                 /* folder */
    weft_source cut[OPTIONS_MAX_DATA]; /* the first samples of the data, as many as a grid has images */
    const weft_source *sources[OPTIONS_MAX_DATA];
    const char *names[OPTIONS_MAX_DATA];
} samples;

/* Reads --samples: -1, or the exit status after printing the error. Call samples_free in either case, after
 * the trainer has been freed. It points into itself, so it stays where it is. */
int samples_read(samples *s, const options *o);
/* Whether a picture can be written, tried before the training: -1, or the exit status likewise. */
int samples_place(const samples *s);
/* Feeds a graph that has inputs with the first samples of --val-data, or of --data. */
void samples_feed(samples *s, const weft_model *m, const dataset *val, const dataset *data);
void samples_free(samples *s);

#endif
