/* suite.c - see suite.h. */
#include "tools/graphtool/bench/suite.h"

#include "tools/graphtool/bench/child.h"
#include "tools/graphtool/model/tools.h"
#include "tools/graphtool/options/paths.h"

#include "graph/core/graph.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MODELS = 512, WORDS = 64 };

/* The sets of options without --with. */
static const char *const usual_sets[] = {"", "--threads 1", "--dtype bf16", "--batch 1"};

typedef struct suite {
    const options *o;
    FILE *lines;
    json_t *done;     /* key of a run -> true */
    const char *name; /* zoo, or the folder's real path */
    const char *folder;
    bool is_zoo;
    int n;
    const char *names[MODELS];
    int n_sets;
    const char *const *sets;
    int ran, failed;
} suite;

/* One run: `flow` NULL is the model's training. */
typedef struct suite_case {
    const char *name, *path, *flow, *options;
    const char *model_hash; /* of the model's text; "" of one that cannot be read */
} suite_case;

static const char *phase_of(const suite_case *c) {
    return c->flow ? "infer" : "train";
}

/* ---- which models ---- */

static void add_name(suite *s, const char *name) {
    if (s->n == MODELS) tool_fail("bench: --suite: more than %d models", MODELS);
    s->names[s->n++] = name;
}

static void list_zoo(suite *s) {
    const char *zoo = child_beside("weft-zoo");
    child c = child_run(zoo, (char *[]){(char *)zoo, "--list", NULL});
    if (c.status) tool_fail("bench: --suite=zoo: %s --list failed: %s", zoo, c.err);
    for (char *line = c.out; *line; line += strcspn(line, "\n"), line += *line == '\n')
        add_name(s, tool_cut(line, line + strcspn(line, " \n")));
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void list_folder(suite *s) {
    DIR *d = opendir(s->o->suite);
    if (!d)
        tool_fail("bench: --suite=%s: it must be zoo, or a folder of models: %s", s->o->suite,
                  strerror(errno));
    for (struct dirent *e; (e = readdir(d));)
        if (text_ends(e->d_name, ".bin")) add_name(s, tool_cut(e->d_name, strrchr(e->d_name, '.')));
    closedir(d);
    if (!s->n) tool_fail("bench: --suite=%s: no file there ends in .bin", s->o->suite);
    qsort(s->names, (size_t)s->n, sizeof *s->names, by_name);
}

static void remove_folder(void *folder) {
    rmdir(folder);
}

/* The folder that models of the zoo are written to, one at a time. */
static const char *new_folder(void) {
    const char *where = getenv("TMPDIR");
    char *folder = tool_text("%s/weft-suite-XXXXXX", where && *where ? where : "/tmp");
    if (!mkdtemp(folder)) tool_fail("%s: it cannot be made: %s", folder, strerror(errno));
    return tool_keep(folder, remove_folder);
}

/* ---- lines ---- */

static const char *or_empty(const char *text) {
    return text ? text : "";
}

/* "mlp train --threads 1" */
static const char *title_of(const suite_case *c) {
    return tool_text("%s %s%s%s", c->name, phase_of(c), *c->options ? " " : "", c->options);
}

/* Of the suite, the model's file and what it holds, and how it runs: a changed model runs again. */
static const char *key_of(const char *suite, const char *file, const char *hash, const char *phase,
                          const char *options) {
    return tool_text("%s\n%s\n%s\n%s\n%s", or_empty(suite), or_empty(file), or_empty(hash), or_empty(phase),
                     or_empty(options));
}

/* The folder by its one name, so that "models/" and "../here/models" are it. */
static const char *suite_name(const options *o) {
    char real[PATH_MAX];
    if (strcmp(o->suite, "zoo") == 0) return o->suite;
    return realpath(o->suite, real) ? tool_text("%s", real) : o->suite;
}

static const char *text_at(const json_t *line, const char *key) {
    return json_string_value(json_object_get(line, key));
}

/* Runs that an earlier command has finished need not run again; those that failed do. */
static void note_done(suite *s, const json_t *line) {
    if (json_object_get(line, "error")) return;
    const char *key = key_of(text_at(line, "suite"), text_at(line, "file"), text_at(line, "model_hash"),
                             text_at(line, "phase"), text_at(line, "options"));
    json_object_set_new(s->done, key, json_true());
}

/* What a command wrote that was stopped in the middle of its last line is cut off. */
static void cut_line(const suite *s, off_t at, int number) {
    if (truncate(s->o->output, at))
        tool_fail("%s:%d: the line is cut, and cannot be removed: %s", SHOW_PATH(s->o->output), number,
                  strerror(errno));
    tool_note("%s:%d: the line was cut, so it is removed", SHOW_PATH(s->o->output), number);
}

static void read_lines(suite *s) {
    char *text = NULL;
    size_t room = 0;
    off_t at = 0;
    ssize_t n;
    s->done = json_keep(json_object());
    FILE *f = path_is_file(s->o->output) ? fopen(s->o->output, "re") : NULL;
    if (!f) return;
    for (int number = 1; (n = getline(&text, &room, f)) > 0; number++, at += n) {
        if (text[n - 1] != '\n') {
            cut_line(s, at, number);
            break;
        }
        json_t *line = json_loadb(text, (size_t)n, 0, NULL);
        if (!json_is_object(line))
            tool_fail("%s:%d: it must be a line of JSON of an earlier suite: give another file to -o",
                      SHOW_PATH(s->o->output), number);
        note_done(s, line);
        json_decref(line);
    }
    free(text);
    fclose(f);
}

static void write_line(suite *s, const suite_case *c, json_t *line) {
    json_object_update_new(line, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:i}", "suite", s->name, "engine",
                                           "weft", "file", c->name, "model_hash", c->model_hash, "phase",
                                           phase_of(c), "options", c->options, "schema", OUT_SCHEMA));
    char *all = json_dumps(line, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(9));
    if (!all || !out_json_is_whole()) tool_fail("out of memory");
    if (fprintf(s->lines, "%s\n", all) < 0 || fflush(s->lines))
        tool_fail("%s: writing failed: %s", SHOW_PATH(s->o->output), strerror(errno));
    free(all);
    json_decref(line);
}

/* ---- runs ---- */

/* The command line of a run: graphtool bench MODEL --json [--flow FLOW] OPTIONS. */
static void words_of(const suite_case *c, char *words[WORDS + 1]) {
    char *rest = tool_text("%s", c->options), *word;
    int n = 0;
    const char *const first[] = {"graphtool", "bench", c->path, "--json"};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++) words[n++] = (char *)first[i];
    if (c->flow) words[n++] = "--flow", words[n++] = (char *)c->flow;
    while ((word = strsep(&rest, " "))) {
        if (*word && n == WORDS) tool_fail("bench: --with=%s: more than %d words", c->options, WORDS);
        if (*word) words[n++] = word;
    }
    words[n] = NULL;
}

/* The message of an error that is a line of JSON, or the first line as it is. */
static json_t *message_of(const child *c) {
    json_t *error = json_loads(c->err, JSON_DISABLE_EOF_CHECK, NULL);
    const char *said = error ? text_at(error, "error") : NULL;
    json_t *message = said ? json_string(said)
                           : json_sprintf("status %d: %.*s", c->status, (int)strcspn(c->err, "\n"), c->err);
    json_decref(error);
    return message;
}

/* Takes the message. */
static void write_failure(suite *s, const suite_case *c, json_t *message) {
    json_t *line = json_pack("{s:s, s:o}", "model", c->name, "error", message);
    fprintf(stderr, "%s: %s\n", title_of(c), or_empty(text_at(line, "error")));
    s->failed++;
    write_line(s, c, line);
}

static void run_case(suite *s, const suite_case *c) {
    char *words[WORDS + 1];
    const char *key = key_of(s->name, c->name, c->model_hash, phase_of(c), c->options);
    if (json_object_get(s->done, key)) return;
    words_of(c, words);
    child ran = child_run(child_self(), words);
    json_t *line = ran.status ? NULL : json_loads(ran.out, 0, NULL);
    s->ran++;
    if (!line) {
        write_failure(s, c, message_of(&ran));
        return;
    }
    fprintf(stderr, "%s: %.2f ms\n", title_of(c), json_at(line, "median_ms"));
    write_line(s, c, line);
}

/* How a model infers: its graph predict, else val; NULL: it does not. */
static const char *inference_of(const weft_model *m) {
    return graph_find(m, "predict") ? "predict" : graph_find(m, "val") ? "val" : NULL;
}

static bool has_training(const weft_model *m) {
    const weft_graph *g = m->graphs;
    while (g && g->mode != WEFT_TRAIN) g = g->next;
    return g != NULL;
}

/* With each set of options; one sample is a batch only of a model whose batch can change. */
static void run_flow(suite *s, suite_case c, bool names_batch) {
    for (int i = 0; i < s->n_sets; i++) {
        c.options = s->sets[i];
        if (names_batch || s->sets != usual_sets || !strstr(c.options, "--batch")) run_case(s, &c);
    }
}

/* A model without a run has one line, as of its first. */
static void refuse_model(suite *s, const char *name, json_t *why) {
    s->ran++;
    write_failure(s, &(suite_case){.name = name, .options = s->sets[0], .model_hash = ""}, why);
}

static void run_model(suite *s, const char *name, const char *path) {
    weft_model *m = weft_load(path, &tool_shows, &tool_why);
    if (!m) {
        refuse_model(s, name, json_string(tool_why.text));
        return;
    }
    tool_keep_model(m);
    suite_case c = {.name = name, .path = path, .model_hash = tool_model_hash(m)};
    if (has_training(m)) run_flow(s, c, m->names_batch);
    c.flow = inference_of(m);
    if (c.flow) run_flow(s, c, m->names_batch);
}

static void run_zoo_model(suite *s, const char *name) {
    const char *zoo = child_beside("weft-zoo"), *path = tool_text("%s/%s.bin", s->folder, name);
    child c = child_run(zoo, (char *[]){(char *)zoo, (char *)name, "-o", (char *)path, NULL});
    if (c.status)
        refuse_model(s, name, message_of(&c));
    else
        run_model(s, name, path);
    unlink(path);
}

/* Each run has its flow; getopt takes the first letters for the whole name. */
static void check_sets(const suite *s) {
    for (int i = 0; i < s->n_sets; i++) {
        char *rest = tool_text("%s", s->sets[i]), *word;
        while ((word = strsep(&rest, " "))) {
            size_t n = strcspn(word, "=");
            if (n > strlen("--f") && strncmp("--flow", word, n) == 0)
                tool_fail("bench: --with=%s: --flow has no effect: the suite runs training and inference",
                          s->sets[i]);
        }
    }
}

int suite_run(const options *o) {
    suite *s = tool_new(1, sizeof *s);
    *s = (suite){.o = o, .name = suite_name(o), .is_zoo = strcmp(o->suite, "zoo") == 0, .sets = usual_sets};
    s->n_sets = sizeof usual_sets / sizeof *usual_sets;
    if (o->with.n) s->sets = o->with.v, s->n_sets = o->with.n;
    if (!o->output) tool_fail("bench: --suite: -o FILE is needed, which gets a line of JSON for each run");
    check_sets(s);
    s->is_zoo ? list_zoo(s) : list_folder(s);
    read_lines(s);
    s->lines = fopen(o->output, "ae");
    if (!s->lines) tool_fail("%s: it cannot be written: %s", SHOW_PATH(o->output), strerror(errno));
    if (s->is_zoo) s->folder = new_folder();
    for (int i = 0; i < s->n; i++)
        if (s->is_zoo)
            run_zoo_model(s, s->names[i]);
        else
            run_model(s, s->names[i], tool_text("%s/%s.bin", o->suite, s->names[i]));
    if (fclose(s->lines)) tool_fail("%s: writing failed: %s", SHOW_PATH(o->output), strerror(errno));
    printf("runs: %d, failed: %d; lines in %s\n", s->ran, s->failed, SHOW_PATH(o->output));
    return s->failed ? EXIT_WRONG : EXIT_FINE;
}
