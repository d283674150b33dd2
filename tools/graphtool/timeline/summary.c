/* summary.c - what `graphtool plan` prints. A graph's streams are side by side: on the left the rows of the
 * compute stream, on the right the collectives, each with a track from where it starts (o) to where it is
 * awaited (x), or to the end of the run (v) when it is in flight into the next one. */
#include "tools/graphtool/timeline/summary.h"

#include "ops/cpu/isa.h"
#include "tools/graphtool/timeline/buckets.h"
#include "tools/graphtool/timeline/streams.h"
#include "tools/graphtool/output/table.h"
#include "tools/graphtool/model/tools.h"
#include "runtime/plan/compile_fields.h"
#include "runtime/plan/value.h"

#include <string.h>

/* TRACKS: collectives drawn at once. LEFT: greatest width of the compute stream, in columns; LEAST: that on a
 * narrow terminal, where longer rows are cut. */
enum { TRACKS = 10, LEFT = 64, LEAST = 20 };

/* A line of words, which it empties; further lines begin with two blanks. */
static void line_text(text *t, text *words, int limit) {
    text_wrap(t, tool_take(words), 0, 2, limit);
    text_end_line(t);
}

/* ---- subgraphs ---- */

/* The table of a subgraph's buckets. */
static void subgraph_text(text *t, const weft_plan *plan, const subgraph_view *v, int limit) {
    table rows = {.columns = 5, .is_right = {[1] = true, [2] = true}, .limit = limit};
    text head = {0};
    text_add(&head, "subgraph %s: %d parameters, %lld numbers, %s%s%s", v->name, v->n_parameters,
             (long long)v->numbers, BYTES(v->bytes), *v->options ? "; " : "", v->options);
    text_add(t, "\n");
    line_text(t, &head, limit);
    table_row(&rows, "bucket\tsize\tparameters\tfrom ... to%s",
              v->is_sharded ? "\tupdated by (numbers)" : "");
    for (int i = 0; i < v->n_buckets; i++) {
        text row = {0};
        bucket_row(&row, plan, v, i, ", ");
        table_cells(&rows, &row);
    }
    table_write(t, &rows);
}

/* ---- collectives ---- */

/* The first readers of the data that a collective in flight brings: "next run: d_step conv2d %5, g_step
 * conv2d %7, ..."; if there are none, weft_sync waits for it. */
static void next_reader_text(text *t, const stream_list *all, const stream_move *m) {
    enum { SHOWN = 2 };
    int found = 0;
    for (int i = 0; i < all->n; i++) {
        int row = stream_first_read(&all->v[i], m->bucket);
        if (row < 0) continue;
        const weft_node *n = all->v[i].rows[row].node;
        if (found == SHOWN)
            text_add(t, ", ...");
        else if (found < SHOWN)
            text_add(t, "%s%s %s %%%d", found ? ", " : "next run: ", all->v[i].p->name, n->op->name,
                     n->n_out ? n->out[0].id : n->id);
        found++;
    }
    if (!found) text_add(t, "weft_sync");
}

/* The table of a graph's collectives. */
static void moves_text(text *t, const stream_list *all, const streams *l, int limit) {
    table rows = {.columns = 6, .is_right = {[0] = true, [2] = true, [5] = true}, .limit = limit};
    table_row(&rows, "order\tcollective\tsize\tready after\tawaited by\tnodes between");
    for (int i = 0; i < l->n_moves; i++) {
        const stream_move *m = &l->moves[i];
        text row = {0};
        text_add(&row, "%lld\t%s %s\t%s\t", (long long)m->order, m->start->op->name, m->name,
                 BYTES(m->bytes));
        stream_node_text(&row, m->ready);
        text_add(&row, "\t");
        if (m->reader) stream_node_text(&row, m->reader);
        if (m->reader && m->is_in_flight) text_add(&row, ", in a later run");
        if (!m->wait) next_reader_text(&row, all, m);
        text_add(&row, m->is_in_flight ? "\t%d+" : "\t%d", m->between);
        table_cells(&rows, &row);
    }
    table_write(t, &rows);
}

/* ---- streams side by side ---- */

typedef struct tracks {
    const stream_move *move[TRACKS]; /* the move that is under way in this column; NULL: free */
    int width;
} tracks;

static int track_of(const tracks *k, const stream_move *move) {
    for (int i = 0; i < TRACKS; i++)
        if (k->move[i] == move) return i;
    return -1;
}

/* The last column in which a move is under way; -1: none is. */
static int last_track(const tracks *k) {
    int last = TRACKS - 1;
    while (last >= 0 && !k->move[last]) last--;
    return last;
}

/* The tracks of one row: `mark` on the track of `move`, lines on the others that are under way. */
static void tracks_text(text *t, const tracks *k, const stream_move *move, char mark) {
    int last = last_track(k);
    for (int i = 0; i <= last; i++) text_add(t, "%c ", !k->move[i] ? ' ' : k->move[i] == move ? mark : '|');
    text_pad(t, 2 * (k->width - 1 - last));
}

/* Adds words, cut to `most` columns (0: any) with "…" at the end, and filled to `least`; empties them. */
static void add_cut(text *t, text *words, int most, int least) {
    const char *s = tool_take(words), *end = s;
    int columns = text_columns(s);
    bool is_cut = most > 0 && columns > most;
    if (is_cut) {
        for (columns = 0; columns < most; end++) columns += ((unsigned char)*end & 0xc0) != 0x80;
        do end--; /* to where the last character begins */
        while (((unsigned char)*end & 0xc0) == 0x80);
        text_add(t, "%.*s…", (int)(end - s), s);
    } else {
        text_add(t, "%s", s);
    }
    text_pad(t, least - columns);
}

/* Where the two streams stand: the width of the left one, to which rows with something on the right are
 * cut on a terminal of `limit` columns. */
typedef struct sides {
    int left, limit;
} sides;

static void move_text(text *t, const stream_move *m) {
    text_add(t, " %lld %s %s, %s", (long long)m->order, m->start->op->name, m->name, BYTES(m->bytes));
}

static void row_text(text *t, const tracks *k, const stream_row *row, sides at) {
    bool starts = row->kind == ROW_START, waits = row->kind == ROW_WAIT;
    bool is_alone = !starts && !waits && last_track(k) < 0;
    text words = {0};
    stream_row_text(&words, row);
    text_add(t, "  ");
    add_cut(t, &words, !at.limit ? 0 : is_alone ? at.limit - 2 : at.left, at.left);
    text_add(t, "  ");
    tracks_text(t, k, row->move, starts ? 'o' : 'x');
    if (starts) move_text(&words, row->move);
    if (waits && row->move) text_add(&words, " %lld done", (long long)row->move->order);
    int room = at.limit - 4 - at.left - 2 * k->width;
    add_cut(t, &words, !at.limit ? 0 : room > 1 ? room : 1, 0);
    text_end_line(t);
}

/* Prints the rows. With t NULL it only counts the tracks, in the same walk. */
static void streams_walk(text *t, const streams *l, tracks *k, sides at) {
    *k = (tracks){.width = k->width};
    for (int i = 0; i < l->n_rows; i++) {
        const stream_row *row = &l->rows[i];
        int free_track = row->kind == ROW_START ? track_of(k, NULL) : -1;
        if (free_track >= 0) k->move[free_track] = row->move;
        if (free_track >= k->width) k->width = free_track + 1;
        if (t) row_text(t, k, row, at);
        int track = row->kind == ROW_WAIT && row->move ? track_of(k, row->move) : -1;
        if (track >= 0) k->move[track] = NULL;
    }
}

/* Columns of the right stream's longest line. */
static int right_columns(const streams *l, const tracks *k) {
    int most = 0;
    for (int i = 0; i < l->n_moves; i++) {
        text words = {0};
        move_text(&words, &l->moves[i]);
        int columns = text_columns(tool_take(&words));
        if (columns > most) most = columns;
    }
    return most + 2 * k->width;
}

/* The width of the left column is that of the longest row up to LEFT; on a terminal at least LEAST, and
 * as much as the right one leaves. */
static void streams_text(text *t, const streams *l, int limit) {
    tracks k = {.width = 0};
    sides at = {.left = text_columns("compute stream"), .limit = limit};
    for (int i = 0; i < l->n_rows; i++) {
        text words = {0};
        stream_row_text(&words, &l->rows[i]);
        int width = text_columns(tool_take(&words));
        if (width > at.left && width <= LEFT) at.left = width;
    }
    streams_walk(NULL, l, &k, at);
    int room = limit - 4 - right_columns(l, &k);
    if (limit && l->n_moves && at.left > room) at.left = room > LEAST ? room : LEAST;
    text_add(t, "\n  compute stream");
    text_pad(t, at.left - text_columns("compute stream"));
    if (l->n_moves) text_add(t, "  communication stream");
    text_end_line(t);
    streams_walk(t, l, &k, at);
    if (last_track(&k) < 0) return;
    text_add(t, "  ");
    text_pad(t, at.left + 2);
    for (int i = 0; i < k.width; i++) text_add(t, "%c ", k.move[i] ? 'v' : ' ');
    text_add(t, " into the next run\n");
}

/* ---- graphs ---- */

static int count_running(const weft_graph *g) {
    int count = 0;
    for (const weft_node *n = g->first; n; n = n->next) count += !node_is_silent(n);
    return count;
}

/* The launches of a GPU's run, see runtime/plan/launches.h. */
static void launches_text(text *t, const program *p) {
    int of_kind[4] = {0}, events = 0;
    for (int i = 0; i < p->n_launches; i++) {
        of_kind[p->launches[i].kind]++;
        events += p->launches[i].records;
    }
    if (!p->n_launches) return;
    text_add(t, "  %d launches:", p->n_launches);
    for (int k = 0; k < 4; k++)
        if (of_kind[k]) text_add(t, " %d %s,", of_kind[k], launch_name((launch_kind)k));
    text_add(t, " %d events\n", events);
}

static void graph_text(text *t, const stream_list *all, const streams *l, int limit) {
    const program *p = l->p;
    text_add(t, "\ngraph %s (%s)", p->name, p->graph->mode == WEFT_TRAIN ? "train" : "eval");
    stream_phase_text(t, p);
    text_add(t, ": %d nodes, %.1f GFLOP, arena %s\n", count_running(p->graph), program_flops(p) * 1e-9,
             BYTES(p->arena_bytes));
    launches_text(t, p);
    if (l->n_moves) moves_text(t, all, l, limit);
    if (p->trains || l->n_rows > 1) streams_text(t, l, limit);
}

static void unused_text(text *t, const weft_plan *plan) {
    for (int i = 0; i < plan->n_unused; i++)
        text_add(t, "%sgraph %s does not train %s: its loss does not depend on it\n", i ? "" : "\n",
                 plan->unused[i].graph, plan->unused[i].path);
}

/* Rows of 0 bytes are left out. */
int plan_memory_rows(const weft_plan *plan, memory_row rows[PLAN_MEMORY_ROWS]) {
    weft_memory m = weft_plan_memory(plan);
    const memory_row kinds[PLAN_MEMORY_ROWS] = {
        {"parameters and state", m.parameters},
        {"gradients kept between runs", m.gradients},
        {"optimizer", m.optimizer},
        {"derived", m.derived},
        {"activations", m.activations},
        {"  of which kernels' workspace", m.workspace},
        {"  of which communication", m.communication},
        {"  of which in flight across runs", m.in_flight},
        {"input buffers", m.inputs},
        {"the guard's copies of a step", m.guard},
        {"total", m.total},
        {"beside it, to copy a checkpoint", plan_trains(plan) ? m.checkpoint : 0}};
    int n = 0;
    for (int i = 0; i < PLAN_MEMORY_ROWS; i++)
        if (kinds[i].bytes) rows[n++] = kinds[i];
    return n;
}

static void memory_text(text *t, const weft_plan *plan) {
    memory_row kinds[PLAN_MEMORY_ROWS];
    int n = plan_memory_rows(plan, kinds);
    table rows = {.columns = 2, .is_right = {[1] = true}};
    text_add(t, "\nmemory of %s\n", plan->options.world > 1 ? "this rank" : "the process");
    for (int i = 0; i < n; i++) table_row(&rows, "%s\t%s", kinds[i].what, BYTES(kinds[i].bytes));
    table_write(t, &rows);
}

void plan_head(text *t, const weft_plan *plan) {
    const weft_compile_options *o = &plan->options;
    text_add(t, "%s: batch %lld, ", plan->model->name, (long long)o->batch);
    if (o->world > 1) text_add(t, "rank %d of %d, ", o->rank, o->world);
    if (o->accumulate > 1) text_add(t, "%d micro-batches a step, ", o->accumulate);
    if (o->world > 1 && o->reduce == WEFT_REDUCE_FAST) text_add(t, "fast sums (bits depend on the world), ");
    if (o->world > 1 && o->serial) text_add(t, "nothing overlaps, ");
    if (plan->strategy.is_chosen) text_add(t, "strategy %s, ", plan->strategy.text);
    if (plan->strategy.is_compressed) text_add(t, "compressed: other bits in another world, ");
    if (o->precision || o->device == WEFT_DEVICE_CUDA)
        text_add(t, "%s, ", o->precision ? dtype_name(o->precision) : "f32");
    if (o->device == WEFT_DEVICE_CUDA)
        text_add(t, "for a GPU%s%s, ", o->deterministic ? ", deterministic" : "", o->tf32 ? ", TF32" : "");
    else
        text_add(t, "%d thread%s, %s, ", o->threads, o->threads > 1 ? "s" : "", isa_name(o->isa));
    text_add(t, "fingerprint %016llx", (unsigned long long)plan->fingerprint);
}

/* "flow  d_step*5{accumulate=4} g_step", with the range of steps that are not in each iteration. */
static void flow_text(text *t, const weft_plan *plan) {
    weft_flow_step s;
    for (int i = 0; weft_plan_flow(plan, i, &s); i++) {
        int k = 0;
        while (k < plan->n_programs && strcmp(plan->programs[k].name, s.graph)) k++;
        if (k == plan->n_programs) return; /* the plan is for one graph */
    }
    for (int i = 0; weft_plan_flow(plan, i, &s); i++) {
        text_add(t, i ? ", " : "flow: ");
        if (s.from > 0 || s.to < INT64_MAX) text_add(t, "%lld-", (long long)s.from);
        if (s.to < INT64_MAX) text_add(t, "%lld", (long long)s.to - 1);
        text_add(t, s.from > 0 || s.to < INT64_MAX ? ": %s" : "%s", s.graph);
        if (s.repeat > 1) text_add(t, "*%d", s.repeat);
        if (s.accumulate > 1) text_add(t, ", %d micro-batches", s.accumulate);
        text_add(t, s.batch == WEFT_FLOW_NEXT ? " on the next batch" : "");
    }
    if (weft_plan_flow(plan, 0, &s)) text_add(t, "\n");
}

/* What makes a step bad. */
static void guard_text(text *t, const weft_plan *plan) {
    const weft_compile_options *o = &plan->options;
    if (o->guard) text_add(t, "guard: %s", guard_words[o->guard]);
    if (o->guard == WEFT_GUARD_SPIKE) text_add(t, "=%g", o->guard_factor);
    if (o->guard) text_end_line(t);
}

static void notes_text(text *t, const weft_plan *plan, int limit) {
    const char *note;
    for (int i = 0; (note = weft_plan_note(plan, i)); i++) {
        text words = {0};
        text_add(&words, "note: %s", note);
        line_text(t, &words, limit);
    }
}

void plan_summary(text *t, const weft_plan *plan, int limit) {
    text head = {0};
    const bucket_list buckets = bucket_list_of(plan);
    const stream_list all = stream_list_of(plan);
    plan_head(&head, plan);
    line_text(t, &head, limit);
    flow_text(t, plan);
    guard_text(t, plan);
    for (int i = 0; i < buckets.n; i++) subgraph_text(t, plan, &buckets.v[i], limit);
    for (int i = 0; i < all.n; i++) graph_text(t, &all, &all.v[i], limit);
    unused_text(t, plan);
    notes_text(t, plan, limit);
    memory_text(t, plan);
}
