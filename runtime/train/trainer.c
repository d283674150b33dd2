/* trainer.c - a trainer's parts are made in an order in which every mistake is found before the first step:
 * options, data, plan, bindings, evaluations; the session last, at the first step, since weights are loaded
 * before it opens. */
#include "runtime/train/trainer.h"

/* ---- options ---- */

static weft_status check_list(int n, const void *list, const char *field, const char *what,
                              weft_error *error) {
    if (n >= 0 && (!n || list)) return WEFT_OK;
    return kit_fail(error, WEFT_ARGUMENT, "trainer: %s is %d without as many %s", field, n, what);
}

weft_status dataset_check(const weft_dataset *d, const char *field, weft_error *error) {
    if (check_list(d->n, d->sources, field, "sources", error)) return error->status;
    for (int i = 0; i < d->n; i++)
        if (!d->sources[i])
            return kit_fail(error, WEFT_ARGUMENT, "trainer: %s is %d, and source %d is NULL", field, d->n, i);
    return WEFT_OK;
}

static weft_status check_hooks(const weft_trainer_options *o, weft_error *error) {
    if (check_list(o->n_hooks, o->hooks, "n_hooks", "hooks", error)) return error->status;
    for (int i = 0; i < o->n_hooks; i++) {
        if (weft_reserved_check(o->hooks[i].reserved, sizeof o->hooks[i].reserved, "weft_hook", error))
            return WEFT_ARGUMENT;
        if (!o->hooks[i].at)
            return kit_fail(error, o->hooks[i].name ? WEFT_ARGUMENT : WEFT_MEMORY,
                            "trainer: hook %d could not be made: %s", i,
                            o->hooks[i].name ? o->hooks[i].name : "it has no `at`, or memory was out");
    }
    return WEFT_OK;
}

static weft_status check_evaluators(const weft_trainer_options *o, weft_error *error) {
    const weft_evaluator *list = o->evaluators;
    if (check_list(o->n_evaluators, list, "n_evaluators", "evaluators", error)) return error->status;
    for (int i = 0; i < o->n_evaluators; i++) {
        if (weft_reserved_check(list[i].reserved, sizeof list[i].reserved, "weft_evaluator", error))
            return WEFT_ARGUMENT;
        if (!list[i].open || !list[i].batch || !list[i].report || !list[i].name)
            return kit_fail(error, list[i].name ? WEFT_ARGUMENT : WEFT_MEMORY,
                            "trainer: evaluator %d could not be made: %s", i,
                            list[i].name ? list[i].name : "out of memory");
        for (int k = 0; k < i; k++)
            if (strcmp(list[i].name, list[k].name) == 0)
                return kit_fail(error, WEFT_NAME, "trainer: two evaluators are called %.80s", list[i].name);
    }
    return WEFT_OK;
}

static weft_status check_options(const weft_trainer_options *o, weft_error *error) {
    const weft_trainer_checkpoints *c = &o->checkpoints;
    bool is_wrong = weft_fields_check(weft_trainer_fields(), o, "trainer", error) ||
                    weft_fields_check(weft_trainer_checkpoints_fields(), c, "trainer: checkpoints", error) ||
                    check_list(c->n_rates, c->rates, "checkpoints: n_rates", "rates", error) ||
                    check_hooks(o, error) || check_evaluators(o, error) ||
                    dataset_check(&o->train, "train: n", error) || dataset_check(&o->val, "val: n", error) ||
                    dataset_check(&o->test, "test: n", error);
    return is_wrong ? error->status : WEFT_OK;
}

/* ---- parts ---- */

/* The lists are copied with the evaluators' names, since what is in them is the trainer's from here on. */
static weft_status copy_lists(weft_trainer *t, const weft_trainer_options *o, weft_error *error) {
    weft_hook *hooks = kit_take(&t->memory, o->n_hooks, sizeof *hooks);
    weft_evaluator *evaluators = kit_take(&t->memory, o->n_evaluators, sizeof *evaluators);
    for (int i = 0; hooks && i < o->n_hooks; i++) hooks[i] = o->hooks[i];
    for (int i = 0; evaluators && i < o->n_evaluators; i++)
        evaluator_copy(&evaluators[i], &o->evaluators[i], &t->memory);
    if (t->memory.is_out) return kit_no_memory(error, "trainer");
    t->options.hooks = hooks;
    t->options.evaluators = evaluators;
    t->owns = true;
    return WEFT_OK;
}

/* Ends hooks and evaluators, each once, except one that nobody has set to zeros, whose functions are
 * anything. */
static void free_lists(const weft_trainer_options *o) {
    for (int i = 0; o->hooks && i < o->n_hooks; i++) {
        const weft_hook *h = &o->hooks[i];
        if (h->free && !weft_reserved_check(h->reserved, sizeof h->reserved, "", NULL)) h->free(h->self);
    }
    for (int i = 0; o->evaluators && i < o->n_evaluators; i++) {
        const weft_evaluator *e = &o->evaluators[i];
        if (e->free && !weft_reserved_check(e->reserved, sizeof e->reserved, "", NULL)) e->free(e->self);
    }
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

/* The batch of the flow's graphs: of the first that takes data. */
static int64_t flow_rows(const weft_trainer *t) {
    weft_flow_step s;
    weft_port p;
    for (int i = 0; weft_plan_flow(t->plan, i, &s); i++)
        for (int k = 0; weft_plan_input(t->plan, s.graph, k, &p); k++)
            if (!fed_find(&t->fed, p.name)) return plan_rows(t->plan, s.graph, &t->fed);
    return weft_plan_batch(t->plan);
}

/* What the loader draws for each sample: for an input "draws" that nothing feeds (preprocess.h). */
static int flow_draws(const weft_trainer *t) {
    weft_flow_step s;
    weft_port p;
    const weft_source *source;
    if (dataset_find(&t->options.train, "draws", &source)) return 0;
    for (int i = 0; weft_plan_flow(t->plan, i, &s); i++)
        if (find_port(t->plan, s.graph, true, "draws", &p, NULL) >= 0 && p.dtype == WEFT_F32 && p.ndim == 2 &&
            p.shape[1] <= 4096)
            return (int)p.shape[1];
    return 0;
}

static weft_status open_data(weft_trainer *t, weft_error *error) {
    const weft_trainer_options *o = &t->options;
    weft_loader_options how = {.batch = flow_rows(t),
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
                        "trainer: %jd samples are fewer than a batch of %jd: use a smaller batch", samples,
                        how.batch);
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
        if (flow_count(t, o->epochs, &all, error)) return error->status;
    }
    t->progress.iterations = most && (!all || most < all) ? most : all;
    return o->train_step || !o->train.n || all ? WEFT_OK : flow_count(t, 1, &all, error);
}

static const char *val_graph(const weft_trainer *t) {
    return t->options.val_graph ? t->options.val_graph : "val";
}

static const char *test_graph(const weft_trainer *t) {
    const char *usual = model_graph(t->model, "test", NULL, NULL) ? "test" : val_graph(t);
    return t->options.test_graph ? t->options.test_graph : usual;
}

/* A flow runs graphs, and nobody would update after them. */
static weft_status check_manual(const weft_trainer_options *o, weft_error *error) {
    if (!o->compile.manual || o->train_step) return WEFT_OK;
    return kit_fail(error, WEFT_ARGUMENT,
                    "trainer: with compile.manual a flow would never update: set options.train_step, which "
                    "calls weft_run_update, or leave compile.manual out");
}

/* An evaluation is there where it has data, or a graph that the caller names. */
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
            "name it in the flow, after the graph that trains (weft_model_set_flow, graphtool --flow), or in "
            "a flow of another name where the training need not run it",
            g.graph, g.path, g.reader);
    }
    return WEFT_OK;
}

static weft_status open_training(weft_trainer *t, weft_error *error) {
    return check_manual(&t->options, error) || check_idle(t, error) || open_data(t, error) ||
                   flow_bind(t, error) || count(t, error)
               ? error->status
               : WEFT_OK;
}

static weft_status open_sweep(weft_trainer *t, sweep *s, const weft_dataset *data, const char *graph,
                              weft_error *error) {
    if (!model_graph(t->model, graph, "trainer: data for an evaluation, but the model", error))
        return error->status;
    sweep_options of = {.graph = graph,
                        .data = data,
                        .fed = &t->fed,
                        .comm = t->options.comm,
                        .n_evaluators = t->options.n_evaluators,
                        .evaluators = t->options.evaluators,
                        .env = t->env,
                        .checks = t->options.check,
                        .no_capture = t->options.no_capture};
    weft_status status = sweep_open(s, t->model, &t->options.compile, &of, error);
    const char *op = status ? NULL : weft_plan_over_ranks(s->plan[0], graph);
    if (op)
        trainer_log(t,
                    "graph %s has %s: its numbers are of each batch by itself, so they depend on the batch",
                    graph, op);
    return status;
}

static weft_status open_evaluations(weft_trainer *t, weft_error *error) {
    const weft_trainer_options *o = &t->options;
    weft_status status = WEFT_OK;
    if (has_val(o)) status = open_sweep(t, &t->val, &o->val, val_graph(t), error);
    if (!status && has_test(o)) status = open_sweep(t, &t->test, &o->test, test_graph(t), error);
    return status;
}

/* Before anything large is allocated, on any rank of this machine: they share what is free. */
static weft_status check_memory(weft_trainer *t, weft_error *error) {
    double none = 0;
    const weft_comm *comm = t->options.comm;
    bool is_copied = t->options.checkpoints.folder && !t->options.checkpoints.no_snapshot;
    bool is_evaluated = t->val.is_open || t->test.is_open;
    bool is_alone = t->options.compile.graph; /* an evaluation, which runs what the plan counts */
    weft_fit_options how = {.more = is_alone ? 0 : sweep_bytes(&t->val) + sweep_bytes(&t->test),
                            .more_name = !is_copied      ? "evaluations"
                                         : !is_evaluated ? "a checkpoint's copy"
                                                         : "evaluations and a checkpoint's copy",
                            .checkpoints = is_copied && !is_alone,
                            .local_world = comm ? comm->local_world : 1,
                            .model = t->model,
                            .compile = &t->options.compile,
                            .words = t->options.fit_words};
    weft_status status = weft_plan_fits(t->plan, &how, error);
    return status || is_alone ? status : ranks_sum(t->env, t->options.comm, 1, &none, error);
}

/* Logs what the compiler has to say, and what is converted. */
static void tell_notes(weft_trainer *t) {
    const char *note;
    for (int i = 0; (note = weft_plan_note(t->plan, i)); i++) trainer_log(t, "%s", note);
    batches_tell(&t->data, &t->options.train, t);
    batches_tell(&t->val.data, &t->options.val, t);
    batches_tell(&t->test.data, &t->options.test, t);
}

static weft_status open_all(weft_trainer *t, weft_error *error) {
    if (fed_open(t, error) || fed_agree(t, error) || open_plan(t, error) ||
        (!t->options.compile.graph && open_training(t, error)) || open_evaluations(t, error) ||
        check_memory(t, error))
        return error->status;
    if (!(t->store = weft_store_new(t->plan, t->options.seed, error))) return error->status;
    if (checkpoints_open(t, error)) return error->status;
    weft_status status = hooks_open(t, error);
    if (status) return status;
    tell_notes(t);
    return WEFT_OK;
}

/* ---- the public part ---- */

/* A trainer without any part yet. */
static weft_trainer *begin(const weft_model *model, const weft_trainer_options *options, weft_error *error) {
    weft_trainer *t = model ? kit_object(options->env, sizeof *t) : NULL;
    if (!model) kit_fail(error, WEFT_ARGUMENT, "trainer: the model is NULL");
    if (model && !t) kit_no_memory(error, "trainer");
    if (!t) return NULL;
    t->env = options->env;
    t->model = model;
    t->options = *options;
    t->validated = t->checkpoints.saved = t->checkpoints.looked = -1;
    kit_defaults(weft_trainer_fields(), &t->options);
    kit_defaults(weft_trainer_checkpoints_fields(), &t->options.checkpoints);
    t->metrics.memory = kit_arena_of(t->env);
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
    weft_error own;
    weft_trainer_options none = {0};
    error = kit_error(error, &own);
    if (!options) options = &none;
    if (weft_reserved_check(options->reserved, sizeof options->reserved, "weft_trainer_options", error))
        return NULL;
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
    weft_error own;
    error = kit_error(error, &own);
    if (!options || !runs)
        return kit_fail(error, WEFT_ARGUMENT, "trainer: options and room for the count are needed");
    if (weft_reserved_check(options->reserved, sizeof options->reserved, "weft_trainer_options", error))
        return WEFT_ARGUMENT;
    weft_trainer *t = begin(model, options, error);
    if (!t) return told(options, error->status, error);
    t->options.compile.stop_after = "programs";
    bool is_wrong = check_options(options, error) || trainer_check_trains(t, error) ||
                    (graph && !model_graph(model, graph, "trainer: the model", error)) ||
                    fed_open(t, error) || open_plan(t, error) || open_data(t, error) || count(t, error);
    weft_status status = is_wrong ? error->status : WEFT_OK;
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
    sweep_close(&t->val);
    sweep_close(&t->test);
    for (int i = 0; i < t->n_graphs; i++) bound_close(&t->graphs[i]);
    kit_release(t->metrics.memory);
    weft_store_free(t->store);
    weft_plan_free(t->plan);
    batches_close(&t->data);
    if (t->owns) free_lists(&t->options);
    kit_free(t);
}

weft_status weft_trainer_save(weft_trainer *t, const char *path, bool training, weft_error *error) {
    weft_error own;
    error = kit_error(error, &own);
    bool failed = !weft_trainer_session(t, error) || hooks_call(t, WEFT_BEFORE_SAVE, error) ||
                  weft_sync(t->session, error) || weft_session_save(t->session, path, training, error) ||
                  hooks_call(t, WEFT_AFTER_SAVE, error);
    return failed ? error->status : WEFT_OK;
}
