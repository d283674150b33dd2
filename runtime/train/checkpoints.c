/* checkpoints.c - the trainer's checkpoints: when they are due, the numbers that say where it is, and
 * resuming from one.
 *
 * A checkpoint is taken after an iteration and all that follows it: validation, the end of an epoch. Its
 * file is written while iterations continue; ranks agree at the next metrics that all have written, and
 * complete it. One that fails does not end the training: weft_trainer_check() tells, and the next one is
 * tried; several in a row do. Behind bad steps alone none is written: the values are those of the last one,
 * and if a good step has spoilt them, older ones stay that have not. */
#include "runtime/train/trainer.h"

#include "runtime/train/watch.h"
#include "weft/checkpoint.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>

/* ---- where the trainer is, as notes ---- */

/* Whole numbers of the trainer. */
static const struct position {
    const char *name;
    size_t offset; /* of an int64_t */
} positions[] = {{"trainer/iteration", offsetof(weft_trainer, progress.iteration)},
                 {"trainer/epoch", offsetof(weft_trainer, progress.epoch)},
                 {"trainer/samples", offsetof(weft_trainer, progress.samples)},
                 {"trainer/first_epoch", offsetof(weft_trainer, first_epoch)},
                 {"trainer/begin", offsetof(weft_trainer, begin)},
                 {"trainer/most_taken", offsetof(weft_trainer, most_taken)},
                 {"trainer/validated", offsetof(weft_trainer, validated)},
                 {"trainer/in_epoch", offsetof(weft_trainer, checkpoints.in_epoch)},
                 {"trainer/best_step", offsetof(weft_trainer, checkpoints.best_step)}};
enum { POSITIONS = sizeof positions / sizeof *positions };

static int64_t *position_of(weft_trainer *t, int i) {
    return (int64_t *)(void *)((char *)t + positions[i].offset);
}

/* Other numbers that checkpoints keep, by name. */
typedef struct kept_list {
    kit_arena memory;
    int n;
    weft_hook_number *list;
} kept_list;

static void keep(kept_list *k, const char *head, const char *name, double *value) {
    kit_line whole = {0};
    weft_hook_number *list = kit_grow(&k->memory, k->list, k->n + 1, sizeof *list);
    if (!list) return;
    kit_add(&whole, "%s%.200s", head, name);
    for (char *c = whole.text; *c; c++) /* a path, perhaps cut within a character: names are UTF-8 */
        if (*c & 0x80) *c = '?';
    k->list = list;
    list[k->n++] = (weft_hook_number){kit_copy(&k->memory, whole.text), value};
}

/* "early stop.0/best": the hook's name, and which of that name it is. */
static void keep_hook(kept_list *k, const weft_hook *hooks, int hook) {
    int same = 0;
    char head[100];
    for (int i = 0; i < hook; i++) same += hooks[i].n_kept && strcmp(hooks[i].name, hooks[hook].name) == 0;
    snprintf(head, sizeof head, "%.80s.%d/", hooks[hook].name, same);
    for (int i = 0; i < hooks[hook].n_kept; i++)
        keep(k, head, hooks[hook].kept[i].name, hooks[hook].kept[i].value);
}

/* The best value is one of its metric: of another metric it says nothing. False: out of memory. */
static bool keep_all(kept_list *k, weft_trainer *t) {
    checkpoints *c = &t->checkpoints;
    const weft_trainer_checkpoints *o = &t->options.checkpoints;
    *k = (kept_list){.memory = kit_arena_of(t->env)};
    keep(k, "trainer/", "seconds", &t->progress.seconds);
    keep(k, "trainer/", "val_seconds", &t->val_seconds);
    keep(k, "trainer/", "data_seconds", &t->progress.data_seconds);
    for (int i = 0; i < t->fed.n; i++) keep(k, "trainer/set/", t->fed.list[i].input, &t->fed.list[i].saved);
    for (int i = 0; i < c->n_rates; i++) keep(k, "trainer/lr/", c->rates[i].optimizer, &c->rates[i].lr);
    if (o->best) keep(k, o->max ? "trainer/best max/" : "trainer/best min/", o->best, &c->best.best);
    for (int i = 0; i < t->options.n_hooks; i++)
        if (t->options.hooks[i].n_kept) keep_hook(k, t->options.hooks, i);
    return !k->memory.is_out;
}

/* All of them as notes, in memory of the list; NULL: there is none. */
static const weft_checkpoint_note *notes_of(kept_list *k, weft_trainer *t, int *n) {
    weft_checkpoint_note *list = kit_take(&k->memory, (POSITIONS + 3 + k->n), sizeof *list), *to = list;
    if (!list) return NULL;
    t->checkpoints.in_epoch = t->is_in_epoch;
    t->progress.seconds = t->seconds + (trainer_clock() - t->start);
    fed_now(t);
    for (int i = 0; i < t->fed.n; i++) t->fed.list[i].saved = t->fed.list[i].value;
    for (int i = 0; i < POSITIONS; i++)
        *to++ = (weft_checkpoint_note){positions[i].name, (double)*position_of(t, i)};
    *to++ = (weft_checkpoint_note){"trainer/rows", (double)t->data.batch};
    *to++ = (weft_checkpoint_note){"trainer/takes", (double)flow_takes(t, t->progress.iteration)};
    *to++ = (weft_checkpoint_note){"trainer/data", (double)t->data.samples};
    for (int i = 0; i < k->n; i++) *to++ = (weft_checkpoint_note){k->list[i].name, *k->list[i].value};
    *n = (int)(to - list);
    return list;
}

/* ---- continuing ---- */

/* A whole number from 0 to 2^53, or -1: of a file that was made by something else. */
static int64_t count_of(const weft_checkpoint *c, const char *name) {
    double v = weft_checkpoint_note_value(c, name);
    return v >= 0 && v <= 0x1p53 && v == floor(v) ? (int64_t)v : -1;
}

/* Another batch, or another number of them in a step: the same samples follow, in other portions. */
static void fit_batches(weft_trainer *t, const weft_checkpoint *c) {
    int64_t samples = count_of(c, "trainer/data");
    if (samples >= 0 && samples != t->data.samples)
        trainer_log(t, "resumed with %jd samples, before %jd: they come in another order", t->data.samples,
                    samples);
    int64_t rows = count_of(c, "trainer/rows"), takes = count_of(c, "trainer/takes");
    int64_t now = flow_takes(t, t->progress.iteration);
    if (rows > 0 && rows != t->data.batch)
        t->begin = (int64_t)((double)t->begin * (double)rows / (double)t->data.batch);
    if (rows == t->data.batch && takes == now) return;
    trainer_log(
        t,
        "resumed with %jd batches of %jd samples an iteration, before %jd of %jd: numbers differ from "
        "those of a training that was not stopped",
        now, t->data.batch, takes, rows);
}

static weft_status take_positions(weft_trainer *t, const weft_checkpoint *c, weft_error *error) {
    for (int i = 0; i < POSITIONS; i++) {
        int64_t value = count_of(c, positions[i].name), *to = position_of(t, i);
        if (value < 0 && to != &t->validated) /* -1: there was no validation */
            return kit_fail(error, WEFT_FILE, "%.400s: it has no %s: a trainer did not make it",
                            weft_checkpoint_path(c), positions[i].name);
        *to = value;
    }
    if (t->progress.iteration != weft_checkpoint_step(c) || t->checkpoints.in_epoch > 1)
        return kit_fail(error, WEFT_FILE, "%.400s: its notes are not those of a trainer",
                        weft_checkpoint_path(c));
    t->is_in_epoch = t->checkpoints.in_epoch;
    t->has_begun = true;
    return WEFT_OK;
}

static weft_status take_notes(weft_trainer *t, const weft_checkpoint *c, weft_error *error) {
    kept_list k;
    if (take_positions(t, c, error)) return error->status;
    bool is_good = keep_all(&k, t);
    for (int i = 0; is_good && i < k.n; i++) {
        double value = weft_checkpoint_note_value(c, k.list[i].name);
        if (!isnan(value)) *k.list[i].value = value;
    }
    kit_release(k.memory);
    if (!is_good) return kit_no_memory(error, "trainer");
    fed_tell(t);
    t->data_seconds = t->progress.data_seconds;
    if (isnan(t->checkpoints.best.best)) t->checkpoints.best_step = 0;
    fit_batches(t, c);
    if (t->is_in_epoch) batches_epoch(&t->data, t->first_epoch + t->progress.epoch);
    return WEFT_OK;
}

static weft_status go_on(weft_trainer *t, const weft_checkpoint *c, weft_error *error) {
    checkpoints *s = &t->checkpoints;
    if (weft_checkpoint_seed(c) != t->options.seed)
        return kit_fail(error, WEFT_ORDER, "%.400s: it was made with seed %ju, this training has %ju",
                        weft_checkpoint_path(c), weft_checkpoint_seed(c), t->options.seed);
    if (weft_checkpoint_load(c, t->store, error) || take_notes(t, c, error)) return error->status;
    s->saved = s->whole = t->progress.iteration;
    snprintf(s->path, sizeof s->path, "%s", weft_checkpoint_path(c));
    s->is_resumed = true;
    t->has_trained = t->progress.iteration > 0; /* what it holds counts as trained */
    trainer_log(t, "resumed from %.400s: iteration %jd", weft_checkpoint_path(c), t->progress.iteration);
    settings_tell(t, c);
    return rates_resume(t, error);
}

static bool is_auto(const weft_trainer *t) {
    return t->options.checkpoints.resume && strcmp(t->options.checkpoints.resume, "auto") == 0;
}

/* The last step that the folder has; -1: none. */
static weft_status last_step(const weft_trainer *t, int64_t *step, weft_error *error) {
    int n = 0;
    int64_t *steps = NULL;
    weft_status status = weft_checkpoint_steps(t->options.checkpoints.folder, t->env, &steps, &n, error);
    *step = n ? steps[n - 1] : -1;
    weft_checkpoint_steps_free(steps);
    return status;
}

/* A new training does not mix its checkpoints with those of another. */
static weft_status check_empty(const weft_trainer *t, weft_error *error) {
    int64_t last;
    weft_status status = last_step(t, &last, error);
    if (status || last < 0) return status;
    return kit_fail(error, WEFT_ORDER,
                    "%.400s: it has a checkpoint of step %jd: resume, or choose another folder",
                    t->options.checkpoints.folder, last);
}

/* Resuming from an older step keeps what came after: it would be taken for the newest. With "auto" what came
 * after is damaged. */
static weft_status check_last(const weft_trainer *t, const weft_checkpoint *c, weft_error *error) {
    int64_t last;
    const weft_trainer_checkpoints *o = &t->options.checkpoints;
    if (!o->folder || is_auto(t)) return WEFT_OK;
    weft_status status = last_step(t, &last, error);
    if (status || last <= weft_checkpoint_step(c)) return status;
    return kit_fail(error, WEFT_ORDER,
                    "%.400s: it has a later checkpoint, of step %jd: to resume from step %jd, choose another "
                    "folder for new ones, or remove the later ones",
                    o->folder, last, weft_checkpoint_step(c));
}

static weft_status resume(weft_trainer *t, weft_error *error) {
    weft_error why = {0};
    const weft_trainer_checkpoints *o = &t->options.checkpoints;
    weft_checkpoint *c =
        weft_checkpoint_find(is_auto(t) ? o->folder : o->resume, t->plan, t->options.comm, t->env, &why);
    if (!c && is_auto(t) && why.status == WEFT_NAME) { /* the first start of a job that resumes by itself */
        trainer_log(t, "%.400s has no checkpoint: the training begins", o->folder);
        return WEFT_OK;
    }
    weft_status status = c ? check_last(t, c, error) : kit_pass(error, &why);
    if (!status) status = go_on(t, c, error);
    weft_checkpoint_close(c);
    return status;
}

/* Before anything of the folder is read, and before hooks and callers open the files of the run: a training
 * that is refused leaves those of the one that runs alone. */
static weft_status take_folder(weft_trainer *t, weft_error *error) {
    const char *folder = t->options.checkpoints.folder;
    if (!folder || t->progress.rank) return WEFT_OK;
    t->checkpoints.lock = weft_checkpoint_lock_take(folder, t->env, error);
    return t->checkpoints.lock ? WEFT_OK : error->status;
}

weft_status checkpoints_open(weft_trainer *t, weft_error *error) {
    const weft_trainer_checkpoints *o = &t->options.checkpoints;
    t->checkpoints.best = (watch){.name = (char *)(uintptr_t)o->best, .max = o->max, .best = NAN};
    if (!o->folder && !o->resume && !o->n_rates) return WEFT_OK;
    if (trainer_check_trains(t, error) || rates_open(t, error) || rates_begin(t, error)) return error->status;
    if (!o->folder && is_auto(t))
        return kit_fail(error, WEFT_ARGUMENT, "trainer: checkpoints: resume \"auto\" needs a folder");
    if ((o->best && watch_open(&t->checkpoints.best, "checkpoints", t, error)) || take_folder(t, error))
        return error->status;
    if (o->resume) return resume(t, error);
    return o->folder && !t->progress.rank ? check_empty(t, error) : WEFT_OK;
}

/* ---- saving ---- */

/* The training continues without it. */
static void note_failure(weft_trainer *t, weft_error *error) {
    t->checkpoints.failure = *error;
    trainer_log(t, "no checkpoint of iteration %jd: %s", t->checkpoints.saved, error->text);
}

/* Ignore a best checkpoint that is no longer on disk. */
static void lose(weft_trainer *t, weft_error *error) {
    checkpoints *s = &t->checkpoints;
    note_failure(t, error);
    s->n_failures++;
    s->has_news = true;
    if (!s->is_best) return;
    s->best.best = s->best_before;
    s->best_step = s->step_before;
    s->is_best = false;
}

static void complete(weft_trainer *t) {
    checkpoints *s = &t->checkpoints;
    weft_error error = {0};
    s->is_begun = false;
    if (weft_checkpoint_end(s->writer, &error)) {
        lose(t, &error);
        return;
    }
    s->failure = (weft_error){0};
    s->n_failures = 0;
    s->whole = s->saved;
    snprintf(s->path, sizeof s->path, "%s/step-%08jd", t->options.checkpoints.folder, s->whole);
}

static void save(weft_trainer *t, bool is_best, double best_before) {
    checkpoints *s = &t->checkpoints;
    kept_list k;
    int n = 0;
    weft_error error = {0};
    if (s->is_begun) complete(t);
    s->is_best = is_best;
    s->best_before = best_before;
    s->step_before = s->best_step;
    if (is_best) s->best_step = t->progress.iteration;
    s->saved = t->progress.iteration;
    s->saved_at = trainer_clock();
    s->has_news = false;
    const weft_checkpoint_note *notes = keep_all(&k, t) ? notes_of(&k, t, &n) : NULL;
    weft_status status =
        notes ? weft_checkpoint_begin(s->writer, t->progress.iteration, is_best, notes, n, &error)
              : trainer_tell(t, kit_no_memory(&error, "trainer"), &error);
    kit_release(k.memory);
    s->is_begun = !status;
    if (status) lose(t, &error);
}

/* With options.keep_going a training continues with weights that are not finite: they replace no good
 * ones. */
static bool is_worth_it(weft_trainer *t) {
    weft_error error = {0};
    if (t->is_broken) kit_fail(&error, WEFT_DATA, "the weights are not finite");
    if (!t->is_broken || t->checkpoints.saved == t->progress.iteration) return !t->is_broken;
    t->checkpoints.saved = t->progress.iteration;
    note_failure(t, &error);
    return false;
}

/* Whether the last validation was this iteration's and the best so far. */
static weft_status look_at_best(weft_trainer *t, bool *is_best, weft_error *error) {
    double value;
    *is_best = false;
    if (!t->options.checkpoints.best || t->validated != t->progress.iteration ||
        t->checkpoints.looked == t->validated)
        return WEFT_OK;
    t->checkpoints.looked = t->validated;
    return watch_look(&t->checkpoints.best, t, &value, is_best, error);
}

/* What ranks can only know together: that all have written, and that rank 0's clock says it is time. */
static weft_status agree(weft_trainer *t, bool *is_written, bool *is_time, weft_error *error) {
    const weft_trainer_checkpoints *o = &t->options.checkpoints;
    bool asks = t->checkpoints.is_begun || o->minutes > 0;
    double sums[2] = {weft_checkpoint_is_written(t->checkpoints.writer),
                      !t->progress.rank && o->minutes > 0 &&
                          trainer_clock() - t->checkpoints.saved_at >= 60 * o->minutes};
    weft_status status = asks && t->fetches ? ranks_sum(t->env, t->options.comm, 2, sums, error) : WEFT_OK;
    bool is_known = t->fetches || t->progress.world == 1;
    *is_written = is_known && sums[0] >= t->progress.world;
    *is_time = is_known && sums[1] > 0;
    return status;
}

/* Ranks fail together, so they stop together. */
static weft_status stop_after_failures(weft_trainer *t, weft_error *error) {
    int most = t->options.checkpoints.most_failures;
    if (most < 0 || t->checkpoints.n_failures < most) return WEFT_OK;
    trainer_log(t, "%d checkpoints in a row could not be written: the training stops",
                t->checkpoints.n_failures);
    t->stops = true;
    return trainer_check_weights(t, error);
}

/* Completes the one under way, and begins one where it is due. */
static weft_status take_turn(weft_trainer *t, weft_error *error) {
    checkpoints *s = &t->checkpoints;
    int64_t every = t->options.checkpoints.every;
    bool is_written, is_time, is_best;
    double before = s->best.best;
    if (look_at_best(t, &is_best, error) || agree(t, &is_written, &is_time, error)) return error->status;
    if (s->is_begun && is_written) complete(t);
    is_time = is_time || (every > 0 && t->progress.iteration % every == 0);
    bool is_due = is_best || (is_time && s->has_news);
    if (!is_due || s->saved == t->progress.iteration) return WEFT_OK;
    if (trainer_check_weights(t, error)) return error->status;
    if (is_worth_it(t)) save(t, is_best, before);
    return WEFT_OK;
}

weft_status checkpoints_turn(weft_trainer *t, weft_error *error) {
    if (!t->checkpoints.writer) return WEFT_OK;
    weft_status status = take_turn(t, error);
    return status ? status : stop_after_failures(t, error);
}

const char *weft_trainer_saved(const weft_trainer *t, int64_t *iteration) {
    bool is_there = t && *t->checkpoints.path;
    if (iteration) *iteration = is_there ? t->checkpoints.whole : 0;
    return is_there ? t->checkpoints.path : NULL;
}

weft_status checkpoints_begin(weft_trainer *t, weft_error *error) {
    checkpoints *s = &t->checkpoints;
    const weft_trainer_checkpoints *o = &t->options.checkpoints;
    s->saved_at = trainer_clock();
    s->n_failures = 0;
    if (!o->folder || s->writer) return WEFT_OK;
    if (rates_keep(t, error)) return error->status;
    weft_checkpoint_options how = {.folder = o->folder,
                                   .keep = o->keep,
                                   .best = s->best_step,
                                   .env = t->env,
                                   .no_snapshot = o->no_snapshot,
                                   .lock = s->lock};
    s->writer = weft_checkpoint_writer_open(t->session, &how, error);
    return s->writer ? WEFT_OK : error->status;
}

void checkpoints_end(weft_trainer *t) {
    checkpoints *s = &t->checkpoints;
    if (!s->writer) return;
    if (s->saved != t->progress.iteration && s->has_news && is_worth_it(t)) save(t, false, s->best.best);
    if (s->is_begun) complete(t);
}

/* Whether all values are those before the iteration: its first step was a bad one. Before the first
 * iteration there is nothing to keep. A train_step may have changed what the trainer does not see. */
static bool is_before_iteration(const weft_trainer *t) {
    return t->failure.step.is_bad && !t->has_run && !t->options.train_step && t->progress.iteration > 0;
}

void checkpoints_fail(weft_trainer *t) {
    checkpoints *s = &t->checkpoints;
    if (!s->writer || (t->progress.world > 1 && !t->is_common)) return;
    if (s->is_begun) complete(t);
    if (!is_before_iteration(t) || s->saved == t->progress.iteration || !s->has_news) return;
    int64_t begin = t->begin;
    t->begin = t->began; /* a training that resumes meets the bad step again */
    if (is_worth_it(t)) save(t, false, s->best.best);
    t->begin = begin;
    if (s->is_begun) complete(t);
}

void checkpoints_close(weft_trainer *t) {
    checkpoints *s = &t->checkpoints;
    weft_checkpoint_writer_close(s->writer);
    s->writer = NULL;
    weft_checkpoint_lock_release(s->lock);
    s->lock = NULL;
}
