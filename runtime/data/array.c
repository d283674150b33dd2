/* array.c - tensors from .npy (versions 1 to 3) and IDX files, plain or gzip, read whole into row-major
 * memory.
 *
 *     npy  https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html; exactly the keys descr,
 *          fortran_order and shape, a header of at most 10,000 bytes, no objects, both byte orders
 *     IDX  http://yann.lecun.com/exdb/mnist: 00 00 type ndim, big-endian u32 axes, big-endian data
 *
 * Memory for the data is allocated only after the length of the file has shown that it can hold what the
 * header says. */
#include "runtime/data/array.h"

#include <jansson.h>

enum { NPY_MAX_HEADER = 10000 };

struct weft_array {
    kit_arena memory;
    tensor type;
    size_t bytes;
    char *data;
};

/* ---- .npy: a Python dictionary of three known keys ---- */

/* The dictionary as JSON, in place: texts in double quotes, a tuple as a list, True and False small, and no
 * comma before a closing bracket. */
static void npy_as_json(char *header, size_t bytes) {
    bool is_text = false;
    for (char *at = header, *comma = NULL, *end = header + bytes; at < end; at++) {
        const char *python = "'()TF", *found = *at ? strchr(python, *at) : NULL;
        if (*at == '\'' || *at == '"') is_text = !is_text;
        if (found && (!is_text || *at == '\'')) *at = "\"[]tf"[found - python];
        if (comma && (*at == ']' || *at == '}')) *comma = ' ';
        if (*at != ' ') comma = *at == ',' ? at : NULL;
    }
}

/* A byte order and a type, such as '<f4'; one-byte types may also have '|'. */
static void npy_descr(const char *descr, bool tokens, array_header *h, kit_line *why) {
    static const struct {
        const char *name;
        weft_dtype dtype;
        bool for_tokens;
    } types[] = {{"f4", WEFT_F32},       {"f8", WEFT_F64}, {"f2", WEFT_F16},  {"i8", WEFT_I64},
                 {"i4", WEFT_I32},       {"u1", WEFT_U8},  {"b1", WEFT_BOOL}, {"u2", WEFT_I64, true},
                 {"u4", WEFT_I64, true}, {"i1", WEFT_I8},  {"u2", WEFT_U16},  {"u4", WEFT_U32}};
    h->is_big_endian = *descr == '>';
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (*descr && strcmp(descr + 1, types[i].name) == 0 && (tokens || !types[i].for_tokens) &&
            strchr(types[i].name[1] == '1' ? "|<>" : "<>", *descr)) {
            h->type.dtype = types[i].dtype;
            h->width = (size_t)(descr[2] - '0');
            return;
        }
    kit_add(why,
            "descr '%s': f4, f8, f2, i8, i4, i1, u4, u2, u1 and b1 are read, after '<' or '>': save the "
            "array with "
            ".astype(\"float32\") or .astype(\"int32\")",
            kit_show(descr, strlen(descr)).text);
}

static void npy_shape(const json_t *shape, tensor *t, kit_line *why) {
    size_t n = json_array_size(shape);
    if (n > WEFT_MAX_NDIM) kit_add(why, "shape: more than %d axes", WEFT_MAX_NDIM);
    for (size_t i = 0; !why->length && i < n; i++) {
        const json_t *axis = json_array_get(shape, i);
        if (!json_is_integer(axis) || json_integer_value(axis) < 0)
            kit_add(why, "shape: non-negative integers are expected");
        t->shape[t->ndim++] = json_integer_value(axis);
    }
}

/* The keys may come in any order; each exactly once. */
static void npy_keys(const json_t *root, bool tokens, array_header *h, kit_line *why) {
    const json_t *fortran = json_object_get(root, "fortran_order"), *shape = json_object_get(root, "shape");
    const char *descr = json_string_value(json_object_get(root, "descr"));
    if (json_object_size(root) != 3 || !descr || !json_is_boolean(fortran) || !json_is_array(shape)) {
        kit_add(why, "descr, a text, fortran_order, True or False, and shape are needed, and no other key");
        return;
    }
    h->is_fortran = json_is_true(fortran);
    npy_descr(descr, tokens, h, why);
    npy_shape(shape, &h->type, why);
}

static weft_status npy_dictionary(const char *path, char *header, size_t bytes, bool tokens, array_header *h,
                                  weft_error *error) {
    json_error_t wrong = {.line = 0};
    kit_line why = {0};
    npy_as_json(header, bytes);
    json_t *root = json_loadb(header, bytes, JSON_REJECT_DUPLICATES, &wrong);
    if (root)
        npy_keys(root, tokens, h, &why);
    else
        kit_add(&why, "%s", wrong.text);
    json_decref(root);
    return why.length ? kit_fail(error, WEFT_FILE, "%.600s: .npy header: %.300s", path, why.text) : WEFT_OK;
}

/* Reads the header after its first 4 bytes, 93 'N' 'U' 'M'. Version 1 has a length of 2 bytes, later ones of
 * 4. */
static weft_status npy_header(stream *s, bool tokens, array_header *h, weft_error *error) {
    unsigned char b[8];
    char header[NPY_MAX_HEADER];
    weft_status status = stream_read(s, b, 4, error);
    if (status) return status;
    if (memcmp(b, "PY", 2) != 0)
        return kit_fail(error, WEFT_FILE, "%.600s: it does not begin with 93 NUMPY", s->path);
    if (b[2] < 1 || b[2] > 3 || b[3] != 0)
        return kit_fail(error, WEFT_FILE, "%.600s: .npy version %d.%d: 1.0, 2.0 and 3.0 are read", s->path,
                        b[2], b[3]);
    int width = b[2] > 1 ? 4 : 2;
    if (stream_read(s, b, (size_t)width, error)) return error->status;
    size_t bytes = (size_t)stream_number(b, width, false);
    if (bytes > NPY_MAX_HEADER)
        return kit_fail(error, WEFT_FILE, "%.600s: a .npy header of %zu bytes, at most %d", s->path, bytes,
                        NPY_MAX_HEADER);
    if ((status = stream_read(s, header, bytes, error))) return status;
    return npy_dictionary(s->path, header, bytes, tokens, h, error);
}

/* ---- IDX ---- */

/* `first` is the file's first 4 bytes. */
static weft_status idx_header(stream *s, const unsigned char first[4], array_header *h, weft_error *error) {
    static const weft_dtype types[256] = {
        [0x0c] = WEFT_I32, [0x0d] = WEFT_F32, [0x0e] = WEFT_F64, [0x08] = WEFT_U8};
    bool is_known = first[2] == 0x08 || (first[2] >= 0x0c && first[2] <= 0x0e);
    if (!is_known)
        return kit_fail(error, WEFT_FILE,
                        "%.600s: IDX element type 0x%02x: u8 (08), i32 (0c), f32 (0d) and f64 (0e) are read",
                        s->path, first[2]);
    if (first[3] < 1 || first[3] > WEFT_MAX_NDIM)
        return kit_fail(error, WEFT_FILE, "%.600s: %d axes, IDX files of 1 to %d are read", s->path, first[3],
                        WEFT_MAX_NDIM);
    h->is_big_endian = true;
    h->type.dtype = types[first[2]];
    h->width = weft_dtype_bytes(h->type.dtype);
    h->type.ndim = first[3];
    for (int i = 0; i < h->type.ndim; i++) {
        unsigned char b[4];
        if (stream_read(s, b, 4, error)) return error->status;
        h->type.shape[i] = (int64_t)stream_number(b, 4, true);
    }
    return WEFT_OK;
}

/* The first 4 bytes show the format. No memory is allocated for the data yet. */
weft_status array_header_read(stream *s, bool tokens, array_header *h, weft_error *error) {
    unsigned char first[4];
    *h = (array_header){0};
    weft_status status = stream_read(s, first, 4, error);
    if (status) return status;
    if (memcmp(first, "\x93NUM", 4) == 0)
        status = npy_header(s, tokens, h, error);
    else if (first[0] == 0 && first[1] == 0)
        status = idx_header(s, first, h, error);
    else
        status = kit_fail(error, WEFT_FILE, "%.600s: neither .npy (93 NUMPY) nor IDX (00 00 type ndim)%s",
                          s->path, memcmp(first, "\x1f\x8b", 2) == 0 ? ": gzip needs a name in .gz" : "");
    if (status) return status;
    if (!tensor_check(&h->type))
        return kit_fail(error, WEFT_FILE,
                        "%.600s: %s: every axis must be at least 1 and the whole below 2^46 bytes", s->path,
                        TENSOR(&h->type));
    return stream_expect(s, (uint64_t)tensor_elements(&h->type) * h->width, error);
}

/* ---- data ---- */

/* Reverses the bytes of each of `count` elements, in place. */
static void swap_bytes(char *data, size_t count, size_t width) {
    for (size_t i = 0; i < count; i++, data += width)
        for (size_t k = 0; k < width / 2; k++) {
            char c = data[k];
            data[k] = data[width - 1 - k];
            data[width - 1 - k] = c;
        }
}

/* Copies column-major `from` (the first axis is the fastest) into row-major `into`. `at` follows the
 * row-major index without a division. */
static void from_fortran(const tensor *t, const char *from, char *into) {
    size_t width = weft_dtype_bytes(t->dtype), count = (size_t)tensor_elements(t), at = 0;
    size_t stride[WEFT_MAX_NDIM], index[WEFT_MAX_NDIM] = {0}, step = 1;
    for (int i = 0; i < t->ndim; i++, step *= (size_t)t->shape[i - 1]) stride[i] = step;
    for (size_t n = 0; n < count; n++) {
        memcpy(into + n * width, from + at * width, width);
        for (int i = t->ndim - 1; i >= 0; i--) {
            at += stride[i];
            if (++index[i] < (size_t)t->shape[i]) break;
            at -= stride[i] * (size_t)t->shape[i];
            index[i] = 0;
        }
    }
}

void array_elements(const array_header *h, char *data, size_t count) {
    if (h->is_big_endian && h->width > 1) swap_bytes(data, count, h->width);
    for (size_t i = 0; h->type.dtype == WEFT_BOOL && i < count; i++) data[i] = data[i] != 0;
}

/* Makes column-major data row-major. */
static weft_status turn(weft_array *a, const char *path, weft_error *error) {
    char *rows = kit_take_raw(&a->memory, a->bytes, 1);
    if (!rows) return kit_no_memory(error, path);
    from_fortran(&a->type, a->data, rows);
    kit_drop(&a->memory, a->data);
    a->data = rows;
    return WEFT_OK;
}

/* On an error the caller frees what is there. */
static weft_status data_read(stream *s, const array_header *h, weft_array *a, weft_error *error) {
    size_t count = (size_t)tensor_elements(&h->type);
    a->type = h->type;
    a->bytes = count * h->width;
    if (!(a->data = kit_take_raw(&a->memory, a->bytes, 1))) return kit_no_memory(error, s->path);
    if (stream_read(s, a->data, a->bytes, error) || stream_finish(s, error)) return error->status;
    array_elements(h, a->data, count);
    return h->is_fortran && h->type.ndim > 1 ? turn(a, s->path, error) : WEFT_OK;
}

weft_array *array_read(stream *s, const array_header *h, weft_error *error) {
    weft_array *a = kit_object(&s->env, sizeof *a);
    if (!a) return kit_no_memory(error, s->path), NULL;
    if (data_read(s, h, a, error) == WEFT_OK) return a;
    kit_free(a);
    return NULL;
}

/* ---- the public part ---- */

/* NULL after an error. The caller frees it with weft_array_free. */
weft_array *weft_array_load(const char *path, const weft_env *env, weft_error *error) {
    stream s;
    array_header h;
    weft_array *a = NULL;
    weft_error own;
    error = kit_error(error, &own);
    if (stream_open(&s, path, env, error)) return NULL;
    if (array_header_read(&s, false, &h, error) == WEFT_OK) a = array_read(&s, &h, error);
    stream_close(&s);
    return a;
}

/* An array without memory for its elements. */
static weft_array *array_of(const char *call, weft_dtype dtype, int ndim, const int64_t *shape,
                            const weft_env *env, weft_error *error) {
    bool has_axes = ndim > 0 && shape;
    tensor t = tensor_of(dtype, has_axes ? ndim : 0, shape);
    if (!has_axes || ndim > WEFT_MAX_NDIM || !tensor_check(&t))
        return kit_fail(error, WEFT_ARGUMENT, "%s: a type and 1 to %d axes of at least 1 are needed", call,
                        WEFT_MAX_NDIM),
               NULL;
    weft_array *a = kit_object(env, sizeof *a);
    if (!a) return kit_no_memory(error, "array"), NULL;
    a->type = t;
    a->bytes = tensor_bytes(&t);
    return a;
}

weft_array *weft_array_new(weft_dtype dtype, int ndim, const int64_t *shape, const void *data,
                           const weft_env *env, weft_error *error) {
    weft_array *a = array_of("weft_array_new", dtype, ndim, shape, env, error);
    if (!a) return NULL;
    if ((a->data = kit_take(&a->memory, a->bytes, 1))) return data ? memcpy(a->data, data, a->bytes), a : a;
    kit_free(a);
    return kit_no_memory(error, "array"), NULL;
}

weft_array *weft_array_on(weft_dtype dtype, int ndim, const int64_t *shape, void *data, const weft_env *env,
                          weft_error *error) {
    if (!data) return kit_fail(error, WEFT_ARGUMENT, "weft_array_on: the elements are NULL"), NULL;
    weft_array *a = array_of("weft_array_on", dtype, ndim, shape, env, error);
    if (a) a->data = data;
    return a;
}

void *weft_array_mutable_data(weft_array *a) {
    return a ? a->data : NULL;
}

void weft_array_free(weft_array *a) {
    kit_free(a);
}

weft_dtype weft_array_dtype(const weft_array *a) {
    return a ? a->type.dtype : WEFT_F32;
}

int weft_array_shape(const weft_array *a, int64_t shape[WEFT_MAX_NDIM]) {
    if (a && shape) memcpy(shape, a->type.shape, sizeof a->type.shape);
    return a ? a->type.ndim : 0;
}

const void *weft_array_data(const weft_array *a) {
    return a ? a->data : NULL;
}

/* ---- as a source ---- */

static weft_status read_row(void *context, int64_t i, void *const *into, weft_error *error) {
    const weft_array *a = context;
    size_t bytes = a->bytes / (size_t)a->type.shape[0];
    memcpy(into[0], a->data + (size_t)i * bytes, bytes);
    return WEFT_OK;
}

weft_status weft_array_source(const weft_array *a, weft_source *source, weft_error *error) {
    if (!a || !source)
        return kit_fail(error, WEFT_ARGUMENT, "weft_array_source: an array and a source are needed");
    if (a->type.ndim < 1)
        return kit_fail(error, WEFT_SHAPE, "weft_array_source: the array has no axis that counts samples");
    *source = (weft_source){.count = a->type.shape[0], .n = 1, .read = read_row, .context = (void *)a};
    source->arrays[0] = (weft_source_array){.dtype = a->type.dtype, .ndim = a->type.ndim - 1};
    memcpy(source->arrays[0].shape, a->type.shape + 1, (size_t)(a->type.ndim - 1) * sizeof *a->type.shape);
    return WEFT_OK;
}
