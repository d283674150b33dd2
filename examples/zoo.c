/* zoo.c - weft-zoo writes well-known models (zoo_models.c) as model.bin. It uses the public API only: a
 * program outside of this tree could be the same. Here is the command line; exit status 2 is any error, as
 * for graphtool. */
#include "zoo.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void usage(FILE *to) {
    fprintf(to,
            "Usage: weft-zoo NAME -o FILE [OPTION]...\n"
            "Writes a well-known model, with its training graphs, as model.bin.\n\n"
            "  -o, --output=FILE        where to write it (NAME.bin)\n"
            "  -b, --batch=N            default batch size\n"
            "      --layers=N --d=N --heads=N --ctx=N --vocab=N\n"
            "                           size of gpt (6, 384, 6, 256, 65) and gpt2_124m (12, 768, 12,\n"
            "                           1024, 50304)\n"
            "      --schedule-steps=N   convnet: steps over which the learning rate falls (2340)\n"
            "      --pictures           resnet18, resnet50, mobilenet_v2, vit_tiny: images and labels as a\n"
            "                           folder of PNG or JPEG files gives them, u8 and i64\n"
            "  -l, --list               names of the models\n"
            "  -h, --help               this text\n\n"
            "Example: weft-zoo dcgan28 -o dcgan28.bin && graphtool dot dcgan28.bin -T svg -o dcgan28.svg\n");
}

/* Prints an error and returns the exit status. Bytes that could control a terminal print as \xNN. */
static int fail(const char *what, const char *value) {
    fprintf(stderr, "weft-zoo: %s%s", what, value ? ": " : "");
    for (const char *p = value ? value : ""; *p; p++)
        fprintf(stderr, *p >= ' ' && *p <= '~' ? "%c" : "\\x%02x", (unsigned char)*p);
    fprintf(stderr, "\n");
    return 2;
}

/* The exit status; an earlier failure of standard output counts. */
static int end(int status) {
    bool failed = fflush(stdout) != 0 || ferror(stdout);
    return failed && !status ? fail("standard output: writing failed", NULL) : status;
}

/* A whole number from 1 to 1000000, the range of all numeric options. */
static bool number(const char *text, int64_t *into) {
    char *end;
    errno = 0;
    long long n = strtoll(text, &end, 10);
    *into = n;
    return !errno && end != text && !*end && n >= 1 && n <= 1000000;
}

static int write_model(const zoo_entry *e, const zoo_options *o, const char *path) {
    weft_error error = {0};
    if (e->own) {
        zoo_options size = zoo_sized(o, e->own);
        if (size.d % size.heads) return fail("--d must be a multiple of --heads", NULL);
    }
    weft_model *m = weft_model_new(e->name);
    if (!m) return fail("out of memory", NULL);
    weft_model_set_batch(m, o->batch ? o->batch : e->batch);
    e->build(m, o);
    error = *weft_model_error(m);
    if (!error.status) weft_save(m, path, &error);
    weft_model_free(m);
    /* the library has made the text safe to print */
    if (error.status) fprintf(stderr, "weft-zoo: %s: %s\n", e->name, error.text);
    return error.status ? 2 : 0;
}

/* Rejects options that the model does not read. */
static int check_sizes(const zoo_entry *e, const zoo_options *o) {
    bool has_size = o->layers || o->d || o->heads || o->ctx || o->vocab;
    if (has_size && !e->own)
        return fail("--layers, --d, --heads, --ctx and --vocab have no effect on", e->name);
    if (o->schedule_steps && strcmp(e->name, "convnet"))
        return fail("--schedule-steps has no effect on", e->name);
    if (o->pictures && !e->takes_pictures) return fail("--pictures has no effect on", e->name);
    return 0;
}

static int list(void) {
    for (int i = 0; i < ZOO_MODELS; i++)
        printf("%-10s batch %-4lld %s\n", zoo_models[i].name, (long long)zoo_models[i].batch,
               zoo_models[i].what);
    return 0;
}

/* Finds the model and writes it; the default file is NAME.bin. */
static int named(const char *name, const char *path, zoo_options *o) {
    char message[120];
    for (int i = 0; i < ZOO_MODELS; i++) {
        char own[64];
        snprintf(own, sizeof own, "%s.bin", zoo_models[i].name);
        if (strcmp(zoo_models[i].name, name)) continue;
        if (check_sizes(&zoo_models[i], o)) return 2;
        if (!o->schedule_steps) o->schedule_steps = ((zoo_options)ZOO_DEFAULTS).schedule_steps;
        return write_model(&zoo_models[i], o, path ? path : own);
    }
    const char *near = NULL;
    for (int i = 0; i < ZOO_MODELS; i++) near = weft_nearest(name, near, zoo_models[i].name);
    snprintf(message, sizeof message, "no such model (%s%s%sweft-zoo --list has all)",
             near ? "did you mean " : "", near ? near : "", near ? "? " : "");
    return fail(message, name);
}

static int parse(int argc, char **argv) {
    enum { LAYERS = 256, D, HEADS, CTX, VOCAB, SCHEDULE, PICTURES };
    static const struct option table[] = {{"output", 1, 0, 'o'},        {"batch", 1, 0, 'b'},
                                          {"layers", 1, 0, LAYERS},     {"d", 1, 0, D},
                                          {"heads", 1, 0, HEADS},       {"ctx", 1, 0, CTX},
                                          {"vocab", 1, 0, VOCAB},       {"schedule-steps", 1, 0, SCHEDULE},
                                          {"pictures", 0, 0, PICTURES}, {"list", 0, 0, 'l'},
                                          {"help", 0, 0, 'h'},          {0}};
    zoo_options o = {0};
    const char *path = NULL;
    opterr = 0; /* getopt would print the user's bytes as they are */
    for (int c; (c = getopt_long(argc, argv, ":o:b:lh", table, NULL)) != -1;) {
        /* Where the option's number goes; NULL: it has none. */
        int64_t *into = c == 'b'        ? &o.batch
                        : c == LAYERS   ? &o.layers
                        : c == D        ? &o.d
                        : c == HEADS    ? &o.heads
                        : c == CTX      ? &o.ctx
                        : c == VOCAB    ? &o.vocab
                        : c == SCHEDULE ? &o.schedule_steps
                                        : NULL;
        if (c == '?') return fail("no such option; see weft-zoo --help", argv[optind - 1]);
        if (c == ':') return fail("a value is needed for", argv[optind - 1]);
        if (c == 'h') return usage(stdout), 0;
        if (c == 'l') return list();
        if (c == PICTURES) o.pictures = true;
        if ((c == 'o' && path) || (into && *into)) return fail("an option is given twice", argv[optind - 1]);
        if (c == 'o' && !*(path = optarg)) return fail("--output must not be empty", NULL);
        if (into && !number(optarg, into)) return fail("a number from 1 to 1000000 is needed, not", optarg);
    }
    if (optind != argc - 1) return fail("exactly one model name is needed; see weft-zoo --help", NULL);
    return named(argv[optind], path, &o);
}

int main(int argc, char **argv) {
    signal(SIGXFSZ, SIG_IGN); /* a file beyond its limit becomes an error of write() */
    return end(parse(argc, argv));
}
