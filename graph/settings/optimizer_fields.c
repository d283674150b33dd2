/* optimizer_fields.c - the numbers and flags of weft_optimizer as data: for weft_minimize, and as rows of
 * weft/field.h. */
#include "graph/settings/minimize.h"

#include <float.h>

#define EVERY false
#define OWN   true
const optimizer_setting optimizer_settings[] = {
#define PLACE(name)      #name, offsetof(weft_optimizer, name), offsetof(minimize_attrs, name)
#define REAL(name, ...)  {PLACE(name), __VA_ARGS__, false},
#define COUNT(name, own) {PLACE(name), own, 0, 0, false, true},
#include "graph/settings/minimize_list.h"
    {0},
};

/* WEFT_ZERO has a meaning in some numbers, whose defaults are the type's; a 0 of the others is off, or what
 * the row says. */
#define NUMBER_true(name, fallback, most)                                                                    \
    WEFT_FIELD(weft_optimizer, name, NUMBER, 0, most, "that of its type", NULL),
#define NUMBER_false(name, fallback, most) WEFT_FIELD(weft_optimizer, name, REAL, 0, most, #fallback, NULL),
static const weft_field fields[] = {
    WEFT_FIELD(weft_optimizer, type, TEXT, 0, 0, NULL, "the optimizer: sgd, adam, adamw, ..."),
    WEFT_FIELD(weft_optimizer, name, TEXT, 0, 0, "the type and the pattern", "identity of its state"),
#define REAL(name, own, fallback, most, has_zero) NUMBER_##has_zero(name, fallback, most)
#define FLAG(name)                                WEFT_FIELD(weft_optimizer, name, FLAG, 0, 1, NULL, NULL),
#define COUNT(name, own)                          WEFT_FIELD(weft_optimizer, name, COUNT, 1, WEFT_COUNT_MOST, NULL, NULL),
#include "graph/settings/minimize_list.h"
    WEFT_FIELD_END(weft_optimizer),
};

const weft_field *weft_optimizer_fields(void) {
    return fields;
}
