/* model_case_run.c - runs a case (model_case.h) under one configuration, with ranks as threads, and compares
 * every output of every micro-batch and every variable after every step with PyTorch's results. No code of
 * the engine takes part in the comparison. */
#include "ops/catalog/catalog.h"
#include "support/models/model_case.h"

#include "runtime/plan/program.h"
#include "support/kernels/naive.h"
#include "support/test.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_PORTS = 64, MOST_RANKS = 8 };

typedef struct rank {
    const json_t *c, *config;
    const weft_model *model;
    int number, world, accumulate;
    weft_comm *comm;
    weft_plan *plan;
    weft_store *store;
    weft_session *session;
    weft_error error;
    case_outcome outcome;
    pthread_t thread;
} rank;

static int64_t whole(const json_t *from, const char *key) {
    return json_integer_value(json_object_get(from, key));
}

static const char *word(const json_t *from, const char *key) {
    const char *s = json_string_value(json_object_get(from, key));
    return s ? s : "";
}

/* ---- numbers ---- */

static void case_numbers(weft_dtype dtype, const void *data, size_t n, double *to) {
    tensor from = {.data = (void *)data, .type = {.dtype = dtype, .ndim = 1, .shape = {(int64_t)n}}};
    naive_read(&from, to);
}

/* Data of a case are f32, f64 or integers; 64-byte aligned as the library wants nothing less. */
static void store_number(weft_dtype dtype, void *data, size_t i, const json_t *number) {
    double v = json_number_value(number);
    switch (dtype) {
    case WEFT_F32:
        ((float *)data)[i] = (float)v;
        break;
    case WEFT_F64:
        ((double *)data)[i] = v;
        break;
    case WEFT_I64:
        ((int64_t *)data)[i] = json_integer_value(number);
        break;
    case WEFT_I32:
        ((int32_t *)data)[i] = (int32_t)v;
        break;
    default:
        ((uint8_t *)data)[i] = (uint8_t)v;
        break;
    }
}

static void *numbers_of(const json_t *list, weft_dtype dtype, size_t bytes, size_t width) {
    void *data = test_memory(bytes ? bytes : 1);
    memset(data, 0, bytes);
    for (size_t i = 0; i < json_array_size(list) && (i + 1) * width <= bytes; i++)
        store_number(dtype, data, i, json_array_get(list, i));
    return data;
}

/* ---- comparing ---- */

static void wrong(case_outcome *o, const char *what, const char *why) {
    if (o->is_good) snprintf(o->text, sizeof o->text, "%s: %s", what, why);
    o->is_good = false;
}

/* Differences relative to `allowed`; the first element beyond it is reported. */
static void compare(rank *r, const char *key, const json_t *want, double allowed, const double *got,
                    size_t n) {
    case_outcome *o = &r->outcome;
    char why[200];
    if (json_array_size(want) != n) {
        snprintf(why, sizeof why, "%zu elements, wanted %zu", n, json_array_size(want));
        wrong(o, key, why);
        return;
    }
    o->compared++;
    for (size_t i = 0; i < n; i++) {
        double w = json_number_value(json_array_get(want, i)), off = fabs(got[i] - w);
        double part = allowed > 0 ? off / allowed : off == 0 ? 0 : INFINITY;
        if (!(part <= o->worst)) o->worst = part;
        if (part <= 1) continue;
        snprintf(why, sizeof why, "differ: element %zu is %.9g, wanted %.9g, off by %.3g, allowed %.3g", i,
                 got[i], w, off, allowed);
        wrong(o, key, why);
        return;
    }
}

/* Compares a tensor with "want": within "within", or "within_reduced" if the configuration computes in
 * reduced precision. Skipped if there is no result, or no bound for this precision. */
static void check(rank *r, const char *key, weft_dtype dtype, const void *data, size_t n) {
    const json_t *want = json_object_get(json_object_get(r->c, "want"), key);
    bool is_reduced = whole(r->config, "precision") != 0;
    const json_t *within =
        json_object_get(json_object_get(r->c, is_reduced ? "within_reduced" : "within"), key);
    if (!want) return;
    if (!json_is_number(within)) {
        r->outcome.skipped++;
        return;
    }
    double *got = test_memory(n ? n * sizeof *got : 1);
    case_numbers(dtype, data, n, got);
    compare(r, key, want, json_number_value(within), got, n);
    free(got);
}

/* ---- running ---- */

typedef struct ports {
    int n_feeds, n_fetches;
    weft_feed feeds[MOST_PORTS];
    weft_fetch fetches[MOST_PORTS];
    weft_port outputs[MOST_PORTS];
} ports;

static size_t width_of(const weft_port *p) {
    size_t n = 1;
    for (int i = 0; i < p->ndim; i++) n *= (size_t)p->shape[i];
    return n ? p->bytes / n : 1;
}

static void open_ports(rank *r, const char *graph, const json_t *feeds, ports *p) {
    weft_port port;
    memset(p, 0, sizeof *p);
    for (; p->n_feeds < MOST_PORTS && weft_plan_input(r->plan, graph, p->n_feeds, &port); p->n_feeds++)
        p->feeds[p->n_feeds] = (weft_feed){
            port.name, numbers_of(json_object_get(feeds, port.name), port.dtype, port.bytes, width_of(&port)),
            port.bytes};
    for (; p->n_fetches < MOST_PORTS && weft_plan_output(r->plan, graph, p->n_fetches, &port);
         p->n_fetches++) {
        p->outputs[p->n_fetches] = port;
        p->fetches[p->n_fetches] = (weft_fetch){port.name, test_memory(port.bytes), port.bytes};
    }
}

static void close_ports(ports *p) {
    for (int i = 0; i < p->n_feeds; i++) free((void *)(uintptr_t)p->feeds[i].data);
    for (int i = 0; i < p->n_fetches; i++) free(p->fetches[i].data);
}

typedef weft_status run_function(weft_session *session, const char *graph, const weft_feed *feeds,
                                 int n_feeds, const weft_fetch *fetches, int n_fetches, weft_error *error);

/* One micro-batch, and its outputs: "step.micro/name", micro numbered over all ranks. */
static void run_micro(rank *r, const char *graph, size_t step, size_t micro, const json_t *feeds,
                      run_function *how) {
    ports p;
    char key[300];
    open_ports(r, graph, feeds, &p);
    how(r->session, graph, p.feeds, p.n_feeds, p.fetches, p.n_fetches, &r->error);
    for (int i = 0; !r->error.status && i < p.n_fetches; i++) {
        snprintf(key, sizeof key, "%zu.%zu/%s", step, micro, p.fetches[i].name);
        check(r, key, p.outputs[i].dtype, p.fetches[i].data, p.fetches[i].bytes / width_of(&p.outputs[i]));
    }
    close_ports(&p);
}

static bool is_training(const rank *r, const char *graph) {
    for (int i = 0; i < r->plan->n_programs; i++)
        if (r->plan->programs[i].trains && strcmp(r->plan->programs[i].name, graph) == 0) return true;
    return false;
}

static bool has_state(const weft_plan *plan) {
    for (const weft_variable *v = plan->model->variables; v; v = v->next)
        if (v->kind == VARIABLE_STATE) return true;
    return false;
}

/* A step of calls: for each micro-batch the loss alone, where it writes no state, and the gradients; then the
 * update. */
static void run_manual(rank *r, size_t step, const char *graph, const json_t *micros, size_t per) {
    for (size_t i = 0; i < per && !r->error.status; i++) {
        size_t micro = (size_t)r->number * per + i;
        const json_t *feeds = json_array_get(micros, micro);
        if (!has_state(r->plan)) run_micro(r, graph, step, micro, feeds, weft_run_loss);
        if (!r->error.status) run_micro(r, graph, step, micro, feeds, weft_run);
    }
    if (!r->error.status) weft_run_update(r->session, graph, &r->error);
}

/* A step of a training graph, each rank with its part of the micro-batches. With fewer than the plan has, all
 * but the last run without sync. A graph that trains nothing runs on rank 0 alone. */
static void run_step(rank *r, size_t step, const json_t *run) {
    const json_t *micros = json_object_get(run, "feeds");
    size_t all = json_array_size(micros), per = all / (size_t)r->world;
    if (per == 0 && r->number > 0) return;
    if (per == 0) per = 1;
    if (whole(r->config, "manual") && is_training(r, word(run, "graph"))) {
        run_manual(r, step, word(run, "graph"), micros, per);
        return;
    }
    bool is_short =
        r->accumulate > 1 && (per < (size_t)r->accumulate || json_is_true(json_object_get(run, "no_sync")));
    for (size_t i = 0; i < per && !r->error.status; i++) {
        size_t micro = (size_t)r->number * per + i;
        run_micro(r, word(run, "graph"), step, micro, json_array_get(micros, micro),
                  is_short && i + 1 < per ? weft_run_no_sync : weft_run);
    }
}

/* "step:path" of every variable. */
static void check_variables(rank *r, size_t step) {
    const json_t *v;
    size_t k;
    if (!r->error.status) weft_sync(r->session, &r->error);
    json_array_foreach(json_object_get(r->c, "vars"), k, v) {
        weft_dtype dtype;
        int64_t shape[WEFT_MAX_NDIM];
        char key[300];
        size_t n = 1;
        int ndim = weft_store_shape(r->store, word(v, "path"), &dtype, shape);
        if (ndim < 0 || r->error.status) continue;
        for (int i = 0; i < ndim; i++) n *= (size_t)shape[i];
        float *data = test_memory(n * 4);
        if (weft_store_get(r->store, word(v, "path"), data, n * 4, &r->error) == WEFT_OK) {
            snprintf(key, sizeof key, "%zu:%s", step, word(v, "path"));
            check(r, key, dtype, data, n);
        }
        free(data);
    }
}

static void load_variables(rank *r) {
    const json_t *v;
    size_t k;
    json_array_foreach(json_object_get(r->c, "vars"), k, v) {
        const json_t *list = json_object_get(v, "v");
        size_t bytes = 4 * json_array_size(list);
        void *data = numbers_of(list, WEFT_F32, bytes, 4);
        if (!r->error.status) weft_store_set(r->store, word(v, "path"), data, bytes, &r->error);
        free(data);
    }
}

static void *run_rank(void *argument) {
    rank *r = argument;
    const json_t *o = r->config, *run;
    size_t step;
    /* a good step is the same whatever guards it, so each case draws a guard, or none, by its seed */
    weft_guard guard = (weft_guard)(whole(r->c, "seed") % (WEFT_GUARD_GRAD + 1));
    weft_compile_options options = {
        .isa = (weft_isa)whole(o, "isa"),
        .threads = (int)whole(o, "threads"),
        .accumulate = r->accumulate,
        .precision = (weft_dtype)whole(o, "precision"),
        .batch = whole(r->c, "bind"),
        .world = r->world,
        .rank = r->number,
        .zero = (int)whole(o, "zero"),
        .shard = (weft_shard)whole(o, "shard"),
        .bucket_cap_mb = json_number_value(json_object_get(o, "cap")),
        .serial = whole(o, "serial") != 0,
        .reduce = (weft_reduce)whole(o, "reduce"),
        .verify = whole(o, "verify") != 0,
        .unoptimized = whole(o, "unoptimized") != 0,
        .manual = whole(o, "manual") != 0,
        .guard = guard,
        .guard_factor = guard == WEFT_GUARD_SPIKE ? 1e9 : 0,
    };
    r->plan = weft_compile(r->model, &options, &r->error);
    if (r->plan) weft_plan_verify(r->plan, &r->error);
    r->store = r->plan && !r->error.status ? weft_store_new(r->plan, (uint64_t)whole(r->c, "seed"), &r->error)
                                           : NULL;
    if (r->store) r->session = weft_session_open_on(r->plan, r->store, r->comm, &r->error);
    if (r->session) load_variables(r);
    json_array_foreach(json_object_get(r->c, "runs"), step, run) {
        if (r->session && !r->error.status) run_step(r, step, run);
        if (r->session && !r->error.status) check_variables(r, step);
    }
    if (r->error.status && r->world > 1) weft_comm_abort(r->comm, r->error.text);
    weft_session_close(r->session);
    weft_store_free(r->store);
    weft_comm_free(r->comm);
    return NULL;
}

/* ---- a configuration ---- */

/* The bytes that weft_save() writes; `back`, if wanted: what weft_load() makes of them. NULL after an
 * error. */
static char *saved(const weft_model *m, size_t *n, weft_model **back, weft_error *error) {
    char shared[] = "/dev/shm/model_case.XXXXXX", plain[] = "/tmp/model_case.XXXXXX";
    char *path = shared, *bytes = NULL; /* where fsync costs nothing, if there is such a folder */
    int file = mkstemp(path);
    if (file < 0) file = mkstemp(path = plain);
    if (file < 0) return NULL;
    if (weft_save(m, path, error) == WEFT_OK) {
        if (back) *back = weft_load(path, NULL, error);
        int again = open(path, O_RDONLY); /* weft_save() puts a new file in place of ours */
        *n = (size_t)lseek(again, 0, SEEK_END);
        bytes = test_memory(*n);
        if (pread(again, bytes, *n, 0) != (ssize_t)*n) *n = 0;
        close(again);
    }
    close(file);
    unlink(path);
    return bytes;
}

static weft_model *by_file(const weft_model *m, weft_error *error) {
    weft_model *back = NULL;
    size_t n;
    free(saved(m, &n, &back, error));
    return back;
}

static weft_model *by_text(const weft_model *m, weft_error *error) {
    char *text = weft_model_text(m);
    weft_model *back = text ? weft_model_parse(text, "case", NULL, error) : NULL;
    weft_text_free(text);
    return back;
}

/* The model by way of its text (1) or of a file (2). NULL after an error. */
static weft_model *by_way_of(weft_model *m, int64_t via, weft_error *error) {
    weft_model *back = via == 1 ? by_text(m, error) : by_file(m, error);
    weft_model_free(m);
    return back;
}

typedef struct form {
    char *text, *bytes;
    size_t n;
} form;

static form form_of(const weft_model *m, weft_error *error) {
    form f = {.text = weft_model_text(m)};
    f.bytes = saved(m, &f.n, NULL, error);
    return f;
}

static bool form_equal(form a, form b) {
    if (!a.text || !b.text || !a.bytes || !b.bytes) return false;
    return strcmp(a.text, b.text) == 0 && a.n == b.n && a.n > 0 && memcmp(a.bytes, b.bytes, a.n) == 0;
}

static void form_free(form f) {
    free(f.text);
    free(f.bytes);
}

/* What is read back has the text and the file of what was written. */
static void check_same(const weft_model *was, const weft_model *back, const char *way,
                       case_outcome *outcome) {
    weft_error error = {0};
    form a = form_of(was, &error), b = form_of(back, &error);
    if (!form_equal(a, b)) wrong(outcome, way, error.status ? error.text : "another model");
    form_free(a);
    form_free(b);
}

/* A text names a variable where it is read, so a model of it has the node that reads there, and other bytes
 * than the one that was built; what is read from its own text has the same. */
static void check_round_trips(const weft_model *m, case_outcome *outcome) {
    weft_error error = {0};
    weft_model *file = by_file(m, &error), *text = by_text(m, &error);
    weft_model *again = text ? by_text(text, &error) : NULL;
    char *was = weft_model_text(m), *now = text ? weft_model_text(text) : NULL;
    if (!was || !now || strcmp(was, now) != 0)
        wrong(outcome, "by the text", now ? "another text" : error.text);
    if (again) check_same(text, again, "by the text", outcome);
    if (file)
        check_same(m, file, "by the file", outcome);
    else
        wrong(outcome, "by the file", error.text);
    weft_text_free(was);
    weft_text_free(now);
    weft_model_free(file);
    weft_model_free(text);
    weft_model_free(again);
}

static void note_node(const weft_node *n, bool *ran) {
    int i = 0;
    while (i < op_count() && op_at(i) != n->op) i++;
    ran[i < CASE_OPS ? i : 0] = true;
}

static void note_ops(const weft_graph *g, bool *ran) {
    for (const weft_node *n = g->first; n; n = n->next) {
        note_node(n, ran);
        for (int i = 0; i < n->n_body; i++) note_node(n->body[i], ran);
    }
}

static void note_plan(const weft_plan *plan, bool *ran) {
    for (int i = 0; plan && i < plan->n_programs; i++) note_ops(plan->programs[i].graph, ran);
}

static void merge(case_outcome *into, const case_outcome *from) {
    for (int i = 0; i < CASE_OPS; i++) into->ran[i] = into->ran[i] || from->ran[i];
    into->compared += from->compared;
    into->skipped += from->skipped;
    if (!(from->worst <= into->worst)) into->worst = from->worst;
    if (into->is_good && !from->is_good) memcpy(into->text, from->text, sizeof into->text);
    into->is_good = into->is_good && from->is_good;
}

static int at_least_one(int64_t n) {
    return n > 1 ? n < MOST_RANKS ? (int)n : MOST_RANKS : 1;
}

static weft_status open_comms(int world, weft_comm **comms, weft_error *error) {
    if (world > 1) return weft_comm_threads(world, NULL, comms, error);
    comms[0] = weft_comm_self(NULL, error);
    return error->status;
}

static void run_ranks(rank *ranks, int world) {
    for (int i = 0; i < world; i++) {
        if (world == 1)
            run_rank(&ranks[i]);
        else if (pthread_create(&ranks[i].thread, NULL, run_rank, &ranks[i]))
            abort();
    }
    for (int i = 0; world > 1 && i < world; i++) pthread_join(ranks[i].thread, NULL);
}

void case_run(const json_t *c, size_t config, case_outcome *outcome) {
    const json_t *o = json_array_get(json_object_get(c, "configs"), config);
    int world = at_least_one(whole(o, "world")), accumulate = at_least_one(whole(o, "accumulate"));
    rank ranks[MOST_RANKS];
    weft_comm *comms[MOST_RANKS] = {0};
    weft_error error = {0};
    weft_model *m = case_model(c, config);
    *outcome = (case_outcome){.is_good = true};
    if (config == 0 && !weft_model_error(m)->status) check_round_trips(m, outcome);
    if (whole(o, "via") && !weft_model_error(m)->status) m = by_way_of(m, whole(o, "via"), &error);
    if (!m || open_comms(world, comms, &error)) {
        wrong(outcome, "refused", error.text);
        weft_model_free(m);
        return;
    }
    for (int i = 0; i < world; i++)
        ranks[i] = (rank){.c = c,
                          .config = o,
                          .model = m,
                          .number = i,
                          .world = world,
                          .comm = comms[i],
                          .accumulate = accumulate,
                          .outcome = {.is_good = true}};
    for (const weft_graph *g = m->graphs; g; g = g->next) note_ops(g, outcome->ran);
    run_ranks(ranks, world);
    for (int i = 0; i < world; i++) {
        if (ranks[i].error.status) wrong(&ranks[i].outcome, "refused", ranks[i].error.text);
        note_plan(ranks[i].plan, ranks[i].outcome.ran);
        merge(outcome, &ranks[i].outcome);
        weft_plan_free(ranks[i].plan);
    }
    weft_model_free(m);
}
