/* replayed.c - see replayed.h. */
#include "tools/graphtool/common/replayed.h"

#include "graph/core/kernel.h"
#include "graph/core/limits.h"
#include "graph/file/io.h"
#include "graph/file/packed.h"
#include "runtime/plan/program.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEP_BYTES = 1 << 16 };

/* ---- the text of the step ---- */

typedef enum setting_kind { INTEGER, REAL, HEX, TEXT, WORD } setting_kind;

static const char *const devices[] = {"cpu", "cuda", NULL};
static const char *const isas[] = {"", "reference", "sse2", "avx2", "avx512", NULL};
static const char *const shards[] = {"greedy", "flat", NULL};
static const char *const reduces[] = {"", "ordered", "fast", NULL};

#define R(field) offsetof(replayed, field)
/* What the text says, each once: where it goes, how many bytes it has there, its range or its words. Older
 * files lack what may be absent. */
static const struct setting {
    const char *name;
    setting_kind kind;
    size_t at, width;
    double low, high;
    const char *const *words;
    bool may_be_absent;
} settings[] = {
    {"version", TEXT, R(version), REPLAYED_NAME, 0, 0, NULL},
    {"device", WORD, R(options.device), sizeof(weft_device), 0, 0, devices},
    {"deterministic", INTEGER, R(options.deterministic), sizeof(bool), 0, 1, NULL},
    {"tf32", INTEGER, R(options.tf32), sizeof(bool), 0, 1, NULL},
    {"world", INTEGER, R(options.world), sizeof(int), 1, REPLAYED_RANKS, NULL},
    {"strategy", TEXT, R(strategy), REPLAYED_STRATEGY, 0, 0, NULL},
    {"batch", INTEGER, R(options.batch), sizeof(int64_t), 1, INT32_MAX, NULL},
    {"threads", INTEGER, R(options.threads), sizeof(int), 1, 1024, NULL},
    {"isa", WORD, R(options.isa), sizeof(weft_isa), 0, 0, isas},
    {"onednn", TEXT, R(library.version), REPLAYED_NAME, .may_be_absent = true},
    {"onednn_isa", TEXT, R(library.isa), REPLAYED_NAME, .may_be_absent = true},
    {"onednn_implementations", TEXT, R(library.implementations), REPLAYED_LIST, .may_be_absent = true},
    {"flow", TEXT, R(flow), REPLAYED_NAME, 0, 0, NULL},
    {"accumulate", INTEGER, R(options.accumulate), sizeof(int), 1, 1 << 20, NULL},
    {"manual", INTEGER, R(options.manual), sizeof(bool), 0, 1, NULL},
    {"bucket_cap_mb", REAL, R(options.bucket_cap_mb), sizeof(double), 0, 1 << 20, NULL},
    {"zero", INTEGER, R(options.zero), sizeof(int), 0, 2, NULL},
    {"shard", WORD, R(options.shard), sizeof(weft_shard), 0, 0, shards},
    {"serial", INTEGER, R(options.serial), sizeof(bool), 0, 1, NULL},
    {"reduce", WORD, R(options.reduce), sizeof(weft_reduce), 0, 0, reduces},
    {"guard", INTEGER, R(options.guard), sizeof(weft_guard), 1, WEFT_GUARD_GRAD, NULL},
    {"guard_factor", REAL, R(options.guard_factor), sizeof(double), 0, 1e9, NULL},
    {"unoptimized", INTEGER, R(options.unoptimized), sizeof(bool), 0, 1, NULL},
    {"calibration", HEX, R(calibration), sizeof(uint64_t), 0, 0, NULL},
    {"fingerprint", HEX, R(fingerprint), sizeof(uint64_t), 0, 0, NULL},
    {"graph", TEXT, R(graph), REPLAYED_NAME, 0, 0, NULL},
    {"runs", INTEGER, R(runs), sizeof(int64_t), 1, (1 << 20) + 1, NULL},
    {"seed", INTEGER, R(seed), sizeof(uint64_t), 0, 0, NULL},
};
enum { SETTINGS = sizeof settings / sizeof *settings };

/* Little-endian, as all of Weft. */
static void put_integer(char *to, size_t width, uint64_t value) {
    memcpy(to, &value, width);
}

static bool set_integer(const struct setting *s, char *to, const char *value) {
    char *end;
    uint64_t n = strtoull(value, &end, s->kind == HEX ? 16 : 10);
    bool is_ranged = s->high > 0;
    if (!*value || *end || *value == '-' || (is_ranged && ((double)n < s->low || (double)n > s->high)))
        return false;
    put_integer(to, s->width, n);
    return true;
}

static bool set_real(const struct setting *s, char *to, const char *value) {
    char *end;
    double x = strtod(value, &end);
    if (!*value || *end || !(x >= s->low && x <= s->high)) return false;
    memcpy(to, &x, sizeof x);
    return true;
}

static bool set_word(const struct setting *s, char *to, const char *value) {
    for (uint64_t i = 0; s->words[i]; i++)
        if (*value && strcmp(s->words[i], value) == 0) {
            put_integer(to, s->width, i);
            return true;
        }
    return false;
}

static bool set(replayed *r, const struct setting *s, const char *value) {
    char *to = (char *)r + s->at;
    if (s->kind == REAL) return set_real(s, to, value);
    if (s->kind == WORD) return set_word(s, to, value);
    if (s->kind != TEXT) return set_integer(s, to, value);
    if (!*value || strlen(value) >= s->width) return false;
    snprintf(to, s->width, "%s", value);
    return true;
}

/* f32 unless it says another reduced type. */
static bool set_precision(replayed *r, const char *value) {
    bool is_bf16 = strcmp(value, "bf16") == 0, is_f16 = strcmp(value, "f16") == 0;
    r->options.precision = is_bf16 ? WEFT_BF16 : is_f16 ? WEFT_F16 : (weft_dtype)0;
    return is_bf16 || is_f16 || strcmp(value, "f32") == 0;
}

/* Names that this reader does not know are settings that a plan does not depend on. */
static bool read_line(replayed *r, char *line, bool *is_said, weft_error *error) {
    char *value = strchr(line, '=');
    if (value) *value++ = 0;
    bool good = value != NULL;
    if (good && strcmp(line, "precision") == 0) good = set_precision(r, value);
    for (int i = 0; good && i < SETTINGS; i++) {
        if (strcmp(settings[i].name, line)) continue;
        good = !is_said[i] && set(r, &settings[i], value);
        is_said[i] = true;
    }
    if (!good)
        error_set(error, WEFT_FILE, "%.300s: step: '%s' is no setting, or has no value that it may have",
                  r->path, SHOW(line));
    return good;
}

static bool read_step(replayed *r, char *text, weft_error *error) {
    bool is_said[SETTINGS] = {0};
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        if (!read_line(r, line, is_said, error)) return false;
    for (int i = 0; i < SETTINGS; i++)
        if (!is_said[i] && !settings[i].may_be_absent)
            return !error_set(error, WEFT_FILE, "%.300s: step: it does not say %s", r->path,
                              settings[i].name);
    if (!r->calibration) return true;
    return !error_set(
        error, WEFT_UNSUPPORTED,
        "%.300s: its plan was made by a table of graphtool calibrate, which is not in the file: it "
        "cannot be run again",
        r->path);
}

/* ---- the file ---- */

static const char no_step[] = "it is no bad.step, or was cut or damaged";

/* Puts this before what a reader of safetensors says behind the path. */
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
    *r = (replayed){.path = path};
    if (look_at(path, &is_model, &hash, error)) return false;
    if (is_model)
        return !error_set(error, WEFT_FILE,
                          "%.300s: it is a model, and replay takes the bad.step of a training", path);
    weft_tensors *file = weft_tensors_open(path, NULL, error);
    if (!file) tell_no_step(path, error);
    char *step = file ? read_bytes(r, file, "step", STEP_BYTES, &bytes, error) : NULL;
    bool good = step && is_undamaged(r, file, hash, error) && read_step(r, step, error);
    char *model = good ? read_bytes(r, file, "model", MODEL_MAX_FILE_BYTES, &bytes, error) : NULL;
    if (model) r->model = model_unpack(path, model, bytes, NULL, error);
    free(step);
    free(model);
    weft_tensors_close(file);
    return r->model != NULL;
}

void replayed_close(replayed *r) {
    weft_model_free(r->model);
    r->model = NULL;
}

/* ---- a rank ---- */

typedef struct rank {
    const replayed *r;
    weft_comm *comm; /* NULL: alone */
    int number;
    pthread_t thread;
    char *report;
    weft_error error;
} rank;

static weft_plan *compile_for(const rank *k, const char *flow, weft_error *error) {
    weft_compile_options o = k->r->options;
    o.rank = k->number;
    o.flow = flow;
    o.strategy = k->r->strategy;
    if (o.batch == k->r->model->batch) o.batch = 0;
    return weft_compile(k->r->model, &o, error);
}

static replayed_library library_here(const weft_plan *plan) {
    const plan_library *l = &plan->library;
    replayed_library here;
    snprintf(here.version, sizeof here.version, "%s", l->name ? l->version : "unused");
    snprintf(here.isa, sizeof here.isa, "%s", l->name ? l->set : "unused");
    snprintf(here.implementations, sizeof here.implementations, "%s",
             l->name ? l->implementations : "unused");
    return here;
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

static void tell_other(const replayed *r, const weft_plan *plan, weft_error *error) {
    replayed_library own = library_here(plan);
    char *there = library_text(&r->library, &own), *here = library_text(&own, &r->library);
    error_set(error, WEFT_FILE,
              "%.300s: its plan is another one: it was made by Weft %s%s; this is Weft %s%s", r->path,
              SHOW(r->version), there ? there : "", weft_version(), here ? here : "");
    free(there);
    free(here);
}

/* The plan by the flow, or of all graphs, whichever has the fingerprint of the file. */
static weft_plan *compile(const rank *k, weft_error *error) {
    const char *const flows[] = {k->r->flow, NULL};
    for (int i = 0; i < 2; i++) {
        weft_plan *plan = compile_for(k, flows[i], error);
        if (plan && plan->fingerprint == k->r->fingerprint) return plan;
        if (plan) tell_other(k->r, plan, error);
        weft_plan_free(plan);
    }
    return NULL;
}

/* Values of before the step: every one of the store, and no other. */
static bool load_values(const rank *k, weft_store *store, weft_error *error) {
    weft_rename strip = {"store.", ""};
    weft_weights_report report = {0};
    weft_weights_options how = {.not_strict = true, .n_renames = 1, .renames = &strip};
    weft_status status = weft_weights_load_with(store, k->r->path, &how, &report, error);
    if (!status && report.n_missing)
        status = error_set(error, WEFT_FILE, "%.300s: it lacks values of its model: %s", k->r->path,
                           report.missing ? SHOW(report.missing) : "");
    free(report.missing);
    free(report.unexpected);
    return status == WEFT_OK;
}

static void free_feeds(weft_feed *feeds, int n) {
    for (int i = 0; feeds && i < n; i++) free((void *)(uintptr_t)feeds[i].data);
    free(feeds);
}

/* The inputs of one run. */
static weft_feed *read_feeds(const rank *k, const weft_plan *plan, const weft_tensors *file, int64_t run,
                             int *n, weft_error *error) {
    weft_port port;
    weft_status status = WEFT_OK;
    *n = 0;
    while (weft_plan_input(plan, k->r->graph, *n, &port)) ++*n;
    weft_feed *feeds = calloc((size_t)*n + 1, sizeof *feeds);
    for (int i = 0; feeds && i < *n && !status; i++) {
        char name[400];
        weft_plan_input(plan, k->r->graph, i, &port);
        void *data = aligned_alloc(64, (port.bytes + 63) / 64 * 64);
        feeds[i] = (weft_feed){port.name, data, port.bytes};
        snprintf(name, sizeof name, "feed.%d.%lld.%s", k->number, (long long)run, port.name);
        status =
            data ? weft_tensors_read(file, name, data, port.bytes, error) : error_memory(error, k->r->path);
    }
    if (feeds && !status) return feeds;
    free_feeds(feeds, *n);
    return NULL;
}

/* One run of the step: the last one ends it. */
static weft_status run(const rank *k, weft_session *s, const weft_plan *plan, const weft_tensors *file,
                       int64_t m, weft_error *error) {
    const replayed *r = k->r;
    bool is_last = m + 1 == r->runs;
    int n;
    if (is_last && r->options.manual) return weft_run_update(s, r->graph, error);
    weft_feed *feeds = read_feeds(k, plan, file, m, &n, error);
    if (!feeds) return error->status ? error->status : error_memory(error, r->path);
    weft_status status = is_last || r->options.manual
                             ? weft_run(s, r->graph, feeds, n, NULL, 0, error)
                             : weft_run_no_sync(s, r->graph, feeds, n, NULL, 0, error);
    free_feeds(feeds, n);
    return status;
}

/* An error that the others do not have ends the communicator, so that none waits. */
static void *run_rank(void *self) {
    rank *k = self;
    weft_status status = WEFT_OK;
    weft_error *error = &k->error;
    weft_plan *plan = compile(k, error);
    weft_store *store = plan ? weft_store_new(plan, k->r->seed, error) : NULL;
    bool is_loaded = store && load_values(k, store, error);
    weft_session *s = is_loaded ? weft_session_open_on(plan, store, k->comm, error) : NULL;
    weft_tensors *file = s ? weft_tensors_open(k->r->path, NULL, error) : NULL;
    for (int64_t m = 0; file && m < k->r->runs && !status; m++) status = run(k, s, plan, file, m, error);
    k->report = weft_bad_step_text(s);
    if (k->report) *error = (weft_error){0};
    if (k->comm && error->status) weft_comm_fail(k->comm, error->text);
    weft_tensors_close(file);
    weft_session_close(s);
    weft_store_free(store);
    weft_plan_free(plan);
    return NULL;
}

/* ---- all ranks ---- */

/* The error of the rank that has one of its own. */
static void pick_error(const rank *ranks, int world, weft_error *error) {
    for (int i = 0; i < world; i++)
        if (ranks[i].error.status && (!error->status || error->status == WEFT_PEER)) *error = ranks[i].error;
}

static bool open_comms(int world, weft_comm **comms, weft_error *error) {
    return world == 1 || weft_comm_threads(world, NULL, comms, error) == WEFT_OK;
}

char *replayed_run(const replayed *r, weft_error *error) {
    int world = r->options.world, started = 0;
    rank ranks[REPLAYED_RANKS] = {{0}};
    weft_comm *comms[REPLAYED_RANKS] = {NULL};
    *error = (weft_error){0};
    if (r->options.isa > WEFT_ISA_REFERENCE && r->options.isa < isa_best() &&
        weft_limit_isa(r->options.isa, error))
        return NULL;
    if (!open_comms(world, comms, error)) return NULL;
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
