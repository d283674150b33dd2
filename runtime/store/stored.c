/* stored.c - see stored.h. */
#include "runtime/store/stored.h"

#include <string.h>

typedef struct stored_form {
    const char *word;
    bool has_of; /* " of NAME" follows */
    bool is_optional;
} stored_form;

static const stored_form forms[] = {
    [WEFT_STORED_PARAMETER] = {"parameter", false, false},
    [WEFT_STORED_STATE] = {"state", false, false},
    [WEFT_STORED_SLOT] = {"slot", true, false},
    [WEFT_STORED_AVERAGE] = {"average", true, true},
    [WEFT_STORED_STEP] = {"step", true, false},
    [WEFT_STORED_LR] = {"lr", true, false},
    [WEFT_STORED_EPOCH] = {"epoch", true, true},
    [WEFT_STORED_LOSS_SCALE] = {"loss_scale", true, true},
    [WEFT_STORED_GOOD_STEPS] = {"good_steps", true, true},
    [WEFT_STORED_LOSS_MEAN] = {"loss_mean", true, true},
    [WEFT_STORED_PRODUCT] = {"product", true, false},
    [WEFT_STORED_COUNTER] = {"counter", false, false},
};
enum { FORMS = sizeof forms / sizeof *forms };

bool stored_is_training(weft_stored_kind kind) {
    return kind != WEFT_STORED_PARAMETER && kind != WEFT_STORED_STATE;
}

bool stored_is_number(weft_stored_kind kind) {
    return stored_is_training(kind) && kind != WEFT_STORED_SLOT && kind != WEFT_STORED_AVERAGE;
}

bool stored_is_optional(weft_stored_kind kind) {
    return forms[kind].is_optional;
}

const char *stored_word(weft_stored_kind kind) {
    return forms[kind].word;
}

const char *stored_text(arena *a, weft_stored_kind kind, const char *of) {
    return of ? arena_printf(a, "%s of %s", forms[kind].word, of) : forms[kind].word;
}

/* Whether the text is of this form; *of: what follows. */
static bool fits(const stored_form *f, const char *text, const char **of) {
    static const char between[] = " of ";
    size_t n = strlen(f->word);
    *of = NULL;
    if (strncmp(text, f->word, n)) return false;
    if (!f->has_of) return !text[n];
    if (strncmp(text + n, between, sizeof between - 1)) return false;
    *of = text + n + sizeof between - 1;
    return true;
}

weft_status stored_read(const char *path, const safetensors_tensor *t, weft_stored *value,
                        weft_error *error) {
    *value = (weft_stored){.path = t->name, .kind = WEFT_STORED_PARAMETER};
    if (!t->says) return WEFT_OK;
    for (int i = 0; i < FORMS; i++) {
        if (!fits(&forms[i], t->says, &value->of)) continue;
        value->kind = (weft_stored_kind)i;
        return WEFT_OK;
    }
    return error_set(error, WEFT_FILE, "%.400s: it says that %s is '%s', which no value is", path,
                     SHOW(t->name), SHOW(t->says));
}
