/* predict.c - graphtool predict: one output of the prediction graph over all data (or one batch, if the graph
 * has no inputs), as .npy or as a PNG grid. */
#include "tools/graphtool/common/image.h"
#include "tools/graphtool/common/sweep.h"

#include <stdlib.h>
#include <string.h>

typedef struct result {
    weft_port port; /* shape[0] counts the rows collected */
    char *data;
    size_t bytes;
} result;

static bool is_png(const char *path) {
    size_t n = strlen(path);
    return n > 4 && strcmp(path + n - 4, ".png") == 0;
}

/* Reads "8x8"; -1, or the exit status after printing the error. */
static int grid_parse(const char *text, int *rows, int *columns) {
    int end = 0;
    if (sscanf(text, "%4dx%4d%n", rows, columns, &end) == 2 && !text[end] && *rows > 0 && *columns > 0)
        return -1;
    return tool_fail("--grid=%.40s: ROWSxCOLUMNS is needed, as 8x8", text);
}

/* The graph's first output, for when none is named; NULL after printing the error. */
static const char *first_output(const weft_model *m, const options *o, const char *graph, char name[256]) {
    int status;
    weft_port port;
    weft_plan *plan = tool_compile(m, o, graph, 0, &status);
    if (!plan) return NULL;
    bool found = weft_plan_output(plan, graph, 0, &port);
    if (found)
        snprintf(name, 256, "%s", port.name);
    else
        tool_fail("graph %s has no output", graph);
    weft_plan_free(plan);
    return found ? name : NULL;
}

/* Appends the results of all batches, up to `wanted` rows; an output without a batch axis is kept once. */
static int collect_results(sweep *s, result *r, int64_t wanted) {
    int which, status;
    while ((status = sweep_next(s, &which)) == -1) {
        const weft_port *p = &s->run[which].out[0];
        if (!r->bytes)
            r->port = *p;
        else
            r->port.shape[0] += p->shape[0];
        r->bytes += p->bytes;
        if (p->ndim < 1 || r->port.shape[0] >= wanted || !s->data.n) return -1;
        char *more = realloc(r->data, r->bytes + s->run[0].out[0].bytes);
        if (!more) return tool_fail("out of memory for the results");
        r->data = more;
        for (int i = 0; i < 2; i++) s->run[i].fetches[0].data = r->data + r->bytes;
    }
    return status == BATCHES_END ? -1 : status;
}

/* A grid that --grid asks for must be full; the default of 8x8 may stay white in places. */
static int check_grid(const options *o, const sweep *s, const result *r, int64_t wanted) {
    int64_t n = r->port.ndim ? r->port.shape[0] : 1;
    if (!o->grid || n >= wanted) return -1;
    return tool_fail("--grid=%s: %lld images are wanted, the data give %lld%s", o->grid, (long long)wanted,
                     (long long)n,
                     s->data.n ? ": feed more, or ask for fewer" : ": omit --batch, or ask for fewer");
}

/* Collects rows into r.data, then writes them by the file's extension. */
static int predict(sweep *s, const options *o, const char *path, int rows, int columns) {
    result r = {0};
    int64_t wanted = is_png(path) ? (int64_t)rows * columns : INT64_MAX;
    if (!(r.data = malloc(s->run[0].out[0].bytes))) return tool_fail("out of memory");
    for (int i = 0; i < 2; i++) s->run[i].fetches[0].data = r.data;
    int status = collect_results(s, &r, wanted);
    if (status < 0 && is_png(path)) status = check_grid(o, s, &r, wanted);
    if (status < 0 && is_png(path))
        status = image_write_grid(path, r.port.dtype, r.port.ndim, r.port.shape, r.data, rows, columns);
    else if (status < 0)
        status = image_write_npy(path, r.port.dtype, r.port.ndim, r.port.shape, r.data, r.bytes);
    free(r.data);
    return status;
}

/* Without data, a PNG's default batch is the number of its images. */
static int predict_model(const weft_model *m, const options *o, const char *path) {
    char own[256];
    int rows = 8, columns = 8;
    options at = *o;
    int status = o->grid ? grid_parse(o->grid, &rows, &columns) : -1;
    const char *graph = tool_graph(m, o, "predict", &status);
    if (!graph) return status;
    if (status < 0 && o->grid && !is_png(path))
        status = tool_fail("predict: --grid is for a PNG, not for %s", path);
    if (status < 0) status = tool_need_weights(m, o);
    if (status < 0) status = out_check(path);
    if (status >= 0) return status;
    if (is_png(path) && !o->batch && !o->data.n) at.batch = (int64_t)rows * columns;
    const char *fetch = o->port ? o->port : first_output(m, &at, graph, own);
    if (!fetch) return EXIT_MISUSED;
    sweep s;
    weft_store *store = NULL;
    status = sweep_open(&s, m, &at, graph, &o->data, fetch);
    if (status < 0) store = tool_store(m, o, &status);
    if (store && (status = sweep_attach(&s, store)) < 0) status = predict(&s, o, path, rows, columns);
    sweep_close(&s);
    weft_store_free(store);
    return status;
}

static int predict_run(const options *o) {
    int status = EXIT_FINE;
    size_t n = o->output ? strlen(o->output) : 0;
    if (!(n > 4 && (is_png(o->output) || strcmp(o->output + n - 4, ".npy") == 0)))
        return tool_fail("predict: -o FILE.png or -o FILE.npy is needed");
    weft_model *m = tool_load(o, &status);
    if (!m) return status;
    status = predict_model(m, o, o->output);
    weft_model_free(m);
    return status;
}

const command command_predict = {
    .name = "predict",
    .summary = "Runs a graph once and writes one output, as .npy or as a PNG of many images",
    .takes_model = true,
    .options = OPTIONS_COMPILE OPTIONS_FEED "graph random-weights fetch grid output",
    .example = "graphtool predict dcgan28.bin --weights weights.safetensors --fetch samples -o samples.png",
    .run = predict_run,
    .ranks = COMMAND_LEADS,
};
