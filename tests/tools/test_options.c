/* test_options.c - graphtool's options as ranks compare them: each option of --help, given to one rank alone,
 * is the one setting that differs, unless it is each rank's own. A new option is compared unless its row says
 * otherwise. */
#include "support/programs.h"
#include "support/test.h"
#include "tools/graphtool/options/help.h"
#include "tools/graphtool/options/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define X(name) extern const command command_##name;
#include "tools/graphtool/cmd/list.h"
#undef X

static const char *const own[] = {"--output",   "--log",      "--csv",  "--tensorboard",
                                  "--curves",   "--work-dir", "--json", "--profile",
                                  "--launcher", "--rings",    "--help"};

/* A value that the option takes; none is a default. */
static const char *value_for(const char *name, const char *argument) {
    static const char *const words[][2] = {{"--isa", "sse2"},
                                           {"--dtype", "bf16"},
                                           {"--device", "cpu"},
                                           {"--shard", "flat"},
                                           {"--comm", "mpi"},
                                           {"--reduce", "fast"},
                                           {"--launcher", "slurm"},
                                           {"--val-every", "2"},
                                           {"--best", "loss"},
                                           {"--early-stop", "loss"},
                                           {"--keep-best", "loss"},
                                           {"--guard", "spike=10"},
                                           {"--on-bad-step", "skip=2"},
                                           {"--checkpoint-every", "2"},
                                           {"--until", "2%"},
                                           {"--strategy", "zero:stage=2"},
                                           {"--optimizer", "adam:beta1=0.5"}};
    static const char *const numbers[] = {"N", "K", "T", "R", "STAGE", "SECONDS", "RATE", "RATIO", "MIB"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i][0], name) == 0) return words[i][1];
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(numbers[i], argument) == 0) return "2";
    if (strcmp(argument, "NAME=FILE") == 0) return "image=here";
    if (strcmp(argument, "NAME=NUMBER") == 0) return "tau=0.5";
    if (strcmp(argument, "PATH:FIELDS") == 0) return "net:zero=1";
    if (strcmp(argument, "FROM:TO") == 0) return "module.:";
    if (strcmp(argument, "PATH:TYPE") == 0) return "net:bf16";
    return strcmp(argument, "FILE") == 0 ? "options.file" : "word";
}

/* `word` stays allocated, as options point into it. Some options have an effect only beside others, which are
 * added here; --weights, with which others have none, on demand. */
static void parse(const command *c, char *word, bool needs_weights, options *o) {
    static char model[] = "options.model", cuda[] = "--device=cuda", output[] = "--output=out",
                data[] = "--data=i=f", val[] = "--val-data=i=f", weights[] = "--weights=options.file";
    static char checkpoints[] = "--checkpoint-dir=folder";
    static char *const beside[] = {cuda, output, data, val, checkpoints};
    char *argv[10] = {(char *)(uintptr_t)c->name, model, word};
    int n = word ? 3 : 2;
    if (needs_weights) argv[n++] = weights;
    for (int i = 0; i < (c == &command_train ? 5 : 1); i++) {
        bool is_list = beside[i] == data || beside[i] == val; /* others may be given once */
        size_t name = strcspn(beside[i], "=");
        if (is_list || !word || strncmp(word, beside[i], name + 1)) argv[n++] = beside[i];
    }
    options_parse(c, n, argv, o); /* an error ends the suite */
}

/* Which settings differ, each followed by a space. */
static void differences(const options *a, const options *b, char list[400]) {
    weft_setting x[SETTINGS_MOST], y[SETTINGS_MOST];
    size_t used = 0;
    int n = options_settings(a, x);
    *list = 0;
    CHECK(options_settings(b, y) == n && n > 10);
    for (int i = 0; i < n; i++) {
        CHECK_TEXT(x[i].name, y[i].name);
        CHECK_SAYS(x[i].value && y[i].value, "%s is not known", x[i].name);
        if (x[i].value && y[i].value && strcmp(x[i].value, y[i].value))
            used += (size_t)snprintf(list + used, 400 - used, "%s ", x[i].name);
    }
}

static bool is_own(const char *name) {
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcmp(own[i], name) == 0) return true;
    return false;
}

/* One line of --help: "  -s, --seed=N   ..."; text begins in the first column. */
static int check_line(const command *c, const char *line) {
    char name[40], argument[40] = "", option[120], list[400], want[60];
    options with, without;
    const char *dashes = strstr(line, "--");
    if (!dashes || line[0] != ' ' || dashes - line > 8 ||
        sscanf(dashes, "%39[a-z0-9-]=%39s", name, argument) < 1)
        return 0;
    if (strcmp(name, "--help") == 0) return 0;
    snprintf(option, sizeof option, "%s%s%s", name, *argument ? "=" : "",
             *argument ? value_for(name, argument) : "");
    bool needs_weights = !strcmp(name, "--rename") || !strcmp(name, "--partial");
    parse(c, option, needs_weights, &with);
    parse(c, NULL, needs_weights, &without);
    differences(&without, &with, list);
    snprintf(want, sizeof want, "%s ", name);
    CHECK_SAYS(strcmp(list, is_own(name) ? "" : want) == 0, "graphtool %s %s: '%s' differs", c->name, option,
               list);
    return 1;
}

static void write_text(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    NEED(f != NULL);
    fputs(text, f);
    fclose(f);
}

static void remove_files(void) {
    remove("options.file"), remove("options.other"), remove("options.model");
}

static void write_files(void) {
    static bool goes;
    if (!goes) atexit(remove_files);
    goes = true;
    write_text("options.file", "{}"); /* as JSON for --config, too */
    write_text("options.other", "{}");
    write_text("options.model", "model");
}

TEST(each_option_stands_under_a_heading) {
    for (const option_row *row = option_rows; row->field.name; row++)
        CHECK_SAYS(help_group(row) != NULL, "--%s is in no group of help.c", row->field.name);
}

TEST(each_option_is_compared_or_a_rank_s_own) {
    unsetenv("WEFT_ISA"); /* --isa beside its default, whatever WEFT_TEST_ISA says */
    static const command *const commands[] = {&command_train, &command_eval, &command_bench, &command_trace};
    write_files();
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        int n = 0;
        if (!ends(run("graphtool %s --help", commands[i]->name), 0)) continue;
        char *help = read_all("out"), *rest = NULL;
        for (char *line = strtok_r(help, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
            n += check_line(commands[i], line);
        CHECK_SAYS(n > 15, "graphtool %s: %d options", commands[i]->name, n);
        free(help);
    }
}

/* Another length, another first or last MiB: another file. */
TEST(files_are_compared_by_what_they_hold) {
    options a, b;
    char list[400], x[] = "--weights=options.file", y[] = "--weights=options.other";
    write_files();
    parse(&command_eval, x, false, &a);
    parse(&command_eval, y, false, &b);
    differences(&a, &b, list);
    CHECK_TEXT(list, "");
    write_text("options.other", "[]");
    differences(&a, &b, list);
    CHECK_TEXT(list, "--weights ");
    write_text("options.other", "{} and more");
    differences(&a, &b, list);
    CHECK_TEXT(list, "--weights ");
}

TEST(the_environment_is_compared) {
    options o;
    write_files();
    weft_setting before[SETTINGS_MOST], after[SETTINGS_MOST];
    int differ = 0;
    parse(&command_eval, NULL, false, &o);
    int n = options_settings(&o, before);
    setenv("OMP_NUM_THREADS", "77", 1);
    options_settings(&o, after);
    unsetenv("OMP_NUM_THREADS");
    for (int i = 0; i < n; i++) differ += strcmp(before[i].value, after[i].value) != 0;
    CHECK(differ == 1);
}

TEST(checkpoints_come_by_steps_or_by_time) {
    static const struct {
        const char *text;
        int64_t iterations;
        double minutes; /* 0 and no iterations: it is refused */
    } rows[] = {{"1", 1, 0},    {"500", 500, 0}, {"30s", 0, 0.5}, {"10m", 0, 10}, {"2h", 0, 120},
                {"0", 0, 0},    {"0m", 0, 0},    {"", 0, 0},      {"m", 0, 0},    {"5d", 0, 0},
                {"10ms", 0, 0}, {"1.5h", 0, 0},  {"-3m", 0, 0},   {"10 m", 0, 0}, {"9999999999999999", 0, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t n;
        double minutes;
        bool is_one = option_interval(rows[i].text, &n, &minutes);
        CHECK_SAYS(is_one == (rows[i].iterations || rows[i].minutes > 0), "%s", rows[i].text);
        if (is_one) CHECK_SAYS(n == rows[i].iterations && minutes == rows[i].minutes, "%s", rows[i].text);
    }
}

SUITE("options of ranks", {T(each_option_stands_under_a_heading), T(each_option_is_compared_or_a_rank_s_own),
                           T(files_are_compared_by_what_they_hold), T(the_environment_is_compared),
                           T(checkpoints_come_by_steps_or_by_time)})
