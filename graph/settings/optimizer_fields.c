/* optimizer_fields.c - the plain fields of weft_optimizer as data (weft/field.h), from the rows that
 * weft_minimize reads. */
#include "weft/train.h"

#include <float.h>
#include <stddef.h>

#define AT(field) offsetof(weft_optimizer, field)
/* WEFT_ZERO has a meaning in some numbers: 0 to `most`. In others 0 is off. */
#define KIND(has_zero) ((has_zero) ? WEFT_FIELD_NUMBER : WEFT_FIELD_REAL)
/* Defaults of the first kind are the type's; a 0 of the others is off, or what the row says. */
#define DEFAULT(fallback, has_zero) ((has_zero) ? "that of its type" : #fallback)
#define REAL(name, field, readers, fallback, most, has_zero)                                                 \
    {#field, KIND(has_zero), AT(field), 0, most, NULL, 0, DEFAULT(fallback, has_zero), NULL},
#define FLAG(name, field) {#field, WEFT_FIELD_FLAG, AT(field), 0, 1, NULL, 0, NULL, NULL},
#define COUNT(name, field, readers)                                                                          \
    {#field, WEFT_FIELD_COUNT, AT(field), 1, WEFT_COUNT_MOST, NULL, 0, NULL, NULL},

static const weft_field fields[] = {
    {"type", WEFT_FIELD_TEXT, AT(type), .means = "the optimizer: sgd, adam, adamw, ..."},
    {"name", WEFT_FIELD_TEXT, AT(name), .otherwise = "the type and the pattern",
     .means = "identity of its state"},
#include "graph/settings/minimize_list.h"
    {.offset = sizeof(weft_optimizer)},
};

const weft_field *weft_optimizer_fields(void) {
    return fields;
}
