/* attrs.c - attributes of ops by their tables: checks, compares, hashes, prints and parses the fields of a
 * struct that op->attrs describes. A field that is not given parses as zero; fields that are zero are not
 * printed, except for kinds DTYPE and KEY. */
#include "graph/core/error.h"
#include "graph/core/nearest.h"
#include "graph/core/op.h"
#include "graph/core/own_op.h"
#include "graph/core/table.h"
#include "graph/core/words.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The table of ops whose only attribute is the variable's path. */
const op_attr variable_attr_table[] = {
    {"path", ATTR_STRING, offsetof(variable_attrs, path)},
    {0},
};

/* ---- check ---- */

const op_attr *attr_find(const weft_op *op, const char *name, size_t length) {
    for (const op_attr *f = op->attrs; f && f->name; f++)
        if (word_is(f->name, name, length)) return f;
    return NULL;
}

/* A range of 0 to 0 means any value. Shapes (no upper limit) may hold WEFT_BATCH, which is negative. */
static bool in_range(const op_attr *f, int64_t v) {
    if (f->min == 0 && f->max == 0) return true;
    if (v == WEFT_BATCH && f->max == INT64_MAX) return true;
    return v >= f->min && v <= f->max;
}

/* Fills `why` with the rule that v breaks. */
static void range_text(const op_attr *f, int64_t v, char why[200]) {
    if (f->max == INT64_MAX)
        snprintf(why, 200, "%s=%jd: it must be at least %jd", f->name, v, f->min);
    else
        snprintf(why, 200, "%s=%jd: it must be %jd to %jd", f->name, v, f->min, f->max);
}

/* Strings (patterns, names, paths) are printed in many places, so a graph may hold no bytes that control a
 * terminal. */
static bool is_printable(const char *string) {
    for (const char *p = string; p && *p; p++)
        if (*p < ' ' || *p > '~') return false;
    return true;
}

/* Whether the numbers differ, so that a message about one must name its index. */
static bool is_mixed(const attr_ints *v) {
    for (int i = 1; i < v->n; i++)
        if (v->v[i] != v->v[0]) return true;
    return false;
}

/* Kinds whose field is a string. */
static bool is_text(const op_attr *f) {
    return f->kind == ATTR_STRING || f->kind == ATTR_SCHEDULES;
}

/* `why` has the rule that the numbers break; else it stays. */
static void ints_check(const op_attr *f, const attr_ints *v, char why[200]) {
    if (v->n < 0 || v->n > WEFT_MAX_NDIM)
        snprintf(why, 200, "%s has %d numbers, 0 to %d are allowed", f->name, v->n, WEFT_MAX_NDIM);
    for (int i = 0; !*why && i < v->n; i++) {
        char number[60];
        op_attr one = *f;
        if (in_range(f, v->v[i])) continue;
        snprintf(number, sizeof number, is_mixed(v) ? "%.40s[%d]" : "%.40s", f->name, i);
        one.name = number; /* "kernel[1]=0" */
        range_text(&one, v->v[i], why);
    }
}

/* The same of a number; NaN is in no range. */
static void real_check(const op_attr *f, double v, char why[200]) {
    if (!isfinite(v) && !f->any_real)
        snprintf(why, 200, "%s is not a finite number", f->name);
    else if (f->max && !(v >= (double)f->min && v <= (double)f->max))
        snprintf(why, 200, "%s=%g: it must be %jd to %jd", f->name, v, f->min, f->max);
}

/* Whether the field holds its rules; else `why` has the one that it breaks. */
static bool field_holds(const op_attr *f, const void *attrs, char why[200]) {
    *why = 0;
    if (f->kind == ATTR_INT && !in_range(f, ATTR_FIELD(int64_t, attrs, f)))
        range_text(f, ATTR_FIELD(int64_t, attrs, f), why);
    if (f->kind == ATTR_REAL) real_check(f, ATTR_FIELD(double, attrs, f), why);
    if (f->kind == ATTR_INTS) ints_check(f, &ATTR_FIELD(attr_ints, attrs, f), why);
    if (f->kind == ATTR_DTYPE && dtype_bytes(ATTR_FIELD(weft_dtype, attrs, f)) == 0)
        snprintf(why, 200, "%s is not an element type", f->name);
    if (is_text(f) && !is_printable(ATTR_FIELD(const char *, attrs, f)))
        snprintf(why, 200, "%s='%s': printable ASCII is needed", f->name,
                 SHOW(ATTR_FIELD(const char *, attrs, f)));
    return !*why;
}

const char *attrs_check(const weft_op *op, const void *attrs, char why[200]) {
    for (const op_attr *f = op->attrs; f && f->name; f++)
        if (!field_holds(f, attrs, why)) return why;
    return NULL;
}

/* ---- compare ---- */

size_t attr_width(const op_attr *f) {
    static const size_t widths[] = {[ATTR_INT] = sizeof(int64_t),     [ATTR_REAL] = sizeof(double),
                                    [ATTR_BOOL] = sizeof(bool),       [ATTR_DTYPE] = sizeof(weft_dtype),
                                    [ATTR_INTS] = sizeof(attr_ints),  [ATTR_STRING] = sizeof(const char *),
                                    [ATTR_KEY] = sizeof(uint64_t),    [ATTR_SCHEDULES] = sizeof(const char *),
                                    [ATTR_BYTES] = sizeof(attr_bytes)};
    return widths[f->kind];
}

/* A number's bits; those of every NaN are the same. */
static uint64_t real_bits(double v) {
    uint64_t bits = 0;
    if (!isnan(v)) memcpy(&bits, &v, sizeof bits);
    return isnan(v) ? (uint64_t)0x7ff8 << 48 : bits;
}

/* Numbers bitwise, so that equal attributes have equal hashes; NULL and "" are the same string. */
static bool field_equal(const op_attr *f, const void *a, const void *b) {
    if (is_text(f)) {
        const char *s = ATTR_FIELD(const char *, a, f), *t = ATTR_FIELD(const char *, b, f);
        return strcmp(s ? s : "", t ? t : "") == 0;
    }
    if (f->kind == ATTR_INTS) {
        const attr_ints *v = &ATTR_FIELD(attr_ints, a, f), *w = &ATTR_FIELD(attr_ints, b, f);
        return v->n == w->n && memcmp(v->v, w->v, (size_t)v->n * sizeof v->v[0]) == 0;
    }
    if (f->kind == ATTR_REAL)
        return real_bits(ATTR_FIELD(double, a, f)) == real_bits(ATTR_FIELD(double, b, f));
    if (f->kind == ATTR_BYTES)
        return bytes_equal(&ATTR_FIELD(attr_bytes, a, f), &ATTR_FIELD(attr_bytes, b, f));
    return memcmp((const char *)a + f->offset, (const char *)b + f->offset, attr_width(f)) == 0;
}

const op_attr *attrs_difference(const weft_op *op, const void *a, const void *b) {
    for (const op_attr *f = op->attrs; f && f->name; f++)
        if (!field_equal(f, a, b)) return f;
    return NULL;
}

bool attrs_equal(const weft_op *op, const void *a, const void *b) {
    return !attrs_difference(op, a, b);
}

bool attrs_name_batch(const weft_op *op, const void *attrs) {
    for (const op_attr *f = op->attrs; f && f->name; f++)
        for (int i = 0; f->kind == ATTR_INTS && i < ATTR_FIELD(attr_ints, attrs, f).n; i++)
            if (ATTR_FIELD(attr_ints, attrs, f).v[i] == WEFT_BATCH) return true;
    return false;
}

/* Equal fields have equal hashes; the multiplier 0x9e3779b97f4a7c15 is 2^64 over the golden ratio. */
static uint64_t field_hash(const op_attr *f, const void *attrs) {
    uint64_t h = 0;
    if (is_text(f)) {
        const char *s = ATTR_FIELD(const char *, attrs, f);
        return hash_text(s ? s : "", 0);
    }
    if (f->kind == ATTR_REAL) return real_bits(ATTR_FIELD(double, attrs, f));
    if (f->kind == ATTR_BYTES) return ATTR_FIELD(attr_bytes, attrs, f).hash;
    if (f->kind == ATTR_INTS) {
        const attr_ints *v = &ATTR_FIELD(attr_ints, attrs, f);
        h = (uint64_t)v->n;
        for (int i = 0; i < v->n; i++) h = (h ^ h >> 29) * 0x9e3779b97f4a7c15u + (uint64_t)v->v[i];
        return h;
    }
    memcpy(&h, (const char *)attrs + f->offset, attr_width(f));
    return h;
}

uint64_t attrs_hash(const weft_op *op, const void *attrs) {
    uint64_t h = 0;
    for (const op_attr *f = op->attrs; f && f->name; f++) {
        h = (h + field_hash(f, attrs)) * 0x9e3779b97f4a7c15u;
        h = (h ^ h >> 32) * 0x9e3779b97f4a7c15u; /* small numbers differ in the highest bits of a double */
        h ^= h >> 29;
    }
    return h;
}

bool op_draws_random(const weft_op *op) {
    for (const op_attr *f = op->attrs; f && f->name; f++)
        if (f->kind == ATTR_KEY) return true;
    return false;
}

/* ---- print ---- */

/* WEFT_BATCH prints as B. */
static void int_write(text *t, int64_t v) {
    if (v == WEFT_BATCH)
        text_add(t, "B");
    else
        text_add(t, "%jd", v);
}

void real_write(text *t, double v) {
    char s[40];
    /* 17 digits always suffice for a double. */
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(s, sizeof s, "%.*g", digits, v);
        if (strtod(s, NULL) == v) break;
    }
    for (char *p = s; *p; p++) /* the locale's point may be a comma */
        if (*p == ',') *p = '.';
    text_add(t, "%s", isnan(v) ? "nan" : s);
}

/* Writes quotes, backslashes and control bytes as \xNN, so that no string ends its line or its own quotes. */
static void string_write(text *t, const char *string) {
    text_add(t, "\"");
    for (const char *p = string; *p; p++)
        text_add(t, (unsigned char)*p < 0x20 || *p == '"' || *p == '\\' ? "\\x%02x" : "%c",
                 (unsigned char)*p);
    text_add(t, "\"");
}

/* DTYPE and KEY are always set: 0 is a valid type, and a key of 0 a stream. */
bool attr_is_set(const op_attr *f, const void *attrs) {
    if (f->always) return true;
    switch (f->kind) {
    case ATTR_INT:
        return ATTR_FIELD(int64_t, attrs, f) != 0;
    case ATTR_REAL:
        return ATTR_FIELD(double, attrs, f) != 0;
    case ATTR_BOOL:
        return ATTR_FIELD(bool, attrs, f);
    case ATTR_STRING:
    case ATTR_SCHEDULES:
        return ATTR_FIELD(const char *, attrs, f) != NULL;
    case ATTR_INTS:
        return ATTR_FIELD(attr_ints, attrs, f).n != 0;
    case ATTR_BYTES:
        return ATTR_FIELD(attr_bytes, attrs, f).n != 0;
    case ATTR_DTYPE:
    case ATTR_KEY:
        break;
    }
    return true;
}

static void value_write(text *t, const op_attr *f, const void *attrs) {
    switch (f->kind) {
    case ATTR_INT:
        if (f->words)
            text_add(t, "%s", f->words[ATTR_FIELD(int64_t, attrs, f)]);
        else
            int_write(t, ATTR_FIELD(int64_t, attrs, f));
        return;
    case ATTR_REAL:
        real_write(t, ATTR_FIELD(double, attrs, f));
        return;
    case ATTR_BOOL:
        text_add(t, "1");
        return;
    case ATTR_DTYPE:
        text_add(t, "%s", dtype_name(ATTR_FIELD(weft_dtype, attrs, f)));
        return;
    case ATTR_KEY:
        text_add(t, "0x%jx", ATTR_FIELD(uint64_t, attrs, f));
        return;
    case ATTR_STRING:
    case ATTR_SCHEDULES:
        string_write(t, ATTR_FIELD(const char *, attrs, f));
        return;
    case ATTR_INTS:
        for (int i = 0; i < ATTR_FIELD(attr_ints, attrs, f).n; i++) {
            if (i) text_add(t, ",");
            int_write(t, ATTR_FIELD(attr_ints, attrs, f).v[i]);
        }
        return;
    case ATTR_BYTES:
        if (bytes_are_many(&ATTR_FIELD(attr_bytes, attrs, f)))
            text_add(t, "@%016jx", ATTR_FIELD(attr_bytes, attrs, f).hash);
        else
            bytes_write(t, &ATTR_FIELD(attr_bytes, attrs, f));
        return;
    }
}

void attr_write(text *t, const op_attr *f, const void *attrs) {
    if (!attr_is_set(f, attrs)) return;
    text_add(t, " %s=", f->name);
    value_write(t, f, attrs);
}

void attrs_write(text *t, const weft_op *op, const void *attrs) {
    for (const op_attr *f = op->attrs; f && f->name; f++) attr_write(t, f, attrs);
}

/* ---- parse ---- */

/* A number, or B for WEFT_BATCH; moves *at. */
static bool int_parse(const char **at, int64_t *v) {
    *v = WEFT_BATCH;
    return text_accept(at, "B") || integer_parse(at, v);
}

/* strtod follows the locale but a dump always has '.', so each '.' is replaced by the locale's point
 * first. */
bool real_parse(const char **at, double *v) {
    char s[64], *end, point[8];
    /* These characters include those of "inf" and "nan"; attrs_check rejects both later. */
    size_t n = strspn(*at, "+-0123456789.eEinfa");
    if (n == 0 || n >= sizeof s) return false;
    memcpy(s, *at, n);
    s[n] = 0;
    snprintf(point, sizeof point, "%.1f", 0.5);
    for (char *p = s; *p; p++)
        if (*p == '.') *p = point[1];
    *v = strtod(s, &end);
    if (*end) return false;
    *at += n;
    return true;
}

/* Reads one of the names in `words`; *v is its index. */
static bool word_parse(const char **at, const char *const *words, int64_t *v) {
    size_t n = strspn(*at, "abcdefghijklmnopqrstuvwxyz_");
    *v = word_find(words, *at, n);
    *at += n;
    return *v >= 0;
}

/* "2,2": 1 to WEFT_MAX_NDIM numbers. */
static bool ints_parse(const char **at, attr_ints *v) {
    for (v->n = 0; v->n < WEFT_MAX_NDIM;) {
        if (!int_parse(at, &v->v[v->n++])) return false;
        if (**at != ',') return true;
        ++*at;
    }
    return false;
}

/* Reads a quoted string and undoes the escapes of string_write; \x00 is an error, since it would cut the
 * string short. */
static bool string_parse(const char **at, const char **v, arena *a) {
    size_t n = **at == '"' ? strcspn(*at + 1, "\"\n") : 0;
    if (**at != '"' || (*at)[n + 1] != '"') return false;
    const char *from = *at + 1, *end = from + n;
    char *into = arena_new(a, n + 1);
    if (!into) return false;
    *v = into;
    while (from < end) {
        unsigned byte = (unsigned char)*from;
        if (byte == '\\') {
            if (end - from < 4 || sscanf(from, "\\x%2x", &byte) != 1 || byte == 0) return false;
            from += 3;
        }
        *into++ = (char)byte;
        from++;
    }
    *at = end + 1;
    return true;
}

/* Reads one value into its field and moves *at; false when the text is not a value of the field's kind. */
static bool field_parse(const char **at, const op_attr *f, void *attrs, arena *a) {
    switch (f->kind) {
    case ATTR_INT:
        return f->words ? word_parse(at, f->words, &ATTR_FIELD(int64_t, attrs, f))
                        : int_parse(at, &ATTR_FIELD(int64_t, attrs, f));
    case ATTR_REAL:
        return real_parse(at, &ATTR_FIELD(double, attrs, f));
    case ATTR_BOOL:
        ATTR_FIELD(bool, attrs, f) = **at == '1';
        if (**at != '0' && **at != '1') return false;
        ++*at;
        return true;
    case ATTR_DTYPE: {
        size_t n = strcspn(*at, " \n;}");
        if (!dtype_parse(*at, n, &ATTR_FIELD(weft_dtype, attrs, f))) return false;
        *at += n;
        return true;
    }
    case ATTR_KEY: {
        char *end;
        if ((*at)[0] != '0' || (*at)[1] != 'x') return false;
        ATTR_FIELD(uint64_t, attrs, f) = strtoull(*at, &end, 16);
        *at = end;
        return true;
    }
    case ATTR_STRING:
    case ATTR_SCHEDULES:
        return string_parse(at, &ATTR_FIELD(const char *, attrs, f), a);
    case ATTR_INTS:
        return ints_parse(at, &ATTR_FIELD(attr_ints, attrs, f));
    case ATTR_BYTES:
        if (**at == '@') return bytes_name_parse(at, &ATTR_FIELD(attr_bytes, attrs, f).hash);
        return bytes_parse(at, &ATTR_FIELD(attr_bytes, attrs, f), a);
    }
    return false;
}

/* Where the values are words, lists them; of a text that does not begin as one, says how it does. */
static void say_unreadable(const weft_op *op, const op_attr *f, char first, char why[200]) {
    int n = snprintf(why, 200, "%s: the value of %s cannot be read", op->name, f->name);
    if (is_text(f) && first != '"')
        snprintf(why + n, 200 - (size_t)n, ": it stands in quotation marks, as in %s=\"...\"", f->name);
    for (int i = 0; f->words && f->words[i] && n >= 0 && n < 200; i++)
        n += snprintf(why + n, 200 - (size_t)n, i ? " or %s" : ": %s", f->words[i]);
}

bool attrs_parse(const char **at, const weft_op *op, void *attrs, arena *a, char why[200]) {
    memset(attrs, 0, op->attrs_bytes);
    if (op->own) own_defaults(op->own, attrs);
    return attrs_change(at, " ", op, attrs, a, why);
}

static void say_unknown(const weft_op *op, const char *name, size_t length, char why[200]) {
    nearest near = nearest_to(name, length);
    for (const op_attr *f = op->attrs; f && f->name; f++) nearest_try(&near, f->name);
    snprintf(why, 200, "%s has no attribute '%.*s'%s", op->name, length < 40 ? (int)length : 40, name,
             nearest_ask(&near).question);
}

/* Stops, with true, at the first word that is not `name=...`: the caller reads on from there. A name that the
 * op lacks, a name given twice and an unreadable value are errors. */
bool attrs_change(const char **at, const char *between, const weft_op *op, void *attrs, arena *a,
                  char why[200]) {
    uint64_t seen = 0; /* bit i: field i of the table was given */
    for (;;) {
        const char *p = *at + strspn(*at, between);
        size_t n = strcspn(p, "= \n");
        if (p[n] != '=' || !((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z'))) return true;
        const op_attr *f = attr_find(op, p, n);
        if (!f) {
            say_unknown(op, p, n, why);
            return false;
        }
        uint64_t bit = (uint64_t)1 << ((f - op->attrs) & 63);
        if (seen & bit) {
            snprintf(why, 200, "%s: %s is given twice", op->name, f->name);
            return false;
        }
        seen |= bit;
        p += n + 1;
        if (!field_parse(&p, f, attrs, a)) {
            say_unreadable(op, f, *p, why);
            return false;
        }
        *at = p;
    }
}
