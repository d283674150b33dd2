/* read.c - opens checkpoints, and proves that they are whole. */
#include "runtime/checkpoint/checkpoint.h"

#include <math.h>

/* ---- opening ---- */

weft_checkpoint *weft_checkpoint_open(const char *path, const weft_env *env, weft_error *error) {
    char file[CHECKPOINT_ROOM];
    weft_error own;
    error = error_here(error, &own);
    if (path_check(path, BEHIND_STEP, error)) return NULL;
    checkpoint_file_path(file, path, MANIFEST_NAME);
    weft_checkpoint *c = mem_new(env, sizeof *c);
    if (!c) return error_memory(error, path), NULL;
    c->env = env ? *env : (weft_env){0};
    snprintf(c->path, sizeof c->path, "%s", path);
    if (!manifest_read(&c->m, file, &c->env, error)) return c;
    weft_checkpoint_close(c);
    return NULL;
}

void weft_checkpoint_close(weft_checkpoint *c) {
    if (!c) return;
    weft_env env = c->env;
    arena_free(&c->m.arena);
    mem_free(&env, c, sizeof *c);
}

uint64_t weft_checkpoint_seed(const weft_checkpoint *c) {
    return c ? c->m.seed : 0;
}

const char *weft_checkpoint_path(const weft_checkpoint *c) {
    return c ? c->path : NULL;
}

int64_t weft_checkpoint_step(const weft_checkpoint *c) {
    return c ? c->m.step : -1;
}

double weft_checkpoint_note_value(const weft_checkpoint *c, const char *name) {
    for (int i = 0; c && name && i < c->m.n_notes; i++)
        if (strcmp(c->m.notes[i].name, name) == 0) return c->m.notes[i].value;
    return NAN;
}

bool weft_checkpoint_note_at(const weft_checkpoint *c, int index, weft_checkpoint_note *note) {
    if (!c || !note || index < 0 || index >= c->m.n_notes) return false;
    *note = c->m.notes[index];
    return true;
}

bool weft_checkpoint_setting_at(const weft_checkpoint *c, int index, const char **name, const char **value) {
    if (!c || index < 0 || index >= c->m.n_settings) return false;
    if (name) *name = c->m.settings[index].name;
    if (value) *value = c->m.settings[index].value;
    return true;
}

bool weft_checkpoint_file_at(const weft_checkpoint *c, int index, const char **name, uint64_t *bytes) {
    if (!c || index < 0 || index >= c->m.n_files) return false;
    if (name) *name = c->m.files[index].name;
    if (bytes) *bytes = c->m.files[index].bytes;
    return true;
}

/* ---- proving ---- */

static weft_status verify_file(const weft_checkpoint *c, const manifest_file *f, void *piece, size_t room,
                               weft_error *error) {
    void *file;
    char path[CHECKPOINT_ROOM];
    uint64_t bytes = 0, hash = 0;
    const weft_io *io = io_of(&c->env);
    checkpoint_file_path(path, c->path, f->name);
    int code = io->open_read(io->context, path, &file, &bytes);
    if (code) return io_fail(error, path, "cannot be opened", code);
    if (bytes == f->bytes) code = file_hash(io, file, bytes, piece, room, &hash);
    io->close(io->context, file);
    if (code) return io_fail(error, path, "cannot be read", code);
    if (bytes != f->bytes)
        return error_set(error, WEFT_FILE, "%.600s: %ju bytes, the manifest says %ju", path, bytes, f->bytes);
    return hash == f->hash
               ? WEFT_OK
               : error_set(error, WEFT_FILE,
                           "%.600s: its checksum is %016jx, the manifest says %016jx: it was damaged", path,
                           hash, f->hash);
}

/* Files first, first + step ... */
static weft_status verify_some(const weft_checkpoint *c, int first, int step, weft_error *error) {
    size_t room = SAFETENSORS_PIECE;
    void *piece = mem_raw(&c->env, room);
    weft_status status = piece ? WEFT_OK : error_memory(error, c->path);
    for (int i = first; !status && i < c->m.n_files; i += step)
        status = verify_file(c, &c->m.files[i], piece, room, error);
    mem_free(&c->env, piece, room);
    return status;
}

weft_status weft_checkpoint_verify(const weft_checkpoint *c, weft_error *error) {
    weft_error own;
    error = error_here(error, &own);
    return c ? verify_some(c, 0, 1, error)
             : error_set(error, WEFT_ARGUMENT, "weft_checkpoint_verify: a checkpoint is needed");
}

/* ---- the newest one ---- */

/* What rank 0 decides at each turn is the step to try next, or one of these. */
enum { NONE = -1, NO_MORE = -2, NO_FOLDER = -3 };

/* What all ranks look for: in which folder, of which model (plan NULL: of any). */
typedef struct search {
    const char *folder;
    const weft_plan *plan;
    weft_comm *comm;
    const weft_env *env;
    int n, which;         /* rank 0: of steps, and the one to try next */
    const int64_t *steps; /* ascending */
    bool met_other;       /* one of another model was passed over */
} search;

/* The manifest says whether the model differs, before any file is read. Then each rank proves its share of
 * the files. */
static weft_status check_and_prove(const weft_checkpoint *c, const weft_plan *plan, const weft_comm *comm,
                                   const char *advice, weft_error *error) {
    weft_status status = plan ? checkpoint_check_form(c, plan->form, advice, error) : WEFT_OK;
    return status ? status : verify_some(c, comm ? comm->rank : 0, comm ? comm->world : 1, error);
}

static weft_status try_step(const search *s, int64_t step, weft_checkpoint **c, weft_error *error) {
    char path[CHECKPOINT_ROOM];
    checkpoint_path(path, s->folder, step, "");
    if (!(*c = weft_checkpoint_open(path, s->env, error))) return error->status;
    if ((*c)->m.step != step)
        return error_set(error, WEFT_FILE, "%.600s: it is step %jd", path, (*c)->m.step);
    return check_and_prove(*c, s->plan, s->comm, "", error);
}

static weft_status none_left(const search *s, int64_t why, weft_error *error) {
    if (why == NONE)
        return error_set(error, WEFT_NAME, "%.600s: it has no checkpoint, a folder step-N", s->folder);
    if (why == NO_FOLDER) return error_set(error, WEFT_NAME, "%.600s: there is no such folder", s->folder);
    if (s->met_other)
        return error_set(error, WEFT_FILE,
                         "%.400s: it has no checkpoint of this model: each was skipped: " ANOTHER_MODEL,
                         s->folder);
    return error_set(error, WEFT_FILE, "%.600s: it has no checkpoint that is whole: each was skipped",
                     s->folder);
}

/* From the newest on. */
static weft_status next(search *s, weft_checkpoint **c, weft_error *error) {
    int64_t step = s->which >= 0 ? s->steps[s->which] : s->n ? NO_MORE : NONE;
    bool is_first = !s->comm || !s->comm->rank; /* of a world */
    if (!s->n && is_first && !folder_is_there(s->folder, s->env)) step = NO_FOLDER;
    s->which--;
    if (comm_share(s->comm, 0, "newest checkpoint", &step, sizeof step, error)) return error->status;
    if (step < 0) return none_left(s, step, error);
    weft_error why = {0};
    weft_status fits = comm_settle(s->comm, s->env, "newest checkpoint", try_step(s, step, c, &why), &why);
    if (!fits) return WEFT_OK;
    s->met_other = s->met_other || (*c && s->plan && (*c)->m.form != s->plan->form);
    weft_checkpoint_close(*c);
    *c = NULL;
    if (is_first) env_log(s->env, "this checkpoint is skipped: %s", why.text);
    return WEFT_OK;
}

weft_checkpoint *weft_checkpoint_newest(const char *folder, const weft_plan *plan, weft_comm *comm,
                                        const weft_env *env, weft_error *error) {
    weft_error own;
    weft_checkpoint *c = NULL;
    int64_t *steps = NULL;
    search s = {.folder = folder, .plan = plan, .comm = comm, .env = env};
    error = error_here(error, &own);
    bool is_first = !comm || comm->rank == 0;
    weft_status status = path_check(folder, BEHIND_FOLDER, error);
    if (!status && is_first) status = weft_checkpoint_steps(folder, env, &steps, &s.n, error);
    status = comm_settle(comm, env, "newest checkpoint", status, error);
    s.steps = steps;
    s.which = s.n - 1;
    while (!status && !c) status = next(&s, &c, error);
    weft_checkpoint_steps_free(steps);
    return status ? NULL : c;
}

/* The last name of a path, also with a slash after it: "step-00000100" of "runs/step-00000100/". */
static const char *last_name(const char *path, size_t *length) {
    size_t n = strlen(path);
    while (n && path[n - 1] == '/') n--;
    size_t end = n;
    while (n && path[n - 1] != '/') n--;
    *length = end - n;
    return path + n;
}

/* That is one checkpoint; else it is a folder of them. */
static bool names_a_step(const char *path) {
    size_t n;
    const char *name = last_name(path, &n);
    return n > 5 && strncmp(name, "step-", 5) == 0;
}

/* Of a path without a folder: which ones there are beside it, the newest first. The status stays. */
static void tell_absent(const char *path, const weft_env *env, weft_error *error) {
    enum { MOST = 3 };
    char folder[CHECKPOINT_ROOM] = ".", list[200] = "none";
    weft_error why = {0};
    int64_t *steps = NULL;
    int n = 0;
    size_t length, at = 0;
    size_t before = (size_t)(last_name(path, &length) - path);
    if (before) snprintf(folder, sizeof folder, "%.*s", (int)(before > 1 ? before - 1 : 1), path);
    weft_checkpoint_steps(folder, env, &steps, &n, &why);
    for (int i = n - 1; i >= 0 && i >= n - MOST; i--)
        at += (size_t)snprintf(list + at, sizeof list - at, "%sstep-%08jd", at ? ", " : "", steps[i]);
    weft_checkpoint_steps_free(steps);
    error_set(error, error->status, "%.400s: there is no such checkpoint; %.400s has %s%s", path, folder,
              list, n > MOST ? ", ..." : "");
}

weft_checkpoint *weft_checkpoint_find(const char *path, const weft_plan *plan, weft_comm *comm,
                                      const weft_env *env, weft_error *error) {
    weft_error own;
    error = error_here(error, &own);
    if (!path || !names_a_step(path)) return weft_checkpoint_newest(path, plan, comm, env, error);
    weft_checkpoint *c = weft_checkpoint_open(path, env, error);
    if (!c && !folder_is_there(path, env)) tell_absent(path, env, error);
    weft_status status = c ? check_and_prove(c, plan, comm, ": " ANOTHER_MODEL, error) : error->status;
    if (!comm_settle(comm, env, "checkpoint", status, error)) return c;
    weft_checkpoint_close(c);
    return NULL;
}
