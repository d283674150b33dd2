/* stream_player.c - see stream_player.h. */
#include "support/stream_player.h"

#include "ops/structure/collective.h"
#include "runtime/plan/value.h"

#include <stdio.h>

enum { MOST = 4096 };

typedef struct bytes {
    const void *space; /* a variable, or NULL: the arena, which all programs share */
    int64_t begin, end;
} bytes;

typedef struct flight {
    const weft_node *start;
    const weft_variable *bucket; /* that a gather brings */
    bytes buffer, scratch;
} flight;

typedef struct player {
    flight list[MOST]; /* first in, first out */
    int count, conflicts, n_deferred;
    const program *of;         /* whose deferred part is pending */
    const weft_node *deferred; /* from this node on; NULL: none is */
    char *what;
} player;

/* ---- where values are ---- */

static bytes bytes_of(const weft_value *v) {
    const weft_value *root = value_root(v);
    const weft_variable *s = root->variable;
    int64_t at = value_offset(v) + (s ? 0 : root->arena_offset);
    if (root->node->op == &weft_op_input) return (bytes){root, 0, 0}; /* the caller's */
    if (s && s->bucket && (s->kind == VARIABLE_PARAMETER || s->kind == VARIABLE_SHARD)) {
        at += s->offset * 4;
        s = s->bucket;
    }
    return (bytes){s, at, at + (int64_t)value_span(v)};
}

static bool meet(bytes a, bytes b) {
    return a.space == b.space && a.begin < b.end && b.begin < a.end;
}

static bool uses(const weft_node *n, bytes b) {
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && meet(bytes_of(n->in[i]), b)) return true;
    for (int k = 0; k < n->n_out; k++)
        if (meet(bytes_of(&n->out[k]), b)) return true;
    int64_t work = n->workspace_offset;
    return n->workspace_bytes && meet((bytes){NULL, work, work + (int64_t)n->workspace_bytes}, b);
}

/* ---- events ---- */

/* The first n collectives are finished. */
static void finish(player *p, int n) {
    for (int i = n; i < p->count; i++) p->list[i - n] = p->list[i];
    p->count -= n;
}

/* What a session waits for before a node: the gathers of the sharded buckets that hold its operands. */
static void arrive(player *p, const weft_value *v) {
    const void *space = v ? bytes_of(v).space : NULL;
    for (int i = p->count - 1; space && i >= 0; i--)
        if (p->list[i].bucket == space) {
            finish(p, i + 1);
            return;
        }
}

static void wait_for(player *p, const weft_node *start) {
    for (int i = p->count - 1; i >= 0; i--)
        if (p->list[i].start == start) {
            finish(p, i + 1);
            return;
        }
}

static void launch(player *p, const weft_node *n) {
    if (p->count == MOST) finish(p, 1); /* the stream takes no more */
    flight *f = &p->list[p->count++];
    *f = (flight){.start = n, .buffer = bytes_of(&n->out[0]), .scratch = {n, 0, 0}};
    if (n->op == &weft_op_all_gather) f->bucket = n->variable;
    if (n->n_out > 1) f->scratch = bytes_of(&n->out[1]);
}

/* ---- playing ---- */

static void note(player *p, const weft_node *n, const weft_node *start) {
    char a[200], b[200];
    if (!p->conflicts++)
        snprintf(p->what, 200, "%.60s of %s beside %.60s", node_show(n, a), n->graph->name,
                 node_show(start, b));
}

static void play_step(player *p, const weft_node *n) {
    for (int i = 0; i < n->n_in; i++) arrive(p, n->in[i]);
    if (n->op == &weft_op_wait) wait_for(p, n->in[0]->node);
    if (node_starts_collective(n)) {
        launch(p, n); /* the stream orders it after the others */
        return;
    }
    for (int i = 0; i < p->count; i++)
        if (uses(n, p->list[i].buffer) || uses(n, p->list[i].scratch)) note(p, n, p->list[i].start);
}

/* ---- deferred parts ---- */

static void play_deferred(player *p, const weft_node *last) {
    for (const weft_node *n = p->deferred, *end = last ? last->next : NULL; n != end; n = n->next)
        if (!node_is_silent(n)) play_step(p, n);
    p->deferred = last ? last->next : NULL;
}

static const void *space_of(const weft_value *v) {
    return v ? bytes_of(v).space : NULL;
}

static bool names(const weft_node *n, const void *space) {
    for (int i = 0; i < n->n_in; i++)
        if (space_of(n->in[i]) == space) return true;
    for (int k = 0; k < n->n_out; k++)
        if (space_of(&n->out[k]) == space) return true;
    return false;
}

/* What a session runs of a deferred part before a node: all of it before a collective or an access to the
 * in-flight region; otherwise up to the last node that touches a variable which this node touches too. */
static void run_deferred_for(player *p, const weft_node *n) {
    const weft_node *last = NULL;
    bytes region = {NULL, 0, (int64_t)p->of->plan->in_flight_bytes};
    if (node_starts_collective(n) || uses(n, region)) {
        play_deferred(p, NULL);
        return;
    }
    for (const weft_node *t = p->deferred; t; t = t->next)
        for (int i = 0; i < n->n_in + n->n_out && !node_is_silent(t); i++) {
            const void *space = space_of(i < n->n_in ? n->in[i] : &n->out[i - n->n_in]);
            if (space && names(t, space)) last = t;
        }
    if (last) play_deferred(p, last);
}

static bool changes(const weft_node *n, int i) {
    return i >= n->n_in || (i < 32 && n->op->writes >> i & 1) || n->op->flags & OP_COMMUNICATES;
}

static bool meets(const weft_node *a, const weft_node *b) {
    for (int i = 0; i < a->n_in + a->n_out; i++)
        for (int k = 0; k < b->n_in + b->n_out; k++) {
            const weft_value *v = i < a->n_in ? a->in[i] : &a->out[i - a->n_in];
            const weft_value *w = k < b->n_in ? b->in[k] : &b->out[k - b->n_in];
            if (v && w && (changes(a, i) || changes(b, k)) && meet(bytes_of(v), bytes_of(w))) return true;
        }
    int64_t at = b->workspace_offset;
    return b->workspace_bytes && uses(a, (bytes){NULL, at, at + (int64_t)b->workspace_bytes});
}

static void play_node(player *p, const weft_node *n) {
    if (node_is_silent(n)) return;
    if (p->deferred) run_deferred_for(p, n);
    p->n_deferred += p->deferred != NULL;
    for (const weft_node *t = p->deferred; t; t = t->next)
        if (!node_is_silent(t) && (meets(n, t) || meets(t, n))) note(p, n, t);
    play_step(p, n);
}

static void play_program(player *p, const program *now) {
    const weft_node *n = now->graph->first;
    for (; n && n->order < now->deferred; n = n->next) play_node(p, n);
    if (n && p->deferred) note(p, n, p->deferred); /* two at once */
    if (!n) return;
    p->deferred = n;
    p->of = now;
}

int stream_conflicts(const weft_plan *plan, test_random *r, int runs, int *deferred, char what[200]) {
    static player p;
    p = (player){.what = what};
    for (int i = 0; i < runs; i++) {
        const program *now = &plan->programs[random_bits(r) % (uint64_t)plan->n_programs];
        play_program(&p, now);
        if (random_bits(r) % 16) continue;
        play_deferred(&p, NULL); /* weft_sync */
        finish(&p, p.count);
    }
    if (deferred) *deferred += p.n_deferred;
    return p.conflicts;
}
