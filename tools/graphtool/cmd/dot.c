/* dot.c - graphtool dot: a picture of a graph, as it is written or as it runs, or of a whole plan. It tries
 * several layouts, each with less detail, and writes the first that fits a page. */
#include "tools/graphtool/diagram/draw.h"
#include "graph/settings/clone.h"
#include "tools/graphtool/common/names.h"
#include "tools/graphtool/common/tools.h"

#include "runtime/plan/program.h"
#include "runtime/store/room.h"

#include <graphviz/gvc.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* The graph to draw when none is named: the first that trains. */
static const char *graph_name(const weft_model *m, const options *o) {
    if (o->graph) return o->graph;
    for (const weft_graph *g = m->graphs; g; g = g->next)
        if (g->mode == WEFT_TRAIN) return g->name;
    return m->graphs->name;
}

/* Writes the picture as dot text. */
static int write_dot(Agraph_t *g, const char *path) {
    char *data = NULL;
    size_t length = 0;
    FILE *memory = open_memstream(&data, &length);
    bool good = memory && agwrite(g, memory) == 0 && !fflush(memory) && !ferror(memory);
    if (memory && fclose(memory)) good = false;
    int status = good ? out_write(path, data, length) : tool_fail("out of memory");
    free(data);
    return status;
}

/* Writes the laid-out picture as SVG, PNG or PDF. */
static int render(GVC_t *gvc, Agraph_t *g, const char *format, const char *path) {
    char *data = NULL;
    unsigned length = 0;
    int status = EXIT_MISUSED;
    if (gvRenderData(gvc, g, format, &data, &length) || !data)
        status = tool_fail("graphviz could not draw %s", format);
    else
        status = out_write(path, data, length);
    if (data) gvFreeRenderData(data);
    return status;
}

/* A readable page in points: 1,600 x 2,400 pixels of 1/96 inch, less the margin. */
enum { PAGE_WIDTH = 1200 - 8, PAGE_HEIGHT = 1800 - 8 };

static bool is_on_page(Agraph_t *g) {
    boxf b = GD_bb(g);
    return b.UR.x - b.LL.x <= PAGE_WIDTH && b.UR.y - b.LL.y <= PAGE_HEIGHT;
}

/* What to draw. draw(attempt) returns a picture with less detail for each further attempt, which the caller
 * closes; NULL: out of memory. *is_cut: it shows less than it should. */
typedef struct artist {
    Agraph_t *(*draw)(const struct artist *a, int attempt, bool *is_cut);
    int attempts; /* 1: the user has set the level of detail, so the picture is drawn whatever its size */
    const weft_graph *graph;
    const weft_model *model;
    const weft_plan *plan;
    const options *o;
    const char *title;
    bool is_program;
} artist;

/* Lays the picture out. Messages of Graphviz about a layout that it gave up are dropped: another attempt
 * follows, or the picture is refused. *has_engine: it could begin; else no attempt can. */
static bool lay_out(GVC_t *gvc, Agraph_t *picture, bool *has_engine) {
    agreseterrors();
    *has_engine = gvLayout(gvc, picture, "dot") == 0;
    return *has_engine && agerrors() < AGERR;
}

static bool is_text(const options *o) {
    return !o->format || strcmp(o->format, "dot") == 0;
}

/* For text the picture is drawn again, as the layout has added attributes of its own. */
static int write_picture(GVC_t *gvc, const artist *a, int attempt, Agraph_t *laid_out) {
    bool is_cut;
    if (!is_text(a->o)) return render(gvc, laid_out, a->o->format, a->o->output);
    Agraph_t *picture = a->draw(a, attempt, &is_cut);
    int status = picture ? write_dot(picture, a->o->output) : tool_fail("out of memory");
    if (picture) agclose(picture);
    return status;
}

/* One attempt; *is_done: it was written, or failed for good. The last attempt's text needs no layout, which
 * takes minutes for a large graph. */
static int attempt_one(GVC_t *gvc, const artist *a, int attempt, bool *is_done) {
    bool is_last = attempt == a->attempts - 1, is_cut = false, good = true, has_engine = true;
    int status = EXIT_FINE;
    Agraph_t *picture = a->draw(a, attempt, &is_cut);
    *is_done = is_last || !picture;
    if (!picture) return tool_fail("out of memory");
    if (is_last ? !is_text(a->o) : !is_cut) {
        good = lay_out(gvc, picture, &has_engine);
        *is_done |= !has_engine || (good && is_on_page(picture));
    }
    if (*is_done)
        status = good ? write_picture(gvc, a, attempt, picture)
                      : tool_fail("graphviz could not lay the graph out");
    gvFreeLayout(gvc, picture);
    agclose(picture);
    return status;
}

/* Tries one attempt after another until one fits the page. */
static int show(const artist *a) {
    GVC_t *gvc = gvContext();
    bool is_done = !gvc;
    int status = gvc ? EXIT_FINE : tool_fail("out of memory");
    agseterr(AGMAX);
    for (int i = 0; i < a->attempts && !is_done; i++) status = attempt_one(gvc, a, i, &is_done);
    if (gvc) gvFreeContext(gvc);
    return status;
}

/* ---- graphs ---- */

enum { MAX_NODES = 80 };

/* First more repetitions are collapsed, then more scopes closed, and at last fewer nodes drawn. */
static const diagram_how attempts[] = {
    {.collapsing = COLLAPSE_EQUAL, .depth = -1, .max_nodes = MAX_NODES},
    {.collapsing = COLLAPSE_ALIKE, .depth = -1, .max_nodes = MAX_NODES},
    {.collapsing = COLLAPSE_RUNS, .depth = -1, .max_nodes = MAX_NODES},
    {.collapsing = COLLAPSE_ALIKE, .depth = 4, .max_nodes = MAX_NODES},
    {.collapsing = COLLAPSE_ALIKE, .depth = 3, .max_nodes = MAX_NODES},
    {.collapsing = COLLAPSE_RUNS, .depth = 3, .max_nodes = MAX_NODES},
    {.collapsing = COLLAPSE_RUNS, .depth = 2, .max_nodes = MAX_NODES},
    {.collapsing = COLLAPSE_RUNS, .depth = 1, .max_nodes = MAX_NODES},
    {.collapsing = COLLAPSE_RUNS, .depth = 1, .max_nodes = 40},
    {.collapsing = COLLAPSE_RUNS, .depth = 1, .max_nodes = 20},
    {.collapsing = COLLAPSE_RUNS, .depth = 0, .max_nodes = 10},
};
enum { ATTEMPTS = sizeof attempts / sizeof *attempts };

/* Has the user set the level of detail? */
static bool asks_for_more(const options *o) {
    return o->all || o->depth >= 0 || o->max_nodes;
}

static Agraph_t *draw_graph(const artist *a, int attempt, bool *is_cut) {
    const options *o = a->o;
    diagram s;
    diagram_how how = {.depth = (int)o->depth, .max_nodes = o->max_nodes ? (int)o->max_nodes : MAX_NODES};
    if (!asks_for_more(o))
        how = attempts[attempt + a->is_program]; /* a program's updates are always collapsed */
    how.all = o->all || a->is_program;
    Agraph_t *picture = diagram_build(&s, a->graph, &how) ? draw_diagram(&s, a->model, a->title) : NULL;
    *is_cut = s.is_cut && how.depth < 0;
    diagram_free(&s);
    return picture;
}

static int draw(const weft_graph *g, const weft_model *m, const options *o, const char *what) {
    char title[600];
    snprintf(title, sizeof title, "%.200s, graph %.200s (%s, batch %lld)%s", m->name, g->name,
             g->mode == WEFT_TRAIN ? "train" : "eval", (long long)m->batch, what);
    artist a = {.draw = draw_graph, .graph = g, .model = m, .o = o, .title = title, .is_program = *what};
    a.attempts = asks_for_more(o) ? 1 : ATTEMPTS - a.is_program;
    return show(&a);
}

/* Draws the compiled graph: after the pass `pass`, which makes gradients and updates nodes, or (NULL) as it
 * runs. */
static int draw_compiled(const weft_model *m, const options *o, const char *pass) {
    int status = EXIT_FINE;
    options late = *o;
    late.compile.stop_after = pass;
    weft_plan *plan = tool_compile(m, &late, graph_name(m, o), &status);
    if (!plan) return status;
    /* with accumulation: the program that updates */
    const program *last = &plan->programs[plan->n_programs - 1];
    status = draw(last->graph, m, o, pass ? "" : ", as it runs"); /* m, for its colours */
    weft_plan_free(plan);
    return status;
}

/* First repeating rows are collapsed, then everything is put in one column, then fewer rows are drawn. */
static const stream_how plan_attempts[] = {
    {.max_rows = MAX_NODES},
    {.max_rows = MAX_NODES, .stack_tables = true},
    {.max_rows = MAX_NODES, .collapse = true},
    {.max_rows = MAX_NODES, .collapse = true, .stack_tables = true},
    {.max_rows = 24, .collapse = true, .stack_tables = true},
    {.max_rows = 24, .collapse = true, .stack_tables = true, .stack_streams = true},
    {.max_rows = 12, .collapse = true, .stack_tables = true, .stack_streams = true},
    {.max_rows = 6, .collapse = true, .stack_tables = true, .stack_streams = true},
};
enum { PLAN_ATTEMPTS = sizeof plan_attempts / sizeof *plan_attempts };

static Agraph_t *draw_rows(const artist *a, int attempt, bool *is_cut) {
    stream_how how = {.max_rows = (int)a->o->max_nodes};
    *is_cut = false;
    return draw_plan(a->plan, a->o->max_nodes ? &how : &plan_attempts[attempt]);
}

static int draw_whole_plan(const weft_model *m, const options *o) {
    int status = EXIT_FINE;
    weft_plan *plan = tool_compile(m, o, o->graph, &status);
    if (!plan) return status;
    artist a = {.draw = draw_rows, .plan = plan, .o = o, .attempts = o->max_nodes ? 1 : PLAN_ATTEMPTS};
    status = show(&a);
    weft_plan_free(plan);
    return status;
}

/* Draws the graph as written; for another --batch the builder's calls are replayed. */
static int draw_forward(const weft_model *m, const options *o) {
    const weft_graph *g = graph_find(m, graph_name(m, o));
    if (!g) return EXIT_MISUSED; /* never: tool_load has looked */
    if (!o->compile.batch || o->compile.batch == m->batch) return draw(g, m, o, "");
    weft_model *copy = model_clone_variables(m, o->compile.batch);
    int status;
    if (!copy)
        status = tool_fail("out of memory");
    else if (!(g = graph_replay(g, copy, g->name)))
        status = tool_error(&copy->error);
    else
        status = draw(g, copy, o, "");
    weft_model_free(copy);
    return status;
}

static bool is_standard_output(const options *o) {
    return !o->output || strcmp(o->output, "/dev/stdout") == 0;
}

/* The format by the end of the file's name, dot where it has none: -1, or the status after an error. */
static int format_of(options *o) {
    const char *name = o->output ? strrchr(o->output, '/') : NULL;
    const char *end = o->output ? strrchr(name ? name : o->output, '.') : NULL;
    if (!end || strcasecmp(end, ".gv") == 0) return -1; /* Graphviz's own end */
    names known = names_for(end + 1);
    for (int i = 0; option_types[i] && !o->format; i++) {
        if (strcasecmp(end + 1, option_types[i]) == 0) o->format = option_types[i];
        names_add(&known, option_types[i]);
    }
    if (!o->format) return names_refuse(&known, "dot: --output=%s: '%s' is not a format", o->output, end + 1);
    names_end(&known);
    return -1;
}

/* Graphviz's libraries end the process where they get no memory. */
static int check_memory(void) {
    enum { LEAST = 512 << 20 };
    room free = room_at("", 1, 0);
    if (free.bytes >= LEAST) return -1;
    return tool_fail("dot: Graphviz needs up to %s of memory to draw, and %s are free (%s)",
                     bytes_show(LEAST).text, bytes_show(free.bytes).text, free.by);
}

/* Chooses the view: plan, program, graph with the backward pass, or graph as written. */
static int dot_run(const options *given) {
    int status = EXIT_FINE;
    options own = *given;
    const options *o = &own;
    int wrong = own.format ? -1 : format_of(&own);
    if (wrong >= 0) return wrong;
    const char *view = o->view ? o->view : "graph";
    bool is_binary = o->format && (strcmp(o->format, "png") == 0 || strcmp(o->format, "pdf") == 0);
    if (is_binary && is_standard_output(o) && isatty(STDOUT_FILENO))
        return tool_fail("dot: a picture of type %s cannot be written to a terminal: use -o FILE", o->format);
    wrong = check_memory();
    weft_model *m = wrong < 0 ? tool_load(o, &status) : NULL;
    if (!m) return wrong < 0 ? status : wrong;
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

const command command_dot = {
    .name = "dot",
    .summary = "Draws a graph, a program as it runs, or the buckets and streams of a plan",
    .takes_model = true,
    .options = OPTIONS_IMAGINE
    "graph batch threads isa device dtype precision flow accumulate strategy ddp zero shard bucket-cap-mb "
    "serial view all depth max-nodes type output",
    .details = "Scopes are boxes, edges carry shapes; equal scopes are drawn once, with their count.",
    .example = "graphtool dot dcgan28.bin --graph d_step -T svg -o d_step.svg",
    .writes_text = true,
    .run = dot_run,
    .defaults = {.depth = -1},
};
