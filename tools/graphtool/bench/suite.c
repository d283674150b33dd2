/* suite.c - see suite.h. */
#include "tools/graphtool/bench/suite.h"

#include "tools/graphtool/bench/child.h"
#include "tools/graphtool/model/tools.h"

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
    json_t *done; /* key of a run -> true */
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

static const char *key_of(const char *name, const char *phase, const char *options) {
    bool has_options = options && *options;
    return tool_text("%s %s%s%s", name ? name : "", phase ? phase : "", has_options ? " " : "",
                     has_options ? options : "");
}

static const char *text_at(const json_t *line, const char *key) {
    return json_string_value(json_object_get(line, key));
}

/* Runs that an earlier command has finished need not run again; those that failed do. */
static void read_lines(suite *s) {
    json_error_t error;
    s->done = json_keep(json_object());
    FILE *f = fopen(s->o->output, "re");
    if (!f) return;
    for (json_t *line; (line = json_loadf(f, JSON_DISABLE_EOF_CHECK, &error)); json_decref(line))
        if (!json_object_get(line, "error"))
            json_object_set_new(
                s->done, key_of(text_at(line, "file"), text_at(line, "phase"), text_at(line, "options")),
                json_true());
    fclose(f);
}

static void write_line(suite *s, const suite_case *c, json_t *line) {
    json_object_update_new(line, json_pack("{s:s, s:s, s:s, s:s, s:s, s:i}", "suite", s->o->suite, "engine",
                                           "weft", "file", c->name, "phase", phase_of(c), "options",
                                           c->options, "schema", OUT_SCHEMA));
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

static void run_case(suite *s, const suite_case *c) {
    char *words[WORDS + 1];
    const char *key = key_of(c->name, phase_of(c), c->options);
    if (json_object_get(s->done, key)) return;
    words_of(c, words);
    child ran = child_run(child_self(), words);
    json_t *line = ran.status ? NULL : json_loads(ran.out, 0, NULL);
    s->ran++;
    if (line) {
        fprintf(stderr, "%s: %.2f ms\n", key, json_at(line, "median_ms"));
    } else {
        line = json_pack("{s:s, s:o}", "model", c->name, "error", message_of(&ran));
        fprintf(stderr, "%s: %s\n", key, text_at(line, "error"));
        s->failed++;
    }
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

static void run_model(suite *s, const char *name, const char *path) {
    const weft_model *m = tool_keep_model(tool_got(weft_load(path, &tool_shows, &tool_why)));
    suite_case c = {.name = name, .path = path};
    if (has_training(m)) run_flow(s, c, m->names_batch);
    c.flow = inference_of(m);
    if (c.flow) run_flow(s, c, m->names_batch);
}

static void run_zoo_model(suite *s, const char *name) {
    const char *zoo = child_beside("weft-zoo"), *path = tool_text("%s/%s.bin", s->folder, name);
    child c = child_run(zoo, (char *[]){(char *)zoo, (char *)name, "-o", (char *)path, NULL});
    if (c.status) tool_fail("bench: --suite=zoo: %s %s failed: %s", zoo, name, c.err);
    run_model(s, name, path);
    unlink(path);
}

int suite_run(const options *o) {
    suite *s = tool_new(1, sizeof *s);
    *s = (suite){.o = o, .is_zoo = strcmp(o->suite, "zoo") == 0, .sets = usual_sets};
    s->n_sets = sizeof usual_sets / sizeof *usual_sets;
    if (o->with.n) s->sets = o->with.v, s->n_sets = o->with.n;
    if (!o->output) tool_fail("bench: --suite: -o FILE is needed, which gets a line of JSON for each run");
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
