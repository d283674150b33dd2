/* output.h - graphtool's output: files that are either complete or absent, JSON. */
#ifndef WEFT_TOOLS_GRAPHTOOL_OUTPUT_OUTPUT_H
#define WEFT_TOOLS_GRAPHTOOL_OUTPUT_OUTPUT_H

#include "tools/graphtool/output/end.h"

#include <jansson.h>
#include <stddef.h>

/* Columns of the terminal; `otherwise` where the file is not a terminal. */
int out_columns(FILE *f, int otherwise);
/* Writes `data` to path as graph/file/io.h writes files (NULL: standard output). */
void out_write(const char *path, const void *data, size_t bytes);
/* The same of a text, which it empties. */
void out_text(const char *path, text *t);
/* Called first: notes when JSON is made without memory. jansson leaves out what it has none for. */
void out_watch_json(void);
/* Whether all JSON so far has all that was put into it. */
bool out_json_is_whole(void);
/* Writes `json` with "schema" and sorted keys, and frees the reference; NULL means out of memory, and so does
 * JSON that is not whole. */
void out_json(const char *path, json_t *json);
/* The same, with so many digits of each number instead of 9. */
void out_json_digits(const char *path, json_t *json, int digits);

/* Checks before hours of work that `path` can be written. */
void out_check(const char *path);
/* Makes a folder and those that it is in, where they are not there. Async-signal-safe; the path is whole
 * after it. */
void out_make_folders(char *path);
/* The same, and tries a file in it. */
void out_folder(const char *path);

/* Whether a text ends so. */
bool text_ends(const char *text, const char *end);
/* The part after the last slash: a file of its folder, a layer of its scope. */
const char *path_leaf(const char *path);
/* The number of that key in an object; 0: there is none. */
double json_at(const json_t *of, const char *key);
/* The same value, which is freed at the end. */
json_t *json_keep(json_t *json);
/* A number; null when it is not finite (JSON has no NaN). */
json_t *json_number(double value);

/* A loss or an accuracy with so many digits after the point; as significant digits where it is very small or
 * large. */
typedef struct mean_text {
    char text[40];
} mean_text;
mean_text show_mean(double value, int digits);

#endif
