/* samples.c - what a graph makes, as a picture, while it trains. */
#include "runtime/train/event_file.h"
#include "runtime/train/grid.h"
#include "runtime/train/hooks.h"

#include <errno.h>
#include <string.h>

typedef struct samples {
    weft_samples how; /* but for the texts */
    char *graph, *output, *path;
    prediction made_by;
    log_file events;
    int64_t lost; /* the step at which a picture could not be written; -1: none */
    weft_error why;
} samples;

/* "out/photo.png" at step 500: "out/photo-500.png". */
static bool path_of(const char *pattern, int64_t step, char *into, size_t room) {
    const char *slash = strrchr(pattern, '/'), *dot = strrchr(pattern, '.');
    int stem = (int)(dot && (!slash || dot > slash) ? (size_t)(dot - pattern) : strlen(pattern));
    int n = snprintf(into, room, "%.*s-%lld%s", stem, pattern, (long long)step, pattern + stem);
    return n > 0 && (size_t)n < room;
}

/* A picture that cannot be written is told by the check, as a log. */
static weft_status write_file(const samples *s, const weft_env *env, int64_t step, const grid_file *file,
                              weft_error *error) {
    char path[4096];
    if (!path_of(s->path, step, path, sizeof path))
        return weft_error_io(error, s->path, "it cannot be written", ENAMETOOLONG);
    return file_write_whole(path, file->bytes, file->n, env, error);
}

static void write_all(samples *s, const weft_env *env, int64_t step, const grid_file *file) {
    weft_error error = {0};
    const char *output = s->output ? s->output : "samples";
    weft_status status = s->path ? write_file(s, env, step, file, &error) : WEFT_OK;
    if (status && s->lost < 0) s->lost = step, s->why = error;
    if (s->how.tensorboard)
        event_file_image(&s->events, step, output, file->bytes, file->n, file->width, file->height,
                         file->channels);
}

static tensor type_of(const weft_array *a) {
    tensor t = {.dtype = weft_array_dtype(a)};
    t.ndim = weft_array_shape(a, t.shape);
    return t;
}

/* All ranks run the graph, so that its random numbers stay in step; rank 0 writes. */
static weft_status draw_samples(samples *s, weft_trainer *t, weft_error *error) {
    grid_file file = {0};
    const weft_progress *p = weft_trainer_progress(t);
    weft_array *rows = prediction_run(&s->made_by, t, error);
    if (!rows) return error->status;
    tensor type = type_of(rows);
    weft_status status = WEFT_OK;
    if (p->rank == 0)
        status = grid_encode(&file, &type, weft_array_data(rows), s->how.rows, s->how.columns, t->env, error);
    if (!status && p->rank == 0) write_all(s, t->env, log_step(t), &file);
    grid_free(&file);
    weft_array_free(rows);
    return status;
}

weft_status samples_at(void *self, weft_trainer *t, weft_point point, weft_error *error) {
    samples *s = self;
    const weft_progress *p = weft_trainer_progress(t);
    if (point == WEFT_BEFORE_RUN && s->how.tensorboard && p->rank == 0)
        return event_file_open(&s->events, t->env, error);
    bool is_due = point == WEFT_AFTER_ITERATION && log_step(t) % s->how.every == 0;
    return is_due ? draw_samples(s, t, error) : WEFT_OK;
}

/* What the pictures are made of, and where they go. */
weft_status samples_open(void *self, const weft_trainer *t, weft_error *error) {
    samples *s = self;
    tensor type;
    weft_error own = {0};
    weft_status status = prediction_open(&s->made_by, t, s->graph, s->output, &s->how.data, &own);
    if (!status) status = prediction_type(&s->made_by, &type, &own);
    if (status) return kit_fail(error, status, "hook samples: %s", own.text);
    const char *why = grid_refuses(&type, s->how.rows, s->how.columns);
    if (why)
        return kit_fail(error, WEFT_SHAPE, "hook samples: output %s is %s: %s", s->output ? s->output : "1",
                        TENSOR(&type), why);
    status = hook_check_folder(t, "samples", s->path, error);
    return status ? status : hook_check_folder(t, "samples", s->events.folder, error);
}

static weft_status samples_check(void *self, weft_error *error) {
    const samples *s = self;
    if (s->lost >= 0) return kit_fail(error, s->why.status, "%s", s->why.text);
    return log_file_check(&s->events, error);
}

static void samples_free(void *self) {
    samples *s = self;
    prediction_close(&s->made_by);
    log_file_free(&s->events);
    hook_free_copy(s->graph);
    hook_free_copy(s->output);
    hook_free_copy(s->path);
    weft_memory_free(NULL, s, sizeof *s);
}

weft_hook weft_hook_samples(const weft_samples *o) {
    if (!o || (!o->path && !o->tensorboard))
        return hook_refused("samples: a path or a folder for TensorBoard is needed");
    if (o->every < 0 || o->rows < 0 || o->columns < 0)
        return hook_refused("samples: every, rows and columns must not be negative");
    samples *s = kit_new(NULL, sizeof *s);
    if (!s) return hook_refused(NULL);
    s->how = *o;
    s->lost = s->events.lost = -1;
    if (!s->how.every) s->how.every = 500;
    if (!s->how.rows) s->how.rows = 8;
    if (!s->how.columns) s->how.columns = 8;
    if (hook_copy(&s->graph, o->graph) && hook_copy(&s->output, o->output) && hook_copy(&s->path, o->path) &&
        (!o->tensorboard || event_file_new(&s->events, o->tensorboard)))
        return (weft_hook){"samples", samples_at, samples_free, samples_check, s};
    samples_free(s);
    return hook_refused(NULL);
}
