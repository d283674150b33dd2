/* kit.c - see kit.h. */
#include "runtime/data/kit.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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

void kit_plain_texts(const weft_field *fields, void *options) {
    for (const weft_field *f = fields; f->name; f++)
        if (f->kind == WEFT_FIELD_TEXT && !weft_field_is_set(f, options))
            *(const char **)(void *)((char *)options + f->offset) = NULL;
}

/* ---- memory ---- */

void *kit_new(const weft_env *env, size_t bytes) {
    void *memory = weft_memory_new(env, bytes);
    if (memory) memset(memory, 0, bytes);
    return memory;
}

void *kit_new_array(const weft_env *env, size_t count, size_t width) {
    size_t bytes;
    return kit_mul(&bytes, count, width) ? kit_new(env, bytes) : NULL;
}

void kit_free_array(const weft_env *env, void *array, size_t count, size_t width) {
    weft_memory_free(env, array, count * width);
}

void *kit_grow(const weft_env *env, void *array, size_t *room, size_t least, size_t width) {
    size_t more = *room ? *room : 16;
    if (array && least <= *room) return array;
    while (more < least && kit_mul(&more, more, 2)) {
    }
    void *to = more < least ? NULL : kit_new_array(env, more, width);
    if (!to) return NULL;
    if (*room) memcpy(to, array, *room * width);
    kit_free_array(env, array, *room, width);
    *room = more;
    return to;
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
        used += snprintf(s.text + used, sizeof s.text - (size_t)used, i ? ",%lld" : "%lld",
                         (long long)t->shape[i]);
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
