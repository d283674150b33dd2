/* field.c - see weft/field.h. */
#include "graph/settings/field.h"

#include "graph/core/error.h"
#include "graph/core/nearest.h"
#include "graph/core/op.h"
#include "graph/core/words.h"

#include <errno.h>
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The field of the structure. */
#define FIELD(type, f, options) (*(type const *)((const char *)(options) + (f)->offset))

const weft_field *field_find(const weft_field *fields, const char *name, size_t length) {
    for (; fields->name; fields++)
        if (word_is(fields->name, name, length)) return fields;
    return NULL;
}

const weft_field *weft_field_find(const weft_field *fields, const char *name) {
    return fields && name ? field_find(fields, name, strlen(name)) : NULL;
}

/* ---- a field as a number ---- */

static bool is_real(const weft_field *f) {
    return f->kind == WEFT_FIELD_REAL || f->kind == WEFT_FIELD_NUMBER;
}

/* Of all kinds but texts and seeds; a large count is rounded, as ranges are. */
static double number_of(const weft_field *f, const void *options) {
    switch (f->kind) {
    case WEFT_FIELD_FLAG:
        return FIELD(bool, f, options);
    case WEFT_FIELD_COUNT:
        return (double)FIELD(int64_t, f, options);
    case WEFT_FIELD_REAL:
    case WEFT_FIELD_NUMBER:
        return FIELD(double, f, options);
    case WEFT_FIELD_INT:
    case WEFT_FIELD_WORD:
    case WEFT_FIELD_DTYPE: /* enums are as wide as int */
        return FIELD(int, f, options);
    case WEFT_FIELD_SEED:
    case WEFT_FIELD_TEXT:
        break;
    }
    return 0;
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
    if (f->kind == WEFT_FIELD_SEED) return FIELD(uint64_t, f, options) != 0;
    if (f->kind != WEFT_FIELD_TEXT) return number_of(f, options) != 0;
    const char *value = FIELD(const char *, f, options);
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
static int place_of(const weft_field *f, const char *word) {
    return f->words ? word_find(f->words, word, strlen(word)) : -1;
}

static bool has_word(const weft_field *f, const char *word) {
    return !f->words || place_of(f, word) >= 0;
}

/* Whether the rule allows its value, which is set. */
static bool value_is_valid(const weft_field *f, const void *options) {
    if (f->kind == WEFT_FIELD_SEED) return true;
    if (f->kind == WEFT_FIELD_TEXT) return has_word(f, FIELD(const char *, f, options));
    if (f->kind == WEFT_FIELD_DTYPE) {
        weft_dtype dtype = FIELD(weft_dtype, f, options);
        return dtype_bytes(dtype) && has_word(f, dtype_name(dtype));
    }
    return number_is_valid(f, number_of(f, options));
}

weft_status weft_fields_check(const weft_field *fields, const void *options, const char *what,
                              weft_error *error) {
    if (!fields || !options || !what)
        return error_set(error, WEFT_ARGUMENT, "weft_fields_check: fields, options and a head are needed");
    const weft_field *end = fields;
    while (end->name) end++;
    size_t reserved = (size_t)end->least;
    /* first, since in a structure that nobody has set to zeros the other fields are anything, too */
    if (reserved &&
        reserved_check((const void *)((const char *)options + reserved), end->offset - reserved, what, error))
        return WEFT_ARGUMENT;
    for (const weft_field *f = fields; f->name; f++) {
        text value = {0};
        bool has_default = f->otherwise && strcmp(f->otherwise, "0");
        if (!weft_field_is_set(f, options) || value_is_valid(f, options)) continue;
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
        text_add(t, "%s", dtype_name(FIELD(weft_dtype, f, options)));
    } else if (f->kind == WEFT_FIELD_TEXT) {
        value = FIELD(const char *, f, options);
        text_add(t, "%s", value ? value : "");
    } else if (f->kind == WEFT_FIELD_SEED) {
        text_add(t, "%ju", FIELD(uint64_t, f, options));
    } else if (is_real(f)) {
        real_write(t, number == WEFT_ZERO ? 0 : number);
    } else if (f->kind == WEFT_FIELD_COUNT) {
        text_add(t, "%jd", FIELD(int64_t, f, options));
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

char *weft_fields_text(const weft_field *fields, const void *options) {
    text t = {0};
    for (const weft_field *f = options ? fields : NULL; f && f->name; f++) {
        if (!weft_field_is_set(f, options)) continue;
        text_add(&t, "%s%s=", t.length ? " " : "", f->name);
        if (f->kind == WEFT_FIELD_TEXT)
            text_write(&t, FIELD(const char *, f, options));
        else
            field_write(&t, f, options);
    }
    return text_detach(&t);
}

/* ---- reading ---- */

/* The widest value, at offset 0. */
typedef union any_value {
    bool flag;
    int number;
    int64_t count;
    uint64_t seed;
    double real;
    weft_dtype dtype;
    const char *text;
} any_value;

/* Whole numbers have no point and no exponent. */
static bool whole_parse(const char *text, int64_t *whole) {
    char *end;
    errno = 0;
    *whole = strtoll(text, &end, 10);
    return *text && !text[strspn(text, "-0123456789")] && !*end && !errno;
}

static bool seed_parse(const char *value, uint64_t *seed) {
    char *end;
    errno = 0;
    *seed = strtoull(value, &end, 10);
    return *value >= '0' && *value <= '9' && !*end && !errno;
}

/* Whether the text is a value of the field's kind, in its range or not. */
static bool value_parse(const weft_field *f, const char *text, any_value *v) {
    int64_t whole = 0;
    const char *at = text;
    switch (f->kind) {
    case WEFT_FIELD_TEXT:
        v->text = text;
        return true;
    case WEFT_FIELD_DTYPE:
        return dtype_parse(text, strlen(text), &v->dtype);
    case WEFT_FIELD_SEED:
        return seed_parse(text, &v->seed);
    case WEFT_FIELD_WORD:
        v->number = place_of(f, text);
        return true;
    case WEFT_FIELD_REAL:
    case WEFT_FIELD_NUMBER:
        if (!real_parse(&at, &v->real) || *at) return false;
        if (v->real == 0 && f->kind == WEFT_FIELD_NUMBER) v->real = WEFT_ZERO;
        return true;
    case WEFT_FIELD_COUNT:
        return whole_parse(text, &v->count);
    case WEFT_FIELD_INT:
        if (!whole_parse(text, &whole) || whole != (int)whole) return false;
        v->number = (int)whole;
        return true;
    case WEFT_FIELD_FLAG:
        if (!whole_parse(text, &whole) || whole < 0 || whole > 1) return false;
        v->flag = whole != 0;
        return true;
    }
    return false;
}

/* A 0 may stand for another default, whatever the range. */
bool field_read(const weft_field *f, const char *text, void *options) {
    any_value v = {0};
    weft_field apart = *f;
    apart.offset = 0;
    if (!value_parse(f, text, &v)) return false;
    bool is_number = f->kind != WEFT_FIELD_TEXT && f->kind != WEFT_FIELD_DTYPE;
    bool is_default = is_number && f->otherwise && !weft_field_is_set(&apart, &v);
    if (!is_default && !value_is_valid(&apart, &v)) return false;
    memcpy((char *)options + f->offset, &v, field_width(f));
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
    weft_field apart = *f;
    apart.offset = 0;
    if (!field_set(&apart, value, &scratch, what, error)) return WEFT_ARGUMENT;
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
