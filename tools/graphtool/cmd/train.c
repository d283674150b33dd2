/* train.c - graphtool train: a step is an iteration of the model's flow (without one, every training graph
 * once, in order, on one batch). Weights are written at the end, completely or not at all. Ctrl-C ends the
 * training after the current step. */
#include "tools/graphtool/common/flow.h"
#include "tools/graphtool/common/progress.h"
#include "tools/graphtool/common/sweep.h"
#include "tools/graphtool/common/world.h"

#include "graph/core/graph.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

typedef struct training {
    const options *o;
    weft_plan *plan;
    weft_store *store;
    weft_session *session;
    batches data;
    sweep val;
    bool has_val;
    flow flow; /* its values: means over all ranks */
    progress progress;
    int64_t steps; /* iterations of the whole run */
    bool is_interrupted;         /* some rank was interrupted: all stop after the same step */
    bool is_broken;              /* weights are not finite, and --keep-going is given */
} training;

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal) {
    (void)signal;
    interrupted = 1;
}

/* ---- before the first step: all errors that can be found now are reported now ---- */

static int check_outputs(const options *o) {
    int status = o->output ? out_check(o->output) : -1;
    if (status < 0 && o->log) status = out_check(o->log);
    return status;
}

/* Loads the data. */
static int open_data(training *t, const weft_model *m) {
    const options *o = t->o;
    int status = batches_load(&t->data, &o->data);
    if (status >= 0) return status;
    int64_t batch = o->batch ? o->batch : m->batch;
    if (t->data.n && t->data.samples < batch)
        return tool_fail("%lld samples are fewer than a batch of %lld: use --batch=N",
                         (long long)t->data.samples, (long long)batch);
    if (!t->data.n && !o->steps) return tool_fail("without --data there are no epochs: use --steps=N");
    weft_loader_options how = {
        .batch = batch, .shuffle = true, .drop_last = true, .seed = (uint64_t)o->seed, .all = true};
    return batches_cut(&t->data, &how, o);
}

/* The number of steps. */
static int count_steps(training *t) {
    const options *o = t->o;
    int64_t epochs = o->epochs ? o->epochs : o->steps ? INT64_MAX : 1, most = o->steps ? o->steps : INT64_MAX;
    t->steps = o->steps;
    if (!t->data.n) return -1;
    return flow_count(&t->flow, epochs, weft_loader_batches(t->data.loader), most, &t->steps);
}

static int open_validation(training *t, const weft_model *m) {
    if (!t->o->val_data.n) return -1;
    if (!graph_find(m, "val")) return tool_fail("--val-data: the model has no graph 'val'");
    t->has_val = true;
    return sweep_open(&t->val, m, t->o, "val", &t->o->val_data, NULL);
}

/* Opens files, plans, store and sessions; on failure close_all frees what there is. */
static int prepare_training(training *t, weft_model *m) {
    const options *o = t->o;
    weft_error error = {0};
    int status = check_outputs(o);
    if (status < 0) status = open_data(t, m);
    if (status < 0) status = open_validation(t, m);
    if (status >= 0) return status;
    if (!(t->store = tool_store(m, o, &status))) return status;
    if (!(t->plan = tool_compile(m, o, NULL, 0, &status))) return status;
    if ((status = flow_open(&t->flow, t->plan, &t->data, o)) >= 0) return status;
    if ((status = count_steps(t)) >= 0) return status;
    if (o->lr > 0 && weft_store_set_lr(t->store, NULL, o->lr, &error)) return tool_error(&error);
    if (!(t->session = weft_session_open_on(t->plan, t->store, o->comm, &error))) return tool_error(&error);
    tool_watch(t->session, o);
    if (t->has_val) status = sweep_attach(&t->val, t->store);
    if (status >= 0) return status;
    return progress_open(&t->progress, o->log, t->steps, t->flow.n_values, t->flow.names);
}

/* ---- steps ---- */

static int check_numbers(const training *t) {
    for (int i = 0; i < t->flow.n_values; i++)
        if (!isfinite(t->flow.values[i]) && !t->o->keep_going) {
            /* never "-nan": the sign has no meaning */
            tool_fail("step %lld: %s is %g: training stops, no weights are written (--keep-going continues)",
                      (long long)t->progress.step, t->flow.names[i],
                      isnan(t->flow.values[i]) ? NAN : t->flow.values[i]);
            return EXIT_WRONG;
        }
    return -1;
}

/* Sets *broken if any element of store entry `path` is not finite. Entries that are not f32, or belong to
 * another rank, count as fine. */
static int is_broken(const training *t, const char *path, bool *broken) {
    weft_dtype dtype;
    int64_t shape[WEFT_MAX_NDIM], n = 1;
    int ndim = weft_store_shape(t->store, path, &dtype, shape);
    for (int i = 0; i < ndim; i++) n *= shape[i];
    if (ndim < 0 || dtype != WEFT_F32) return -1;
    weft_error error = {0};
    float *values = malloc((size_t)n * sizeof *values);
    if (!values) return tool_fail("out of memory");
    weft_status read = weft_store_get(t->store, path, values, (size_t)n * sizeof *values, &error);
    for (int64_t i = 0; !read && i < n; i++) *broken = *broken || !isfinite(values[i]);
    free(values);
    return read && read != WEFT_ORDER ? tool_error(&error) : -1;
}

/* Checks the weights, as a loss whose name does not end in "loss" is not watched. */
static int check_weights(training *t) {
    double broken = 0; /* broken tensors, over all ranks */
    const char *first = NULL, *path;
    weft_error error = {0};
    int status = weft_sync(t->session, &error) ? tool_error(&error) : -1;
    for (int i = 0; status < 0 && (path = weft_store_path(t->store, i)); i++) {
        bool is = false;
        status = is_broken(t, path, &is);
        if (is && !first) first = path;
        broken += is;
    }
    if (status < 0) status = world_sum(t->o, 1, &broken);
    t->is_broken = broken > 0;
    if (status >= 0 || !t->is_broken || t->o->keep_going) return status;
    tool_fail(
        "step %lld: %s is no longer finite: training stops, no weights are written (--keep-going continues)",
        (long long)t->progress.step, first ? first : "a tensor of another rank");
    return EXIT_WRONG;
}

/* Averages the step's values over all ranks, and learns whether any rank was interrupted. */
static int agree(training *t) {
    flow *f = &t->flow;
    double all[FLOW_VALUES + 1];
    for (int i = 0; i < f->n_values; i++) all[i] = f->values[i] / f->world;
    all[f->n_values] = interrupted;
    int status = world_sum(t->o, f->n_values + 1, all);
    memcpy(f->values, all, sizeof f->values);
    t->is_interrupted = all[f->n_values] > 0;
    return status;
}

/* The loss is checked after it has been logged. */
static int one_step(training *t, int64_t epoch) {
    int status = flow_run(&t->flow, t->session, &t->data);
    if (status < 0) status = agree(t);
    if (status >= 0) return status;
    progress_step(&t->progress, epoch, t->flow.rows, t->flow.has_value, t->flow.values);
    return check_numbers(t);
}

/* The validation shares the store, so the training must have finished its updates. */
static int validate(training *t, int64_t epoch) {
    double means[RUN_MAX_PORTS] = {0};
    const char *names[RUN_MAX_PORTS];
    int64_t samples;
    for (int i = 0; i < t->val.run[0].n_out; i++) names[i] = t->val.run[0].out[i].name;
    weft_error error = {0};
    /* the validation's session reads the same store */
    if (weft_sync(t->session, &error)) return tool_error(&error);
    int status = sweep_means(&t->val, means, &samples);
    if (status < 0) progress_validation(&t->progress, epoch, t->val.run[0].n_out, names, means);
    return status;
}

/* Whether the epoch has batches left for the next iteration. */
static bool epoch_goes_on(const training *t) {
    int64_t left = weft_loader_batches(t->data.loader) - t->data.taken;
    return !t->data.loader || flow_takes(&t->flow, t->flow.iteration) <= left;
}

/* Weights are checked, and validated, at the end of each epoch and of the run. */
static int all_steps(training *t) {
    int status = -1;
    int64_t epoch = 0;
    batches_epoch(&t->data, epoch);
    for (int64_t step = 0; status < 0 && step < t->steps && !t->is_interrupted; step++) {
        if (!epoch_goes_on(t)) batches_epoch(&t->data, ++epoch);
        status = one_step(t, epoch + 1);
        bool ends = !epoch_goes_on(t) || step == t->steps - 1;
        if (status < 0 && ends && t->has_val) status = validate(t, epoch + 1);
        if (status < 0 && ends) status = check_weights(t);
    }
    return status < 0 && t->is_interrupted ? check_weights(t) : status;
}

/* All ranks contribute what they hold. Only rank 0 has the name of the file, so they first learn whether
 * there is one. */
static int save(training *t) {
    weft_error error = {0};
    double files = t->o->output != NULL;
    if (weft_sync(t->session, &error)) return tool_error(&error);
    int status = world_sum(t->o, 1, &files);
    if (status >= 0 || files == 0) return status;
    return weft_session_save(t->session, t->o->output, t->o->training, &error) ? tool_error(&error) : -1;
}

/* Saves, prints the summary, and chooses the exit status. */
static int finish_training(training *t) {
    int status = save(t);
    if (status >= 0) return status;
    double seconds = clock_seconds() - t->progress.start;
    printf("%s %lld step%s, %lld sample%s, %.1f s; %s%s\n",
           t->is_interrupted ? "interrupted after" : "trained", (long long)t->progress.step,
           t->progress.step == 1 ? "" : "s", (long long)t->progress.samples,
           t->progress.samples == 1 ? "" : "s", seconds,
           t->o->output ? "weights in " : "weights not saved (-o FILE saves them)",
           t->o->output ? SHOW_PATH(t->o->output) : "");
    bool is_wrong = t->is_broken;
    for (int i = 0; i < t->flow.n_values; i++) is_wrong = is_wrong || !isfinite(t->flow.values[i]);
    if (is_wrong)
        tool_fail("the weights or the last losses are not finite%s",
                  t->o->output ? ": written because of --keep-going" : "");
    if (is_wrong || t->progress.has_lost_log) return EXIT_WRONG;
    return t->is_interrupted ? EXIT_INTERRUPTED : EXIT_FINE;
}

static void close_all(training *t) {
    weft_session_close(t->session);
    if (t->has_val) sweep_close(&t->val);
    weft_plan_free(t->plan);
    weft_store_free(t->store);
    batches_free(&t->data);
    flow_close(&t->flow);
}

static int train_run(const options *o) {
    int status = EXIT_FINE;
    training *t = calloc(1, sizeof *t);
    weft_model *m = t ? tool_load(o, &status) : NULL;
    if (!t) return tool_fail("out of memory");
    if (m) {
        t->o = o;
        status = prepare_training(t, m);
        if (status < 0) {
            signal(SIGINT, on_interrupt);
            status = all_steps(t);
            progress_close(&t->progress);
            if (status < 0) status = finish_training(t);
        }
        close_all(t);
        weft_model_free(m); /* last: graph_run points to its names */
    }
    free(t);
    return status;
}

const command command_train = {
    .name = "train",
    .summary = "Trains a model by its flow: without one, each step runs all training graphs on one batch",
    .takes_model = true,
    .options = OPTIONS_COMPILE OPTIONS_SPREAD OPTIONS_FEED OPTIONS_TALK
    "val-data epochs steps lr log optimizer-state keep-going output",
    .details = "Outputs that are one number and end in \"loss\" or \"accuracy\" are shown and logged.",
    .example = "graphtool train convnet.bin --data image=train-images-idx3-ubyte.gz \\\n"
               "             --data label=train-labels-idx1-ubyte.gz --epochs 5 --log log.jsonl -o "
               "weights.safetensors",
    .run = train_run,
    .ranks = COMMAND_JOINS,
};
