/* draw_plan.c - a plan as one picture: a table of buckets for each subgraph, and below them the streams of
 * each graph that trains, side by side (draw_streams.c). */
#include "tools/graphtool/diagram/draw.h"

#include "tools/graphtool/timeline/buckets.h"
#include "tools/graphtool/diagram/draw_streams.h"
#include "tools/graphtool/common/tools.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct drawing {
    const weft_plan *plan;
    const bucket_list *buckets;
    const stream_list *all;
    Agraph_t *g;
    const stream_how *how;
} drawing;

/* ---- subgraphs ---- */

static void table_head(text *t, bool has_owners) {
    static const char *const heads[] = {"bucket", "size", "parameters", "from \xe2\x80\xa6 to", "updated by"};
    text_add(t, "<tr>");
    for (int i = 0; i < 4 + has_owners; i++)
        text_add(t, "<td align=\"%s\"><font color=\"#666666\">%s</font></td>",
                 i == 1 || i == 2 ? "right" : "left", heads[i]);
    text_add(t, "</tr>");
}

/* One bucket: path, size, parameters and, with ZeRO, which rank updates which range. */
static void table_row(text *t, const drawing *d, const subgraph_view *v, int i) {
    const weft_variable *b = v->buckets[i];
    text_add(t,
             "<tr><td align=\"left\"><b>%s</b></td><td align=\"right\">%s</td><td align=\"right\">%d</td>"
             "<td align=\"left\">",
             b->path, bytes_show(type_bytes(&b->type)).text, b->n_members);
    bucket_members_text(t, v, b);
    text_add(t, "</td>");
    if (v->is_sharded) {
        text_add(t, "<td align=\"left\">");
        bucket_owners_text(t, d->plan, b, "<br align=\"left\"/>");
        text_add(t, "</td>");
    }
    text_add(t, "</tr>");
}

/* All rows of a subgraph's table, or max_rows of them from both ends. */
static void table_text(text *t, const drawing *d, const subgraph_view *v) {
    int left_out = v->n_buckets > d->how->max_rows ? v->n_buckets - d->how->max_rows : 0,
        head = (d->how->max_rows + 1) / 2;

    text_add(t,
             "<table border=\"0\" cellborder=\"0\" cellspacing=\"0\" cellpadding=\"3\">"
             "<tr><td colspan=\"5\" align=\"left\"><font color=\"%s\" point-size=\"12\"><b>subgraph %s  "
             "\xc2\xb7  ",
             subgraph_look_at(v->index)->line, v->name);
    text_add(t, "%d parameters, ", v->n_parameters);
    number_text(t, (double)v->numbers);
    text_add(t, " numbers, %s</b></font></td></tr>", bytes_show(v->bytes).text);
    if (*v->options) text_add(t, "<tr><td colspan=\"5\" align=\"left\">%s</td></tr>", v->options);
    table_head(t, v->is_sharded);
    for (int i = 0; i < v->n_buckets; i++) {
        if (left_out && i == head)
            text_add(t, "<tr><td colspan=\"5\" align=\"left\">\xe2\x80\xa6 %d more</td></tr>", left_out);
        if (!left_out || i < head || i >= head + left_out) table_row(t, d, v, i);
    }
    text_add(t, "</table>");
}

static Agnode_t *draw_subgraph(const drawing *d, int number) {
    const subgraph_view *v = &d->buckets->v[number];
    const subgraph_look *look = subgraph_look_at(v->index);
    char name[40];
    text rows = {0};
    snprintf(name, sizeof name, "cluster_s%d", number);
    Agraph_t *cluster = agsubg(d->g, name, 1);
    paint_set(cluster, "label", ""); /* else it inherits the picture's */
    paint_set(cluster, "style", "filled,rounded");
    paint_set(cluster, "fillcolor", look->fill);
    paint_set(cluster, "color", look->line);
    snprintf(name, sizeof name, "s%d", number);
    Agnode_t *n = agnode(cluster, name, 1);
    table_text(&rows, d, v);
    paint_html(d->g, n, &rows);
    paint_set(n, "shape", "plaintext");
    paint_set(n, "style", "");
    return n;
}

/* ---- the whole ---- */

static void draw_title(const drawing *d) {
    const weft_compile_options *o = &d->plan->options;
    text t = {0};
    text_add(&t, "%s, batch %lld", d->plan->model->name, (long long)o->batch);
    if (o->world > 1) text_add(&t, ", rank %d of %d", o->rank, o->world);
    if (o->accumulate > 1) text_add(&t, ", %d micro-batches a step", o->accumulate);
    text_add(&t, ": %s in all\\l", bytes_show(weft_plan_memory(d->plan).total).text);
    if (o->world > 1)
        text_add(&t, "arrows: gradient ready \xe2\x86\x92 collective \xe2\x86\x92 waiting node; dashed: into "
                     "the next run\\l");
    char *title = text_detach(&t);
    paint_defaults(d->g, title ? title : "");
    free(title);
}

/* An invisible edge places one node above another. */
static void draw_above(Agraph_t *g, Agnode_t *above, Agnode_t *below) {
    if (above && below && above != below) paint_set(agedge(g, above, below, NULL, 1), "style", "invis");
}

/* Draws the tables, and the streams below them: side by side, each graph under a table, or all in one
 * column. */
static bool draw_all(const drawing *d) {
    Agnode_t *above = NULL, *table = NULL;
    draw_title(d);
    paint_set(d->g, "remincross", "false"); /* without it the streams may change sides */
    if (d->how->collapse)
        paint_set(d->g, "newrank", "true"); /* without it rows of one height cannot be inside frames */
    for (int i = 0; i < d->buckets->n; i++) {
        Agnode_t *n = draw_subgraph(d, i);
        if (d->how->stack_tables) draw_above(d->g, above, n);
        above = table = n;
    }
    for (int i = 0, shown = 0; i < d->all->n; i++) {
        if (!d->all->v[i].p->trains) continue;
        char name[40];
        snprintf(name, sizeof name, "s%d", shown++);
        stream_ends ends = draw_streams(d->g, d->all, i, d->how);
        if (!ends.top) return false;
        Agnode_t *own = agnode(d->g, name, 0);
        if (own && !d->how->stack_tables) table = own;
        draw_above(d->g, d->how->stack_streams ? above : table, ends.top);
        above = ends.bottom;
    }
    return true;
}

Agraph_t *draw_plan(const weft_plan *plan, const stream_how *how) {
    bucket_list buckets;
    stream_list all;
    bool good = bucket_list_make(&buckets, plan);
    good &= stream_list_make(&all, plan);
    drawing d = {.plan = plan, .buckets = &buckets, .all = &all, .how = how};
    d.g = agopen("plan", Agdirected, NULL);
    good = d.g && good && draw_all(&d);
    if (d.g && !good) {
        agclose(d.g);
        d.g = NULL;
    }
    bucket_list_free(&buckets);
    stream_list_free(&all);
    return d.g;
}
