/* error.h - the error type is filled here and nowhere else, with text that is safe to print. */
#ifndef WEFT_GRAPH_CORE_ERROR_H
#define WEFT_GRAPH_CORE_ERROR_H

#include "weft/env.h"

/* In formats %jd prints an int64_t, and %ju a uint64_t, without a cast: runtime/data/kit.h asserts that they
 * are intmax_t and uintmax_t. */

/* Sets *error (when not NULL) and returns the status, so that a failure is one line:
 *      return error_set(error, WEFT_FILE, "%s: header of %llu bytes, the file has %llu", ...);
 * The text is cut to fit the buffer and made safe by show_line. */
weft_status error_set(weft_error *error, weft_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* WEFT_ARGUMENT where a word at the end of a public structure is not 0 (weft/status.h): reserved_check(
 * o->reserved, sizeof o->reserved, "weft_fit_options", error). */
weft_status reserved_check(const uint64_t *reserved, size_t bytes, const char *what, weft_error *error);

/* The caller's error, or `own` where the caller has none; cleared. */
weft_error *error_here(weft_error *error, weft_error *own);

/* Out of memory, with the same words everywhere. */
weft_status error_memory(weft_error *error, const char *what);

/* Gives env->log a line, where there is one to give it to. */
void env_log(const weft_env *env, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Copies `from` as one line that is safe for a terminal: control characters and bytes that are not UTF-8
 * become \xNN. Text from a file, a name or an argument may hold any bytes. Cut to fit `room` bytes, which
 * must be above 0. */
void show_line(char *into, size_t room, const char *from);

/* `name` made safe to print: at most 80 characters, control and non-ASCII bytes as \xNN. */
typedef struct shown {
    char text[100];
} shown;
shown show_name(const char *name, size_t length);
#define SHOW(name) (show_name((name), (name) ? __builtin_strlen(name) : 0).text)
/* What the system says of an errno value. */
shown errno_show(int code);

#endif
