/* options.c - the option table, and what is made from it: parsing (by getopt_long), --help, JSON, and the
 * settings that ranks compare. */
#include "tools/graphtool/common/options.h"

#include "tools/graphtool/common/output.h"
#include "tools/graphtool/common/rules.h"

#include "graph/core/graph.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum option_kind {
    OPTION_FLAG,
    OPTION_INT,
    OPTION_REAL,
    OPTION_TEXT,
    OPTION_WORD,
    OPTION_LIST
} option_kind;

/* How ranks that work together share an option. A new option is compared unless its row says otherwise. */
typedef enum option_sharing {
    SHARED,  /* the same on all ranks */
    CONTENT, /* a file whose path may differ between machines: its contents are the same */
    NAMES,   /* NAME=FILE: the names are the same; loaders compare the files' contents */
    OWN,     /* each rank's own, as only rank 0 writes */
} option_sharing;

typedef struct option_row {
    const char *name;
    char letter;          /* short form, 0: none */
    const char *argument; /* its name in --help; NULL for flags */
    option_kind kind;
    size_t offset;    /* of the field in struct options */
    int64_t min, max; /* OPTION_INT; OPTION_REAL: above 0, up to max unless that is 0 */
    const char *help;
    const char *const *words; /* OPTION_WORD, or behind the last gap of OPTION_LIST */
    option_sharing sharing;
} option_row;

const char *const option_devices[] = {"cpu", "cuda", NULL};
const char *const option_isas[] = {"auto", "reference", "sse2", "avx2", "avx512", NULL};
const char *const option_shards[] = {"greedy", "flat", NULL};
const char *const option_reduces[] = {"auto", "ordered", "fast", NULL};
const char *const option_dtypes[] = {"f32", "bf16", "f16", NULL};
const char *const option_ways[] = {"auto", "mpi", "nccl", NULL};
const char *const option_views[] = {"graph", "program", "plan", NULL};
const char *const option_types[] = {"dot", "svg", "png", NULL};
const char *const option_roofs[] = {"h100", "h200", NULL};
static const char *const launchers[] = {"auto", "mpi", "slurm", "env", NULL};

#define F(field) offsetof(options, field)
enum { MILLION = 1000000 };
/* Each command lists the options that it takes: command.options. */
static const option_row rows[] = {
    {"graph", 'g', "NAME", OPTION_TEXT, F(graph), 0, 0, "the graph to use"},
    {"data", 'd', "NAME=FILE", OPTION_LIST, F(data), 0, 0,
     "feed input NAME from .npy, IDX, .npz, images, tokens or text: [FILE or FOLDER][:option=value,...]; once for each input", .sharing = NAMES},
    {"val-data", 0, "NAME=FILE", OPTION_LIST, F(val_data), 0, 0,
     "run graph val on this file after each epoch; once for each input", .sharing = NAMES},
    {"epochs", 'e', "N", OPTION_INT, F(epochs), 1, MILLION, "passes over the data (1)"},
    {"steps", 'k', "N", OPTION_INT, F(steps), 1, INT64_MAX / 2,
     "train: stop after N steps; bench, trace: steps to time (20, 5)"},
    {"warmup", 0, "N", OPTION_INT, F(warmup), 0, MILLION, "steps that run first, without timing (3)"},
    {"lr", 0, "RATE", OPTION_REAL, F(lr), 0, 0, "learning rate of every optimizer, instead of the model's"},
    {"weights", 'w', "FILE", OPTION_TEXT, F(weights), 0, 0, "start from these weights (safetensors)",
     .sharing = CONTENT},
    {"rename", 0, "FROM:TO", OPTION_LIST, F(rename), 0, 0,
     "names in the file of --weights that begin with FROM begin with TO instead; each may be empty"},
    {"partial", 0, NULL, OPTION_FLAG, F(partial), 0, 0,
     "load what --weights has of the model, and pass over names that the model does not have"},
    {"random-weights", 0, NULL, OPTION_FLAG, F(random_weights), 0, 0,
     "use random initial values instead of --weights"},
    {"log", 'l', "FILE", OPTION_TEXT, F(log), 0, 0, "write one line of JSON for each step", .sharing = OWN},
    {"optimizer-state", 0, NULL, OPTION_FLAG, F(training), 0, 0,
     "save optimizer state and step counters with the weights"},
    {"keep-going", 0, NULL, OPTION_FLAG, F(keep_going), 0, 0,
     "continue when a loss is not finite, and write weights that are not finite"},
    {"fetch", 'f', "NAME", OPTION_TEXT, F(port), 0, 0, "the output to write (the graph's first)"},
    {"grid", 0, "RxC", OPTION_TEXT, F(grid), 0, 0, "rows and columns of images in a PNG (8x8)"},
    {"batch", 'b', "N", OPTION_INT, F(batch), 1, INT32_MAX, "batch size (the model's default)"},
    {"threads", 't', "T", OPTION_INT, F(threads), 1, 1024, "threads (every core that the process may use)"},
    {"isa", 0, "NAME", OPTION_WORD, F(isa), 0, 0,
     "highest instruction set of kernels: auto, reference, sse2, avx2 or avx512 (auto)", option_isas},
    {"device", 0, "NAME", OPTION_WORD, F(device), 0, 0,
     "cpu or cuda; compiling for cuda needs no GPU, running does (cpu)", option_devices},
    {"deterministic", 0, NULL, OPTION_FLAG, F(deterministic), 0, 0, "on a GPU: the same bits in every run"},
    {"tf32", 0, NULL, OPTION_FLAG, F(tf32), 0, 0,
     "on a GPU: products of f32 may round their operands to TF32"},
    {"calibration", 0, "FILE", OPTION_TEXT, F(calibration), 0, 0,
     "on a GPU: use the algorithms of this table, made by graphtool calibrate", .sharing = CONTENT},
    {"check", 0, NULL, OPTION_FLAG, F(check), 0, 0,
     "check every node's results: the first that is not finite ends the run (slow)"},
    {"no-capture", 0, NULL, OPTION_FLAG, F(no_capture), 0, 0,
     "on a GPU: launch node by node instead of replaying captured graphs"},
    {"dtype", 0, "NAME", OPTION_WORD, F(dtype), 0, 0,
     "type of matrix products, convolutions and attention: f32, bf16 or f16 (f32)", option_dtypes},
    {"precision", 0, "PATH:TYPE", OPTION_LIST, F(precision), 0, 0,
     "the same for a graph, a scope or a scope of one graph: d_step:bf16, generator/out:f32", option_dtypes},
    {"flow", 0, "FLOW", OPTION_TEXT, F(flow), 0, 0,
     "the flow to run: a name, or steps like \"d_step*5 g_step{accumulate=4}\" (train)"},
    {"accumulate", 0, "K", OPTION_INT, F(accumulate), 1, 65536,
     "micro-batches a step, for graphs whose flow does not say it (1)"},
    {"seed", 's', "N", OPTION_INT, F(seed), 0, INT64_MAX,
     "seed of initial values, data order and random numbers (0)"},
    {"world", 0, "N", OPTION_INT, F(world), 1, 1 << 20, "compile for N ranks that train together (1)"},
    {"rank", 0, "R", OPTION_INT, F(rank), 0, 1 << 20, "compile for this rank, from 0 (0)"},
    {"ddp", 0, "PATH:FIELDS", OPTION_LIST, F(ddp), 0, 0,
     "options of weft_ddp for the parameters under PATH (empty: all): generator:zero=1,bucket_cap_mb=4"},
    {"zero", 0, "STAGE", OPTION_INT, F(zero), 0, 2,
     "ZeRO stage: 1 shards optimizer state and updates over ranks, 2 gradients too (0)"},
    {"shard", 0, "HOW", OPTION_WORD, F(shard), 0, 0,
     "how --zero shards: greedy, whole parameters; flat, equal ranges (greedy)", option_shards},
    {"bucket-cap-mb", 0, "MIB", OPTION_REAL, F(bucket_cap_mb), 0, 0,
     "size of a gradient bucket in MiB (a sixteenth of the subgraph, at most 25)"},
    {"reduce", 0, "HOW", OPTION_WORD, F(reduce), 0, 0,
     "sums over ranks: ordered, the same bits in any world; fast; auto, fast with NCCL (auto)",
     option_reduces},
    {"serial", 0, NULL, OPTION_FLAG, F(serial), 0, 0,
     "wait for each collective where it starts, so that nothing overlaps"},
    {"launcher", 0, "NAME", OPTION_WORD, F(launcher), 0, 0,
     "launcher whose variables give rank and world: auto, mpi, slurm or env (auto)", launchers, OWN},
    {"timeout", 0, "SECONDS", OPTION_REAL, F(timeout), 0, 1000 * MILLION,
     "end with an error when a rank waits this long for others, and name the missing ones (300)"},
    {"comm", 0, "WAY", OPTION_WORD, F(way), 0, 0,
     "communication with --device cuda: nccl; mpi, through the host; auto, nccl with MPI, or alone under "
     "torchrun (auto)",
     option_ways},
    {"profile", 0, NULL, OPTION_FLAG, F(profile), 0, 0, "print the time by op and by node to stderr",
     .sharing = OWN},
    {"after", 0, "PASS", OPTION_TEXT, F(after), 0, 0,
     "stop after this pass of the compiler, and print the plan as text"},
    {"dump", 0, NULL, OPTION_FLAG, F(dump), 0, 0,
     "print the whole plan node by node, as text that can be read back"},
    {"bytes", 0, NULL, OPTION_FLAG, F(bytes), 0, 0, "print what a step launches, reads and writes, by op"},
    {"estimate", 0, "GPU", OPTION_WORD, F(estimate), 0, 0,
     "the same with the time that a GPU is expected to take: h100 or h200", option_roofs},
    {"view", 0, "VIEW", OPTION_WORD, F(view), 0, 0,
     "graph, as written; program, as it runs; plan, buckets and streams (graph)", option_views},
    {"all", 'a', NULL, OPTION_FLAG, F(all), 0, 0, "with --view=graph: the backward pass and the updates too"},
    {"depth", 0, "N", OPTION_INT, F(depth), 0, 64, "levels of scopes to open (as many as fit a page)"},
    {"max-nodes", 0, "N", OPTION_INT, F(max_nodes), 4, 100000,
     "collapse scopes until at most N nodes are left, whatever the page size (80, on a page)"},
    {"type", 'T', "TYPE", OPTION_WORD, F(format), 0, 0, "format: dot, svg or png (dot)", option_types},
    {"markdown", 0, NULL, OPTION_FLAG, F(markdown), 0, 0, "print Markdown, as in docs/ops.md"},
    {"json", 'j', NULL, OPTION_FLAG, F(json), 0, 0, "print JSON with stable keys", .sharing = OWN},
    {"output", 'o', "FILE", OPTION_TEXT, F(output), 0, 0,
     "write to FILE (train: weights as safetensors; predict: .png or .npy; trace: .json)", .sharing = OWN},
    {"help", 'h', NULL, OPTION_FLAG, 0, 0, 0, "print this text", .sharing = OWN},
};
#undef F
enum { ROWS = sizeof rows / sizeof *rows, FIRST_VALUE = 256 };
_Static_assert(ROWS <= 64, "options.given has a bit for each");

bool command_has_option(const command *c, const char *name) {
    size_t n = strlen(name);
    for (const char *word = c->options; *word; word += strcspn(word, " "), word += *word == ' ')
        if (strncmp(word, name, n) == 0 && (word[n] == ' ' || !word[n])) return true;
    return strcmp(name, "help") == 0;
}

/* Options are in the order of the table. */
void options_help(const command *c) {
    printf("Usage: graphtool %s%s [OPTION]...\n%s.\n", c->name, c->takes_model ? " MODEL" : "", c->summary);
    if (c->details) printf("%s\n", c->details);
    printf("\n");
    for (int i = 0; i < ROWS; i++) {
        if (!command_has_option(c, rows[i].name)) continue;
        char left[64];
        int n = rows[i].letter ? snprintf(left, sizeof left, "  -%c, --%s", rows[i].letter, rows[i].name)
                               : snprintf(left, sizeof left, "      --%s", rows[i].name);
        if (rows[i].argument) snprintf(left + n, sizeof left - (size_t)n, "=%s", rows[i].argument);
        printf("%-26s %s\n", left, rows[i].help);
    }
    printf("\nExit status: 0 success, 1 failure, 2 wrong usage.\nExample: %s\n", c->example);
}

/* The allowed words of an option, as an array. */
static json_t *words_json(const option_row *row) {
    json_t *words = json_array();
    for (int i = 0; row->kind == OPTION_WORD && row->words[i]; i++)
        json_array_append_new(words, json_string(row->words[i]));
    return words;
}

json_t *options_json(const command *c) {
    json_t *list = json_array();
    for (const option_row *row = rows; row < rows + ROWS; row++) {
        if (!command_has_option(c, row->name)) continue;
        char letter[2] = {row->letter, 0};
        json_t *one =
            json_pack("{s:s, s:s, s:s, s:s, s:o}", "name", row->name, "letter", letter, "argument",
                      row->argument ? row->argument : "", "help", row->help, "words", words_json(row));
        json_array_append_new(list, one);
    }
    return list;
}

/* ---- one value ---- */

static int refuse(const command *c, const option_row *row, const char *value, const char *rule) {
    return tool_fail("%s: --%s=%s: %s", c->name, row->name, value, rule);
}

int option_choice(const char *word, const char *const *words) {
    for (int i = 0; words[i]; i++)
        if (!word || strcmp(words[i], word) == 0) return i;
    return 0;
}

static bool is_one_of(const char *word, const char *const *words) {
    return strcmp(words[option_choice(word, words)], word) == 0;
}

/* "cpu or cuda is needed" */
static void words_text(const char *const *words, char text[80]) {
    size_t at = 0;
    for (int i = 0; words[i]; i++)
        at += (size_t)snprintf(text + at, 80 - at, "%s%s",
                               i == 0         ? ""
                               : words[i + 1] ? ", "
                                              : " or ",
                               words[i]);
    snprintf(text + at, 80 - at, " is needed");
}

/* Checks one value and stores it in its field; -1, or the exit status after printing the rule. */
static int value_set(const command *c, const option_row *row, const char *value, options *o) {
    void *at = (char *)o + row->offset;
    char *end, rule[80];
    errno = 0;
    switch (row->kind) {
    case OPTION_FLAG:
        *(bool *)at = true;
        return -1;
    case OPTION_TEXT:
        *(const char **)at = value;
        if (!*value) return refuse(c, row, value, "it must not be empty");
        if (strcmp(row->argument, "FILE") == 0 && strcmp(value, "-") == 0)
            return refuse(c, row, value, "a file is needed (/dev/stdin and /dev/stdout are some)");
        return -1;
    case OPTION_WORD:
        *(const char **)at = value;
        if (is_one_of(value, row->words)) return -1;
        words_text(row->words, rule);
        return refuse(c, row, value, rule);
    case OPTION_INT: {
        long long n = strtoll(value, &end, 10);
        snprintf(rule, sizeof rule, "a whole number from %lld to %lld is needed", (long long)row->min,
                 (long long)row->max);
        if (errno || end == value || *end || n < row->min || n > row->max) return refuse(c, row, value, rule);
        *(int64_t *)at = n;
        return -1;
    }
    case OPTION_REAL: {
        double x = strtod(value, &end);
        snprintf(rule, sizeof rule,
                 row->max ? "a number above 0 and up to %lld is needed" : "a number above 0 is needed",
                 (long long)row->max);
        if (errno || end == value || *end || !isfinite(x) || x <= 0 || (row->max && x > (double)row->max))
            return refuse(c, row, value, rule);
        *(double *)at = x;
        return -1;
    }
    case OPTION_LIST: {
        text_list *list = at;
        char gap = row->argument[strcspn(row->argument, "=:")]; /* PATH may be empty, NAME may not */
        const char *right = strchr(value, gap);
        bool is_rename = strcmp(row->argument, "FROM:TO") == 0; /* where TO may be empty too */
        snprintf(rule, sizeof rule, "%s is needed", row->argument);
        if (!right || (right == value && gap == '=') || (!right[1] && !is_rename))
            return refuse(c, row, value, rule);
        if (row->words && !is_one_of(strrchr(value, gap) + 1, row->words)) {
            words_text(row->words, rule);
            return refuse(c, row, value, rule);
        }
        if (list->n == OPTIONS_MAX_DATA) return refuse(c, row, value, "too many of them");
        list->v[list->n++] = value;
        return -1;
    }
    }
    return -1;
}

/* ---- all of them ---- */

/* The row's bit in options.given. */
static uint64_t bit_of(const option_row *row) {
    return (uint64_t)1 << (row - rows);
}

bool option_is_given(const options *o, const char *name) {
    size_t n = strcspn(name, "= ");
    for (const option_row *row = rows; row < rows + ROWS; row++)
        if (o->given & bit_of(row) && strncmp(row->name, name, n) == 0 && !row->name[n])
            return name[n] != '=' ||
                   strcmp(*(const char *const *)((const char *)o + row->offset), name + n + 1) == 0;
    return false;
}

/* The table in getopt_long's form, with the options of this command only. */
static void getopt_table(const command *c, struct option longs[ROWS + 1], char shorts[3 * ROWS + 2]) {
    char *s = shorts;
    int n = 0;
    *s++ = ':'; /* getopt then returns ':' for a missing argument and '?' for an unknown option */
    for (int i = 0; i < ROWS; i++) {
        if (!command_has_option(c, rows[i].name)) continue;
        longs[n++] = (struct option){rows[i].name, rows[i].argument ? 1 : 0, NULL, FIRST_VALUE + i};
        if (rows[i].letter) {
            *s++ = rows[i].letter;
            if (rows[i].argument) *s++ = ':';
        }
    }
    *s = 0;
    longs[n] = (struct option){0};
}

/* The row for a value that getopt_long returned; NULL: not an option. */
static const option_row *row_of(const command *c, int value) {
    if (value >= FIRST_VALUE) return &rows[value - FIRST_VALUE];
    for (int i = 0; i < ROWS; i++)
        if (rows[i].letter == value && command_has_option(c, rows[i].name)) return &rows[i];
    return NULL;
}

/* Flags and lists may be repeated; any other option may be given once. */
int options_parse(const command *c, int argc, char **argv, options *o) {
    struct option longs[ROWS + 1];
    char shorts[3 * ROWS + 2];
    getopt_table(c, longs, shorts);
    *o = c->defaults;
    o->command = c;
    opterr = 0; /* getopt's own messages name the program, not the command */
    optind = 1;
    for (int value; (value = getopt_long(argc, argv, shorts, longs, NULL)) != -1;) {
        const char *word = argv[optind - 1];
        if (value == ':') return tool_fail("%s: %s needs a value", c->name, word);
        const option_row *row = row_of(c, value);
        if (!row && isprint(optopt) && optopt < FIRST_VALUE)
            return tool_fail("%s: no option -%c; see graphtool %s --help", c->name, optopt, c->name);
        if (!row) return tool_fail("%s: no option %s; see graphtool %s --help", c->name, word, c->name);
        if (strcmp(row->name, "help") == 0) {
            options_help(c);
            return EXIT_FINE;
        }
        if (o->given & bit_of(row) && row->kind != OPTION_FLAG && row->kind != OPTION_LIST)
            return tool_fail("%s: --%s is given twice", c->name, row->name);
        o->given |= bit_of(row);
        int status = value_set(c, row, optarg, o);
        if (status >= 0) return status;
    }
    int left = argc - optind;
    if (left != c->takes_model)
        return tool_fail("%s: %s; see graphtool %s --help", c->name,
                         !c->takes_model ? "it takes no file"
                         : left          ? "one model is enough"
                                         : "a model file is needed",
                         c->name);
    if (c->takes_model) o->model = argv[optind];
    return rules_together(o);
}

/* ---- settings that ranks compare ---- */

/* Variables of the process, not of the command line, that change results. */
static const char *const variables[] = {"OMP_NUM_THREADS", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA",
                                        "ONEDNN_DEFAULT_FPMATH_MODE", "NVIDIA_TF32_OVERRIDE"};

/* A file's length and a hash of its first and last MiB; NULL when it cannot be read. */
static char *file_value(const char *path) {
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
    return value.data;
}

static void list_value(const text_list *list, bool names_alone, text *t) {
    for (int i = 0; i < list->n; i++) {
        size_t length = names_alone ? strcspn(list->v[i], "=") : strlen(list->v[i]);
        text_add(t, "%s%.*s", i ? " " : "", (int)length, list->v[i]);
    }
    if (!list->n) text_add(t, "not given");
}

/* The value of an option as text, freed by options_settings_free. */
static char *option_value(const option_row *row, const options *o) {
    const void *at = (const char *)o + row->offset;
    text t = {0};
    switch (row->kind) {
    case OPTION_FLAG:
        text_add(&t, *(const bool *)at ? "given" : "not given");
        break;
    case OPTION_INT:
        if (*(const int64_t *)at < row->min)
            text_add(&t, "not given");
        else
            text_add(&t, "%lld", (long long)*(const int64_t *)at);
        break;
    case OPTION_REAL:
        if (*(const double *)at == 0)
            text_add(&t, "not given");
        else
            real_write(&t, *(const double *)at);
        break;
    case OPTION_TEXT:
    case OPTION_WORD:
        if (*(const char *const *)at && row->sharing == CONTENT) return file_value(*(const char *const *)at);
        text_add(&t, "%s", *(const char *const *)at ? *(const char *const *)at : "not given");
        break;
    case OPTION_LIST:
        list_value(at, row->sharing == NAMES, &t);
        break;
    }
    return text_detach(&t);
}

static void add_setting(option_settings *all, const char *dashes, const char *name, char *value) {
    snprintf(all->names[all->n], sizeof *all->names, "%s%s", dashes, name);
    all->values[all->n++] = value;
}

_Static_assert(ROWS + 1 + sizeof variables / sizeof *variables <= SETTINGS_MOST, "room for all settings");

/* Options in the order of the table, then the model, then variables. */
void options_settings(const options *o, option_settings *all) {
    *all = (option_settings){0};
    for (int i = 0; i < ROWS; i++)
        if (command_has_option(o->command, rows[i].name) && rows[i].sharing != OWN)
            add_setting(all, "--", rows[i].name, option_value(&rows[i], o));
    add_setting(all, "", "MODEL", o->model ? file_value(o->model) : NULL);
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = getenv(variables[i]);
        add_setting(all, "", variables[i], strdup(value ? value : "not set"));
    }
}

void options_settings_free(option_settings *all) {
    for (int i = 0; i < all->n; i++) free(all->values[i]);
}
