/* command_line.c - reads a command line by getopt_long, and where it does not say an option: the file of
 * --config, --work-dir, the variable WEFT_ISA. */
#include "tools/graphtool/options/config.h"
#include "tools/graphtool/options/help.h"
#include "tools/graphtool/options/rules.h"
#include "tools/graphtool/output/names.h"

#include <ctype.h>
#include <getopt.h>
#include <string.h>

enum { FIRST_VALUE = 256 /* of getopt_long, for the first row */ };

static void set_option(options *o, const char *name, const char *value, option_origin from) {
    const option_row *row = option_find(o->command, name);
    o->from[row - option_rows] = (unsigned char)from;
    option_read(row, value, o);
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
    const char *ask = near.name ? tool_text(": did you mean --%s?", near.name) : ";";
    tool_fail("%s: no option %s%s graphtool %s --help lists all", c->name, word, ask, c->name);
}

/* Flags and lists may be repeated; any other option may be given once. True: it asks for --help. */
static bool parse_line(const command *c, int argc, char **argv, options *o) {
    struct option longs[OPTIONS_MOST + 1];
    char shorts[3 * OPTIONS_MOST + 2];
    getopt_table(c, longs, shorts);
    opterr = 0; /* getopt's own messages name the program, not the command */
    optind = 0; /* a line was read before, maybe another command's: begin again */
    for (int value; (value = getopt_long(argc, argv, shorts, longs, NULL)) != -1;) {
        const char *word = argv[optind - 1];
        if (value == ':') tool_fail("%s: %s needs a value", c->name, word);
        const option_row *row = row_of(c, value);
        if (!row) refuse_unknown(c, word);
        if (strcmp(row->field.name, "help") == 0) return true;
        if (option_from(row, o) && !option_is_flag(row) && !option_is_list(row))
            tool_fail("%s: --%s is given twice", c->name, row->field.name);
        o->from[row - option_rows] = ORIGIN_LINE;
        const char *rule = option_read(row, optarg ? optarg : "1", o);
        if (rule) tool_fail("%s: --%s=%s: %s", c->name, row->field.name, optarg, rule);
    }
    return false;
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

/* The model: the one argument, or that of the file of --config; a suite has its own, and an op
 * needs none. */
static void take_model(const command *c, int left, char **words, options *o) {
    int most = c->takes_two ? 2 : 1;
    if ((o->suite || o->op.n) && !left) return;
    if (left && left <= most) o->model = words[0];
    if (left == 2 && c->takes_two) o->other = words[1];
    if (left <= most && o->model) return;
    if (c->file) tool_fail("%s: it takes one file, %s; see graphtool %s --help", c->name, c->file, c->name);
    tool_fail("%s: %s; see graphtool %s --help", c->name,
              !left          ? "a model file is needed"
              : c->takes_two ? "two models are enough"
                             : "one model is enough",
              c->name);
}

/* What is left of the command line after the options. */
static void take_words(const command *c, int left, char **words, options *o) {
    o->rest = words;
    if (c->actions) {
        take_action(c, left, words, o);
    } else if (c->takes_command) {
        if (!left) tool_fail("%s: a command is needed; see graphtool %s --help", c->name, c->name);
    } else if (c->word) {
        if (left > 1) tool_fail("%s: one name is enough; see graphtool %s --help", c->name, c->name);
        o->word = words[0]; /* NULL after the last one */
    } else {
        take_model(c, left, words, o);
    }
}

/* The files of --work-dir, unless others are given. */
static void place_files(options *o) {
    static const char *const files[][2] = {
        {"output", "weights.safetensors"}, {"log", "log.jsonl"}, {"curves", "curves.svg"}};
    for (size_t i = 0; o->work_dir && i < sizeof files / sizeof *files; i++)
        if (!option_is_given(o, files[i][0]))
            set_option(o, files[i][0], tool_text("%s/%s", o->work_dir, files[i][1]), ORIGIN_DIR);
}

/* Without --isa the variable WEFT_ISA says it: for all ranks of a job on unlike processors, and for the
 * suites. It is a default, so it is not an error where --isa would have no effect. */
static void default_isa(options *o) {
    const char *isa = getenv("WEFT_ISA");
    const option_row *row = option_find(o->command, "isa");
    if (!isa || !*isa || !row || option_from(row, o)) return;
    o->from[row - option_rows] = ORIGIN_VARIABLE;
    if (!field_read(&row->field, isa, o))
        tool_fail("%s: the variable WEFT_ISA=%s: %s", o->command->name, isa, option_rule(row, isa));
}

void options_parse(const command *c, int argc, char **argv, options *o) {
    *o = c->defaults;
    o->command = c;
    if (parse_line(c, argc, argv, o)) {
        help_print(c);
        tool_end(EXIT_FINE);
    }
    if (o->config) config_read(o);
    take_words(c, argc - optind, argv + optind, o);
    place_files(o);
    default_isa(o);
    rules_together(o);
}

/* Reads a line on top of `under`, whose command, model and options hold where it says nothing else. Options
 * in `refused` are errors. */
static void parse_over(const options *under, const char *refused, int argc, char **argv, options *o) {
    const command *c = under->command;
    *o = *under;
    memset(o->from, ORIGIN_NONE, sizeof o->from);
    if (parse_line(c, argc, argv, o))
        tool_fail("%s: --against: --help is for both: give it outside of --against", c->name);
    for (const option_row *row = NULL; (row = option_next(c, row));) {
        size_t i = (size_t)(row - option_rows);
        if (o->from[i] && has_word(refused, row->field.name))
            tool_fail("%s: --against: --%s is for both: give it outside of --against", c->name,
                      row->field.name);
        if (!o->from[i]) o->from[i] = under->from[i];
    }
    if (argc > optind)
        tool_fail("%s: --against=%s: it takes options; a second model is an argument: MODEL MODEL", c->name,
                  argv[optind]);
    rules_together(o);
}

static void parse_against(const options *o, const char *both, options *second) {
    enum { WORDS = 64 };
    char *words[WORDS + 1] = {tool_text("%s", o->command->name)}, *rest = tool_text("%s", o->against), *word;
    int n = 1;
    while ((word = strsep(&rest, " ")))
        if (*word && n == WORDS)
            tool_fail("%s: --against: more than %d words", o->command->name, WORDS - 1);
        else if (*word)
            words[n++] = word;
    parse_over(o, both, n, words, second);
}

const options *options_second(const options *o, const char *both) {
    if (!o->other && !o->against) return NULL;
    options *second = tool_new(1, sizeof *second);
    *second = *o;
    if (o->against) parse_against(o, both, second);
    if (o->other) second->model = o->other;
    return second;
}

void options_only(const options *o, const char *allowed, const char *where) {
    for (const option_row *row = NULL; (row = option_next(o->command, row));)
        if (option_is_given(o, row->field.name) && !has_word(allowed, row->field.name))
            tool_fail("%s: --%s has no effect %s", o->command->name, row->field.name, where);
}
