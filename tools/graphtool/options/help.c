/* help.c - graphtool COMMAND --help: the rows of the option table in groups, wrapped to the terminal. */
#include "tools/graphtool/options/help.h"

#include "tools/graphtool/output/table.h"

#include <string.h>

/* The groups, and their options in the order of --help. Each option is in one of them
 * (tests/tools/test_options.c). */
static const struct {
    const char *title, *options;
} groups[] = {
    {"What runs", "graph flow batch accumulate epochs steps until warmup seed dtype precision against @step"},
    {"From an ONNX file", "axis images head loss minimize trainable batch-norm"},
    {"Data and validation", "data set val-data val-every metric best early-stop"},
    {"Optimizers", "lr schedule optimizer clip-norm ema"},
    {"Weights", "weights rename partial random-weights averages optimizer-state"},
    {"Checkpoints", "checkpoint-dir checkpoint-every keep keep-best resume"},
    {"Bad steps", "guard on-bad-step keep-going check"},
    {"Machine", "device threads isa deterministic tf32 calibration no-capture no-memory-check @plan @feed"},
    {"Ranks", "world rank strategy ddp zero shard bucket-cap-mb reduce serial ranks launcher comm timeout "
              "grace rings @world @spread"},
    {"Picture", "view all depth max-nodes focus hops expand type"},
    {"Output", "fixed-batch external-data random-inputs output work-dir log log-every csv tensorboard curves "
               "samples fetch argmax grid scale picture "
               "profile compare fail-above suite with op check-accuracy after dump bytes "
               "estimate markdown parameters json"},
    {"Settings", "config print-config help"},
};
enum { GROUPS = sizeof groups / sizeof *groups };

/* TEXT: the column where what an option does begins. Lines of more than WIDEST are hard to read. FEW: options
 * that need no headings. */
enum { TEXT = 27, NARROWEST = 50, WIDEST = 110, FEW = 8 };

static const char *group_with(const char *word) {
    for (int i = 0; i < GROUPS; i++)
        if (has_word(groups[i].options, word)) return groups[i].title;
    return NULL;
}

/* The group that names an option, else the one that names the group of its row. */
const char *help_group(const option_row *row) {
    const char *own = group_with(row->field.name);
    return own || !row->group ? own : group_with(row->group);
}

int help_columns(void) {
    int columns = out_columns(stdout, 80);
    return columns < NARROWEST ? NARROWEST : columns > WIDEST ? WIDEST : columns;
}

const char *command_arguments(const command *c) {
    if (c->actions) return "ACTION DIR [DIR]";
    if (c->takes_command) return "COMMAND [ARGUMENT]...";
    if (c->word) return tool_text("[%s]", c->word);
    if (c->takes_two) return "MODEL [MODEL]";
    return c->file ? "FILE" : "MODEL";
}

const char *action_arguments(const command_action *a) {
    return a->n_words == 2 ? "DIR DIR" : "DIR";
}

/* The allowed words of an option, as an array. */
static json_t *words_json(const option_row *row) {
    json_t *all = json_array();
    const char *const *words = option_words(row);
    for (int i = 0; words && words[i]; i++) json_array_append_new(all, json_string(words[i]));
    return all;
}

json_t *options_json(const command *c) {
    static const char *const files[] = {[NO_FILE] = "",
                                        [READS] = "reads",
                                        [READS_DATA] = "data",
                                        [READS_ROWS] = "",
                                        [READS_STEPS] = "checkpoints",
                                        [READS_MODELS] = "models",
                                        [WRITES] = "writes",
                                        [WRITES_PICTURES] = "pictures",
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

/* ---- text ---- */

/* A line with two blanks before it, its continuation below `indent`. */
static void help_row(text *t, const char *left, int indent, const char *right, int columns) {
    int at = text_columns(left);
    text_add(t, "%s", left);
    text_pad(t, indent - 1 - at);
    text_wrap(t, right, at < indent - 1 ? indent - 1 : at, indent, columns);
    text_end_line(t);
}

static void add_option(text *t, const option_row *row, int columns) {
    const char *letter = row->letter ? tool_text("-%c,", row->letter) : "   ";
    const char *left = tool_text("  %s --%s%s%s", letter, row->field.name, row->argument ? "=" : "",
                                 row->argument ? row->argument : "");
    help_row(t, left, TEXT, row->field.means, columns);
}

/* Whether a word of a group means the row: its name, or that of its group ("@plan"), whose options may have
 * places of their own. */
static bool is_meant(const option_row *row, const char *word) {
    if (strcmp(row->field.name, word) == 0) return true;
    return row->group && strcmp(row->group, word) == 0 && !group_with(row->field.name);
}

static int options_of(const command *c) {
    int n = 0;
    for (const option_row *row = NULL; (row = option_next(c, row));) n++;
    return n;
}

/* A heading comes before the first option of its group that the command has, and a blank line between
 * groups. */
static void add_options(text *t, const command *c, int columns) {
    bool is_bold = out_is_coloured(stdout), has_titles = options_of(c) > FEW;
    const char *begun = NULL, *gap = "";
    char word[WORD_ROOM];
    for (int i = 0; i < GROUPS; i++)
        for (const char *at = groups[i].options; next_word(&at, word);)
            for (const option_row *row = NULL; (row = option_next(c, row));) {
                if (!is_meant(row, word)) continue;
                if (begun != groups[i].title && has_titles)
                    text_add(t, "%s%s%s%s\n", gap, is_bold ? "\033[1m" : "", groups[i].title,
                             is_bold ? "\033[0m" : "");
                begun = groups[i].title, gap = "\n";
                add_option(t, row, columns);
            }
}

static void add_actions(text *t, const command *c, int columns) {
    for (const command_action *a = c->actions; a && a->name; a++)
        help_row(t, tool_text("  %s %s", a->name, action_arguments(a)), TEXT, a->summary, columns);
    if (c->actions) text_add(t, "\n");
}

static void add_paragraph(text *t, const char *paragraph, int columns) {
    text_wrap(t, paragraph, 0, 0, columns);
    text_end_line(t);
}

static void add_end(text *t, const command *c, int columns) {
    const char *peer = command_has_option(c, "timeout") ? ", 7 another rank is missing, dead or differs" : "";
    const char *numbers = command_has_option(c, "checkpoint-dir")
                              ? ", 8 a bad step or numbers that are not finite, 130 stopped and saved"
                              : "";
    text_add(t, "\n");
    add_paragraph(t, tool_text("Exit status: 0 success, 1 failure, 2 wrong usage%s%s.", peer, numbers),
                  columns);
    text_add(t, "Example:\n  %s\n", c->example);
}

void help_print(const command *c) {
    text t = {0};
    int columns = help_columns();
    const char *arguments = command_arguments(c), *gap = *arguments ? " " : "";
    if (c->takes_command)
        text_add(&t, "Usage: graphtool %s [OPTION]... %s\n", c->name, arguments);
    else
        text_add(&t, "Usage: graphtool %s%s%s [OPTION]...\n", c->name, gap, arguments);
    add_paragraph(&t, tool_text("%s.", c->summary), columns);
    if (c->details) add_paragraph(&t, c->details, columns);
    text_add(&t, "\n");
    add_actions(&t, c, columns);
    add_options(&t, c, columns);
    add_end(&t, c, columns);
    out_text(NULL, &t);
}
