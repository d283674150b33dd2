/* options.c - what is made from the option table: parsing (by getopt_long), JSON, and the settings
 * that ranks compare. */
#include "tools/graphtool/common/checkpoints.h"
#include "tools/graphtool/common/config.h"
#include "tools/graphtool/common/help.h"
#include "tools/graphtool/common/names.h"
#include "tools/graphtool/common/output.h"
#include "tools/graphtool/common/rules.h"

#include "graph/core/graph.h"

#include <ctype.h>
#include <getopt.h>
#include <string.h>

enum { FIRST_VALUE = 256 /* of getopt_long, for the first row */ };

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

const char *command_arguments(const command *c) {
    if (c->actions) return "ACTION DIR [DIR]";
    if (c->takes_command) return "COMMAND [ARGUMENT]...";
    if (c->word) return tool_text("[%s]", c->word);
    return c->file ? "FILE" : "MODEL";
}

const char *action_arguments(const command_action *a) {
    return a->n_words == 2 ? "DIR DIR" : "DIR";
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

/* The allowed words of an option, as an array. */
static json_t *words_json(const option_row *row) {
    json_t *all = json_array();
    const char *const *words = option_words(row);
    for (int i = 0; words && words[i]; i++) json_array_append_new(all, json_string(words[i]));
    return all;
}

json_t *options_json(const command *c) {
    static const char *const files[] = {[NO_FILE] = "",        [READS] = "reads",
                                        [READS_DATA] = "data", [READS_STEPS] = "checkpoints",
                                        [WRITES] = "writes",   [WRITES_PICTURES] = "pictures",
                                        [FILLS] = "fills"};
    json_t *list = json_array();
    for (const option_row *row = NULL; (row = option_next(c, row));) {
        char letter[2] = {row->letter, 0};
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:o}", "name", row->field.name, "letter", letter,
                            "argument", row->argument ? row->argument : "", "help", row->field.means, "group",
                            help_group(row), "file", files[row->file], "words", words_json(row)));
    }
    return list;
}

/* ---- one value ---- */

/* A value and where it stands. */
typedef struct said {
    const command *c;
    const option_row *row;
    const char *value, *file; /* file: of --config; NULL: the command line */
} said;

static _Noreturn void refuse(const said *s, const char *rule) {
    if (s->file) tool_fail("%s: %s: \"%s\": %s: %s", s->c->name, s->file, s->row->field.name, s->value, rule);
    tool_fail("%s: --%s=%s: %s", s->c->name, s->row->field.name, s->value, rule);
}

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

static const char *rule_of(const weft_field *f, const char *value) {
    return f->words ? words_rule(value, f->words) : tool_text("%s is needed", field_rule_of(f).text);
}

const char *option_name_of(const char *value, const char **rest) {
    size_t n = strcspn(value, "=, ");
    bool is_named = value[n] == '='; /* the first '=' of a schedule is in a field, after a ',' */
    *rest = is_named ? value + n + 1 : value;
    return tool_text("%.*s", is_named ? (int)n : 0, value);
}

const char *option_kind_of(const char *value, const char **rest) {
    size_t n = strcspn(value, ":");
    *rest = value + n + (value[n] == ':');
    return tool_text("%.*s", (int)n, value);
}

/* NAME ends at the last ':' before the first '='. */
const char *option_name_before(const char *value, const char **fields) {
    size_t n = strcspn(value, "=");
    while (n && value[n] != ':') n--;
    *fields = value + n + (value[n] == ':');
    return tool_text("%.*s", (int)n, value);
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
        option_add_field(all, (option_given){option, value, name, tool_text("%.*s", (int)strcspn(at, "=, "), at)});
        for (; *at && (is_quoted || *at != ','); at++) is_quoted ^= *at == '"';
    }
}

/* Whether the list has a value for the NAME of this one. */
static bool has_name(const text_list *list, const char *value) {
    const char *rest, *name = option_name_of(value, &rest);
    for (int i = 0; i < list->n; i++)
        if (strcmp(option_name_of(list->v[i], &rest), name) == 0) return true;
    return false;
}

static void read_list(const said *s, text_list *list) {
    char gap = s->row->argument[strcspn(s->row->argument, "=:")];
    const char *right = strchr(s->value, gap), *rest, *const *words = s->row->field.words;
    bool is_rename = strcmp(s->row->argument, "FROM:TO") == 0; /* where both may be empty */
    bool is_named = s->row->form == OPTION_NAMED, is_bare = strchr(s->row->argument, '[') && *s->value;
    const char *rule = tool_text("%s is needed", s->row->argument);
    if (!is_named && !is_bare && (!right || (right == s->value && gap == '=') || (!right[1] && !is_rename)))
        refuse(s, rule);
    if (words && !is_one_of(strrchr(s->value, gap) + 1, words))
        refuse(s, words_rule(strrchr(s->value, gap) + 1, words));
    if (is_named) option_name_of(s->value, &rest);
    if (is_named && (!*rest || *s->value == '=')) refuse(s, rule);
    if (is_named && has_name(list, s->value)) refuse(s, "it is given twice for this optimizer");
    if (list->n == OPTIONS_MAX_DATA) refuse(s, "too many of them");
    list->v[list->n++] = s->value;
}

bool option_every(const char *text, int64_t *n, bool *is_steps) {
    size_t digits = strspn(text, "0123456789");
    *n = digits && digits <= 15 ? strtoll(text, NULL, 10) : 0;
    *is_steps = strcmp(text + digits, "steps") == 0;
    return *n > 0 && (*is_steps || !text[digits]);
}

static void read_text(const said *s, const char **into) {
    int64_t n;
    bool is_steps, is_dash = strcmp(s->value, "-") == 0;
    double minutes;
    *into = s->value;
    if (!*s->value) refuse(s, "it must not be empty");
    if (s->row->form == OPTION_EVERY && !option_every(s->value, &n, &is_steps))
        refuse(s, "a number of epochs, or of steps as in 500steps, is needed");
    if (s->row->form == OPTION_INTERVAL && !checkpoints_every(s->value, &n, &minutes))
        refuse(s, "a number of steps, or a time as in 30s, 10m or 1h, is needed");
    if (is_dash && strcmp(s->row->field.name, "output") == 0 && s->c->writes_text)
        *into = "/dev/stdout";
    else if (is_dash && s->row->form == OPTION_ONE && strcmp(s->row->argument, "FILE") == 0)
        refuse(s, "a file is needed (/dev/stdin and /dev/stdout are some)");
}

void option_read(const command *c, const option_row *row, const char *value, const char *file, options *o) {
    const said s = {c, row, value, file};
    if (option_is_flag(row))
        *(bool *)option_field(row, o) = true;
    else if (option_is_list(row))
        read_list(&s, option_field(row, o));
    else if (row->field.kind == WEFT_FIELD_TEXT && !row->field.words)
        read_text(&s, option_field(row, o));
    else if (!field_take(&row->field, value, o))
        refuse(&s, rule_of(&row->field, value));
}

/* ---- all of them ---- */

bool option_is_given(const options *o, const char *name) {
    size_t n = strcspn(name, "=");
    for (const option_row *row = option_rows; row->field.name; row++) {
        text value = {0};
        if (strncmp(row->field.name, name, n) || row->field.name[n]) continue;
        if (!option_from(row, o) || option_from(row, o) == ORIGIN_VARIABLE) return false;
        if (!name[n]) return true;
        field_write(&value, &row->field, o);
        return strcmp(tool_take(&value), name + n + 1) == 0;
    }
    return false;
}

void options_near(const command *c, nearest *near) {
    char word[WORD_ROOM];
    for (const option_row *row = NULL; (row = option_next(c, row));) {
        nearest_try(near, row->field.name);
        for (const char *at = row->elsewhere ? row->elsewhere : ""; next_word(&at, word);)
            nearest_try_as(near, word, row->field.name);
    }
}

static void set_option(options *o, const char *name, const char *value, option_origin from) {
    const option_row *row = option_find(o->command, name);
    o->from[row - option_rows] = (unsigned char)from;
    option_read(o->command, row, value, NULL, o);
}

/* The table in getopt_long's form, with the options of this command only. */
static void getopt_table(const command *c, struct option longs[OPTIONS_MOST + 1],
                         char shorts[3 * OPTIONS_MOST + 2]) {
    char *s = shorts;
    int n = 0;
    if (c->takes_command) *s++ = '+'; /* options end at the command */
    *s++ = ':'; /* getopt then returns ':' for a missing argument and '?' for an unknown option */
    for (const option_row *row = NULL; (row = option_next(c, row));) {
        int value = FIRST_VALUE + (int)(row - option_rows);
        longs[n++] = (struct option){row->field.name, row->argument != NULL, NULL, value};
        if (!row->letter) continue;
        *s++ = row->letter;
        if (row->argument) *s++ = ':';
    }
    *s = 0;
    longs[n] = (struct option){0};
}

/* The row for a value that getopt_long returned; NULL: not an option. */
static const option_row *row_of(const command *c, int value) {
    if (value >= FIRST_VALUE) return &option_rows[value - FIRST_VALUE];
    for (const option_row *row = NULL; (row = option_next(c, row));)
        if (row->letter == value) return row;
    return NULL;
}

static _Noreturn void refuse_unknown(const command *c, const char *word) {
    nearest near = nearest_to(word + 2, strncmp(word, "--", 2) == 0 ? strcspn(word + 2, "=") : 0);
    options_near(c, &near);
    bool is_graph = strncmp(word, "--graph", 7) == 0 || (optopt == 'g' && strncmp(word, "--", 2));
    if (is_graph && command_has_option(c, "flow"))
        tool_fail("%s: no option --graph: it runs a flow; --flow=NAME runs one graph alone", c->name);
    if (isprint(optopt) && optopt < FIRST_VALUE)
        tool_fail("%s: no option -%c; graphtool %s --help lists all", c->name, optopt, c->name);
    if (near.name)
        tool_fail("%s: no option %s: did you mean --%s? graphtool %s --help lists all", c->name, word,
                  near.name, c->name);
    tool_fail("%s: no option %s; graphtool %s --help lists all", c->name, word, c->name);
}

/* Flags and lists may be repeated; any other option may be given once. */
static void parse_line(const command *c, int argc, char **argv, options *o) {
    struct option longs[OPTIONS_MOST + 1];
    char shorts[3 * OPTIONS_MOST + 2];
    getopt_table(c, longs, shorts);
    opterr = 0; /* getopt's own messages name the program, not the command */
    optind = 0; /* a line was read before, maybe another command's: begin anew */
    for (int value; (value = getopt_long(argc, argv, shorts, longs, NULL)) != -1;) {
        const char *word = argv[optind - 1];
        if (value == ':') tool_fail("%s: %s needs a value", c->name, word);
        const option_row *row = row_of(c, value);
        if (!row) refuse_unknown(c, word);
        if (strcmp(row->field.name, "help") == 0) {
            help_print(c);
            tool_end(EXIT_FINE);
        }
        if (option_from(row, o) && !option_is_flag(row) && !option_is_list(row))
            tool_fail("%s: --%s is given twice", c->name, row->field.name);
        o->from[row - option_rows] = ORIGIN_LINE;
        option_read(c, row, optarg, NULL, o);
    }
}

static _Noreturn void refuse_action(const command *c, const char *name) {
    names known = names_for(name);
    for (const command_action *a = c->actions; a->name; a++) names_add(&known, a->name);
    names_refuse(&known, "%s: no action '%.60s'", c->name, name);
}

/* An action, and the folders that it takes; other actions have other options. */
static void take_action(const command *c, int left, char **words, options *o) {
    if (!left) tool_fail("%s: an action is needed; see graphtool %s --help", c->name, c->name);
    for (const command_action *a = c->actions; a->name && !o->action; a++)
        if (strcmp(a->name, words[0]) == 0) o->action = a;
    if (!o->action) refuse_action(c, words[0]);
    if (left - 1 != o->action->n_words)
        tool_fail("%s %s: it takes %s; see graphtool %s --help", c->name, o->action->name,
                  o->action->n_words == 1 ? "one folder" : "two folders", c->name);
    for (int i = 0; i < o->action->n_words; i++) o->words[i] = words[i + 1];
    for (const option_row *row = option_rows; row->field.name; row++)
        if (option_from(row, o) && !has_word(o->action->options, row->field.name))
            tool_fail("%s %s: --%s has no effect", c->name, o->action->name, row->field.name);
}

/* The model: the one argument, or that of the file of --config. */
static void take_model(const command *c, int left, char **words, options *o) {
    if (left == 1) o->model = words[0];
    if (left <= 1 && o->model) return;
    if (c->file) tool_fail("%s: it takes one file, %s; see graphtool %s --help", c->name, c->file, c->name);
    tool_fail("%s: %s; see graphtool %s --help", c->name,
              left ? "one model is enough" : "a model file is needed", c->name);
}

/* What is left of the command line behind the options. */
static void take_words(const command *c, int left, char **words, options *o) {
    o->rest = words;
    if (c->actions) {
        take_action(c, left, words, o);
    } else if (c->takes_command) {
        if (!left) tool_fail("%s: a command is needed; see graphtool %s --help", c->name, c->name);
    } else if (c->word) {
        if (left > 1) tool_fail("%s: one name is enough; see graphtool %s --help", c->name, c->name);
        o->word = words[0]; /* NULL behind the last one */
    } else {
        take_model(c, left, words, o);
    }
}

/* The files of --work-dir, where no others are said. */
static void place_files(options *o) {
    static const char *const files[][2] = {
        {"output", "weights.safetensors"}, {"log", "log.jsonl"}, {"curves", "curves.svg"}};
    for (size_t i = 0; o->work_dir && i < sizeof files / sizeof *files; i++)
        if (!option_is_given(o, files[i][0]))
            set_option(o, files[i][0], tool_text("%s/%s", o->work_dir, files[i][1]), ORIGIN_DIR);
}

/* Without --isa the variable WEFT_ISA says it: for all ranks of a job on unlike processors, and for the
 * suites. It is a default, so it is no error where --isa would have no effect. */
static void default_isa(options *o) {
    const char *isa = getenv("WEFT_ISA");
    const option_row *row = option_find(o->command, "isa");
    if (!isa || !*isa || !row || option_from(row, o)) return;
    o->from[row - option_rows] = ORIGIN_VARIABLE;
    if (!field_read(&row->field, isa, o))
        tool_fail("%s: the variable WEFT_ISA=%s: %s", o->command->name, isa, rule_of(&row->field, isa));
}

void options_parse(const command *c, int argc, char **argv, options *o) {
    *o = c->defaults;
    o->command = c;
    parse_line(c, argc, argv, o);
    if (o->config) config_read(o);
    take_words(c, argc - optind, argv + optind, o);
    place_files(o);
    default_isa(o);
    rules_together(o);
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
    const void *at = (const char *)o + row->field.offset;
    text t = {0};
    bool is_seed = row->field.kind == WEFT_FIELD_SEED; /* 0 is one like others */
    bool is_set = !option_is_list(row) && (is_seed || weft_field_is_set(&row->field, o));
    if (is_set && row->sharing == CONTENT) return file_value(*(const char *const *)at);
    if (option_is_list(row))
        list_value(at, row->sharing == NAMES, &t);
    else if (is_set)
        field_write(&t, &row->field, o);
    else
        text_add(&t, "not given");
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
