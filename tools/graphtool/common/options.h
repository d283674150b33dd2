/* options.h - graphtool's command line: one table of options, from which parsing and --help are made.
 *
 * A new option is one line in options.c and one field here; a new subcommand one line in graphtool.c and one
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

/* Bits of option_row.commands. */
enum {
    FOR_INFO = 1 << 0,
    FOR_DOT = 1 << 1,
    FOR_PLAN = 1 << 2,
    FOR_OPS = 1 << 3,
    FOR_TRAIN = 1 << 4,
    FOR_EVAL = 1 << 5,
    FOR_BENCH = 1 << 6,
    FOR_VERIFY = 1 << 7,
    FOR_PREDICT = 1 << 8,
    FOR_TRACE = 1 << 9,
    FOR_CALIBRATE = 1 << 10,
    FOR_ONE_OF_MANY = FOR_DOT | FOR_PLAN | FOR_VERIFY, /* a rank that need not be there: --world, --rank */
};

typedef struct command {
    const char *name;
    unsigned bit;
    const char *summary; /* one line for the list of commands */
    bool takes_model;
    const char *details; /* a paragraph for --help; NULL: none */
    const char *example;
    int (*run)(const options *o);
    options defaults;
} command;

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
