/* safetensors_write.c - writes safetensors in one canonical form: tensors with wider elements first (so that
 * all are aligned), then by name; one spelling of the header, padded with spaces to 8 bytes. */
#include "runtime/store/safetensors.h"

#include <stdlib.h>
#include <string.h>

/* Widths are 8, 4, 2 and 1 bytes, so each tensor begins at a multiple of its own. */
static int by_width_and_name(const void *pa, const void *pb) {
    const safetensors_tensor *a = *(safetensors_tensor *const *)pa, *b = *(safetensors_tensor *const *)pb;
    size_t wa = dtype_bytes(a->type.dtype), wb = dtype_bytes(b->type.dtype);
    if (wa != wb) return wa > wb ? -1 : 1;
    return strcmp(a->name, b->name);
}

static int by_name(const void *pa, const void *pb) {
    return strcmp((*(safetensors_tensor *const *)pa)->name, (*(safetensors_tensor *const *)pb)->name);
}

/* A string after its first quote. JSON requires escapes for quotes, backslashes and control characters. */
static void string_end_write(text *t, const char *string) {
    for (const unsigned char *p = (const unsigned char *)string; *p; p++)
        text_add(t, *p < 0x20 ? "\\u%04x" : *p == '"' || *p == '\\' ? "\\%c" : "%c", *p);
    text_add(t, "\"");
}

static void string_write(text *t, const char *string) {
    text_add(t, "\"");
    string_end_write(t, string);
}

/* The separator comes first, as __metadata__ always precedes the first entry. */
static void entry_write(text *t, const safetensors_tensor *e) {
    static const char *const names[WEFT_DTYPES] = {"F32", "F64",  "BF16", "F16", "I64", "I32",
                                                   "U8",  "BOOL", "I8",   "U16", "U32"};
    text_add(t, ",");
    string_write(t, e->name);
    text_add(t, ":{\"dtype\":\"%s\",\"shape\":[", names[e->type.dtype]);
    for (int i = 0; i < e->type.ndim; i++) text_add(t, i ? ",%jd" : "%jd", e->type.shape[i]);
    text_add(t, "],\"data_offsets\":[%ju,%ju]}", e->begin, e->end);
}

/* "weft:NAME":"average of net.fc.weight" */
static void says_write(text *t, const safetensors_tensor *e) {
    text_add(t, ",\"" SAFETENSORS_SAYS);
    string_end_write(t, e->name);
    text_add(t, ":");
    string_write(t, e->says);
}

/* The transformers library requires the format's name; other readers ignore it. */
static void header_write(text *t, int n, safetensors_tensor *const *order) {
    text_add(t, "{\"__metadata__\":{\"format\":\"pt\"");
    for (int i = 0; i < n; i++)
        if (order[i]->says) says_write(t, order[i]);
    text_add(t, "}");
    for (int i = 0; i < n; i++) entry_write(t, order[i]);
    text_add(t, "}");
    while (!t->failed && t->length % 8) text_add(t, " ");
}

/* Gives each tensor its bytes in the order of the file, and finds the size of a piece. */
static weft_status layout(safetensors_writer *w) {
    const char *path = w->path ? w->path : "weights";
    size_t at = 0;
    w->piece_bytes = 1;
    for (int i = 0; i < w->n; i++) {
        safetensors_tensor *t = w->order[i];
        size_t bytes = dtype_bytes(t->type.dtype);
        bool good = bytes > 0;
        /* Axes may be 0; products are checked. */
        for (int k = 0; k < t->type.ndim; k++)
            good = good && size_mul(&bytes, bytes, (size_t)t->type.shape[k]);
        t->begin = at;
        if (!good || !size_add(&at, at, bytes) || at > (uint64_t)INT64_MAX)
            return error_set(w->error, WEFT_ARGUMENT, "%.400s: %s is too large", path, SHOW(t->name));
        t->end = at;
        if (bytes > w->piece_bytes) w->piece_bytes = bytes < SAFETENSORS_PIECE ? bytes : SAFETENSORS_PIECE;
    }
    return WEFT_OK;
}

/* Orders the tensors, which must have different names, and prepares header and piece. */
static weft_status put_in_order(safetensors_writer *w) {
    const char *path = w->path ? w->path : "weights";
    for (int i = 0; i < w->n; i++) w->order[i] = &w->tensors[i];
    qsort(w->order, (size_t)w->n, sizeof *w->order, by_name);
    for (int i = 1; i < w->n; i++)
        if (strcmp(w->order[i - 1]->name, w->order[i]->name) == 0)
            return error_set(w->error, WEFT_NAME, "%.400s: two tensors would be named %s", path,
                             SHOW(w->order[i]->name));
    qsort(w->order, (size_t)w->n, sizeof *w->order, by_width_and_name);
    weft_status status = layout(w);
    if (status) return status;
    header_write(&w->header, w->n, w->order);
    if (!w->header.failed && w->header.length > SAFETENSORS_MAX_HEADER)
        return error_set(w->error, WEFT_ARGUMENT, "%.400s: a header of %zu bytes, at most %d", path,
                         w->header.length, SAFETENSORS_MAX_HEADER);
    w->piece = w->header.failed ? NULL : mem_raw(w->env, w->piece_bytes);
    return w->piece ? WEFT_OK : error_memory(w->error, path);
}

/* For success and failure. */
static void release(safetensors_writer *w) {
    free(w->header.data);
    mem_free(w->env, w->piece, w->piece_bytes);
    mem_free(w->env, w->order, ((size_t)w->n + 1) * sizeof *w->order);
}

/* On failure the file is finished, so that no part of it remains. */
static weft_status header_put(safetensors_writer *w) {
    unsigned char length[8];
    weft_status status = file_begin(&w->file, w->env, w->path, w->error);
    if (status) return file_finish(&w->file, status);
    w->file.hash = w->hash;
    for (int i = 0; i < 8; i++) length[i] = (unsigned char)((uint64_t)w->header.length >> (8 * i));
    file_append(&w->file, length, sizeof length);
    if ((status = file_append(&w->file, w->header.data, w->header.length)))
        return file_finish(&w->file, status);
    return WEFT_OK;
}

weft_status safetensors_begin(safetensors_writer *w, const char *path, const weft_env *env, int n,
                              safetensors_tensor *tensors, byte_hash *hash, weft_error *error) {
    *w = (safetensors_writer){
        .env = env, .path = path, .n = n, .tensors = tensors, .hash = hash, .error = error};
    if (hash) byte_hash_begin(hash);
    w->order = mem_new_array(env, (size_t)n + 1, sizeof *w->order);
    if (!w->order) return error_memory(error, path ? path : "weights");
    weft_status status = put_in_order(w);
    if (!status && path) status = header_put(w);
    if (status) release(w);
    return status;
}

/* Pieces of a tensor in order. A failed write does not stop it: see safetensors_data. */
static weft_status tensor_put(safetensors_writer *w, const safetensors_tensor *t, safetensors_fill fill,
                              void *context) {
    weft_status status = WEFT_OK;
    for (uint64_t at = 0, all = t->end - t->begin; !status && at < all;) {
        size_t bytes = all - at < SAFETENSORS_PIECE ? (size_t)(all - at) : SAFETENSORS_PIECE;
        status = fill(context, (int)(t - w->tensors), at, w->piece, bytes, w->error);
        /* it keeps its failure, which safetensors_data returns */
        if (!status && w->path) file_append(&w->file, w->piece, bytes);
        at += bytes;
    }
    return status;
}

weft_status safetensors_data(safetensors_writer *w, safetensors_fill fill, void *context) {
    weft_status status = WEFT_OK;
    for (int i = 0; !status && i < w->n; i++) status = tensor_put(w, w->order[i], fill, context);
    return status ? status : w->path ? w->file.status : WEFT_OK;
}

/* The file appears under its name only here, and only if everything succeeded. */
weft_status safetensors_finish(safetensors_writer *w, weft_status status) {
    if (w->path) status = file_finish(&w->file, status);
    release(w);
    return status;
}

weft_status safetensors_write_sealed(const char *path, const weft_env *env, int n,
                                     safetensors_tensor *tensors, safetensors_fill fill, void *context,
                                     safetensors_seal *seal, weft_error *error) {
    byte_hash hash;
    safetensors_writer w;
    if (!path) return error_set(error, WEFT_ARGUMENT, "a path is needed");
    weft_status status = safetensors_begin(&w, path, env, n, tensors, &hash, error);
    if (!status) status = safetensors_finish(&w, safetensors_data(&w, fill, context));
    if (!status) *seal = (safetensors_seal){w.file.bytes, byte_hash_value(&hash)};
    return status;
}

weft_status safetensors_write(const char *path, const weft_env *env, int n, safetensors_tensor *tensors,
                              safetensors_fill fill, void *context, weft_error *error) {
    safetensors_seal ignored;
    return safetensors_write_sealed(path, env, n, tensors, fill, context, &ignored, error);
}
