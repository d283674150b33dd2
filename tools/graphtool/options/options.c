/* options.c - the rows of a command, the values that they take, and the settings that ranks compare. */
#include "tools/graphtool/options/option_table.h"

#include "graph/core/graph.h"

#include <stdlib.h>
#include <string.h>

bool next_word(const char **at, char word[WORD_ROOM]) {
    size_t n = strcspn(*at, " ");
    snprintf(word, WORD_ROOM, "%.*s", (int)n, *at);
    *at += n + strspn(*at + n, " ");
    return n > 0;
}

bool has_word(const char *words, const char *name) {
    char word[WORD_ROOM];
    while (next_word(&words, word))
        if (strcmp(word, name) == 0) return true;
    return false;
}

/* By its name or by its group. */
static bool takes(const command *c, const option_row *row) {
    const char *name = row->field.name;
    return has_word(c->options, name) || (row->group && has_word(c->options, row->group)) ||
           strcmp(name, "help") == 0;
}

const option_row *option_next(const command *c, const option_row *row) {
    row = row ? row + 1 : option_rows;
    while (row->field.name && !takes(c, row)) row++;
    return row->field.name ? row : NULL;
}

const option_row *option_find(const command *c, const char *name) {
    for (const option_row *row = NULL; (row = option_next(c, row));)
        if (strcmp(row->field.name, name) == 0) return row;
    return NULL;
}

bool command_has_option(const command *c, const char *name) {
    return option_find(c, name) != NULL;
}

const char *const *option_words(const option_row *row) {
    return row->form == OPTION_ONE ? row->field.words : NULL;
}

bool option_is_flag(const option_row *row) {
    return row->form == OPTION_ONE && row->field.kind == WEFT_FIELD_FLAG;
}

bool option_is_list(const option_row *row) {
    return row->form == OPTION_LIST || row->form == OPTION_NAMED;
}

/* ---- one value ---- */

int option_choice(const char *word, const char *const *words) {
    for (int i = 0; words[i]; i++)
        if (!word || strcmp(words[i], word) == 0) return i;
    return 0;
}

static bool is_one_of(const char *word, const char *const *words) {
    return strcmp(words[option_choice(word, words)], word) == 0;
}

/* What a value must be: "did you mean 'cuda'? cpu or cuda is needed" */
static const char *words_rule(const char *value, const char *const *words) {
    char all[100];
    nearest near = nearest_to(value, strlen(value));
    for (int i = 0; words[i]; i++) nearest_try(&near, words[i]);
    words_show(words, sizeof all, all);
    return near.name ? tool_text("did you mean '%.20s'? %.70s is needed", near.name, all)
                     : tool_text("%s is needed", all);
}

const char *option_name_of(const char *value, const char **rest) {
    size_t n = strcspn(value, "=, ");
    bool is_named = value[n] == '='; /* the first '=' of a schedule is in a field, after a ',' */
    *rest = is_named ? value + n + 1 : value;
    return tool_cut(value, value + (is_named ? n : 0));
}

const char *option_kind_of(const char *value, const char **rest) {
    size_t n = strcspn(value, ":");
    *rest = value + n + (value[n] == ':');
    return tool_cut(value, value + n);
}

/* NAME ends at the last ':' before the first '='. */
const char *option_name_before(const char *value, const char **fields) {
    size_t n = strcspn(value, "=");
    while (n && value[n] != ':') n--;
    *fields = value + n + (value[n] == ':');
    return tool_cut(value, value + n);
}

void option_add_field(option_fields *all, option_given one) {
    if (all->n == OPTION_FIELDS) tool_fail("--%s=%s: too many settings", one.option, one.value);
    all->list[all->n++] = one;
}

/* A ',' in quotation marks divides none. */
void option_add_fields(option_fields *all, const char *option, const char *value) {
    const char *at, *name = option_name_before(value, &at);
    while (*(at += strspn(at, ", \t\n"))) {
        bool is_quoted = false;
        option_add_field(all, (option_given){option, value, name, tool_cut(at, at + strcspn(at, "=, "))});
        for (; *at && (is_quoted || *at != ','); at++) is_quoted ^= *at == '"';
    }
}

void option_refuse_twice(const option_given *a, const option_given *b, const char *whose) {
    tool_fail("--%s=%s: %s of %s is given twice, in --%s%s%s too", b->option, b->value, a->field, whose,
              a->option, a->value ? "=" : "", a->value ? a->value : "");
}

/* Whether the list has a value for the NAME of this one. */
static bool has_name(const text_list *list, const char *value) {
    const char *rest, *name = option_name_of(value, &rest);
    for (int i = 0; i < list->n; i++)
        if (strcmp(option_name_of(list->v[i], &rest), name) == 0) return true;
    return false;
}

static const char *read_list(const option_row *row, const char *value, text_list *list) {
    char gap = row->argument[strcspn(row->argument, "=:")];
    const char *right = strchr(value, gap), *rest, *const *words = row->field.words;
    bool is_rename = strcmp(row->argument, "FROM:TO") == 0; /* where both may be empty */
    bool is_named = row->form == OPTION_NAMED, is_bare = strchr(row->argument, '[') && (*value || !gap);
    const char *rule = tool_text("%s is needed", row->argument);
    if (!is_named && !is_bare && (!right || (right == value && gap == '=') || (!right[1] && !is_rename)))
        return rule;
    if (words && !is_one_of(strrchr(value, gap) + 1, words))
        return words_rule(strrchr(value, gap) + 1, words);
    if (is_named && (option_name_of(value, &rest), !*rest || *value == '=')) return rule;
    if (is_named && has_name(list, value)) return "it is given twice for this optimizer";
    if (list->n == OPTIONS_MAX_DATA) return "too many of them";
    list->v[list->n++] = value;
    return NULL;
}

int64_t option_count(const char *text, const char **unit) {
    size_t digits = strspn(text, "0123456789");
    *unit = text + digits;
    return digits && digits <= 15 ? strtoll(text, NULL, 10) : 0;
}

bool option_every(const char *text, int64_t *n, bool *is_steps) {
    const char *unit;
    *n = option_count(text, &unit);
    *is_steps = strcmp(unit, "steps") == 0;
    return *n > 0 && (*is_steps || !*unit);
}

bool option_interval(const char *text, int64_t *iterations, double *minutes) {
    static const char units[] = "smh";
    static const double of_unit[] = {1.0 / 60, 1, 60};
    const char *unit, *at;
    int64_t n = option_count(text, &unit);
    at = *unit && !unit[1] ? strchr(units, *unit) : NULL;
    *iterations = at ? 0 : n;
    *minutes = at ? (double)n * of_unit[at - units] : 0;
    return n > 0 && (at || !*unit);
}

static const char *read_text(const command *c, const option_row *row, const char *value, const char **into) {
    int64_t n;
    bool is_steps, is_dash = strcmp(value, "-") == 0;
    double minutes;
    *into = value;
    if (!*value) return "it must not be empty";
    if (row->form == OPTION_EVERY && !option_every(value, &n, &is_steps))
        return "a number of epochs, or of steps as in 500steps, is needed";
    if (row->form == OPTION_INTERVAL && !option_interval(value, &n, &minutes))
        return "a number of steps, or a time as in 30s, 10m or 1h, is needed";
    if (is_dash && c->writes_text && strcmp(row->field.name, "output") == 0)
        *into = "/dev/stdout";
    else if (is_dash && row->form == OPTION_ONE && strcmp(row->argument, "FILE") == 0)
        return "a file is needed (/dev/stdin and /dev/stdout are some)";
    return NULL;
}

const char *option_rule(const option_row *row, const char *value) {
    const weft_field *f = &row->field;
    return f->words ? words_rule(value, f->words) : tool_text("%s is needed", field_rule_of(f).text);
}

const char *option_read(const option_row *row, const char *value, options *o) {
    if (option_is_list(row)) return read_list(row, value, option_field(row, o));
    if (row->field.kind == WEFT_FIELD_TEXT && !row->field.words)
        return read_text(o->command, row, value, option_field(row, o));
    return field_take(&row->field, value, o) ? NULL : option_rule(row, value);
}

/* ---- all of them ---- */

bool option_is_given(const options *o, const char *name) {
    size_t n = strcspn(name, "=");
    const option_row *row = option_find(o->command, tool_cut(name, name + n));
    text value = {0};
    bool is_given = row && option_from(row, o) && option_from(row, o) != ORIGIN_VARIABLE;
    if (!is_given || !name[n]) return is_given;
    field_write(&value, &row->field, o);
    return strcmp(tool_take(&value), name + n + 1) == 0;
}

void options_near(const command *c, nearest *near) {
    char word[WORD_ROOM];
    for (const option_row *row = NULL; (row = option_next(c, row));) {
        nearest_try(near, row->field.name);
        for (const char *at = row->elsewhere ? row->elsewhere : ""; next_word(&at, word);)
            nearest_try_as(near, word, row->field.name);
    }
}

/* ---- settings that ranks compare ---- */

/* Variables of the process, not of the command line, that change results. */
static const char *const variables[] = {"OMP_NUM_THREADS", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA",
                                        "ONEDNN_DEFAULT_FPMATH_MODE", "NVIDIA_TF32_OVERRIDE"};

/* A file's length and a hash of its first and last MiB; NULL when it cannot be read. */
static const char *file_value(const char *path) {
    enum { END_BYTES = 1 << 20 };
    text value = {0};
    char *ends = malloc(2 * (size_t)END_BYTES);
    FILE *f = ends ? fopen(path, "rb") : NULL;
    if (f && fseeko(f, 0, SEEK_END) == 0) {
        off_t bytes = ftello(f), end = bytes < END_BYTES ? bytes : END_BYTES;
        bool good = bytes >= 0 && fseeko(f, 0, SEEK_SET) == 0 &&
                    fread(ends, 1, (size_t)end, f) == (size_t)end && fseeko(f, bytes - end, SEEK_SET) == 0 &&
                    fread(ends + end, 1, (size_t)end, f) == (size_t)end;
        if (good)
            text_add(&value, "of %lld bytes with hash %016llx", (long long)bytes,
                     (unsigned long long)hash_bytes(ends, 2 * (size_t)end, (uint64_t)bytes));
    }
    if (f) fclose(f);
    free(ends);
    return value.data ? tool_take(&value) : NULL;
}

static void list_value(const text_list *list, bool names_alone, text *t) {
    for (int i = 0; i < list->n; i++) {
        size_t length = names_alone ? strcspn(list->v[i], "=") : strlen(list->v[i]);
        text_add(t, "%s%.*s", i ? " " : "", (int)length, list->v[i]);
    }
    if (!list->n) text_add(t, "not given");
}

/* The value of an option as text. */
static const char *option_value(const option_row *row, const options *o) {
    const void *at = option_field(row, (options *)o);
    text t = {0};
    bool is_seed = row->field.kind == WEFT_FIELD_SEED; /* 0 is one like others */
    if (option_is_list(row))
        list_value(at, row->sharing == NAMES, &t);
    else if (!is_seed && !weft_field_is_set(&row->field, o))
        text_add(&t, "not given");
    else if (row->sharing == CONTENT)
        return file_value(*(const char *const *)at);
    else
        field_write(&t, &row->field, o);
    return tool_take(&t);
}

/* Options in the order of the table, then the model, then variables. */
int options_settings(const options *o, weft_setting all[SETTINGS_MOST]) {
    int n = 0;
    for (const option_row *row = NULL; (row = option_next(o->command, row));)
        if (row->sharing != OWN)
            all[n++] = (weft_setting){tool_text("--%s", row->field.name), option_value(row, o)};
    all[n++] = (weft_setting){"MODEL", o->model ? file_value(o->model) : NULL};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = getenv(variables[i]);
        all[n++] = (weft_setting){variables[i], value ? value : "not set"};
    }
    return n;
}
