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
#include "tools/graphtool/model/tools.h"
#include "runtime/plan/value.h"

#include <limits.h>

/* The picture of one graph. If there are too many steps, those in the middle become one node. */
typedef struct drawing {
    Agraph_t *g, *cluster;
    const stream_list *all;
    const streams *l;
    int number; /* number of the graph in the picture */
    stream_collapse collapse;
    const stream_step *left_from, *left_until; /* drawn steps that are left out; NULL: none are */
} drawing;

/* ---- steps of the compute stream ---- */

static bool is_left_out(const drawing *d, const stream_step *s) {
    return s >= d->left_from && s < d->left_until;
}

/* The node of a step's representative, made in the graph `in`; `in` NULL: it must exist. */
static Agnode_t *step_node(const drawing *d, Agraph_t *in, const stream_step *s) {
    s = is_left_out(d, s->representative) ? d->left_from : s->representative;
    return agnode(in ? in : d->g, tool_text("g%dr%d", d->number, (int)(s - d->collapse.steps)), in != NULL);
}

static Agnode_t *row_node(const drawing *d, int row) {
    return step_node(d, NULL, d->collapse.step_of[row]);
}

/* Colours by the kind of the row; a span has that of its most frequent phase. */
static const char *row_fill(const stream_row *row) {
    static const char *const fills[] = {
        [ROW_WAIT] = "#ffd0ca", [ROW_UPDATE] = "#c5ebe6", [ROW_READ] = "#d3e6f8",
        [ROW_END] = "#dddddd",  [ROW_START] = "#ffffff",  [ROW_READY] = "#ffffff"};
    static const char *const spans[] = {"#fff6cc", "#e9e0ff", "#e3f5f2"};
    return row->kind == ROW_SPAN ? spans[stream_phase_of(row)] : fills[row->kind];
}

/* One row of a drawn step, which is of the first round, and the rows of other rounds that it represents. */
typedef struct like {
    const streams *l;
    const stream_step *first, *last;
    int offset; /* of the row in its step */
} like;

static like like_of(const drawing *d, const stream_step *s, int offset) {
    like k = {d->l, s, s, offset};
    while (k.last->next) k.last = k.last->next;
    return k;
}

static const stream_row *like_row(const like *k, const stream_step *s) {
    return &k->l->rows[s->row + k->offset];
}

static const stream_move *like_move(const like *k, const stream_step *s) {
    return like_row(k, s)->move;
}

/* A number of nodes: of a phase, or BETWEEN a start and its wait. */
enum { BETWEEN = STREAM_PHASES };
static int count_in(const like *k, const stream_step *s, int what) {
    return what == BETWEEN ? like_move(k, s)->between : like_row(k, s)->nodes[what];
}

/* A count over all rounds: "4 forward", or "4...15 forward" from least to most. Nothing, and false, where all
 * are 0. */
static bool count_text(text *t, const like *k, int what, const char *gap) {
    int low = INT_MAX, high = 0;
    for (const stream_step *s = k->first; s; s = s->next) {
        int n = count_in(k, s, what);
        if (n < low) low = n;
        if (n > high) high = n;
    }
    if (!high && what != BETWEEN) return false;
    text_add(t, "%s", gap);
    range_text(t, low, high);
    return true;
}

/* The first scope of a span's nodes, or the last. */
static const char *scope_in(const stream_row *row, bool is_last) {
    const char *found = "";
    for (const weft_node *n = row->node; n; n = n == row->last ? NULL : n->next)
        if (*n->scope && (is_last || !*found)) found = n->scope;
    return found;
}

/* A span: "9 forward, 1 update", and below it "generator/fc ... discriminator/conv2". */
static void span_label(text *t, const like *k) {
    const char *gap = "";
    for (int i = 0; i < STREAM_PHASES; i++)
        if (count_text(t, k, i, gap)) {
            text_add(t, " %s", stream_phases[i]);
            gap = ", ";
        }
    const char *from = scope_in(like_row(k, k->first), false), *to = scope_in(like_row(k, k->last), true);
    if (*from) text_add(t, "\n%s", from);
    if (strcmp(from, to) != 0) text_add(t, " \xe2\x80\xa6 %s", to);
}

static const char *row_name(const like *k, const stream_step *s) {
    const stream_move *m = like_move(k, s);
    const weft_variable *bucket = like_row(k, s)->bucket;
    return m ? m->name : bucket ? bucket->path : "?";
}

/* "gpt.1", or "gpt.1 ... gpt.16" for several rounds */
static void names_text(text *t, const like *k) {
    text_add(t, "%s", row_name(k, k->first));
    if (k->last != k->first) text_add(t, " \xe2\x80\xa6 %s", row_name(k, k->last));
}

/* What a row of a step shows, by its kind. */
static void row_label(text *t, const like *k) {
    const stream_row *row = like_row(k, k->first);
    const stream_move *m = like_move(k, k->first);
    bool alone = k->last == k->first;
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
        stream_row_text(t, row);
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
    for (int i = 0; i < d->l->n_rows; i++) {
        if (!is_left_out(d, d->collapse.step_of[i]->representative)) continue;
        rows++;
        moves += d->l->rows[i].kind == ROW_START;
    }
    text_add(t, "\xe2\x80\xa6 %d more rows, %d collectives", rows, moves);
}

/* Draws a step, or the node for all steps that are left out. */
static Agnode_t *draw_step(const drawing *d, Agraph_t *in, const stream_step *s) {
    const stream_row *r = &d->l->rows[s->row];
    bool is_shown = !is_left_out(d, s);
    Agnode_t *n = step_node(d, in, s);
    text label = {0}, tip = {0};
    for (int i = 0; i < s->n_rows && is_shown; i++) {
        like k = like_of(d, s, i);
        text_add(&label, "%s", i ? "\n" : "");
        row_label(&label, &k);
        text_add(&tip, "%s", i ? "\n" : "");
        tip_node(&tip, r[i].node, s->rounds);
    }
    if (!is_shown) left_out_label(&label, d);
    paint_text(n, "label", &label);
    paint_text(n, "tooltip", &tip);
    paint(n, "group=compute fillcolor=%s", is_shown ? row_fill(r) : "#ffffff");
    if (r->bucket && is_shown) paint(n, "color=%s", subgraph_look_at(r->bucket->subgraph)->line);
    return n;
}

/* ---- the communication stream ---- */

static Agedge_t *draw_arrow(Agraph_t *g, Agnode_t *from, Agnode_t *to, const subgraph_look *look,
                            const char *style) {
    Agedge_t *e = agedge(g, from, to, (char *)"arrow", 1); /* the key makes one edge for all rounds */
    paint(e, "color=%s penwidth=1.6 style=%s", look->line, style);
    return e;
}

/* Puts two nodes at the same height. */
static void same_rank(Agraph_t *g, Agnode_t *a, Agnode_t *b) {
    Agraph_t *same = agsubg(g, tool_text("same_%s", agnameof(a)), 1);
    paint(same, "rank=same");
    agsubnode(same, a, 1);
    agsubnode(same, b, 1);
}

/* Draws a box for a move beside a row, with this label. */
static Agnode_t *draw_beside(const drawing *d, int row, const like *k, const stream_move *m, text *label) {
    Agnode_t *n = agnode(d->cluster, tool_text("g%dm%d", d->number, row), 1);
    const subgraph_look *look = subgraph_look_at(m->subgraph);
    text tip = {0};
    paint_text(n, "label", label);
    paint(n, "fillcolor=%s color=%s penwidth=2 group=communication", look->fill, look->line);
    if (m->is_in_flight) paint(n, "style=filled,rounded,dashed");
    tip_node(&tip, m->start, k->first->rounds);
    paint_text(n, "tooltip", &tip);
    same_rank(d->cluster, row_node(d, row), n);
    return n;
}

/* Order, op, names and bytes over all rounds; then how long the collective may take before it is waited
 * for. */
static void move_label(text *t, const like *k) {
    const stream_move *m = like_move(k, k->first), *end = like_move(k, k->last);
    uint64_t bytes = 0;
    for (const stream_step *s = k->first; s; s = s->next) bytes += like_move(k, s)->bytes;
    text_add(t, "%lld", (long long)m->order);
    if (end != m) text_add(t, " \xe2\x80\xa6 %lld", (long long)end->order);
    text_add(t, "   %s", m->start->op->name);
    if (end != m) text_add(t, "   \xc3\x97%d", k->first->rounds);
    text_add(t, "\n");
    names_text(t, k);
    text_add(t, end != m ? "\n%s in all\n" : ", %s\n", BYTES(bytes));
    if (m->wait_row < 0) {
        text_add(t, "continues into the next run");
        return;
    }
    count_text(t, k, BETWEEN, "");
    text_add(t, " node%s until the wait%s", m->between == 1 && end == m ? "" : "s",
             m->is_in_flight ? "\nin a later run" : "");
}

/* Draws a move, with an arrow to every round's wait. */
static Agnode_t *draw_move(const drawing *d, int row, const like *k) {
    const stream_move *m = like_move(k, k->first);
    const subgraph_look *look = subgraph_look_at(m->subgraph);
    text label = {0};
    move_label(&label, k);
    Agnode_t *n = draw_beside(d, row, k, m, &label);
    draw_arrow(d->g, row_node(d, row), n, look, "");
    for (const stream_step *s = k->first; s; s = s->next) {
        int wait = like_move(k, s)->wait_row;
        if (wait >= 0) draw_arrow(d->g, n, row_node(d, wait), look, "");
    }
    return n;
}

/* Draws a move that an earlier run left in flight, where this run first reads it; NULL: none did. */
static Agnode_t *draw_arriving(const drawing *d, int row, const like *k) {
    const weft_variable *bucket = d->l->rows[row].bucket;
    const streams *of = NULL;
    const stream_move *m = stream_in_flight(d->all, bucket, &of);
    text label = {0};
    if (!m) return NULL;
    text_add(&label, "%s ", m->start->op->name);
    names_text(&label, k);
    text_add(&label, "\nof the last %s", of->p->name);
    Agnode_t *n = draw_beside(d, row, k, m, &label);
    /* every edge beside a row is made from left to right, so that the streams keep their sides */
    paint(draw_arrow(d->g, row_node(d, row), n, subgraph_look_at(bucket->subgraph), "dashed"), "dir=back");
    return n;
}

/* ---- a graph ---- */

/* An edge that keeps a stream straight: shown or invisible. */
static void draw_chain(Agraph_t *g, Agnode_t *from, Agnode_t *to, bool is_shown) {
    paint(agedge(g, from, to, NULL, 1), "weight=20 style=%s arrowhead=none penwidth=2 color=#bbbbbb",
          is_shown ? "" : "invis");
}

static Agnode_t *draw_head(const drawing *d, const char *stream) {
    Agnode_t *n = agnode(d->cluster, tool_text("g%d%s", d->number, stream), 1);
    text label = {0};
    text_add(&label, "%s stream", stream);
    paint_text(n, "label", &label);
    paint(n, "shape=plaintext style= fontname=Helvetica-Bold group=%s", stream);
    return n;
}

/* The cluster of a graph, with its name and the size of its arena. */
static void draw_frame(drawing *d) {
    const program *p = d->l->p;
    text label = {0};
    d->cluster = agsubg(d->g, tool_text("cluster_g%d", d->number), 1);
    text_add(&label, "graph %s", p->name);
    stream_phase_text(&label, p);
    text_add(&label, "  \xc2\xb7  arena %s", BYTES(p->arena_bytes));
    paint_text(d->cluster, "label", &label);
    paint(d->cluster, "style=rounded color=#999999 fontname=Helvetica-Bold fontsize=12");
}

/* The frame around the rounds of a run, with their count; for rows that do not repeat, the graph's own. */
static Agraph_t *frame_of(const drawing *d, const stream_step *s) {
    if (!s->run || is_left_out(d, s)) return d->cluster;
    Agraph_t *g = agsubg(d->cluster, tool_text("cluster_g%drun%d", d->number, s->run), 1);
    paint(g, "label=\xc3\x97%d style=rounded,bold color=#666666 fontname=Helvetica-Bold fontsize=12",
          s->rounds);
    return g;
}

/* The first step that is drawn after s, or (s NULL) of all; those in the middle that are left out are one.
 * NULL: there is no more. */
static const stream_step *next_drawn(const drawing *d, const stream_step *s) {
    const stream_step *end = d->collapse.steps + d->collapse.n_steps;
    for (s = s ? s + 1 : d->collapse.steps; s < end; s++)
        if (s->representative == s && (!is_left_out(d, s) || s == d->left_from)) return s;
    return NULL;
}

static stream_ends draw_compute(const drawing *d) {
    Agnode_t *top = draw_head(d, "compute"), *last = top;
    for (const stream_step *s = NULL; (s = next_drawn(d, s));) {
        Agnode_t *n = draw_step(d, frame_of(d, s), s);
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
        const stream_step *s = d->collapse.step_of[i];
        if (s->representative != s || is_left_out(d, s) || (kind != ROW_START && kind != ROW_READ)) continue;
        if (!top) {
            top = last = draw_head(d, "communication");
            same_rank(d->cluster, compute_top, top);
            draw_chain(d->g, compute_top, top, false);
        }
        like k = like_of(d, s, i - s->row);
        Agnode_t *n = kind == ROW_START ? draw_move(d, i, &k) : draw_arriving(d, i, &k);
        if (!n) continue;
        draw_chain(d->g, last, n, last != top);
        last = n;
    }
}

/* Leaves out the drawn steps in the middle when there are more than max_rows. */
static void leave_out(drawing *d, int max_rows) {
    int drawn = 0, seen = 0;
    for (const stream_step *s = NULL; (s = next_drawn(d, s));) drawn++;
    if (drawn <= max_rows) return;
    const stream_step *from = NULL, *s = NULL;
    for (; (s = next_drawn(d, s)) && seen < drawn - max_rows / 2; seen++)
        if (seen == max_rows / 2) from = s;
    d->left_from = from;
    d->left_until = s;
}

stream_ends draw_streams(Agraph_t *g, const stream_list *list, int number, const stream_how *how) {
    drawing d = {.g = g, .all = list, .l = &list->v[number], .number = number};
    d.collapse = stream_collapse_of(d.l, how->collapse);
    leave_out(&d, how->max_rows);
    draw_frame(&d);
    stream_ends ends = draw_compute(&d);
    draw_communication(&d, ends.top);
    return ends;
}
