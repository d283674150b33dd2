/* draw_streams.c - draws the streams of a graph: compute on the left, and on the right the collectives, at
 * the height where they start.
 *
 * Solid arrows lead from the gradient that is ready to the collective, and on to the node that waits for it.
 * A move in flight into the next run has a dashed border; it is drawn again, dashed, where a next run first
 * reads it, with a dashed arrow to the reader. (Arrows all the way back up were tried; with ZeRO on two
 * graphs they were unreadable.) Rows that repeat are drawn once, in a frame with their count
 * (stream_collapse.c); "gpt.1 ... gpt.16" then names the first and the last. */
#include "tools/graphtool/diagram/draw_streams.h"

#include "tools/graphtool/diagram/stream_collapse.h"
#include "tools/graphtool/diagram/tip.h"
#include "tools/graphtool/common/tools.h"
#include "runtime/plan/value.h"

#include <stdio.h>
#include <string.h>

/* The picture of one graph. If there are too many steps, those in the middle become one node. */
typedef struct drawing {
    Agraph_t *g, *cluster;
    const stream_list *all;
    const streams *l;
    int number; /* number of the graph in the picture */
    stream_collapse collapse;
    int left_from, left_until; /* drawn steps that are left out */
} drawing;

/* ---- steps of the compute stream ---- */

static bool is_drawn(const drawing *d, int step) {
    return d->collapse.steps[step].representative == step;
}

static bool is_left_out(const drawing *d, int step) {
    return step >= d->left_from && step < d->left_until;
}

/* The node of a step's representative, made in the graph `in`; `in` NULL: it must exist. */
static Agnode_t *step_node(const drawing *d, Agraph_t *in, int step) {
    char name[60];
    step = d->collapse.steps[step].representative;
    snprintf(name, sizeof name, "g%dr%d", d->number, is_left_out(d, step) ? d->left_from : step);
    return agnode(in ? in : d->g, name, in != NULL);
}

static Agnode_t *row_node(const drawing *d, int row) {
    return step_node(d, NULL, d->collapse.step_of[row]);
}

/* Colours by the kind of the row; a span has that of its most frequent phase. */
static const char *row_fill(const stream_row *row) {
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

/* One row of a drawn step, and the rows of other rounds that it represents. */
typedef struct like {
    const drawing *d;
    int step, offset, last; /* the drawn step, the row's offset in it, the last round's step */
} like;

static const stream_row *like_row(const like *k, int step) {
    return &k->d->l->rows[k->d->collapse.steps[step].row + k->offset];
}

/* A count over all rounds: "4", or "4...15" from least to most. */
static void count_text(text *t, const like *k, int (*count)(const drawing *d, const stream_row *r)) {
    int low = count(k->d, like_row(k, k->step)), high = low;
    for (int i = k->step; i <= k->last; i++) {
        if (k->d->collapse.steps[i].representative != k->step) continue;
        int n = count(k->d, like_row(k, i));
        if (n < low) low = n;
        if (n > high) high = n;
    }
    text_add(t, "%d", low);
    if (low != high) text_add(t, "\xe2\x80\xa6%d", high);
}

static int count_forward(const drawing *d, const stream_row *r) {
    (void)d;
    return r->forward;
}
static int count_backward(const drawing *d, const stream_row *r) {
    (void)d;
    return r->backward;
}
static int count_rest(const drawing *d, const stream_row *r) {
    (void)d;
    return r->rest;
}
static int count_between(const drawing *d, const stream_row *r) {
    return d->l->moves[r->move].between;
}

static const char *first_scope(const stream_row *row) {
    for (const weft_node *n = row->node; n; n = n == row->last ? NULL : n->next)
        if (*n->scope) return n->scope;
    return "";
}

static const char *last_scope(const stream_row *row) {
    const char *to = "";
    for (const weft_node *n = row->node; n; n = n == row->last ? NULL : n->next)
        if (*n->scope) to = n->scope;
    return to;
}

static bool any_counts(const like *k, int (*count)(const drawing *d, const stream_row *r)) {
    for (int i = k->step; i <= k->last; i++)
        if (k->d->collapse.steps[i].representative == k->step && count(k->d, like_row(k, i))) return true;
    return false;
}

/* A span: "9 forward, 1 update", and below it "generator/fc ... discriminator/conv2". */
static void span_label(text *t, const like *k) {
    static const struct {
        int (*count)(const drawing *d, const stream_row *r);
        const char *what;
    } parts[] = {{count_forward, "forward"}, {count_backward, "backward"}, {count_rest, "update"}};
    bool any = false;
    for (int i = 0; i < 3; i++) {
        if (!any_counts(k, parts[i].count)) continue;
        text_add(t, "%s", any ? ", " : "");
        count_text(t, k, parts[i].count);
        text_add(t, " %s", parts[i].what);
        any = true;
    }
    const char *from = first_scope(like_row(k, k->step)), *to = last_scope(like_row(k, k->last));
    if (*from) text_add(t, "\n%s", from);
    if (strcmp(from, to) != 0) text_add(t, " \xe2\x80\xa6 %s", to);
}

static const char *row_name(const like *k, int step) {
    const stream_row *r = like_row(k, step);
    return r->move >= 0 ? k->d->l->moves[r->move].name : r->bucket ? r->bucket->path : "?";
}

/* "gpt.1", or "gpt.1 ... gpt.16" for several rounds */
static void names_text(text *t, const like *k) {
    text_add(t, "%s", row_name(k, k->step));
    if (k->last != k->step) text_add(t, " \xe2\x80\xa6 %s", row_name(k, k->last));
}

/* What a row of a step shows, by its kind. */
static void row_label(text *t, const like *k) {
    const stream_row *row = like_row(k, k->step);
    const stream_move *m = row->move < 0 ? NULL : &k->d->l->moves[row->move];
    bool alone = k->last == k->step;
    const char *is = alone ? "is" : "are";
    const weft_node *behind = NULL; /* named when there is one round */
    switch (row->kind) {
    case ROW_START:
        if (!m->is_return && !m->bucket) text_add(t, "send of ");
        names_text(t, k);
        if (m->is_return) text_add(t, " go%s back to all", alone ? "es" : "");
        if (!m->is_return && m->bucket) text_add(t, " %s complete", is);
        behind = m->is_return ? NULL : m->ready;
        break;
    case ROW_READY:
        names_text(t, k);
        text_add(t, " complete");
        behind = plan_ready_after(row->node);
        break;
    case ROW_WAIT:
        text_add(t, "wait for ");
        names_text(t, k);
        break;
    case ROW_READ:
        names_text(t, k);
        text_add(t, " %s first read", is);
        behind = row->node;
        break;
    case ROW_UPDATE:
        text_add(t, "%s ", row->node->op->name);
        names_text(t, k);
        break;
    case ROW_END:
        stream_row_text(t, k->d->l, row);
        break;
    case ROW_SPAN:
        span_label(t, k);
        break;
    }
    if (!behind || !alone) return;
    text_add(t, "\n");
    stream_node_text(t, behind);
}

static void left_out_label(text *t, const drawing *d) {
    int moves = 0, rows = 0;
    for (int i = 0; i < d->collapse.n_steps; i++) {
        if (!is_left_out(d, d->collapse.steps[i].representative)) continue;
        rows += d->collapse.steps[i].n_rows;
        for (int k = 0; k < d->collapse.steps[i].n_rows; k++)
            moves += d->l->rows[d->collapse.steps[i].row + k].kind == ROW_START;
    }
    text_add(t, "\xe2\x80\xa6 %d more rows, %d collectives", rows, moves);
}

static void step_label(text *t, const drawing *d, int step) {
    for (int i = 0; i < d->collapse.steps[step].n_rows; i++) {
        like k = {d, step, i, stream_collapse_last(&d->collapse, step)};
        if (i) text_add(t, "\n");
        row_label(t, &k);
    }
}

static void step_tip(text *t, const drawing *d, int step) {
    for (int i = 0; i < d->collapse.steps[step].n_rows; i++) {
        const stream_row *r = &d->l->rows[d->collapse.steps[step].row + i];
        text_add(t, "%s", i ? "\n" : "");
        tip_node(t, r->node, d->collapse.steps[step].rounds);
    }
}

/* Draws a step, or the node for all steps that are left out. */
static Agnode_t *draw_step(const drawing *d, Agraph_t *in, int step) {
    const stream_row *r = &d->l->rows[d->collapse.steps[step].row];
    Agnode_t *n = step_node(d, in, step);
    text label = {0}, tip = {0};
    if (is_left_out(d, step)) {
        left_out_label(&label, d);
    } else {
        step_label(&label, d, step);
        step_tip(&tip, d, step);
    }
    paint_text(n, "label", &label);
    paint_text(n, "tooltip", &tip);
    paint_set(n, "fillcolor", is_left_out(d, step) ? "#ffffff" : row_fill(r));
    paint_set(n, "group", "compute");
    if (r->bucket && !is_left_out(d, step))
        paint_set(n, "color", subgraph_look_at(r->bucket->subgraph)->line);
    return n;
}

/* ---- the communication stream ---- */

static int row_of_wait(const streams *l, int move) {
    for (int i = 0; i < l->n_rows; i++)
        if (l->rows[i].kind == ROW_WAIT && l->rows[i].move == move) return i;
    return -1;
}

static Agedge_t *draw_arrow(Agraph_t *g, Agnode_t *from, Agnode_t *to, const subgraph_look *look,
                            const char *style) {
    Agedge_t *e = agedge(g, from, to, (char *)"arrow", 1); /* the key makes one edge for all rounds */
    paint_set(e, "color", look->line);
    paint_set(e, "penwidth", "1.6");
    paint_set(e, "style", style);
    return e;
}

/* Puts two nodes at the same height. */
static void same_rank(Agraph_t *g, Agnode_t *a, Agnode_t *b) {
    char name[100];
    snprintf(name, sizeof name, "same_%.80s", agnameof(a));
    Agraph_t *same = agsubg(g, name, 1);
    paint_set(same, "rank", "same");
    agsubnode(same, a, 1);
    agsubnode(same, b, 1);
}

/* Draws a box beside a row, and frees the label. */
static Agnode_t *draw_beside(const drawing *d, int row, const subgraph_look *look, bool is_in_flight,
                             text *label) {
    char name[60];
    snprintf(name, sizeof name, "g%dm%d", d->number, row);
    Agnode_t *n = agnode(d->cluster, name, 1);
    paint_text(n, "label", label);
    paint_set(n, "fillcolor", look->fill);
    paint_set(n, "color", look->line);
    paint_set(n, "penwidth", "2");
    paint_set(n, "group", "communication");
    if (is_in_flight) paint_set(n, "style", "filled,rounded,dashed");
    same_rank(d->cluster, row_node(d, row), n);
    return n;
}

static like like_of(const drawing *d, int row) {
    int step = d->collapse.step_of[row];
    return (like){d, step, row - d->collapse.steps[step].row, stream_collapse_last(&d->collapse, step)};
}

/* Bytes of a move over all rounds. */
static uint64_t bytes_of(const like *k) {
    uint64_t bytes = 0;
    for (int i = k->step; i <= k->last; i++)
        if (k->d->collapse.steps[i].representative == k->step)
            bytes += k->d->l->moves[like_row(k, i)->move].bytes;
    return bytes;
}

/* Order, op, names and bytes; then how long the collective may take before it is waited for. */
static void move_label(text *t, const like *k) {
    const stream_move *m = &k->d->l->moves[like_row(k, k->step)->move];
    const stream_move *end = &k->d->l->moves[like_row(k, k->last)->move];
    text_add(t, "%lld", (long long)m->order);
    if (end != m) text_add(t, " \xe2\x80\xa6 %lld", (long long)end->order);
    text_add(t, "   %s", m->start->op->name);
    if (end != m) text_add(t, "   \xc3\x97%d", k->d->collapse.steps[k->step].rounds);
    text_add(t, "\n");
    names_text(t, k);
    text_add(t, end != m ? "\n%s in all\n" : ", %s\n", bytes_show(bytes_of(k)).text);
    if (row_of_wait(k->d->l, like_row(k, k->step)->move) < 0) {
        text_add(t, "continues into the next run");
        return;
    }
    count_text(t, k, count_between);
    text_add(t, " node%s until the wait%s", m->between == 1 && end == m ? "" : "s",
             m->is_in_flight ? "\nin a later run" : "");
}

/* Draws a move, with an arrow to every round's wait. */
static Agnode_t *draw_move(const drawing *d, int row) {
    const stream_move *m = &d->l->moves[d->l->rows[row].move];
    const subgraph_look *look = subgraph_look_at(m->subgraph);
    like k = like_of(d, row);
    text label = {0}, tip = {0};
    move_label(&label, &k);
    tip_node(&tip, m->start, d->collapse.steps[k.step].rounds);
    Agnode_t *n = draw_beside(d, row, look, m->is_in_flight, &label);
    paint_text(n, "tooltip", &tip);
    draw_arrow(d->g, row_node(d, row), n, look, "");
    for (int i = k.step; i <= k.last; i++) {
        int wait =
            d->collapse.steps[i].representative == k.step ? row_of_wait(d->l, like_row(&k, i)->move) : -1;
        if (wait >= 0) draw_arrow(d->g, n, row_node(d, wait), look, "");
    }
    return n;
}

/* Draws a move that an earlier run left in flight, where this run first reads it. */
static Agnode_t *draw_arriving(const drawing *d, int row) {
    const weft_variable *bucket = d->l->rows[row].bucket;
    const streams *of = NULL;
    const stream_move *m = stream_in_flight(d->all, bucket, &of);
    const subgraph_look *look = subgraph_look_at(bucket->subgraph);
    like k = like_of(d, row);
    text label = {0}, tip = {0};
    if (!m) return NULL;
    text_add(&label, "%s ", m->start->op->name);
    names_text(&label, &k);
    text_add(&label, "\nof the last %s", of->p->name);
    Agnode_t *n = draw_beside(d, row, look, true, &label);
    tip_node(&tip, m->start, d->collapse.steps[k.step].rounds);
    paint_text(n, "tooltip", &tip);
    /* every edge beside a row is made from left to right, so that the streams keep their sides */
    Agedge_t *e = draw_arrow(d->g, row_node(d, row), n, look, "dashed");
    paint_set(e, "dir", "back");
    return n;
}

/* ---- a graph ---- */

/* An edge that keeps a stream straight: shown or invisible. */
static void draw_chain(Agraph_t *g, Agnode_t *from, Agnode_t *to, bool is_shown) {
    Agedge_t *e = agedge(g, from, to, NULL, 1);
    paint_set(e, "weight", "20");
    paint_set(e, "style", is_shown ? "" : "invis");
    paint_set(e, "arrowhead", "none");
    paint_set(e, "penwidth", "2");
    paint_set(e, "color", "#bbbbbb");
}

static Agnode_t *draw_head(const drawing *d, const char *stream, const char *what) {
    char name[60];
    snprintf(name, sizeof name, "g%d%s", d->number, stream);
    Agnode_t *n = agnode(d->cluster, name, 1);
    paint_set(n, "label", what);
    paint_set(n, "shape", "plaintext");
    paint_set(n, "style", "");
    paint_set(n, "fontname", "Helvetica-Bold");
    paint_set(n, "group", stream);
    return n;
}

/* The cluster of a graph, with its name and the size of its arena. */
static void draw_frame(drawing *d) {
    const program *p = d->l->p;
    char name[40];
    text label = {0};
    snprintf(name, sizeof name, "cluster_g%d", d->number);
    d->cluster = agsubg(d->g, name, 1);
    text_add(&label, "graph %s", p->name);
    stream_phase_text(&label, p);
    text_add(&label, "  \xc2\xb7  arena %s", bytes_show(p->arena_bytes).text);
    paint_text(d->cluster, "label", &label);
    paint_set(d->cluster, "style", "rounded");
    paint_set(d->cluster, "color", "#999999");
    paint_set(d->cluster, "fontname", "Helvetica-Bold");
    paint_set(d->cluster, "fontsize", "12");
}

/* The frame around the rounds of a run, with their count; for rows that do not repeat, the graph's own. */
static Agraph_t *frame_of(const drawing *d, int step) {
    const stream_step *s = &d->collapse.steps[step];
    if (!s->run || is_left_out(d, step)) return d->cluster;
    char name[60];
    snprintf(name, sizeof name, "cluster_g%drun%d", d->number, s->run);
    Agraph_t *g = agsubg(d->cluster, name, 1);
    text label = {0};
    text_add(&label, "\xc3\x97%d", s->rounds);
    paint_text(g, "label", &label);
    paint_set(g, "style", "rounded,bold");
    paint_set(g, "color", "#666666");
    paint_set(g, "fontname", "Helvetica-Bold");
    paint_set(g, "fontsize", "12");
    return g;
}

static stream_ends draw_compute(const drawing *d) {
    Agnode_t *top = draw_head(d, "compute", "compute stream"), *last = top;
    for (int i = 0; i < d->collapse.n_steps; i++) {
        if (!is_drawn(d, i) || (is_left_out(d, i) && i > d->left_from)) continue;
        Agnode_t *n = draw_step(d, frame_of(d, i), i);
        draw_chain(d->g, last, n, last != top);
        last = n;
    }
    return (stream_ends){top, last};
}

/* Draws the moves in order, each beside its row. */
static void draw_communication(const drawing *d, Agnode_t *compute_top) {
    Agnode_t *top = NULL, *last = NULL;
    for (int i = 0; i < d->l->n_rows; i++) {
        row_kind kind = d->l->rows[i].kind;
        int step = d->collapse.step_of[i];
        if (!is_drawn(d, step) || is_left_out(d, step) || (kind != ROW_START && kind != ROW_READ)) continue;
        if (!top) {
            top = last = draw_head(d, "communication", "communication stream");
            same_rank(d->cluster, compute_top, top);
            draw_chain(d->g, compute_top, top, false);
        }
        Agnode_t *n = kind == ROW_START ? draw_move(d, i) : draw_arriving(d, i);
        if (!n) continue;
        draw_chain(d->g, last, n, last != top);
        last = n;
    }
}

/* Leaves out the drawn steps in the middle when there are more than max_rows. */
static void leave_out(drawing *d, int max_rows) {
    int drawn = 0, seen = 0;
    for (int i = 0; i < d->collapse.n_steps; i++) drawn += is_drawn(d, i);
    if (drawn <= max_rows) return;
    for (int i = 0; i < d->collapse.n_steps; i++) {
        if (!is_drawn(d, i)) continue;
        if (seen == max_rows / 2) d->left_from = i;
        if (seen == drawn - max_rows / 2) d->left_until = i;
        seen++;
    }
}

/* The ends stay NULL when out of memory. */
stream_ends draw_streams(Agraph_t *g, const stream_list *list, int number, const stream_how *how) {
    drawing d = {.g = g, .all = list, .l = &list->v[number], .number = number};
    stream_ends ends = {0};
    if (stream_collapse_make(&d.collapse, d.l, how->collapse)) {
        leave_out(&d, how->max_rows);
        draw_frame(&d);
        ends = draw_compute(&d);
        draw_communication(&d, ends.top);
    }
    stream_collapse_free(&d.collapse);
    return ends;
}
