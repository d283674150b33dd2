/* sweep.h - runs one evaluation graph over every sample of some files once. The last, smaller batch runs on a
 * second plan of that batch size with the same store. */
#ifndef WEFT_TOOLS_GRAPHTOOL_COMMON_SWEEP_H
#define WEFT_TOOLS_GRAPHTOOL_COMMON_SWEEP_H

#include "tools/graphtool/common/feed.h"

typedef struct sweep {
    options alone; /* the command's options for plans of one rank: ranks share the batches, not the steps */
    weft_comm *comm;
    batches data;
    weft_plan *plan[2]; /* for whole batches; for the smaller last one, NULL if there is none */
    weft_session *session[2];
    graph_run run[2];
} sweep;

/* Loads files, compiles the graph and binds it; then sweep_attach gives it a store. Returns -1, or the exit
 * status after printing the error. `fetch` as in graph_run_bind. Call sweep_close in either case. */
int sweep_open(sweep *s, const weft_model *m, const options *o, const char *graph, const text_list *files,
               const char *fetch);
int sweep_attach(sweep *s, weft_store *store);
void sweep_close(sweep *s);

/* Runs the next batch; *which is the index of the run used. Returns -1 when it has run, -2 when no batch is
 * left, else the exit status. A graph without inputs has one batch. */
int sweep_next(sweep *s, int *which);
void sweep_restart(sweep *s);

/* Means over all samples of the outputs of run[0], into means[run[0].n_out]; *samples counts the samples of
 * all ranks. */
int sweep_means(sweep *s, double *means, int64_t *samples);

#endif
