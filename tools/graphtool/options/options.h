/* options.h - graphtool's command line: one table of options, from which parsing and --help are made.
 *
 * A new option is a row of option_table.c and a field here; a new subcommand is one line in cmd/list.h and
 * one file. An error is one line on stderr, and the exit status is then EXIT_MISUSED. An option that would
 * have no effect is an error too. */
#ifndef WEFT_TOOLS_GRAPHTOOL_OPTIONS_OPTIONS_H
#define WEFT_TOOLS_GRAPHTOOL_OPTIONS_OPTIONS_H

#include "tools/graphtool/output/end.h"

#include "weft/plan.h"

enum { OPTIONS_MAX_DATA = 16, OPTIONS_MOST = 128 /* rows of the table */, ACTION_WORDS = 2 };

/* The values of an option that may be given several times: --data NAME=FILE, --ddp PATH:FIELDS, and
 * --schedule [NAME=]PARTS, whose name may be left out. */
typedef struct text_list {
    int n;
    const char *v[OPTIONS_MAX_DATA];
} text_list;

/* Numbers are 0 and texts NULL when an option is not given, unless the command sets another default before
 * parsing. */
typedef struct options {
    const char *model; /* the one positional argument; NULL for commands without one */
    const char *other; /* the second model of a command that takes two; NULL: it was not given */
    /* But for its graph, flow and guard, which are texts of other meaning here. */
    weft_compile_options compile;
    const char *graph, *flow, *output, *format, *view, *focus, *log, *weights, *port, *grid, *launcher;
    const char *way, *estimate, *val_every, *work_dir, *config, *csv, *tensorboard, *curves, *samples, *best,
        *early_stop, *loss, *minimize, *trainable, *head, *images, *batch_norm, *checkpoint_dir,
        *checkpoint_every, *keep_best, *resume, *rings, *guard, *on_bad_step, *until, *against, *compare,
        *suite;
    const char *word;                    /* the argument of a command that takes no model; NULL: none */
    const struct command_action *action; /* of a command with actions */
    const char *words[ACTION_WORDS];     /* the action's: folders */
    char **rest;                         /* what a command that takes a command is given, then NULL */
    const struct command *command;       /* the subcommand */
    int64_t depth, max_nodes, hops, epochs, steps, log_every, warmup, keep, ranks, scale;
    uint64_t seed;
    double lr, timeout, grace, fail_above;
    text_list data, val_data, set, axis, expand, ddp, rename, precision, optimizer, clip_norm, ema, schedule,
        metric, picture, with, op;
    weft_comm *comm; /* the ranks that work together, set by world_open; NULL: this process is alone */
    bool json, markdown, all, dump, keep_going, profile, training, check, no_capture, bytes;
    bool random_weights, partial, print_config, averages, fixed_batch, external_data, random_inputs,
        parameters, argmax, check_accuracy;
    unsigned char from[OPTIONS_MOST]; /* by row of the table: option_origin, where its value is from */
} options;

/* Where the value of an option is from. Each wins over those after it. */
typedef enum option_origin {
    ORIGIN_NONE,     /* it is not given */
    ORIGIN_LINE,     /* the command line */
    ORIGIN_FILE,     /* the file of --config */
    ORIGIN_DIR,      /* --work-dir */
    ORIGIN_VARIABLE, /* the variable WEFT_ISA: a default, so rules do not count it as given */
} option_origin;

/* Groups of compile options (the last but one column of runtime/plan/compile_list.h). */
#define PLAN   "@plan"
#define STEP   "@step"
#define SPREAD "@spread"
#define WORLD  "@world"
#define FEED   "@feed"
#define PICKED NULL /* only commands that name it */

/* Options that several commands take; each name is a row of option_table.c, or a group of them. */
#define OPTIONS_COMPILE PLAN " precision "
#define OPTIONS_STEP    STEP " flow optimizer clip-norm ema " /* what a step is made of */
#define OPTIONS_SPREAD  SPREAD " ddp "                        /* distribution over ranks */
#define OPTIONS_FEED    FEED " data set weights rename partial check no-capture launcher "
#define OPTIONS_TALK    "timeout rings comm " /* communication between ranks */
#define OPTIONS_IMAGINE WORLD " "             /* compile as one rank of a world that need not run */

/* What a command that mpirun, srun or torchrun starts does about the other ranks. All but the first run
 * graphs. */
typedef enum command_ranks {
    COMMAND_ALONE,       /* it ignores other ranks */
    COMMAND_JOINS,       /* it works with them; world_open is called before it runs */
    COMMAND_LEADS,       /* rank 0 works alone */
    COMMAND_JOINS_LATER, /* it calls world_open itself */
} command_ranks;

/* A thing that a command can do, by its first word: "ckpt list DIR". */
typedef struct command_action {
    const char *name;
    int n_words;         /* how many words follow it, each the name of a folder */
    const char *options; /* those of the command's that it takes */
    const char *summary; /* the end of its line in --help */
    int (*run)(const options *o);
} command_action;

/* A subcommand: command_NAME of cmd/NAME.c. */
typedef struct command {
    const char *name;
    const char *summary; /* one line for the list of commands */
    const char *file;    /* what it takes for MODEL where that is not a model: "a bad.step" */
    const char *word;    /* the name of an optional argument, instead of a model; NULL: it takes none */
    const char *options; /* names with a space between: "json output"; --help is always there */
    const char *details; /* a paragraph for --help; NULL: none */
    const char *example;
    int (*run)(const options *o);  /* returns the exit status; NULL: each of `actions` has its own */
    const command_action *actions; /* ends with one without a name; NULL: the command does one thing */
    command_ranks ranks;
    bool takes_two;     /* a second model may follow the first */
    bool writes_text;   /* its --output may be "-", standard output */
    bool takes_command; /* what follows its options is a command line */
    options defaults;
} command;
/* Words with a blank between them: takes the one at *at; false: there is no more. Is `name` one of them? */
enum { WORD_ROOM = 40 };
bool next_word(const char **at, char word[WORD_ROOM]);
bool has_word(const char *words, const char *name);
bool command_has_option(const command *c, const char *option);

/* The allowed words of an option, ending with NULL; the first is the default. */
extern const char *const option_ways[], *const option_views[], *const option_types[], *const option_roofs[];
/* The index of a word in such a list; 0 for NULL. */
int option_choice(const char *word, const char *const *words);

/* Fills *o from argv (argv[0] is the command's name), and from the file of --config what argv does not say.
 * --help is printed, and ends the command. */
void options_parse(const command *c, int argc, char **argv, options *o);
/* The options of the second of two models or plans: its model is o->other, or o's, and --against says what is
 * other than in o; options in `both` are errors there. NULL: neither is given. */
const options *options_second(const options *o, const char *both);
/* Ends the command where an option is given that is not one of `allowed`: it has no effect "on ...". */
void options_only(const options *o, const char *allowed, const char *where);

/* A number of up to 15 digits, and what follows it; 0 where there is no such number. */
int64_t option_count(const char *text, const char **unit);
/* Reads "2" (epochs), "500steps": the number, and whether it is of steps. False: it is neither. */
bool option_every(const char *text, int64_t *n, bool *is_steps);
/* "1000" are iterations, "30s", "10m" and "1h" are times. False: it is neither. */
bool option_interval(const char *text, int64_t *iterations, double *minutes);
/* Splits "METRIC[:FIELDS]": METRIC, and what follows it, "" where nothing does. */
const char *option_kind_of(const char *value, const char **rest);
/* Splits "NAME=REST" of a list whose names may be left out, and "NAME:FIELDS", where NAME may have a ':':
 * NAME, "" where there is none, and what follows it. */
const char *option_name_of(const char *value, const char **rest);
const char *option_name_before(const char *value, const char **fields);

/* One field that an option gives: of --optimizer=NAME:FIELD=VALUE and the like. */
typedef struct option_given {
    const char *option, *value; /* as given; value NULL: that of --lr */
    const char *name;           /* whose; "": of all */
    const char *field;
} option_given;
enum { OPTION_FIELDS = 256 };
typedef struct option_fields {
    int n;
    option_given list[OPTION_FIELDS];
} option_fields;
void option_add_field(option_fields *all, option_given one);
/* Each field of NAME:FIELDS. */
void option_add_fields(option_fields *all, const char *option, const char *value);

/* Ends the command, as b gives a field of the same as a. */
_Noreturn void option_refuse_twice(const option_given *a, const option_given *b, const char *whose);

/* Was `name` given, even with its default value? "name=word": given with that word. */
bool option_is_given(const options *o, const char *name);

/* The settings that all ranks must share: the command's options except each rank's own, hashes of the first
 * and last MiB of the model and other files, and the environment variables that change results. */
enum { SETTINGS_MOST = OPTIONS_MOST + 8 };
/* Returns how many. Those of value NULL are unknown, as of a file that cannot be read. */
int options_settings(const options *o, weft_setting all[SETTINGS_MOST]);

#endif
