/* compile_settings.c - see compile_settings.h. */
#include "runtime/plan/compile_settings.h"

#include "graph/settings/ddp.h"
#include "graph/core/error.h"
#include "graph/core/kernel.h"
#include "ops/cpu/isa.h"
#include "runtime/plan/program.h"

#include <stdlib.h>

const char *const reduce_words[] = {"auto", "ordered", "fast", NULL};
const char *const precision_words[] = {"f32", "bf16", "f16", NULL};
const char *const guard_words[] = {"off", "nan", "spike", "grad", NULL};

const setting compile_settings[] = {
#define RANGE(least, most) least, most, NULL
#define WORDS(words)       0, 0, words
#define RANKS              SETTING_OF_RANKS
#define NUMBERS            SETTING_OF_NUMBERS
#define CPU                SETTING_OF_CPU
#define GPU                SETTING_OF_GPU
#define FIELD(field, kind, values, uses, otherwise, means)                                                   \
    {#field, SETTING_##kind, offsetof(weft_compile_options, field), values, uses, otherwise},
#define OPTION(field, kind, values, uses, otherwise, means, ...)                                             \
    {#field, SETTING_##kind, offsetof(weft_compile_options, field), values, uses, otherwise},
#include "runtime/plan/compile_list.h"
#undef RANGE
#undef WORDS
#undef RANKS
#undef NUMBERS
#undef CPU
#undef GPU
#undef OPTION
#undef FIELD
    {0},
};

_Static_assert(sizeof compile_settings / sizeof *compile_settings <= 50,
               "settings_read and replayed.c keep a bit for each");

/* ---- text ---- */

char *weft_compile_options_text(const weft_compile_options *options) {
    text t = {0};
    if (options) settings_write(&t, compile_settings, options);
    if (!t.length) text_add(&t, "%s", "");
    return text_detach(&t);
}

char *weft_compile_options_parse(const char *said, weft_compile_options *options, weft_error *error) {
    if (error) *error = (weft_error){0};
    if (!said || !options) {
        error_set(error, WEFT_ARGUMENT, "weft_compile_options_parse: a text and options are needed");
        return NULL;
    }
    text copy = {0};
    text_add(&copy, "%s", said);
    char *own = text_detach(&copy);
    weft_compile_options all = *options;
    if (!own) return error_memory(error, "weft_compile_options_parse"), NULL;
    if (settings_read(compile_settings, own, &all, "compile", error) ||
        settings_check(compile_settings, &all, "compile", error))
        return free(own), NULL;
    *options = all;
    return own;
}
