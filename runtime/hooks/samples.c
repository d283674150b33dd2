/* samples.c - what a graph makes, as a picture, while it trains: a new picture every so many iterations, or
 * one with a row for each of a few moments. */
#include "runtime/hooks/album.h"
#include "runtime/hooks/event_file.h"
#include "runtime/hooks/hook.h"

#include <errno.h>

typedef struct samples {
    kit_arena memory;
    weft_samples how;  /* its texts are copies */
    char counter[400]; /* path of the number that the graph's random numbers depend on */
    album album;
    int64_t drawn; /* the iteration of the last row of a strip */
    sweep made_by;
    log_file events;
    weft_error lost; /* why a picture could not be written, the first time */
} samples;

/* "out/photo.png" at step 500: "out/photo-500.png". */
static bool path_of(const char *pattern, int64_t step, char *into, size_t room) {
    const char *slash = strrchr(pattern, '/'), *dot = strrchr(pattern, '.');
    int stem = (int)(dot && (!slash || dot > slash) ? (size_t)(dot - pattern) : strlen(pattern));
    int n = snprintf(into, room, "%.*s-%jd%s", stem, pattern, step, pattern + stem);
    return n > 0 && (size_t)n < room;
}

/* A picture that cannot be written is reported by the check, as a log. */
static weft_status write_file(const samples *s, const weft_env *env, int64_t step, const grid_file *file,
                              weft_error *error) {
    char path[4096];
    if (s->how.strip) return file_write_whole(s->how.path, file->bytes, file->n, env, error);
    if (!path_of(s->how.path, step, path, sizeof path))
        return weft_error_io(error, s->how.path, "it cannot be written", ENAMETOOLONG);
    return file_write_whole(path, file->bytes, file->n, env, error);
}

static void write_all(samples *s, const weft_env *env, int64_t step, const grid_file *file) {
    weft_error error = {0};
    const char *output = s->how.output ? s->how.output : "samples";
    if (s->how.path && write_file(s, env, step, file, &error) && !s->lost.status) s->lost = error;
    if (s->how.tensorboard) event_file_image(&s->events, step, output, file);
}

/* ---- the images ---- */

/* Runs the graph on what validations read. The random numbers are the same each time, so pictures differ by
 * the weights alone. */
static weft_array *make_images(samples *s, weft_trainer *t, weft_error *error) {
    bool is_averaged = false;
    double counter;
    weft_error ignored;
    weft_array *images = NULL;
    bool draws = !weft_store_get(t->store, s->counter, &counter, sizeof counter, &ignored);
    weft_status status = trainer_averages_on(t, &s->made_by, &is_averaged, error);
    if (!status && !(images = prediction_run(&s->made_by, t, error))) status = error->status;
    if (is_averaged) status = trainer_averages_off(t, &s->made_by, status, error);
    if (!status && draws) status = weft_store_set(t->store, s->counter, &counter, sizeof counter, error);
    if (!status) return images;
    weft_array_free(images);
    return NULL;
}

/* All ranks run the graph, so that what is collective in it is so; rank 0 writes. */
static weft_status draw_samples(samples *s, weft_trainer *t, weft_error *error) {
    grid_file file;
    int64_t shape[WEFT_MAX_NDIM];
    kit_arena memory = kit_arena_of(t->env);
    weft_array *images = make_images(s, t, error);
    if (!images) return error->status;
    int ndim = weft_array_shape(images, shape);
    tensor type = tensor_of(weft_array_dtype(images), ndim, shape);
    weft_status status = WEFT_OK;
    if (t->progress.rank == 0) {
        if (!s->how.strip) album_keep(&s->album, 0, NULL);
        album_add(&s->album, &type, weft_array_data(images), s->how.strip ? 1 : s->how.rows);
        status = album_encode(&s->album, &memory, &file, error);
        if (!status) write_all(s, t->env, log_step(t), &file);
    }
    s->drawn = t->progress.iteration;
    kit_release(memory);
    weft_array_free(images);
    return status;
}

/* ---- when ---- */

/* The rows of a strip after so many iterations. The first is from before the training, the last from its
 * end; each of the others has half the iterations of the one below, as a training changes most when it
 * begins. */
static int rows_until(const samples *s, const weft_trainer *t, int64_t iteration) {
    int rows = 1;
    int64_t moment = t->progress.iterations;
    for (int i = 0; i < s->how.strip - 1 && moment; i++, moment /= 2) rows += moment <= iteration;
    return rows;
}

/* A training that is stopped has a row of where it ended. */
static bool is_strip_due(const samples *s, const weft_trainer *t, weft_hook_point point) {
    const weft_progress *p = &t->progress;
    if (point == WEFT_BEFORE_RUN) return !p->iteration;
    if (point == WEFT_AFTER_RUN) return t->stops && p->iteration > s->drawn;
    return point == WEFT_AFTER_ITERATION &&
           rows_until(s, t, p->iteration) > rows_until(s, t, p->iteration - 1);
}

/* A training that is resumed keeps the rows of what it has done. */
static void begin_album(samples *s, const weft_trainer *t) {
    int64_t iteration = t->progress.iteration;
    bool keeps = s->how.strip && iteration;
    s->drawn = iteration;
    if (t->progress.rank == 0) album_keep(&s->album, keeps ? rows_until(s, t, iteration) : 0, s->how.path);
}

static bool is_due(const samples *s, const weft_trainer *t, weft_hook_point point) {
    if (s->how.strip) return is_strip_due(s, t, point);
    return point == WEFT_AFTER_ITERATION && log_step(t) % s->how.every == 0;
}

static weft_status samples_at(void *self, weft_trainer *t, weft_hook_point point, weft_error *error) {
    samples *s = self;
    weft_status status = WEFT_OK;
    if (point == WEFT_BEFORE_RUN) {
        begin_album(s, t);
        batches_tell(&s->made_by.data, &s->how.data, t);
    }
    if (point == WEFT_BEFORE_RUN && s->how.tensorboard && t->progress.rank == 0)
        status = event_file_open(&s->events, t->env, error);
    return !status && is_due(s, t, point) ? draw_samples(s, t, error) : status;
}

/* ---- the hook ---- */

static weft_status open_album(samples *s, const weft_trainer *t, const tensor *type, weft_error *error) {
    weft_error own = {0};
    grid_shape shape = {s->how.strip ? s->how.strip : s->how.rows, s->how.columns, s->how.scale, 0};
    album_close(&s->album);
    weft_status status = album_open(&s->album, type, shape, &t->options.train, s->how.real, t->env, &own);
    if (!status) return WEFT_OK;
    return kit_fail(error, status, "hook samples: output %s: %s", s->how.output ? s->how.output : "1",
                    own.text);
}

/* What the pictures are made of, and where they go. */
static weft_status samples_open(void *self, weft_trainer *t, weft_error *error) {
    samples *s = self;
    tensor type;
    weft_error own = {0};
    if (prediction_open(&s->made_by, t, s->how.graph, s->how.output, &s->how.data, &own) ||
        prediction_type(&s->made_by, &type, &own))
        return kit_fail(error, own.status, "hook samples: %s", own.text);
    if (s->how.strip && !t->progress.iterations)
        return kit_fail(error, WEFT_ARGUMENT,
                        "hook samples: a strip needs to know when the training ends: set iterations");
    snprintf(s->counter, sizeof s->counter, "optimizer.graph/%s/step",
             s->how.graph ? s->how.graph : "predict");
    return open_album(s, t, &type, error) || hook_check_folder(t, "samples", s->how.path, error) ||
                   hook_check_folder(t, "samples", s->events.folder, error)
               ? error->status
               : WEFT_OK;
}

static weft_status samples_check(void *self, weft_error *error) {
    const samples *s = self;
    return kit_pass(error, &s->lost) ? error->status : log_file_check(&s->events, error);
}

static void samples_free(void *self) {
    samples *s = self;
    sweep_close(&s->made_by);
    album_close(&s->album);
    log_file_close(&s->events);
    kit_free(s);
}

static const weft_field fields[] = {
    WEFT_FIELD(weft_samples, graph, TEXT, 0, 0, "predict", "the graph whose images are drawn"),
    WEFT_FIELD(weft_samples, output, TEXT, 0, 0, "the graph's first", "its output"),
    WEFT_FIELD(weft_samples, every, COUNT, 1, WEFT_COUNT_MOST, "500", "iterations between pictures"),
    WEFT_FIELD(weft_samples, rows, INT, 1, 20000, "8", "rows of images in a picture"),
    WEFT_FIELD(weft_samples, columns, INT, 1, 20000, "8", "columns of images"),
    WEFT_FIELD(weft_samples, scale, INT, 1, 64, "1", "pixels, each way, for one of an image"),
    WEFT_FIELD(weft_samples, strip, INT, 2, 20000, NULL, "one picture of the training, with so many rows"),
    WEFT_FIELD(weft_samples, real, TEXT, 0, 0, NULL, "the input whose samples stand below a strip"),
    WEFT_FIELD_END(weft_samples),
};

const weft_field *weft_samples_fields(void) {
    return fields;
}

/* NULL: nothing is wrong. */
static const char *refused(const weft_samples *o) {
    if (!o || (!o->path && !o->tensorboard)) return "samples: a path or a folder for TensorBoard is needed";
    if (o->strip && (o->every || o->rows))
        return "samples: a strip has its own rows and iterations: leave every and rows out";
    if (weft_fields_check(fields, o, "samples", NULL))
        return "samples: every is at least 1, rows and columns are 1 to 20000, scale is 1 to 64, "
               "a strip has 2 to 20000 rows";
    return NULL;
}

weft_hook weft_hook_samples(const weft_samples *o) {
    const char *why = refused(o);
    if (why) return hook_refused(why);
    samples *s = kit_object(NULL, sizeof *s);
    if (!s) return hook_refused(NULL);
    s->how = *o;
    kit_defaults(fields, &s->how);
    s->how.graph = kit_copy(&s->memory, s->how.graph);
    s->how.output = kit_copy(&s->memory, s->how.output);
    s->how.path = kit_copy(&s->memory, o->path);
    s->how.real = kit_copy(&s->memory, s->how.real);
    log_file_new(&s->events, &s->memory, NULL, o->tensorboard);
    return hook_made((weft_hook){.name = "samples",
                                 .open = samples_open,
                                 .at = samples_at,
                                 .free = samples_free,
                                 .check = samples_check,
                                 .self = s});
}
