/* golden.c - see golden.h. */
#include "support/kernels/golden.h"

#include "support/test.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void stop(const char *path, const char *why) {
    fprintf(stderr, "golden file %s: %s\n", path, why);
    exit(2);
}

static char *read_all(const char *path, size_t *bytes) {
    FILE *f = fopen(path, "rb");
    if (!f) stop(path, "cannot be opened");
    fseek(f, 0, SEEK_END);
    long length = ftell(f);
    rewind(f);
    char *data = test_memory(length > 0 ? (size_t)length : 1);
    if (length < 8 || fread(data, 1, (size_t)length, f) != (size_t)length) stop(path, "cannot be read");
    fclose(f);
    *bytes = (size_t)length;
    return data;
}

static weft_dtype dtype_of(const char *path, const char *name) {
    static const char *const names[] = {
        [WEFT_F32] = "F32", [WEFT_F64] = "F64", [WEFT_I64] = "I64", [WEFT_I32] = "I32", [WEFT_U8] = "U8"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i] && strcmp(names[i], name) == 0) return (weft_dtype)i;
    stop(path, name);
    return WEFT_F32;
}

static golden_tensor tensor_of(const char *path, const char *name, json_t *entry, const char *data) {
    golden_tensor t = {.dtype = dtype_of(path, json_string_value(json_object_get(entry, "dtype")))};
    json_t *shape = json_object_get(entry, "shape"), *span = json_object_get(entry, "data_offsets");
    json_int_t begin = json_integer_value(json_array_get(span, 0)),
               end = json_integer_value(json_array_get(span, 1));
    snprintf(t.name, sizeof t.name, "%s", name);
    t.ndim = (int)json_array_size(shape);
    if (t.ndim > WEFT_MAX_NDIM) stop(path, name);
    for (int i = 0; i < t.ndim; i++) t.shape[i] = json_integer_value(json_array_get(shape, (size_t)i));
    t.data = data + begin;
    t.bytes = (size_t)(end - begin);
    return t;
}

golden golden_read(const char *path) {
    size_t bytes;
    uint64_t header;
    golden g = {.file = read_all(path, &bytes)};
    memcpy(&header, g.file, 8);
    json_t *root = header <= bytes - 8 ? json_loadb(g.file + 8, header, 0, NULL) : NULL, *entry;
    const char *key;
    if (!root) stop(path, "has no header");
    g.tensors = test_memory((json_object_size(root) + 1) * sizeof *g.tensors);
    json_object_foreach(root, key, entry) if (strcmp(key, "__metadata__")) g.tensors[g.n++] =
        tensor_of(path, key, entry, g.file + 8 + header);
    json_decref(root);
    return g;
}

void golden_free(golden *g) {
    free(g->tensors);
    free(g->file);
}

const golden_tensor *golden_find(const golden *g, const char *of, const char *name) {
    char full[200];
    snprintf(full, sizeof full, "%s.%s", of, name);
    for (int i = 0; i < g->n; i++)
        if (strcmp(g->tensors[i].name, full) == 0) return &g->tensors[i];
    return NULL;
}

double golden_distance(const float *a, const golden_tensor *b) {
    const float *want = b->data;
    double apart = 0, norm = 0;
    for (size_t i = 0; i < b->bytes / sizeof *want; i++) {
        apart += ((double)a[i] - want[i]) * ((double)a[i] - want[i]);
        norm += (double)want[i] * want[i];
    }
    return norm > 0 ? sqrt(apart / norm) : sqrt(apart);
}
