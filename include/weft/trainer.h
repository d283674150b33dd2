/** @file
 * trainer.h - the loop around the steps: a trainer holds plan, store, session and data, runs a flow
 * iteration by iteration, validates, tests and predicts.
 *
 * It is in libweft_train, which uses only the other headers: all that it does, a
 * program can do, too.
 *
 *     weft_source *data = weft_source_open_text("photos:height=64", NULL, &error);
 *     weft_hook log = weft_hook_text(stdout, 0); // hooks.h
 *     weft_trainer *t = weft_trainer_new(model, &(weft_trainer_options){
 *         .train = {1, (const weft_source *[]){data}}, .epochs = 5, .n_hooks = 1, .hooks = &log}, &error);
 *     if (t && !weft_trainer_fit(t, &error)) weft_trainer_save(t, "weights.safetensors", false, &error);
 *     weft_trainer_free(t);
 */
#ifndef WEFT_TRAINER_H
#define WEFT_TRAINER_H

#include "weft/data.h"
#include "weft/evaluator.h"
#include "weft/file.h"
#include "weft/flow.h"
#include "weft/memory.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Trains one model. One thread uses it at a time. Free it with weft_trainer_free(). */
typedef struct weft_trainer weft_trainer;

/** @name Data and metrics
 * @{ */

/** What feeds inputs: the arrays of one or more sources, which have the same number of samples. */
typedef struct weft_dataset {
    int n;                             /**< number of sources; 0: no data, for graphs without inputs */
    const weft_source *const *sources; /**< n of them */
    /** The input that each array feeds, in the order of sources and arrays; an entry that is NULL: none.
     * NULL: the names that the sources give. */
    const char *const *names;
} weft_dataset;

/** A number by its name. */
typedef struct weft_metric {
    const char *name; /**< of an output; "graph/output" where an earlier graph has one of that name */
    double value;     /**< a mean, over what the call that gives it says */
} weft_metric;
/** Numbers by their names: of each graph that ran, the outputs that are one number, and the losses that it
 * minimizes. */
typedef struct weft_metrics {
    int n;                   /**< number of metrics */
    const weft_metric *list; /**< n of them, in the order of graphs and outputs; the trainer owns them */
    int64_t samples;         /**< that they are of, on all ranks */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_metrics;
/** The value of the metric `name`, or NaN when there is none. */
WEFT_API double weft_metrics_get(const weft_metrics *metrics, const char *name);
/** @} */

/** @name Hooks
 * Functions that the trainer calls at named points. hooks.h has those that Weft brings.
 * @{ */

/** Each point once: hooks run in the order in which they were given. */
#define WEFT_POINT_LIST(X)                                                                                   \
    X(BEFORE_RUN, 0, "before_run")             /* weft_trainer_fit() begins */                               \
    X(AFTER_RUN, 1, "after_run")               /* it ends: also after an error or weft_trainer_stop() */     \
    X(BEFORE_EPOCH, 2, "before_epoch")         /* an epoch begins */                                         \
    X(AFTER_EPOCH, 3, "after_epoch")           /* it has ended, and has been validated if that was due */    \
    X(BEFORE_ITERATION, 4, "before_iteration") /* an iteration of the flow begins */                         \
    X(AFTER_ITERATION, 5, "after_iteration")   /* it has run: progress->train has its metrics */             \
    X(BEFORE_VAL, 6, "before_val")             /* a validation begins */                                     \
    X(AFTER_VAL, 7, "after_val")               /* it has ended: progress->val has its metrics */             \
    X(BEFORE_TEST, 8, "before_test")           /* a test begins */                                           \
    X(AFTER_TEST, 9, "after_test")             /* it has ended: progress->test has its metrics */            \
    X(BEFORE_SAVE, 10, "before_save")          /* weft_trainer_save() begins */                              \
    X(AFTER_SAVE, 11, "after_save")            /* the file is complete */

/** When a hook is called: WEFT_POINT_LIST says it point by point. */
typedef enum weft_hook_point {
#define X(name, number, text) WEFT_##name = number,
    WEFT_POINT_LIST(X)
#undef X
} weft_hook_point;
/** The name of a point, "before_run"; "?" outside the list. The text is static. */
WEFT_API const char *weft_hook_point_name(weft_hook_point point);

/** A hook's number that checkpoints save, and that a resumed training writes back before it begins. */
typedef struct weft_hook_number {
    const char *name; /**< "best" */
    double *value;    /**< one that is not finite is not kept */
} weft_hook_number;

/** A function and what it works on. */
typedef struct weft_hook {
    const char *name; /**< for messages; static. Without `at` it is the reason for no hook */
    /** Called at every point, on every rank. Anything but WEFT_OK ends the loop with `*error`, on all ranks.
     * It may validate, test, predict, save and stop; weft_trainer_fit() and weft_trainer_train_step() are
     * WEFT_ORDER here. */
    weft_status (*at)(void *self, weft_trainer *trainer, weft_hook_point point, weft_error *error);
    void (*free)(void *self); /**< called once, by weft_trainer_free(); NULL: nothing to free */
    /** For weft_trainer_check(): what it failed at without ending the loop. NULL: it never does. */
    weft_status (*check)(void *self, weft_error *error);
    void *self;                   /**< the first argument of all four */
    int n_kept;                   /**< numbers that checkpoints keep; the hook needs a name then */
    const weft_hook_number *kept; /**< n_kept of them, which live as long as the hook */
    /** Called once, by weft_trainer_new() when all else is made: mistakes in names and files are found
     * before the first step. NULL: nothing is looked at. */
    weft_status (*open)(void *self, weft_trainer *trainer, weft_error *error);
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_hook;
/** @} */

/** @name A trainer
 * @{ */

/** A learning rate, instead of the model's. */
typedef struct weft_optimizer_lr {
    const char *optimizer; /**< its name; NULL: all of them */
    double lr;             /**< the base of schedules */
} weft_optimizer_lr;

/** Checkpoints of a training (checkpoint.h): all that it needs to resume, saved while it runs. Resumed in
 * any world, with any plan, it ends with the bits of a training that was not stopped, where an iteration
 * takes the same micro-batches. */
typedef struct weft_trainer_checkpoints {
    const char *folder; /**< each one is FOLDER/step-N, N iterations; NULL: none are written */
    int64_t every;      /**< iterations between two; 0: not by iterations. The end of a run is saved anyway */
    double minutes;     /**< minutes between two, by rank 0's clock; 0: not by time */
    int keep;           /**< how many stay, the newest; 0: 3 */
    const char *best;   /**< metric of the validation: each best one so far is saved, and the best stays */
    bool max;           /**< that metric should grow; else it should fall */
    /** So many in a row that cannot be written end the training as weft_trainer_stop() does, after one more
     * try, and weft_trainer_check() says why; 0: 3; WEFT_NONE: it continues without them. */
    int most_failures;
    /** Resume from a checkpoint ("run/step-00000100"), from the newest one of a folder that is whole ("run"),
     * or, where it has none, begin ("auto": the newest of `folder`). NULL: begin; WEFT_ORDER where
     * `folder` has checkpoints. The seed must be the same. Metrics are not kept: a train_step that decides by
     * those of the last iteration keeps what it needs in a hook (weft_hook_number). */
    const char *resume;
    bool no_snapshot; /**< no memory for a copy: iterations wait until a checkpoint is written */
    int n_rates;      /**< number of rates */
    /** Learning rates to train with; of two for one optimizer the later. A training begins with them.
     * One that resumes has the rates of its checkpoint, which hooks may have lowered; a rate that
     * differs from what the earlier training asked for holds from there on, and the log reports it. */
    const weft_optimizer_lr *rates;
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_trainer_checkpoints;
/** Its fields except for the rates (field.h). */
WEFT_API const weft_field *weft_trainer_checkpoints_fields(void);

/** What weft_trainer_new() is given; zeroes mean the defaults. The structure is copied; all that it points to
 * must outlive the trainer, except for the lists of hooks and evaluators, which become the trainer's. */
typedef struct weft_trainer_options {
    /** Of the plan that trains; world and rank are those of `comm`. With `graph`, that of an evaluation, the
     * trainer validates, tests and predicts, and does not train. */
    weft_compile_options compile;
    const weft_env *env; /**< memory, files and log of the trainer itself; NULL: the usual ones */
    weft_comm *comm;     /**< the ranks that train together; NULL: one */
    uint64_t seed;       /**< of initial values and of the order of samples */
    /** What the flow runs on, in a new random order each epoch. An input "draws" that nothing feeds gets
     * random numbers by sample (preprocess.h). */
    weft_dataset train;
    bool in_order; /**< training takes its samples in their order */
    /** The order of training's samples, in place of a random one: fills order[0] to order[n - 1] with numbers
     * of samples, any of them, also twice, the same on all ranks. As weft_loader_options.sampler; NULL:
     * none. */
    void (*sampler)(void *context, int64_t epoch, int64_t *order, int64_t n);
    void *sampler_context;  /**< the first argument of sampler */
    int64_t sampler_count;  /**< samples of an epoch of the sampler's; 0: as many as the data have */
    weft_dataset val;       /**< what validations run on; without it there are no validations */
    weft_dataset test;      /**< what weft_trainer_test() runs on */
    const char *val_graph;  /**< NULL: "val" */
    const char *test_graph; /**< NULL: "test" where the model has it, else as val_graph */
    /** Numbers for inputs without a batch axis, which no data feed: a temperature, the weight of a loss.
     *
     *     "tau=0.07 kl=linear:0:1:1000 sigma=cosine:1:0.1:30epochs beta=rows:beta.npy"
     *
     * NAME=NUMBER, or NAME=CURVE:FROM:TO:N: FROM in the training's first iteration, TO from the N-th after it
     * on. With N "epochs" it changes with the epoch. Curves are linear, cosine and exponential, as
     * weft_schedule_kind has them. NAME=rows:FILE has a number for each iteration, and begins again after the
     * last; weft_source_open_text() opens FILE. All elements of an input, all micro-batches and all ranks of
     * an iteration have one number, and a training that resumes from a checkpoint those of one that was not
     * stopped. Evaluations and predictions have the number of the iteration that comes next; without
     * iterations (compile.graph) only NAME=NUMBER is taken. NULL: no numbers. */
    const char *set;
    int n_evaluators; /**< number of evaluators */
    /** What validations and tests measure beside the numbers that their graphs give. They become the
     * trainer's. */
    const weft_evaluator *evaluators;
    /** 0: as many as `iterations` need, or 1. Where the store has the training state of an earlier run and a
     * schedule counts epochs, these come after that run's: schedules and the order of samples continue. */
    int64_t epochs;
    int64_t iterations; /**< most iterations; 0: those of the epochs */
    /** Iterations of earlier trainings, from whose state this one starts: the steps of logs and the names of
     * pictures count on from them. It changes nothing else. A training that resumes from a checkpoint counts
     * on by itself. */
    int64_t first_iteration;
    int64_t val_epochs;     /**< validates after every so many epochs and the last; 0: 1; WEFT_NONE: never */
    int64_t val_iterations; /**< validates after every so many iterations, too; 0: not */
    /** Metrics of iterations are taken after every so many (0: 1), which may wait for a GPU: then also ranks
     * learn of weft_trainer_stop(). */
    int64_t metrics_every;
    /** Validations and tests put averages instead of parameters (weft_optimizer.ema), where they are not
     * in it, and take them out again; with this they do not. Predictions and steps read what is in place:
     * weft_use_averages(). */
    bool without_averages;
    bool keep_going; /**< NaN and infinities do not end the training */
    /** weft_session_set_check() of training, evaluations and predictions: the first result of a node that is
     * not finite ends them. Slow. */
    bool check;
    bool no_capture; /**< weft_session_set_capture() is off for them */
    /** compile.guard is what it says, where it is 0, too. Else 0 is WEFT_GUARD_NAN without
     * keep_going: a step whose loss is not finite changes nothing and ends the training (bad_step.h). */
    bool own_guard;
    /** Bad steps that are skipped: such a step updates nothing, the rest of its iteration runs, and the
     * training continues; env->log gets a line with its samples. They are counted since the last iteration
     * without one (two graphs that train on a bad batch are two), and one more ends the training. 0: the
     * first one does. It needs a guard. Where train_step returns the error of a bad step, such as that of
     * weft_run_update(), what it left out does not run, and the iteration has no metrics. */
    int64_t skip_bad_steps;
    /** Runs instead of the flow in each iteration, by calls of weft_trainer_run(): for what a flow cannot
     * say. NULL: the flow. Where it takes more batches than the epoch has left, the epoch ends within it,
     * with validation and hooks, and the next one begins. */
    weft_status (*train_step)(weft_trainer *trainer, void *user, weft_error *error);
    void *user;                           /**< the second argument of train_step */
    weft_trainer_checkpoints checkpoints; /**< what is saved while it runs, and where it resumes */
    const weft_fit_words *fit_words;      /**< for the error that it does not fit: weft_fit_options.words */
    int n_hooks;                          /**< number of hooks */
    const weft_hook *hooks;               /**< in the order in which they are called */
    uint64_t reserved[WEFT_RESERVED];     /**< zeros (status.h) */
} weft_trainer_options;
/** Its plain fields (field.h); `compile` and `checkpoints` have tables of their own. */
WEFT_API const weft_field *weft_trainer_fields(void);

/** Compiles the model, makes a store, and binds inputs to data by their names. All mistakes in names, shapes
 * and sizes are found here. NULL on failure; the hooks are freed then, too. In a world it is collective: an
 * error of one rank ends this call, or the next collective one, on all ranks with its text, and their
 * communicator is of no use then. A rank that has an error before it, such as a file that cannot be opened,
 * passes it on by weft_comm_fail(). */
WEFT_API weft_trainer *weft_trainer_new(const weft_model *model, const weft_trainer_options *options,
                                        weft_error *error);
/** How often `graph` runs (NULL: how many iterations there are) in a training of these options, which is how
 * often the optimizers in it update, without those that f16 skips: for schedules that end with the training
 * (one that starts from saved state continues to count that state's updates, so its end includes them).
 * Only the flow is compiled, and hooks stay the caller's. In a world it is collective. 0 for a graph that the
 * flow does not have. WEFT_ORDER where it cannot be known: with options.train_step and without
 * options.iterations. */
WEFT_API weft_status weft_trainer_count(const weft_model *model, const weft_trainer_options *options,
                                        const char *graph, int64_t *runs, weft_error *error);
/** Closes the session, frees store, plans and hooks. NULL is fine. */
WEFT_API void weft_trainer_free(weft_trainer *trainer);

/** Trains until all epochs or iterations are done. After weft_trainer_stop() or an error of a hook it can be
 * called again, and continues with the next iteration. WEFT_DATA when a metric or, at the end of an epoch, a
 * parameter is NaN or infinite: no later iteration runs, and what was before is lost only as far as it was
 * updated.
 *
 * In a world it is collective. An error of one rank (an image that cannot be read, a hook) ends it on all
 * ranks, with that rank's text, and their communicator is of no use then. Metrics and weights that are not
 * finite are all ranks' error, which leaves it as it is. */
WEFT_API weft_status weft_trainer_fit(weft_trainer *trainer, weft_error *error);
/** What is wrong now: weights or last metrics that are not finite (WEFT_DATA), which end weft_trainer_fit()
 * unless options.keep_going is set; that each step so far was a bad one and was skipped, so that nothing
 * was trained (WEFT_DATA); that the last checkpoint could not be written; or what a hook could not do without
 * ending it, such as a log on a full disk. */
WEFT_API weft_status weft_trainer_check(const weft_trainer *trainer, weft_error *error);
/** A step that could not be done: a bad one (bad_step.h), or without a guard one whose data its graph does
 * not take, such as a label outside the classes. */
typedef struct weft_failed_step {
    bool is_bad;         /**< a bad step: all ranks have met it together, and it changed nothing */
    int64_t epoch;       /**< from 1, as logs count it */
    int64_t iteration;   /**< from 1, as logs count it */
    int rank;            /**< whose data they were */
    int64_t micro_batch; /**< which of that rank's in the step, from 0; -1: not known */
    int64_t samples;     /**< of that micro-batch; 0: not known, or the graph takes no data */
    int64_t row;         /**< whose sample made a bad step: weft_bad_step_row(); -1: not known */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_failed_step;
/** The step that ended the last weft_trainer_fit() or weft_trainer_train_step(), into `*step` (or NULL).
 * False: no one did. */
WEFT_API bool weft_trainer_failed(const weft_trainer *trainer, weft_failed_step *step);
/** Sample `row` of that step's micro-batch: its place in the data, from 0. -1: there is none. */
WEFT_API int64_t weft_trainer_failed_sample(const weft_trainer *trainer, int64_t row);
/** Whether the last weft_trainer_fit() ended with an error of a validation, such as a label outside the
 * classes: all steps before it are whole, and on one rank they may be saved or trained further. In a world
 * the communicator may have failed. */
WEFT_API bool weft_trainer_failed_validating(const weft_trainer *trainer);
/** The path of the last complete checkpoint that this training has written or resumes from, which the trainer
 * owns, and in *iteration (or NULL) the iterations that it has. NULL: no checkpoint, and *iteration is 0. */
WEFT_API const char *weft_trainer_saved(const weft_trainer *trainer, int64_t *iteration);
/** Ends weft_trainer_fit() after the present iteration; in a world after one that all ranks then have begun.
 * It may be called from a hook, another thread, or a signal handler. */
WEFT_API void weft_trainer_stop(weft_trainer *trainer);

/** One iteration: the flow, or options.train_step. `*metrics` (or NULL) becomes the means over its runs and
 * all ranks. Where an epoch has too few batches left the next one begins. */
WEFT_API weft_status weft_trainer_train_step(weft_trainer *trainer, weft_metrics *metrics, weft_error *error);
/** For options.train_step: runs a graph once, micro-batch by micro-batch, on new batches (NEXT) or those of
 * the run before it in this iteration (SAME; AUTO: NEXT for the first run that has inputs). With
 * options.compile.manual it adds their gradients, and train_step calls weft_run_update() with the trainer's
 * session. */
WEFT_API weft_status weft_trainer_run(weft_trainer *trainer, const char *graph, weft_flow_batch batch,
                                      weft_error *error);

/** The next batch of the validation data, on this rank: its metrics. A call after the last batch begins
 * again, and so does weft_trainer_validate(). `*metrics` has no samples where the rank has no batch
 * left. It reads parameters, or averages while weft_use_averages() has put them in place. */
WEFT_API weft_status weft_trainer_val_step(weft_trainer *trainer, weft_metrics *metrics, weft_error *error);
/** The same with the test data. */
WEFT_API weft_status weft_trainer_test_step(weft_trainer *trainer, weft_metrics *metrics, weft_error *error);
/** Every sample of the validation data once, the last, smaller batch too: means over samples of all ranks.
 * In a world it is collective. */
WEFT_API weft_status weft_trainer_validate(weft_trainer *trainer, weft_metrics *metrics, weft_error *error);
/** The same with the test data. */
WEFT_API weft_status weft_trainer_test(weft_trainer *trainer, weft_metrics *metrics, weft_error *error);

/** Takes metrics of iterations after every so many from now on: see options.metrics_every. In a world all
 * ranks call it, with the same number at the same iteration, as metrics are summed over ranks. */
WEFT_API void weft_trainer_set_metrics_every(weft_trainer *trainer, int64_t every);

/** One output of a graph (NULL: "predict") for every sample of the data, in their order: its rows of all
 * batches, one after another. `output` NULL: the graph's first. Each rank that calls it computes all. NULL on
 * failure; free the array with weft_array_free(). */
WEFT_API weft_array *weft_trainer_predict(weft_trainer *trainer, const char *graph, const char *output,
                                          const weft_dataset *data, weft_error *error);

/** Saves the weights, as weft_session_save(): parameters, or averages while weft_use_averages() has put them
 * in place, as graphtool train does before it writes weights without training state. In a world it is
 * collective, and rank 0 writes. */
WEFT_API weft_status weft_trainer_save(weft_trainer *trainer, const char *path, bool training,
                                       weft_error *error);
/** @} */

/** @name What a trainer holds
 * @{ */

/** Where a trainer is. */
typedef struct weft_progress {
    int64_t epoch;          /**< the present one, from 0 */
    int64_t iteration;      /**< iterations that have run */
    int64_t iterations;     /**< those of the whole run; 0: unknown, as train_step decides */
    int64_t samples;        /**< that iterations took, on all ranks */
    int64_t skipped;        /**< bad steps that this trainer has skipped (skip_bad_steps) */
    double seconds;         /**< in weft_trainer_fit() */
    double data_seconds;    /**< that iterations waited for batches on this rank: weft_loader_waited() */
    double compile_seconds; /**< that compiling the plan took */
    int rank;               /**< this one */
    int world;              /**< number of ranks */
    weft_metrics train;     /**< of the last iteration */
    weft_metrics val;       /**< of the last validation; none before it */
    weft_metrics test;      /**< of the last test; none before it */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_progress;
/** Where it is: the structure changes as the trainer works. */
WEFT_API const weft_progress *weft_trainer_progress(const weft_trainer *trainer);
/** Its store. Load weights and set learning rates before the session opens. The trainer owns it. */
WEFT_API weft_store *weft_trainer_store(const weft_trainer *trainer);
/** The session that trains. The first call, or the first step, opens it: in a world that is collective. NULL
 * on failure. The trainer owns it. */
WEFT_API weft_session *weft_trainer_session(weft_trainer *trainer, weft_error *error);
/** What gives it its batches for training, whose waits can be traced. NULL without data. The trainer owns
 * it. */
WEFT_API weft_loader *weft_trainer_loader(const weft_trainer *trainer);
/** The plan that it runs. The trainer owns it. */
WEFT_API const weft_plan *weft_trainer_plan(const weft_trainer *trainer);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
