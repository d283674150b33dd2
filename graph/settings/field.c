/* field.c - see weft/field.h. */
#include "graph/settings/field.h"

#include "graph/core/error.h"
#include "graph/core/nearest.h"
#include "graph/core/op.h"

#include <errno.h>
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The field of the structure, as an lvalue of `type`. */
#define FIELD(type, f, options)  (*(type *)((char *)(options) + (f)->offset))
#define CFIELD(type, f, options) (*(type const *)((const char *)(options) + (f)->offset))

const weft_field *field_find(const weft_field *fields, const char *name, size_t length) {
    for (; fields->name; fields++)
        if (strlen(fields->name) == length && memcmp(fields->name, name, length) == 0) return fields;
    return NULL;
}

const weft_field *weft_field_find(const weft_field *fields, const char *name) {
    return fields && name ? field_find(fields, name, strlen(name)) : NULL;
}

/* ---- a field as a number ---- */

static bool is_real(const weft_field *f) {
    return f->kind == WEFT_FIELD_REAL || f->kind == WEFT_FIELD_NUMBER;
}

/* A number that was read: as both, where it is whole. */
typedef struct number {
    double real;
    int64_t whole;
} number;

/* Of all kinds but texts and seeds; a large count is rounded, as ranges are. */
static double number_of(const weft_field *f, const void *options) {
    switch (f->kind) {
    case WEFT_FIELD_FLAG:
        return CFIELD(bool, f, options);
    case WEFT_FIELD_COUNT:
        return (double)CFIELD(int64_t, f, options);
    case WEFT_FIELD_REAL:
    case WEFT_FIELD_NUMBER:
        return CFIELD(double, f, options);
    case WEFT_FIELD_INT:
    case WEFT_FIELD_WORD:
    case WEFT_FIELD_DTYPE: /* enums are as wide as int */
        return CFIELD(int, f, options);
    case WEFT_FIELD_SEED:
    case WEFT_FIELD_TEXT:
        break;
    }
    return 0;
}

static void put_number(const weft_field *f, number n, void *options) {
    switch (f->kind) {
    case WEFT_FIELD_FLAG:
        FIELD(bool, f, options) = n.whole != 0;
        return;
    case WEFT_FIELD_COUNT:
        FIELD(int64_t, f, options) = n.whole;
        return;
    case WEFT_FIELD_REAL:
        FIELD(double, f, options) = n.real;
        return;
    case WEFT_FIELD_NUMBER:
        FIELD(double, f, options) = n.real == 0 ? WEFT_ZERO : n.real;
        return;
    case WEFT_FIELD_INT:
    case WEFT_FIELD_WORD:
    case WEFT_FIELD_DTYPE:
        FIELD(int, f, options) = (int)n.whole;
        return;
    case WEFT_FIELD_SEED:
    case WEFT_FIELD_TEXT:
        return;
    }
}

size_t field_width(const weft_field *f) {
    static const size_t widths[] = {
        [WEFT_FIELD_FLAG] = sizeof(bool),     [WEFT_FIELD_INT] = sizeof(int),
        [WEFT_FIELD_COUNT] = sizeof(int64_t), [WEFT_FIELD_SEED] = sizeof(uint64_t),
        [WEFT_FIELD_REAL] = sizeof(double),   [WEFT_FIELD_NUMBER] = sizeof(double),
        [WEFT_FIELD_WORD] = sizeof(int),      [WEFT_FIELD_DTYPE] = sizeof(int),
        [WEFT_FIELD_TEXT] = sizeof(char *)};
    return (unsigned)f->kind < sizeof widths / sizeof *widths ? widths[f->kind] : SIZE_MAX;
}

bool weft_field_is_set(const weft_field *f, const void *options) {
    if (!f || !options) return false;
    if (f->kind == WEFT_FIELD_SEED) return CFIELD(uint64_t, f, options) != 0;
    if (f->kind != WEFT_FIELD_TEXT) return number_of(f, options) != 0;
    const char *value = CFIELD(const char *, f, options);
    return value && *value;
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

/* Up to FLT_MAX is all that f32 holds. */
static void real_rule(const weft_field *f, size_t room, char *into) {
    bool is_open = f->kind == WEFT_FIELD_REAL, is_endless = f->most >= FLT_MAX;
    const char *rule = is_open && is_endless ? "a number above %.17g that f32 holds"
                       : is_endless          ? "a number from %.17g on that f32 holds"
                       : is_open             ? "a number above %.17g and up to %.17g"
                                             : "a number from %.17g to %.17g";
    snprintf(into, room, rule, f->least, f->most);
}

field_rule field_rule_of(const weft_field *f) {
    field_rule rule = {"a text"};
    size_t room = sizeof rule.text;
    if (f->words)
        words_show(f->words, room, rule.text);
    else if (f->kind == WEFT_FIELD_FLAG)
        snprintf(rule.text, room, f->least ? "1, or be left out" : "0 or 1");
    else if (is_real(f))
        real_rule(f, room, rule.text);
    else if (f->kind == WEFT_FIELD_SEED)
        snprintf(rule.text, room, "a whole number from 0 to 2^64 - 1");
    else if (f->kind == WEFT_FIELD_DTYPE)
        snprintf(rule.text, room, "an element type, such as f32");
    else if (f->kind != WEFT_FIELD_TEXT && f->most < WEFT_COUNT_MOST)
        snprintf(rule.text, room, "a whole number from %.0f to %.0f", f->least, f->most);
    else if (f->kind != WEFT_FIELD_TEXT)
        snprintf(rule.text, room, "a whole number from %.0f on", f->least);
    return rule;
}

static int count_of(const char *const *words) {
    int n = 0;
    while (words && words[n]) n++;
    return n;
}

/* NaN is in no range. */
static bool number_is_valid(const weft_field *f, double number) {
    if (f->kind == WEFT_FIELD_FLAG) return number == 1 || (number == 0 && !f->least);
    if (f->kind == WEFT_FIELD_WORD) return number >= 0 && number < count_of(f->words);
    if (f->kind == WEFT_FIELD_REAL) return number > f->least && number <= f->most;
    if (f->kind == WEFT_FIELD_NUMBER && number == WEFT_ZERO) number = 0;
    return number >= f->least && number <= f->most;
}

/* The place of a word; -1: it is not there. */
static int place_of(const char *const *words, const char *word) {
    for (int i = 0; words && words[i]; i++)
        if (strcmp(words[i], word) == 0) return i;
    return -1;
}

static bool has_word(const weft_field *f, const char *word) {
    return !f->words || place_of(f->words, word) >= 0;
}

/* Whether a field that a caller has filled has a value that the rule allows, or is not set. */
static bool is_valid(const weft_field *f, const void *options) {
    if (!weft_field_is_set(f, options) || f->kind == WEFT_FIELD_SEED) return true;
    if (f->kind == WEFT_FIELD_TEXT) return has_word(f, CFIELD(const char *, f, options));
    if (f->kind == WEFT_FIELD_DTYPE) {
        weft_dtype dtype = CFIELD(weft_dtype, f, options);
        return dtype_bytes(dtype) && has_word(f, dtype_name(dtype));
    }
    return number_is_valid(f, number_of(f, options));
}

weft_status weft_fields_check(const weft_field *fields, const void *options, const char *what,
                              weft_error *error) {
    if (!fields || !options || !what)
        return error_set(error, WEFT_ARGUMENT, "weft_fields_check: fields, options and a head are needed");
    for (const weft_field *f = fields; f->name; f++) {
        text value = {0};
        bool has_default = f->otherwise && strcmp(f->otherwise, "0");
        if (is_valid(f, options)) continue;
        field_write(&value, f, options);
        const char *default_is = f->kind == WEFT_FIELD_TEXT ? " (left out, it is " : " (0, the default, is ";
        error_set(error, WEFT_ARGUMENT, "%s: %s=%s: it must be %s%s%s%s", what, f->name,
                  value.data ? SHOW(value.data) : "?", field_rule_of(f).text, has_default ? default_is : "",
                  has_default ? f->otherwise : "", has_default ? ")" : "");
        free(text_detach(&value));
        return WEFT_ARGUMENT;
    }
    return WEFT_OK;
}

/* ---- writing ---- */

void field_write(text *t, const weft_field *f, const void *options) {
    double number = number_of(f, options);
    const char *value;
    if (f->kind == WEFT_FIELD_WORD && number_is_valid(f, number)) {
        text_add(t, "%s", f->words[(int)number]);
    } else if (f->kind == WEFT_FIELD_DTYPE) {
        text_add(t, "%s", dtype_name(CFIELD(weft_dtype, f, options)));
    } else if (f->kind == WEFT_FIELD_TEXT) {
        value = CFIELD(const char *, f, options);
        text_add(t, "%s", value ? value : "");
    } else if (f->kind == WEFT_FIELD_SEED) {
        text_add(t, "%llu", (unsigned long long)CFIELD(uint64_t, f, options));
    } else if (is_real(f)) {
        real_write(t, number == WEFT_ZERO ? 0 : number);
    } else if (f->kind == WEFT_FIELD_COUNT) {
        text_add(t, "%lld", (long long)CFIELD(int64_t, f, options));
    } else {
        text_add(t, "%d", (int)number);
    }
}

/* In quotes where weft_fields_read would not find its end without. There a quote and a backslash stand after
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

void fields_write(text *t, const weft_field *fields, const void *options) {
    for (const weft_field *f = fields; f->name; f++) {
        if (!weft_field_is_set(f, options)) continue;
        text_add(t, "%s%s=", t->length ? " " : "", f->name);
        if (f->kind == WEFT_FIELD_TEXT)
            text_write(t, CFIELD(const char *, f, options));
        else
            field_write(t, f, options);
    }
}

char *weft_fields_text(const weft_field *fields, const void *options) {
    text t = {0};
    if (fields && options) fields_write(&t, fields, options);
    if (!t.length) text_add(&t, "%s", "");
    return text_detach(&t);
}

/* ---- reading ---- */

/* Whole numbers have no point and no exponent. */
static bool number_parse(const weft_field *f, const char *value, number *n) {
    const char *at = value;
    if (is_real(f)) return real_parse(&at, &n->real) && !*at;
    if (!*value || value[strspn(value, "-0123456789")]) return false;
    char *end;
    errno = 0;
    n->whole = strtoll(value, &end, 10);
    n->real = (double)n->whole;
    return !*end && !errno;
}

static bool seed_parse(const char *value, uint64_t *seed) {
    char *end;
    errno = 0;
    *seed = strtoull(value, &end, 10);
    return *value >= '0' && *value <= '9' && !*end && !errno;
}

bool field_read(const weft_field *f, const char *value, void *options) {
    number n = {0};
    weft_dtype dtype;
    uint64_t seed;
    switch (f->kind) {
    case WEFT_FIELD_TEXT:
        if (!has_word(f, value)) return false;
        FIELD(const char *, f, options) = value;
        return true;
    case WEFT_FIELD_DTYPE:
        if (!has_word(f, value) || !dtype_parse(value, strlen(value), &dtype)) return false;
        FIELD(weft_dtype, f, options) = dtype;
        return true;
    case WEFT_FIELD_SEED:
        if (!seed_parse(value, &seed)) return false;
        FIELD(uint64_t, f, options) = seed;
        return true;
    case WEFT_FIELD_WORD:
        n.whole = place_of(f->words, value);
        n.real = (double)n.whole;
        break;
    default:
        if (!number_parse(f, value, &n)) return false;
    }
    bool is_default = n.real == 0 && f->otherwise && f->kind != WEFT_FIELD_NUMBER;
    if (!is_default && !number_is_valid(f, n.real)) return false;
    put_number(f, n, options);
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

/* With the nearest name, and all names of a short table. */
static weft_status no_field(const weft_field *fields, const char *name, const char *what, weft_error *error) {
    enum { FEW = 10 };
    int n = 0;
    text all = {0};
    nearest near = nearest_to(name, strlen(name));
    for (const weft_field *f = fields; f->name; f++, n++) {
        nearest_try(&near, f->name);
        text_add(&all, "%s%s", n ? ", " : "", f->name);
    }
    char *names = text_detach(&all);
    near_text ask = nearest_ask(&near);
    bool lists = names && n <= FEW;
    error_set(error, WEFT_NAME, "%s: there is no option '%s'%s%s%s%s", what, SHOW(name), ask.question,
              lists ? ask.there : "", lists ? " are " : "", lists ? names : "");
    free(names);
    return WEFT_NAME;
}

/* Whether a 0 is a value of it, or says what leaving it out does: "clip_norm=0". */
static bool takes_zero(const weft_field *f) {
    return f->words || f->kind == WEFT_FIELD_SEED || number_is_valid(f, 0) ||
           (f->otherwise && strcmp(f->otherwise, "0") == 0);
}

bool field_take(const weft_field *f, const char *value, void *options) {
    return field_read(f, value, options) && (weft_field_is_set(f, options) || takes_zero(f));
}

bool field_set(const weft_field *f, const char *value, void *options, const char *what, weft_error *error) {
    if (field_take(f, value, options)) return true;
    nearest near = nearest_to(value, strlen(value));
    for (int i = 0; f->words && f->words[i]; i++) nearest_try(&near, f->words[i]);
    return !error_set(error, WEFT_ARGUMENT, "%s%s%s=%s: it must be %s%s", what ? what : "", what ? ": " : "",
                      f->name, SHOW(value), field_rule_of(f).text,
                      f->words ? nearest_ask(&near).question : "");
}

enum { MOST_FIELDS = 64 /* of a table, as `seen` has a bit for each */ };

/* What a text says of its fields, before anything is written. */
typedef struct said {
    int n;
    uint64_t seen; /* bit i: field i of the table */
    const weft_field *fields[MOST_FIELDS];
    const char *values[MOST_FIELDS];
} said;

/* The widest value, to try a text on. */
typedef union any_value {
    uint64_t seed;
    double number;
    const char *text;
} any_value;

static weft_status say_field(said *all, const weft_field *fields, const char *name, const char *value,
                             const char *what, weft_error *error) {
    const weft_field *f = field_find(fields, name, strlen(name));
    any_value scratch;
    if (!f) return no_field(fields, name, what, error);
    if (f - fields >= MOST_FIELDS)
        return error_set(error, WEFT_ARGUMENT, "%s: %s: a table has at most 64 fields", what, f->name);
    if (!value && f->kind == WEFT_FIELD_FLAG) value = "1";
    if (!value || (f->kind == WEFT_FIELD_TEXT && !*value))
        return error_set(error, WEFT_ARGUMENT, "%s: %s has no value: it must be %s", what, f->name,
                         field_rule_of(f).text);
    uint64_t bit = (uint64_t)1 << (f - fields);
    if (all->seen & bit) return error_set(error, WEFT_ARGUMENT, "%s: %s is given twice", what, f->name);
    weft_field at_scratch = *f;
    at_scratch.offset = 0;
    if (!field_set(&at_scratch, value, &scratch, what, error)) return WEFT_ARGUMENT;
    all->seen |= bit;
    all->fields[all->n] = f;
    all->values[all->n++] = value;
    return WEFT_OK;
}

weft_status weft_fields_read(const weft_field *fields, char *text, void *options, const char *what,
                             weft_error *error) {
    said all = {0};
    char *name, *value, *at = text;
    if (error) *error = (weft_error){0};
    if (!fields || !text || !options || !what)
        return error_set(error, WEFT_ARGUMENT, "weft_fields_read: fields, a text and options are needed");
    for (;;) {
        bool is_whole = next_of(&at, &name, &value);
        if (!name) break;
        if (!is_whole)
            return error_set(error, WEFT_ARGUMENT,
                             "%s: %s: its text in quotes has no end, or more than its end", what, SHOW(name));
        weft_status status = say_field(&all, fields, name, value, what, error);
        if (status) return status;
    }
    for (int i = 0; i < all.n; i++) field_read(all.fields[i], all.values[i], options);
    return WEFT_OK;
}
