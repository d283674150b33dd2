/* draw_lanes.c - the lanes of a graph: compute on the left; on the right the collectives at the height where they start.
 *
 * Solid arrows: gradient ready -> collective -> who waits for it. What is carried into the next run has a dashed border;
 * it stands again, dashed, where a next run first reads it, with a dashed arrow to the reader. (Arrows all the way back
 * up were tried: with ZeRO on two graphs nobody could follow them.) */
#include "tools/graphtool/diagram/draw_lanes.h"

#include "tools/graphtool/common/tools.h"
#include "runtime/plan/value.h"

#include <stdio.h>
#include <string.h>

/* Rows of one bucket that follow one another share a node; rows that are too many are one node. */
typedef struct drawing {
    Agraph_t *g, *cluster;
    const lane_list *all;
    const lanes *l;
    int number;                /* of the graph in the picture */
    int fold_from, fold_until; /* rows */
} drawing;

/* ---- rows of the compute lane ---- */

static bool is_folded(const drawing *d, int row) {
    return row >= d->fold_from && row < d->fold_until;
}

/* wait, update and the start of the way back of one bucket are one node. */
static bool joins_previous(const drawing *d, int row) {
    const lane_row *r = &d->l->rows[row];
    if (!row || (is_folded(d, row) != is_folded(d, row - 1))) return false;
    if (is_folded(d, row)) return true;
    const lane_row *before = r - 1;
    return r->bucket && r->bucket == before->bucket &&
           (before->kind == ROW_WAIT || before->kind == ROW_UPDATE);
}

static int first_of(const drawing *d, int row) {
    while (joins_previous(d, row)) row--;
    return row;
}

static Agnode_t *row_node(const drawing *d, int row, bool make) {
    char name[60];
    snprintf(name, sizeof name, "g%dr%d", d->number, first_of(d, row));
    return agnode(make ? d->cluster : d->g, name, make);
}

static const char *row_fill(const lane_row *row) {
    switch (row->kind) {
    case ROW_WAIT:
        return "#ffd0ca";
    case ROW_UPDATE:
        return "#c5ebe6";
    case ROW_READ:
        return "#d3e6f8";
    case ROW_END:
        return "#dddddd";
    case ROW_START:
    case ROW_READY:
        return "#ffffff";
    case ROW_SPAN:
        break;
    }
    return row->backward > row->forward ? "#e9e0ff" : row->rest > row->forward ? "#e3f5f2" : "#fff6cc";
}

/* "generator/fc ... discriminator/conv2" */
static void scopes_text(text *t, const lane_row *row) {
    const char *from = "", *to = "";
    for (const weft_node *n = row->node; n; n = n == row->last ? NULL : n->next) {
        if (!*n->scope) continue;
        if (!*from) from = n->scope;
        to = n->scope;
    }
    if (*from) text_add(t, "\n%s", from);
    if (strcmp(from, to) != 0) text_add(t, " \xe2\x80\xa6 %s", to);
}

static void start_label(text *t, const lane_move *m) {
    if (m->is_return) {
        text_add(t, "%s goes back to all", m->name);
        return;
    }
    text_add(t, m->bucket ? "%s is complete\n" : "send of %s\n", m->name);
    lane_node_text(t, m->ready);
}

static void row_label(text *t, const lanes *l, const lane_row *row) {
    const lane_move *m = row->move < 0 ? NULL : &l->moves[row->move];
    switch (row->kind) {
    case ROW_START:
        start_label(t, m);
        break;
    case ROW_READY:
        lane_row_text(t, l, row);
        text_add(t, "\n");
        lane_node_text(t, plan_ready_after(row->node));
        break;
    case ROW_WAIT:
        text_add(t, "wait for %s", m ? m->name : "?");
        break;
    case ROW_READ:
        text_add(t, "%s is first read\n", row->bucket->path);
        lane_node_text(t, row->node);
        break;
    case ROW_SPAN:
    case ROW_UPDATE:
    case ROW_END:
        lane_row_text(t, l, row);
        break;
    }
    if (row->kind == ROW_SPAN) scopes_text(t, row);
}

static void fold_label(text *t, const drawing *d) {
    int moves = 0;
    for (int i = d->fold_from; i < d->fold_until; i++) moves += d->l->rows[i].kind == ROW_START;
    text_add(t, "\xe2\x80\xa6 %d more rows, %d collectives", d->fold_until - d->fold_from, moves);
}

static Agnode_t *draw_row(const drawing *d, int row) {
    const lane_row *r = &d->l->rows[row];
    Agnode_t *n = row_node(d, row, true);
    text label = {0};
    if (is_folded(d, row))
        fold_label(&label, d);
    else
        row_label(&label, d->l, r);
    for (int next = row + 1; !is_folded(d, row) && next < d->l->n_rows && joins_previous(d, next); next++) {
        text_add(&label, "\n");
        row_label(&label, d->l, &d->l->rows[next]);
    }
    paint_text(n, "label", &label);
    paint_set(n, "fillcolor", is_folded(d, row) ? "#ffffff" : row_fill(r));
    paint_set(n, "group", "compute");
    if (r->bucket && !is_folded(d, row)) paint_set(n, "color", subgraph_look_at(r->bucket->subgraph)->line);
    return n;
}

/* ---- the communication lane ---- */

static int row_of_wait(const lanes *l, int move) {
    for (int i = 0; i < l->n_rows; i++)
        if (l->rows[i].kind == ROW_WAIT && l->rows[i].move == move) return i;
    return -1;
}

static Agedge_t *draw_arrow(Agraph_t *g, Agnode_t *from, Agnode_t *to, const subgraph_look *look,
                            const char *style) {
    Agedge_t *e = agedge(g, from, to, NULL, 1);
    paint_set(e, "color", look->line);
    paint_set(e, "penwidth", "1.6");
    paint_set(e, "style", style);
    return e;
}

static void same_rank(Agraph_t *g, Agnode_t *a, Agnode_t *b) {
    char name[100];
    snprintf(name, sizeof name, "same_%.80s", agnameof(a));
    Agraph_t *same = agsubg(g, name, 1);
    paint_set(same, "rank", "same");
    agsubnode(same, a, 1);
    agsubnode(same, b, 1);
}

/* A box beside a row. Takes the label. */
static Agnode_t *draw_beside(const drawing *d, int row, const subgraph_look *look, bool is_carried,
                             text *label) {
    char name[60];
    snprintf(name, sizeof name, "g%dm%d", d->number, row);
    Agnode_t *n = agnode(d->cluster, name, 1);
    paint_text(n, "label", label);
    paint_set(n, "fillcolor", look->fill);
    paint_set(n, "color", look->line);
    paint_set(n, "penwidth", "2");
    paint_set(n, "group", "communication");
    if (is_carried) paint_set(n, "style", "filled,rounded,dashed");
    same_rank(d->cluster, row_node(d, row, false), n);
    return n;
}

static Agnode_t *draw_move(const drawing *d, int row) {
    const lane_move *m = &d->l->moves[d->l->rows[row].move];
    const subgraph_look *look = subgraph_look_at(m->subgraph);
    int wait = row_of_wait(d->l, d->l->rows[row].move);
    text label = {0};
    text_add(&label, "%lld   %s\n%s, %s\n", (long long)m->order, m->start->op->name, m->name,
             show_bytes(m->bytes).text);
    if (wait >= 0)
        text_add(&label, "%d node%s until the wait%s", m->between, m->between == 1 ? "" : "s",
                 m->is_carried ? "\nin a later run" : "");
    else
        text_add(&label, "goes on into the next run");
    Agnode_t *n = draw_beside(d, row, look, m->is_carried, &label);
    draw_arrow(d->g, row_node(d, row, false), n, look, "");
    if (wait >= 0) draw_arrow(d->g, n, row_node(d, wait, false), look, "");
    return n;
}

/* What an earlier run left under way, where this one wants it. */
static Agnode_t *draw_arriving(const drawing *d, int row) {
    const weft_variable *bucket = d->l->rows[row].bucket;
    const lanes *of = NULL;
    const lane_move *m = lane_carried(d->all, bucket, &of);
    const subgraph_look *look = subgraph_look_at(bucket->subgraph);
    text label = {0};
    if (!m) return NULL;
    text_add(&label, "%s %s\nof the last %s", m->start->op->name, bucket->path, of->p->name);
    Agnode_t *n = draw_beside(d, row, look, true, &label);
    /* made from left to right, as every edge beside a row is: so the lanes keep their sides */
    Agedge_t *e = draw_arrow(d->g, row_node(d, row, false), n, look, "dashed");
    paint_set(e, "dir", "back");
    return n;
}

/* ---- a graph ---- */

static void draw_chain(Agraph_t *g, Agnode_t *from, Agnode_t *to, bool is_shown) {
    Agedge_t *e = agedge(g, from, to, NULL, 1);
    paint_set(e, "weight", "20");
    paint_set(e, "style", is_shown ? "" : "invis");
    paint_set(e, "arrowhead", "none");
    paint_set(e, "penwidth", "2");
    paint_set(e, "color", "#bbbbbb");
}

static Agnode_t *draw_head(const drawing *d, const char *lane, const char *what) {
    char name[60];
    snprintf(name, sizeof name, "g%d%s", d->number, lane);
    Agnode_t *n = agnode(d->cluster, name, 1);
    paint_set(n, "label", what);
    paint_set(n, "shape", "plaintext");
    paint_set(n, "style", "");
    paint_set(n, "fontname", "Helvetica-Bold");
    paint_set(n, "group", lane);
    return n;
}

static void draw_frame(drawing *d) {
    const program *p = d->l->p;
    char name[40];
    text label = {0};
    snprintf(name, sizeof name, "cluster_g%d", d->number);
    d->cluster = agsubg(d->g, name, 1);
    text_add(&label, "graph %s", p->name);
    lane_phase_text(&label, p);
    text_add(&label, "  \xc2\xb7  arena %s", show_bytes(p->arena_bytes).text);
    paint_text(d->cluster, "label", &label);
    paint_set(d->cluster, "style", "rounded");
    paint_set(d->cluster, "color", "#999999");
    paint_set(d->cluster, "fontname", "Helvetica-Bold");
    paint_set(d->cluster, "fontsize", "14");
}

static Agnode_t *draw_compute(const drawing *d) {
    Agnode_t *top = draw_head(d, "compute", "compute lane"), *last = top;
    for (int i = 0; i < d->l->n_rows; i++) {
        if (joins_previous(d, i)) continue;
        Agnode_t *n = draw_row(d, i);
        draw_chain(d->g, last, n, last != top);
        last = n;
    }
    return top;
}

static void draw_communication(const drawing *d, Agnode_t *compute_top) {
    Agnode_t *top = NULL, *last = NULL;
    for (int i = 0; i < d->l->n_rows; i++) {
        row_kind kind = d->l->rows[i].kind;
        if (is_folded(d, i) || (kind != ROW_START && kind != ROW_READ)) continue;
        if (!top) {
            top = last = draw_head(d, "communication", "communication lane");
            same_rank(d->cluster, compute_top, top);
            draw_chain(d->g, compute_top, top, false);
        }
        Agnode_t *n = kind == ROW_START ? draw_move(d, i) : draw_arriving(d, i);
        if (!n) continue;
        draw_chain(d->g, last, n, last != top);
        last = n;
    }
}

Agnode_t *draw_lanes(Agraph_t *g, const lane_list *list, int number, int max_rows) {
    drawing d = {.g = g, .all = list, .l = &list->v[number], .number = number};
    if (d.l->n_rows > max_rows) {
        d.fold_from = max_rows / 2;
        d.fold_until = d.l->n_rows - max_rows / 2;
    }
    draw_frame(&d);
    Agnode_t *top = draw_compute(&d);
    draw_communication(&d, top);
    return top;
}
