/* dot.c - graphtool dot: a picture of a graph, as it is written or as compiling makes it, or of a whole plan. */
#include "tools/graphtool/diagram/draw.h"
#include "tools/graphtool/common/tools.h"

#include "runtime/plan/program.h"

#include <graphviz/gvc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The graph to draw when none is named: the first that trains. */
static const char *graph_name(const weft_model *m, const options *o) {
    if (o->graph) return o->graph;
    for (const weft_graph *g = m->graphs; g; g = g->next)
        if (g->mode == WEFT_TRAIN) return g->name;
    return m->graphs->name;
}

static int write_dot(Agraph_t *g, const char *path) {
    char *data = NULL;
    size_t length = 0;
    FILE *memory = open_memstream(&data, &length);
    bool good = memory && agwrite(g, memory) == 0;
    if (memory && fclose(memory)) good = false;
    int status = good ? out_write(path, data, length) : tool_fail("memory could not be had");
    free(data);
    return status;
}

static int render(Agraph_t *g, const char *format, const char *path) {
    char *data = NULL;
    unsigned length = 0;
    int status = EXIT_MISUSED;
    GVC_t *gvc = gvContext();
    if (!gvc || gvLayout(gvc, g, "dot")) {
        status = tool_fail("graphviz could not lay the graph out");
    } else {
        if (gvRenderData(gvc, g, format, &data, &length) || !data)
            status = tool_fail("graphviz could not draw %s", format);
        else
            status = out_write(path, data, length);
        if (data) gvFreeRenderData(data);
        gvFreeLayout(gvc, g);
    }
    if (gvc) gvFreeContext(gvc);
    return status;
}

/* Takes the picture; NULL: memory was out. */
static int show(Agraph_t *picture, const options *o) {
    const char *format = o->format ? o->format : "dot";
    if (!picture) return tool_fail("memory could not be had");
    int status = strcmp(format, "dot") ? render(picture, format, o->output) : write_dot(picture, o->output);
    agclose(picture);
    return status;
}

static int draw(const weft_graph *g, const weft_model *m, const options *o, const char *what) {
    scene s;
    char title[600];
    snprintf(title, sizeof title, "%.200s, graph %.200s (%s, batch %lld)%s", m->name, g->name,
             g->mode == WEFT_TRAIN ? "train" : "eval", (long long)m->batch, what);
    bool all = o->all || *what;
    Agraph_t *picture = NULL;
    if (scene_build(&s, g, all, (int)o->depth, (int)o->max_nodes)) picture = draw_scene(&s, m, title);
    int status = show(picture, o);
    scene_free(&s);
    return status;
}

/* Behind the pass that makes gradients and updates nodes, or (pass NULL) as it runs. */
static int draw_compiled(const weft_model *m, const options *o, const char *pass) {
    int status = EXIT_FINE;
    options late = *o;
    late.after = pass;
    weft_plan *plan = tool_compile(m, &late, graph_name(m, o), 0, &status);
    if (!plan) return status;
    const program *last = &plan->programs[plan->n_programs - 1]; /* with accumulation: the one that updates */
    status = draw(last->graph, m, o, pass ? "" : ", as it runs"); /* the colours are the model's */
    weft_plan_free(plan);
    return status;
}

static int draw_whole_plan(const weft_model *m, const options *o) {
    int status = EXIT_FINE;
    weft_plan *plan = tool_compile(m, o, o->graph, 0, &status);
    if (!plan) return status;
    status = show(draw_plan(plan, (int)o->max_nodes), o);
    weft_plan_free(plan);
    return status;
}

/* --batch without compiling: the calls are replayed. */
static int draw_forward(const weft_model *m, const options *o) {
    const weft_graph *g = graph_find(m, graph_name(m, o));
    if (!g) return tool_fail("%s: no graph '%.80s' in the model", o->model, o->graph);
    if (!o->batch || o->batch == m->batch) return draw(g, m, o, "");
    weft_model *copy = model_clone_variables(m, o->batch);
    int status;
    if (!copy)
        status = tool_fail("memory could not be had");
    else if (!(g = graph_replay(g, copy, g->name)))
        status = tool_error(&copy->error);
    else
        status = draw(g, copy, o, "");
    weft_model_free(copy);
    return status;
}

int dot_run(const options *o) {
    int status = EXIT_FINE;
    const char *view = o->view ? o->view : "graph";
    if (o->format && strcmp(o->format, "png") == 0 && !o->output && isatty(STDOUT_FILENO))
        return tool_fail("dot: a PNG is not for a terminal: say -o FILE");
    weft_model *m = tool_load(o, &status);
    if (!m) return status;
    if (!m->graphs)
        status = tool_fail("%s: the model has no graph", o->model);
    else if (strcmp(view, "plan") == 0)
        status = draw_whole_plan(m, o);
    else if (strcmp(view, "program") == 0)
        status = draw_compiled(m, o, NULL);
    else if (o->all)
        status = draw_compiled(m, o, "optimizer");
    else
        status = draw_forward(m, o);
    weft_model_free(m);
    return status;
}
