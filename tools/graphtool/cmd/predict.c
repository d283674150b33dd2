/* predict.c - graphtool predict: one output of the prediction graph over all data (or one batch, if the graph
 * has no inputs), as .npy or as a PNG grid. */
#include "tools/graphtool/output/names.h"
#include "tools/graphtool/training/dataset.h"
#include "tools/graphtool/training/image.h"
#include "tools/graphtool/model/weights.h"

#include "graph/core/graph.h"

#include <stdlib.h>
#include <string.h>

/* --grid, "8x8", and --scale. */
static image_grid grid_of(const options *o) {
    image_grid g = {.rows = 8, .columns = 8, .scale = (int)o->scale};
    int end = 0;
    bool good = !o->grid || (sscanf(o->grid, "%4dx%4d%n", &g.rows, &g.columns, &end) == 2 && !o->grid[end]);
    if (!good || g.rows < 1 || g.columns < 1)
        tool_fail("--grid=%.40s: ROWSxCOLUMNS is needed, as 8x8", o->grid);
    return g;
}

/* The default of 8x8 is as large as the images need. */
static image_grid fitted(const options *o, image_grid g, int64_t n) {
    if (o->grid || n < 1) return g;
    if (n < g.columns) g.columns = (int)n;
    int64_t rows = (n + g.columns - 1) / g.columns;
    if (rows < g.rows) g.rows = (int)rows;
    return g;
}

/* By the file's extension. A grid that --grid asks for must be full. */
static void write_result(const weft_array *r, const options *o, const dataset *d, image_grid g) {
    int64_t shape[WEFT_MAX_NDIM], wanted = (int64_t)g.rows * g.columns;
    weft_array_shape(r, shape);
    if (!text_ends(o->output, ".png")) {
        image_write_npy(o->output, r);
        return;
    }
    if (o->grid && shape[0] < wanted)
        tool_fail("--grid=%s: %lld images are wanted, the data give %lld%s", o->grid, (long long)wanted,
                  (long long)shape[0],
                  d->of.n ? ": feed more, or ask for fewer" : ": omit --batch, or ask for fewer");
    image_write_png(o->output, r, fitted(o, g, shape[0]));
}

static void free_array(void *array) {
    weft_array_free(array);
}

static bool is_input(const weft_graph *g, const char *name) {
    const weft_node *n = g->first;
    while (n && !(n->op == &weft_op_input && strcmp(input_name(n), name) == 0)) n = n->next;
    return n;
}

static bool is_input_of_any(const weft_model *m, const char *name) {
    const weft_graph *g = m->graphs;
    while (g && !is_input(g, name)) g = g->next;
    return g;
}

/* A file that feeds the graph may have what another graph takes, as labels: `image,label=photos` is for
 * train and for this. */
static void leave_unread(dataset *d, const weft_model *m, const weft_graph *g) {
    char **names = d->names;
    for (int i = 0; i < d->of.n; names += d->files[i++]->n) {
        bool feeds = false;
        for (int k = 0; k < d->files[i]->n; k++) feeds |= names[k] && is_input(g, names[k]);
        for (int k = 0; k < d->files[i]->n; k++)
            if (feeds && names[k] && !is_input(g, names[k]) && is_input_of_any(m, names[k])) names[k] = NULL;
    }
}

/* A PNG shows the first samples alone. */
static void predict(const weft_model *m, const options *o, const char *graph, image_grid g) {
    dataset *d = dataset_load(&o->data);
    leave_unread(d, m, graph_find(m, graph));
    weft_trainer_options how = tool_trainer_options(m, o);
    int64_t images = (int64_t)g.rows * g.columns;
    for (int i = 0; i < d->of.n && text_ends(o->output, ".png"); i++)
        if (d->files[i]->count > images) d->files[i]->count = images;
    how.compile.graph = graph;
    weft_trainer *t = tool_trainer(m, o, &how);
    weights_load(weft_trainer_store(t), o);
    weft_array *r = tool_got(weft_trainer_predict(t, graph, o->port, &d->of, &tool_why));
    write_result(tool_keep(r, free_array), o, d, g);
}

/* The name of the output to write. A value in the middle, which --fetch names by its path, becomes an output
 * called "encoder.layer1". */
static const char *output_of(weft_model *m, const options *o, const char *graph) {
    weft_graph *g = graph_find(m, graph);
    names known = names_for(o->port ? o->port : "");
    for (const graph_output *p = g->outputs; p; p = p->next) {
        if (!o->port || strcmp(p->name, o->port) == 0) return o->port;
        names_add(&known, p->name);
    }
    weft_value *middle = weft_graph_value(g, o->port);
    if (o->port && !middle)
        names_refuse(&known, "predict: graph %s has no output, scope or op '%.80s'", graph, o->port);
    if (!middle) return NULL;
    char *name = tool_keep(tool_got(strdup(o->port)), free);
    for (char *c = name; *c; c++)
        if (*c == '/') *c = '.';
    weft_output(middle, name);
    return name;
}

static bool has_output(const weft_graph *g, const char *name) {
    const graph_output *p = g->outputs;
    while (p && strcmp(p->name, name)) p = p->next;
    return p != NULL;
}

/* "argmax", or the first of "argmax_2", ... that the graph does not have. */
static const char *free_name(const weft_graph *g) {
    const char *name = "argmax";
    for (int i = 2; has_output(g, name); i++) name = tool_text("argmax_%d", i);
    return name;
}

/* --argmax: where the highest score lies, as another output. Scores are on axis 1, of texts [B, T, C] on the
 * last. */
static const char *argmax_of(weft_model *m, const char *graph, const char *output) {
    weft_graph *g = graph_find(m, graph);
    const graph_output *p = g->outputs;
    while (p && output && strcmp(p->name, output)) p = p->next;
    int ndim = p ? weft_ndim(p->value) : 0;
    if (ndim < 2) tool_fail("--argmax has no effect on an output without an axis of classes: use --fetch");
    const char *name = free_name(g);
    weft_output(weft_argmax(p->value, ndim == 3 ? 2 : 1, false), name);
    if (weft_model_error(m)->status) tool_error(weft_model_error(m));
    return name;
}

/* Without data, a PNG's default batch is the number of its images. */
static int predict_run(const options *o) {
    const char *output = o->output ? o->output : "";
    bool is_png = text_ends(output, ".png");
    if (!is_png && !text_ends(output, ".npy")) tool_fail("predict: -o FILE.png or -o FILE.npy is needed");
    weft_model *m = tool_load(o);
    options at = *o;
    image_grid g = grid_of(o);
    const char *graph = tool_graph(m, o, "predict");
    at.port = output_of(m, o, graph);
    if (o->argmax && is_png) tool_fail("predict: --argmax is for .npy, not for %s", o->output);
    if (o->argmax) at.port = argmax_of(m, graph, at.port);
    if ((o->grid || o->scale) && !is_png)
        tool_fail("predict: --%s is for a PNG, not for %s", o->grid ? "grid" : "scale", o->output);
    tool_need_weights(m, o);
    out_check(o->output);
    if (is_png && !o->compile.batch && !o->data.n) at.compile.batch = (int64_t)g.rows * g.columns;
    predict(m, &at, graph, g);
    return EXIT_FINE;
}

const command command_predict = {
    .name = "predict",
    .summary = "Runs a graph over all data and writes one output, as .npy or as a PNG of many images",
    .options = OPTIONS_COMPILE OPTIONS_FEED "seed graph random-weights fetch argmax grid scale output",
    .example = "graphtool predict dcgan28.bin --weights gan.safetensors -o samples.png",
    .run = predict_run,
    .ranks = COMMAND_LEADS,
};
