/* feed.h - batches for the inputs of graphs: from files, or synthetic ones; and a graph bound to them.
 *
 *   batches    named arrays, cut into batches by a loader, or eight synthetic batches used in turn
 *   graph_run  one graph of a plan with its feeds and the numbers it gives (losses, accuracies)
 */
#ifndef WEFT_TOOLS_GRAPHTOOL_COMMON_FEED_H
#define WEFT_TOOLS_GRAPHTOOL_COMMON_FEED_H

#include "tools/graphtool/common/tools.h"

enum { RUN_MAX_PORTS = 32, SYNTHETIC_BATCHES = 8 };

typedef struct batches {
    int n;
    char *names[OPTIONS_MAX_DATA];
    weft_array *arrays[OPTIONS_MAX_DATA]; /* NULL when synthetic */
    void *synthetic[OPTIONS_MAX_DATA];    /* SYNTHETIC_BATCHES of them, one after the other */
    size_t row_bytes[OPTIONS_MAX_DATA];
    weft_loader *loader;
    int64_t samples;           /* in the arrays */
    int64_t batch, taken;      /* taken: batches taken of this epoch */
    int rank, world, in_a_row; /* whose share of the synthetic ones, as in weft_loader_options */
    /* the present batch */
    const void *data[OPTIONS_MAX_DATA];
    int64_t rows;
} batches;

/* The files of NAME=FILE options. Returns -1, or the exit status after telling why not. */
int batches_load(batches *b, const text_list *files);
/* Cuts loaded arrays into batches, and takes this rank's: as many in a row as --accumulate says. */
int batches_cut(batches *b, const weft_loader_options *how, const options *o);
/* Fixed-seed numbers for every input of the model's training graphs: normal ones for floating-point inputs, and
 * integers below what the graph allows (classes of a loss, rows of an embedding, 256 for other u8). */
int batches_synthetic(batches *b, const weft_model *m, const weft_plan *plan, const options *o);
void batches_epoch(batches *b, int64_t epoch); /* starts it */
/* Moves to the next batch; false at the end of an epoch (synthetic ones never end). */
bool batches_next(batches *b);
void batches_free(batches *b);

typedef struct graph_run {
    const char *name;
    int n_in, n_out;
    weft_port in[RUN_MAX_PORTS], out[RUN_MAX_PORTS];
    int source[RUN_MAX_PORTS]; /* of each input, in the batches */
    weft_feed feeds[RUN_MAX_PORTS];
    weft_fetch fetches[RUN_MAX_PORTS];
    float values[RUN_MAX_PORTS]; /* what the last run gave */
    bool is_silent;              /* its outputs are not fetched */
} graph_run;

/* Binds the inputs of a graph, each of which must be among the batches with its type and shape, `rows` at a time. `fetch`: the one
 * output wanted; NULL: every single f32 number whose name ends in "loss" or "accuracy". */
int graph_run_bind(graph_run *r, const weft_plan *plan, const char *graph, const batches *b, int64_t rows,
                   const char *fetch);
/* Runs it on the present batch: -1, or the exit status after telling why not. */
int graph_run_once(graph_run *r, weft_session *session, const batches *b);

/* A step: each graph in turn on the same `micro` batches, which are taken. values[room] gets the means of what they
 * give, graph by graph. As if they were run on a batch of all, whichever rank takes which of them. */
int graph_runs_step(graph_run *runs, int n, weft_session *session, batches *b, int64_t micro, int room,
                    double *values);

/* Each of the batches must feed an input of one of these graphs: a misspelt name is an error, not silence. */
int batches_all_used(const batches *b, int n, const graph_run *runs);

#endif
