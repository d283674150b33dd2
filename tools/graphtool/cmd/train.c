/* train.c - graphtool train: the trainer, with a bar, a log, and weights written at the end, completely or
 * not at all. Ctrl-C ends the training after the current step. */
#include "tools/graphtool/options/checkpoints.h"
#include "tools/graphtool/model/run_config.h"
#include "tools/graphtool/training/evaluators.h"
#include "tools/graphtool/ranks/lost.h"
#include "tools/graphtool/model/optimizers.h"
#include "tools/graphtool/options/paths.h"
#include "tools/graphtool/training/samples.h"
#include "tools/graphtool/training/watched.h"
#include "tools/graphtool/model/weights.h"
#include "tools/graphtool/ranks/world.h"

#include "graph/settings/minimize.h"

#include <signal.h>
#include <string.h>
#include <sys/stat.h>

typedef struct training {
    const options *o;
    weft_model *model;
    dataset *data, *val;
    weft_trainer *trainer;
    const char *best_path; /* of --best */
    evaluators *measured;  /* by --metric */
    int64_t resumed;       /* the iteration of --resume; 0: the training begins */
    bool has_failed;       /* a validation has: the weights are whole all the same */
    samples *samples;
    int n_rates;
    weft_optimizer_lr *rates; /* of --lr and --optimizer */
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
    if (interrupted) weft_trainer_stop(interrupted);
}

/* Under nohup(1) the terminal may go: SIGHUP stays ignored. */
static void handle(int number, void (*by)(int)) {
    if (signal(number, by) == SIG_IGN && number == SIGHUP) signal(number, SIG_IGN);
}

/* Before the trainer is closed, should that come first. */
static void forget(void *trainer) {
    (void)trainer;
    interrupted = NULL;
}

/* From the first step until the weights are written: a second signal does not end what the first one began.
 * Whoever reads standard output may leave (`| head`); that ends no training. */
static void watch_signals(weft_trainer *t) {
    interrupted = tool_keep(t, forget);
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
static void check_fresh(const char *folder) {
    static const char *const files[] = {"weights.safetensors", "weights.best.safetensors", "log.jsonl",
                                        "curves.svg", "config.json"};
    struct stat is;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (stat(tool_text("%s/%s", folder, files[i]), &is) == 0)
            tool_fail(
                "train: --work-dir=%s: it has a run already (%s), which is not overwritten: give this run "
                "another folder, or remove that one",
                folder, files[i]);
}

/* The settings of a run, for those who find its folder later. */
static const char *config_path(const options *o) {
    return tool_text("%s/config.json", o->work_dir);
}

/* Whether what a run before wrote is there: it left a checkpoint, or was one of the same options that was
 * stopped before its first. */
static bool resumes(const options *o) {
    return o->resume && (checkpoints_there(o) || (o->work_dir && config_is_in(o, config_path(o))));
}

/* Only rank 0 has the name and writes. */
static void place_best(training *t) {
    const options *o = t->o;
    if (!o->best) return;
    if (!o->output && world_rank(o) == 0)
        tool_fail("train: --best has no effect without -o FILE or --work-dir: its file is beside that one");
    t->best_path = paths_best(o->output ? o->output : "");
}

/* Folders are made, and files tried, each by what it will be called. Only rank 0 writes. */
static void check_outputs(const training *t) {
    const options *o = t->o;
    const char *const folders[] = {o->work_dir, o->tensorboard, o->checkpoint_dir};
    const char *const files[] = {o->output, o->log, o->csv, o->curves, t->best_path};
    if (world_rank(o)) return;
    if (o->work_dir && !resumes(o)) check_fresh(o->work_dir);
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (folders[i]) out_folder(folders[i]);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (files[i]) out_check(files[i]);
    samples_place(t->samples);
}

/* Weights are safetensors, whatever the name says: a reader would be misled by another format's. */
static void check_name(const char *path) {
    const char *end = path ? strrchr(path, '.') : NULL;
    if (end && has_word(".npz .npy .onnx .h5 .png .svg", end))
        tool_fail("train: --output=%s: weights are written as safetensors: end the name so", path);
}

static void open_data(training *t) {
    const options *o = t->o;
    t->data = dataset_load(&o->data);
    if (!t->data->of.n && !o->steps)
        tool_fail(
            "%s: without --data there are no epochs: use --data NAME=FILE, for a model that has inputs, or "
            "--steps=N, for one that has none",
            o->model);
    if (o->val_data.n && !graph_find(t->model, "val")) tool_fail("--val-data: the model has no graph 'val'");
    t->val = dataset_load(&o->val_data);
    samples_feed(t->samples, t->model, t->val, t->data);
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
static int make_hooks(const training *t, weft_hook *hooks) {
    const options *o = t->o;
    bool max;
    int n = 0;
    hooks[n++] = weft_hook_text(stdout, o->log_every);
    if (o->log) hooks[n++] = weft_hook_json(o->log, o->log_every ? o->log_every : 1);
    if (o->csv) hooks[n++] = weft_hook_csv(o->csv, o->log_every);
    if (o->tensorboard) hooks[n++] = weft_hook_tensorboard(o->tensorboard, o->log_every);
    if (o->curves) hooks[n++] = weft_hook_curves(o->curves, 0);
    if (o->samples) hooks[n++] = weft_hook_samples(&t->samples->how);
    if (o->best) {
        const char *metric = watched_metric(o->best, &max);
        hooks[n++] = weft_hook_best(
            &(weft_best){.metric = metric, .max = max, .path = t->best_path, .optimizer_state = o->training});
    }
    if (o->early_stop) {
        const char *metric = watched_metric(o->early_stop, &max);
        hooks[n++] = weft_hook_early_stop(&(weft_early_stop){.metric = metric, .max = max});
    }
    return n;
}

/* --on-bad-step */
static int64_t bad_steps_skipped(const options *o) {
    enum { IN_A_ROW = 3, MOST = 1000000 };
    const char *said = o->on_bad_step ? o->on_bad_step : "stop";
    if (strcmp(said, "stop") == 0) return 0;
    if (strcmp(said, "skip") == 0) return IN_A_ROW;
    size_t digits = strncmp(said, "skip=", 5) == 0 ? strspn(said + 5, "0123456789") : 0;
    int64_t n = digits && digits < 8 && !said[5 + digits] ? strtoll(said + 5, NULL, 10) : 0;
    if (n < 1 || n > MOST)
        tool_fail("train: --on-bad-step=%s: it must be stop, skip or skip=N, with N from 1 to %d", said,
                  MOST);
    return n;
}

static void set_checkpoints(const training *t, weft_trainer_options *how) {
    weft_trainer_checkpoints *c = &how->checkpoints;
    checkpoints_read(t->o, c);
    if (t->o->keep_best) c->best = watched_metric(t->o->keep_best, &c->max);
    c->rates = t->rates;
    c->n_rates = t->n_rates;
    how->env = &checkpoints_env;
}

/* What begins a training is not taken where one resumes. */
static void tell_begun(const training *t) {
    optimizers_tell_begun(t->model, t->o, weft_trainer_store(t->trainer));
    if (t->o->weights)
        tool_note("--weights is read at the start of a training: this one keeps its own values");
}

/* Rates that options give win over those of the state in --weights. */
static void begin_values(const training *t) {
    weft_store *store = weft_trainer_store(t->trainer);
    weights_load(store, t->o);
    for (int i = 0; i < t->n_rates; i++)
        tool_must(weft_store_set_lr(store, t->rates[i].optimizer, t->rates[i].lr, &tool_why));
}

static void make_trainer(training *t, weft_trainer_options *how) {
    const options *o = t->o;
    weft_hook hooks[HOOKS];
    how->train = t->data->of;
    how->val = t->val->of;
    how->epochs = o->epochs;
    how->iterations = o->steps;
    how->keep_going = o->keep_going;
    set_validation(o, how);
    how->skip_bad_steps = bad_steps_skipped(o);
    optimizers_schedule(t->model, o, how);
    optimizers_behind(t->model, o, how);
    t->n_rates = optimizers_rates(t->model, o, &t->rates);
    how->hooks = hooks;
    how->n_hooks = make_hooks(t, hooks);
    evaluators_make(t->measured, how);
    set_checkpoints(t, how);
    t->trainer = tool_trainer(t->model, o, how);
}

static void open_trainer(training *t) {
    const options *o = t->o;
    weft_trainer_options how = tool_trainer_options(t->model, o);
    bool tells = world_rank(o) == 0;
    make_trainer(t, &how);
    tool_need_training(weft_trainer_plan(t->trainer));
    t->resumed = weft_trainer_progress(t->trainer)->iteration;
    if (o->resume && !o->checkpoint_dir && tells)
        tool_note("--resume without --checkpoint-dir: no checkpoints will be written");
    if (t->resumed && tells) tell_begun(t);
    if (!t->resumed) begin_values(t);
    if (!t->resumed && how.first_iteration && o->checkpoint_dir && tells)
        tool_note("steps of logs count from %lld, after those of --weights; checkpoints count from 1",
                  (long long)how.first_iteration + 1);
    tool_got(weft_trainer_session(t->trainer, &tool_why));
}

/* ---- steps ---- */

/* In the folder of the run, of its checkpoints or of its weights; else in the present one. */
static const char *bad_step_path(const options *o) {
    const char *folder = o->work_dir ? o->work_dir : o->checkpoint_dir;
    const char *end = !folder && o->output ? strrchr(o->output, '/') : NULL;
    if (folder) return tool_text("%s/bad.step", folder);
    return tool_text("%.*sbad.step", end ? (int)(end + 1 - o->output) : 0, end ? o->output : "");
}

/* The report, and all samples of the micro-batch, by their places in the data. */
static void print_bad_step(const training *t, const weft_failed_step *step) {
    char *report = weft_bad_step_text(weft_trainer_session(t->trainer, NULL));
    fprintf(stderr, "%s", report ? report : "");
    weft_text_free(report);
    if (!step->samples) return;
    fprintf(stderr, "samples of micro-batch %lld on rank %d, epoch %lld, iteration %lld:",
            (long long)step->micro_batch, step->rank, (long long)step->epoch, (long long)step->iteration);
    for (int64_t i = 0; i < step->samples; i++)
        fprintf(stderr, "%s%lld", i ? ", " : " ", (long long)weft_trainer_failed_sample(t->trainer, i));
    fprintf(stderr, "\n");
}

/* All ranks give what they hold, rank 0 writes it. */
static void save_bad_step(training *t) {
    const char *path = bad_step_path(t->o);
    weft_error error = {0};
    weft_session *session = weft_trainer_session(t->trainer, NULL);
    bool tells = world_rank(t->o) == 0;
    if (weft_bad_step_save(session, t->model, tells ? path : NULL, &error))
        tool_note("the bad step could not be saved: %s", error.text);
    else if (tells)
        tool_note("to run the bad step again: graphtool replay %s", path);
}

/* -1: the weights can be saved; else the exit status. Errors are reported, and do not end the command here:
 * what is left of the training is reported after them. */
static int fit(training *t) {
    weft_error error = {0}, check = {0};
    weft_failed_step step = {0};
    weft_status status = weft_trainer_fit(t->trainer, &error);
    if (status && weft_trainer_failed(t->trainer, &step) && step.is_bad) {
        if (world_rank(t->o) == 0) print_bad_step(t, &step);
        save_bad_step(t);
        tool_tell("%s: training stops, no weights are written%s", error.text,
                  t->o->on_bad_step ? "" : " (--on-bad-step=skip skips it)");
        return EXIT_NUMBERS;
    }
    bool is_finite = t->o->keep_going || weft_trainer_check(t->trainer, &check) != WEFT_DATA;
    bool is_alone = weft_trainer_progress(t->trainer)->world == 1;
    t->has_failed = is_alone && is_finite && weft_trainer_failed_validating(t->trainer);
    if (is_finite || (status && status != WEFT_DATA)) {
        int told = status ? tool_tell_error(&error) : -1;
        return t->has_failed ? -1 : told;
    }
    if (!status && was_interrupted) return -1; /* before a good step: a resumed training may meet a bad one */
    if (status)
        tool_tell("%s: training stops, no weights are written (--keep-going continues)", error.text);
    else
        tool_tell("%s: no weights are written", check.text);
    return EXIT_NUMBERS;
}

static bool keeps_averages(const weft_model *m) {
    for (const weft_node *n = NULL; (n = optimizers_next(m, n));)
        if (((const minimize_attrs *)n->attrs)->ema > 0) return true;
    return false;
}

/* Weights for use are averages where they are kept, as validations read them; beside their state parameters
 * stay themselves, so that a training can continue. */
static int write_weights(training *t) {
    weft_error error = {0};
    weft_session *session = weft_trainer_session(t->trainer, &error);
    bool averages = session && !t->o->training && keeps_averages(t->model);
    weft_status status = session ? WEFT_OK : error.status;
    if (averages) status = weft_use_averages(session, true, &error);
    if (!status) status = weft_trainer_save(t->trainer, t->o->output, t->o->training, &error);
    if (!status && averages) status = weft_use_averages(session, false, &error);
    return status ? tool_tell_error(&error) : -1;
}

/* All ranks contribute what they hold. Only rank 0 has the name of the file, so they first learn whether
 * there is one. A file that cannot be written any more is not a misuse: there was a training. */
static int save(training *t) {
    double files = t->o->output != NULL;
    world_sum(t->o, 1, &files);
    int status = files > 0 ? write_weights(t) : -1;
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
        tool_tell("%s%s", error.text, is_there ? "; they are written because of --keep-going" : "");
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
        tool_note("the last whole checkpoint is %s: nothing is lost", path);
    else if (path)
        tool_note(
            "the last whole checkpoint is %s: what came after it, %lld of %lld iterations, is not saved%s",
            path, (long long)(now - has), (long long)now, rest);
    else
        tool_note("there is no whole checkpoint: the training of %lld iterations is not saved%s",
                  (long long)now, rest);
    if (path && status == EXIT_NUMBERS)
        tool_note("if all steps from there are bad, its weights are bad too: resume from an older one, with "
                  "--resume=%s/step-N and another --checkpoint-dir",
                  t->o->checkpoint_dir);
}

static int train(training *t) {
    check_name(t->o->output);
    t->measured = evaluators_read(t->o);
    t->samples = samples_read(t->o);
    place_best(t);
    check_outputs(t);
    open_data(t);
    open_trainer(t);
    if (t->o->work_dir) config_print(t->o, config_path(t->o));
    watch_signals(t->trainer);
    int status = fit(t);
    bool is_whole = status < 0;
    int saved = is_whole ? save(t) : status;
    leave_signals();
    if (is_whole) status = finish(t, saved);
    if (status != EXIT_FINE && status != EXIT_INTERRUPTED) tell_saved(t, status, t->o->output && saved < 0);
    return status;
}

static int train_run(const options *o) {
    if (o->resume && strcmp(o->resume, "auto") == 0 && !o->checkpoint_dir)
        tool_fail("train: --resume=auto continues from the newest checkpoint of --checkpoint-dir: give "
                  "--checkpoint-dir");
    training *t = tool_new(1, sizeof *t);
    *t = (training){.o = o, .model = tool_load(o)};
    watched_check(o, t->model);
    if (!o->print_config) return train(t);
    config_print(o, NULL);
    return EXIT_FINE;
}

const command command_train = {
    .name = "train",
    .summary = "Trains a model by its flow: without one, each step runs all training graphs on one batch",
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
