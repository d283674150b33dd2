/* samples.h - what --samples asks for: pictures of what a graph makes, while it trains. */
#ifndef WEFT_TOOLS_GRAPHTOOL_TRAINING_SAMPLES_H
#define WEFT_TOOLS_GRAPHTOOL_TRAINING_SAMPLES_H

#include "tools/graphtool/training/dataset.h"

typedef struct samples {
    weft_samples how;                  /* for weft_hook_samples(); no path: none are asked for */
    weft_source cut[OPTIONS_MAX_DATA]; /* the first samples of the data, as many as a grid has images */
    const weft_source *sources[OPTIONS_MAX_DATA];
    const char *names[OPTIONS_MAX_DATA];
} samples;

samples *samples_read(const options *o);
/* Tries before the training whether a picture can be written. */
void samples_place(const samples *s);
/* Feeds a graph that has inputs with the first samples of --val-data, or of --data. */
void samples_feed(samples *s, const weft_model *m, const dataset *val, const dataset *data);

#endif
