/* draw_plan.c - a plan as one picture: a table of buckets for each subgraph, and below them the streams of
 * each graph that trains, side by side (draw_streams.c). */

#include "tools/graphtool/timeline/buckets.h"
#include "tools/graphtool/diagram/draw_streams.h"
#include "tools/graphtool/model/tools.h"

typedef struct drawing {
    const weft_plan *plan;
    const bucket_list *buckets;
    const stream_list *all;
    Agraph_t *g;
    const stream_how *how;
} drawing;

/* ---- subgraphs ---- */

/* Cells with a tab between as a row. */
static void html_row(text *t, const subgraph_view *v, bool is_head, text *cells) {
    char *rest = tool_take(cells);
    text_add(t, "<tr>");
    for (int i = 0; i < 4 + v->is_sharded; i++)
        text_add(t,
                 is_head ? "<td align=\"%s\"><font color=\"#666666\">%s</font></td>"
                 : i     ? "<td align=\"%s\">%s</td>"
                         : "<td align=\"%s\"><b>%s</b></td>",
                 i == 1 || i == 2 ? "right" : "left", strsep(&rest, "\t"));
    text_add(t, "</tr>");
}

/* All rows of a subgraph's table, or max_rows of them from both ends. */
static void table_text(text *t, const drawing *d, const subgraph_view *v) {
    int left_out = v->n_buckets > d->how->max_rows ? v->n_buckets - d->how->max_rows : 0,
        head = (d->how->max_rows + 1) / 2;
    text cells = {0};
    text_add(t,
             "<table border=\"0\" cellborder=\"0\" cellspacing=\"0\" cellpadding=\"3\">"
             "<tr><td colspan=\"5\" align=\"left\"><font color=\"%s\" point-size=\"12\"><b>subgraph %s  "
             "\xc2\xb7  ",
             subgraph_look_at(v->index)->line, v->name);
    text_add(t, "%d parameters, ", v->n_parameters);
    number_text(t, (double)v->numbers);
    text_add(t, " numbers, %s</b></font></td></tr>", BYTES(v->bytes));
    if (*v->options) text_add(t, "<tr><td colspan=\"5\" align=\"left\">%s</td></tr>", v->options);
    text_add(&cells, "bucket\tsize\tparameters\tfrom \xe2\x80\xa6 to\tupdated by");
    html_row(t, v, true, &cells);
    for (int i = 0; i < v->n_buckets; i++) {
        if (left_out && i == head)
            text_add(t, "<tr><td colspan=\"5\" align=\"left\">\xe2\x80\xa6 %d more</td></tr>", left_out);
        if (left_out && i >= head && i < head + left_out) continue;
        bucket_row(&cells, d->plan, v, i, "<br align=\"left\"/>");
        html_row(t, v, false, &cells);
    }
    text_add(t, "</table>");
}

static Agnode_t *draw_subgraph(const drawing *d, int number) {
    const subgraph_view *v = &d->buckets->v[number];
    const subgraph_look *look = subgraph_look_at(v->index);
    text rows = {0};
    Agraph_t *cluster = agsubg(d->g, tool_text("cluster_s%d", number), 1);
    /* without a label it would inherit the picture's */
    paint(cluster, "label= style=filled,rounded fillcolor=%s color=%s", look->fill, look->line);
    Agnode_t *n = agnode(cluster, tool_text("s%d", number), 1);
    table_text(&rows, d, v);
    paint_html(d->g, n, &rows);
    paint(n, "shape=plaintext style=");
    return n;
}

/* ---- the whole ---- */

static void draw_title(const drawing *d) {
    const weft_compile_options *o = &d->plan->options;
    text t = {0};
    text_add(&t, "%s, batch %lld", d->plan->model->name, (long long)o->batch);
    if (o->world > 1) text_add(&t, ", rank %d of %d", o->rank, o->world);
    if (o->accumulate > 1) text_add(&t, ", %d micro-batches a step", o->accumulate);
    text_add(&t, ": %s in all\\l", BYTES(weft_plan_memory(d->plan).total));
    if (o->world > 1)
        text_add(&t, "arrows: gradient ready \xe2\x86\x92 collective \xe2\x86\x92 waiting node; dashed: into "
                     "the next run\\l");
    paint_defaults(d->g, tool_take(&t));
}

/* An invisible edge places one node above another. */
static void draw_above(Agraph_t *g, Agnode_t *above, Agnode_t *below) {
    if (above && above != below) paint(agedge(g, above, below, NULL, 1), "style=invis");
}

/* Draws the tables, and the streams below them: side by side, each graph under a table, or all in one
 * column. */
static void draw_all(const drawing *d) {
    Agnode_t *above = NULL, *table = NULL;
    draw_title(d);
    paint(d->g, "remincross=false");                   /* without it the streams may change sides */
    if (d->how->collapse) paint(d->g, "newrank=true"); /* else rows of one height cannot be inside frames */
    for (int i = 0; i < d->buckets->n; i++) {
        Agnode_t *n = draw_subgraph(d, i);
        if (d->how->stack_tables) draw_above(d->g, above, n);
        above = table = n;
    }
    for (int i = 0, shown = 0; i < d->all->n; i++) {
        if (!d->all->v[i].p->trains) continue;
        stream_ends ends = draw_streams(d->g, d->all, i, d->how);
        Agnode_t *own = agnode(d->g, tool_text("s%d", shown++), 0);
        if (own && !d->how->stack_tables) table = own;
        draw_above(d->g, d->how->stack_streams ? above : table, ends.top);
        above = ends.bottom;
    }
}

Agraph_t *draw_plan(const weft_plan *plan, const stream_how *how) {
    const bucket_list buckets = bucket_list_of(plan);
    const stream_list all = stream_list_of(plan);
    drawing d = {.plan = plan, .buckets = &buckets, .all = &all, .how = how};
    d.g = paint_new("plan");
    draw_all(&d);
    return d.g;
}
