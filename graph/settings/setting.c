/* setting.c - see setting.h. */
#include "graph/settings/setting.h"

#include "graph/core/error.h"
#include "graph/core/nearest.h"
#include "graph/core/op.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The field of the structure, as an lvalue of `type`. */
#define FIELD(type, s, options)  (*(type *)((char *)(options) + (s)->offset))
#define CFIELD(type, s, options) (*(type const *)((const char *)(options) + (s)->offset))

const setting *setting_find(const setting *table, const char *name, size_t length) {
    for (; table->name; table++)
        if (strlen(table->name) == length && memcmp(table->name, name, length) == 0) return table;
    return NULL;
}

/* ---- a field as a number ---- */

/* Of all kinds but texts. Counts are below 2^53 wherever they are valid. */
static double number_of(const setting *s, const void *options) {
    switch (s->kind) {
    case SETTING_FLAG:
        return CFIELD(bool, s, options);
    case SETTING_COUNT:
        return (double)CFIELD(int64_t, s, options);
    case SETTING_REAL:
        return CFIELD(double, s, options);
    case SETTING_INT:
    case SETTING_WORD:
    case SETTING_DTYPE: /* enums are as wide as int */
        return CFIELD(int, s, options);
    case SETTING_TEXT:
        break;
    }
    return 0;
}

static void put_number(const setting *s, double number, void *options) {
    switch (s->kind) {
    case SETTING_FLAG:
        FIELD(bool, s, options) = number != 0;
        return;
    case SETTING_COUNT:
        FIELD(int64_t, s, options) = (int64_t)number;
        return;
    case SETTING_REAL:
        FIELD(double, s, options) = number;
        return;
    case SETTING_INT:
    case SETTING_WORD:
    case SETTING_DTYPE:
        FIELD(int, s, options) = (int)number;
        return;
    case SETTING_TEXT:
        return;
    }
}

bool setting_is_set(const setting *s, const void *options) {
    const char *value = s->kind == SETTING_TEXT ? CFIELD(const char *, s, options) : NULL;
    return s->kind == SETTING_TEXT ? value && *value : number_of(s, options) != 0;
}

/* ---- the rule ---- */

void words_show(const char *const *words, size_t room, char *into) {
    size_t at = 0;
    for (int i = 0; words[i] && at < room; i++)
        at += (size_t)snprintf(into + at, room - at, "%s%s",
                               !i             ? ""
                               : words[i + 1] ? ", "
                                              : " or ",
                               words[i]);
}

setting_rule setting_rule_of(const setting *s) {
    setting_rule rule = {"a text"};
    size_t room = sizeof rule.text;
    if (s->words)
        words_show(s->words, room, rule.text);
    else if (s->kind == SETTING_FLAG)
        snprintf(rule.text, room, "0 or 1");
    else if (s->kind == SETTING_REAL)
        snprintf(rule.text, room, "a number above %.17g and up to %.17g", s->least, s->most);
    else if (s->kind != SETTING_TEXT)
        snprintf(rule.text, room, "a whole number from %.17g to %.17g", s->least, s->most);
    return rule;
}

static int count_of(const char *const *words) {
    int n = 0;
    while (words[n]) n++;
    return n;
}

/* NaN is in no range. */
static bool number_is_valid(const setting *s, double number) {
    if (s->kind == SETTING_FLAG) return number == 0 || number == 1;
    if (s->kind == SETTING_WORD) return number >= 0 && number < count_of(s->words);
    if (s->kind == SETTING_REAL) return number > s->least && number <= s->most;
    return number >= s->least && number <= s->most;
}

/* The place of a word; -1: it is not there. */
static int place_of(const char *const *words, const char *word) {
    for (int i = 0; words[i]; i++)
        if (strcmp(words[i], word) == 0) return i;
    return -1;
}

/* Whether a field that a caller has filled has a value that the rule allows, or 0. */
static bool is_valid(const setting *s, const void *options) {
    if (s->kind == SETTING_TEXT || !setting_is_set(s, options)) return true;
    if (s->kind == SETTING_DTYPE) return place_of(s->words, dtype_name(CFIELD(weft_dtype, s, options))) >= 0;
    return number_is_valid(s, number_of(s, options));
}

weft_status settings_check(const setting *table, const void *options, const char *what, weft_error *error) {
    for (const setting *s = table; s->name; s++) {
        text value = {0};
        if (is_valid(s, options)) continue;
        setting_write(&value, s, options);
        error_set(error, WEFT_ARGUMENT, "%s: %s=%s: it must be %s%s%s%s", what, s->name,
                  value.data ? value.data : "?", setting_rule_of(s).text,
                  s->otherwise ? " (0, the default, is " : "", s->otherwise ? s->otherwise : "",
                  s->otherwise ? ")" : "");
        free(text_detach(&value));
        return WEFT_ARGUMENT;
    }
    return WEFT_OK;
}

/* ---- writing ---- */

void setting_write(text *t, const setting *s, const void *options) {
    double number = number_of(s, options);
    const char *words;
    switch (s->kind) {
    case SETTING_WORD:
        if (number_is_valid(s, number)) {
            text_add(t, "%s", s->words[(int)number]);
            return;
        }
        break;
    case SETTING_DTYPE:
        text_add(t, "%s", dtype_name(CFIELD(weft_dtype, s, options)));
        return;
    case SETTING_TEXT:
        words = CFIELD(const char *, s, options);
        text_add(t, "%s", words ? words : "");
        return;
    default:
        break;
    }
    if (s->kind == SETTING_REAL)
        real_write(t, number);
    else
        text_add(t, "%lld",
                 (long long)(s->kind == SETTING_COUNT ? CFIELD(int64_t, s, options) : (int64_t)number));
}

/* In quotes where settings_read would not find its end without. There a quote and a backslash stand after
 * a backslash. */
static void text_write(text *t, const char *value) {
    if (!strpbrk(value, " ,\"\\")) {
        text_add(t, "%s", value);
        return;
    }
    text_add(t, "\"");
    for (; *value; value++) text_add(t, *value == '"' || *value == '\\' ? "\\%c" : "%c", *value);
    text_add(t, "\"");
}

void settings_write(text *t, const setting *table, const void *options) {
    for (const setting *s = table; s->name; s++) {
        if (!setting_is_set(s, options)) continue;
        text_add(t, "%s%s=", t->length ? " " : "", s->name);
        if (s->kind == SETTING_TEXT)
            text_write(t, CFIELD(const char *, s, options));
        else
            setting_write(t, s, options);
    }
}

/* ---- reading ---- */

/* Whole numbers have no point and no exponent. */
static bool number_parse(const setting *s, const char *value, double *number) {
    const char *at = value;
    bool is_whole = s->kind != SETTING_REAL;
    if (is_whole && !value[strspn(value, "-0123456789")] && *value) {
        char *end;
        errno = 0;
        long long n = strtoll(value, &end, 10);
        *number = (double)n; /* all ranges end before 2^53 */
        return !*end && !errno && n < ((int64_t)1 << 53) && n > -((int64_t)1 << 53);
    }
    return !is_whole && real_parse(&at, number) && !*at;
}

bool setting_read(const setting *s, const char *value, void *options) {
    double number;
    weft_dtype dtype;
    switch (s->kind) {
    case SETTING_TEXT:
        FIELD(const char *, s, options) = value;
        return true;
    case SETTING_WORD:
        number = place_of(s->words, value);
        break;
    case SETTING_DTYPE:
        if (place_of(s->words, value) < 0 || !dtype_parse(value, strlen(value), &dtype)) return false;
        FIELD(weft_dtype, s, options) = dtype;
        return true;
    default:
        if (!number_parse(s, value, &number)) return false;
    }
    bool is_default = number == 0 && s->otherwise;
    if (!is_default && !number_is_valid(s, number)) return false;
    put_number(s, number, options);
    return true;
}

/* Ends a text in quotes, of which *at is the first character, and undoes its backslashes. False: no quote
 * ends it, or something else than a blank, a comma or the end follows. */
static bool unquote(char **at) {
    char *to = *at, *from = *at;
    for (; *from && *from != '"'; from++) {
        if (*from == '\\' && from[1]) from++;
        *to++ = *from;
    }
    bool is_whole = *from == '"' && (!from[1] || from[1] == ' ' || from[1] == ',');
    *at = from + (*from != 0);
    *to = 0;
    return is_whole;
}

/* Cuts the next NAME=VALUE off; *value NULL: it has none. Moves *at. False: it breaks off in a text;
 * *name NULL: there is no more. */
static bool next_of(char **at, char **name, char **value) {
    char *begin = *at + strspn(*at, " ,"), *end;
    *name = *begin ? begin : NULL;
    if (!*begin) return true;
    size_t n = strcspn(begin, "= ,");
    *value = begin[n] == '=' ? begin + n + 1 : NULL;
    if (*value) begin[n] = 0;
    if (*value && **value == '"') {
        *at = ++*value;
        return unquote(at);
    }
    end = *value ? *value + strcspn(*value, " ,") : begin + n;
    *at = end + (*end != 0);
    *end = 0;
    return true;
}

static weft_status no_setting(const setting *table, const char *name, const char *what, weft_error *error) {
    nearest near = nearest_to(name, strlen(name));
    for (const setting *s = table; s->name; s++) nearest_try(&near, s->name);
    return error_set(error, WEFT_NAME, "%s: there is no setting '%s'%s", what, SHOW(name),
                     nearest_ask(&near).question);
}

static weft_status wrong_value(const setting *s, const char *value, const char *what, weft_error *error) {
    nearest near = nearest_to(value, strlen(value));
    for (int i = 0; s->words && s->words[i]; i++) nearest_try(&near, s->words[i]);
    return error_set(error, WEFT_ARGUMENT, "%s: %s=%s: it must be %s%s", what, s->name, SHOW(value),
                     setting_rule_of(s).text, s->words ? nearest_ask(&near).question : "");
}

weft_status settings_read(const setting *table, char *all, void *options, const char *what,
                          weft_error *error) {
    char *name, *value, *at = all;
    uint64_t seen = 0; /* bit i: setting i of the table was given */
    for (;;) {
        bool is_whole = next_of(&at, &name, &value);
        if (!name) return WEFT_OK;
        if (!is_whole)
            return error_set(error, WEFT_ARGUMENT,
                             "%s: %s: its text in quotes has no end, or more than its end", what, SHOW(name));
        const setting *s = setting_find(table, name, strlen(name));
        if (!s) return no_setting(table, name, what, error);
        /* a flag needs no value */
        if (!value && s->kind == SETTING_FLAG) value = "1";
        if (!value || (s->kind == SETTING_TEXT && !*value))
            return error_set(error, WEFT_ARGUMENT, "%s: %s has no value: it must be %s", what, s->name,
                             setting_rule_of(s).text);
        uint64_t bit = (uint64_t)1 << ((s - table) & 63);
        if (seen & bit) return error_set(error, WEFT_ARGUMENT, "%s: %s is given twice", what, s->name);
        seen |= bit;
        if (!setting_read(s, value, options)) return wrong_value(s, value, what, error);
    }
}
