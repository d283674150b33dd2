/* output.h - how graphtool speaks: errors, files that are whole or not there, JSON. */
#ifndef WEFT_TOOLS_OUTPUT_H
#define WEFT_TOOLS_OUTPUT_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

#include "weft/status.h"

/* "graphtool: <message>" on stderr, one line; returns EXIT_MISUSED. */
int tool_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same for a weft_error; returns EXIT_WRONG for values met at run time, else EXIT_MISUSED. */
int tool_error(const weft_error *error);

/* One rank of several: from here on errors are held, the first of them, and told with the rank by tool_tell_held: 1 s
 * later when rank is not 0, 1 s later still when a communicator brought it, so that the rank which ends all is heard. */
void tool_speak_as(int rank);
void tool_tell_held(void);

/* A file that appears under its name only when it is whole. */
typedef struct out_file {
    FILE *stream;
    const char *path; /* NULL: standard output */
    char *beside;     /* where it grows */
} out_file;
/* Opens; path NULL is standard output. Returns -1, or the exit status after telling why not. */
int out_open(out_file *f, const char *path);
/* Flushes and renames; the same returns. Frees either way. */
int out_close(out_file *f);
void out_abandon(out_file *f); /* as if it had never been opened */

/* All of `data` to path (NULL: standard output). Returns EXIT_FINE or the status after telling why not. */
int out_write(const char *path, const void *data, size_t bytes);
/* `json` with sorted keys; takes the reference, NULL means memory was out. */
int out_json(const char *path, json_t *json);

/* Whether `path` could be written, told before hours of work: -1, or the exit status after telling why not. */
int out_check(const char *path);

/* A number, null when it is not finite (JSON has no NaN). */
json_t *json_number(double value);

#endif
