/* train.c - graphtool train: the trainer, with a bar, a log, and weights written at the end, completely or
 * not at all. Ctrl-C ends the training after the current step. */
#include "tools/graphtool/common/checkpoints.h"
#include "tools/graphtool/common/config.h"
#include "tools/graphtool/common/evaluators.h"
#include "tools/graphtool/common/lost.h"
#include "tools/graphtool/common/optimizers.h"
#include "tools/graphtool/common/paths.h"
#include "tools/graphtool/common/samples.h"
#include "tools/graphtool/common/watched.h"
#include "tools/graphtool/common/weights.h"
#include "tools/graphtool/common/world.h"

#include "graph/core/graph.h"
#include "graph/settings/minimize.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct training {
    const options *o;
    weft_model *model;
    dataset data, val;
    weft_trainer *trainer;
    char best_path[PATHS_ROOM];                    /* of --best */
    char *best_metric, *stop_metric, *keep_metric; /* METRIC of --best, --early-stop and --keep-best */
    evaluators measured;                           /* by --metric */
    int64_t resumed;                               /* the iteration of --resume; 0: the training begins */
    bool has_failed;                               /* a validation has: the weights are whole all the same */
    samples samples;
    int n_rates;
    weft_rate *rates; /* of --lr and --optimizer */
} training;

enum { HOOKS = 8 };

static weft_trainer *interrupted; /* what Ctrl-C ends */

static volatile sig_atomic_t was_interrupted;

/* Ctrl-C; mpirun at Ctrl-C, and schedulers at the time limit; a lost terminal; Slurm's --signal. */
static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
enum { SIGNALS = sizeof signals / sizeof *signals };

static void on_interrupt(int signal) {
    if (signal == SIGTERM) lost_write_ring(); /* mpirun kills after 1 s, also where the step does not end */
    was_interrupted = 1;
    weft_trainer_stop(interrupted);
}

/* Under nohup(1) the terminal may go: SIGHUP stays ignored. */
static void handle(int number, void (*by)(int)) {
    if (signal(number, by) == SIG_IGN && number == SIGHUP) signal(number, SIG_IGN);
}

/* From the first step until the weights are written: a second signal does not end what the first one began.
 * Whoever reads standard output may leave (`| head`); that ends no training. */
static void watch_signals(weft_trainer *t) {
    interrupted = t;
    for (size_t i = 0; i < SIGNALS; i++) handle(signals[i], on_interrupt);
    signal(SIGPIPE, SIG_IGN);
}

/* What comes late, when all is saved, ends nothing. */
static void leave_signals(void) {
    for (size_t i = 0; i < SIGNALS; i++) handle(signals[i], was_interrupted ? SIG_IGN : SIG_DFL);
    lost_take_signals();
    interrupted = NULL;
}

/* ---- before the first step: all errors that can be found now are reported now ---- */

/* No run writes over another one: whichever file of a run is there. */
static int check_fresh(const char *folder) {
    static const char *const files[] = {"weights.safetensors", "weights.best.safetensors", "log.jsonl",
                                        "curves.svg", "config.json"};
    char path[4096];
    struct stat is;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        if (stat(path, &is) == 0)
            return tool_fail(
                "train: --work-dir=%s: it has a run already (%s), which is not overwritten: give "
                "this run another folder, or remove that one",
                SHOW_PATH(folder), files[i]);
    }
    return out_folder(folder);
}

/* Whether the folder was made by a run of the same options, which was stopped before its first checkpoint. */
static bool is_same_run(const options *o) {
    char path[4096];
    snprintf(path, sizeof path, "%s/config.json", o->work_dir);
    return config_is_in(o, path);
}

/* Only rank 0 has the name and writes. */
static int place_best(training *t) {
    const char *output = t->o->output;
    if (world_rank(t->o) == 0 && !output)
        return tool_fail(
            "train: --best has no effect without -o FILE or --work-dir: its file is beside that one");
    if (!paths_best(output ? output : "", t->best_path))
        return tool_fail("train: -o %s: the name is too long", output);
    return -1;
}

/* Folders are made, and files tried, each by what it will be called. */
static int check_outputs(training *t) {
    const options *o = t->o;
    if (world_rank(o)) return -1;                                         /* only rank 0 writes */
    bool goes_on = o->resume && (checkpoints_there(o) || is_same_run(o)); /* what it wrote before is there */
    int status = !o->work_dir ? -1 : goes_on ? out_folder(o->work_dir) : check_fresh(o->work_dir);
    const char *const folders[] = {o->tensorboard, o->checkpoint_dir};
    const char *const files[] = {o->output, o->log, o->csv, o->curves, o->best ? t->best_path : NULL};
    for (size_t i = 0; status < 0 && i < sizeof folders / sizeof *folders; i++)
        if (folders[i]) status = out_folder(folders[i]);
    for (size_t i = 0; status < 0 && i < sizeof files / sizeof *files; i++)
        if (files[i]) status = out_check(files[i]);
    return status < 0 ? samples_place(&t->samples) : status;
}

/* Weights are safetensors, whatever the name says: a reader would be misled by another format's. */
static int check_name(const char *path) {
    static const char *const others[] = {".npz", ".npy", ".onnx", ".h5", ".png", ".svg"};
    const char *end = path ? strrchr(path, '.') : NULL;
    for (size_t i = 0; end && i < sizeof others / sizeof *others; i++)
        if (strcmp(end, others[i]) == 0)
            return tool_fail("train: --output=%s: weights are written as safetensors: end the name so",
                             SHOW(path));
    return -1;
}

/* What holds, for those who find the folder later. */
static int note_config(const options *o) {
    char path[4096];
    if (!o->work_dir) return -1;
    snprintf(path, sizeof path, "%s/config.json", o->work_dir);
    int status = config_print(o, path);
    return status == EXIT_FINE ? -1 : status;
}

static int open_data(training *t) {
    const options *o = t->o;
    int status = dataset_load(&t->data, &o->data);
    if (status < 0 && !t->data.of.n && !o->steps)
        status = tool_fail(
            "%s: without --data there are no epochs: use --data NAME=FILE, for a model that has inputs, "
            "or --steps=N, for one that has none",
            o->model);
    if (status < 0 && o->val_data.n && !graph_find(t->model, "val"))
        status = tool_fail("--val-data: the model has no graph 'val'");
    if (status < 0) status = dataset_load(&t->val, &o->val_data);
    if (status < 0) samples_feed(&t->samples, t->model, &t->val, &t->data);
    return status;
}

/* --val-every: by steps the end is validated all the same. */
static void set_validation(const options *o, weft_trainer_options *how) {
    int64_t n;
    bool is_steps;
    if (!o->val_every || !option_every(o->val_every, &n, &is_steps)) return;
    how->val_epochs = is_steps ? INT64_MAX : n;
    how->val_iterations = is_steps ? n : 0;
}

/* Those that the options ask for, in the order in which they are called. */
static void make_hooks(training *t, weft_hook *hooks, int *n) {
    const options *o = t->o;
    bool best_max, stop_max;
    if (o->best) t->best_metric = watched_metric(o->best, &best_max);
    if (o->early_stop) t->stop_metric = watched_metric(o->early_stop, &stop_max);
    *n = 0;
    hooks[(*n)++] = weft_hook_text(stdout, o->log_every);
    if (o->log) hooks[(*n)++] = weft_hook_json(o->log, o->log_every ? o->log_every : 1);
    if (o->csv) hooks[(*n)++] = weft_hook_csv(o->csv, o->log_every);
    if (o->tensorboard) hooks[(*n)++] = weft_hook_tensorboard(o->tensorboard, o->log_every);
    if (o->curves) hooks[(*n)++] = weft_hook_curves(o->curves, 0);
    if (o->samples) hooks[(*n)++] = weft_hook_samples(&t->samples.how);
    if (o->best)
        hooks[(*n)++] = weft_hook_best(&(weft_best){
            .metric = t->best_metric, .max = best_max, .path = t->best_path, .optimizer_state = o->training});
    if (o->early_stop)
        hooks[(*n)++] = weft_hook_early_stop(&(weft_early_stop){.metric = t->stop_metric, .max = stop_max});
}

/* --on-bad-step: -1, or the exit status after telling why not. */
static int set_bad_steps(const options *o, weft_trainer_options *how) {
    enum { IN_A_ROW = 3, MOST = 1000000 };
    const char *said = o->on_bad_step ? o->on_bad_step : "stop";
    if (strcmp(said, "stop") == 0) return -1;
    int64_t n = IN_A_ROW;
    size_t digits = 0;
    bool has_number = strncmp(said, "skip=", 5) == 0;
    if (has_number) digits = strspn(said + 5, "0123456789");
    if (has_number) n = digits && digits < 8 && !said[5 + digits] ? strtoll(said + 5, NULL, 10) : 0;
    how->skip_bad_steps = n;
    if ((has_number || strcmp(said, "skip") == 0) && n > 0 && n <= MOST) return -1;
    return tool_fail("train: --on-bad-step=%s: it must be stop, skip or skip=N, with N from 1 to %d",
                     SHOW(said), MOST);
}

static void set_checkpoints(training *t, weft_trainer_options *how) {
    const char *said = t->o->keep_best;
    checkpoints_read(t->o, &how->checkpoints);
    if (said) t->keep_metric = watched_metric(said, &how->checkpoints.max);
    how->checkpoints.best = t->keep_metric;
    how->checkpoints.rates = t->rates;
    how->checkpoints.n_rates = t->n_rates;
    how->env = &checkpoints_env;
}

/* What begins a training is not taken where one goes on. */
static void tell_begun(const training *t) {
    optimizers_tell_begun(t->model, t->o, weft_trainer_store(t->trainer));
    if (t->o->weights)
        tool_note("--weights is read at the start of a training: this one keeps its own values");
}

/* Rates that options give win over those of the state in --weights. */
static int begin_values(const training *t) {
    weft_error error = {0};
    weft_store *store = weft_trainer_store(t->trainer);
    int status = weights_load(store, t->o);
    for (int i = 0; status < 0 && i < t->n_rates; i++)
        if (weft_store_set_lr(store, t->rates[i].optimizer, t->rates[i].lr, &error))
            status = tool_error(&error);
    return status;
}

static int open_trainer(training *t) {
    const options *o = t->o;
    weft_error error = {0};
    weft_trainer_options how;
    int status = tool_trainer_options(t->model, o, &how);
    if (status >= 0) return status;
    how.train = t->data.of;
    how.val = t->val.of;
    how.epochs = o->epochs;
    how.iterations = o->steps;
    how.keep_going = o->keep_going;
    set_validation(o, &how);
    if ((status = set_bad_steps(o, &how)) >= 0) return status;
    if ((status = optimizers_schedule(t->model, o, &how)) >= 0) return status;
    if ((status = optimizers_behind(t->model, o, &how)) >= 0) return status;
    if ((status = optimizers_rates(t->model, o, &t->rates, &t->n_rates)) >= 0) return status;
    weft_hook hooks[HOOKS];
    how.hooks = hooks;
    make_hooks(t, hooks, &how.n_hooks);
    evaluators_make(&t->measured, &how);
    set_checkpoints(t, &how);
    if (!(t->trainer = tool_trainer(t->model, o, &how, &status))) return status;
    if ((status = tool_need_training(weft_trainer_plan(t->trainer))) >= 0) return status;
    bool goes_on = checkpoints_resumed(t->trainer);
    t->resumed = weft_trainer_progress(t->trainer)->iteration;
    if (o->resume && !o->checkpoint_dir && world_rank(o) == 0)
        tool_note("--resume without --checkpoint-dir: no checkpoints will be written");
    if (goes_on && world_rank(o) == 0) tell_begun(t);
    if (!goes_on && (status = begin_values(t)) >= 0) return status;
    if (!goes_on && how.first_iteration && o->checkpoint_dir && world_rank(o) == 0)
        tool_note("steps of logs count from %lld, after those of --weights; checkpoints count from 1",
                  (long long)how.first_iteration + 1);
    return weft_trainer_session(t->trainer, &error) ? -1 : tool_error(&error);
}

/* ---- steps ---- */

/* In the folder of the run, of its checkpoints or of its weights; else in the present one. */
static void place_bad_step(const options *o, char path[PATHS_ROOM]) {
    const char *folder = o->work_dir ? o->work_dir : o->checkpoint_dir;
    const char *end = !folder && o->output ? strrchr(o->output, '/') : NULL;
    if (folder)
        snprintf(path, PATHS_ROOM, "%s/bad.step", folder);
    else
        snprintf(path, PATHS_ROOM, "%.*sbad.step", end ? (int)(end + 1 - o->output) : 0,
                 end ? o->output : "");
}

/* The report, and all samples of the micro-batch, by their places in the data. */
static void print_bad_step(const training *t, const weft_failed_step *step) {
    char *report = weft_bad_step_text(weft_trainer_session(t->trainer, NULL));
    fprintf(stderr, "%s", report ? report : "");
    free(report);
    if (!step->samples) return;
    fprintf(stderr, "samples of micro-batch %lld on rank %d, epoch %lld, iteration %lld:",
            (long long)step->micro_batch, step->rank, (long long)step->epoch, (long long)step->iteration);
    for (int64_t i = 0; i < step->samples; i++)
        fprintf(stderr, "%s%lld", i ? ", " : " ", (long long)weft_trainer_failed_sample(t->trainer, i));
    fprintf(stderr, "\n");
}

/* All ranks give what they hold, rank 0 writes it. */
static void save_bad_step(training *t) {
    char path[PATHS_ROOM];
    weft_error error = {0};
    weft_session *session = weft_trainer_session(t->trainer, NULL);
    bool tells = world_rank(t->o) == 0;
    place_bad_step(t->o, path);
    if (weft_bad_step_save(session, t->model, tells ? path : NULL, &error))
        tool_note("the bad step could not be saved: %s", error.text);
    else if (tells)
        tool_note("to run the bad step again: graphtool replay %s", SHOW_PATH(path));
}

static int fit(training *t) {
    weft_error error = {0}, check = {0};
    weft_failed_step step = {0};
    weft_status status = weft_trainer_fit(t->trainer, &error);
    if (status && weft_trainer_failed(t->trainer, &step) && step.is_bad) {
        if (world_rank(t->o) == 0) print_bad_step(t, &step);
        save_bad_step(t);
        tool_fail("%s: training stops, no weights are written%s", error.text,
                  t->o->on_bad_step ? "" : " (--on-bad-step=skip skips it)");
        return EXIT_NUMBERS;
    }
    bool is_finite = t->o->keep_going || weft_trainer_check(t->trainer, &check) != WEFT_DATA;
    bool is_alone = weft_trainer_progress(t->trainer)->world == 1;
    if (is_alone && is_finite && weft_trainer_failed_validating(t->trainer)) {
        t->has_failed = true;
        tool_error(&error);
        return -1;
    }
    if (is_finite || (status && status != WEFT_DATA)) return status ? tool_error(&error) : -1;
    if (!status && was_interrupted) return -1; /* before a good step: who goes on may meet one */
    if (status)
        tool_fail("%s: training stops, no weights are written (--keep-going continues)", error.text);
    else
        tool_fail("%s: no weights are written", check.text);
    return EXIT_NUMBERS;
}

static bool keeps_averages(const weft_model *m) {
    bool keeps = false;
    for (const weft_graph *g = m->graphs; g; g = g->next)
        for (const weft_node *n = g->first; n; n = n->next)
            keeps |= n->op == &weft_op_minimize && ((const minimize_attrs *)n->attrs)->ema > 0;
    return keeps;
}

/* Weights for use are averages where they are kept, as validations read them; beside their state parameters
 * stay themselves, so that a training can go on. */
static int write_weights(training *t) {
    weft_error error = {0};
    weft_session *session = weft_trainer_session(t->trainer, &error);
    bool averages = session && !t->o->training && keeps_averages(t->model);
    weft_status status = session ? WEFT_OK : error.status;
    if (averages) status = weft_use_averages(session, true, &error);
    if (!status) status = weft_trainer_save(t->trainer, t->o->output, t->o->training, &error);
    if (!status && averages) status = weft_use_averages(session, false, &error);
    return status ? tool_error(&error) : -1;
}

/* All ranks contribute what they hold. Only rank 0 has the name of the file, so they first learn whether
 * there is one. A file that cannot be written any more is no misuse: there was a training. */
static int save(training *t) {
    double files = t->o->output != NULL;
    int status = world_sum(t->o, 1, &files);
    if (status >= 0 || files == 0) return status;
    status = write_weights(t);
    return status == EXIT_MISUSED ? EXIT_WRONG : status;
}

/* One line: what was done, and where the weights are; output NULL: nowhere. */
static void print_summary(const training *t, const char *done, const char *output) {
    const weft_progress *p = weft_trainer_progress(t->trainer);
    if (t->resumed && t->resumed == p->iteration && !was_interrupted)
        printf("already at iteration %lld: nothing is left to train; ", (long long)p->iteration);
    else
        printf("%s %lld step%s, %lld sample%s, %.1f s; ", done, (long long)p->iteration,
               p->iteration == 1 ? "" : "s", (long long)p->samples, p->samples == 1 ? "" : "s", p->seconds);
    if (p->skipped) printf("%lld bad step%s skipped; ", (long long)p->skipped, p->skipped == 1 ? "" : "s");
    if (output)
        printf("weights in %s\n", SHOW_PATH(output));
    else
        printf("weights not saved%s\n", t->o->output ? "" : " (-o FILE saves them)");
}

/* Prints the summary, and chooses the exit status. `saved` is that of save(),
 * which has told what it could not write. */
static int finish(training *t, int saved) {
    weft_error error = {0};
    const weft_progress *p = weft_trainer_progress(t->trainer);
    int64_t epochs = t->o->epochs || t->o->steps ? t->o->epochs : 1;
    bool is_cut = p->iterations && p->iteration < p->iterations && !(epochs && p->epoch >= epochs);
    bool is_early = is_cut && t->o->early_stop && !was_interrupted;
    const char *done = !is_cut           ? "trained"
                       : is_early        ? "stopped early after"
                       : was_interrupted ? "interrupted after"
                                         : "stopped after";
    print_summary(t, done, saved < 0 ? t->o->output : NULL);
    if (t->has_failed) return EXIT_WRONG;
    if (is_cut && !is_early && t->o->checkpoint_dir && weft_trainer_saved(t->trainer, NULL))
        printf("--resume=auto with the same options continues from %s\n", SHOW_PATH(t->o->checkpoint_dir));
    if (weft_trainer_check(t->trainer, &error)) {
        bool is_there = error.status == WEFT_DATA && t->o->output && saved < 0;
        tool_fail("%s%s", error.text, is_there ? "; they are written because of --keep-going" : "");
        return saved < 0 ? EXIT_WRONG : saved;
    }
    return saved >= 0 ? saved : is_cut && !is_early ? EXIT_INTERRUPTED : EXIT_FINE;
}

/* The last line of a training that has failed: what of it is left. */
static void tell_saved(const training *t, int status, bool has_weights) {
    int64_t has, now = weft_trainer_progress(t->trainer)->iteration;
    const char *path = weft_trainer_saved(t->trainer, &has);
    const char *rest = has_weights ? "; the weights are" : "";
    if (world_rank(t->o) || now == 0 || !(t->o->checkpoint_dir || (t->o->output && !has_weights))) return;
    if (path && has == now)
        tool_note("the last whole checkpoint is %s: nothing is lost", SHOW_PATH(path));
    else if (path)
        tool_note(
            "the last whole checkpoint is %s: what came after it, %lld of %lld iterations, is not saved%s",
            SHOW_PATH(path), (long long)(now - has), (long long)now, rest);
    else
        tool_note("there is no whole checkpoint: the training of %lld iterations is not saved%s",
                  (long long)now, rest);
    if (path && status == EXIT_NUMBERS)
        tool_note("if all steps from there are bad, its weights are bad too: resume from an older one, with "
                  "--resume=%s/step-N and another --checkpoint-dir",
                  SHOW_PATH(t->o->checkpoint_dir));
}

static int train(training *t) {
    int status = check_name(t->o->output);
    if (status < 0) status = evaluators_read(&t->measured, t->o);
    if (status < 0) status = samples_read(&t->samples, t->o);
    if (status < 0 && t->o->best) status = place_best(t);
    if (status < 0) status = check_outputs(t);
    if (status < 0) status = open_data(t);
    if (status < 0) status = open_trainer(t);
    if (status < 0) status = note_config(t->o);
    if (status >= 0) return status;
    watch_signals(t->trainer);
    status = fit(t);
    bool is_whole = status < 0;
    int saved = is_whole ? save(t) : status;
    leave_signals();
    if (is_whole) status = finish(t, saved);
    if (status != EXIT_FINE && status != EXIT_INTERRUPTED) tell_saved(t, status, t->o->output && saved < 0);
    return status;
}

static int check_resume(const options *o) {
    if (!o->resume || strcmp(o->resume, "auto") != 0 || o->checkpoint_dir) return -1;
    return tool_fail("train: --resume=auto continues from the newest checkpoint of --checkpoint-dir: give "
                     "--checkpoint-dir");
}

static int train_run(const options *o) {
    int status = check_resume(o);
    if (status >= 0) return status;
    training t = {.o = o, .model = tool_load(o, &status)};
    if (!t.model) return status;
    status = watched_check(o, t.model);
    if (status < 0) status = o->print_config ? config_print(o, NULL) : train(&t);
    weft_trainer_free(t.trainer);
    free(t.rates);
    free(t.best_metric);
    free(t.stop_metric);
    free(t.keep_metric);
    dataset_close(&t.data);
    dataset_close(&t.val);
    evaluators_free(&t.measured);
    samples_free(&t.samples);
    weft_model_free(t.model);
    return status;
}

const command command_train = {
    .name = "train",
    .summary = "Trains a model by its flow: without one, each step runs all training graphs on one batch",
    .takes_model = true,
    .options = OPTIONS_COMPILE OPTIONS_STEP OPTIONS_SPREAD OPTIONS_FEED OPTIONS_TALK
    "seed val-data val-every epochs steps lr schedule metric log log-every csv tensorboard curves samples "
    "best "
    "early-stop "
    "work-dir checkpoint-dir checkpoint-every keep keep-best resume optimizer-state guard on-bad-step "
    "keep-going output "
    "config "
    "print-config",
    .details = "Outputs that are one number are shown and logged. Settings come from the command "
               "line, then from the file of --config, then from the model.",
    .example = "graphtool train convnet.bin --data image=train-images-idx3-ubyte.gz \\\n"
               "          --data label=train-labels-idx1-ubyte.gz --epochs 5 --log log.jsonl",
    .run = train_run,
    .ranks = COMMAND_JOINS,
};
