/* dot.c - graphtool dot: a graph as a picture, from the model or (--all, --plan) from what compiling makes of it. */
#include "tools/draw.h"
#include "tools/tools.h"

#include "runtime/program.h"

#include <graphviz/gvc.h>
#include <stdlib.h>
#include <string.h>

/* The graph to draw when none is named: the first that trains. */
static const char *graph_name(const weft_model *m, const options *o) {
    if (o->graph) return o->graph;
    for (const weft_graph *g = m->graphs; g; g = g->next)
        if (g->mode == WEFT_TRAIN) return g->name;
    return m->graphs ? m->graphs->name : NULL;
}

static int write_dot(Agraph_t *g, const char *path) {
    out_file f;
    int status = out_open(&f, path);
    if (status >= 0) return status;
    agwrite(g, f.stream);
    status = out_close(&f);
    return status >= 0 ? status : EXIT_FINE;
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

static int draw(const weft_graph *g, const weft_model *m, const options *o) {
    scene s;
    char title[600];
    int status;
    const char *format = o->format ? o->format : "dot";
    snprintf(title, sizeof title, "%.200s, graph %.200s (%s, batch %lld)%s", m->name, g->name,
             g->mode == WEFT_TRAIN ? "train" : "eval", (long long)m->batch, o->plan ? ", compiled" : "");
    Agraph_t *picture = NULL;
    if (scene_build(&s, g, o->all || o->plan, (int)o->depth, (int)o->max_nodes))
        picture = draw_scene(&s, m, title);
    if (!picture)
        status = tool_fail("memory could not be had");
    else
        status = strcmp(format, "dot") ? render(picture, format, o->output) : write_dot(picture, o->output);
    if (picture) agclose(picture);
    scene_free(&s);
    return status;
}

/* --all: as it is once gradients and updates are nodes; --plan: as it runs. */
static int draw_compiled(const weft_model *m, const options *o, const char *name) {
    int status = EXIT_FINE;
    options late = *o;
    late.after = o->plan ? NULL : "optimizer";
    weft_plan *plan = tool_compile(m, &late, name, 0, &status);
    if (!plan) return status;
    status = draw(plan->programs[0].graph, m, o); /* the colours are the model's */
    weft_plan_free(plan);
    return status;
}

/* --batch without compiling: the calls are replayed. */
static int draw_forward(const weft_model *m, const options *o, const char *name) {
    const weft_graph *g = graph_find(m, name);
    if (!g) return tool_fail("%s: no graph '%.80s' in the model", o->model, name);
    if (!o->batch || o->batch == m->batch) return draw(g, m, o);
    weft_model *copy = model_clone_variables(m, o->batch);
    int status;
    if (!copy)
        status = tool_fail("memory could not be had");
    else if (!(g = graph_replay(g, copy, g->name)))
        status = tool_error(&copy->error);
    else
        status = draw(g, copy, o);
    weft_model_free(copy);
    return status;
}

int dot_run(const options *o) {
    int status = EXIT_FINE;
    if (o->format && strcmp(o->format, "dot") && strcmp(o->format, "svg") && strcmp(o->format, "png"))
        return tool_fail("dot: --type=%.40s: dot, svg or png is needed", o->format);
    weft_model *m = tool_load(o, &status);
    if (!m) return status;
    const char *name = graph_name(m, o);
    if (!name)
        status = tool_fail("%s: the model has no graph", o->model);
    else if (o->all || o->plan)
        status = draw_compiled(m, o, name);
    else
        status = draw_forward(m, o, name);
    weft_model_free(m);
    return status;
}
