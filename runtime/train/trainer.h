/* trainer.h - what a trainer is made of. Each part is a file:
 *
 *     feed.c      batches of a data set, and graphs whose inputs are bound to them
 *     metrics.c   numbers by name: sums over runs, means over ranks
 *     tally.c     what an evaluator counts and sums up; evaluators.c calls them with batches;
 *                 evaluator_*.c are some
 *     flow.c      one iteration: the steps of the flow, micro-batch by micro-batch
 *     sweep.c     every sample of a data set once through an evaluation graph
 *     evaluate.c  validation and test; predict.c  one output for every sample
 *     fit.c       the loop
 *     bad_steps.c a step that fails on its data: whose samples they were, and whether the training goes on
 *     hooks.c     calls hooks; log_text.c, log_json.c  are some
 *     checkpoints.c  when they are due, and going on; rates.c  learning rates that were asked for
 *     trainer.c   making, freeing, what is held */
#ifndef WEFT_RUNTIME_TRAIN_TRAINER_H
#define WEFT_RUNTIME_TRAIN_TRAINER_H

#include "runtime/data/kit.h"
#include "weft/trainer.h"

#include <stdatomic.h>
#include <stdio.h>

/* ---- feed.c ---- */

/* The batches of a data set, and the one that is current. Without sources it has none, and only graphs
 * without inputs run. */
typedef struct batches {
    const weft_env *env;
    weft_loader *loader;
    int n;                  /* arrays of all sources */
    const char **names;     /* [n]: the input that each feeds; NULL: none */
    size_t *row_bytes;      /* [n] */
    int64_t samples, batch; /* batch: rows of a whole one */
    int64_t taken;          /* number of the next batch of the epoch */
    const void **data;      /* [n]: the current batch */
    int64_t rows;           /* of the current batch */
} batches;

/* `how` says batch, order and this rank's share. Arrays are converted to the types in which graph `only` of
 * the plan (NULL: the graphs of its flow) takes them, where that keeps every number (convert.h). */
weft_status batches_open(batches *b, const weft_dataset *of, const weft_plan *plan, const char *only,
                         const weft_loader_options *how, weft_comm *comm, const weft_env *env,
                         weft_error *error);
/* Logs which arrays are converted, but for what the trainer has logged before. */
void batches_tell(const batches *b, const weft_dataset *of, weft_trainer *t);
void batches_close(batches *b);
void batches_epoch(batches *b, int64_t epoch);
void batches_seek(batches *b, int64_t number);
/* Moves to the next batch. At the end of the epoch *is_there is false. */
weft_status batches_next(batches *b, bool *is_there, weft_error *error);
/* Batches of an epoch; INT64_MAX without data. */
int64_t batches_count(const batches *b);
/* Samples of a data set; 0 without sources. */
int64_t dataset_samples(const weft_dataset *d);

/* A graph of a plan whose inputs are fed by batches. Its outputs that are one number are its metrics. */
typedef struct bound {
    const weft_env *env;
    const char *graph;
    int n_in, n_out, room; /* room: of the arrays by output */
    int n_fetch;           /* first those of the numbers, then what evaluators read */
    weft_feed *feeds;      /* [n_in] */
    int *source;           /* [n_in]: which array of the data set feeds it */
    weft_port *out;        /* [n_out] */
    weft_fetch *fetches;   /* [n_fetch]: the first n_out into numbers, the others into memory of their own */
    double *numbers;       /* [n_out]: 8 bytes for each */
    int accumulate;        /* micro-batches of a step */
    int first;             /* place of its first metric in a list */
} bound;

/* The length of the batch that a graph takes: of its first input's first axis, or the plan's without one. */
int64_t plan_rows(const weft_plan *plan, const char *graph);
/* Binds the inputs of `graph`. Each must be in the data set, with its type and shape, `rows` at a time.
 * `output`: the only one that is fetched, into memory that the caller sets; NULL: every one that is a
 * number. */
weft_status bound_open(bound *r, const weft_plan *plan, const char *graph, const batches *b, int64_t rows,
                       const char *output, weft_error *error);
void bound_close(bound *r);
/* Runs the graph on the current batch; fetches what it binds, or nothing. */
weft_status bound_run(bound *r, weft_session *session, const batches *b, bool fetches, weft_error *error);
/* Fetches an output from now on, too; *data: where it will be. */
weft_status bound_fetch(bound *r, const weft_port *output, const void **data, weft_error *error);
/* The number that output i gave. */
double bound_number(const bound *r, int i);
/* WEFT_NAME when an array of the data set feeds none of n graphs. */
weft_status batches_all_used(const batches *b, int n, const bound *graphs, weft_error *error);

/* ---- metrics.c ---- */

/* Sums of numbers by name; then their means. */
typedef struct metric_sum {
    char *name;
    double sum, weight;
    double sum_before, weight_before; /* at metrics_mark */
} metric_sum;
typedef struct metrics {
    const weft_env *env;
    int n;
    size_t room, room_given;
    metric_sum *list;   /* [n] */
    weft_metric *given; /* means of those with a weight */
} metrics;

void metrics_close(metrics *m);
/* Appends the outputs of a graph; a name that another graph has, too, becomes graph/name. */
weft_status metrics_add(metrics *m, bound *r, weft_error *error);
void metrics_clear(metrics *m);
/* Takes back what is noted from the one call to the other. */
void metrics_mark(metrics *m);
void metrics_rewind(metrics *m);
/* Adds what a run gave, with a weight. */
void metrics_note(metrics *m, const bound *r, double weight);
/* Means of what was noted since metrics_clear, over all ranks of `comm` (NULL: this one), and `extra` summed
 * over them, into *out. */
weft_status metrics_means(metrics *m, weft_comm *comm, double *extra, size_t n_extra, weft_metrics *out,
                          weft_error *error);

/* Sums n numbers over ranks in place. */
weft_status ranks_sum(const weft_env *env, weft_comm *comm, size_t n, double *numbers, weft_error *error);

/* ---- tally.c ---- */

enum { EXACT_DIGITS = 68 /* of 32 bits: all doubles, and 2^60 of the largest */ };

/* A sum without rounding. */
typedef struct exact {
    int64_t digits[EXACT_DIGITS];
    int64_t others[3]; /* NaN, infinity, -infinity */
    int since;         /* numbers since carries moved */
} exact;

typedef struct report {
    char name[160];
    double value;
} report;

struct weft_tally {
    const weft_env *env;
    const char *name; /* the evaluator's */
    int64_t n_counts, n_sums;
    double *counts; /* [n_counts]: whole numbers */
    exact *sums;    /* [n_sums] */
    size_t room_counts, room_sums;
    int n_reports;
    size_t room;
    report *reports;  /* [n_reports] */
    weft_error error; /* what a call could not do */
};

weft_status tally_open(weft_tally *t, const char *name, int64_t counts, int64_t sums, const weft_env *env,
                       weft_error *error);
void tally_close(weft_tally *t);
void tally_clear(weft_tally *t);
/* Makes it that of all ranks. Collective. */
weft_status tally_merge(weft_tally *t, weft_comm *comm, weft_error *error);

/* ---- evaluators.c ---- */

/* What an evaluator reads of a run. */
typedef struct measure_reads {
    weft_read reads[WEFT_MAX_READS];
    int source[WEFT_MAX_READS]; /* array of the data set; -1: an output */
} measure_reads;

/* The evaluators of a sweep. */
typedef struct measures {
    const weft_env *env;
    int n;
    const weft_evaluator *list; /* [n]: the trainer's */
    weft_tally *tallies;        /* [n] */
    measure_reads *reads[2];    /* [n], for whole batches and for the rest */
    size_t room;
    weft_metric *given; /* [room]: the graph's metrics, and what was reported */
} measures;

weft_status evaluators_check(int n, const weft_evaluator *list, weft_error *error);
/* Copies with names; false: out of memory, and what was copied is there. */
bool evaluator_copy(weft_evaluator *into, const weft_evaluator *from, const weft_env *env);
void evaluator_free_names(const weft_evaluator *e, const weft_env *env);
/* What stands behind "NAME/" in the metrics of one of Weft's, or "" for NAME alone, up to a NULL. NULL: it is
 * one of the user's. */
const char *const *evaluator_parts(const weft_evaluator *e);
weft_status measures_open(measures *m, int n, const weft_evaluator *list, const weft_env *env,
                          weft_error *error);
void measures_close(measures *m);
/* Finds what they read in run `which`. */
weft_status measures_bind(measures *m, int which, const weft_plan *plan, bound *r, int64_t rows,
                          weft_error *error);
void measures_clear(measures *m);
weft_status measures_batch(measures *m, int which, const batches *b, weft_error *error);
/* Appends what they report to the metrics. Collective, unless `comm` is NULL. */
weft_status measures_report(measures *m, weft_comm *comm, weft_metrics *out, weft_error *error);

/* ---- sweep.c ---- */

/* An evaluation graph over every sample of a data set, batch by batch. The last, smaller one has a plan of
 * its own, on the same store. */
typedef struct sweep {
    weft_comm *comm; /* ranks share the batches; NULL: this rank has all */
    batches data;
    weft_plan *plan[2]; /* for whole batches, and for the rest (NULL: there is none) */
    weft_session *session[2];
    bound run[2];
    metrics metrics;
    measures measures;
    double samples; /* that sweep_run ran on this rank */
    bool is_begun, checks, no_capture;
} sweep;

/* What a sweep is made of, beside the model and what it compiles with. */
typedef struct sweep_options {
    const char *graph;
    const weft_dataset *data;
    weft_comm *comm;    /* NULL: this rank alone */
    const char *output; /* as for bound_open */
    int n_evaluators;
    const weft_evaluator *evaluators;
    const weft_env *env;
    bool checks, no_capture; /* the trainer's options */
} sweep_options;

/* Compiles and binds. Call sweep_close in either case. */
weft_status sweep_open(sweep *s, const weft_model *m, const weft_compile_options *how,
                       const sweep_options *of, weft_error *error);
void sweep_close(sweep *s);
uint64_t sweep_bytes(const sweep *s); /* that its sessions take */
void sweep_restart(sweep *s);
/* Opens its sessions on `store`, where they are not. */
weft_status sweep_sessions(sweep *s, weft_store *store, weft_error *error);
/* Runs the next batch of this rank: *which is the index of the run, -1 when none is left. */
weft_status sweep_next(sweep *s, weft_store *store, int *which, weft_error *error);
/* Runs all batches of this rank. */
weft_status sweep_run(sweep *s, weft_store *store, weft_error *error);
/* What they gave, as means over samples of all ranks. */
weft_status sweep_means(sweep *s, weft_metrics *out, weft_error *error);

/* ---- watch.c ---- */

/* A metric of validations, and whether the last one is the best so far. */
typedef struct watch {
    char *name; /* its own copy */
    bool max;
    double min_delta, best; /* best: NaN until there is one */
} watch;

/* ---- rates.c ---- */

/* A learning rate that the training was asked for. The store owns the texts. */
typedef struct asked_rate {
    const char *path, *optimizer;
    double lr; /* NaN: not known yet */
} asked_rate;

enum { NOTE_ROOM = 240 /* bytes of a note's name, which may have a name of 200 in it */ };

struct weft_checkpoint;
/* Lists the optimizers of the store. */
weft_status rates_open(weft_trainer *t, weft_error *error);
void rates_close(weft_trainer *t);
/* Gives the store of a training that begins what options.checkpoints.rates says. */
weft_status rates_begin(weft_trainer *t, weft_error *error);
/* Those that nothing has said are the store's, as the first run begins. */
weft_status rates_keep(weft_trainer *t, weft_error *error);
/* Takes what is asked for otherwise than by the training that was saved. */
weft_status rates_resume(weft_trainer *t, const struct weft_checkpoint *c, weft_error *error);
/* "trainer/lr/NAME" */
void rates_note(const asked_rate *r, char into[NOTE_ROOM]);

/* ---- settings.c ---- */

/* Logs each setting that the plan has otherwise than that of the training that was saved. */
void settings_tell(const weft_trainer *t, const struct weft_checkpoint *c);

/* ---- checkpoints.c ---- */

typedef struct checkpoints {
    struct weft_checkpoint_writer *writer; /* NULL: none are written */
    struct weft_checkpoint_lock *lock;     /* of the folder, on rank 0; NULL: none */
    bool is_begun;                         /* one is under way */
    bool is_resumed;                       /* the training goes on from one; until its first run has begun */
    bool has_news;                         /* a step was good since the last one */
    int64_t saved;                         /* iteration of the last one; -1: none */
    int64_t best_step;                     /* iteration of the best one; 0: none */
    bool is_best;                          /* the one under way is the best; before it, the best were: */
    double best_before;
    int64_t step_before;
    int64_t looked;   /* iteration whose validation was looked at last */
    int64_t in_epoch; /* trainer.is_in_epoch, as a note */
    double saved_at;  /* by trainer_clock() */
    watch best;
    int n_rates;
    asked_rate *rates;  /* [n_rates]: one for each optimizer */
    weft_error failure; /* why the last one was not written */
    int n_failures;     /* in a row */
    int64_t whole;      /* iteration of the last complete one */
    char path[4096];    /* of it; empty: there is none */
} checkpoints;

/* Checks the options, and goes on from where they say. Before hooks are looked at. */
weft_status checkpoints_open(weft_trainer *t, weft_error *error);
/* With the session, before the first iteration. Collective. */
weft_status checkpoints_begin(weft_trainer *t, weft_error *error);
/* Behind each iteration and what follows it. An error is one of metrics or of ranks, not of a file. */
weft_status checkpoints_turn(weft_trainer *t, weft_error *error);
/* When a run ends without an error. Collective. */
void checkpoints_end(weft_trainer *t);
/* When a run ends with an error: completes the one under way if all ranks have met it. Collective, then. */
void checkpoints_fail(weft_trainer *t);
void checkpoints_close(weft_trainer *t);

/* ---- bad_steps.c ---- */

/* The last step that failed on its data. */
typedef struct failure {
    weft_failed_step step;
    int64_t batch; /* its micro-batch's number in the epoch */
    bool is_there;
} failure;

/* Of a run of r that ended with WEFT_DATA, in this rank's micro-batch `micro`: names its samples in *error. A
 * bad one that may be passed over is no error any more, and its metrics are taken back. */
weft_status step_failed(weft_trainer *t, const bound *r, int64_t micro, bool is_bad, weft_error *error);
/* A line for the log, by rank 0. */
void trainer_log(const weft_trainer *t, const char *line);

/* ---- the trainer ---- */

struct weft_trainer {
    const weft_env *env;
    const weft_model *model;
    weft_trainer_options options;
    bool owns; /* hooks and evaluators */
    weft_plan *plan;
    weft_store *store;
    weft_session *session; /* NULL until the first step */
    batches data;
    bound *graphs; /* [n_graphs] of the flow, in the order of their first steps, then others that ran */
    int n_graphs, room_graphs;
    metrics metrics;
    sweep val, test;
    bool has_val, has_test;
    weft_progress progress;
    /* of the present epoch and iteration */
    bool is_in_epoch, is_in_step;
    int64_t begin;                   /* batches of the epoch that were taken, on all ranks */
    int64_t began;                   /* begin at the start of the present iteration */
    bool has_run;                    /* a graph has run in it to the end of its step */
    bool has_trained;                /* in any iteration so far */
    int64_t micro_begin, micro_each; /* those that the last step took: the first, and how many on each rank */
    int64_t taken;                   /* by the present iteration, on all ranks */
    const bound *last_run;           /* the graph that ran last in it; NULL: none */
    failure failure;                 /* what has ended it */
    int64_t bad_in_row;              /* bad steps since the last iteration without one */
    int64_t most_taken;              /* by any iteration: the guess for the next one of train_step's */
    bool fetches;                    /* its metrics are due */
    int64_t first_epoch; /* epochs that an earlier training had ended: added for schedules and data */
    bool has_begun;      /* first_epoch is known */
    /* of the loop */
    bool is_in_fit;
    int64_t validated;      /* iterations that had run at the last validation; -1: none yet */
    double start, seconds;  /* when weft_trainer_fit() began, and what earlier calls took */
    double data_seconds;    /* of progress.data_seconds: before this trainer */
    double val_seconds;     /* of progress.seconds: in the validations of the loop */
    atomic_bool is_stopped; /* on this rank */
    bool stops;             /* on all ranks */
    bool is_common;         /* all ranks have met the last error together */
    bool is_of_validation;  /* the last error is a validation's */
    int hook_depth;         /* calls of hooks that have not returned */
    checkpoints checkpoints;
    bool is_broken; /* weights were not finite when they were looked at last (keep_going) */
    /* Hashes of the lines that batches_tell has logged. */
    size_t n_told, room_told;
    uint64_t *told; /* [n_told] */
};

/* The number in the epoch of micro-batch k of `rank`, of the run of r that is the present one (flow.c). */
int64_t flow_micro_batch(const weft_trainer *t, const bound *r, int rank, int64_t k);
/* Batches that the iteration takes, on all ranks. */
int64_t flow_takes(const weft_trainer *t, int64_t iteration);
/* Iterations of so many epochs of the flow. */
weft_status flow_count(const weft_trainer *t, int64_t epochs, int64_t *iterations, weft_error *error);
/* Runs of a graph in all iterations. */
int64_t flow_runs(const weft_trainer *t, const char *graph);
/* Binds the graphs of the plan's flow. */
weft_status flow_bind(weft_trainer *t, weft_error *error);
/* Runs every step of an iteration. */
weft_status flow_run(weft_trainer *t, weft_error *error);

/* Calls all hooks (hooks.c). */
weft_status hooks_call(weft_trainer *t, weft_point point, weft_error *error);
weft_status hooks_check(const weft_trainer *t, weft_error *error);
/* Lets Weft's own find wrong names and folders in a trainer that is complete (hooks.c). */
weft_status hooks_open(const weft_trainer *t, weft_error *error);

/* What weft_trainer_predict() does, compiled once for many runs (predict.c). Texts and data must outlive it;
 * it may outlive the trainer. Close it in any case. */
typedef struct prediction {
    sweep sweep;
    weft_plan *names; /* whose texts the output's name may be; NULL: another's */
} prediction;
weft_status prediction_open(prediction *p, const weft_trainer *t, const char *graph, const char *output,
                            const weft_dataset *data, weft_error *error);
weft_status prediction_type(const prediction *p, tensor *type, weft_error *error); /* of one batch */
weft_array *prediction_run(prediction *p, const weft_trainer *t, weft_error *error);
void prediction_close(prediction *p);
/* The model's own text of a graph's name; NULL: it has none of this name (trainer.c). */
const char *model_graph(const weft_model *m, const char *name);
/* WEFT_NAME: it has no graph of this name, with the nearest; `head` begins the text (trainer.c). */
weft_status no_graph(const weft_model *m, const char *head, const char *name, weft_error *error);
double trainer_clock(void); /* seconds (fit.c) */
/* Saves the weights that validations read, without training state: averages where optimizers keep some
 * (evaluate.c). Collective. */
weft_status trainer_save_validated(weft_trainer *t, const char *path, weft_error *error);
/* Puts averages in the place of parameters, where optimizers keep some; *done: they were not there before.
 * The second puts parameters back, also after an error of this rank, `before`, which it returns: with ZeRO
 * the other ranks take part, so it comes before they are told (evaluate.c). Collective. */
weft_status trainer_averages_on(weft_trainer *t, sweep *s, bool *done, weft_error *error);
weft_status trainer_averages_off(weft_trainer *t, sweep *s, weft_status before, weft_error *error);
/* Seconds in weft_trainer_fit() without its validations (fit.c). */
double trainer_seconds(const weft_trainer *t);
/* Passes an error of this rank to the others, whose collectives fail with its text (hooks.c). */
weft_status trainer_tell(const weft_trainer *t, weft_status status, const weft_error *error);
/* WEFT_ORDER within a hook or options.train_step (hooks.c). */
weft_status trainer_check_outside(const weft_trainer *t, const char *call, weft_error *error);
/* Begins the next epoch; the second one, within an iteration, ends the present one first, with all that the
 * loop does then (fit.c). */
weft_status trainer_next_epoch(weft_trainer *t, weft_error *error);
weft_status trainer_cross_epoch(weft_trainer *t, weft_error *error);
/* WEFT_DATA on all ranks when weights are not finite, unless options.keep_going is set (fit.c).
 * Collective. */
weft_status trainer_check_weights(weft_trainer *t, weft_error *error);
/* WEFT_ORDER when the trainer is for an evaluation (trainer.c). */
weft_status trainer_check_trains(const weft_trainer *t, weft_error *error);

#endif
