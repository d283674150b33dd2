/* kit.c - see kit.h. */
#include "runtime/data/kit.h"

#include <stdarg.h>
#include <stdlib.h>

/* ---- errors ---- */

weft_status kit_fail(weft_error *error, weft_status status, const char *format, ...) {
    char text[sizeof error->text]; /* an argument may be error->text itself */
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return weft_error_set(error, status, text);
}

weft_status kit_no_memory(weft_error *error, const char *what) {
    return kit_fail(error, WEFT_MEMORY, "%.600s: out of memory", what);
}

weft_status kit_pass(weft_error *error, const weft_error *other) {
    return other->status ? kit_fail(error, other->status, "%s", other->text) : WEFT_OK;
}

weft_error *kit_error(weft_error *error, weft_error *own) {
    if (!error) error = own;
    *error = (weft_error){0};
    return error;
}

void kit_add(kit_line *l, const char *format, ...) {
    size_t room = sizeof l->text - l->length;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(l->text + l->length, room, format, args);
    va_end(args);
    l->length += n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
}

kit_shown kit_show(const char *bytes, size_t length) {
    enum { LONGEST = 80 };
    kit_shown s = {{0}};
    size_t used = 0;
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)bytes[i];
        bool is_plain = c >= 0x20 && c < 0x7f;
        if (used + (is_plain ? 1 : 4) > LONGEST) {
            snprintf(s.text + used, sizeof s.text - used, "...");
            break;
        }
        used += (size_t)snprintf(s.text + used, sizeof s.text - used, is_plain ? "%c" : "\\x%02x", c);
    }
    return s;
}

kit_near kit_show_near(const char *name) {
    kit_near n = {{0}};
    if (name) snprintf(n.text, sizeof n.text, ": did you mean '%.90s'?", name);
    return n;
}

/* ---- options ---- */

void kit_defaults(const weft_field *fields, void *options) {
    for (const weft_field *f = fields; f->name; f++) {
        void *at = (char *)options + f->offset;
        char *end = NULL;
        int64_t number = f->otherwise ? strtoll(f->otherwise, &end, 10) : 0;
        if (weft_field_is_set(f, options)) continue;
        if (f->kind == WEFT_FIELD_TEXT) *(const char **)at = NULL;
        if (!end || *end) continue;
        if (f->kind == WEFT_FIELD_INT) *(int *)at = (int)number;
        if (f->kind == WEFT_FIELD_COUNT) *(int64_t *)at = number;
    }
}

/* ---- memory ---- */

/* What stands before a block; the head keeps what follows aligned. */
typedef struct kit_block {
    struct kit_block *before, *after;
    size_t bytes; /* of the block, without the head */
} kit_block;

enum { HEAD = 64 };

static kit_block *head_of(void *block) {
    return (kit_block *)(void *)((char *)block - HEAD);
}

kit_arena kit_arena_of(const weft_env *env) {
    return (kit_arena){.env = env ? *env : (weft_env){0}};
}

void *kit_take_raw(kit_arena *a, size_t count, size_t width) {
    size_t bytes;
    bool is_valid = kit_mul(&bytes, count, width) && bytes <= SIZE_MAX - HEAD;
    kit_block *b = is_valid ? weft_memory_new(&a->env, HEAD + bytes) : NULL;
    a->is_out = a->is_out || !b;
    if (!b) return NULL;
    *b = (kit_block){a->last, NULL, bytes};
    if (a->last) a->last->after = b;
    a->last = b;
    return (char *)b + HEAD;
}

void *kit_take(kit_arena *a, size_t count, size_t width) {
    void *block = kit_take_raw(a, count, width);
    if (block) memset(block, 0, count * width);
    return block;
}

char *kit_copy(kit_arena *a, const char *text) {
    size_t bytes = text ? strlen(text) + 1 : 0;
    char *copy = text ? kit_take_raw(a, bytes, 1) : NULL;
    if (copy) memcpy(copy, text, bytes);
    return copy;
}

void kit_drop(kit_arena *a, void *block) {
    if (!block) return;
    kit_block *b = head_of(block);
    *(b->after ? &b->after->before : &a->last) = b->before;
    if (b->before) b->before->after = b->after;
    weft_memory_free(&a->env, b, HEAD + b->bytes);
}

void *kit_grow(kit_arena *a, void *array, size_t least, size_t width) {
    size_t bytes = array ? head_of(array)->bytes : 0, room = bytes / width;
    if (array && least <= room) return array;
    if (!room) room = 16;
    while (room < least && kit_mul(&room, room, 2)) {
    }
    void *to = room < least ? NULL : kit_take(a, room, width);
    if (!to) return NULL;
    if (array) memcpy(to, array, bytes);
    kit_drop(a, array);
    return to;
}

void kit_release(kit_arena a) {
    for (kit_block *b = a.last, *before; b; b = before) {
        before = b->before;
        weft_memory_free(&a.env, b, HEAD + b->bytes);
    }
}

void *kit_object(const weft_env *env, size_t bytes) {
    kit_arena a = kit_arena_of(env), *object = kit_take(&a, bytes, 1);
    if (object) *object = a;
    return object;
}

void kit_free(void *object) {
    if (object) kit_release(*(const kit_arena *)object);
}

bool kit_mul(size_t *into, size_t a, size_t b) {
    return !__builtin_mul_overflow(a, b, into);
}

/* ---- tensors ---- */

bool tensor_check(const tensor *t) {
    const size_t most = (size_t)1 << 46; /* libweft's own limit for a tensor */
    size_t bytes = weft_dtype_bytes(t->dtype);
    if (bytes == 0 || t->ndim < 0 || t->ndim > WEFT_MAX_NDIM) return false;
    /* Checked after each axis, so that the product cannot wrap around before it is compared. */
    for (int i = 0; i < t->ndim; i++)
        if (t->shape[i] < 1 || !kit_mul(&bytes, bytes, (size_t)t->shape[i]) || bytes > most) return false;
    return true;
}

tensor tensor_of(weft_dtype dtype, int ndim, const int64_t *shape) {
    tensor t = {.dtype = dtype, .ndim = ndim};
    if (ndim > 0 && ndim <= WEFT_MAX_NDIM) memcpy(t.shape, shape, (size_t)ndim * sizeof *shape);
    return t;
}

tensor tensor_of_samples(int64_t n, weft_dtype dtype, int ndim, const int64_t *shape) {
    tensor t = {.dtype = dtype, .ndim = ndim + 1, .shape = {n}};
    if (ndim > 0) memcpy(t.shape + 1, shape, (size_t)ndim * sizeof *shape);
    return t;
}

int64_t tensor_elements(const tensor *t) {
    int64_t n = 1;
    for (int i = 0; i < t->ndim; i++) n *= t->shape[i];
    return n;
}

size_t tensor_bytes(const tensor *t) {
    return (size_t)tensor_elements(t) * weft_dtype_bytes(t->dtype);
}

tensor_text tensor_show(const tensor *t) {
    tensor_text s;
    int used = snprintf(s.text, sizeof s.text, "%s[", weft_dtype_name(t->dtype));
    for (int i = 0; i < t->ndim && i < WEFT_MAX_NDIM; i++)
        used += snprintf(s.text + used, sizeof s.text - (size_t)used, i ? ",%jd" : "%jd", t->shape[i]);
    snprintf(s.text + used, sizeof s.text - (size_t)used, "]");
    return s;
}

/* ---- numbers ---- */

kit_number kit_show_number(const char *format, double value) {
    kit_number n;
    snprintf(n.text, sizeof n.text, format, value);
    for (char *c = n.text; *c; c++)
        if (*c == ',') *c = '.';
    return n;
}

uint64_t kit_splitmix(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Each word of 8 bytes, the last filled with zeroes, goes through splitmix64's mixing; the length is mixed
 * in last. */
uint64_t kit_hash(const void *data, size_t bytes, uint64_t seed) {
    uint64_t h = seed;
    for (size_t at = 0; at < bytes; at += 8) {
        uint64_t word = 0;
        memcpy(&word, (const char *)data + at, bytes - at < 8 ? bytes - at : 8);
        h ^= word;
        h = kit_splitmix(&h);
    }
    h ^= bytes;
    return kit_splitmix(&h);
}
