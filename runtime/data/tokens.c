/* tokens.c - windows of one long row of numbers: tokens (.npy of one axis, or raw unsigned numbers as
 * nanoGPT writes them) and text (bytes). Sample i begins at element i * stride; a window is read where it
 * lies. */
#include "runtime/data/form.h"

#include <string.h>

typedef struct windows {
    weft_env env;
    row_file rows; /* elements, one a row */
    int64_t window, stride;
    bool pairs;
    weft_dtype dtype; /* of a window */
    const char *path;
} windows;

/* ---- elements ---- */

static int64_t element_of(const char *at, size_t width, bool is_signed) {
    switch (width) {
    case 1:
        return *(const uint8_t *)at;
    case 2: {
        uint16_t v;
        memcpy(&v, at, sizeof v);
        return v;
    }
    case 4: {
        uint32_t v;
        memcpy(&v, at, sizeof v);
        return is_signed ? (int32_t)v : (int64_t)v;
    }
    default: {
        int64_t v;
        memcpy(&v, at, sizeof v);
        return v;
    }
    }
}

/* Writes one element as the window's type; false if it does not fit. */
static bool put_element(int64_t v, weft_dtype dtype, char *into) {
    if (dtype == WEFT_I32) memcpy(into, &(int32_t){(int32_t)v}, sizeof(int32_t));
    if (dtype == WEFT_I64) memcpy(into, &v, sizeof v);
    return dtype != WEFT_I32 || (v >= INT32_MIN && v <= INT32_MAX);
}

/* Elements pass through a small buffer, unless they are what is wanted. */
static weft_status read_window(const windows *w, int64_t first, char *into, weft_error *error) {
    char some[4096];
    size_t width = w->rows.h.width, wide = weft_dtype_bytes(w->dtype);
    bool is_signed = w->rows.h.type.dtype == WEFT_I32, is_same = width == wide;
    if (is_same && (width != 4 || is_signed)) return row_file_read(&w->rows, first, w->window, into, error);
    int64_t most = (int64_t)(sizeof some / width);
    for (int64_t at = 0; at < w->window; at += most) {
        int64_t n = w->window - at < most ? w->window - at : most;
        weft_status status = row_file_read(&w->rows, first + at, n, some, error);
        if (status) return status;
        for (int64_t i = 0; i < n; i++, into += wide) {
            int64_t v = element_of(some + (size_t)i * width, width, is_signed);
            if (!put_element(v, w->dtype, into))
                return kit_fail(error, WEFT_DATA, "%.600s: element %lld is %lld, which is no i32", w->path,
                                (long long)(first + at + i), (long long)v);
        }
    }
    return WEFT_OK;
}

static weft_status read_windows(void *context, int64_t i, void *const *into, weft_error *error) {
    const windows *w = context;
    weft_status status = read_window(w, i * w->stride, into[0], error);
    return status || !w->pairs ? status : read_window(w, i * w->stride + 1, into[1], error);
}

static void close_windows(void *context) {
    windows *w = context;
    weft_env env = w->env;
    row_file_close(&w->rows);
    weft_memory_free(&env, w, sizeof *w);
}

/* ---- opening ---- */

/* A file without a header: all of it is elements of `width` bytes. */
static weft_status open_raw(row_file *f, const form_request *r, size_t width, weft_error *error) {
    weft_status status = stream_open(&f->s, r->path, &r->env, error);
    if (status) return status;
    f->is_open = true;
    f->h = (array_header){.type = {WEFT_I64, 1, {(int64_t)(f->s.file_bytes / width)}}, .width = width};
    f->row_bytes = width;
    if (f->s.is_packed)
        return kit_fail(error, WEFT_FILE,
                        "%.600s: it is packed by gzip: windows are read from unpacked files", r->path);
    if (f->s.file_bytes % width)
        return kit_fail(error, WEFT_FILE, "%.600s: %llu bytes are no whole number of tokens of %zu bytes",
                        r->path, (unsigned long long)f->s.file_bytes, width);
    return WEFT_OK;
}

/* The elements' types that are tokens. */
static weft_status open_npy(row_file *f, const form_request *r, weft_error *error) {
    weft_status status = row_file_open(f, r->path, true, &r->env, error);
    if (status) return status;
    weft_dtype d = f->h.type.dtype;
    bool are_tokens = d == WEFT_I64 || d == WEFT_I32 || d == WEFT_U8;
    if (f->h.type.ndim == 1 && are_tokens) return WEFT_OK;
    return kit_fail(error, WEFT_TYPE, "%.600s: %s: tokens are one row of integers", r->path,
                    TENSOR(&f->h.type));
}

static weft_status is_npy(const form_request *r, bool *is, weft_error *error) {
    stream s;
    char first[4] = {0};
    weft_status status = stream_open(&s, r->path, &r->env, error);
    if (status) return status;
    if (s.file_bytes >= sizeof first) status = stream_read_at(&s, 0, first, sizeof first, error);
    stream_close(&s);
    *is = memcmp(first, "\x93NUM", sizeof first) == 0;
    return status;
}

static weft_status window_dtype(windows *w, const form_request *r, weft_error *error) {
    static const weft_dtype types[] = {WEFT_I64, WEFT_I32, WEFT_U8};
    const char *name = r->options.dtype ? r->options.dtype : "i64";
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(weft_dtype_name(types[i]), name) == 0) {
            w->dtype = types[i];
            return WEFT_OK;
        }
    return kit_fail(error, WEFT_TYPE, "%.600s: dtype=%s: i64, i32 or u8", r->path,
                    kit_show(name, strlen(name)).text);
}

/* Says what a sample is. A pair reads one element more than the window has. */
static weft_status describe(windows *w, const form_request *r, const char *name, weft_source *into,
                            weft_error *error) {
    const weft_source_options *o = &r->options;
    int64_t all = w->rows.h.type.shape[0], least;
    w->window = o->window;
    w->stride = o->stride ? o->stride : o->window;
    w->pairs = o->pairs;
    if (!o->window)
        return kit_fail(error, WEFT_ARGUMENT, "%.600s: window=N, the elements of a sample, is needed",
                        r->path);
    least = o->window + o->pairs;
    if (w->dtype == WEFT_U8 && w->rows.h.width != 1)
        return kit_fail(error, WEFT_TYPE,
                        "%.600s: elements of %zu bytes do not fit into u8: dtype=i32 or i64", r->path,
                        w->rows.h.width);
    if (all < least)
        return kit_fail(error, WEFT_SHAPE, "%.600s: %lld elements are less than the %lld of a sample",
                        r->path, (long long)all, (long long)least);
    into->count = (all - least) / w->stride + 1;
    into->n = o->pairs ? 2 : 1;
    for (int k = 0; k < into->n; k++)
        into->arrays[k] = (weft_source_array){.name = !o->pairs ? name
                                                      : k       ? "target"
                                                                : "input",
                                              .dtype = w->dtype,
                                              .ndim = 1,
                                              .shape = {o->window}};
    into->read = read_windows;
    into->context = w;
    return WEFT_OK;
}

static weft_status open_windows(const form_request *r, bool is_text, weft_source *into, weft_error *error) {
    int bytes = r->options.token_bytes ? r->options.token_bytes : 2;
    bool npy = false;
    if (bytes != 2 && bytes != 4)
        return kit_fail(error, WEFT_ARGUMENT, "%.600s: token_bytes=%d: 2 or 4", r->path, bytes);
    windows *w = kit_new(&r->env, sizeof *w);
    if (!w) return kit_no_memory(error, r->path);
    w->env = r->env;
    w->path = r->path;
    weft_status status = window_dtype(w, r, error);
    if (!status && !is_text) status = is_npy(r, &npy, error);
    if (!status)
        status =
            npy ? open_npy(&w->rows, r, error) : open_raw(&w->rows, r, is_text ? 1 : (size_t)bytes, error);
    if (!status) status = describe(w, r, "ids", into, error);
    if (status) close_windows(w);
    return status;
}

static weft_status open_tokens(const form_request *r, weft_source *into, weft_error *error) {
    return open_windows(r, false, into, error);
}

static weft_status open_text(const form_request *r, weft_source *into, weft_error *error) {
    return open_windows(r, true, into, error);
}

const form form_tokens = {"tokens", open_tokens, close_windows, NULL};
const form form_text = {"text", open_text, close_windows, NULL};
