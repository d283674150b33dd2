/* feed.h - batches for the inputs of graphs, from files or synthetic, and graphs bound to them.
 *
 *   batches    named arrays of sources, cut into batches by a loader, or eight synthetic batches used in turn
 *   graph_run  one graph of a plan, with its feeds and the numbers it yields (losses, accuracies) */
#ifndef WEFT_TOOLS_GRAPHTOOL_COMMON_FEED_H
#define WEFT_TOOLS_GRAPHTOOL_COMMON_FEED_H

#include "tools/graphtool/common/tools.h"

#include "graph/core/type.h"

enum { RUN_MAX_PORTS = 32, SYNTHETIC_BATCHES = 8, BATCHES_END = -2 };

typedef struct batches {
    int n;
    char *names[OPTIONS_MAX_DATA];         /* NULL: an array of a source that feeds no input */
    tensor_type rows_of[OPTIONS_MAX_DATA]; /* type of one sample */
    void *synthetic[OPTIONS_MAX_DATA]; /* SYNTHETIC_BATCHES batches, one after another; NULL: from a source */
    size_t row_bytes[OPTIONS_MAX_DATA]; /* bytes of one sample */
    int n_sources;
    weft_source *sources[OPTIONS_MAX_DATA];
    weft_loader *loader;  /* cuts the sources; NULL: synthetic */
    int64_t samples;      /* samples in the sources */
    int64_t batch, taken; /* rows per batch; number of the next batch of this epoch */
    /* the current batch */
    const void *data[OPTIONS_MAX_DATA];
    int64_t rows;
} batches;

/* Opens the files of NAME[,NAME...]=FILE[:option=value,...] options (weft/source.h). Returns -1, or the
 * exit status after it has printed the error. */
int batches_load(batches *b, const text_list *files);
/* Cuts loaded arrays into batches, and with `how.all` unset selects this rank's. */
int batches_cut(batches *b, const weft_loader_options *how, const options *o);
/* Fixed-seed numbers for every input of the model's training graphs: normal ones for floating point, and
 * integers below the limit that the graph implies (classes of a loss, rows of an embedding, otherwise 256 for
 * u8). */
int batches_synthetic(batches *b, const weft_model *m, const weft_plan *plan, const options *o);
void batches_epoch(batches *b, int64_t epoch); /* starts an epoch */
void batches_seek(batches *b, int64_t number); /* makes batch 0, 1, ... of the epoch the next one */
/* Moves to the next batch: -1; BATCHES_END at the end of an epoch (synthetic batches never end); or the
 * exit status after it has printed the error. */
int batches_next(batches *b);
void batches_free(batches *b);

typedef struct graph_run {
    const char *name;
    int n_in, n_out;
    weft_port in[RUN_MAX_PORTS], out[RUN_MAX_PORTS];
    int source[RUN_MAX_PORTS]; /* for each input, its index in the batches */
    weft_feed feeds[RUN_MAX_PORTS];
    weft_fetch fetches[RUN_MAX_PORTS];
    float values[RUN_MAX_PORTS]; /* the outputs of the last run */
    bool is_silent;              /* outputs are not fetched */
} graph_run;

/* Binds the inputs of a graph. Each must be among the batches with its type and shape, `rows` at a time.
 * `fetch`: the one output wanted; NULL: every output that is one f32 number and whose name ends in "loss" or
 * "accuracy". */
int graph_run_bind(graph_run *r, const weft_plan *plan, const char *graph, const batches *b, int64_t rows,
                   const char *fetch);
/* Runs the graph on the current batch: -1, or the exit status after it has printed the error. */
int graph_run_once(graph_run *r, weft_session *session, const batches *b);

/* Every batch must feed an input of one of these graphs, so that a misspelt name is an error and not
 * ignored. */
int batches_all_used(const batches *b, int n, const graph_run *runs);

#endif
