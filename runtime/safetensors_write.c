/* safetensors_write.c - canonical: tensors with wider elements first (so that all stay aligned), then by
 * name; one spelling of the header, padded with spaces to 8 bytes. */
#include "graph/io.h"
#include "runtime/safetensors.h"

#include <stdlib.h>
#include <string.h>

static int by_width_and_name(const void *pa, const void *pb) {
    const safetensors_tensor *a = *(safetensors_tensor *const *)pa, *b = *(safetensors_tensor *const *)pb;
    size_t wa = dtype_bytes(a->type.dtype), wb = dtype_bytes(b->type.dtype);
    if (wa != wb) return wa > wb ? -1 : 1;
    return strcmp(a->name, b->name);
}

static int by_name(const void *pa, const void *pb) {
    return strcmp((*(safetensors_tensor *const *)pa)->name, (*(safetensors_tensor *const *)pb)->name);
}

static void string_write(text *t, const char *string) {
    text_add(t, "\"");
    for (const unsigned char *p = (const unsigned char *)string; *p; p++)
        text_add(t, *p < 0x20 ? "\\u%04x" : *p == '"' || *p == '\\' ? "\\%c" : "%c", *p);
    text_add(t, "\"");
}

static void entry_write(text *t, const safetensors_tensor *e) {
    static const char *const names[WEFT_DTYPES] = {"F32", "F64", "BF16", "F16", "I64", "I32", "U8", "BOOL"};
    text_add(t, ",");
    string_write(t, e->name);
    text_add(t, ":{\"dtype\":\"%s\",\"shape\":[", names[e->type.dtype]);
    for (int i = 0; i < e->type.ndim; i++) text_add(t, i ? ",%lld" : "%lld", (long long)e->type.shape[i]);
    text_add(t, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)e->begin, (unsigned long long)e->end);
}

/* transformers wants the format named; nobody else minds. */
static void header_write(text *t, int n, safetensors_tensor *const *order) {
    text_add(t, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (int i = 0; i < n; i++) entry_write(t, order[i]);
    text_add(t, "}");
    while (!t->failed && t->length % 8) text_add(t, " ");
}

/* Sorted, and each placed after the one before it. */
static weft_status layout(const char *path, int n, safetensors_tensor *const *order, size_t *largest,
                          weft_error *error) {
    size_t at = 0;
    *largest = 1;
    for (int i = 0; i < n; i++) {
        safetensors_tensor *t = order[i];
        size_t bytes = dtype_bytes(t->type.dtype);
        bool good = bytes > 0;
        for (int k = 0; k < t->type.ndim; k++)
            good = good && size_mul(&bytes, bytes, (size_t)t->type.shape[k]);
        t->begin = at;
        if (!good || !size_add(&at, at, bytes) || at > (uint64_t)INT64_MAX)
            return error_set(error, WEFT_ARGUMENT, "%.400s: %s is too large", path, SHOW(t->name));
        t->end = at;
        if (bytes > *largest) *largest = bytes;
    }
    return WEFT_OK;
}

typedef struct output {
    int n;
    safetensors_tensor *tensors, **order;
    safetensors_fill fill;
    void *context;
    text header;
    char *buffer; /* the largest tensor's bytes */
} output;

static weft_status data_write(const output *o, file_writer *w) {
    unsigned char length[8];
    for (int i = 0; i < 8; i++) length[i] = (unsigned char)((uint64_t)o->header.length >> (8 * i));
    file_append(w, length, sizeof length);
    weft_status status = file_append(w, o->header.data, o->header.length);
    for (int i = 0; !status && i < o->n; i++) {
        const safetensors_tensor *t = o->order[i];
        size_t bytes = (size_t)(t->end - t->begin);
        status = o->fill(o->context, (int)(t - o->tensors), o->buffer, bytes, w->error);
        if (!status) status = file_append(w, o->buffer, bytes);
    }
    return status;
}

static weft_status order_and_write(output *o, const char *path, const weft_env *env, weft_error *error) {
    size_t largest;
    file_writer w;
    qsort(o->order, (size_t)o->n, sizeof *o->order, by_name);
    for (int i = 1; i < o->n; i++)
        if (strcmp(o->order[i - 1]->name, o->order[i]->name) == 0)
            return error_set(error, WEFT_NAME, "%.400s: two tensors would be named %s", path,
                             SHOW(o->order[i]->name));
    qsort(o->order, (size_t)o->n, sizeof *o->order, by_width_and_name);
    weft_status status = layout(path, o->n, o->order, &largest, error);
    if (status) return status;
    header_write(&o->header, o->n, o->order);
    if (!o->header.failed && o->header.length > SAFETENSORS_MAX_HEADER)
        return error_set(error, WEFT_ARGUMENT, "%.400s: a header of %zu bytes, at most %d", path,
                         o->header.length, SAFETENSORS_MAX_HEADER);
    o->buffer = o->header.failed ? NULL : mem_raw(env, largest);
    if (!o->buffer) return error_memory(error, path);
    status = file_begin(&w, env, path, error);
    if (!status) status = data_write(o, &w);
    status = file_finish(&w, status);
    mem_free(env, o->buffer, largest);
    return status;
}

weft_status safetensors_write(const char *path, const weft_env *env, int n, safetensors_tensor *tensors,
                              safetensors_fill fill, void *context, weft_error *error) {
    output o = {.n = n, .tensors = tensors, .fill = fill, .context = context};
    if (!path) return error_set(error, WEFT_ARGUMENT, "a path is needed");
    o.order = mem_new_array(env, (size_t)n + 1, sizeof *o.order);
    if (!o.order) return error_memory(error, path);
    for (int i = 0; i < n; i++) o.order[i] = &tensors[i];
    weft_status status = order_and_write(&o, path, env, error);
    free(o.header.data);
    mem_free(env, o.order, ((size_t)n + 1) * sizeof *o.order);
    return status;
}
