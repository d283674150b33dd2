/* tokens.c - windows of one long row of numbers: tokens (.npy of one axis, or raw unsigned numbers as
 * nanoGPT writes them) and text (bytes). Sample i begins at element i * stride; a window is read where it
 * lies. */
#include "runtime/data/form.h"

typedef struct windows {
    kit_arena memory;
    row_file rows; /* elements, one a row */
    int64_t window, stride;
    bool pairs;
} windows;

static weft_status read_windows(void *context, int64_t i, void *const *into, weft_error *error) {
    const windows *w = context;
    size_t first = (size_t)(i * w->stride), count = (size_t)w->window;
    weft_status status = row_file_read(&w->rows, i, first, count, into[0], error);
    return status || !w->pairs ? status : row_file_read(&w->rows, i, first + 1, count, into[1], error);
}

static void close_windows(void *context) {
    windows *w = context;
    row_file_close(&w->rows);
    kit_free(w);
}

/* ---- opening ---- */

/* A file without a header: all of it is elements of `width` bytes, unsigned. */
static weft_status open_raw(row_file *f, const form_request *r, size_t width, weft_error *error) {
    weft_dtype type = width == 1 ? WEFT_U8 : WEFT_I64;
    if (stream_open(&f->s, r->path, &r->env, error)) return error->status;
    f->is_open = true;
    f->h = (array_header){.type = {type, 1, {(int64_t)(f->s.file_bytes / width)}}, .width = width};
    f->row_bytes = width;
    if (f->s.is_packed)
        return kit_fail(error, WEFT_FILE,
                        "%.600s: it is packed by gzip: windows are read from unpacked files", r->path);
    if (f->s.file_bytes % width)
        return kit_fail(error, WEFT_FILE, "%.600s: %ju bytes are not a whole number of tokens of %zu bytes",
                        r->path, f->s.file_bytes, width);
    return WEFT_OK;
}

/* The elements' types that are tokens. */
static weft_status open_npy(row_file *f, const form_request *r, weft_error *error) {
    if (row_file_open(f, r->path, true, &r->env, error)) return error->status;
    weft_dtype d = f->h.type.dtype;
    bool are_tokens = d == WEFT_I64 || d == WEFT_I32 || d == WEFT_U8;
    if (f->h.type.ndim == 1 && are_tokens) return WEFT_OK;
    return kit_fail(error, WEFT_TYPE, "%.600s: %s: tokens are one row of integers", r->path,
                    TENSOR(&f->h.type));
}

static weft_status window_dtype(row_file *f, const form_request *r, weft_error *error) {
    const char *name = r->options.dtype ? r->options.dtype : "i64";
    weft_status status = row_file_as(f, name, error);
    if (status || f->gives == WEFT_I64 || f->gives == WEFT_I32 || f->gives == WEFT_U8) return status;
    return kit_fail(error, WEFT_TYPE, "%.600s: dtype=%s: i64, i32 or u8", r->path, name);
}

/* Says what a sample is. A pair reads one element more than the window has. */
static weft_status describe(windows *w, const form_request *r, weft_source *into, weft_error *error) {
    const weft_source_options *o = &r->options;
    int64_t all = w->rows.h.type.shape[0], least;
    w->window = o->window;
    w->stride = o->stride ? o->stride : o->window;
    w->pairs = o->pairs;
    if (!o->window)
        return kit_fail(error, WEFT_ARGUMENT, "%.600s: window=N, the elements of a sample, is needed",
                        r->path);
    least = o->window + o->pairs;
    if (w->rows.gives == WEFT_U8 && w->rows.h.width != 1)
        return kit_fail(error, WEFT_TYPE,
                        "%.600s: elements of %zu bytes do not fit into u8: dtype=i32 or i64", r->path,
                        w->rows.h.width);
    if (all < least)
        return kit_fail(error, WEFT_SHAPE, "%.600s: %jd elements are less than the %jd of a sample", r->path,
                        all, least);
    into->count = (all - least) / w->stride + 1;
    into->n = o->pairs ? 2 : 1;
    for (int k = 0; k < into->n; k++)
        into->arrays[k] = (weft_source_array){.name = !o->pairs ? "ids"
                                                      : k       ? "target"
                                                                : "input",
                                              .dtype = w->rows.gives,
                                              .ndim = 1,
                                              .shape = {o->window}};
    into->read = read_windows;
    into->context = w;
    return WEFT_OK;
}

static weft_status open_file(windows *w, const form_request *r, bool is_text, weft_error *error) {
    unsigned char first[4];
    if (is_text) return open_raw(&w->rows, r, 1, error);
    if (source_first_bytes(r, first, error)) return error->status;
    if (memcmp(first, "\x93NUM", sizeof first) == 0) return open_npy(&w->rows, r, error);
    return open_raw(&w->rows, r, (size_t)r->options.token_bytes, error);
}

static weft_status open_windows(const form_request *r, bool is_text, weft_source *into, weft_error *error) {
    int bytes = r->options.token_bytes;
    if (bytes != 2 && bytes != 4)
        return kit_fail(error, WEFT_ARGUMENT, "%.600s: token_bytes=%d: 2 or 4", r->path, bytes);
    windows *w = kit_object(&r->env, sizeof *w);
    if (!w) return kit_no_memory(error, r->path);
    if (open_file(w, r, is_text, error) || window_dtype(&w->rows, r, error) || describe(w, r, into, error))
        return close_windows(w), error->status;
    return WEFT_OK;
}

static weft_status open_tokens(const form_request *r, weft_source *into, weft_error *error) {
    return open_windows(r, false, into, error);
}

static weft_status open_text(const form_request *r, weft_source *into, weft_error *error) {
    return open_windows(r, true, into, error);
}

const form form_tokens = {"tokens", open_tokens, close_windows, NULL};
const form form_text = {"text", open_text, close_windows, NULL};
