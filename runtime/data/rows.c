/* rows.c - .npy and IDX files as a source. Rows are read at their place when they are asked for, so a file
 * may be larger than memory. It is not mapped: a file that is cut while it is mapped ends the process that
 * reads on, here it is an error; and the file access of the env may be the host's own. */
#include "runtime/data/form.h"

#include <string.h>

weft_status row_file_begin(row_file *f, bool tokens, weft_error *error) {
    weft_status status = array_header_read(&f->s, tokens, &f->h, error);
    f->is_open = true;
    if (!status && f->h.type.ndim < 1)
        status = kit_fail(error, WEFT_SHAPE, "%.600s: one number has no samples: the first axis counts them",
                          f->s.path);
    if (!status) {
        f->begin = f->s.at;
        f->row_bytes = (size_t)(tensor_elements(&f->h.type) / f->h.type.shape[0]) * f->h.width;
        bool is_whole = f->s.is_packed || (f->h.is_fortran && f->h.type.ndim > 1);
        if (is_whole && !(f->whole = array_read(&f->s, &f->h, error)))
            status = error ? error->status : WEFT_FILE;
    }
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

weft_status row_file_read(const row_file *f, int64_t first, int64_t rows, void *into, weft_error *error) {
    size_t bytes = (size_t)rows * f->row_bytes, at = (size_t)first * f->row_bytes;
    if (f->whole) {
        memcpy(into, (const char *)weft_array_data(f->whole) + at, bytes);
        return WEFT_OK;
    }
    weft_status status = stream_read_at(&f->s, f->begin + at, into, bytes, error);
    if (!status) array_elements(&f->h, into, bytes / f->h.width);
    return status;
}

weft_source_array row_file_array(const row_file *f, const char *name) {
    weft_source_array a = {.name = name, .dtype = f->h.type.dtype, .ndim = f->h.type.ndim - 1};
    memcpy(a.shape, f->h.type.shape + 1, (size_t)a.ndim * sizeof *a.shape);
    return a;
}

/* ---- one file ---- */

typedef struct array_file {
    weft_env env;
    row_file rows;
} array_file;

static weft_status read_file_row(void *context, int64_t i, void *const *into, weft_error *error) {
    return row_file_read(&((array_file *)context)->rows, i, 1, into[0], error);
}

static void close_array(void *context) {
    array_file *a = context;
    weft_env env = a->env;
    row_file_close(&a->rows);
    weft_memory_free(&env, a, sizeof *a);
}

static weft_status open_array(const form_request *r, weft_source *into, weft_error *error) {
    array_file *a = kit_new(&r->env, sizeof *a);
    if (!a) return kit_no_memory(error, r->path);
    a->env = r->env;
    weft_status status = row_file_open(&a->rows, r->path, false, &r->env, error);
    if (status) {
        weft_memory_free(&r->env, a, sizeof *a);
        return status;
    }
    into->count = a->rows.h.type.shape[0];
    into->n = 1;
    into->arrays[0] = row_file_array(&a->rows, NULL);
    into->read = read_file_row;
    into->context = a;
    return WEFT_OK;
}

const form form_array = {"array", open_array, close_array, NULL};
