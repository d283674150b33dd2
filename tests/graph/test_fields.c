/* test_fields.c - every table of fields (weft/field.h): each row is read from text into its field and nothing
 * else, written as it was read, and refused outside its range, in a text and in a structure. */
#include "tests/support/test.h"

#include "weft/weft.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of every structure, which is smaller than ROOM. */
enum { ROOM = 4096 };
#define TABLE(structure, fields)                                                                             \
    { #structure, sizeof(structure), fields }
static const struct table {
    const char *name;
    size_t bytes;
    const weft_field *(*fields)(void);
} tables[] = {
    TABLE(weft_compile_options, weft_compile_fields),
    TABLE(weft_optimizer, weft_optimizer_fields),
    TABLE(weft_schedule, weft_schedule_fields),
    TABLE(weft_trainer_options, weft_trainer_fields),
    TABLE(weft_trainer_checkpoints, weft_trainer_checkpoints_fields),
    TABLE(weft_checkpoint_options, weft_checkpoint_fields),
    TABLE(weft_comm_options, weft_comm_fields),
    TABLE(weft_source_options, weft_source_fields),
    TABLE(weft_samples, weft_samples_fields),
    TABLE(weft_loader_options, weft_loader_fields),
    TABLE(weft_preprocess_options, weft_preprocess_fields),
};
enum { TABLES = sizeof tables / sizeof *tables };

static size_t width_of(const weft_field *f) {
    static const size_t widths[] = {
        [WEFT_FIELD_FLAG] = sizeof(bool),     [WEFT_FIELD_INT] = sizeof(int),
        [WEFT_FIELD_COUNT] = sizeof(int64_t), [WEFT_FIELD_SEED] = sizeof(uint64_t),
        [WEFT_FIELD_REAL] = sizeof(double),   [WEFT_FIELD_NUMBER] = sizeof(double),
        [WEFT_FIELD_WORD] = sizeof(int),      [WEFT_FIELD_DTYPE] = sizeof(int),
        [WEFT_FIELD_TEXT] = sizeof(char *)};
    return widths[f->kind];
}

static bool is_real(const weft_field *f) {
    return f->kind == WEFT_FIELD_REAL || f->kind == WEFT_FIELD_NUMBER;
}

/* A value that is not the default, and the last that it may have, as they are written. */
static void value_show(const weft_field *f, bool is_last, size_t room, char *into) {
    int last = 0;
    while (f->words && f->words[last + 1]) last++;
    double least = f->least < -1e9 ? 0 : f->least, first = least == 0 ? 1 : least;
    if (f->words)
        snprintf(into, room, "%s", f->words[is_last || !last ? last : 1]);
    else if (f->kind == WEFT_FIELD_TEXT)
        snprintf(into, room, is_last ? "\"a b,c=\\\"d\\\\\"" : "abc");
    else if (f->kind == WEFT_FIELD_SEED)
        snprintf(into, room, is_last ? "18446744073709551615" : "7");
    else if (f->kind == WEFT_FIELD_DTYPE)
        snprintf(into, room, is_last ? "bf16" : "i64");
    else if (is_real(f) && is_last)
        snprintf(into, room, f->most >= 1e9 ? "1e+09" : "%.17g", f->most);
    else if (f->most >= WEFT_COUNT_MOST && is_last)
        snprintf(into, room, "%lld", (long long)INT64_MAX);
    else
        snprintf(into, room, "%.17g", is_last ? f->most : is_real(f) ? least + 0.5 : first);
}

/* Reads "NAME=VALUE" into a structure of zeroes; the text that it points into is static. */
static weft_status read_one(const weft_field *fields, const char *one, unsigned char structure[ROOM],
                            weft_error *e) {
    static char text[ROOM];
    snprintf(text, sizeof text, "%s", one);
    memset(structure, 0, ROOM);
    return weft_fields_read(fields, text, structure, "options", e);
}

static bool is_zero(const unsigned char *bytes, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (bytes[i]) return false;
    return true;
}

/* ---- each row ---- */

static void check_row(const struct table *t, const weft_field *f, bool is_last) {
    static unsigned char structure[ROOM];
    char value[80], one[160];
    weft_error e = {0};
    size_t end = f->offset + width_of(f);
    value_show(f, is_last, sizeof value, value);
    snprintf(one, sizeof one, "%s=%s", f->name, value);
    CHECK_SAYS(end <= t->bytes, "%s.%s is not within it", t->name, f->name);
    if (!CHECK_SAYS(read_one(t->fields(), one, structure, &e) == WEFT_OK, "%s: %s: %s", t->name, one, e.text))
        return;
    CHECK_SAYS(is_zero(structure, f->offset) && is_zero(structure + end, ROOM - end) &&
                   weft_field_is_set(f, structure),
               "%s: %s sets other bytes than the field's", t->name, one);
    CHECK_SAYS(weft_fields_check(t->fields(), structure, "options", &e) == WEFT_OK, "%s: %s", t->name,
               e.text);
    char *again = weft_fields_text(t->fields(), structure);
    CHECK_SAYS(again && strcmp(again, one) == 0, "%s: '%s' became '%s'", t->name, one, again ? again : "");
    weft_text_free(again);
}

TEST(each_field_is_read_and_written_alone) {
    int n = 0;
    for (const struct table *t = tables; t < tables + TABLES; t++)
        for (const weft_field *f = t->fields(); f->name; f++, n++)
            for (int last = 0; last < 2; last++) check_row(t, f, last);
    CHECK_SAYS(n > 100, "%d fields", n);
}

TEST(all_fields_of_a_structure_are_one_text) {
    static unsigned char structure[ROOM];
    for (const struct table *t = tables; t < tables + TABLES; t++)
        for (int last = 0; last < 2; last++) {
            char all[ROOM] = "", value[80];
            weft_error e = {0};
            for (const weft_field *f = t->fields(); f->name; f++) {
                size_t n = strlen(all);
                value_show(f, last, sizeof value, value);
                snprintf(all + n, sizeof all - n, "%s%s=%s", n ? " " : "", f->name, value);
            }
            CHECK_SAYS(read_one(t->fields(), all, structure, &e) == WEFT_OK, "%s: %s", t->name, e.text);
            char *again = weft_fields_text(t->fields(), structure);
            CHECK_TEXT(again, all);
            weft_text_free(again);
        }
}

TEST(a_table_names_each_field_once) {
    for (const struct table *t = tables; t < tables + TABLES; t++)
        for (const weft_field *f = t->fields(); f->name; f++) {
            CHECK_SAYS(weft_field_find(t->fields(), f->name) == f, "%s.%s stands twice", t->name, f->name);
            CHECK_SAYS(f - t->fields() < 64, "%s: a text has a bit for 64 fields", t->name);
        }
    CHECK(!weft_field_find(weft_compile_fields(), "own_strategy") && !weft_field_find(NULL, "batch") &&
          !weft_field_find(weft_compile_fields(), NULL));
}

/* ---- values outside the range ---- */

/* Texts that the field must refuse; how many. */
static int wrong_values(const weft_field *f, char into[4][40]) {
    int n = 0;
    if (f->kind == WEFT_FIELD_TEXT && !f->words) return 0;
    snprintf(into[n++], 40, "fifty");
    if (f->words || f->kind == WEFT_FIELD_DTYPE) return n;
    if (f->kind == WEFT_FIELD_FLAG) return snprintf(into[n++], 40, "2"), n;
    if (f->kind == WEFT_FIELD_SEED) return snprintf(into[n++], 40, "-1"), n;
    snprintf(into[n++], 40, "nan");
    if (f->least > -1e9)
        snprintf(into[n++], 40, "%.17g", f->least - (f->least == 0 || f->least == 1 ? 2 : 1));
    if (f->most < WEFT_COUNT_MOST) snprintf(into[n++], 40, "%.17g", f->most * 2 + 1);
    return n;
}

TEST(each_field_refuses_what_it_may_not_be) {
    static unsigned char structure[ROOM];
    for (const struct table *t = tables; t < tables + TABLES; t++)
        for (const weft_field *f = t->fields(); f->name; f++) {
            char values[4][40], one[120], head[80];
            snprintf(head, sizeof head, "options: %s=", f->name);
            for (int i = wrong_values(f, values); i-- > 0;) {
                weft_error e = {0};
                snprintf(one, sizeof one, "%s=%s", f->name, values[i]);
                weft_status status = read_one(t->fields(), one, structure, &e);
                CHECK_SAYS(status == WEFT_ARGUMENT && strstr(e.text, head) && is_zero(structure, ROOM),
                           "%s: %s: %d '%s'", t->name, one, status, e.text);
            }
        }
}

/* A 0 is a value where it is in the range, or where the default is 0; else it would mean something else than
 * it says. */
TEST(a_zero_that_stands_for_another_default_is_refused) {
    static unsigned char structure[ROOM];
    for (const struct table *t = tables; t < tables + TABLES; t++)
        for (const weft_field *f = t->fields(); f->name; f++) {
            char one[120];
            weft_error e = {0};
            bool is_number =
                f->kind != WEFT_FIELD_TEXT && f->kind != WEFT_FIELD_WORD && f->kind != WEFT_FIELD_DTYPE;
            bool is_in_range = f->kind == WEFT_FIELD_REAL ? f->least < 0 : f->least <= 0;
            bool is_off = f->otherwise && strcmp(f->otherwise, "0") == 0;
            if (!is_number || (f->kind == WEFT_FIELD_FLAG && f->least)) continue;
            snprintf(one, sizeof one, "%s=0", f->name);
            weft_status status = read_one(t->fields(), one, structure, &e);
            CHECK_SAYS((status == WEFT_OK) == (is_in_range || is_off), "%s: %s: %d '%s'", t->name, one,
                       status, e.text);
        }
}

TEST(the_row_that_ends_a_table_has_the_size_of_the_structure) {
    for (const struct table *t = tables; t < tables + TABLES; t++) {
        const weft_field *f = t->fields();
        while (f->name) f++;
        CHECK_SAYS(f->offset == t->bytes, "%s: %zu, not %zu", t->name, f->offset, t->bytes);
    }
}

/* What a program sets that was compiled for a later version: any word of `reserved`. */
TEST(a_field_of_a_later_version_is_refused) {
    static unsigned char structure[ROOM];
    for (const struct table *t = tables; t < tables + TABLES; t++)
        for (int word = 1; word <= WEFT_RESERVED; word++) {
            weft_error e = {0};
            memset(structure, 0, sizeof structure);
            CHECK(!weft_fields_check(t->fields(), structure, "options", &e));
            structure[t->bytes - (size_t)word * sizeof(uint64_t) + 3] = 1;
            CHECK_SAYS(weft_fields_check(t->fields(), structure, "options", &e) == WEFT_ARGUMENT &&
                           strstr(e.text, "options: words of `reserved` are not 0"),
                       "%s: '%s'", t->name, e.text);
        }
}

/* As a program may fill it: the numbers next to the range. */
static bool put_wrong(const weft_field *f, bool is_above, unsigned char *structure) {
    double number = is_above ? f->most + 1 : f->least == 1 ? -1 : f->least - 1; /* never 0 */
    int64_t whole = (int64_t)number;
    int narrow = (int)whole;
    double real = is_above ? f->most * 2 : f->least == 1 ? 0.5 : f->least - 1;
    const void *from = f->kind == WEFT_FIELD_INT     ? (const void *)&narrow
                       : f->kind == WEFT_FIELD_COUNT ? (const void *)&whole
                                                     : (const void *)&real;
    bool has_range = f->kind == WEFT_FIELD_INT || f->kind == WEFT_FIELD_COUNT || is_real(f);
    double endless = f->kind == WEFT_FIELD_INT ? INT32_MAX : WEFT_COUNT_MOST;
    bool has_end = is_above ? f->most < endless : f->least > (is_real(f) ? -FLT_MAX : INT32_MIN);
    if (has_range && has_end) memcpy(structure + f->offset, from, width_of(f));
    return has_range && has_end;
}

TEST(a_structure_with_a_number_outside_its_range_is_refused) {
    static unsigned char structure[ROOM];
    for (const struct table *t = tables; t < tables + TABLES; t++)
        for (const weft_field *f = t->fields(); f->name; f++)
            for (int above = 0; above < 2; above++) {
                weft_error e = {0};
                char head[80];
                snprintf(head, sizeof head, "options: %s=", f->name);
                memset(structure, 0, sizeof structure);
                if (!put_wrong(f, above, structure)) continue;
                CHECK_SAYS(weft_fields_check(t->fields(), structure, "options", &e) == WEFT_ARGUMENT &&
                               strstr(e.text, head) && strstr(e.text, "it must be"),
                           "%s.%s: '%s'", t->name, f->name, e.text);
            }
}

/* ---- texts ---- */

TEST(a_text_says_what_it_cannot_mean) {
    static const struct {
        const char *text, *error;
    } rows[] = {
        {"batch=64, zero=1,serial", NULL},
        {"  ", NULL},
        {"strategy=\"zero:stage=2,shard=flat\" isa=sse2", NULL},
        {"strategy=\"zero", "strategy: its text in quotes has no end"},
        {"strategy=\"zero\"serial", "strategy: its text in quotes has no end, or more than its end"},
        {"bacth=64", "options: there is no option 'bacth': did you mean 'batch'?"},
        {"zero", "zero has no value: it must be a whole number from 0 to 2"},
        {"zero=3", "zero=3: it must be a whole number from 0 to 2"},
        {"zero=1.5", "zero=1.5: it must be a whole number from 0 to 2"},
        {"zero=", "zero=: it must be"},
        {"zero=1 zero=2", "zero is given twice"},
        {"shard=flta", "shard=flta: it must be greedy or flat: did you mean 'flat'?"},
        {"serial=2", "serial=2: it must be 0 or 1"},
        {"batch=99999999999999999999", "it must be a whole number from 1 to 2147483647"},
        {"batch=-1", "batch=-1: it must be a whole number from 1 to 2147483647"},
        {"bucket_cap_mb=nan", "bucket_cap_mb=nan: it must be a number above 0"},
        {"guard_factor=1", "guard_factor=1: it must be a number above 1"},
        {"precision=f64", "precision=f64: it must be f32, bf16 or f16"},
        {"own_strategy=x", "there is no option 'own_strategy'"},
        {"graph=", "graph has no value"},
        {"=", "there is no option ''"},
        {"\"", "there is no option '\"'"},
    };
    weft_error e;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[100];
        weft_compile_options o = {.batch = 7};
        snprintf(text, sizeof text, "rank=3 %s", rows[i].text);
        weft_status status = weft_fields_read(weft_compile_fields(), text, &o, "options", &e);
        CHECK_SAYS(!status == !rows[i].error && (!status || strstr(e.text, rows[i].error)), "'%s': '%s'",
                   rows[i].text, e.text);
        CHECK(!status ? o.rank == 3 : o.batch == 7 && o.rank == 0); /* an error changes nothing */
    }
    CHECK(weft_fields_read(NULL, NULL, NULL, NULL, NULL) == WEFT_ARGUMENT);
    CHECK(weft_fields_check(NULL, NULL, NULL, NULL) == WEFT_ARGUMENT && !weft_field_is_set(NULL, NULL));
    weft_compile_options odd = {.strategy = "", .batch = INT64_MAX};
    CHECK(weft_compile(NULL, &odd, &e) == NULL);
    char *nothing = weft_fields_text(NULL, NULL), *text = weft_fields_text(weft_compile_fields(), &odd);
    CHECK_TEXT(text, "batch=9223372036854775807");
    weft_text_free(text);
    CHECK_TEXT(nothing, "");
    weft_text_free(nothing);
}

TEST(a_table_that_is_too_long_is_refused) {
    enum { MOST = 64 };
    static char names[MOST + 1][16];
    static weft_field long_table[MOST + 2];
    int values[MOST + 1] = {0};
    char good[] = "f63=5", bad[] = "f0=1 f64=2";
    weft_error e;
    for (int i = 0; i <= MOST; i++) {
        snprintf(names[i], sizeof names[i], "f%d", i);
        long_table[i] = (weft_field){names[i], WEFT_FIELD_INT, (size_t)i * sizeof(int), 1, 9};
    }
    CHECK(weft_fields_read(long_table, good, values, "options", &e) == WEFT_OK && values[63] == 5);
    CHECK(weft_fields_read(long_table, bad, values, "options", &e) == WEFT_ARGUMENT && values[0] == 0);
    CHECK_HOLDS(e.text, "f64: a table has at most 64 fields");
}

/* A true 0 is WEFT_ZERO where 0 is the default. */
TEST(a_zero_in_a_text_is_a_true_zero) {
    weft_optimizer o = {0};
    weft_error e;
    char text[] = "type=adam lr=0 beta1=0.5 clip_norm=2";
    CHECK(weft_fields_read(weft_optimizer_fields(), text, &o, "optimizer", &e) == WEFT_OK);
    CHECK(o.lr == WEFT_ZERO && o.beta1 == 0.5 && o.clip_norm == 2);
    char *again = weft_fields_text(weft_optimizer_fields(), &o);
    CHECK_TEXT(again, "type=adam lr=0 beta1=0.5 clip_norm=2");
    weft_text_free(again);
    char off[] = "clip_norm=0";
    CHECK(weft_fields_read(weft_optimizer_fields(), off, &o, "optimizer", &e) == WEFT_OK && o.clip_norm == 0);
}

SUITE("fields",
      {T(each_field_is_read_and_written_alone), T(all_fields_of_a_structure_are_one_text),
       T(a_table_names_each_field_once), T(each_field_refuses_what_it_may_not_be),
       T(a_zero_that_stands_for_another_default_is_refused),
       T(the_row_that_ends_a_table_has_the_size_of_the_structure), T(a_field_of_a_later_version_is_refused),
       T(a_structure_with_a_number_outside_its_range_is_refused), T(a_table_that_is_too_long_is_refused),
       T(a_text_says_what_it_cannot_mean), T(a_zero_in_a_text_is_a_true_zero)})
