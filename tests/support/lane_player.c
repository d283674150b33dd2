/* lane_player.c - see lane_player.h. */
#include "support/lane_player.h"

#include "ops/collective.h"

#include <stdio.h>

enum { MOST = 4096 };

typedef struct bytes {
    const void *space; /* a variable, or NULL: the arena, which all programs share */
    int64_t begin, end;
} bytes;

typedef struct flight {
    const weft_node *start;
    const weft_variable *segment; /* that a gather brings */
    bytes buffer, scratch;
} flight;

typedef struct player {
    flight list[MOST]; /* first in, first out */
    int count, conflicts;
    char *what;
} player;

/* ---- where things lie ---- */

static bytes bytes_of(const weft_value *v) {
    const weft_value *root = value_root(v);
    const weft_variable *s = root->variable;
    int64_t at = value_offset(v) + (s ? 0 : root->arena_offset);
    if (root->node->op == &weft_op_input) return (bytes){root, 0, 0}; /* the caller's */
    if (s && s->segment && (s->kind == VARIABLE_PARAMETER || s->kind == VARIABLE_SHARD)) {
        at += s->offset * 4;
        s = s->segment;
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

/* The lane has come past the first n. */
static void finish(player *p, int n) {
    for (int i = n; i < p->count; i++) p->list[i - n] = p->list[i];
    p->count -= n;
}

/* What a session waits for before a node: gathers of the sharded segments that its operands lie in. */
static void arrive(player *p, const weft_value *v) {
    const void *space = v ? bytes_of(v).space : NULL;
    for (int i = p->count - 1; space && i >= 0; i--)
        if (p->list[i].segment == space) {
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
    if (p->count == MOST) finish(p, 1); /* the lane takes no more */
    flight *f = &p->list[p->count++];
    *f = (flight){.start = n, .buffer = bytes_of(&n->out[0]), .scratch = {n, 0, 0}};
    if (n->op == &weft_op_all_gather) f->segment = n->variable;
    if (n->n_out > 1) f->scratch = bytes_of(&n->out[1]);
}

/* ---- playing ---- */

static void note(player *p, const weft_node *n, const weft_node *start) {
    char a[200], b[200];
    if (!p->conflicts++)
        snprintf(p->what, 200, "%.60s of %s beside %.60s", node_show(n, a), n->graph->name,
                 node_show(start, b));
}

static void play_node(player *p, const weft_node *n) {
    if (node_is_silent(n)) return;
    for (int i = 0; i < n->n_in; i++) arrive(p, n->in[i]);
    if (n->op == &weft_op_wait) wait_for(p, n->in[0]->node);
    if (node_starts_collective(n)) {
        launch(p, n); /* the lane orders it behind the others */
        return;
    }
    for (int i = 0; i < p->count; i++)
        if (uses(n, p->list[i].buffer) || uses(n, p->list[i].scratch)) note(p, n, p->list[i].start);
}

int lane_conflicts(const weft_plan *plan, test_random *r, int runs, char what[200]) {
    static player p;
    p = (player){.what = what};
    for (int i = 0; i < runs; i++) {
        const program *now = &plan->programs[random_bits(r) % (uint64_t)plan->n_programs];
        for (const weft_node *n = now->graph->first; n; n = n->next) play_node(&p, n);
        if (random_bits(r) % 16 == 0) finish(&p, p.count); /* weft_sync */
    }
    return p.conflicts;
}
