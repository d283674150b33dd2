/* strategy.c - the text of a strategy: its grammar, and what a model keeps of it.
 *
 *     text = name [ ":" key "=" value { "," key "=" value } ]
 *
 * No part is empty or has a blank, so a text is one word of a dump, and one value among the settings that
 * ranks compare. */
#include "graph/settings/strategy.h"

#include "graph/core/words.h"

#include "weft/strategy.h"

#include <stdio.h>
#include <string.h>

bool strategy_keeps(variable_kind kind, const char *path) {
    return kind == VARIABLE_OPTIMIZER && strncmp(path, STRATEGY_STATE, sizeof STRATEGY_STATE - 1) == 0;
}

static bool say_wrong(char why[STRATEGY_WHY], const char *what, const char *at, size_t length) {
    snprintf(why, STRATEGY_WHY, "%s at '%s'", what, show_name(at, length).text);
    return false;
}

static bool is_word(const char *s) {
    return *s && !s[strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_")];
}

/* One "key=value" of `length` bytes, which become two texts. */
static bool pair_parse(const char *at, size_t length, arena *a, strategy_parts *into,
                       char why[STRATEGY_WHY]) {
    char *key = arena_printf(a, "%.*s", (int)length, at), *equals = key ? strchr(key, '=') : NULL;
    *why = 0;
    if (!key) return false;
    if (equals) *equals = 0;
    if (!equals || !is_word(key) || !equals[1] || !text_is_plain(equals + 1, "\"="))
        return say_wrong(why, "key=value is expected", at, length);
    if (into->n == STRATEGY_MAX_KEYS) return say_wrong(why, "there are more than 16 keys", at, length);
    for (int i = 0; i < into->n; i++)
        if (strcmp(into->keys[i], key) == 0) return say_wrong(why, "a key is given twice", at, length);
    into->keys[into->n] = key;
    into->values[into->n++] = equals + 1;
    return true;
}

bool strategy_parse(const char *text, arena *a, strategy_parts *into, char why[STRATEGY_WHY]) {
    *into = (strategy_parts){0};
    *why = 0;
    if (strnlen(text, STRATEGY_MAX_TEXT_BYTES + 1) > STRATEGY_MAX_TEXT_BYTES) {
        snprintf(why, STRATEGY_WHY, "it is longer than %d characters", STRATEGY_MAX_TEXT_BYTES);
        return false;
    }
    size_t n = strcspn(text, ":");
    if (!(into->name = arena_printf(a, "%.*s", (int)n, text))) return false;
    if (!name_is_valid(into->name)) return say_wrong(why, "a name is expected", text, n);
    for (const char *at = text + n; *at; at += n) {
        n = strcspn(++at, ",");
        if (!pair_parse(at, n, a, into, why)) return false;
    }
    return true;
}

bool strategy_set(weft_model *m, const char *text) {
    strategy_parts parts;
    char why[STRATEGY_WHY];
    if (!model_ok(m)) return false;
    if (!text) return m->strategy = NULL, true;
    bool good = strategy_parse(text, &m->arena, &parts, why);
    if (!good && *why)
        return model_fail(m, NULL, WEFT_ARGUMENT, "strategy '%s': NAME:key=value,...: %s", SHOW(text), why);
    const char *copy = good ? arena_copy(&m->arena, text) : NULL;
    if (!copy) return model_fail(m, NULL, WEFT_MEMORY, "strategy: out of memory");
    m->strategy = copy;
    return true;
}

weft_status weft_model_strategy(weft_model *m, const char *strategy) {
    if (!m) return WEFT_ARGUMENT;
    strategy_set(m, strategy);
    return m->error.status;
}

const char *weft_model_strategy_text(const weft_model *m) {
    return m ? m->strategy : NULL;
}
