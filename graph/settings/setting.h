/* setting.h - a setting: a field of a structure of options, with its type, its range or its words, and what
 * it depends on. From a table of settings come the checks of the structure, its text and the reading of it,
 * what ranks compare, what a checkpoint keeps, and rows of the command line.
 *
 * A field of 0, or an empty text, is not set: what holds then is `otherwise`. */
#ifndef WEFT_GRAPH_SETTINGS_SETTING_H
#define WEFT_GRAPH_SETTINGS_SETTING_H

#include "graph/core/type.h"

typedef enum setting_kind {
    SETTING_FLAG,  /* bool */
    SETTING_INT,   /* int, from `least` to `most` */
    SETTING_COUNT, /* int64_t, likewise */
    SETTING_REAL,  /* double, above `least` and up to `most` */
    SETTING_WORD,  /* an enum: its values are the places of the words */
    SETTING_DTYPE, /* weft_dtype: one of the words */
    SETTING_TEXT,  /* const char *, which the structure does not own */
} setting_kind;

/* What else depends on a setting. */
enum {
    SETTING_OF_RANKS = 1, /* all ranks must have the same */
    SETTING_OF_CPU = 2,   /* the numbers of a training on a CPU depend on it */
    SETTING_OF_GPU = 4,   /* those on a GPU do */
    SETTING_OF_NUMBERS = SETTING_OF_CPU | SETTING_OF_GPU,
};

typedef struct setting {
    const char *name; /* of the field and in texts; NULL ends a table */
    setting_kind kind;
    size_t offset;
    double least, most;
    const char *const *words; /* NULL ends them */
    unsigned uses;
    const char *otherwise; /* "every core": what holds where it is 0; NULL: 0 is a value like others */
} setting;

/* NULL for a name that the table lacks. */
const setting *setting_find(const setting *table, const char *name, size_t length);
bool setting_is_set(const setting *s, const void *options);
/* "greedy, flat or ranges" */
void words_show(const char *const *words, size_t room, char *into);
/* "a whole number from 1 to 1024", "greedy or flat": what a value of it must be. */
typedef struct setting_rule {
    char text[160];
} setting_rule;
setting_rule setting_rule_of(const setting *s);
/* Writes its value as setting_read takes it: "2", "flat", "1". */
void setting_write(text *t, const setting *s, const void *options);
/* Reads a whole value into the field; false where the value breaks the rule. A text stays the caller's. */
bool setting_read(const setting *s, const char *value, void *options);
/* WEFT_OK, or sets *error for the first field that is not: "compile: zero=3: it must be ...". */
weft_status settings_check(const setting *table, const void *options, const char *what, weft_error *error);
/* "batch=64 zero=1": the fields that are set. A text with a blank, a comma, a quote or a backslash stands in
 * quotes, where a quote and a backslash have a backslash before them. */
void settings_write(text *t, const setting *table, const void *options);
/* Reads what settings_write writes, with blanks or commas between, into *options, and keeps the fields
 * that it does not name. Cuts `all` apart: texts point into it. An error names the nearest setting. */
weft_status settings_read(const setting *table, char *all, void *options, const char *what,
                          weft_error *error);

#endif
