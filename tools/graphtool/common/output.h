/* output.h - how graphtool speaks: errors, files that are whole or not there, JSON. What it says is safe for a terminal,
 * whatever names and files hold. */
#ifndef WEFT_TOOLS_GRAPHTOOL_COMMON_OUTPUT_H
#define WEFT_TOOLS_GRAPHTOOL_COMMON_OUTPUT_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

#include "weft/status.h"

/* "graphtool: <message>" on stderr, one line; returns EXIT_MISUSED. */
int tool_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Said at once, whoever speaks: the command goes on. */
void tool_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* tool_fail for a weft_error; returns EXIT_WRONG for values met at run time, else EXIT_MISUSED. */
int tool_error(const weft_error *error);
/* The same of what is wrong with what a file holds: its name goes in front. */
int tool_error_in(const char *file, const weft_error *error);

/* One rank of several: from here on errors are held, the first of them, and told with the rank by tool_tell_held: 1 s
 * later when rank is not 0, 1 s later still when a communicator brought it, so that the rank which ends all is heard. */
void tool_speak_as(int rank);
void tool_tell_held(void);

/* All of `data` to path as graph/file/io.h writes files (NULL: standard output). Returns EXIT_FINE or the status after telling
 * why not. */
int out_write(const char *path, const void *data, size_t bytes);
/* `json` with sorted keys; takes the reference, NULL means memory was out. */
int out_json(const char *path, json_t *json);

/* Whether `path` could be written, told before hours of work: -1, or the exit status after telling why not. */
int out_check(const char *path);

/* The end of every command: what is not written yet goes out, and a standard output that failed anywhere is an error. */
int out_end(int status);

/* A path as a terminal may have it: show_line. */
typedef struct shown_path {
    char text[600];
} shown_path;
shown_path show_path(const char *path);
#define SHOW_PATH(path) (show_path(path).text)

/* A number, null when it is not finite (JSON has no NaN). */
json_t *json_number(double value);

/* A loss or an accuracy: so many digits behind the point, or as many in all where that would be a row of zeros or of digits. */
typedef struct mean_text {
    char text[40];
} mean_text;
mean_text show_mean(double value, int digits);

#endif
