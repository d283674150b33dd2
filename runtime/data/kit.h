/* kit.h - what the files of libweft_train share: errors that are formatted, zeroed memory and checked
 * sizes, what describes a tensor. libweft_train sees of libweft only include/weft; these stand on
 * weft/support.h. */
#ifndef WEFT_RUNTIME_DATA_KIT_H
#define WEFT_RUNTIME_DATA_KIT_H

#include "weft/support.h"

/* What most files need. */
#include <stdio.h>
#include <string.h>

/* ---- errors ---- */

/* In formats %jd prints an int64_t, and %ju a uint64_t, without a cast. */
_Static_assert(_Generic((int64_t)0, intmax_t : true, default : false), "int64_t is intmax_t");

/* Formats and sets an error; returns the status, so that a failure is one line. */
weft_status kit_fail(weft_error *error, weft_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
weft_status kit_no_memory(weft_error *error, const char *what); /* "WHAT: out of memory" */
/* Another one, where it is one. */
weft_status kit_pass(weft_error *error, const weft_error *other);
/* The caller's error, or `own` where the caller has none; cleared. */
weft_error *kit_error(weft_error *error, weft_error *own);

/* A text that grows, cut where it is full. */
typedef struct kit_line {
    size_t length;
    char text[2000];
} kit_line;
void kit_add(kit_line *l, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Bytes of a file as text for a message: at most 80 characters, what is not printable ASCII as \xNN. */
typedef struct kit_shown {
    char text[100];
} kit_shown;
kit_shown kit_show(const char *bytes, size_t length);

/* ": did you mean 'd_step'?", by value; nothing where no name is near (weft_nearest). */
typedef struct kit_near {
    char text[120];
} kit_near;
kit_near kit_show_near(const char *name);
#define NEAR(name) (kit_show_near(name).text)

/* ---- options ---- */

/* Sets what is not set: texts, "" too, to NULL, whole numbers to the default that their row has. */
void kit_defaults(const weft_field *fields, void *options);

/* ---- memory ---- */

/* Blocks that are given back together. An arena is moved by copying it. */
typedef struct kit_arena {
    weft_env env;
    struct kit_block *last;
    bool is_out; /* there was no memory for a block */
} kit_arena;

/* A zeroed structure whose first member is the arena of all that it owns, itself too. NULL: out of memory. */
void *kit_object(const weft_env *env, size_t bytes);
void kit_free(void *object); /* with all that its arena has; NULL is fine */

kit_arena kit_arena_of(const weft_env *env);
/* Zeroed. NULL: out of memory, or too much, as a number below 0 is. */
void *kit_take(kit_arena *a, size_t count, size_t width);
void *kit_take_raw(kit_arena *a, size_t count, size_t width); /* not zeroed */
char *kit_copy(kit_arena *a, const char *text);               /* NULL of NULL, too */
/* The array, at another place where it had less room than `least` elements: its room doubles, and what is new
 * is zero. NULL: out of memory, and the array is as it was. `array` may be NULL. */
void *kit_grow(kit_arena *a, void *array, size_t least, size_t width);
void kit_drop(kit_arena *a, void *block); /* NULL is fine */
void kit_release(kit_arena a);
bool kit_mul(size_t *into, size_t a, size_t b); /* false on overflow */

/* ---- tensors ---- */

typedef struct tensor {
    weft_dtype dtype;
    int ndim;
    int64_t shape[WEFT_MAX_NDIM];
} tensor;
/* A known type, 0 to WEFT_MAX_NDIM axes of at least 1, and at most 2^46 bytes: true of whatever a source
 * holds. */
bool tensor_check(const tensor *t);
tensor tensor_of(weft_dtype dtype, int ndim, const int64_t *shape);
/* The same with an axis of `n` samples before the others. */
tensor tensor_of_samples(int64_t n, weft_dtype dtype, int ndim, const int64_t *shape);
int64_t tensor_elements(const tensor *t); /* of a checked one; 1 for no axes */
size_t tensor_bytes(const tensor *t);
/* "f32[128,64]", by value. */
typedef struct tensor_text {
    char text[240];
} tensor_text;
tensor_text tensor_show(const tensor *t);
#define TENSOR(t) (tensor_show(t).text)

/* ---- numbers ---- */

/* A number as text for files, by value: with a point, whatever the host's locale has. */
typedef struct kit_number {
    char text[48];
} kit_number;
kit_number kit_show_number(const char *format, double value); /* "%.9g" */
#define NUMBER(format, value) (kit_show_number(format, value).text)
/* The next number of Steele, Lea and Flood's splitmix64. */
uint64_t kit_splitmix(uint64_t *state);
/* A hash of bytes for comparing ranks; not for tables that a hostile user fills. */
uint64_t kit_hash(const void *data, size_t bytes, uint64_t seed);

#endif
