/* compile_fields.h - the table of weft_compile_options, made from compile_list.h. */
#ifndef WEFT_RUNTIME_PLAN_COMPILE_SETTINGS_H
#define WEFT_RUNTIME_PLAN_COMPILE_SETTINGS_H

#include "graph/settings/field.h"
#include "weft/plan.h"

/* What else depends on an option: weft_field.uses. */
enum {
    COMPILE_OF_RANKS = 1, /* all ranks must have the same */
    COMPILE_OF_CPU = 2,   /* the numbers of a training on a CPU depend on it */
    COMPILE_OF_GPU = 4,   /* those on a GPU do */
    COMPILE_OF_NUMBERS = COMPILE_OF_CPU | COMPILE_OF_GPU,
};

/* One for each field of weft_compile_options but own_strategy. */
extern const weft_field compile_fields[];
/* In the order of their enums; NULL ends them. The second lists the types that `precision` may be. */
extern const char *const reduce_words[], *const precision_words[], *const guard_words[];

#endif
