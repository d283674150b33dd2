/* output.h - graphtool's output: errors, files that are either complete or absent, JSON. Everything printed
 * is safe for a terminal, whatever names and files contain. */
#ifndef WEFT_TOOLS_GRAPHTOOL_COMMON_OUTPUT_H
#define WEFT_TOOLS_GRAPHTOOL_COMMON_OUTPUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "weft/comm.h"

/* Prints "graphtool: <message>" on stderr, one line; returns EXIT_MISUSED. */
int tool_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints a warning at once, also when errors are held; the command goes on. */
void tool_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same for what is no reason to worry. */
void tool_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* An error at once, from any thread, also when errors are held; what comes after it is not told. `rings`: the
 * folder that has more; NULL: there is none. `text` NULL: nothing is told from here on. */
void tool_report(const char *text, const char *rings);
/* From here on errors, warnings and notes are lines of JSON: {"error": "...", "rank": 0, "schema": 1}. */
void tool_speak_json(void);
/* Whether colours may be written there: it is a terminal, and NO_COLOR is not set. */
bool out_is_coloured(FILE *f);
/* Columns of the terminal; `otherwise` where the file is not a terminal. */
int out_columns(FILE *f, int otherwise);
/* tool_fail for a weft_error; returns EXIT_WRONG for values met at run time, else EXIT_MISUSED. */
int tool_error(const weft_error *error);
/* tool_error for the contents of a file, whose name is put in front. */
int tool_error_in(const char *file, const weft_error *error);

/* For one rank of several: from here on the first error is held, and tool_tell_held prints it with the rank.
 * Ranks that are not the first to print wait for the job's end before they do: only one error is shown. */
void tool_speak_as(int rank);
void tool_tell_held(weft_comm *comm); /* comm may be NULL */
/* For an error that all ranks have met together: rank 0 prints it. */
void tool_tell_once(void);

/* Writes `data` to path as graph/file/io.h writes files (NULL: standard output). Returns EXIT_FINE, or the
 * status after printing the error. */
int out_write(const char *path, const void *data, size_t bytes);
/* "schema" of all JSON that graphtool prints: it grows when a key is gone or means something else. */
enum { OUT_SCHEMA = 1 };
/* Called first: notes when JSON is made without memory. jansson leaves out what it has none for. */
void out_watch_json(void);
/* Whether all JSON so far has all that was put into it. */
bool out_json_is_whole(void);
/* Writes `json` with "schema" and sorted keys, and frees the reference; NULL means out of memory, and so does
 * JSON that is not whole. */
int out_json(const char *path, json_t *json);
/* The same, with so many digits of each number instead of 9. */
int out_json_digits(const char *path, json_t *json, int digits);

/* Checks before hours of work that `path` can be written: -1, or the exit status after printing the error. */
int out_check(const char *path);

/* Makes a folder and those that it is in, where they are not there, and tries a file in it: -1, or the exit
 * status likewise. */
int out_folder(const char *path);

/* The end of every command: flushes standard output, and reports an error if any write to it failed. A
 * training that was interrupted keeps its status, by which schedulers start it again. */
int out_end(int status);

/* A path that is safe for a terminal, see show_line. */
typedef struct shown_path {
    char text[600];
} shown_path;
shown_path show_path(const char *path);
#define SHOW_PATH(path) (show_path(path).text)

/* A number; null when it is not finite (JSON has no NaN). */
json_t *json_number(double value);

/* A loss or an accuracy with so many digits after the point; as significant digits where it is very small or
 * large. */
typedef struct mean_text {
    char text[40];
} mean_text;
mean_text show_mean(double value, int digits);

#endif
