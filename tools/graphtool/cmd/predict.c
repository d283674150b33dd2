/* predict.c - graphtool predict: one output of the prediction graph over all data (or one batch, if the graph
 * has no inputs), as .npy or as a PNG grid. */
#include "tools/graphtool/common/names.h"
#include "tools/graphtool/common/dataset.h"
#include "tools/graphtool/common/image.h"
#include "tools/graphtool/common/weights.h"

#include "graph/core/graph.h"

#include <string.h>

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

/* The default of 8x8 is as large as the images need. */
static image_grid fitted(const options *o, image_grid g, int64_t n) {
    if (o->grid || n < 1) return g;
    if (n < g.columns) g.columns = (int)n;
    int64_t rows = (n + g.columns - 1) / g.columns;
    if (rows < g.rows) g.rows = (int)rows;
    return g;
}

/* A grid that --grid asks for must be full. */
static int check_grid(const options *o, const dataset *d, int64_t n, int64_t wanted) {
    if (!o->grid || n >= wanted) return -1;
    return tool_fail("--grid=%s: %lld images are wanted, the data give %lld%s", o->grid, (long long)wanted,
                     (long long)n,
                     d->of.n ? ": feed more, or ask for fewer" : ": omit --batch, or ask for fewer");
}

/* By the file's extension. */
static int write_result(const weft_array *r, const options *o, const dataset *d, const char *path,
                        image_grid g) {
    int64_t shape[WEFT_MAX_NDIM], bytes = 1;
    int ndim = weft_array_shape(r, shape), status;
    weft_dtype dtype = weft_array_dtype(r);
    for (int i = 0; i < ndim; i++) bytes *= shape[i];
    bytes *= (int64_t)weft_dtype_bytes(dtype);
    if (!is_png(path)) return image_write_npy(path, dtype, ndim, shape, weft_array_data(r), (size_t)bytes);
    if ((status = check_grid(o, d, shape[0], (int64_t)g.rows * g.columns)) >= 0) return status;
    return image_write_grid(path, dtype, ndim, shape, weft_array_data(r), fitted(o, g, shape[0]));
}

static int predict(const weft_model *m, const options *o, const char *graph, const char *path, image_grid g) {
    dataset d = {0};
    weft_error error = {0};
    weft_trainer_options how;
    weft_trainer *t = NULL;
    weft_array *r = NULL;
    int status = dataset_load(&d, &o->data);
    if (status < 0) status = tool_trainer_options(m, o, &how);
    if (status < 0) {
        /* a PNG shows the first samples alone */
        for (int i = 0; i < d.of.n && is_png(path); i++)
            if (d.files[i]->count > (int64_t)g.rows * g.columns)
                d.files[i]->count = (int64_t)g.rows * g.columns;
        how.compile.graph = graph;
        t = tool_trainer(m, o, &how, &status);
    }
    if (status < 0) status = weights_load(weft_trainer_store(t), o);
    if (status < 0 && !(r = weft_trainer_predict(t, graph, o->port, &d.of, &error)))
        status = tool_error(&error);
    if (status < 0) status = write_result(r, o, &d, path, g);
    weft_array_free(r);
    weft_trainer_free(t);
    dataset_close(&d);
    return status;
}

/* -1, or the exit status after listing the outputs. */
static int check_output(const weft_model *m, const options *o, const char *graph) {
    names known = names_for(o->port ? o->port : "");
    const weft_graph *g = graph_find(m, graph);
    bool is_known = !o->port;
    for (const graph_output *p = g->outputs; p; p = p->next) {
        is_known |= o->port && strcmp(p->name, o->port) == 0;
        names_add(&known, p->name);
    }
    if (!is_known) return names_refuse(&known, "predict: graph %s has no output '%.80s'", graph, o->port);
    names_end(&known);
    return -1;
}

/* Without data, a PNG's default batch is the number of its images. */
static int predict_model(const weft_model *m, const options *o, const char *path) {
    image_grid g = {.rows = 8, .columns = 8, .scale = (int)o->scale};
    options at = *o;
    int status = o->grid ? grid_parse(o->grid, &g.rows, &g.columns) : -1;
    const char *graph = tool_graph(m, o, "predict", &status);
    if (!graph) return status;
    if (status < 0) status = check_output(m, o, graph);
    if (status < 0 && (o->grid || o->scale) && !is_png(path))
        status = tool_fail("predict: --%s is for a PNG, not for %s", o->grid ? "grid" : "scale", path);
    if (status < 0) status = tool_need_weights(m, o);
    if (status < 0) status = out_check(path);
    if (status >= 0) return status;
    if (is_png(path) && !o->compile.batch && !o->data.n) at.compile.batch = (int64_t)g.rows * g.columns;
    return predict(m, &at, graph, path, g);
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
    .summary = "Runs a graph over all data and writes one output, as .npy or as a PNG of many images",
    .takes_model = true,
    .options = OPTIONS_COMPILE OPTIONS_FEED "seed graph random-weights fetch grid scale output",
    .example = "graphtool predict dcgan28.bin --weights gan.safetensors -o samples.png",
    .run = predict_run,
    .ranks = COMMAND_LEADS,
};
