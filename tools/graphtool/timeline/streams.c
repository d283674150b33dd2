/* streams.c - reads a plan's programs into rows and moves (streams.h). */
#include "tools/graphtool/timeline/streams.h"

#include "ops/structure/collective.h"
#include "runtime/plan/value.h"
#include "tools/graphtool/output/end.h"

#include <string.h>

/* ---- questions about nodes ---- */

const weft_variable *bucket_of(const weft_value *v) {
    for (; v && !v->variable; v = v->base) {
    }
    if (!v) return NULL;
    return v->variable->kind == VARIABLE_BUCKET ? v->variable
           : variable_is_part(v->variable)      ? v->variable->bucket
                                                : NULL;
}

/* The bucket whose parameters a node updates; NULL: it updates none. */
static const weft_variable *updated_bucket(const weft_node *n) {
    if (n->op->flags & OP_COMMUNICATES || !n->is_update || !n->op->writes || n->n_in < 2) return NULL;
    return bucket_of(n->in[0]);
}

/* Does `n` read the bucket that a move in flight brings? */
static bool reads_bucket(const weft_node *n, const weft_variable *bucket) {
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && bucket_of(n->in[i]) == bucket) return true;
    return false;
}

/* ---- moves ---- */

/* The node that waits for a collective; NULL: none in this program. */
static const weft_node *wait_for(const weft_node *start) {
    for (const weft_node *n = start->next; n; n = n->next)
        if (n->op == &weft_op_wait && n->in[0]->node == start) return n;
    return NULL;
}

/* The first node that reads a value, directly or through views. */
static const weft_node *reader_of(const weft_node *from, const weft_value *what) {
    for (const weft_node *n = from->next; n; n = n->next)
        for (int i = 0; i < n->n_in && !node_is_silent(n); i++)
            for (const weft_value *v = n->in[i]; v; v = v->base)
                if (v == what) return n;
    return NULL;
}

/* Counts the compute nodes between two nodes, up to the end of the run. */
static int nodes_between(const program *p, const weft_node *from, const weft_node *to) {
    int count = 0;
    for (const weft_node *n = from->next; n && n != to && n->order < p->deferred; n = n->next)
        count += !node_is_silent(n) && !(n->op->flags & OP_COMMUNICATES);
    return count;
}

/* The node after which a move's data are ready. Parameters on the way back are ready after their update or,
 * if this rank has no update of them, after the node that the update would have waited for. */
static const weft_node *ready_behind(const stream_move *m) {
    const weft_node *n = m->start->in[0]->node;
    if (m->bucket && !m->is_return) return plan_ready_after(n);
    while (node_is_silent(n) && n->n_in && n->in[0]) n = n->in[0]->node;
    return n;
}

/* Reads one collective; moves are noted in the order of the stream. */
static void note_move(streams *l, const weft_model *m, const weft_node *n) {
    const collective_attrs *a = n->attrs;
    const weft_variable *v = variable_find(m, a->path);
    stream_move *move = &l->moves[l->n_moves++];
    *move = (stream_move){.start = n,
                          .wait = wait_for(n),
                          .wait_row = -1,
                          .name = a->path,
                          .bucket = v && v->kind == VARIABLE_BUCKET ? v : NULL,
                          .subgraph = (int)a->group,
                          .is_return = n->op == &weft_op_all_gather,
                          .order = a->order,
                          .bytes = type_bytes(&n->out[0].type)};
    move->ready = ready_behind(move);
    move->is_in_flight = !move->wait || move->wait->order >= l->p->deferred;
    move->between = nodes_between(l->p, n, move->wait);
    move->reader = move->wait ? reader_of(move->wait, &move->wait->out[0]) : NULL;
}

/* The move that a node starts; NULL: none. */
static stream_move *move_of(const streams *l, const weft_node *start) {
    for (int i = 0; i < l->n_moves; i++)
        if (l->moves[i].start == start) return &l->moves[i];
    return NULL;
}

/* ---- rows ---- */

static stream_row *row_new(streams *l, row_kind kind, const weft_node *n, const weft_variable *bucket) {
    stream_row *row = &l->rows[l->n_rows++];
    *row = (stream_row){.kind = kind, .node = n, .last = n, .bucket = bucket};
    return row;
}

/* Adds a node to the current span; the first node of the backward pass begins a new one. */
static void extend_span(streams *l, const weft_node *n) {
    stream_row *row = l->n_rows ? &l->rows[l->n_rows - 1] : NULL;
    if (!row || row->kind != ROW_SPAN || (n->is_backward && !row->nodes[BACKWARD] && row->nodes[FORWARD]))
        row = row_new(l, ROW_SPAN, n, NULL);
    row->nodes[n->is_update ? UPDATE : n->is_backward ? BACKWARD : FORWARD]++;
    row->last = n;
}

/* Makes the row of a node that is an event, or adds the node to a span. */
static void note_event(streams *l, const weft_node *n) {
    const weft_variable *updated = updated_bucket(n);
    bool waits = n->op == &weft_op_wait;
    if (waits || node_starts_collective(n)) {
        stream_move *move = move_of(l, waits ? n->in[0]->node : n);
        if (waits && move) move->wait_row = l->n_rows;
        row_new(l, waits ? ROW_WAIT : ROW_START, n, move ? move->bucket : NULL)->move = move;
    } else if (updated) {
        row_new(l, ROW_UPDATE, n, updated);
    } else if (n->op == &weft_op_bucket && !l->p->n_collectives) {
        row_new(l, ROW_READY, n, n->variable);
    } else {
        extend_span(l, n);
    }
}

/* By variable index: is the bucket in flight from run to run, and has this program read it yet? */
typedef struct in_flight {
    bool *is_in_flight, *is_read;
} in_flight;

/* Adds a row for each bucket in flight that `n` is the first to read; true if it added one. */
static bool note_reads(streams *l, const in_flight *c, const weft_node *n) {
    bool any = false;
    for (int i = 0; i < n->n_in && !(n->op->flags & OP_COMMUNICATES); i++) {
        const weft_variable *b = bucket_of(n->in[i]);
        if (!b || !c->is_in_flight[b->index] || c->is_read[b->index]) continue;
        c->is_read[b->index] = true;
        if (updated_bucket(n)) continue; /* the row of the update shows it */
        row_new(l, ROW_READ, n, b);
        any = true;
    }
    return any;
}

/* Reads one program. Every node makes at most one row, or one per operand; that bounds the memory. */
static void read_program(streams *l, const program *p, const in_flight *c) {
    size_t room = 2;
    const weft_model *m = p->plan->model;
    for (const weft_node *n = p->graph->first; n; n = n->next) room += 1 + (size_t)n->n_in;
    l->p = p;
    l->rows = tool_new(room, sizeof *l->rows);
    l->moves = tool_new((size_t)p->n_collectives + 1, sizeof *l->moves);
    memset(c->is_read, 0, (size_t)m->n_variables);
    for (const weft_node *n = p->graph->first; n; n = n->next)
        if (node_starts_collective(n) && l->n_moves < p->n_collectives) note_move(l, m, n);
    bool is_over = false;
    for (const weft_node *n = p->graph->first; n; n = n->next) {
        if (node_is_silent(n)) continue;
        if (n->order >= p->deferred && !is_over) row_new(l, ROW_END, n, NULL);
        is_over = n->order >= p->deferred;
        if (!note_reads(l, c, n)) note_event(l, n);
    }
}

int stream_first_read(const streams *in, const weft_variable *bucket) {
    for (int i = 0; i < in->n_rows; i++)
        if (in->rows[i].bucket == bucket &&
            (in->rows[i].kind == ROW_READ ||
             (in->rows[i].kind == ROW_UPDATE && reads_bucket(in->rows[i].node, bucket))))
            return i;
    return -1;
}

const stream_move *stream_in_flight(const stream_list *l, const weft_variable *bucket, const streams **of) {
    const stream_move *found = NULL;
    for (int i = 0; i < l->n; i++)
        for (int k = 0; k < l->v[i].n_moves; k++) {
            const stream_move *m = &l->v[i].moves[k];
            if (!m->is_in_flight || m->bucket != bucket || (found && !m->is_return)) continue;
            if (of) *of = &l->v[i];
            found = m;
        }
    return found;
}

/* ---- all of them ---- */

static bool is_shown(const program *p) {
    return program_ends_step(p) || p->n_collectives;
}

/* Marks the buckets that a deferred part updates, and those whose collective no node of its program waits
 * for. */
static void mark_in_flight(const weft_plan *plan, const in_flight *c) {
    for (int i = 0; i < plan->n_programs; i++)
        for (const weft_node *n = plan->programs[i].graph->first; n; n = n->next) {
            const weft_variable *b = n->order >= plan->programs[i].deferred ? updated_bucket(n) : NULL;
            if (node_starts_collective(n) && !wait_for(n))
                b = variable_find(plan->model, ((const collective_attrs *)n->attrs)->path);
            if (b && b->kind == VARIABLE_BUCKET) c->is_in_flight[b->index] = true;
        }
}

/* Buckets in flight are marked over all programs first, as one program reads what another leaves. */
stream_list stream_list_of(const weft_plan *plan) {
    size_t variables = (size_t)plan->model->n_variables + 1;
    const in_flight c = {tool_new(variables, sizeof(bool)), tool_new(variables, sizeof(bool))};
    stream_list l = {.plan = plan, .v = tool_new((size_t)plan->n_programs + 1, sizeof *l.v)};
    mark_in_flight(plan, &c);
    for (int i = 0; i < plan->n_programs; i++)
        if (is_shown(&plan->programs[i])) read_program(&l.v[l.n++], &plan->programs[i], &c);
    return l;
}

/* ---- in words ---- */

void stream_node_text(text *t, const weft_node *n) {
    text_add(t, "%s", n->op->name);
    if (n->n_out) text_add(t, " %%%d", n->out[0].id);
    if (*n->scope) text_add(t, ", %s", n->scope);
}

const char *const stream_phases[] = {"forward", "backward", "update"};

int stream_phase_of(const stream_row *row) {
    const int *n = row->nodes;
    return n[BACKWARD] > n[FORWARD] ? BACKWARD : n[UPDATE] > n[FORWARD] ? UPDATE : FORWARD;
}

/* "12 forward, 3 backward" */
static void span_text(text *t, const stream_row *row) {
    const char *gap = "";
    for (int i = 0; i < STREAM_PHASES; i++) {
        if (!row->nodes[i]) continue;
        text_add(t, "%s%d %s", gap, row->nodes[i], stream_phases[i]);
        gap = ", ";
    }
}

/* See the row kinds in streams.h. */
void stream_row_text(text *t, const stream_row *row) {
    const stream_move *move = row->move;
    switch (row->kind) {
    case ROW_SPAN:
        span_text(t, row);
        break;
    case ROW_READY:
        text_add(t, "%s complete", row->bucket->path);
        break;
    case ROW_START:
        text_add(t, "start %s %s", move->start->op->name, move->name);
        break;
    case ROW_WAIT:
        text_add(t, "wait %s", move ? move->name : "");
        break;
    case ROW_UPDATE:
        text_add(t, "%s %s", row->node->op->name, row->bucket->path);
        break;
    case ROW_READ:
        text_add(t, "first read of %s: ", row->bucket->path);
        stream_node_text(t, row->node);
        break;
    case ROW_END:
        text_add(t, "end of the run; the rest is deferred to later runs");
        break;
    }
}

void stream_phase_text(text *t, const program *p) {
    int of = p->accumulate;
    if (p->phase == PHASE_FIRST && of > 1) text_add(t, ", the first of %d runs", of);
    if (p->phase == PHASE_ADD) text_add(t, ", a middle one of %d runs", of);
    if (p->phase == PHASE_LAST) text_add(t, ", the last of %d runs", of);
    if (p->phase == PHASE_UPDATE) text_add(t, ", the update alone");
    if (p->phase == PHASE_LOSS) text_add(t, ", the loss alone");
}
