/* dot.c - graphtool dot: a picture of a graph, as it is written or as it runs, or of a whole plan. It tries
 * several layouts, each with less detail, and writes the first that fits a page. */
#include "tools/graphtool/diagram/draw.h"
#include "graph/settings/clone.h"
#include "tools/graphtool/output/names.h"
#include "tools/graphtool/model/tools.h"

#include "runtime/store/room.h"

#include <graphviz/gvc.h>
#include <unistd.h>

/* The graph to draw when none is named: the first that trains. */
static const char *graph_name(const weft_model *m, const options *o) {
    if (o->graph) return o->graph;
    for (const weft_graph *g = m->graphs; g; g = g->next)
        if (g->mode == WEFT_TRAIN) return g->name;
    return m->graphs->name;
}

/* Writes the picture as dot text. */
static void write_dot(Agraph_t *g, const char *path) {
    char *data = NULL;
    size_t length = 0;
    FILE *memory = tool_need(open_memstream(&data, &length));
    bool good = agwrite(g, memory) == 0 && !ferror(memory);
    if (fclose(memory) || !good) tool_fail("out of memory");
    out_write(path, tool_keep(data, free), length);
}

/* Writes the laid-out picture as SVG, PNG or PDF. */
static void render(GVC_t *gvc, Agraph_t *g, const char *format, const char *path) {
    char *data = NULL;
    unsigned length = 0;
    if (gvRenderData(gvc, g, format, &data, &length) || !data)
        tool_fail("graphviz could not draw %s", format);
    out_write(path, data, length);
    gvFreeRenderData(data);
}

/* A readable page in points: 1,600 x 2,400 pixels of 1/96 inch, less the margin. */
enum { PAGE_WIDTH = 1200 - 8, PAGE_HEIGHT = 1800 - 8 };

static bool is_on_page(Agraph_t *g) {
    boxf b = GD_bb(g);
    return b.UR.x - b.LL.x <= PAGE_WIDTH && b.UR.y - b.LL.y <= PAGE_HEIGHT;
}

/* Are the phases that a picture has from left to right: forward, backward, updates (draw_diagram's clusters)?
 * */
static bool is_in_order(Agraph_t *g) {
    static const char *const sides[] = {"cluster_forward", "cluster_backward", "cluster_updates"};
    double left = -1e9;
    for (int i = 0; i < 3; i++) {
        Agraph_t *side = agsubg(g, (char *)sides[i], 0);
        if (side && GD_bb(side).LL.x < left) return false;
        if (side) left = GD_bb(side).LL.x;
    }
    return true;
}

/* What to draw: a graph, or a plan. */
typedef struct artist {
    const options *o;
    const weft_plan *plan; /* NULL: the graph */
    const weft_graph *graph;
    const weft_model *model;
    const char *title;
    bool has_backward;            /* and updates, so even the first attempt is brief */
    int tried[COLLAPSE_RUNS + 1]; /* how many nodes the last attempt of each kind had */
} artist;

static bool is_text(const options *o) {
    return !o->format || strcmp(o->format, "dot") == 0;
}

/* ---- graphs ---- */

enum { MAX_NODES = 100, MAX_ROWS = 80 };

/* First more repetitions are collapsed, with all scopes open. */
static const diagram_how whole[] = {{COLLAPSE_EQUAL, -1, MAX_NODES},
                                    {COLLAPSE_EQUAL, -1, MAX_NODES, .is_brief = true},
                                    {COLLAPSE_ALIKE, -1, MAX_NODES, .is_brief = true},
                                    {COLLAPSE_RUNS, -1, MAX_NODES, .is_brief = true}};
enum { WHOLE = sizeof whole / sizeof *whole };

/* Then fewer and fewer nodes are drawn, and so fewer scopes are open: by turns with the fewest and the most
 * repetitions collapsed. */
static const int fewer[] = {64, 56, 48, 42, 36, 31, 26, 22, 18, 14, 10};
enum { ATTEMPTS = WHOLE + 2 * sizeof fewer / sizeof *fewer };

static diagram_how how_to(int attempt) {
    if (attempt < WHOLE) return whole[attempt];
    int k = attempt - WHOLE;
    return (diagram_how){k % 2 ? COLLAPSE_RUNS : COLLAPSE_EQUAL, -1, fewer[k / 2], .is_brief = true};
}

/* Has the user set the level of detail? */
static bool asks_for_more(const options *o) {
    return o->depth >= 0 || o->max_nodes;
}

/* *is_cut: scopes had to close that should be open, or as many nodes have been tried already. */
static Agraph_t *draw_graph(artist *a, int attempt, bool *is_cut) {
    const options *o = a->o;
    diagram s;
    diagram_how how = how_to(attempt + a->has_backward);
    if (asks_for_more(o))
        how = (diagram_how){COLLAPSE_EQUAL, (int)o->depth, o->max_nodes ? (int)o->max_nodes : MAX_NODES};
    how.all = a->has_backward;
    how.focus = o->focus;
    how.hops = (int)o->hops;
    how.expand = &o->expand;
    diagram_build(&s, a->graph, &how);
    Agraph_t *picture = draw_diagram(&s, a->model, a->title);
    *is_cut =
        attempt + a->has_backward < WHOLE ? s.is_cut && how.depth < 0 : a->tried[how.collapsing] == s.n_units;
    if (!*is_cut) a->tried[how.collapsing] = s.n_units;
    diagram_free(&s);
    return picture;
}

/* First repeating rows are collapsed, then everything is put in one column, then fewer rows are drawn. */
static const stream_how plan_attempts[] = {
    /* rows, collapse, stack_tables, stack_streams */
    {MAX_ROWS},       {MAX_ROWS, false, true}, {MAX_ROWS, true},       {MAX_ROWS, true, true},
    {24, true, true}, {24, true, true, true},  {12, true, true, true}, {6, true, true, true},
};
enum { PLAN_ATTEMPTS = sizeof plan_attempts / sizeof *plan_attempts };

/* A picture with less detail for each further attempt, which the caller closes. *is_cut: it shows less than
 * it should. */
static Agraph_t *draw(artist *a, int attempt, bool *is_cut) {
    stream_how how = {.max_rows = (int)a->o->max_nodes};
    *is_cut = false;
    return a->plan ? draw_plan(a->plan, a->o->max_nodes ? &how : &plan_attempts[attempt])
                   : draw_graph(a, attempt, is_cut);
}

/* 1: the user has set the level of detail, so the picture is drawn whatever its size. */
static int attempts_of(const artist *a) {
    if (a->plan) return a->o->max_nodes ? 1 : PLAN_ATTEMPTS;
    return asks_for_more(a->o) ? 1 : ATTEMPTS - a->has_backward;
}

/* For text the picture is drawn again, as the layout has added attributes of its own. */
static void write_picture(GVC_t *gvc, artist *a, int attempt, Agraph_t *laid_out) {
    bool is_cut;
    if (!is_text(a->o)) {
        render(gvc, laid_out, a->o->format, a->o->output);
        return;
    }
    Agraph_t *picture = draw(a, attempt, &is_cut);
    write_dot(picture, a->o->output);
    agclose(picture);
}

/* One attempt: whether it was written. The last attempt's text needs no layout, which takes minutes for a
 * large graph. Messages of Graphviz about a layout that it gave up are dropped: another attempt follows, or
 * the picture is refused. */
static bool attempt_one(GVC_t *gvc, artist *a, int attempt) {
    bool is_done = attempt == attempts_of(a) - 1, is_cut, good = true;
    Agraph_t *picture = draw(a, attempt, &is_cut);
    if (is_done ? !is_text(a->o) : !is_cut) {
        agreseterrors();
        bool has_engine = gvLayout(gvc, picture, "dot") == 0; /* else no attempt can begin */
        good = has_engine && agerrors() < AGERR;
        is_done |= !has_engine || (good && is_on_page(picture) && is_in_order(picture));
    }
    if (is_done && !good) tool_fail("graphviz could not lay the graph out");
    if (is_done) write_picture(gvc, a, attempt, picture);
    gvFreeLayout(gvc, picture);
    agclose(picture);
    return is_done;
}

static void free_context(void *gvc) {
    gvFreeContext(gvc);
}

#ifdef WEFT_HAS_PLUGINS /* cmake/wheel.cmake links them: a layout, and what writes SVG */
extern gvplugin_library_t gvplugin_core_LTX_library, gvplugin_dot_layout_LTX_library;
static const lt_symlist_t linked[] = {{"gvplugin_core_LTX_library", &gvplugin_core_LTX_library},
                                      {"gvplugin_dot_layout_LTX_library", &gvplugin_dot_layout_LTX_library},
                                      {0}};
static const lt_symlist_t *const plugins = linked;
#else
static const lt_symlist_t *const plugins = NULL; /* those that Graphviz finds */
#endif

/* Tries one attempt after another until one fits the page. */
static void show(artist *a) {
    GVC_t *gvc = tool_keep(tool_need(plugins ? gvContextPlugins(plugins, false) : gvContext()), free_context);
    agseterr(AGMAX);
    for (int i = 0; !attempt_one(gvc, a, i); i++) {
    }
}

static void show_graph(const weft_graph *g, const weft_model *m, const options *o, const char *what) {
    const char *title = tool_text("%.200s, graph %.200s (%s, batch %lld)%s", m->name, g->name,
                                  g->mode == WEFT_TRAIN ? "train" : "eval", (long long)m->batch, what);
    show(&(artist){.graph = g, .model = m, .o = o, .title = title, .has_backward = *what || o->all});
}

/* Draws the compiled graph: after the pass `pass`, which makes gradients and updates nodes, or (NULL) as it
 * runs. */
static void show_compiled(const weft_model *m, const options *o, const char *pass) {
    options late = *o;
    late.compile.stop_after = pass;
    const weft_plan *plan = tool_compile(m, &late, graph_name(m, o));
    /* with accumulation: the program that updates; m, for its colours */
    show_graph(plan->programs[plan->n_programs - 1].graph, m, o, pass ? "" : ", as it runs");
}

/* Draws the graph as written; for another --batch the builder's calls are replayed. */
static void show_forward(const weft_model *m, const options *o) {
    const weft_graph *g = graph_find(m, graph_name(m, o));
    if (o->compile.batch && o->compile.batch != m->batch) {
        weft_model *copy = tool_keep_model(tool_need(model_clone_variables(m, o->compile.batch, 1, 0)));
        if (!(g = graph_replay(g, copy, g->name))) tool_error(&copy->error);
        m = copy;
    }
    show_graph(g, m, o, "");
}

/* The format by the end of the file's name; NULL, dot, where it has none. */
static const char *format_of(const options *o) {
    const char *name = o->output ? strrchr(o->output, '/') : NULL;
    const char *end = o->output ? strrchr(name ? name : o->output, '.') : NULL;
    if (o->format || !end || strcasecmp(end, ".gv") == 0) return o->format; /* Graphviz's own end */
    for (int i = 0; option_types[i]; i++)
        if (strcasecmp(end + 1, option_types[i]) == 0) return option_types[i];
    names known = names_of(end + 1, option_types);
    names_refuse(&known, "dot: --output=%s: '%s' is not a format", o->output, end + 1);
}

/* Graphviz's libraries end the process where they get no memory. */
static void check_memory(void) {
    enum { LEAST = 512 << 20 };
    room free = room_at("", 1, 0);
    if (free.bytes < LEAST)
        tool_fail("dot: Graphviz needs up to %s of memory to draw, and %s are free (%s)", BYTES(LEAST),
                  BYTES(free.bytes), free.by);
}

/* Chooses the view: plan, program, graph with the backward pass, or graph as written. */
static int dot_run(const options *given) {
    options own = *given;
    const options *o = &own;
    const char *view = o->view ? o->view : "graph";
    own.format = format_of(o);
    bool is_binary = o->format && has_word("png pdf", o->format);
    bool is_printed = !o->output || strcmp(o->output, "/dev/stdout") == 0;
    if (is_binary && is_printed && isatty(STDOUT_FILENO))
        tool_fail("dot: a picture of type %s cannot be written to a terminal: use -o FILE", o->format);
    if (plugins && is_binary)
        tool_fail("dot: a graphtool of a wheel draws dot and svg: install Graphviz for `graphtool dot ... | "
                  "dot -T%s`",
                  o->format);
    check_memory();
    const weft_model *m = tool_load(o);
    tool_need_graph(m, o);
    if (strcmp(view, "plan") == 0)
        show(&(artist){.plan = tool_compile(m, o, o->graph), .o = o});
    else if (strcmp(view, "program") == 0)
        show_compiled(m, o, NULL);
    else if (o->all)
        show_compiled(m, o, "optimizer");
    else
        show_forward(m, o);
    return EXIT_FINE;
}

const command command_dot = {
    .name = "dot",
    .summary = "Draws a graph, a program as it runs, or the buckets and streams of a plan",
    .options = OPTIONS_IMAGINE
    "graph batch threads isa device dtype precision flow accumulate strategy ddp zero shard bucket-cap-mb "
    "serial view all depth max-nodes focus hops expand type output",
    .details = "Scopes are boxes, edges carry shapes; equal scopes are drawn once, with their count.",
    .example = "graphtool dot dcgan28.bin --graph d_step -T svg -o d_step.svg",
    .writes_text = true,
    .run = dot_run,
    .defaults = {.depth = -1, .hops = 2},
};
