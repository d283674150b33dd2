/* trainer.h - what a trainer is made of. Each part is a file, the lower first:
 *
 *     state.c     what it holds and where it is; its clock, its log
 *     fed.c       numbers for inputs without a batch axis
 *     feed.c      batches of a data set, and graphs whose inputs are bound to them
 *     metrics.c   numbers by name: sums over runs, means over ranks
 *     tally.c     what an evaluator counts and sums up, tally_rows.c the rows that it keeps; evaluators.c
 *                 calls them with batches;
 *                 evaluator_*.c are some
 *     sweep.c     every sample of a data set once through an evaluation graph
 *     hooks.c     calls hooks; runtime/hooks has Weft's
 *     evaluate.c  validation and test; predict.c  one output for every sample
 *     bad_steps.c a step that fails on its data: whose samples they were, and whether the training continues
 *     flow.c      one iteration: the steps of the flow, micro-batch by micro-batch
 *     epoch.c     an epoch's begin and end; own_step.c  options.train_step instead of a flow
 *     watch.c     a metric of validations; rates.c  learning rates that were asked for
 *     checkpoints.c  when they are due, and resuming
 *     fit.c       the loop
 *     trainer.c   making and freeing */
#ifndef WEFT_RUNTIME_TRAIN_TRAINER_H
#define WEFT_RUNTIME_TRAIN_TRAINER_H

#include "runtime/data/kit.h"
#include "weft/schedule.h"
#include "weft/trainer.h"

#include <stdatomic.h>

/* ---- fed.c ---- */

/* A number of options.set. */
typedef struct fed_number {
    const char *input, *said; /* its name, and what follows the '=' */
    weft_schedule_kind curve; /* CONSTANT: `to` alone; NONE: rows */
    double from, to;
    int64_t length; /* iterations, or epochs, from the one to the other */
    bool by_epoch;
    int64_t n_rows;
    double *rows; /* [n_rows]: the numbers of iterations */
    double value; /* now */
    double saved; /* as a checkpoint has it; NaN: no checkpoint has */
} fed_number;
typedef struct fed_list {
    int n;
    fed_number *list; /* [n] */
} fed_list;

/* An input that a number feeds. */
typedef struct fed_input {
    const fed_number *number;
    weft_dtype dtype;
    size_t bytes;
    void *data;
    double value; /* that the data are; NaN: not yet any */
} fed_input;

/* Reads options.set, and compares it with other ranks' (fed_agree, collective). */
weft_status fed_open(weft_trainer *t, weft_error *error);
weft_status fed_agree(const weft_trainer *t, weft_error *error);
/* The number for an input; NULL: `all` has no such input. */
const fed_number *fed_find(const fed_list *all, const char *input);
/* Makes the values those of the present iteration and epoch. */
void fed_now(const weft_trainer *t);
/* Whether the data have no rows for this input, of batches of so many. */
bool fed_is_due(const weft_port *input, int64_t rows);
weft_status fed_bind(fed_input *f, const fed_number *number, const char *graph, const weft_port *input,
                     kit_arena *memory, weft_error *error);
/* Fills the data where the number has changed. */
void fed_fill(fed_input *f);
/* Logs which numbers differ from those that a checkpoint has. */
void fed_tell(const weft_trainer *t);

/* ---- feed.c ---- */

/* The batches of a data set, and the one that is current. Without sources it has none, and only graphs
 * without inputs run. */
typedef struct batches {
    kit_arena memory;
    weft_loader *loader;
    int n;                  /* arrays of all sources */
    const char **names;     /* [n]: the input that each feeds; NULL: none */
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
/* Logs which arrays are converted, except for what the trainer has logged before; without data nothing. */
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
/* The array that feeds an input, and whose it is; NULL: nothing feeds it. */
const weft_source_array *dataset_find(const weft_dataset *d, const char *input, const weft_source **source);
/* The place of an output, or of an input, of this name, with *port filled; -1: there is none, and *near (or
 * NULL) is of *near and all names the one that `name` is nearest to. */
int find_port(const weft_plan *plan, const char *graph, bool is_input, const char *name, weft_port *port,
              const char **near);

/* A graph of a plan whose inputs are fed by batches and numbers. Its outputs that are one number are its
 * metrics. */
typedef struct bound {
    kit_arena memory;
    const char *graph;
    int n_in, n_out;
    int n_fed;           /* of its inputs, those that numbers feed: the others take batches */
    int n_fetch;         /* first those of the numbers, then what evaluators read */
    weft_feed *feeds;    /* [n_in] */
    int *source;         /* [n_in]: which array of the data set feeds it; -1: a number */
    fed_input *fed;      /* [n_fed] */
    weft_port *out;      /* [n_out] */
    weft_fetch *fetches; /* [n_fetch]: the first n_out into numbers, the others into memory of their own */
    double *numbers;     /* [n_out]: 8 bytes for each */
    int accumulate;      /* micro-batches of a step */
    int first;           /* place of its first metric in a list */
} bound;

/* The length of the batch that a graph takes: the first axis of its first input that `fed` does not feed, or
 * the plan's without one. */
int64_t plan_rows(const weft_plan *plan, const char *graph, const fed_list *fed);
/* Binds the inputs of `graph`. Each must be a number of `fed`, or in the data set, with its type and shape,
 * `rows` at a time. `output`: the only one that is fetched, into memory that the caller sets; "": the graph's
 * first; NULL: every one that is a number. */
weft_status bound_open(bound *r, const weft_plan *plan, const char *graph, const batches *b,
                       const fed_list *fed, int64_t rows, const char *output, weft_error *error);
/* Whether it reads a batch in each run. */
bool bound_reads(const bound *r);
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
    kit_arena memory;
    int n;
    metric_sum *list;   /* [n] */
    weft_metric *given; /* means of those with a weight */
} metrics;

/* Appends the outputs of a graph; a name that another graph has, too, becomes graph/name. */
weft_status metrics_add(metrics *m, bound *r, weft_error *error);
void metrics_clear(metrics *m);
/* Takes back what is noted from the one call to the other. */
void metrics_mark(metrics *m);
void metrics_rewind(metrics *m);
/* Adds what a run gave, with a weight. */
void metrics_note(metrics *m, const bound *r, double weight);
/* Means of what was noted since metrics_clear, over all ranks of `comm` (NULL: this one), into *out; *extra
 * becomes its sum over them. */
weft_status metrics_means(metrics *m, weft_comm *comm, double *extra, weft_metrics *out, weft_error *error);

/* Sums n numbers over ranks in place; on one rank, or with `comm` NULL, they stay. */
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
    kit_arena memory;
    const char *name; /* the evaluator's */
    int64_t n_counts, n_sums;
    double *counts; /* [n_counts]: whole numbers */
    exact *sums;    /* [n_sums] */
    int64_t n_rows, width;
    double *rows; /* [n_rows,width]; NULL: there is no room yet */
    int n_reports;
    report *reports;  /* [n_reports] */
    weft_error error; /* what a call could not do */
};

weft_status tally_open(weft_tally *t, const char *name, const weft_tally_size *size, const weft_env *env,
                       weft_error *error);
void tally_clear(weft_tally *t);
/* Makes it that of all ranks. Collective. */
weft_status tally_merge(weft_tally *t, weft_comm *comm, weft_error *error);

/* ---- tally_rows.c ---- */

/* Room for one more row, which the caller fills. NULL: the tally has the error. */
double *rows_add(weft_tally *t);
/* This rank's rows become those of all, one rank after the other: rank r has rows_of[r]. Collective. */
weft_status rows_gather(weft_tally *t, weft_comm *comm, const double *rows_of, weft_error *error);
/* Sorts them by all their bits. */
void rows_sort(weft_tally *t);
/* Gives their memory back. */
void rows_drop(weft_tally *t);

/* ---- evaluators.c ---- */

/* What an evaluator reads of a run. */
typedef struct measure_reads {
    weft_view reads[WEFT_MAX_READS];
    int source[WEFT_MAX_READS]; /* array of the data set; -1: an output */
} measure_reads;

/* The evaluators of a sweep. */
typedef struct measures {
    kit_arena memory;
    int n;
    const weft_evaluator *list; /* [n]: the trainer's */
    weft_tally *tallies;        /* [n] */
    measure_reads *reads[2];    /* [n], for whole batches and for the rest */
    weft_metric *given;         /* the graph's metrics, and what was reported */
} measures;

/* Copies its texts, too; NULL texts: out of memory. */
void evaluator_copy(weft_evaluator *into, const weft_evaluator *from, kit_arena *memory);
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
    bool is_open, is_begun, checks, no_capture;
} sweep;

/* What a sweep is made of, beside the model and what it compiles with. */
typedef struct sweep_options {
    const char *graph;
    const weft_dataset *data;
    const fed_list *fed;
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

struct weft_checkpoint;
/* Lists the optimizers of the store. */
weft_status rates_open(weft_trainer *t, weft_error *error);
/* Gives the store of a training that begins what options.checkpoints.rates says. */
weft_status rates_begin(weft_trainer *t, weft_error *error);
/* Those that nothing has said are the store's, as the first run begins. */
weft_status rates_keep(weft_trainer *t, weft_error *error);
/* Takes what is asked for differently from the training that was saved. */
weft_status rates_resume(weft_trainer *t, weft_error *error);

/* ---- settings.c ---- */

/* Logs each setting in which the plan differs from that of the training that was saved. */
void settings_tell(const weft_trainer *t, const struct weft_checkpoint *c);

/* ---- checkpoints.c ---- */

typedef struct checkpoints {
    struct weft_checkpoint_writer *writer; /* NULL: none are written */
    struct weft_checkpoint_lock *lock;     /* of the folder, on rank 0; NULL: none */
    bool is_begun;                         /* one is under way */
    bool is_resumed;                       /* the training resumes from one; until its first run has begun */
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

/* Checks the options, and continues from where they say. Before hooks are looked at. */
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
 * bad one that may be passed over is not an error any more, and its metrics are taken back. */
weft_status step_failed(weft_trainer *t, const bound *r, int64_t micro, bool is_bad, weft_error *error);

/* ---- the trainer ---- */

struct weft_trainer {
    kit_arena memory;
    const weft_env *env;
    const weft_model *model;
    weft_trainer_options options;
    bool owns; /* hooks and evaluators */
    weft_plan *plan;
    weft_store *store;
    weft_session *session; /* NULL until the first step */
    batches data;
    fed_list fed;
    bound *graphs; /* [n_graphs] of the flow, in the order of their first steps, then others that ran */
    int n_graphs;  /* at most those of the model */
    metrics metrics;
    sweep val, test;
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
    size_t n_told;
    uint64_t *told; /* [n_told] */
};

/* ---- flow.c ---- */

/* The place of a graph among those that are bound; -1: it is not. */
int flow_graph(const weft_trainer *t, const char *name);
weft_status flow_bind_graph(weft_trainer *t, const char *name, weft_error *error);
/* Takes the next batches of the epoch for a run of r, on all ranks. */
void flow_take(weft_trainer *t, const bound *r);
/* One run of a graph: its micro-batches, after the last of which it updates. */
weft_status flow_run_graph(weft_trainer *t, bound *r, weft_error *error);
/* The number in the epoch of micro-batch k of `rank`, of the run of r that is the present one
 * (bad_steps.c). */
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

/* ---- hooks.c ---- */

weft_status hooks_call(weft_trainer *t, weft_hook_point point, weft_error *error);
weft_status hooks_check(const weft_trainer *t, weft_error *error);
/* Of a trainer that is complete. */
weft_status hooks_open(weft_trainer *t, weft_error *error);

/* ---- predict.c ---- */

/* What weft_trainer_predict() does, compiled once for many runs. Texts and data must outlive it; it may
 * outlive the trainer. Close the sweep in any case. */
weft_status prediction_open(sweep *s, const weft_trainer *t, const char *graph, const char *output,
                            const weft_dataset *data, weft_error *error);
weft_status prediction_type(const sweep *s, tensor *type, weft_error *error); /* of one batch */
weft_array *prediction_run(sweep *s, const weft_trainer *t, weft_error *error);

/* ---- state.c ---- */

/* The model's own text of a graph's name; NULL: it has none of this name, and *error (or NULL) says so after
 * `head`, with the nearest. */
const char *model_graph(const weft_model *m, const char *name, const char *head, weft_error *error);
double trainer_clock(void); /* seconds */
/* Seconds in weft_trainer_fit() without its validations. */
double trainer_seconds(const weft_trainer *t);
/* What a line of a log calls the present iteration and epoch, which count on from those of earlier
 * trainings. */
int64_t log_step(const weft_trainer *t);
int64_t log_epoch(const weft_trainer *t);
/* A line for the log, by rank 0. */
void trainer_log(const weft_trainer *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* WEFT_ARGUMENT when a dataset has not the sources that it counts; `field` names that count. */
weft_status dataset_check(const weft_dataset *data, const char *field, weft_error *error);
/* WEFT_ORDER when the trainer is for an evaluation; the second one, too, within a hook or
 * options.train_step. */
weft_status trainer_check_trains(const weft_trainer *t, weft_error *error);
weft_status trainer_check_outside(const weft_trainer *t, const char *call, weft_error *error);
/* Passes an error of this rank to the others, whose collectives fail with its text. */
weft_status trainer_tell(const weft_trainer *t, weft_status status, const weft_error *error);

/* ---- evaluate.c ---- */

/* Saves the weights that validations read, without training state: averages where optimizers keep some.
 * Collective. */
weft_status trainer_save_validated(weft_trainer *t, const char *path, weft_error *error);
/* Puts averages in the place of parameters, where optimizers keep some; *done: they were not there before.
 * The second puts parameters back, also after an error of this rank, `before`, which it returns: with ZeRO
 * the other ranks take part, so it comes before they hear of it. Collective. */
weft_status trainer_averages_on(weft_trainer *t, sweep *s, bool *done, weft_error *error);
weft_status trainer_averages_off(weft_trainer *t, sweep *s, weft_status before, weft_error *error);
/* ---- epoch.c ---- */

/* Begins the next epoch; the second one, within an iteration, ends the present one first, with all that the
 * loop does then. */
weft_status trainer_next_epoch(weft_trainer *t, weft_error *error);
weft_status trainer_cross_epoch(weft_trainer *t, weft_error *error);
/* WEFT_DATA on all ranks when weights are not finite, unless options.keep_going is set.
 * Collective. */
weft_status trainer_check_weights(weft_trainer *t, weft_error *error);
/* Whether the epoch has batches left for the next iteration; whether the run has all its iterations. */
bool epoch_has_room(const weft_trainer *t);
bool trainer_is_done(const weft_trainer *t);
weft_status epoch_begin(weft_trainer *t, weft_error *error);
/* The last epoch of a run may be cut short. */
weft_status epoch_end(weft_trainer *t, bool is_whole, weft_error *error);
/* Validates, where there are data, and learns whether the run stops. */
weft_status epoch_validate(weft_trainer *t, weft_error *error);
/* Whether any rank was asked to stop. Collective. */
weft_status trainer_agree_stop(weft_trainer *t, weft_error *error);

/* ---- own_step.c ---- */

/* options.train_step, and whether its error is a bad step that is skipped. */
weft_status own_step_run(weft_trainer *t, weft_error *error);

#endif
