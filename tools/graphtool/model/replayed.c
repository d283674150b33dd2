/* replayed.c - see replayed.h. */
#include "tools/graphtool/model/replayed.h"

#include "graph/core/limits.h"
#include "graph/file/io.h"
#include "graph/file/packed.h"
#include "ops/catalog/catalog.h"
#include "ops/cpu/isa.h"
#include "runtime/plan/compile_fields.h"
#include "runtime/plan/program.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { STEP_BYTES = 1 << 16 };

/* ---- the text of the step ---- */

enum { MAY_BE_ABSENT = 1 /* in older files */ };

/* What the text says beside the options that ranks share (compile_fields), each once. */
static const weft_field saids[] = {
#define R(field, name, uses)                                                                                 \
    { name, WEFT_FIELD_TEXT, offsetof(replayed, field), 0, 0, NULL, uses, NULL }
    R(version, "version", 0),
    R(library.version, "onednn", MAY_BE_ABSENT),
    R(library.isa, "onednn_isa", MAY_BE_ABSENT),
    R(library.implementations, "onednn_implementations", MAY_BE_ABSENT),
    R(calibration, "calibration", 0),
    R(fingerprint, "fingerprint", 0),
    R(graph, "graph", 0),
    {"runs", WEFT_FIELD_COUNT, offsetof(replayed, runs), 1, (1 << 20) + 1, NULL, 0, NULL},
    R(seed, "seed", 0),
    {NULL},
#undef R
};

static bool hex_read(const char *value, int base, uint64_t *into) {
    char *end;
    *into = strtoull(value, &end, base);
    return *value && !*end && *value != '-';
}

static bool refuse_step(const replayed *r, const char *why, weft_error *error) {
    return !error_set(error, WEFT_FILE, "%.300s: step: %s", r->path, why);
}

static bool numbers_read(replayed *r, weft_error *error) {
    uint64_t calibrated;
    if (!hex_read(r->fingerprint, 16, &r->plan) || !hex_read(r->calibration, 16, &calibrated) ||
        !hex_read(r->seed, 10, &r->seed_number))
        return refuse_step(r, "fingerprint, calibration or seed is not a number", error);
    if (r->options.world > REPLAYED_RANKS) return refuse_step(r, "world is more than it may be", error);
    const weft_compile_options *o = &r->options;
    if (o->world < 1 || o->batch < 1 || o->threads < 1 || !o->isa || !o->reduce || !o->guard)
        return refuse_step(r, "world, batch, threads, isa, reduce or guard is not what a plan has", error);
    if (!calibrated) return true;
    return !error_set(
        error, WEFT_UNSUPPORTED,
        "%.300s: its plan was made by a table of graphtool calibrate, which is not in the file: it "
        "cannot be run again",
        r->path);
}

/* Reads a field of *into from its line NAME=VALUE; each of r->step[bytes] ends with NUL. Names that this
 * reader does not know are settings that a plan does not depend on. */
static bool read_field(const replayed *r, size_t bytes, const weft_field *f, bool is_needed, void *into,
                       weft_error *error) {
    const char *value = NULL;
    size_t n = strlen(f->name);
    int times = 0;
    for (const char *at = r->step; at < r->step + bytes; at += strlen(at) + 1)
        if (strncmp(at, f->name, n) == 0 && at[n] == '=') value = at + n + 1, times++;
    if (times == 1 && *value && field_read(f, value, into)) return true;
    if (!times && !is_needed) return true;
    return !error_set(error, WEFT_FILE,
                      times ? "%.300s: step: '%s' is not a setting, or its value is invalid"
                            : "%.300s: step: it does not say %s",
                      r->path, f->name);
}

/* Texts of *r point into r->step. */
static bool read_step(replayed *r, size_t bytes, weft_error *error) {
    for (size_t i = 0; i < bytes; i++)
        if (r->step[i] == '\n') r->step[i] = 0;
    for (const weft_field *f = saids; f->name; f++)
        if (!read_field(r, bytes, f, !(f->uses & MAY_BE_ABSENT), r, error)) return false;
    for (const weft_field *f = compile_fields; f->name; f++)
        if (f->uses & COMPILE_OF_RANKS && !read_field(r, bytes, f, true, &r->options, error)) return false;
    return numbers_read(r, error);
}

/* ---- the file ---- */

static const char no_step[] = "it is not a bad.step, or was cut or damaged";

/* Puts this before what a reader of safetensors says after the path. */
static void tell_no_step(const char *path, weft_error *error) {
    enum { PATH = 400 /* bytes that it shows at most */ };
    char rest[sizeof error->text];
    size_t n = strnlen(path, PATH);
    if (error->status == WEFT_MEMORY || error->status == WEFT_IO || strncmp(error->text, path, n)) return;
    snprintf(rest, sizeof rest, "%s", error->text + n + strspn(error->text + n, ": "));
    error_set(error, error->status, "%.300s: %s: %.600s", path, no_step, rest);
}

static bool find_tensor(const weft_tensors *file, const char *name, weft_port *port) {
    for (int i = 0; weft_tensors_at(file, i, port); i++)
        if (strcmp(port->name, name) == 0) return true;
    return false;
}

/* The bytes of a u8 tensor, of at most `most`, and a NUL. */
static char *read_bytes(const replayed *r, const weft_tensors *file, const char *name, size_t most,
                        size_t *bytes, weft_error *error) {
    weft_port port;
    if (!find_tensor(file, name, &port) || port.dtype != WEFT_U8 || port.bytes > most) {
        error_set(error, WEFT_FILE, "%.300s: %s: it has no u8 tensor '%s' of at most %zu bytes", r->path,
                  no_step, name, most);
        return NULL;
    }
    char *data = calloc(port.bytes + 1, 1);
    *bytes = port.bytes;
    if (!data) error_memory(error, r->path);
    if (data && !weft_tensors_read(file, name, data, port.bytes, error)) return data;
    free(data);
    return NULL;
}

/* Whether the file is a model.bin, and the hash of all of it but its last 8 bytes. */
static weft_status look_at(const char *path, bool *is_model, uint64_t *hash, weft_error *error) {
    static const char magic[] = {0x0d, 'W', 'E', 'F', 'T'};
    char piece[1 << 14];
    const weft_io *io = io_of(NULL);
    uint64_t bytes = 0;
    void *file;
    int code = io->open_read(io->context, path, &file, &bytes);
    if (code) return io_fail(error, path, "cannot be opened", code);
    if (bytes >= sizeof magic) code = io->read(io->context, file, 0, piece, sizeof magic);
    *is_model = !code && bytes >= sizeof magic && memcmp(piece, magic, sizeof magic) == 0;
    bytes -= bytes < sizeof *hash ? bytes : sizeof *hash;
    if (!code) code = file_hash(io, file, bytes, piece, sizeof piece, hash);
    io->close(io->context, file);
    return code ? io_fail(error, path, "cannot be read", code) : WEFT_OK;
}

/* Its hash is the end of the file. */
static bool is_undamaged(const replayed *r, const weft_tensors *file, uint64_t hash, weft_error *error) {
    size_t bytes;
    char *promised = read_bytes(r, file, "xxh3", sizeof hash, &bytes, error);
    bool good = promised && bytes == sizeof hash && memcmp(promised, &hash, sizeof hash) == 0;
    if (promised && !good)
        error_set(error, WEFT_FILE, "%.300s: it is damaged: its checksum is not that of its content",
                  r->path);
    free(promised);
    return good;
}

bool replayed_open(replayed *r, const char *path, weft_error *error) {
    size_t bytes;
    bool is_model = false;
    uint64_t hash = 0;
    *r = (replayed){.path = path, .library = {"", "", ""}};
    if (look_at(path, &is_model, &hash, error)) return false;
    if (is_model)
        return !error_set(error, WEFT_FILE,
                          "%.300s: it is a model, and replay takes the bad.step of a training", path);
    weft_tensors *file = weft_tensors_open(path, NULL, error);
    if (!file) tell_no_step(path, error);
    r->step = file ? read_bytes(r, file, "step", STEP_BYTES, &bytes, error) : NULL;
    bool good = r->step && is_undamaged(r, file, hash, error) && read_step(r, bytes, error);
    char *model = good ? read_bytes(r, file, "model", MODEL_MAX_FILE_BYTES, &bytes, error) : NULL;
    if (model) r->model = model_unpack(path, model, bytes, NULL, &weft_catalog, error);
    free(model);
    weft_tensors_close(file);
    return r->model != NULL;
}

void replayed_close(replayed *r) {
    weft_model_free(r->model);
    free(r->step);
    r->model = NULL;
    r->step = NULL;
}

/* ---- a rank ---- */

typedef struct rank {
    const replayed *r;
    weft_comm *comm; /* NULL: alone */
    int number;
    pthread_t thread;
    weft_plan *plan;
    weft_store *store;
    weft_session *session;
    weft_tensors *file;
    char *report;
    weft_error error;
} rank;

static bool compile_for(rank *k, const char *flow) {
    weft_compile_options o = k->r->options;
    o.rank = k->number;
    o.flow = flow;
    if (o.batch == k->r->model->batch) o.batch = 0;
    k->plan = weft_compile(k->r->model, &o, &k->error);
    return k->plan && k->plan->fingerprint == k->r->plan;
}

static replayed_library library_here(const weft_plan *plan) {
    const plan_library *l = &plan->library;
    if (!l->name) return (replayed_library){"unused", "unused", "unused"};
    return (replayed_library){l->version, l->set, l->implementations};
}

static bool list_has(const char *names, const char *name, size_t length) {
    for (size_t n; *names; names += n, names += *names == ',') {
        n = strcspn(names, ",");
        if (n == length && strncmp(names, name, n) == 0) return true;
    }
    return false;
}

/* " with oneDNN 2.6.3 for avx512 (brg:avx512_core_amx)": of its implementations those that the other
 * one lacks. The caller frees it. */
static char *library_text(const replayed_library *l, const replayed_library *other) {
    text t = {0}, own = {0};
    if (!*l->version || strcmp(l->version, "unused") == 0) {
        text_add(&t, *l->version ? " without oneDNN" : " (its oneDNN is not known)");
        return text_detach(&t);
    }
    for (const char *at = l->implementations; *at; at += *at == ',') {
        size_t n = strcspn(at, ",");
        if (!list_has(other->implementations, at, n))
            text_add(&own, "%s%.*s", own.length ? "," : "", (int)n, at);
        at += n;
    }
    char *names = text_detach(&own);
    text_add(&t, " with oneDNN %s", SHOW(l->version));
    if (*l->isa) text_add(&t, " for %s", SHOW(l->isa));
    if (names && *names) text_add(&t, " (%s)", SHOW(names));
    free(names);
    return text_detach(&t);
}

static void tell_other(rank *k) {
    const replayed *r = k->r;
    replayed_library own = library_here(k->plan);
    char *there = library_text(&r->library, &own), *here = library_text(&own, &r->library);
    error_set(&k->error, WEFT_FILE,
              "%.300s: its plan is another one: it was made by Weft %s%s; this is Weft %s%s", r->path,
              SHOW(r->version), there ? there : "", weft_version(), here ? here : "");
    free(there);
    free(here);
}

/* The plan by the flow, or of all graphs, whichever has the fingerprint of the file. */
static bool compile(rank *k) {
    const char *const flows[] = {k->r->options.flow, NULL};
    for (int i = 0; i < 2; i++) {
        k->error = (weft_error){0};
        if (compile_for(k, flows[i])) return true;
        if (k->plan) tell_other(k);
        weft_plan_free(k->plan);
        k->plan = NULL;
    }
    return false;
}

/* Values before the step: every one of the store, and no other. */
static bool load_values(rank *k) {
    weft_rename strip = {"store.", ""};
    weft_weights_report report = {0};
    weft_weights_options how = {.not_strict = true, .n_renames = 1, .renames = &strip};
    weft_status status = weft_weights_load(k->store, k->r->path, &how, &report, &k->error);
    if (!status && report.n_missing)
        status = error_set(&k->error, WEFT_FILE, "%.300s: it lacks values of its model: %s", k->r->path,
                           report.missing ? SHOW(report.missing) : "");
    weft_text_free(report.missing);
    weft_text_free(report.unexpected);
    return status == WEFT_OK;
}

static void free_feeds(weft_feed *feeds, int n) {
    for (int i = 0; feeds && i < n; i++) free((void *)(uintptr_t)feeds[i].data);
    free(feeds);
}

/* The inputs of one run; NULL: k->error says why not. */
static weft_feed *read_feeds(rank *k, int64_t run, int *n) {
    const replayed *r = k->r;
    weft_port port;
    *n = 0;
    while (weft_plan_input(k->plan, r->graph, *n, &port)) ++*n;
    weft_feed *feeds = calloc((size_t)*n + 1, sizeof *feeds);
    if (!feeds) error_memory(&k->error, r->path);
    for (int i = 0; i < *n && !k->error.status; i++) {
        char name[400];
        weft_plan_input(k->plan, r->graph, i, &port);
        void *data = aligned_alloc(64, (port.bytes + 63) / 64 * 64);
        feeds[i] = (weft_feed){port.name, data, port.bytes};
        snprintf(name, sizeof name, "feed.%d.%lld.%s", k->number, (long long)run, port.name);
        if (data)
            weft_tensors_read(k->file, name, data, port.bytes, &k->error);
        else
            error_memory(&k->error, r->path);
    }
    if (!k->error.status) return feeds;
    free_feeds(feeds, *n);
    return NULL;
}

/* One run of the step: the last one ends it. */
static weft_status run(rank *k, int64_t m) {
    const replayed *r = k->r;
    bool is_last = m + 1 == r->runs;
    int n;
    if (is_last && r->options.manual) return weft_run_update(k->session, r->graph, &k->error);
    weft_feed *feeds = read_feeds(k, m, &n);
    if (!feeds) return k->error.status;
    weft_status status = is_last || r->options.manual
                             ? weft_run(k->session, r->graph, feeds, n, NULL, 0, &k->error)
                             : weft_run_no_sync(k->session, r->graph, feeds, n, NULL, 0, &k->error);
    free_feeds(feeds, n);
    return status;
}

/* False: k->error says why not. */
static bool open_rank(rank *k) {
    return compile(k) && (k->store = weft_store_new(k->plan, k->r->seed_number, &k->error)) &&
           load_values(k) && (k->session = weft_session_open_on(k->plan, k->store, k->comm, &k->error)) &&
           (k->file = weft_tensors_open(k->r->path, NULL, &k->error));
}

/* An error that the others do not have ends the communicator, so that none waits. */
static void *run_rank(void *self) {
    rank *k = self;
    bool goes_on = open_rank(k);
    for (int64_t m = 0; goes_on && m < k->r->runs; m++) goes_on = run(k, m) == WEFT_OK;
    k->report = weft_bad_step_text(k->session);
    if (k->report) k->error = (weft_error){0};
    if (k->comm && k->error.status) weft_comm_fail(k->comm, k->error.text);
    weft_tensors_close(k->file);
    weft_session_close(k->session);
    weft_store_free(k->store);
    weft_plan_free(k->plan);
    return NULL;
}

/* ---- all ranks ---- */

/* The error of the rank that has one of its own. */
static void pick_error(const rank *ranks, int world, weft_error *error) {
    for (int i = 0; i < world; i++)
        if (ranks[i].error.status && (!error->status || error->status == WEFT_PEER)) *error = ranks[i].error;
}

char *replayed_run(const replayed *r, weft_error *error) {
    int world = r->options.world, started = 0;
    rank ranks[REPLAYED_RANKS] = {{0}};
    weft_comm *comms[REPLAYED_RANKS] = {NULL};
    *error = (weft_error){0};
    if (r->options.isa > WEFT_ISA_REFERENCE && r->options.isa < isa_best() &&
        weft_limit_isa(r->options.isa, error))
        return NULL;
    if (world > 1 && weft_comm_threads(world, NULL, comms, error)) return NULL;
    for (; started < world; started++) {
        ranks[started] = (rank){.r = r, .comm = comms[started], .number = started};
        if (pthread_create(&ranks[started].thread, NULL, run_rank, &ranks[started])) break;
    }
    for (int i = started; i < world && comms[i]; i++) weft_comm_fail(comms[i], "no thread");
    for (int i = 0; i < started; i++) pthread_join(ranks[i].thread, NULL);
    for (int i = 0; i < world; i++) weft_comm_free(comms[i]);
    if (started < world) error_set(error, WEFT_MEMORY, "%.300s: no thread for rank %d", r->path, started);
    pick_error(ranks, started, error);
    char *report = error->status ? NULL : ranks[0].report;
    for (int i = 0; i < started; i++)
        if (ranks[i].report != report) free(ranks[i].report);
    return report;
}
