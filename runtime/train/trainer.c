/* trainer.c - a trainer's parts are made in an order in which every mistake is found before the first step:
 * options, data, plan, bindings, evaluations; the session last, at the first step, since weights are loaded
 * before it opens. */
#include "runtime/train/trainer.h"

#include <string.h>

/* ---- options ---- */

static weft_status check_dataset(const weft_dataset *d, const char *field, weft_error *error) {
    if (d->n < 0 || (d->n && !d->sources))
        return kit_fail(error, WEFT_ARGUMENT, "trainer: %s: n is %d without as many sources", field, d->n);
    for (int i = 0; i < d->n; i++)
        if (!d->sources[i]) return kit_fail(error, WEFT_ARGUMENT, "trainer: %s: source %d is NULL", field, i);
    return WEFT_OK;
}

static weft_status check_options(const weft_trainer_options *o, weft_error *error) {
    const weft_trainer_checkpoints *c = &o->checkpoints;
    weft_status status = weft_fields_check(weft_trainer_fields(), o, "trainer", error);
    if (!status)
        status = weft_fields_check(weft_trainer_checkpoints_fields(), c, "trainer: checkpoints", error);
    if (status) return status;
    if (o->n_hooks < 0 || (o->n_hooks && !o->hooks))
        return kit_fail(error, WEFT_ARGUMENT, "trainer: n_hooks is %d without as many hooks", o->n_hooks);
    if (c->n_rates < 0 || (c->n_rates && !c->rates))
        return kit_fail(error, WEFT_ARGUMENT, "trainer: checkpoints: n_rates is %d without as many rates",
                        c->n_rates);
    for (int i = 0; i < o->n_hooks; i++)
        if (!o->hooks[i].at)
            return kit_fail(error, o->hooks[i].name ? WEFT_ARGUMENT : WEFT_MEMORY,
                            "trainer: hook %d could not be made: %s", i,
                            o->hooks[i].name ? o->hooks[i].name : "out of memory");
    status = evaluators_check(o->n_evaluators, o->evaluators, error);
    if (!status) status = check_dataset(&o->train, "train", error);
    if (!status) status = check_dataset(&o->val, "val", error);
    return status ? status : check_dataset(&o->test, "test", error);
}

const char *model_graph(const weft_model *m, const char *name) {
    const char *own;
    for (int i = 0; (own = weft_graph_name(m, i)); i++)
        if (strcmp(own, name) == 0) break;
    return own;
}

weft_status no_graph(const weft_model *m, const char *head, const char *name, weft_error *error) {
    const char *own, *near = NULL;
    for (int i = 0; (own = weft_graph_name(m, i)); i++) near = weft_nearest(name, near, own);
    return kit_fail(error, WEFT_NAME, "%s has no graph '%.80s'%s", head, name, NEAR(near));
}

/* ---- parts ---- */

/* The lists are copied with the evaluators' names, since what is in them is the trainer's from here on. */
static weft_status copy_lists(weft_trainer *t, const weft_trainer_options *o, weft_error *error) {
    weft_hook *hooks = kit_new_array(t->env, (size_t)o->n_hooks + 1, sizeof *hooks);
    weft_evaluator *evaluators = kit_new_array(t->env, (size_t)o->n_evaluators + 1, sizeof *evaluators);
    for (int i = 0; hooks && i < o->n_hooks; i++) hooks[i] = o->hooks[i];
    t->options.hooks = hooks;
    t->options.evaluators = evaluators;
    if (!hooks || !evaluators) return kit_no_memory(error, "trainer");
    for (int i = 0; i < o->n_evaluators; i++)
        if (!evaluator_copy(&evaluators[i], &o->evaluators[i], t->env))
            return kit_no_memory(error, "trainer");
    t->owns = true;
    t->options.n_hooks = o->n_hooks;
    t->options.n_evaluators = o->n_evaluators;
    return WEFT_OK;
}

/* Ends hooks and evaluators, each once. */
static void free_lists(const weft_trainer_options *o) {
    for (int i = 0; o->hooks && i < o->n_hooks; i++)
        if (o->hooks[i].free) o->hooks[i].free(o->hooks[i].self);
    for (int i = 0; o->evaluators && i < o->n_evaluators; i++)
        if (o->evaluators[i].free) o->evaluators[i].free(o->evaluators[i].self);
}

static weft_status open_plan(weft_trainer *t, weft_error *error) {
    weft_compile_options *how = &t->options.compile;
    how->world = how->rank = 0;
    if (t->options.comm && !how->graph)
        how->world = t->options.comm->world, how->rank = t->options.comm->rank;
    bool by_default = !t->options.own_guard && !t->options.keep_going && !how->graph;
    if (by_default && !how->guard) how->guard = WEFT_GUARD_NAN;
    double start = trainer_clock();
    t->plan = weft_compile(t->model, how, error);
    t->progress.compile_seconds = trainer_clock() - start;
    if (!t->plan) return error->status;
    if (!t->options.skip_bad_steps || how->guard) return WEFT_OK;
    return kit_fail(error, WEFT_ARGUMENT,
                    "trainer: skip_bad_steps needs a guard, which finds bad steps before they update: "
                    "compile.guard, without keep_going");
}

/* The batch of the flow's graphs. */
static int64_t flow_rows(const weft_plan *plan) {
    weft_flow_step s;
    weft_port p;
    for (int i = 0; weft_plan_flow(plan, i, &s); i++)
        if (weft_plan_input(plan, s.graph, 0, &p)) return plan_rows(plan, s.graph);
    return weft_plan_batch(plan);
}

/* Whether the data set feeds the input `name`. */
static bool is_fed(const weft_dataset *d, const char *name) {
    for (int s = 0, at = 0; s < d->n; s++)
        for (int k = 0; k < d->sources[s]->n; k++, at++) {
            const char *own = d->names ? d->names[at] : d->sources[s]->arrays[k].name;
            if (own && strcmp(own, name) == 0) return true;
        }
    return false;
}

/* What the loader draws for each sample: for an input "draws" that nothing feeds (preprocess.h). */
static int flow_draws(const weft_trainer *t) {
    weft_flow_step s;
    weft_port p;
    if (is_fed(&t->options.train, "draws")) return 0;
    for (int i = 0; weft_plan_flow(t->plan, i, &s); i++)
        for (int k = 0; weft_plan_input(t->plan, s.graph, k, &p); k++)
            if (strcmp(p.name, "draws") == 0 && p.dtype == WEFT_F32 && p.ndim == 2 && p.shape[1] <= 4096)
                return (int)p.shape[1];
    return 0;
}

static weft_status open_data(weft_trainer *t, weft_error *error) {
    const weft_trainer_options *o = &t->options;
    weft_loader_options how = {.batch = flow_rows(t->plan),
                               .shuffle = !o->in_order && !o->sampler,
                               .drop_last = true,
                               .seed = o->seed,
                               .rank = t->progress.rank,
                               .num_replicas = t->progress.world,
                               .sampler = o->sampler,
                               .sampler_context = o->sampler_context,
                               .sampler_count = o->sampler_count,
                               .draws = flow_draws(t),
                               .all = true};
    int64_t samples = o->sampler_count > 0 ? o->sampler_count : dataset_samples(&o->train);
    if (o->in_order && o->sampler)
        return kit_fail(error, WEFT_ARGUMENT, "trainer: a sampler gives the order: leave in_order out");
    if (!o->train.n && (o->sampler || o->sampler_count))
        return kit_fail(error, WEFT_ARGUMENT, "trainer: a sampler needs data to train on");
    if (o->train.n && samples < how.batch)
        return kit_fail(error, WEFT_ARGUMENT,
                        "trainer: %lld samples are fewer than a batch of %lld: use a smaller batch",
                        (long long)samples, (long long)how.batch);
    return batches_open(&t->data, &o->train, t->plan, NULL, &how, o->comm, t->env, error);
}

/* The number of iterations, where it can be known. */
static weft_status count(weft_trainer *t, weft_error *error) {
    weft_trainer_options *o = &t->options;
    int64_t most = o->iterations, all = 0;
    if (!o->epochs && !most) o->epochs = 1;
    if (!o->train.n && !most)
        return kit_fail(error, WEFT_ARGUMENT, "trainer: without data there are no epochs: set iterations");
    if (o->epochs && o->train.n && !o->train_step) {
        weft_status status = flow_count(t, o->epochs, &all, error);
        if (status) return status;
    }
    t->progress.iterations = most && (!all || most < all) ? most : all;
    return o->train_step || !o->train.n || all ? WEFT_OK : flow_count(t, 1, &all, error);
}

static const char *val_graph(const weft_trainer *t) {
    return t->options.val_graph ? t->options.val_graph : "val";
}

static const char *test_graph(const weft_trainer *t) {
    const char *usual = model_graph(t->model, "test") ? "test" : val_graph(t);
    return t->options.test_graph ? t->options.test_graph : usual;
}

/* A flow runs graphs, and nobody would update after them. */
static weft_status check_manual(const weft_trainer_options *o, weft_error *error) {
    if (!o->compile.manual || o->train_step) return WEFT_OK;
    return kit_fail(error, WEFT_ARGUMENT,
                    "trainer: with compile.manual a flow would never update: set options.train_step, which "
                    "calls weft_run_update, or leave compile.manual out");
}

static bool has_val(const weft_trainer_options *o) {
    return o->val.n || o->val_graph;
}

static bool has_test(const weft_trainer_options *o) {
    return o->test.n || o->test_graph;
}

/* Whether an evaluation of this training runs the graph. */
static bool is_evaluated(const weft_trainer *t, const char *graph) {
    return (has_val(&t->options) && strcmp(graph, val_graph(t)) == 0) ||
           (has_test(&t->options) && strcmp(graph, test_graph(t)) == 0);
}

/* A graph that assigns, such as a teacher's, has to be run by the flow or by an evaluation. */
static weft_status check_idle(const weft_trainer *t, weft_error *error) {
    weft_idle_graph g;
    for (int i = 0; !t->options.train_step && weft_flow_idle(t->model, i, &g); i++) {
        if (is_evaluated(t, g.graph)) continue;
        return kit_fail(
            error, WEFT_ORDER,
            "trainer: graph %.80s assigns %.80s, which graph %.80s reads, but no flow runs it: "
            "name it in the flow, after the graph that trains (weft_flow, graphtool --flow), or in "
            "a flow of another name where the training need not run it",
            g.graph, g.path, g.reader);
    }
    return WEFT_OK;
}

static weft_status open_training(weft_trainer *t, weft_error *error) {
    weft_status status = check_manual(&t->options, error);
    if (!status) status = check_idle(t, error);
    if (!status) status = open_data(t, error);
    if (!status) status = flow_bind(t, error);
    return status ? status : count(t, error);
}

static weft_status open_sweep(weft_trainer *t, sweep *s, const weft_dataset *data, const char *graph,
                              bool *has, weft_error *error) {
    *has = true;
    if (!model_graph(t->model, graph))
        return no_graph(t->model, "trainer: data for an evaluation, but the model", graph, error);
    sweep_options of = {.graph = graph,
                        .data = data,
                        .comm = t->options.comm,
                        .n_evaluators = t->options.n_evaluators,
                        .evaluators = t->options.evaluators,
                        .env = t->env,
                        .checks = t->options.check,
                        .no_capture = t->options.no_capture};
    return sweep_open(s, t->model, &t->options.compile, &of, error);
}

static weft_status open_evaluations(weft_trainer *t, weft_error *error) {
    const weft_trainer_options *o = &t->options;
    const char *val = val_graph(t), *test = test_graph(t);
    weft_status status = WEFT_OK;
    if (has_val(o)) status = open_sweep(t, &t->val, &o->val, val, &t->has_val, error);
    if (!status && has_test(o)) status = open_sweep(t, &t->test, &o->test, test, &t->has_test, error);
    return status;
}

/* Bytes that this trainer will take beside its plan's: sessions of the evaluations (an evaluation alone runs
 * what the plan counts). */
static uint64_t bytes_beside(const weft_trainer *t) {
    if (t->options.compile.graph) return 0;
    return (t->has_val ? sweep_bytes(&t->val) : 0) + (t->has_test ? sweep_bytes(&t->test) : 0);
}

/* Before anything large is allocated, on any rank of this machine: they share what is free. */
static weft_status check_memory(weft_trainer *t, weft_error *error) {
    double none = 0;
    const weft_comm *comm = t->options.comm;
    bool is_copied = t->options.checkpoints.folder && !t->options.checkpoints.no_snapshot;
    bool is_evaluated = t->has_val || t->has_test;
    weft_fit_options how = {.more = bytes_beside(t),
                            .more_name = !is_copied      ? "evaluations"
                                         : !is_evaluated ? "a checkpoint's copy"
                                                         : "evaluations and a checkpoint's copy",
                            .checkpoints = is_copied && !t->options.compile.graph,
                            .local_world = comm ? comm->local_world : 1,
                            .model = t->model,
                            .compile = &t->options.compile,
                            .words = t->options.fit_words};
    weft_status status = weft_plan_fits(t->plan, &how, error);
    bool waits = !status && t->progress.world > 1 && !t->options.compile.graph;
    return waits ? ranks_sum(t->env, t->options.comm, 1, &none, error) : status;
}

/* Logs what the compiler has to say. */
static void tell_notes(weft_trainer *t) {
    const char *note;
    for (int i = 0; (note = weft_plan_note(t->plan, i)); i++) trainer_log(t, note);
}

/* Logs what is converted. */
static void tell_types(weft_trainer *t) {
    if (t->data.loader) batches_tell(&t->data, &t->options.train, t);
    if (t->has_val) batches_tell(&t->val.data, &t->options.val, t);
    if (t->has_test) batches_tell(&t->test.data, &t->options.test, t);
}

static weft_status open_all(weft_trainer *t, weft_error *error) {
    weft_status status = open_plan(t, error);
    if (!status && !t->options.compile.graph) status = open_training(t, error);
    if (!status) status = open_evaluations(t, error);
    if (!status) status = check_memory(t, error);
    if (!status && !(t->store = weft_store_new(t->plan, t->options.seed, error))) status = error->status;
    if (!status) status = checkpoints_open(t, error);
    if (!status) status = hooks_open(t, error);
    if (!status) tell_notes(t), tell_types(t);
    return status;
}

/* ---- the public part ---- */

/* A trainer without any part yet. */
static weft_trainer *begin(const weft_model *model, const weft_trainer_options *options, weft_error *error) {
    weft_trainer *t = model ? kit_new(options->env, sizeof *t) : NULL;
    if (!model) kit_fail(error, WEFT_ARGUMENT, "trainer: the model is NULL");
    if (model && !t) kit_no_memory(error, "trainer");
    if (!t) return NULL;
    *t = (weft_trainer){.env = options->env, .model = model, .options = *options, .validated = -1};
    kit_plain_texts(weft_trainer_fields(), &t->options);
    kit_plain_texts(weft_trainer_checkpoints_fields(), &t->options.checkpoints);
    t->checkpoints = (checkpoints){.saved = -1, .looked = -1};
    t->options.hooks = NULL, t->options.evaluators = NULL; /* until they are the trainer's */
    t->metrics.env = t->env;
    t->progress.world = options->comm ? options->comm->world : 1;
    t->progress.rank = options->comm ? options->comm->rank : 0;
    return t;
}

/* Passes an error of this rank to the others, which may wait for it. */
static weft_status told(const weft_trainer_options *o, weft_status status, const weft_error *error) {
    if (status && status != WEFT_PEER && o->comm && o->comm->world > 1) weft_comm_fail(o->comm, error->text);
    return status;
}

weft_trainer *weft_trainer_new(const weft_model *model, const weft_trainer_options *options,
                               weft_error *error) {
    weft_error own = {0};
    weft_trainer_options none = {0};
    error = error ? error : &own;
    *error = (weft_error){0};
    if (!options) options = &none;
    weft_trainer *t = begin(model, options, error);
    weft_status status = t ? check_options(options, error) : error->status;
    if (!status) status = copy_lists(t, options, error);
    if (status && (!t || !t->owns)) free_lists(options);
    if (!status) status = open_all(t, error);
    if (!told(options, status, error)) return t;
    weft_trainer_free(t);
    return NULL;
}

/* The programs of a plan that is not compiled further have the inputs, which tell the rows of a batch. */
weft_status weft_trainer_count(const weft_model *model, const weft_trainer_options *options,
                               const char *graph, int64_t *runs, weft_error *error) {
    weft_error own = {0};
    error = error ? error : &own;
    *error = (weft_error){0};
    if (!options || !runs)
        return kit_fail(error, WEFT_ARGUMENT, "trainer: options and room for the count are needed");
    weft_trainer *t = begin(model, options, error);
    if (!t) return told(options, error->status, error);
    t->options.compile.stop_after = "programs";
    weft_status status = check_options(options, error);
    if (!status) status = trainer_check_trains(t, error);
    if (!status && graph && !model_graph(model, graph))
        status = no_graph(model, "trainer: the model", graph, error);
    if (!status) status = open_plan(t, error);
    if (!status) status = open_data(t, error);
    if (!status) status = count(t, error);
    if (!status && (!t->progress.iterations || (graph && t->options.train_step)))
        status = kit_fail(error, WEFT_ORDER,
                          "trainer: with options.train_step only options.iterations say how many there are");
    if (!status) *runs = graph ? flow_runs(t, graph) : t->progress.iterations;
    weft_trainer_free(t);
    return told(options, status, error);
}

void weft_trainer_free(weft_trainer *t) {
    if (!t) return;
    checkpoints_close(t);
    weft_session_close(t->session);
    if (t->has_val) sweep_close(&t->val);
    if (t->has_test) sweep_close(&t->test);
    for (int i = 0; i < t->n_graphs; i++) bound_close(&t->graphs[i]);
    kit_free_array(t->env, t->graphs, (size_t)t->room_graphs + 1, sizeof *t->graphs);
    metrics_close(&t->metrics);
    weft_store_free(t->store);
    weft_plan_free(t->plan);
    batches_close(&t->data);
    kit_free_array(t->env, t->told, t->room_told, sizeof *t->told);
    if (t->owns) free_lists(&t->options);
    for (int i = 0; t->options.evaluators && i < t->options.n_evaluators; i++)
        evaluator_free_names(&t->options.evaluators[i], t->env);
    kit_free_array(t->env, (weft_hook *)t->options.hooks, (size_t)t->options.n_hooks + 1, sizeof(weft_hook));
    kit_free_array(t->env, (weft_evaluator *)t->options.evaluators, (size_t)t->options.n_evaluators + 1,
                   sizeof(weft_evaluator));
    const weft_env *env = t->env;
    weft_memory_free(env, t, sizeof *t);
}

weft_status trainer_check_trains(const weft_trainer *t, weft_error *error) {
    if (!t) return kit_fail(error, WEFT_ARGUMENT, "trainer: it is NULL");
    if (t->options.compile.graph)
        return kit_fail(error, WEFT_ORDER,
                        "trainer: it is for graph %s alone (options.compile.graph), and does not train",
                        t->options.compile.graph);
    return WEFT_OK;
}

weft_session *weft_trainer_session(weft_trainer *t, weft_error *error) {
    weft_error own = {0};
    error = error ? error : &own;
    if (trainer_check_trains(t, error)) return NULL;
    if (t->session) return t->session;
    t->session = t->options.comm ? weft_session_open_on(t->plan, t->store, t->options.comm, error)
                                 : weft_session_open(t->plan, t->store, error);
    if (t->session) weft_session_check(t->session, t->options.check);
    if (t->session) weft_session_capture(t->session, !t->options.no_capture);
    return t->session;
}

weft_status weft_trainer_save(weft_trainer *t, const char *path, bool training, weft_error *error) {
    weft_error own = {0};
    error = error ? error : &own;
    if (!weft_trainer_session(t, error)) return error->status;
    weft_status status = hooks_call(t, WEFT_BEFORE_SAVE, error);
    if (!status) status = weft_sync(t->session, error);
    if (!status) status = weft_session_save(t->session, path, training, error);
    return status ? status : hooks_call(t, WEFT_AFTER_SAVE, error);
}

const weft_progress *weft_trainer_progress(const weft_trainer *t) {
    return t ? &t->progress : NULL;
}

weft_store *weft_trainer_store(const weft_trainer *t) {
    return t ? t->store : NULL;
}

weft_loader *weft_trainer_loader(const weft_trainer *t) {
    return t ? t->data.loader : NULL;
}

const weft_plan *weft_trainer_plan(const weft_trainer *t) {
    return t ? t->plan : NULL;
}
