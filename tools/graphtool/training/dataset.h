/* dataset.h - the data of a command: files of NAME=FILE options as sources, or synthetic batches. */
#ifndef WEFT_TOOLS_GRAPHTOOL_TRAINING_DATASET_H
#define WEFT_TOOLS_GRAPHTOOL_TRAINING_DATASET_H

#include "tools/graphtool/model/tools.h"

enum { SYNTHETIC_BATCHES = 8 };

typedef struct dataset {
    weft_dataset of; /* of.names: the input that each array feeds, NULL for one that feeds none */
    weft_source *files[OPTIONS_MAX_DATA]; /* NULL: synthetic */
    weft_array *arrays[OPTIONS_MAX_DATA]; /* synthetic ones */
    weft_source rows[OPTIONS_MAX_DATA];   /* and their rows as sources */
    weft_source again[OPTIONS_MAX_DATA];  /* the same rows over and over */
    const weft_source *sources[OPTIONS_MAX_DATA];
    char *names[OPTIONS_MAX_DATA];
    int n_names;
} dataset;

/* Opens the files of NAME[,NAME...]=FILE[:option=value,...] options (weft/source.h), until the end. */
dataset *dataset_load(const text_list *files);
/* Fixed-seed numbers for every input of the flow's graphs but those of --set, SYNTHETIC_BATCHES batches of
 * them, over and over: normal ones for floating point, and integers below the limit that the
 * graph implies (classes of a loss, rows of an embedding, otherwise 256 for u8). Inputs without a batch axis
 * get one number, which is added to *set, as weft_trainer_options has it. */
dataset *dataset_synthetic(const weft_model *m, const weft_plan *plan, const options *o, const char **set);
/* The bytes that these are. */
uint64_t dataset_synthetic_bytes(const weft_plan *plan, const options *o);
/* An empty one, which is closed at the end. */
dataset *dataset_new(void);

#endif
