/* schedule.c - the pass that pins the compute order: deterministic, and with a low peak of live bytes.
 *
 * Two candidates: the order of the list (forward, backward, updates), and a greedy one that among all ready nodes
 * runs one that shrinks what is live as soon as there is one (an optimizer update frees its bucket), else the
 * first in list order. The one with the lower peak stays; the list order wins ties. In a world of several ranks
 * buckets and their collectives stand right behind their last gradient, waits and updates at the end: what lies
 * between hides the collective. But for ZeRO 2: there the wait for a bucket, and the copy of this rank's range out of it,
 * stand behind the start of the sum after next, so that two buckets live at a time. `serial` puts each wait right
 * behind its start. Else what reads no parameters of other graphs' comes first: theirs may still be on their way (tails.c).
 */
#include "runtime/program.h"

#include "ops/collective.h"

#include <string.h>

extern const weft_op weft_op_reorder;

bool node_is_silent(const weft_node *n) {
    if (n->op == &weft_op_input) return true;
    if (n->op->flags & OP_IS_VARIABLE) return !(n->op->flags & OP_WRITES);
    return n->op->flags & OP_VIEW && n->out[0].base;
}

bool node_starts_collective(const weft_node *n) {
    return n->op->flags & OP_COMMUNICATES && n->op != &weft_op_wait;
}

const weft_value *value_root(const weft_value *v) {
    while (v->base) v = v->base;
    return v;
}

const weft_variable *value_home(const weft_value *v) {
    const weft_variable *root = value_root(v)->variable;
    if (!root || root->kind == VARIABLE_DERIVED) return NULL;
    return variable_is_part(root) ? root->segment : root;
}

int64_t value_offset(const weft_value *v) {
    int64_t bytes = 0;
    for (; v->base; v = v->base) bytes += v->base_offset * (int64_t)dtype_bytes(v->type.dtype);
    return bytes;
}

size_t value_span(const weft_value *v) {
    int64_t last = 0;
    for (int i = 0; i < v->type.ndim; i++) last += (v->type.shape[i] - 1) * v->stride[i];
    return (size_t)(last + 1) * dtype_bytes(v->type.dtype);
}

/* ---- live bytes along an order ---- */

static bool takes_memory(const weft_value *v) {
    return !v->base && !v->variable && v->node->op != &weft_op_input;
}

/* value->mark of a root: reads not yet done. */
static void count_readers(weft_graph *g) {
    for (weft_node *n = g->first; n; n = n->next)
        for (int k = 0; k < n->n_out; k++) n->out[k].mark = 0;
    for (weft_node *n = g->first; n; n = n->next)
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i]) ((weft_value *)value_root(n->in[i]))->mark++;
    for (graph_output *o = g->outputs; o; o = o->next) ((weft_value *)value_root(o->value))->mark++;
}

static int64_t bytes_made(const weft_node *n) {
    int64_t bytes = 0;
    for (int k = 0; k < n->n_out; k++)
        if (takes_memory(&n->out[k])) bytes += (int64_t)value_span(&n->out[k]);
    return bytes;
}

/* Bytes that die when n runs now. An operand named twice dies when both reads are its last. */
static int64_t bytes_freed(const weft_node *n) {
    int64_t bytes = 0;
    for (int i = 0; i < n->n_in; i++) {
        if (!n->in[i]) continue;
        const weft_value *root = value_root(n->in[i]);
        int64_t reads = 0;
        bool counted = false;
        for (int k = 0; k < n->n_in; k++)
            if (n->in[k] && value_root(n->in[k]) == root) {
                reads++;
                counted |= k < i;
            }
        if (!counted && takes_memory(root) && root->mark == reads) bytes += (int64_t)value_span(root);
    }
    return bytes;
}

static void mark_run(weft_node *n) {
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i]) ((weft_value *)value_root(n->in[i]))->mark--;
}

static int64_t peak_of(weft_graph *g, weft_node **order, int count) {
    int64_t live = 0, peak = 0;
    count_readers(g);
    for (int i = 0; i < count; i++) {
        int64_t freed = bytes_freed(order[i]);
        live += bytes_made(order[i]);
        if (live > peak) peak = live;
        live -= freed;
        mark_run(order[i]);
    }
    return peak;
}

/* ---- the greedy order ---- */

static bool is_ready(const weft_node *n, const bool *done) {
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && !done[n->in[i]->node->order]) return false;
    for (int i = 0; i < n->n_after; i++)
        if (!done[n->after[i]->order]) return false;
    return true;
}

/* Nodes that wait long for a late operand stay unready; the scan looks at a window of the list only, so that a
 * graph of many thousand nodes is ordered in linear time. */
static int pick(weft_node **list, int count, int first, const bool *done) {
    enum { WINDOW = 64 };
    int chosen = -1;
    for (int i = first, seen = 0; i < count && (seen < WINDOW || chosen < 0); i++) {
        if (done[i]) continue;
        seen++;
        if (!is_ready(list[i], done)) continue;
        if (chosen < 0) chosen = i;
        if (bytes_made(list[i]) < bytes_freed(list[i])) return i;
    }
    return chosen;
}

static void greedy(weft_graph *g, weft_node **list, int count, bool *done, weft_node **order) {
    int first = 0;
    count_readers(g);
    for (int i = 0; i < count; i++) {
        while (done[first]) first++;
        int at = pick(list, count, first, done);
        order[i] = list[at];
        done[at] = true;
        mark_run(list[at]);
    }
}

enum { SPACING = 1 << 24 }; /* between the marks of neighbours in the list, for nodes moved in between */

/* What the ranks of a world must do in one order, whatever each of them updates, so that it cannot move towards what
 * it reads: waits, and all collectives but those that sum buckets (a norm's reads this rank's own ranges). */
static bool must_stay(const weft_node *n) {
    bool sums_bucket = n->op->writes && n->variable && n->variable->kind == VARIABLE_SEGMENT;
    return n->op == &weft_op_wait || (node_starts_collective(n) && !sums_bucket);
}

/* The update of a segment becomes ready long before the end of the list: each update node moves up to right behind
 * the last of what it waits for, and behind those moved there before it. The list stays sorted by mark. */
static void hoist(weft_graph *g) {
    int64_t moved = 0;
    for (weft_node *n = g->first, *next; n; n = next) {
        next = n->next;
        if (!n->is_update || must_stay(n)) continue;
        weft_node *after = NULL;
        int64_t latest = -1;
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i] && n->in[i]->node->mark > latest) latest = (after = n->in[i]->node)->mark;
        for (int i = 0; i < n->n_after; i++)
            if (n->after[i]->mark > latest) latest = (after = n->after[i])->mark;
        /* reads of accumulated gradients wait for nothing; left behind they would hold back the sums over ranks */
        if (!after && n->variable && n->variable->kind == VARIABLE_GRADIENT)
            latest = (after = g->first)->mark;
        if (!after) continue;
        n->mark = latest / SPACING * SPACING + ++moved;
        while (after->next && after->next->mark < n->mark) after = after->next;
        if (after != n && after != n->prev) node_move_after(n, after);
    }
}

/* ---- waits that stand early ---- */

/* A wait, with the views of its result and their copies. */
static void move_wait(weft_node *wait, weft_node *place) {
    weft_node *last = wait, *next = wait->next;
    node_move_after(wait, place);
    for (weft_node *n = next; n; n = next) {
        next = n->next;
        bool looks = (n->op->flags & OP_VIEW || n->op == &weft_op_reorder) && n->n_in == 1;
        if (!looks || (n->in[0]->node != wait && n->in[0]->node != last)) continue;
        node_move_after(n, last);
        last = n;
    }
}

static weft_node *wait_for(const weft_node *start) {
    for (weft_node *n = start->next; n; n = n->next)
        if (n->op == &weft_op_wait && n->in[0]->node == start) return n;
    return NULL;
}

static bool is_copied_out(const program *p, const weft_node *start) {
    return start->op == &weft_op_reduce_scatter && p->phase == PHASE_WHOLE &&
           p->plan->subgraphs[start->variable->subgraph].ddp.zero == 2;
}

static void place_waits(program *p) {
    weft_node *behind[2] = {0}; /* waits for the two last sums */
    for (weft_node *n = p->graph->first, *next; n; n = next) {
        next = n->next;
        weft_node *wait = node_starts_collective(n) ? wait_for(n) : NULL;
        if (wait && p->plan->options.serial) move_wait(wait, n);
        if (!wait || p->plan->options.serial || !is_copied_out(p, n)) continue;
        if (behind[0]) move_wait(behind[0], n);
        behind[0] = behind[1];
        behind[1] = wait;
    }
}

/* ---- what an earlier run may have left under way ---- */

/* By index of a parameter, whether this graph trains it; NULL when memory is out. */
static bool *trained_here(const program *p) {
    const weft_model *m = p->plan->model;
    bool *own = mem_new_array(&m->env, (size_t)m->n_variables, sizeof *own);
    for (int i = 0; own && i < p->plan->n_trainings; i++) {
        const training *t = &p->plan->trainings[i];
        if (strcmp(t->name, p->name)) continue;
        for (const weft_variable *v = m->variables; v; v = v->next)
            if (v->kind == VARIABLE_PARAMETER) own[v->index] |= t->trains[v->index];
    }
    return own;
}

/* Another graph of the plan trains it (so that it lies in a segment), and this one does not. */
static bool is_foreign(const weft_variable *v, const bool *own) {
    return v && v->kind == VARIABLE_PARAMETER && v->segment && !own[v->index];
}

/* Marked nodes stay behind those that are not. */
static bool follows_marked(const weft_node *n) {
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && n->in[i]->node->mark) return true;
    for (int i = 0; i < n->n_after; i++)
        if (n->after[i]->mark) return true;
    return false;
}

/* Nodes that depend on no foreign parameter go first, else in the order of the list: of a GAN's discriminator the
 * forward and the backward of real images. A program that talks to other ranks on the way waits for all there. */
static bool foreign_last(const program *p) {
    const weft_model *m = p->plan->model;
    weft_node *last = NULL;
    for (const weft_node *n = p->graph->first; n; n = n->next)
        if (node_starts_collective(n) && !n->is_update) return true;
    bool *own = trained_here(p);
    if (!own) return model_fail(p->graph->model, p->graph, WEFT_MEMORY, "schedule: memory could not be had");
    for (weft_node *n = p->graph->first, *next; n; n = next) {
        next = n->next;
        n->mark = n->is_update || follows_marked(n);
        for (int i = 0; i < n->n_in; i++)
            n->mark |= n->in[i] && is_foreign(value_root(n->in[i])->variable, own);
        if (n->mark) continue;
        if (n->prev != last) node_move_after(n, last);
        last = n;
    }
    mem_free(&m->env, own, (size_t)m->n_variables * sizeof *own);
    return true;
}

/* Numbers that depend on no wait, the step and its rate, go in front of the waits that stand at the list's end. */
static void numbers_first(weft_graph *g) {
    weft_node *first = NULL;
    for (weft_node *n = g->last; n && n->is_update; n = n->prev)
        if (n->op == &weft_op_wait) first = n;
    for (weft_node *n = g->first; n && n != first; n = n->next) n->mark = 0;
    for (weft_node *n = first, *next; n; n = next) {
        next = n->next;
        n->mark = must_stay(n) || follows_marked(n);
        if (!n->mark) node_move_after(n, first->prev);
    }
}

/* The list becomes the schedule; collectives are numbered as they stand in it. */
static bool pin(weft_graph *g, weft_node **order, int count) {
    int64_t collectives = 0;
    g->first = g->last = NULL;
    for (int i = 0; i < count; i++) {
        weft_node *n = order[i];
        n->order = i;
        if (node_starts_collective(n)) ((collective_attrs *)n->attrs)->order = collectives++;
        n->prev = g->last;
        n->next = NULL;
        if (g->last)
            g->last->next = n;
        else
            g->first = n;
        g->last = n;
    }
    return true;
}

/* A node with what it is made from, nodes of one operand each down to a variable or an input; behind *place. */
static void move_chain(weft_node *n, weft_node **place) {
    weft_node *chain[8];
    int count = 0;
    for (weft_node *m = n; m && count < 8; m = m->n_in ? m->in[0]->node : NULL) chain[count++] = m;
    if (chain[count - 1]->n_in) return;
    while (count--) {
        if (chain[count]->mark < 0) continue; /* has moved */
        node_move_after(chain[count], *place);
        chain[count]->mark = -1;
        *place = chain[count];
    }
}

static void move_kind(weft_graph *g, launch_kind wanted, weft_node **place) {
    launch_kind kind;
    for (weft_node *n = g->first, *next; n; n = next) {
        next = n->next;
        if (n->mark >= 0 && launch_kind_of(n, &kind) && kind == wanted) move_chain(n, place);
    }
}

/* On a GPU inputs are copied first and derived values made next, in a launch each. Not where parameters come from other
 * ranks (ZeRO): there each derived value waits for its own gather. */
static void gather_launches(program *p) {
    weft_node *place = NULL;
    bool is_sharded = false;
    if (p->plan->options.device == WEFT_DEVICE_CPU) return;
    for (weft_node *n = p->graph->first; n; n = n->next) n->mark = 0;
    for (const weft_variable *v = p->graph->model->variables; v; v = v->next) is_sharded |= v->shards != NULL;
    move_kind(p->graph, LAUNCH_UPLOAD, &place);
    if (!is_sharded) move_kind(p->graph, LAUNCH_REFRESH, &place);
}

bool pass_schedule(program *p) {
    weft_graph *g = p->graph;
    arena *a = &g->model->arena;
    int count = 0, room = graph_node_count(g);
    bool overlaps = p->n_collectives && !p->plan->options.serial;
    gather_launches(p);
    if (overlaps && !foreign_last(p)) return false;
    for (weft_node *n = g->first; n; n = n->next) n->mark = SPACING * (int64_t)count++;
    weft_node **plain = arena_new_array(a, (size_t)room + 1, sizeof *plain);
    weft_node **list = arena_new_array(a, (size_t)room + 1, sizeof *list);
    weft_node **order = arena_new_array(a, (size_t)room + 1, sizeof *order);
    bool *done = arena_new_array(a, (size_t)room + 1, sizeof *done);
    if (!plain || !list || !order || !done)
        return model_fail(g->model, g, WEFT_MEMORY, "schedule: memory could not be had");
    count = 0;
    for (weft_node *n = g->first; n; n = n->next) plain[count++] = n;
    hoist(g);
    place_waits(p);
    if (overlaps) lane_order(p);
    if (overlaps) numbers_first(g);
    count = 0;
    for (weft_node *n = g->first; n; n = n->next) {
        n->order = count;
        list[count++] = n;
    }
    greedy(g, list, count, done, order);
    if (p->n_collectives) return pin(g, list, count); /* sums begin early and are awaited late */
    bool better = peak_of(g, order, count) < peak_of(g, plain, count);
    return pin(g, better ? order : plain, count);
}
