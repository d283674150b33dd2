/* options.h - graphtool's command line: one table of options, from which parsing and --help are made.
 *
 * A new option is one line in options.c and one field here; a new subcommand one line in cmd/list.h and one
 * file. Errors are one line on stderr; the exit status is EXIT_MISUSED then. An option that would do nothing is one.
 */
#ifndef WEFT_TOOLS_GRAPHTOOL_COMMON_OPTIONS_H
#define WEFT_TOOLS_GRAPHTOOL_COMMON_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

enum { EXIT_FINE = 0, EXIT_WRONG = 1, EXIT_MISUSED = 2, EXIT_INTERRUPTED = 130 };

enum { OPTIONS_MAX_DATA = 16 };

/* Values of a list option (--data NAME=FILE, --ddp PATH:FIELDS), several times. */
typedef struct text_list {
    int n;
    const char *v[OPTIONS_MAX_DATA];
} text_list;

/* Numbers are 0 and texts NULL when not given, unless a command sets another default before parsing. */
typedef struct options {
    const char *model; /* the one positional argument; NULL for commands without one */
    const char *graph, *output, *format, *view, *isa, *after, *log, *weights, *port, *grid, *launcher;
    const char *shard, *reduce, *dtype, *device, *way, *calibration;
    const struct command *command; /* whose options these are */
    int64_t batch, threads, accumulate, world, rank, zero, depth, max_nodes, epochs, steps, warmup, seed;
    double lr, bucket_cap_mb, timeout;
    text_list data, val_data, ddp;
    struct weft_comm *comm; /* the ranks that work together, by world_open; NULL: we are alone */
    bool json, markdown, all, dump, serial, keep_going, profile, training, deterministic, tf32, check,
        no_capture;
    bool random_weights;
    uint64_t given; /* see option_is_given */
} options;

/* Options that several commands take; each name is a row of options.c. */
#define OPTIONS_COMPILE "batch threads isa device deterministic tf32 calibration dtype "
#define OPTIONS_SPREAD  "accumulate ddp zero shard bucket-cap-mb reduce serial " /* over ranks */
#define OPTIONS_FEED    "data weights check no-capture seed launcher "
#define OPTIONS_TALK    "timeout comm " /* ranks with each other */
#define OPTIONS_IMAGINE "world rank "   /* as a rank that need not be there */

/* What a command started by mpirun, srun or torchrun does with the other ranks; all but the first run graphs. */
typedef enum command_ranks {
    COMMAND_ALONE,       /* it knows of none */
    COMMAND_JOINS,       /* it works with them, from world_open on, before it runs */
    COMMAND_LEADS,       /* rank 0 works alone */
    COMMAND_JOINS_LATER, /* it joins them itself */
} command_ranks;

/* A subcommand: command_NAME of cmd/NAME.c. */
typedef struct command {
    const char *name;
    const char *summary; /* one line for the list of commands */
    bool takes_model;
    const char *options; /* names, a space between: "json output"; --help goes without saying */
    const char *details; /* a paragraph for --help; NULL: none */
    const char *example;
    int (*run)(const options *o); /* returns the exit status */
    command_ranks ranks;
    options defaults;
} command;
bool command_has_option(const command *c, const char *option);

/* What an option of a few words may be, NULL behind the last; the first is the default. */
extern const char *const option_devices[],
    *const option_isas[], *const option_shards[], *const option_reduces[], *const option_dtypes[],
                                                                               *const option_ways[],
                                                                                   *const option_views[],
                                                                                       *const option_types[];
/* The place of a word in such a list; 0 without a word. */
int option_choice(const char *word, const char *const *words);

/* Fills *o from argv (argv[0] is the command's name). Returns -1 to go on, else the exit status: --help was
 * printed, or the error was. */
int options_parse(const command *c, int argc, char **argv, options *o);

/* Whether `name` was given, be it with its default; "name=word": with that word. What follows a blank does not count. */
bool option_is_given(const options *o, const char *name);

/* What all ranks must have been given alike: the command's options but those that are a rank's own, the model and other
 * files by a hash of their first and last MiB, and variables of the environment that change results. */
enum { SETTINGS_MOST = 64 };
typedef struct option_settings {
    int n;
    char names[SETTINGS_MOST][32];
    char
        *values[SETTINGS_MOST]; /* NULL: not known, as of a file that cannot be read: the command will tell */
} option_settings;
void options_settings(const options *o, option_settings *all);
void options_settings_free(option_settings *all);
void options_help(const command *c);
/* The rows of a command: name, letter, argument, help and words of each. */
struct json_t *options_json(const command *c);

#endif
