/* field.h - what the library itself asks of tables of fields (weft/field.h). */
#ifndef WEFT_GRAPH_SETTINGS_FIELD_H
#define WEFT_GRAPH_SETTINGS_FIELD_H

#include "graph/core/type.h"
#include "weft/field.h"

/* NULL for a name that the table lacks. */
const weft_field *field_find(const weft_field *fields, const char *name, size_t length);
/* "greedy, flat or ranges" */
void words_show(const char *const *words, size_t room, char *into);
/* "a whole number from 1 to 1024", "greedy or flat": what a value of it must be. */
typedef struct field_rule {
    char text[160];
} field_rule;
field_rule field_rule_of(const weft_field *f);
/* Writes its value as field_read takes it: "2", "flat", "1". */
void field_write(text *t, const weft_field *f, const void *options);
/* Reads a whole value into the field; false where the value breaks the rule. A text stays the caller's. */
bool field_read(const weft_field *f, const char *value, void *options);
/* The same of what a person wrote: a 0 that stands for another default is refused ("threads=0"). */
bool field_take(const weft_field *f, const char *value, void *options);
/* Bytes of the field; SIZE_MAX for a kind that there is not. */
size_t field_width(const weft_field *f);
/* The same, with an error that names the nearest word: "WHAT: stage=3: it must be ...", without WHAT where
 * it is NULL. */
bool field_set(const weft_field *f, const char *value, void *options, const char *what, weft_error *error);

#endif
