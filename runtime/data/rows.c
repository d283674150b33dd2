/* rows.c - .npy and IDX files as a source. Rows are read at their place when they are asked for, so a file
 * may be larger than memory. It is not mapped: a file that is cut while it is mapped ends the process that
 * reads on, here it is an error; and the file access of the env may be the host's own. */
#include "runtime/data/convert.h"
#include "runtime/data/form.h"

static weft_status begin(row_file *f, bool tokens, weft_error *error) {
    if (array_header_read(&f->s, tokens, &f->h, error)) return error->status;
    if (f->h.type.ndim < 1)
        return kit_fail(error, WEFT_SHAPE, "%.600s: one number has no samples: the first axis counts them",
                        f->s.path);
    f->begin = f->s.at;
    f->gives = f->h.type.dtype;
    f->row_bytes = (size_t)(tensor_elements(&f->h.type) / f->h.type.shape[0]) * f->h.width;
    bool is_whole = f->s.is_packed || (f->h.is_fortran && f->h.type.ndim > 1);
    return is_whole && !(f->whole = array_read(&f->s, &f->h, error)) ? error->status : WEFT_OK;
}

weft_status row_file_begin(row_file *f, bool tokens, weft_error *error) {
    f->is_open = true;
    weft_status status = begin(f, tokens, error);
    if (status || f->whole) {
        stream_close(&f->s);
        f->is_open = false;
    }
    return status;
}

weft_status row_file_open(row_file *f, const char *path, bool tokens, const weft_env *env,
                          weft_error *error) {
    *f = (row_file){.is_open = false};
    weft_status status = stream_open(&f->s, path, env, error);
    return status ? status : row_file_begin(f, tokens, error);
}

void row_file_close(row_file *f) {
    if (f->is_open) stream_close(&f->s);
    weft_array_free(f->whole);
    *f = (row_file){.is_open = false};
}

/* Unsigned numbers of 2 or 4 bytes as the i64 that they stand for, in place. */
static void widen(const array_header *h, char *data, size_t count) {
    for (size_t i = count; h->width < weft_dtype_bytes(h->type.dtype) && i-- > 0;) {
        const char *at = data + i * h->width;
        int64_t whole =
            h->width == 2 ? *(const uint16_t *)(const void *)at : *(const uint32_t *)(const void *)at;
        memcpy(data + i * sizeof whole, &whole, sizeof whole);
    }
}

/* Elements `first` to first + count - 1 of the whole file. */
static weft_status read_elements(const row_file *f, size_t first, size_t count, char *into,
                                 weft_error *error) {
    size_t bytes = count * f->h.width, at = first * f->h.width;
    if (f->whole) {
        memcpy(into, (const char *)weft_array_data(f->whole) + at, bytes);
    } else {
        if (stream_read_at(&f->s, f->begin + at, into, bytes, error)) return error->status;
        array_elements(&f->h, into, count);
    }
    widen(&f->h, into, count);
    return WEFT_OK;
}

weft_status row_file_as(row_file *f, const char *dtype, weft_error *error) {
    if (!dtype) return WEFT_OK;
    for (int t = 0; t < WEFT_DTYPES; t++)
        if (convert_gives((weft_dtype)t) && strcmp(weft_dtype_name((weft_dtype)t), dtype) == 0)
            return f->gives = (weft_dtype)t, WEFT_OK;
    return kit_fail(error, WEFT_TYPE, "%.600s: dtype=%s: f32, f64, i64, i32 or u8", f->s.path,
                    kit_show(dtype, strlen(dtype)).text);
}

/* Elements pass through a small buffer, unless they are what is wanted. */
weft_status row_file_read(const row_file *f, int64_t sample, size_t first, size_t count, void *into,
                          weft_error *error) {
    _Alignas(8) char some[4096];
    weft_dtype has = f->h.type.dtype;
    size_t width = weft_dtype_bytes(has), most = sizeof some / width;
    if (f->gives == has) return read_elements(f, first, count, into, error);
    for (size_t at = 0; at < count; at += most) {
        size_t n = count - at < most ? count - at : most;
        char *to = (char *)into + at * weft_dtype_bytes(f->gives);
        if (read_elements(f, first + at, n, some, error)) return error->status;
        size_t good = convert_numbers(has, some, f->gives, to, n, true);
        if (good < n) return convert_fail(error, f->s.path, sample, has, some + good * width, f->gives);
    }
    return WEFT_OK;
}

weft_status row_file_sample(const row_file *f, int64_t i, void *into, weft_error *error) {
    size_t count = f->row_bytes / f->h.width;
    return row_file_read(f, i, (size_t)i * count, count, into, error);
}

weft_source_array row_file_array(const row_file *f, const char *name) {
    weft_source_array a = {.name = name, .dtype = f->gives, .ndim = f->h.type.ndim - 1};
    memcpy(a.shape, f->h.type.shape + 1, (size_t)a.ndim * sizeof *a.shape);
    return a;
}

/* ---- one file ---- */

typedef struct array_file {
    kit_arena memory;
    row_file rows;
} array_file;

static weft_status read_file_row(void *context, int64_t i, void *const *into, weft_error *error) {
    return row_file_sample(&((array_file *)context)->rows, i, into[0], error);
}

static void close_array(void *context) {
    array_file *a = context;
    row_file_close(&a->rows);
    kit_free(a);
}

static weft_status open_array(const form_request *r, weft_source *into, weft_error *error) {
    array_file *a = kit_object(&r->env, sizeof *a);
    if (!a) return kit_no_memory(error, r->path);
    if (row_file_open(&a->rows, r->path, false, &r->env, error) ||
        row_file_as(&a->rows, r->options.dtype, error))
        return close_array(a), error->status;
    into->count = a->rows.h.type.shape[0];
    into->n = 1;
    into->arrays[0] = row_file_array(&a->rows, NULL);
    into->read = read_file_row;
    into->context = a;
    return WEFT_OK;
}

const form form_array = {"array", open_array, close_array, NULL};
