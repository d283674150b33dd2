/* compile_fields.c - see compile_fields.h. */
#include "runtime/plan/compile_fields.h"

#include "ops/cpu/isa.h"
#include "runtime/plan/program.h"

const char *const reduce_words[] = {"auto", "ordered", "fast", NULL};
const char *const precision_words[] = {"f32", "bf16", "f16", NULL};
const char *const guard_words[] = {"off", "nan", "spike", "grad", NULL};

const weft_field compile_fields[] = {
#define FIELD(field, kind, values, uses, otherwise, means)                                                   \
    {#field, WEFT_FIELD_##kind, offsetof(weft_compile_options, field), values, uses, otherwise, means},
#define OPTION(field, kind, values, uses, otherwise, means, ...)                                             \
    {#field, WEFT_FIELD_##kind, offsetof(weft_compile_options, field), values, uses, otherwise, means},
#include "runtime/plan/compile_list.h"
    WEFT_FIELD_END(weft_compile_options),
};

_Static_assert(sizeof compile_fields / sizeof *compile_fields <= 50,
               "a text of options, and replayed.c, have a bit for each");

const weft_field *weft_compile_fields(void) {
    return compile_fields;
}
